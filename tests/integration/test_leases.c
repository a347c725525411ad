/* What a client has had before it has again without the daemon; and nothing is lost of
 * what the daemon grants it. */

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define SIZE 4096

struct leases {
  struct test_daemon daemon;
  struct dlc_client *producer, *consumer;
  struct DLManagedTensorVersioned *held;
};

static int setup(void **state)
{
  struct leases *leases = calloc(1, sizeof(*leases));

  if (!leases)
    return -1;
  test_daemon_init(&leases->daemon, NULL);
  leases->producer = test_connect(&leases->daemon);
  leases->consumer = test_connect(&leases->daemon);
  *state = leases;
  return 0;
}

static int teardown(void **state)
{
  struct leases *leases = *state;

  (void)kill(leases->daemon.pid, SIGCONT);
  if (leases->held)
    test_drop(leases->held);
  dlc_close(leases->consumer);
  dlc_close(leases->producer);
  test_daemon_deinit(&leases->daemon);
  free(leases);
  return 0;
}

/* ---- without the daemon ---- */

static void stop_daemon(struct leases *leases)
{
  int status;

  assert_int_equal(kill(leases->daemon.pid, SIGSTOP), 0);
  assert_int_equal(waitpid(leases->daemon.pid, &status, WUNTRACED), leases->daemon.pid);
}

static void what_was_had_before_is_had_again_while_the_daemon_is_stopped(void **state)
{
  struct leases *leases = *state;
  struct dlc_slot slot;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  (void)test_put(leases->producer, "a", SIZE, 1, NULL);
  (void)test_put(leases->producer, "b", SIZE, 2, NULL);
  test_drop(test_get(leases->consumer, "a", DLC_ACCESS_READ));
  test_drop(test_get(leases->consumer, "b", DLC_ACCESS_PRIVATE));
  stop_daemon(leases);
  for (int i = 0; i < 1000; i++) {
    test_ok(dlc_get_into(leases->consumer, "a", NULL, &slot, &tensor, &error), &error);
    test_check(tensor, 1);
    test_drop(tensor);
    tensor = test_get(leases->consumer, "b", DLC_ACCESS_PRIVATE);
    test_check(tensor, 2);
    test_drop(tensor);
  }
}

static void a_prefix_that_was_got_is_there_by_every_name_of_it(void **state)
{
  static const char *const names[] = {"m/a", "m/b", "m/c"};
  struct leases *leases = *state;
  const char *prefix = "m/";
  struct DLManagedTensorVersioned **tensors;
  struct dlc_error error;
  size_t n;

  for (uint64_t i = 0; i < 3; i++)
    (void)test_put(leases->producer, names[i], SIZE, i, NULL);
  test_ok(dlc_get_many(leases->consumer, &prefix, 0, NULL, &tensors, &n, &error), &error);
  dlc_tensors_free(tensors, n);
  stop_daemon(leases);
  for (uint64_t i = 0; i < 3; i++) {
    struct DLManagedTensorVersioned *tensor = test_get(leases->consumer, names[i], DLC_ACCESS_READ);

    test_check(tensor, i);
    test_drop(tensor);
  }
}

static void that_nothing_is_newer_is_known_while_the_daemon_is_stopped(void **state)
{
  struct leases *leases = *state;
  uint64_t version = test_put(leases->producer, "a", SIZE, 1, NULL);
  struct dlc_error error;

  leases->held = test_get(leases->consumer, "a", DLC_ACCESS_READ);
  stop_daemon(leases);
  assert_int_equal(dlc_tensor_is_newest(leases->held), 1);
  test_refused(dlc_wait(leases->consumer, "a", version, 0, NULL, &error), DLC_E_TIMEOUT, &error);
}

/* ---- newest? ---- */

static void a_tensor_is_the_newest_until_it_is_replaced_or_deleted(void **state)
{
  struct leases *leases = *state;
  struct DLManagedTensorVersioned *newer, *copy;

  (void)test_put(leases->producer, "a", SIZE, 1, NULL);
  leases->held = test_get(leases->consumer, "a", DLC_ACCESS_READ);
  assert_int_equal(dlc_tensor_is_newest(leases->held), 1);
  (void)test_put(leases->producer, "a", SIZE, 2, NULL);
  assert_int_equal(dlc_tensor_is_newest(leases->held), 0);
  newer = test_get(leases->consumer, "a", DLC_ACCESS_READ);
  test_check(newer, 2);
  assert_int_equal(dlc_tensor_is_newest(newer), 1);
  test_delete(leases->producer, "a");
  assert_int_equal(dlc_tensor_is_newest(newer), 0);
  test_check(newer, 2);
  test_drop(newer);
  (void)test_put(leases->producer, "b", SIZE, 3, NULL);
  copy = test_get(leases->consumer, "b", DLC_ACCESS_PRIVATE);
  assert_int_equal(dlc_tensor_is_newest(copy), -DLC_E_INVALID);
  assert_int_equal(dlc_tensor_is_newest(NULL), -DLC_E_INVALID);
  test_drop(copy);
}

/* ---- what is idle ---- */

static void a_get_after_a_replacement_is_of_the_newest(void **state)
{
  struct leases *leases = *state;

  for (uint64_t i = 0; i < 1000; i++) {
    struct DLManagedTensorVersioned *tensor;

    (void)test_put(leases->producer, "a", SIZE, i, NULL);
    for (int again = 0; again < 3; again++) {
      tensor = test_get(leases->consumer, "a", DLC_ACCESS_READ);
      test_check(tensor, i);
      test_drop(tensor);
    }
  }
  test_wait_counter(leases->producer, "leases", 0);
}

/* Memory that nobody uses is not kept by what a client remembers. */
static void what_is_idle_and_replaced_is_unmapped_by_the_next_call(void **state)
{
  struct leases *leases = *state;
  struct dlc_error error;
  size_t before = test_count_maps_of_pid(getpid(), "dlpackd");

  (void)test_put(leases->producer, "a", 16 << 20, 1, NULL);
  before = test_count_maps_of_pid(getpid(), "dlpackd");
  test_drop(test_get(leases->consumer, "a", DLC_ACCESS_READ));
  assert_int_equal(test_count_maps_of_pid(getpid(), "dlpackd"), before + 1);
  test_delete(leases->producer, "a");
  test_ok(dlc_ping(leases->consumer, NULL, &error), &error);
  assert_int_equal(test_count_maps_of_pid(getpid(), "dlpackd"), before);
}

/* ---- answers that nobody waited for ---- */

static void what_a_late_answer_grants_is_given_back(void **state)
{
  struct leases *leases = *state;
  struct dlc_connect_options options = DLC_CONNECT_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_client *hasty;
  struct dlc_error error;

  options.call_timeout_ms = 200;
  (void)test_put(leases->producer, "a", SIZE, 1, NULL);
  test_ok(dlc_connect(leases->daemon.socket, &options, &hasty, &error), &error);
  stop_daemon(leases);
  test_refused(dlc_get(hasty, "a", NULL, &tensor, &error), DLC_E_TIMEOUT, &error);
  assert_int_equal(kill(leases->daemon.pid, SIGCONT), 0);
  test_wait_counter(leases->producer, "leases", 1);
  while (dlc_ping(hasty, NULL, &error) < 0)
    ;
  test_wait_counter(leases->producer, "leases", 0);
  dlc_close(hasty);
}

static void closing_is_quick_while_the_daemon_is_stopped(void **state)
{
  struct leases *leases = *state;
  struct dlc_client *client = test_connect(&leases->daemon);
  int64_t start_us;

  stop_daemon(leases);
  start_us = test_now_us();
  dlc_close(client);
  assert_true(test_now_us() - start_us < TEST_SOON_MS * 1000);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(what_was_had_before_is_had_again_while_the_daemon_is_stopped),
    CASE(a_prefix_that_was_got_is_there_by_every_name_of_it),
    CASE(that_nothing_is_newer_is_known_while_the_daemon_is_stopped),
    CASE(a_tensor_is_the_newest_until_it_is_replaced_or_deleted),
    CASE(a_get_after_a_replacement_is_of_the_newest),
    CASE(what_is_idle_and_replaced_is_unmapped_by_the_next_call),
    CASE(what_a_late_answer_grants_is_given_back),
    CASE(closing_is_quick_while_the_daemon_is_stopped),
};

TEST_MAIN(tests)
