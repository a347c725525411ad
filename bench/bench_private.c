/*
 * A get and its deleter by size: PRIVATE (writable, one's own) and READ (shared).
 * The floor of a small private one: malloc, memcpy, free. Of a large one: a
 * private mapping and its end.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon.h"
#include "measurements.h"
#include "memory.h"
#include "process.h"

#define PER_BLOCK 40

static const struct {
  const char *text;
  size_t size;
} sizes[] = {
    {"1KiB", BENCH_KIB},         {"16KiB", 16 * BENCH_KIB},   {"64KiB", 64 * BENCH_KIB},
    {"240KiB", 240 * BENCH_KIB}, {"1MiB", BENCH_MIB},         {"16MiB", 16 * BENCH_MIB},
    {"64MiB", 64 * BENCH_MIB},   {"256MiB", 256 * BENCH_MIB}, {"1GiB", BENCH_GIB},
};

struct view {
  struct dlc_client *client;
  const char *name;
  size_t size;
  uint32_t access;
  const uint8_t *source; /* of the floor: the tensor's own bytes, mapped */
  int fd;
};

static void run_get(void *context, struct bench_series *series)
{
  const struct view *view = (const struct view *)context;
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;

  options.access = view->access;
  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();
    struct DLManagedTensorVersioned *tensor = bench_get(view->client, view->name, &options);

    tensor->deleter(tensor);
    bench_note(series, bench_now() - start, 1);
  }
}

static void run_copy(void *context, struct bench_series *series)
{
  const struct view *view = (const struct view *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();
    void *volatile copy = malloc(view->size);

    memcpy(copy, view->source, view->size);
    free(copy);
    bench_note(series, bench_now() - start, 1);
  }
}

static void run_map(void *context, struct bench_series *series)
{
  const struct view *view = (const struct view *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();
    void *base = mmap(NULL, view->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, view->fd, 0);

    bench_check(base != MAP_FAILED, "mmap");
    (void)munmap(base, view->size);
    bench_note(series, bench_now() - start, 1);
  }
}

static void publish(struct dlc_client *client, const struct view *view)
{
  struct DLManagedTensorVersioned *tensor = bench_alloc(client, view->size);
  struct dlc_error error;

  bench_require(dlc_publish(client, view->name, tensor, NULL, NULL, &error), &error);
  tensor->deleter(tensor);
}

static void report(const char *text, struct bench_side *sides)
{
  char name[48], what[80];

  (void)snprintf(name, sizeof(name), "private.%s", text);
  (void)snprintf(what, sizeof(what), "PRIVATE get of %s and its deleter", text);
  bench_report_times(name, what, BENCH_US, &sides[0], &sides[2]);
  (void)snprintf(name, sizeof(name), "private.%s_read", text);
  (void)snprintf(what, sizeof(what), "READ get of %s and its deleter", text);
  bench_report_times(name, what, BENCH_US, &sides[1], &sides[2]);
}

static void measure(const struct bench_options *options, const struct bench_daemon *daemon,
                    const char *text, size_t size)
{
  struct dlc_client *producer = bench_connect(daemon);
  struct view private = {bench_connect(daemon), text, size, DLC_ACCESS_PRIVATE, NULL, -1};
  struct view shared = private;
  struct bench_side sides[] = {{.run = run_get, .context = &private, .server = daemon->pid},
                               {.run = run_get, .context = &shared, .server = daemon->pid},
                               {.run = size < BENCH_MIB ? run_copy : run_map, .context = &private}};
  struct DLManagedTensorVersioned *keeper;

  shared.access = DLC_ACCESS_READ;
  publish(producer, &private);
  /* Its segment stays mapped, as where it is in use. */
  keeper = bench_get(private.client, text, NULL);
  private.source = (const uint8_t *)keeper->dl_tensor.data;
  private.fd = bench_memfd(size);
  bench_interleave(sides, 3, bench_scale(options, 40));
  report(text, sides);
  keeper->deleter(keeper);
  (void)close(private.fd);
  dlc_close(private.client);
  dlc_close(producer);
}

void bench_private(const struct bench_options *options)
{
  struct bench_daemon daemon;

  bench_pin(BENCH_CORE_MAIN);
  bench_daemon_start(&daemon, options, NULL);
  for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
    if (!options->is_quick || sizes[i].size < BENCH_GIB)
      measure(options, &daemon, sizes[i].text, sizes[i].size);
  bench_daemon_stop(&daemon);
}
