#include "render.h"

#include <assert.h>
#include <string.h>

#include "escape.h"

enum {
  GAP = 2, /* spaces between columns */
};

/* How wide each column is to be; 0: left out. */
struct widths {
  size_t columns[RENDER_COLUMNS_MAX];
};

void render_table_init(struct render_table *table, const struct render_column *columns,
                       size_t n_columns)
{
  assert(n_columns > 0 && n_columns <= RENDER_COLUMNS_MAX);
  *table = (struct render_table){.columns = columns, .n_columns = n_columns};
}

void render_table_deinit(struct render_table *table)
{
  for (size_t i = 0; i < table->n_cells; i++)
    free(table->cells[i]);
  free(table->cells);
  table->cells = NULL;
  table->n_cells = table->capacity = 0;
}

static bool grow(struct render_table *table)
{
  size_t capacity = table->capacity ? table->capacity * 2 : 64;
  char **cells;

  if (table->n_cells < table->capacity)
    return true;
  cells = reallocarray(table->cells, capacity, sizeof(cells[0]));
  if (!cells)
    return false;
  table->cells = cells;
  table->capacity = capacity;
  return true;
}

void render_table_add(struct render_table *table, struct text *cell)
{
  char *string = text_take(cell);

  if (!string || !grow(table)) {
    free(string);
    table->failed = true;
    return;
  }
  table->cells[table->n_cells++] = string;
}

static size_t n_rows(const struct render_table *table)
{
  return table->n_cells / table->n_columns;
}

static const char *cell_at(const struct render_table *table, size_t row, size_t column)
{
  return table->cells[row * table->n_columns + column];
}

static struct widths natural_widths(const struct render_table *table)
{
  struct widths widths = {0};

  for (size_t column = 0; column < table->n_columns; column++) {
    size_t widest = strlen(table->columns[column].heading);

    for (size_t row = 0; row < n_rows(table); row++) {
      size_t columns = escape_columns(cell_at(table, row, column));
      widest = columns > widest ? columns : widest;
    }
    widths.columns[column] = widest;
  }
  return widths;
}

static size_t total_width(const struct render_table *table, const struct widths *widths)
{
  size_t total = 0;

  for (size_t column = 0; column < table->n_columns; column++)
    if (widths->columns[column])
      total += widths->columns[column] + (total ? GAP : 0);
  return total;
}

static void shorten_columns(const struct render_table *table, struct widths *widths, size_t width)
{
  for (size_t column = 0; column < table->n_columns; column++) {
    size_t total = total_width(table, widths);
    size_t least = table->columns[column].min_columns;
    size_t now = widths->columns[column];

    if (total <= width || least == 0 || now <= least)
      continue;
    widths->columns[column] = now - least > total - width ? now - (total - width) : least;
  }
}

/* Return: false if every column that is left is needed. */
static bool leave_one_out(const struct render_table *table, struct widths *widths)
{
  size_t victim = table->n_columns;

  for (size_t column = 0; column < table->n_columns; column++)
    if (widths->columns[column] && table->columns[column].dispensable &&
        (victim == table->n_columns ||
         table->columns[column].dispensable > table->columns[victim].dispensable))
      victim = column;
  if (victim == table->n_columns)
    return false;
  widths->columns[victim] = 0;
  return true;
}

static struct widths fit_widths(const struct render_table *table, size_t width)
{
  const struct widths natural = natural_widths(table);
  struct widths left = natural;
  struct widths widths;

  do {
    widths = left;
    if (width == RENDER_WIDTH_ANY)
      break;
    shorten_columns(table, &widths, width);
  } while (total_width(table, &widths) > width && leave_one_out(table, &left));
  return widths;
}

void render_shorten(struct text *text, const char *cell, size_t columns)
{
  static const char mark[] = "...";
  size_t excess = escape_columns(cell);

  if (excess <= columns) {
    text_append(text, cell);
    return;
  }
  if (columns <= sizeof(mark) - 1) {
    text_append_bytes(text, mark, columns);
    return;
  }
  while (escape_columns(cell) + sizeof(mark) - 1 > columns)
    cell += escape_character_size(cell);
  text_append(text, mark);
  text_append(text, cell);
}

static void render_cell(struct text *text, const char *cell, size_t width, bool right, bool last)
{
  cli_auto_text struct text fitted = {0};
  size_t columns, padding;

  render_shorten(&fitted, cell, width);
  columns = escape_columns(text_string(&fitted));
  padding = columns < width ? width - columns : 0;
  if (right)
    text_append_spaces(text, padding);
  text_append(text, text_string(&fitted));
  if (!right && !last)
    text_append_spaces(text, padding);
  text->failed |= fitted.failed;
}

static size_t last_column(const struct render_table *table, const struct widths *widths)
{
  size_t column = table->n_columns - 1;

  while (column > 0 && !widths->columns[column])
    column--;
  return column;
}

/* `row` n_rows() stands for the headings. */
static void render_row(const struct render_table *table, const struct widths *widths, size_t row,
                       struct text *text)
{
  size_t last = last_column(table, widths);

  for (size_t column = 0; column <= last; column++) {
    if (!widths->columns[column])
      continue;
    render_cell(text,
                row == n_rows(table) ? table->columns[column].heading : cell_at(table, row, column),
                widths->columns[column], table->columns[column].right, column == last);
    text_append_spaces(text, column == last ? 0 : GAP);
  }
  text_append(text, "\n");
}

void render_table_text(const struct render_table *table, unsigned width, struct text *text)
{
  struct widths widths;

  if (table->failed) {
    text->failed = true;
    return;
  }
  widths = fit_widths(table, width);
  render_row(table, &widths, n_rows(table), text);
  for (size_t row = 0; row < n_rows(table); row++)
    render_row(table, &widths, row, text);
}
