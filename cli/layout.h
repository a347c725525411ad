#ifndef DLPACKD_CLI_LAYOUT_H
#define DLPACKD_CLI_LAYOUT_H

/*
 * Shapes and strides: how many elements, in which order they lie, and a walk over
 * them in row-major order.
 *
 * The walk hands out runs: elements at a constant distance. A compact tensor is one
 * run, whatever its shape. Shapes come from the library, which has checked them, or
 * from layout_check_shape().
 *
 * Pure. Any thread.
 */

#include <stdbool.h>
#include <stdint.h>

enum {
  LAYOUT_NDIM_MAX = 64,
  LAYOUT_E_SHAPE = 1, /* negative, too many dimensions, or the product overflows */
};

struct layout {
  int32_t ndim;
  const int64_t *shape;
  const int64_t *strides; /* in elements; NULL: compact and row-major */
};

struct layout_run {
  int64_t offset; /* of its first element, in elements; may be negative */
  int64_t stride; /* from one element to the next */
  int64_t count;
};

struct layout_walk {
  struct layout layout;
  int64_t index[LAYOUT_NDIM_MAX];
  int64_t offset;
  bool whole; /* compact: one run is all */
  bool done;
};

/* Return: 0, or LAYOUT_E_SHAPE. */
int layout_check_shape(int32_t ndim, const int64_t *shape, uint64_t *ret_n_elements);

uint64_t layout_n_elements(const struct layout *layout);

/* Dimensions of 1 and tensors without elements do not mind their strides. */
bool layout_is_row_major(const struct layout *layout);
bool layout_is_column_major(const struct layout *layout);

void layout_column_major_strides(int32_t ndim, const int64_t *shape, int64_t *ret_strides);

void layout_walk_init(struct layout_walk *walk, const struct layout *layout);
bool layout_walk_next(struct layout_walk *walk, struct layout_run *ret); /* false at the end */

#endif
