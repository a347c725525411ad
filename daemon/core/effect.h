#ifndef DLPACKD_CORE_EFFECT_H
#define DLPACKD_CORE_EFFECT_H

/*
 * What the core wants done outside, and in which order.
 *
 * Every change of the registry is prepare, effects, commit: the core prepares,
 * hands out a plan (effects in order), and is told how it went. So a store that
 * is full or slow, or a kill between two steps, is an ordinary input. The order
 * of a commit is that of docs/adr/0003: rows PREP, descriptors stored, the
 * commit record LIVE, reply.
 *
 * Pure data.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/list.h"
#include "proto/message.h"

/* How a segment is sealed when the first tensor in it is published. */
enum segment_seal {
  SEGMENT_SEAL_READ_ONLY, /* GROW|SHRINK|FUTURE_WRITE|SEAL; mode 0444 */
  SEGMENT_SEAL_MUTABLE,   /* GROW|SHRINK|SEAL: holders of w may write */
  SEGMENT_SEAL_FROZEN,    /* and WRITE: fails with -EBUSY while the producer maps it */
};

enum effect_kind {
  /* The session's lease pages and death handle come to life, from connection
   * `connection` (its pidfd, or the one that came with HELLO). */
  EFFECT_SESSION_OPEN,
  EFFECT_SESSION_CLOSE,
  /* A segment of `size` bytes without pages, of `backend`. -ENOMEM, -ENOSPC,
   * -EMFILE, -ENFILE, -EOPNOTSUPP are told to the client in words. */
  EFFECT_SEGMENT_CREATE,
  /* `data` goes to [offset, offset + size) of a segment that was made to be written to by
   * the daemon. -ENOMEM if there are no pages for it. */
  EFFECT_SEGMENT_WRITE,
  /* Are all pages of [offset, offset + size) there? -ENODATA if not. */
  EFFECT_SEGMENT_CHECK,
  /* -EBUSY, -EOPNOTSUPP as for SEGMENT_SEAL_FROZEN; -EPERM if its producer has given it
   * another size or other seals. */
  EFFECT_SEGMENT_SEAL,
  /* No descriptor of it is needed any more. */
  EFFECT_SEGMENT_DROP,
  /* The directory: a row written as PREP, the commit that makes rows LIVE, a row freed. */
  EFFECT_ROW_PREPARE,
  EFFECT_COMMIT_LIVE,
  EFFECT_ROW_FREE,
};

struct tensor;
struct lease_pages;

struct effect {
  enum effect_kind kind;
  uint64_t session;
  uint64_t connection;
  uint64_t segment;
  uint64_t offset;
  uint64_t size;
  uint32_t backend; /* enum msg_backend, never DEFAULT */
  bool is_slab;     /* SEGMENT_CREATE: the daemon is going to write to it */
  enum segment_seal seal;
  const uint8_t *data;         /* SEGMENT_WRITE; borrowed until the plan is done */
  uint64_t version;            /* COMMIT_LIVE */
  uint64_t row;                /* ROW_*: number of the row, never 0 */
  struct lease_pages *pages;   /* SESSION_OPEN: to be filled with what was mapped */
  const struct tensor *tensor; /* ROW_PREPARE: what to write; borrowed until the plan is done */
};

/*
 * Effects to be run in order, up to the first that fails; the edge then gives
 * the plan back with broker_plan_done(), now or later, exactly once. What a
 * failed plan had done already, the core undoes with plans of its own. DROP, CLOSE
 * and FREE cannot fail. While a plan is out its array may move with any call of the
 * broker: index `effects` anew after one.
 */
struct plan {
  struct dlp_list link;
  size_t n_effects;
  struct effect *effects;
};

#endif
