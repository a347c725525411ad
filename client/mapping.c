#include "client/mapping.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "client/error.h"
#include "client/fork.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

struct dlc__segment {
  struct dlp_tree_node node;
  struct dlc__maps *maps;
  uint64_t epoch;
  uint64_t id;
  uint64_t size;
  bool kept; /* the PRODUCER view has the table's reference */
  struct dlc__mapping views[DLC__N_VIEWS];
  struct dlc__oneway forget;
};

struct segment_key {
  uint64_t epoch;
  uint64_t id;
};

static int segment_compare(const void *key, const struct dlp_tree_node *node)
{
  const struct segment_key *a = (const struct segment_key *)key;
  const struct dlc__segment *b = DLP_CONTAINER(node, struct dlc__segment, node);

  if (a->epoch != b->epoch)
    return a->epoch < b->epoch ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

int dlc__maps_init(struct dlc__maps *maps, struct dlc__transport *transport)
{
  maps->transport = transport;
  maps->fork_generation = dlc__fork_generation();
  dlp_tree_init(&maps->segments, segment_compare, (uint64_t)(uintptr_t)maps);
  return -pthread_mutex_init(&maps->lock, NULL);
}

void dlc__maps_deinit(struct dlc__maps *maps)
{
  struct dlp_tree_node *node;

  while ((node = dlp_tree_first(&maps->segments))) {
    struct dlc__segment *segment = DLP_CONTAINER(node, struct dlc__segment, node);

    assert(segment->kept);
    segment->kept = false;
    dlc__mapping_unref(&segment->views[DLC__VIEW_PRODUCER]);
  }
  (void)pthread_mutex_destroy(&maps->lock);
}

/* ---- is it what it should be? ---- */

static int segment_bad(const struct dlc__segment_facts *facts, const char *what,
                       struct dlc_error *reterr)
{
  return dlc__error_set(reterr, DLC_E_PROTOCOL, 0, "not mapping segment %llu from the daemon: %s",
                        (unsigned long long)facts->id, what);
}

/* May its bytes or its length change under a reader? */
static int segment_check_seals(const struct dlc__segment_facts *facts, int fd,
                               struct dlc_error *reterr)
{
  const int length = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  int seals;

  if (facts->tensor_flags & MSG_TENSOR_UNSEALED)
    return facts->own_publisher
               ? 0
               : segment_bad(facts, "it is not sealed, and belongs to another user", reterr);
  seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & length) != length)
    return segment_bad(facts, "its length is not sealed", reterr);
  if (facts->tensor_flags & MSG_TENSOR_MUTABLE)
    return 0;
  if (facts->tensor_flags & MSG_TENSOR_FROZEN)
    return seals & F_SEAL_WRITE ? 0 : segment_bad(facts, "it is not frozen", reterr);
  if (!(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
    return segment_bad(facts, "it is not sealed against writing", reterr);
  return 0;
}

int dlc__segment_check(const struct dlc__segment_facts *facts, enum dlc__view view, int fd,
                       struct dlc_error *reterr)
{
  struct stat status;

  if (fstat(fd, &status) < 0)
    return dlc__error_system(reterr, -errno, "look at a segment");
  if (!S_ISREG(status.st_mode))
    return segment_bad(facts, "it is not memory", reterr);
  if (facts->size == 0 || facts->size > INT64_MAX || (uint64_t)status.st_size != facts->size)
    return segment_bad(facts, "its size is not what was said", reterr);
  /* A producer gets it before anything is sealed. */
  return view == DLC__VIEW_PRODUCER ? 0 : segment_check_seals(facts, fd, reterr);
}

/* ---- the table; the lock is held ---- */

static struct dlc__segment *maps_lookup(struct dlc__maps *maps, uint64_t epoch, uint64_t id)
{
  struct segment_key key = {epoch, id};
  struct dlp_tree_node *node = dlp_tree_find(&maps->segments, &key);

  return node ? DLP_CONTAINER(node, struct dlc__segment, node) : NULL;
}

static struct dlc__segment *maps_insert(struct dlc__maps *maps,
                                        const struct dlc__segment_facts *facts)
{
  struct segment_key key = {facts->epoch, facts->id};
  struct dlc__segment *segment = calloc(1, sizeof(*segment));

  if (!segment)
    return NULL;
  segment->maps = maps;
  segment->epoch = facts->epoch;
  segment->id = facts->id;
  segment->size = facts->size;
  segment->forget.container = segment;
  segment->forget.epoch = facts->epoch;
  segment->forget.u.segment = facts->id;
  dlp_list_init(&segment->forget.link);
  for (int i = 0; i < DLC__N_VIEWS; i++) {
    segment->views[i].segment = segment;
    segment->views[i].view = (enum dlc__view)i;
  }
  dlp_tree_insert(&maps->segments, &key, &segment->node);
  return segment;
}

static bool segment_is_unmapped(const struct dlc__segment *segment)
{
  for (int i = 0; i < DLC__N_VIEWS; i++) {
    if (segment->views[i].base)
      return false;
  }
  return true;
}

struct dlc__mapping *dlc__maps_find(struct dlc__maps *maps, uint64_t epoch, uint64_t id,
                                    enum dlc__view view)
{
  struct dlc__mapping *found = NULL;
  struct dlc__segment *segment;

  (void)pthread_mutex_lock(&maps->lock);
  segment = maps_lookup(maps, epoch, id);
  if (segment && segment->views[view].base)
    found = dlc__mapping_ref(&segment->views[view]);
  (void)pthread_mutex_unlock(&maps->lock);
  return found;
}

static int mapping_map(struct dlc__mapping *mapping, int fd, uint64_t size)
{
  int protection = mapping->view == DLC__VIEW_READ ? PROT_READ : PROT_READ | PROT_WRITE;
  void *base = mmap(NULL, size, protection, MAP_SHARED, fd, 0);

  if (base == MAP_FAILED)
    return -errno;
  (void)madvise(base, size, MADV_DONTDUMP);
  if (mapping->view == DLC__VIEW_PRODUCER)
    (void)madvise(base, size, MADV_DONTFORK);
  mapping->base = base;
  return 0;
}

/* The lock is held. */
static int maps_add_locked(struct dlc__maps *maps, const struct dlc__segment_facts *facts,
                           enum dlc__view view, int fd, struct dlc__mapping **ret)
{
  struct dlc__segment *segment = maps_lookup(maps, facts->epoch, facts->id);
  struct dlc__mapping *mapping;
  int r;

  if (!segment)
    segment = maps_insert(maps, facts);
  if (!segment)
    return -ENOMEM;
  mapping = &segment->views[view];
  if (!mapping->base) {
    r = mapping_map(mapping, fd, segment->size);
    if (r < 0) {
      if (segment_is_unmapped(segment)) {
        dlp_tree_remove(&maps->segments, &segment->node);
        free(segment);
      }
      return r;
    }
    if (view == DLC__VIEW_PRODUCER) {
      segment->kept = true;
      (void)dlc__mapping_ref(mapping);
    }
  }
  *ret = dlc__mapping_ref(mapping);
  return 0;
}

int dlc__maps_add(struct dlc__maps *maps, const struct dlc__segment_facts *facts,
                  enum dlc__view view, int fd, struct dlc__mapping **ret, struct dlc_error *reterr)
{
  int r = dlc__segment_check(facts, view, fd, reterr);

  if (r < 0)
    return r;
  (void)pthread_mutex_lock(&maps->lock);
  r = maps_add_locked(maps, facts, view, fd, ret);
  (void)pthread_mutex_unlock(&maps->lock);
  return r < 0 ? dlc__error_system(reterr, r, "map a segment") : 0;
}

/* ---- references ---- */

uint64_t dlc__mapping_size(const struct dlc__mapping *mapping)
{
  return mapping->segment->size;
}

struct dlc__mapping *dlc__mapping_ref(struct dlc__mapping *mapping)
{
  atomic_fetch_add_explicit(&mapping->refs, 1, memory_order_relaxed);
  return mapping;
}

/* Gives one back unless it is the last: that one goes under the lock, so that
 * nobody can find what is about to end. */
static bool mapping_unref_shared(struct dlc__mapping *mapping)
{
  unsigned refs = atomic_load_explicit(&mapping->refs, memory_order_relaxed);

  while (refs > 1) {
    if (atomic_compare_exchange_weak_explicit(&mapping->refs, &refs, refs - 1, memory_order_release,
                                              memory_order_relaxed))
      return true;
  }
  return false;
}

/* The locks and the table are the parent's; what is mapped is ours, but for a
 * producer's view, which the child never got: other things may lie there. */
static void mapping_unref_in_child(struct dlc__mapping *mapping)
{
  if (atomic_fetch_sub_explicit(&mapping->refs, 1, memory_order_acq_rel) > 1 ||
      mapping->view == DLC__VIEW_PRODUCER)
    return;
  (void)munmap(mapping->base, mapping->segment->size);
}

static void maps_post_forget(struct dlc__maps *maps, uint64_t epoch, uint64_t id)
{
  struct dlc__oneway *item = calloc(1, sizeof(*item));

  if (!item)
    return;
  item->container = item;
  item->epoch = epoch;
  item->u.segment = id;
  dlc__transport_post_consume(maps->transport, DLC__ONEWAY_FORGET, item);
}

/* What the last reference leaves behind: taken out under the lock, given back after it. */
struct mapping_end {
  uint8_t *base;
  bool segment_gone; /* nothing of it is mapped any more */
  bool readers_gone; /* only the producer's view is */
};

static struct mapping_end mapping_unref_last(struct dlc__mapping *mapping)
{
  struct dlc__segment *segment = mapping->segment;
  struct dlc__maps *maps = segment->maps;
  struct mapping_end end = {.base = NULL};

  (void)pthread_mutex_lock(&maps->lock);
  if (atomic_fetch_sub_explicit(&mapping->refs, 1, memory_order_acq_rel) == 1) {
    end.base = DLP_TAKE(mapping->base);
    end.segment_gone = segment_is_unmapped(segment);
    end.readers_gone =
        !segment->views[DLC__VIEW_READ].base && !segment->views[DLC__VIEW_SHARED].base;
    if (end.segment_gone)
      dlp_tree_remove(&maps->segments, &segment->node);
  }
  (void)pthread_mutex_unlock(&maps->lock);
  return end;
}

void dlc__mapping_unref(struct dlc__mapping *mapping)
{
  struct dlc__segment *segment = mapping->segment;
  struct dlc__maps *maps = segment->maps;
  bool is_reader = mapping->view != DLC__VIEW_PRODUCER;
  uint64_t epoch = segment->epoch, id = segment->id, size = segment->size;
  struct mapping_end end;

  if (dlc__fork_is_child(maps->fork_generation)) {
    mapping_unref_in_child(mapping);
    return;
  }
  if (mapping_unref_shared(mapping))
    return;
  end = mapping_unref_last(mapping);
  if (end.base)
    (void)munmap(end.base, size);
  if (end.segment_gone)
    dlc__transport_post_consume(maps->transport, DLC__ONEWAY_FORGET, &segment->forget);
  else if (end.base && is_reader && end.readers_gone)
    maps_post_forget(maps, epoch, id);
}

/* ---- what the daemon says ---- */

static void maps_drop(struct dlc__maps *maps, uint64_t epoch, uint64_t id)
{
  struct dlc__mapping *kept = NULL;
  struct dlc__segment *segment;

  (void)pthread_mutex_lock(&maps->lock);
  segment = maps_lookup(maps, epoch, id);
  if (segment && segment->kept) {
    segment->kept = false;
    kept = &segment->views[DLC__VIEW_PRODUCER];
  }
  (void)pthread_mutex_unlock(&maps->lock);
  if (kept)
    dlc__mapping_unref(kept);
  else if (!segment)
    maps_post_forget(maps, epoch, id);
}

void dlc__maps_dropped(struct dlc__maps *maps, uint64_t epoch, const uint64_t *ids, size_t n_ids)
{
  dlc__transport_cork(maps->transport);
  for (size_t i = 0; i < n_ids; i++)
    maps_drop(maps, epoch, ids[i]);
  dlc__transport_uncork(maps->transport);
}

void dlc__maps_forget_unmapped(struct dlc__maps *maps, uint64_t epoch, uint64_t id)
{
  bool is_mapped;

  (void)pthread_mutex_lock(&maps->lock);
  is_mapped = maps_lookup(maps, epoch, id) != NULL;
  (void)pthread_mutex_unlock(&maps->lock);
  if (!is_mapped)
    maps_post_forget(maps, epoch, id);
}
