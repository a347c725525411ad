/* What a tensor is where it arrives: address, alignment, strides, and what a get costs. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/tensors.h"
#include "support/test.h"

#define ALIGNMENT 256

struct layouts {
  struct test_daemon daemon;
  struct dlc_client *producer, *consumer;
};

static int setup(void **state)
{
  struct layouts *layouts = calloc(1, sizeof(*layouts));

  assert_non_null(layouts);
  *state = layouts;
  test_daemon_init(&layouts->daemon, NULL);
  layouts->producer = test_connect(&layouts->daemon);
  layouts->consumer = test_connect(&layouts->daemon);
  return 0;
}

static int teardown(void **state)
{
  struct layouts *layouts = *state;

  dlc_close(layouts->producer);
  dlc_close(layouts->consumer);
  test_daemon_deinit(&layouts->daemon);
  free(layouts);
  return 0;
}

/* ---- alignment ---- */

#define N_ODD 1000

static void expect_aligned(struct dlc_client *client, const char *name, uint64_t seed)
{
  static const enum dlc_access accesses[] = {DLC_ACCESS_READ, DLC_ACCESS_PRIVATE};

  for (size_t i = 0; i < TEST_ARRAY_SIZE(accesses); i++) {
    struct DLManagedTensorVersioned *tensor = test_get(client, name, accesses[i]);

    assert_int_equal((uintptr_t)tensor->dl_tensor.data % ALIGNMENT, 0);
    assert_int_equal(tensor->dl_tensor.byte_offset, 0);
    assert_non_null(tensor->dl_tensor.strides);
    test_check(tensor, seed);
    test_drop(tensor);
  }
}

/* Field case 49. */
static void tensors_of_odd_sizes_are_aligned_in_producer_and_consumer(void **state)
{
  struct layouts *layouts = *state;
  char name[32];

  for (unsigned i = 0; i < N_ODD; i++) {
    (void)snprintf(name, sizeof(name), "odd/%u", i);
    (void)test_put(layouts->producer, name, 2 * i + 1, i, NULL);
  }
  for (unsigned i = 0; i < N_ODD; i++) {
    (void)snprintf(name, sizeof(name), "odd/%u", i);
    expect_aligned(layouts->producer, name, i);
    expect_aligned(layouts->consumer, name, i);
  }
}

/* Field case 49. */
static void memory_to_fill_in_place_is_aligned(void **state)
{
  struct layouts *layouts = *state;

  for (size_t size = 1; size < 200; size += 2) {
    struct DLManagedTensorVersioned *tensor = test_alloc(layouts->producer, size, NULL);

    assert_int_equal((uintptr_t)tensor->dl_tensor.data % ALIGNMENT, 0);
    test_drop(tensor);
  }
}

/* ---- strides ---- */

static void a_layout_that_is_kept_has_its_strides_and_its_gaps(void **state)
{
  struct layouts *layouts = *state;
  float values[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  int64_t shape[2] = {3, 2}, strides[2] = {1, 4}; /* 3 of 4 rows, column by column */
  struct dlc_view view = test_view_f32(values, shape, 2);
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  view.strides = strides;
  options.flags = DLC_KEEP_LAYOUT;
  test_ok(dlc_put(layouts->producer, "w", &view, &options, NULL, &error), &error);
  tensor = test_get(layouts->consumer, "w", DLC_ACCESS_READ);
  assert_memory_equal(tensor->dl_tensor.shape, shape, sizeof(shape));
  assert_memory_equal(tensor->dl_tensor.strides, strides, sizeof(strides));
  assert_memory_equal(tensor->dl_tensor.data, values, 7 * sizeof(float));
  test_drop(tensor);
}

static void negative_strides_can_be_kept(void **state)
{
  struct layouts *layouts = *state;
  float values[4] = {0, 1, 2, 3};
  int64_t shape[1] = {4}, strides[1] = {-1};
  struct dlc_view view = test_view_f32(values + 3, shape, 1);
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;
  const float *got;

  view.strides = strides;
  options.flags = DLC_KEEP_LAYOUT;
  test_ok(dlc_put(layouts->producer, "w", &view, &options, NULL, &error), &error);
  tensor = test_get(layouts->consumer, "w", DLC_ACCESS_READ);
  assert_int_equal(tensor->dl_tensor.strides[0], -1);
  got = tensor->dl_tensor.data;
  for (int i = 0; i < 4; i++)
    assert_true(got[-i] == values[3 - i]);
  test_drop(tensor);
}

static void a_layout_that_is_not_kept_is_written_compactly(void **state)
{
  struct layouts *layouts = *state;
  float values[6] = {0, 1, 2, 3, 4, 5}, transposed[6] = {0, 3, 1, 4, 2, 5};
  int64_t shape[2] = {3, 2}, strides[2] = {1, 3};
  struct dlc_view view = test_view_f32(values, shape, 2);
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  view.strides = strides;
  test_ok(dlc_put(layouts->producer, "w", &view, NULL, NULL, &error), &error);
  tensor = test_get(layouts->consumer, "w", DLC_ACCESS_READ);
  assert_int_equal(tensor->dl_tensor.strides[0], 2);
  assert_int_equal(tensor->dl_tensor.strides[1], 1);
  assert_memory_equal(tensor->dl_tensor.data, transposed, sizeof(transposed));
  test_drop(tensor);
}

/* ---- cost ---- */

#define N_COST_RUNS 201
#define GIB ((size_t)1 << 30)

static uint64_t get_and_drop_ns(struct dlc_client *client, const char *name)
{
  struct timespec start, end;

  (void)clock_gettime(CLOCK_MONOTONIC, &start);
  test_drop(test_get(client, name, DLC_ACCESS_READ));
  (void)clock_gettime(CLOCK_MONOTONIC, &end);
  return (uint64_t)(end.tv_sec - start.tv_sec) * 1000000000 + (uint64_t)end.tv_nsec -
         (uint64_t)start.tv_nsec;
}

static int compare_u64(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

  return (x > y) - (x < y);
}

static uint64_t median(uint64_t *values, size_t n)
{
  qsort(values, n, sizeof(*values), compare_u64);
  return values[n / 2];
}

/* Its bytes stay zero: nobody need write them, and the producer's populating is all they cost. */
static void publish_zeroes(struct dlc_client *client, const char *name, size_t size)
{
  struct DLManagedTensorVersioned *tensor = test_alloc(client, size, NULL);
  struct dlc_error error;

  test_ok(dlc_publish(client, name, tensor, NULL, NULL, &error), &error);
  test_drop(tensor);
}

static size_t large_size(void)
{
  long pages = sysconf(_SC_AVPHYS_PAGES);

  return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) > 3 * GIB ? GIB : GIB / 8;
}

static void a_get_costs_the_same_whatever_the_size(void **state)
{
  struct layouts *layouts = *state;
  uint64_t small[N_COST_RUNS], large[N_COST_RUNS];
  size_t size = large_size();

  (void)test_put(layouts->producer, "small", 1024, 1, NULL);
  publish_zeroes(layouts->producer, "large", size);
  for (size_t i = 0; i < N_COST_RUNS; i++) {
    small[i] = get_and_drop_ns(layouts->consumer, "small");
    large[i] = get_and_drop_ns(layouts->consumer, "large");
  }
  print_message("a get of 1 KiB: %llu us, of %zu MiB: %llu us\n",
                (unsigned long long)median(small, N_COST_RUNS) / 1000, size >> 20,
                (unsigned long long)median(large, N_COST_RUNS) / 1000);
  assert_true(median(large, N_COST_RUNS) < 3 * median(small, N_COST_RUNS));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(tensors_of_odd_sizes_are_aligned_in_producer_and_consumer,
                                    setup, teardown),
    cmocka_unit_test_setup_teardown(memory_to_fill_in_place_is_aligned, setup, teardown),
    cmocka_unit_test_setup_teardown(a_layout_that_is_kept_has_its_strides_and_its_gaps, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(negative_strides_can_be_kept, setup, teardown),
    cmocka_unit_test_setup_teardown(a_layout_that_is_not_kept_is_written_compactly, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_get_costs_the_same_whatever_the_size, setup, teardown),
};

TEST_MAIN(tests)
