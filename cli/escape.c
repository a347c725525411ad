#include "escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

/* What must not reach a terminal: Unicode's Cc, Cf, Zl, Zp, and noncharacters. */
static const struct {
  uint32_t first;
  uint32_t last;
} unsafe_ranges[] = {
    {0x0000, 0x001f},   {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x0600, 0x0605},
    {0x061c, 0x061c},   {0x06dd, 0x06dd},   {0x070f, 0x070f},   {0x0890, 0x0891},
    {0x08e2, 0x08e2},   {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f},   {0xfdd0, 0xfdef},   {0xfeff, 0xfeff},   {0xfff0, 0xfffb},
    {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},
    {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe007f},
};

static bool is_unsafe(uint32_t character)
{
  for (size_t i = 0; i < sizeof(unsafe_ranges) / sizeof(unsafe_ranges[0]); i++)
    if (character >= unsafe_ranges[i].first && character <= unsafe_ranges[i].last)
      return true;
  return (character & 0xfffe) == 0xfffe;
}

/* Return: bytes of the character at `string`, 0 if there is no valid one. A NUL is a
 * character of one byte. */
static size_t decode_utf8(const unsigned char *string, uint32_t *ret)
{
  static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned char lead = string[0];
  size_t size = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  uint32_t character = size == 1 ? lead : lead & (0x7fu >> size);

  if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4)
    return 0;
  for (size_t i = 1; i < size; i++) {
    if ((string[i] & 0xc0) != 0x80)
      return 0;
    character = character << 6 | (string[i] & 0x3f);
  }
  if (character < smallest[size] || character > 0x10ffff ||
      (character >= 0xd800 && character <= 0xdfff))
    return 0;
  *ret = character;
  return size;
}

void escape_terminal(struct text *text, const char *string)
{
  const unsigned char *at = (const unsigned char *)string;

  while (*at) {
    uint32_t character = 0;
    size_t size = decode_utf8(at, &character);

    if (*at == '\\') {
      text_append(text, "\\\\");
    } else if (size > 0 && !is_unsafe(character)) {
      text_append_bytes(text, at, size);
    } else {
      size = size ? size : 1;
      for (size_t i = 0; i < size; i++)
        text_printf(text, "\\x%02x", at[i]);
    }
    at += size ? size : 1;
  }
}

size_t escape_character_size(const char *string)
{
  uint32_t character;
  size_t size = decode_utf8((const unsigned char *)string, &character);

  if (!*string)
    return 0;
  return size ? size : 1;
}

size_t escape_columns(const char *string)
{
  const unsigned char *at = (const unsigned char *)string;
  size_t columns = 0;

  while (*at) {
    uint32_t character = 0;
    size_t size = decode_utf8(at, &character);
    int width = size ? wcwidth((wchar_t)character) : 1;

    columns += width < 0 ? 1 : (size_t)width;
    at += size ? size : 1;
  }
  return columns;
}

/* May the byte at `i` stand in a name as it is? Slashes must part non-empty components. */
static bool is_plain(const char *name, size_t i)
{
  char c = name[i];
  bool starts = i == 0 || name[i - 1] == '/';

  if (c == '%' || c == '@')
    return false;
  if (c == '/')
    return i > 0 && name[i + 1] != '/' && name[i + 1] != '\0';
  if (c == '~')
    return !starts;
  return true;
}

/* A component that the grammar or dlctl keeps for itself: ".", "..", ".safetensors". */
static bool is_reserved_component(const char *at)
{
  static const char *const reserved[] = {".", "..", ".safetensors"};
  size_t size = strcspn(at, "/");

  for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
    if (size == strlen(reserved[i]) && memcmp(at, reserved[i], size) == 0)
      return true;
  return false;
}

void escape_name(struct text *text, const char *name)
{
  if (!*name)
    text_append(text, "%");
  for (size_t i = 0; name[i];) {
    uint32_t character = 0;
    size_t size = decode_utf8((const unsigned char *)name + i, &character);
    bool reserved = (i == 0 || name[i - 1] == '/') && is_reserved_component(name + i);

    if (size > 0 && !is_unsafe(character) && !reserved && is_plain(name, i)) {
      text_append_bytes(text, name + i, size);
    } else {
      size = size ? size : 1;
      for (size_t j = 0; j < size; j++)
        text_printf(text, "%%%02X", (unsigned char)name[i + j]);
    }
    i += size;
  }
}

static int hex_digit(char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  return -1;
}

int escape_name_undo(struct text *text, const char *published)
{
  if (strcmp(published, "%") == 0) {
    text_append(text, "");
    return 0;
  }
  for (const char *at = published; *at; at++) {
    int high, low;
    char byte = *at;

    if (byte == '%') {
      high = hex_digit(at[1]);
      low = high < 0 ? -1 : hex_digit(at[2]);
      if (low < 0 || high + low == 0)
        return ESCAPE_E_SYNTAX;
      byte = (char)(high << 4 | low);
      at += 2;
    }
    text_append_bytes(text, &byte, 1);
  }
  return 0;
}
