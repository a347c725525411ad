/*
 * Bytes to messages by hand: each reader is the list of a message's fields, in the
 * order of their numbers. The first that is not as a writer of ours would have written
 * it ends the attempt, and what was made of it is thrown away.
 *
 * Memory comes from `own` of what is filled, and from the heap once that is used up. A
 * packet for which the full reader would need more than its budget must not be read
 * here either, or how much a sender may ask of us would depend on how it writes: so what
 * the full reader would take is counted along.
 */

#include <string.h>

#include "codec_fast.h"
#include "codec_private.h"
#include "proto/wire.h"

/* Chunks are not filled to the last byte, and protobuf-c takes working space for lists:
 * a quarter of the budget is more than both. */
#define COST_MAX (DLP_DECODE_BUDGET / 4 * 3)
/* What the arena puts around a block, and what protobuf-c notes down of a field. */
#define COST_BLOCK 16
#define COST_FIELD 64

struct fast {
  struct wire_reader in;
  struct codec_arena arena;
  size_t cost; /* of the full reader's heap */
};

/* ---- memory ---- */

static void *allocate(struct fast *fast, size_t n, size_t size)
{
  void *array = NULL;

  if (n > 0 && !(array = codec_arena_alloc(&fast->arena, n * size)))
    wire_fail(&fast->in);
  return array;
}

/* An array for the fields of this tag that come now. */
static void *allocate_list(struct fast *fast, uint32_t tag, size_t size, size_t *ret_n)
{
  *ret_n = wire_count(&fast->in, tag);
  fast->cost += *ret_n * (size + COST_FIELD);
  return allocate(fast, *ret_n, size);
}

/* A message that the full reader has a copy of. */
static const uint8_t *enter(struct fast *fast, size_t full_size)
{
  fast->cost += full_size + COST_BLOCK;
  return wire_enter(&fast->in);
}

/* ---- parts ---- */

static void require(struct fast *fast, bool condition)
{
  if (!condition)
    wire_fail(&fast->in);
}

/* A number that may be absent, for which `absent` stands. */
static uint32_t read_choice(struct fast *fast, uint32_t field, uint32_t absent)
{
  uint64_t value = absent;

  if (wire_take_tag(&fast->in, WIRE_TAG(field, WIRE_VARINT)))
    value = wire_read_varint(&fast->in);
  require(fast, value <= UINT32_MAX);
  return (uint32_t)value;
}

static const char *read_text(struct fast *fast, uint32_t field)
{
  struct wire_bytes bytes = wire_read_bytes(&fast->in, field);
  char *text;

  if (bytes.size == 0)
    return "";
  fast->cost += 2 * (bytes.size + COST_BLOCK);
  require(fast, wire_is_text(bytes));
  text = allocate(fast, bytes.size + 1, 1);
  if (!text)
    return "";
  memcpy(text, bytes.data, bytes.size);
  text[bytes.size] = '\0';
  return text;
}

static void read_name(struct fast *fast, struct msg_name *ret)
{
  const uint8_t *outer = enter(fast, sizeof(Dlpackd__Name));

  ret->owner = read_choice(fast, 1, MSG_OWNER_SELF);
  ret->path = read_text(fast, 2);
  wire_leave(&fast->in, outer);
}

/* A packed list; *ret_n is how many it has. */
static uint64_t *read_numbers(struct fast *fast, uint32_t field, size_t *ret_n)
{
  struct wire_bytes list = wire_read_bytes(&fast->in, field);
  struct wire_reader numbers = {.at = list.data, .end = list.data + list.size};
  uint64_t *values;

  *ret_n = wire_count_packed(list);
  fast->cost += *ret_n * sizeof(*values) + COST_BLOCK;
  values = allocate(fast, *ret_n, sizeof(*values));
  for (size_t i = 0; values && i < *ret_n; i++)
    values[i] = wire_read_varint(&numbers);
  require(fast, !numbers.failed && numbers.at == numbers.end);
  return values;
}

static void read_spec(struct fast *fast, struct msg_spec *ret)
{
  const uint8_t *outer = enter(fast, sizeof(Dlpackd__Spec));
  uint64_t *strides;
  size_t n_strides;

  ret->code = wire_read_u32(&fast->in, 1);
  ret->bits = wire_read_u32(&fast->in, 2);
  ret->lanes = wire_read_u32(&fast->in, 3);
  ret->flags = wire_read_u32(&fast->in, 4);
  ret->shape = (const int64_t *)read_numbers(fast, 5, &ret->ndim);
  strides = read_numbers(fast, 6, &n_strides);
  for (size_t i = 0; strides && i < n_strides; i++)
    strides[i] = (uint64_t)wire_unzigzag(strides[i]);
  ret->strides = (const int64_t *)strides;
  require(fast, ret->ndim <= DLP_NDIM_MAX && (n_strides == 0 || n_strides == ret->ndim));
  wire_leave(&fast->in, outer);
}

static void read_place(struct fast *fast, struct msg_place *ret)
{
  const uint8_t *outer = enter(fast, sizeof(Dlpackd__Place));

  ret->segment = wire_read_u64(&fast->in, 1);
  ret->offset = wire_read_u64(&fast->in, 2);
  ret->size = wire_read_u64(&fast->in, 3);
  ret->first = wire_read_u64(&fast->in, 4);
  wire_leave(&fast->in, outer);
}

static const struct msg_segment *read_segments(struct fast *fast, uint32_t field, size_t *ret_n)
{
  const uint32_t tag = WIRE_TAG(field, WIRE_LENGTH);
  struct msg_segment *segments = allocate_list(fast, tag, sizeof(*segments), ret_n);

  for (size_t i = 0; wire_take_tag(&fast->in, tag); i++) {
    const uint8_t *outer = enter(fast, sizeof(Dlpackd__Segment));

    segments[i].id = wire_read_u64(&fast->in, 1);
    segments[i].size = wire_read_u64(&fast->in, 2);
    segments[i].backend = wire_read_i32(&fast->in, 3);
    segments[i].fd_index = wire_read_u32(&fast->in, 4);
    wire_leave(&fast->in, outer);
  }
  return segments;
}

static const struct msg_attribute *read_attributes(struct fast *fast, uint32_t field, size_t *ret_n)
{
  const uint32_t tag = WIRE_TAG(field, WIRE_LENGTH);
  struct msg_attribute *attributes = allocate_list(fast, tag, sizeof(*attributes), ret_n);
  size_t size = 0;

  for (size_t i = 0; wire_take_tag(&fast->in, tag); i++) {
    const uint8_t *outer = enter(fast, sizeof(Dlpackd__Attribute));

    attributes[i].key = read_text(fast, 1);
    attributes[i].value = read_text(fast, 2);
    size += strlen(attributes[i].key) + strlen(attributes[i].value);
    wire_leave(&fast->in, outer);
  }
  require(fast, size <= DLP_ATTRIBUTES_MAX);
  return attributes;
}

/* For a part that has to be there: `take(fast, 1), read_name(fast, ...)`. */
static void take(struct fast *fast, uint32_t field)
{
  require(fast, wire_take_tag(&fast->in, WIRE_TAG(field, WIRE_LENGTH)));
}

static void read_tensor(struct fast *fast, struct msg_tensor *ret)
{
  const uint8_t *outer = enter(fast, sizeof(Dlpackd__Tensor));

  take(fast, 1);
  read_name(fast, &ret->name);
  require(fast, ret->name.owner != MSG_OWNER_SELF);
  ret->version = wire_read_u64(&fast->in, 2);
  take(fast, 3);
  read_spec(fast, &ret->spec);
  take(fast, 4);
  read_place(fast, &ret->place);
  ret->flags = wire_read_u32(&fast->in, 5);
  ret->backend = wire_read_i32(&fast->in, 6);
  ret->lifetime = wire_read_i32(&fast->in, 7);
  ret->ttl_ms = wire_read_u64(&fast->in, 8);
  ret->mode = wire_read_u32(&fast->in, 9);
  ret->gid = wire_read_u32(&fast->in, 10);
  ret->publisher_uid = wire_read_u32(&fast->in, 11);
  ret->publisher_pid = (int32_t)wire_read_i32(&fast->in, 12);
  ret->created_us = wire_read_u64(&fast->in, 13);
  ret->age_ms = wire_read_u64(&fast->in, 14);
  ret->readers = wire_read_u32(&fast->in, 15);
  ret->change = wire_read_u64(&fast->in, 16);
  ret->attributes = read_attributes(fast, 17, &ret->n_attributes);
  wire_leave(&fast->in, outer);
}

/* ---- bodies of requests; the envelope has entered them ---- */

static void read_ping(struct fast *fast, struct msg_request *ret)
{
}

/* The bytes are kept too: the packet's buffer is not. */
static const uint8_t *read_payload(struct fast *fast, const struct msg_place *place)
{
  bool is_inline = wire_read_bool(&fast->in, 16);
  struct wire_bytes bytes = wire_read_bytes(&fast->in, 17);
  uint8_t *payload;

  if (!is_inline) {
    require(fast, bytes.size == 0);
    return NULL;
  }
  require(fast, bytes.size <= DLP_INLINE_MAX && bytes.size == place->size);
  fast->cost += bytes.size + COST_BLOCK;
  payload = allocate(fast, bytes.size, 1);
  if (!payload)
    return (const uint8_t *)"";
  memcpy(payload, bytes.data, bytes.size);
  return payload;
}

static void read_add(struct fast *fast, struct msg_add *ret)
{
  const uint8_t *outer = enter(fast, sizeof(Dlpackd__Add));

  take(fast, 1);
  read_name(fast, &ret->name);
  take(fast, 2);
  read_spec(fast, &ret->spec);
  take(fast, 3);
  read_place(fast, &ret->place);
  ret->freeze = wire_read_bool(&fast->in, 4);
  ret->has_expected = wire_take_tag(&fast->in, WIRE_TAG(5, WIRE_VARINT));
  ret->expected = ret->has_expected ? wire_read_varint(&fast->in) : 0;
  ret->attributes = read_attributes(fast, 6, &ret->n_attributes);
  ret->keep = wire_read_bool(&fast->in, 7);
  ret->payload = read_payload(fast, &ret->place);
  wire_leave(&fast->in, outer);
}

static void read_publish(struct fast *fast, struct msg_request *ret)
{
  const uint32_t tag = WIRE_TAG(4, WIRE_LENGTH);
  struct msg_publish *publish = &ret->u.publish;
  struct msg_add *adds;

  publish->key = wire_read_u64(&fast->in, 1);
  publish->commit = wire_read_bool(&fast->in, 2);
  publish->ttl_ms = wire_read_u64(&fast->in, 3);
  publish->adds = adds = allocate_list(fast, tag, sizeof(*adds), &publish->n_adds);
  require(fast, publish->n_adds <= DLP_BATCH_MAX);
  for (size_t i = 0; wire_take_tag(&fast->in, tag); i++)
    read_add(fast, &adds[i]);
  publish->lifetime = wire_read_i32(&fast->in, 5);
  publish->mode = wire_read_u32(&fast->in, 6);
  publish->gid = read_choice(fast, 7, MSG_OWNER_SELF);
}

static void read_get(struct fast *fast, struct msg_request *ret)
{
  const uint32_t tag = WIRE_TAG(7, WIRE_LENGTH);
  struct msg_get *get = &ret->u.get;
  struct msg_name *names;

  get->more = wire_read_bool(&fast->in, 1);
  get->by_prefix = wire_read_bool(&fast->in, 2);
  get->access = wire_read_i32(&fast->in, 3);
  get->version = wire_read_u64(&fast->in, 4);
  get->newer_than = wire_read_u64(&fast->in, 5);
  get->timeout_ms = wire_read_u32(&fast->in, 6);
  get->names = names = allocate_list(fast, tag, sizeof(*names), &get->n_names);
  require(fast, get->n_names <= DLP_BATCH_MAX);
  require(fast, !get->by_prefix || (get->n_names == 1 && !get->more));
  for (size_t i = 0; wire_take_tag(&fast->in, tag); i++)
    read_name(fast, &names[i]);
}

static void read_release(struct fast *fast, struct msg_request *ret)
{
  struct msg_release *release = &ret->u.release;
  size_t n;
  const uint64_t *numbers = read_numbers(fast, 1, &n);
  uint32_t *cells = allocate(fast, n, sizeof(*cells));

  require(fast, n <= DLP_BATCH_MAX);
  for (size_t i = 0; cells && i < n; i++) {
    require(fast, numbers[i] <= UINT32_MAX);
    cells[i] = (uint32_t)numbers[i];
  }
  *release = (struct msg_release){.n_cells = n, .cells = cells};
}

static const struct {
  enum msg_request_type type;
  void (*read)(struct fast *fast, struct msg_request *ret);
} request_bodies[] = {
    {MSG_GET, read_get},
    {MSG_RELEASE, read_release},
    {MSG_PUBLISH, read_publish},
    {MSG_PING, read_ping},
};

/* ---- bodies of replies ---- */

static void read_allocated(struct fast *fast, struct msg_reply *ret)
{
  const uint32_t tag = WIRE_TAG(1, WIRE_LENGTH);
  struct msg_allocated *allocated = &ret->u.allocated;
  struct msg_place *places = allocate_list(fast, tag, sizeof(*places), &allocated->n_places);

  for (size_t i = 0; wire_take_tag(&fast->in, tag); i++)
    read_place(fast, &places[i]);
  allocated->places = places;
  allocated->segments = read_segments(fast, 2, &allocated->n_segments);
}

static void read_published(struct fast *fast, struct msg_reply *ret)
{
  ret->u.published.version = wire_read_u64(&fast->in, 1);
}

static void read_grant(struct fast *fast, struct msg_grant *ret)
{
  const uint8_t *outer = enter(fast, sizeof(Dlpackd__Grant));

  ret->cell = wire_read_u32(&fast->in, 1);
  take(fast, 2);
  read_tensor(fast, &ret->tensor);
  wire_leave(&fast->in, outer);
}

static void read_granted(struct fast *fast, struct msg_reply *ret)
{
  const uint32_t tag = WIRE_TAG(1, WIRE_LENGTH);
  struct msg_granted *granted = &ret->u.granted;
  struct msg_grant *grants = allocate_list(fast, tag, sizeof(*grants), &granted->n_grants);

  for (size_t i = 0; wire_take_tag(&fast->in, tag); i++)
    read_grant(fast, &grants[i]);
  granted->grants = grants;
  granted->segments = read_segments(fast, 2, &granted->n_segments);
}

static void read_listed(struct fast *fast, struct msg_reply *ret)
{
  const uint32_t tag = WIRE_TAG(1, WIRE_LENGTH);
  struct msg_listed *listed = &ret->u.listed;
  struct msg_tensor *tensors = allocate_list(fast, tag, sizeof(*tensors), &listed->n_tensors);

  for (size_t i = 0; wire_take_tag(&fast->in, tag); i++)
    read_tensor(fast, &tensors[i]);
  listed->tensors = tensors;
  listed->done = wire_read_bool(&fast->in, 2);
  if (wire_take_tag(&fast->in, WIRE_TAG(3, WIRE_LENGTH)))
    read_name(fast, &listed->next);
}

static const struct {
  enum msg_reply_type type;
  void (*read)(struct fast *fast, struct msg_reply *ret);
} reply_bodies[] = {
    {MSG_GRANTED, read_granted},
    {MSG_PUBLISHED, read_published},
    {MSG_ALLOCATED, read_allocated},
    {MSG_LISTED, read_listed},
};

/* ---- envelopes ---- */

static void start(struct fast *fast, void *own, size_t own_size, const uint8_t *bytes,
                  size_t n_bytes)
{
  *fast = (struct fast){.in = {.at = bytes, .end = bytes + n_bytes}};
  codec_arena_init(&fast->arena, DLP_DECODE_BUDGET);
  fast->arena.at = own;
  fast->arena.left = own_size;
}

static bool succeeded(const struct fast *fast)
{
  return !fast->in.failed && fast->in.at == fast->in.end && fast->cost <= COST_MAX;
}

static void read_request(struct fast *fast, struct msg_request *ret)
{
  ret->id = wire_read_u64(&fast->in, 1);
  ret->n_fds = wire_read_u32(&fast->in, 2);
  require(fast, ret->n_fds <= DLP_PACKET_FDS_MAX);
  for (size_t i = 0; i < sizeof(request_bodies) / sizeof(request_bodies[0]); i++) {
    enum msg_request_type type = request_bodies[i].type;
    const uint8_t *outer;

    if (!wire_take_tag(&fast->in, WIRE_TAG(type + CODEC_BODY_BASE, WIRE_LENGTH)))
      continue;
    require(fast, ret->id != 0 || type == MSG_RELEASE);
    ret->type = type;
    outer = wire_enter(&fast->in);
    request_bodies[i].read(fast, ret);
    wire_leave(&fast->in, outer);
    return;
  }
  wire_fail(&fast->in);
}

bool codec_fast_decode_request(struct codec_request *ret, const uint8_t *bytes, size_t n_bytes)
{
  struct msg_request request = {0};
  struct fast fast;
  bool is_done;

  if (n_bytes > DLP_PACKET_MAX)
    return false;
  start(&fast, ret->own, sizeof(ret->own), bytes, n_bytes);
  read_request(&fast, &request);
  is_done = succeeded(&fast);
  if (is_done) {
    ret->request = request;
    ret->arena = codec_arena_take(&fast.arena);
  }
  codec_arena_deinit(&fast.arena);
  return is_done;
}

static void read_reply_body(struct fast *fast, struct msg_reply *ret)
{
  ret->type = MSG_REPLY_EMPTY;
  for (size_t i = 0; i < sizeof(reply_bodies) / sizeof(reply_bodies[0]); i++) {
    enum msg_reply_type type = reply_bodies[i].type;
    const uint8_t *outer;

    if (!wire_take_tag(&fast->in, WIRE_TAG(type + CODEC_BODY_BASE, WIRE_LENGTH)))
      continue;
    ret->type = type;
    outer = wire_enter(&fast->in);
    reply_bodies[i].read(fast, ret);
    wire_leave(&fast->in, outer);
    return;
  }
}

static void read_reply(struct fast *fast, struct msg_reply *ret)
{
  ret->id = wire_read_u64(&fast->in, 1);
  ret->n_fds = wire_read_u32(&fast->in, 2);
  require(fast, ret->n_fds <= DLP_PACKET_FDS_MAX);
  ret->more = wire_read_bool(&fast->in, 3);
  ret->status = (enum dlp_status)wire_read_i32(&fast->in, 4);
  ret->message = NULL;
  if (ret->status != DLP_STATUS_OK)
    ret->message = read_text(fast, 5);
  ret->dropped = read_numbers(fast, 6, &ret->n_dropped);
  read_reply_body(fast, ret);
}

bool codec_fast_decode_reply(struct codec_reply *ret, const uint8_t *bytes, size_t n_bytes)
{
  struct msg_reply reply = {0};
  struct fast fast;
  bool is_done;

  if (n_bytes == 0 || n_bytes > DLP_PACKET_MAX)
    return false;
  start(&fast, ret->own, sizeof(ret->own), bytes, n_bytes);
  read_reply(&fast, &reply);
  is_done = succeeded(&fast);
  if (is_done) {
    ret->reply = reply;
    ret->arena = codec_arena_take(&fast.arena);
  }
  codec_arena_deinit(&fast.arena);
  return is_done;
}
