/*
 * 10,000 small tensors in one call, by their common prefix and by their names. The
 * floor: as many bytes as such an answer has, in packets of 64 KiB.
 */

#include <stdlib.h>

#include "daemon.h"
#include "echo.h"
#include "measurements.h"
#include "process.h"

#define N 10000
#define BYTES_PER_TENSOR 100

struct many {
  const struct bench_daemon *daemon;
  struct dlc_client *client;
  char (*names)[BENCH_NAME_SIZE];
  const char **pointers;
  int echo;
};

struct got {
  struct DLManagedTensorVersioned **tensors;
  size_t n;
};

static struct got get_prefix(struct dlc_client *client)
{
  const char *prefix = "bench/";
  struct got got;
  struct dlc_error error;

  bench_require(dlc_get_many(client, &prefix, 0, NULL, &got.tensors, &got.n, &error), &error);
  if (got.n != N)
    bench_fail("%zu tensors came, not %d", got.n, N);
  return got;
}

static void run_cold(void *context, struct bench_series *series)
{
  const struct many *many = (const struct many *)context;
  struct dlc_client *client = bench_connect(many->daemon);
  uint64_t start = bench_now();
  struct got got = get_prefix(client);

  bench_note(series, bench_now() - start, N);
  dlc_tensors_free(got.tensors, got.n);
  dlc_close(client);
}

static void run_warm(void *context, struct bench_series *series)
{
  const struct many *many = (const struct many *)context;
  uint64_t start = bench_now();
  struct got got = get_prefix(many->client);

  bench_note(series, bench_now() - start, N);
  dlc_tensors_free(got.tensors, got.n);
  bench_settle(many->client);
}

static void run_names(void *context, struct bench_series *series)
{
  const struct many *many = (const struct many *)context;
  struct got got;
  struct dlc_error error;
  uint64_t start = bench_now();

  bench_require(dlc_get_many(many->client, many->pointers, N, NULL, &got.tensors, &got.n, &error),
                &error);
  bench_note(series, bench_now() - start, N);
  dlc_tensors_free(got.tensors, got.n);
  bench_settle(many->client);
}

static void run_free(void *context, struct bench_series *series)
{
  const struct many *many = (const struct many *)context;
  struct got got = get_prefix(many->client);
  uint64_t start = bench_now();

  dlc_tensors_free(got.tensors, got.n);
  bench_settle(many->client);
  bench_note(series, bench_now() - start, N);
}

static void run_echo(void *context, struct bench_series *series)
{
  const struct many *many = (const struct many *)context;
  const uint32_t packet = 65536;
  uint64_t start = bench_now();

  bench_echo_call(many->echo, packet, (N * BYTES_PER_TENSOR + packet - 1) / packet);
  bench_note(series, bench_now() - start, N);
}

static void make_names(struct many *many)
{
  many->names = (char(*)[BENCH_NAME_SIZE])malloc(N * sizeof(*many->names));
  many->pointers = (const char **)malloc(N * sizeof(*many->pointers));
  bench_check(many->names && many->pointers, "names");
  for (size_t i = 0; i < N; i++)
    many->pointers[i] = bench_name(many->names[i], i);
}

static void report(const struct bench_side *sides)
{
  const struct bench_side *echo = &sides[4];

  bench_report_times("get_many.cold", "get_many of 10,000, cold: new client; a tensor", BENCH_US,
                     &sides[0], echo);
  bench_report_times("get_many.warm", "get_many of 10,000, had before; a tensor", BENCH_US,
                     &sides[1], echo);
  bench_report_times("get_many.names", "get_many of 10,000 names, had before; a tensor", BENCH_US,
                     &sides[2], echo);
  bench_report_times("get_many.free", "letting go of 10,000; a tensor", BENCH_US, &sides[3], NULL);
}

void bench_get_many(const struct bench_options *options)
{
  struct bench_daemon daemon;
  struct bench_echo echo;
  struct many many = {.daemon = &daemon};
  struct bench_side sides[] = {{.run = run_cold},
                               {.run = run_warm},
                               {.run = run_names},
                               {.run = run_free},
                               {.run = run_echo}};
  struct dlc_client *producer;

  bench_pin(BENCH_CORE_MAIN);
  bench_daemon_start(&daemon, options, NULL);
  bench_echo_start(&echo, BENCH_ECHO_BLOCKING, 1);
  producer = bench_connect(&daemon);
  bench_put_many(producer, 0, N, 64);
  make_names(&many);
  many.client = bench_connect(&daemon);
  many.echo = echo.fds[0];
  for (size_t i = 0; i < 5; i++) {
    sides[i].context = &many;
    sides[i].server = i == 4 ? echo.server : daemon.pid;
  }
  bench_interleave(sides, 5, bench_scale(options, 32));
  report(sides);
  dlc_close(many.client);
  dlc_close(producer);
  free(many.names);
  free(many.pointers);
  bench_echo_stop(&echo);
  bench_daemon_stop(&daemon);
}
