#include "support/test.h"

#include <stdbool.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/tensor_spec.h"

/*
 * Many cases here once crashed, leaked or misread in some other program that
 * reads DLPack; their comments name the report.
 */

#define NDIM 6

/* A spec with storage of its own; without STRIDES() it has none. */
struct layout {
  uint32_t code, bits, lanes, flags;
  size_t ndim;
  int64_t shape[NDIM];
  bool strided;
  int64_t strides[NDIM];
};

#define DIMS(...) .ndim = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .shape = {__VA_ARGS__}
#define SCALAR .ndim = 0
#define STRIDES(...) .strided = true, .strides = {__VA_ARGS__}

#define UINT8 1, 8, 1, 0
#define INT32 0, 32, 1, 0
#define FLOAT32 2, 32, 1, 0
#define FLOAT64 2, 64, 1, 0
#define FP4 17, 4, 1, 0
#define FP4X2 17, 4, 2, 0
#define FP6 15, 6, 1, 0
#define INT4 0, 4, 1, 0
#define INT4_PADDED 0, 4, 1, MSG_SPEC_SUBBYTE_PADDED

static struct msg_spec spec_of(const struct layout *layout)
{
  return (struct msg_spec){
      .code = layout->code,
      .bits = layout->bits,
      .lanes = layout->lanes,
      .flags = layout->flags,
      .ndim = layout->ndim,
      .shape = layout->ndim ? layout->shape : NULL,
      .strides = layout->strided ? layout->strides : NULL,
  };
}

static void print_verdict(const struct layout *layout, int condition)
{
  struct msg_spec spec = spec_of(layout);
  char text[128];

  tensor_spec_describe(&spec, condition, text, sizeof(text));
  print_error("dtype %u/%u/%u, %zu dimensions, first %lld: %d, %s\n", layout->code, layout->bits,
              layout->lanes, layout->ndim, (long long)layout->shape[0], condition, text);
}

struct reach {
  struct layout layout;
  int64_t low, high;
  bool compact;
};

static const struct reach reaches[] = {
    {{FLOAT32, SCALAR}, 0, 4, true},                                   /* numpy#29872: 0-d */
    {{FLOAT32, DIMS(2, 3)}, 0, 24, true},                              /* mxnet#13658, dlpack#177 */
    {{FLOAT32, DIMS(2, 3), STRIDES(3, 1)}, 0, 24, true},               /* numpy#29872 */
    {{FLOAT32, DIMS(0, 3), STRIDES(0, 0)}, 0, 0, true},                /* nanobind#1259 */
    {{FLOAT32, DIMS(4, 0, 4), STRIDES(0, 0, 0)}, 0, 0, true},          /* tvm-ffi#607 */
    {{FLOAT32, DIMS(0), STRIDES(5)}, 0, 0, true},                      /* tvm-ffi#610 */
    {{FLOAT32, DIMS(0, 3)}, 0, 0, true},                               /* cccl#11605 */
    {{FLOAT32, DIMS(0, 3), STRIDES(7, -5)}, 0, 0, true},               /* any strides will do */
    {{FLOAT32, DIMS(1, 8, 0, 128), STRIDES(9, -1, 0, 3)}, 0, 0, true}, /* onnxruntime#27450 */
    {{FLOAT32, DIMS(1, 3, 1, 4, 1), STRIDES(0, 4, 0, 1, 0)}, 0, 48, true}, /* tensorflow#61184 */
    {{FLOAT32, DIMS(1, 4), STRIDES(999, 1)}, 0, 16, true},                 /* numpy#20336 */
    {{FLOAT32, DIMS(1, 4), STRIDES(-7, 1)}, 0, 16, true},                  /* drjit#122 */
    {{FLOAT32, DIMS(1, 4), STRIDES(INT64_MIN, 1)}, 0, 16, true}, /* a dimension of 1 never moves */
    {{FLOAT32, DIMS(1, 77), STRIDES(1, 1)}, 0, 308, true},       /* pytorch#83069 */
    {{FLOAT32, DIMS(1024, 1), STRIDES(1, 1024)}, 0, 4096, true}, /* pytorch#163274 */
    {{FLOAT32, DIMS(3, 4), STRIDES(4, -1)}, -12, 36, false},     /* pytorch#188023 */
    {{FLOAT32, DIMS(3, 4), STRIDES(-4, -1)}, -44, 4, false},     /* reversed twice */
    {{FLOAT32, DIMS(4), STRIDES(-1)}, -12, 4, false},            /* cupy#10172 */
    {{FLOAT64, DIMS(5), STRIDES(-2)}, -64, 8, false},            /* sklearn#34307: arr[::-2] */
    {{FLOAT32, DIMS(1000, 1000), STRIDES(0, 0)}, 0, 4, false},   /* mlx#3531: expanded */
    {{FLOAT32, DIMS(3, 4), STRIDES(0, 1)}, 0, 16, false},        /* rows are one row */
    {{FLOAT32, DIMS(3, 3), STRIDES(1, 1)}, 0, 20, false},        /* rows overlap */
    {{FLOAT32, DIMS(3, 4), STRIDES(1, 3)}, 0, 48, false},        /* column-major */
    {{FLOAT32, DIMS(3, 4), STRIDES(8, 2)}, 0, 92, false},        /* x[:, ::2] */
    {{UINT8, DIMS(INT64_C(2147483653))}, 0, INT64_C(2147483653), true}, /* above 2^31 */
    {{UINT8, DIMS(INT64_C(2147483653)), STRIDES(0)}, 0, 1, false},
    {{UINT8, DIMS(INT64_C(1) << 40), STRIDES(0)}, 0, 1, false},
    {{INT32, DIMS(INT64_C(1) << 32, INT64_C(1) << 32, 0)}, 0, 0, true}, /* tensorflow#116201 */
    {{INT32, DIMS(0, INT64_MAX, INT64_MAX), STRIDES(1, 2, 3)}, 0, 0, true},
    {{UINT8, DIMS(INT64_MAX)}, 0, INT64_MAX, true}, /* all that can be */
    {{UINT8, DIMS(2), STRIDES(-INT64_MAX + 1)}, -INT64_MAX + 1, 1, false},
    {{UINT8, DIMS(2), STRIDES(INT64_MAX - 1)}, 0, INT64_MAX, false},
    {{6, 8, 1, 0, DIMS(4)}, 0, 4, true},                /* pytorch#67081: bool */
    {{4, 16, 1, 0, DIMS(3)}, 0, 6, true},               /* numpy#19808: bfloat16 */
    {{10, 8, 1, 0, DIMS(5)}, 0, 5, true},               /* fp8 */
    {{5, 64, 1, 0, DIMS(3)}, 0, 24, true},              /* cupy#5045: complex64 */
    {{2, 32, 2, 0, DIMS(3)}, 0, 24, true},              /* cupy#5045: float32x2 */
    {{2, 32, 4, 0, DIMS(7)}, 0, 112, true},             /* CV-CUDA#142 */
    {{2, 32, 4, 0, DIMS(7), STRIDES(1)}, 0, 112, true}, /* strides count vectors */
    {{2, 32, 4, 0, DIMS(7), STRIDES(2)}, 0, 208, false},
    {{FP4, DIMS(5)}, 0, 3, true},                   /* dlpack#158 */
    {{FP4X2, DIMS(3)}, 0, 3, true},                 /* pytorch#148791 */
    {{FP4, DIMS(3, 4), STRIDES(4, 1)}, 0, 6, true}, /* compact, said so */
    {{FP4, DIMS(0, 3), STRIDES(9, 9)}, 0, 0, true},
    {{FP6, DIMS(4)}, 0, 3, true},
    {{FP6, DIMS(5)}, 0, 4, true},
    {{INT4, DIMS(3, 3)}, 0, 5, true},
    {{INT4, SCALAR}, 0, 1, true},
    {{0, 4, 3, 0, DIMS(3)}, 0, 5, true}, /* 36 bits */
    {{1, 1, 1, 0, DIMS(9)}, 0, 2, true},
    {{INT4, DIMS(INT64_MAX)}, 0, INT64_C(1) << 62, true}, /* more bits than 64 bits count */
    {{INT4_PADDED, DIMS(3, 3)}, 0, 9, true},
    {{INT4_PADDED, DIMS(3, 3), STRIDES(-6, 2)}, -12, 5, false}, /* whole bytes may be strided */
    {{0, 4, 2, MSG_SPEC_SUBBYTE_PADDED, DIMS(3)}, 0, 6, true},
};

static void each_layout_reaches_exactly_its_bytes(void **state)
{
  for (size_t i = 0; i < TEST_ARRAY_SIZE(reaches); i++) {
    const struct reach *reach = &reaches[i];
    struct msg_spec spec = spec_of(&reach->layout);
    struct tensor_extent extent = {.low = 77, .high = 77};
    int r = tensor_spec_extent(&spec, &extent);

    if (r || extent.low != reach->low || extent.high != reach->high)
      print_verdict(&reach->layout, r);
    assert_int_equal(r, 0);
    assert_int_equal(extent.low, reach->low);
    assert_int_equal(extent.high, reach->high);
    assert_int_equal(tensor_spec_is_compact(&spec), reach->compact);
  }
}

struct refusal {
  struct layout layout;
  int condition;
};

static const struct refusal refusals[] = {
    {{200, 8, 1, 0, DIMS(3)}, TENSOR_SPEC_E_DTYPE},
    {{UINT32_MAX, 8, 1, 0, DIMS(3)}, TENSOR_SPEC_E_DTYPE},
    {{2, 0, 1, 0, DIMS(3)}, TENSOR_SPEC_E_DTYPE},
    {{2, 32, 0, 0, DIMS(3)}, TENSOR_SPEC_E_DTYPE},
    {{FLOAT32, DIMS(-1)}, TENSOR_SPEC_E_SHAPE},
    {{FLOAT32, DIMS(0, -1)}, TENSOR_SPEC_E_SHAPE}, /* empty is no excuse */
    {{FLOAT32, DIMS(-1, 0)}, TENSOR_SPEC_E_SHAPE},
    {{FLOAT32, DIMS(INT64_MIN), STRIDES(0)}, TENSOR_SPEC_E_SHAPE},
    {{INT32, DIMS(INT64_C(1) << 32, INT64_C(1) << 32, 16)},
     TENSOR_SPEC_E_SHAPE}, /* tensorflow#116201 */
    {{UINT8, DIMS(INT64_C(1) << 32, INT64_C(1) << 32)}, TENSOR_SPEC_E_SHAPE},
    {{UINT8, DIMS(INT64_C(1) << 32, INT64_C(1) << 32), STRIDES(0, 0)}, TENSOR_SPEC_E_SHAPE},
    {{UINT8, DIMS(INT64_C(1) << 32, INT64_C(1) << 31)}, TENSOR_SPEC_E_SHAPE}, /* no int64 */
    {{INT4, DIMS(INT64_C(1) << 32, INT64_C(1) << 31)},
     TENSOR_SPEC_E_SHAPE}, /* the bytes would do */
    {{FLOAT32, DIMS(INT64_C(1) << 61)}, TENSOR_SPEC_E_SHAPE},
    {{2, 64, 65535, 0, DIMS(INT64_C(1) << 45)}, TENSOR_SPEC_E_SHAPE},
    {{0, 4, 65535, 0, DIMS(INT64_MAX)}, TENSOR_SPEC_E_SHAPE},
    {{FLOAT32, DIMS(2), STRIDES(INT64_MAX)}, TENSOR_SPEC_E_STRIDES},
    {{FLOAT32, DIMS(2), STRIDES(INT64_MIN)}, TENSOR_SPEC_E_STRIDES},
    {{FLOAT32, DIMS(3), STRIDES(INT64_C(1) << 62)}, TENSOR_SPEC_E_STRIDES},
    {{UINT8, DIMS(2), STRIDES(INT64_MAX)}, TENSOR_SPEC_E_STRIDES},
    {{UINT8, DIMS(2), STRIDES(INT64_MIN)}, TENSOR_SPEC_E_STRIDES}, /* its length has no int64 */
    {{UINT8, DIMS(2), STRIDES(-INT64_MAX)}, TENSOR_SPEC_E_STRIDES},
    {{UINT8, DIMS(2, 2), STRIDES(INT64_MAX / 2 + 1, INT64_MAX / 2 + 1)}, TENSOR_SPEC_E_STRIDES},
    {{UINT8, DIMS(2, 2), STRIDES(INT64_MAX / 2 + 1, -INT64_MAX / 2 - 1)}, TENSOR_SPEC_E_STRIDES},
    {{FP4, DIMS(4), STRIDES(2)}, TENSOR_SPEC_E_STRIDES},
    {{FP4, DIMS(4), STRIDES(-1)}, TENSOR_SPEC_E_STRIDES},
    {{FP4, DIMS(4), STRIDES(0)}, TENSOR_SPEC_E_STRIDES},
    {{FP4, DIMS(3, 4), STRIDES(1, 3)}, TENSOR_SPEC_E_STRIDES},
    {{FP4X2, DIMS(4), STRIDES(2)}, TENSOR_SPEC_E_STRIDES},
};

static void each_insane_layout_is_refused_by_its_condition(void **state)
{
  for (size_t i = 0; i < TEST_ARRAY_SIZE(refusals); i++) {
    struct msg_spec spec = spec_of(&refusals[i].layout);
    struct tensor_extent extent = {.low = 77, .high = 77};
    int r = tensor_spec_extent(&spec, &extent);

    if (r != refusals[i].condition)
      print_verdict(&refusals[i].layout, r);
    assert_int_equal(r, refusals[i].condition);
    assert_int_equal(extent.low, 77);
    assert_int_equal(extent.high, 77);
    assert_int_equal(tensor_spec_extent(&spec, NULL), r);
  }
}

static void dimensions_are_bounded(void **state)
{
  int64_t shape[DLP_NDIM_MAX + 1], strides[DLP_NDIM_MAX + 1];
  struct msg_spec spec = {FLOAT32, DLP_NDIM_MAX, shape, strides};
  struct tensor_extent extent;

  for (size_t i = 0; i <= DLP_NDIM_MAX; i++)
    shape[i] = strides[i] = 1;
  assert_int_equal(tensor_spec_extent(&spec, &extent), 0);
  assert_int_equal(extent.high, 4);
  spec.ndim = DLP_NDIM_MAX + 1;
  assert_int_equal(tensor_spec_extent(&spec, &extent), TENSOR_SPEC_E_NDIM);
  spec.ndim = SIZE_MAX;
  assert_int_equal(tensor_spec_extent(&spec, &extent), TENSOR_SPEC_E_NDIM);
}

static void dimensions_without_a_shape_are_refused(void **state)
{
  struct msg_spec spec = {FLOAT32, 2, NULL, NULL};

  assert_int_equal(tensor_spec_extent(&spec, NULL), TENSOR_SPEC_E_SHAPE);
}

struct dtype {
  uint32_t code, bits;
  const char *name;
};

/* Everything of DLPack 1.3 that has a meaning in another process. */
static const struct dtype dtypes[] = {
    {0, 1, "int1"},
    {0, 2, "int2"},
    {0, 4, "int4"},
    {0, 8, "int8"},
    {0, 16, "int16"},
    {0, 32, "int32"},
    {0, 64, "int64"},
    {1, 1, "uint1"},
    {1, 2, "uint2"},
    {1, 4, "uint4"},
    {1, 8, "uint8"},
    {1, 16, "uint16"},
    {1, 32, "uint32"},
    {1, 64, "uint64"},
    {2, 16, "float16"},
    {2, 32, "float32"},
    {2, 64, "float64"},
    {4, 16, "bfloat16"},
    {5, 32, "complex32"},
    {5, 64, "complex64"},
    {5, 128, "complex128"},
    {6, 8, "bool"},
    {7, 8, "float8_e3m4"},
    {8, 8, "float8_e4m3"},
    {9, 8, "float8_e4m3b11fnuz"},
    {10, 8, "float8_e4m3fn"},
    {11, 8, "float8_e4m3fnuz"},
    {12, 8, "float8_e5m2"},
    {13, 8, "float8_e5m2fnuz"},
    {14, 8, "float8_e8m0fnu"},
    {15, 6, "float6_e2m3fn"},
    {16, 6, "float6_e3m2fn"},
    {17, 4, "float4_e2m1fn"},
    {18, 32, "bcomplex32"},
};

static const struct dtype *dtype_of(uint32_t code, uint32_t bits)
{
  for (size_t i = 0; i < TEST_ARRAY_SIZE(dtypes); i++)
    if (dtypes[i].code == code && dtypes[i].bits == bits)
      return &dtypes[i];
  return NULL;
}

/* numpy#19808, pytorch#156353: what is not in the list is refused, not guessed.
 * bool of 1 bit, float128 (numpy longdouble) and complex256 are among it. */
static void every_dtype_is_known_by_name_or_refused(void **state)
{
  for (uint32_t code = 0; code < 300; code++) {
    for (uint32_t bits = 0; bits < 300; bits++) {
      int r = tensor_spec_check_dtype(code, bits, 1, 0);
      assert_int_equal(r, dtype_of(code, bits) ? 0 : TENSOR_SPEC_E_DTYPE);
    }
  }
}

static void names_of_dtypes_are_the_usual_ones(void **state)
{
  char name[48];

  for (size_t i = 0; i < TEST_ARRAY_SIZE(dtypes); i++) {
    tensor_dtype_name(dtypes[i].code, dtypes[i].bits, 1, name, sizeof(name));
    assert_string_equal(name, dtypes[i].name);
  }
  tensor_dtype_name(2, 32, 4, name, sizeof(name));
  assert_string_equal(name, "float32x4");
  tensor_dtype_name(17, 4, 2, name, sizeof(name));
  assert_string_equal(name, "float4_e2m1fnx2");
  tensor_dtype_name(7, 3, 1, name, sizeof(name));
  assert_string_equal(name, "code7_bits3");
  tensor_dtype_name(UINT32_MAX, UINT32_MAX, UINT32_MAX, name, sizeof(name));
  assert_string_equal(name, "code4294967295_bits4294967295x4294967295");
}

static void name_of_a_dtype_keeps_to_its_buffer(void **state)
{
  char name[] = "########";

  tensor_dtype_name(2, 32, 4, name, 4);
  assert_string_equal(name, "flo");
  assert_int_equal(name[4], '#');
}

static void lanes_are_sixteen_bits_and_not_zero(void **state)
{
  assert_int_equal(tensor_spec_check_dtype(2, 32, 0, 0), TENSOR_SPEC_E_DTYPE);
  assert_int_equal(tensor_spec_check_dtype(2, 32, 65535, 0), 0);
  assert_int_equal(tensor_spec_check_dtype(2, 32, 65536, 0), TENSOR_SPEC_E_DTYPE);
}

static void only_what_is_below_a_byte_can_be_padded(void **state)
{
  assert_int_equal(tensor_spec_check_dtype(0, 4, 1, MSG_SPEC_SUBBYTE_PADDED), 0);
  assert_int_equal(tensor_spec_check_dtype(15, 6, 1, MSG_SPEC_SUBBYTE_PADDED), 0);
  assert_int_equal(tensor_spec_check_dtype(2, 32, 1, MSG_SPEC_SUBBYTE_PADDED), TENSOR_SPEC_E_DTYPE);
  assert_int_equal(tensor_spec_check_dtype(2, 32, 1, 1u << 1), TENSOR_SPEC_E_DTYPE);
  assert_int_equal(tensor_spec_check_dtype(0, 4, 1, 1u << 31), TENSOR_SPEC_E_DTYPE);
}

static void compact_size_does_not_mind_strides(void **state)
{
  struct layout reversed = {FLOAT32, DIMS(3, 4), STRIDES(4, -1)};
  struct layout fp4 = {FP4, DIMS(5), STRIDES(7)};
  struct msg_spec spec = spec_of(&reversed);
  uint64_t size;

  assert_int_equal(tensor_spec_compact_size(&spec, &size), 0);
  assert_int_equal(size, 48);
  spec = spec_of(&fp4);
  assert_int_equal(tensor_spec_compact_size(&spec, &size), 0);
  assert_int_equal(size, 3);
}

static void elements_are_counted(void **state)
{
  struct layout layout = {FLOAT64, DIMS(2, 3, 4)};
  struct layout empty = {FLOAT64, DIMS(INT64_MAX, INT64_MAX, 0)};
  struct layout scalar = {2, 32, 4, 0, SCALAR};
  struct layout packed = {FP4X2, DIMS(3)};
  struct layout padded = {0, 4, 3, MSG_SPEC_SUBBYTE_PADDED, DIMS(3)};
  struct msg_spec spec = spec_of(&layout);

  assert_int_equal(tensor_spec_n_elements(&spec), 24);
  assert_int_equal(tensor_spec_element_size(&spec), 8);
  spec = spec_of(&empty);
  assert_int_equal(tensor_spec_n_elements(&spec), 0);
  spec = spec_of(&scalar);
  assert_int_equal(tensor_spec_n_elements(&spec), 1);
  assert_int_equal(tensor_spec_element_size(&spec), 16);
  spec = spec_of(&packed);
  assert_int_equal(tensor_spec_element_size(&spec), 0);
  spec = spec_of(&padded);
  assert_int_equal(tensor_spec_element_size(&spec), 3);
}

struct filled {
  struct layout layout;
  int64_t strides[NDIM];
};

static void compact_strides_are_row_major(void **state)
{
  static const struct filled filled[] = {
      {{FLOAT32, DIMS(2, 3, 4)}, {12, 4, 1}},
      {{FLOAT32, DIMS(1)}, {1}},
      {{FLOAT32, DIMS(5, 1, 7)}, {7, 7, 1}},
      {{FLOAT32, DIMS(0, 3)}, {3, 1}}, /* well formed for readers that look */
      {{FLOAT32, DIMS(4, 0, 4)}, {4, 4, 1}},
      {{FLOAT32, DIMS(0, INT64_MAX, INT64_MAX)}, {INT64_MAX, INT64_MAX, 1}},
  };
  int64_t strides[NDIM];

  for (size_t i = 0; i < TEST_ARRAY_SIZE(filled); i++) {
    struct msg_spec spec = spec_of(&filled[i].layout);
    assert_int_equal(tensor_spec_extent(&spec, NULL), 0);
    tensor_spec_compact_strides(&spec, strides);
    assert_memory_equal(strides, filled[i].strides, spec.ndim * sizeof(strides[0]));
    spec.strides = strides;
    assert_true(tensor_spec_is_compact(&spec));
  }
}

struct sentence {
  struct layout layout;
  int condition;
  const char *text;
};

static const struct sentence sentences[] = {
    {{200, 8, 1, 0, SCALAR}, TENSOR_SPEC_E_DTYPE, "dtype code 200 is not one of DLPack's"},
    {{3, 64, 1, 0, SCALAR},
     TENSOR_SPEC_E_DTYPE,
     "dtype opaque_handle means something in its own process only"},
    {{2, 128, 1, 0, SCALAR}, TENSOR_SPEC_E_DTYPE, "dtype float has 16, 32 or 64 bits, not 128"},
    {{6, 1, 1, 0, SCALAR}, TENSOR_SPEC_E_DTYPE, "dtype bool has 8 bits, not 1"},
    {{0, 3, 1, 0, SCALAR},
     TENSOR_SPEC_E_DTYPE,
     "dtype int has 1, 2, 4, 8, 16, 32 or 64 bits, not 3"},
    {{2, 32, 0, 0, SCALAR}, TENSOR_SPEC_E_DTYPE, "a dtype has 1 to 65535 lanes, not 0"},
    {{2, 32, 1, 6, SCALAR}, TENSOR_SPEC_E_DTYPE, "unknown flags 0x6"},
    {{2, 32, 1, 1, SCALAR},
     TENSOR_SPEC_E_DTYPE,
     "only a dtype below 8 bits can be padded, not one of 32"},
    {{FLOAT32, .ndim = 65}, TENSOR_SPEC_E_NDIM, "a tensor has at most 64 dimensions, not 65"},
    {{FLOAT32, DIMS(2, 4, -3)}, TENSOR_SPEC_E_SHAPE, "dimension 2 of the shape is -3"},
    {{FLOAT32, DIMS(INT64_MAX)},
     TENSOR_SPEC_E_SHAPE,
     "the shape has more elements or bytes than 63 bits can count"},
    {{INT4, DIMS(4), STRIDES(2)},
     TENSOR_SPEC_E_STRIDES,
     "a packed int4 tensor must be row-major without gaps"},
    {{FLOAT32, DIMS(2), STRIDES(INT64_MAX)},
     TENSOR_SPEC_E_STRIDES,
     "the strides reach further than 63 bits can count"},
};

static void each_refusal_has_a_sentence(void **state)
{
  for (size_t i = 0; i < TEST_ARRAY_SIZE(sentences); i++) {
    struct msg_spec spec = spec_of(&sentences[i].layout);
    char text[128];

    assert_int_equal(tensor_spec_extent(&spec, NULL), sentences[i].condition);
    tensor_spec_describe(&spec, sentences[i].condition, text, sizeof(text));
    assert_string_equal(text, sentences[i].text);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_layout_reaches_exactly_its_bytes),
    cmocka_unit_test(each_insane_layout_is_refused_by_its_condition),
    cmocka_unit_test(dimensions_are_bounded),
    cmocka_unit_test(dimensions_without_a_shape_are_refused),
    cmocka_unit_test(every_dtype_is_known_by_name_or_refused),
    cmocka_unit_test(names_of_dtypes_are_the_usual_ones),
    cmocka_unit_test(name_of_a_dtype_keeps_to_its_buffer),
    cmocka_unit_test(lanes_are_sixteen_bits_and_not_zero),
    cmocka_unit_test(only_what_is_below_a_byte_can_be_padded),
    cmocka_unit_test(compact_size_does_not_mind_strides),
    cmocka_unit_test(elements_are_counted),
    cmocka_unit_test(compact_strides_are_row_major),
    cmocka_unit_test(each_refusal_has_a_sentence),
};

TEST_MAIN(tests)
