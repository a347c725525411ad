/*
 * What any design has to pay on this machine, whoever writes it. The other
 * measurements take their floors themselves; these are here to be read.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon.h"
#include "echo.h"
#include "measurements.h"
#include "memory.h"
#include "process.h"

#define PER_BLOCK 100

static void run_echo(void *context, struct bench_series *series)
{
  const struct bench_echo *echo = (const struct bench_echo *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();

    bench_echo_call(echo->fds[0], BENCH_ECHO_REPLY, 1);
    bench_note(series, bench_now() - start, 1);
  }
}

/* ---- a futex between two processes, there and back ---- */

struct futexes {
  struct bench_word there;
  struct bench_word back;
};

static void answer_futex(void *context)
{
  struct futexes *futexes = (struct futexes *)context;

  for (;;) {
    bench_word_await(&futexes->there, 1);
    bench_word_set(&futexes->there, 0);
    bench_word_set(&futexes->back, 1);
  }
}

static void run_futex(void *context, struct bench_series *series)
{
  struct futexes *futexes = (struct futexes *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();

    bench_word_set(&futexes->there, 1);
    bench_word_await(&futexes->back, 1);
    bench_note(series, bench_now() - start, 1);
    bench_word_set(&futexes->back, 0);
  }
}

/* ---- memory ---- */

static void run_map(void *context, struct bench_series *series)
{
  const int *fd = (const int *)context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();
    void *base = mmap(NULL, 64 * BENCH_MIB, PROT_READ, MAP_SHARED, *fd, 0);

    bench_check(base != MAP_FAILED, "mmap");
    (void)munmap(base, 64 * BENCH_MIB);
    bench_note(series, bench_now() - start, 1);
  }
}

static void run_copy(void *context, struct bench_series *series)
{
  const void *source = context;

  for (size_t i = 0; i < PER_BLOCK; i++) {
    uint64_t start = bench_now();
    void *volatile copy = malloc(4 * BENCH_KIB);

    memcpy(copy, source, 4 * BENCH_KIB);
    free(copy);
    bench_note(series, bench_now() - start, 1);
  }
}

static void measure_waiting(const struct bench_options *options)
{
  struct bench_echo blocking, epoll;
  struct futexes *futexes = (struct futexes *)bench_shared(sizeof(*futexes));
  pid_t answerer = bench_spawn(answer_futex, futexes);
  struct bench_side sides[] = {{.run = run_echo, .context = &blocking},
                               {.run = run_echo, .context = &epoll},
                               {.run = run_futex, .context = futexes}};

  bench_echo_start(&blocking, BENCH_ECHO_BLOCKING, 1);
  bench_echo_start(&epoll, BENCH_ECHO_EPOLL, 1);
  sides[0].server = blocking.server;
  sides[1].server = epoll.server;
  bench_interleave(sides, 3, bench_scale(options, 400));
  bench_report_times("floors.echo", "SEQPACKET echo, the server blocks in recv", BENCH_US,
                     &sides[0], NULL);
  bench_report_times("floors.echo_epoll", "SEQPACKET echo, the server in epoll", BENCH_US,
                     &sides[1], NULL);
  bench_report_times("floors.futex", "futex wake, there and back", BENCH_US, &sides[2], NULL);
  bench_echo_stop(&blocking);
  bench_echo_stop(&epoll);
  bench_stop(answerer);
}

static void measure_memory(const struct bench_options *options)
{
  int fd = bench_memfd(64 * BENCH_MIB);
  void *source = calloc(1, 4 * BENCH_KIB);
  struct bench_side sides[] = {{.run = run_map, .context = &fd},
                               {.run = run_copy, .context = source}};

  bench_interleave(sides, 2, bench_scale(options, 40));
  bench_report_times("floors.mmap", "mmap and munmap of 64 MiB, no page touched", BENCH_NS,
                     &sides[0], NULL);
  bench_report_times("floors.malloc_copy", "malloc, memcpy of 4 KiB, free", BENCH_NS, &sides[1],
                     NULL);
  free(source);
  (void)close(fd);
}

void bench_floors(const struct bench_options *options)
{
  bench_pin(BENCH_CORE_MAIN);
  measure_waiting(options);
  measure_memory(options);
}
