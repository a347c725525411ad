#include "support/test.h"

#include <math.h>
#include <string.h>

#include "dlclient_dlpack.h"
#include "values.h"

static int setup(void **state)
{
  static struct text text;

  text = (struct text){0};
  *state = &text;
  return 0;
}

static int teardown(void **state)
{
  text_deinit(*state);
  return 0;
}

static double small(uint8_t code, uint8_t bits, uint32_t raw)
{
  return value_small_float((struct dtype){code, bits, 1}, raw);
}

/* Largest, smallest subnormal and one, from the definitions of the formats. */
static const struct {
  uint8_t code;
  uint8_t bits;
  uint32_t one;
  uint32_t largest;
  double largest_value;
  double smallest_value; /* of raw 1 */
} formats[] = {
    {kDLFloat, 16, 0x3c00, 0x7bff, 65504, 0x1p-24},
    {kDLBfloat, 16, 0x3f80, 0x7f7f, 0x1.fep127, 0x1p-133},
    {kDLFloat8_e3m4, 8, 0x30, 0x6f, 15.5, 0x1p-6},
    {kDLFloat8_e4m3, 8, 0x38, 0x77, 240, 0x1p-9},
    {kDLFloat8_e4m3b11fnuz, 8, 0x58, 0x7f, 30, 0x1p-13},
    {kDLFloat8_e4m3fn, 8, 0x38, 0x7e, 448, 0x1p-9},
    {kDLFloat8_e4m3fnuz, 8, 0x40, 0x7f, 240, 0x1p-10},
    {kDLFloat8_e5m2, 8, 0x3c, 0x7b, 57344, 0x1p-16},
    {kDLFloat8_e5m2fnuz, 8, 0x40, 0x7f, 57344, 0x1p-17},
    {kDLFloat8_e8m0fnu, 8, 0x7f, 0xfe, 0x1p127, 0x1p-126},
    {kDLFloat6_e2m3fn, 6, 0x08, 0x1f, 7.5, 0.125},
    {kDLFloat6_e3m2fn, 6, 0x0c, 0x1f, 28, 0.0625},
    {kDLFloat4_e2m1fn, 4, 0x02, 0x07, 6, 0.5},
};

static void small_floats_are_what_their_formats_define(void **state)
{
  for (size_t i = 0; i < TEST_ARRAY_SIZE(formats); i++) {
    assert_true(small(formats[i].code, formats[i].bits, formats[i].one) == 1);
    assert_true(small(formats[i].code, formats[i].bits, formats[i].largest) ==
                formats[i].largest_value);
    assert_true(small(formats[i].code, formats[i].bits, 1) == formats[i].smallest_value);
  }
}

static void each_small_float_has_the_specials_of_its_format(void **state)
{
  assert_true(isinf(small(kDLFloat, 16, 0x7c00)) && isnan(small(kDLFloat, 16, 0x7c01)));
  assert_true(small(kDLBfloat, 16, 0xff80) == -INFINITY);
  assert_true(isinf(small(kDLFloat8_e3m4, 8, 0x70)) && isnan(small(kDLFloat8_e3m4, 8, 0x71)));
  assert_true(isinf(small(kDLFloat8_e4m3, 8, 0x78)) && isnan(small(kDLFloat8_e4m3, 8, 0x7f)));
  assert_true(isinf(small(kDLFloat8_e5m2, 8, 0x7c)) && isnan(small(kDLFloat8_e5m2, 8, 0x7d)));
  assert_true(isnan(small(kDLFloat8_e4m3fn, 8, 0x7f)) && isnan(small(kDLFloat8_e4m3fn, 8, 0xff)));
  assert_true(isnan(small(kDLFloat8_e4m3fnuz, 8, 0x80)));
  assert_true(isnan(small(kDLFloat8_e5m2fnuz, 8, 0x80)));
  assert_true(isnan(small(kDLFloat8_e4m3b11fnuz, 8, 0x80)));
  assert_true(isnan(small(kDLFloat8_e8m0fnu, 8, 0xff)));
  assert_true(small(kDLFloat8_e8m0fnu, 8, 0) == 0x1p-127);
  assert_true(small(kDLFloat4_e2m1fn, 4, 0x0f) == -6);
  assert_true(small(kDLFloat6_e3m2fn, 6, 0x3f) == -28);
}

static const char *first(struct text *text, const void *data, struct dtype dtype, int64_t count,
                         bool padded)
{
  struct values values = {data, dtype, padded, {1, &count, NULL}};

  text_clear(text);
  values_format_first(text, &values, 100);
  return text_string(text);
}

static void packed_values_are_taken_from_the_lowest_bits_upward(void **state)
{
  static const uint8_t int4[] = {0x71, 0x8f};
  static const uint8_t fp4[] = {0x21, 0x0f};
  /* Four fp6_e2m3 of 1, 2, 4 and 0.125 in three bytes: 0x08, 0x10, 0x18, 0x01. */
  static const uint8_t fp6[] = {0x08, 0x84, 0x05};

  assert_string_equal(first(*state, int4, (struct dtype){kDLInt, 4, 1}, 4, false), "1, 7, -1, -8");
  assert_string_equal(first(*state, int4, (struct dtype){kDLUInt, 4, 1}, 3, false), "1, 7, 15");
  assert_string_equal(first(*state, fp4, (struct dtype){kDLFloat4_e2m1fn, 4, 1}, 3, false),
                      "0.5, 1, -6");
  assert_string_equal(first(*state, fp6, (struct dtype){kDLFloat6_e2m3fn, 6, 1}, 4, false),
                      "1, 2, 4, 0.125");
}

static void padded_values_take_a_byte_each(void **state)
{
  static const uint8_t bytes[] = {0x01, 0x0f, 0x08};

  assert_string_equal(first(*state, bytes, (struct dtype){kDLInt, 4, 1}, 3, true), "1, -1, -8");
}

static void lanes_are_shown_as_groups(void **state)
{
  static const float floats[] = {1, 2, 3, 4};
  static const uint8_t fp4x2[] = {0x42, 0x01};

  assert_string_equal(first(*state, floats, (struct dtype){kDLFloat, 32, 2}, 2, false),
                      "(1, 2), (3, 4)");
  assert_string_equal(first(*state, fp4x2, (struct dtype){kDLFloat4_e2m1fn, 4, 2}, 2, false),
                      "(1, 2), (0.5, 0)");
}

static void wide_types_show_all_their_digits_and_no_more(void **state)
{
  static const double doubles[] = {0.1, 1e300, -0.0};
  static const float floats[] = {0.1f, 16777216.0f};
  static const int64_t integers[] = {INT64_MIN, INT64_MAX};
  static const uint64_t naturals[] = {UINT64_MAX};
  static const float complexes[] = {1, -2, NAN, INFINITY};
  static const uint8_t bools[] = {0, 1, 7};

  assert_string_equal(first(*state, doubles, (struct dtype){kDLFloat, 64, 1}, 3, false),
                      "0.1, 1e+300, -0");
  assert_string_equal(first(*state, floats, (struct dtype){kDLFloat, 32, 1}, 2, false),
                      "0.1, 16777216");
  assert_string_equal(first(*state, integers, (struct dtype){kDLInt, 64, 1}, 2, false),
                      "-9223372036854775808, 9223372036854775807");
  assert_string_equal(first(*state, naturals, (struct dtype){kDLUInt, 64, 1}, 1, false),
                      "18446744073709551615");
  assert_string_equal(first(*state, complexes, (struct dtype){kDLComplex, 64, 1}, 2, false),
                      "1-2j, nan+infj");
  assert_string_equal(first(*state, bools, (struct dtype){kDLBool, 8, 1}, 3, false),
                      "false, true, true");
}

static void what_cannot_be_decoded_is_shown_as_bytes(void **state)
{
  static const uint8_t bytes[16] = {1, 2, [15] = 0xff};

  assert_string_equal(first(*state, bytes, (struct dtype){kDLInt, 128, 1}, 1, false),
                      "0xff000000000000000000000000000201");
}

static void a_summary_sets_nan_and_infinity_apart(void **state)
{
  static const float floats[] = {1, NAN, -3, INFINITY, 5, -INFINITY};
  static const int64_t shape[] = {6};
  struct values values = {floats, {kDLFloat, 32, 1}, false, {1, shape, NULL}};
  struct values_summary summary = values_summarise(&values);

  assert_int_equal(summary.n_values, 6);
  assert_int_equal(summary.n_nan, 1);
  assert_int_equal(summary.n_infinite, 2);
  assert_true(summary.min.real == -INFINITY && summary.max.real == INFINITY);
  assert_true(summary.has_mean && summary.mean == 1);
}

static void a_summary_follows_the_strides(void **state)
{
  static const int32_t integers[] = {0, 9, 1, 9, 2, 9};
  static const int64_t shape[] = {2, 3};
  static const int64_t strides[] = {0, -2};
  struct values values = {&integers[4], {kDLInt, 32, 1}, false, {2, shape, strides}};
  struct values_summary summary = values_summarise(&values);

  values_format_first(*state, &values, 100);
  assert_string_equal(text_string(*state), "2, 1, 0, 2, 1, 0");
  assert_int_equal(summary.max.integer, 2);
  assert_true(summary.mean == 1);
}

static void large_integers_keep_their_order(void **state)
{
  static const uint64_t naturals[] = {UINT64_MAX - 1, UINT64_MAX};
  static const int64_t shape[] = {2};
  struct values values = {naturals, {kDLUInt, 64, 1}, false, {1, shape, NULL}};
  struct values_summary summary = values_summarise(&values);

  assert_true(summary.min.unsigned_int == UINT64_MAX - 1);
  assert_true(summary.max.unsigned_int == UINT64_MAX);
}

static void nothing_has_no_summary_and_no_values(void **state)
{
  static const int64_t shape[] = {3, 0};
  struct values values = {NULL, {kDLFloat, 32, 1}, false, {2, shape, NULL}};
  struct values_summary summary = values_summarise(&values);

  assert_false(summary.has_range || summary.has_mean);
  values_format_first(*state, &values, 100);
  assert_string_equal(text_string(*state), "");
}

static void a_scalar_is_one_value(void **state)
{
  static const double value = 2.5;
  struct values values = {&value, {kDLFloat, 64, 1}, false, {0, NULL, NULL}};

  values_format_first(*state, &values, 100);
  assert_string_equal(text_string(*state), "2.5");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(small_floats_are_what_their_formats_define),
    TEST(each_small_float_has_the_specials_of_its_format),
    TEST(packed_values_are_taken_from_the_lowest_bits_upward),
    TEST(padded_values_take_a_byte_each),
    TEST(lanes_are_shown_as_groups),
    TEST(wide_types_show_all_their_digits_and_no_more),
    TEST(what_cannot_be_decoded_is_shown_as_bytes),
    TEST(a_summary_sets_nan_and_infinity_apart),
    TEST(a_summary_follows_the_strides),
    TEST(large_integers_keep_their_order),
    TEST(nothing_has_no_summary_and_no_values),
    TEST(a_scalar_is_one_value),
};

TEST_MAIN(tests)
