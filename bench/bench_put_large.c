/*
 * Put of 64 MiB by copy. Warm: memory of an earlier version comes back. Fresh: no
 * page is there yet. The floors: memcpy into warm shared memory; memcpy, and
 * pwrite, into a fresh memfd.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon.h"
#include "measurements.h"
#include "memory.h"
#include "process.h"

#define SIZE (64 * BENCH_MIB)
#define PER_BLOCK 4

struct large {
  struct dlc_client *client;
  uint8_t *source;
  uint8_t *warm;
  size_t n_names;
};

static void run_warm(void *context, struct bench_series *series)
{
  const struct large *large = (const struct large *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();

    bench_put(large->client, "bench/warm", large->source, SIZE);
    bench_note(series, bench_now() - start, 1);
  }
}

static void run_warm_floor(void *context, struct bench_series *series)
{
  const struct large *large = (const struct large *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();

    memcpy(large->warm, large->source, SIZE);
    bench_note(series, bench_now() - start, 1);
  }
}

/* Every one is kept: what is freed would be lent again. */
static void run_fresh(void *context, struct bench_series *series)
{
  struct large *large = (struct large *)context;
  char name[BENCH_NAME_SIZE];
  uint64_t start;

  (void)bench_name(name, large->n_names++);
  start = bench_now();
  bench_put(large->client, name, large->source, SIZE);
  bench_note(series, bench_now() - start, 1);
}

static void run_fresh_memcpy(void *context, struct bench_series *series)
{
  const struct large *large = (const struct large *)context;
  uint64_t start = bench_now();
  int fd = bench_memfd(SIZE);
  uint8_t *base = bench_map(fd, SIZE);

  memcpy(base, large->source, SIZE);
  bench_note(series, bench_now() - start, 1);
  (void)munmap(base, SIZE);
  (void)close(fd);
}

static void run_fresh_pwrite(void *context, struct bench_series *series)
{
  const struct large *large = (const struct large *)context;
  uint64_t start = bench_now();
  int fd = bench_memfd(SIZE);

  bench_check(pwrite(fd, large->source, SIZE, 0) == SIZE, "pwrite");
  bench_note(series, bench_now() - start, 1);
  (void)close(fd);
}

/* As throughput: more is better. */
static void report(const char *name, const char *what, const struct bench_side *ours,
                   const struct bench_side *floor)
{
  const double gib = (double)SIZE / (double)BENCH_GIB;
  struct bench_row row;

  bench_row_init(&row, name, what, BENCH_GIB_S);
  row.value = gib * 1e9 / bench_p50(&ours->series);
  row.p99 = gib * 1e9 / bench_p99(&ours->series);
  row.server_us = bench_server_ns(&ours->series) / 1e3;
  if (floor) {
    row.floor = gib * 1e9 / bench_p50(&floor->series);
    row.floor_p99 = gib * 1e9 / bench_p99(&floor->series);
    row.ratio = row.value / row.floor;
  }
  bench_row_add(&row);
}

void bench_put_large(const struct bench_options *options)
{
  struct bench_daemon daemon;
  struct large large = {0};
  struct bench_side warm[] = {{.run = run_warm, .context = &large},
                              {.run = run_warm_floor, .context = &large}};
  struct bench_side fresh[] = {{.run = run_fresh, .context = &large},
                               {.run = run_fresh_memcpy, .context = &large},
                               {.run = run_fresh_pwrite, .context = &large}};
  int fd = bench_memfd(SIZE);

  bench_pin(BENCH_CORE_MAIN);
  bench_daemon_start(&daemon, options, NULL);
  warm[0].server = fresh[0].server = daemon.pid;
  large.client = bench_connect(&daemon);
  large.source = bench_warm(SIZE);
  large.warm = bench_warm_shared(fd, SIZE);
  bench_put(large.client, "bench/warm", large.source, SIZE);
  bench_put(large.client, "bench/warm", large.source, SIZE);
  bench_interleave(warm, 2, bench_scale(options, 16));
  bench_interleave(fresh, 3, bench_scale(options, 24));
  report("put_large.warm", "put of 64 MiB, warm; floor: memcpy, warm", &warm[0], &warm[1]);
  report("put_large.fresh", "put of 64 MiB, fresh; floor: memcpy, fresh memfd", &fresh[0],
         &fresh[1]);
  report("put_large.fresh_pwrite", "the same; floor: pwrite, fresh memfd", &fresh[0], &fresh[2]);
  dlc_close(large.client);
  bench_daemon_stop(&daemon);
  (void)munmap(large.warm, SIZE);
  (void)close(fd);
  free(large.source);
}
