/*
 * The daemon is killed and started again, over and over, under clients that do
 * not stop for it. Every call ends with a result or says that the daemon was
 * gone; what is held keeps its bytes; what one daemon gave never reaches the next.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define N_WORKERS 3
#define N_THREADS 2
#define N_KILLS 60
#define N_NAMES 6
#define N_HELD 4
#define SEED_KEY "seed"

struct state {
  struct test_daemon daemon;
  struct test_child workers[N_WORKERS];
};

static int setup(void **ret_state)
{
  struct state *state = calloc(1, sizeof(*state));

  assert_non_null(state);
  *ret_state = state;
  test_daemon_init(&state->daemon, NULL);
  return 0;
}

static int teardown(void **ret_state)
{
  struct state *state = *ret_state;

  for (size_t i = 0; i < N_WORKERS; i++)
    test_child_kill(&state->workers[i]);
  test_daemon_deinit(&state->daemon);
  free(state);
  return 0;
}

/* ---- a worker's thread ---- */

struct worker {
  struct dlc_client *client;
  unsigned random;
  struct DLManagedTensorVersioned *held[N_HELD];
  uint64_t seeds[N_HELD];
  char name[32];
};

static unsigned pick(struct worker *worker, unsigned n)
{
  return (unsigned)rand_r(&worker->random) % n;
}

static const char *pick_name(struct worker *worker)
{
  (void)snprintf(worker->name, sizeof(worker->name), "name/%u", pick(worker, N_NAMES));
  return worker->name;
}

/* Return: whether it was done. Ends the process if it failed in any other way than
 * these. */
static bool succeeded(int r, const struct dlc_error *error)
{
  if (r == -DLC_E_DISCONNECTED || r == -DLC_E_NO_DAEMON || r == -DLC_E_NOT_FOUND)
    return false;
  test_ok(r, error);
  return true;
}

/* Bytes and attribute come from one seed. */
static void publish(struct worker *worker)
{
  struct dlc_publish_options options = test_lifetime(DLC_LIFETIME_PERSISTENT);
  struct DLManagedTensorVersioned *tensor;
  unsigned seed = pick(worker, 1000000);
  char text[16];
  struct dlc_attribute attribute = {SEED_KEY, text};
  int64_t shape[1] = {1 + pick(worker, 100000)};
  struct dlc_view prototype = {.device_type = kDLCPU,
                               .ndim = 1,
                               .dtype_code = kDLUInt,
                               .dtype_bits = 8,
                               .dtype_lanes = 1,
                               .shape = shape};
  struct dlc_error error;

  (void)snprintf(text, sizeof(text), "%u", seed);
  options.n_attributes = 1;
  options.attributes = &attribute;
  if (!succeeded(dlc_alloc(worker->client, &prototype, &options, &tensor, &error), &error))
    return;
  test_fill(tensor->dl_tensor.data, (size_t)shape[0], seed);
  (void)succeeded(dlc_publish(worker->client, pick_name(worker), tensor, &options, NULL, &error),
                  &error);
  test_drop(tensor);
}

static void hold(struct worker *worker)
{
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor;
  unsigned at = pick(worker, N_HELD);
  struct dlc_error error;

  options.access = pick(worker, 3) ? DLC_ACCESS_READ : DLC_ACCESS_PRIVATE;
  if (!succeeded(dlc_get(worker->client, pick_name(worker), &options, &tensor, &error), &error))
    return;
  if (worker->held[at]) {
    test_check(worker->held[at], worker->seeds[at]);
    test_drop(worker->held[at]);
  }
  worker->held[at] = tensor;
  worker->seeds[at] = strtoull(dlc_info_attribute(dlc_tensor_info(tensor), SEED_KEY), NULL, 10);
  test_check(tensor, worker->seeds[at]);
}

static void delete_one(struct worker *worker)
{
  struct dlc_error error;

  (void)succeeded(dlc_delete(worker->client, pick_name(worker), 0, NULL, &error), &error);
}

static void check_one(struct worker *worker)
{
  unsigned at = pick(worker, N_HELD);

  if (worker->held[at])
    test_check(worker->held[at], worker->seeds[at]);
}

static void *run_thread(void *context)
{
  static void (*const acts[])(struct worker * worker) = {publish, publish,    hold,     hold,
                                                         hold,    delete_one, check_one};
  struct worker *worker = context;

  for (;;)
    acts[pick(worker, TEST_ARRAY_SIZE(acts))](worker);
  return NULL;
}

struct start {
  const struct test_daemon *daemon;
  unsigned random;
};

static int work(void *context, struct test_pipe_ends *ends)
{
  const struct start *start = context;
  struct dlc_client *client = test_connect(start->daemon);
  static struct worker workers[N_THREADS];
  pthread_t thread;

  for (unsigned i = 0; i < N_THREADS; i++) {
    workers[i] = (struct worker){.client = client, .random = start->random * N_THREADS + i};
    assert_int_equal(pthread_create(&thread, NULL, run_thread, &workers[i]), 0);
  }
  test_tell(ends->out, 1);
  for (;;)
    (void)pause();
  return 0;
}

/* ---- the killing ---- */

/* One that has ended by itself has found something wrong. */
static void expect_workers_alive(const struct state *state)
{
  for (size_t i = 0; i < N_WORKERS; i++)
    assert_int_equal(waitpid(state->workers[i].pid, NULL, WNOHANG), 0);
}

static void wait_for_commits(const struct state *state)
{
  struct dlc_client *client = test_connect(&state->daemon);
  const struct timespec pause = {.tv_nsec = 1000000};
  int64_t deadline = test_now_us() + TEST_PATIENCE_MS * 1000;

  while (test_counter(client, "commits_total") < 10 && test_now_us() < deadline)
    (void)nanosleep(&pause, NULL);
  assert_true(test_counter(client, "commits_total") >= 10);
  assert_int_equal(test_counter(client, "protocol_errors_total"), 0);
  dlc_close(client);
}

static void clients_go_on_over_every_kill_of_the_daemon(void **ret_state)
{
  struct state *state = *ret_state;
  struct dlc_client *client;
  struct dlc_error error;

  for (unsigned i = 0; i < N_WORKERS; i++) {
    struct start start = {&state->daemon, i};

    test_child_start(&state->workers[i], work, &start);
    (void)test_hear(state->workers[i].from_child);
  }
  for (unsigned i = 0; i < N_KILLS * test_scale(); i++) {
    wait_for_commits(state);
    expect_workers_alive(state);
    test_daemon_kill(&state->daemon);
    test_daemon_start(&state->daemon);
  }
  wait_for_commits(state);
  expect_workers_alive(state);
  for (size_t i = 0; i < N_WORKERS; i++)
    test_child_kill(&state->workers[i]);
  client = test_connect(&state->daemon);
  test_wait_counter(client, "sessions", 1);
  (void)succeeded(dlc_delete(client, "/", 0, NULL, &error), &error);
  test_wait_counter(client, "bytes", 0);
  dlc_close(client);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(clients_go_on_over_every_kill_of_the_daemon, setup, teardown),
};

TEST_MAIN(tests)
