#include "proto/name.h"

#include <assert.h>
#include <string.h>

#include "common/utf8.h"
#include "proto/limits.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

static bool all_dots(const char *component, size_t size)
{
  return (size == 1 || size == 2) && !memcmp(component, "..", size);
}

/* `bytes` are valid UTF-8. */
static int check_characters(const char *bytes, size_t size)
{
  uint32_t code_point;

  for (size_t at = 0, n; at < size; at += n) {
    n = 1;
    code_point = (unsigned char)bytes[at];
    if (code_point > ' ' && code_point < 0x7f && code_point != '@')
      continue;
    if (code_point >= 0x80)
      n = dlp_utf8_decode(bytes + at, size - at, &code_point);
    assert(n > 0);
    if (code_point == '@')
      return NAME_E_AT;
    if (dlp_unicode_is_control(code_point))
      return NAME_E_CONTROL;
  }
  return 0;
}

static int check_component(const char *component, size_t size)
{
  if (!size)
    return NAME_E_COMPONENT_EMPTY;
  if (size > DLP_NAME_COMPONENT_MAX)
    return NAME_E_COMPONENT_TOO_LONG;
  if (all_dots(component, size))
    return NAME_E_COMPONENT_DOTS;
  return check_characters(component, size);
}

static int check_components(const char *path, size_t size)
{
  const char *end = path + size;

  for (;;) {
    const char *slash = memchr(path, '/', (size_t)(end - path));
    int r = check_component(path, (size_t)((slash ? slash : end) - path));
    if (r || !slash)
      return r;
    path = slash + 1;
  }
}

static int check(const char *path, size_t size)
{
  if (!size)
    return NAME_E_EMPTY;
  if (size > DLP_NAME_MAX)
    return NAME_E_TOO_LONG;
  if (!dlp_utf8_valid(path, size))
    return NAME_E_UTF8;
  if (path[0] == '~')
    return NAME_E_TILDE;
  return check_components(path, size);
}

int name_check(const char *path)
{
  return check(path, strlen(path));
}

int name_check_prefix(const char *prefix)
{
  size_t size = strlen(prefix);

  if (!size)
    return 0;
  if (size > 1 && prefix[size - 1] == '/')
    size--;
  return check(prefix, size);
}

const char *name_describe(int condition)
{
  static const char *const sentences[] = {
      [NAME_E_EMPTY] = "a name has at least one character",
      [NAME_E_TOO_LONG] = "a name has at most " TEXT(DLP_NAME_MAX) " bytes",
      [NAME_E_COMPONENT_EMPTY] = "a name has no slash at either end and no two in a row",
      [NAME_E_COMPONENT_TOO_LONG] =
          "a name has at most " TEXT(DLP_NAME_COMPONENT_MAX) " bytes between two slashes",
      [NAME_E_COMPONENT_DOTS] = "a name has no '.' or '..' between slashes",
      [NAME_E_AT] = "a name has no '@', which is kept for other hosts",
      [NAME_E_TILDE] = "a name does not begin with '~', which marks the names of other owners",
      [NAME_E_UTF8] = "a name is valid UTF-8",
      [NAME_E_CONTROL] = "a name has no control or invisible formatting characters",
  };

  if (condition <= 0 || (size_t)condition >= sizeof(sentences) / sizeof(sentences[0]))
    return "the name is fine";
  return sentences[condition];
}

/* The longest of what escape_one() writes: four bytes as \xNN. */
#define ESCAPED_MAX 16

static size_t escape_bytes(const char *bytes, size_t size, char *ret)
{
  static const char digits[] = "0123456789abcdef";

  for (size_t i = 0; i < size; i++) {
    unsigned char byte = (unsigned char)bytes[i];
    char escaped[] = {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    memcpy(ret + 4 * i, escaped, sizeof(escaped));
  }
  return 4 * size;
}

/* One character, or one byte that belongs to none. A backslash is escaped too:
 * else a name could pretend to be the escape of another. Return: bytes read. */
static size_t escape_one(const char *bytes, size_t size, char *ret, size_t *ret_size)
{
  uint32_t code_point;
  size_t n = dlp_utf8_decode(bytes, size, &code_point);

  if (!n) {
    *ret_size = escape_bytes(bytes, 1, ret);
    return 1;
  }
  if (code_point == '\\' || dlp_unicode_is_control(code_point)) {
    *ret_size = escape_bytes(bytes, n, ret);
    return n;
  }
  memcpy(ret, bytes, n);
  *ret_size = n;
  return n;
}

/* Ends the text at `at` with as many of three dots as `size` has room for. */
static void end_with_dots(char *buffer, size_t size, size_t at)
{
  size_t n = size - 1 - at;

  if (n > 3)
    n = 3;
  memset(buffer + at, '.', n);
  buffer[at + n] = '\0';
}

void name_escape(const char *path, char *buffer, size_t size)
{
  size_t left = strlen(path), used = 0, cut = 0; /* cut: dots still fit after it */

  if (!size)
    return;
  while (left) {
    char escaped[ESCAPED_MAX];
    size_t escaped_size;
    size_t n = escape_one(path, left, escaped, &escaped_size);

    if (used + escaped_size >= size) {
      end_with_dots(buffer, size, cut);
      return;
    }
    memcpy(buffer + used, escaped, escaped_size);
    used += escaped_size;
    if (used + 3 < size)
      cut = used;
    path += n;
    left -= n;
  }
  buffer[used] = '\0';
}
