#ifndef DLPACKD_TESTS_SUPPORT_MEASURE_H
#define DLPACKD_TESTS_SUPPORT_MEASURE_H

/* What a process takes (time, memory, descriptors), and how long a call lasts. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "support/daemon.h"

/* Built with a sanitizer, everything is several times slower and larger. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_IS_SANITIZED 1
#else
#define TEST_IS_SANITIZED 0
#endif

int64_t test_now_us(void);
/* Of a process: processor time so far, and resident memory. */
uint64_t test_cpu_us(pid_t pid);
uint64_t test_rss_kib(pid_t pid);

/* Sorts `values`. Return: the one at `percent` of the way. */
int64_t test_percentile(int64_t *values, size_t n, unsigned percent);

/* How long a daemon may take to notice a death and to give everything back. */
#define TEST_SOON_MS 1000
/* How long memory may take to come back that a living producer could use again. */
#define TEST_MEMORY_MS 5000

/* What the daemon has for its clients; taken before and after, it is to be the same. */
struct test_baseline {
  uint64_t tensors, tensors_retired, segments, bytes, leases, sessions, connections;
  size_t n_fds, n_maps;
};

struct test_baseline test_baseline_take(struct dlc_client *client,
                                        const struct test_daemon *daemon);
/* Waits until everything is as it was; says what is not if it never is. */
void test_baseline_wait(struct dlc_client *client, const struct test_daemon *daemon,
                        const struct test_baseline *before);
/* The same, within TEST_SOON_MS. */
void test_baseline_soon(struct dlc_client *client, const struct test_daemon *daemon,
                        const struct test_baseline *before);

/* The same, within TEST_MEMORY_MS. */
void test_baseline_memory(struct dlc_client *client, const struct test_daemon *daemon,
                          const struct test_baseline *before);

/* Fails the test unless the call was refused with this code, in one sentence that has
 * both words (NULL: any). */
void test_assert_refusal(const char *what, int returned, int code, const struct dlc_error *error,
                         const char *word, const char *other_word);

#endif
