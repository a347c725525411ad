/*
 * 20,000 tensors of 4 MiB: descriptors in the daemon. They are made to be filled
 * in place and no page of them is touched, since 80 GiB are not at hand.
 */

#include <stdlib.h>

#include "daemon.h"
#include "measurements.h"
#include "process.h"

#define N 20000
#define SIZE (4 * BENCH_MIB)

static const char *const roomy[] = {"--max-bytes=1T",        "--user-bytes=1T",
                                    "--user-tensors=100000", "--user-segments=100000",
                                    "--user-heap=8G",        NULL};

void bench_large_tensors(const struct bench_options *options)
{
  struct bench_daemon daemon;
  struct DLManagedTensorVersioned **tensors =
      (struct DLManagedTensorVersioned **)calloc(N, sizeof(*tensors));
  struct dlc_client *client;
  uint64_t start;

  bench_check(tensors, "room");
  bench_pin(BENCH_CORE_MAIN);
  bench_daemon_start(&daemon, options, roomy);
  client = bench_connect(&daemon);
  start = bench_now();
  for (size_t i = 0; i < N; i++)
    tensors[i] = bench_alloc(client, SIZE);
  bench_report_value("large_tensors.alloc", "alloc of 4 MiB, 20,000 kept; each", BENCH_US,
                     (double)(bench_now() - start) / 1e3 / N);
  bench_report_value("large_tensors.descriptors", "descriptors of the daemon with 20,000 of 4 MiB",
                     BENCH_COUNT, (double)bench_n_descriptors(daemon.pid));
  for (size_t i = 0; i < N; i++)
    tensors[i]->deleter(tensors[i]);
  dlc_close(client);
  bench_daemon_stop(&daemon);
  free(tensors);
}
