#include "support/test.h"

#include <errno.h>
#include <stdlib.h>

#include "core/release.h"
#include "support/alloc_failure.h"

static int setup(void **state)
{
  struct releases *releases = malloc(sizeof(*releases));

  if (!releases)
    return -1;
  releases_init(releases);
  *state = releases;
  return 0;
}

static int teardown(void **state)
{
  struct releases *releases = *state;

  (void)alloc_failure_stop();
  while (releases->is_out || releases_take(releases))
    releases_done(releases);
  releases_deinit(releases);
  free(releases);
  return 0;
}

static void push(struct releases *releases, uint64_t row)
{
  releases_push(releases, &(struct effect){.kind = EFFECT_ROW_FREE, .row = row});
}

static void what_was_pushed_comes_out_in_order(void **state)
{
  struct releases *releases = *state;
  const struct plan *plan;

  assert_null(releases_take(releases));
  assert_int_equal(releases_reserve(releases, 3), 0);
  for (uint64_t row = 1; row <= 3; row++)
    push(releases, row);
  plan = releases_take(releases);
  assert_int_equal(plan->n_effects, 3);
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(plan->effects[i].row, i + 1);
  releases_done(releases);
  assert_null(releases_take(releases));
}

static void one_plan_is_out_at_a_time(void **state)
{
  struct releases *releases = *state;

  assert_int_equal(releases_reserve(releases, 2), 0);
  push(releases, 1);
  assert_non_null(releases_take(releases));
  push(releases, 2);
  assert_null(releases_take(releases));
  releases_done(releases);
  assert_int_equal(releases_take(releases)->effects[0].row, 2);
}

static void plan_that_is_out_stays_whole_while_more_is_reserved(void **state)
{
  struct releases *releases = *state;
  const struct plan *plan;

  assert_int_equal(releases_reserve(releases, 60), 0);
  for (uint64_t row = 1; row <= 60; row++)
    push(releases, row);
  plan = releases_take(releases);
  assert_int_equal(releases_reserve(releases, 5000), 0);
  for (size_t i = 0; i < 60; i++)
    assert_int_equal(plan->effects[i].row, i + 1);
  releases_done(releases);
  releases_unreserve(releases, 5000);
}

/* Whatever is reserved can be said, with no memory left at all. */
static void saying_so_needs_no_memory(void **state)
{
  struct releases *releases = *state;

  assert_int_equal(releases_reserve(releases, 300), 0);
  alloc_failure_start(0, ALLOC_FAILURE_FOR_EVER);
  for (uint64_t row = 1; row <= 300; row++) {
    push(releases, row);
    if (row % 7 == 0 && !releases->is_out)
      (void)releases_take(releases);
    if (row % 50 == 0)
      releases_done(releases);
  }
  assert_false(alloc_failure_stop());
}

static void reservation_that_fails_reserves_nothing(void **state)
{
  struct releases *releases = *state;

  alloc_failure_start(0, ALLOC_FAILURE_ONCE);
  assert_int_equal(releases_reserve(releases, 1000), -ENOMEM);
  assert_true(alloc_failure_stop());
  assert_int_equal(releases->n_reserved, 0);
  assert_int_equal(releases_reserve(releases, 1), 0);
  push(releases, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(what_was_pushed_comes_out_in_order),
    CASE(one_plan_is_out_at_a_time),
    CASE(plan_that_is_out_stays_whole_while_more_is_reserved),
    CASE(saying_so_needs_no_memory),
    CASE(reservation_that_fails_reserves_nothing),
};

TEST_MAIN(tests)
