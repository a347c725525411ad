#include "values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dlclient_dlpack.h"

/* Whole numbers below this are written with all their digits, not as 6e+01. */
#define WHOLE_MAX 1e16

/* How the largest codes of a small float are used. */
enum float_specials {
  SPECIALS_IEEE,   /* largest exponent: infinities and NaN */
  SPECIALS_FN,     /* all ones: NaN; no infinities */
  SPECIALS_FNUZ,   /* minus zero: NaN; no infinities */
  SPECIALS_FINITE, /* none */
};

struct float_format {
  uint8_t code;
  uint8_t bits;
  uint8_t mantissa_bits;
  int16_t bias;
  enum float_specials specials;
};

static const struct float_format float_formats[] = {
    {kDLFloat, 16, 10, 15, SPECIALS_IEEE},
    {kDLBfloat, 16, 7, 127, SPECIALS_IEEE},
    {kDLFloat8_e3m4, 8, 4, 3, SPECIALS_IEEE},
    {kDLFloat8_e4m3, 8, 3, 7, SPECIALS_IEEE},
    {kDLFloat8_e4m3b11fnuz, 8, 3, 11, SPECIALS_FNUZ},
    {kDLFloat8_e4m3fn, 8, 3, 7, SPECIALS_FN},
    {kDLFloat8_e4m3fnuz, 8, 3, 8, SPECIALS_FNUZ},
    {kDLFloat8_e5m2, 8, 2, 15, SPECIALS_IEEE},
    {kDLFloat8_e5m2fnuz, 8, 2, 16, SPECIALS_FNUZ},
    {kDLFloat6_e2m3fn, 6, 3, 1, SPECIALS_FINITE},
    {kDLFloat6_e3m2fn, 6, 2, 3, SPECIALS_FINITE},
    {kDLFloat4_e2m1fn, 4, 1, 1, SPECIALS_FINITE},
};

static const struct float_format *float_format_find(struct dtype dtype)
{
  for (size_t i = 0; i < sizeof(float_formats) / sizeof(float_formats[0]); i++)
    if (float_formats[i].code == dtype.code && float_formats[i].bits == dtype.bits)
      return &float_formats[i];
  return NULL;
}

static bool is_e8m0(struct dtype dtype)
{
  return dtype.code == kDLFloat8_e8m0fnu && dtype.bits == 8;
}

static bool is_special(const struct float_format *format, uint32_t raw, double *ret)
{
  uint32_t sign_bit = 1u << (format->bits - 1);
  uint32_t magnitude = raw & (sign_bit - 1);
  uint32_t infinity = (sign_bit - 1) >> format->mantissa_bits << format->mantissa_bits;

  if (format->specials == SPECIALS_IEEE && magnitude >= infinity)
    *ret = magnitude > infinity ? NAN : raw & sign_bit ? -INFINITY : INFINITY;
  else if ((format->specials == SPECIALS_FN && magnitude == sign_bit - 1) ||
           (format->specials == SPECIALS_FNUZ && raw == sign_bit))
    *ret = NAN;
  else
    return false;
  return true;
}

static double small_float(const struct float_format *format, uint32_t raw)
{
  uint32_t sign_bit = 1u << (format->bits - 1);
  uint32_t hidden = 1u << format->mantissa_bits;
  uint32_t mantissa = raw & (hidden - 1);
  int exponent = (int)((raw & (sign_bit - 1)) >> format->mantissa_bits);
  double value;

  if (is_special(format, raw, &value))
    return value;
  if (exponent > 0)
    mantissa |= hidden;
  else
    exponent = 1;
  value = ldexp((double)mantissa, exponent - format->bias - format->mantissa_bits);
  return raw & sign_bit ? -value : value;
}

double value_small_float(struct dtype dtype, uint32_t raw)
{
  const struct float_format *format = float_format_find(dtype);

  if (is_e8m0(dtype))
    return raw == 0xff ? NAN : ldexp(1, (int)raw - 127);
  return format ? small_float(format, raw) : NAN;
}

enum value_kind value_kind_of(struct dtype dtype)
{
  switch (dtype.code) {
  case kDLBool:
    return dtype.bits <= 8 ? VALUE_BOOL : VALUE_BYTES;
  case kDLInt:
    return dtype.bits <= 64 ? VALUE_INT : VALUE_BYTES;
  case kDLUInt:
    return dtype.bits <= 64 ? VALUE_UINT : VALUE_BYTES;
  case kDLComplex:
    return dtype.bits == 32 || dtype.bits == 64 || dtype.bits == 128 ? VALUE_COMPLEX : VALUE_BYTES;
  case kDLFloat:
    if (dtype.bits == 32 || dtype.bits == 64)
      return VALUE_FLOAT;
    break;
  }
  return float_format_find(dtype) || is_e8m0(dtype) ? VALUE_FLOAT : VALUE_BYTES;
}

/* Up to 64 bits; bytes beyond the last bit are not touched. */
static uint64_t load_bits(const void *data, uint64_t bit_offset, unsigned bits)
{
  const uint8_t *bytes = (const uint8_t *)data + bit_offset / 8;
  unsigned shift = bit_offset % 8;
  unsigned n_bytes = (shift + bits + 7) / 8;
  uint64_t low = 0;
  uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;

  memcpy(&low, bytes, n_bytes < 8 ? n_bytes : 8);
  low >>= shift;
  if (n_bytes > 8)
    low |= (uint64_t)bytes[8] << (64 - shift);
  return low & mask;
}

static double load_float(struct dtype dtype, unsigned bits, const void *data, uint64_t bit_offset)
{
  uint64_t raw = load_bits(data, bit_offset, bits);
  uint32_t raw32 = (uint32_t)raw;
  float single;
  double value;

  if (bits == 64) {
    memcpy(&value, &raw, sizeof(value));
    return value;
  }
  if (bits == 32) {
    memcpy(&single, &raw32, sizeof(single));
    return (double)single;
  }
  dtype.bits = (uint8_t)bits;
  return value_small_float(dtype, raw32);
}

static int64_t extend_sign(uint64_t raw, unsigned bits)
{
  unsigned unused = 64 - bits;

  return (int64_t)(raw << unused) >> unused;
}

struct value value_load(struct dtype dtype, const void *data, uint64_t bit_offset)
{
  static const struct dtype half = {kDLFloat, 16, 1};
  struct value value = {.kind = value_kind_of(dtype)};
  unsigned part = dtype.bits / 2;

  switch (value.kind) {
  case VALUE_BOOL:
    value.unsigned_int = load_bits(data, bit_offset, dtype.bits) != 0;
    break;
  case VALUE_INT:
    value.integer = extend_sign(load_bits(data, bit_offset, dtype.bits), dtype.bits);
    break;
  case VALUE_UINT:
    value.unsigned_int = load_bits(data, bit_offset, dtype.bits);
    break;
  case VALUE_FLOAT:
    value.real = load_float(dtype, dtype.bits, data, bit_offset);
    break;
  case VALUE_COMPLEX:
    value.real = load_float(half, part, data, bit_offset);
    value.imaginary = load_float(half, part, data, bit_offset + part);
    break;
  case VALUE_BYTES:
    break;
  }
  return value;
}

/* Enough digits to tell neighbours apart, and no more. */
static int digits_of(struct dtype dtype)
{
  unsigned bits = dtype.code == kDLComplex ? dtype.bits / 2 : dtype.bits;

  if (bits >= 64)
    return 17;
  return bits == 32 ? 9 : 5;
}

/* The shortest text that reads back as the same value. */
static void format_double(struct text *text, double value, int digits)
{
  char buffer[40];

  if (isnan(value)) {
    text_append(text, "nan");
    return;
  }
  if (fabs(value) < WHOLE_MAX && value == trunc(value)) {
    text_printf(text, "%.0f", value);
    return;
  }
  for (int precision = 1; precision <= digits; precision++) {
    (void)snprintf(buffer, sizeof(buffer), "%.*g", precision, value);
    if (digits >= 17 ? strtod(buffer, NULL) == value
                     : (double)strtof(buffer, NULL) == (double)(float)value)
      break;
  }
  text_append(text, buffer);
}

void value_format(struct text *text, struct dtype dtype, const struct value *value)
{
  switch (value->kind) {
  case VALUE_BOOL:
    text_append(text, value->unsigned_int ? "true" : "false");
    break;
  case VALUE_INT:
    text_printf(text, "%" PRId64, value->integer);
    break;
  case VALUE_UINT:
    text_printf(text, "%" PRIu64, value->unsigned_int);
    break;
  case VALUE_FLOAT:
    format_double(text, value->real, digits_of(dtype));
    break;
  case VALUE_COMPLEX:
    format_double(text, value->real, digits_of(dtype));
    text_append(text, signbit(value->imaginary) && !isnan(value->imaginary) ? "" : "+");
    format_double(text, value->imaginary, digits_of(dtype));
    text_append(text, "j");
    break;
  case VALUE_BYTES:
    text_append(text, "?");
    break;
  }
}

static void format_bytes(struct text *text, const uint8_t *bytes, unsigned count)
{
  text_append(text, "0x");
  for (unsigned i = count; i > 0; i--)
    text_printf(text, "%02x", bytes[i - 1]);
}

static void format_lane(struct text *text, const struct values *values, uint64_t bit_offset)
{
  struct value value = value_load(values->dtype, values->data, bit_offset);

  if (value.kind == VALUE_BYTES)
    format_bytes(text, (const uint8_t *)values->data + bit_offset / 8,
                 (values->dtype.bits + 7u) / 8);
  else
    value_format(text, values->dtype, &value);
}

/* Bits from one lane to the next. */
static uint64_t lane_bits(const struct values *values)
{
  return dtype_element_bits((struct dtype){values->dtype.code, values->dtype.bits, 1},
                            values->padded);
}

static void format_element(struct text *text, const struct values *values, int64_t offset)
{
  struct values at = *values;
  int64_t bits = offset * (int64_t)dtype_element_bits(values->dtype, values->padded);

  /* Only compact tensors have elements within a byte, and those have no negative offsets. */
  at.data = (const uint8_t *)values->data + (bits >= 0 ? bits / 8 : -(-bits / 8));
  bits = bits >= 0 ? bits % 8 : 0;
  if (values->dtype.lanes == 1) {
    format_lane(text, &at, (uint64_t)bits);
    return;
  }
  for (unsigned lane = 0; lane < values->dtype.lanes; lane++) {
    text_append(text, lane ? ", " : "(");
    format_lane(text, &at, (uint64_t)bits + lane * lane_bits(values));
  }
  text_append(text, ")");
}

void values_format_first(struct text *text, const struct values *values, uint64_t limit)
{
  struct layout_walk walk;
  struct layout_run run;
  uint64_t n = 0;

  layout_walk_init(&walk, &values->layout);
  while (n < limit && layout_walk_next(&walk, &run))
    for (int64_t i = 0; i < run.count && n < limit; i++, n++) {
      text_append(text, n ? ", " : "");
      format_element(text, values, run.offset + i * run.stride);
    }
}

struct summing {
  struct values_summary summary;
  uint64_t n_finite;
  double sum;
  double sum_imaginary;
};

static bool is_less(const struct value *a, const struct value *b)
{
  switch (a->kind) {
  case VALUE_INT:
    return a->integer < b->integer;
  case VALUE_FLOAT:
    return a->real < b->real;
  default:
    return a->unsigned_int < b->unsigned_int;
  }
}

static double real_of(const struct value *value)
{
  switch (value->kind) {
  case VALUE_INT:
    return (double)value->integer;
  case VALUE_BOOL:
  case VALUE_UINT:
    return (double)value->unsigned_int;
  default:
    return value->real;
  }
}

static void summing_add(struct summing *summing, const struct value *value)
{
  struct values_summary *summary = &summing->summary;
  double real = real_of(value);

  if (isnan(real) || isnan(value->imaginary)) {
    summary->n_nan++;
    return;
  }
  if (!isfinite(real) || !isfinite(value->imaginary)) {
    summary->n_infinite++;
  } else {
    summing->n_finite++;
    summing->sum += real;
    summing->sum_imaginary += value->imaginary;
  }
  if (value->kind == VALUE_COMPLEX)
    return;
  if (!summary->has_range || is_less(value, &summary->min))
    summary->min = *value;
  if (!summary->has_range || is_less(&summary->max, value))
    summary->max = *value;
  summary->has_range = true;
}

static void summing_add_run(struct summing *summing, const struct values *values,
                            const struct layout_run *run)
{
  int64_t element_bits = (int64_t)dtype_element_bits(values->dtype, values->padded);
  uint64_t step = lane_bits(values);

  for (int64_t i = 0; i < run->count; i++) {
    int64_t bits = (run->offset + i * run->stride) * element_bits;
    const uint8_t *at = (const uint8_t *)values->data + (bits >= 0 ? bits / 8 : -(-bits / 8));

    for (unsigned lane = 0; lane < values->dtype.lanes; lane++) {
      struct value value =
          value_load(values->dtype, at, (bits >= 0 ? (uint64_t)bits % 8 : 0) + lane * step);
      summing_add(summing, &value);
    }
  }
}

struct values_summary values_summarise(const struct values *values)
{
  struct summing summing = {.summary.kind = value_kind_of(values->dtype)};
  struct values_summary *summary = &summing.summary;
  struct layout_walk walk;
  struct layout_run run;

  summary->n_values = layout_n_elements(&values->layout) * values->dtype.lanes;
  if (summary->kind == VALUE_BYTES)
    return *summary;
  layout_walk_init(&walk, &values->layout);
  while (layout_walk_next(&walk, &run))
    summing_add_run(&summing, values, &run);
  summary->has_mean = summing.n_finite > 0;
  if (summary->has_mean) {
    summary->mean = summing.sum / (double)summing.n_finite;
    summary->mean_imaginary = summing.sum_imaginary / (double)summing.n_finite;
  }
  return *summary;
}
