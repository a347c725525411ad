/* The envelopes, and what holds for every message: unknown fields, budget, errors. */

#include "proto/codec.h"

#include <assert.h>
#include <errno.h>

#include "codec_fast.h"
#include "codec_private.h"

/* From here on, who does not know a field refuses the message. */
#define CRITICAL_FIELD_MIN 1000
/* In an envelope, smaller numbers are fields and greater ones are types. */
#define BODY_MIN 16

#define X(number, name) \
  _Static_assert((int)DLPACKD__STATUS__STATUS_##name == (int)DLP_STATUS_##name, #name);
DLP_STATUS_MAP(X)
#undef X

#define HOLD(wire, plain) _Static_assert((int)(wire) == (int)(plain), #plain)
HOLD(DLPACKD__LIFETIME__LIFETIME_SESSION, MSG_LIFETIME_SESSION);
HOLD(DLPACKD__LIFETIME__LIFETIME_PERSISTENT, MSG_LIFETIME_PERSISTENT);
HOLD(DLPACKD__LIFETIME__LIFETIME_TTL, MSG_LIFETIME_TTL);
HOLD(DLPACKD__BACKEND__BACKEND_DEFAULT, MSG_BACKEND_DEFAULT);
HOLD(DLPACKD__BACKEND__BACKEND_MEMFD, MSG_BACKEND_MEMFD);
HOLD(DLPACKD__BACKEND__BACKEND_POSIX_SHM, MSG_BACKEND_POSIX_SHM);
HOLD(DLPACKD__ACCESS__ACCESS_READ, MSG_ACCESS_READ);
HOLD(DLPACKD__ACCESS__ACCESS_SHARED, MSG_ACCESS_SHARED);
HOLD(DLPACKD__EVENT_KIND__EVENT_PUBLISHED, MSG_EVENT_PUBLISHED);
HOLD(DLPACKD__EVENT_KIND__EVENT_DELETED, MSG_EVENT_DELETED);

/* ---- unknown fields ---- */

static bool is_unknown_above(const ProtobufCMessage *message, uint32_t min)
{
  for (unsigned i = 0; i < message->n_unknown_fields; i++)
    if (message->unknown_fields[i].tag >= min)
      return true;
  return false;
}

static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
  const char *base = (const char *)message;

  if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
    return *(const uint32_t *)(base + field->quantifier_offset) == field->id;
  return true;
}

static bool is_critical_below(const ProtobufCMessage *message);

static bool is_critical_in_field(const ProtobufCMessage *message,
                                 const ProtobufCFieldDescriptor *field)
{
  const char *member = (const char *)message + field->offset;
  size_t n = 1;
  ProtobufCMessage *const *items = (ProtobufCMessage *const *)member;

  if (field->type != PROTOBUF_C_TYPE_MESSAGE || !is_set(message, field))
    return false;
  if (field->label == PROTOBUF_C_LABEL_REPEATED) {
    n = *(const size_t *)((const char *)message + field->quantifier_offset);
    items = *(ProtobufCMessage *const *const *)member;
  }
  for (size_t i = 0; i < n; i++)
    if (items[i] && is_critical_below(items[i]))
      return true;
  return false;
}

/* Recursion ends, since no message of ours contains itself. */
static bool is_critical_below(const ProtobufCMessage *message)
{
  const ProtobufCMessageDescriptor *descriptor = message->descriptor;

  if (is_unknown_above(message, CRITICAL_FIELD_MIN))
    return true;
  for (unsigned i = 0; i < descriptor->n_fields; i++)
    if (is_critical_in_field(message, &descriptor->fields[i]))
      return true;
  return false;
}

/* ---- decoding ---- */

/* The generated form of a packet, or NULL with the error kept in the arena. */
static ProtobufCMessage *unpack(struct codec_arena *arena,
                                const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
                                size_t n_bytes)
{
  ProtobufCAllocator allocator = codec_arena_allocator(arena);
  ProtobufCMessage *message = NULL;

  if (n_bytes > 0 && n_bytes <= DLP_PACKET_MAX)
    message = protobuf_c_message_unpack(descriptor, &allocator, n_bytes, bytes);
  if (!message)
    codec_fail(arena, CODEC_E_MALFORMED);
  return message;
}

static int read_request(struct codec_arena *arena, struct msg_request *ret,
                        const Dlpackd__Request *in)
{
  *ret = (struct msg_request){.id = in->id};
  if (is_critical_below(&in->base))
    return CODEC_E_UNKNOWN;
  if (in->body_case == DLPACKD__REQUEST__BODY__NOT_SET)
    return is_unknown_above(&in->base, BODY_MIN) ? CODEC_E_UNKNOWN : CODEC_E_MALFORMED;
  ret->n_fds = in->n_fds;
  ret->type = (enum msg_request_type)(in->body_case - CODEC_BODY_BASE);
  codec_require(arena, in->n_fds <= DLP_PACKET_FDS_MAX);
  codec_read_request_body(arena, ret, in);
  return arena->error;
}

static int read_reply(struct codec_arena *arena, struct msg_reply *ret, const Dlpackd__Reply *in)
{
  *ret = (struct msg_reply){.id = in->id};
  if (is_critical_below(&in->base))
    return CODEC_E_UNKNOWN;
  if (in->body_case == DLPACKD__REPLY__BODY__NOT_SET && is_unknown_above(&in->base, BODY_MIN))
    return CODEC_E_UNKNOWN;
  codec_require(arena, in->n_fds <= DLP_PACKET_FDS_MAX);
  codec_require(arena, (int)in->status >= 0);
  ret->n_fds = in->n_fds;
  ret->more = in->more;
  ret->status = (enum dlp_status)in->status;
  ret->message = ret->status ? codec_read_text(arena, &in->message) : NULL;
  ret->n_dropped = in->n_dropped;
  ret->dropped = in->n_dropped ? in->dropped : NULL;
  if (in->body_case != DLPACKD__REPLY__BODY__NOT_SET)
    ret->type = (enum msg_reply_type)(in->body_case - CODEC_BODY_BASE);
  codec_read_reply_body(arena, ret, in);
  return arena->error;
}

int codec_full_decode_request(struct codec_request *ret, const uint8_t *bytes, size_t n_bytes)
{
  struct codec_arena arena;
  struct msg_request request;
  ProtobufCMessage *message;
  int r;

  codec_arena_init(&arena, DLP_DECODE_BUDGET);
  message = unpack(&arena, &dlpackd__request__descriptor, bytes, n_bytes);
  r = message ? read_request(&arena, &request, (const Dlpackd__Request *)message) : arena.error;
  if (r == 0)
    ret->request = request;
  else if (r == CODEC_E_UNKNOWN)
    ret->request = (struct msg_request){.id = request.id};
  if (r == 0 || r == CODEC_E_UNKNOWN)
    ret->arena = r == 0 ? codec_arena_take(&arena) : NULL;
  codec_arena_deinit(&arena);
  return r;
}

int codec_full_decode_reply(struct codec_reply *ret, const uint8_t *bytes, size_t n_bytes)
{
  struct codec_arena arena;
  struct msg_reply reply;
  ProtobufCMessage *message;
  int r;

  codec_arena_init(&arena, DLP_DECODE_BUDGET);
  message = unpack(&arena, &dlpackd__reply__descriptor, bytes, n_bytes);
  r = message ? read_reply(&arena, &reply, (const Dlpackd__Reply *)message) : arena.error;
  if (r == 0)
    ret->reply = reply;
  else if (r == CODEC_E_UNKNOWN)
    ret->reply = (struct msg_reply){.id = reply.id};
  if (r == 0 || r == CODEC_E_UNKNOWN)
    ret->arena = r == 0 ? codec_arena_take(&arena) : NULL;
  codec_arena_deinit(&arena);
  return r;
}

void codec_request_deinit(struct codec_request *request)
{
  codec_arena_free(request->arena);
  request->request = (struct msg_request){0};
  request->arena = NULL;
}

void codec_reply_deinit(struct codec_reply *reply)
{
  codec_arena_free(reply->arena);
  reply->reply = (struct msg_reply){0};
  reply->arena = NULL;
}

/* ---- encoding ---- */

/* Only complete messages are packed: one that lost a part to ENOMEM is none. */
static int pack(struct codec_arena *arena, const ProtobufCMessage *message, uint8_t *buffer,
                size_t size, size_t *ret_size)
{
  size_t needed;

  if (arena->error)
    return arena->error;
  needed = protobuf_c_message_get_packed_size(message);
  if (needed > size)
    return CODEC_E_TOO_LARGE;
  *ret_size = protobuf_c_message_pack(message, buffer);
  assert(*ret_size == needed);
  return 0;
}

int codec_full_encode_request(uint8_t *buffer, size_t size, size_t *ret_size,
                              const struct msg_request *request)
{
  struct codec_arena arena;
  Dlpackd__Request message = DLPACKD__REQUEST__INIT;
  int r;

  codec_arena_init(&arena, SIZE_MAX);
  message.id = request->id;
  message.n_fds = request->n_fds;
  codec_write_request_body(&arena, &message, request);
  r = pack(&arena, &message.base, buffer, size, ret_size);
  codec_arena_deinit(&arena);
  return r;
}

int codec_full_encode_reply(uint8_t *buffer, size_t size, size_t *ret_size,
                            const struct msg_reply *reply)
{
  struct codec_arena arena;
  Dlpackd__Reply message = DLPACKD__REPLY__INIT;
  int r;

  codec_arena_init(&arena, SIZE_MAX);
  message.id = reply->id;
  message.n_fds = reply->n_fds;
  message.more = reply->more;
  message.status = (Dlpackd__Status)reply->status;
  message.message = codec_write_text(reply->status ? reply->message : NULL);
  message.n_dropped = reply->n_dropped;
  message.dropped = (uint64_t *)reply->dropped;
  codec_write_reply_body(&arena, &message, reply);
  r = pack(&arena, &message.base, buffer, size, ret_size);
  codec_arena_deinit(&arena);
  return r;
}

/* ---- which of the two ---- */

int codec_decode_request(struct codec_request *ret, const uint8_t *bytes, size_t n_bytes)
{
  if (codec_fast_decode_request(ret, bytes, n_bytes))
    return 0;
  return codec_full_decode_request(ret, bytes, n_bytes);
}

int codec_decode_reply(struct codec_reply *ret, const uint8_t *bytes, size_t n_bytes)
{
  if (codec_fast_decode_reply(ret, bytes, n_bytes))
    return 0;
  return codec_full_decode_reply(ret, bytes, n_bytes);
}

int codec_encode_request(uint8_t *buffer, size_t size, size_t *ret_size,
                         const struct msg_request *request)
{
  assert(request->n_fds <= DLP_PACKET_FDS_MAX);
  if (codec_fast_writes_request(request))
    return codec_fast_encode_request(buffer, size, ret_size, request);
  return codec_full_encode_request(buffer, size, ret_size, request);
}

int codec_encode_reply(uint8_t *buffer, size_t size, size_t *ret_size,
                       const struct msg_reply *reply)
{
  assert(reply->n_fds <= DLP_PACKET_FDS_MAX);
  if (codec_fast_writes_reply(reply))
    return codec_fast_encode_reply(buffer, size, ret_size, reply);
  return codec_full_encode_reply(buffer, size, ret_size, reply);
}
