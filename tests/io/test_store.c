#include "support/test.h"

#include <errno.h>
#include <stdlib.h>

#include "io/store.h"

#define LIMIT 4

static int setup(void **state)
{
  return store_new((struct store **)state, LIMIT);
}

static int teardown(void **state)
{
  store_check(*state);
  (void)store_free(*state);
  return 0;
}

static int prepare(struct store *store, uint64_t row, uint64_t version)
{
  return store_run(store,
                   &(struct effect){.kind = EFFECT_ROW_PREPARE, .row = row, .version = version});
}

static int commit(struct store *store, uint64_t version)
{
  return store_run(store, &(struct effect){.kind = EFFECT_COMMIT_LIVE, .version = version});
}

static int set_free(struct store *store, uint64_t row)
{
  return store_run(store, &(struct effect){.kind = EFFECT_ROW_FREE, .row = row});
}

static void assert_counts(struct store *store, size_t n_prepared, size_t n_live)
{
  store_check(store);
  assert_int_equal(store_count_prepared(store), n_prepared);
  assert_int_equal(store_count_live(store), n_live);
}

static void a_row_counts_only_through_its_commit(void **state)
{
  assert_int_equal(prepare(*state, 1, 100), 0);
  assert_int_equal(prepare(*state, 2, 100), 0);
  assert_counts(*state, 2, 0);
  assert_int_equal(commit(*state, 100), 0);
  assert_counts(*state, 0, 2);
}

static void a_commit_leaves_other_commits_alone(void **state)
{
  assert_int_equal(prepare(*state, 1, 100), 0);
  assert_int_equal(prepare(*state, 2, 101), 0);
  assert_int_equal(commit(*state, 101), 0);
  assert_counts(*state, 1, 1);
}

static void a_commit_without_rows_is_refused(void **state)
{
  assert_int_equal(commit(*state, 100), -ENOENT);
  assert_int_equal(prepare(*state, 1, 100), 0);
  assert_int_equal(commit(*state, 100), 0);
  assert_int_equal(commit(*state, 100), -ENOENT);
  assert_counts(*state, 0, 1);
}

static void a_row_that_is_taken_is_refused(void **state)
{
  assert_int_equal(prepare(*state, 1, 100), 0);
  assert_int_equal(prepare(*state, 1, 101), -EEXIST);
  assert_counts(*state, 1, 0);
}

static void a_full_store_takes_no_row_until_one_is_free(void **state)
{
  for (uint64_t row = 1; row <= LIMIT; row++)
    assert_int_equal(prepare(*state, row, 100), 0);
  assert_int_equal(prepare(*state, LIMIT + 1, 100), -ENOSPC);
  assert_int_equal(set_free(*state, 2), 0);
  assert_int_equal(prepare(*state, LIMIT + 1, 100), 0);
  assert_counts(*state, LIMIT, 0);
}

static void freeing_is_harmless_twice_and_in_either_state(void **state)
{
  assert_int_equal(prepare(*state, 1, 100), 0);
  assert_int_equal(commit(*state, 100), 0);
  assert_int_equal(prepare(*state, 2, 101), 0);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(set_free(*state, 1), 0);
    assert_int_equal(set_free(*state, 2), 0);
  }
  assert_counts(*state, 0, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(a_row_counts_only_through_its_commit),
    TEST(a_commit_leaves_other_commits_alone),
    TEST(a_commit_without_rows_is_refused),
    TEST(a_row_that_is_taken_is_refused),
    TEST(a_full_store_takes_no_row_until_one_is_free),
    TEST(freeing_is_harmless_twice_and_in_either_state),
};

TEST_MAIN(tests)
