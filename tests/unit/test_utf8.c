#include "support/test.h"

#include <string.h>

#include "common/utf8.h"

/* Written by the bit patterns of RFC 3629, to compare with. */
static size_t encode(uint32_t code_point, char *ret)
{
  static const uint32_t limits[] = {0x80, 0x800, 0x10000, 0x110000};
  static const unsigned char marks[] = {0x00, 0xc0, 0xe0, 0xf0};
  size_t size = 1;

  while (code_point >= limits[size - 1])
    size++;
  for (size_t i = size; i-- > 1; code_point >>= 6)
    ret[i] = (char)(0x80 | (code_point & 0x3f));
  ret[0] = (char)(marks[size - 1] | code_point);
  return size;
}

static bool is_surrogate(uint32_t code_point)
{
  return code_point >= 0xd800 && code_point <= 0xdfff;
}

static void every_code_point_decodes_to_itself(void **state)
{
  for (uint32_t code_point = 0; code_point <= 0x10ffff; code_point++) {
    char bytes[4];
    uint32_t decoded = 0;
    size_t size = encode(code_point, bytes);

    if (is_surrogate(code_point)) {
      assert_int_equal(dlp_utf8_decode(bytes, size, &decoded), 0);
      continue;
    }
    assert_int_equal(dlp_utf8_decode(bytes, size, &decoded), size);
    assert_int_equal(decoded, code_point);
    for (size_t cut = 0; cut < size; cut++)
      assert_int_equal(dlp_utf8_decode(bytes, cut, &decoded), 0);
  }
}

/* Of all sequences of three bytes and one more, exactly the shortest forms are
 * taken: what decodes must encode to the same bytes. */
static void only_the_shortest_form_is_valid(void **state)
{
  for (uint32_t i = 0; i < 1u << 24; i++) {
    char bytes[4] = {(char)(i >> 16), (char)(i >> 8), (char)i, (char)0x80}, again[4];
    uint32_t code_point;
    size_t size = dlp_utf8_decode(bytes, sizeof(bytes), &code_point);

    if (!size)
      continue;
    assert_false(is_surrogate(code_point));
    assert_int_equal(encode(code_point, again), size);
    assert_memory_equal(again, bytes, size);
  }
}

static void ill_formed_text_is_not_valid(void **state)
{
  static const char *const texts[] = {
      "\x80",             /* continuation alone */
      "a\xbf",            /* the same, at the end */
      "\xc3",             /* cut */
      "\xc3(",            /* broken off */
      "\xc0\xaf",         /* "/" in two bytes */
      "\xc1\xbf",         /* DEL in two */
      "\xe0\x80\xaf",     /* "/" in three */
      "\xf0\x80\x80\xaf", /* "/" in four */
      "\xed\xa0\x80",     /* surrogate */
      "\xf4\x90\x80\x80", /* U+110000 */
      "\xf5\x80\x80\x80",
      "\xf8\x88\x80\x80\x80",
      "\xfe",
      "\xff",
      "\xe2\x82",        /* euro, cut */
      "ok \xf0\x9f\x98", /* emoji, cut */
  };

  for (size_t i = 0; i < TEST_ARRAY_SIZE(texts); i++)
    assert_false(dlp_utf8_valid(texts[i], strlen(texts[i])));
}

static void text_of_the_world_is_valid(void **state)
{
  static const char *const texts[] = {
      "", "model/w", "gewicht/größe", "重み/層", "вес", "\xf4\x8f\xbf\xbf", "😀"};

  for (size_t i = 0; i < TEST_ARRAY_SIZE(texts); i++)
    assert_true(dlp_utf8_valid(texts[i], strlen(texts[i])));
}

static void nothing_decodes_from_no_bytes(void **state)
{
  uint32_t code_point = 7;

  assert_int_equal(dlp_utf8_decode("a", 0, &code_point), 0);
  assert_int_equal(code_point, 7);
}

static void what_hides_or_breaks_lines_is_control(void **state)
{
  static const uint32_t controls[] = {
      0x0,    0x7,    0xa,    0x1b,   0x1f,   0x7f,    0x80,    0x85,    0x9b,    0x9f,    0xad,
      0x61c,  0x180e, 0x200b, 0x200d, 0x200e, 0x200f,  0x2028,  0x2029,  0x202a,  0x202e,  0x2060,
      0x2066, 0x2069, 0xfeff, 0xfff9, 0xfffb, 0x1343f, 0x1d173, 0xe0001, 0xe0020, 0xe007f,
  };

  for (size_t i = 0; i < TEST_ARRAY_SIZE(controls); i++)
    assert_true(dlp_unicode_is_control(controls[i]));
}

static void what_can_be_seen_is_not_control(void **state)
{
  static const uint32_t letters[] = {
      ' ',    '~',    'a',     0xa0,    0xac,    0xae,    0x606,    0x2010,
      0x202f, 0x2027, 0x3000,  0x2065,  0x4e00,  0xe000,  0xfefe,   0xff00,
      0xfffc, 0xfffd, 0x13440, 0x1f600, 0xe0000, 0xe0080, 0x10fffd,
  };

  for (size_t i = 0; i < TEST_ARRAY_SIZE(letters); i++)
    assert_false(dlp_unicode_is_control(letters[i]));
}

/* The number that Unicode 15.1 has in Cc (65), Cf (170), Zl (1) and Zp (1). */
static void controls_are_as_many_as_unicode_has(void **state)
{
  size_t n = 0;

  for (uint32_t code_point = 0; code_point <= 0x10ffff; code_point++)
    n += dlp_unicode_is_control(code_point);
  assert_int_equal(n, 65 + 170 + 1 + 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_code_point_decodes_to_itself),
    cmocka_unit_test(only_the_shortest_form_is_valid),
    cmocka_unit_test(ill_formed_text_is_not_valid),
    cmocka_unit_test(text_of_the_world_is_valid),
    cmocka_unit_test(nothing_decodes_from_no_bytes),
    cmocka_unit_test(what_hides_or_breaks_lines_is_control),
    cmocka_unit_test(what_can_be_seen_is_not_control),
    cmocka_unit_test(controls_are_as_many_as_unicode_has),
};

TEST_MAIN(tests)
