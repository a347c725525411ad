#include "support/attack.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/tensors.h"
#include "support/test.h"

/* What the witness waits for an answer: as a rule, and at the worst moment of a machine
 * that has other work as well. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define USUALLY_US 1000000 /* the daemon itself is that much slower then */
#else
#define USUALLY_US 100000
#endif
#define AT_WORST_US 2000000
/* A share of the daemon's memory that an attack may leave behind, fragments mostly. */
#define RSS_SLACK_KIB (32 << 10)

#define WITNESS_NAME "witness/tensor"
#define WITNESS_SIZE 5000
#define MAX_SAMPLES 100000

/* ---- the log ---- */

/* The daemon inherits our standard error: for a moment it is a file. */
static void start_with_log(struct attack_bench *bench, const char *const *arguments)
{
  int saved = dup(STDERR_FILENO);

  bench->log = memfd_create("log", MFD_CLOEXEC);
  assert_true(saved >= 0 && bench->log >= 0);
  assert_int_equal(dup2(bench->log, STDERR_FILENO), STDERR_FILENO);
  test_daemon_init(&bench->daemon, arguments);
  assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
  (void)close(saved);
}

struct log_wait {
  int fd;
  const char *text;
};

static bool log_has(void *context)
{
  const struct log_wait *wait = context;
  off_t size = lseek(wait->fd, 0, SEEK_END);
  char *log = size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, wait->fd, 0) : MAP_FAILED;
  bool has;

  if (log == MAP_FAILED)
    return false;
  has = memmem(log, (size_t)size, wait->text, strlen(wait->text)) != NULL;
  (void)munmap(log, (size_t)size);
  return has;
}

void attack_wait_log(struct attack_bench *bench, const char *text)
{
  struct log_wait wait = {bench->log, text};

  if (!test_wait_until(log_has, &wait))
    fail_msg("the daemon has not said '%s'", text);
}

/* ---- life ---- */

int attack_setup_with(void **state, const char *const *more)
{
  struct attack_bench *bench = calloc(1, sizeof(*bench));
  static const char *arguments[16];
  size_t n = 0;

  assert_non_null(bench);
  *state = bench;
  arguments[n++] = "--log-level";
  arguments[n++] = "debug";
  for (size_t i = 0; more && more[i]; i++)
    arguments[n++] = more[i];
  arguments[n] = NULL;
  start_with_log(bench, arguments);
  bench->witness = test_connect(&bench->daemon);
  (void)test_put(bench->witness, WITNESS_NAME, WITNESS_SIZE, 17, NULL);
  (void)attack_witness(bench);
  test_wait_counter(bench->witness, "leases", 0);
  bench->before = test_baseline_take(bench->witness, &bench->daemon);
  bench->rss_before_kib = test_rss_kib(bench->daemon.pid);
  return 0;
}

int attack_setup(void **state)
{
  return attack_setup_with(state, NULL);
}

int attack_teardown(void **state)
{
  struct attack_bench *bench = *state;

  dlc_close(bench->witness);
  test_daemon_deinit(&bench->daemon);
  (void)close(bench->log);
  free(bench);
  return 0;
}

/* ---- the witness ---- */

int64_t attack_witness(struct attack_bench *bench)
{
  int64_t start = test_now_us();
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  test_ok(dlc_ping(bench->witness, NULL, &error), &error);
  tensor = test_get(bench->witness, WITNESS_NAME, DLC_ACCESS_READ);
  test_check(tensor, 17);
  test_drop(tensor);
  return test_now_us() - start;
}

static bool has_ended(const struct test_child *child)
{
  siginfo_t info = {.si_pid = 0};

  return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child->pid;
}

void attack_watch(struct attack_bench *bench, const struct test_child *attacker)
{
  const struct timespec pause = {.tv_nsec = 500000};
  static int64_t samples[MAX_SAMPLES];
  size_t n = 0;

  do {
    samples[n++ % MAX_SAMPLES] = attack_witness(bench);
    (void)nanosleep(&pause, NULL);
  } while (!has_ended(attacker));
  n = n < MAX_SAMPLES ? n : MAX_SAMPLES;
  assert_in_range(test_percentile(samples, n, 90), 0, USUALLY_US);
  assert_in_range(samples[n - 1], 0, AT_WORST_US);
}

void attack_assert_nothing_left(struct attack_bench *bench)
{
  (void)attack_witness(bench);
  test_wait_counter(bench->witness, "leases", 0);
  test_baseline_wait(bench->witness, &bench->daemon, &bench->before);
  if (!TEST_IS_SANITIZED)
    assert_in_range(test_rss_kib(bench->daemon.pid), 0, bench->rss_before_kib + RSS_SLACK_KIB);
}

void attack_run(struct attack_bench *bench, attack_fn *attack, void *context)
{
  struct test_child attacker;

  bench->context = context;
  test_child_start(&attacker, attack, bench);
  attack_watch(bench, &attacker);
  test_child_join(&attacker);
  attack_assert_nothing_left(bench);
}
