/*
 * How much room a part takes in a packet, its tag and length prefix included.
 *
 * Counted rather than encoded, since whoever packs asks for each of thousands. Never
 * too little; what a field of value 0 takes is nothing, as on the wire.
 */

#include <string.h>

#include "proto/codec.h"

static size_t varint_size(uint64_t value)
{
  size_t size = 1;

  for (; value >= 128; value >>= 7)
    size++;
  return size;
}

/* Field numbers below 16 have a tag of one byte; below 2,048, of two. */
static size_t number_size(size_t tag_size, uint64_t value)
{
  return value ? tag_size + varint_size(value) : 0;
}

static size_t signed_size(size_t tag_size, int64_t value)
{
  return number_size(tag_size, (uint64_t)value);
}

static size_t enum_size(size_t tag_size, uint32_t value)
{
  return signed_size(tag_size, (int32_t)value);
}

static size_t nested_size(size_t tag_size, size_t content)
{
  return tag_size + varint_size(content) + content;
}

/* A text or list, which takes nothing if it is empty. */
static size_t content_size(size_t content)
{
  return content ? nested_size(1, content) : 0;
}

static size_t spec_size(const struct msg_spec *spec)
{
  size_t shape = 0, strides = 0;
  size_t size = number_size(1, spec->code) + number_size(1, spec->bits) +
                number_size(1, spec->lanes) + number_size(1, spec->flags);

  for (size_t i = 0; i < spec->ndim; i++) {
    shape += varint_size((uint64_t)spec->shape[i]);
    if (spec->strides)
      strides +=
          varint_size(((uint64_t)spec->strides[i] << 1) ^ (spec->strides[i] < 0 ? UINT64_MAX : 0));
  }
  return nested_size(1, size + content_size(shape) + content_size(strides));
}

static size_t place_size(const struct msg_place *place)
{
  return nested_size(1, number_size(1, place->segment) + number_size(1, place->offset) +
                            number_size(1, place->size) + number_size(1, place->first));
}

static size_t attributes_size(size_t tag_size, size_t n, const struct msg_attribute *attributes)
{
  size_t size = 0;

  for (size_t i = 0; i < n; i++)
    size += nested_size(tag_size, content_size(strlen(attributes[i].key)) +
                                      content_size(strlen(attributes[i].value)));
  return size;
}

size_t codec_name_size(const struct msg_name *name)
{
  size_t owner = name->owner == MSG_OWNER_SELF ? 0 : 1 + varint_size(name->owner);

  return nested_size(1, owner + content_size(strlen(name->path)));
}

size_t codec_tensor_size(const struct msg_tensor *tensor)
{
  size_t parts = codec_name_size(&tensor->name) + spec_size(&tensor->spec) +
                 place_size(&tensor->place) +
                 attributes_size(2, tensor->n_attributes, tensor->attributes);
  size_t numbers = number_size(1, tensor->version) + number_size(1, tensor->flags) +
                   enum_size(1, tensor->backend) + enum_size(1, tensor->lifetime) +
                   number_size(1, tensor->ttl_ms) + number_size(1, tensor->mode) +
                   number_size(1, tensor->gid) + number_size(1, tensor->publisher_uid) +
                   signed_size(1, tensor->publisher_pid) + number_size(1, tensor->created_us) +
                   number_size(1, tensor->age_ms) + number_size(1, tensor->readers) +
                   number_size(2, tensor->change);

  return nested_size(1, parts + numbers);
}

size_t codec_grant_size(const struct msg_grant *grant)
{
  return nested_size(1, number_size(1, grant->cell) + codec_tensor_size(&grant->tensor));
}

size_t codec_add_size(const struct msg_add *add)
{
  size_t expected = add->has_expected ? 1 + varint_size(add->expected) : 0;
  size_t payload = add->payload ? 3 + nested_size(2, add->place.size) : 0;

  return nested_size(1, codec_name_size(&add->name) + spec_size(&add->spec) +
                            place_size(&add->place) + number_size(1, add->freeze) +
                            number_size(1, add->keep) + expected + payload +
                            attributes_size(1, add->n_attributes, add->attributes));
}
