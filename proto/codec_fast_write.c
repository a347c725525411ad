/* Messages to bytes by hand: each writer is the list of a message's fields, in the
 * order of their numbers. What breaks a limit is a bug of ours. */

#include <assert.h>
#include <string.h>

#include "codec_fast.h"
#include "codec_private.h"
#include "proto/wire.h"

/* ---- parts ---- */

static void write_name(struct wire_writer *writer, uint32_t field, const struct msg_name *in)
{
  uint8_t *name = wire_begin(writer, field);

  assert(in->path);
  if (in->owner != MSG_OWNER_SELF)
    wire_write_number(writer, 1, in->owner);
  wire_write_text(writer, 2, in->path);
  wire_end(writer, name);
}

static void write_shape(struct wire_writer *writer, const struct msg_spec *in)
{
  uint8_t *shape = wire_begin(writer, 5);

  for (size_t i = 0; i < in->ndim; i++)
    wire_write_varint(writer, (uint64_t)in->shape[i]);
  wire_end(writer, shape);
}

static void write_strides(struct wire_writer *writer, const struct msg_spec *in)
{
  uint8_t *strides = wire_begin(writer, 6);

  for (size_t i = 0; i < in->ndim; i++)
    wire_write_varint(writer, wire_zigzag(in->strides[i]));
  wire_end(writer, strides);
}

static void write_spec(struct wire_writer *writer, uint32_t field, const struct msg_spec *in)
{
  uint8_t *spec = wire_begin(writer, field);

  assert(in->ndim <= DLP_NDIM_MAX);
  assert(in->ndim == 0 || in->shape);
  wire_write_u64(writer, 1, in->code);
  wire_write_u64(writer, 2, in->bits);
  wire_write_u64(writer, 3, in->lanes);
  wire_write_u64(writer, 4, in->flags);
  if (in->ndim > 0)
    write_shape(writer, in);
  if (in->ndim > 0 && in->strides)
    write_strides(writer, in);
  wire_end(writer, spec);
}

static void write_place(struct wire_writer *writer, uint32_t field, const struct msg_place *in)
{
  uint8_t *place = wire_begin(writer, field);

  wire_write_u64(writer, 1, in->segment);
  wire_write_u64(writer, 2, in->offset);
  wire_write_u64(writer, 3, in->size);
  wire_write_u64(writer, 4, in->first);
  wire_end(writer, place);
}

static void write_segments(struct wire_writer *writer, uint32_t field, size_t n,
                           const struct msg_segment *in)
{
  for (size_t i = 0; i < n; i++) {
    uint8_t *segment = wire_begin(writer, field);

    wire_write_u64(writer, 1, in[i].id);
    wire_write_u64(writer, 2, in[i].size);
    wire_write_i32(writer, 3, (int32_t)in[i].backend);
    wire_write_u64(writer, 4, in[i].fd_index);
    wire_end(writer, segment);
  }
}

static void write_attributes(struct wire_writer *writer, uint32_t field, size_t n,
                             const struct msg_attribute *in)
{
  size_t size = 0;

  for (size_t i = 0; i < n; i++) {
    size_t key_size = strlen(in[i].key), value_size = strlen(in[i].value);
    uint8_t *attribute = wire_begin(writer, field);

    wire_write_bytes(writer, 1, in[i].key, key_size);
    wire_write_bytes(writer, 2, in[i].value, value_size);
    wire_end(writer, attribute);
    size += key_size + value_size;
  }
  assert(size <= DLP_ATTRIBUTES_MAX);
}

static void write_tensor(struct wire_writer *writer, uint32_t field, const struct msg_tensor *in)
{
  uint8_t *tensor = wire_begin(writer, field);

  assert(in->name.owner != MSG_OWNER_SELF);
  write_name(writer, 1, &in->name);
  wire_write_u64(writer, 2, in->version);
  write_spec(writer, 3, &in->spec);
  write_place(writer, 4, &in->place);
  wire_write_u64(writer, 5, in->flags);
  wire_write_i32(writer, 6, (int32_t)in->backend);
  wire_write_i32(writer, 7, (int32_t)in->lifetime);
  wire_write_u64(writer, 8, in->ttl_ms);
  wire_write_u64(writer, 9, in->mode);
  wire_write_u64(writer, 10, in->gid);
  wire_write_u64(writer, 11, in->publisher_uid);
  wire_write_i32(writer, 12, in->publisher_pid);
  wire_write_u64(writer, 13, in->created_us);
  wire_write_u64(writer, 14, in->age_ms);
  wire_write_u64(writer, 15, in->readers);
  wire_write_u64(writer, 16, in->change);
  write_attributes(writer, 17, in->n_attributes, in->attributes);
  wire_end(writer, tensor);
}

/* ---- bodies of requests ---- */

static void write_ping(struct wire_writer *writer, const struct msg_request *in)
{
}

static void write_add(struct wire_writer *writer, uint32_t field, const struct msg_add *in)
{
  uint8_t *add = wire_begin(writer, field);

  write_name(writer, 1, &in->name);
  write_spec(writer, 2, &in->spec);
  write_place(writer, 3, &in->place);
  wire_write_u64(writer, 4, in->freeze);
  if (in->has_expected)
    wire_write_number(writer, 5, in->expected);
  write_attributes(writer, 6, in->n_attributes, in->attributes);
  wire_write_u64(writer, 7, in->keep);
  if (in->payload) {
    assert(in->place.size <= DLP_INLINE_MAX);
    wire_write_u64(writer, 16, true);
    wire_write_bytes(writer, 17, in->payload, in->place.size);
  }
  wire_end(writer, add);
}

static void write_publish(struct wire_writer *writer, const struct msg_request *in)
{
  const struct msg_publish *publish = &in->u.publish;

  assert(publish->n_adds <= DLP_BATCH_MAX);
  wire_write_u64(writer, 1, publish->key);
  wire_write_u64(writer, 2, publish->commit);
  wire_write_u64(writer, 3, publish->ttl_ms);
  for (size_t i = 0; i < publish->n_adds; i++)
    write_add(writer, 4, &publish->adds[i]);
  wire_write_i32(writer, 5, (int32_t)publish->lifetime);
  wire_write_u64(writer, 6, publish->mode);
  if (publish->gid != MSG_OWNER_SELF)
    wire_write_number(writer, 7, publish->gid);
}

static void write_get(struct wire_writer *writer, const struct msg_request *in)
{
  const struct msg_get *get = &in->u.get;

  assert(get->n_names <= DLP_BATCH_MAX);
  assert(!get->by_prefix || (get->n_names == 1 && !get->more));
  wire_write_u64(writer, 1, get->more);
  wire_write_u64(writer, 2, get->by_prefix);
  wire_write_i32(writer, 3, (int32_t)get->access);
  wire_write_u64(writer, 4, get->version);
  wire_write_u64(writer, 5, get->newer_than);
  wire_write_u64(writer, 6, get->timeout_ms);
  for (size_t i = 0; i < get->n_names; i++)
    write_name(writer, 7, &get->names[i]);
}

static void write_release(struct wire_writer *writer, const struct msg_request *in)
{
  const struct msg_release *release = &in->u.release;
  uint8_t *cells;

  assert(release->n_cells <= DLP_BATCH_MAX);
  if (release->n_cells == 0)
    return;
  cells = wire_begin(writer, 1);
  for (size_t i = 0; i < release->n_cells; i++)
    wire_write_varint(writer, release->cells[i]);
  wire_end(writer, cells);
}

typedef void (*write_request_fn)(struct wire_writer *writer, const struct msg_request *in);

static const write_request_fn request_bodies[MSG_STATS + 1] = {
    [MSG_PING] = write_ping,
    [MSG_PUBLISH] = write_publish,
    [MSG_GET] = write_get,
    [MSG_RELEASE] = write_release,
};

bool codec_fast_writes_request(const struct msg_request *request)
{
  assert(request->type >= MSG_HELLO && request->type <= MSG_STATS);
  return request_bodies[request->type] != NULL;
}

/* ---- bodies of replies ---- */

static void write_allocated(struct wire_writer *writer, const struct msg_reply *in)
{
  const struct msg_allocated *allocated = &in->u.allocated;

  for (size_t i = 0; i < allocated->n_places; i++)
    write_place(writer, 1, &allocated->places[i]);
  write_segments(writer, 2, allocated->n_segments, allocated->segments);
}

static void write_published(struct wire_writer *writer, const struct msg_reply *in)
{
  wire_write_u64(writer, 1, in->u.published.version);
}

static void write_granted(struct wire_writer *writer, const struct msg_reply *in)
{
  const struct msg_granted *granted = &in->u.granted;

  for (size_t i = 0; i < granted->n_grants; i++) {
    uint8_t *grant = wire_begin(writer, 1);

    wire_write_u64(writer, 1, granted->grants[i].cell);
    write_tensor(writer, 2, &granted->grants[i].tensor);
    wire_end(writer, grant);
  }
  write_segments(writer, 2, granted->n_segments, granted->segments);
}

static void write_listed(struct wire_writer *writer, const struct msg_reply *in)
{
  const struct msg_listed *listed = &in->u.listed;

  for (size_t i = 0; i < listed->n_tensors; i++)
    write_tensor(writer, 1, &listed->tensors[i]);
  wire_write_u64(writer, 2, listed->done);
  if (listed->next.path)
    write_name(writer, 3, &listed->next);
}

typedef void (*write_reply_fn)(struct wire_writer *writer, const struct msg_reply *in);

static const write_reply_fn reply_bodies[MSG_COUNTERS + 1] = {
    [MSG_ALLOCATED] = write_allocated,
    [MSG_PUBLISHED] = write_published,
    [MSG_GRANTED] = write_granted,
    [MSG_LISTED] = write_listed,
};

bool codec_fast_writes_reply(const struct msg_reply *reply)
{
  assert(reply->type >= MSG_REPLY_EMPTY && reply->type <= MSG_COUNTERS);
  return reply->type == MSG_REPLY_EMPTY || reply_bodies[reply->type] != NULL;
}

/* ---- envelopes ---- */

static int finish(const struct wire_writer *writer, const uint8_t *buffer, size_t *ret_size)
{
  if (writer->failed)
    return CODEC_E_TOO_LARGE;
  *ret_size = (size_t)(writer->at - buffer);
  return 0;
}

int codec_fast_encode_request(uint8_t *buffer, size_t size, size_t *ret_size,
                              const struct msg_request *request)
{
  struct wire_writer writer = {.at = buffer, .end = buffer + size};
  uint8_t *body;

  assert(request->id != 0 || request->type == MSG_RELEASE);
  wire_write_u64(&writer, 1, request->id);
  wire_write_u64(&writer, 2, request->n_fds);
  body = wire_begin(&writer, request->type + CODEC_BODY_BASE);
  request_bodies[request->type](&writer, request);
  wire_end(&writer, body);
  return finish(&writer, buffer, ret_size);
}

static void write_dropped(struct wire_writer *writer, size_t n, const uint64_t *in)
{
  uint8_t *dropped = wire_begin(writer, 6);

  for (size_t i = 0; i < n; i++)
    wire_write_varint(writer, in[i]);
  wire_end(writer, dropped);
}

int codec_fast_encode_reply(uint8_t *buffer, size_t size, size_t *ret_size,
                            const struct msg_reply *reply)
{
  struct wire_writer writer = {.at = buffer, .end = buffer + size};
  uint8_t *body;

  wire_write_u64(&writer, 1, reply->id);
  wire_write_u64(&writer, 2, reply->n_fds);
  wire_write_u64(&writer, 3, reply->more);
  wire_write_i32(&writer, 4, (int32_t)reply->status);
  wire_write_text(&writer, 5, reply->status ? reply->message : NULL);
  if (reply->n_dropped > 0)
    write_dropped(&writer, reply->n_dropped, reply->dropped);
  if (reply->type != MSG_REPLY_EMPTY) {
    body = wire_begin(&writer, reply->type + CODEC_BODY_BASE);
    reply_bodies[reply->type](&writer, reply);
    wire_end(&writer, body);
  }
  return finish(&writer, buffer, ret_size);
}
