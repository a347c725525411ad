/*
 * The first get of a version: one round trip. Its segment is mapped already, but
 * for the cold rows, where client and segment are new too.
 */

#include <math.h>
#include <stdlib.h>

#include "daemon.h"
#include "echo.h"
#include "measurements.h"
#include "process.h"

#define PER_BLOCK 100
#define COLD_SAMPLES 60

struct first {
  struct dlc_client *client;
  size_t next; /* number of the next tensor that nobody here has had */
  struct DLManagedTensorVersioned *held[PER_BLOCK];
  int echo;
};

/* Held until all are there, so that giving back is not part of it. */
static void run_ours(void *context, struct bench_series *series)
{
  struct first *first = (struct first *)context;
  char name[BENCH_NAME_SIZE];

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start;

    (void)bench_name(name, first->next++);
    start = bench_now();
    first->held[i] = bench_get(first->client, name, NULL);
    bench_note(series, bench_now() - start, 1);
  }
}

/* The floor, after the daemon has had time for what we give back. */
static void run_echo(void *context, struct bench_series *series)
{
  struct first *first = (struct first *)context;

  for (size_t i = 0; i < PER_BLOCK; i++)
    first->held[i]->deleter(first->held[i]);
  bench_settle(first->client);
  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();

    bench_echo_call(first->echo, BENCH_ECHO_REPLY, 1);
    bench_note(series, bench_now() - start, 1);
  }
}

static void run_ping(void *context, struct bench_series *series)
{
  struct first *first = (struct first *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();

    bench_settle(first->client);
    bench_note(series, bench_now() - start, 1);
  }
}

static void report(const struct bench_side *sides)
{
  bench_report_times("first_get.small", "first get of a small tensor, segment mapped", BENCH_US,
                     &sides[0], &sides[1]);
  bench_report_value("first_get.daemon_cpu", "the daemon's CPU for it, above the echo server's",
                     BENCH_US,
                     (bench_server_ns(&sides[0].series) - bench_server_ns(&sides[1].series)) / 1e3);
  bench_report_times("first_get.ping", "ping: the least that the daemon answers", BENCH_US,
                     &sides[2], &sides[1]);
}

/* ---- cold ---- */

static void run_cold(void *context, struct bench_series *series)
{
  const struct bench_daemon *daemon = (const struct bench_daemon *)context;
  struct dlc_client *client = bench_connect(daemon);
  struct DLManagedTensorVersioned *tensor;
  uint64_t start = bench_now();

  tensor = bench_get(client, "bench/000000", NULL);
  bench_note(series, bench_now() - start, 1);
  tensor->deleter(tensor);
  dlc_close(client);
}

static void run_connect(void *context, struct bench_series *series)
{
  const struct bench_daemon *daemon = (const struct bench_daemon *)context;
  uint64_t start = bench_now();
  struct dlc_client *client = bench_connect(daemon);

  bench_note(series, bench_now() - start, 1);
  dlc_close(client);
}

static void measure_cold(const struct bench_options *options, struct bench_daemon *daemon)
{
  struct bench_side sides[] = {
      {.run = run_cold, .context = daemon, .server = daemon->pid},
      {.run = run_connect, .context = daemon, .server = daemon->pid},
  };

  bench_interleave(sides, 2, bench_scale(options, COLD_SAMPLES));
  bench_report_times("first_get.cold", "first get of a new client, segment not mapped", BENCH_US,
                     &sides[0], NULL);
  bench_report_times("first_get.connect", "connect", BENCH_US, &sides[1], NULL);
}

void bench_first_get(const struct bench_options *options)
{
  struct bench_daemon daemon;
  struct bench_echo echo;
  struct first first = {0};
  size_t n_blocks = bench_scale(options, 400);
  struct bench_side sides[3];
  struct dlc_client *producer;
  struct DLManagedTensorVersioned *keeper;

  bench_pin(BENCH_CORE_MAIN);
  bench_daemon_start(&daemon, options, NULL);
  bench_echo_start(&echo, BENCH_ECHO_BLOCKING, 1);
  producer = bench_connect(&daemon);
  bench_put_many(producer, 0, n_blocks * PER_BLOCK + 1, 64);
  first.client = bench_connect(&daemon);
  first.echo = echo.fds[0];
  keeper = bench_get(first.client, "bench/000000", NULL);
  first.next = 1;
  sides[0] = (struct bench_side){.run = run_ours, .context = &first, .server = daemon.pid};
  sides[1] = (struct bench_side){.run = run_echo, .context = &first, .server = echo.server};
  sides[2] = (struct bench_side){.run = run_ping, .context = &first, .server = daemon.pid};
  bench_interleave(sides, 3, n_blocks);
  report(sides);
  keeper->deleter(keeper);
  dlc_close(first.client);
  measure_cold(options, &daemon);
  dlc_close(producer);
  bench_echo_stop(&echo);
  bench_daemon_stop(&daemon);
}
