/*
 * What other systems lost in the long run: memory, mappings, descriptors, names.
 * Each test is the report it comes from, tried on this one.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/fds.h"
#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define MIB ((size_t)1 << 20)
#define MAX_BYTES "64M"

struct leaks {
  struct test_daemon daemon;
  struct dlc_client *client;
  struct test_baseline before;
  size_t n_shm;
};

static int start(void **state, const char *const *arguments)
{
  struct leaks *leaks = calloc(1, sizeof(*leaks));

  assert_non_null(leaks);
  *state = leaks;
  test_daemon_init(&leaks->daemon, arguments);
  leaks->client = test_connect(&leaks->daemon);
  leaks->before = test_baseline_take(leaks->client, &leaks->daemon);
  leaks->n_shm = test_count_shm(&leaks->daemon);
  return 0;
}

static int setup(void **state)
{
  return start(state, NULL);
}

static int setup_limited(void **state)
{
  static const char *const arguments[] = {"--max-bytes", MAX_BYTES, NULL};

  return start(state, arguments);
}

static int setup_posix_shm(void **state)
{
  static const char *const arguments[] = {"--storage", "posix-shm", NULL};

  return start(state, arguments);
}

static int teardown(void **state)
{
  struct leaks *leaks = *state;

  dlc_close(leaks->client);
  test_daemon_deinit(&leaks->daemon);
  free(leaks);
  return 0;
}

static void wait_as_before(struct leaks *leaks)
{
  test_baseline_memory(leaks->client, &leaks->daemon, &leaks->before);
  assert_int_equal(test_count_shm(&leaks->daemon), leaks->n_shm);
}

/* ---- limits ---- */

static int allocate_and_fill_a_half(void *context, struct test_pipe_ends *ends)
{
  struct DLManagedTensorVersioned *tensor = test_alloc(test_connect(context), 40 * MIB, NULL);

  test_fill(tensor->dl_tensor.data, 20 * MIB, 1);
  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  return 0;
}

static int count_names(void *context, const struct dlc_info *info)
{
  ++*(size_t *)context;
  return 0;
}

/* Field case 1. */
static void memory_that_was_never_published_comes_back_from_the_dead(void **state)
{
  struct leaks *leaks = *state;
  struct dlc_list_options options = DLC_LIST_OPTIONS_INIT;
  struct dlc_error error;
  size_t n_names = 0;

  for (int i = 0; i < 11; i++) {
    struct test_child child;

    test_child_start(&child, allocate_and_fill_a_half, &leaks->daemon);
    (void)test_hear(child.from_child);
    test_child_kill(&child);
    wait_as_before(leaks);
  }
  options.flags = DLC_LIST_ALL_OWNERS | DLC_LIST_RETIRED;
  test_ok(dlc_list(leaks->client, &options, count_names, &n_names, &error), &error);
  assert_int_equal(n_names, 0);
}

/* Field case 7. */
static void a_daemon_that_was_full_shrinks_again(void **state)
{
  struct leaks *leaks = *state;
  struct dlc_error error;
  char name[32];

  for (int round = 0; round < 3; round++) {
    for (unsigned i = 0; i < 62; i++) {
      (void)snprintf(name, sizeof(name), "full/%u", i);
      (void)test_put(leaks->client, name, i % 2 ? MIB : MIB / 2, i, NULL);
    }
    test_ok(dlc_delete(leaks->client, "full/", 0, NULL, &error), &error);
    wait_as_before(leaks);
  }
}

/* Field case 22. */
static void a_create_that_is_refused_leaves_no_entry(void **state)
{
  struct leaks *leaks = *state;
  struct dlc_view prototype;
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;
  int64_t shape[1] = {65 << 20};
  float nothing = 0;

  prototype = test_view_f32(&nothing, shape, 1);
  prototype.strides = (const int64_t[]){0};
  test_refused(dlc_put(leaks->client, "w", &prototype, NULL, NULL, &error), DLC_E_NO_SPACE, &error);
  options.timeout_ms = 100;
  test_refused(dlc_get(leaks->client, "w", &options, &tensor, &error), DLC_E_TIMEOUT, &error);
  test_refused(dlc_get(leaks->client, "w", NULL, &tensor, &error), DLC_E_NOT_FOUND, &error);
  (void)test_put(leaks->client, "w", MIB, 1, NULL);
  tensor = test_get(leaks->client, "w", DLC_ACCESS_READ);
  test_check(tensor, 1);
  test_drop(tensor);
  test_delete(leaks->client, "w");
  wait_as_before(leaks);
}

/* ---- long loops in one process ---- */

#define N_ROUNDS 2000
#define N_WARM_UP 100
#define GROWTH_KIB 1024 /* what an allocator may keep for itself */

static void create_publish_release_delete(struct dlc_client *client, unsigned round)
{
  struct DLManagedTensorVersioned *tensor = test_alloc(client, MIB, NULL);
  struct dlc_error error;

  *(unsigned *)tensor->dl_tensor.data = round;
  test_ok(dlc_publish(client, "w", tensor, NULL, NULL, &error), &error);
  test_drop(tensor);
  tensor = test_get(client, "w", DLC_ACCESS_READ);
  assert_int_equal(*(unsigned *)tensor->dl_tensor.data, round);
  test_drop(tensor);
  test_delete(client, "w");
}

/* Field case 8. */
static void a_process_that_publishes_for_ever_does_not_grow(void **state)
{
  struct leaks *leaks = *state;
  size_t maps, fds;
  uint64_t resident;

  for (unsigned i = 0; i < N_WARM_UP; i++)
    create_publish_release_delete(leaks->client, i);
  resident = test_rss_kib(getpid());
  maps = test_count_maps_of("dlpackd");
  fds = test_count_fds();
  for (unsigned i = 0; i < N_ROUNDS * test_scale(); i++)
    create_publish_release_delete(leaks->client, i);
  assert_true(test_count_maps_of("dlpackd") <= maps);
  assert_int_equal(test_count_fds(), fds);
  /* A sanitizer keeps what was freed. */
  if (!TEST_IS_SANITIZED)
    assert_true(test_rss_kib(getpid()) < resident + GROWTH_KIB);
}

/* Field case 15, and reliability report 25: descriptors' numbers are used again, segments'
 * ids are not. */
static void a_reader_that_keeps_mappings_never_sees_another_segment(void **state)
{
  struct leaks *leaks = *state;
  struct dlc_publish_options own_segment = DLC_PUBLISH_OPTIONS_INIT;
  struct dlc_client *consumer = test_connect(&leaks->daemon);
  struct DLManagedTensorVersioned *held[8] = {NULL};
  uint64_t seeds[8] = {0};
  unsigned random = 15;

  own_segment.flags = DLC_FROZEN;
  for (unsigned i = 0; i < N_ROUNDS * test_scale(); i++) {
    size_t at = (size_t)rand_r(&random) % TEST_ARRAY_SIZE(held);
    size_t size = 1 + (size_t)rand_r(&random) % 20000;

    if (held[at]) {
      test_check(held[at], seeds[at]);
      test_drop(held[at]);
    }
    (void)test_put(leaks->client, "w", size, i, rand_r(&random) % 2 ? &own_segment : NULL);
    held[at] = test_get(consumer, "w", DLC_ACCESS_READ);
    seeds[at] = i;
    test_check(held[at], i);
    if (rand_r(&random) % 3 == 0)
      test_delete(leaks->client, "w");
  }
  for (size_t at = 0; at < TEST_ARRAY_SIZE(held); at++)
    if (held[at])
      test_drop(held[at]);
  dlc_close(consumer);
}

/* ---- descriptors ---- */

#define N_TENSORS 200
#define NOFILE_LIMIT 64

static void name_of(unsigned i, char *name, size_t size)
{
  (void)snprintf(name, size, "many/%u", i);
}

static void limit_descriptors(void)
{
  struct rlimit limit = {NOFILE_LIMIT, NOFILE_LIMIT};

  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Holds all of them at once, and nothing more than it may have open. */
static int get_one_by_one_with_few_descriptors(void *context, struct test_pipe_ends *ends)
{
  struct DLManagedTensorVersioned *held[N_TENSORS];
  struct dlc_client *client;
  char name[32];

  limit_descriptors();
  client = test_connect(context);
  for (unsigned i = 0; i < N_TENSORS; i++) {
    name_of(i, name, sizeof(name));
    held[i] = test_get(client, name, DLC_ACCESS_READ);
  }
  for (unsigned i = 0; i < N_TENSORS; i++) {
    test_check(held[i], i);
    test_drop(held[i]);
  }
  return 0;
}

static void open_all_descriptors(void)
{
  while (dup(0) >= 0)
    ;
  assert_int_equal(errno, EMFILE);
}

static void close_descriptors_from(int first)
{
  for (int fd = first; fd < NOFILE_LIMIT; fd++)
    (void)close(fd);
}

static int get_with_no_descriptor_left(void *context, struct test_pipe_ends *ends)
{
  struct DLManagedTensorVersioned **tensors = NULL;
  struct DLManagedTensorVersioned *tensor = NULL;
  const char *const prefix[] = {"many/"};
  struct dlc_client *client;
  struct dlc_error error;
  size_t count = 0;
  int first;

  limit_descriptors();
  client = test_connect(context);
  first = dup(0);
  open_all_descriptors();
  test_refused(dlc_get(client, "many/0", NULL, &tensor, &error), DLC_E_SYSTEM, &error);
  assert_int_equal(error.os_errno, EMFILE);
  test_refused(dlc_get_many(client, prefix, 0, NULL, &tensors, &count, &error), DLC_E_SYSTEM,
               &error);
  assert_int_equal(test_counter(client, "leases"), 0);
  close_descriptors_from(first);
  tensor = test_get(client, "many/0", DLC_ACCESS_READ);
  test_check(tensor, 0);
  test_drop(tensor);
  test_ok(dlc_get_many(client, prefix, 0, NULL, &tensors, &count, &error), &error);
  assert_int_equal(count, N_TENSORS);
  dlc_tensors_free(tensors, count);
  return 0;
}

static void put_many(struct leaks *leaks, uint32_t flags)
{
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  char name[32];

  options.flags = flags;
  for (unsigned i = 0; i < N_TENSORS; i++) {
    name_of(i, name, sizeof(name));
    (void)test_put(leaks->client, name, 5000, i, &options);
  }
}

static void expect_in_child(struct leaks *leaks,
                            int (*function)(void *context, struct test_pipe_ends *ends))
{
  struct test_child child;

  test_child_start(&child, function, &leaks->daemon);
  test_child_join(&child);
}

/* Field case 14. */
static void two_hundred_tensors_need_no_descriptors(void **state)
{
  put_many(*state, 0);
  expect_in_child(*state, get_one_by_one_with_few_descriptors);
}

/* Field case 14. */
static void two_hundred_segments_need_no_descriptors(void **state)
{
  put_many(*state, DLC_FROZEN);
  expect_in_child(*state, get_one_by_one_with_few_descriptors);
}

/* Field case 14, and reliability report 12. */
static void at_the_descriptor_limit_a_get_says_so_and_works_again_below_it(void **state)
{
  put_many(*state, 0);
  expect_in_child(*state, get_with_no_descriptor_left);
}

/* ---- names in /dev/shm ---- */

/* Only those of this daemon: there may be another one on the host. */
static size_t remove_names(const struct test_daemon *daemon)
{
  static const char start[] = "/dev/shm/dlpackd-";
  char path[64], target[256];
  size_t n_removed = 0;

  for (int fd = 0; fd < 1024; fd++) {
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)daemon->pid, fd);
    n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    if (strncmp(target, start, strlen(start)) == 0)
      n_removed += unlink(target) == 0;
  }
  return n_removed;
}

static void expect_use_over_removed_names(struct leaks *leaks, size_t n_names)
{
  struct dlc_client *consumer = test_connect(&leaks->daemon);
  struct DLManagedTensorVersioned *held, *late;
  size_t n;

  (void)test_put(leaks->client, "w", MIB, 1, NULL);
  held = test_get(consumer, "w", DLC_ACCESS_READ);
  n = remove_names(&leaks->daemon);
  assert_int_equal(n, n_names);
  test_check(held, 1);
  late = test_get(consumer, "w", DLC_ACCESS_PRIVATE);
  test_check(late, 1);
  (void)test_put(leaks->client, "w", MIB, 2, NULL);
  test_drop(held);
  test_drop(late);
  held = test_get(consumer, "w", DLC_ACCESS_READ);
  test_check(held, 2);
  test_drop(held);
  test_delete(leaks->client, "w");
  dlc_close(consumer);
  wait_as_before(leaks);
}

/* Field case 9, and reliability report 22. */
static void nothing_lies_in_dev_shm_unless_asked_for(void **state)
{
  expect_use_over_removed_names(*state, 0);
}

/* Field case 9, and reliability report 22. */
static void names_that_somebody_removes_are_not_missed(void **state)
{
  expect_use_over_removed_names(*state, 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(memory_that_was_never_published_comes_back_from_the_dead,
                                    setup_limited, teardown),
    cmocka_unit_test_setup_teardown(a_daemon_that_was_full_shrinks_again, setup_limited, teardown),
    cmocka_unit_test_setup_teardown(a_create_that_is_refused_leaves_no_entry, setup_limited,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_process_that_publishes_for_ever_does_not_grow, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_reader_that_keeps_mappings_never_sees_another_segment, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(two_hundred_tensors_need_no_descriptors, setup, teardown),
    cmocka_unit_test_setup_teardown(two_hundred_segments_need_no_descriptors, setup, teardown),
    cmocka_unit_test_setup_teardown(at_the_descriptor_limit_a_get_says_so_and_works_again_below_it,
                                    setup, teardown),
    cmocka_unit_test_setup_teardown(nothing_lies_in_dev_shm_unless_asked_for, setup, teardown),
    cmocka_unit_test_setup_teardown(names_that_somebody_removes_are_not_missed, setup_posix_shm,
                                    teardown),
};

TEST_MAIN(tests)
