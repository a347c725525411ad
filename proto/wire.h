#ifndef DLPACKD_PROTO_WIRE_H
#define DLPACKD_PROTO_WIRE_H

/*
 * Protobuf's wire format, one field after the other: numbers as varints, and what has
 * a length. It knows no message; the codec says which fields there are.
 *
 * The reader takes fields in the order in which it is asked for them, which is the
 * order in which every writer puts them. It is strict where the format is lax: what is
 * out of order, there twice, unknown or wider than its type is an error here. An error
 * is sticky and ends the message: functions go on with 0, and whoever started looks
 * once at the end. The writer is sticky in the same way; its only error is that there
 * was no room.
 *
 * Pure. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_type {
  WIRE_VARINT = 0,
  WIRE_LENGTH = 2,
};

/* Field numbers up to 2,047: a tag of one or two bytes. */
#define WIRE_TAG(field, type) ((uint32_t)(field) << 3 | (uint32_t)(type))

/* Bytes that a number takes, and a length, of which protobuf-c reads no more. */
#define WIRE_VARINT_MAX 10
#define WIRE_LENGTH_MAX 5

/* ---- reading ---- */

struct wire_reader {
  const uint8_t *at;
  const uint8_t *end; /* of the message that is being read */
  bool failed;
};

struct wire_bytes {
  const uint8_t *data;
  size_t size;
};

static inline void wire_fail(struct wire_reader *reader)
{
  reader->failed = true;
  reader->at = reader->end;
}

uint64_t wire_read_long_varint(struct wire_reader *reader);

static inline uint64_t wire_read_varint(struct wire_reader *reader)
{
  if (reader->at < reader->end && *reader->at < 128)
    return *reader->at++;
  return wire_read_long_varint(reader);
}

/* Is this the next field? Then its tag is taken. */
static inline bool wire_take_tag(struct wire_reader *reader, uint32_t tag)
{
  const uint8_t *at = reader->at;

  if (tag < 128) {
    if (at >= reader->end || *at != tag)
      return false;
    reader->at = at + 1;
    return true;
  }
  if (reader->end - at < 2 || at[0] != (uint8_t)(tag | 128) || at[1] != tag >> 7)
    return false;
  reader->at = at + 2;
  return true;
}

/* The next four: the field of this number, or 0 where it is not there. */
static inline uint64_t wire_read_u64(struct wire_reader *reader, uint32_t field)
{
  return wire_take_tag(reader, WIRE_TAG(field, WIRE_VARINT)) ? wire_read_varint(reader) : 0;
}

static inline uint64_t wire_read_up_to(struct wire_reader *reader, uint32_t field, uint64_t max)
{
  uint64_t value = wire_read_u64(reader, field);

  if (value <= max)
    return value;
  wire_fail(reader);
  return 0;
}

static inline uint32_t wire_read_u32(struct wire_reader *reader, uint32_t field)
{
  return (uint32_t)wire_read_up_to(reader, field, UINT32_MAX);
}

/* Also an enum. A negative one is an error. */
static inline uint32_t wire_read_i32(struct wire_reader *reader, uint32_t field)
{
  return (uint32_t)wire_read_up_to(reader, field, INT32_MAX);
}

static inline bool wire_read_bool(struct wire_reader *reader, uint32_t field)
{
  return wire_read_up_to(reader, field, 1) != 0;
}

/* What has a length, of which the tag is taken already; borrowed from the packet. */
static inline struct wire_bytes wire_take_bytes(struct wire_reader *reader)
{
  struct wire_bytes bytes = {.data = reader->at};
  uint64_t size = wire_read_varint(reader);

  if (reader->at - bytes.data > WIRE_LENGTH_MAX || size > (uint64_t)(reader->end - reader->at)) {
    wire_fail(reader);
    return bytes;
  }
  bytes = (struct wire_bytes){.data = reader->at, .size = (size_t)size};
  reader->at += size;
  return bytes;
}

/* Empty where it is not there. */
static inline struct wire_bytes wire_read_bytes(struct wire_reader *reader, uint32_t field)
{
  if (wire_take_tag(reader, WIRE_TAG(field, WIRE_LENGTH)))
    return wire_take_bytes(reader);
  return (struct wire_bytes){.data = reader->at};
}

/* A message within, of which the tag is taken already: what is read until
 * wire_leave() is its. Return: for wire_leave(). */
static inline const uint8_t *wire_enter(struct wire_reader *reader)
{
  const uint8_t *outer_end = reader->end;
  struct wire_bytes inner = wire_take_bytes(reader);

  if (!reader->failed) {
    reader->at = inner.data;
    reader->end = inner.data + inner.size;
  }
  return outer_end;
}

/* What was not read of it is an error. */
static inline void wire_leave(struct wire_reader *reader, const uint8_t *outer_end)
{
  if (reader->failed || reader->at != reader->end) {
    reader->end = outer_end;
    wire_fail(reader);
  } else {
    reader->end = outer_end;
  }
}

/* How many fields with this tag of two come now; none of them is taken. */
size_t wire_count(const struct wire_reader *reader, uint32_t tag);
/* How many numbers a packed list has. */
size_t wire_count_packed(struct wire_bytes list);
/* UTF-8 without NUL? */
bool wire_is_text(struct wire_bytes bytes);

static inline int64_t wire_unzigzag(uint64_t value)
{
  return (int64_t)((value >> 1) ^ (0 - (value & 1)));
}

static inline uint64_t wire_zigzag(int64_t value)
{
  return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

/* ---- writing ---- */

struct wire_writer {
  uint8_t *at;
  uint8_t *end;
  bool failed;
};

void wire_write_long_varint(struct wire_writer *writer, uint64_t value);

static inline void wire_write_varint(struct wire_writer *writer, uint64_t value)
{
  if (value < 128 && writer->at < writer->end)
    *writer->at++ = (uint8_t)value;
  else
    wire_write_long_varint(writer, value);
}

/* Also if it is 0. */
static inline void wire_write_number(struct wire_writer *writer, uint32_t field, uint64_t value)
{
  wire_write_varint(writer, WIRE_TAG(field, WIRE_VARINT));
  wire_write_varint(writer, value);
}

/* The next two: nothing if it is 0, which is what absence means. */
static inline void wire_write_u64(struct wire_writer *writer, uint32_t field, uint64_t value)
{
  if (value)
    wire_write_number(writer, field, value);
}

/* Also an enum: negative ones are written as if they had 64 bits. */
static inline void wire_write_i32(struct wire_writer *writer, uint32_t field, int32_t value)
{
  wire_write_u64(writer, field, (uint64_t)(int64_t)value);
}

/* Nothing if there are none. */
void wire_write_bytes(struct wire_writer *writer, uint32_t field, const void *bytes, size_t size);
/* NULL is empty. */
void wire_write_text(struct wire_writer *writer, uint32_t field, const char *text);

/* What is written until wire_end() has a length. Return: for wire_end(). */
uint8_t *wire_begin(struct wire_writer *writer, uint32_t field);
void wire_end(struct wire_writer *writer, uint8_t *begin);

#endif
