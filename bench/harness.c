#include "harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "process.h"

size_t bench_scale(const struct bench_options *options, size_t full)
{
  size_t scaled = options->is_quick ? full / 4 : full;

  return scaled > 0 ? scaled : 1;
}

void bench_fail(const char *format, ...)
{
  va_list arguments;

  (void)fprintf(stderr, "dlp_bench: ");
  va_start(arguments, format);
  (void)vfprintf(stderr, format, arguments);
  va_end(arguments);
  (void)fputc('\n', stderr);
  exit(EXIT_FAILURE);
}

/* ---- time and samples ---- */

uint64_t bench_now(void)
{
  struct timespec now;

  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void bench_note(struct bench_series *series, uint64_t ns, size_t n)
{
  if (series->n == series->room) {
    series->room = series->room ? series->room * 2 : 1024;
    series->values = (double *)realloc(series->values, series->room * sizeof(double));
    bench_check(series->values, "room for samples");
  }
  series->values[series->n++] = (double)ns / (double)n;
  series->n_ops += n;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

static double percentile(const double *values, size_t n, double part)
{
  double *sorted, result;
  size_t at;

  if (n == 0)
    return NAN;
  sorted = (double *)malloc(n * sizeof(*sorted));
  bench_check(sorted, "room to sort");
  memcpy(sorted, values, n * sizeof(*sorted));
  qsort(sorted, n, sizeof(*sorted), compare);
  at = (size_t)(part * (double)n);
  result = sorted[at < n ? at : n - 1];
  free(sorted);
  return result;
}

double bench_p50(const struct bench_series *series)
{
  return percentile(series->medians, series->n_blocks, 0.5);
}

double bench_p99(const struct bench_series *series)
{
  return percentile(series->values, series->n, 0.99);
}

double bench_max(const struct bench_series *series)
{
  return percentile(series->values, series->n, 1);
}

double bench_server_ns(const struct bench_series *series)
{
  return series->server_ns > 0 ? series->server_ns / (double)series->n_ops : NAN;
}

void bench_series_deinit(struct bench_series *series)
{
  free(series->values);
  free(series->medians);
  *series = (struct bench_series){0};
}

void bench_series_end_block(struct bench_series *series)
{
  size_t n = series->n - series->block_start;

  series->medians =
      (double *)realloc(series->medians, (series->n_blocks + 1) * sizeof(*series->medians));
  bench_check(series->medians, "room for medians");
  if (n > 0)
    series->medians[series->n_blocks++] = percentile(series->values + series->block_start, n, 0.5);
  series->block_start = series->n;
}

static void run_block(struct bench_side *side)
{
  uint64_t before = side->server ? bench_cpu_ns(side->server) : 0;

  side->run(side->context, &side->series);
  if (side->server)
    side->series.server_ns += (double)(bench_cpu_ns(side->server) - before);
  bench_series_end_block(&side->series);
}

void bench_interleave(struct bench_side *sides, size_t n_sides, size_t n_blocks)
{
  for (size_t block = 0; block < n_blocks; block++)
    for (size_t i = 0; i < n_sides; i++)
      run_block(&sides[i]);
}

/* ---- rows ---- */

static struct bench_rows *all_rows;

struct bench_rows *bench_rows_open(void)
{
  all_rows = (struct bench_rows *)mmap(NULL, sizeof(*all_rows), PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  bench_check(all_rows != MAP_FAILED, "room for rows");
  return all_rows;
}

void bench_row_init(struct bench_row *row, const char *name, const char *what, enum bench_unit unit)
{
  *row = (struct bench_row){
      .unit = unit,
      .value = NAN,
      .p99 = NAN,
      .floor = NAN,
      .floor_p99 = NAN,
      .ratio = NAN,
      .server_us = NAN,
      .floor_server_us = NAN,
  };
  (void)snprintf(row->name, sizeof(row->name), "%s", name);
  (void)snprintf(row->what, sizeof(row->what), "%s", what);
}

static double in_unit(double ns, enum bench_unit unit)
{
  return unit == BENCH_US ? ns / 1e3 : unit == BENCH_MS ? ns / 1e6 : ns;
}

void bench_row_times(struct bench_row *row, const struct bench_series *ours,
                     const struct bench_series *floor, double per)
{
  row->value = in_unit(bench_p50(ours) / per, row->unit);
  row->p99 = in_unit(bench_p99(ours) / per, row->unit);
  row->server_us = bench_server_ns(ours) / per / 1e3;
  if (!floor)
    return;
  row->floor = in_unit(bench_p50(floor) / per, row->unit);
  row->floor_p99 = in_unit(bench_p99(floor) / per, row->unit);
  row->floor_server_us = bench_server_ns(floor) / per / 1e3;
  row->ratio = row->value / row->floor;
}

void bench_row_add(const struct bench_row *row)
{
  if (all_rows->n == BENCH_ROWS_MAX)
    bench_fail("more than %d rows", BENCH_ROWS_MAX);
  all_rows->rows[all_rows->n++] = *row;
}

void bench_report_times(const char *name, const char *what, enum bench_unit unit,
                        const struct bench_side *ours, const struct bench_side *floor)
{
  struct bench_row row;

  bench_row_init(&row, name, what, unit);
  bench_row_times(&row, &ours->series, floor ? &floor->series : NULL, 1);
  bench_row_add(&row);
}

void bench_report_value(const char *name, const char *what, enum bench_unit unit, double value)
{
  struct bench_row row;

  bench_row_init(&row, name, what, unit);
  row.value = value;
  bench_row_add(&row);
}
