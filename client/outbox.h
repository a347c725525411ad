#ifndef DLPACKD_CLIENT_OUTBOX_H
#define DLPACKD_CLIENT_OUTBOX_H

/*
 * One-way messages that wait to be sent: what is given back, and cells to look at.
 *
 * A deleter must not fail, block or allocate, so what it gives back is queued by
 * a link inside the very thing that ends; the queue frees it when it was sent,
 * or when the session it meant is over. Many small ones leave in one packet.
 *
 * Not thread-safe: the transport's lock covers it.
 */

#include <stdbool.h>

#include "client/bells.h"
#include "common/list.h"
#include "proto/message.h"

struct dlc__oneway {
  struct dlp_list link;
  uint64_t epoch;  /* the session that it is meant for */
  void *container; /* what it lies in, to be freed */
  union {
    struct msg_place place;
    uint64_t segment;
  } u;
};

enum dlc__oneway_kind {
  DLC__ONEWAY_FREE,
  DLC__ONEWAY_FORGET,
  DLC__N_ONEWAYS,
};

struct dlc__outbox {
  struct dlc__bells *bells;               /* of the session; NULL: there is none yet */
  struct dlp_list queues[DLC__N_ONEWAYS]; /* struct dlc__oneway.link */
};

/* Room for what one packet points at. */
union dlc__outbox_batch {
  uint32_t cells[DLP_BATCH_MAX];
  struct msg_place places[DLP_BATCH_MAX];
  uint64_t segments[DLP_BATCH_MAX];
};

void dlc__outbox_init(struct dlc__outbox *outbox);
/* Frees what is queued. Bells are their session's. */
void dlc__outbox_clear(struct dlc__outbox *outbox);

/* The queue owns item->container from here on. */
void dlc__outbox_put_consume(struct dlc__outbox *outbox, enum dlc__oneway_kind kind,
                             struct dlc__oneway *item);

/* The next packet, without taking anything out. False: there is none. */
bool dlc__outbox_peek(const struct dlc__outbox *outbox, union dlc__outbox_batch *batch,
                      struct msg_request *ret);
/* `request`, from peek, was sent. */
void dlc__outbox_sent(struct dlc__outbox *outbox, const struct msg_request *request);

#endif
