/*
 * A thousand processes, killed at random instants of whatever they were doing.
 *
 * The seed is fixed, so the same things are done in the same order; the instants
 * are the scheduler's. Persistent tensors say in an attribute which bytes they
 * must have: attribute and bytes are published together or not at all.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define N_WORKERS 4
#define N_KILLS 1000
#define N_NAMES 8
#define SEED 20240229
#define SEED_KEY "seed"

struct kills {
  struct test_daemon daemon;
  struct dlc_client *watcher;
  struct test_baseline before;
  unsigned random;
};

static int start(void **state, const char *const *arguments)
{
  struct kills *kills = calloc(1, sizeof(*kills));

  assert_non_null(kills);
  *state = kills;
  test_daemon_init(&kills->daemon, arguments);
  kills->watcher = test_connect(&kills->daemon);
  kills->before = test_baseline_take(kills->watcher, &kills->daemon);
  kills->random = SEED;
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
  struct kills *kills = *state;

  dlc_close(kills->watcher);
  test_daemon_deinit(&kills->daemon);
  free(kills);
  return 0;
}

/* ---- a worker ---- */

struct worker {
  const struct test_daemon *daemon;
  unsigned random;
  struct dlc_client *client;
  struct DLManagedTensorVersioned *held[4];
  char name[32];
};

static unsigned pick(unsigned *random, unsigned n)
{
  return (unsigned)rand_r(random) % n;
}

static size_t pick_size(struct worker *worker)
{
  static const size_t most[] = {100, 10000, 300 << 10, 2 << 20};

  return 1 + pick(&worker->random, (unsigned)most[pick(&worker->random, 4)]);
}

static const char *pick_name(struct worker *worker)
{
  (void)snprintf(worker->name, sizeof(worker->name), "kill/%u", pick(&worker->random, N_NAMES));
  return worker->name;
}

/* Others delete as well. */
static void expect_there_or_not(int r, const struct dlc_error *error)
{
  if (r != -DLC_E_NOT_FOUND)
    test_ok(r, error);
}

static void put_persistent(struct worker *worker)
{
  struct dlc_publish_options options = test_lifetime(DLC_LIFETIME_PERSISTENT);
  unsigned seed = pick(&worker->random, 1000000);
  char text[16];
  struct dlc_attribute attribute = {SEED_KEY, text};

  (void)snprintf(text, sizeof(text), "%u", seed);
  options.n_attributes = 1;
  options.attributes = &attribute;
  (void)test_put(worker->client, pick_name(worker), pick_size(worker), seed, &options);
}

static void put_for_the_session(struct worker *worker)
{
  (void)snprintf(worker->name, sizeof(worker->name), "session/%u", pick(&worker->random, N_NAMES));
  (void)test_put(worker->client, worker->name, pick_size(worker), 1, NULL);
}

static void publish_in_place(struct worker *worker)
{
  struct DLManagedTensorVersioned *tensor = test_alloc(worker->client, pick_size(worker), NULL);
  struct dlc_error error;

  test_fill(tensor->dl_tensor.data, test_size_of(tensor), 1);
  test_ok(dlc_publish(worker->client, "session/in-place", tensor, NULL, NULL, &error), &error);
  test_drop(tensor);
}

static void hold(struct worker *worker)
{
  unsigned at = pick(&worker->random, TEST_ARRAY_SIZE(worker->held));
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct dlc_error error;

  if (worker->held[at])
    test_drop(worker->held[at]);
  worker->held[at] = NULL;
  options.access = pick(&worker->random, 2) ? DLC_ACCESS_READ : DLC_ACCESS_PRIVATE;
  expect_there_or_not(
      dlc_get(worker->client, pick_name(worker), &options, &worker->held[at], &error), &error);
}

static void delete (struct worker *worker)
{
  struct dlc_error error;

  expect_there_or_not(dlc_delete(worker->client, pick_name(worker), 0, NULL, &error), &error);
}

static void commit_many(struct worker *worker)
{
  struct dlc_publish_options options = test_lifetime(DLC_LIFETIME_SESSION);
  struct dlc_generation *generation;
  struct dlc_error error;
  char name[32];

  test_ok(dlc_begin(worker->client, &options, &generation, &error), &error);
  for (unsigned i = 0; i < 20; i++) {
    struct DLManagedTensorVersioned *tensor = test_alloc(worker->client, 100, NULL);

    (void)snprintf(name, sizeof(name), "session/many/%u", i);
    test_ok(dlc_add(generation, name, tensor, NULL, &error), &error);
    test_drop(tensor);
  }
  test_ok(dlc_commit(generation, NULL, &error), &error);
  dlc_generation_free(generation);
}

static void reconnect(struct worker *worker)
{
  dlc_close(worker->client);
  worker->client = test_connect(worker->daemon);
}

static int work(void *context, struct test_pipe_ends *ends)
{
  static void (*const acts[])(struct worker * worker) = {
      put_persistent, put_persistent, put_for_the_session, publish_in_place, hold,
      hold,           delete,         commit_many,         reconnect,
  };
  struct worker *worker = context;

  worker->client = test_connect(worker->daemon);
  for (;;)
    acts[pick(&worker->random, TEST_ARRAY_SIZE(acts))](worker);
  return 0;
}

/* ---- the killing ---- */

static void start_worker(struct kills *kills, struct test_child *child)
{
  struct worker worker = {.daemon = &kills->daemon, .random = kills->random++};

  test_child_start(child, work, &worker);
}

/* One that has ended by itself has found something wrong. */
static void kill_worker(struct test_child *child)
{
  if (child->pid > 0)
    assert_int_equal(waitpid(child->pid, NULL, WNOHANG), 0);
  test_child_kill(child);
}

static int count_and_check(void *context, const struct dlc_info *info)
{
  struct kills *kills = context;
  const char *seed = dlc_info_attribute(info, SEED_KEY);
  struct DLManagedTensorVersioned *tensor = test_get(kills->watcher, info->name, DLC_ACCESS_READ);

  assert_int_equal(info->lifetime, DLC_LIFETIME_PERSISTENT);
  assert_non_null(seed);
  assert_int_equal(dlc_tensor_info(tensor)->version, info->version);
  test_check(tensor, strtoull(seed, NULL, 10));
  test_drop(tensor);
  return 0;
}

static void kill_and_compare(struct kills *kills, unsigned n_kills)
{
  struct test_child children[N_WORKERS] = {{0}};
  unsigned random = SEED;
  struct dlc_error error;

  for (unsigned i = 0; i < n_kills; i++) {
    struct timespec pause = {.tv_nsec = 1000 * (long)pick(&random, 6000)};
    struct test_child *child = &children[i % N_WORKERS];

    kill_worker(child);
    start_worker(kills, child);
    (void)nanosleep(&pause, NULL);
  }
  for (size_t i = 0; i < N_WORKERS; i++)
    kill_worker(&children[i]);
  test_wait_counter(kills->watcher, "sessions", 1);
  assert_true(test_counter(kills->watcher, "commits_total") > n_kills / 10);
  assert_int_equal(test_counter(kills->watcher, "tensors"),
                   test_counter(kills->watcher, "tensors_persistent"));
  test_ok(dlc_list(kills->watcher, NULL, count_and_check, kills, &error), &error);
  test_ok(dlc_delete(kills->watcher, "/", 0, NULL, &error), &error);
  test_baseline_soon(kills->watcher, &kills->daemon, &kills->before);
}

static void a_thousand_kills_leave_what_is_persistent_and_nothing_else(void **state)
{
  kill_and_compare(*state, N_KILLS * test_scale());
}

/* Reliability report 24. */
static void kills_leave_no_names_in_dev_shm(void **state)
{
  size_t n_shm = test_count_shm(*state);

  kill_and_compare(*state, N_KILLS / 5 * test_scale());
  assert_int_equal(test_count_shm(*state), n_shm);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_thousand_kills_leave_what_is_persistent_and_nothing_else,
                                    setup, teardown),
    cmocka_unit_test_setup_teardown(kills_leave_no_names_in_dev_shm, setup_posix_shm, teardown),
};

TEST_MAIN(tests)
