#ifndef DLPACKD_CLI_NPY_H
#define DLPACKD_CLI_NPY_H

/*
 * The .npy format of NumPy, versions 1 to 3: header in, header out.
 *
 * The bytes come from anywhere, so every length is checked against the file before it
 * is used. A header written here is, byte for byte, what NumPy writes for the same
 * array. Pure. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "layout.h"
#include "text.h"

enum {
  NPY_E_FORMAT = 1, /* not a .npy file that can be taken; `reason` says why */
};

struct npy {
  struct dtype dtype;
  bool fortran_order;
  int32_t ndim;
  int64_t shape[LAYOUT_NDIM_MAX];
  uint64_t data_offset; /* of element zero, in the file */
  uint64_t data_size;   /* bytes of all elements */
};

/*
 * Reads the header of a whole file.
 * Return: 0, or NPY_E_FORMAT with a sentence, not escaped, in `reason`.
 */
int npy_parse(const void *file, size_t size, struct npy *ret, struct text *reason);

/* Appends magic and header; the dtype must be one of .npy's. */
void npy_format(struct text *text, struct dtype dtype, bool fortran_order, int32_t ndim,
                const int64_t *shape);

#endif
