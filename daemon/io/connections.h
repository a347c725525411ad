#ifndef DLPACKD_IO_CONNECTIONS_H
#define DLPACKD_IO_CONNECTIONS_H

/*
 * All connections, by number, each with its place in the loop.
 *
 * It takes what the listener accepts, has each connection dispatched, and buries those
 * that ended: connections_reap() tells the host and closes them, at a moment when
 * nobody is in the middle of using one.
 *
 * One user may not have more than `limit_per_uid`, so that nobody uses up the
 * descriptors of all. One owner thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/connection.h"
#include "io/loop.h"

struct connections;

struct connections_host {
  void *context;
  /* Return: 0, or negative errno: close it. */
  int (*joined)(void *context, uint64_t connection, const struct peer *peer);
  void (*request)(void *context, uint64_t connection, const struct msg_request *request);
  void (*unknown)(void *context, uint64_t connection, uint64_t id);
  /* It ended by itself or by the peer's doing, who may have broken the protocol; not called
   * after connections_close(). */
  void (*left)(void *context, uint64_t connection, bool broke_protocol);
  /* One event of the loop has been served. */
  void (*turn_done)(void *context);
  uint64_t (*now_us)(void *context);
};

/* Return: 0 or -ENOMEM. */
int connections_new(struct connections **ret, struct loop *loop,
                    const struct connections_host *host, size_t output_limit, size_t limit_per_uid);
/* Closes all without telling the host. */
struct connections *connections_free(struct connections *connections);

/* A socket fresh from the listener; owns it. */
void connections_accept(struct connections *connections, int socket);

/* As broker_edge.send and .close have it; harmless if it is gone. `fds` is emptied. */
void connections_send(struct connections *connections, uint64_t connection,
                      const struct msg_reply *reply, struct dlp_fdset *fds);
void connections_close(struct connections *connections, uint64_t connection);
void connections_fail(struct connections *connections, uint64_t connection, enum conn_end end);

/* Borrowed; NULL if it is gone. */
const struct peer *connections_peer(const struct connections *connections, uint64_t connection);

/* Buries what ended. Return: true if there was any. */
bool connections_reap(struct connections *connections);

size_t connections_count(const struct connections *connections);

#endif
