/*
 * Put of 4 KiB: alone, and from the call until another process, which waits for
 * it, holds it. The floor: one echo.
 */

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon.h"
#include "echo.h"
#include "measurements.h"
#include "memory.h"
#include "process.h"

#define PER_BLOCK 50
#define SIZE (4 * BENCH_KIB)
/* After it said it goes back to waiting, the consumer gets so long to do so. */
#define PAUSE_US 150

#define NAME "bench/waited_for"

struct meeting {
  struct bench_word n_held; /* how many the consumer has held */
  uint64_t held_at;         /* when it held the last */
};

struct put {
  const struct bench_daemon *daemon;
  struct dlc_client *client;
  struct meeting *meeting;
  uint8_t *bytes;
  int echo;
  size_t n_names;
};

static void consume(void *context)
{
  const struct put *put = (const struct put *)context;
  struct dlc_client *client = bench_connect(put->daemon);
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor;

  options.timeout_ms = -1;
  for (;;) {
    tensor = bench_get(client, NAME, &options);
    put->meeting->held_at = bench_now();
    options.newer_than = dlc_tensor_info(tensor)->version;
    tensor->deleter(tensor);
    bench_word_add(&put->meeting->n_held, 1);
  }
}

static void run_waited_for(void *context, struct bench_series *series)
{
  const struct put *put = (const struct put *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint32_t n_held = bench_word_get(&put->meeting->n_held);
    uint64_t start;

    (void)usleep(PAUSE_US);
    start = bench_now();
    bench_put(put->client, NAME, put->bytes, SIZE);
    bench_word_await(&put->meeting->n_held, n_held + 1);
    bench_note(series, put->meeting->held_at - start, 1);
  }
}

static void run_replaced(void *context, struct bench_series *series)
{
  const struct put *put = (const struct put *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();

    bench_put(put->client, "bench/replaced", put->bytes, SIZE);
    bench_note(series, bench_now() - start, 1);
  }
}

static void run_new_name(void *context, struct bench_series *series)
{
  struct put *put = (struct put *)context;
  char name[BENCH_NAME_SIZE];

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start;

    (void)bench_name(name, put->n_names++);
    start = bench_now();
    bench_put(put->client, name, put->bytes, SIZE);
    bench_note(series, bench_now() - start, 1);
  }
}

static void run_cold(void *context, struct bench_series *series)
{
  const struct put *put = (const struct put *)context;
  struct dlc_client *client = bench_connect(put->daemon);
  uint64_t start = bench_now();

  bench_put(client, "bench/cold", put->bytes, SIZE);
  bench_note(series, bench_now() - start, 1);
  dlc_close(client);
}

static void run_echo(void *context, struct bench_series *series)
{
  const struct put *put = (const struct put *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();

    bench_echo_call(put->echo, BENCH_ECHO_REPLY, 1);
    bench_note(series, bench_now() - start, 1);
  }
}

static void report(const struct bench_side *sides)
{
  const struct bench_side *echo = &sides[4];

  bench_report_times("put_small.4KiB_waited_for", "put of 4 KiB until a waiting process holds it",
                     BENCH_US, &sides[0], echo);
  bench_report_times("put_small.4KiB_replaced", "put of 4 KiB, warm: nobody waits, one name",
                     BENCH_US, &sides[1], echo);
  bench_report_times("put_small.4KiB_new_name", "put of 4 KiB, warm: nobody waits, a new name each",
                     BENCH_US, &sides[2], echo);
  bench_report_times("put_small.4KiB_cold", "put of 4 KiB, cold: the first of a new client",
                     BENCH_US, &sides[3], echo);
}

void bench_put_small(const struct bench_options *options)
{
  struct bench_daemon daemon;
  struct bench_echo echo;
  struct put put = {.daemon = &daemon};
  struct bench_side sides[] = {{.run = run_waited_for},
                               {.run = run_replaced},
                               {.run = run_new_name},
                               {.run = run_cold},
                               {.run = run_echo}};
  pid_t consumer;

  bench_pin(BENCH_CORE_MAIN);
  bench_daemon_start(&daemon, options, NULL);
  bench_echo_start(&echo, BENCH_ECHO_BLOCKING, 1);
  put.echo = echo.fds[0];
  put.bytes = bench_warm(SIZE);
  put.meeting = (struct meeting *)bench_shared(sizeof(*put.meeting));
  consumer = bench_spawn(consume, &put);
  put.client = bench_connect(&daemon);
  for (size_t i = 0; i < 5; i++) {
    sides[i].context = &put;
    sides[i].server = i == 4 ? echo.server : daemon.pid;
  }
  bench_interleave(sides, 5, bench_scale(options, 160));
  report(sides);
  bench_stop(consumer);
  dlc_close(put.client);
  free(put.bytes);
  bench_echo_stop(&echo);
  bench_daemon_stop(&daemon);
}
