#include "proto/tensor_spec.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "common/overflow.h"
#include "proto/limits.h"

/* DLDataType keeps lanes in 16 bits. */
#define LANES_MAX UINT16_MAX

/*
 * DLPack 1.3 by code, and kDLBcomplex of what comes after it. `widths` are the
 * legal ones, up to the first 0. Left out on purpose: opaque handles, which mean
 * something in their own process only, and floats of 128 bits, which no
 * consumer reads and whose layout DLPack does not say.
 */
#define WIDTHS_MAX 7

struct dtype_rule {
  const char *name;
  bool name_has_width; /* "float" becomes "float32" */
  uint8_t widths[WIDTHS_MAX + 1];
};

static const struct dtype_rule rules[] = {
    [0] = {"int", true, {1, 2, 4, 8, 16, 32, 64}},
    [1] = {"uint", true, {1, 2, 4, 8, 16, 32, 64}},
    [2] = {"float", true, {16, 32, 64}},
    [3] = {"opaque_handle", false, {0}},
    [4] = {"bfloat", true, {16}},
    [5] = {"complex", true, {32, 64, 128}},
    [6] = {"bool", false, {8}},
    [7] = {"float8_e3m4", false, {8}},
    [8] = {"float8_e4m3", false, {8}},
    [9] = {"float8_e4m3b11fnuz", false, {8}},
    [10] = {"float8_e4m3fn", false, {8}},
    [11] = {"float8_e4m3fnuz", false, {8}},
    [12] = {"float8_e5m2", false, {8}},
    [13] = {"float8_e5m2fnuz", false, {8}},
    [14] = {"float8_e8m0fnu", false, {8}},
    [15] = {"float6_e2m3fn", false, {6}},
    [16] = {"float6_e3m2fn", false, {6}},
    [17] = {"float4_e2m1fn", false, {4}},
    [18] = {"bcomplex", true, {32}},
};

static const struct dtype_rule *rule_of(uint32_t code)
{
  return code < sizeof(rules) / sizeof(rules[0]) ? &rules[code] : NULL;
}

static bool has_width(const struct dtype_rule *rule, uint32_t bits)
{
  for (const uint8_t *width = rule->widths; *width; width++)
    if (*width == bits)
      return true;
  return false;
}

int tensor_spec_check_dtype(uint32_t code, uint32_t bits, uint32_t lanes, uint32_t flags)
{
  const struct dtype_rule *rule = rule_of(code);

  if (!rule || !has_width(rule, bits))
    return TENSOR_SPEC_E_DTYPE;
  if (lanes == 0 || lanes > LANES_MAX)
    return TENSOR_SPEC_E_DTYPE;
  if (flags & ~(uint32_t)MSG_SPEC_SUBBYTE_PADDED)
    return TENSOR_SPEC_E_DTYPE;
  if ((flags & MSG_SPEC_SUBBYTE_PADDED) && bits >= 8)
    return TENSOR_SPEC_E_DTYPE;
  return 0;
}

static bool is_packed(const struct msg_spec *spec)
{
  return spec->bits < 8 && !(spec->flags & MSG_SPEC_SUBBYTE_PADDED);
}

/* Bits that an element takes in memory; at most 128 * 65535. */
static uint64_t element_bits(const struct msg_spec *spec)
{
  return (uint64_t)spec->lanes * (spec->bits < 8 && !is_packed(spec) ? 8 : spec->bits);
}

static bool is_empty(const struct msg_spec *spec)
{
  for (size_t i = 0; i < spec->ndim; i++)
    if (spec->shape[i] == 0)
      return true;
  return false;
}

/* Elements of a shape without negative dimensions. Consumers count them in 64
 * bits with a sign. A 0 makes all others harmless, however large. */
static bool count_elements(const struct msg_spec *spec, uint64_t *ret)
{
  uint64_t n = 1;

  if (is_empty(spec)) {
    *ret = 0;
    return true;
  }
  for (size_t i = 0; i < spec->ndim; i++)
    if (!dlp_mul_u64(n, (uint64_t)spec->shape[i], &n) || n > INT64_MAX)
      return false;
  *ret = n;
  return true;
}

/* Elements times bits, in bytes, rounded up. The bits of all elements may not
 * fit where the bytes do: eight elements take a whole number of bytes. */
static bool count_bytes(uint64_t n_elements, uint64_t bits, uint64_t *ret)
{
  uint64_t whole, rest = (n_elements % 8 * bits + 7) / 8;

  if (!dlp_mul_u64(n_elements / 8, bits, &whole) || !dlp_add_u64(whole, rest, ret))
    return false;
  return *ret <= INT64_MAX;
}

static int check_shape(const struct msg_spec *spec)
{
  if (spec->ndim > DLP_NDIM_MAX)
    return TENSOR_SPEC_E_NDIM;
  if (spec->ndim && !spec->shape)
    return TENSOR_SPEC_E_SHAPE;
  for (size_t i = 0; i < spec->ndim; i++)
    if (spec->shape[i] < 0)
      return TENSOR_SPEC_E_SHAPE;
  return 0;
}

int tensor_spec_compact_size(const struct msg_spec *spec, uint64_t *ret)
{
  uint64_t n_elements, size;
  int r;

  r = tensor_spec_check_dtype(spec->code, spec->bits, spec->lanes, spec->flags);
  if (r)
    return r;
  r = check_shape(spec);
  if (r)
    return r;
  if (!count_elements(spec, &n_elements) || !count_bytes(n_elements, element_bits(spec), &size))
    return TENSOR_SPEC_E_SHAPE;
  *ret = size;
  return 0;
}

/* How far one dimension reaches from its first element, in bytes. A dimension
 * of 1 never moves, whatever its stride. */
static bool reach_of(const struct msg_spec *spec, size_t dimension, int64_t *ret)
{
  int64_t steps = spec->shape[dimension] - 1;

  return dlp_mul_i64(steps, spec->strides[dimension], ret) &&
         dlp_mul_i64(*ret, (int64_t)tensor_spec_element_size(spec), ret);
}

/* The extent of a tensor that has elements, and strides in whole bytes. */
static bool strided_extent(const struct msg_spec *spec, struct tensor_extent *ret)
{
  struct tensor_extent extent = {.low = 0, .high = tensor_spec_element_size(spec)};
  int64_t reach, size;

  for (size_t i = 0; i < spec->ndim; i++) {
    if (!reach_of(spec, i, &reach))
      return false;
    int64_t *end = reach < 0 ? &extent.low : &extent.high;
    if (!dlp_add_i64(*end, reach, end))
      return false;
  }
  /* low is 0 or less: then its negation fits too. */
  if (__builtin_sub_overflow(extent.high, extent.low, &size))
    return false;
  *ret = extent;
  return true;
}

int tensor_spec_extent(const struct msg_spec *spec, struct tensor_extent *ret)
{
  struct tensor_extent extent = {0};
  uint64_t compact_size;
  int r;

  r = tensor_spec_compact_size(spec, &compact_size);
  if (r)
    return r;
  if (tensor_spec_is_compact(spec))
    extent.high = (int64_t)compact_size;
  else if (is_packed(spec) || !strided_extent(spec, &extent))
    return TENSOR_SPEC_E_STRIDES;
  if (ret)
    *ret = extent;
  return 0;
}

uint64_t tensor_spec_n_elements(const struct msg_spec *spec)
{
  uint64_t n = 0;

  (void)count_elements(spec, &n);
  return n;
}

uint32_t tensor_spec_element_size(const struct msg_spec *spec)
{
  return is_packed(spec) ? 0 : (uint32_t)(element_bits(spec) / 8);
}

bool tensor_spec_is_compact(const struct msg_spec *spec)
{
  int64_t expected = 1;

  if (!spec->strides || is_empty(spec))
    return true;
  for (size_t i = spec->ndim; i-- > 0;) {
    if (spec->shape[i] == 1)
      continue;
    if (spec->strides[i] != expected)
      return false;
    expected *= spec->shape[i];
  }
  return true;
}

void tensor_spec_compact_strides(const struct msg_spec *spec, int64_t *ret_strides)
{
  int64_t stride = 1, next;

  /* Only the dimensions beside a 0 can overflow; nothing lies there, so any
   * stride will do. */
  for (size_t i = spec->ndim; i-- > 0;) {
    ret_strides[i] = stride;
    if (spec->shape[i] > 0 && dlp_mul_i64(stride, spec->shape[i], &next))
      stride = next;
  }
}

void tensor_dtype_name(uint32_t code, uint32_t bits, uint32_t lanes, char *buffer, size_t size)
{
  const struct dtype_rule *rule = rule_of(code);
  char name[32], vector[16] = "";

  if (!rule || !has_width(rule, bits))
    (void)snprintf(name, sizeof(name), "code%" PRIu32 "_bits%" PRIu32, code, bits);
  else if (rule->name_has_width)
    (void)snprintf(name, sizeof(name), "%s%" PRIu32, rule->name, bits);
  else
    (void)snprintf(name, sizeof(name), "%s", rule->name);
  if (lanes != 1)
    (void)snprintf(vector, sizeof(vector), "x%" PRIu32, lanes);
  (void)snprintf(buffer, size, "%s%s", name, vector);
}

/* "8, 16 or 32" */
static void list_widths(const struct dtype_rule *rule, char *buffer, size_t size)
{
  size_t used = 0;

  buffer[0] = '\0';
  for (const uint8_t *width = rule->widths; *width && used < size; width++) {
    const char *before = width == rule->widths ? "" : width[1] ? ", " : " or ";
    int n = snprintf(buffer + used, size - used, "%s%d", before, *width);
    used += n > 0 ? (size_t)n : 0;
  }
}

static void describe_dtype(const struct msg_spec *spec, char *buffer, size_t size)
{
  const struct dtype_rule *rule = rule_of(spec->code);
  char widths[64];

  if (!rule) {
    (void)snprintf(buffer, size, "dtype code %" PRIu32 " is not one of DLPack's", spec->code);
  } else if (!rule->widths[0]) {
    (void)snprintf(buffer, size, "dtype %s means something in its own process only", rule->name);
  } else if (!has_width(rule, spec->bits)) {
    list_widths(rule, widths, sizeof(widths));
    (void)snprintf(buffer, size, "dtype %s has %s bits, not %" PRIu32, rule->name, widths,
                   spec->bits);
  } else if (spec->lanes == 0 || spec->lanes > LANES_MAX) {
    (void)snprintf(buffer, size, "a dtype has 1 to %d lanes, not %" PRIu32, LANES_MAX, spec->lanes);
  } else if (spec->flags & ~(uint32_t)MSG_SPEC_SUBBYTE_PADDED) {
    (void)snprintf(buffer, size, "unknown flags 0x%" PRIx32, spec->flags);
  } else {
    (void)snprintf(buffer, size, "only a dtype below 8 bits can be padded, not one of %" PRIu32,
                   spec->bits);
  }
}

static void describe_shape(const struct msg_spec *spec, char *buffer, size_t size)
{
  if (!spec->shape) {
    (void)snprintf(buffer, size, "a tensor of %zu dimensions needs a shape", spec->ndim);
    return;
  }
  for (size_t i = 0; i < spec->ndim; i++) {
    if (spec->shape[i] < 0) {
      (void)snprintf(buffer, size, "dimension %zu of the shape is %" PRId64, i, spec->shape[i]);
      return;
    }
  }
  (void)snprintf(buffer, size, "the shape has more elements or bytes than 63 bits can count");
}

static void describe_strides(const struct msg_spec *spec, char *buffer, size_t size)
{
  char name[48];

  tensor_dtype_name(spec->code, spec->bits, spec->lanes, name, sizeof(name));
  if (is_packed(spec))
    (void)snprintf(buffer, size, "a packed %s tensor must be row-major without gaps", name);
  else
    (void)snprintf(buffer, size, "the strides reach further than 63 bits can count");
}

void tensor_spec_describe(const struct msg_spec *spec, int condition, char *buffer, size_t size)
{
  switch (condition) {
  case TENSOR_SPEC_E_DTYPE:
    describe_dtype(spec, buffer, size);
    break;
  case TENSOR_SPEC_E_NDIM:
    (void)snprintf(buffer, size, "a tensor has at most %d dimensions, not %zu", DLP_NDIM_MAX,
                   spec->ndim);
    break;
  case TENSOR_SPEC_E_SHAPE:
    describe_shape(spec, buffer, size);
    break;
  case TENSOR_SPEC_E_STRIDES:
    describe_strides(spec, buffer, size);
    break;
  default:
    (void)snprintf(buffer, size, "the tensor is fine");
  }
}
