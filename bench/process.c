#include "process.h"

#include <dirent.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* ---- cores ---- */

/* As they were at the start: pinning narrows what the kernel would say later. */
static const cpu_set_t *allowed(void)
{
  static cpu_set_t set;
  static int known;

  if (!known)
    bench_check(sched_getaffinity(0, sizeof(set), &set) == 0, "cores");
  known = 1;
  return &set;
}

unsigned bench_n_cores(void)
{
  return (unsigned)CPU_COUNT(allowed());
}

/* From the last one on: the first is where most interrupts go. */
static int nth_core(unsigned n)
{
  n %= bench_n_cores();
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
    if (CPU_ISSET(cpu, allowed()) && n-- == 0)
      return cpu;
  return 0;
}

void bench_pin(enum bench_core core)
{
  cpu_set_t set = *allowed();

  if (core != BENCH_CORE_ANY) {
    CPU_ZERO(&set);
    CPU_SET(nth_core((unsigned)core), &set);
  }
  bench_check(sched_setaffinity(0, sizeof(set), &set) == 0, "pin to a core");
}

/* ---- children ---- */

pid_t bench_spawn(void (*body)(void *context), void *context)
{
  pid_t pid;

  (void)fflush(NULL);
  pid = fork();
  bench_check(pid >= 0, "fork");
  if (pid > 0)
    return pid;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  body(context);
  _exit(EXIT_SUCCESS);
}

void bench_stop(pid_t pid)
{
  if (pid <= 0)
    return;
  (void)kill(pid, SIGKILL);
  (void)waitpid(pid, NULL, 0);
}

void bench_join(pid_t pid)
{
  int status = 0;

  if (waitpid(pid, &status, 0) != pid || status != 0)
    bench_fail("a process of the measurement failed");
}

/* ---- what the kernel says ---- */

/* Sums a number over all threads; a thread may end meanwhile. */
static uint64_t sum_threads(pid_t pid, uint64_t (*read_one)(const char *path))
{
  char path[300];
  uint64_t sum = 0;
  struct dirent *entry;
  DIR *dir;

  (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
  dir = opendir(path);
  bench_check(dir, path);
  while ((entry = readdir(dir))) {
    if (entry->d_name[0] == '.')
      continue;
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%.20s", (int)pid, entry->d_name);
    sum += read_one(path);
  }
  (void)closedir(dir);
  return sum;
}

static uint64_t read_schedstat(const char *folder)
{
  char path[320];
  unsigned long long ns = 0;
  FILE *file;

  (void)snprintf(path, sizeof(path), "%s/schedstat", folder);
  file = fopen(path, "re");
  if (!file)
    return 0;
  if (fscanf(file, "%llu", &ns) != 1)
    ns = 0;
  (void)fclose(file);
  return ns;
}

uint64_t bench_cpu_ns(pid_t pid)
{
  return sum_threads(pid, read_schedstat);
}

static uint64_t read_field(const char *path, const char *field)
{
  unsigned long long value = 0;
  char line[256];
  FILE *file = fopen(path, "re");

  if (!file)
    return 0;
  while (fgets(line, sizeof(line), file))
    if (strncmp(line, field, strlen(field)) == 0) {
      value = strtoull(line + strlen(field), NULL, 10);
      break;
    }
  (void)fclose(file);
  return value;
}

static uint64_t read_switches(const char *folder)
{
  char path[320];

  (void)snprintf(path, sizeof(path), "%s/status", folder);
  return read_field(path, "voluntary_ctxt_switches:");
}

uint64_t bench_wakeups(pid_t pid)
{
  return sum_threads(pid, read_switches);
}

uint64_t bench_memory(pid_t pid, const char *field)
{
  char path[64];

  (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
  return read_field(path, field) * 1024;
}

size_t bench_n_descriptors(pid_t pid)
{
  char path[64];
  size_t n = 0;
  struct dirent *entry;
  DIR *dir;

  (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
  dir = opendir(path);
  bench_check(dir, path);
  while ((entry = readdir(dir)))
    n += entry->d_name[0] != '.';
  (void)closedir(dir);
  return n;
}

/* ---- meeting ---- */

void *bench_shared(size_t size)
{
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

  bench_check(memory != MAP_FAILED, "shared memory");
  return memory;
}

static void wake_all(struct bench_word *word)
{
  (void)syscall(SYS_futex, &word->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void bench_word_set(struct bench_word *word, uint32_t value)
{
  __atomic_store_n(&word->value, value, __ATOMIC_SEQ_CST);
  wake_all(word);
}

uint32_t bench_word_get(const struct bench_word *word)
{
  return __atomic_load_n(&word->value, __ATOMIC_SEQ_CST);
}

void bench_word_add(struct bench_word *word, uint32_t n)
{
  (void)__atomic_fetch_add(&word->value, n, __ATOMIC_SEQ_CST);
  wake_all(word);
}

void bench_word_await(struct bench_word *word, uint32_t value)
{
  uint32_t seen;

  while ((seen = bench_word_get(word)) != value)
    (void)syscall(SYS_futex, &word->value, FUTEX_WAIT, seen, NULL, NULL, 0);
}
