#include "support/test.h"

#include <string.h>

#include "client/options.h"

/* As a later version of the headers might have it. */
struct longer_options {
  struct dlc_get_options known;
  uint64_t later;
};

static void no_options_are_all_zero(void **state)
{
  struct dlc_get_options read;

  memset(&read, 0xff, sizeof(read));
  assert_int_equal(dlc__options_read(&read, sizeof(read), NULL, NULL), 0);
  assert_int_equal(read.access, 0);
  assert_int_equal(read.timeout_ms, 0);
}

static void fields_that_an_older_caller_does_not_have_are_zero(void **state)
{
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct dlc_get_options read;

  options.struct_size = offsetof(struct dlc_get_options, version);
  options.access = DLC_ACCESS_PRIVATE;
  options.version = 7;
  assert_int_equal(dlc__options_read(&read, sizeof(read), &options, NULL), 0);
  assert_int_equal(read.access, DLC_ACCESS_PRIVATE);
  assert_int_equal(read.version, 0);
}

static void a_later_field_is_refused_only_if_it_is_set(void **state)
{
  struct longer_options options = {.known = DLC_GET_OPTIONS_INIT};
  struct dlc_get_options read;
  struct dlc_error error;

  options.known.struct_size = sizeof(options);
  options.known.version = 7;
  assert_int_equal(dlc__options_read(&read, sizeof(read), &options, &error), 0);
  assert_int_equal(read.version, 7);
  options.later = 1;
  assert_int_equal(dlc__options_read(&read, sizeof(read), &options, &error), -DLC_E_INVALID);
  assert_non_null(strstr(error.message, "does not know"));
}

static void a_struct_that_was_not_initialised_is_refused(void **state)
{
  struct dlc_get_options options = {.struct_size = 0};
  struct dlc_get_options read;
  struct dlc_error error;

  assert_int_equal(dlc__options_read(&read, sizeof(read), &options, &error), -DLC_E_INVALID);
  assert_non_null(strstr(error.message, "OPTIONS_INIT"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_options_are_all_zero),
    cmocka_unit_test(fields_that_an_older_caller_does_not_have_are_zero),
    cmocka_unit_test(a_later_field_is_refused_only_if_it_is_set),
    cmocka_unit_test(a_struct_that_was_not_initialised_is_refused),
};

TEST_MAIN(tests)
