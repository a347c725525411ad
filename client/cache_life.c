/* The caches of this process: made, ended, and held still around a fork. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/cache.h"

/* Held all through a fork. Never wanted by who has a shard's lock. */
static pthread_mutex_t caches_lock = PTHREAD_MUTEX_INITIALIZER;
static struct dlp_list caches = {&caches, &caches};

static void shard_init(struct dlc__shard *shard, struct dlc__cache *cache)
{
  (void)pthread_mutex_init(&shard->lock, NULL);
  shard->cache = cache;
  dlp_list_init(&shard->holds);
  dlp_list_init(&shard->idle[0]);
  dlp_list_init(&shard->idle[1]);
}

struct dlc__cache *dlc__cache_new(void)
{
  struct dlc__cache *cache =
      (struct dlc__cache *)aligned_alloc(_Alignof(struct dlc__cache), sizeof(*cache));

  if (!cache)
    return NULL;
  memset(cache, 0, sizeof(*cache));
  /* Without randomness yet, an address will do. */
  if (getrandom(&cache->seed, sizeof(cache->seed), GRND_NONBLOCK) != sizeof(cache->seed))
    cache->seed = (uint64_t)(uintptr_t)cache;
  for (size_t i = 0; i < DLC__SHARDS; i++)
    shard_init(&cache->shards[i], cache);
  (void)pthread_mutex_lock(&caches_lock);
  dlp_list_append(&caches, &cache->link);
  (void)pthread_mutex_unlock(&caches_lock);
  return cache;
}

void dlc__cache_free(struct dlc__cache *cache)
{
  (void)pthread_mutex_lock(&caches_lock);
  dlp_list_remove(&cache->link);
  (void)pthread_mutex_unlock(&caches_lock);
  for (size_t i = 0; i < DLC__SHARDS; i++) {
    struct dlc__shard *shard = &cache->shards[i];

    assert(dlp_list_empty(&shard->holds));
    free(shard->buckets);
    (void)pthread_mutex_destroy(&shard->lock);
  }
  free(cache);
}

/* ---- fork ---- */

static void shard_freeze(struct dlc__shard *shard)
{
  (void)pthread_mutex_lock(&shard->lock);
  shard->is_frozen = true;
  dlp_list_for_each (link, &shard->holds) {
    struct dlc__hold *hold = DLP_CONTAINER(link, struct dlc__hold, cached.link);

    if (atomic_load_explicit(&hold->refs, memory_order_relaxed) > 0)
      dlc__lease_escape(&hold->lease);
  }
  (void)pthread_mutex_unlock(&shard->lock);
}

static void shard_thaw(struct dlc__shard *shard)
{
  (void)pthread_mutex_lock(&shard->lock);
  shard->is_frozen = false;
  (void)pthread_mutex_unlock(&shard->lock);
}

static void each_shard(void (*act)(struct dlc__shard *shard))
{
  dlp_list_for_each (link, &caches) {
    struct dlc__cache *cache = DLP_CONTAINER(link, struct dlc__cache, link);

    for (size_t i = 0; i < DLC__SHARDS; i++)
      act(&cache->shards[i]);
  }
}

void dlc__caches_before_fork(void)
{
  (void)pthread_mutex_lock(&caches_lock);
  each_shard(shard_freeze);
}

void dlc__caches_after_fork(void)
{
  each_shard(shard_thaw);
  (void)pthread_mutex_unlock(&caches_lock);
}

/* They are the parent's: their locks may be held by threads that are not here, and their
 * pages are not mapped. A fork of the child's own has nothing to do with them. */
void dlc__caches_after_fork_in_child(void)
{
  dlp_list_init(&caches);
  (void)pthread_mutex_unlock(&caches_lock);
}

void dlc__caches_await_fork(void)
{
  (void)pthread_mutex_lock(&caches_lock);
  (void)pthread_mutex_unlock(&caches_lock);
}
