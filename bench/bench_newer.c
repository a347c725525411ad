/*
 * Is what this process holds still the newest? The floor: one ordered load.
 */

#include <stdatomic.h>

#include "daemon.h"
#include "measurements.h"
#include "process.h"

#define BATCH 256

struct held {
  struct dlc_client *client;
  const char *name;
  const struct DLManagedTensorVersioned *tensor;
  size_t n_batches;
};

static bool is_newest(const struct held *held)
{
  return dlc_tensor_is_newest(held->tensor) == 1;
}

static void run_ours(void *context, struct bench_series *series)
{
  const struct held *held = (const struct held *)context;

  for (size_t i = 0; i < held->n_batches; i++) {
    uint64_t start = bench_now();

    for (size_t j = 0; j < BATCH; j++)
      if (!is_newest(held))
        bench_fail("what nobody replaced is said to be old");
    bench_note(series, bench_now() - start, BATCH);
  }
}

static void run_floor(void *context, struct bench_series *series)
{
  const struct held *held = (const struct held *)context;
  atomic_ulong word = 1;

  for (size_t i = 0; i < held->n_batches; i++) {
    uint64_t start = bench_now();

    for (size_t j = 0; j < BATCH; j++)
      (void)atomic_load((volatile atomic_ulong *)&word);
    bench_note(series, bench_now() - start, BATCH);
  }
}

void bench_newer(const struct bench_options *options)
{
  struct bench_daemon daemon;
  struct held held = {.name = "bench/held", .n_batches = 10};
  struct bench_side sides[] = {{.run = run_ours, .context = &held},
                               {.run = run_floor, .context = &held}};
  char bytes[64] = {0};
  struct DLManagedTensorVersioned *tensor;

  bench_pin(BENCH_CORE_MAIN);
  bench_daemon_start(&daemon, options, NULL);
  sides[0].server = daemon.pid;
  held.client = bench_connect(&daemon);
  bench_put(held.client, held.name, bytes, sizeof(bytes));
  tensor = bench_get(held.client, held.name, NULL);
  held.tensor = tensor;
  bench_interleave(sides, 2, bench_scale(options, 20));
  bench_report_times("newer.held", "is a held version the newest", BENCH_NS, &sides[0], &sides[1]);
  tensor->deleter(tensor);
  dlc_close(held.client);
  bench_daemon_stop(&daemon);
}
