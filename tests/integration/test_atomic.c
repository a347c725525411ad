/*
 * Generations: what is published together is seen together. Nobody sees half of
 * it, starves, or loses an update.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define SIZE 5000

struct atomics {
  struct test_daemon daemon;
  struct dlc_client *client;
  struct test_child writer;
};

static int setup(void **state)
{
  struct atomics *atomics = calloc(1, sizeof(*atomics));

  assert_non_null(atomics);
  *state = atomics;
  test_daemon_init(&atomics->daemon, NULL);
  atomics->client = test_connect(&atomics->daemon);
  return 0;
}

static int teardown(void **state)
{
  struct atomics *atomics = *state;

  test_child_kill(&atomics->writer);
  dlc_close(atomics->client);
  test_daemon_deinit(&atomics->daemon);
  free(atomics);
  return 0;
}

/* ---- generations ---- */

#define N_NAMES 100
#define N_TRIES (TEST_IS_SANITIZED ? 2000 : 10000)
#define STARVING_US 5000000

static char names[N_NAMES][32];
static const char *name_list[N_NAMES];

static void make_names(void)
{
  for (unsigned i = 0; i < N_NAMES; i++) {
    (void)snprintf(names[i], sizeof(names[i]), "step/%03u", i);
    name_list[i] = names[i];
  }
}

/* Every tensor is eight times the number of the step. */
static void commit_step(struct dlc_client *client, int64_t step)
{
  struct dlc_publish_options options = test_lifetime(DLC_LIFETIME_PERSISTENT);
  int64_t values[8], shape[1] = {8};
  struct dlc_view view = {.data = values,
                          .device_type = kDLCPU,
                          .ndim = 1,
                          .dtype_code = kDLInt,
                          .dtype_bits = 64,
                          .dtype_lanes = 1,
                          .shape = shape};
  struct dlc_generation *generation;
  struct dlc_error error;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(values); i++)
    values[i] = step;
  test_ok(dlc_begin(client, &options, &generation, &error), &error);
  for (size_t i = 0; i < N_NAMES; i++)
    test_ok(dlc_add_copy(generation, names[i], &view, NULL, &error), &error);
  test_ok(dlc_commit(generation, NULL, &error), &error);
  dlc_generation_free(generation);
}

static int write_steps(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  commit_step(client, 1);
  test_tell(ends->out, 1);
  for (int64_t step = 2;; step++)
    commit_step(client, step);
  return 0;
}

/* Return: the step. Asserts that all tensors are of it, in every value. */
static int64_t whole_step(struct DLManagedTensorVersioned **tensors, size_t count)
{
  uint64_t version = dlc_tensor_info(tensors[0])->version;
  int64_t step = *(int64_t *)tensors[0]->dl_tensor.data;

  assert_int_equal(count, N_NAMES);
  for (size_t i = 0; i < count; i++) {
    const int64_t *values = tensors[i]->dl_tensor.data;

    assert_int_equal(dlc_tensor_info(tensors[i])->version, version);
    for (size_t k = 0; k < 8; k++)
      assert_int_equal(values[k], step);
  }
  return step;
}

static int64_t read_step(struct dlc_client *client, bool by_prefix)
{
  const char *const prefix[] = {"step/"};
  struct DLManagedTensorVersioned **tensors = NULL;
  struct dlc_error error;
  size_t count = 0;
  int64_t step;

  if (by_prefix)
    test_ok(dlc_get_many(client, prefix, 0, NULL, &tensors, &count, &error), &error);
  else
    test_ok(dlc_get_many(client, name_list, N_NAMES, NULL, &tensors, &count, &error), &error);
  step = whole_step(tensors, count);
  dlc_tensors_free(tensors, count);
  return step;
}

static void a_reader_never_sees_two_steps_mixed_and_never_starves(void **state)
{
  struct atomics *atomics = *state;
  int64_t last = 0, longest = 0;
  size_t n_steps = 0;

  test_child_start(&atomics->writer, write_steps, &atomics->daemon);
  (void)test_hear(atomics->writer.from_child);
  for (unsigned i = 0; i < N_TRIES * test_scale(); i++) {
    int64_t start = test_now_us(), took;
    int64_t step = read_step(atomics->client, i % 2);

    took = test_now_us() - start;
    longest = took > longest ? took : longest;
    assert_true(step >= last);
    n_steps += step > last;
    last = step;
  }
  test_child_kill(&atomics->writer);
  print_message("%lld steps written, %zu seen, longest wait %lld us\n", (long long)last, n_steps,
                (long long)longest);
  assert_true(n_steps > 1);
  assert_true(longest < STARVING_US);
}

#define N_KILLED_WRITERS 100

static void a_writer_killed_within_a_generation_leaves_a_whole_one(void **state)
{
  struct atomics *atomics = *state;
  unsigned random = 6;
  int64_t n_steps = 0;

  for (unsigned i = 0; i < N_KILLED_WRITERS * test_scale(); i++) {
    struct timespec pause = {.tv_nsec = 1000 * (long)(rand_r(&random) % 3000)};
    int64_t step;

    test_child_start(&atomics->writer, write_steps, &atomics->daemon);
    (void)test_hear(atomics->writer.from_child);
    (void)nanosleep(&pause, NULL);
    test_child_kill(&atomics->writer);
    step = read_step(atomics->client, i % 2);
    assert_true(step >= 1);
    n_steps += step;
  }
  /* They did get beyond the first one. */
  assert_true(n_steps > N_KILLED_WRITERS);
  test_wait_counter(atomics->client, "sessions", 1);
  assert_int_equal(test_counter(atomics->client, "tensors"), N_NAMES);
}

static void a_generation_that_is_given_up_was_never_there(void **state)
{
  struct atomics *atomics = *state;
  struct DLManagedTensorVersioned *tensor = test_alloc(atomics->client, SIZE, NULL);
  struct dlc_generation *generation;
  struct dlc_error error;

  test_ok(dlc_begin(atomics->client, NULL, &generation, &error), &error);
  test_ok(dlc_add(generation, "w", tensor, NULL, &error), &error);
  dlc_generation_free(generation);
  test_drop(tensor);
  test_wait_counter(atomics->client, "bytes", 0);
  assert_int_equal(test_counter(atomics->client, "tensors"), 0);
}

/* ---- only if the newest is ... ---- */

#define N_INCREMENTS 200
#define N_INCREMENTERS 2

static int64_t counter_value(const struct DLManagedTensorVersioned *tensor)
{
  return *(const int64_t *)tensor->dl_tensor.data;
}

static int put_counter(struct dlc_client *client, int64_t value, uint64_t expected,
                       struct dlc_error *error)
{
  struct dlc_publish_options options = test_lifetime(DLC_LIFETIME_PERSISTENT);
  struct dlc_view view = {.data = &value,
                          .device_type = kDLCPU,
                          .dtype_code = kDLInt,
                          .dtype_bits = 64,
                          .dtype_lanes = 1};

  options.flags = DLC_IF_NEWEST;
  options.expected = expected;
  return dlc_put(client, "counter", &view, &options, NULL, error);
}

static int increment(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  uint64_t n_conflicts = 0;

  for (int i = 0; i < N_INCREMENTS;) {
    struct DLManagedTensorVersioned *tensor = test_get(client, "counter", DLC_ACCESS_READ);
    struct dlc_error error;
    int r =
        put_counter(client, counter_value(tensor) + 1, dlc_tensor_info(tensor)->version, &error);

    test_drop(tensor);
    if (r == -DLC_E_CONFLICT) {
      n_conflicts++;
      continue;
    }
    test_ok(r, &error);
    i++;
  }
  test_tell(ends->out, n_conflicts);
  return 0;
}

static void writers_that_ask_for_the_newest_lose_no_update(void **state)
{
  struct atomics *atomics = *state;
  struct test_child writers[N_INCREMENTERS];
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  test_ok(put_counter(atomics->client, 0, 0, &error), &error);
  test_refused(put_counter(atomics->client, 0, 0, &error), DLC_E_CONFLICT, &error);
  for (size_t i = 0; i < N_INCREMENTERS; i++)
    test_child_start(&writers[i], increment, &atomics->daemon);
  for (size_t i = 0; i < N_INCREMENTERS; i++) {
    print_message("%llu conflicts\n", (unsigned long long)test_hear(writers[i].from_child));
    test_child_join(&writers[i]);
  }
  tensor = test_get(atomics->client, "counter", DLC_ACCESS_READ);
  assert_int_equal(counter_value(tensor), N_INCREMENTS * N_INCREMENTERS);
  test_drop(tensor);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_reader_never_sees_two_steps_mixed_and_never_starves, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_writer_killed_within_a_generation_leaves_a_whole_one, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_generation_that_is_given_up_was_never_there, setup, teardown),
    cmocka_unit_test_setup_teardown(writers_that_ask_for_the_newest_lose_no_update, setup,
                                    teardown),
};

int main(int argc, char **argv)
{
  make_names();
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
