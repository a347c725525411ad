#include "support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/lease.h"
#include "support/alloc_failure.h"

enum { N_TENSORS = 40, LEASES_MAX = 300, HEAP_MAX = 1 << 20 };

struct fixture {
  struct quota *quota;
  struct lease_table tables[2];
  struct dlp_holds_page *holds[2];
  struct tensor tensors[N_TENSORS];
  struct block block;
};

static int setup(void **state)
{
  struct quota_sum limits = {.of = {[QUOTA_LEASES] = LEASES_MAX, [QUOTA_HEAP] = HEAP_MAX}};
  struct fixture *f = calloc(1, sizeof(*f));

  if (!f || quota_new(&f->quota, &limits, 1) != 0)
    return -1;
  for (uint32_t i = 0; i < 2; i++) {
    lease_table_init(&f->tables[i], f->quota, 0, 1000 + i);
    f->holds[i] = calloc(1, sizeof(*f->holds[i]));
    f->tables[i].pages.holds = f->holds[i];
    f->tables[i].pages.grants = calloc(1, sizeof(*f->tables[i].pages.grants));
  }
  for (size_t i = 0; i < N_TENSORS; i++) {
    dlp_list_init(&f->tensors[i].leases);
    f->tensors[i].version = 100 + i;
    f->tensors[i].state = TENSOR_LIVE;
    f->tensors[i].block = &f->block;
  }
  *state = f;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *f = *state;

  (void)alloc_failure_stop();
  for (size_t i = 0; i < 2; i++) {
    while (lease_end_one(&f->tables[i]))
      ;
    lease_table_deinit(&f->tables[i]);
    free(f->tables[i].pages.grants);
    free(f->holds[i]);
  }
  for (size_t i = 0; i < N_TENSORS; i++)
    assert_int_equal(f->tensors[i].n_leases, 0);
  quota_free(f->quota);
  free(f);
  return 0;
}

static uint32_t grant(struct fixture *f, size_t table, size_t tensor)
{
  struct quota_refusal refusal;
  uint32_t cell;

  assert_int_equal(lease_grant(&f->tables[table], &f->tensors[tensor], &cell, &refusal), 0);
  return cell;
}

static uint64_t granted(const struct fixture *f, uint32_t cell)
{
  return f->tables[0].pages.grants->cells[cell];
}

static void hold(struct fixture *f, uint32_t cell, uint64_t word)
{
  f->holds[0]->cells[cell] = word;
}

static void retire(struct fixture *f, size_t tensor)
{
  f->tensors[tensor].state = TENSOR_RETIRED;
  lease_retire(&f->tensors[tensor]);
}

static void every_grant_has_a_cell_of_its_own(void **state)
{
  struct fixture *f = *state;
  uint32_t cell = grant(f, 0, 0);

  assert_int_not_equal(grant(f, 0, 0), cell);
  assert_int_not_equal(grant(f, 0, 1), cell);
  assert_int_equal(f->tensors[0].n_leases, 2);
  assert_int_equal(granted(f, cell), 100 | DLP_GRANT_LIVE);
  assert_true(cell < f->tables[0].pages.grants->header.n_cells);
}

static void a_grant_is_held_before_the_client_says_so(void **state)
{
  struct fixture *f = *state;
  uint32_t cell = grant(f, 0, 0);

  retire(f, 0);
  assert_int_equal(f->tensors[0].n_leases, 1);
  assert_int_equal(granted(f, cell), 100 | DLP_GRANT_RETIRED);
  assert_null(lease_look(&f->tables[0], cell));
}

static void only_free_or_returned_of_the_same_version_ends_a_retired_grant(void **state)
{
  static const struct {
    uint64_t word;
    bool ends;
  } cases[] = {
      {0, false},
      {100, false},
      {100 | DLP_HOLD_HELD, false},
      {101 | DLP_HOLD_FREE, false},
      {101 | DLP_HOLD_RETURNED, false},
      {100 | DLP_HOLD_FREE | DLP_HOLD_HELD, false},
      {100 | DLP_HOLD_FREE | DLP_HOLD_RETURNED, false},
      {UINT64_MAX, false},
      {100 | DLP_HOLD_FREE, true},
      {100 | DLP_HOLD_RETURNED, true},
      {100 | DLP_HOLD_FREE | DLP_HOLD_ESCAPED, true},
  };
  struct fixture *f = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    uint32_t cell;

    f->tensors[0].state = TENSOR_LIVE;
    cell = grant(f, 0, 0);
    hold(f, cell, cases[i].word);
    retire(f, 0);
    assert_int_equal(f->tensors[0].n_leases, cases[i].ends ? 0 : 1);
    assert_int_equal(granted(f, cell), cases[i].ends ? 0 : (100 | DLP_GRANT_RETIRED));
    while (lease_end_one(&f->tables[0]))
      ;
  }
}

static void while_a_version_is_live_its_free_grants_stay(void **state)
{
  struct fixture *f = *state;
  uint32_t cell = grant(f, 0, 0);

  hold(f, cell, 100 | DLP_HOLD_FREE);
  assert_null(lease_look(&f->tables[0], cell));
  assert_int_equal(granted(f, cell), 100 | DLP_GRANT_LIVE);
  assert_int_equal(lease_table_count_held(&f->tables[0]), 0);
  assert_int_equal(lease_count_holders(&f->tensors[0]), 0);
  hold(f, cell, 100 | DLP_HOLD_RETURNED);
  assert_ptr_equal(lease_look(&f->tables[0], cell), &f->tensors[0]);
  assert_int_equal(granted(f, cell), 0);
}

static void a_cell_serves_again_when_it_was_given_back(void **state)
{
  struct fixture *f = *state;
  uint32_t cell = grant(f, 0, 0);

  hold(f, cell, 100 | DLP_HOLD_FREE);
  retire(f, 0);
  assert_int_not_equal(grant(f, 0, 1), cell); /* free is not returned */
  hold(f, cell, 100 | DLP_HOLD_RETURNED);
  assert_int_equal(grant(f, 0, 2), cell);
}

static void a_cell_never_serves_the_same_version_twice(void **state)
{
  struct fixture *f = *state;
  uint32_t cell = grant(f, 0, 0);

  hold(f, cell, 100 | DLP_HOLD_RETURNED);
  assert_non_null(lease_look(&f->tables[0], cell));
  assert_int_not_equal(grant(f, 0, 0), cell);
  assert_int_equal(grant(f, 0, 1), cell);
}

static void what_is_granted_together_shares_no_cache_line(void **state)
{
  struct fixture *f = *state;
  bool lines[32] = {false};

  for (size_t i = 0; i < 30; i++) {
    uint32_t line = grant(f, 0, i) / 16;
    assert_false(lines[line]);
    lines[line] = true;
  }
}

static void cells_are_dealt_out_each_once(void **state)
{
  static bool seen[DLP_LEASE_CELLS];
  struct fixture *f = *state;

  memset(seen, 0, sizeof(seen));
  for (size_t i = 0; i < 5000; i++) {
    uint32_t cell = grant(f, 0, i % N_TENSORS);
    assert_in_range(cell, 0, f->tables[0].pages.grants->header.n_cells - 1);
    assert_false(seen[cell]);
    seen[cell] = true;
    lease_revoke(&f->tables[0], cell);
    hold(f, cell, 1); /* and it is not used again */
  }
}

static void retirement_is_told_in_the_page_of_every_session(void **state)
{
  struct fixture *f = *state;

  grant(f, 0, 0);
  grant(f, 1, 0);
  retire(f, 0);
  assert_int_equal(f->tables[0].pages.grants->header.retired, 1);
  assert_int_equal(f->tables[1].pages.grants->header.retired, 1);
}

static void what_escaped_is_remembered_with_the_memory(void **state)
{
  struct fixture *f = *state;
  uint32_t cell = grant(f, 0, 0);

  hold(f, cell, 100 | DLP_HOLD_HELD | DLP_HOLD_ESCAPED);
  retire(f, 0);
  assert_false(f->block.escaped);
  assert_ptr_equal(lease_end_one(&f->tables[0]), &f->tensors[0]); /* its process died */
  assert_true(f->block.escaped);
}

static void leases_are_paid_for(void **state)
{
  struct fixture *f = *state;
  struct quota_refusal refusal;
  uint32_t cell;

  for (size_t i = 0; i < LEASES_MAX; i++)
    grant(f, 0, i % 30);
  assert_int_equal(lease_grant(&f->tables[0], &f->tensors[30], &cell, &refusal), LEASE_E_QUOTA);
  assert_int_equal(refusal.slot, QUOTA_LEASES);
  assert_int_equal(refusal.limit, LEASES_MAX);
  assert_int_equal(f->tensors[30].n_leases, 0);
  grant(f, 1, 30);
}

static void cells_that_a_client_does_not_let_go_of_are_paid_for(void **state)
{
  struct fixture *f = *state;
  struct quota_refusal refusal;
  uint32_t cell;
  int r = 0;

  for (size_t i = 0; r == 0 && i < DLP_LEASE_CELLS; i++) {
    struct tensor *tensor = &f->tensors[i % N_TENSORS];

    r = lease_grant(&f->tables[0], tensor, &cell, &refusal);
    if (r != 0)
      break;
    hold(f, cell, tensor->version | DLP_HOLD_RETURNED);
    assert_non_null(lease_look(&f->tables[0], cell));
    hold(f, cell, UINT64_MAX);
  }
  assert_int_equal(r, LEASE_E_QUOTA);
  assert_int_equal(refusal.slot, QUOTA_HEAP);
  lease_table_deinit(&f->tables[0]);
  assert_int_equal(quota_used(f->quota, 0, 1000).of[QUOTA_HEAP], 0);
}

static void of_very_many_holders_not_all_are_looked_at(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < 2; i++)
    hold(f, grant(f, 0, 0), f->tensors[0].version | DLP_HOLD_FREE);
  assert_int_equal(lease_count_holders(&f->tensors[0]), 0);
  for (size_t i = 2; i < LEASES_MAX; i++)
    hold(f, grant(f, 0, 0), f->tensors[0].version | DLP_HOLD_FREE);
  assert_int_equal(lease_count_holders(&f->tensors[0]), LEASES_MAX - 256);
}

static void a_grant_that_is_taken_back_leaves_nothing(void **state)
{
  struct fixture *f = *state;
  uint32_t cell = grant(f, 0, 0);

  lease_revoke(&f->tables[0], cell);
  assert_int_equal(granted(f, cell), 0);
  assert_int_equal(f->tensors[0].n_leases, 0);
  assert_int_equal(quota_used(f->quota, 0, 1000).of[QUOTA_LEASES], 0);
}

static void cells_are_used_again(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < 1000; i++) {
    uint32_t cell = grant(f, 0, i % N_TENSORS);
    hold(f, cell, f->tensors[i % N_TENSORS].version | DLP_HOLD_RETURNED);
    assert_non_null(lease_look(&f->tables[0], cell));
  }
  assert_in_range(f->tables[0].n_cells, 1, 2);
}

static void scribbled_cells_are_passed_over(void **state)
{
  struct fixture *f = *state;

  for (uint32_t i = 0; i < 5; i++)
    hold(f, 16 * i, UINT64_MAX - i);
  assert_int_equal(grant(f, 0, 0), 80);
}

static void end_of_a_session_ends_each_lease_once(void **state)
{
  struct fixture *f = *state;
  size_t n = 0;

  for (size_t i = 0; i < 10; i++)
    grant(f, 0, i);
  while (lease_end_one(&f->tables[0]))
    n++;
  assert_int_equal(n, 10);
}

static void segment_is_held_by_who_holds_a_tensor_in_it(void **state)
{
  struct fixture *f = *state;
  struct segment segments[2] = {{.id = 1}, {.id = 2}};

  f->block.segment = &segments[0];
  grant(f, 0, 0);
  assert_true(lease_holds_segment(&f->tables[0], &segments[0]));
  assert_false(lease_holds_segment(&f->tables[0], &segments[1]));
  assert_false(lease_holds_segment(&f->tables[1], &segments[0]));
}

static void grant_without_memory_leaves_nothing(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < 25; i++) {
    bool failed = true;

    for (size_t n = 0; failed; n++) {
      struct quota_refusal refusal;
      uint32_t cell, before = f->tables[0].n_granted;
      int r;

      alloc_failure_start(n, ALLOC_FAILURE_ONCE);
      r = lease_grant(&f->tables[0], &f->tensors[i], &cell, &refusal);
      failed = alloc_failure_stop() && r != 0;
      assert_int_equal(r, failed ? -ENOMEM : 0);
      assert_int_equal(f->tables[0].n_granted, before + !failed);
    }
  }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(every_grant_has_a_cell_of_its_own),
    CASE(a_grant_is_held_before_the_client_says_so),
    CASE(only_free_or_returned_of_the_same_version_ends_a_retired_grant),
    CASE(while_a_version_is_live_its_free_grants_stay),
    CASE(a_cell_serves_again_when_it_was_given_back),
    CASE(a_cell_never_serves_the_same_version_twice),
    CASE(what_is_granted_together_shares_no_cache_line),
    CASE(cells_are_dealt_out_each_once),
    CASE(retirement_is_told_in_the_page_of_every_session),
    CASE(what_escaped_is_remembered_with_the_memory),
    CASE(leases_are_paid_for),
    CASE(cells_that_a_client_does_not_let_go_of_are_paid_for),
    CASE(of_very_many_holders_not_all_are_looked_at),
    CASE(a_grant_that_is_taken_back_leaves_nothing),
    CASE(cells_are_used_again),
    CASE(scribbled_cells_are_passed_over),
    CASE(end_of_a_session_ends_each_lease_once),
    CASE(segment_is_held_by_who_holds_a_tensor_in_it),
    CASE(grant_without_memory_leaves_nothing),
};

TEST_MAIN(tests)
