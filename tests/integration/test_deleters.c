/*
 * A deleter works once, whenever and wherever it is called: after dlc_close(), in
 * any order, at the exit of the program. test_threads.c has it on other threads.
 */

#include <stdlib.h>

#include "support/fds.h"
#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define SMALL 5000
#define LARGE (300 << 10)

struct deleters {
  struct test_daemon daemon;
  struct dlc_client *watcher;
  struct test_baseline before;
};

static int setup(void **state)
{
  struct deleters *deleters = calloc(1, sizeof(*deleters));

  assert_non_null(deleters);
  *state = deleters;
  test_daemon_init(&deleters->daemon, NULL);
  deleters->watcher = test_connect(&deleters->daemon);
  deleters->before = test_baseline_take(deleters->watcher, &deleters->daemon);
  return 0;
}

static int teardown(void **state)
{
  struct deleters *deleters = *state;

  dlc_close(deleters->watcher);
  test_daemon_deinit(&deleters->daemon);
  free(deleters);
  return 0;
}

/* ---- order ---- */

#define N_KINDS 6

/* One of each kind that has a deleter. */
static void take_all_kinds(struct dlc_client *client,
                           struct DLManagedTensorVersioned *tensors[N_KINDS])
{
  struct dlc_error error;

  (void)test_put(client, "small", SMALL, 1, NULL);
  (void)test_put(client, "large", LARGE, 2, NULL);
  tensors[0] = test_get(client, "small", DLC_ACCESS_READ);
  test_ok(dlc_dup(tensors[0], &tensors[1], &error), &error);
  tensors[2] = test_get(client, "large", DLC_ACCESS_PRIVATE);
  tensors[3] = test_get(client, "small", DLC_ACCESS_PRIVATE);
  tensors[4] = test_alloc(client, SMALL, NULL);
  test_ok(dlc_publish(client, "in-place", tensors[4], NULL, NULL, &error), &error);
  tensors[5] = test_alloc(client, SMALL, NULL);
}

static void drop_in_order(struct deleters *deleters, const unsigned order[N_KINDS],
                          unsigned close_before)
{
  struct dlc_client *client = test_connect(&deleters->daemon);
  struct DLManagedTensorVersioned *tensors[N_KINDS];

  take_all_kinds(client, tensors);
  for (unsigned i = 0; i < N_KINDS; i++) {
    if (i == close_before)
      dlc_close(client);
    test_drop(tensors[order[i]]);
  }
  if (close_before >= N_KINDS)
    dlc_close(client);
}

/* Field case 32. */
static void deleters_work_before_and_after_close_in_any_order(void **state)
{
  static const unsigned orders[][N_KINDS] = {
      {0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {1, 3, 5, 0, 2, 4}, {4, 0, 5, 2, 1, 3}};
  struct deleters *deleters = *state;
  size_t fds = test_count_fds(), maps = test_count_maps_of("dlpackd");

  for (size_t i = 0; i < TEST_ARRAY_SIZE(orders); i++)
    for (unsigned close_before = 0; close_before <= N_KINDS; close_before++)
      drop_in_order(deleters, orders[i], close_before);
  test_baseline_soon(deleters->watcher, &deleters->daemon, &deleters->before);
  assert_int_equal(test_count_fds(), fds);
  assert_int_equal(test_count_maps_of("dlpackd"), maps);
}

static void a_session_goes_with_the_last_tensor_after_close(void **state)
{
  struct deleters *deleters = *state;
  struct dlc_client *client = test_connect(&deleters->daemon);
  struct DLManagedTensorVersioned *tensor;

  (void)test_put(client, "w", SMALL, 1, NULL);
  tensor = test_get(client, "w", DLC_ACCESS_READ);
  dlc_close(client);
  assert_int_equal(test_counter(deleters->watcher, "sessions"), 2);
  test_check(tensor, 1);
  test_drop(tensor);
  test_baseline_soon(deleters->watcher, &deleters->daemon, &deleters->before);
}

/* Field case 32: twice, by mistake. The slot is still there to notice it. */
static void a_second_call_of_the_deleter_of_a_slot_does_nothing(void **state)
{
  struct deleters *deleters = *state;
  struct DLManagedTensorVersioned *tensor, *other;
  struct dlc_slot *slot = calloc(1, sizeof(*slot));
  struct dlc_error error;

  assert_non_null(slot);
  (void)test_put(deleters->watcher, "w", SMALL, 1, NULL);
  other = test_get(deleters->watcher, "w", DLC_ACCESS_READ);
  test_ok(dlc_get_into(deleters->watcher, "w", NULL, slot, &tensor, &error), &error);
  test_check(tensor, 1);
  test_drop(tensor);
  test_drop(tensor);
  test_check(other, 1);
  assert_int_equal(test_counter(deleters->watcher, "leases"), 1);
  test_drop(other);
  free(slot);
}

/* ---- exit ---- */

static struct DLManagedTensorVersioned *kept[N_KINDS];
static struct dlc_client *kept_client;

static void drop_kept(void)
{
  for (size_t i = 0; i < N_KINDS; i++)
    test_drop(kept[i]);
}

static void close_kept(void)
{
  dlc_close(kept_client);
}

/* Exit handlers run in the reverse order. */
static int exit_with_handlers(const struct test_daemon *daemon, void (*last)(void),
                              void (*first)(void))
{
  kept_client = test_connect(daemon);
  take_all_kinds(kept_client, kept);
  if (atexit(last) != 0 || atexit(first) != 0)
    return 1;
  exit(0);
}

static int close_then_drop_at_exit(void *context, struct test_pipe_ends *ends)
{
  return exit_with_handlers(context, drop_kept, close_kept);
}

static int drop_then_close_at_exit(void *context, struct test_pipe_ends *ends)
{
  return exit_with_handlers(context, close_kept, drop_kept);
}

/* Field case 32. */
static void deleters_work_at_exit(void **state)
{
  struct deleters *deleters = *state;
  struct test_child child;

  test_child_start(&child, close_then_drop_at_exit, &deleters->daemon);
  test_child_join(&child);
  test_child_start(&child, drop_then_close_at_exit, &deleters->daemon);
  test_child_join(&child);
  test_baseline_soon(deleters->watcher, &deleters->daemon, &deleters->before);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(deleters_work_before_and_after_close_in_any_order, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_session_goes_with_the_last_tensor_after_close, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_second_call_of_the_deleter_of_a_slot_does_nothing, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(deleters_work_at_exit, setup, teardown),
};

TEST_MAIN(tests)
