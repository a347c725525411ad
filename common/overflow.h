#ifndef DLPACKD_COMMON_OVERFLOW_H
#define DLPACKD_COMMON_OVERFLOW_H

/* Checked arithmetic: true if the result fits, which is then in *ret. */

#include <stdbool.h>
#include <stdint.h>

static inline bool dlp_add_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
  return !__builtin_add_overflow(a, b, ret);
}

static inline bool dlp_mul_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
  return !__builtin_mul_overflow(a, b, ret);
}

static inline bool dlp_add_i64(int64_t a, int64_t b, int64_t *ret)
{
  return !__builtin_add_overflow(a, b, ret);
}

static inline bool dlp_mul_i64(int64_t a, int64_t b, int64_t *ret)
{
  return !__builtin_mul_overflow(a, b, ret);
}

/* The next multiple of `unit`, a power of two. */
static inline bool dlp_round_up_u64(uint64_t value, uint64_t unit, uint64_t *ret)
{
  uint64_t sum;

  if (!dlp_add_u64(value, unit - 1, &sum))
    return false;
  *ret = sum & ~(unit - 1);
  return true;
}

#endif
