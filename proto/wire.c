#include "proto/wire.h"

#include <string.h>

#include "common/utf8.h"

/* ---- reading ---- */

uint64_t wire_read_long_varint(struct wire_reader *reader)
{
  uint64_t value = 0;
  unsigned shift = 0;

  for (const uint8_t *at = reader->at; at < reader->end && shift < 64; at++, shift += 7) {
    uint64_t bits = *at & 127;

    value |= bits << shift;
    if (*at >= 128)
      continue;
    if (shift == 63 && bits > 1)
      break;
    reader->at = at + 1;
    return value;
  }
  wire_fail(reader);
  return 0;
}

size_t wire_count(const struct wire_reader *reader, uint32_t tag)
{
  struct wire_reader ahead = *reader;
  size_t n = 0;

  while (wire_take_tag(&ahead, tag)) {
    (void)wire_take_bytes(&ahead);
    n++;
  }
  return n;
}

size_t wire_count_packed(struct wire_bytes list)
{
  size_t n = 0;

  for (size_t i = 0; i < list.size; i++)
    n += list.data[i] < 128;
  return n;
}

bool wire_is_text(struct wire_bytes bytes)
{
  return !memchr(bytes.data, '\0', bytes.size) &&
         dlp_utf8_valid((const char *)bytes.data, bytes.size);
}

/* ---- writing ---- */

static void no_room(struct wire_writer *writer)
{
  writer->failed = true;
  writer->end = writer->at;
}

static size_t encode_varint(uint8_t *at, uint64_t value)
{
  size_t n = 0;

  for (; value >= 128; value >>= 7)
    at[n++] = (uint8_t)(value | 128);
  at[n++] = (uint8_t)value;
  return n;
}

static void append(struct wire_writer *writer, const void *bytes, size_t size)
{
  if (size > (size_t)(writer->end - writer->at)) {
    no_room(writer);
  } else if (size > 0) {
    memcpy(writer->at, bytes, size);
    writer->at += size;
  }
}

void wire_write_long_varint(struct wire_writer *writer, uint64_t value)
{
  uint8_t bytes[WIRE_VARINT_MAX];

  if (writer->end - writer->at >= WIRE_VARINT_MAX)
    writer->at += encode_varint(writer->at, value);
  else
    append(writer, bytes, encode_varint(bytes, value));
}

void wire_write_bytes(struct wire_writer *writer, uint32_t field, const void *bytes, size_t size)
{
  if (size == 0)
    return;
  wire_write_varint(writer, WIRE_TAG(field, WIRE_LENGTH));
  wire_write_varint(writer, size);
  append(writer, bytes, size);
}

void wire_write_text(struct wire_writer *writer, uint32_t field, const char *text)
{
  if (text)
    wire_write_bytes(writer, field, text, strlen(text));
}

/* Most lengths take one byte: what comes after a longer one is moved once it is known. */
uint8_t *wire_begin(struct wire_writer *writer, uint32_t field)
{
  wire_write_varint(writer, WIRE_TAG(field, WIRE_LENGTH));
  wire_write_varint(writer, 0);
  return writer->at;
}

void wire_end(struct wire_writer *writer, uint8_t *begin)
{
  uint8_t length[WIRE_VARINT_MAX];
  size_t size = (size_t)(writer->at - begin), n;

  if (writer->failed)
    return;
  if (size < 128) {
    begin[-1] = (uint8_t)size;
    return;
  }
  n = encode_varint(length, size);
  if (n - 1 > (size_t)(writer->end - writer->at)) {
    no_room(writer);
    return;
  }
  memmove(begin - 1 + n, begin, size);
  memcpy(begin - 1, length, n);
  writer->at += n - 1;
}
