/*
 * A get by name of what this process had before, and its deleter: the price of
 * using what is already there. The floor: room for a tensor from malloc and back,
 * and the two ordered stores that taking and giving back a lease cannot do without.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "daemon.h"
#include "measurements.h"
#include "process.h"

#define BATCH 64
#define N_TENSORS 2
#define THREADS_NS UINT64_C(20000000)

struct hot {
  struct dlc_client *client;
  const char *name;
  size_t n_batches;
};

static void take_and_drop(const struct hot *hot)
{
  struct DLManagedTensorVersioned *tensor = bench_get(hot->client, hot->name, NULL);

  tensor->deleter(tensor);
}

static void run_ours(void *context, struct bench_series *series)
{
  const struct hot *hot = (const struct hot *)context;

  for (size_t i = 0; i < hot->n_batches; i++) {
    uint64_t start = bench_now();

    for (size_t j = 0; j < BATCH; j++)
      take_and_drop(hot);
    bench_note(series, bench_now() - start, BATCH);
  }
}

static void run_ours_into(void *context, struct bench_series *series)
{
  const struct hot *hot = (const struct hot *)context;
  struct dlc_slot slot;
  struct dlc_error error;

  for (size_t i = 0; i < hot->n_batches; i++) {
    uint64_t start = bench_now();

    for (size_t j = 0; j < BATCH; j++) {
      struct DLManagedTensorVersioned *tensor;

      bench_require(dlc_get_into(hot->client, hot->name, NULL, &slot, &tensor, &error), &error);
      tensor->deleter(tensor);
    }
    bench_note(series, bench_now() - start, BATCH);
  }
}

static void floor_once(atomic_ulong *cell)
{
  void *volatile room = malloc(sizeof(struct DLManagedTensorVersioned) + 64);

  atomic_store(cell, 1);
  atomic_store(cell, 0);
  free(room);
}

static void run_floor(void *context, struct bench_series *series)
{
  const struct hot *hot = (const struct hot *)context;
  atomic_ulong cell = 0;

  for (size_t i = 0; i < hot->n_batches; i++) {
    uint64_t start = bench_now();

    for (size_t j = 0; j < BATCH; j++)
      floor_once(&cell);
    bench_note(series, bench_now() - start, BATCH);
  }
}

/* ---- two threads ---- */

struct runner {
  struct hot hot;
  enum bench_core core;
  pthread_barrier_t *start;
  void (*run)(void *context, struct bench_series *series);
  double per_second;
};

/* For so long: in a fixed number of fast operations one thread would be through before
 * the other begins. */
static void *run_thread(void *context)
{
  struct runner *runner = (struct runner *)context;
  struct bench_series series = {0};
  uint64_t start, now;

  bench_pin(runner->core);
  (void)pthread_barrier_wait(runner->start);
  start = bench_now();
  do {
    runner->run(&runner->hot, &series);
    now = bench_now();
  } while (now - start < THREADS_NS);
  runner->per_second = (double)series.n_ops * 1e9 / (double)(now - start);
  bench_series_deinit(&series);
  return NULL;
}

/* Operations a second of `n_threads` together. */
static double throughput(const struct hot *hots, size_t n_threads,
                         void (*run)(void *context, struct bench_series *series))
{
  struct runner runners[N_TENSORS];
  pthread_t threads[N_TENSORS];
  pthread_barrier_t start;
  double sum = 0;

  (void)pthread_barrier_init(&start, NULL, (unsigned)n_threads);
  for (size_t i = 0; i < n_threads; i++) {
    runners[i] = (struct runner){hots[i], (enum bench_core)i, &start, run, 0};
    if (pthread_create(&threads[i], NULL, run_thread, &runners[i]) != 0)
      bench_fail("a thread could not be started");
  }
  for (size_t i = 0; i < n_threads; i++) {
    (void)pthread_join(threads[i], NULL);
    sum += runners[i].per_second;
  }
  (void)pthread_barrier_destroy(&start);
  return sum;
}

struct scaling {
  struct bench_series one; /* operations a second, kept as samples */
  struct bench_series two;
};

static void scaling_block(struct scaling *scaling, const struct hot *hots,
                          void (*run)(void *context, struct bench_series *series))
{
  bench_note(&scaling->one, (uint64_t)throughput(hots, 1, run), 1);
  bench_note(&scaling->two, (uint64_t)throughput(hots, 2, run), 1);
}

static double median_of(struct bench_series *series)
{
  bench_series_end_block(series);
  return bench_p50(series);
}

static void report_scaling(struct scaling *ours, struct scaling *floor)
{
  struct bench_row row;

  bench_row_init(&row, "hot_get.two_threads", "two threads, different tensors; ratio: to one",
                 BENCH_OPS_S);
  row.value = median_of(&ours->two);
  row.floor = median_of(&ours->one);
  row.ratio = row.value / row.floor;
  bench_row_add(&row);
  bench_row_init(&row, "hot_get.two_threads_floor", "the floor with two threads; ratio: to one",
                 BENCH_OPS_S);
  row.value = median_of(&floor->two);
  row.floor = median_of(&floor->one);
  row.ratio = row.value / row.floor;
  bench_row_add(&row);
}

static void measure_scaling(const struct bench_options *options, struct hot *hots)
{
  struct scaling ours = {{0}, {0}}, floor = {{0}, {0}};

  for (size_t i = 0; i < N_TENSORS; i++)
    hots[i].n_batches = 1;
  for (size_t i = 0; i < bench_scale(options, 40); i++) {
    scaling_block(&ours, hots, run_ours);
    scaling_block(&floor, hots, run_floor);
  }
  report_scaling(&ours, &floor);
}

void bench_hot_get(const struct bench_options *options)
{
  struct bench_daemon daemon;
  struct hot hots[N_TENSORS];
  struct bench_side sides[] = {
      {.run = run_ours, .context = &hots[0]},
      {.run = run_floor, .context = &hots[0]},
      {.run = run_ours_into, .context = &hots[0]},
  };
  char bytes[64] = {0};

  bench_pin(BENCH_CORE_MAIN);
  bench_daemon_start(&daemon, options, NULL);
  sides[0].server = sides[2].server = daemon.pid;
  hots[0] = (struct hot){bench_connect(&daemon), "bench/hot/0", 20};
  hots[1] = (struct hot){hots[0].client, "bench/hot/1", 20};
  for (size_t i = 0; i < N_TENSORS; i++) {
    bench_put(hots[i].client, hots[i].name, bytes, sizeof(bytes));
    take_and_drop(&hots[i]);
  }
  bench_interleave(sides, 3, bench_scale(options, 40));
  bench_report_times("hot_get.one_thread", "get by name and deleter, hot", BENCH_NS, &sides[0],
                     &sides[1]);
  bench_report_times("hot_get.into", "the same into memory of the caller", BENCH_NS, &sides[2],
                     &sides[1]);
  measure_scaling(options, hots);
  dlc_close(hots[0].client);
  bench_daemon_stop(&daemon);
}
