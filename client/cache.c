#include "client/cache.h"

#include <stdlib.h>
#include <string.h>

/* What may stay idle. Each shard has its part of the first. */
#define IDLE_MAX 65536
/* Of large tensors, which mostly have a mapping of their own, counted while they are in
 * the cache, in use or not, so that using one writes nothing that others read. */
#define LARGE (UINT64_C(1) << 20)
#define LARGE_MAX 1024
#define LARGE_SIZE_MAX (UINT64_C(4) << 30)

#define BUCKETS_FIRST 16

static void shard_lock(struct dlc__shard *shard)
{
  (void)pthread_mutex_lock(&shard->lock);
  while (shard->is_frozen) {
    (void)pthread_mutex_unlock(&shard->lock);
    dlc__caches_await_fork();
    (void)pthread_mutex_lock(&shard->lock);
  }
}

static void shard_unlock(struct dlc__shard *shard)
{
  (void)pthread_mutex_unlock(&shard->lock);
}

/* ---- the table; the shard's lock is held ---- */

/* Names may come from others (by a prefix): the seed keeps them from choosing a bucket. */
static uint64_t cache_hash(const struct dlc__cache *cache, const char *name, size_t size)
{
  const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
  uint64_t hash = cache->seed ^ size;
  uint64_t word;

  for (; size >= sizeof(word); size -= sizeof(word), name += sizeof(word)) {
    memcpy(&word, name, sizeof(word));
    hash = (hash ^ word) * factor;
    hash ^= hash >> 32;
  }
  word = 0;
  for (size_t i = 0; i < size; i++)
    word = word << 8 | (unsigned char)name[i];
  hash = (hash ^ word) * factor;
  hash = (hash ^ hash >> 32) * factor;
  return hash ^ hash >> 32;
}

static struct dlc__shard *cache_shard(struct dlc__cache *cache, uint64_t hash)
{
  return &cache->shards[hash >> 58];
}
_Static_assert(DLC__SHARDS == 1 << (64 - 58), "the upper bits of a hash choose the shard");

static struct dlc__hold **shard_bucket(struct dlc__shard *shard, uint64_t hash)
{
  return &shard->buckets[hash & (shard->n_buckets - 1)];
}

static struct dlc__hold *shard_find(struct dlc__shard *shard, uint64_t hash, const char *name)
{
  struct dlc__hold *hold = shard->n_buckets > 0 ? *shard_bucket(shard, hash) : NULL;

  while (hold && (hold->cached.hash != hash || strcmp(hold->cached.name, name) != 0))
    hold = hold->cached.next;
  return hold;
}

/* A table that cannot grow has longer chains. */
static void shard_grow(struct dlc__shard *shard)
{
  size_t n = shard->n_buckets > 0 ? 2 * shard->n_buckets : BUCKETS_FIRST;
  struct dlc__hold **old = shard->buckets, **buckets;
  size_t n_old = shard->n_buckets;

  if (shard->n_named < shard->n_buckets)
    return;
  buckets = (struct dlc__hold **)calloc(n, sizeof(*buckets));
  if (!buckets)
    return;
  shard->buckets = buckets;
  shard->n_buckets = n;
  for (size_t i = 0; i < n_old; i++) {
    for (struct dlc__hold *hold = old[i], *next; hold; hold = next) {
      struct dlc__hold **bucket = shard_bucket(shard, hold->cached.hash);

      next = hold->cached.next;
      hold->cached.next = *bucket;
      *bucket = hold;
    }
  }
  free(old);
}

static bool hold_is_large(const struct dlc__hold *hold)
{
  return hold->info && hold->info->nbytes >= LARGE;
}

static void shard_name(struct dlc__shard *shard, struct dlc__hold *hold, char *name, uint64_t hash)
{
  struct dlc__hold **bucket;

  shard_grow(shard);
  if (shard->n_buckets == 0) {
    free(name);
    return;
  }
  bucket = shard_bucket(shard, hash);
  hold->cached.name = name;
  hold->cached.hash = hash;
  hold->cached.next = *bucket;
  *bucket = hold;
  shard->n_named++;
  if (hold_is_large(hold)) {
    atomic_fetch_add_explicit(&shard->cache->n_large, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&shard->cache->large_size, hold->info->nbytes, memory_order_relaxed);
  }
}

static void shard_unname(struct dlc__shard *shard, struct dlc__hold *hold)
{
  struct dlc__hold **at = shard_bucket(shard, hold->cached.hash);

  while (*at != hold)
    at = &(*at)->cached.next;
  *at = hold->cached.next;
  free(DLP_TAKE(hold->cached.name));
  shard->n_named--;
  if (hold_is_large(hold)) {
    atomic_fetch_sub_explicit(&shard->cache->n_large, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&shard->cache->large_size, hold->info->nbytes, memory_order_relaxed);
  }
}

/* ---- what is idle; the shard's lock is held ---- */

static void shard_set_idle(struct dlc__shard *shard, struct dlc__hold *hold)
{
  dlp_list_append(&shard->idle[hold_is_large(hold)], &hold->cached.idle);
  shard->n_idle++;
}

static void shard_set_busy(struct dlc__shard *shard, struct dlc__hold *hold)
{
  dlp_list_remove(&hold->cached.idle);
  shard->n_idle--;
}

/* Takes one that nobody uses out of the shard: it is the caller's to end, after the lock. */
static void shard_take_out(struct dlc__shard *shard, struct dlc__hold *hold, struct dlp_list *ended)
{
  if (!dlp_list_empty(&hold->cached.idle))
    shard_set_busy(shard, hold);
  if (hold->cached.name)
    shard_unname(shard, hold);
  dlp_list_remove(&hold->cached.link);
  dlp_list_append(ended, &hold->cached.idle);
}

static bool cache_has_too_many_large(const struct dlc__cache *cache)
{
  return atomic_load_explicit(&cache->n_large, memory_order_relaxed) > LARGE_MAX ||
         atomic_load_explicit(&cache->large_size, memory_order_relaxed) > LARGE_SIZE_MAX;
}

static struct dlc__hold *idle_at(struct dlp_list *link)
{
  return DLP_CONTAINER(link, struct dlc__hold, cached.idle);
}

static void shard_keep_bounds(struct dlc__shard *shard, struct dlp_list *ended)
{
  while (!dlp_list_empty(&shard->idle[1]) && cache_has_too_many_large(shard->cache))
    shard_take_out(shard, idle_at(shard->idle[1].next), ended);
  while (shard->n_idle > IDLE_MAX / DLC__SHARDS) {
    bool large = dlp_list_empty(&shard->idle[0]);

    shard_take_out(shard, idle_at(shard->idle[large].next), ended);
  }
}

static void end_all(struct dlp_list *ended)
{
  dlp_list_for_each (link, ended) {
    struct dlc__hold *hold = idle_at(link);

    dlp_list_remove(link);
    dlc__hold_end(hold);
  }
}

/* ---- taking and dropping ---- */

/* Counts one more user in. Return: false if the version is retired. The lock is held. */
static bool shard_take(struct dlc__shard *shard, struct dlc__hold *hold)
{
  if (atomic_load_explicit(&hold->refs, memory_order_relaxed) > 0) {
    if (!dlc__lease_is_current(&hold->lease))
      return false;
    atomic_fetch_add_explicit(&hold->refs, 1, memory_order_relaxed);
    return true;
  }
  if (atomic_load_explicit(&hold->lease.pages->is_over, memory_order_acquire) ||
      !dlc__lease_take(&hold->lease))
    return false;
  shard_set_busy(shard, hold);
  atomic_store_explicit(&hold->refs, 1, memory_order_relaxed);
  return true;
}

/* It is not the newest any more. The lock is held. */
static void shard_supersede(struct dlc__shard *shard, struct dlc__hold *hold,
                            struct dlp_list *ended)
{
  if (atomic_load_explicit(&hold->refs, memory_order_relaxed) == 0)
    shard_take_out(shard, hold, ended);
  else
    shard_unname(shard, hold);
}

static bool hold_is_wanted(const struct dlc__hold *hold, const struct dlc__wanted *wanted)
{
  uint64_t version = hold->lease.version;

  return (wanted->version == 0 || wanted->version == version) && version > wanted->newer_than;
}

struct dlc__hold *dlc__cache_get(struct dlc__cache *cache, const char *name,
                                 const struct dlc__wanted *wanted)
{
  uint64_t hash = cache_hash(cache, name, strlen(name));
  struct dlc__shard *shard = cache_shard(cache, hash);
  struct dlc__hold *hold;
  struct dlp_list ended;

  shard_lock(shard);
  hold = shard_find(shard, hash, name);
  if (!hold || !hold_is_wanted(hold, wanted)) {
    shard_unlock(shard);
    return NULL;
  }
  if (shard_take(shard, hold)) {
    shard_unlock(shard);
    return hold;
  }
  dlp_list_init(&ended);
  shard_supersede(shard, hold, &ended);
  shard_unlock(shard);
  end_all(&ended);
  return NULL;
}

/* Return: whether it stays in the cache, idle. The lock is held. */
static bool shard_drop_last(struct dlc__shard *shard, struct dlc__hold *hold)
{
  bool is_live;

  if (!hold->cached.name || shard->is_closed ||
      atomic_load_explicit(&hold->lease.pages->is_over, memory_order_acquire))
    return false;
  if (DLC__COUNT_IS_NAIVE) {
    struct dlc__lease lease = hold->lease;

    shard_set_idle(shard, hold);
    shard_unlock(shard);
    (void)dlc__lease_drop(&lease);
    shard_lock(shard);
    return true;
  }
  is_live = dlc__lease_drop(&hold->lease);
  if (is_live)
    shard_set_idle(shard, hold);
  return is_live;
}

void dlc__cache_drop(struct dlc__hold *hold)
{
  struct dlc__shard *shard = hold->cached.shard;
  struct dlp_list ended;

  dlp_list_init(&ended);
  shard_lock(shard);
  /* Whoever counts himself in has a reference, or this lock. */
  if (atomic_load_explicit(&hold->refs, memory_order_acquire) > 1) {
    if (atomic_fetch_sub_explicit(&hold->refs, 1, memory_order_acq_rel) > 1) {
      shard_unlock(shard);
      return;
    }
  } else {
    atomic_store_explicit(&hold->refs, 0, memory_order_relaxed);
  }
  if (!shard_drop_last(shard, hold))
    shard_take_out(shard, hold, &ended);
  else if (shard->n_idle > IDLE_MAX / DLC__SHARDS || hold_is_large(hold))
    shard_keep_bounds(shard, &ended);
  shard_unlock(shard);
  end_all(&ended);
}

/* ---- what is new ---- */

/* May it be found by this name? It may not if one of the same version is. */
static bool shard_makes_way(struct dlc__shard *shard, const struct dlc__hold *hold,
                            const char *name, uint64_t hash, struct dlp_list *ended)
{
  struct dlc__hold *other = shard_find(shard, hash, name);

  if (!other)
    return true;
  if (other->lease.pages == hold->lease.pages && other->lease.version >= hold->lease.version)
    return false;
  shard_supersede(shard, other, ended);
  return true;
}

void dlc__cache_add(struct dlc__cache *cache, struct dlc__hold *hold, const char *name)
{
  uint64_t hash = name ? cache_hash(cache, name, strlen(name)) : (uint64_t)hold->lease.cell << 58;
  struct dlc__shard *shard = cache_shard(cache, hash);
  char *copy = name ? strdup(name) : NULL;
  struct dlp_list ended;

  dlp_list_init(&ended);
  hold->cached.shard = shard;
  dlp_list_init(&hold->cached.idle);
  atomic_store_explicit(&hold->lease.pages->cells->shards[hold->lease.cell],
                        (uint8_t)(shard - cache->shards), memory_order_relaxed);
  shard_lock(shard);
  dlp_list_append(&shard->holds, &hold->cached.link);
  dlc__lease_begin(&hold->lease);
  if (copy && !shard->is_closed && shard_makes_way(shard, hold, copy, hash, &ended))
    shard_name(shard, hold, DLP_TAKE(copy), hash);
  shard_unlock(shard);
  free(copy);
  end_all(&ended);
}

bool dlc__cache_knows_none_above(struct dlc__cache *cache, const char *name, uint64_t version)
{
  uint64_t hash = cache_hash(cache, name, strlen(name));
  struct dlc__shard *shard = cache_shard(cache, hash);
  const struct dlc__hold *hold;
  bool is_known;

  shard_lock(shard);
  hold = shard_find(shard, hash, name);
  is_known = hold && dlc__lease_is_current(&hold->lease) && hold->lease.version <= version;
  shard_unlock(shard);
  return is_known;
}

/* ---- letting go ---- */

static void shard_sweep(struct dlc__shard *shard, bool all, struct dlp_list *ended)
{
  for (int i = 0; i < 2; i++) {
    dlp_list_for_each (link, &shard->idle[i]) {
      struct dlc__hold *hold = idle_at(link);

      if (all || !dlc__lease_is_current(&hold->lease))
        shard_take_out(shard, hold, ended);
    }
  }
}

/* Return: whether there was anything to let go of. */
static bool cache_sweep_shard(struct dlc__shard *shard, bool all, bool close)
{
  struct dlp_list ended;
  bool any;

  dlp_list_init(&ended);
  shard_lock(shard);
  shard->is_closed = shard->is_closed || close;
  shard_sweep(shard, all, &ended);
  shard_unlock(shard);
  any = !dlp_list_empty(&ended);
  end_all(&ended);
  return any;
}

/* Shards in which something of the session is not live, found without a look at each
 * hold: two arrays are read in order. */
static uint64_t pages_find_retired(const struct dlc__pages *pages)
{
  uint32_t n = dlc__pages_n_cells(pages);
  uint64_t shards = 0;

  for (uint32_t cell = 0; cell < n; cell++) {
    uint64_t taken = atomic_load_explicit(&pages->cells->taken[cell], memory_order_relaxed);

    if (taken != 0 && atomic_load_explicit(&pages->grants->cells[cell], memory_order_relaxed) !=
                          (taken | DLP_GRANT_LIVE))
      shards |= UINT64_C(1) << (pages->cells->shards[cell] % DLC__SHARDS);
  }
  return shards;
}

void dlc__cache_sweep(struct dlc__cache *cache, struct dlc__pages *pages)
{
  bool is_known =
      atomic_exchange_explicit(&cache->epoch, pages->epoch, memory_order_relaxed) == pages->epoch;
  uint64_t shards = is_known ? pages_find_retired(pages) : UINT64_MAX;

  for (; shards; shards &= shards - 1)
    (void)cache_sweep_shard(&cache->shards[__builtin_ctzll(shards)], false, false);
}

bool dlc__cache_clear(struct dlc__cache *cache)
{
  bool any = false;

  for (size_t i = 0; i < DLC__SHARDS; i++)
    any = cache_sweep_shard(&cache->shards[i], true, false) || any;
  return any;
}

void dlc__cache_close(struct dlc__cache *cache)
{
  for (size_t i = 0; i < DLC__SHARDS; i++)
    (void)cache_sweep_shard(&cache->shards[i], true, true);
}
