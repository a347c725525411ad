#ifndef DLPACKD_CLIENT_TRANSPORT_H
#define DLPACKD_CLIENT_TRANSPORT_H

/*
 * One session with the daemon, over one socket that many threads share.
 *
 * There is no thread of our own. Of the threads that wait for an answer one is
 * the reader: it polls, receives, hands each answer to the call with its id, and
 * passes the role on when it has its own. Sending never blocks; a call that finds
 * the socket full waits for room within its deadline. Every call keeps its
 * deadline even if the daemon is stopped by a signal.
 *
 * An answer that comes after its call gave up is not lost: whoever reads next
 * hands it to `orphan`, which gives back what it granted.
 *
 * When the connection is lost, calls in flight fail at once and the next one
 * connects again. If the daemon takes the session up where it was, nothing has
 * changed but what was answered meanwhile: grants whose answers were lost are given
 * back. Else a new *epoch* begins, and cells, places and segment ids of the old one
 * mean nothing any more. No connection is closed before it was read to its end, as
 * far as that takes no long wait: what an answer grants is taken in, wanted or not.
 *
 * All functions are thread-safe, except that a call object is used by one thread
 * at a time. None may be called in a forked child but dlc__transport_abandon().
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "client/lease.h"
#include "client/outbox.h"
#include "common/fdset.h"
#include "dlclient.h"
#include "proto/codec.h"

struct dlc__transport;

/* An answer, or a part of one, with its descriptors. */
struct dlc__reply {
  struct dlp_list link;
  struct codec_reply decoded;
  struct dlp_fdset fds;
  uint64_t epoch;
  struct dlc__pages *pages; /* that it grants cells of, with a reference; or NULL */
  bool fds_lost;            /* there was no room for them in this process's table */
};

/* What the transport asks of its owner. Called from any thread, and but for `arrived`
 * without a lock. */
struct dlc__transport_owner {
  void *context;
  /* Nobody waits for it any more: give back what it grants. */
  void (*orphan)(void *context, struct dlc__reply *reply);
  /* Segments that the daemon has dropped. */
  void (*dropped)(void *context, uint64_t epoch, const uint64_t *segments, size_t n_segments);
  /* Something that this session was granted was retired since the last call. */
  void (*retired)(void *context, struct dlc__pages *pages);
  /* An answer has come. In the order in which they come, before anybody else sees it, with
   * the lock held: nothing of the transport may be called. NULL: not of interest. */
  void (*arrived)(void *context, struct dlc__reply *reply);
};

/* {0} is none. */
struct dlc__call {
  struct dlp_list link;
  struct dlp_list replies; /* struct dlc__reply.link, in order */
  struct dlc__transport *transport;
  uint64_t id;
  uint64_t epoch;
  uint64_t needs_epoch; /* refuse to go over another session than this; 0: any */
  int lost_code;        /* DLC_E_*: no answer will come */
  bool has_sent;
  bool done;
  bool taken; /* what the replies grant is somebody's */
  bool sleeping;
  pthread_cond_t wake;
};

/* Return: 0 or a negated code. The strings are copied. Connects to nothing yet. */
int dlc__transport_new(struct dlc__transport **ret, const char *socket_path,
                       const char *client_name, const struct dlc__transport_owner *owner,
                       struct dlc_error *reterr);
/* Says goodbye, and waits a short time for the answer. No call may be in progress. */
void dlc__transport_free(struct dlc__transport *transport);
/* In a forked child: closes the child's descriptor and nothing else. */
void dlc__transport_abandon(struct dlc__transport *transport);

/* Connects if there is no connection. Return: 0 or a negated code. */
int dlc__transport_connect(struct dlc__transport *transport, int64_t deadline,
                           struct dlc_error *reterr);

uint64_t dlc__transport_epoch(const struct dlc__transport *transport);

/* The descriptor, to poll only; -1 without a connection. */
int dlc__transport_fd(struct dlc__transport *transport);

const char *dlc__transport_client_name(const struct dlc__transport *transport);

/* Who answered last. Strings live as long as the transport. */
void dlc__transport_info(struct dlc__transport *transport, struct dlc_daemon_info *ret);

/*
 * Begin a call: connect if need be, get an id. `call` may not move until
 * dlc__call_end(), which is always due, also after a failure.
 * Return: 0 or a negated code.
 */
int dlc__call_begin(struct dlc__transport *transport, struct dlc__call *call, int64_t deadline,
                    struct dlc_error *reterr);
/* One packet of the request; its id is filled in. Return: 0 or a negated code. */
int dlc__call_send(struct dlc__call *call, struct msg_request *request, int64_t deadline,
                   struct dlc_error *reterr);
/*
 * Until the last packet of the answer is there. May be called again after
 * -DLC_E_TIMEOUT: the answer is still expected until dlc__call_end().
 * Return: 0, or the negated code that the daemon, or the lack of an answer, means.
 */
int dlc__call_wait(struct dlc__call *call, int64_t deadline, struct dlc_error *reterr);
void dlc__call_end(struct dlc__call *call);
static inline void dlc__call_endp(struct dlc__call *call)
{
  dlc__call_end(call);
}
#define dlc__auto_call dlp_cleanup_(dlc__call_endp)

/* Begin, send one packet, wait. Return: as dlc__call_wait(). */
int dlc__call_run(struct dlc__transport *transport, struct dlc__call *call,
                  struct msg_request *request, int64_t deadline, struct dlc_error *reterr);

/* The only reply of a call that is done, if it is of this type; else NULL with
 * *reterr filled. */
struct dlc__reply *dlc__call_reply(struct dlc__call *call, enum msg_reply_type type,
                                   struct dlc_error *reterr);

/* For a descriptor that should have come with it. Return: a negated code. */
int dlc__reply_no_descriptor(const struct dlc__reply *reply, struct dlc_error *reterr);

/* The element of dlc__call.replies at `link`. */
static inline struct dlc__reply *dlc__reply_at(struct dlp_list *link)
{
  return DLP_CONTAINER(link, struct dlc__reply, link);
}

/* Sends a one-way message now, if that needs no waiting, or with the next call. */
void dlc__transport_post_consume(struct dlc__transport *transport, enum dlc__oneway_kind kind,
                                 struct dlc__oneway *item);
/* Gives a lease back for good; its pages' reference goes. Never blocks or fails. */
void dlc__transport_return_consume(struct dlc__transport *transport, struct dlc__lease *lease);
/* Between these two, one-way messages are only gathered. Nests. */
void dlc__transport_cork(struct dlc__transport *transport);
void dlc__transport_uncork(struct dlc__transport *transport);

#endif
