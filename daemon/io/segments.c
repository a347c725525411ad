#include "io/segments.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/list.h"
#include "common/overflow.h"
#include "common/tree.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Below this, closing is quicker than handing it to a thread. */
#define SEGMENT_LARGE (UINT64_C(4) << 20)
/* Two milliseconds' worth of looking at pages. */
#define SEGMENT_LONG_WALK (UINT64_C(256) << 20)

struct segment {
  struct dlp_tree_node node;
  uint64_t id;
  uint64_t size;
  int fd;
  const struct storage_backend *backend;
  uint8_t *base;      /* of a slab, mapped writable; else NULL */
  uint64_t populated; /* of a slab: pages of its start that are there */
  /* Pages of [present_from, present_until) have been seen. Kept only once no hole
   * can be made any more. */
  bool holes_are_final;
  uint64_t present_from, present_until;
};

struct segments {
  struct dlp_tree tree;
  struct segments_config config;
  const struct storage_backend *backends;
  size_t n_backends;
  size_t n_creating; /* begun and not finished */
};

static int compare(const void *key, const struct dlp_tree_node *node)
{
  uint64_t id = *(const uint64_t *)key;
  const struct segment *segment = DLP_CONTAINER(node, struct segment, node);

  return (id > segment->id) - (id < segment->id);
}

int segments_new(struct segments **ret, const struct segments_config *config,
                 const struct storage_backend *backends, size_t n_backends)
{
  struct segments *segments = calloc(1, sizeof(*segments));

  if (!segments)
    return -ENOMEM;
  /* The core numbers segments, no client does: a fixed seed tells nobody anything. */
  dlp_tree_init(&segments->tree, compare, 1);
  segments->config = *config;
  segments->backends = backends;
  segments->n_backends = n_backends;
  *ret = segments;
  return 0;
}

static struct segment *find(struct segments *segments, uint64_t id)
{
  struct dlp_tree_node *node = dlp_tree_find(&segments->tree, &id);

  return node ? DLP_CONTAINER(node, struct segment, node) : NULL;
}

static const struct storage_backend *find_backend(struct segments *segments, uint32_t backend)
{
  for (size_t i = 0; i < segments->n_backends; i++)
    if (segments->backends[i].backend == backend)
      return &segments->backends[i];
  return NULL;
}

static void drop(struct segments *segments, struct segment *segment)
{
  dlp_tree_remove(&segments->tree, &segment->node);
  segment->backend->forget(segment->backend->context, segment->id);
  if (segment->base)
    (void)munmap(segment->base, segment->size);
  if (segments->config.close_later && segment->size >= SEGMENT_LARGE)
    segments->config.close_later(segments->config.context, segment->fd);
  else
    (void)dlp_close(segment->fd);
  free(segment);
}

struct segments *segments_free(struct segments *segments)
{
  struct dlp_tree_node *node;

  if (!segments)
    return NULL;
  segments->config.close_later = NULL;
  while ((node = dlp_tree_first(&segments->tree)))
    drop(segments, DLP_CONTAINER(node, struct segment, node));
  free(segments);
  return NULL;
}

static int begin_create(struct segments *segments, struct segment_job *job)
{
  assert(!find(segments, job->effect.segment));
  job->backend = find_backend(segments, job->effect.backend);
  if (!job->backend)
    return -EOPNOTSUPP;
  if (segments->tree.size + segments->n_creating >= segments->config.limit)
    return -EMFILE;
  /* What cannot be sealed is reserved, page by page. */
  job->is_slow = !job->backend->seals;
  segments->n_creating++;
  return 0;
}

static bool is_known_present(const struct segment *segment, uint64_t offset, uint64_t end)
{
  return offset >= segment->present_from && end <= segment->present_until;
}

/* Looks from where it looked last, so that filling a segment tensor by tensor costs
 * one walk over its pages, not one per tensor. */
static int begin_check(struct segment *segment, struct segment_job *job)
{
  uint64_t offset = job->effect.offset, end;

  if (!dlp_add_u64(offset, job->effect.size, &end) || end > segment->size)
    return -EINVAL;
  if (job->effect.size == 0 || is_known_present(segment, offset, end))
    return SEGMENTS_E_DONE;
  job->joins = offset >= segment->present_from && offset <= segment->present_until;
  job->from = job->joins ? segment->present_until : offset;
  job->is_slow = segment->size - job->from > SEGMENT_LONG_WALK;
  return 0;
}

/* Without a page for it, a write to memory would end the daemon: they are asked for first,
 * all up to the end, so that this is rare. */
static int populate(struct segment *segment, uint64_t end)
{
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

  if (end <= segment->populated)
    return 0;
  end = (end + page - 1) & ~(page - 1);
  if (madvise(segment->base + segment->populated, end - segment->populated, MADV_POPULATE_WRITE) <
          0 &&
      errno != EINVAL) /* before Linux 5.14 */
    return -ENOMEM;
  segment->populated = end;
  return 0;
}

static int write_slab(struct segment *segment, const struct effect *effect)
{
  uint64_t end;
  int r;

  if (!segment->base || !dlp_add_u64(effect->offset, effect->size, &end) || end > segment->size)
    return -EINVAL;
  r = populate(segment, end);
  if (r < 0)
    return r;
  memcpy(segment->base + effect->offset, effect->data, effect->size);
  return SEGMENTS_E_DONE;
}

int segments_begin(struct segments *segments, const struct effect *effect, struct segment_job *job)
{
  struct segment *segment = find(segments, effect->segment);

  *job = (struct segment_job){.effect = *effect, .fd = -1, .own_fd = -1};
  if (effect->kind == EFFECT_SEGMENT_CREATE)
    return begin_create(segments, job);
  if (effect->kind == EFFECT_SEGMENT_DROP) {
    if (segment)
      drop(segments, segment);
    return SEGMENTS_E_DONE;
  }
  if (!segment)
    return -ENOENT;
  if (effect->kind == EFFECT_SEGMENT_WRITE)
    return write_slab(segment, effect);
  job->backend = segment->backend;
  job->fd = segment->fd;
  if (effect->kind == EFFECT_SEGMENT_CHECK)
    return begin_check(segment, job);
  assert(effect->kind == EFFECT_SEGMENT_SEAL);
  job->effect.size = segment->size;
  job->is_slow = effect->seal == SEGMENT_SEAL_FROZEN;
  return 0;
}

int segment_job_detach(struct segment_job *job)
{
  if (job->fd < 0)
    return 0;
  job->own_fd = fcntl(job->fd, F_DUPFD_CLOEXEC, 0);
  if (job->own_fd < 0)
    return -errno;
  job->fd = job->own_fd;
  return 0;
}

/* Until then its producer can make it longer, or have pages beyond its end, and nobody
 * would pay for them. With the seals on, "cut it to its size" takes such pages away, and
 * fails if it has another size. */
static int seal(const struct segment_job *job)
{
  const struct storage_backend *backend = job->backend;
  int r = backend->seal(backend->context, job->fd, job->effect.seal);

  if (r < 0)
    return r;
  return ftruncate(job->fd, (off_t)job->effect.size) < 0 ? -errno : 0;
}

/* A slab is mapped before it is sealed: afterwards nobody could any more. */
static int create(struct segment_job *job)
{
  const struct storage_backend *backend = job->backend;
  void *base;
  int r;

  job->fd = backend->create(backend->context, job->effect.segment, job->effect.size);
  if (job->fd < 0 || !job->effect.is_slab)
    return job->fd < 0 ? job->fd : 0;
  base = mmap(NULL, job->effect.size, PROT_READ | PROT_WRITE, MAP_SHARED, job->fd, 0);
  if (base != MAP_FAILED) {
    (void)madvise(base, job->effect.size, MADV_DONTDUMP);
    job->base = base;
    return 0;
  }
  r = -errno;
  backend->forget(backend->context, job->effect.segment);
  job->fd = dlp_close(job->fd);
  return r;
}

int segment_job_work(struct segment_job *job)
{
  const struct storage_backend *backend = job->backend;

  switch (job->effect.kind) {
  case EFFECT_SEGMENT_CREATE:
    return create(job);
  case EFFECT_SEGMENT_CHECK:
    return backend->find_hole(backend->context, job->fd, job->from, &job->hole);
  default:
    return seal(job);
  }
}

static int finish_create(struct segments *segments, struct segment_job *job)
{
  struct segment *segment = calloc(1, sizeof(*segment));

  if (!segment) {
    job->backend->forget(job->backend->context, job->effect.segment);
    if (job->base)
      (void)munmap(job->base, job->effect.size);
    (void)dlp_close(job->fd);
    return -ENOMEM;
  }
  segment->id = job->effect.segment;
  segment->size = job->effect.size;
  segment->backend = job->backend;
  segment->fd = job->fd;
  segment->base = job->base;
  dlp_tree_insert(&segments->tree, &segment->id, &segment->node);
  return 0;
}

static int finish_check(struct segment *segment, const struct segment_job *job)
{
  if (segment->holes_are_final) {
    if (!job->joins)
      segment->present_from = job->effect.offset;
    segment->present_until = job->hole;
  }
  return job->hole >= job->effect.offset + job->effect.size ? 0 : -ENODATA;
}

int segments_finish(struct segments *segments, struct segment_job *job, int result)
{
  struct segment *segment;

  job->own_fd = dlp_close(job->own_fd);
  if (job->effect.kind == EFFECT_SEGMENT_CREATE)
    segments->n_creating--;
  if (result < 0)
    return result;
  if (job->effect.kind == EFFECT_SEGMENT_CREATE)
    return finish_create(segments, job);
  segment = find(segments, job->effect.segment);
  if (!segment)
    return -ENOENT;
  if (job->effect.kind == EFFECT_SEGMENT_CHECK)
    return finish_check(segment, job);
  if (segment->backend->seals && job->effect.seal != SEGMENT_SEAL_MUTABLE)
    segment->holes_are_final = true;
  return 0;
}

int segments_run(struct segments *segments, const struct effect *effect)
{
  struct segment_job job;
  int r = segments_begin(segments, effect, &job);

  if (r == SEGMENTS_E_DONE)
    return 0;
  return r < 0 ? r : segments_finish(segments, &job, segment_job_work(&job));
}

int segments_open_read_only(struct segments *segments, uint64_t id)
{
  struct segment *segment = find(segments, id);

  if (!segment)
    return -ENOENT;
  return segment->backend->open_read_only(segment->backend->context, id, segment->fd);
}

int segments_open_writable(struct segments *segments, uint64_t id)
{
  struct segment *segment = find(segments, id);
  int fd;

  if (!segment)
    return -ENOENT;
  fd = fcntl(segment->fd, F_DUPFD_CLOEXEC, 0);
  return fd < 0 ? -errno : fd;
}

size_t segments_count(const struct segments *segments)
{
  return segments->tree.size;
}
