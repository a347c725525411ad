#ifndef DLPACKD_BENCH_HARNESS_H
#define DLPACKD_BENCH_HARNESS_H

/*
 * How every measurement is taken: in blocks, ours and the floor's in turn, and
 * what comes of it, as rows.
 *
 * A measurement runs in a process of its own. What goes wrong ends that process,
 * with a sentence (bench_fail), and costs the other measurements nothing; so no
 * function here returns an error.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_KIB ((size_t)1 << 10)
#define BENCH_MIB ((size_t)1 << 20)
#define BENCH_GIB ((size_t)1 << 30)

/* What the command line asked for. */
struct bench_options {
  const char *daemon_program;
  const char *folder; /* for sockets; goes with all that is in it at the end */
  bool is_quick;
};

/* `full`, or a quarter of it when somebody is in a hurry. Never less than 1. */
size_t bench_scale(const struct bench_options *options, size_t full);

_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* `ok`, or the end of this measurement. */
#define bench_check(ok, what) ((ok) ? (void)0 : bench_fail("%s: %m", what))

/* ---- time and samples ---- */

uint64_t bench_now(void); /* nanoseconds; one clock for all processes */

/* What was seen of one side, in nanoseconds an operation. {0} is empty. */
struct bench_series {
  double *values;
  size_t n;
  size_t room;
  size_t block_start; /* index of the first value of this block */
  double *medians;    /* one per block */
  size_t n_blocks;
  double server_ns; /* processor time of the server, in all */
  size_t n_ops;     /* operations, where a value is the mean of several */
};

/* One sample: `n` operations that took `ns` together. */
void bench_note(struct bench_series *series, uint64_t ns, size_t n);
double bench_p50(const struct bench_series *series); /* the median of the blocks' medians */
double bench_p99(const struct bench_series *series); /* of all samples */
double bench_max(const struct bench_series *series);
double bench_server_ns(const struct bench_series *series); /* an operation; NAN without a server */
/* For a series that is filled without bench_interleave(). */
void bench_series_end_block(struct bench_series *series);
void bench_series_deinit(struct bench_series *series);

/* One side of a comparison. */
struct bench_side {
  /* Takes the samples of one block. */
  void (*run)(void *context, struct bench_series *series);
  void *context;
  pid_t server; /* whose processor time counts; 0: nobody's */
  struct bench_series series;
};

/* A B A B ...: what disturbs the machine disturbs both. */
void bench_interleave(struct bench_side *sides, size_t n_sides, size_t n_blocks);

/* ---- rows ---- */

enum bench_unit {
  BENCH_NS,
  BENCH_US,
  BENCH_MS,
  BENCH_GIB_S,
  BENCH_OPS_S,
  BENCH_TIMES,
  BENCH_COUNT,
  BENCH_BYTES,
  BENCH_MIBYTES,
  BENCH_N_UNITS,
};

/* NAN where there is none. */
struct bench_row {
  char name[48]; /* for programs: measurement.what */
  char what[80]; /* for people */
  enum bench_unit unit;
  double value;
  double p99;
  double floor;
  double floor_p99;
  double ratio;     /* value to floor */
  double server_us; /* the daemon's processor time an operation */
  double floor_server_us;
  bool failed;
};

/* All values NAN. */
void bench_row_init(struct bench_row *row, const char *name, const char *what,
                    enum bench_unit unit);
/* A row of times: of `ours`, and of `floor` unless NULL. `per` operations in each sample. */
void bench_row_times(struct bench_row *row, const struct bench_series *ours,
                     const struct bench_series *floor, double per);
void bench_row_add(const struct bench_row *row);
/* Both at once. */
void bench_report_times(const char *name, const char *what, enum bench_unit unit,
                        const struct bench_side *ours, const struct bench_side *floor);
void bench_report_value(const char *name, const char *what, enum bench_unit unit, double value);

/* Shared by all measurements' processes. */
#define BENCH_ROWS_MAX 256
struct bench_rows {
  size_t n;
  struct bench_row rows[BENCH_ROWS_MAX];
};
struct bench_rows *bench_rows_open(void);

#endif
