#include "common/utf8.h"

#include <string.h>

/*
 * What RFC 3629 allows of a sequence, by its first byte: its length, and the
 * range of its second byte. That range alone keeps out overlong forms,
 * surrogates and what lies above U+10FFFF; further bytes are 80 to BF.
 */
struct sequence {
  uint8_t first_low, first_high;
  uint8_t size;
  uint8_t second_low, second_high;
};

static const struct sequence sequences[] = {
    {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static const struct sequence *sequence_of(uint8_t first)
{
  for (size_t i = 0; i < ARRAY_SIZE(sequences); i++)
    if (first >= sequences[i].first_low && first <= sequences[i].first_high)
      return &sequences[i];
  return NULL;
}

static bool follows(const struct sequence *sequence, size_t index, uint8_t byte)
{
  uint8_t low = index == 1 ? sequence->second_low : 0x80;
  uint8_t high = index == 1 ? sequence->second_high : 0xbf;

  return byte >= low && byte <= high;
}

size_t dlp_utf8_decode(const char *bytes, size_t size, uint32_t *ret)
{
  const uint8_t *in = (const uint8_t *)bytes;
  const struct sequence *sequence;
  uint32_t code_point;

  if (!size)
    return 0;
  sequence = sequence_of(in[0]);
  if (!sequence || sequence->size > size)
    return 0;
  /* The first byte begins with as many ones as the sequence has bytes. */
  code_point = sequence->size == 1 ? in[0] : in[0] & (0x7fu >> sequence->size);
  for (size_t i = 1; i < sequence->size; i++) {
    if (!follows(sequence, i, in[i]))
      return 0;
    code_point = code_point << 6 | (in[i] & 0x3fu);
  }
  *ret = code_point;
  return sequence->size;
}

/* How many bytes from `at` on are ASCII; not all of them, if less than eight are left. */
static size_t ascii_run(const char *bytes, size_t at, size_t size)
{
  size_t start = at;
  uint64_t word;

  for (; size - at >= sizeof(word); at += sizeof(word)) {
    memcpy(&word, bytes + at, sizeof(word));
    if (word & UINT64_C(0x8080808080808080))
      break;
  }
  return at - start;
}

bool dlp_utf8_valid(const char *bytes, size_t size)
{
  uint32_t code_point;

  for (size_t at = ascii_run(bytes, 0, size), n; at < size; at += n) {
    if ((unsigned char)bytes[at] < 0x80) {
      n = 1;
      continue;
    }
    n = dlp_utf8_decode(bytes + at, size - at, &code_point);
    if (!n)
      return false;
  }
  return true;
}

struct range {
  uint32_t first, last;
};

/* Cc, Cf, Zl and Zp of Unicode 15.1, in order. */
static const struct range controls[] = {
    {0x0000, 0x001f},   /* C0 */
    {0x007f, 0x009f},   /* delete, C1 */
    {0x00ad, 0x00ad},   /* soft hyphen */
    {0x0600, 0x0605},   /* Arabic number signs */
    {0x061c, 0x061c},   /* Arabic letter mark */
    {0x06dd, 0x06dd},   /* Arabic end of ayah */
    {0x070f, 0x070f},   /* Syriac abbreviation mark */
    {0x0890, 0x0891},   /* Arabic pound and piastre marks */
    {0x08e2, 0x08e2},   /* Arabic disputed end of ayah */
    {0x180e, 0x180e},   /* Mongolian vowel separator */
    {0x200b, 0x200f},   /* zero width space, joiners, direction marks */
    {0x2028, 0x202e},   /* line and paragraph separators, embeddings, overrides */
    {0x2060, 0x2064},   /* word joiner, invisible operators */
    {0x2066, 0x206f},   /* isolates, deprecated shaping controls */
    {0xfeff, 0xfeff},   /* byte order mark */
    {0xfff9, 0xfffb},   /* interlinear annotation */
    {0x110bd, 0x110bd}, /* Kaithi number sign */
    {0x110cd, 0x110cd}, /* Kaithi number sign above */
    {0x13430, 0x1343f}, /* Egyptian hieroglyph joiners */
    {0x1bca0, 0x1bca3}, /* shorthand format letters */
    {0x1d173, 0x1d17a}, /* musical beams, ties, slurs */
    {0xe0001, 0xe0001}, /* language tag */
    {0xe0020, 0xe007f}, /* tags */
};

bool dlp_unicode_is_control(uint32_t code_point)
{
  for (size_t i = 0; i < ARRAY_SIZE(controls) && controls[i].first <= code_point; i++)
    if (code_point <= controls[i].last)
      return true;
  return false;
}
