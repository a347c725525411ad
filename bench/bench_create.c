/*
 * Create of 1 GiB. No page is asked for: it has to cost what an empty one costs.
 * The floor: memfd_create, its size, a mapping.
 */

#include <sys/mman.h>
#include <unistd.h>

#include "daemon.h"
#include "measurements.h"
#include "memory.h"
#include "process.h"

#define PER_BLOCK 10

static void run_ours(void *context, struct bench_series *series)
{
  struct dlc_client *client = (struct dlc_client *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();
    struct DLManagedTensorVersioned *tensor = bench_alloc(client, BENCH_GIB);

    bench_note(series, bench_now() - start, 1);
    tensor->deleter(tensor);
    bench_settle(client);
  }
}

static void run_floor(void *context, struct bench_series *series)
{
  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();
    int fd = bench_memfd(BENCH_GIB);
    uint8_t *base = bench_map(fd, BENCH_GIB);

    bench_note(series, bench_now() - start, 1);
    (void)munmap(base, BENCH_GIB);
    (void)close(fd);
  }
}

void bench_create(const struct bench_options *options)
{
  struct bench_daemon daemon;
  struct bench_side sides[] = {{.run = run_ours}, {.run = run_floor}};

  bench_pin(BENCH_CORE_MAIN);
  bench_daemon_start(&daemon, options, NULL);
  sides[0].context = bench_connect(&daemon);
  sides[0].server = daemon.pid;
  bench_interleave(sides, 2, bench_scale(options, 200));
  bench_report_times("create.1GiB", "create of 1 GiB; floor: memfd_create and mmap", BENCH_US,
                     &sides[0], &sides[1]);
  dlc_close((struct dlc_client *)sides[0].context);
  bench_daemon_stop(&daemon);
}
