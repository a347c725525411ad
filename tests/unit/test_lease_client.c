#include "support/test.h"

#include <stdlib.h>

#include "client/lease.h"
#include "support/lease_pages.h"

enum { V = 1000, CELL = 7 };

struct fixture {
  struct lease_pages_of all;
  struct dlc__lease lease; /* of V, granted in CELL and answered */
};

static int setup(void **state)
{
  struct fixture *f = calloc(1, sizeof(*f));

  if (!f || lease_pages_init(&f->all) < 0)
    return -1;
  lease_pages_grant(&f->all, CELL, V);
  if (!dlc__pages_take_answer(f->all.pages, CELL, V))
    return -1;
  f->lease = dlc__lease_of(f->all.pages, CELL, V);
  *state = f;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *f = *state;

  dlc__pages_unref(f->lease.pages);
  dlc__pages_unref(f->all.pages);
  free(f);
  return 0;
}

static void expect_hold(const struct fixture *f, uint64_t word)
{
  assert_int_equal(lease_pages_hold(&f->all, CELL), word);
}

static void expect_bell(const struct fixture *f, bool rung)
{
  uint32_t cell;

  assert_int_equal(dlc__bells_peek(&f->all.pages->cells->bells, &cell, 1), rung);
  if (rung)
    assert_int_equal(cell, CELL);
}

/* ---- one lease ---- */

static void a_grant_is_held_from_its_first_use(void **state)
{
  struct fixture *f = *state;

  expect_hold(f, 0);
  dlc__lease_begin(&f->lease);
  expect_hold(f, V | DLP_HOLD_HELD);
  assert_true(dlc__lease_is_live(&f->lease));
  assert_int_equal(f->lease.version, V);
}

static void a_live_lease_is_dropped_and_taken_again(void **state)
{
  struct fixture *f = *state;

  dlc__lease_begin(&f->lease);
  assert_true(dlc__lease_drop(&f->lease));
  expect_hold(f, V | DLP_HOLD_FREE);
  assert_true(dlc__lease_take(&f->lease));
  expect_hold(f, V | DLP_HOLD_HELD);
}

static void a_retired_lease_is_not_kept_when_dropped(void **state)
{
  struct fixture *f = *state;

  dlc__lease_begin(&f->lease);
  lease_pages_retire(&f->all, CELL);
  assert_false(dlc__lease_is_live(&f->lease));
  assert_false(dlc__lease_drop(&f->lease));
  expect_hold(f, V | DLP_HOLD_FREE);
}

static void a_lease_that_was_retired_or_ended_while_free_is_not_taken(void **state)
{
  struct fixture *f = *state;
  const uint64_t words[] = {0, V | DLP_GRANT_RETIRED, (V + 1) | DLP_GRANT_LIVE, V,
                            V | DLP_GRANT_LIVE | DLP_GRANT_RETIRED};

  dlc__lease_begin(&f->lease);
  (void)dlc__lease_drop(&f->lease);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(words); i++) {
    atomic_store(&f->all.grants->cells[CELL], words[i]);
    assert_false(dlc__lease_take(&f->lease));
    expect_hold(f, V | DLP_HOLD_FREE);
  }
}

static void what_is_given_back_is_forgotten_and_the_daemon_told(void **state)
{
  struct fixture *f = *state;

  dlc__lease_begin(&f->lease);
  dlc__lease_return(&f->lease);
  expect_hold(f, V | DLP_HOLD_RETURNED);
  expect_bell(f, true);
  /* The cell may be granted again, for another version. */
  assert_true(dlc__pages_take_answer(f->all.pages, CELL, V + 1));
}

static void escaped_is_said_with_every_later_word(void **state)
{
  struct fixture *f = *state;

  dlc__lease_begin(&f->lease);
  dlc__lease_escape(&f->lease);
  expect_hold(f, V | DLP_HOLD_HELD | DLP_HOLD_ESCAPED);
  assert_int_equal(f->lease.version, V);
  assert_true(dlc__lease_drop(&f->lease));
  expect_hold(f, V | DLP_HOLD_FREE | DLP_HOLD_ESCAPED);
  assert_true(dlc__lease_take(&f->lease));
  expect_hold(f, V | DLP_HOLD_HELD | DLP_HOLD_ESCAPED);
  dlc__lease_return(&f->lease);
  expect_hold(f, V | DLP_HOLD_RETURNED | DLP_HOLD_ESCAPED);
}

static void nothing_of_an_earlier_session_is_current(void **state)
{
  struct fixture *f = *state;

  assert_true(dlc__lease_is_current(&f->lease));
  atomic_store(&f->all.pages->is_over, true);
  assert_false(dlc__lease_is_current(&f->lease));
}

/* ---- answers ---- */

static void an_answer_that_no_daemon_may_give_is_refused(void **state)
{
  struct fixture *f = *state;
  struct dlc__pages *pages = f->all.pages;

  assert_false(dlc__pages_take_answer(pages, CELL, V));
  assert_false(dlc__pages_take_answer(pages, CELL, V + 1));
  assert_false(dlc__pages_take_answer(pages, DLP_LEASE_CELLS, V));
  assert_false(dlc__pages_take_answer(pages, UINT32_MAX, V));
  assert_false(dlc__pages_take_answer(pages, 1, 0));
  assert_false(dlc__pages_take_answer(pages, 1, DLP_VERSION_MAX + 1));
  assert_true(dlc__pages_take_answer(pages, DLP_LEASE_CELLS - 1, DLP_VERSION_MAX));
}

/* What a walk makes of a cell. */
static const struct {
  const char *what;
  uint64_t grant, hold, taken;
  uint64_t hold_after;
  bool rung;
} walks[] = {
    {"never granted", 0, 0, 0, 0, false},
    {"answer lost", V | DLP_GRANT_LIVE, 0, 0, V | DLP_HOLD_RETURNED, true},
    {"answer lost, retired since", V | DLP_GRANT_RETIRED, 0, 0, V | DLP_HOLD_RETURNED, true},
    {"answer lost, in a used cell", V | DLP_GRANT_LIVE, 9 | DLP_HOLD_RETURNED, 0,
     V | DLP_HOLD_RETURNED, true},
    {"the cell escaped with another", V | DLP_GRANT_LIVE, 9 | DLP_HOLD_RETURNED | DLP_HOLD_ESCAPED,
     0, V | DLP_HOLD_RETURNED, true},
    {"held", V | DLP_GRANT_LIVE, V | DLP_HOLD_HELD, V, V | DLP_HOLD_HELD, false},
    {"answered, and not used yet", V | DLP_GRANT_LIVE, 0, V, 0, false},
    {"held and retired", V | DLP_GRANT_RETIRED, V | DLP_HOLD_HELD, V, V | DLP_HOLD_HELD, false},
    {"idle", V | DLP_GRANT_LIVE, V | DLP_HOLD_FREE, V, V | DLP_HOLD_FREE, false},
    {"the bell of a drop was lost", V | DLP_GRANT_RETIRED, V | DLP_HOLD_FREE, V, V | DLP_HOLD_FREE,
     true},
    {"the bell of a return was lost", V | DLP_GRANT_LIVE, V | DLP_HOLD_RETURNED, 0,
     V | DLP_HOLD_RETURNED, true},
    {"the same, and escaped", V | DLP_GRANT_LIVE, V | DLP_HOLD_RETURNED | DLP_HOLD_ESCAPED, 0,
     V | DLP_HOLD_RETURNED | DLP_HOLD_ESCAPED, true},
    {"over", 0, V | DLP_HOLD_RETURNED, 0, V | DLP_HOLD_RETURNED, false},
};

static void a_walk_gives_back_what_nobody_was_told_of_and_nothing_else(void **state)
{
  struct fixture *f = *state;
  const uint32_t cell = CELL;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(walks); i++) {
    atomic_store(&f->all.grants->cells[CELL], walks[i].grant);
    atomic_store(&f->all.pages->holds->cells[CELL], walks[i].hold);
    atomic_store(&f->all.pages->cells->taken[CELL], walks[i].taken);
    dlc__bells_told(&f->all.pages->cells->bells, &cell, 1);
    dlc__pages_walk(f->all.pages);
    if (lease_pages_hold(&f->all, CELL) != walks[i].hold_after)
      fail_msg("%s", walks[i].what);
    expect_bell(f, walks[i].rung);
  }
}

static void a_walk_goes_no_further_than_there_are_cells(void **state)
{
  struct fixture *f = *state;

  atomic_store(&f->all.grants->header.n_cells, UINT32_MAX);
  assert_int_equal(dlc__pages_n_cells(f->all.pages), DLP_LEASE_CELLS);
  atomic_store(&f->all.grants->cells[DLP_LEASE_CELLS - 1], V | DLP_GRANT_LIVE);
  dlc__pages_walk(f->all.pages);
  assert_int_equal(lease_pages_hold(&f->all, DLP_LEASE_CELLS - 1), V | DLP_HOLD_RETURNED);
}

static void a_retirement_is_noticed_once(void **state)
{
  struct fixture *f = *state;

  (void)dlc__pages_have_retired(f->all.pages);
  assert_false(dlc__pages_have_retired(f->all.pages));
  lease_pages_retire(&f->all, CELL);
  assert_true(dlc__pages_have_retired(f->all.pages));
  assert_false(dlc__pages_have_retired(f->all.pages));
}

/* ---- bells ---- */

static void bells_are_told_once_each_in_order(void **state)
{
  static const uint32_t rung[] = {5, DLP_LEASE_CELLS - 1, 64, 0, 5, 4096, 63};
  static const uint32_t wanted[] = {0, 5, 63, 64, 4096, DLP_LEASE_CELLS - 1};
  struct dlc__bells *bells = calloc(1, sizeof(*bells));
  uint32_t cells[8];

  assert_non_null(bells);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(rung); i++)
    dlc__bells_ring(bells, rung[i]);
  assert_int_equal(dlc__bells_peek(bells, cells, 8), TEST_ARRAY_SIZE(wanted));
  assert_memory_equal(cells, wanted, sizeof(wanted));
  assert_int_equal(dlc__bells_peek(bells, cells, 2), 2);
  dlc__bells_told(bells, cells, 2);
  assert_int_equal(dlc__bells_peek(bells, cells, 8), TEST_ARRAY_SIZE(wanted) - 2);
  assert_memory_equal(cells, wanted + 2, sizeof(wanted) - 2 * sizeof(*wanted));
  dlc__bells_told(bells, cells, TEST_ARRAY_SIZE(wanted) - 2);
  assert_int_equal(dlc__bells_peek(bells, cells, 8), 0);
  free(bells);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(a_grant_is_held_from_its_first_use),
    CASE(a_live_lease_is_dropped_and_taken_again),
    CASE(a_retired_lease_is_not_kept_when_dropped),
    CASE(a_lease_that_was_retired_or_ended_while_free_is_not_taken),
    CASE(what_is_given_back_is_forgotten_and_the_daemon_told),
    CASE(escaped_is_said_with_every_later_word),
    CASE(nothing_of_an_earlier_session_is_current),
    CASE(an_answer_that_no_daemon_may_give_is_refused),
    CASE(a_walk_gives_back_what_nobody_was_told_of_and_nothing_else),
    CASE(a_walk_goes_no_further_than_there_are_cells),
    CASE(a_retirement_is_noticed_once),
    cmocka_unit_test(bells_are_told_once_each_in_order),
};

TEST_MAIN(tests)
