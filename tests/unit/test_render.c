#include "support/test.h"

#include <locale.h>
#include <string.h>

#include "human.h"
#include "render.h"

static const struct render_column columns[] = {
    {"NAME", .min_columns = 8},
    {"SIZE", .right = true},
    {"OWNER", .dispensable = 1},
    {"STATE", .dispensable = 2},
};

struct fixture {
  struct render_table table;
  struct text text;
};

static int setup(void **state)
{
  static struct fixture fixture;

  memset(&fixture, 0, sizeof(fixture));
  render_table_init(&fixture.table, columns, TEST_ARRAY_SIZE(columns));
  *state = &fixture;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;

  render_table_deinit(&fixture->table);
  text_deinit(&fixture->text);
  return 0;
}

static void add_row(struct fixture *fixture, const char *const *cells)
{
  for (size_t i = 0; i < TEST_ARRAY_SIZE(columns); i++) {
    struct text cell = {0};

    text_append(&cell, cells[i]);
    render_table_add(&fixture->table, &cell);
  }
}

static const char *render(struct fixture *fixture, unsigned width)
{
  text_clear(&fixture->text);
  render_table_text(&fixture->table, width, &fixture->text);
  assert_false(fixture->text.failed);
  return text_string(&fixture->text);
}

static const char *const long_row[] = {"model/layers.0/weight", "1.5 KiB", "alice", "live"};
static const char *const short_row[] = {"w", "12 B", "bob", "retired"};

static void columns_are_aligned_and_numbers_to_the_right(void **state)
{
  add_row(*state, long_row);
  add_row(*state, short_row);
  assert_string_equal(render(*state, RENDER_WIDTH_ANY),
                      "NAME                      SIZE  OWNER  STATE\n"
                      "model/layers.0/weight  1.5 KiB  alice  live\n"
                      "w                         12 B  bob    retired\n");
}

static void an_empty_table_is_its_heading(void **state)
{
  assert_string_equal(render(*state, 80), "NAME  SIZE  OWNER  STATE\n");
}

static void a_long_name_loses_its_beginning_first(void **state)
{
  add_row(*state, long_row);
  assert_string_equal(render(*state, 38), "NAME                SIZE  OWNER  STATE\n"
                                          "...ers.0/weight  1.5 KiB  alice  live\n");
}

static void what_is_dispensable_goes_when_names_are_short_enough(void **state)
{
  add_row(*state, long_row);
  assert_string_equal(render(*state, 26), "NAME           SIZE  OWNER\n"
                                          ".../weight  1.5 KiB  alice\n");
}

static void no_line_is_wider_than_asked(void **state)
{
  add_row(*state, long_row);
  add_row(*state, short_row);
  for (unsigned width = 17; width < 60; width++) {
    const char *line = render(*state, width);

    for (const char *end; (end = strchr(line, '\n')); line = end + 1)
      assert_true((size_t)(end - line) <= width);
  }
}

static void shortening_counts_columns_not_bytes(void **state)
{
  struct fixture *fixture = *state;

  if (!setlocale(LC_CTYPE, "C.UTF-8"))
    skip();
  render_shorten(&fixture->text, "größere/重み", 9);
  assert_string_equal(text_string(&fixture->text), "...e/重み");
  text_clear(&fixture->text);
  render_shorten(&fixture->text, "größe", 5);
  assert_string_equal(text_string(&fixture->text), "größe");
}

static const char *size(struct text *text, uint64_t bytes)
{
  text_clear(text);
  human_size(text, bytes);
  return text_string(text);
}

static void sizes_are_for_people(void **state)
{
  struct text *text = &((struct fixture *)*state)->text;

  assert_string_equal(size(text, 0), "0 B");
  assert_string_equal(size(text, 1023), "1023 B");
  assert_string_equal(size(text, 1024), "1.0 KiB");
  assert_string_equal(size(text, 1536), "1.5 KiB");
  assert_string_equal(size(text, 1048575), "1.0 MiB");
  assert_string_equal(size(text, UINT64_C(5) << 30), "5.0 GiB");
  assert_string_equal(size(text, UINT64_MAX), "16.0 EiB");
}

static const char *age(struct text *text, uint64_t seconds)
{
  text_clear(text);
  human_age(text, seconds * 1000);
  return text_string(text);
}

static void ages_are_for_people(void **state)
{
  struct text *text = &((struct fixture *)*state)->text;

  assert_string_equal(age(text, 0), "0s");
  assert_string_equal(age(text, 59), "59s");
  assert_string_equal(age(text, 60), "1m");
  assert_string_equal(age(text, 7200), "2h");
  assert_string_equal(age(text, 4 * 86400 + 5), "4d");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(columns_are_aligned_and_numbers_to_the_right),
    TEST(an_empty_table_is_its_heading),
    TEST(a_long_name_loses_its_beginning_first),
    TEST(what_is_dispensable_goes_when_names_are_short_enough),
    TEST(no_line_is_wider_than_asked),
    TEST(shortening_counts_columns_not_bytes),
    TEST(sizes_are_for_people),
    TEST(ages_are_for_people),
};

TEST_MAIN(tests)
