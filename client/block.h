#ifndef DLPACKD_CLIENT_BLOCK_H
#define DLPACKD_CLIENT_BLOCK_H

/*
 * Memory to fill: blocks that the daemon allotted to this process.
 *
 * A block lies in a segment that stays mapped as long as it lives (mapping.h), alone or
 * with others: once it is sealed it could never be mapped writable again, and what was
 * given up is given out again, pages still there. While it is fresh it is filled through
 * its descriptor, which is faster than faulting pages in.
 *
 * A block that is frozen or mutable is *alone*: it keeps the descriptor, is mapped on
 * demand, and both go with the block.
 *
 * Until it is published a block belongs to the session: the last reference gives
 * it back. Once its publication was sent and not answered, nobody here knows
 * whose it is; then it is left to the daemon, which frees it with the session. One that
 * was published in place is *kept*: nothing else is put there before its last reference
 * has gone, and for ever if a forked child may read it.
 *
 * A block is used by one thread at a time, but for references and its state.
 */

#include <stdatomic.h>

#include "client/handle.h"

enum dlc__block_state {
  DLC__BLOCK_OURS,      /* unpublished */
  DLC__BLOCK_ADDED,     /* to a generation that is not committed yet */
  DLC__BLOCK_PUBLISHED, /* for good */
  DLC__BLOCK_UNKNOWN,   /* the commit was not answered */
};

/* What decides who may map the memory. */
struct dlc__domain {
  uint32_t owner;
  uint32_t lifetime;
  uint32_t mode;
  uint32_t gid;
  uint32_t backend;
  bool is_mutable;
  bool is_frozen;
};

struct dlc__block {
  atomic_uint refs;
  atomic_int state; /* enum dlc__block_state */
  unsigned fork_generation;
  struct dlc_client *client; /* borrowed: who has the block has the client */
  uint64_t epoch;
  struct msg_place place; /* as the daemon gave it */
  struct dlc__domain domain;
  uint64_t ttl_ms; /* as its allocator wished; for whoever publishes it without saying */
  uint32_t flags;  /* enum msg_block_flags */
  struct dlc__mapping *mapping; /* NULL: it is alone */
  int fd;                       /* alone, or fresh and not filled yet; else -1 */
  uint64_t segment_size;        /* alone */
  uint8_t *own_base;            /* alone, if mapped */
  bool kept;                    /* the daemon waits for its last reference */
  unsigned forks;               /* that there had been when it became readable to a child */
  struct dlc__oneway give_back;
};

/* How many blocks one request can ask for: each may bring a descriptor. */
#define DLC__BLOCKS_MAX DLP_PACKET_FDS_MAX

/*
 * One round trip for `n` blocks, all or none.
 * Return: 0 with one reference to each in ret_blocks, or a negated code.
 */
int dlc__blocks_allocate(struct dlc_client *client, const struct dlc__domain *domain,
                         const struct msg_block *wanted, size_t n, struct dlc__block **ret_blocks,
                         struct dlc_error *reterr);
/*
 * An answer with places has come, whoever waits for it; the transport's lock is held.
 *
 * Only the first place in a segment brings the segment's descriptor, and threads
 * take their answers in any order: so what may be shared is mapped here, in the
 * order of the answers.
 */
void dlc__blocks_arrived(struct dlc_client *client, struct dlc__reply *reply);
/* The flags for a block in this domain. */
uint32_t dlc__block_flags(const struct dlc__domain *domain, bool in_place);

void dlc__block_ref(struct dlc__block *block);
void dlc__block_unref(struct dlc__block *block);

/* Where its first byte is in memory; maps it if need be. Return: 0 or a negated code. */
int dlc__block_map(struct dlc__block *block, uint8_t **ret, struct dlc_error *reterr);
/* Fills it from its start, in the fastest way there is. Return: 0 or a negated code. */
int dlc__block_write(struct dlc__block *block, const uint8_t *bytes, uint64_t size,
                     struct dlc_error *reterr);
/* No mapping of ours is left of one that is alone. */
void dlc__block_unmap(struct dlc__block *block);

/* To be filled in place: writable, whatever it was published as before. */
void dlc__block_open(struct dlc__block *block);
/* Before the commit, in place: every page is there, and a frozen one is read-only. */
int dlc__block_prepare(struct dlc__block *block, struct dlc_error *reterr);
/* After it was refused: writable again. */
void dlc__block_restore(struct dlc__block *block);
/* After it succeeded: read-only from here on, unless it is mutable. */
void dlc__block_protect(struct dlc__block *block);
/* It is published, and its pages were found there. */
void dlc__block_published(struct dlc__block *block, bool kept);

#endif
