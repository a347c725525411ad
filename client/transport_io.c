/* Packets: out, in, and to whom. */

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "client/clock.h"
#include "client/transport_private.h"
#include "common/packet.h"

/* How often a call that waits for room looks whether the reader's role is free. */
#define WRITE_SLICE_MS 20

/* How long the end of a connection may take, so that no call or close is slow. */
#define DRAIN_MS 200

/* No code of an error is negative here. */
#define RECEIVED_NOTHING (-1)

/* What one call reads before it looks at the clock again. */
#define READ_BURST 64

/* ---- sending; the lock is held ---- */

/* Return: 0, or what dlp_packet_send() returned; the link may be lost. */
int dlc__transport_send(struct dlc__transport *transport, const struct msg_request *request)
{
  size_t size;
  int r = codec_encode_request(transport->out, sizeof(transport->out), &size, request);

  if (r != 0)
    return r == CODEC_E_TOO_LARGE ? PACKET_E_TOO_LARGE : r;
  r = dlp_packet_send(transport->link->fd, transport->out, size, NULL, 0);
  if (r == PACKET_E_EOF || (r < 0 && r != -ENOMEM))
    dlc__transport_lose_link(transport, DLC_E_DISCONNECTED);
  return r;
}

void dlc__transport_flush(struct dlc__transport *transport)
{
  struct msg_request request;

  while (transport->link && dlc__outbox_peek(&transport->outbox, &transport->batch, &request)) {
    if (dlc__transport_send(transport, &request) != 0)
      return;
    dlc__outbox_sent(&transport->outbox, &request);
  }
}

void dlc__transport_post_consume(struct dlc__transport *transport, enum dlc__oneway_kind kind,
                                 struct dlc__oneway *item)
{
  (void)pthread_mutex_lock(&transport->lock);
  if (item->epoch != dlc__transport_epoch(transport)) {
    free(item->container);
  } else {
    dlc__outbox_put_consume(&transport->outbox, kind, item);
    if (transport->corks == 0)
      dlc__transport_flush(transport);
  }
  (void)pthread_mutex_unlock(&transport->lock);
}

/* A session that is over has nobody to tell; its daemon may be there still, and looks at
 * the word. */
void dlc__transport_return_consume(struct dlc__transport *transport, struct dlc__lease *lease)
{
  (void)pthread_mutex_lock(&transport->lock);
  dlc__lease_return(lease);
  if (transport->corks == 0)
    dlc__transport_flush(transport);
  (void)pthread_mutex_unlock(&transport->lock);
  dlc__pages_unref(DLP_TAKE(lease->pages));
}

void dlc__transport_cork(struct dlc__transport *transport)
{
  (void)pthread_mutex_lock(&transport->lock);
  transport->corks++;
  (void)pthread_mutex_unlock(&transport->lock);
}

void dlc__transport_uncork(struct dlc__transport *transport)
{
  (void)pthread_mutex_lock(&transport->lock);
  assert(transport->corks > 0);
  if (--transport->corks == 0)
    dlc__transport_flush(transport);
  (void)pthread_mutex_unlock(&transport->lock);
}

/* ---- receiving; the lock is held ---- */

/* Most answers are done with before the next one comes, so that one spare saves the heap,
 * which is slow for what has this size, and clearing what is mostly not used. */
static struct dlc__reply *reply_new(struct dlc__transport *transport)
{
  struct dlc__reply *reply = atomic_exchange(&transport->spare, NULL);

  if (!reply)
    reply = malloc(sizeof(*reply));
  if (!reply)
    return NULL;
  dlp_list_init(&reply->link);
  codec_reply_init(&reply->decoded);
  dlp_fdset_init(&reply->fds);
  reply->epoch = 0;
  reply->pages = NULL;
  reply->fds_lost = false;
  return reply;
}

static void reply_empty(struct dlc__reply *reply)
{
  codec_reply_deinit(&reply->decoded);
  dlp_fdset_deinit(&reply->fds);
  if (reply->pages)
    dlc__pages_unref(reply->pages);
}

/* Needs no lock. */
static void reply_recycle(struct dlc__transport *transport, struct dlc__reply *reply)
{
  reply_empty(reply);
  free(atomic_exchange(&transport->spare, reply));
}

static struct dlc__call *transport_find_call(struct dlc__transport *transport, uint64_t id)
{
  dlp_list_for_each (at, &transport->calls) {
    struct dlc__call *call = DLP_CONTAINER(at, struct dlc__call, link);

    if (call->id == id && call->lost_code == 0 && !call->done)
      return call;
  }
  return NULL;
}

static void transport_route(struct dlc__transport *transport, struct dlc__reply *reply)
{
  struct dlc__call *call = transport_find_call(transport, reply->decoded.reply.id);

  if (transport->owner.arrived && reply->decoded.reply.status == DLP_STATUS_OK)
    transport->owner.arrived(transport->owner.context, reply);
  if (!call) {
    dlp_list_append(&transport->leftovers, &reply->link);
    return;
  }
  dlp_list_append(&call->replies, &reply->link);
  if (reply->decoded.reply.more)
    return;
  call->done = true;
  (void)pthread_cond_signal(&call->wake);
}

/* What it grants is ours from here on, whatever becomes of the call. */
static bool transport_take_grants(struct dlc__transport *transport, struct dlc__reply *reply)
{
  const struct msg_granted *granted = &reply->decoded.reply.u.granted;

  if (reply->decoded.reply.type != MSG_GRANTED || !transport->pages)
    return reply->decoded.reply.type != MSG_GRANTED;
  reply->pages = dlc__pages_ref(transport->pages);
  for (size_t i = 0; i < granted->n_grants; i++) {
    if (dlc__pages_take_answer(transport->pages, granted->grants[i].cell,
                               granted->grants[i].tensor.version))
      continue;
    while (i-- > 0)
      dlc__pages_forget_answer(transport->pages, granted->grants[i].cell);
    return false;
  }
  return true;
}

/* Return: 0, or the DLC_E_* that ends the connection. */
static int transport_decode(struct dlc__transport *transport, struct dlc__reply *reply, size_t size)
{
  int r = codec_decode_reply(&reply->decoded, transport->in, size);

  /* An answer of a kind we do not know was not asked for by us. */
  if (r == -ENOMEM)
    return DLC_E_NO_MEMORY;
  if (r != 0 || reply->decoded.reply.id == 0)
    return DLC_E_PROTOCOL;
  if (!reply->fds_lost && reply->fds.size != reply->decoded.reply.n_fds)
    return DLC_E_PROTOCOL;
  reply->epoch = dlc__transport_epoch(transport);
  return transport_take_grants(transport, reply) ? 0 : DLC_E_PROTOCOL;
}

/* Return: 0 with a packet that was routed, RECEIVED_NOTHING, or the DLC_E_* for which
 * the connection is of no use any more. */
static int transport_receive_one(struct dlc__transport *transport)
{
  struct dlc__reply *reply = reply_new(transport);
  size_t size = 0;
  int r, code = 0;

  if (!reply)
    return DLC_E_NO_MEMORY;
  r = dlp_packet_receive(transport->link->fd, transport->in, sizeof(transport->in), &size,
                         &reply->fds);
  reply->fds_lost = r == PACKET_E_FDS_LOST;
  if (r == PACKET_E_AGAIN)
    code = RECEIVED_NOTHING;
  else if (r == 0 || reply->fds_lost)
    code = transport_decode(transport, reply, size);
  else
    code = r == PACKET_E_TRUNCATED ? DLC_E_PROTOCOL : DLC_E_DISCONNECTED;
  if (code == 0)
    transport_route(transport, reply);
  else
    reply_recycle(transport, reply);
  return code;
}

/* One packet. Return: whether there may be more. */
static bool transport_receive(struct dlc__transport *transport)
{
  int code = transport_receive_one(transport);

  if (code != 0 && code != RECEIVED_NOTHING)
    dlc__transport_lose_link(transport, code);
  return code == 0;
}

/* The daemon sees the end of our requests, answers those that came before, and hangs
 * up. A connection that was reset has its answers still. */
void dlc__transport_drain(struct dlc__transport *transport)
{
  struct pollfd poller = {.fd = transport->link->fd, .events = POLLIN};
  int64_t deadline = dlc__deadline_in(DRAIN_MS);
  int n_ends = 0;

  (void)shutdown(poller.fd, SHUT_WR);
  while (n_ends < 2 && !dlc__deadline_passed(deadline)) {
    int code = transport_receive_one(transport);

    if (code == DLC_E_DISCONNECTED)
      n_ends++;
    else if (code == DLC_E_NO_MEMORY)
      return;
    else if (code == RECEIVED_NOTHING)
      (void)poll(&poller, 1, dlc__deadline_poll_ms(deadline));
  }
}

static void transport_poll(struct dlc__transport *transport, short events, int timeout_ms)
{
  struct dlc__link *link = transport->link;
  struct pollfd poller = {.fd = link->fd, .events = events};

  link->users++;
  (void)pthread_mutex_unlock(&transport->lock);
  (void)poll(&poller, 1, timeout_ms);
  (void)pthread_mutex_lock(&transport->lock);
  dlc__link_unuse(link);
}

/* As the reader: waits until something comes, and routes it. */
void dlc__transport_read(struct dlc__transport *transport, const struct dlc__call *until,
                         short more_events, int timeout_ms)
{
  struct dlc__link *link = transport->link;

  transport->reading = true;
  transport_poll(transport, POLLIN | more_events, timeout_ms);
  transport->reading = false;
  for (int i = 0; i < READ_BURST && transport->link == link; i++) {
    if (!transport_receive(transport) || (until && until->done))
      return;
  }
}

/* A role that nobody has is offered to one who sleeps. */
void dlc__transport_offer_reading(struct dlc__transport *transport)
{
  if (transport->reading)
    return;
  dlp_list_for_each (at, &transport->calls) {
    struct dlc__call *call = DLP_CONTAINER(at, struct dlc__call, link);

    if (call->sleeping) {
      (void)pthread_cond_signal(&call->wake);
      return;
    }
  }
}

/* Until the socket has room. Somebody has to read meanwhile: the daemon may be
 * waiting for us. */
void dlc__transport_wait_for_room(struct dlc__transport *transport, int64_t deadline)
{
  int left = dlc__deadline_poll_ms(deadline);

  if (!transport->reading)
    dlc__transport_read(transport, NULL, POLLOUT, left);
  else
    transport_poll(transport, POLLOUT, left < 0 || left > WRITE_SLICE_MS ? WRITE_SLICE_MS : left);
}

/* ---- replies ---- */

void dlc__reply_free(struct dlc__reply *reply)
{
  reply_empty(reply);
  free(reply);
}

struct dlc__reply *dlc__reply_first(struct dlp_list *list)
{
  return dlp_list_empty(list) ? NULL : DLP_CONTAINER(list->next, struct dlc__reply, link);
}

/* ---- without the lock ---- */

void dlc__transport_dispose(struct dlc__transport *transport, struct dlc__reply *reply,
                            bool orphaned)
{
  const struct msg_reply *said = &reply->decoded.reply;

  if (said->n_dropped > 0)
    transport->owner.dropped(transport->owner.context, reply->epoch, said->dropped,
                             said->n_dropped);
  if (orphaned && said->status == DLP_STATUS_OK)
    transport->owner.orphan(transport->owner.context, reply);
  reply_recycle(transport, reply);
}

void dlc__transport_clear_leftovers(struct dlc__transport *transport)
{
  struct dlc__reply *reply;

  for (;;) {
    (void)pthread_mutex_lock(&transport->lock);
    reply = dlc__reply_first(&transport->leftovers);
    if (reply)
      dlp_list_remove(&reply->link);
    (void)pthread_mutex_unlock(&transport->lock);
    if (!reply)
      return;
    dlc__transport_dispose(transport, reply, true);
  }
}
