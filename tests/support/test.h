#ifndef DLPACKD_TESTS_SUPPORT_TEST_H
#define DLPACKD_TESTS_SUPPORT_TEST_H

/*
 * What every test program includes first.
 *
 * A failed assertion of cmocka leaves the test by longjmp: cleanup attributes
 * of the test's own locals do not run. What must be given back lives in *state,
 * with a teardown.
 */

#ifdef NDEBUG
#error "the tests rely on assert(): build them without NDEBUG"
#endif

/* cmocka.h wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEST_ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* The whole of main(). The program's argument, if there is one, is a pattern
 * of the tests to run: `test_quota 'refused*'`. */
#define TEST_MAIN(tests)                              \
  int main(int argc, char **argv)                     \
  {                                                   \
    if (argc > 1)                                     \
      cmocka_set_test_filter(argv[1]);                \
    return cmocka_run_group_tests(tests, NULL, NULL); \
  }

#endif
