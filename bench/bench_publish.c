/*
 * Publish in place of memory that was published before and came back: does it
 * depend on the size? It has to, for mprotect, which is shown and taken off.
 */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon.h"
#include "measurements.h"
#include "memory.h"
#include "process.h"

#define PER_BLOCK 10
#define WARM_UP 4

struct place {
  struct dlc_client *client;
  const char *name;
  size_t size;
  uint8_t *pages; /* of the floor: the same number of pages, there */
};

static void publish_once(const struct place *place, struct bench_series *series)
{
  struct DLManagedTensorVersioned *tensor = bench_alloc(place->client, place->size);
  struct dlc_error error;
  uint64_t start;

  memset(tensor->dl_tensor.data, 3, place->size);
  start = bench_now();
  bench_require(dlc_publish(place->client, place->name, tensor, NULL, NULL, &error), &error);
  if (series)
    bench_note(series, bench_now() - start, 1);
  tensor->deleter(tensor);
}

static void run_publish(void *context, struct bench_series *series)
{
  for (size_t i = 0; i < PER_BLOCK; i++)
    publish_once((const struct place *)context, series);
}

static void run_alloc(void *context, struct bench_series *series)
{
  const struct place *place = (const struct place *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();
    struct DLManagedTensorVersioned *tensor = bench_alloc(place->client, place->size);

    bench_note(series, bench_now() - start, 1);
    tensor->deleter(tensor);
  }
}

static void run_mprotect(void *context, struct bench_series *series)
{
  const struct place *place = (const struct place *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start;

    (void)mprotect(place->pages, place->size, PROT_READ | PROT_WRITE);
    memset(place->pages, 3, place->size);
    start = bench_now();
    (void)mprotect(place->pages, place->size, PROT_READ);
    bench_note(series, bench_now() - start, 1);
  }
}

static void report_publish(const struct bench_side *large, const struct bench_side *small)
{
  struct bench_row row;

  bench_row_init(&row, "publish.64MiB_recycled",
                 "publish in place, 64 MiB, without mprotect; floor: 4 KiB", BENCH_US);
  row.value = (bench_p50(&large[0].series) - bench_p50(&large[2].series)) / 1e3;
  row.p99 = (bench_p99(&large[0].series) - bench_p50(&large[2].series)) / 1e3;
  row.floor = (bench_p50(&small[0].series) - bench_p50(&small[2].series)) / 1e3;
  row.floor_p99 = (bench_p99(&small[0].series) - bench_p50(&small[2].series)) / 1e3;
  row.ratio = row.value / row.floor;
  row.server_us = bench_server_ns(&large[0].series) / 1e3;
  row.floor_server_us = bench_server_ns(&small[0].series) / 1e3;
  bench_row_add(&row);
}

static void report(const struct bench_side *large, const struct bench_side *small)
{
  report_publish(large, small);
  bench_report_times("publish.64MiB", "publish in place, 64 MiB, all of it; floor: 4 KiB", BENCH_US,
                     &large[0], &small[0]);
  bench_report_times("publish.alloc", "alloc of 64 MiB, warm; floor: 4 KiB", BENCH_US, &large[1],
                     &small[1]);
  bench_report_times("publish.mprotect", "mprotect of 64 MiB; floor: 4 KiB", BENCH_US, &large[2],
                     &small[2]);
}

void bench_publish(const struct bench_options *options)
{
  struct bench_daemon daemon;
  struct place places[] = {{.name = "bench/large", .size = 64 * BENCH_MIB},
                           {.name = "bench/small", .size = 4 * BENCH_KIB}};
  struct bench_side sides[6];

  bench_pin(BENCH_CORE_MAIN);
  bench_daemon_start(&daemon, options, NULL);
  for (size_t i = 0; i < 2; i++) {
    places[i].client = bench_connect(&daemon);
    places[i].pages = bench_warm_shared(bench_memfd(places[i].size), places[i].size);
    for (size_t j = 0; j < WARM_UP; j++)
      publish_once(&places[i], NULL);
    sides[3 * i] = (struct bench_side){run_publish, &places[i], daemon.pid, {0}};
    sides[3 * i + 1] = (struct bench_side){run_alloc, &places[i], daemon.pid, {0}};
    sides[3 * i + 2] = (struct bench_side){run_mprotect, &places[i], 0, {0}};
  }
  bench_interleave(sides, 6, bench_scale(options, 12));
  report(&sides[0], &sides[3]);
  for (size_t i = 0; i < 2; i++)
    dlc_close(places[i].client);
  bench_daemon_stop(&daemon);
}
