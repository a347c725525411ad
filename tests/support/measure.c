#include "support/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/test.h"

int64_t test_now_us(void)
{
  struct timespec now;

  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

uint64_t test_cpu_us(pid_t pid)
{
  clockid_t clock;
  struct timespec used = {0};

  if (clock_getcpuclockid(pid, &clock) == 0)
    (void)clock_gettime(clock, &used);
  return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

uint64_t test_rss_kib(pid_t pid)
{
  unsigned long long size = 0, resident = 0;
  char path[64];
  FILE *file;

  (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
  file = fopen(path, "re");
  if (!file || fscanf(file, "%llu %llu", &size, &resident) != 2)
    fail_msg("%s cannot be read", path);
  else
    (void)fclose(file);
  return resident * (unsigned long long)sysconf(_SC_PAGESIZE) / 1024;
}

static int compare(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

  return (x > y) - (x < y);
}

int64_t test_percentile(int64_t *values, size_t n, unsigned percent)
{
  assert_true(n > 0);
  qsort(values, n, sizeof(*values), compare);
  return values[(n - 1) * percent / 100];
}

/* ---- baselines ---- */

static void take_counter(void *context, const char *name, uint64_t value)
{
  struct test_baseline *baseline = context;
  const struct {
    const char *name;
    uint64_t *ret;
  } wanted[] = {
      {"tensors", &baseline->tensors},         {"tensors_retired", &baseline->tensors_retired},
      {"segments", &baseline->segments},       {"bytes", &baseline->bytes},
      {"leases", &baseline->leases},           {"sessions", &baseline->sessions},
      {"connections", &baseline->connections},
  };

  for (size_t i = 0; i < TEST_ARRAY_SIZE(wanted); i++)
    if (strcmp(name, wanted[i].name) == 0)
      *wanted[i].ret = value;
}

struct test_baseline test_baseline_take(struct dlc_client *client, const struct test_daemon *daemon)
{
  struct test_baseline baseline = {.n_fds = test_count_fds_of(daemon->pid),
                                   .n_maps = test_count_maps_of_pid(daemon->pid, "dlpackd")};
  struct dlc_error error;

  test_ok(dlc_stats(client, take_counter, &baseline, &error), &error);
  return baseline;
}

static bool is_at_baseline(const struct test_baseline *now, const struct test_baseline *before)
{
  /* One that was about to be closed may have been counted before. */
  return now->n_fds <= before->n_fds && now->n_maps <= before->n_maps &&
         now->tensors == before->tensors && now->tensors_retired == before->tensors_retired &&
         now->segments == before->segments && now->bytes == before->bytes &&
         now->leases == before->leases && now->sessions == before->sessions &&
         now->connections == before->connections;
}

static void print_baseline(const char *title, const struct test_baseline *baseline)
{
  print_error("%s: %llu tensors, %llu retired, %llu segments, %llu bytes, %llu leases, "
              "%llu sessions, %llu connections, %zu descriptors, %zu mappings\n",
              title, (unsigned long long)baseline->tensors,
              (unsigned long long)baseline->tensors_retired, (unsigned long long)baseline->segments,
              (unsigned long long)baseline->bytes, (unsigned long long)baseline->leases,
              (unsigned long long)baseline->sessions, (unsigned long long)baseline->connections,
              baseline->n_fds, baseline->n_maps);
}

static void wait_for_baseline(struct dlc_client *client, const struct test_daemon *daemon,
                              const struct test_baseline *before, int64_t patience_ms)
{
  const struct timespec pause = {.tv_nsec = 1000000};
  int64_t deadline = test_now_us() + patience_ms * 1000;
  struct test_baseline now = test_baseline_take(client, daemon);

  while (!is_at_baseline(&now, before)) {
    if (test_now_us() > deadline) {
      print_baseline("before", before);
      print_baseline("now", &now);
      fail_msg("something is left behind");
    }
    (void)nanosleep(&pause, NULL);
    now = test_baseline_take(client, daemon);
  }
}

void test_baseline_wait(struct dlc_client *client, const struct test_daemon *daemon,
                        const struct test_baseline *before)
{
  wait_for_baseline(client, daemon, before, TEST_PATIENCE_MS);
}

void test_baseline_soon(struct dlc_client *client, const struct test_daemon *daemon,
                        const struct test_baseline *before)
{
  wait_for_baseline(client, daemon, before, TEST_SOON_MS);
}

void test_baseline_memory(struct dlc_client *client, const struct test_daemon *daemon,
                          const struct test_baseline *before)
{
  wait_for_baseline(client, daemon, before, TEST_MEMORY_MS);
}

/* ---- refusals ---- */

void test_assert_refusal(const char *what, int returned, int code, const struct dlc_error *error,
                         const char *word, const char *other_word)
{
  if (returned != -code)
    fail_msg("%s: got %s (%s), wanted %s", what, dlc_error_name(returned),
             returned < 0 ? error->message : "", dlc_error_name(code));
  if (error->code != code)
    fail_msg("%s: the error says %s", what, dlc_error_name(error->code));
  if (error->message[0] == '\0' || strchr(error->message, '\n'))
    fail_msg("%s: not a sentence: '%s'", what, error->message);
  if (word && !strstr(error->message, word))
    fail_msg("%s: '%s' does not say '%s'", what, error->message, word);
  if (other_word && !strstr(error->message, other_word))
    fail_msg("%s: '%s' does not say '%s'", what, error->message, other_word);
}
