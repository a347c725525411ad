/* Calls: a request, and waiting for its answer. */

#include <errno.h>
#include <sys/resource.h>

#include "client/clock.h"
#include "client/error.h"
#include "client/transport_private.h"
#include "common/packet.h"

static int call_lost(const struct dlc__call *call, struct dlc_error *reterr)
{
  const char *path = call->transport->socket_path;

  switch (call->lost_code) {
  case DLC_E_PROTOCOL:
    return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                          "the daemon at %s sent what is not a message; the connection is closed",
                          path);
  case DLC_E_NO_MEMORY:
    return dlc__error_no_memory(reterr);
  default:
    return dlc__error_set(reterr, DLC_E_DISCONNECTED, 0, "the daemon at %s went away", path);
  }
}

static int call_timed_out(const struct dlc__call *call, struct dlc_error *reterr)
{
  return dlc__error_set(reterr, DLC_E_TIMEOUT, 0, "the daemon at %s did not answer in time",
                        call->transport->socket_path);
}

/* The lock is held. Puts the call on the connection that is there now. */
static int call_attach(struct dlc__call *call, int64_t deadline, struct dlc_error *reterr)
{
  struct dlc__transport *transport = call->transport;
  int r = dlc__transport_ensure_link(transport, deadline, reterr);

  if (r < 0)
    return r;
  call->epoch = dlc__transport_epoch(transport);
  if (call->needs_epoch != 0 && call->needs_epoch != call->epoch)
    return dlc__error_set(reterr, DLC_E_DISCONNECTED, 0,
                          "the daemon at %s was started anew; what it had given this process "
                          "before is gone",
                          transport->socket_path);
  call->lost_code = 0;
  if (call->id == 0)
    call->id = ++transport->next_id;
  return 0;
}

int dlc__call_begin(struct dlc__transport *transport, struct dlc__call *call, int64_t deadline,
                    struct dlc_error *reterr)
{
  int r;

  dlp_list_init(&call->link);
  dlp_list_init(&call->replies);
  if (dlc__transport_init_cond(&call->wake) < 0)
    return dlc__error_no_memory(reterr);
  call->transport = transport;
  (void)pthread_mutex_lock(&transport->lock);
  r = call_attach(call, deadline, reterr);
  if (r == 0)
    dlp_list_append(&transport->calls, &call->link);
  (void)pthread_mutex_unlock(&transport->lock);
  return r;
}

static bool call_is_spanning(const struct msg_request *request)
{
  return request->type == MSG_GET && request->u.get.more;
}

/*
 * The packets of a GET that spans several follow each other, as the daemon sees
 * it: no other GET may come between them. The lock is held.
 * Return: 0, 1 if it had to wait (look at the link again), or a negated code.
 */
static int call_take_turn(struct dlc__call *call, const struct msg_request *request,
                          int64_t deadline, struct dlc_error *reterr)
{
  struct dlc__transport *transport = call->transport;
  struct timespec at = dlc__deadline_timespec(deadline);

  if (request->type != MSG_GET)
    return 0;
  if (!transport->spanning || transport->spanning == call) {
    if (call_is_spanning(request))
      transport->spanning = call;
    return 0;
  }
  if (pthread_cond_timedwait(&transport->changed, &transport->lock, &at) == ETIMEDOUT)
    return call_timed_out(call, reterr);
  return 1;
}

/* The last packet of it has left. The lock is held. */
static void call_end_turn(struct dlc__call *call, const struct msg_request *request)
{
  struct dlc__transport *transport = call->transport;

  if (transport->spanning != call || call_is_spanning(request))
    return;
  transport->spanning = NULL;
  (void)pthread_cond_broadcast(&transport->changed);
}

/* What became of one try to send. Return: 0, a negated code, or 1: try again. */
static int call_sent(struct dlc__call *call, int r, int64_t deadline, struct dlc_error *reterr)
{
  if (r == 0)
    return 0;
  if (r == PACKET_E_TOO_LARGE)
    return dlc__error_set(reterr, DLC_E_INVALID, 0,
                          "the request is longer than a packet of the protocol may be (%d bytes)",
                          DLP_PACKET_MAX);
  if (r == -ENOMEM)
    return dlc__error_no_memory(reterr);
  if (r != PACKET_E_AGAIN)
    return 1; /* the link is lost: told by lost_code */
  if (dlc__deadline_passed(deadline))
    return call_timed_out(call, reterr);
  dlc__transport_wait_for_room(call->transport, deadline);
  return 1;
}

/* The lock is held. */
static int call_send_locked(struct dlc__call *call, struct msg_request *request, int64_t deadline,
                            struct dlc_error *reterr)
{
  struct dlc__transport *transport = call->transport;
  bool may_redial = !call->has_sent;
  int r;

  for (;;) {
    if (call->lost_code != 0) {
      /* Nothing of it has left yet: a connection that ended while we were idle
       * is no reason to fail. */
      if (!may_redial || call->lost_code != DLC_E_DISCONNECTED)
        return call_lost(call, reterr);
      may_redial = false;
      r = call_attach(call, deadline, reterr);
      if (r < 0)
        return r;
    }
    dlc__transport_flush(transport);
    if (call->lost_code != 0)
      continue;
    r = call_take_turn(call, request, deadline, reterr);
    if (r < 0)
      return r;
    if (r > 0)
      continue;
    request->id = call->id;
    r = call_sent(call, dlc__transport_send(transport, request), deadline, reterr);
    if (r <= 0)
      break;
  }
  if (r == 0) {
    call->has_sent = true;
    call_end_turn(call, request);
  }
  return r;
}

int dlc__call_send(struct dlc__call *call, struct msg_request *request, int64_t deadline,
                   struct dlc_error *reterr)
{
  int r;

  (void)pthread_mutex_lock(&call->transport->lock);
  r = call_send_locked(call, request, deadline, reterr);
  dlc__transport_offer_reading(call->transport);
  (void)pthread_mutex_unlock(&call->transport->lock);
  return r;
}

/* The lock is held. */
static void call_await(struct dlc__call *call, int64_t deadline)
{
  struct dlc__transport *transport = call->transport;
  struct timespec at = dlc__deadline_timespec(deadline);

  while (!call->done && call->lost_code == 0) {
    if (transport->reading) {
      call->sleeping = true;
      (void)pthread_cond_timedwait(&call->wake, &transport->lock, &at);
      call->sleeping = false;
    } else {
      dlc__transport_read(transport, call, 0, dlc__deadline_poll_ms(deadline));
    }
    if (dlc__deadline_passed(deadline))
      return;
  }
}

/* The lock is held. */
static int call_result(struct dlc__call *call, struct dlc_error *reterr)
{
  if (!call->done)
    return call->lost_code != 0 ? call_lost(call, reterr) : call_timed_out(call, reterr);
  dlp_list_for_each (link, &call->replies) {
    struct dlc__reply *reply = dlc__reply_at(link);
    if (reply->decoded.reply.status != DLP_STATUS_OK)
      return dlc__error_from_reply(reterr, &reply->decoded.reply);
  }
  return 0;
}

int dlc__call_wait(struct dlc__call *call, int64_t deadline, struct dlc_error *reterr)
{
  int r;

  (void)pthread_mutex_lock(&call->transport->lock);
  call_await(call, deadline);
  r = call_result(call, reterr);
  dlc__transport_offer_reading(call->transport);
  (void)pthread_mutex_unlock(&call->transport->lock);
  return r;
}

void dlc__call_end(struct dlc__call *call)
{
  struct dlc__transport *transport = call->transport;
  struct dlc__pages *retired = NULL;
  struct dlc__reply *reply;

  if (!transport)
    return;
  (void)pthread_mutex_lock(&transport->lock);
  dlp_list_remove(&call->link);
  if (transport->pages && dlc__pages_have_retired(transport->pages))
    retired = dlc__pages_ref(transport->pages);
  /* Half a request would make the next one an error: a new connection has none. */
  if (transport->spanning == call)
    dlc__transport_lose_link(transport, DLC_E_DISCONNECTED);
  (void)pthread_mutex_unlock(&transport->lock);
  while ((reply = dlc__reply_first(&call->replies))) {
    dlp_list_remove(&reply->link);
    dlc__transport_dispose(transport, reply, !call->taken);
  }
  (void)pthread_cond_destroy(&call->wake);
  call->transport = NULL;
  dlc__transport_clear_leftovers(transport);
  if (!retired)
    return;
  transport->owner.retired(transport->owner.context, retired);
  dlc__pages_unref(retired);
}

int dlc__call_run(struct dlc__transport *transport, struct dlc__call *call,
                  struct msg_request *request, int64_t deadline, struct dlc_error *reterr)
{
  int r = dlc__call_begin(transport, call, deadline, reterr);

  if (r < 0)
    return r;
  r = dlc__call_send(call, request, deadline, reterr);
  return r < 0 ? r : dlc__call_wait(call, deadline, reterr);
}

struct dlc__reply *dlc__call_reply(struct dlc__call *call, enum msg_reply_type type,
                                   struct dlc_error *reterr)
{
  struct dlc__reply *reply = dlc__reply_first(&call->replies);

  if (reply && reply->decoded.reply.type == type && reply->link.next == &call->replies)
    return reply;
  (void)dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                       "the daemon at %s answered with something else than was asked for",
                       call->transport->socket_path);
  return NULL;
}

int dlc__reply_no_descriptor(const struct dlc__reply *reply, struct dlc_error *reterr)
{
  struct rlimit limit = {0};

  if (!reply->fds_lost)
    return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                          "the daemon sent no descriptor to map memory by");
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  return dlc__error_set(reterr, DLC_E_SYSTEM, EMFILE,
                        "this process may not open more descriptors (RLIMIT_NOFILE is %llu)",
                        (unsigned long long)limit.rlim_cur);
}
