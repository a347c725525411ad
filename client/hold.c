#include "client/hold.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/block.h"
#include "client/cache.h"
#include "client/fork.h"
#include "proto/tensor_spec.h"

#define CACHE_LINE 64

static uint8_t *aligned(uint8_t *memory, uintptr_t alignment)
{
  return (uint8_t *)(((uintptr_t)memory + alignment - 1) & ~(alignment - 1));
}

/* One piece of heap, aligned by hand: the library's aligned allocation is a slow one. */
static struct dlc__hold *hold_allocate(size_t size, size_t extra, uint8_t **ret_extra)
{
  size_t room = extra > 0 ? extra + DLP_TENSOR_ALIGN - 1 : 0;
  uint8_t *memory = (uint8_t *)malloc(CACHE_LINE - 1 + size + room);
  struct dlc__hold *hold;

  if (!memory)
    return NULL;
  hold = (struct dlc__hold *)(void *)aligned(memory, CACHE_LINE);
  memset(hold, 0, size);
  hold->memory = memory;
  *ret_extra = aligned((uint8_t *)hold + size, DLP_TENSOR_ALIGN);
  return hold;
}

struct dlc__hold *dlc__hold_new(struct dlc_client *client, const struct msg_spec *spec)
{
  uint8_t *extra;

  return dlc__hold_new_with(client, spec, 0, &extra);
}

struct dlc__hold *dlc__hold_new_with(struct dlc_client *client, const struct msg_spec *spec,
                                     size_t extra, uint8_t **ret_extra)
{
  /* Room for the dimensions there are, not for all there could be, and in full lines. */
  size_t n_dims = spec->ndim > 0 ? 2 * spec->ndim : 2;
  size_t size = offsetof(struct dlc__hold, dims) + n_dims * sizeof(int64_t);
  struct dlc__hold *hold =
      hold_allocate((size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE, extra, ret_extra);

  if (!hold)
    return NULL;
  hold->refs = 1;
  hold->fork_generation = client->fork_generation;
  hold->client = dlc__client_ref(client);
  hold->spec = *spec;
  hold->spec.shape = hold->dims;
  hold->spec.strides = hold->dims + spec->ndim;
  if (spec->ndim == 0)
    return hold;
  memcpy(hold->dims, spec->shape, spec->ndim * sizeof(int64_t));
  if (spec->strides)
    memcpy(hold->dims + spec->ndim, spec->strides, spec->ndim * sizeof(int64_t));
  else
    tensor_spec_compact_strides(spec, hold->dims + spec->ndim);
  return hold;
}

struct dlc__hold *dlc__hold_ref(struct dlc__hold *hold)
{
  atomic_fetch_add_explicit(&hold->refs, 1, memory_order_relaxed);
  return hold;
}

/* Memory alone: in a child the lease, the lock and the socket are the parent's. */
static void hold_free(struct dlc__hold *hold)
{
  struct dlc_client *client = hold->client;

  if (hold->private_base)
    (void)munmap(hold->private_base, hold->private_size);
  if (hold->mapping)
    dlc__mapping_unref(hold->mapping);
  if (hold->block)
    dlc__block_unref(hold->block);
  if (!hold->has_own_info)
    free(hold->info);
  free(hold->cached.name);
  free(hold->memory);
  dlc__client_unref(client);
}

/* The mapping goes before the lease: what we do not hold we do not map. */
void dlc__hold_end(struct dlc__hold *hold)
{
  struct dlc__transport *transport = hold->client->transport;

  if (hold->lease.pages && hold->mapping)
    dlc__mapping_unref(DLP_TAKE(hold->mapping));
  if (hold->private_base)
    (void)munmap(hold->private_base, hold->private_size);
  hold->private_base = NULL;
  if (hold->lease.pages)
    dlc__transport_return_consume(transport, &hold->lease);
  hold_free(hold);
}

void dlc__hold_unref(struct dlc__hold *hold)
{
  unsigned refs = atomic_load_explicit(&hold->refs, memory_order_relaxed);

  while (refs > 1) {
    if (atomic_compare_exchange_weak_explicit(&hold->refs, &refs, refs - 1, memory_order_release,
                                              memory_order_relaxed))
      return;
  }
  if (dlc__fork_is_child(hold->fork_generation)) {
    if (atomic_fetch_sub_explicit(&hold->refs, 1, memory_order_acq_rel) == 1)
      hold_free(hold);
  } else if (hold->lease.pages) {
    dlc__cache_drop(hold);
  } else if (atomic_fetch_sub_explicit(&hold->refs, 1, memory_order_acq_rel) == 1) {
    dlc__hold_end(hold);
  }
}
