/* All segments of the daemon: by id, slabs by payer, and the warm ones by time. */

#include <assert.h>
#include <stdlib.h>

#include "core/extents.h"

static int compare_id(const void *key, const struct dlp_tree_node *node)
{
  uint64_t a = *(const uint64_t *)key, b = DLP_CONTAINER(node, struct segment, node)->id;

  return a < b ? -1 : a > b;
}

struct slab_key {
  uint32_t realm;
  uint32_t payer;
};

static int compare_slab(const void *key, const struct dlp_tree_node *node)
{
  const struct slab_key *a = key;
  const struct pool *b = DLP_CONTAINER(node, struct pool, node);

  if (a->realm != b->realm)
    return a->realm < b->realm ? -1 : 1;
  return a->payer < b->payer ? -1 : a->payer > b->payer;
}

void segments_init(struct segments *segments, uint64_t max_bytes, uint64_t seed)
{
  *segments = (struct segments){.next_id = 1, .max_bytes = max_bytes, .seed = seed};
  dlp_tree_init(&segments->tree, compare_id, seed);
  dlp_tree_init(&segments->slabs, compare_slab, seed ^ 1);
  dlp_list_init(&segments->idle);
}

void segments_deinit(struct segments *segments)
{
  segments_tidy_slabs(segments);
  assert(segments->tree.size == 0 && segments->slabs.size == 0);
  assert(segments->held_bytes == 0 && segments->warm_bytes == 0 && segments->n_idle == 0);
}

struct segment *segments_find(const struct segments *segments, uint64_t id)
{
  struct dlp_tree_node *node = dlp_tree_find(&segments->tree, &id);

  return node ? DLP_CONTAINER(node, struct segment, node) : NULL;
}

/* ---- slabs ---- */

struct pool *segments_slab_pool(struct segments *segments, struct quota *quota, uint32_t realm,
                                uint32_t payer)
{
  struct slab_key key = {realm, payer};
  struct dlp_tree_node *node = dlp_tree_find(&segments->slabs, &key);
  struct pool *pool;

  if (node)
    return DLP_CONTAINER(node, struct pool, node);
  pool = calloc(1, sizeof(*pool));
  if (!pool)
    return NULL;
  pool_init(pool, segments, quota, realm, payer, 0);
  dlp_tree_insert(&segments->slabs, &key, &pool->node);
  return pool;
}

void segments_tidy_slabs(struct segments *segments)
{
  struct dlp_tree_node *node = dlp_tree_first(&segments->slabs);

  while (node) {
    struct dlp_tree_node *next = dlp_tree_next(node);
    struct pool *pool = DLP_CONTAINER(node, struct pool, node);
    if (dlp_list_empty(&pool->arenas)) {
      dlp_tree_remove(&segments->slabs, node);
      pool_deinit(pool);
      free(pool);
    }
    node = next;
  }
}

/* ---- warm ones ---- */

static struct segment *idle_at(struct dlp_list *link)
{
  return DLP_CONTAINER(link, struct segment, idle_link);
}

struct segment *pool_first_idle(const struct pool *pool)
{
  if (dlp_list_empty(&pool->idle))
    return NULL;
  return DLP_CONTAINER(pool->idle.next, struct segment, pool_idle_link);
}

struct segment *segments_excess(struct segments *segments, uint64_t now_us)
{
  struct segment *oldest;

  if (segments->crowded && segments->crowded->warm_bytes > POOL_WARM_MAX)
    return pool_first_idle(segments->crowded);
  segments->crowded = NULL;
  if (dlp_list_empty(&segments->idle))
    return NULL;
  oldest = idle_at(segments->idle.next);
  return oldest->idle_until <= now_us || segments->warm_bytes > SEGMENTS_WARM_MAX ? oldest : NULL;
}

uint64_t segments_next_due(const struct segments *segments)
{
  return dlp_list_empty(&segments->idle) ? UINT64_MAX : idle_at(segments->idle.next)->idle_until;
}

struct segment *segments_first_idle(const struct segments *segments, uint32_t realm, uint32_t payer,
                                    bool any)
{
  dlp_list_for_each (link, &segments->idle) {
    struct segment *segment = idle_at(link);
    const struct pool *pool = segment->arena->pool;
    if (pool->realm == realm && pool->payer == payer)
      return segment;
  }
  return any && !dlp_list_empty(&segments->idle) ? idle_at(segments->idle.next) : NULL;
}
