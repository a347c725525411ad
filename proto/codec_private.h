#ifndef DLPACKD_PROTO_CODEC_PRIVATE_H
#define DLPACKD_PROTO_CODEC_PRIVATE_H

/*
 * What the files of the codec share: the arena, and the parts of messages that
 * requests and replies have in common.
 *
 * Readers and writers are sticky: the first thing that is wrong is kept in the
 * arena, functions go on with harmless values, and whoever started looks once at
 * the end. So the conversions read as the list of fields that they are.
 */

#include "dlpackd.pb-c.h"
#include "proto/message.h"

/*
 * Memory of one message, freed as a whole. It never takes more than `budget`
 * bytes from the heap.
 */
struct codec_arena {
  struct codec_chunk *chunks;
  size_t budget; /* what may still be taken from the heap */
  uint8_t *at;   /* the free part of the newest chunk */
  size_t left;
  struct codec_block *recycled;
  int error; /* the first: -ENOMEM or CODEC_E_MALFORMED */
};

void codec_arena_init(struct codec_arena *arena, size_t budget);
void codec_arena_deinit(struct codec_arena *arena);

/* Everything moves into one pointer, for codec_arena_free(). */
void *codec_arena_take(struct codec_arena *arena);
void codec_arena_free(void *taken);

/* Aligned for any field of a message; not cleared. Return: NULL, with the error kept. */
void *codec_arena_alloc(struct codec_arena *arena, size_t size);
/* Cleared. NULL also if n is 0. */
void *codec_arena_array(struct codec_arena *arena, size_t n, size_t size);

/* The same memory, for protobuf-c. */
ProtobufCAllocator codec_arena_allocator(struct codec_arena *arena);

/* Keeps the first. */
void codec_fail(struct codec_arena *arena, int error);

/* ---- reading: what came is checked, and what is wrong is kept in the arena ---- */

bool codec_require(struct codec_arena *arena, bool condition);
/* A copy that ends with NUL. */
const char *codec_read_text(struct codec_arena *arena, const ProtobufCBinaryData *in);
/* DLP_TOKEN_SIZE bytes, or NULL if there are none. */
const uint8_t *codec_read_token(struct codec_arena *arena, const ProtobufCBinaryData *in);
void codec_read_name(struct codec_arena *arena, struct msg_name *ret, const Dlpackd__Name *in);
void codec_read_spec(struct codec_arena *arena, struct msg_spec *ret, const Dlpackd__Spec *in);
void codec_read_place(struct codec_arena *arena, struct msg_place *ret, const Dlpackd__Place *in);
void codec_read_segment(struct codec_arena *arena, struct msg_segment *ret,
                        const Dlpackd__Segment *in);
void codec_read_tensor(struct codec_arena *arena, struct msg_tensor *ret,
                       const Dlpackd__Tensor *in);
const struct msg_attribute *codec_read_attributes(struct codec_arena *arena, size_t n,
                                                  Dlpackd__Attribute *const *in);

/* ---- writing: what breaks a limit is a bug of ours ---- */

/* An array of n pointers, to be filled with what the writers below return. */
#define CODEC_POINTERS(arena, n) codec_arena_array((arena), (n), sizeof(void *))

/* A new message of a generated type, or NULL. */
#define CODEC_NEW(arena, type, init)                       \
  ({                                                       \
    type *_new = codec_arena_alloc((arena), sizeof(type)); \
    if (_new)                                              \
      *_new = (type)init;                                  \
    _new;                                                  \
  })

/* Borrows: the encoder never changes or frees it. */
ProtobufCBinaryData codec_write_text(const char *text);
ProtobufCBinaryData codec_write_token(const uint8_t *token);
Dlpackd__Name *codec_write_name(struct codec_arena *arena, const struct msg_name *in);
Dlpackd__Spec *codec_write_spec(struct codec_arena *arena, const struct msg_spec *in);
Dlpackd__Place *codec_write_place(struct codec_arena *arena, const struct msg_place *in);
Dlpackd__Segment *codec_write_segment(struct codec_arena *arena, const struct msg_segment *in);
Dlpackd__Tensor *codec_write_tensor(struct codec_arena *arena, const struct msg_tensor *in);
Dlpackd__Attribute **codec_write_attributes(struct codec_arena *arena, size_t n,
                                            const struct msg_attribute *in);

/* ---- bodies ---- */

void codec_read_request_body(struct codec_arena *arena, struct msg_request *ret,
                             const Dlpackd__Request *in);
void codec_write_request_body(struct codec_arena *arena, Dlpackd__Request *ret,
                              const struct msg_request *in);
void codec_read_reply_body(struct codec_arena *arena, struct msg_reply *ret,
                           const Dlpackd__Reply *in);
void codec_write_reply_body(struct codec_arena *arena, Dlpackd__Reply *ret,
                            const struct msg_reply *in);

/* Body numbers follow the types of message.h. */
#define CODEC_BODY_BASE 15

#endif
