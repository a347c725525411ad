/* The daemon's side: core/lease.c, over memory that is poisoned when it is free. */

#include <assert.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "core/lease.h"
#include "litmus.h"

/* So long without a replacement: leases were lost that nobody will give back. */
#define STUCK_TURNS 20000000

struct daemon {
  struct litmus *litmus;
  struct quota *quota;
  struct lease_table table;
  struct block block; /* nothing of it matters here */
  struct tensor tensors[LITMUS_PLACES];
  struct tensor *newest[LITMUS_NAMES];
  uint64_t version;
  uint64_t random;
};

static void place_write(struct daemon *daemon, const struct tensor *tensor, uint64_t word)
{
  struct litmus_place *place = &daemon->litmus->places[tensor - daemon->tensors];

  for (int i = 0; i < LITMUS_WORDS; i++)
    atomic_store_explicit(&place->words[i], word, memory_order_relaxed);
}

static bool tensor_is_free(const struct tensor *tensor)
{
  return tensor->state == TENSOR_STAGED;
}

/* ---- replacing ---- */

static void free_if_unused(struct daemon *daemon, struct tensor *tensor)
{
  if (tensor->state != TENSOR_RETIRED || tensor->n_leases > 0)
    return;
  place_write(daemon, tensor, LITMUS_POISON);
  tensor->state = TENSOR_STAGED;
}

static struct tensor *find_free(struct daemon *daemon)
{
  for (int i = 0; i < LITMUS_PLACES; i++) {
    if (tensor_is_free(&daemon->tensors[i]))
      return &daemon->tensors[i];
  }
  return NULL;
}

static void replace(struct daemon *daemon, size_t name, struct tensor *tensor)
{
  struct tensor *old = daemon->newest[name];

  tensor->version = ++daemon->version;
  place_write(daemon, tensor, tensor->version);
  tensor->state = TENSOR_LIVE;
  daemon->newest[name] = tensor;
  if (!old)
    return;
  old->state = TENSOR_RETIRED;
  lease_retire(old);
  free_if_unused(daemon, old);
}

/* For want of a bell: have they let go? */
static void look_again(struct daemon *daemon)
{
  for (int i = 0; i < LITMUS_PLACES; i++) {
    struct tensor *tensor = &daemon->tensors[i];

    if (tensor->state != TENSOR_RETIRED)
      continue;
    lease_review(tensor);
    free_if_unused(daemon, tensor);
  }
}

/* ---- answering ---- */

static void answer(struct daemon *daemon)
{
  for (int i = 0; i < LITMUS_THREADS; i++) {
    struct litmus_mail *mail = &daemon->litmus->mails[i];
    struct quota_refusal refusal;
    struct tensor *tensor;
    int r;

    if (atomic_load_explicit(&mail->state, memory_order_acquire) != LITMUS_ASKED)
      continue;
    tensor = daemon->newest[mail->name];
    r = lease_grant(&daemon->table, tensor, &mail->cell, &refusal);
    assert(r == 0);
    mail->place = (uint32_t)(tensor - daemon->tensors);
    mail->version = tensor->version;
    atomic_store_explicit(&mail->state, LITMUS_GRANTED, memory_order_release);
  }
}

static uint64_t roll(struct daemon *daemon, uint64_t n)
{
  daemon->random ^= daemon->random << 13;
  daemon->random ^= daemon->random >> 7;
  daemon->random ^= daemon->random << 17;
  return daemon->random % n;
}

/* The moment at which it goes wrong, if ever: somebody has just dropped it, and is about
 * to take it again. Now and then any other moment. */
static bool is_ripe(struct daemon *daemon, const struct tensor *tensor)
{
  return tensor->n_leases > 0 &&
         (lease_count_holders(tensor) < tensor->n_leases || roll(daemon, 32) == 0);
}

static void dawdle(struct daemon *daemon)
{
  for (uint64_t i = roll(daemon, 8) ? roll(daemon, 400) : roll(daemon, 8000); i > 0; i--)
    __asm__ volatile("" ::: "memory");
}

/* Return: whether anything was replaced. */
static bool take_a_turn(struct daemon *daemon)
{
  size_t name = roll(daemon, LITMUS_NAMES);
  struct tensor *next = find_free(daemon);

  answer(daemon);
  look_again(daemon);
  if (!next || !is_ripe(daemon, daemon->newest[name]))
    return false;
  dawdle(daemon);
  replace(daemon, name, next);
  return true;
}

/* ---- a run ---- */

static int64_t now_ms(void)
{
  struct timespec now;

  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void daemon_init(struct daemon *daemon, struct litmus *litmus)
{
  const struct quota_sum limits = {
      .of = {[QUOTA_LEASES] = DLP_LEASE_CELLS, [QUOTA_HEAP] = UINT32_MAX}};
  int r = quota_new(&daemon->quota, &limits, 1);

  assert(r == 0);
  daemon->litmus = litmus;
  daemon->random = 88172645463325252u;
  lease_table_init(&daemon->table, daemon->quota, 0, 1000);
  daemon->table.pages = (struct lease_pages){&litmus->grants, &litmus->holds};
  for (int i = 0; i < LITMUS_PLACES; i++) {
    dlp_list_init(&daemon->tensors[i].leases);
    daemon->tensors[i].block = &daemon->block;
    daemon->tensors[i].state = TENSOR_STAGED;
  }
  for (size_t i = 0; i < LITMUS_NAMES; i++)
    replace(daemon, i, find_free(daemon));
}

static bool daemon_deinit(struct daemon *daemon)
{
  bool all_freed = true;

  for (size_t i = 0; i < LITMUS_NAMES; i++)
    daemon->newest[i]->state = TENSOR_RETIRED;
  look_again(daemon);
  for (int i = 0; i < LITMUS_PLACES; i++)
    all_freed = all_freed && tensor_is_free(&daemon->tensors[i]);
  while (lease_end_one(&daemon->table))
    ;
  lease_table_deinit(&daemon->table);
  quota_free(daemon->quota);
  return all_freed;
}

void litmus_run_daemon(struct litmus *litmus, uint64_t rounds, int64_t ms,
                       struct litmus_result *ret)
{
  struct daemon daemon = {.litmus = litmus};
  int64_t end = now_ms() + ms;
  uint64_t done = 0;

  daemon_init(&daemon, litmus);
  for (uint64_t turn = 0, last = 0; done < rounds; turn++) {
    if (take_a_turn(&daemon)) {
      done++;
      last = turn;
    } else if ((turn - last) % 256 == 255) {
      (void)sched_yield();
    }
    if (turn % 1024 == 0 && (now_ms() > end || atomic_load(&litmus->n_poisoned) > 0))
      break;
    if (turn - last > STUCK_TURNS)
      break;
  }
  atomic_store(&litmus->stop, true);
  while (!atomic_load(&litmus->client_is_done)) {
    answer(&daemon);
    (void)sched_yield();
  }
  ret->n_retired = done;
  ret->all_freed = daemon_deinit(&daemon);
}
