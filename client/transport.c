#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/clock.h"
#include "client/error.h"
#include "client/hello.h"
#include "client/transport_private.h"
#include "common/packet.h"

/* ---- making and ending ---- */

int dlc__transport_init_cond(pthread_cond_t *cond)
{
  pthread_condattr_t attributes;
  int r = pthread_condattr_init(&attributes);

  if (r != 0)
    return -r;
  (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  r = pthread_cond_init(cond, &attributes);
  (void)pthread_condattr_destroy(&attributes);
  return -r;
}

int dlc__transport_new(struct dlc__transport **ret, const char *socket_path,
                       const char *client_name, const struct dlc__transport_owner *owner,
                       struct dlc_error *reterr)
{
  struct dlc__transport *transport = calloc(1, sizeof(*transport));

  if (!transport)
    return dlc__error_no_memory(reterr);
  transport->socket_path = strdup(socket_path);
  transport->client_name = strdup(client_name);
  if (!transport->socket_path || !transport->client_name ||
      dlc__transport_init_cond(&transport->changed) < 0) {
    free(transport->socket_path);
    free(transport->client_name);
    free(transport);
    return dlc__error_no_memory(reterr);
  }
  (void)pthread_mutex_init(&transport->lock, NULL);
  transport->owner = *owner;
  dlp_list_init(&transport->calls);
  dlp_list_init(&transport->leftovers);
  dlc__outbox_init(&transport->outbox);
  *ret = transport;
  return 0;
}

void dlc__link_unuse(struct dlc__link *link)
{
  if (--link->users > 0)
    return;
  (void)dlp_close(link->fd);
  free(link);
}

static void transport_free_texts(struct dlc__texts *texts)
{
  while (texts) {
    struct dlc__texts *older = texts->older;

    free(texts->boot_id);
    free(texts->host);
    free(texts->daemon_version);
    free(texts);
    texts = older;
  }
}

static void transport_say_goodbye(struct dlc__transport *transport)
{
  struct msg_request request = {.id = ++transport->next_id, .type = MSG_GOODBYE};

  (void)dlc__transport_send(transport, &request);
}

void dlc__transport_free(struct dlc__transport *transport)
{
  struct dlc__reply *reply;

  assert(dlp_list_empty(&transport->calls));
  (void)pthread_mutex_lock(&transport->lock);
  /* A socket that is closed with unread answers resets the connection, and the
   * goodbye with it. */
  if (transport->link)
    dlc__transport_read(transport, NULL, 0, 0);
  dlc__transport_flush(transport);
  if (transport->link)
    transport_say_goodbye(transport);
  dlc__transport_lose_link(transport, DLC_E_DISCONNECTED);
  (void)pthread_mutex_unlock(&transport->lock);
  while ((reply = dlc__reply_first(&transport->leftovers))) {
    dlp_list_remove(&reply->link);
    dlc__reply_free(reply);
  }
  free(transport->spare);
  dlc__outbox_clear(&transport->outbox);
  transport_free_texts(transport->texts);
  if (transport->pages)
    dlc__pages_unref(transport->pages);
  (void)pthread_cond_destroy(&transport->changed);
  (void)pthread_mutex_destroy(&transport->lock);
  free(transport->socket_path);
  free(transport->client_name);
  free(transport);
}

void dlc__transport_abandon(struct dlc__transport *transport)
{
  if (transport->link)
    transport->link->fd = dlp_close(transport->link->fd);
}

uint64_t dlc__transport_epoch(const struct dlc__transport *transport)
{
  return atomic_load_explicit(&transport->epoch, memory_order_acquire);
}

const char *dlc__transport_client_name(const struct dlc__transport *transport)
{
  return transport->client_name;
}

int dlc__transport_fd(struct dlc__transport *transport)
{
  int fd;

  (void)pthread_mutex_lock(&transport->lock);
  fd = transport->link ? transport->link->fd : -1;
  (void)pthread_mutex_unlock(&transport->lock);
  return fd;
}

void dlc__transport_info(struct dlc__transport *transport, struct dlc_daemon_info *ret)
{
  (void)pthread_mutex_lock(&transport->lock);
  *ret = transport->info;
  (void)pthread_mutex_unlock(&transport->lock);
}

/* ---- connecting; the lock is held unless it says otherwise ---- */

/* The connection is of no use any more: `code` is what its calls are told. */
void dlc__transport_lose_link(struct dlc__transport *transport, int code)
{
  struct dlc__link *link = transport->link;

  if (!link)
    return;
  dlc__transport_drain(transport);
  transport->link = NULL;
  (void)shutdown(link->fd, SHUT_RDWR); /* wakes who polls it */
  dlc__link_unuse(link);
  transport->spanning = NULL;
  (void)pthread_cond_broadcast(&transport->changed);
  dlp_list_for_each (at, &transport->calls) {
    struct dlc__call *call = DLP_CONTAINER(at, struct dlc__call, link);

    if (!call->done && call->lost_code == 0)
      call->lost_code = code;
    (void)pthread_cond_signal(&call->wake);
  }
}

/* Without the lock. Keeps the texts of a WELCOME; NULL if out of memory. */
static struct dlc__texts *texts_new(const struct msg_welcome *welcome)
{
  struct dlc__texts *texts = calloc(1, sizeof(*texts));

  if (!texts)
    return NULL;
  texts->boot_id = strdup(welcome->boot_id ? welcome->boot_id : "");
  texts->host = strdup(welcome->host ? welcome->host : "");
  texts->daemon_version = strdup(welcome->daemon_version ? welcome->daemon_version : "");
  if (texts->boot_id && texts->host && texts->daemon_version)
    return texts;
  transport_free_texts(texts);
  return NULL;
}

static void transport_set_info(struct dlc__transport *transport, const struct msg_welcome *welcome,
                               struct dlc__texts *texts)
{
  struct dlc_daemon_info *info = &transport->info;

  texts->older = transport->texts;
  transport->texts = texts;
  memcpy(info->daemon_id, welcome->daemon_id, DLP_TOKEN_SIZE);
  memcpy(transport->token, welcome->token, DLP_TOKEN_SIZE);
  info->boot_id = texts->boot_id;
  info->host = texts->host;
  info->daemon_version = texts->daemon_version;
  info->socket_path = transport->socket_path;
  info->protocol_major = welcome->major;
  info->protocol_minor = welcome->minor;
  info->session = welcome->session;
  info->uid = welcome->uid;
}

/* A new session: what is queued for the old one means nothing to it. */
static void transport_new_epoch(struct dlc__transport *transport, struct dlc__welcome *welcome)
{
  struct dlc__pages *old = transport->pages;

  dlc__outbox_clear(&transport->outbox);
  transport->pages = DLP_TAKE(welcome->pages);
  transport->pages->epoch = dlc__transport_epoch(transport) + 1;
  transport->outbox.bells = &transport->pages->cells->bells;
  atomic_store_explicit(&transport->epoch, transport->pages->epoch, memory_order_release);
  if (!old)
    return;
  atomic_store_explicit(&old->is_over, true, memory_order_release);
  dlc__pages_unref(old);
}

static int transport_adopt(struct dlc__transport *transport, struct dlc__welcome *welcome,
                           struct dlc_error *reterr)
{
  const struct msg_welcome *said = &welcome->reply.reply.u.welcome;
  struct dlc__link *link = calloc(1, sizeof(*link));
  struct dlc__texts *texts = texts_new(said);

  if (!link || !texts) {
    free(link);
    transport_free_texts(texts);
    return dlc__error_no_memory(reterr);
  }
  link->fd = DLP_TAKE_FD(welcome->fd);
  link->users = 1;
  transport->link = link;
  transport_set_info(transport, said, texts);
  if (said->resumed)
    dlc__pages_walk(transport->pages);
  else
    transport_new_epoch(transport, welcome);
  return 0;
}

/* Gives the lock up meanwhile. */
static int transport_dial(struct dlc__transport *transport, int64_t deadline,
                          struct dlc_error *reterr)
{
  dlp_cleanup_(dlc__welcome_deinit) struct dlc__welcome welcome = {.fd = -1};
  bool had_session = dlc__transport_epoch(transport) != 0;
  uint8_t token[DLP_TOKEN_SIZE], daemon_id[DLP_TOKEN_SIZE];
  int r;

  memcpy(token, transport->token, sizeof(token));
  memcpy(daemon_id, transport->info.daemon_id, sizeof(daemon_id));
  transport->connecting = true;
  (void)pthread_mutex_unlock(&transport->lock);
  r = dlc__hello(&(struct dlc__hello){.socket_path = transport->socket_path,
                                      .client_name = transport->client_name,
                                      .token = had_session ? token : NULL,
                                      .daemon_id = daemon_id},
                 deadline, &welcome, reterr);
  (void)pthread_mutex_lock(&transport->lock);
  transport->connecting = false;
  if (r == 0)
    r = transport_adopt(transport, &welcome, reterr);
  (void)pthread_cond_broadcast(&transport->changed);
  return r;
}

int dlc__transport_ensure_link(struct dlc__transport *transport, int64_t deadline,
                               struct dlc_error *reterr)
{
  struct timespec at = dlc__deadline_timespec(deadline);

  while (!transport->link && transport->connecting) {
    if (pthread_cond_timedwait(&transport->changed, &transport->lock, &at) == ETIMEDOUT)
      return dlc__error_set(reterr, DLC_E_TIMEOUT, 0, "the daemon at %s did not answer in time",
                            transport->socket_path);
  }
  return transport->link ? 0 : transport_dial(transport, deadline, reterr);
}

int dlc__transport_connect(struct dlc__transport *transport, int64_t deadline,
                           struct dlc_error *reterr)
{
  int r;

  (void)pthread_mutex_lock(&transport->lock);
  r = dlc__transport_ensure_link(transport, deadline, reterr);
  (void)pthread_mutex_unlock(&transport->lock);
  return r;
}
