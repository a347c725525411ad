#include "layout.h"

#include <assert.h>
#include <string.h>

int layout_check_shape(int32_t ndim, const int64_t *shape, uint64_t *ret_n_elements)
{
  uint64_t product = 1;
  bool empty = false;

  if (ndim < 0 || ndim > LAYOUT_NDIM_MAX)
    return LAYOUT_E_SHAPE;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] < 0)
      return LAYOUT_E_SHAPE;
    empty |= shape[i] == 0;
    if (shape[i] > 0 &&
        (__builtin_mul_overflow(product, (uint64_t)shape[i], &product) || product > INT64_MAX))
      return LAYOUT_E_SHAPE;
  }
  *ret_n_elements = empty ? 0 : product;
  return 0;
}

uint64_t layout_n_elements(const struct layout *layout)
{
  uint64_t n_elements = 0;
  int r = layout_check_shape(layout->ndim, layout->shape, &n_elements);

  assert(r == 0);
  return n_elements;
}

static bool layout_is_dense(const struct layout *layout, int32_t first, int32_t step)
{
  int64_t expected = 1;

  if (layout_n_elements(layout) == 0)
    return true;
  for (int32_t i = first, n = 0; n < layout->ndim; i += step, n++) {
    if (layout->shape[i] != 1 && layout->strides[i] != expected)
      return false;
    expected *= layout->shape[i];
  }
  return true;
}

bool layout_is_row_major(const struct layout *layout)
{
  return !layout->strides || layout_is_dense(layout, layout->ndim - 1, -1);
}

bool layout_is_column_major(const struct layout *layout)
{
  int64_t strides[LAYOUT_NDIM_MAX];
  struct layout copy = *layout;

  if (!copy.strides) {
    int64_t stride = 1;
    for (int32_t i = layout->ndim - 1; i >= 0; i--) {
      strides[i] = stride;
      stride *= layout->shape[i] ? layout->shape[i] : 1;
    }
    copy.strides = strides;
  }
  return layout_is_dense(&copy, 0, 1);
}

void layout_column_major_strides(int32_t ndim, const int64_t *shape, int64_t *ret_strides)
{
  int64_t stride = 1;

  for (int32_t i = 0; i < ndim; i++) {
    ret_strides[i] = stride;
    stride *= shape[i] ? shape[i] : 1;
  }
}

void layout_walk_init(struct layout_walk *walk, const struct layout *layout)
{
  memset(walk, 0, sizeof(*walk));
  walk->layout = *layout;
  walk->whole = layout_is_row_major(layout);
  walk->done = layout_n_elements(layout) == 0;
}

/* Steps all dimensions but the last, like an odometer. */
static void layout_walk_advance(struct layout_walk *walk)
{
  const struct layout *layout = &walk->layout;

  for (int32_t i = layout->ndim - 2; i >= 0; i--) {
    walk->offset += layout->strides[i];
    if (++walk->index[i] < layout->shape[i])
      return;
    walk->offset -= layout->shape[i] * layout->strides[i];
    walk->index[i] = 0;
  }
  walk->done = true;
}

bool layout_walk_next(struct layout_walk *walk, struct layout_run *ret)
{
  const struct layout *layout = &walk->layout;

  if (walk->done)
    return false;
  if (walk->whole) {
    *ret = (struct layout_run){0, 1, (int64_t)layout_n_elements(layout)};
    walk->done = true;
    return true;
  }
  *ret = (struct layout_run){walk->offset, layout->strides[layout->ndim - 1],
                             layout->shape[layout->ndim - 1]};
  layout_walk_advance(walk);
  return true;
}
