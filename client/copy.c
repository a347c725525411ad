#include "client/copy.h"

#include <string.h>

#include "common/overflow.h"

/* Rows and columns of a tile: 32 of the largest elements fill half of a first-level cache. */
#define TILE 32

struct dim {
  int64_t n;
  int64_t from; /* bytes from one element to the next, in the source */
  int64_t to;   /* and in the target */
};

/* A rows x columns piece whose columns are dense in the target. */
struct plane {
  struct dim row;
  struct dim column;
  size_t element_size;
};

struct plan {
  size_t n_dims; /* outer ones */
  struct dim dims[DLP_NDIM_MAX];
  struct plane plane;
};

static int64_t magnitude(int64_t value)
{
  return value < 0 ? -value : value;
}

/* Dimensions that move, outermost first, dense neighbours merged. */
static size_t copy_dims(const struct dlc__source *source, int64_t element_size, struct dim *dims)
{
  const struct msg_spec *spec = &source->spec;
  int64_t to = element_size;
  size_t n = 0;

  /* From the innermost, which ends up first, */
  for (size_t i = spec->ndim; i-- > 0;) {
    int64_t from, dense;

    if (spec->shape[i] == 1)
      continue;
    from = spec->strides ? spec->strides[i] * element_size : to;
    if (n > 0 && dlp_mul_i64(dims[n - 1].from, dims[n - 1].n, &dense) && from == dense)
      dims[n - 1].n *= spec->shape[i];
    else
      dims[n++] = (struct dim){spec->shape[i], from, to};
    to *= spec->shape[i];
  }
  /* then turned round. */
  for (size_t i = 0; i < n / 2; i++) {
    struct dim other = dims[i];

    dims[i] = dims[n - 1 - i];
    dims[n - 1 - i] = other;
  }
  return n;
}

/* The row is the outer dimension that is nearest together in the source: in a
 * transpose, its dense one. */
static void copy_choose_row(struct plan *plan)
{
  size_t best;

  if (plan->n_dims == 0) {
    plan->plane.row = (struct dim){1, 0, 0};
    return;
  }
  best = plan->n_dims - 1;
  for (size_t i = 0; i < plan->n_dims; i++) {
    if (magnitude(plan->dims[i].from) < magnitude(plan->dims[best].from))
      best = i;
  }
  plan->plane.row = plan->dims[best];
  plan->n_dims--;
  memmove(&plan->dims[best], &plan->dims[best + 1], (plan->n_dims - best) * sizeof(struct dim));
}

static void copy_plan(struct plan *plan, const struct dlc__source *source, size_t element_size)
{
  plan->n_dims = copy_dims(source, (int64_t)element_size, plan->dims);
  plan->plane.element_size = element_size;
  if (plan->n_dims == 0)
    plan->plane.column = (struct dim){1, (int64_t)element_size, (int64_t)element_size};
  else
    plan->plane.column = plan->dims[--plan->n_dims];
  copy_choose_row(plan);
}

/* With a constant size, memcpy is one move, and does not mind alignment. */
static inline __attribute__((always_inline)) void copy_each(uint8_t *target, const uint8_t *source,
                                                            int64_t n, int64_t from, size_t size)
{
  for (int64_t i = 0; i < n; i++)
    memcpy(target + i * (int64_t)size, source + i * from, size);
}

static void copy_elements(uint8_t *target, const uint8_t *source, int64_t n, int64_t from,
                          size_t size)
{
  switch (size) {
  case 1:
    copy_each(target, source, n, from, 1);
    break;
  case 2:
    copy_each(target, source, n, from, 2);
    break;
  case 4:
    copy_each(target, source, n, from, 4);
    break;
  case 8:
    copy_each(target, source, n, from, 8);
    break;
  case 16:
    copy_each(target, source, n, from, 16);
    break;
  default:
    copy_each(target, source, n, from, size);
  }
}

static void copy_dense_rows(uint8_t *target, const uint8_t *source, const struct plane *plane)
{
  for (int64_t i = 0; i < plane->row.n; i++)
    memcpy(target + i * plane->row.to, source + i * plane->row.from,
           (size_t)plane->column.n * plane->element_size);
}

static void copy_tile(uint8_t *target, const uint8_t *source, const struct plane *plane,
                      int64_t n_rows, int64_t n_columns)
{
  for (int64_t i = 0; i < n_rows; i++)
    copy_elements(target + i * plane->row.to, source + i * plane->row.from, n_columns,
                  plane->column.from, plane->element_size);
}

static void copy_plane(uint8_t *target, const uint8_t *source, const struct plane *plane)
{
  if (plane->column.from == (int64_t)plane->element_size) {
    copy_dense_rows(target, source, plane);
    return;
  }
  for (int64_t row = 0; row < plane->row.n; row += TILE) {
    for (int64_t column = 0; column < plane->column.n; column += TILE) {
      int64_t n_rows = plane->row.n - row < TILE ? plane->row.n - row : TILE;
      int64_t n_columns = plane->column.n - column < TILE ? plane->column.n - column : TILE;

      copy_tile(target + row * plane->row.to + column * plane->column.to,
                source + row * plane->row.from + column * plane->column.from, plane, n_rows,
                n_columns);
    }
  }
}

/* Every plane, by counting the outer dimensions through like an odometer. */
static void copy_run(uint8_t *target, const uint8_t *source, const struct plan *plan)
{
  int64_t at[DLP_NDIM_MAX] = {0};

  for (;;) {
    size_t i = plan->n_dims;

    copy_plane(target, source, &plan->plane);
    for (;;) {
      if (i == 0)
        return;
      i--;
      target += plan->dims[i].to;
      source += plan->dims[i].from;
      if (++at[i] < plan->dims[i].n)
        break;
      target -= plan->dims[i].to * plan->dims[i].n;
      source -= plan->dims[i].from * plan->dims[i].n;
      at[i] = 0;
    }
  }
}

void dlc__copy_compact(uint8_t *target, const struct dlc__source *source)
{
  struct plan plan;

  if (source->extent.low == source->extent.high)
    return;
  /* Packed sub-byte types are compact, or were refused. */
  if (tensor_spec_is_compact(&source->spec)) {
    memcpy(target, source->zero, (size_t)source->compact_size);
    return;
  }
  copy_plan(&plan, source, tensor_spec_element_size(&source->spec));
  copy_run(target, source->zero, &plan);
}
