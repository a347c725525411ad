#ifndef DLPACKD_CORE_POOL_H
#define DLPACKD_CORE_POOL_H

/*
 * Placement: which bytes of which segment a tensor gets.
 *
 * A segment belongs to one producer and one access domain; whoever may map it may
 * read all of it, so nothing of another domain ever lies in it. It is filled from its
 * start, and bytes that were given up are given out again, pages still there, to the
 * same producer for the same domain. Not those that somebody may look at for ever
 * (`escaped`), nor those that the producer has a pointer into (`kept`): they go with
 * their segment.
 *
 * A segment without a block in use is *warm* for a while, then dropped; how much is
 * warm is bounded. Bytes within a sealed segment cannot be given back to the host
 * alone, so what lies free between blocks waits for its producer or for the segment's
 * end.
 *
 * Small inline tensors lie in *slabs*: segments that the daemon fills, which belong to
 * no session but to a payer and a domain.
 *
 * Charged is what segments hold (the mark up to which they were handed out), not
 * what tensors need.
 *
 * Pure: it decides; making the memory is an effect. One owner thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"
#include "common/tree.h"
#include "core/quota.h"
#include "proto/message.h"

/* Of one producer, and of all together, so much may be warm. */
#define POOL_WARM_MAX (UINT64_C(4) << 30)
#define SEGMENTS_WARM_MAX (UINT64_C(16) << 30)

/* How long an unused segment stays warm. A slab is quickly made anew. */
#define POOL_WARM_US UINT64_C(2000000)
#define POOL_SLAB_WARM_US UINT64_C(500000)

/* Who may map a segment, and how long it is wanted. */
struct pool_domain {
  uint32_t owner;
  uint32_t gid;
  uint32_t mode;
  uint32_t lifetime;
  uint32_t backend;
  bool is_mutable;
};

struct segment {
  struct dlp_tree_node node;
  struct segments *segments;
  struct arena *arena;            /* NULL: its producer is gone, nothing is placed any more */
  struct dlp_list link;           /* arena->segments */
  struct dlp_list known;          /* struct segment_view: which sessions know it */
  struct dlp_list blocks;         /* struct block.link: all of [0, mark), by offset */
  struct dlp_list idle_link;      /* segments->idle, while it is warm */
  struct dlp_list pool_idle_link; /* pool->idle, likewise */
  uint64_t idle_until;
  uint64_t warm_bytes; /* as it is counted while it is warm */
  uint64_t id;         /* never used again */
  uint64_t size;
  uint64_t mark;     /* handed out up to here */
  uint64_t n_blocks; /* that are in use */
  uint64_t n_dead;   /* that are not and never will be */
  uint64_t session;  /* the producer's; 0: a slab */
  uint64_t batch;    /* of the request it was first placed for */
  uint64_t planned;  /* the last commit that has its seal in its plan */
  struct pool_domain domain;
  bool own;   /* holds one block, by its size or by wish */
  bool alone; /* by wish, or for what it holds: never used again */
  bool made;  /* the edge has made it */
  bool sealed;
  bool frozen;
  struct quota_charge charge;
};

enum block_state {
  BLOCK_USED, /* allotted, staged, or of a version that is not free yet */
  BLOCK_KEPT, /* its version is gone, but the producer keeps a pointer into it */
  BLOCK_DEAD, /* may be looked at for ever, by whom nobody knows */
  BLOCK_FREE,
};

/* Bytes of a segment. Blocks cover a segment up to its mark, without gaps; no two
 * that are free touch. */
struct block {
  struct dlp_tree_node node; /* used or kept: its session's; free: arena->free */
  struct dlp_list link;      /* segment->blocks */
  struct segment *segment;
  uint64_t offset;
  uint64_t size; /* as it was asked for */
  /* A segment has at most SEGMENT_SIZE_MAX, 2^46, bytes. */
  uint64_t room : 48; /* up to the next one */
  uint64_t state : 2; /* enum block_state */
  bool escaped : 1;   /* somebody who forked held it: never written again */
  bool kept : 1;      /* the producer keeps a pointer into it; in its session's tree */
  bool keep : 1;      /* it will, once this is published */
};

/* Of one pool and domain: what is alike in how it is placed. */
struct arena;

/* All segments of the daemon. */
struct segments {
  struct dlp_tree tree;
  struct dlp_tree slabs; /* struct pool.node, by realm and payer */
  struct dlp_list idle;  /* struct segment.idle_link, by idle_until */
  struct pool *crowded;  /* perhaps over its bound of warm memory */
  uint64_t seed;
  uint64_t next_id;
  uint64_t max_bytes;
  uint64_t held_bytes; /* sum of the marks */
  uint64_t n_idle;
  uint64_t warm_bytes; /* of the idle ones */
  uint64_t n_made;     /* since the start */
  uint64_t n_reused;   /* blocks that were, */
  uint64_t n_fresh;    /* and were not placed where one had been before */
};

/* One producer's. */
struct pool {
  struct dlp_tree_node node; /* segments->slabs, of a slab's */
  struct segments *segments;
  struct quota *quota;
  struct dlp_list arenas;
  struct dlp_list idle; /* struct segment.pool_idle_link, oldest first */
  uint64_t warm_bytes;
  uint32_t realm;
  uint32_t payer;
  uint64_t session; /* 0: the daemon itself */
};

enum {
  POOL_E_LIMIT = 1, /* over the daemon's max_bytes */
  POOL_E_MEMORY,    /* over what the host has available */
  POOL_E_QUOTA,     /* over the payer's quota; the refusal says which slot */
  POOL_E_SIZE,      /* no segment can be that large */
};

struct pool_request {
  struct pool_domain domain;
  uint64_t size;
  uint32_t flags; /* enum msg_block_flags */
  uint64_t batch; /* blocks of one request have the same, not 0 */
  uint64_t memory_available;
};

/* Compares a struct msg_place (segment and offset) with a struct block's node. */
int block_compare(const void *place, const struct dlp_tree_node *node);

void segments_init(struct segments *segments, uint64_t max_bytes, uint64_t seed);
void segments_deinit(struct segments *segments); /* asserts that none is left */
struct segment *segments_find(const struct segments *segments, uint64_t id);

/* The slabs of a payer. Return: NULL if out of memory. */
struct pool *segments_slab_pool(struct segments *segments, struct quota *quota, uint32_t realm,
                                uint32_t payer);
/* Frees the pools of slabs that have none any more. */
void segments_tidy_slabs(struct segments *segments);

void pool_init(struct pool *pool, struct segments *segments, struct quota *quota, uint32_t realm,
               uint32_t payer, uint64_t session);
/* Segments that hold blocks live on without their producer. None may be warm. */
void pool_deinit(struct pool *pool);

/*
 * Finds room: where a block was before, else in a segment that is there, else in a new
 * one (segment->made is false: the caller has it made, or gives the block back).
 * Return: 0, -ENOMEM, or POOL_E_*.
 */
int pool_place(struct pool *pool, const struct pool_request *request, struct block **ret,
               struct quota_refusal *refusal);

/*
 * Its version is gone, or it never had one. It is the pool's again, in due time; if it is
 * not kept it must be in no tree. Return: its segment if that is to be dropped now by the
 * caller, with segment_free(); else NULL.
 */
struct segment *block_free(struct block *block, uint64_t now_us);
/* The producer has no pointer into it any more, and it is in no tree. Return: as above. */
struct segment *block_let_go(struct block *block, uint64_t now_us);

/* The next warm segment to drop, because its time has come or there are too many;
 * NULL: none. */
struct segment *segments_excess(struct segments *segments, uint64_t now_us);
/* When that changes by itself; UINT64_MAX: never. */
uint64_t segments_next_due(const struct segments *segments);
/* A warm segment that `payer` pays for, or else, with `any`, anybody's; NULL: none. */
struct segment *segments_first_idle(const struct segments *segments, uint32_t realm, uint32_t payer,
                                    bool any);
/* The oldest warm segment of a pool, or NULL. */
struct segment *pool_first_idle(const struct pool *pool);

/* Takes it out of everything, with its blocks; none may be in use or in a tree of a
 * session, and it must be known to nobody. */
void segment_free(struct segment *segment);

#endif
