/*
 * The daemon itself: how soon it is ready, how large it is, whether it lets the
 * processor sleep. The floor of its start: fork, exec and the end of `true`.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon.h"
#include "measurements.h"
#include "process.h"

#define IDLE_US 2000000

static void run_start(void *context, struct bench_series *series)
{
  const struct bench_options *options = (const struct bench_options *)context;
  struct bench_daemon daemon;

  bench_daemon_start(&daemon, options, NULL);
  bench_note(series, daemon.ready_ns, 1);
  bench_daemon_stop(&daemon);
}

static void run_true(void *context, struct bench_series *series)
{
  uint64_t start = bench_now();
  pid_t pid = fork();

  if (pid == 0) {
    (void)execl("/bin/true", "true", (char *)NULL);
    _exit(EXIT_FAILURE);
  }
  bench_join(pid);
  bench_note(series, bench_now() - start, 1);
}

static void measure_idle(const struct bench_options *options)
{
  struct bench_daemon daemon;
  uint64_t before;

  bench_daemon_start(&daemon, options, NULL);
  (void)usleep(100000);
  before = bench_wakeups(daemon.pid);
  (void)usleep(options->is_quick ? IDLE_US / 4 : IDLE_US);
  bench_report_value("daemon.wakeups", "wake-ups of an idle daemon", BENCH_COUNT,
                     (double)(bench_wakeups(daemon.pid) - before));
  bench_report_value("daemon.resident", "resident memory of an idle daemon", BENCH_MIBYTES,
                     (double)bench_memory(daemon.pid, "Rss:") / (double)BENCH_MIB);
  bench_report_value("daemon.descriptors", "descriptors of an idle daemon", BENCH_COUNT,
                     (double)bench_n_descriptors(daemon.pid));
  bench_daemon_stop(&daemon);
}

void bench_daemon(const struct bench_options *options)
{
  struct bench_options start = *options;
  struct bench_side sides[] = {{.run = run_start, .context = &start}, {.run = run_true}};

  bench_pin(BENCH_CORE_MAIN);
  bench_interleave(sides, 2, bench_scale(options, 100));
  bench_report_times("daemon.start", "from fork to ready; floor: fork and exec of true", BENCH_MS,
                     &sides[0], &sides[1]);
  measure_idle(options);
}
