#ifndef DLPACKD_TESTS_SUPPORT_DAEMON_H
#define DLPACKD_TESTS_SUPPORT_DAEMON_H

/*
 * A real dlpackd on a private socket, and real processes beside it.
 *
 * Everything lives in a temporary folder that goes with the fixture. Nothing
 * sleeps to wait: readiness comes through $NOTIFY_SOCKET, children speak through
 * pipes, and what has no event is polled until a deadline.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "dlclient.h"
#include "dlclient_dlpack.h"

/* How long anything may take that has no event, in milliseconds: generous, since
 * sanitizers and busy machines are slow; a wait ends as soon as it is true. */
#define TEST_PATIENCE_MS 20000

struct test_daemon {
  char folder[64];
  char socket[96];
  pid_t pid; /* 0: not running */
  int notify;
  char shm_prefix[40];          /* of its names in /dev/shm */
  const char *const *arguments; /* more of them, NULL-terminated; or NULL */
};

/* Makes the folder and starts the daemon; fails the test if it does not get ready. */
void test_daemon_init(struct test_daemon *daemon, const char *const *arguments);
/* Stops it if it runs (asserts exit status 0) and removes the folder. */
void test_daemon_deinit(struct test_daemon *daemon);

void test_daemon_start(struct test_daemon *daemon);
/* One more with the same socket and arguments, that is expected to leave by itself.
 * Return: its exit status. */
int test_daemon_run(const struct test_daemon *daemon);
/* SIGTERM; asserts that it exits with 0 and leaves no socket behind. */
void test_daemon_stop(struct test_daemon *daemon);
void test_daemon_kill(struct test_daemon *daemon); /* SIGKILL */

/* For cmocka: *state is a struct test_daemon with default arguments. */
int test_daemon_setup(void **state);
int test_daemon_teardown(void **state);

struct dlc_client *test_connect(const struct test_daemon *daemon);
/* A counter of the daemon's, by its own connection through `client`. */
uint64_t test_counter(struct dlc_client *client, const char *name);
/* Waits until the counter has this value; fails the test if it never does. */
void test_wait_counter(struct dlc_client *client, const char *name, uint64_t value);

/* Waits until `is_true(context)`; returns whether it was within the patience. */
bool test_wait_until(bool (*is_true)(void *context), void *context);

/* Of another process: open descriptors, mappings whose line contains `text`. */
size_t test_count_fds_of(pid_t pid);
size_t test_count_maps_of_pid(pid_t pid, const char *text);
/* ... descriptors that are open on something whose path contains `text`. */
size_t test_count_links_of(pid_t pid, const char *text);
/* Names in /dev/shm that this daemon, or one before it on its socket, has made. */
size_t test_count_shm(const struct test_daemon *daemon);

/* ---- children ---- */

/* A process that runs `function` and exits with what it returns. `to_parent` and
 * `from_parent` are ends of pipes: test_tell() and test_hear() carry one word. */
struct test_child {
  pid_t pid;
  int to_child, from_child; /* the parent's ends */
};

struct test_pipe_ends {
  int in, out; /* the child's ends */
};

/* Fork before this process has opened a client, or exec: a child may not use the
 * parent's. */
void test_child_start(struct test_child *child,
                      int (*function)(void *context, struct test_pipe_ends *ends), void *context);
void test_tell(int fd, uint64_t word);
/* Return: the word; fails the test (in a child: exits) if the other side is gone. */
uint64_t test_hear(int fd);
/* Kills it if it runs. */
void test_child_kill(struct test_child *child);
/* Asserts that it exits by itself with 0. */
void test_child_join(struct test_child *child);
/* Asserts that this signal ends it, such as SIGSEGV. */
void test_child_join_signal(struct test_child *child, int signal_number);

/* ---- tensors ---- */

/* A compact view of `n` float32 values. `shape` must outlive it. */
struct dlc_view test_view_f32(float *data, int64_t *shape, int32_t ndim);
/* Asserts success and shows the error otherwise. */
#define test_ok(expression, error)                                                      \
  do {                                                                                  \
    int test_ok_r = (expression);                                                       \
    if (test_ok_r < 0)                                                                  \
      fail_msg("%s: %s: %s", #expression, dlc_error_name(test_ok_r), (error)->message); \
  } while (0)
#define test_refused(expression, code, error)                                             \
  do {                                                                                    \
    int test_refused_r = (expression);                                                    \
    if (test_refused_r != -(code))                                                        \
      fail_msg("%s: got %s (%s), wanted %s", #expression, dlc_error_name(test_refused_r), \
               test_refused_r < 0 ? (error)->message : "", dlc_error_name(code));         \
  } while (0)

#endif
