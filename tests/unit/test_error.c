#include "support/test.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "client/error.h"

static void a_code_has_its_name_with_either_sign(void **state)
{
  assert_string_equal(dlc_error_name(DLC_E_NOT_FOUND), "DLC_E_NOT_FOUND");
  assert_string_equal(dlc_error_name(-DLC_E_NOT_FOUND), "DLC_E_NOT_FOUND");
  assert_string_equal(dlc_error_name(DLC_OK), "DLC_OK");
  assert_string_equal(dlc_error_text(-DLC_E_TIMEOUT), "the deadline passed");
}

static void a_number_that_is_no_code_is_unknown(void **state)
{
  const int numbers[] = {22, -22, 1000, INT_MAX, INT_MIN};

  for (size_t i = 0; i < TEST_ARRAY_SIZE(numbers); i++) {
    assert_string_equal(dlc_error_name(numbers[i]), "DLC_E_UNKNOWN");
    assert_non_null(dlc_error_text(numbers[i]));
  }
}

static void every_code_has_a_name_and_a_text(void **state)
{
  for (int code = 0; code <= DLC_E_BUSY; code++) {
    assert_non_null(strstr(dlc_error_name(code), code ? "DLC_E_" : "DLC_OK"));
    assert_true(strlen(dlc_error_text(code)) > 0);
  }
}

static void a_long_message_is_cut_and_ended(void **state)
{
  struct dlc_error error;
  char text[1000];

  memset(text, 'x', sizeof(text) - 1);
  text[sizeof(text) - 1] = '\0';
  assert_int_equal(dlc__error_set(&error, DLC_E_INVALID, EINVAL, "%s", text), -DLC_E_INVALID);
  assert_int_equal(error.code, DLC_E_INVALID);
  assert_int_equal(error.os_errno, EINVAL);
  assert_int_equal(strlen(error.message), sizeof(error.message) - 1);
}

static void nobody_has_to_want_the_message(void **state)
{
  assert_int_equal(dlc__error_set(NULL, DLC_E_BUSY, 0, "x"), -DLC_E_BUSY);
  assert_int_equal(dlc__error_system(NULL, -EACCES, "do it"), -DLC_E_SYSTEM);
}

static void out_of_memory_is_told_apart_from_other_errnos(void **state)
{
  struct dlc_error error;

  assert_int_equal(dlc__error_system(&error, -ENOMEM, "map it"), -DLC_E_NO_MEMORY);
  assert_int_equal(dlc__error_system(&error, -EACCES, "map it"), -DLC_E_SYSTEM);
  assert_int_equal(error.os_errno, EACCES);
  assert_string_equal(error.message, "cannot map it: Permission denied");
}

static void the_daemons_sentence_is_handed_on(void **state)
{
  struct msg_reply reply = {.status = DLP_STATUS_QUOTA, .message = "all 7 leases are in use"};
  struct dlc_error error;

  assert_int_equal(dlc__error_from_reply(&error, &reply), -DLC_E_QUOTA);
  assert_string_equal(error.message, "all 7 leases are in use");
  reply.message = NULL;
  assert_int_equal(dlc__error_from_reply(&error, &reply), -DLC_E_QUOTA);
  assert_string_equal(error.message, dlc_error_text(DLC_E_QUOTA));
}

static void a_status_of_a_later_daemon_is_a_protocol_error(void **state)
{
  struct msg_reply reply = {.status = (enum dlp_status)77, .message = "new kind of trouble"};
  struct dlc_error error;

  assert_int_equal(dlc__error_from_reply(&error, &reply), -DLC_E_PROTOCOL);
  assert_non_null(strstr(error.message, "new kind of trouble"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_code_has_its_name_with_either_sign),
    cmocka_unit_test(a_number_that_is_no_code_is_unknown),
    cmocka_unit_test(every_code_has_a_name_and_a_text),
    cmocka_unit_test(a_long_message_is_cut_and_ended),
    cmocka_unit_test(nobody_has_to_want_the_message),
    cmocka_unit_test(out_of_memory_is_told_apart_from_other_errnos),
    cmocka_unit_test(the_daemons_sentence_is_handed_on),
    cmocka_unit_test(a_status_of_a_later_daemon_is_a_protocol_error),
};

TEST_MAIN(tests)
