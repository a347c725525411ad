#include "client/block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/error.h"
#include "client/fork.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Below this, a descriptor saves less than it costs. */
#define FILL_BY_DESCRIPTOR_FROM (UINT64_C(256) << 10)

/* One pwrite moves at most about 2 GiB anyway; less keeps it interruptible. */
#define WRITE_CHUNK (UINT64_C(256) << 20)

uint32_t dlc__block_flags(const struct dlc__domain *domain, bool in_place)
{
  uint32_t flags = in_place ? MSG_BLOCK_OWN_PAGES : 0;

  if (domain->is_frozen || domain->is_mutable)
    flags |= MSG_BLOCK_OWN_SEGMENT;
  return flags;
}

/* ---- references ---- */

void dlc__block_ref(struct dlc__block *block)
{
  atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
}

void dlc__block_unmap(struct dlc__block *block)
{
  if (block->own_base)
    (void)munmap(block->own_base, block->segment_size);
  block->own_base = NULL;
}

/* What is mapped is not in a child's memory at all, or stays for its readers. */
static void block_unref_in_child(struct dlc__block *block)
{
  (void)dlp_close(block->fd);
  if (block->mapping)
    dlc__mapping_unref(block->mapping);
  free(block);
}

/* What a child has been able to read stays as it is. */
static bool block_is_to_be_freed(struct dlc__block *block)
{
  int state = atomic_load(&block->state);

  return state == DLC__BLOCK_OURS ||
         (state == DLC__BLOCK_PUBLISHED && block->kept && block->forks == dlc__fork_count());
}

void dlc__block_unref(struct dlc__block *block)
{
  struct dlc_client *client = block->client;

  if (atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) > 1)
    return;
  if (dlc__fork_is_child(block->fork_generation)) {
    block_unref_in_child(block);
    return;
  }
  dlc__block_unmap(block);
  block->fd = dlp_close(block->fd);
  if (block->mapping)
    dlc__mapping_unref(block->mapping);
  if (block_is_to_be_freed(block))
    dlc__transport_post_consume(client->transport, DLC__ONEWAY_FREE, &block->give_back);
  else
    free(block);
}

static void blocks_unref(struct dlc__block **blocks, size_t n)
{
  for (size_t i = 0; i < n; i++)
    dlc__block_unref(blocks[i]);
}

/* ---- allocating ---- */

static struct dlc__block *block_new(struct dlc_client *client, const struct dlc__domain *domain,
                                    uint32_t flags)
{
  struct dlc__block *block = (struct dlc__block *)calloc(1, sizeof(*block));

  if (!block)
    return NULL;
  block->refs = 1;
  block->fork_generation = client->fork_generation;
  block->client = client;
  block->domain = *domain;
  block->flags = flags;
  block->fd = -1;
  dlp_list_init(&block->give_back.link);
  block->give_back.container = block;
  return block;
}

/* Before the request, so that what it brings has a place to go to. */
static int blocks_new(struct dlc_client *client, const struct dlc__domain *domain,
                      const struct msg_block *wanted, size_t n, struct dlc__block **ret)
{
  for (size_t i = 0; i < n; i++) {
    ret[i] = block_new(client, domain, wanted[i].flags);
    if (ret[i])
      continue;
    while (i-- > 0)
      free(ret[i]);
    return -ENOMEM;
  }
  return 0;
}

static const struct msg_segment *blocks_find_segment(const struct msg_allocated *allocated,
                                                     uint64_t id)
{
  for (size_t i = 0; i < allocated->n_segments; i++) {
    if (allocated->segments[i].id == id)
      return &allocated->segments[i];
  }
  return NULL;
}

/* May others of our blocks come to lie in it? One of its own is as large as its block. */
static bool segment_is_shared(const struct msg_allocated *allocated,
                              const struct msg_segment *segment)
{
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

  for (size_t i = 0; i < allocated->n_places; i++) {
    const struct msg_place *place = &allocated->places[i];

    if (place->segment == segment->id)
      return place->size <= segment->size && segment->size - place->size >= page;
  }
  return false;
}

/* What fails here fails again, and is told, where the block is attached. */
void dlc__blocks_arrived(struct dlc_client *client, struct dlc__reply *reply)
{
  const struct msg_allocated *allocated = &reply->decoded.reply.u.allocated;

  for (size_t i = 0; i < allocated->n_segments; i++) {
    const struct msg_segment *segment = &allocated->segments[i];
    struct dlc__segment_facts facts = {
        .epoch = reply->epoch, .id = segment->id, .size = segment->size};
    int fd = dlp_fdset_get(&reply->fds, segment->fd_index);
    struct dlc__mapping *mapping;

    if (fd < 0 || !segment_is_shared(allocated, segment))
      continue;
    /* The table keeps it for whoever comes. */
    if (dlc__maps_add(&client->maps, &facts, DLC__VIEW_PRODUCER, fd, &mapping, NULL) == 0)
      dlc__mapping_unref(mapping);
  }
}

/* Alone: the descriptor is all there is to keep. */
static int block_attach_alone(struct dlc__block *block, struct dlc__reply *reply,
                              const struct msg_segment *segment,
                              const struct dlc__segment_facts *facts, struct dlc_error *reterr)
{
  int fd = segment ? dlp_fdset_get(&reply->fds, segment->fd_index) : -1;
  int r;

  if (fd < 0)
    return dlc__reply_no_descriptor(reply, reterr);
  r = dlc__segment_check(facts, DLC__VIEW_PRODUCER, fd, reterr);
  if (r < 0)
    return r;
  block->fd = dlp_fdset_steal(&reply->fds, segment->fd_index);
  block->segment_size = segment->size;
  return 0;
}

static int block_attach_mapped(struct dlc__block *block, struct dlc__reply *reply,
                               const struct msg_segment *segment,
                               const struct dlc__segment_facts *facts, struct dlc_error *reterr)
{
  int fd, r;

  block->mapping =
      dlc__maps_find(&block->client->maps, block->epoch, block->place.segment, DLC__VIEW_PRODUCER);
  if (block->mapping)
    return 0;
  fd = segment ? dlp_fdset_get(&reply->fds, segment->fd_index) : -1;
  if (fd < 0)
    return dlc__reply_no_descriptor(reply, reterr);
  r = dlc__maps_add(&block->client->maps, facts, DLC__VIEW_PRODUCER, fd, &block->mapping, reterr);
  if (r == 0 && block->place.size >= FILL_BY_DESCRIPTOR_FROM)
    block->fd = dlp_fdset_steal(&reply->fds, segment->fd_index);
  return r;
}

static int block_attach(struct dlc__block *block, struct dlc__reply *reply,
                        struct dlc_error *reterr)
{
  const struct msg_segment *segment =
      blocks_find_segment(&reply->decoded.reply.u.allocated, block->place.segment);
  struct dlc__segment_facts facts = {
      .epoch = block->epoch, .id = block->place.segment, .size = segment ? segment->size : 0};
  uint64_t size;
  int r = block->flags & MSG_BLOCK_OWN_SEGMENT
              ? block_attach_alone(block, reply, segment, &facts, reterr)
              : block_attach_mapped(block, reply, segment, &facts, reterr);

  if (r < 0)
    return r;
  size = block->mapping ? dlc__mapping_size(block->mapping) : block->segment_size;
  if (block->place.offset > size || block->place.size > size - block->place.offset)
    return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                          "the daemon allotted memory beyond the end of its segment");
  return 0;
}

static int blocks_attach(struct dlc__block **blocks, const struct msg_block *wanted, size_t n,
                         struct dlc__reply *reply, struct dlc_error *reterr)
{
  const struct msg_place *places = reply->decoded.reply.u.allocated.places;

  for (size_t i = 0; i < n; i++) {
    blocks[i]->epoch = blocks[i]->give_back.epoch = reply->epoch;
    blocks[i]->place = blocks[i]->give_back.u.place = places[i];
  }
  for (size_t i = 0; i < n; i++) {
    int r = places[i].size < wanted[i].size
                ? dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                                 "the daemon allotted less memory than was asked for")
                : block_attach(blocks[i], reply, reterr);

    if (r < 0)
      return r;
  }
  return 0;
}

static int blocks_check_limit(struct dlc_client *client, const struct msg_block *wanted, size_t n,
                              struct dlc_error *reterr)
{
  uint64_t sum = 0;

  for (size_t i = 0; i < n; i++)
    sum = sum + wanted[i].size < sum ? UINT64_MAX : sum + wanted[i].size;
  return dlc__memory_limit_check(&client->memory_limit, sum, reterr);
}

static int blocks_call(struct dlc_client *client, const struct dlc__domain *domain,
                       const struct msg_block *wanted, size_t n, struct dlc__block **blocks,
                       bool *ret_ours, struct dlc_error *reterr)
{
  dlc__auto_call struct dlc__call call = {0};
  struct msg_request request = {
      .type = MSG_ALLOCATE,
      .u.allocate = {.owner = domain->owner,
                     .lifetime = domain->lifetime,
                     .mode = domain->mode,
                     .gid = domain->gid,
                     .backend = domain->backend,
                     .is_mutable = domain->is_mutable,
                     .n_blocks = n,
                     .blocks = wanted},
  };
  struct dlc__reply *reply;
  int r =
      dlc__call_run(client->transport, &call, &request, dlc__client_deadline(client, 0), reterr);

  if (r < 0)
    return r;
  reply = dlc__call_reply(&call, MSG_ALLOCATED, reterr);
  if (!reply)
    return -DLC_E_PROTOCOL;
  if (reply->decoded.reply.u.allocated.n_places != n)
    return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                          "the daemon allotted another number of blocks than was asked for");
  call.taken = *ret_ours = true;
  return blocks_attach(blocks, wanted, n, reply, reterr);
}

int dlc__blocks_allocate(struct dlc_client *client, const struct dlc__domain *domain,
                         const struct msg_block *wanted, size_t n, struct dlc__block **ret_blocks,
                         struct dlc_error *reterr)
{
  bool ours = false;
  int r = blocks_check_limit(client, wanted, n, reterr);

  if (r < 0)
    return r;
  if (blocks_new(client, domain, wanted, n, ret_blocks) < 0)
    return dlc__error_no_memory(reterr);
  r = blocks_call(client, domain, wanted, n, ret_blocks, &ours, reterr);
  if (r == 0)
    return 0;
  if (ours)
    blocks_unref(ret_blocks, n);
  else
    for (size_t i = 0; i < n; i++)
      free(ret_blocks[i]);
  return r;
}

/* ---- filling ---- */

int dlc__block_map(struct dlc__block *block, uint8_t **ret, struct dlc_error *reterr)
{
  void *base;

  if (block->mapping) {
    *ret = block->mapping->base + block->place.offset;
    return 0;
  }
  if (!block->own_base) {
    base = mmap(NULL, block->segment_size, PROT_READ | PROT_WRITE, MAP_SHARED, block->fd, 0);
    if (base == MAP_FAILED)
      return dlc__error_system(reterr, -errno, "map a segment");
    (void)madvise(base, block->segment_size, MADV_DONTFORK);
    (void)madvise(base, block->segment_size, MADV_DONTDUMP);
    block->own_base = (uint8_t *)base;
  }
  *ret = block->own_base + block->place.offset;
  return 0;
}

/* 1.9 times as fast as faulting fresh pages in through a mapping, and no signal:
 * what the caller cannot read ends in EFAULT. */
static int block_pwrite(const struct dlc__block *block, const uint8_t *bytes, uint64_t size,
                        bool *ret_sealed, struct dlc_error *reterr)
{
  uint64_t done = 0;

  while (done < size) {
    size_t chunk = (size_t)(size - done < WRITE_CHUNK ? size - done : WRITE_CHUNK);
    ssize_t n = pwrite(block->fd, bytes + done, chunk, (off_t)(block->place.offset + done));

    if (n < 0 && errno == EINTR)
      continue;
    *ret_sealed = n < 0 && errno == EPERM;
    if (n < 0 && errno == ENOSPC)
      return dlc__error_set(reterr, DLC_E_NO_SPACE, ENOSPC,
                            "the host's shared memory is full after %llu of %llu bytes",
                            (unsigned long long)done, (unsigned long long)size);
    if (n <= 0)
      return dlc__error_system(reterr, n < 0 ? -errno : -EIO, "write to a segment");
    done += (uint64_t)n;
  }
  return 0;
}

int dlc__block_write(struct dlc__block *block, const uint8_t *bytes, uint64_t size,
                     struct dlc_error *reterr)
{
  bool sealed = false;
  int r;

  if (block->fd >= 0) {
    r = block_pwrite(block, bytes, size, &sealed, reterr);
    if (!block->mapping)
      return r;
    block->fd = dlp_close(block->fd);
    if (!sealed)
      return r;
  }
  /* Another thread has published something in this segment. */
  memcpy(block->mapping->base + block->place.offset, bytes, size);
  return 0;
}

/* ---- publishing in place ---- */

struct pages {
  uint8_t *start;
  size_t size;
};

/* All pages that the block is on; it shares none (MSG_BLOCK_OWN_PAGES). */
static struct pages block_pages(const struct dlc__block *block)
{
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uint8_t *base = block->mapping ? block->mapping->base : block->own_base;
  uintptr_t start = (uintptr_t)(base + block->place.offset);
  uintptr_t end = start + block->place.size;

  start &= ~(page - 1);
  end = (end + page - 1) & ~(page - 1);
  return (struct pages){(uint8_t *)start, end - start};
}

void dlc__block_open(struct dlc__block *block)
{
  struct pages pages;

  if (!block->mapping)
    return;
  pages = block_pages(block);
  (void)mprotect(pages.start, pages.size, PROT_READ | PROT_WRITE);
  (void)madvise(pages.start, pages.size, MADV_DONTFORK);
}

static bool block_is_present(const struct dlc__block *block)
{
  return block->mapping && block->place.offset + block->place.size <=
                               atomic_load_explicit(&block->mapping->present, memory_order_relaxed);
}

/* Who touches a page first pays for it: that has to be the producer. */
static int block_populate(const struct pages *pages, struct dlc_error *reterr)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);

  if (madvise(pages->start, pages->size, MADV_POPULATE_WRITE) == 0)
    return 0;
  if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON)
    return dlc__error_set(reterr, DLC_E_NO_SPACE, errno,
                          "the host's shared memory is full: %zu bytes do not fit", pages->size);
  /* Before Linux 5.14. An atomic no-op: another thread may still be filling it. */
  for (size_t at = 0; at < pages->size; at += page)
    (void)__atomic_fetch_or(pages->start + at, 0, __ATOMIC_RELAXED);
  return 0;
}

/* A descriptor that was opened for writing counts as a writer for as long as it
 * is mapped, whatever the mapping allows: the segment could not be sealed. */
static int block_freeze(const struct dlc__block *block, struct dlc_error *reterr)
{
  dlp_auto_close int fd = -1;
  char path[64];

  (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", block->fd);
  fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return dlc__error_system(reterr, -errno, "open a segment for reading (is /proc mounted?)");
  if (mmap(block->own_base, block->segment_size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) ==
      MAP_FAILED)
    return dlc__error_system(reterr, -errno, "map a frozen segment for reading");
  (void)madvise(block->own_base, block->segment_size, MADV_DONTDUMP);
  return 0;
}

int dlc__block_prepare(struct dlc__block *block, struct dlc_error *reterr)
{
  struct pages pages;
  uint8_t *start;
  int r = dlc__block_map(block, &start, reterr);

  if (r < 0)
    return r;
  pages = block_pages(block);
  r = block_is_present(block) ? 0 : block_populate(&pages, reterr);
  return r < 0 || !block->domain.is_frozen ? r : block_freeze(block, reterr);
}

void dlc__block_restore(struct dlc__block *block)
{
  if (!block->domain.is_frozen || !block->own_base)
    return;
  /* Sealed already: then it stays as it is, and a write is stopped. */
  if (mmap(block->own_base, block->segment_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           block->fd, 0) == MAP_FAILED)
    return;
  (void)madvise(block->own_base, block->segment_size, MADV_DONTFORK);
  (void)madvise(block->own_base, block->segment_size, MADV_DONTDUMP);
}

void dlc__block_protect(struct dlc__block *block)
{
  struct pages pages = block_pages(block);

  if (block->domain.is_mutable)
    return;
  if (!block->domain.is_frozen)
    (void)mprotect(pages.start, pages.size, PROT_READ);
  /* A child may read what its parent has. */
  block->forks = dlc__fork_count();
  (void)madvise(pages.start, pages.size, MADV_DOFORK);
}

void dlc__block_published(struct dlc__block *block, bool kept)
{
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  unsigned long long end = (block->place.offset + block->place.size + page - 1) & ~(page - 1);
  unsigned long long present;

  block->kept = kept;
  atomic_store(&block->state, DLC__BLOCK_PUBLISHED);
  if (!block->mapping)
    return;
  present = atomic_load_explicit(&block->mapping->present, memory_order_relaxed);
  while (block->place.offset <= present && present < end)
    if (atomic_compare_exchange_weak_explicit(&block->mapping->present, &present, end,
                                              memory_order_relaxed, memory_order_relaxed))
      break;
}
