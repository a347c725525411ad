#include "core/extents.h"

#include <assert.h>
#include <stdlib.h>

struct extent_key {
  uint64_t room;
  uint64_t segment;
  uint64_t offset;
};

static struct extent_key key_of(const struct block *block)
{
  return (struct extent_key){block->room, block->segment->id, block->offset};
}

static int compare(const void *key, const struct dlp_tree_node *node)
{
  const struct extent_key *a = key;
  const struct extent_key b = key_of(DLP_CONTAINER(node, struct block, node));

  if (a->room != b.room)
    return a->room < b.room ? -1 : 1;
  if (a->segment != b.segment)
    return a->segment < b.segment ? -1 : 1;
  return a->offset < b.offset ? -1 : a->offset > b.offset;
}

void extents_init(struct arena *arena, uint64_t seed)
{
  dlp_tree_init(&arena->free, compare, seed);
}

/* What cannot be given out is not looked for: its producer is gone, or it is not made. */
static bool is_indexed(const struct segment *segment)
{
  return segment->arena && segment->made;
}

static void insert(struct block *block)
{
  struct extent_key key = key_of(block);

  if (is_indexed(block->segment))
    dlp_tree_insert(&block->segment->arena->free, &key, &block->node);
}

static void take_out(struct block *block)
{
  if (is_indexed(block->segment))
    dlp_tree_remove(&block->segment->arena->free, &block->node);
}

struct block *extents_find(const struct arena *arena, uint64_t room)
{
  struct extent_key key = {.room = room};
  struct dlp_tree_node *node = dlp_tree_lower_bound(&arena->free, &key);

  return node ? DLP_CONTAINER(node, struct block, node) : NULL;
}

void extents_take(struct block *block)
{
  assert(block->state == BLOCK_FREE);
  take_out(block);
  block->state = BLOCK_USED;
}

void extents_split(struct block *block, uint64_t room, struct block *rest)
{
  assert(block->state == BLOCK_USED && room < block->room);
  *rest = (struct block){.segment = block->segment,
                         .offset = block->offset + room,
                         .room = block->room - room,
                         .state = BLOCK_FREE};
  block->room = room;
  dlp_list_insert_before(&rest->link, block->link.next);
  insert(rest);
}

/* `next` follows `block`, and becomes part of it. */
static void absorb(struct block *block, struct block *next)
{
  assert(next->offset == block->offset + block->room);
  block->room += next->room;
  dlp_list_remove(&next->link);
  free(next);
}

static struct block *free_neighbour(const struct block *block, struct dlp_list *link)
{
  struct block *other = DLP_CONTAINER(link, struct block, link);

  return link != &block->segment->blocks && other->state == BLOCK_FREE ? other : NULL;
}

size_t extents_give(struct block *block)
{
  struct block *previous = free_neighbour(block, block->link.previous);
  struct block *next = free_neighbour(block, block->link.next);
  size_t n = 0;

  block->state = BLOCK_FREE;
  if (next) {
    take_out(next);
    absorb(block, next);
    n++;
  }
  if (previous) {
    take_out(previous);
    absorb(previous, block);
    block = previous;
    n++;
  }
  insert(block);
  return n;
}
