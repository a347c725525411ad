#include "support/test.h"

#include <locale.h>
#include <string.h>

#include "escape.h"

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

static const char *terminal(struct text *text, const char *string)
{
  text_clear(text);
  escape_terminal(text, string);
  return text_string(text);
}

static const char *published(struct text *text, const char *name)
{
  text_clear(text);
  escape_name(text, name);
  return text_string(text);
}

static void plain_text_is_left_alone(void **state)
{
  assert_string_equal(terminal(*state, "model/layers.0/weight"), "model/layers.0/weight");
  assert_string_equal(terminal(*state, "größe/重み/😀"), "größe/重み/😀");
}

static void control_characters_never_reach_the_terminal(void **state)
{
  assert_string_equal(terminal(*state, "a\033[2Jb\r\n\t\177"), "a\\x1b[2Jb\\x0d\\x0a\\x09\\x7f");
  /* U+009B is an escape sequence's beginning in one character. */
  assert_string_equal(terminal(*state, "\xc2\x9b"), "\\xc2\\x9b");
}

static void marks_that_reverse_the_line_are_escaped(void **state)
{
  assert_string_equal(terminal(*state, "a\xe2\x80\xae"
                                       "b"),
                      "a\\xe2\\x80\\xaeb");
  assert_string_equal(terminal(*state, "\xe2\x80\xa8"), "\\xe2\\x80\\xa8");
}

static void bytes_that_are_not_utf8_are_escaped_one_by_one(void **state)
{
  assert_string_equal(terminal(*state, "\xff"
                                       "a\xc3"),
                      "\\xffa\\xc3");
  assert_string_equal(terminal(*state, "\xc0\xaf"), "\\xc0\\xaf");
  assert_string_equal(terminal(*state, "\xed\xa0\x80"), "\\xed\\xa0\\x80");
  assert_string_equal(terminal(*state, "\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

static void an_escape_cannot_be_faked(void **state)
{
  assert_string_equal(terminal(*state, "\\x1b"), "\\\\x1b");
}

static void wide_characters_take_two_columns(void **state)
{
  if (!setlocale(LC_CTYPE, "C.UTF-8"))
    skip();
  assert_int_equal(escape_columns("ab"), 2);
  assert_int_equal(escape_columns("重み"), 4);
}

static void names_within_the_grammar_are_left_alone(void **state)
{
  assert_string_equal(published(*state, "model.layers.0/self_attn.q_proj"),
                      "model.layers.0/self_attn.q_proj");
  assert_string_equal(published(*state, "a~b/größe"), "a~b/größe");
}

static void what_the_grammar_forbids_becomes_percent_codes(void **state)
{
  assert_string_equal(published(*state, "a@b"), "a%40b");
  assert_string_equal(published(*state, "~a/~b"), "%7Ea/%7Eb");
  assert_string_equal(published(*state, "100%"), "100%25");
  assert_string_equal(published(*state, "./../.safetensors"), "%2E/%2E./%2Esafetensors");
  assert_string_equal(published(*state, "a\nb"), "a%0Ab");
  assert_string_equal(published(*state, "/a//b/"), "%2Fa%2F/b%2F");
  assert_string_equal(published(*state, ""), "%");
}

static void every_name_comes_back(void **state)
{
  static const char *const names[] = {
      "",
      "a",
      "/",
      "//",
      "///",
      "a/b",
      "/a",
      "a/",
      "a//b",
      "a///b",
      ".",
      "..",
      "...",
      "a/.",
      "%",
      "%25",
      "%%41",
      "~",
      "~~",
      "@",
      " ",
      "\001",
      "a b",
      "a\\",
      "\"",
      "größe/重み",
      "\xe2\x80\xae",
      "a/../b",
      ".safetensors",
  };

  for (size_t i = 0; i < TEST_ARRAY_SIZE(names); i++) {
    cli_auto_text struct text name = {0};

    assert_int_equal(escape_name_undo(&name, published(*state, names[i])), 0);
    assert_string_equal(text_string(&name), names[i]);
  }
}

static void a_broken_percent_code_is_refused(void **state)
{
  static const char *const broken[] = {"a%", "a%4", "a%4g", "%zz", "a%00"};

  for (size_t i = 0; i < TEST_ARRAY_SIZE(broken); i++) {
    text_clear(*state);
    assert_int_equal(escape_name_undo(*state, broken[i]), ESCAPE_E_SYNTAX);
  }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(plain_text_is_left_alone),
    TEST(control_characters_never_reach_the_terminal),
    TEST(marks_that_reverse_the_line_are_escaped),
    TEST(bytes_that_are_not_utf8_are_escaped_one_by_one),
    TEST(an_escape_cannot_be_faked),
    TEST(wide_characters_take_two_columns),
    TEST(names_within_the_grammar_are_left_alone),
    TEST(what_the_grammar_forbids_becomes_percent_codes),
    TEST(every_name_comes_back),
    TEST(a_broken_percent_code_is_refused),
};

TEST_MAIN(tests)
