#ifndef DLPACKD_IO_CONNECTION_H
#define DLPACKD_IO_CONNECTION_H

/*
 * One client's socket: packets in, packets out, and nothing of what they mean.
 *
 * The peer is taken for hostile. What it sends wrongly ends its connection; what it
 * does not read is kept up to a limit, and then it is dropped; while much is kept, its
 * requests wait in its own socket. Descriptors it sends where none belong are closed
 * unseen.
 *
 * No loop here: the owner calls conn_dispatch() with what happened, and asks
 * conn_interest(), conn_retry_ms() and conn_end() what to do next, each time
 * conn_host.changed was called. So a socketpair tests all of it.
 *
 * A function of the host may send on any connection, but may free none.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/fdset.h"
#include "io/peer.h"
#include "proto/message.h"

/* Packets handled in one turn: others are waiting too. */
#define CONN_PACKETS_PER_TURN 32
/* Unsent output at which requests are left unread. */
#define CONN_PAUSE_BYTES ((size_t)64 << 10)
#define CONN_PAUSE_PACKETS 64

/* Why it ended, or is to end. */
enum conn_end {
  CONN_END_NOT,
  CONN_END_PEER_GONE,
  CONN_END_CLOSED, /* by the broker; all is sent, or cannot be */
  CONN_END_MALFORMED,
  CONN_END_TOO_LARGE,
  CONN_END_FD_COUNT,
  CONN_END_FD_UNEXPECTED,
  CONN_END_FD_NO_PIDFD,
  CONN_END_FD_LOST,
  CONN_END_SLOW_READER,
  CONN_END_NO_DESCRIPTOR, /* an answer's descriptors could not be opened */
  CONN_END_SYSTEM,
};

/* Does it break the protocol? Others are no fault of the peer's. */
bool conn_end_is_protocol_error(enum conn_end end);
/* A phrase for the log. */
const char *conn_end_reason(enum conn_end end);

struct conn;

struct conn_host {
  void *context;
  /* Both as broker.h has them. `connection` is the number it was made with. */
  void (*request)(void *context, uint64_t connection, const struct msg_request *request);
  void (*unknown)(void *context, uint64_t connection, uint64_t id);
  /* What conn_interest(), conn_retry_ms() or conn_end() say may have changed. */
  void (*changed)(void *context, struct conn *conn);
  size_t output_limit; /* bytes kept for a peer that does not read */
};

/* `host` is borrowed. `socket` becomes ours if 0 is returned.
 * Return: 0 or negative errno. */
int conn_new_consume(struct conn **ret, uint64_t id, int socket, const struct conn_host *host);
/* Closes without flushing. The owner must have stopped watching the socket. */
struct conn *conn_free(struct conn *conn);

/* `events` as of io/loop.h. */
void conn_dispatch(struct conn *conn, unsigned events);
/* The time of conn_retry_ms() is over. */
void conn_retry(struct conn *conn);

/* Packs and sends it, or keeps it to be sent. What goes wrong ends the connection
 * later. `fds` is emptied either way. */
void conn_send(struct conn *conn, const struct msg_reply *reply, struct dlp_fdset *fds);
/* Nothing is read any more; it ends when all is sent. */
void conn_close(struct conn *conn);
/* It ends now, for this reason. */
void conn_fail(struct conn *conn, enum conn_end end);

uint64_t conn_id(const struct conn *conn);
const struct peer *conn_peer(const struct conn *conn);
/* Events to wait for; 0 if none. */
unsigned conn_interest(const struct conn *conn);
/* How soon conn_retry() is due; 0: not at all. */
unsigned conn_retry_ms(const struct conn *conn);
/* Bytes of answers that are not sent yet. */
size_t conn_queued(const struct conn *conn);
/* Not CONN_END_NOT: free it. */
enum conn_end conn_end(const struct conn *conn);
/* Was it conn_close() that began its end? */
bool conn_is_closing(const struct conn *conn);

#endif
