#ifndef DLPACKD_CORE_QUOTA_H
#define DLPACKD_CORE_QUOTA_H

/*
 * Quota: who pays for what.
 *
 * Everything a client can make the daemon hold is paid for by one uid (of one
 * realm) before it exists, and given back when it is gone. A payment is an
 * object, not a pair of += and -=: it lives inside the thing it pays for, so that
 * thing's destructor gives it back, once, on every path. A payment covers all
 * slots or none, so a refused request leaves nothing to undo.
 *
 * Limits are per uid, not per connection: opening more connections buys
 * nothing. The publisher pays for bytes, the holder for the lease.
 *
 * Pure: no system calls, no clock, no log. Not thread-safe: one owner thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"

enum quota_slot {
  QUOTA_BYTES,    /* of shared memory that its segments hold */
  QUOTA_SEGMENTS, /* descriptors the daemon keeps for it */
  QUOTA_TENSORS,  /* versions, published or being prepared */
  QUOTA_LEASES,
  QUOTA_SESSIONS,
  QUOTA_HEAP, /* bytes of the daemon's own memory: names, attributes, waiting requests */
  QUOTA_N_SLOTS,
};

struct quota_sum {
  uint64_t of[QUOTA_N_SLOTS];
};

enum {
  QUOTA_E_EXCEEDED = 1,
};

struct quota;
struct quota_user;

/* One payment. {0} is "nothing paid". Do not copy it: move it. There is one in everything,
 * so it is small: of heap it pays for less than 2^32 bytes, of what is counted for at
 * most 255. */
struct quota_charge {
  struct quota_user *user;
  uint64_t bytes;
  uint32_t heap;
  uint8_t counts[QUOTA_HEAP - QUOTA_SEGMENTS]; /* the slots from QUOTA_SEGMENTS on */
};

/* What was refused, for the message: which slot, its limit, what was in use. */
struct quota_refusal {
  enum quota_slot slot;
  uint64_t limit;
  uint64_t used;
  uint64_t wanted;
};

/* Return: 0 or -ENOMEM. */
int quota_new(struct quota **ret, const struct quota_sum *limits, uint64_t seed);
struct quota *quota_free(struct quota *quota); /* asserts that all was given back */
DLP_DEFINE_CLEANUP(struct quota, quota)

/*
 * Adds `sum` to what `charge` pays for already; the first payment decides who pays.
 * All slots or none.
 * Return: 0, -ENOMEM, or QUOTA_E_EXCEEDED with *refusal filled (may be NULL).
 */
int quota_charge(struct quota *quota, struct quota_charge *charge, uint32_t realm, uint32_t uid,
                 const struct quota_sum *sum, struct quota_refusal *refusal);
/* Gives a part of it back. */
void quota_charge_less(struct quota_charge *charge, const struct quota_sum *sum);
void quota_charge_deinit(struct quota_charge *charge); /* twice is harmless */

struct quota_sum quota_used(const struct quota *quota, uint32_t realm, uint32_t uid);
struct quota_sum quota_total(const struct quota *quota);

/* "bytes", "segments", ... */
const char *quota_slot_name(enum quota_slot slot);

#endif
