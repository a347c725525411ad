#include "report.h"

#include <math.h>
#include <string.h>

#include "bars.h"

static const char *const units[BENCH_N_UNITS] = {
    [BENCH_NS] = "ns",       [BENCH_US] = "us",       [BENCH_MS] = "ms",
    [BENCH_GIB_S] = "GiB/s", [BENCH_OPS_S] = "1/s",   [BENCH_TIMES] = "x",
    [BENCH_COUNT] = "",      [BENCH_BYTES] = "bytes", [BENCH_MIBYTES] = "MiB",
};

/* ---- bars ---- */

static const struct bench_bar bars[] = {
#define X(row, on, is, limit) {row, BENCH_ON_##on, BENCH_##is, limit},
    BENCH_BARS(X)
#undef X
        {NULL, BENCH_ON_VALUE, BENCH_AT_MOST, 0},
};

const struct bench_bar *bench_bar_at(size_t i)
{
  return bars[i].row ? &bars[i] : NULL;
}

const struct bench_bar *bench_bar_of(const char *row)
{
  for (size_t i = 0; bars[i].row; i++)
    if (strcmp(bars[i].row, row) == 0)
      return &bars[i];
  return NULL;
}

static bool holds(const struct bench_bar *bar, const struct bench_row *row)
{
  double number = bar->on == BENCH_ON_VALUE ? row->value
                  : bar->on == BENCH_ON_P99 ? row->p99
                                            : row->ratio;

  if (row->failed || isnan(number))
    return false;
  return bar->is == BENCH_AT_MOST ? number <= bar->limit : number >= bar->limit;
}

/* ---- text ---- */

static void print_number(FILE *file, int width, double number)
{
  double size = fabs(number);

  if (isnan(number))
    (void)fprintf(file, " %*s", width, "-");
  else
    (void)fprintf(file, " %*.*f", width, size >= 1000 ? 0 : size >= 10 ? 1 : 2, number);
}

static void print_bar(FILE *file, const struct bench_bar *bar, const struct bench_row *row)
{
  static const char *const on[] = {
      [BENCH_ON_VALUE] = "", [BENCH_ON_P99] = "p99 ", [BENCH_ON_RATIO] = "ratio "};
  char text[64];

  (void)snprintf(text, sizeof(text), "%s%s %g", on[bar->on],
                 bar->is == BENCH_AT_MOST ? "<=" : ">=", bar->limit);
  (void)fprintf(file, "  %-12s %s", text, holds(bar, row) ? "holds" : "MISSED");
}

static void print_row(FILE *file, const struct bench_row *row)
{
  const struct bench_bar *bar = bench_bar_of(row->name);

  (void)fprintf(file, "%-58s %-5s", row->what, units[row->unit]);
  print_number(file, 8, row->value);
  print_number(file, 8, row->p99);
  print_number(file, 8, row->floor);
  print_number(file, 8, row->floor_p99);
  print_number(file, 7, row->ratio);
  print_number(file, 7, row->server_us);
  print_number(file, 7, row->floor_server_us);
  if (bar)
    print_bar(file, bar, row);
  if (row->failed)
    (void)fprintf(file, "  not measured");
  (void)fputc('\n', file);
}

static size_t section_size(const char *name)
{
  return strcspn(name, ".");
}

void bench_report_text(const struct bench_rows *rows, FILE *file)
{
  size_t n_bars = 0, n_hold = 0;

  (void)fprintf(file, "%-58s %-5s %8s %8s %8s %8s %7s %7s %7s  %s\n", "", "", "dlpackd", "p99",
                "floor", "p99", "ratio", "cpu us", "floor's", "bar");
  for (size_t i = 0; i < rows->n; i++) {
    const struct bench_row *row = &rows->rows[i];
    const struct bench_bar *bar = bench_bar_of(row->name);

    if (i > 0 && (section_size(row->name) != section_size(row[-1].name) ||
                  strncmp(row->name, row[-1].name, section_size(row->name)) != 0))
      (void)fputc('\n', file);
    print_row(file, row);
    n_bars += bar != NULL;
    n_hold += bar && holds(bar, row);
  }
  (void)fprintf(file, "\n%zu of %zu bars hold\n", n_hold, n_bars);
}

/* ---- JSON ---- */

static void json_number(FILE *file, const char *key, double number)
{
  if (isnan(number) || isinf(number))
    (void)fprintf(file, ", \"%s\": null", key);
  else
    (void)fprintf(file, ", \"%s\": %.6g", key, number);
}

static void json_bar(FILE *file, const struct bench_row *row)
{
  static const char *const on[] = {
      [BENCH_ON_VALUE] = "value", [BENCH_ON_P99] = "p99", [BENCH_ON_RATIO] = "ratio"};
  const struct bench_bar *bar = bench_bar_of(row->name);

  if (!bar)
    (void)fprintf(file, ", \"bar\": null, \"bar_on\": null, \"bar_is\": null, \"holds\": null");
  else
    (void)fprintf(file, ", \"bar\": %g, \"bar_on\": \"%s\", \"bar_is\": \"%s\", \"holds\": %s",
                  bar->limit, on[bar->on], bar->is == BENCH_AT_MOST ? "at most" : "at least",
                  holds(bar, row) ? "true" : "false");
}

/* Names and texts are ours: nothing in them needs an escape. */
static void json_row(FILE *file, const struct bench_row *row)
{
  (void)fprintf(file, "  {\"name\": \"%s\", \"what\": \"%s\", \"unit\": \"%s\"", row->name,
                row->what, units[row->unit]);
  json_number(file, "value", row->value);
  json_number(file, "p99", row->p99);
  json_number(file, "floor", row->floor);
  json_number(file, "floor_p99", row->floor_p99);
  json_number(file, "ratio", row->ratio);
  json_number(file, "daemon_cpu_us", row->server_us);
  json_number(file, "floor_cpu_us", row->floor_server_us);
  json_bar(file, row);
  (void)fprintf(file, "}");
}

void bench_report_json(const struct bench_rows *rows, FILE *file)
{
  (void)fprintf(file, "[\n");
  for (size_t i = 0; i < rows->n; i++) {
    json_row(file, &rows->rows[i]);
    (void)fprintf(file, i + 1 < rows->n ? ",\n" : "\n");
  }
  (void)fprintf(file, "]\n");
}
