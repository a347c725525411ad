/* What goes wrong between libraries that speak DLPack, case by case: each number is one
 * kind of tensor that somebody's importer or exporter got wrong. A tensor is put in every
 * form and got in every form, and has the same elements. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fds.h"
#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define MAX_DIMS 5
#define SOURCE_SIZE 4096

struct bench {
  struct test_daemon daemon;
  struct dlc_client *client;
  uint8_t source[SOURCE_SIZE];
};

static int setup(void **state)
{
  struct bench *bench = calloc(1, sizeof(*bench));

  assert_non_null(bench);
  *state = bench;
  test_daemon_init(&bench->daemon, NULL);
  bench->client = test_connect(&bench->daemon);
  test_fill(bench->source, sizeof(bench->source), 1);
  return 0;
}

static int teardown(void **state)
{
  struct bench *bench = *state;

  dlc_close(bench->client);
  test_daemon_deinit(&bench->daemon);
  free(bench);
  return 0;
}

/* ---- the cases that are tensors ---- */

struct tensor_case {
  const char *name;
  int32_t ndim;
  int64_t shape[MAX_DIMS];
  bool has_strides;
  int64_t strides[MAX_DIMS];
  uint8_t code, bits;
  uint16_t lanes;
  size_t start; /* where in the source `data` points */
  uint64_t byte_offset;
  bool no_data;
  size_t packed_size; /* bytes, of types below a byte */
};

#define F32 .code = kDLFloat, .bits = 32, .lanes = 1

static const struct tensor_case tensor_cases[] = {
    {"01 strides filled", 2, {2, 3}, true, {3, 1}, F32},
    {"01 zero dimensions, strides NULL", 0, {0}, F32},
    {"01 zero dimensions, strides not NULL", 0, {0}, true, {0}, F32},
    {"02 strides NULL", 2, {2, 3}, F32},
    {"03 no elements, strides 0", 2, {0, 3}, true, {0, 0}, F32},
    {"04 no elements in the middle", 3, {4, 0, 4}, true, {0, 0, 0}, F32},
    {"04 no elements, stride 5", 1, {0}, true, {5}, F32},
    {"05 no elements, data NULL", 2, {0, 3}, F32, .no_data = true},
    {"06 no elements, any strides", 4, {1, 8, 0, 128}, true, {7, -3, 1000, 0}, F32},
    {"08 odd strides of dimensions of 1", 5, {1, 3, 1, 4, 1}, true, {0, 4, 0, 1, 0}, F32},
    {"09 a stride of a dimension of 1 that is no multiple", 2, {1, 4}, true, {6, 1}, F32},
    {"10 a dimension of 1 in front", 2, {1, 77}, true, {1, 1}, F32},
    {"10 a dimension of 1 behind", 2, {64, 1}, true, {1, 64}, F32},
    {"10 a huge stride of a dimension of 1", 2, {1, 4}, true, {INT64_MAX, 1}, F32},
    {"12 one dimension backwards", 2, {3, 4}, true, {4, -1}, F32, .start = 12},
    {"12 all dimensions backwards", 2, {3, 4}, true, {-4, -1}, F32, .start = 44},
    {"13 every second, backwards", 1, {5}, true, {-2}, F32, .start = 32},
    {"16 broadcast of a few", 3, {10, 3, 10}, true, {0, 1, 0}, F32},
    {"18 huge, but a dimension is 0", 3, {INT64_C(1) << 32, INT64_C(1) << 32, 0}, F32},
    {"23 a byte offset", 1, {3}, F32, .byte_offset = 8},
    {"23 a byte offset and strides", 2, {2, 2}, true, {4, -1}, F32, .byte_offset = 20},
    {"24 the storage's base and an offset", 1, {7}, true, {1}, F32, .byte_offset = 20},
    {"26 fp64 at an odd address", 1, {9}, .code = kDLFloat, .bits = 64, .lanes = 1, .start = 1},
    {"26 fp64 at an odd offset",
     2,
     {3, 3},
     true,
     {1, 3},
     .code = kDLFloat,
     .bits = 64,
     .lanes = 1,
     .byte_offset = 3},
    {"28 bfloat16", 1, {3}, .code = kDLBfloat, .bits = 16, .lanes = 1},
    {"28 bfloat16, transposed", 2, {3, 5}, true, {1, 3}, .code = kDLBfloat, .bits = 16, .lanes = 1},
    {"29 fp4, an odd number",
     1,
     {5},
     .code = kDLFloat4_e2m1fn,
     .bits = 4,
     .lanes = 1,
     .packed_size = 3},
    {"29 fp4 in pairs", 1, {3}, .code = kDLFloat4_e2m1fn, .bits = 4, .lanes = 2},
    {"29 int4, odd rows", 2, {3, 3}, .code = kDLInt, .bits = 4, .lanes = 1, .packed_size = 5},
    {"29 uint4", 1, {2}, .code = kDLUInt, .bits = 4, .lanes = 1, .packed_size = 1},
    {"30 fp8 e3m4", 1, {9}, .code = kDLFloat8_e3m4, .bits = 8, .lanes = 1},
    {"30 fp8 e4m3", 1, {9}, .code = kDLFloat8_e4m3, .bits = 8, .lanes = 1},
    {"30 fp8 e4m3b11fnuz", 1, {9}, .code = kDLFloat8_e4m3b11fnuz, .bits = 8, .lanes = 1},
    {"30 fp8 e4m3fn", 1, {9}, .code = kDLFloat8_e4m3fn, .bits = 8, .lanes = 1},
    {"30 fp8 e4m3fnuz", 1, {9}, .code = kDLFloat8_e4m3fnuz, .bits = 8, .lanes = 1},
    {"30 fp8 e5m2", 1, {9}, .code = kDLFloat8_e5m2, .bits = 8, .lanes = 1},
    {"30 fp8 e5m2fnuz", 1, {9}, .code = kDLFloat8_e5m2fnuz, .bits = 8, .lanes = 1},
    {"30 fp8 e8m0fnu", 1, {9}, .code = kDLFloat8_e8m0fnu, .bits = 8, .lanes = 1},
    {"30 fp6 e2m3fn", 1, {4}, .code = kDLFloat6_e2m3fn, .bits = 6, .lanes = 1, .packed_size = 3},
    {"30 fp6 e3m2fn", 1, {5}, .code = kDLFloat6_e3m2fn, .bits = 6, .lanes = 1, .packed_size = 4},
    {"31 complex64", 1, {6}, .code = kDLComplex, .bits = 64, .lanes = 1},
    {"31 float32 in pairs", 1, {6}, .code = kDLFloat, .bits = 32, .lanes = 2},
    {"31 complex32", 1, {6}, .code = kDLComplex, .bits = 32, .lanes = 1},
    {"31 complex128", 2, {2, 3}, true, {1, 2}, .code = kDLComplex, .bits = 128, .lanes = 1},
    {"32 float32x4", 1, {7}, .code = kDLFloat, .bits = 32, .lanes = 4},
    {"32 float32x4, strides count vectors",
     2,
     {2, 3},
     true,
     {8, 2},
     .code = kDLFloat,
     .bits = 32,
     .lanes = 4},
    {"32 uint8x3", 2, {3, 5}, true, {1, 3}, .code = kDLUInt, .bits = 8, .lanes = 3},
    {"31 complex of bfloat16", 1, {6}, .code = 18, .bits = 32, .lanes = 1},
    {"half", 1, {5}, .code = kDLFloat, .bits = 16, .lanes = 1},
    {"int16", 1, {5}, .code = kDLInt, .bits = 16, .lanes = 1},
    {"uint64", 1, {5}, .code = kDLUInt, .bits = 64, .lanes = 1},
};

#define N_CASES TEST_ARRAY_SIZE(tensor_cases)

static DLTensor source_of(struct bench *bench, const struct tensor_case *row)
{
  return (DLTensor){
      .data = row->no_data ? NULL : bench->source + row->start,
      .device = {kDLCPU, 0},
      .ndim = row->ndim,
      .dtype = {row->code, row->bits, row->lanes},
      .shape = (int64_t *)(uintptr_t)row->shape,
      .strides = row->has_strides ? (int64_t *)(uintptr_t)row->strides : NULL,
      .byte_offset = row->byte_offset,
  };
}

static int64_t count_elements(const DLTensor *tensor)
{
  int64_t n = 1;

  for (int32_t i = 0; i < tensor->ndim; i++)
    if (tensor->shape[i] == 0)
      return 0;
  for (int32_t i = 0; i < tensor->ndim; i++)
    n *= tensor->shape[i];
  return n;
}

/* The elements in row-major order, one after the other; types of whole bytes only. */
static size_t gather(const DLTensor *tensor, uint8_t *ret)
{
  const size_t size = (size_t)tensor->dtype.bits * tensor->dtype.lanes / 8;
  const int64_t n = count_elements(tensor);

  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i, at = 0, compact = 1;

    for (int32_t d = tensor->ndim - 1; d >= 0; d--) {
      at += rest % tensor->shape[d] * (tensor->strides ? tensor->strides[d] : compact);
      rest /= tensor->shape[d];
      compact *= tensor->shape[d];
    }
    memcpy(ret + (size_t)i * size,
           (uint8_t *)tensor->data + tensor->byte_offset + at * (int64_t)size, size);
  }
  return (size_t)n * size;
}

static size_t all_bytes(const struct tensor_case *row, const DLTensor *tensor, uint8_t *ret)
{
  if (!row->packed_size)
    return gather(tensor, ret);
  memcpy(ret, (uint8_t *)tensor->data + tensor->byte_offset, row->packed_size);
  return row->packed_size;
}

static void assert_strides(const struct tensor_case *row, const DLTensor *got, bool kept)
{
  int64_t compact = 1;

  if (kept && row->has_strides && count_elements(got) > 0) {
    for (int32_t d = 0; d < row->ndim; d++)
      if (got->shape[d] > 1)
        assert_true(got->strides[d] == row->strides[d]);
    return;
  }
  if (count_elements(got) == 0)
    return;
  for (int32_t d = row->ndim - 1; d >= 0; d--) {
    if (got->shape[d] > 1)
      assert_true(got->strides[d] == compact);
    compact *= got->shape[d];
  }
}

static void assert_metadata(const struct tensor_case *row, const DLTensor *got, bool kept)
{
  assert_int_equal(got->device.device_type, kDLCPU);
  assert_int_equal(got->device.device_id, 0);
  assert_int_equal(got->ndim, row->ndim);
  assert_int_equal(got->dtype.code, row->code);
  assert_int_equal(got->dtype.bits, row->bits);
  assert_int_equal(got->dtype.lanes, row->lanes);
  assert_true(got->byte_offset == 0);
  if (row->ndim > 0) {
    assert_non_null(got->strides);
    assert_memory_equal(got->shape, row->shape, (size_t)row->ndim * sizeof(int64_t));
  }
  if (count_elements(got) == 0)
    assert_null(got->data);
  else
    assert_non_null(got->data);
  if (!kept)
    assert_true((uintptr_t)got->data % 256 == 0);
  assert_strides(row, got, kept);
}

static void assert_same(struct bench *bench, const struct tensor_case *row, const DLTensor *got,
                        bool kept)
{
  static uint8_t wanted_bytes[SOURCE_SIZE], got_bytes[SOURCE_SIZE];
  const DLTensor source = source_of(bench, row);
  size_t size = all_bytes(row, &source, wanted_bytes);

  assert_metadata(row, got, kept);
  assert_true(size <= SOURCE_SIZE);
  assert_int_equal(all_bytes(row, got, got_bytes), size);
  assert_memory_equal(got_bytes, wanted_bytes, size);
}

static void get_every_way(struct bench *bench, const struct tensor_case *row, bool kept)
{
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor, *copy;
  struct DLManagedTensor *legacy;
  struct dlc_error error;
  struct dlc_slot slot;

  test_ok(dlc_get(bench->client, "t", NULL, &tensor, &error), &error);
  assert_int_equal(tensor->version.major, 1);
  assert_int_equal(tensor->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  assert_same(bench, row, &tensor->dl_tensor, kept);
  test_ok(dlc_dup(tensor, &copy, &error), &error);
  tensor->deleter(tensor);
  assert_same(bench, row, &copy->dl_tensor, kept);
  test_ok(dlc_dup_legacy(copy, &legacy, &error), &error);
  copy->deleter(copy);
  assert_same(bench, row, &legacy->dl_tensor, kept);
  legacy->deleter(legacy);
  test_ok(dlc_get_legacy(bench->client, "t", NULL, &legacy, &error), &error);
  assert_same(bench, row, &legacy->dl_tensor, kept);
  legacy->deleter(legacy);
  options.access = DLC_ACCESS_PRIVATE;
  test_ok(dlc_get_into(bench->client, "t", &options, &slot, &tensor, &error), &error);
  assert_int_equal(tensor->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  assert_same(bench, row, &tensor->dl_tensor, kept);
  tensor->deleter(tensor);
}

static int n_deleted;

static void count_versioned(struct DLManagedTensorVersioned *tensor)
{
  (void)tensor;
  n_deleted++;
}

static void count_legacy(struct DLManagedTensor *tensor)
{
  (void)tensor;
  n_deleted++;
}

static void a_tensor_comes_back_in_every_form(void **state)
{
  struct bench *bench = *state;

  for (size_t i = 0; i < N_CASES; i++) {
    const struct tensor_case *row = &tensor_cases[i];
    DLTensor source = source_of(bench, row);
    struct DLManagedTensorVersioned versioned = {
        .version = {1, 3}, .deleter = count_versioned, .dl_tensor = source};
    struct DLManagedTensor legacy = {.deleter = count_legacy, .dl_tensor = source};
    struct dlc_error error;

    print_message("    case %s\n", row->name);
    n_deleted = 0;
    test_ok(dlc_put(bench->client, "t", dlc_view(&source), NULL, NULL, &error), &error);
    get_every_way(bench, row, false);
    test_ok(dlc_put_managed(bench->client, "t", &versioned, NULL, NULL, &error), &error);
    assert_int_equal(n_deleted, 1);
    get_every_way(bench, row, false);
    test_ok(dlc_put_legacy(bench->client, "t", &legacy, NULL, NULL, &error), &error);
    assert_int_equal(n_deleted, 2);
    get_every_way(bench, row, false);
  }
}

static void a_tensor_that_keeps_its_layout_has_the_same_elements_and_strides(void **state)
{
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  struct bench *bench = *state;

  options.flags = DLC_KEEP_LAYOUT;
  for (size_t i = 0; i < N_CASES; i++) {
    DLTensor source = source_of(bench, &tensor_cases[i]);
    struct dlc_error error;

    print_message("    case %s\n", tensor_cases[i].name);
    test_ok(dlc_put(bench->client, "t", dlc_view(&source), &options, NULL, &error), &error);
    get_every_way(bench, &tensor_cases[i], true);
  }
}

/* What one process made with dlc_alloc() is what every reader sees, and is compact. */
static void a_tensor_filled_in_place_comes_back(void **state)
{
  struct bench *bench = *state;

  for (size_t i = 0; i < N_CASES; i++) {
    const struct tensor_case *row = &tensor_cases[i];
    DLTensor source = source_of(bench, row);
    struct DLManagedTensorVersioned *tensor;
    struct dlc_error error;

    test_ok(dlc_alloc(bench->client, dlc_view(&source), NULL, &tensor, &error), &error);
    assert_metadata(row, &tensor->dl_tensor, false);
    if (count_elements(&source) > 0)
      (void)all_bytes(row, &source, tensor->dl_tensor.data);
    test_ok(dlc_publish(bench->client, "t", tensor, NULL, NULL, &error), &error);
    assert_same(bench, row, &tensor->dl_tensor, false);
    get_every_way(bench, row, false);
    tensor->deleter(tensor);
  }
}

static void the_name_of_a_dtype_tells_kinds_apart(void **state)
{
  static const struct {
    uint8_t code, bits;
    uint16_t lanes;
    const char *name;
  } rows[] = {
      {kDLBool, 8, 1, "bool"},
      {kDLUInt, 8, 1, "uint8"},
      {kDLBfloat, 16, 1, "bfloat16"},
      {kDLFloat, 16, 1, "float16"},
      {kDLComplex, 64, 1, "complex64"},
      {kDLFloat, 32, 2, "float32x2"},
      {kDLFloat, 32, 4, "float32x4"},
      {kDLFloat4_e2m1fn, 4, 1, "float4_e2m1fn"},
      {kDLFloat8_e4m3fn, 8, 1, "float8_e4m3fn"},
  };
  char name[48];

  (void)state;
  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++)
    assert_string_equal(
        dlc_dtype_name(rows[i].code, rows[i].bits, rows[i].lanes, name, sizeof(name)),
        rows[i].name);
}

/* ---- single cases ---- */

static void case_14_a_negative_offset_is_an_overflow(void **state)
{
  struct bench *bench = *state;
  int64_t shape = 2;
  struct dlc_view view = test_view_f32((float *)(void *)bench->source, &shape, 1);
  struct dlc_error error;

  view.byte_offset = (uint64_t)-8;
  test_refused(dlc_put(bench->client, "t", &view, NULL, NULL, &error), DLC_E_LAYOUT, &error);
}

static void case_16_a_broadcast_that_keeps_its_layout_takes_one_element(void **state)
{
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  struct bench *bench = *state;
  int64_t shape[2] = {1000, 1000};
  const int64_t strides[2] = {0, 0};
  float value = 7;
  struct dlc_view view = test_view_f32(&value, shape, 2);
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;
  uint64_t before = test_counter(bench->client, "bytes");

  view.strides = strides;
  options.flags = DLC_KEEP_LAYOUT;
  test_ok(dlc_put(bench->client, "t", &view, &options, NULL, &error), &error);
  assert_true(test_counter(bench->client, "bytes") - before <= 4096);
  test_ok(dlc_get(bench->client, "t", NULL, &tensor, &error), &error);
  assert_int_equal(dlc_tensor_info(tensor)->nbytes, 4);
  assert_true(((float *)tensor->dl_tensor.data)[0] == 7);
  assert_true(tensor->dl_tensor.strides[0] == 0 && tensor->dl_tensor.shape[1] == 1000);
  tensor->deleter(tensor);
}

static void case_20_a_dimension_above_2_to_the_31_stays_as_it_is(void **state)
{
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  struct bench *bench = *state;
  int64_t shape = (INT64_C(1) << 31) + 5;
  const int64_t stride = 0;
  struct dlc_view view = test_view_f32((float *)(void *)bench->source, &shape, 1);
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  view.dtype_code = kDLUInt;
  view.dtype_bits = 8;
  view.strides = &stride;
  options.flags = DLC_KEEP_LAYOUT;
  test_ok(dlc_put(bench->client, "t", &view, &options, NULL, &error), &error);
  test_ok(dlc_get(bench->client, "t", NULL, &tensor, &error), &error);
  assert_true(tensor->dl_tensor.shape[0] == (INT64_C(1) << 31) + 5);
  assert_int_equal(((uint8_t *)tensor->dl_tensor.data)[shape * tensor->dl_tensor.strides[0]],
                   bench->source[0]);
  tensor->deleter(tensor);
}

static void case_21_a_shape_too_large_costs_one_call_of_the_deleter(void **state)
{
  struct bench *bench = *state;
  int64_t shape[2] = {INT64_C(1) << 32, INT64_C(1) << 32};
  struct DLManagedTensorVersioned versioned = {
      .version = {1, 3},
      .deleter = count_versioned,
      .dl_tensor = {bench->source, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0}};
  struct dlc_error error;

  n_deleted = 0;
  test_refused(dlc_put_managed(bench->client, "t", &versioned, NULL, NULL, &error), DLC_E_LAYOUT,
               &error);
  assert_int_equal(n_deleted, 1);
}

static void case_23_values_begin_at_the_byte_offset(void **state)
{
  struct bench *bench = *state;
  float values[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  int64_t shape = 3;
  struct dlc_view view = test_view_f32(values, &shape, 1);
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  view.byte_offset = 8;
  test_ok(dlc_put(bench->client, "t", &view, NULL, NULL, &error), &error);
  test_ok(dlc_get(bench->client, "t", NULL, &tensor, &error), &error);
  for (int i = 0; i < 3; i++)
    assert_true(((float *)tensor->dl_tensor.data)[i] == (float)(2 + i));
  tensor->deleter(tensor);
}

static void case_27_bytes_of_bool_are_carried_as_they_are(void **state)
{
  struct bench *bench = *state;
  uint8_t values[4] = {0, 1, 2, 255};
  int64_t shape = 4;
  DLTensor source = {values, {kDLCPU, 0}, 1, {kDLBool, 8, 1}, &shape, NULL, 0};
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  test_ok(dlc_put(bench->client, "t", dlc_view(&source), NULL, NULL, &error), &error);
  test_ok(dlc_get(bench->client, "t", NULL, &tensor, &error), &error);
  assert_int_equal(tensor->dl_tensor.dtype.code, kDLBool);
  assert_memory_equal(tensor->dl_tensor.data, values, 4);
  tensor->deleter(tensor);
}

static void case_29_padded_sub_bytes_take_a_byte_each_and_say_so(void **state)
{
  struct bench *bench = *state;
  uint8_t values[5] = {1, 2, 3, 4, 5};
  int64_t shape = 5;
  struct DLManagedTensorVersioned versioned = {
      .version = {1, 3},
      .flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
      .dl_tensor = {values, {kDLCPU, 0}, 1, {kDLFloat4_e2m1fn, 4, 1}, &shape, NULL, 0}};
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  test_ok(dlc_put_managed(bench->client, "t", &versioned, NULL, NULL, &error), &error);
  test_ok(dlc_get(bench->client, "t", NULL, &tensor, &error), &error);
  assert_int_equal(tensor->flags,
                   DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
  assert_int_equal(dlc_tensor_info(tensor)->nbytes, 5);
  assert_true(dlc_tensor_info(tensor)->flags & DLC_INFO_PADDED);
  assert_memory_equal(tensor->dl_tensor.data, values, 5);
  tensor->deleter(tensor);
}

static void case_32_vectors_take_their_lanes(void **state)
{
  struct bench *bench = *state;
  int64_t shape = 7;
  DLTensor source = {bench->source, {kDLCPU, 0}, 1, {kDLFloat, 32, 4}, &shape, NULL, 0};
  struct dlc_info *info;
  struct dlc_error error;

  test_ok(dlc_put(bench->client, "t", dlc_view(&source), NULL, NULL, &error), &error);
  test_ok(dlc_stat(bench->client, "t", &info, &error), &error);
  assert_int_equal(info->nbytes, 112);
  assert_true(info->strides[0] == 1);
  dlc_info_free(info);
}

static void case_34_37_unknown_dtypes_are_refused(void **state)
{
  static const DLDataType rows[] = {
      {200, 8, 1},       {kDLFloat, 0, 1},       {kDLFloat, 32, 0},   {255, 255, 65535},
      {kDLFloat, 80, 1}, {kDLFloat, 128, 1},     {kDLInt, 3, 1},      {kDLComplex, 0, 0},
      {19, 32, 1},       {kDLFloat, 255, 65535}, {kDLUInt, 0, 65535},
  };
  struct bench *bench = *state;
  int64_t shape = 1;
  struct dlc_error error;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++) {
    DLTensor source = {bench->source, {kDLCPU, 0}, 1, rows[i], &shape, NULL, 0};

    test_refused(dlc_put(bench->client, "t", dlc_view(&source), NULL, NULL, &error), DLC_E_DTYPE,
                 &error);
  }
}

static void case_38_43_flags_say_who_may_write(void **state)
{
  static const struct {
    uint32_t access;
    uint64_t flags;
  } rows[] = {
      {0, DLPACK_FLAG_BITMASK_READ_ONLY},
      {DLC_ACCESS_READ, DLPACK_FLAG_BITMASK_READ_ONLY},
      {DLC_ACCESS_PRIVATE, DLPACK_FLAG_BITMASK_IS_COPIED},
      {DLC_ACCESS_SHARED, 0},
  };
  struct dlc_publish_options mutable = DLC_PUBLISH_OPTIONS_INIT;
  struct bench *bench = *state;
  int64_t shape = 4;
  struct dlc_view view = test_view_f32((float *)(void *)bench->source, &shape, 1);
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  mutable.flags = DLC_MUTABLE;
  test_ok(dlc_put(bench->client, "t", &view, &mutable, NULL, &error), &error);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++) {
    struct dlc_get_options options = DLC_GET_OPTIONS_INIT;

    options.access = rows[i].access;
    test_ok(dlc_get(bench->client, "t", &options, &tensor, &error), &error);
    assert_int_equal(tensor->flags, rows[i].flags);
    tensor->deleter(tensor);
  }
}

/* ---- lifetime ---- */

static void *delete_elsewhere(void *tensor)
{
  test_drop(tensor);
  return NULL;
}

static void delete_on_another_thread(struct DLManagedTensorVersioned *tensor)
{
  pthread_t thread;

  assert_int_equal(pthread_create(&thread, NULL, delete_elsewhere, tensor), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void case_45_a_deleter_runs_on_any_thread_and_after_close(void **state)
{
  struct bench *bench = *state;
  struct dlc_client *client = test_connect(&bench->daemon);
  struct DLManagedTensorVersioned *tensors[2];

  (void)test_put(bench->client, "t", 4096, 5, NULL);
  for (int i = 0; i < 2; i++)
    tensors[i] = test_get(client, "t", DLC_ACCESS_READ);
  delete_on_another_thread(tensors[0]);
  dlc_close(client);
  test_check(tensors[1], 5);
  test_wait_counter(bench->client, "leases", 1);
  delete_on_another_thread(tensors[1]);
  test_wait_counter(bench->client, "leases", 0);
  test_wait_counter(bench->client, "sessions", 1);
}

static struct DLManagedTensorVersioned *held_to_the_end;

static void delete_at_exit(void)
{
  held_to_the_end->deleter(held_to_the_end);
}

/* A process of its own, that ends by exit() with a tensor in hand. */
static int hold_until_exit(void *context, struct test_pipe_ends *ends)
{
  const struct bench *bench = context;
  struct dlc_client *client = test_connect(&bench->daemon);

  held_to_the_end = test_get(client, "t", DLC_ACCESS_READ);
  if (atexit(delete_at_exit) != 0)
    return 1;
  dlc_close(client);
  exit(0);
}

static void case_45_a_deleter_runs_at_exit(void **state)
{
  struct bench *bench = *state;
  struct test_child child;

  (void)test_put(bench->client, "t", 4096, 5, NULL);
  test_child_start(&child, hold_until_exit, bench);
  test_child_join(&child);
  test_wait_counter(bench->client, "leases", 0);
}

static void case_54_a_foreign_tensor_is_not_taken_for_one_of_ours(void **state)
{
  struct bench *bench = *state;
  struct DLManagedTensorVersioned foreign = {.version = {1, 3}, .deleter = count_versioned};
  struct DLManagedTensorVersioned *copy;
  struct dlc_error error;

  assert_null(dlc_tensor_info(&foreign));
  test_refused(dlc_dup(&foreign, &copy, &error), DLC_E_INVALID, &error);
  test_refused(dlc_publish(bench->client, "t", &foreign, NULL, NULL, &error), DLC_E_INVALID,
               &error);
}

/* ---- again and again ---- */

#define MANY 100000
#define FEW 1000
#define LOOP_US 6000000

struct footprint {
  uint64_t rss_kib, daemon_rss_kib;
  size_t n_maps, n_fds, n_daemon_fds;
};

static struct footprint take_footprint(struct bench *bench)
{
  return (struct footprint){
      .rss_kib = test_rss_kib(getpid()),
      .daemon_rss_kib = test_rss_kib(bench->daemon.pid),
      .n_maps = test_count_maps_of("memfd:"),
      .n_fds = test_count_fds(),
      .n_daemon_fds = test_count_fds_of(bench->daemon.pid),
  };
}

static void put_get_and_delete(struct bench *bench)
{
  struct dlc_error error;
  struct DLManagedTensorVersioned *tensor;
  struct DLManagedTensor *legacy;

  (void)test_put(bench->client, "t", 1000, 9, NULL);
  tensor = test_get(bench->client, "t", DLC_ACCESS_READ);
  test_ok(dlc_dup_legacy(tensor, &legacy, &error), &error);
  test_drop(tensor);
  legacy->deleter(legacy);
  test_delete(bench->client, "t");
}

static void case_52_a_hundred_thousand_tensors_leave_nothing_behind(void **state)
{
  struct bench *bench = *state;
  struct footprint before, after;
  int64_t end = test_now_us() + LOOP_US;
  int n;

  for (int i = 0; i < FEW; i++)
    put_get_and_delete(bench);
  before = take_footprint(bench);
  for (n = 0; n < MANY && (n < FEW || test_now_us() < end); n++)
    put_get_and_delete(bench);
  after = take_footprint(bench);
  print_message("    %d times\n", n);
  assert_in_range(after.n_maps, 0, before.n_maps + 2);
  assert_int_equal(after.n_fds, before.n_fds);
  assert_in_range(after.n_daemon_fds, 0, before.n_daemon_fds + 2);
  assert_int_equal(test_counter(bench->client, "leases"), 0);
  assert_int_equal(test_counter(bench->client, "tensors"), 0);
  /* A sanitizer keeps freed memory for a while. */
  if (!TEST_IS_SANITIZED) {
    assert_in_range(after.rss_kib, 0, before.rss_kib + 512);
    assert_in_range(after.daemon_rss_kib, 0, before.daemon_rss_kib + 1024);
  }
}

static void case_49_a_thousand_odd_sizes_are_aligned_for_everyone(void **state)
{
  struct bench *bench = *state;

  for (size_t i = 0; i < 1000; i++) {
    struct DLManagedTensorVersioned *tensor;
    char name[16];

    (void)snprintf(name, sizeof(name), "odd/%zu", i);
    (void)test_put(bench->client, name, i * 7 + 1, i, NULL);
    tensor = test_get(bench->client, name, DLC_ACCESS_READ);
    assert_true((uintptr_t)tensor->dl_tensor.data % 256 == 0);
    test_check(tensor, i);
    test_drop(tensor);
  }
}

#define with_bench(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
    with_bench(a_tensor_comes_back_in_every_form),
    with_bench(a_tensor_that_keeps_its_layout_has_the_same_elements_and_strides),
    with_bench(a_tensor_filled_in_place_comes_back),
    cmocka_unit_test(the_name_of_a_dtype_tells_kinds_apart),
    with_bench(case_14_a_negative_offset_is_an_overflow),
    with_bench(case_16_a_broadcast_that_keeps_its_layout_takes_one_element),
    with_bench(case_20_a_dimension_above_2_to_the_31_stays_as_it_is),
    with_bench(case_21_a_shape_too_large_costs_one_call_of_the_deleter),
    with_bench(case_23_values_begin_at_the_byte_offset),
    with_bench(case_27_bytes_of_bool_are_carried_as_they_are),
    with_bench(case_29_padded_sub_bytes_take_a_byte_each_and_say_so),
    with_bench(case_32_vectors_take_their_lanes),
    with_bench(case_34_37_unknown_dtypes_are_refused),
    with_bench(case_38_43_flags_say_who_may_write),
    with_bench(case_45_a_deleter_runs_on_any_thread_and_after_close),
    with_bench(case_45_a_deleter_runs_at_exit),
    with_bench(case_54_a_foreign_tensor_is_not_taken_for_one_of_ours),
    with_bench(case_52_a_hundred_thousand_tensors_leave_nothing_behind),
    with_bench(case_49_a_thousand_odd_sizes_are_aligned_for_everyone),
};

TEST_MAIN(tests)
