#include "support/test.h"

#include <string.h>

#include "client/import.h"

static float values[12];
static int64_t shape[] = {3, 4};
static int64_t strides[] = {4, 1};

static struct dlc_view view_of_values(void)
{
  return (struct dlc_view){.data = values,
                           .device_type = kDLCPU,
                           .ndim = 2,
                           .dtype_code = kDLFloat,
                           .dtype_bits = 32,
                           .dtype_lanes = 1,
                           .shape = shape,
                           .strides = strides};
}

/* Refused with this code, and in these words. */
static void assert_refused(const struct dlc_view *view, int code, const char *words)
{
  struct dlc__source source;
  struct dlc_error error = {0};

  assert_int_equal(dlc__import_view(view, 0, &source, &error), -code);
  assert_int_equal(error.code, code);
  if (!strstr(error.message, words))
    fail_msg("\"%s\" does not say \"%s\"", error.message, words);
}

static void an_ordinary_tensor_is_taken(void **state)
{
  struct dlc_view view = view_of_values();
  struct dlc__source source;

  assert_int_equal(dlc__import_view(&view, 0, &source, NULL), 0);
  assert_ptr_equal(source.zero, values);
  assert_int_equal(source.extent.low, 0);
  assert_int_equal(source.extent.high, 48);
  assert_int_equal(source.compact_size, 48);
}

static void the_byte_offset_leads_to_element_zero(void **state)
{
  struct dlc_view view = view_of_values();
  int64_t three[] = {3};
  struct dlc__source source;

  view.ndim = 1;
  view.shape = three;
  view.strides = NULL;
  view.byte_offset = 8;
  assert_int_equal(dlc__import_view(&view, 0, &source, NULL), 0);
  assert_ptr_equal(source.zero, &values[2]);
}

static void null_strides_are_row_major(void **state)
{
  struct dlc_view view = view_of_values();
  struct dlc__source source;

  view.strides = NULL;
  assert_int_equal(dlc__import_view(&view, 0, &source, NULL), 0);
  assert_true(tensor_spec_is_compact(&source.spec));
}

static void negative_strides_reach_below_element_zero(void **state)
{
  struct dlc_view view = view_of_values();
  int64_t reversed[] = {-4, -1};
  struct dlc__source source;

  view.strides = reversed;
  view.byte_offset = 44;
  assert_int_equal(dlc__import_view(&view, 0, &source, NULL), 0);
  assert_ptr_equal(source.zero, &values[11]);
  assert_int_equal(source.extent.low, -44);
  assert_int_equal(source.extent.high, 4);
}

static void a_scalar_needs_neither_shape_nor_strides(void **state)
{
  struct dlc_view view = view_of_values();
  struct dlc__source source;

  view.ndim = 0;
  view.shape = view.strides = NULL;
  assert_int_equal(dlc__import_view(&view, 0, &source, NULL), 0);
  assert_int_equal(source.compact_size, 4);
}

static void an_empty_tensor_needs_no_data(void **state)
{
  struct dlc_view view = view_of_values();
  int64_t empty[] = {0, 3};
  struct dlc__source source;

  view.shape = empty;
  view.data = NULL;
  view.byte_offset = UINT64_MAX;
  assert_int_equal(dlc__import_view(&view, 0, &source, NULL), 0);
  assert_int_equal(source.compact_size, 0);
}

static void a_rank_out_of_range_is_refused_before_the_shape_is_read(void **state)
{
  struct dlc_view view = view_of_values();

  view.shape = (const int64_t *)1;
  view.ndim = -1;
  assert_refused(&view, DLC_E_LAYOUT, "ndim is -1");
  view.ndim = 65;
  assert_refused(&view, DLC_E_LAYOUT, "ndim is 65");
  view.ndim = INT32_MIN;
  assert_refused(&view, DLC_E_LAYOUT, "ndim is");
}

static void missing_pointers_are_refused(void **state)
{
  struct dlc_view view = view_of_values();

  view.data = NULL;
  assert_refused(&view, DLC_E_LAYOUT, "data is NULL");
  view = view_of_values();
  view.shape = NULL;
  assert_refused(&view, DLC_E_LAYOUT, "shape is NULL");
  assert_refused(NULL, DLC_E_INVALID, "NULL");
}

static void sizes_that_overflow_are_refused(void **state)
{
  struct dlc_view view = view_of_values();
  int64_t huge[] = {INT64_C(1) << 32, INT64_C(1) << 32};
  int64_t negative[] = {3, -4};

  view.strides = NULL;
  view.shape = huge;
  assert_refused(&view, DLC_E_LAYOUT, "");
  view.shape = negative;
  assert_refused(&view, DLC_E_LAYOUT, "");
}

static void offsets_beyond_the_address_space_are_refused(void **state)
{
  struct dlc_view view = view_of_values();

  view.byte_offset = UINT64_MAX - 7;
  assert_refused(&view, DLC_E_LAYOUT, "address space");
  view.byte_offset = UINT64_MAX - (uintptr_t)values - 8;
  assert_refused(&view, DLC_E_LAYOUT, "address space");
}

static void unknown_data_types_are_refused(void **state)
{
  struct dlc_view view = view_of_values();

  view.dtype_code = 200;
  assert_refused(&view, DLC_E_DTYPE, "200");
  view = view_of_values();
  view.dtype_lanes = 0;
  assert_refused(&view, DLC_E_DTYPE, "");
  view = view_of_values();
  view.dtype_bits = 0;
  assert_refused(&view, DLC_E_DTYPE, "");
}

static void memory_that_the_cpu_cannot_read_is_refused_by_name(void **state)
{
  struct dlc_view view = view_of_values();

  view.device_type = kDLCUDA;
  assert_refused(&view, DLC_E_UNSUPPORTED, "kDLCUDA ");
  view.device_type = kDLCUDAManaged;
  assert_refused(&view, DLC_E_UNSUPPORTED, "kDLCUDAManaged");
  view.device_type = 5;
  assert_refused(&view, DLC_E_UNSUPPORTED, "type 5");
  view.device_type = -1;
  assert_refused(&view, DLC_E_UNSUPPORTED, "type -1");
}

static void pinned_memory_is_host_memory(void **state)
{
  struct dlc_view view = view_of_values();
  struct dlc__source source;

  view.device_type = kDLCUDAHost;
  assert_int_equal(dlc__import_view(&view, 0, &source, NULL), 0);
  view.device_type = kDLROCMHost;
  assert_int_equal(dlc__import_view(&view, 0, &source, NULL), 0);
}

static DLManagedTensorVersioned managed_of_values(void)
{
  return (DLManagedTensorVersioned){.version = {1, 3},
                                    .dl_tensor = {.data = values,
                                                  .device = {kDLCPU, 0},
                                                  .ndim = 2,
                                                  .dtype = {kDLFloat, 32, 1},
                                                  .shape = shape,
                                                  .strides = strides}};
}

static void of_a_foreign_major_version_nothing_else_is_read(void **state)
{
  DLManagedTensorVersioned managed = managed_of_values();
  struct dlc__source source;
  struct dlc_error error;

  managed.version = (DLPackVersion){2, 0};
  managed.dl_tensor.shape = (int64_t *)1;
  assert_int_equal(dlc__import_versioned(&managed, &source, &error), -DLC_E_VERSION);
  assert_non_null(strstr(error.message, "2.0"));
}

static void a_later_minor_version_is_taken(void **state)
{
  DLManagedTensorVersioned managed = managed_of_values();
  struct dlc__source source;

  managed.version.minor = 99;
  assert_int_equal(dlc__import_versioned(&managed, &source, NULL), 0);
}

static void an_unknown_flag_is_refused(void **state)
{
  DLManagedTensorVersioned managed = managed_of_values();
  struct dlc__source source;

  managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED;
  assert_int_equal(dlc__import_versioned(&managed, &source, NULL), 0);
  managed.flags |= UINT64_C(1) << 40;
  assert_int_equal(dlc__import_versioned(&managed, &source, NULL), -DLC_E_UNSUPPORTED);
}

static void padded_sub_byte_elements_take_a_byte_each(void **state)
{
  DLManagedTensorVersioned managed = managed_of_values();
  int64_t five[] = {5}, one[] = {1};
  struct dlc__source source;

  managed.dl_tensor.ndim = 1;
  managed.dl_tensor.shape = five;
  managed.dl_tensor.strides = one;
  managed.dl_tensor.dtype = (DLDataType){kDLFloat4_e2m1fn, 4, 1};
  assert_int_equal(dlc__import_versioned(&managed, &source, NULL), 0);
  assert_int_equal(source.compact_size, 3);
  managed.flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  assert_int_equal(dlc__import_versioned(&managed, &source, NULL), 0);
  assert_int_equal(source.compact_size, 5);
}

static void of_a_prototype_neither_data_nor_strides_are_read(void **state)
{
  struct dlc_view view = view_of_values();
  struct dlc__source source;

  view.data = NULL;
  view.strides = (const int64_t *)1;
  view.byte_offset = UINT64_MAX;
  assert_int_equal(dlc__import_prototype(&view, &source, NULL), 0);
  assert_int_equal(source.compact_size, 48);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_ordinary_tensor_is_taken),
    cmocka_unit_test(the_byte_offset_leads_to_element_zero),
    cmocka_unit_test(null_strides_are_row_major),
    cmocka_unit_test(negative_strides_reach_below_element_zero),
    cmocka_unit_test(a_scalar_needs_neither_shape_nor_strides),
    cmocka_unit_test(an_empty_tensor_needs_no_data),
    cmocka_unit_test(a_rank_out_of_range_is_refused_before_the_shape_is_read),
    cmocka_unit_test(missing_pointers_are_refused),
    cmocka_unit_test(sizes_that_overflow_are_refused),
    cmocka_unit_test(offsets_beyond_the_address_space_are_refused),
    cmocka_unit_test(unknown_data_types_are_refused),
    cmocka_unit_test(memory_that_the_cpu_cannot_read_is_refused_by_name),
    cmocka_unit_test(pinned_memory_is_host_memory),
    cmocka_unit_test(of_a_foreign_major_version_nothing_else_is_read),
    cmocka_unit_test(a_later_minor_version_is_taken),
    cmocka_unit_test(an_unknown_flag_is_refused),
    cmocka_unit_test(padded_sub_byte_elements_take_a_byte_each),
    cmocka_unit_test(of_a_prototype_neither_data_nor_strides_are_read),
};

TEST_MAIN(tests)
