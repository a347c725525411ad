#ifndef DLPACKD_CLIENT_LEASE_H
#define DLPACKD_CLIENT_LEASE_H

/*
 * Leases: this process's rights to versions, each in a cell of its session's pages.
 *
 * tests/model/protocol.md is the protocol, and the functions below are its steps. A
 * grant counts as held until our word in the holds page says otherwise. To take a
 * lease again we say so and then look whether it is still live; to drop one we say
 * so and then look whether the daemon waits for that. Both pairs are sequentially
 * consistent: without that the processor may look before it has said anything, and
 * memory in use is freed.
 *
 * One lease is for one user at a time: cache.h counts the threads that share it, and
 * calls these only for the first and the last. In a forked child none may be called
 * but dlc__lease_is_live().
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/bells.h"
#include "client/litmus.h"
#include "proto/lease_page.h"

/* What this process alone knows of each cell. */
struct dlc__cells {
  _Atomic uint64_t taken[DLP_LEASE_CELLS]; /* the version whose answer was read; 0: none */
  _Atomic uint8_t shards[DLP_LEASE_CELLS]; /* of the cache, where the lease may be found */
  struct dlc__bells bells;
};

/*
 * The pages of one session, counted: they stay mapped for as long as anything of the
 * session is held, also when another session has begun, for an unmapped holds page
 * says that we are dead.
 */
struct dlc__pages {
  atomic_uint refs;
  atomic_bool is_over;       /* another session has begun */
  atomic_uint retired_known; /* the header's count when the cache was last swept */
  uint64_t epoch;
  const struct dlp_grants_page *grants;
  struct dlp_holds_page *holds;
  struct dlc__cells *cells;
};

/* Takes the two mappings if it succeeds. Return: one reference; NULL if out of memory. */
struct dlc__pages *dlc__pages_new_consume(const struct dlp_grants_page *grants,
                                          struct dlp_holds_page *holds);
struct dlc__pages *dlc__pages_ref(struct dlc__pages *pages);
void dlc__pages_unref(struct dlc__pages *pages);

/* No cell from here on was ever granted; what the daemon says is not believed. */
uint32_t dlc__pages_n_cells(const struct dlc__pages *pages);
/* Has anything been retired since the last time that this said so? */
bool dlc__pages_have_retired(struct dlc__pages *pages);

/* {0} is none. */
struct dlc__lease {
  struct dlc__pages *pages; /* with a reference */
  const _Atomic uint64_t *grant;
  _Atomic uint64_t *hold;
  uint64_t version;
  uint32_t cell;
  bool is_escaped; /* since a fork; whoever uses the cell covers it */
};

/* With a reference to the pages. `cell` is in range. */
struct dlc__lease dlc__lease_of(struct dlc__pages *pages, uint32_t cell, uint64_t version);

/* What we say in the cell: `tag` of the version. */
static inline uint64_t dlc__lease_word(const struct dlc__lease *lease, uint64_t tag)
{
  return lease->version | tag | (lease->is_escaped ? DLP_HOLD_ESCAPED : 0);
}

/* Is it of a version that is published still? */
static inline bool dlc__lease_is_live(const struct dlc__lease *lease)
{
  return atomic_load_explicit(lease->grant, DLC__TAKE_ORDER) == (lease->version | DLP_GRANT_LIVE);
}

/* The same, of a session that goes on. */
static inline bool dlc__lease_is_current(const struct dlc__lease *lease)
{
  return !atomic_load_explicit(&lease->pages->is_over, memory_order_acquire) &&
         dlc__lease_is_live(lease);
}

/* The first use of a grant: it is held already, whatever becomes of the version. */
static inline void dlc__lease_begin(const struct dlc__lease *lease)
{
  atomic_store_explicit(lease->hold, dlc__lease_word(lease, DLP_HOLD_HELD), memory_order_seq_cst);
}

/* Return: whether the daemon keeps the lease; else it wants to be told of it. */
static inline bool dlc__lease_drop(const struct dlc__lease *lease)
{
  atomic_store_explicit(lease->hold, dlc__lease_word(lease, DLP_HOLD_FREE), memory_order_seq_cst);
  return dlc__lease_is_live(lease);
}

/* Return: whether it is held; else it is free, and the daemon wants to be told. */
static inline bool dlc__lease_take(const struct dlc__lease *lease)
{
  atomic_store_explicit(lease->hold, dlc__lease_word(lease, DLP_HOLD_HELD), DLC__TAKE_ORDER);
  if (dlc__lease_is_live(lease) || !DLC__TAKE_CHECKS)
    return true;
  (void)dlc__lease_drop(lease);
  return false;
}

/* A child of this process will have what it holds, for ever. */
void dlc__lease_escape(struct dlc__lease *lease);

/* Gives it back for good and forgets it; the daemon is to be told. The transport's
 * lock is held, so that nobody walks the cells meanwhile. */
void dlc__lease_return(const struct dlc__lease *lease);

/* For whoever takes answers in; the transport's lock is held. Return: false if the
 * daemon may not grant this: no such cell or version, or one that is granted already. */
bool dlc__pages_take_answer(struct dlc__pages *pages, uint32_t cell, uint64_t version);

/* It is as if the answer had never been read. */
void dlc__pages_forget_answer(struct dlc__pages *pages, uint32_t cell);

/*
 * On a new connection, before anything is sent and while no request is unanswered: the
 * grants whose answers were lost are given back, and the bells rung that may have been.
 * The transport's lock is held.
 */
void dlc__pages_walk(struct dlc__pages *pages);

#endif
