#include "core/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/overflow.h"
#include "core/extents.h"

#define PAGE_SIZE UINT64_C(4096)
/* A pool's first segment in a domain; the next are as large as all before together. */
#define SEGMENT_SIZE_FIRST (UINT64_C(64) << 20)
#define SEGMENT_SIZE_SHARED_MAX (UINT64_C(4) << 30)
/* The daemon has it mapped, and must not be held up by unmapping it. */
#define SLAB_SIZE_MAX (UINT64_C(256) << 20)
/* From here on a tensor has a segment of its own: its memory goes back alone. */
#define OWN_SEGMENT_SIZE (UINT64_C(16) << 20)
#define SEGMENT_SIZE_MAX (UINT64_C(1) << 46)
_Static_assert(SEGMENT_SIZE_MAX < UINT64_C(1) << 48, "the room of a block tells it");
/* Segments whose unused end is looked at. */
#define TAILS_MAX 8

int block_compare(const void *place, const struct dlp_tree_node *node)
{
  const struct msg_place *a = place;
  const struct block *b = DLP_CONTAINER(node, struct block, node);

  if (a->segment != b->segment->id)
    return a->segment < b->segment->id ? -1 : 1;
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

void pool_init(struct pool *pool, struct segments *segments, struct quota *quota, uint32_t realm,
               uint32_t payer, uint64_t session)
{
  *pool = (struct pool){
      .segments = segments, .quota = quota, .realm = realm, .payer = payer, .session = session};
  dlp_list_init(&pool->arenas);
  dlp_list_init(&pool->idle);
}

/* ---- arenas ---- */

static bool same_domain(const struct pool_domain *a, const struct pool_domain *b)
{
  return a->owner == b->owner && a->gid == b->gid && a->mode == b->mode &&
         a->lifetime == b->lifetime && a->backend == b->backend && a->is_mutable == b->is_mutable;
}

/* Whoever had a mutable tensor mapped may write to it for ever; one that is to be frozen
 * must never have been mapped writable by what came before. */
static enum arena_kind kind_of(const struct pool_request *request)
{
  if ((request->flags & MSG_BLOCK_OWN_SEGMENT) || request->domain.is_mutable)
    return ARENA_ALONE;
  if (request->size >= OWN_SEGMENT_SIZE || request->domain.backend == MSG_BACKEND_POSIX_SHM)
    return ARENA_LARGE;
  return ARENA_SMALL;
}

static struct arena *find_arena(const struct pool *pool, const struct pool_request *request)
{
  enum arena_kind kind = kind_of(request);
  bool own_pages = (request->flags & MSG_BLOCK_OWN_PAGES) != 0;

  dlp_list_for_each (link, &pool->arenas) {
    struct arena *arena = DLP_CONTAINER(link, struct arena, link);
    if (arena->kind == kind && arena->own_pages == own_pages &&
        same_domain(&arena->domain, &request->domain))
      return arena;
  }
  return NULL;
}

static struct arena *get_arena(struct pool *pool, const struct pool_request *request)
{
  struct arena *arena = find_arena(pool, request);

  if (arena)
    return arena;
  arena = calloc(1, sizeof(*arena));
  if (!arena)
    return NULL;
  arena->pool = pool;
  arena->domain = request->domain;
  arena->kind = kind_of(request);
  arena->own_pages = (request->flags & MSG_BLOCK_OWN_PAGES) != 0;
  dlp_list_init(&arena->segments);
  extents_init(arena, pool->segments->seed);
  dlp_list_append(&pool->arenas, &arena->link);
  return arena;
}

/* One without segments is not worth keeping. */
static void tidy_arena(struct arena *arena)
{
  if (!dlp_list_empty(&arena->segments))
    return;
  dlp_list_remove(&arena->link);
  free(arena);
}

void pool_deinit(struct pool *pool)
{
  assert(dlp_list_empty(&pool->idle));
  if (pool->segments->crowded == pool)
    pool->segments->crowded = NULL;
  dlp_list_for_each (link, &pool->arenas) {
    struct arena *arena = DLP_CONTAINER(link, struct arena, link);
    dlp_list_for_each (at, &arena->segments) {
      dlp_list_remove(at);
      DLP_CONTAINER(at, struct segment, link)->arena = NULL;
    }
    tidy_arena(arena);
  }
}

/* ---- warm segments ---- */

static void set_busy(struct segment *segment)
{
  struct segments *segments = segment->segments;

  if (dlp_list_empty(&segment->idle_link))
    return;
  dlp_list_remove(&segment->idle_link);
  dlp_list_remove(&segment->pool_idle_link);
  segments->n_idle--;
  segments->warm_bytes -= segment->warm_bytes;
  segment->arena->pool->warm_bytes -= segment->warm_bytes;
}

static void set_idle(struct segment *segment, uint64_t now_us)
{
  struct segments *segments = segment->segments;
  struct pool *pool = segment->arena->pool;
  struct dlp_list *at = &segments->idle;

  if (!dlp_list_empty(&segment->idle_link))
    return;
  segment->idle_until = now_us + (pool->session == 0 ? POOL_SLAB_WARM_US : POOL_WARM_US);
  while (at->previous != &segments->idle &&
         DLP_CONTAINER(at->previous, struct segment, idle_link)->idle_until > segment->idle_until)
    at = at->previous;
  dlp_list_insert_before(&segment->idle_link, at);
  dlp_list_append(&pool->idle, &segment->pool_idle_link);
  segments->n_idle++;
  segment->warm_bytes = segment->mark;
  segments->warm_bytes += segment->warm_bytes;
  pool->warm_bytes += segment->warm_bytes;
  if (pool->warm_bytes > POOL_WARM_MAX)
    segments->crowded = pool;
}

static bool may_be_used_again(const struct segment *segment)
{
  return segment->made && segment->arena && !segment->alone && !segment->frozen &&
         segment->n_dead == 0;
}

/* Return: the segment, if nothing is in use in it and nothing will be. */
static struct segment *settle(struct segment *segment, uint64_t now_us)
{
  if (segment->n_blocks > 0)
    return NULL;
  if (!may_be_used_again(segment))
    return segment;
  set_idle(segment, now_us);
  return NULL;
}

/* ---- placing ---- */

static uint64_t unit_of(const struct arena *arena)
{
  return arena->kind != ARENA_SMALL || arena->own_pages ? PAGE_SIZE : DLP_TENSOR_ALIGN;
}

/* One without bytes takes some, so that every block starts somewhere else. */
static uint64_t room_for(const struct arena *arena, uint64_t size)
{
  uint64_t unit = unit_of(arena);

  return size == 0 ? unit : (size + unit - 1) & ~(unit - 1);
}

/* Pays for a block more, and for moving the mark of `segment` by `bytes`. */
static int charge(struct pool *pool, struct segment *segment, uint64_t bytes, bool is_new,
                  uint64_t memory_available, struct quota_refusal *refusal)
{
  struct segments *segments = pool->segments;
  struct quota_sum sum = {
      .of = {
          [QUOTA_BYTES] = bytes, [QUOTA_SEGMENTS] = is_new, [QUOTA_HEAP] = sizeof(struct block)}};
  uint64_t after;
  int r;

  if (!dlp_add_u64(segments->held_bytes, bytes, &after) ||
      (bytes > 0 && after > segments->max_bytes)) {
    *refusal = (struct quota_refusal){.slot = QUOTA_BYTES,
                                      .limit = segments->max_bytes,
                                      .used = segments->held_bytes,
                                      .wanted = bytes};
    return POOL_E_LIMIT;
  }
  if (bytes > memory_available) {
    *refusal =
        (struct quota_refusal){.slot = QUOTA_BYTES, .limit = memory_available, .wanted = bytes};
    return POOL_E_MEMORY;
  }
  r = quota_charge(pool->quota, &segment->charge, pool->realm, pool->payer, &sum, refusal);
  if (r != 0)
    return r == QUOTA_E_EXCEEDED ? POOL_E_QUOTA : r;
  segments->held_bytes = after;
  segment->mark += bytes;
  return 0;
}

static void uncharge_blocks(struct segment *segment, size_t n)
{
  quota_charge_less(&segment->charge,
                    &(struct quota_sum){.of = {[QUOTA_HEAP] = n * sizeof(struct block)}});
}

/* The smallest that has room; a large segment must be used by half at least. */
static struct block *find_free(const struct arena *arena, uint64_t room)
{
  struct block *block = arena->kind == ARENA_ALONE ? NULL : extents_find(arena, room);

  return block && arena->kind == ARENA_LARGE && block->room / 2 > room ? NULL : block;
}

/* A piece of what was in use before. */
static int reuse(struct pool *pool, struct block *block, uint64_t room,
                 struct quota_refusal *refusal)
{
  struct segment *segment = block->segment;
  struct block *rest = NULL;
  int r;

  if (!segment->own && block->room > room) {
    rest = calloc(1, sizeof(*rest));
    if (!rest)
      return -ENOMEM;
    r = charge(pool, segment, 0, false, UINT64_MAX, refusal);
    if (r != 0) {
      free(rest);
      return r;
    }
  }
  extents_take(block);
  if (rest)
    extents_split(block, room, rest);
  pool->segments->n_reused++;
  return 0;
}

/* The newest that has room behind its mark. */
static struct segment *find_tail(const struct arena *arena, const struct pool_request *request,
                                 uint64_t room)
{
  struct dlp_list *link = arena->segments.previous;

  for (size_t n = 0; link != &arena->segments && n < TAILS_MAX; n++, link = link->previous) {
    struct segment *segment = DLP_CONTAINER(link, struct segment, link);
    if (!segment->made && segment->batch != request->batch)
      continue; /* it may yet turn out that it cannot be made */
    if (room <= segment->size - segment->mark)
      return segment;
  }
  return NULL;
}

static uint64_t shared_size(const struct arena *arena)
{
  uint64_t max = arena->pool->session == 0 ? SLAB_SIZE_MAX : SEGMENT_SIZE_SHARED_MAX;
  uint64_t size = SEGMENT_SIZE_FIRST;

  while (size < arena->total && size < max)
    size *= 2;
  return size;
}

static struct segment *new_segment(struct arena *arena, const struct pool_request *request,
                                   uint64_t room)
{
  struct segments *segments = arena->pool->segments;
  struct segment *segment = calloc(1, sizeof(*segment));

  if (!segment)
    return NULL;
  segment->segments = segments;
  segment->arena = arena;
  segment->id = segments->next_id++;
  segment->own = arena->kind != ARENA_SMALL;
  segment->alone = arena->kind == ARENA_ALONE;
  segment->size = segment->own ? room : shared_size(arena);
  segment->session = arena->pool->session;
  segment->batch = request->batch;
  segment->domain = request->domain;
  dlp_list_init(&segment->known);
  dlp_list_init(&segment->blocks);
  dlp_list_init(&segment->idle_link);
  dlp_list_init(&segment->pool_idle_link);
  dlp_tree_insert(&segments->tree, &segment->id, &segment->node);
  dlp_list_append(&arena->segments, &segment->link);
  arena->total += segment->size;
  return segment;
}

/* Takes it out of everything, but leaves its arena. */
static void discard(struct segment *segment)
{
  struct segments *segments = segment->segments;

  dlp_list_for_each (link, &segment->blocks) {
    struct block *block = DLP_CONTAINER(link, struct block, link);
    assert(!block->kept);
    if (block->state == BLOCK_FREE)
      extents_take(block);
    free(block);
  }
  dlp_tree_remove(&segments->tree, &segment->node);
  segments->held_bytes -= segment->mark;
  quota_charge_deinit(&segment->charge);
  if (segment->arena) {
    dlp_list_remove(&segment->link);
    segment->arena->total -= segment->size;
  }
  free(segment);
}

/* Bytes that were never in use. */
static int place_fresh(struct arena *arena, const struct pool_request *request, uint64_t room,
                       struct block **ret, struct quota_refusal *refusal)
{
  struct segment *segment = arena->kind == ARENA_SMALL ? find_tail(arena, request, room) : NULL;
  struct segment *fresh = NULL;
  struct block *block = calloc(1, sizeof(*block));
  int r;

  if (!block)
    return -ENOMEM;
  if (!segment)
    segment = fresh = new_segment(arena, request, room);
  if (!segment) {
    free(block);
    return -ENOMEM;
  }
  *block = (struct block){.segment = segment, .offset = segment->mark, .room = room};
  r = charge(arena->pool, segment, room, fresh != NULL, request->memory_available, refusal);
  if (r != 0) {
    free(block);
    if (fresh)
      discard(fresh);
    return r;
  }
  dlp_list_append(&segment->blocks, &block->link);
  segment->segments->n_made += fresh != NULL;
  segment->segments->n_fresh++;
  *ret = block;
  return 0;
}

static int place(struct arena *arena, const struct pool_request *request, struct block **ret,
                 struct quota_refusal *refusal)
{
  uint64_t room = room_for(arena, request->size);

  *ret = find_free(arena, room);
  if (*ret)
    return reuse(arena->pool, *ret, room, refusal);
  return place_fresh(arena, request, room, ret, refusal);
}

int pool_place(struct pool *pool, const struct pool_request *request, struct block **ret,
               struct quota_refusal *refusal)
{
  struct arena *arena;
  struct block *block;
  int r;

  if (request->size > SEGMENT_SIZE_MAX)
    return POOL_E_SIZE;
  arena = get_arena(pool, request);
  if (!arena)
    return -ENOMEM;
  r = place(arena, request, &block, refusal);
  if (r != 0) {
    tidy_arena(arena);
    return r;
  }
  set_busy(block->segment);
  block->segment->n_blocks++;
  block->size = request->size;
  block->state = BLOCK_USED;
  block->escaped = block->kept = block->keep = false;
  *ret = block;
  return 0;
}

/* ---- giving up ---- */

static void give(struct block *block)
{
  struct segment *segment = block->segment;

  if (block->kept) {
    block->state = BLOCK_KEPT;
  } else if (block->escaped) {
    block->state = BLOCK_DEAD;
    segment->n_dead++;
  } else {
    uncharge_blocks(segment, extents_give(block));
  }
}

struct segment *block_free(struct block *block, uint64_t now_us)
{
  struct segment *segment = block->segment;

  assert(block->state == BLOCK_USED && segment->n_blocks > 0);
  segment->n_blocks--;
  give(block);
  return settle(segment, now_us);
}

struct segment *block_let_go(struct block *block, uint64_t now_us)
{
  struct segment *segment = block->segment;

  assert(block->kept);
  block->kept = false;
  if (block->state == BLOCK_USED)
    return NULL;
  assert(block->state == BLOCK_KEPT);
  give(block);
  return settle(segment, now_us);
}

void segment_free(struct segment *segment)
{
  struct arena *arena = segment->arena;

  assert(segment->n_blocks == 0);
  assert(dlp_list_empty(&segment->known));
  set_busy(segment);
  discard(segment);
  if (arena)
    tidy_arena(arena);
}
