/* The parts that requests and replies have in common, both ways. */

#include <assert.h>
#include <string.h>

#include "codec_private.h"
#include "common/utf8.h"
#include "proto/codec.h"

bool codec_require(struct codec_arena *arena, bool condition)
{
  if (!condition)
    codec_fail(arena, CODEC_E_MALFORMED);
  return condition;
}

/* ---- text and tokens ---- */

static bool is_text(const ProtobufCBinaryData *in)
{
  return !memchr(in->data, '\0', in->len) && dlp_utf8_valid((const char *)in->data, in->len);
}

const char *codec_read_text(struct codec_arena *arena, const ProtobufCBinaryData *in)
{
  char *text;

  if (in->len == 0 || !codec_require(arena, is_text(in)))
    return "";
  text = codec_arena_alloc(arena, in->len + 1);
  if (!text)
    return "";
  memcpy(text, in->data, in->len);
  text[in->len] = '\0';
  return text;
}

ProtobufCBinaryData codec_write_text(const char *text)
{
  return (ProtobufCBinaryData){.len = text ? strlen(text) : 0, .data = (uint8_t *)text};
}

const uint8_t *codec_read_token(struct codec_arena *arena, const ProtobufCBinaryData *in)
{
  if (in->len == 0 || !codec_require(arena, in->len == DLP_TOKEN_SIZE))
    return NULL;
  return in->data;
}

ProtobufCBinaryData codec_write_token(const uint8_t *token)
{
  return (ProtobufCBinaryData){.len = token ? DLP_TOKEN_SIZE : 0, .data = (uint8_t *)token};
}

/* ---- name ---- */

void codec_read_name(struct codec_arena *arena, struct msg_name *ret, const Dlpackd__Name *in)
{
  *ret = (struct msg_name){.owner = MSG_OWNER_SELF, .path = ""};
  if (!codec_require(arena, in))
    return;
  if (in->owner_choice_case == DLPACKD__NAME__OWNER_CHOICE_OWNER)
    ret->owner = in->owner;
  ret->path = codec_read_text(arena, &in->path);
}

Dlpackd__Name *codec_write_name(struct codec_arena *arena, const struct msg_name *in)
{
  Dlpackd__Name *name = CODEC_NEW(arena, Dlpackd__Name, DLPACKD__NAME__INIT);

  assert(in->path);
  if (!name)
    return NULL;
  name->path = codec_write_text(in->path);
  if (in->owner != MSG_OWNER_SELF) {
    name->owner_choice_case = DLPACKD__NAME__OWNER_CHOICE_OWNER;
    name->owner = in->owner;
  }
  return name;
}

/* ---- spec ---- */

void codec_read_spec(struct codec_arena *arena, struct msg_spec *ret, const Dlpackd__Spec *in)
{
  *ret = (struct msg_spec){0};
  if (!codec_require(arena, in))
    return;
  if (!codec_require(arena, in->n_shape <= DLP_NDIM_MAX) ||
      !codec_require(arena, in->n_strides == 0 || in->n_strides == in->n_shape))
    return;
  *ret = (struct msg_spec){
      .code = in->code,
      .bits = in->bits,
      .lanes = in->lanes,
      .flags = in->flags,
      .ndim = in->n_shape,
      .shape = in->n_shape ? in->shape : NULL,
      .strides = in->n_strides ? in->strides : NULL,
  };
}

Dlpackd__Spec *codec_write_spec(struct codec_arena *arena, const struct msg_spec *in)
{
  Dlpackd__Spec *spec = CODEC_NEW(arena, Dlpackd__Spec, DLPACKD__SPEC__INIT);

  assert(in->ndim <= DLP_NDIM_MAX);
  assert(in->ndim == 0 || in->shape);
  if (!spec)
    return NULL;
  spec->code = in->code;
  spec->bits = in->bits;
  spec->lanes = in->lanes;
  spec->flags = in->flags;
  spec->n_shape = in->ndim;
  spec->shape = (int64_t *)in->shape;
  spec->n_strides = in->strides ? in->ndim : 0;
  spec->strides = (int64_t *)in->strides;
  return spec;
}

/* ---- place and segment ---- */

void codec_read_place(struct codec_arena *arena, struct msg_place *ret, const Dlpackd__Place *in)
{
  *ret = (struct msg_place){0};
  if (!codec_require(arena, in))
    return;
  *ret = (struct msg_place){
      .segment = in->segment, .offset = in->offset, .size = in->size, .first = in->first};
}

Dlpackd__Place *codec_write_place(struct codec_arena *arena, const struct msg_place *in)
{
  Dlpackd__Place *place = CODEC_NEW(arena, Dlpackd__Place, DLPACKD__PLACE__INIT);

  if (!place)
    return NULL;
  place->segment = in->segment;
  place->offset = in->offset;
  place->size = in->size;
  place->first = in->first;
  return place;
}

void codec_read_segment(struct codec_arena *arena, struct msg_segment *ret,
                        const Dlpackd__Segment *in)
{
  *ret = (struct msg_segment){0};
  if (!codec_require(arena, in))
    return;
  *ret = (struct msg_segment){
      .id = in->id, .size = in->size, .backend = (uint32_t)in->backend, .fd_index = in->fd_index};
}

Dlpackd__Segment *codec_write_segment(struct codec_arena *arena, const struct msg_segment *in)
{
  Dlpackd__Segment *segment = CODEC_NEW(arena, Dlpackd__Segment, DLPACKD__SEGMENT__INIT);

  if (!segment)
    return NULL;
  segment->id = in->id;
  segment->size = in->size;
  segment->backend = (Dlpackd__Backend)in->backend;
  segment->fd_index = in->fd_index;
  return segment;
}

/* ---- attributes ---- */

const struct msg_attribute *codec_read_attributes(struct codec_arena *arena, size_t n,
                                                  Dlpackd__Attribute *const *in)
{
  struct msg_attribute *attributes = codec_arena_array(arena, n, sizeof(*attributes));
  size_t size = 0;

  for (size_t i = 0; attributes && i < n; i++) {
    size += in[i]->key.len + in[i]->value.len;
    if (!codec_require(arena, size <= DLP_ATTRIBUTES_MAX))
      break;
    attributes[i].key = codec_read_text(arena, &in[i]->key);
    attributes[i].value = codec_read_text(arena, &in[i]->value);
  }
  return attributes;
}

Dlpackd__Attribute **codec_write_attributes(struct codec_arena *arena, size_t n,
                                            const struct msg_attribute *in)
{
  Dlpackd__Attribute **attributes = CODEC_POINTERS(arena, n);
  size_t size = 0;

  for (size_t i = 0; attributes && i < n; i++) {
    attributes[i] = CODEC_NEW(arena, Dlpackd__Attribute, DLPACKD__ATTRIBUTE__INIT);
    if (!attributes[i])
      break;
    attributes[i]->key = codec_write_text(in[i].key);
    attributes[i]->value = codec_write_text(in[i].value);
    size += attributes[i]->key.len + attributes[i]->value.len;
  }
  assert(size <= DLP_ATTRIBUTES_MAX);
  return attributes;
}

/* ---- tensor ---- */

void codec_read_tensor(struct codec_arena *arena, struct msg_tensor *ret, const Dlpackd__Tensor *in)
{
  *ret = (struct msg_tensor){.name.path = ""};
  if (!codec_require(arena, in))
    return;
  *ret = (struct msg_tensor){
      .version = in->version,
      .flags = in->flags,
      .backend = (uint32_t)in->backend,
      .lifetime = (uint32_t)in->lifetime,
      .ttl_ms = in->ttl_ms,
      .mode = in->mode,
      .gid = in->gid,
      .publisher_uid = in->publisher_uid,
      .publisher_pid = in->publisher_pid,
      .created_us = in->created_us,
      .age_ms = in->age_ms,
      .readers = in->readers,
      .change = in->change,
      .n_attributes = in->n_attributes,
      .attributes = codec_read_attributes(arena, in->n_attributes, in->attributes),
  };
  codec_read_name(arena, &ret->name, in->name);
  codec_require(arena, ret->name.owner != MSG_OWNER_SELF);
  codec_read_spec(arena, &ret->spec, in->spec);
  codec_read_place(arena, &ret->place, in->place);
}

Dlpackd__Tensor *codec_write_tensor(struct codec_arena *arena, const struct msg_tensor *in)
{
  Dlpackd__Tensor *tensor = CODEC_NEW(arena, Dlpackd__Tensor, DLPACKD__TENSOR__INIT);

  assert(in->name.owner != MSG_OWNER_SELF);
  if (!tensor)
    return NULL;
  tensor->name = codec_write_name(arena, &in->name);
  tensor->version = in->version;
  tensor->spec = codec_write_spec(arena, &in->spec);
  tensor->place = codec_write_place(arena, &in->place);
  tensor->flags = in->flags;
  tensor->backend = (Dlpackd__Backend)in->backend;
  tensor->lifetime = (Dlpackd__Lifetime)in->lifetime;
  tensor->ttl_ms = in->ttl_ms;
  tensor->mode = in->mode;
  tensor->gid = in->gid;
  tensor->publisher_uid = in->publisher_uid;
  tensor->publisher_pid = in->publisher_pid;
  tensor->created_us = in->created_us;
  tensor->age_ms = in->age_ms;
  tensor->readers = in->readers;
  tensor->change = in->change;
  tensor->n_attributes = in->n_attributes;
  tensor->attributes = codec_write_attributes(arena, in->n_attributes, in->attributes);
  return tensor;
}
