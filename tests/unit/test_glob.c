#include "support/test.h"

#include <string.h>

#include "client/glob.h"

static void a_star_crosses_slashes(void **state)
{
  assert_true(dlc__glob_match("model/*", "model/a/b"));
  assert_true(dlc__glob_match("*weight", "model/layers.0/weight"));
  assert_true(dlc__glob_match("*", ""));
  assert_true(dlc__glob_match("a*b*c", "aXXbYYc"));
  assert_false(dlc__glob_match("model/*", "model"));
  assert_false(dlc__glob_match("a*b*c", "aXXbYY"));
}

static void a_question_mark_is_one_code_point(void **state)
{
  assert_true(dlc__glob_match("?", "a"));
  assert_true(dlc__glob_match("?", "\xc3\xa9"));
  assert_true(dlc__glob_match("w?x", "w\xf0\x9f\x98\x80x"));
  assert_false(dlc__glob_match("?", ""));
  assert_false(dlc__glob_match("??", "\xc3\xa9"));
  assert_false(dlc__glob_match("*??", "\xc3\xa9"));
}

static void a_set_is_one_of_its_members(void **state)
{
  assert_true(dlc__glob_match("layer.[0-9]", "layer.7"));
  assert_true(dlc__glob_match("[abc]x", "bx"));
  assert_true(dlc__glob_match("[!a]x", "bx"));
  assert_true(dlc__glob_match("[^a]x", "bx"));
  assert_true(dlc__glob_match("[]]", "]"));
  assert_true(dlc__glob_match("[a-]", "-"));
  assert_true(dlc__glob_match("[\xc3\xa0-\xc3\xaf]", "\xc3\xa9"));
  assert_false(dlc__glob_match("[!a]x", "ax"));
  assert_false(dlc__glob_match("[0-9]", "a"));
  assert_false(dlc__glob_match("[0-9]", ""));
}

static void a_set_without_an_end_is_a_bracket(void **state)
{
  assert_true(dlc__glob_match("[abc", "[abc"));
  assert_true(dlc__glob_match("x[", "x["));
  assert_true(dlc__glob_match("x[a-", "x[a-"));
  assert_false(dlc__glob_match("[abc", "a"));
}

static void a_backslash_takes_away_meaning(void **state)
{
  assert_true(dlc__glob_match("a\\*b", "a*b"));
  assert_true(dlc__glob_match("[\\]]", "]"));
  assert_true(dlc__glob_match("a\\", "a\\"));
  assert_false(dlc__glob_match("a\\*b", "aXb"));
}

static void many_stars_cost_no_more_than_the_product_of_the_lengths(void **state)
{
  char pattern[512], text[2048];

  for (size_t i = 0; i + 2 < sizeof(pattern); i += 2)
    memcpy(pattern + i, "a*", 2);
  memcpy(pattern + sizeof(pattern) - 2, "b", 2);
  memset(text, 'a', sizeof(text) - 1);
  text[sizeof(text) - 1] = '\0';
  assert_false(dlc__glob_match(pattern, text));
}

static void text_that_is_not_utf8_is_matched_byte_by_byte(void **state)
{
  assert_true(dlc__glob_match("?\xff?", "a\xff\x80"));
  assert_true(dlc__glob_match("*\xff", "\xc3\xff"));
}

static void the_literal_start_of_a_pattern_ends_at_its_first_special_byte(void **state)
{
  assert_int_equal(dlc__glob_literal_size("model/a*"), 7);
  assert_int_equal(dlc__glob_literal_size("model/a\\*"), 7);
  assert_int_equal(dlc__glob_literal_size("[a]"), 0);
  assert_int_equal(dlc__glob_literal_size("model"), 5);
  assert_true(dlc__glob_is_pattern("a?"));
  assert_false(dlc__glob_is_pattern("a/b"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_star_crosses_slashes),
    cmocka_unit_test(a_question_mark_is_one_code_point),
    cmocka_unit_test(a_set_is_one_of_its_members),
    cmocka_unit_test(a_set_without_an_end_is_a_bracket),
    cmocka_unit_test(a_backslash_takes_away_meaning),
    cmocka_unit_test(many_stars_cost_no_more_than_the_product_of_the_lengths),
    cmocka_unit_test(text_that_is_not_utf8_is_matched_byte_by_byte),
    cmocka_unit_test(the_literal_start_of_a_pattern_ends_at_its_first_special_byte),
};

TEST_MAIN(tests)
