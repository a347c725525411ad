#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "client/copy.h"

/* A tensor in a buffer of its own, and where its elements should end up. */
struct case_state {
  uint8_t *bytes;
  uint8_t *copy;
  uint8_t *expected;
};

static int case_setup(void **state)
{
  *state = calloc(1, sizeof(struct case_state));
  return *state ? 0 : -1;
}

static int case_teardown(void **state)
{
  struct case_state *s = *state;

  free(s->bytes);
  free(s->copy);
  free(s->expected);
  free(s);
  return 0;
}

static struct msg_spec spec_of(uint32_t code, uint32_t bits, uint32_t lanes, size_t ndim,
                               const int64_t *shape, const int64_t *strides)
{
  return (struct msg_spec){
      .code = code, .bits = bits, .lanes = lanes, .ndim = ndim, .shape = shape, .strides = strides};
}

/* The obvious way: element by element, by its index. */
static void copy_slowly(uint8_t *target, const uint8_t *zero, const struct msg_spec *spec,
                        size_t element_size)
{
  int64_t index[DLP_NDIM_MAX] = {0};

  for (;;) {
    int64_t offset = 0;
    size_t i;

    for (i = 0; i < spec->ndim; i++)
      offset += index[i] * spec->strides[i] * (int64_t)element_size;
    memcpy(target, zero + offset, element_size);
    target += element_size;
    for (i = spec->ndim; i > 0; i--) {
      if (++index[i - 1] < spec->shape[i - 1])
        break;
      index[i - 1] = 0;
    }
    if (i == 0)
      return;
  }
}

/* Copies both ways and compares. */
static void check_copy(struct case_state *s, const struct msg_spec *spec)
{
  struct dlc__source source = {.spec = *spec};
  size_t room;

  assert_int_equal(tensor_spec_extent(spec, &source.extent), 0);
  assert_int_equal(tensor_spec_compact_size(spec, &source.compact_size), 0);
  room = (size_t)(source.extent.high - source.extent.low);
  s->bytes = malloc(room + 1);
  s->copy = calloc(1, source.compact_size + 1);
  s->expected = calloc(1, source.compact_size + 1);
  assert_true(s->bytes && s->copy && s->expected);
  for (size_t i = 0; i < room; i++)
    s->bytes[i] = (uint8_t)(i * 37 + i / 251);
  source.zero = s->bytes - source.extent.low;
  copy_slowly(s->expected, source.zero, spec, tensor_spec_element_size(spec));

  dlc__copy_compact(s->copy, &source);

  assert_memory_equal(s->copy, s->expected, source.compact_size + 1);
}

static void a_compact_tensor_is_copied_as_it_lies(void **state)
{
  const int64_t shape[] = {3, 4, 5}, strides[] = {20, 5, 1};
  struct msg_spec spec = spec_of(2, 32, 1, 3, shape, strides);

  check_copy(*state, &spec);
}

static void a_transpose_is_turned(void **state)
{
  const int64_t shape[] = {67, 45}, strides[] = {1, 67};
  struct msg_spec spec = spec_of(2, 64, 1, 2, shape, strides);

  check_copy(*state, &spec);
}

static void a_permutation_of_four_dimensions_is_put_in_order(void **state)
{
  const int64_t shape[] = {5, 33, 2, 7}, strides[] = {14, 70, 1, 2};
  struct msg_spec spec = spec_of(0, 16, 1, 4, shape, strides);

  check_copy(*state, &spec);
}

static void negative_strides_are_read_backwards(void **state)
{
  const int64_t shape[] = {3, 4}, strides[] = {-4, -1};
  struct msg_spec spec = spec_of(2, 32, 1, 2, shape, strides);

  check_copy(*state, &spec);
}

static void every_other_element_from_the_end_is_found(void **state)
{
  const int64_t shape[] = {6}, strides[] = {-2};
  struct msg_spec spec = spec_of(1, 8, 1, 1, shape, strides);

  check_copy(*state, &spec);
}

static void a_broadcast_is_written_out(void **state)
{
  const int64_t shape[] = {4, 3, 5}, strides[] = {0, 1, 0};
  struct msg_spec spec = spec_of(5, 128, 1, 3, shape, strides);

  check_copy(*state, &spec);
}

static void overlapping_windows_are_written_out(void **state)
{
  const int64_t shape[] = {5, 3}, strides[] = {1, 1};
  struct msg_spec spec = spec_of(0, 32, 1, 2, shape, strides);

  check_copy(*state, &spec);
}

static void odd_strides_of_single_elements_are_not_used(void **state)
{
  const int64_t shape[] = {1, 3, 1, 4, 1}, strides[] = {INT64_MAX, 9, INT64_MIN, 2, -7};
  const int64_t tame[] = {0, 9, 0, 2, 0};
  struct msg_spec wild = spec_of(2, 32, 1, 5, shape, strides);
  struct msg_spec spec = spec_of(2, 32, 1, 5, shape, tame);
  struct case_state *s = *state;
  struct dlc__source source = {.spec = wild, .compact_size = 48};

  check_copy(s, &spec);
  assert_int_equal(tensor_spec_extent(&wild, &source.extent), 0);
  source.zero = s->bytes;
  memset(s->copy, 0, 48);
  dlc__copy_compact(s->copy, &source);
  assert_memory_equal(s->copy, s->expected, 48);
}

static void vectors_move_whole(void **state)
{
  const int64_t shape[] = {4, 3}, strides[] = {1, 4};
  struct msg_spec spec = spec_of(2, 32, 3, 2, shape, strides);

  check_copy(*state, &spec);
}

static void unaligned_elements_are_read(void **state)
{
  struct case_state *s = *state;
  const int64_t shape[] = {2, 3}, strides[] = {1, 2};
  struct dlc__source source = {.spec = spec_of(2, 64, 1, 2, shape, strides)};
  const double values[] = {0, 1, 2, 3, 4, 5}, expected[] = {0, 2, 4, 1, 3, 5};
  double got[6];

  s->bytes = malloc(sizeof(values) + 1);
  assert_non_null(s->bytes);
  memcpy(s->bytes + 1, values, sizeof(values));
  source.zero = s->bytes + 1;
  assert_int_equal(tensor_spec_extent(&source.spec, &source.extent), 0);
  source.compact_size = sizeof(values);
  dlc__copy_compact((uint8_t *)got, &source);
  assert_memory_equal(got, expected, sizeof(expected));
}

static void a_scalar_is_one_element(void **state)
{
  const int64_t none[] = {0};
  struct msg_spec spec = spec_of(2, 64, 1, 0, none, none);

  check_copy(*state, &spec);
}

static void nothing_is_read_of_an_empty_tensor(void **state)
{
  const int64_t shape[] = {3, 0, 4}, strides[] = {7, -5, 1};
  struct dlc__source source = {.spec = spec_of(2, 32, 1, 3, shape, strides)};

  dlc__copy_compact(NULL, &source);
  assert_null(source.zero);
}

static void packed_bits_are_copied_in_whole_bytes(void **state)
{
  const int64_t shape[] = {5};
  const uint8_t bytes[] = {0x21, 0x43, 0x05};
  struct dlc__source source = {.spec = spec_of(17, 4, 1, 1, shape, NULL), .zero = bytes};
  uint8_t got[4] = {0};

  assert_int_equal(tensor_spec_extent(&source.spec, &source.extent), 0);
  assert_int_equal(tensor_spec_compact_size(&source.spec, &source.compact_size), 0);
  assert_int_equal(source.compact_size, 3);
  dlc__copy_compact(got, &source);
  assert_memory_equal(got, bytes, 3);
  assert_int_equal(got[3], 0);
}

static void the_highest_rank_is_walked_through(void **state)
{
  int64_t shape[DLP_NDIM_MAX] = {0}, strides[DLP_NDIM_MAX] = {0};
  struct msg_spec spec = spec_of(1, 16, 1, DLP_NDIM_MAX, shape, strides);

  for (size_t i = 0; i < DLP_NDIM_MAX; i++) {
    shape[i] = i % 8 == 0 ? 2 : 1;
    strides[i] = i % 8 == 0 ? (int64_t)1 << (i / 8) : 1000;
  }
  check_copy(*state, &spec);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, case_setup, case_teardown)

static const struct CMUnitTest tests[] = {
    CASE(a_compact_tensor_is_copied_as_it_lies),
    CASE(a_transpose_is_turned),
    CASE(a_permutation_of_four_dimensions_is_put_in_order),
    CASE(negative_strides_are_read_backwards),
    CASE(every_other_element_from_the_end_is_found),
    CASE(a_broadcast_is_written_out),
    CASE(overlapping_windows_are_written_out),
    CASE(odd_strides_of_single_elements_are_not_used),
    CASE(vectors_move_whole),
    CASE(unaligned_elements_are_read),
    CASE(a_scalar_is_one_element),
    CASE(nothing_is_read_of_an_empty_tensor),
    CASE(packed_bits_are_copied_in_whole_bytes),
    CASE(the_highest_rank_is_walked_through),
};

TEST_MAIN(tests)
