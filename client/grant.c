#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/cache.h"
#include "client/error.h"
#include "client/grant.h"
#include "dlclient_dlpack.h"
#include "proto/tensor_spec.h"

/* Up to this size a private copy is cheaper than a mapping of its own, and holds no lease. */
#define HEAP_COPY_MAX (UINT64_C(256) << 10)

/* The daemon is not believed either: what it says has to lie within itself. */
static int grant_check(const struct msg_tensor *tensor, struct tensor_extent *ret,
                       struct dlc_error *reterr)
{
  const struct msg_place *place = &tensor->place;
  uint64_t below, above;

  if (tensor_spec_extent(&tensor->spec, ret) != 0)
    return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                          "the daemon described a tensor whose layout is not valid");
  below = ret->low < 0 ? -(uint64_t)ret->low : 0;
  above = ret->high > 0 ? (uint64_t)ret->high : 0;
  if (ret->low == ret->high ||
      (place->first <= place->size && below <= place->first && above <= place->size - place->first))
    return 0;
  return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                        "the daemon described a tensor that reaches beyond its memory");
}

static const struct msg_segment *grant_find_segment(const struct dlc__grant *grant)
{
  const struct msg_granted *granted = &grant->reply->decoded.reply.u.granted;

  for (size_t i = 0; i < granted->n_segments; i++) {
    if (granted->segments[i].id == grant->tensor->place.segment)
      return &granted->segments[i];
  }
  return NULL;
}

static struct dlc__segment_facts grant_facts(const struct dlc__grant *grant,
                                             const struct msg_segment *segment)
{
  return (struct dlc__segment_facts){
      .epoch = grant->reply->epoch,
      .id = segment->id,
      .size = segment->size,
      .tensor_flags = grant->tensor->flags,
      .own_publisher = grant->tensor->publisher_uid == grant->own_uid,
  };
}

/* A descriptor, taken out of the reply or asked for. The caller closes *ret_fd. */
static int grant_take_descriptor(const struct dlc__grant *grant, bool writable, int *ret_fd,
                                 struct dlc__segment_facts *ret_facts, struct dlc_error *reterr)
{
  const struct msg_segment *segment = grant_find_segment(grant);
  dlc__auto_call struct dlc__call call = {.needs_epoch = grant->reply->epoch};
  struct msg_request request = {
      .type = MSG_MAP,
      .u.map = {.segment = grant->tensor->place.segment,
                .access = writable ? MSG_ACCESS_SHARED : MSG_ACCESS_READ},
  };
  struct dlc__reply *reply;
  int r;

  *ret_fd = segment ? dlp_fdset_steal(&grant->reply->fds, segment->fd_index) : -1;
  if (*ret_fd >= 0) {
    *ret_facts = grant_facts(grant, segment);
    return 0;
  }
  /* The daemon takes it for mapped: we have just let go of it, or look at it
   * in another way. */
  r = dlc__call_run(grant->client->transport, &call, &request,
                    dlc__client_deadline(grant->client, 0), reterr);
  if (r < 0)
    return r;
  reply = dlc__call_reply(&call, MSG_MAPPED, reterr);
  if (!reply)
    return -DLC_E_PROTOCOL;
  segment = &reply->decoded.reply.u.mapped.segment;
  *ret_facts = grant_facts(grant, segment);
  if (segment->id != grant->tensor->place.segment)
    return dlc__reply_no_descriptor(reply, reterr);
  *ret_fd = dlp_fdset_steal(&reply->fds, segment->fd_index);
  return *ret_fd >= 0 ? 0 : dlc__reply_no_descriptor(reply, reterr);
}

static int grant_check_end(const struct msg_place *place, uint64_t size, struct dlc_error *reterr)
{
  if (place->offset <= size && place->size <= size - place->offset)
    return 0;
  return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                        "the daemon described a tensor beyond the end of its segment");
}

/* The shared mapping of the tensor's segment. */
static int grant_map(const struct dlc__grant *grant, enum dlc__view view, struct dlc__mapping **ret,
                     struct dlc_error *reterr)
{
  const struct msg_place *place = &grant->tensor->place;
  dlp_auto_close int fd = -1;
  struct dlc__segment_facts facts;
  struct dlc__mapping *mapping;
  int r;

  mapping = dlc__maps_find(&grant->client->maps, grant->reply->epoch, place->segment, view);
  if (!mapping) {
    r = grant_take_descriptor(grant, view == DLC__VIEW_SHARED, &fd, &facts, reterr);
    if (r < 0)
      return r;
    r = dlc__maps_add(&grant->client->maps, &facts, view, fd, &mapping, reterr);
    if (r < 0)
      return r;
  }
  r = grant_check_end(place, dlc__mapping_size(mapping), reterr);
  if (r < 0)
    dlc__mapping_unref(mapping);
  else
    *ret = mapping;
  return r;
}

static int grant_hold_shared(const struct dlc__grant *grant, struct dlc__hold *hold,
                             struct dlc_error *reterr)
{
  const struct msg_place *place = &grant->tensor->place;
  bool writable = grant->access == DLC_ACCESS_SHARED;
  int r = grant_map(grant, writable ? DLC__VIEW_SHARED : DLC__VIEW_READ, &hold->mapping, reterr);

  if (r < 0)
    return r;
  hold->data = hold->mapping->base + place->offset + place->first;
  return 0;
}

/* Pages that are ours once we write to them, and the producer's until then. */
static int grant_hold_private(const struct dlc__grant *grant, struct dlc__hold *hold,
                              struct dlc_error *reterr)
{
  const struct msg_place *place = &grant->tensor->place;
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t start = place->offset & ~(page - 1);
  dlp_auto_close int fd = -1;
  struct dlc__segment_facts facts;
  void *base;
  int r = grant_take_descriptor(grant, false, &fd, &facts, reterr);

  if (r == 0)
    r = dlc__segment_check(&facts, DLC__VIEW_READ, fd, reterr);
  if (r == 0)
    r = grant_check_end(place, facts.size, reterr);
  if (r < 0)
    return r;
  hold->private_size = place->offset + place->size - start;
  base = mmap(NULL, hold->private_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, (off_t)start);
  if (base == MAP_FAILED)
    return dlc__error_system(reterr, -errno, "map a private copy");
  (void)madvise(base, hold->private_size, MADV_DONTDUMP);
  hold->private_base = base;
  hold->data = (uint8_t *)base + (place->offset - start) + place->first;
  dlc__maps_forget_unmapped(&grant->client->maps, facts.epoch, facts.id);
  return 0;
}

static int grant_hold_data(const struct dlc__grant *grant, struct dlc__hold *hold,
                           struct dlc_error *reterr)
{
  return grant->access == DLC_ACCESS_PRIVATE ? grant_hold_private(grant, hold, reterr)
                                             : grant_hold_shared(grant, hold, reterr);
}

static uint64_t grant_flags(const struct dlc__grant *grant)
{
  uint64_t flags = 0;

  if (grant->access == DLC_ACCESS_READ)
    flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  if (grant->access == DLC_ACCESS_PRIVATE)
    flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
  if (grant->tensor->spec.flags & MSG_SPEC_SUBBYTE_PADDED)
    flags |= DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  return flags;
}

static int grant_hold_fill(const struct dlc__grant *grant, const struct tensor_extent *extent,
                           struct dlc__hold *hold, struct dlc_error *reterr)
{
  const struct dlc__reader reader = {grant->client->name_space, grant->own_uid};

  hold->flags = grant_flags(grant);
  hold->info = dlc__record_new(&reader, grant->tensor);
  if (!hold->info)
    return dlc__error_no_memory(reterr);
  return extent->low != extent->high ? grant_hold_data(grant, hold, reterr) : 0;
}

int dlc__grant_hold_consume(const struct dlc__grant *grant, struct dlc__lease *lease,
                            const char *name, struct dlc__hold **ret, struct dlc_error *reterr)
{
  struct dlc__hold *hold = NULL;
  struct tensor_extent extent;
  int r = grant_check(grant->tensor, &extent, reterr);

  if (r == 0) {
    hold = dlc__hold_new(grant->client, &grant->tensor->spec);
    r = hold ? 0 : dlc__error_no_memory(reterr);
  }
  if (r < 0) {
    dlc__transport_return_consume(grant->client->transport, lease);
    return r;
  }
  hold->lease = *lease;
  lease->pages = NULL;
  r = grant_hold_fill(grant, &extent, hold, reterr);
  if (r < 0) {
    dlc__hold_end(hold);
    return r;
  }
  dlc__cache_add(grant->client->cache, hold, grant->access == DLC_ACCESS_READ ? name : NULL);
  *ret = hold;
  return 0;
}

/* ---- private copies ---- */

bool dlc__hold_is_copied(uint64_t size)
{
  return size <= HEAP_COPY_MAX;
}

/* The bytes from the start of the block, for the alignment is of its start. */
static void hold_copy_bytes(const struct dlc__hold *source, struct dlc__hold *copy, uint8_t *to)
{
  const uint8_t *from;

  if (!source->data)
    return;
  from = source->mapping->base + source->info->offset;
  memcpy(to, from, source->info->nbytes);
  copy->data = to + ((const uint8_t *)source->data - from);
}

int dlc__hold_copy(const struct dlc__hold *source, struct dlc__hold **ret, struct dlc_error *reterr)
{
  size_t bytes_size = (source->info->nbytes + 7) / 8 * 8;
  uint8_t *extra;
  struct dlc__hold *copy = dlc__hold_new_with(source->client, &source->spec,
                                              bytes_size + dlc__record_size(source->info), &extra);

  if (!copy)
    return dlc__error_no_memory(reterr);
  copy->flags = (source->flags & ~DLPACK_FLAG_BITMASK_READ_ONLY) | DLPACK_FLAG_BITMASK_IS_COPIED;
  copy->info = dlc__record_copy(source->info, extra + bytes_size);
  copy->has_own_info = true;
  hold_copy_bytes(source, copy, extra);
  *ret = copy;
  return 0;
}
