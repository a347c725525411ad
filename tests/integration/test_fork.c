/*
 * A forked child reads what its parent held, for as long as it likes; it may run
 * deleters and close the client, and none of it reaches the parent or the daemon.
 */

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/fds.h"
#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define SMALL 5000
#define LARGE (300 << 10)

struct family {
  struct test_daemon daemon;
  struct dlc_client *client;
  struct DLManagedTensorVersioned *read, *copy, *private_pages, *in_place, *unpublished;
  struct dlc_generation *generation;
  struct dlc_watch *watch;
  struct test_child child;
};

static int setup(void **state)
{
  struct family *family = calloc(1, sizeof(*family));
  struct dlc_error error;

  assert_non_null(family);
  *state = family;
  test_daemon_init(&family->daemon, NULL);
  family->client = test_connect(&family->daemon);
  (void)test_put(family->client, "small", SMALL, 1, NULL);
  (void)test_put(family->client, "large", LARGE, 2, NULL);
  family->read = test_get(family->client, "small", DLC_ACCESS_READ);
  family->copy = test_get(family->client, "small", DLC_ACCESS_PRIVATE);
  family->private_pages = test_get(family->client, "large", DLC_ACCESS_PRIVATE);
  family->in_place = test_alloc(family->client, SMALL, NULL);
  test_fill(family->in_place->dl_tensor.data, SMALL, 3);
  test_ok(dlc_publish(family->client, "in-place", family->in_place, NULL, NULL, &error), &error);
  family->unpublished = test_alloc(family->client, SMALL, NULL);
  test_ok(dlc_watch_open(family->client, NULL, DLC_WATCH_FROM_NOW, &family->watch, &error), &error);
  test_ok(dlc_begin(family->client, NULL, &family->generation, &error), &error);
  test_ok(dlc_add(family->generation, "staged", family->unpublished, NULL, &error), &error);
  return 0;
}

static void check_all(const struct family *family)
{
  test_check(family->read, 1);
  test_check(family->copy, 1);
  test_check(family->private_pages, 2);
  test_check(family->in_place, 3);
}

/* As far as they are there. */
static void drop_all(struct family *family)
{
  struct DLManagedTensorVersioned **const tensors[] = {&family->read, &family->copy,
                                                       &family->private_pages, &family->in_place,
                                                       &family->unpublished};

  dlc_generation_free(family->generation);
  family->generation = NULL;
  dlc_watch_close(family->watch);
  family->watch = NULL;
  for (size_t i = 0; i < TEST_ARRAY_SIZE(tensors); i++) {
    if (*tensors[i])
      test_drop(*tensors[i]);
    *tensors[i] = NULL;
  }
}

static int teardown(void **state)
{
  struct family *family = *state;

  test_child_kill(&family->child);
  drop_all(family);
  dlc_close(family->client);
  test_daemon_deinit(&family->daemon);
  free(family);
  return 0;
}

/* ---- reading ---- */

static int check_when_told(void *context, struct test_pipe_ends *ends)
{
  (void)test_hear(ends->in);
  check_all(context);
  test_tell(ends->out, 1);
  return 0;
}

static void a_child_reads_what_its_parent_has_let_go_of(void **state)
{
  struct family *family = *state;
  struct dlc_client *other = test_connect(&family->daemon);
  struct dlc_error error;

  test_child_start(&family->child, check_when_told, family);
  drop_all(family);
  test_ok(dlc_delete(family->client, "/", 0, NULL, &error), &error);
  dlc_close(family->client);
  family->client = NULL;
  test_wait_counter(other, "bytes", 0);
  /* Whatever came to lie in that memory would show. */
  for (uint64_t i = 0; i < 10; i++)
    (void)test_put(other, "small", LARGE, 10 + i, NULL);
  test_tell(family->child.to_child, 1);
  (void)test_hear(family->child.from_child);
  test_child_join(&family->child);
  dlc_close(other);
}

/* The child of the test is the parent here; it dies, and its own child reports. */
static int hold_and_leave_a_reader(void *context, struct test_pipe_ends *ends)
{
  const struct test_daemon *daemon = context;
  struct dlc_client *client = test_connect(daemon);
  struct DLManagedTensorVersioned *tensor;

  (void)test_put(client, "w", SMALL, 7, NULL);
  tensor = test_get(client, "w", DLC_ACCESS_READ);
  if (fork() == 0) {
    (void)test_hear(ends->in);
    test_check(tensor, 7);
    test_tell(ends->out, 7);
    _exit(0);
  }
  test_tell(ends->out, 1);
  (void)pause();
  return 0;
}

static void a_child_reads_what_its_parent_held_when_it_was_killed(void **state)
{
  struct family *family = *state;
  uint64_t n_sessions = test_counter(family->client, "sessions");
  struct test_child *child = &family->child;

  test_child_start(child, hold_and_leave_a_reader, &family->daemon);
  (void)test_hear(child->from_child);
  (void)kill(child->pid, SIGKILL);
  (void)waitpid(child->pid, NULL, 0);
  test_wait_counter(family->client, "sessions", n_sessions);
  test_tell(child->to_child, 1);
  assert_int_equal(test_hear(child->from_child), 7);
}

/* ---- letting go ---- */

static int drop_everything(void *context, struct test_pipe_ends *ends)
{
  struct family *family = context;

  check_all(family);
  drop_all(family);
  dlc_close(family->client);
  return 0;
}

static int close_and_then_drop(void *context, struct test_pipe_ends *ends)
{
  struct family *family = context;

  dlc_close(family->client);
  check_all(family);
  drop_all(family);
  return 0;
}

static void ignore_event(void *context, const struct dlc_event *event)
{
}

static void expect_parent_untouched(struct family *family)
{
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  check_all(family);
  test_ok(dlc_commit(family->generation, NULL, &error), &error);
  tensor = test_get(family->client, "staged", DLC_ACCESS_READ);
  test_drop(tensor);
  assert_true(dlc_watch_dispatch(family->watch, 5000, ignore_event, NULL, &error) > 0);
}

static void what_a_child_lets_go_of_stays_its_parents(void **state)
{
  struct family *family = *state;
  uint64_t n_leases = test_counter(family->client, "leases");

  test_child_start(&family->child, drop_everything, family);
  test_child_join(&family->child);
  assert_int_equal(test_counter(family->client, "leases"), n_leases);
  test_child_start(&family->child, close_and_then_drop, family);
  test_child_join(&family->child);
  assert_int_equal(test_counter(family->client, "leases"), n_leases);
  expect_parent_untouched(family);
}

/* ---- calls ---- */

static void ignore_counter(void *context, const char *name, uint64_t value)
{
}

static int ignore_name(void *context, const struct dlc_info *info)
{
  return 0;
}

static int call_everything(void *context, struct test_pipe_ends *ends)
{
  struct family *family = context;
  struct dlc_client *client = family->client;
  struct DLManagedTensorVersioned *tensor, **tensors;
  const char *name_list[] = {"small"};
  struct dlc_generation *generation;
  struct dlc_daemon_info daemon_info;
  struct dlc_view view = {.data = &client,
                          .device_type = kDLCPU,
                          .dtype_code = kDLUInt,
                          .dtype_bits = 8,
                          .dtype_lanes = 1};
  struct dlc_watch *watch;
  struct dlc_info *info;
  struct dlc_error error;
  size_t count;

  test_refused(dlc_ping(client, &daemon_info, &error), DLC_E_FORKED, &error);
  test_refused(dlc_get(client, "small", NULL, &tensor, &error), DLC_E_FORKED, &error);
  test_refused(dlc_get_many(client, name_list, 1, NULL, &tensors, &count, &error), DLC_E_FORKED,
               &error);
  test_refused(dlc_put(client, "w", &view, NULL, NULL, &error), DLC_E_FORKED, &error);
  test_refused(dlc_alloc(client, &view, NULL, &tensor, &error), DLC_E_FORKED, &error);
  test_refused(dlc_publish(client, "w", family->unpublished, NULL, NULL, &error), DLC_E_FORKED,
               &error);
  test_refused(dlc_begin(client, NULL, &generation, &error), DLC_E_FORKED, &error);
  test_refused(dlc_add_copy(family->generation, "w", &view, NULL, &error), DLC_E_FORKED, &error);
  test_refused(dlc_commit(family->generation, NULL, &error), DLC_E_FORKED, &error);
  test_refused(dlc_delete(client, "small", 0, NULL, &error), DLC_E_FORKED, &error);
  test_refused(dlc_stat(client, "small", &info, &error), DLC_E_FORKED, &error);
  test_refused(dlc_wait(client, "small", 0, 0, &info, &error), DLC_E_FORKED, &error);
  test_refused(dlc_list(client, NULL, ignore_name, NULL, &error), DLC_E_FORKED, &error);
  test_refused(dlc_stats(client, ignore_counter, NULL, &error), DLC_E_FORKED, &error);
  test_refused(dlc_watch_open(client, NULL, DLC_WATCH_FROM_NOW, &watch, &error), DLC_E_FORKED,
               &error);
  test_refused(dlc_watch_dispatch(family->watch, 0, ignore_event, NULL, &error), DLC_E_FORKED,
               &error);
  return 0;
}

static void calls_through_the_parents_client_are_refused_in_a_child(void **state)
{
  struct family *family = *state;

  test_child_start(&family->child, call_everything, family);
  test_child_join(&family->child);
  expect_parent_untouched(family);
}

static int use_a_client_of_its_own(void *context, struct test_pipe_ends *ends)
{
  struct family *family = context;
  struct dlc_client *client = test_connect(&family->daemon);
  struct DLManagedTensorVersioned *tensor = test_get(client, "large", DLC_ACCESS_READ);

  test_check(tensor, 2);
  (void)test_put(client, "childs", SMALL, 4, NULL);
  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  test_drop(tensor);
  check_all(family);
  drop_all(family);
  dlc_close(client);
  return 0;
}

static void a_child_may_open_a_client_of_its_own(void **state)
{
  struct family *family = *state;
  struct DLManagedTensorVersioned *tensor;

  test_child_start(&family->child, use_a_client_of_its_own, family);
  (void)test_hear(family->child.from_child);
  tensor = test_get(family->client, "childs", DLC_ACCESS_READ);
  test_check(tensor, 4);
  test_tell(family->child.to_child, 1);
  test_child_join(&family->child);
  test_check(tensor, 4);
  test_drop(tensor);
  expect_parent_untouched(family);
}

/* ---- many children ---- */

#define N_FORKS 200

static int use_both(void *context, struct test_pipe_ends *ends)
{
  struct family *family = context;
  struct dlc_client *client = test_connect(&family->daemon);

  test_drop(test_get(client, "small", DLC_ACCESS_READ));
  drop_all(family);
  dlc_close(family->client);
  dlc_close(client);
  return 0;
}

static void forking_in_a_loop_leaks_nothing(void **state)
{
  struct family *family = *state;
  struct test_baseline before;
  size_t fds = test_count_fds(), maps = test_count_maps_of("dlpackd");

  before = test_baseline_take(family->client, &family->daemon);
  for (unsigned i = 0; i < N_FORKS * test_scale(); i++) {
    test_child_start(&family->child, use_both, family);
    test_child_join(&family->child);
  }
  test_baseline_soon(family->client, &family->daemon, &before);
  assert_int_equal(test_count_fds(), fds);
  assert_int_equal(test_count_maps_of("dlpackd"), maps);
  expect_parent_untouched(family);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_child_reads_what_its_parent_has_let_go_of, setup, teardown),
    cmocka_unit_test_setup_teardown(a_child_reads_what_its_parent_held_when_it_was_killed, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(what_a_child_lets_go_of_stays_its_parents, setup, teardown),
    cmocka_unit_test_setup_teardown(calls_through_the_parents_client_are_refused_in_a_child, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_child_may_open_a_client_of_its_own, setup, teardown),
    cmocka_unit_test_setup_teardown(forking_in_a_loop_leaks_nothing, setup, teardown),
};

TEST_MAIN(tests)
