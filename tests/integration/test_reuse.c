/*
 * Memory is used again while others look on: nobody sees a byte of another version, and
 * what is not used goes back to the host.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fds.h"
#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define N_READERS 3
#define N_ROUNDS 10000

struct reuse {
  struct test_daemon daemon;
  struct dlc_client *client;
  struct test_child readers[N_READERS];
};

static int setup(void **state)
{
  struct reuse *reuse = calloc(1, sizeof(*reuse));

  assert_non_null(reuse);
  *state = reuse;
  test_daemon_init(&reuse->daemon, NULL);
  reuse->client = test_connect(&reuse->daemon);
  return 0;
}

static int teardown(void **state)
{
  struct reuse *reuse = *state;

  for (size_t i = 0; i < N_READERS; i++)
    test_child_kill(&reuse->readers[i]);
  if (reuse->client)
    dlc_close(reuse->client);
  test_daemon_deinit(&reuse->daemon);
  free(reuse);
  return 0;
}

/* ---- tensors that say themselves what is in them ---- */

#define HEADER sizeof(uint64_t)

static void fill(void *bytes, size_t size, uint64_t seed)
{
  memcpy(bytes, &seed, HEADER);
  test_fill((uint8_t *)bytes + HEADER, size - HEADER, seed);
}

static uint64_t seed_of(const struct DLManagedTensorVersioned *tensor)
{
  uint64_t seed;

  memcpy(&seed, tensor->dl_tensor.data, HEADER);
  return seed;
}

static void check(const struct DLManagedTensorVersioned *tensor, uint64_t seed)
{
  size_t size = test_size_of(tensor) - HEADER;
  const uint8_t *bytes = tensor->dl_tensor.data;

  assert_int_equal(seed_of(tensor), seed);
  assert_int_equal(test_first_wrong(bytes + HEADER, size, seed), size);
}

static void put(struct dlc_client *client, const char *name, size_t size, uint64_t seed)
{
  int64_t shape[1] = {(int64_t)size};
  uint8_t *bytes = malloc(size);
  struct dlc_view view = {.data = bytes,
                          .device_type = kDLCPU,
                          .ndim = 1,
                          .dtype_code = kDLUInt,
                          .dtype_bits = 8,
                          .dtype_lanes = 1,
                          .shape = shape};
  struct dlc_error error;

  assert_non_null(bytes);
  fill(bytes, size, seed);
  test_ok(dlc_put(client, name, &view, NULL, NULL, &error), &error);
  free(bytes);
}

static struct DLManagedTensorVersioned *
publish_in_place(struct dlc_client *client, const char *name, size_t size, uint64_t seed)
{
  struct DLManagedTensorVersioned *tensor = test_alloc(client, size, NULL);
  struct dlc_error error;

  fill(tensor->dl_tensor.data, size, seed);
  test_ok(dlc_publish(client, name, tensor, NULL, NULL, &error), &error);
  return tensor;
}

static void name_of(unsigned i, char name[32])
{
  (void)snprintf(name, 32, "r/%u", i);
}

/* ---- readers beside a producer ---- */

#define N_NAMES 6
#define N_HELD 8

struct held {
  struct DLManagedTensorVersioned *tensor;
  uint64_t seed;
};

static void take_another(struct dlc_client *client, struct held *held, unsigned random)
{
  char name[32];

  if (held->tensor) {
    check(held->tensor, held->seed);
    test_drop(held->tensor);
  }
  name_of(random % N_NAMES, name);
  held->tensor = test_get(client, name, DLC_ACCESS_READ);
  held->seed = seed_of(held->tensor);
  check(held->tensor, held->seed);
}

static bool is_over(struct dlc_client *client)
{
  struct dlc_info *info = NULL;
  struct dlc_error error;

  if (dlc_stat(client, "over", &info, &error) < 0)
    return false;
  dlc_info_free(info);
  return true;
}

static int hold_at_random(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  struct held held[N_HELD] = {{NULL, 0}};
  unsigned random = (unsigned)getpid();

  test_tell(ends->out, 1);
  for (uint64_t n = 0; n % 16 != 0 || !is_over(client); n++)
    take_another(client, &held[(unsigned)rand_r(&random) % N_HELD], (unsigned)rand_r(&random));
  for (size_t i = 0; i < N_HELD; i++) {
    if (!held[i].tensor)
      continue;
    check(held[i].tensor, held[i].seed);
    test_drop(held[i].tensor);
  }
  dlc_close(client);
  return 0;
}

/* Inline, in shared segments, in segments of their own, by copy and in place. */
static void replace_one(struct dlc_client *client, unsigned i, uint64_t seed)
{
  static const size_t sizes[N_NAMES] = {1000, 20 * KIB, 50 * KIB, 3000, 40 * KIB, 100 * KIB};
  char name[32];

  name_of(i, name);
  if (i < 3)
    put(client, name, sizes[i] + seed % 500, seed);
  else
    test_drop(publish_in_place(client, name, sizes[i] + seed % 500, seed));
}

static void held_versions_never_change_while_other_memory_is_used_again(void **state)
{
  struct reuse *reuse = *state;
  uint64_t seed = 1, made;

  for (unsigned i = 0; i < N_NAMES; i++)
    replace_one(reuse->client, i, seed++);
  for (size_t i = 0; i < N_READERS; i++) {
    test_child_start(&reuse->readers[i], hold_at_random, &reuse->daemon);
    (void)test_hear(reuse->readers[i].from_child);
  }
  for (unsigned round = 0; round < N_ROUNDS * test_scale(); round++)
    replace_one(reuse->client, round % N_NAMES, seed++);
  made = test_counter(reuse->client, "segments_made_total");
  assert_true(made < 20);
  assert_true(test_counter(reuse->client, "blocks_reused_total") > N_ROUNDS / 2);
  put(reuse->client, "over", 100, 0);
  for (size_t i = 0; i < N_READERS; i++)
    test_child_join(&reuse->readers[i]);
}

/* ---- what the producer itself keeps ---- */

static void the_pointer_of_a_producer_stays_valid_after_its_version_is_gone(void **state)
{
  struct reuse *reuse = *state;
  struct DLManagedTensorVersioned *first = publish_in_place(reuse->client, "w", 10 * KIB, 1);

  for (uint64_t seed = 2; seed < 200; seed++)
    test_drop(publish_in_place(reuse->client, "w", 10 * KIB, seed));
  check(first, 1);
  test_drop(first);
  for (uint64_t seed = 200; seed < 300; seed++)
    test_drop(publish_in_place(reuse->client, "w", 10 * KIB, seed));
  assert_true(test_counter(reuse->client, "blocks_reused_total") > 200);
}

static int check_when_told(void *context, struct test_pipe_ends *ends)
{
  struct DLManagedTensorVersioned *tensor = context;

  (void)test_hear(ends->in);
  check(tensor, 1);
  return 0;
}

static void a_child_of_the_producer_reads_what_it_could_when_it_was_forked(void **state)
{
  struct reuse *reuse = *state;
  struct DLManagedTensorVersioned *tensor = publish_in_place(reuse->client, "w", 10 * KIB, 1);

  test_child_start(&reuse->readers[0], check_when_told, tensor);
  test_drop(tensor);
  for (uint64_t seed = 2; seed < 200; seed++)
    test_drop(publish_in_place(reuse->client, "w", 10 * KIB, seed));
  test_tell(reuse->readers[0].to_child, 1);
  test_child_join(&reuse->readers[0]);
}

static void memory_that_comes_again_is_writable_until_it_is_published(void **state)
{
  struct reuse *reuse = *state;
  struct DLManagedTensorVersioned *tensor;

  for (uint64_t seed = 0; seed < 50; seed++)
    test_drop(publish_in_place(reuse->client, "w", 10 * KIB, seed));
  tensor = test_alloc(reuse->client, 10 * KIB, NULL);
  memset(tensor->dl_tensor.data, 1, 10 * KIB);
  test_drop(tensor);
  assert_true(test_counter(reuse->client, "blocks_reused_total") >= 48);
}

static int write_to_what_was_published(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  struct DLManagedTensorVersioned *tensor = NULL;

  for (uint64_t seed = 0; seed < 10; seed++) {
    if (tensor)
      test_drop(tensor);
    tensor = publish_in_place(client, "w", 10 * KIB, seed);
  }
  *(volatile uint8_t *)tensor->dl_tensor.data = 1;
  return 0;
}

static void a_write_to_recycled_memory_that_was_published_is_stopped(void **state)
{
  struct reuse *reuse = *state;

  test_child_start(&reuse->readers[0], write_to_what_was_published, &reuse->daemon);
  test_child_join_signal(&reuse->readers[0], SIGSEGV);
}

/* ---- bounds ---- */

static void a_loop_of_puts_makes_few_segments(void **state)
{
  static const size_t sizes[] = {100, 20 * KIB, 200 * KIB, 17 * MIB};
  static const unsigned rounds[] = {2000, 2000, 1000, 50};
  struct reuse *reuse = *state;
  uint64_t before = test_counter(reuse->client, "segments_made_total");

  for (size_t i = 0; i < TEST_ARRAY_SIZE(sizes); i++)
    for (unsigned round = 0; round < rounds[i]; round++)
      put(reuse->client, "w", sizes[i], round);
  assert_true(test_counter(reuse->client, "segments_made_total") - before <= 4);
}

static void a_thousand_short_lived_producers_need_few_descriptors(void **state)
{
  struct reuse *reuse = *state;
  struct dlc_publish_options options = test_lifetime(DLC_LIFETIME_PERSISTENT);
  size_t before = test_count_fds_of(reuse->daemon.pid);
  struct dlc_error error;
  char name[32];

  for (unsigned i = 0; i < 1000; i++) {
    struct dlc_client *client = test_connect(&reuse->daemon);

    name_of(i, name);
    (void)test_put(client, name, 3000, i, &options);
    dlc_close(client);
  }
  test_wait_counter(reuse->client, "sessions", 1);
  assert_true(test_count_fds_of(reuse->daemon.pid) <= before + 2);
  for (unsigned i = 0; i < 1000; i += 99) {
    struct DLManagedTensorVersioned *tensor;

    name_of(i, name);
    tensor = test_get(reuse->client, name, DLC_ACCESS_READ);
    test_check(tensor, i);
    test_drop(tensor);
  }
  test_ok(dlc_delete(reuse->client, "/", 0, NULL, &error), &error);
}

static void memory_is_back_soon_after_everything_was_deleted(void **state)
{
  static const size_t sizes[] = {100, 20 * KIB, 200 * KIB, 17 * MIB};
  struct reuse *reuse = *state;
  struct dlc_client *watcher = test_connect(&reuse->daemon);
  struct test_baseline before;
  struct dlc_error error;
  char name[32];
  size_t maps;

  before = test_baseline_take(watcher, &reuse->daemon);
  maps = test_count_maps_of("dlpackd:");
  for (unsigned i = 0; i < 40; i++) {
    name_of(i, name);
    put(reuse->client, name, sizes[i % TEST_ARRAY_SIZE(sizes)], i);
    name_of(100 + i, name);
    test_drop(publish_in_place(reuse->client, name, 100 * KIB, i));
  }
  test_ok(dlc_delete(reuse->client, "/", 0, NULL, &error), &error);
  test_baseline_memory(watcher, &reuse->daemon, &before);
  /* And the producer learns of it with its next call. */
  test_ok(dlc_ping(reuse->client, NULL, &error), &error);
  assert_int_equal(test_count_maps_of("dlpackd:"), maps);
  dlc_close(watcher);
}

static void deleting_most_of_many_leaves_room_for_as_many_again(void **state)
{
  struct reuse *reuse = *state;
  unsigned random = 1;
  uint64_t bytes;
  char name[32];

  for (unsigned i = 0; i < 5000; i++) {
    name_of(i, name);
    put(reuse->client, name, 1000, i);
  }
  bytes = test_counter(reuse->client, "bytes");
  for (unsigned i = 0; i < 5000; i++) {
    name_of(i, name);
    if (rand_r(&random) % 10 != 0)
      test_delete(reuse->client, name);
  }
  for (unsigned i = 5000; i < 9000; i++) {
    name_of(i, name);
    put(reuse->client, name, 1000, i);
  }
  assert_int_equal(test_counter(reuse->client, "bytes"), bytes);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(held_versions_never_change_while_other_memory_is_used_again),
    CASE(the_pointer_of_a_producer_stays_valid_after_its_version_is_gone),
    CASE(a_child_of_the_producer_reads_what_it_could_when_it_was_forked),
    CASE(memory_that_comes_again_is_writable_until_it_is_published),
    CASE(a_write_to_recycled_memory_that_was_published_is_stopped),
    CASE(a_loop_of_puts_makes_few_segments),
    CASE(a_thousand_short_lived_producers_need_few_descriptors),
    CASE(memory_is_back_soon_after_everything_was_deleted),
    CASE(deleting_most_of_many_leaves_room_for_as_many_again),
};

TEST_MAIN(tests)
