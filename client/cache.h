#ifndef DLPACKD_CLIENT_CACHE_H
#define DLPACKD_CLIENT_CACHE_H

/*
 * Holds by name: what this process had before is had again without a message.
 *
 * A hold whose last user goes stays here, idle: mapped, its lease free but not given
 * back. The next get of the name takes the lease again, which a store and a load tell
 * to be right or too late. While somebody uses the hold another get counts him in,
 * after a look whether the version is the newest still.
 *
 * Threads that use different tensors share nothing that is written: the table is in
 * shards with a lock each, by the hash of the name as the caller gave it, and all that
 * one use writes is in its shard, its hold and its cell. The state of a lease changes
 * under its shard's lock, so that its first and last users are one after the other,
 * and so that a fork, which freezes all shards, sees no change half done.
 *
 * Holds with a lease that cannot be found by name (superseded ones, writable views)
 * are in a shard too, for the same reasons.
 *
 * What is idle is bounded (cache.c), and goes when its version is retired: at the next
 * call at the latest, for its memory is wanted elsewhere.
 *
 * Thread-safe. None of these may be called in a forked child.
 */

#include <pthread.h>

#include "client/hold.h"

#define DLC__SHARDS 64

/* Two lines, since processors fetch lines in pairs. */
struct dlc__shard {
  _Alignas(128) pthread_mutex_t lock;
  bool is_closed; /* the client is: nothing stays idle */
  bool is_frozen; /* this process is forking: nobody goes on */
  struct dlc__cache *cache;
  struct dlc__hold **buckets;
  size_t n_buckets; /* a power of 2, or 0 */
  size_t n_named;
  struct dlp_list holds;   /* struct dlc__cached.link */
  struct dlp_list idle[2]; /* struct dlc__cached.idle, least recently used first; [1]: large */
  size_t n_idle;           /* on both */
};

struct dlc__cache {
  struct dlc__shard shards[DLC__SHARDS];
  uint64_t seed;
  _Atomic uint64_t epoch; /* of the last sweep */
  struct dlp_list link;   /* of this process's caches */
  _Alignas(128) atomic_size_t n_large;
  atomic_size_t large_size;
};

/* What a get asks for. */
struct dlc__wanted {
  uint64_t version;    /* 0: any */
  uint64_t newer_than; /* 0: any */
};

/* NULL: out of memory. */
struct dlc__cache *dlc__cache_new(void);
/* No hold may be left. */
void dlc__cache_free(struct dlc__cache *cache);

/* Return: one reference to a hold of the newest version; NULL if only the daemon can say. */
struct dlc__hold *dlc__cache_get(struct dlc__cache *cache, const char *name,
                                 const struct dlc__wanted *wanted);

/* The first use of a new hold with a lease: it is held from here on. With a name it is
 * found by it, unless another one of the same version is. */
void dlc__cache_add(struct dlc__cache *cache, struct dlc__hold *hold, const char *name);

/* One reference to a hold with a lease, perhaps the last one. */
void dlc__cache_drop(struct dlc__hold *hold);

/* Is the newest version of the name known here, and not above `version`? */
bool dlc__cache_knows_none_above(struct dlc__cache *cache, const char *name, uint64_t version);

/* Lets go of what is idle and retired, or of an earlier session. */
void dlc__cache_sweep(struct dlc__cache *cache, struct dlc__pages *pages);

/* Lets go of all that is idle. Return: whether there was anything. */
bool dlc__cache_clear(struct dlc__cache *cache);

/* Lets go of all that is idle, and of everything else as soon as it is. */
void dlc__cache_close(struct dlc__cache *cache);

/* Around fork(), by fork.c: nobody takes or drops a lease meanwhile, and what is held
 * is marked as a child's too. */
void dlc__caches_before_fork(void);
void dlc__caches_after_fork(void);
void dlc__caches_after_fork_in_child(void);
/* For who finds a shard frozen, and has given its lock up. */
void dlc__caches_await_fork(void);

#endif
