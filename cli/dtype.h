#ifndef DLPACKD_CLI_DTYPE_H
#define DLPACKD_CLI_DTYPE_H

/*
 * Data types as DLPack, .npy and .safetensors name them.
 *
 * One table ties the three together; what a format has no word for is NULL, and the
 * caller says what to do instead. Pure. Any thread.
 */

#include <stdbool.h>
#include <stdint.h>

struct dtype {
  uint8_t code; /* DLPack's */
  uint8_t bits;
  uint16_t lanes;
};

/* A static string such as "<f4" or "F32"; NULL if the format cannot say it. */
const char *dtype_to_npy(struct dtype dtype);
const char *dtype_to_safetensors(struct dtype dtype);

/* False if the name is not in the table; `ret` is untouched then. */
bool dtype_from_npy(const char *descr, struct dtype *ret);
bool dtype_from_safetensors(const char *name, struct dtype *ret);

bool dtype_equal(struct dtype a, struct dtype b);

/* Bits from one element to the next: lanes included; 8 for a sub-byte type if `padded`. */
uint64_t dtype_element_bits(struct dtype dtype, bool padded);

#endif
