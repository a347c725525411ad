#ifndef DLPACKD_CORE_EXTENTS_H
#define DLPACKD_CORE_EXTENTS_H

/*
 * The blocks within a segment: cut in two, put together, found by their room.
 *
 * A block that is given up becomes the free extent itself, so giving up allocates
 * nothing and cannot fail.
 *
 * Pure. One owner thread; for pool.c alone.
 */

#include "core/pool.h"

/* What is placed alike: never mixed in one segment. */
enum arena_kind {
  ARENA_SMALL, /* many blocks in a segment */
  ARENA_LARGE, /* one block in a segment */
  ARENA_ALONE, /* likewise, and the segment is not used again */
};

struct arena {
  struct dlp_list link; /* pool->arenas */
  struct pool *pool;
  struct pool_domain domain;
  enum arena_kind kind;
  bool own_pages; /* the producer changes what may be done with these pages */
  struct dlp_list segments;
  struct dlp_tree free; /* struct block.node, by room */
  uint64_t total;       /* of the sizes of the segments */
};

void extents_init(struct arena *arena, uint64_t seed);

/* The smallest free block with this much room, or NULL. */
struct block *extents_find(const struct arena *arena, uint64_t room);
/* Takes a free block out, to be used. */
void extents_take(struct block *block);
/* Cuts off what `block`, which is in use, has beyond `room`: `rest` becomes that, free. */
void extents_split(struct block *block, uint64_t room, struct block *rest);
/* `block` is free from here on, as part of its neighbours if they are. Return: how many
 * blocks it and they were less; those are freed. */
size_t extents_give(struct block *block);

#endif
