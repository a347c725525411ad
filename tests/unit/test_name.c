#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/name.h"

struct verdict {
  const char *name;
  int condition;
};

static const struct verdict verdicts[] = {
    {"w", 0},
    {"model/layers.0/weight", 0},
    {"gewichte/größe/重み", 0},
    {"with space", 0},
    {".hidden/..x/x../...", 0},
    {"a~b/~c", 0},
    {"emoji-😀", 0},
    {"back\\slash", 0},
    {"", NAME_E_EMPTY},
    {"/", NAME_E_COMPONENT_EMPTY},
    {"/a", NAME_E_COMPONENT_EMPTY},
    {"a/", NAME_E_COMPONENT_EMPTY},
    {"a//b", NAME_E_COMPONENT_EMPTY},
    {".", NAME_E_COMPONENT_DOTS},
    {"..", NAME_E_COMPONENT_DOTS},
    {"../etc/passwd", NAME_E_COMPONENT_DOTS},
    {"a/./b", NAME_E_COMPONENT_DOTS},
    {"a/..", NAME_E_COMPONENT_DOTS},
    {"@host/a", NAME_E_AT},
    {"a/b@c", NAME_E_AT},
    {"~", NAME_E_TILDE},
    {"~alice/w", NAME_E_TILDE},
    {"a\xff", NAME_E_UTF8},
    {"a\xc0\xaf"
     "b",
     NAME_E_UTF8}, /* a slash in disguise */
    {"\xed\xa0\x80", NAME_E_UTF8},
    {"a\nb", NAME_E_CONTROL},
    {"a\x1b[31m", NAME_E_CONTROL},
    {"a\x7f", NAME_E_CONTROL},
    {"a\xc2\x9b"
     "b",
     NAME_E_CONTROL}, /* C1: a terminal's other escape */
    {"a\xe2\x80\xae"
     "b",
     NAME_E_CONTROL},                  /* right-to-left override */
    {"a\xe2\x80\x8b", NAME_E_CONTROL}, /* zero width space */
    {"a\xe2\x80\xa8", NAME_E_CONTROL}, /* line separator */
    {"\xef\xbb\xbf"
     "a",
     NAME_E_CONTROL}, /* byte order mark */
};

static void each_rule_of_the_grammar_is_kept(void **state)
{
  for (size_t i = 0; i < TEST_ARRAY_SIZE(verdicts); i++) {
    if (name_check(verdicts[i].name) != verdicts[i].condition)
      print_error("name: %s\n", verdicts[i].name);
    assert_int_equal(name_check(verdicts[i].name), verdicts[i].condition);
  }
}

/* `size` bytes in components of `component`. */
static const char *long_name(size_t size, size_t component)
{
  static char name[2 * DLP_NAME_MAX];

  assert_true(size < sizeof(name));
  for (size_t i = 0; i < size; i++)
    name[i] = (i + 1) % (component + 1) ? 'x' : '/';
  name[size] = '\0';
  return name;
}

static void lengths_are_bounded_to_the_byte(void **state)
{
  assert_int_equal(name_check(long_name(255, 255)), 0);
  assert_int_equal(name_check(long_name(256, 256)), NAME_E_COMPONENT_TOO_LONG);
  assert_int_equal(name_check(long_name(600, 300)), NAME_E_COMPONENT_TOO_LONG);
  assert_int_equal(name_check(long_name(1023, 255)), 0);
  assert_int_equal(name_check(long_name(1024, 100)), NAME_E_TOO_LONG);
}

/* 86 characters of three bytes are more than 255 bytes. */
static void lengths_count_bytes_not_characters(void **state)
{
  char name[3 * 86 + 1] = "";

  for (int i = 0; i < 86; i++)
    memcpy(name + (size_t)3 * i, "重", 3);
  assert_int_equal(name_check(name), NAME_E_COMPONENT_TOO_LONG);
  name[255] = '\0';
  assert_int_equal(name_check(name), 0);
}

static void prefix_is_empty_or_a_name_or_a_name_and_a_slash(void **state)
{
  static const struct verdict prefixes[] = {
      {"", 0},
      {"model", 0},
      {"model/", 0},
      {"model/layers.0/", 0},
      {"/", NAME_E_COMPONENT_EMPTY},
      {"//", NAME_E_COMPONENT_EMPTY},
      {"model//", NAME_E_COMPONENT_EMPTY},
      {"/model", NAME_E_COMPONENT_EMPTY},
      {"../", NAME_E_COMPONENT_DOTS},
      {"~bob/", NAME_E_TILDE},
      {"@h", NAME_E_AT},
      {"a\x01/", NAME_E_CONTROL},
  };

  for (size_t i = 0; i < TEST_ARRAY_SIZE(prefixes); i++)
    assert_int_equal(name_check_prefix(prefixes[i].name), prefixes[i].condition);
}

static void every_broken_rule_has_a_sentence(void **state)
{
  for (int condition = NAME_E_EMPTY; condition <= NAME_E_CONTROL; condition++) {
    assert_non_null(name_describe(condition));
    for (int other = NAME_E_EMPTY; other < condition; other++)
      assert_string_not_equal(name_describe(condition), name_describe(other));
  }
  assert_non_null(strstr(name_describe(NAME_E_TOO_LONG), "1023"));
  assert_non_null(strstr(name_describe(NAME_E_COMPONENT_TOO_LONG), "255"));
  assert_non_null(name_describe(0));
  assert_non_null(name_describe(-1));
  assert_non_null(name_describe(1000));
}

struct escape {
  const char *name;
  const char *escaped;
};

static void what_confuses_a_terminal_is_escaped(void **state)
{
  static const struct escape escapes[] = {
      {"", ""},
      {"model/größe/重み😀", "model/größe/重み😀"},
      {"a\x1b[31m", "a\\x1b[31m"},
      {"a\nb\tc", "a\\x0ab\\x09c"},
      {"a\xc2\x9b"
       "b",
       "a\\xc2\\x9bb"},
      {"a\xe2\x80\xae"
       "b",
       "a\\xe2\\x80\\xaeb"},
      {"a\xff\xfe", "a\\xff\\xfe"},
      {"a\xe2\x82", "a\\xe2\\x82"},
      {"a\xf3\xa0\x80\x81", "a\\xf3\\xa0\\x80\\x81"},
      {"\\x41", "\\x5cx41"}, /* does not pass for an escaped A */
  };
  char buffer[64];

  for (size_t i = 0; i < TEST_ARRAY_SIZE(escapes); i++) {
    name_escape(escapes[i].name, buffer, sizeof(buffer));
    assert_string_equal(buffer, escapes[i].escaped);
  }
}

struct cut {
  const char *name;
  size_t size;
  const char *escaped;
};

static void long_text_ends_in_dots_and_is_never_cut_within_a_character(void **state)
{
  static const struct cut cuts[] = {
      {"abcdef", 7, "abcdef"},
      {"abcdef", 6, "ab..."},
      {"abcdef", 4, "..."},
      {"abcdef", 3, ".."},
      {"abcdef", 2, "."},
      {"abcdef", 1, ""},
      {"ab", 3, "ab"},
      {"ab", 2, "."},
      {"重み重", 10, "重み重"},
      {"重み重", 9, "重..."},
      {"重み重", 7, "重..."},
      {"重み重", 6, "..."},
      {"a\n\nb", 11, "a\\x0a\\x0ab"},
      {"a\n\nb", 10, "a\\x0a..."},
      {"a\n\nb", 8, "a..."},
  };

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cuts); i++) {
    char buffer[16];
    memset(buffer, '#', sizeof(buffer));
    name_escape(cuts[i].name, buffer, cuts[i].size);
    assert_string_equal(buffer, cuts[i].escaped);
    assert_int_equal(buffer[cuts[i].size], '#');
  }
}

static void escaping_into_no_room_writes_nothing(void **state)
{
  char buffer = '#';

  name_escape("abc", &buffer, 0);
  assert_int_equal(buffer, '#');
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_rule_of_the_grammar_is_kept),
    cmocka_unit_test(lengths_are_bounded_to_the_byte),
    cmocka_unit_test(lengths_count_bytes_not_characters),
    cmocka_unit_test(prefix_is_empty_or_a_name_or_a_name_and_a_slash),
    cmocka_unit_test(every_broken_rule_has_a_sentence),
    cmocka_unit_test(what_confuses_a_terminal_is_escaped),
    cmocka_unit_test(long_text_ends_in_dots_and_is_never_cut_within_a_character),
    cmocka_unit_test(escaping_into_no_room_writes_nothing),
};

TEST_MAIN(tests)
