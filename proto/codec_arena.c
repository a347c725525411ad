/*
 * The arena. Chunks come from the heap and are freed together; small ones first,
 * so that an ordinary request costs one malloc.
 *
 * protobuf-c allocates working space for each message that it scans and frees it
 * when the message is done. Taken from a plain bump allocator, that space would be
 * most of the budget of a packet with hundreds of small messages; so large blocks
 * that are freed serve again for the next request of the same size. Small ones do
 * not: a hostile packet could make the list of them long and its search slow.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec_private.h"
#include "proto/codec.h"

#define CHUNK_FIRST 2048
#define CHUNK_MAX 65536
#define RECYCLED_MIN 1024
#define ALIGNMENT _Alignof(struct codec_block)

struct codec_chunk {
  struct codec_chunk *next;
  size_t size;
};

/* In front of what is handed out. `next` is used only once the block is freed. */
struct codec_block {
  size_t size;
  union {
    struct codec_block *next;
    uint64_t bytes[1];
  } u;
};

#define BLOCK_HEADER offsetof(struct codec_block, u)

void codec_arena_init(struct codec_arena *arena, size_t budget)
{
  *arena = (struct codec_arena){.budget = budget};
}

void codec_arena_deinit(struct codec_arena *arena)
{
  codec_arena_free(codec_arena_take(arena));
}

void *codec_arena_take(struct codec_arena *arena)
{
  void *chunks = arena->chunks;

  codec_arena_init(arena, 0);
  return chunks;
}

void codec_arena_free(void *taken)
{
  struct codec_chunk *chunk = taken;

  while (chunk) {
    struct codec_chunk *next = chunk->next;
    free(chunk);
    chunk = next;
  }
}

void codec_fail(struct codec_arena *arena, int error)
{
  if (!arena->error)
    arena->error = error;
}

/* Room for `needed` bytes: twice the last chunk within bounds, less if the budget ends. */
static bool add_chunk(struct codec_arena *arena, size_t needed)
{
  size_t size = arena->chunks ? arena->chunks->size * 2 : CHUNK_FIRST;
  struct codec_chunk *chunk;

  if (size > CHUNK_MAX)
    size = CHUNK_MAX;
  if (size < needed + sizeof(*chunk))
    size = needed + sizeof(*chunk);
  if (size > arena->budget)
    size = arena->budget;
  if (size < needed + sizeof(*chunk)) {
    codec_fail(arena, CODEC_E_MALFORMED);
    return false;
  }
  chunk = malloc(size);
  if (!chunk) {
    codec_fail(arena, -ENOMEM);
    return false;
  }
  *chunk = (struct codec_chunk){.next = arena->chunks, .size = size};
  arena->chunks = chunk;
  arena->budget -= size;
  arena->at = (uint8_t *)(chunk + 1);
  arena->left = size - sizeof(*chunk);
  return true;
}

static struct codec_block *find_recycled(struct codec_arena *arena, size_t size)
{
  for (struct codec_block **link = &arena->recycled; *link; link = &(*link)->u.next) {
    struct codec_block *block = *link;
    if (block->size != size)
      continue;
    *link = block->u.next;
    return block;
  }
  return NULL;
}

void *codec_arena_alloc(struct codec_arena *arena, size_t size)
{
  struct codec_block *block = NULL;
  size_t total;

  if (size > SIZE_MAX / 2) {
    codec_fail(arena, CODEC_E_MALFORMED);
    return NULL;
  }
  if (size >= RECYCLED_MIN)
    block = find_recycled(arena, size);
  if (block)
    return &block->u;
  total = (BLOCK_HEADER + size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (total < sizeof(*block))
    total = sizeof(*block);
  if (total > arena->left && !add_chunk(arena, total))
    return NULL;
  block = (struct codec_block *)arena->at;
  block->size = size;
  arena->at += total;
  arena->left -= total;
  return &block->u;
}

void *codec_arena_array(struct codec_arena *arena, size_t n, size_t size)
{
  void *array;

  if (n == 0)
    return NULL;
  if (n > SIZE_MAX / 2 / size) {
    codec_fail(arena, CODEC_E_MALFORMED);
    return NULL;
  }
  array = codec_arena_alloc(arena, n * size);
  if (array)
    memset(array, 0, n * size);
  return array;
}

static void *allocate(void *arena, size_t size)
{
  return codec_arena_alloc(arena, size);
}

static void recycle(void *context, void *pointer)
{
  struct codec_arena *arena = context;
  struct codec_block *block;

  if (!pointer)
    return;
  block = (struct codec_block *)((uint8_t *)pointer - BLOCK_HEADER);
  if (block->size < RECYCLED_MIN)
    return;
  block->u.next = arena->recycled;
  arena->recycled = block;
}

ProtobufCAllocator codec_arena_allocator(struct codec_arena *arena)
{
  return (ProtobufCAllocator){.alloc = allocate, .free = recycle, .allocator_data = arena};
}
