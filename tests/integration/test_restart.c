/*
 * The daemon goes and comes back: calls say so at once, what is held stays
 * readable, and nothing is left behind by whichever way it went.
 *
 * What was published before does not survive it here: the store is in memory.
 */

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define SIZE 5000
/* What nobody answers ends so soon. Of a few tries, since the host may be busy. */
#define AT_ONCE_US (TEST_IS_SANITIZED ? 1000000 : 100000)
#define N_TRIES 5

struct restarts {
  struct test_daemon daemon;
  struct dlc_client *client;
  struct test_child child;
};

static int start(void **state, const char *const *arguments)
{
  struct restarts *restarts = calloc(1, sizeof(*restarts));

  assert_non_null(restarts);
  *state = restarts;
  test_daemon_init(&restarts->daemon, arguments);
  restarts->client = test_connect(&restarts->daemon);
  return 0;
}

static int setup(void **state)
{
  return start(state, NULL);
}

static int setup_posix_shm(void **state)
{
  static const char *const arguments[] = {"--storage", "posix-shm", NULL};

  return start(state, arguments);
}

static int teardown(void **state)
{
  struct restarts *restarts = *state;

  test_child_kill(&restarts->child);
  dlc_close(restarts->client);
  test_daemon_deinit(&restarts->daemon);
  free(restarts);
  return 0;
}

/* ---- calls ---- */

static int wait_for_ever(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  struct dlc_error error;

  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  test_tell(ends->out, (uint64_t)-dlc_wait(client, "never", 0, -1, NULL, &error));
  return 0;
}

struct waiter_wait {
  struct dlc_client *client;
  uint64_t idle_heap;
};

/* What a waiter takes is charged. */
static bool has_a_waiter(void *context)
{
  struct waiter_wait *wait = context;

  return test_counter(wait->client, "heap") > wait->idle_heap;
}

static void a_call_in_progress_ends_at_once_when_the_daemon_is_killed(void **state)
{
  struct restarts *restarts = *state;
  struct waiter_wait wait = {.client = restarts->client};
  int64_t killed_at;

  test_child_start(&restarts->child, wait_for_ever, &restarts->daemon);
  (void)test_hear(restarts->child.from_child);
  wait.idle_heap = test_counter(restarts->client, "heap");
  test_tell(restarts->child.to_child, 1);
  assert_true(test_wait_until(has_a_waiter, &wait));
  test_daemon_kill(&restarts->daemon);
  killed_at = test_now_us();
  assert_int_equal(test_hear(restarts->child.from_child), DLC_E_DISCONNECTED);
  assert_true(test_now_us() - killed_at < TEST_SOON_MS * 1000);
  test_child_join(&restarts->child);
}

static void expect_get_refused(struct restarts *restarts)
{
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  test_refused(dlc_get(restarts->client, "never/got", NULL, &tensor, &error), DLC_E_NO_DAEMON,
               &error);
}

static void expect_connect_refused(struct restarts *restarts)
{
  struct dlc_client *client;
  struct dlc_error error;

  test_refused(dlc_connect(restarts->daemon.socket, NULL, &client, &error), DLC_E_NO_DAEMON,
               &error);
}

static void expect_at_once(struct restarts *restarts, void (*act)(struct restarts *restarts))
{
  int64_t shortest = INT64_MAX;

  for (int i = 0; i < N_TRIES; i++) {
    int64_t start_us = test_now_us(), took;

    act(restarts);
    took = test_now_us() - start_us;
    shortest = took < shortest ? took : shortest;
  }
  assert_true(shortest < AT_ONCE_US);
}

/* No daemon is needed for what this process has had. */
static void expect_the_newest_is_had_again(struct restarts *restarts,
                                           struct DLManagedTensorVersioned *held)
{
  struct DLManagedTensorVersioned *again = test_get(restarts->client, "w", DLC_ACCESS_READ);

  assert_int_equal(dlc_tensor_info(again)->version, dlc_tensor_info(held)->version);
  assert_int_equal(dlc_tensor_is_newest(held), 1);
  test_drop(again);
}

/* Field case 45. */
static void what_is_held_outlives_the_daemon_and_the_client_finds_the_next_one(void **state)
{
  struct restarts *restarts = *state;
  struct DLManagedTensorVersioned *held[3], *fresh;

  for (uint64_t i = 0; i < 3; i++) {
    (void)test_put(restarts->client, "w", SIZE, i, NULL);
    held[i] = test_get(restarts->client, "w", DLC_ACCESS_READ);
  }
  test_daemon_kill(&restarts->daemon);
  expect_at_once(restarts, expect_get_refused);
  expect_the_newest_is_had_again(restarts, held[2]);
  for (uint64_t i = 0; i < 3; i++)
    test_check(held[i], i);
  test_daemon_start(&restarts->daemon);
  (void)test_put(restarts->client, "w", SIZE, 9, NULL);
  fresh = test_get(restarts->client, "w", DLC_ACCESS_READ);
  test_check(fresh, 9);
  assert_int_equal(dlc_tensor_is_newest(fresh), 1);
  assert_int_equal(dlc_tensor_is_newest(held[2]), 0);
  for (uint64_t i = 0; i < 3; i++) {
    test_check(held[i], i);
    test_drop(held[i]);
  }
  /* What the old daemon had granted is nothing to the new one. */
  test_check(fresh, 9);
  assert_int_equal(test_counter(restarts->client, "leases"), 1);
  test_drop(fresh);
  test_wait_counter(restarts->client, "leases", 0);
  assert_int_equal(test_counter(restarts->client, "protocol_errors_total"), 0);
}

static void memory_of_the_daemon_before_is_not_published_to_the_next(void **state)
{
  struct restarts *restarts = *state;
  struct DLManagedTensorVersioned *tensor = test_alloc(restarts->client, SIZE, NULL);
  struct dlc_error error;

  test_fill(tensor->dl_tensor.data, SIZE, 1);
  test_daemon_kill(&restarts->daemon);
  test_daemon_start(&restarts->daemon);
  test_refused(dlc_publish(restarts->client, "w", tensor, NULL, NULL, &error), DLC_E_DISCONNECTED,
               &error);
  test_drop(tensor);
  (void)test_put(restarts->client, "w", SIZE, 2, NULL);
}

/* A daemon that is stopped by a signal is there, but does not answer. */
static void a_call_keeps_its_deadline_while_the_daemon_is_stopped(void **state)
{
  struct restarts *restarts = *state;
  struct dlc_connect_options options = DLC_CONNECT_OPTIONS_INIT;
  struct dlc_daemon_info info;
  struct dlc_client *client;
  struct dlc_error error;
  int64_t start_us;

  options.call_timeout_ms = 200;
  test_ok(dlc_connect(restarts->daemon.socket, &options, &client, &error), &error);
  (void)kill(restarts->daemon.pid, SIGSTOP);
  start_us = test_now_us();
  test_refused(dlc_ping(client, &info, &error), DLC_E_TIMEOUT, &error);
  assert_true(test_now_us() - start_us >= 200000);
  assert_true(test_now_us() - start_us < 5000000);
  (void)kill(restarts->daemon.pid, SIGCONT);
  test_ok(dlc_ping(restarts->client, &info, &error), &error);
  dlc_close(client);
}

/* Field case 46. */
static void connecting_where_no_daemon_is_says_so_at_once(void **state)
{
  struct restarts *restarts = *state;

  test_daemon_kill(&restarts->daemon);
  expect_at_once(restarts, expect_connect_refused);
}

/* ---- starting ---- */

#define START_US (TEST_IS_SANITIZED ? 2000000 : 100000)
#define IDLE_KIB (20 << 10)

/* Field case 48. */
static void a_daemon_with_a_large_limit_starts_at_once_and_is_small(void **state)
{
  static const char *const arguments[] = {"--max-bytes", "16G", NULL};
  struct restarts *restarts = *state;
  int64_t shortest = INT64_MAX;

  restarts->daemon.arguments = arguments;
  for (int i = 0; i < N_TRIES; i++) {
    int64_t start_us, took;

    test_daemon_stop(&restarts->daemon);
    start_us = test_now_us();
    test_daemon_start(&restarts->daemon);
    took = test_now_us() - start_us;
    shortest = took < shortest ? took : shortest;
  }
  assert_true(shortest < START_US);
  if (!TEST_IS_SANITIZED)
    assert_true(test_rss_kib(restarts->daemon.pid) < IDLE_KIB);
}

/* ---- leaving ---- */

static int publish_and_hold(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  (void)test_put(client, "w", SIZE, 1, NULL);
  (void)test_get(client, "w", DLC_ACCESS_READ);
  (void)test_alloc(client, SIZE, NULL);
  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  return 0;
}

static void start_holder(struct restarts *restarts)
{
  test_child_start(&restarts->child, publish_and_hold, &restarts->daemon);
  (void)test_hear(restarts->child.from_child);
}

/* Besides the fixture's own socket. */
static size_t count_files(const char *folder)
{
  DIR *dir = opendir(folder);
  struct dirent *entry;
  size_t n = 0;

  assert_non_null(dir);
  while ((entry = readdir(dir)))
    n += entry->d_name[0] != '.' && strcmp(entry->d_name, "notify") != 0;
  (void)closedir(dir);
  return n;
}

static void expect_nothing_left(struct restarts *restarts)
{
  test_daemon_stop(&restarts->daemon);
  assert_int_equal(test_count_shm(&restarts->daemon), 0);
  assert_int_equal(count_files(restarts->daemon.folder), 0);
}

static void a_daemon_that_is_told_to_leave_leaves_nothing_while_clients_hold(void **state)
{
  struct restarts *restarts = *state;

  start_holder(restarts);
  expect_nothing_left(restarts);
}

#define N_RACES 20

/* Field case 4. */
static void a_daemon_leaves_cleanly_when_a_client_has_died_just_now(void **state)
{
  struct restarts *restarts = *state;

  for (int i = 0; i < N_RACES; i++) {
    start_holder(restarts);
    (void)kill(restarts->child.pid, SIGKILL);
    expect_nothing_left(restarts);
    test_child_kill(&restarts->child);
    test_daemon_start(&restarts->daemon);
  }
}

/* Field case 2, and reliability report 18. */
static void a_name_of_the_dead_is_free_after_a_restart_with_nothing_in_dev_shm(void **state)
{
  struct restarts *restarts = *state;
  struct DLManagedTensorVersioned *tensor;
  float values[1] = {3};
  int64_t shape[1] = {1};
  struct dlc_view view = test_view_f32(values, shape, 1);
  struct dlc_error error;

  start_holder(restarts);
  (void)kill(restarts->child.pid, SIGKILL);
  test_daemon_kill(&restarts->daemon);
  test_child_kill(&restarts->child);
  test_daemon_start(&restarts->daemon);
  assert_int_equal(test_count_shm(&restarts->daemon), 0);
  test_ok(dlc_put(restarts->client, "w", &view, NULL, NULL, &error), &error);
  tensor = test_get(restarts->client, "w", DLC_ACCESS_READ);
  assert_int_equal(tensor->dl_tensor.dtype.bits, 32);
  test_drop(tensor);
}

static void the_next_daemon_removes_what_a_killed_one_had_named(void **state)
{
  struct restarts *restarts = *state;

  start_holder(restarts);
  test_daemon_kill(&restarts->daemon);
  assert_true(test_count_shm(&restarts->daemon) >= 1);
  test_daemon_start(&restarts->daemon);
  assert_int_equal(test_count_shm(&restarts->daemon), 0);
}

/* ---- the socket ---- */

/* Field case 41. */
static void a_second_daemon_refuses_and_does_the_first_no_harm(void **state)
{
  struct restarts *restarts = *state;
  struct DLManagedTensorVersioned *tensor;

  (void)test_put(restarts->client, "w", SIZE, 1, NULL);
  assert_int_not_equal(test_daemon_run(&restarts->daemon), 0);
  tensor = test_get(restarts->client, "w", DLC_ACCESS_READ);
  test_check(tensor, 1);
  test_drop(tensor);
  dlc_close(test_connect(&restarts->daemon));
}

/* Field case 41. */
static void the_socket_of_a_killed_daemon_is_replaced(void **state)
{
  struct restarts *restarts = *state;

  test_daemon_kill(&restarts->daemon);
  assert_int_equal(access(restarts->daemon.socket, F_OK), 0);
  test_daemon_start(&restarts->daemon);
  (void)test_put(restarts->client, "w", SIZE, 1, NULL);
}

/* Field case 41. */
static void what_is_not_a_socket_is_not_replaced(void **state)
{
  struct restarts *restarts = *state;
  FILE *file;
  char text[8] = "";

  test_daemon_stop(&restarts->daemon);
  file = fopen(restarts->daemon.socket, "we");
  assert_non_null(file);
  (void)fputs("mine", file);
  (void)fclose(file);
  assert_int_not_equal(test_daemon_run(&restarts->daemon), 0);
  file = fopen(restarts->daemon.socket, "re");
  assert_non_null(file);
  assert_non_null(fgets(text, sizeof(text), file));
  (void)fclose(file);
  assert_string_equal(text, "mine");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_call_in_progress_ends_at_once_when_the_daemon_is_killed,
                                    setup, teardown),
    cmocka_unit_test_setup_teardown(
        what_is_held_outlives_the_daemon_and_the_client_finds_the_next_one, setup, teardown),
    cmocka_unit_test_setup_teardown(memory_of_the_daemon_before_is_not_published_to_the_next, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_call_keeps_its_deadline_while_the_daemon_is_stopped, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(connecting_where_no_daemon_is_says_so_at_once, setup, teardown),
    cmocka_unit_test_setup_teardown(a_daemon_with_a_large_limit_starts_at_once_and_is_small, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(
        a_daemon_that_is_told_to_leave_leaves_nothing_while_clients_hold, setup_posix_shm,
        teardown),
    cmocka_unit_test_setup_teardown(a_daemon_leaves_cleanly_when_a_client_has_died_just_now,
                                    setup_posix_shm, teardown),
    cmocka_unit_test_setup_teardown(
        a_name_of_the_dead_is_free_after_a_restart_with_nothing_in_dev_shm, setup_posix_shm,
        teardown),
    cmocka_unit_test_setup_teardown(the_next_daemon_removes_what_a_killed_one_had_named,
                                    setup_posix_shm, teardown),
    cmocka_unit_test_setup_teardown(a_second_daemon_refuses_and_does_the_first_no_harm, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(the_socket_of_a_killed_daemon_is_replaced, setup, teardown),
    cmocka_unit_test_setup_teardown(what_is_not_a_socket_is_not_replaced, setup, teardown),
};

TEST_MAIN(tests)
