#include "client/record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/owner.h"
#include "proto/tensor_spec.h"

_Static_assert((int)DLC_INFO_MUTABLE == (int)MSG_TENSOR_MUTABLE, "flags of info and wire");
_Static_assert((int)DLC_INFO_FROZEN == (int)MSG_TENSOR_FROZEN, "flags of info and wire");
_Static_assert((int)DLC_INFO_UNSEALED == (int)MSG_TENSOR_UNSEALED, "flags of info and wire");
_Static_assert((int)DLC_INFO_RETIRED == (int)MSG_TENSOR_RETIRED, "flags of info and wire");
_Static_assert((int)DLC_LIFETIME_TTL == (int)MSG_LIFETIME_TTL, "lifetimes of info and wire");
_Static_assert((int)DLC_BACKEND_POSIX_SHM == (int)MSG_BACKEND_POSIX_SHM, "backends");

#define WIRE_FLAGS (DLC_INFO_MUTABLE | DLC_INFO_FROZEN | DLC_INFO_UNSEALED | DLC_INFO_RETIRED)

#define DEVICE_CPU 1

/* How the one piece is divided: the struct, numbers, pairs, then texts. */
struct record_size {
  size_t dims;
  size_t attributes;
  size_t texts;
};

static struct record_size record_measure(const struct msg_tensor *tensor, const char *name)
{
  struct record_size size = {
      .dims = 2 * tensor->spec.ndim * sizeof(int64_t),
      .attributes = tensor->n_attributes * sizeof(struct dlc_attribute),
      .texts = strlen(name) + 1,
  };

  for (size_t i = 0; i < tensor->n_attributes; i++)
    size.texts += strlen(tensor->attributes[i].key) + strlen(tensor->attributes[i].value) + 2;
  return size;
}

static const char *record_text(char **at, const char *text)
{
  size_t size = strlen(text) + 1;
  char *copy = *at;

  memcpy(copy, text, size);
  *at += size;
  return copy;
}

static int record_compare_keys(const void *a, const void *b)
{
  return strcmp(((const struct dlc_attribute *)a)->key, ((const struct dlc_attribute *)b)->key);
}

static void record_set_attributes(struct dlc_info *info, struct dlc_attribute *attributes,
                                  char **texts, const struct msg_tensor *tensor)
{
  info->n_attributes = tensor->n_attributes;
  info->attributes = tensor->n_attributes > 0 ? attributes : NULL;
  if (tensor->n_attributes == 0)
    return;
  for (size_t i = 0; i < tensor->n_attributes; i++) {
    attributes[i].key = record_text(texts, tensor->attributes[i].key);
    attributes[i].value = record_text(texts, tensor->attributes[i].value);
  }
  qsort(attributes, tensor->n_attributes, sizeof(*attributes), record_compare_keys);
}

static void record_set_dims(struct dlc_info *info, int64_t *dims, const struct msg_spec *spec)
{
  info->dtype_code = (uint8_t)spec->code;
  info->dtype_bits = (uint8_t)spec->bits;
  info->dtype_lanes = (uint16_t)spec->lanes;
  info->ndim = (int32_t)spec->ndim;
  info->shape = dims;
  info->strides = dims + spec->ndim;
  if (spec->ndim == 0)
    return;
  memcpy(dims, spec->shape, spec->ndim * sizeof(*dims));
  if (spec->strides)
    memcpy(dims + spec->ndim, spec->strides, spec->ndim * sizeof(*dims));
  else
    tensor_spec_compact_strides(spec, dims + spec->ndim);
}

static void record_set_facts(struct dlc_info *info, const struct msg_tensor *tensor)
{
  info->struct_size = sizeof(*info);
  info->version = tensor->version;
  info->flags = tensor->flags & WIRE_FLAGS;
  if (tensor->spec.flags & MSG_SPEC_SUBBYTE_PADDED)
    info->flags |= DLC_INFO_PADDED;
  info->device_type = DEVICE_CPU;
  info->nbytes = tensor->place.size;
  info->lifetime = tensor->lifetime;
  info->backend = tensor->backend;
  info->ttl_ms = tensor->ttl_ms;
  info->owner_uid = tensor->name.owner;
  info->gid = tensor->gid;
  info->mode = tensor->mode;
  info->publisher_uid = tensor->publisher_uid;
  info->publisher_pid = tensor->publisher_pid;
  info->readers = tensor->readers;
  info->created_us = tensor->created_us;
  info->age_ms = tensor->age_ms;
  info->segment = tensor->place.segment;
  info->offset = tensor->place.offset;
}

struct dlc_info *dlc__record_new(const struct dlc__reader *reader, const struct msg_tensor *tensor)
{
  char name[DLC__SHOWN_NAME_MAX + 1];
  struct record_size size;
  struct dlc_info *info;
  int64_t *dims;
  struct dlc_attribute *attributes;
  char *texts;

  assert(tensor->spec.ndim <= DLP_NDIM_MAX);
  dlc__name_show(reader->name_space, reader->own_uid, &tensor->name, name);
  size = record_measure(tensor, name);
  info = (struct dlc_info *)calloc(1, sizeof(*info) + size.dims + size.attributes + size.texts);
  if (!info)
    return NULL;
  dims = (int64_t *)(info + 1);
  attributes = (struct dlc_attribute *)((char *)dims + size.dims);
  texts = (char *)attributes + size.attributes;
  record_set_facts(info, tensor);
  record_set_dims(info, dims, &tensor->spec);
  info->name = record_text(&texts, name);
  record_set_attributes(info, attributes, &texts, tensor);
  return info;
}

/* Texts are at the end, and the last one ends the piece. */
size_t dlc__record_size(const struct dlc_info *info)
{
  const char *last = info->name;

  /* Their order is of the keys, not of the texts. */
  for (size_t i = 0; i < info->n_attributes; i++) {
    if (info->attributes[i].value > last)
      last = info->attributes[i].value;
  }
  return (size_t)(last + strlen(last) + 1 - (const char *)info);
}

static const void *record_moved(const struct dlc_info *from, const struct dlc_info *to,
                                const void *pointer)
{
  return (const char *)to + ((const char *)pointer - (const char *)from);
}

struct dlc_info *dlc__record_copy(const struct dlc_info *info, void *memory)
{
  struct dlc_info *copy = (struct dlc_info *)memory;
  struct dlc_attribute *attributes;

  memcpy(copy, info, dlc__record_size(info));
  copy->name = (const char *)record_moved(info, copy, info->name);
  copy->shape = (const int64_t *)record_moved(info, copy, info->shape);
  copy->strides = (const int64_t *)record_moved(info, copy, info->strides);
  if (info->n_attributes == 0)
    return copy;
  attributes = (struct dlc_attribute *)record_moved(info, copy, info->attributes);
  copy->attributes = attributes;
  for (size_t i = 0; i < info->n_attributes; i++) {
    attributes[i].key = (const char *)record_moved(info, copy, info->attributes[i].key);
    attributes[i].value = (const char *)record_moved(info, copy, info->attributes[i].value);
  }
  return copy;
}
