#include <stdint.h>
#include <string.h>

#include "client/glob.h"
#include "common/utf8.h"

size_t dlc__glob_literal_size(const char *pattern)
{
  return strcspn(pattern, "*?[\\");
}

bool dlc__glob_is_pattern(const char *text)
{
  return text[dlc__glob_literal_size(text)] != '\0';
}

/* One code point; a byte that is not UTF-8 stands for itself. */
static size_t glob_decode(const char *text, uint32_t *ret)
{
  size_t size = dlp_utf8_decode(text, strnlen(text, 4), ret);

  if (size > 0)
    return size;
  *ret = (unsigned char)*text;
  return 1;
}

/* A member of a set, or one end of a range. NULL at the end of the pattern. */
static const char *glob_set_item(const char *at, uint32_t *ret)
{
  if (*at == '\\' && at[1])
    at++;
  if (!*at)
    return NULL;
  return at + glob_decode(at, ret);
}

/*
 * `at` is after the `[`. Return: what follows the `]`, or NULL if there is none:
 * then the `[` is an ordinary byte.
 */
static const char *glob_set(const char *at, uint32_t point, bool *ret_matches)
{
  bool negated = *at == '!' || *at == '^';
  bool found = false;
  bool first = true;

  if (negated)
    at++;
  for (; first || *at != ']'; first = false) {
    uint32_t low, high;

    at = glob_set_item(at, &low);
    if (!at)
      return NULL;
    high = low;
    if (at[0] == '-' && at[1] && at[1] != ']')
      at = glob_set_item(at + 1, &high);
    if (!at)
      return NULL;
    if (point >= low && point <= high)
      found = true;
  }
  *ret_matches = found != negated;
  return at + 1;
}

/* One pattern item against the start of the text; neither is at its end.
 * True moves both on. */
static bool glob_step(const char **pattern, const char **text)
{
  const char *after;
  uint32_t point;
  size_t size = glob_decode(*text, &point);
  bool matches;

  if (**pattern == '?') {
    *pattern += 1;
    *text += size;
    return true;
  }
  if (**pattern == '[') {
    after = glob_set(*pattern + 1, point, &matches);
    if (after) {
      if (matches) {
        *pattern = after;
        *text += size;
      }
      return matches;
    }
  }
  after = *pattern + (**pattern == '\\' && (*pattern)[1]);
  if (*after != **text)
    return false;
  *pattern = after + 1;
  *text += 1;
  return true;
}

/* On a mismatch only the last star is tried again: what an earlier one could
 * take, the last one can as well. */
bool dlc__glob_match(const char *pattern, const char *text)
{
  const char *star = NULL;
  const char *star_text = NULL;
  uint32_t point;

  while (*text) {
    if (*pattern == '*') {
      star = ++pattern;
      star_text = text;
      continue;
    }
    if (*pattern && glob_step(&pattern, &text))
      continue;
    if (!star)
      return false;
    pattern = star;
    star_text += glob_decode(star_text, &point);
    text = star_text;
  }
  while (*pattern == '*')
    pattern++;
  return *pattern == '\0';
}
