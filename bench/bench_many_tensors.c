/*
 * 200,000 small tensors: what the daemon needs for them, and whether anybody feels
 * them. Daemon and getter share a core; who lists them all has the other one, so
 * that what the getter waits for is the daemon.
 */

#include <string.h>

#include "daemon.h"
#include "echo.h"
#include "measurements.h"
#include "process.h"

#define FEW 10
#define STRIDE 7919 /* prime to both numbers of tensors */
#define N 200000
#define SIZE 64
#define PER_BLOCK 100
#define N_BLOCKS 60
#define LISTINGS 8

/* Enough for what is measured; the defaults are for one user of many. */
static const char *const roomy[] = {"--user-tensors=1000000", "--user-leases=1000000",
                                    "--user-heap=8G", NULL};

struct scene {
  const struct bench_daemon *daemon;
  struct dlc_client *producer;
  struct dlc_client *getter;
  struct bench_word *listings; /* how many were made */
  size_t n_tensors;
  size_t next;
  int echo;
};

static struct DLManagedTensorVersioned *get_next(struct scene *scene, struct dlc_client *client,
                                                 struct bench_series *series)
{
  struct DLManagedTensorVersioned *tensor;
  char name[BENCH_NAME_SIZE];
  uint64_t start;

  /* From all over the names; each once before the first comes again. */
  (void)bench_name(name, scene->next++ * STRIDE % scene->n_tensors);
  start = bench_now();
  tensor = bench_get(client, name, NULL);
  if (series)
    bench_note(series, bench_now() - start, 1);
  return tensor;
}

/* A client has each of the few once for the first time, so there are many clients. */
static void run_first_gets(void *context, struct bench_series *series)
{
  struct scene *scene = (struct scene *)context;
  struct DLManagedTensorVersioned *held[FEW];

  for (size_t i = 0; i < PER_BLOCK / FEW; i++) {
    struct dlc_client *client = bench_connect(scene->daemon);

    held[0] = get_next(scene, client, NULL);
    for (size_t j = 1; j < FEW; j++)
      held[j] = get_next(scene, client, series);
    for (size_t j = 0; j < FEW; j++)
      held[j]->deleter(held[j]);
    dlc_close(client);
  }
}

static void run_gets(void *context, struct bench_series *series)
{
  struct scene *scene = (struct scene *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    struct DLManagedTensorVersioned *tensor = get_next(scene, scene->getter, series);

    tensor->deleter(tensor);
  }
  /* What it had before it would get without the daemon. */
  if (scene->next < scene->n_tensors)
    return;
  dlc_close(scene->getter);
  scene->getter = bench_connect(scene->daemon);
  scene->next = 0;
}

static void run_echo(void *context, struct bench_series *series)
{
  const struct scene *scene = (const struct scene *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();

    bench_echo_call(scene->echo, BENCH_ECHO_REPLY, 1);
    bench_note(series, bench_now() - start, 1);
  }
}

/* ---- somebody lists everything, again and again ---- */

static int count_one(void *context, const struct dlc_info *info)
{
  (*(size_t *)context)++;
  return 0;
}

static void list_for_ever(void *context)
{
  const struct scene *scene = (const struct scene *)context;
  struct dlc_client *client;
  struct dlc_error error;

  bench_pin(BENCH_CORE_OTHER);
  client = bench_connect(scene->daemon);
  for (;;) {
    size_t n = 0;

    bench_require(dlc_list(client, NULL, count_one, &n, &error), &error);
    bench_word_add(scene->listings, 1);
  }
}

static void report_listing(struct bench_side *sides, double seconds, uint32_t listings)
{
  struct bench_row row;

  bench_row_init(&row, "many_tensors.get_while_listing",
                 "longest get while another client lists 200,000", BENCH_MS);
  row.value = bench_max(&sides[0].series) / 1e6;
  row.p99 = bench_p99(&sides[0].series) / 1e6;
  row.floor = bench_max(&sides[1].series) / 1e6;
  row.floor_p99 = bench_p99(&sides[1].series) / 1e6;
  row.ratio = row.value / row.floor;
  bench_row_add(&row);
  bench_report_value("many_tensors.list", "one listing of 200,000, meanwhile", BENCH_MS,
                     seconds * 1e3 / listings);
}

static void measure_listing(const struct bench_options *options, struct scene *scene)
{
  struct bench_side sides[] = {{.run = run_gets, .context = scene},
                               {.run = run_echo, .context = scene}};
  pid_t lister = bench_spawn(list_for_ever, scene);
  uint32_t before;
  uint64_t start;

  scene->getter = bench_connect(scene->daemon);
  scene->next = 0;
  bench_word_await(scene->listings, 1);
  before = bench_word_get(scene->listings);
  start = bench_now();
  do
    bench_interleave(sides, 2, bench_scale(options, N_BLOCKS));
  while (bench_word_get(scene->listings) - before < bench_scale(options, LISTINGS));
  report_listing(sides, (double)(bench_now() - start) / 1e9,
                 bench_word_get(scene->listings) - before);
  bench_stop(lister);
  dlc_close(scene->getter);
}

/* ---- few and many ---- */

static void measure_gets(const struct bench_options *options, struct scene *scene,
                         struct bench_side *sides, const struct bench_echo *echo)
{
  sides[0] = (struct bench_side){run_first_gets, scene, scene->daemon->pid, {0}};
  sides[1] = (struct bench_side){run_echo, scene, echo->server, {0}};
  bench_interleave(sides, 2, bench_scale(options, N_BLOCKS));
}

/* In echoes, not in microseconds: the two are minutes apart. */
static void report_gets(const struct bench_side *few, const struct bench_side *many)
{
  struct bench_row row;

  bench_row_init(&row, "many_tensors.get_among_many",
                 "first get among 200,000, in echoes; floor: among 10", BENCH_TIMES);
  row.value = bench_p50(&many[0].series) / bench_p50(&many[1].series);
  row.p99 = bench_p99(&many[0].series) / bench_p50(&many[1].series);
  row.floor = bench_p50(&few[0].series) / bench_p50(&few[1].series);
  row.floor_p99 = bench_p99(&few[0].series) / bench_p50(&few[1].series);
  row.ratio = row.value / row.floor;
  row.server_us = bench_server_ns(&many[0].series) / 1e3;
  row.floor_server_us = bench_server_ns(&few[0].series) / 1e3;
  bench_row_add(&row);
}

/* Half of them first, so that what does not grow drops out of the difference. */
static void fill(struct scene *scene, size_t n)
{
  char name[BENCH_NAME_SIZE];
  uint64_t start = bench_now(), half;

  bench_put_many(scene->producer, FEW, n / 2 - FEW, SIZE);
  half = bench_memory(scene->daemon->pid, "Pss:");
  bench_put_many(scene->producer, n / 2, n - n / 2, SIZE);
  bench_report_value("many_tensors.put_generations", "put in generations of 5,000; a tensor",
                     BENCH_US, (double)(bench_now() - start) / 1e3 / (double)n);
  bench_report_value(
      "many_tensors.small_memory", "daemon memory for a tensor, without its name", BENCH_BYTES,
      (double)(bench_memory(scene->daemon->pid, "Pss:") - half) / (double)(n - n / 2) -
          (double)strlen(bench_name(name, 0)));
  bench_report_value("many_tensors.small_descriptors", "descriptors of the daemon with 200,000",
                     BENCH_COUNT, (double)bench_n_descriptors(scene->daemon->pid));
  scene->n_tensors = n;
}

void bench_many_tensors(const struct bench_options *options)
{
  struct bench_daemon daemon;
  struct bench_echo echo;
  struct scene scene = {.daemon = &daemon, .n_tensors = FEW};
  struct bench_side few[2], many[2];

  bench_pin(BENCH_CORE_MAIN);
  bench_daemon_start(&daemon, options, roomy);
  bench_echo_start(&echo, BENCH_ECHO_BLOCKING, 1);
  scene.producer = bench_connect(&daemon);
  scene.echo = echo.fds[0];
  scene.listings = (struct bench_word *)bench_shared(sizeof(*scene.listings));
  bench_put_many(scene.producer, 0, FEW, SIZE);
  measure_gets(options, &scene, few, &echo);
  fill(&scene, N);
  measure_gets(options, &scene, many, &echo);
  report_gets(few, many);
  measure_listing(options, &scene);
  dlc_close(scene.producer);
  bench_echo_stop(&echo);
  bench_daemon_stop(&daemon);
}
