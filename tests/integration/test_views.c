/* Who may write what: READ, PRIVATE and SHARED views, and the producer's own pages. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/tensors.h"
#include "support/test.h"

#define SMALL 4096
#define LARGE (300 << 10) /* a PRIVATE view of it is a mapping, not a copy */

struct views {
  struct test_daemon daemon;
  struct dlc_client *client;
};

static int setup(void **state)
{
  struct views *views = calloc(1, sizeof(*views));

  assert_non_null(views);
  *state = views;
  test_daemon_init(&views->daemon, NULL);
  views->client = test_connect(&views->daemon);
  return 0;
}

static int teardown(void **state)
{
  struct views *views = *state;

  dlc_close(views->client);
  test_daemon_deinit(&views->daemon);
  free(views);
  return 0;
}

static void expect_death_by_writing(struct views *views,
                                    int (*function)(void *context, struct test_pipe_ends *ends))
{
  struct test_child child;

  test_child_start(&child, function, &views->daemon);
  test_child_join_signal(&child, SIGSEGV);
}

static volatile uint8_t *bytes_of(const struct DLManagedTensorVersioned *tensor)
{
  return tensor->dl_tensor.data;
}

/* ---- READ ---- */

static int write_to_what_was_got(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  bytes_of(test_get(client, "w", DLC_ACCESS_READ))[0] = 0;
  return 0;
}

static void a_write_through_a_read_view_stops_another_process_of_the_same_user(void **state)
{
  struct views *views = *state;
  struct DLManagedTensorVersioned *tensor;

  (void)test_put(views->client, "w", SMALL, 1, NULL);
  expect_death_by_writing(views, write_to_what_was_got);
  tensor = test_get(views->client, "w", DLC_ACCESS_READ);
  test_check(tensor, 1);
  test_drop(tensor);
}

static int write_to_what_this_process_published(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  (void)test_put(client, "w", SMALL, 1, NULL);
  bytes_of(test_get(client, "w", DLC_ACCESS_READ))[0] = 0;
  return 0;
}

static void a_write_through_its_own_get_stops_the_producer(void **state)
{
  expect_death_by_writing(*state, write_to_what_this_process_published);
}

static uint8_t *page_of(const struct DLManagedTensorVersioned *tensor)
{
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

  return (uint8_t *)((uintptr_t)tensor->dl_tensor.data & ~(page - 1));
}

static void a_read_view_cannot_be_made_writable_or_punched(void **state)
{
  struct views *views = *state;
  struct DLManagedTensorVersioned *tensor;

  (void)test_put(views->client, "w", SMALL, 1, NULL);
  tensor = test_get(views->client, "w", DLC_ACCESS_READ);
  assert_int_equal(mprotect(page_of(tensor), SMALL, PROT_READ | PROT_WRITE), -1);
  assert_int_equal(errno, EACCES);
  assert_int_equal(madvise(page_of(tensor), SMALL, MADV_REMOVE), -1);
  test_check(tensor, 1);
  test_drop(tensor);
}

/* Whatever a process of the same user, or root, can do with a segment that it has
 * opened. Return: whether any of it would have changed a byte. */
static bool can_be_changed_by(int fd)
{
  long page = sysconf(_SC_PAGESIZE);
  void *base = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  bool is_writable = base != MAP_FAILED;

  if (base != MAP_FAILED)
    (void)munmap(base, (size_t)page);
  base = mmap(NULL, (size_t)page, PROT_READ, MAP_SHARED, fd, 0);
  if (base != MAP_FAILED) {
    is_writable |= mprotect(base, (size_t)page, PROT_READ | PROT_WRITE) == 0;
    (void)munmap(base, (size_t)page);
  }
  is_writable |= pwrite(fd, "x", 1, 0) == 1;
  is_writable |= fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, page) == 0;
  is_writable |= fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, page) == 0;
  is_writable |= ftruncate(fd, 0) == 0;
  return is_writable;
}

static void expect_no_way_to_change(const char *path)
{
  static const int ways[] = {O_RDWR, O_WRONLY, O_RDWR | O_TRUNC};

  for (size_t i = 0; i < TEST_ARRAY_SIZE(ways); i++) {
    int fd = open(path, ways[i] | O_CLOEXEC);
    bool can_be_changed = fd >= 0 && can_be_changed_by(fd);

    if (fd >= 0)
      (void)close(fd);
    if (can_be_changed)
      fail_msg("%s can be opened and changed", path);
  }
}

/* /proc/PID/fd/N of every segment that the process has a descriptor of. Return: how many. */
static size_t expect_no_way_by_descriptors_of(pid_t pid)
{
  char path[64], target[256];
  size_t n_found = 0;

  for (int fd = 0; fd < 1024; fd++) {
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
    n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    if (strncmp(target, "/memfd:dlpackd:", strlen("/memfd:dlpackd:")) != 0)
      continue;
    expect_no_way_to_change(path);
    n_found++;
  }
  return n_found;
}

/* /proc/PID/map_files/RANGE of every segment that the process maps. Return: how many. */
static size_t expect_no_way_by_mappings_of(pid_t pid)
{
  char path[128], line[512], range[64];
  size_t n_found = 0;
  FILE *file;

  (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
  file = fopen(path, "re");
  assert_non_null(file);
  while (fgets(line, sizeof(line), file)) {
    if (!strstr(line, "/memfd:dlpackd:") || sscanf(line, "%63s", range) != 1)
      continue;
    (void)snprintf(path, sizeof(path), "/proc/%d/map_files/%s", (int)pid, range);
    expect_no_way_to_change(path);
    n_found++;
  }
  (void)fclose(file);
  return n_found;
}

static void no_descriptor_or_mapping_of_anyone_leads_to_a_writable_one(void **state)
{
  struct views *views = *state;
  struct DLManagedTensorVersioned *tensor, *in_place;
  struct dlc_error error;

  (void)test_put(views->client, "w", SMALL, 1, NULL);
  (void)test_put(views->client, "large", 20 << 20, 2, NULL);
  in_place = test_alloc(views->client, LARGE, NULL);
  test_fill(in_place->dl_tensor.data, LARGE, 3);
  test_ok(dlc_publish(views->client, "in-place", in_place, NULL, NULL, &error), &error);
  tensor = test_get(views->client, "w", DLC_ACCESS_READ);
  assert_true(expect_no_way_by_descriptors_of(views->daemon.pid) >= 2);
  (void)expect_no_way_by_descriptors_of(getpid());
  assert_true(expect_no_way_by_mappings_of(getpid()) >= 2);
  test_check(tensor, 1);
  test_check(in_place, 3);
  test_drop(tensor);
  test_drop(in_place);
}

static void a_version_that_is_got_twice_has_one_address(void **state)
{
  struct views *views = *state;
  struct DLManagedTensorVersioned *first, *second;

  (void)test_put(views->client, "w", SMALL, 1, NULL);
  first = test_get(views->client, "w", DLC_ACCESS_READ);
  second = test_get(views->client, "w", DLC_ACCESS_READ);
  assert_ptr_equal(first->dl_tensor.data, second->dl_tensor.data);
  test_drop(first);
  test_check(second, 1);
  test_drop(second);
}

/* ---- what its producer may still do ---- */

static int write_after_publishing_in_place(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  struct DLManagedTensorVersioned *tensor = test_alloc(client, SMALL, NULL);
  struct dlc_error error;

  bytes_of(tensor)[SMALL - 1] = 1;
  test_ok(dlc_publish(client, "w", tensor, NULL, NULL, &error), &error);
  bytes_of(tensor)[SMALL - 1] = 2;
  return 0;
}

static void a_write_into_what_was_published_in_place_stops_its_producer(void **state)
{
  expect_death_by_writing(*state, write_after_publishing_in_place);
}

static int write_after_committing_in_place(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  struct DLManagedTensorVersioned *tensor = test_alloc(client, SMALL, NULL);
  struct dlc_generation *generation;
  struct dlc_error error;

  test_ok(dlc_begin(client, NULL, &generation, &error), &error);
  test_ok(dlc_add(generation, "w", tensor, NULL, &error), &error);
  bytes_of(tensor)[0] = 1;
  test_ok(dlc_commit(generation, NULL, &error), &error);
  bytes_of(tensor)[0] = 2;
  return 0;
}

static void what_was_added_in_place_can_be_filled_until_the_commit_and_not_after(void **state)
{
  expect_death_by_writing(*state, write_after_committing_in_place);
}

static int write_to_the_frozen(void *context, struct test_pipe_ends *ends)
{
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  struct dlc_client *client = test_connect(context);
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  options.flags = DLC_FROZEN;
  tensor = test_alloc(client, SMALL, &options);
  bytes_of(tensor)[0] = 1;
  test_ok(dlc_publish(client, "w", tensor, &options, NULL, &error), &error);
  /* Not even on purpose. */
  if (mprotect(page_of(tensor), SMALL, PROT_READ | PROT_WRITE) == 0)
    return 1;
  bytes_of(tensor)[0] = 2;
  return 0;
}

static void a_frozen_tensor_stops_its_producer_too(void **state)
{
  expect_death_by_writing(*state, write_to_the_frozen);
}

static void a_frozen_tensor_says_so_and_is_read_like_any_other(void **state)
{
  struct views *views = *state;
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor;

  options.flags = DLC_FROZEN;
  (void)test_put(views->client, "w", SMALL, 1, &options);
  tensor = test_get(views->client, "w", DLC_ACCESS_READ);
  assert_true(dlc_tensor_info(tensor)->flags & DLC_INFO_FROZEN);
  test_check(tensor, 1);
  test_drop(tensor);
}

static void a_buffer_is_published_once(void **state)
{
  struct views *views = *state;
  struct DLManagedTensorVersioned *tensor = test_alloc(views->client, SMALL, NULL);
  struct dlc_error error;

  test_ok(dlc_publish(views->client, "w", tensor, NULL, NULL, &error), &error);
  test_refused(dlc_publish(views->client, "w", tensor, NULL, NULL, &error), DLC_E_PUBLISHED,
               &error);
  test_refused(dlc_publish(views->client, "v", tensor, NULL, NULL, &error), DLC_E_PUBLISHED,
               &error);
  test_drop(tensor);
}

/* ---- PRIVATE ---- */

static int expect_seed_1(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  test_check(test_get(client, "w", DLC_ACCESS_READ), 1);
  return 0;
}

static void expect_private(struct views *views, size_t size)
{
  struct DLManagedTensorVersioned *read, *one, *other;
  struct test_child child;

  (void)test_put(views->client, "w", size, 1, NULL);
  read = test_get(views->client, "w", DLC_ACCESS_READ);
  one = test_get(views->client, "w", DLC_ACCESS_PRIVATE);
  other = test_get(views->client, "w", DLC_ACCESS_PRIVATE);
  assert_int_equal(one->flags & DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_IS_COPIED);
  assert_int_equal(one->flags & DLPACK_FLAG_BITMASK_READ_ONLY, 0);
  test_check(one, 1);
  test_fill(one->dl_tensor.data, size, 2);
  test_check(read, 1);
  test_check(other, 1);
  test_fill(other->dl_tensor.data, size, 3);
  test_check(one, 2);
  test_child_start(&child, expect_seed_1, &views->daemon);
  test_child_join(&child);
  test_drop(read);
  test_drop(one);
  test_check(other, 3);
  test_drop(other);
}

static void writes_to_a_small_private_view_are_seen_by_nobody_else(void **state)
{
  expect_private(*state, SMALL);
}

static void writes_to_a_large_private_view_are_seen_by_nobody_else(void **state)
{
  expect_private(*state, LARGE);
}

static void expect_private_to_outlive_its_version(struct views *views, size_t size)
{
  struct DLManagedTensorVersioned *tensor;

  (void)test_put(views->client, "w", size, 1, NULL);
  tensor = test_get(views->client, "w", DLC_ACCESS_PRIVATE);
  (void)test_put(views->client, "w", size, 2, NULL);
  test_delete(views->client, "w");
  test_check(tensor, 1);
  test_drop(tensor);
  test_wait_counter(views->client, "bytes", 0);
}

static void a_private_view_keeps_its_bytes_whatever_is_published(void **state)
{
  expect_private_to_outlive_its_version(*state, SMALL);
  expect_private_to_outlive_its_version(*state, LARGE);
}

/* ---- SHARED ---- */

static int write_through_a_shared_view(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);

  test_fill(test_get(client, "w", DLC_ACCESS_SHARED)->dl_tensor.data, SMALL, 2);
  return 0;
}

static void writes_to_a_mutable_tensor_are_seen_by_all(void **state)
{
  struct views *views = *state;
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  struct DLManagedTensorVersioned *producers, *read, *shared;
  struct test_child child;
  struct dlc_error error;

  options.flags = DLC_MUTABLE;
  producers = test_alloc(views->client, SMALL, &options);
  test_fill(producers->dl_tensor.data, SMALL, 1);
  test_ok(dlc_publish(views->client, "w", producers, &options, NULL, &error), &error);
  read = test_get(views->client, "w", DLC_ACCESS_READ);
  shared = test_get(views->client, "w", DLC_ACCESS_SHARED);
  test_check(shared, 1);
  test_child_start(&child, write_through_a_shared_view, &views->daemon);
  test_child_join(&child);
  test_check(read, 2);
  test_check(shared, 2);
  test_check(producers, 2);
  test_fill(producers->dl_tensor.data, SMALL, 3);
  test_check(read, 3);
  test_drop(read);
  test_drop(shared);
  test_drop(producers);
}

static void refuse_shared(struct views *views, int code)
{
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  options.access = DLC_ACCESS_SHARED;
  test_refused(dlc_get(views->client, "w", &options, &tensor, &error), code, &error);
  assert_int_equal(test_counter(views->client, "leases"), 0);
}

static void a_tensor_that_is_not_mutable_is_not_mapped_writable(void **state)
{
  struct views *views = *state;

  (void)test_put(views->client, "w", SMALL, 1, NULL);
  refuse_shared(views, DLC_E_UNSUPPORTED);
}

static void a_mode_without_w_refuses_shared(void **state)
{
  struct views *views = *state;
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;

  options.flags = DLC_MUTABLE;
  options.mode = 0400;
  (void)test_put(views->client, "w", SMALL, 1, &options);
  refuse_shared(views, DLC_E_DENIED);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(
        a_write_through_a_read_view_stops_another_process_of_the_same_user, setup, teardown),
    cmocka_unit_test_setup_teardown(a_write_through_its_own_get_stops_the_producer, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_read_view_cannot_be_made_writable_or_punched, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(no_descriptor_or_mapping_of_anyone_leads_to_a_writable_one,
                                    setup, teardown),
    cmocka_unit_test_setup_teardown(a_version_that_is_got_twice_has_one_address, setup, teardown),
    cmocka_unit_test_setup_teardown(a_write_into_what_was_published_in_place_stops_its_producer,
                                    setup, teardown),
    cmocka_unit_test_setup_teardown(
        what_was_added_in_place_can_be_filled_until_the_commit_and_not_after, setup, teardown),
    cmocka_unit_test_setup_teardown(a_frozen_tensor_stops_its_producer_too, setup, teardown),
    cmocka_unit_test_setup_teardown(a_frozen_tensor_says_so_and_is_read_like_any_other, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_buffer_is_published_once, setup, teardown),
    cmocka_unit_test_setup_teardown(writes_to_a_small_private_view_are_seen_by_nobody_else, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(writes_to_a_large_private_view_are_seen_by_nobody_else, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_private_view_keeps_its_bytes_whatever_is_published, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(writes_to_a_mutable_tensor_are_seen_by_all, setup, teardown),
    cmocka_unit_test_setup_teardown(a_tensor_that_is_not_mutable_is_not_mapped_writable, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_mode_without_w_refuses_shared, setup, teardown),
};

TEST_MAIN(tests)
