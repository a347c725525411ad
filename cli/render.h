#ifndef DLPACKD_CLI_RENDER_H
#define DLPACKD_CLI_RENDER_H

/*
 * Rows of cells -> aligned text.
 *
 * Cells are UTF-8 that is fit for a terminal already (escape.h); the width of a cell is
 * in columns, not bytes. A table too wide for its reader first shortens the columns that
 * may be shortened, in order, then leaves whole columns out, the most dispensable first.
 * The last column has no trailing spaces. No terminal in here.
 *
 * One thread at a time.
 */

#include <stddef.h>

#include "text.h"

enum {
  RENDER_COLUMNS_MAX = 24,
  RENDER_WIDTH_ANY = 0, /* nothing is shortened or left out */
};

struct render_column {
  const char *heading;
  bool right;           /* aligned to the right: numbers */
  unsigned min_columns; /* may be shortened to this; 0: may not */
  unsigned dispensable; /* left out in falling order of this; 0: never */
};

struct render_table {
  const struct render_column *columns; /* borrowed */
  size_t n_columns;
  char **cells; /* row by row */
  size_t n_cells;
  size_t capacity;
  bool failed; /* memory ran out; asked once, at the end */
};

void render_table_init(struct render_table *table, const struct render_column *columns,
                       size_t n_columns);
void render_table_deinit(struct render_table *table); /* twice is harmless */

/* Adds the next cell of a row; takes what is in `cell` and leaves it empty. */
void render_table_add(struct render_table *table, struct text *cell);

/* Appends heading and rows, a line each, at most `width` columns wide if that can be. */
void render_table_text(const struct render_table *table, unsigned width, struct text *text);

/* Appends `cell` shortened to `columns`, its end kept and "..." before it: the end of a
 * name tells more than its beginning. */
void render_shorten(struct text *text, const char *cell, size_t columns);

#endif
