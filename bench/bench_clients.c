/*
 * Many clients at once, each getting tensors that it never had: gets a second of
 * all together, beside as many clients of an echo server that serves them by
 * epoll. Once with everything on one core, as it is with the other measurements,
 * and once spread over all cores.
 */

#include <stdio.h>
#include <stdlib.h>

#include "daemon.h"
#include "echo.h"
#include "measurements.h"
#include "process.h"

#define CLIENTS_MAX 16
#define PER_BLOCK 500
#define BLOCKS_MAX 16

/* The defaults are for one user of many. */
static const char *const roomy[] = {"--user-tensors=1000000", "--user-leases=1000000",
                                    "--user-heap=8G", NULL};

/* What parent and clients share: the parent names a step, the clients say when it is done. */
struct stage {
  struct bench_word step; /* 0: wait; odd: get; even: echo */
  struct bench_word n_done;
};

struct crowd {
  const struct bench_daemon *daemon;
  const struct bench_echo *echo;
  struct stage *stage;
  size_t n_clients;
  size_t n_blocks;
};

struct member {
  const struct crowd *crowd;
  size_t number;
};

static void get_some(struct dlc_client *client, size_t first,
                     struct DLManagedTensorVersioned **tensors)
{
  char name[BENCH_NAME_SIZE];

  for (size_t i = 0; i < PER_BLOCK; i++)
    tensors[i] = bench_get(client, bench_name(name, first + i), NULL);
}

static void drop_some(struct dlc_client *client, struct DLManagedTensorVersioned **tensors)
{
  for (size_t i = 0; i < PER_BLOCK; i++)
    tensors[i]->deleter(tensors[i]);
  bench_settle(client);
}

/* Every client has tensors of its own: nobody else's get warms it. */
static void take_part(void *context)
{
  const struct member *member = (const struct member *)context;
  const struct crowd *crowd = member->crowd;
  struct dlc_client *client = bench_connect(crowd->daemon);
  struct DLManagedTensorVersioned *tensors[PER_BLOCK];
  size_t next = member->number * crowd->n_blocks * PER_BLOCK;

  bench_word_add(&crowd->stage->n_done, 1);
  for (uint32_t step = 1; step <= 2 * crowd->n_blocks; step++) {
    bench_word_await(&crowd->stage->step, step);
    if (step % 2 == 1) {
      get_some(client, next, tensors);
      next += PER_BLOCK;
    } else {
      for (size_t i = 0; i < PER_BLOCK; i++)
        bench_echo_call(crowd->echo->fds[member->number], BENCH_ECHO_REPLY, 1);
    }
    bench_word_add(&crowd->stage->n_done, 1);
    /* Giving back is not part of either: there is a step for it between them. */
    bench_word_await(&crowd->stage->step, 1000 + step);
    if (step % 2 == 1)
      drop_some(client, tensors);
    bench_word_add(&crowd->stage->n_done, 1);
  }
}

static void run_step(const struct crowd *crowd, uint32_t step)
{
  bench_word_set(&crowd->stage->n_done, 0);
  bench_word_set(&crowd->stage->step, step);
  bench_word_await(&crowd->stage->n_done, (uint32_t)crowd->n_clients);
}

struct turn {
  const struct crowd *crowd;
  uint32_t step; /* of its next block */
};

/* The samples are nanoseconds for one operation of all clients together. */
static void run_turn(void *context, struct bench_series *series)
{
  struct turn *turn = (struct turn *)context;
  uint64_t start = bench_now();

  run_step(turn->crowd, turn->step);
  bench_note(series, bench_now() - start, turn->crowd->n_clients * PER_BLOCK);
  run_step(turn->crowd, 1000 + turn->step);
  turn->step += 2;
}

static void report(const struct bench_side *sides, size_t n_clients, bool is_pinned)
{
  char name[48], what[80];
  struct bench_row row;

  (void)snprintf(name, sizeof(name), "clients.%zu_%s", n_clients, is_pinned ? "pinned" : "spread");
  (void)snprintf(what, sizeof(what), "%zu client%s, first gets, %s", n_clients,
                 n_clients > 1 ? "s" : "", is_pinned ? "on one core" : "on all cores");
  bench_row_init(&row, name, what, BENCH_OPS_S);
  row.value = 1e9 / bench_p50(&sides[0].series);
  row.floor = 1e9 / bench_p50(&sides[1].series);
  row.ratio = row.value / row.floor;
  row.server_us = bench_server_ns(&sides[0].series) / 1e3;
  row.floor_server_us = bench_server_ns(&sides[1].series) / 1e3;
  bench_row_add(&row);
}

static void measure(const struct bench_daemon *daemon, size_t n_clients, size_t n_blocks,
                    bool is_pinned)
{
  struct bench_echo echo;
  struct crowd crowd = {daemon, &echo, (struct stage *)bench_shared(sizeof(struct stage)),
                        n_clients, n_blocks};
  struct turn turns[] = {{&crowd, 1}, {&crowd, 2}};
  struct bench_side sides[] = {{.run = run_turn, .context = &turns[0], .server = daemon->pid},
                               {.run = run_turn, .context = &turns[1]}};
  pid_t pids[CLIENTS_MAX];

  bench_echo_start(&echo, BENCH_ECHO_EPOLL, n_clients);
  sides[1].server = echo.server;
  for (size_t i = 0; i < n_clients; i++)
    pids[i] = bench_spawn(take_part, &(struct member){&crowd, i});
  bench_word_await(&crowd.stage->n_done, (uint32_t)n_clients);
  bench_interleave(sides, 2, n_blocks);
  report(sides, n_clients, is_pinned);
  for (size_t i = 0; i < n_clients; i++)
    bench_join(pids[i]);
  bench_echo_stop(&echo);
}

static void measure_all(const struct bench_options *options, bool is_pinned)
{
  static const size_t counts[] = {1, 2, 4, 8, 16};
  size_t n_blocks = bench_scale(options, BLOCKS_MAX);
  struct bench_daemon daemon;
  struct dlc_client *producer;

  bench_pin(is_pinned ? BENCH_CORE_MAIN : BENCH_CORE_ANY);
  bench_daemon_start(&daemon, options, roomy);
  producer = bench_connect(&daemon);
  bench_put_many(producer, 0, CLIENTS_MAX * n_blocks * PER_BLOCK, 64);
  for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
    measure(&daemon, counts[i], n_blocks, is_pinned);
  dlc_close(producer);
  bench_daemon_stop(&daemon);
}

void bench_clients(const struct bench_options *options)
{
  measure_all(options, true);
  measure_all(options, false);
}
