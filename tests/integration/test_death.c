/*
 * Any process may be killed at any instant: what it held goes, within a second,
 * and what it published to stay, stays.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define SIZE (128 << 10)
#define LARGE (2 << 20)

struct deaths {
  struct test_daemon daemon;
  struct dlc_client *watcher;
  struct test_baseline before;
  size_t n_shm;
};

static void start(struct deaths *deaths, const char *const *arguments)
{
  test_daemon_init(&deaths->daemon, arguments);
  deaths->watcher = test_connect(&deaths->daemon);
  deaths->before = test_baseline_take(deaths->watcher, &deaths->daemon);
  deaths->n_shm = test_count_shm(&deaths->daemon);
}

static int setup(void **state)
{
  struct deaths *deaths = calloc(1, sizeof(*deaths));

  assert_non_null(deaths);
  *state = deaths;
  start(deaths, NULL);
  return 0;
}

static int setup_posix_shm(void **state)
{
  static const char *const arguments[] = {"--storage", "posix-shm", NULL};
  struct deaths *deaths = calloc(1, sizeof(*deaths));

  assert_non_null(deaths);
  *state = deaths;
  start(deaths, arguments);
  return 0;
}

static int teardown(void **state)
{
  struct deaths *deaths = *state;

  dlc_close(deaths->watcher);
  test_daemon_deinit(&deaths->daemon);
  free(deaths);
  return 0;
}

static void wait_as_before(struct deaths *deaths)
{
  test_baseline_soon(deaths->watcher, &deaths->daemon, &deaths->before);
  assert_int_equal(test_count_shm(&deaths->daemon), deaths->n_shm);
}

static int stay(struct test_pipe_ends *ends)
{
  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  return 0;
}

/* ---- where it may be when it is killed ---- */

static int be_connected(void *context, struct test_pipe_ends *ends)
{
  (void)test_connect(context);
  return stay(ends);
}

static int have_allocated(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  (void)test_alloc(client, SIZE, NULL);
  (void)test_alloc(client, 32 << 20, NULL);
  return stay(ends);
}

static int have_filled_a_half(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  test_fill(test_alloc(client, LARGE, NULL)->dl_tensor.data, LARGE / 2, 1);
  return stay(ends);
}

static int have_staged(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  struct DLManagedTensorVersioned *tensor = test_alloc(client, SIZE, NULL);
  struct dlc_generation *generation;
  struct dlc_error error;

  test_ok(dlc_begin(client, NULL, &generation, &error), &error);
  test_ok(dlc_add(generation, "staged", tensor, NULL, &error), &error);
  return stay(ends);
}

static int have_committed(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  (void)test_put(client, "small", 100, 1, NULL);
  (void)test_put(client, "large", LARGE, 1, NULL);
  return stay(ends);
}

static int have_committed_in_place(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  struct DLManagedTensorVersioned *tensor = test_alloc(client, SIZE, NULL);
  struct dlc_error error;

  test_ok(dlc_publish(client, "in-place", tensor, NULL, NULL, &error), &error);
  return stay(ends);
}

static int hold_its_own(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  (void)test_put(client, "large", LARGE, 1, NULL);
  (void)test_get(client, "large", DLC_ACCESS_READ);
  (void)test_get(client, "large", DLC_ACCESS_PRIVATE);
  return stay(ends);
}

static int hold_what_was_replaced_and_deleted(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  for (uint64_t i = 0; i < 5; i++) {
    (void)test_put(client, "w", SIZE, i, NULL);
    (void)test_get(client, "w", DLC_ACCESS_READ);
  }
  test_delete(client, "w");
  return stay(ends);
}

static int watch(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  struct dlc_watch *watch;
  struct dlc_error error;

  test_ok(dlc_watch_open(client, NULL, DLC_WATCH_EVERYTHING, &watch, &error), &error);
  return stay(ends);
}

static int wait_for_what_does_not_come(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  struct dlc_error error;

  test_tell(ends->out, 1);
  return dlc_wait(client, "never", 0, -1, NULL, &error) == 0;
}

static const struct stage {
  const char *name;
  int (*function)(void *context, struct test_pipe_ends *ends);
} stages[] = {
    {"connected", be_connected},
    {"allocated", have_allocated},
    {"half filled", have_filled_a_half},
    {"staged", have_staged},
    {"committed", have_committed},
    {"committed in place", have_committed_in_place},
    {"holding its own", hold_its_own},
    {"holding retired versions", hold_what_was_replaced_and_deleted},
    {"watching", watch},
    {"waiting", wait_for_what_does_not_come},
};

static void a_killed_process_leaves_nothing_wherever_it_was(void **state)
{
  struct deaths *deaths = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(stages); i++) {
    struct test_child child;

    print_message("  %s\n", stages[i].name);
    test_child_start(&child, stages[i].function, &deaths->daemon);
    (void)test_hear(child.from_child);
    test_child_kill(&child);
    wait_as_before(deaths);
  }
}

static void all_stages_killed_at_once_leave_nothing(void **state)
{
  struct deaths *deaths = *state;
  struct test_child children[TEST_ARRAY_SIZE(stages)];

  for (size_t i = 0; i < TEST_ARRAY_SIZE(stages); i++) {
    test_child_start(&children[i], stages[i].function, &deaths->daemon);
    (void)test_hear(children[i].from_child);
  }
  for (size_t i = 0; i < TEST_ARRAY_SIZE(stages); i++)
    (void)kill(children[i].pid, SIGKILL);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(stages); i++)
    test_child_kill(&children[i]);
  wait_as_before(deaths);
}

/* ---- producer and consumer ---- */

static int produce(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  (void)test_put(client, "w", LARGE, 1, NULL);
  return stay(ends);
}

static int consume(void *context, struct test_pipe_ends *ends)
{
  struct DLManagedTensorVersioned *tensor = test_get(test_connect(context), "w", DLC_ACCESS_READ);

  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  test_check(tensor, 1);
  test_tell(ends->out, 2);
  (void)test_hear(ends->in);
  return 0;
}

static void start_both(struct deaths *deaths, struct test_child *producer,
                       struct test_child *consumer)
{
  test_child_start(producer, produce, &deaths->daemon);
  (void)test_hear(producer->from_child);
  test_child_start(consumer, consume, &deaths->daemon);
  (void)test_hear(consumer->from_child);
}

static void a_holder_keeps_the_bytes_of_a_producer_that_was_killed(void **state)
{
  struct deaths *deaths = *state;
  struct test_child producer, consumer;

  start_both(deaths, &producer, &consumer);
  test_child_kill(&producer);
  test_wait_counter(deaths->watcher, "tensors", 0);
  assert_int_equal(test_counter(deaths->watcher, "tensors_retired"), 1);
  test_tell(consumer.to_child, 1);
  assert_int_equal(test_hear(consumer.from_child), 2);
  test_child_kill(&consumer);
  wait_as_before(deaths);
}

static void the_lease_of_a_killed_consumer_goes_and_the_tensor_stays(void **state)
{
  struct deaths *deaths = *state;
  struct test_child producer, consumer;

  start_both(deaths, &producer, &consumer);
  test_child_kill(&consumer);
  test_wait_counter(deaths->watcher, "leases", 0);
  assert_int_equal(test_counter(deaths->watcher, "tensors"), 1);
  test_child_kill(&producer);
  wait_as_before(deaths);
}

static void producer_and_consumer_killed_together_leave_nothing(void **state)
{
  struct deaths *deaths = *state;
  struct test_child producer, consumer;

  start_both(deaths, &producer, &consumer);
  (void)kill(producer.pid, SIGKILL);
  (void)kill(consumer.pid, SIGKILL);
  test_child_kill(&producer);
  test_child_kill(&consumer);
  wait_as_before(deaths);
}

static void memory_with_names_goes_too(void **state)
{
  producer_and_consumer_killed_together_leave_nothing(state);
}

/* Field case 18: references belong to sessions, not to messages. */
static void consumers_that_never_get_hold_nothing(void **state)
{
  struct deaths *deaths = *state;
  struct test_child producer, consumers[4];

  test_child_start(&producer, produce, &deaths->daemon);
  (void)test_hear(producer.from_child);
  for (size_t i = 0; i < 4; i++) {
    test_child_start(&consumers[i], i < 2 ? consume : be_connected, &deaths->daemon);
    (void)test_hear(consumers[i].from_child);
  }
  assert_int_equal(test_counter(deaths->watcher, "leases"), 2);
  test_child_kill(&producer);
  for (size_t i = 0; i < 4; i++)
    test_child_kill(&consumers[i]);
  wait_as_before(deaths);
}

/* ---- what stays ---- */

static int publish_persistent(void *context, struct test_pipe_ends *ends)
{
  struct dlc_publish_options options = test_lifetime(DLC_LIFETIME_PERSISTENT);
  struct dlc_client *client = test_connect(context);
  char name[32];

  for (unsigned i = 0; i < 20; i++) {
    (void)snprintf(name, sizeof(name), "keep/%u", i);
    (void)test_put(client, name, 1000 * (i + 1), i, &options);
    (void)snprintf(name, sizeof(name), "go/%u", i);
    (void)test_put(client, name, 1000, i, NULL);
  }
  return stay(ends);
}

static void persistent_tensors_stay_with_every_byte(void **state)
{
  struct deaths *deaths = *state;
  struct test_child producer;
  struct dlc_error error;
  char name[32];

  test_child_start(&producer, publish_persistent, &deaths->daemon);
  (void)test_hear(producer.from_child);
  test_child_kill(&producer);
  test_wait_counter(deaths->watcher, "sessions", 1);
  assert_int_equal(test_counter(deaths->watcher, "tensors"), 20);
  for (unsigned i = 0; i < 20; i++) {
    struct DLManagedTensorVersioned *tensor;

    (void)snprintf(name, sizeof(name), "keep/%u", i);
    tensor = test_get(deaths->watcher, name, DLC_ACCESS_READ);
    assert_int_equal(test_size_of(tensor), 1000 * (i + 1));
    test_check(tensor, i);
    test_drop(tensor);
  }
  test_ok(dlc_delete(deaths->watcher, "/", 0, NULL, &error), &error);
  wait_as_before(deaths);
}

/* Reliability report 23. */
static void the_exit_of_one_reader_does_not_take_the_tensor_from_another(void **state)
{
  struct deaths *deaths = *state;
  struct test_child producer, first, second;

  start_both(deaths, &producer, &first);
  test_child_start(&second, consume, &deaths->daemon);
  (void)test_hear(second.from_child);
  test_tell(first.to_child, 1);
  (void)test_hear(first.from_child);
  test_tell(first.to_child, 1);
  test_child_join(&first);
  test_tell(second.to_child, 1);
  assert_int_equal(test_hear(second.from_child), 2);
  test_child_kill(&second);
  test_child_kill(&producer);
  wait_as_before(deaths);
}

/* ---- descriptors that outlive their process ---- */

/* The grandchild has the socket, the mappings, and this pipe: it ends with the test. */
static int leave_a_grandchild(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  (void)test_put(client, "w", SIZE, 1, NULL);
  (void)test_get(client, "w", DLC_ACCESS_READ);
  if (fork() == 0) {
    char byte;

    (void)read(ends->in, &byte, 1);
    _exit(0);
  }
  test_tell(ends->out, 1);
  (void)pause();
  return 0;
}

/* Reliability report 4: a connection that only somebody else has open is no reason to spin. */
static void expect_idle(const struct deaths *deaths)
{
  const struct timespec pause = {.tv_nsec = 200000000};
  uint64_t used_us = test_cpu_us(deaths->daemon.pid);

  (void)nanosleep(&pause, NULL);
  assert_true(test_cpu_us(deaths->daemon.pid) - used_us < 10000);
}

static void a_forked_child_that_has_the_socket_does_not_keep_a_session_alive(void **state)
{
  struct deaths *deaths = *state;
  struct test_child child;
  int to_grandchild;

  test_child_start(&child, leave_a_grandchild, &deaths->daemon);
  (void)test_hear(child.from_child);
  to_grandchild = dup(child.to_child);
  test_child_kill(&child);
  wait_as_before(deaths);
  expect_idle(deaths);
  (void)close(to_grandchild);
}

static void become_sleep(void)
{
  (void)execl("/bin/sleep", "sleep", "1000", (char *)NULL);
  _exit(127);
}

/* Of a segment of its own a producer keeps the descriptor until it publishes. */
static void keep_a_descriptor(struct dlc_client *client)
{
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;

  options.flags = DLC_FROZEN;
  (void)test_alloc(client, SIZE, &options);
}

static int publish_and_become_sleep(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  (void)test_put(client, "w", SIZE, 1, NULL);
  (void)test_get(client, "w", DLC_ACCESS_READ);
  keep_a_descriptor(client);
  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  become_sleep();
  return 0;
}

static size_t count_inherited(pid_t pid)
{
  return test_count_links_of(pid, "memfd:") + test_count_links_of(pid, "socket:") +
         test_count_maps_of_pid(pid, "memfd:");
}

static void exec_ends_a_session_and_inherits_nothing(void **state)
{
  struct deaths *deaths = *state;
  struct test_child child;

  test_child_start(&child, publish_and_become_sleep, &deaths->daemon);
  (void)test_hear(child.from_child);
  assert_true(test_count_links_of(child.pid, "memfd:") >= 1);
  assert_true(test_count_links_of(child.pid, "socket:") >= 1);
  assert_true(test_count_maps_of_pid(child.pid, "memfd:") >= 1);
  test_tell(child.to_child, 1);
  wait_as_before(deaths);
  assert_int_equal(kill(child.pid, 0), 0);
  assert_int_equal(count_inherited(child.pid), 0);
  test_child_kill(&child);
}

/* Field case 6, with the memory of somebody else. */
static int hold_and_start_sleep(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  struct DLManagedTensorVersioned *tensor = test_get(client, "w", DLC_ACCESS_READ);
  pid_t pid;

  keep_a_descriptor(client);
  pid = fork();
  if (pid == 0)
    become_sleep();
  test_tell(ends->out, (uint64_t)pid);
  (void)test_hear(ends->in);
  test_drop(tensor);
  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  return 0;
}

static bool has_become_sleep(void *context)
{
  return test_count_maps_of_pid(*(pid_t *)context, "/sleep") > 0 ||
         test_count_maps_of_pid(*(pid_t *)context, "/coreutils") > 0;
}

static void a_program_started_by_a_holder_inherits_nothing(void **state)
{
  struct deaths *deaths = *state;
  struct test_child child;
  pid_t sleeping;

  (void)test_put(deaths->watcher, "w", LARGE, 1, NULL);
  test_child_start(&child, hold_and_start_sleep, &deaths->daemon);
  sleeping = (pid_t)test_hear(child.from_child);
  assert_true(test_wait_until(has_become_sleep, &sleeping));
  assert_int_equal(count_inherited(sleeping), 0);
  test_tell(child.to_child, 1);
  (void)test_hear(child.from_child);
  test_delete(deaths->watcher, "w");
  test_wait_counter(deaths->watcher, "segments", 1); /* the one that is not published yet */
  test_child_kill(&child);
  (void)kill(sleeping, SIGKILL);
  wait_as_before(deaths);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_killed_process_leaves_nothing_wherever_it_was, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(all_stages_killed_at_once_leave_nothing, setup, teardown),
    cmocka_unit_test_setup_teardown(a_holder_keeps_the_bytes_of_a_producer_that_was_killed, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(the_lease_of_a_killed_consumer_goes_and_the_tensor_stays, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(producer_and_consumer_killed_together_leave_nothing, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(memory_with_names_goes_too, setup_posix_shm, teardown),
    cmocka_unit_test_setup_teardown(consumers_that_never_get_hold_nothing, setup, teardown),
    cmocka_unit_test_setup_teardown(persistent_tensors_stay_with_every_byte, setup, teardown),
    cmocka_unit_test_setup_teardown(the_exit_of_one_reader_does_not_take_the_tensor_from_another,
                                    setup, teardown),
    cmocka_unit_test_setup_teardown(
        a_forked_child_that_has_the_socket_does_not_keep_a_session_alive, setup, teardown),
    cmocka_unit_test_setup_teardown(exec_ends_a_session_and_inherits_nothing, setup, teardown),
    cmocka_unit_test_setup_teardown(a_program_started_by_a_holder_inherits_nothing, setup,
                                    teardown),
};

TEST_MAIN(tests)
