/*
 * tensor_spec_extent() against a slow reference in 128 bits, over any dtype,
 * shape and strides.
 *
 * Input: code, bits, lanes (2 bytes), flags, ndim; then shape and strides, each
 * number led by a byte that says how to read it, so that small numbers and those
 * near the limits are met as often as random ones.
 */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/tensor_spec.h"

#define NDIM_MAX 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
  const uint8_t *data;
  size_t size;
};

static uint64_t take(struct input *input, size_t n_bytes)
{
  uint64_t value = 0;

  for (; n_bytes && input->size; n_bytes--, input->size--)
    value = value << 8 | *input->data++;
  return value;
}

static int64_t take_number(struct input *input)
{
  uint64_t how = take(input, 1);

  switch (how % 5) {
  case 0:
    return (int64_t)(how / 5);
  case 1:
    return -(int64_t)(how / 5);
  case 2:
    return (int64_t)(UINT64_C(1) << how / 5 % 64);
  case 3:
    return INT64_MAX - (int64_t)(how / 5);
  default:
    return (int64_t)take(input, 8);
  }
}

/* Beyond what 64 bits hold all values are alike; this keeps 128 from overflowing. */
static __int128 clamp(__int128 value)
{
  const __int128 limit = (__int128)1 << 100;

  return value > limit ? limit : value < -limit ? -limit : value;
}

static bool reference_is_empty(const struct msg_spec *spec)
{
  for (size_t i = 0; i < spec->ndim; i++)
    if (spec->shape[i] == 0)
      return true;
  return false;
}

/* Bytes of all elements side by side; negative if a dimension is. */
static __int128 reference_size(const struct msg_spec *spec)
{
  bool padded = spec->flags & MSG_SPEC_SUBBYTE_PADDED;
  __int128 n = 1;

  for (size_t i = 0; i < spec->ndim; i++)
    if (spec->shape[i] < 0)
      return -1;
  if (reference_is_empty(spec))
    return 0;
  /* The product of two numbers below 2^63 fits. */
  for (size_t i = 0; i < spec->ndim; i++)
    if ((n *= spec->shape[i]) > INT64_MAX)
      return n;
  n *= spec->lanes;
  return (n * (padded ? 8 : spec->bits) + 7) / 8;
}

static bool reference_is_compact(const struct msg_spec *spec)
{
  __int128 expected = 1;

  for (size_t i = spec->ndim; i-- > 0; expected *= spec->shape[i])
    if (spec->shape[i] != 1 && spec->strides[i] != expected)
      return false;
  return true;
}

/* Return: whether a tensor with these bytes may be. */
static bool reference_extent(const struct msg_spec *spec, __int128 *low, __int128 *high)
{
  bool packed = spec->bits < 8 && !(spec->flags & MSG_SPEC_SUBBYTE_PADDED);
  __int128 size = reference_size(spec), element;

  *low = *high = 0;
  if (size < 0 || size > INT64_MAX)
    return false;
  if (size == 0 || !spec->strides || packed) {
    *high = size;
    return size == 0 || !spec->strides || reference_is_compact(spec);
  }
  element = spec->bits < 8 ? spec->lanes : (__int128)spec->bits / 8 * spec->lanes;
  *high = element;
  for (size_t i = 0; i < spec->ndim; i++) {
    __int128 steps = (__int128)(spec->shape[i] - 1) * spec->strides[i];
    __int128 reach = clamp(steps) * element;
    *(reach < 0 ? low : high) += reach;
  }
  return *low >= INT64_MIN && *high <= INT64_MAX && *high - *low <= INT64_MAX;
}

static void check_accepted(const struct msg_spec *spec, const struct tensor_extent *extent)
{
  int64_t strides[NDIM_MAX];
  struct msg_spec compact = *spec;
  struct tensor_extent compact_extent;
  uint64_t size;

  assert(extent->low <= 0 && extent->high >= 0);
  assert((extent->high == 0) == (tensor_spec_n_elements(spec) == 0));
  assert(tensor_spec_compact_size(spec, &size) == 0);
  if (tensor_spec_is_compact(spec))
    assert(extent->low == 0 && (uint64_t)extent->high == size);

  tensor_spec_compact_strides(spec, strides);
  compact.strides = strides;
  assert(tensor_spec_is_compact(&compact));
  assert(tensor_spec_extent(&compact, &compact_extent) == 0);
  assert(compact_extent.low == 0 && (uint64_t)compact_extent.high == size);
}

static void check(const struct msg_spec *spec)
{
  struct tensor_extent extent;
  int r = tensor_spec_extent(spec, &extent);
  __int128 low, high;
  char text[128], name[48];

  tensor_dtype_name(spec->code, spec->bits, spec->lanes, name, sizeof(name));
  tensor_spec_describe(spec, r, text, sizeof(text));
  assert(strlen(text) < sizeof(text) - 1 && *name);
  if (r == TENSOR_SPEC_E_DTYPE) {
    assert(tensor_spec_check_dtype(spec->code, spec->bits, spec->lanes, spec->flags) == r);
    return;
  }
  assert((r == 0) == reference_extent(spec, &low, &high));
  if (r)
    return;
  assert(extent.low == low && extent.high == high);
  check_accepted(spec, &extent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct input input = {data, size};
  int64_t shape[NDIM_MAX], strides[NDIM_MAX];
  struct msg_spec spec = {0};
  uint64_t flags;

  spec.code = (uint32_t)take(&input, 1) % 20;
  spec.bits = (uint32_t)take(&input, 1);
  spec.lanes = (uint32_t)take(&input, 2);
  flags = take(&input, 1);
  spec.flags = flags & 3;
  spec.ndim = take(&input, 1) % (NDIM_MAX + 1);
  for (size_t i = 0; i < spec.ndim; i++)
    shape[i] = take_number(&input);
  for (size_t i = 0; i < spec.ndim; i++)
    strides[i] = take_number(&input);
  spec.shape = shape;
  spec.strides = flags & 4 ? strides : NULL;
  check(&spec);
  return 0;
}
