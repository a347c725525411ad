/* The client's side: client/cache.c and client/lease.c, as a process with threads. */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "client/cache.h"
#include "client/fork.h"
#include "client/transport_private.h"
#include "litmus.h"

static const char *const names[LITMUS_NAMES] = {"a"};

struct client {
  struct litmus *litmus;
  struct dlc_client client; /* connected to nothing */
  struct dlc__pages *pages;
};

struct reader {
  struct client *client;
  struct litmus_mail *mail;
  uint64_t n_gets;
};

/* ---- what would go over the socket ---- */

static void take_answer(struct client *client, const struct litmus_mail *mail)
{
  struct dlc__transport *transport = client->client.transport;

  (void)pthread_mutex_lock(&transport->lock);
  if (!dlc__pages_take_answer(client->pages, mail->cell, mail->version))
    abort();
  (void)pthread_mutex_unlock(&transport->lock);
}

static struct dlc__hold *get_from_daemon(struct reader *reader, uint32_t name)
{
  const int64_t shape = LITMUS_WORDS;
  const struct msg_spec spec = {.code = 1, .bits = 64, .lanes = 1, .ndim = 1, .shape = &shape};
  struct client *client = reader->client;
  struct litmus_mail *mail = reader->mail;
  struct dlc__hold *hold = dlc__hold_new(&client->client, &spec);

  if (!hold)
    abort();
  mail->name = name;
  atomic_store_explicit(&mail->state, LITMUS_ASKED, memory_order_release);
  while (atomic_load_explicit(&mail->state, memory_order_acquire) != LITMUS_GRANTED)
    (void)sched_yield();
  atomic_store_explicit(&mail->state, LITMUS_QUIET, memory_order_relaxed);
  take_answer(client, mail);
  hold->data = client->litmus->places[mail->place].words;
  hold->lease = dlc__lease_of(client->pages, mail->cell, mail->version);
  dlc__cache_add(client->client.cache, hold, names[name]);
  return hold;
}

/* ---- reading ---- */

/* As long as it is held its bytes are what they were. Some hold for longer, and let
 * the others go first. */
static bool is_intact(const struct dlc__hold *hold, bool for_long)
{
  const _Atomic uint64_t *words = (const _Atomic uint64_t *)hold->data;
  uint64_t version = hold->lease.version;

  for (int i = 0; i < (for_long ? 400 : 50); i++) {
    if (for_long && i == 200)
      (void)sched_yield();
    if (atomic_load_explicit(&words[i % LITMUS_WORDS], memory_order_relaxed) != version)
      return false;
  }
  return true;
}

static void *read_all_the_time(void *context)
{
  static const struct dlc__wanted any = {0};
  struct reader *reader = (struct reader *)context;
  struct litmus *litmus = reader->client->litmus;

  for (; !atomic_load_explicit(&litmus->stop, memory_order_relaxed); reader->n_gets++) {
    uint32_t name = reader->n_gets / 16 % LITMUS_NAMES;
    struct dlc__hold *hold = dlc__cache_get(reader->client->client.cache, names[name], &any);

    if (!hold)
      hold = get_from_daemon(reader, name);
    if (!is_intact(hold, reader->n_gets % 8 == 0))
      atomic_fetch_add(&litmus->n_poisoned, 1);
    dlc__hold_unref(hold);
  }
  return NULL;
}

/* ---- a run ---- */

static void ignore_orphan(void *context, struct dlc__reply *reply)
{
}

static void ignore_dropped(void *context, uint64_t epoch, const uint64_t *segments, size_t n)
{
}

static void ignore_retired(void *context, struct dlc__pages *pages)
{
}

static void client_init(struct client *client, struct litmus *litmus)
{
  static const struct dlc__transport_owner owner = {
      .orphan = ignore_orphan, .dropped = ignore_dropped, .retired = ignore_retired};

  client->litmus = litmus;
  client->client.refs = 1;
  client->client.fork_generation = dlc__fork_generation();
  client->client.cache = dlc__cache_new();
  client->pages = dlc__pages_new_consume(&litmus->grants, &litmus->holds);
  if (!client->client.cache || !client->pages ||
      dlc__transport_new(&client->client.transport, "/nonexistent", "litmus", &owner, NULL) < 0)
    abort();
}

int litmus_run_client(struct litmus *litmus)
{
  struct client client = {.litmus = litmus};
  struct reader readers[LITMUS_THREADS];
  pthread_t threads[LITMUS_THREADS];

  client_init(&client, litmus);
  for (int i = 0; i < LITMUS_THREADS; i++) {
    readers[i] = (struct reader){.client = &client, .mail = &litmus->mails[i]};
    if (pthread_create(&threads[i], NULL, read_all_the_time, &readers[i]) != 0)
      abort();
  }
  for (int i = 0; i < LITMUS_THREADS; i++) {
    (void)pthread_join(threads[i], NULL);
    atomic_fetch_add(&litmus->n_gets, readers[i].n_gets);
  }
  dlc__cache_close(client.client.cache);
  atomic_store(&litmus->client_is_done, true);
  return 0;
}
