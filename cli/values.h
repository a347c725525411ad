#ifndef DLPACKD_CLI_VALUES_H
#define DLPACKD_CLI_VALUES_H

/*
 * What the bytes of a tensor say: values for people, and a summary of all of them.
 *
 * Knows every DLPack data type whose values fit 64 bits or a pair of doubles; of the
 * rest (opaque handles, 128-bit integers and floats) the bytes are shown. Sub-byte
 * types are read packed or padded.
 *
 * Pure. Any thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "dtype.h"
#include "layout.h"
#include "text.h"

enum value_kind {
  VALUE_BYTES, /* not decoded */
  VALUE_BOOL,
  VALUE_INT,
  VALUE_UINT,
  VALUE_FLOAT,
  VALUE_COMPLEX,
};

struct value {
  enum value_kind kind;
  int64_t integer;       /* VALUE_INT */
  uint64_t unsigned_int; /* VALUE_UINT, VALUE_BOOL */
  double real;           /* VALUE_FLOAT, VALUE_COMPLEX */
  double imaginary;      /* VALUE_COMPLEX */
};

/* A tensor's memory. Borrowed. */
struct values {
  const void *data; /* element zero */
  struct dtype dtype;
  bool padded;
  struct layout layout;
};

struct values_summary {
  enum value_kind kind;
  uint64_t n_values; /* elements times lanes */
  uint64_t n_nan;    /* a complex one counts if either part is */
  uint64_t n_infinite;
  bool has_range; /* min and max: some value is finite, and the kind has an order */
  struct value min;
  struct value max;
  bool has_mean;
  double mean; /* of the finite ones; the real part of a complex mean */
  double mean_imaginary;
};

enum value_kind value_kind_of(struct dtype dtype);

/* A float of at most 16 bits, from its lowest `dtype.bits` bits. */
double value_small_float(struct dtype dtype, uint32_t raw);

/* The lane that starts `bit_offset` bits after `data`. */
struct value value_load(struct dtype dtype, const void *data, uint64_t bit_offset);

void value_format(struct text *text, struct dtype dtype, const struct value *value);

/* The first `limit` elements in row-major order, ", " between; lanes in parentheses. */
void values_format_first(struct text *text, const struct values *values, uint64_t limit);

struct values_summary values_summarise(const struct values *values);

#endif
