#include "support/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/memory.h"
#include "support/test.h"

/* ---- time ---- */

static int64_t now_ms(void)
{
  struct timespec now;

  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool test_wait_until(bool (*is_true)(void *context), void *context)
{
  int64_t deadline = now_ms() + TEST_PATIENCE_MS;
  struct timespec pause = {.tv_nsec = 2000000};

  while (!is_true(context)) {
    if (now_ms() > deadline)
      return false;
    (void)nanosleep(&pause, NULL);
  }
  return true;
}

/* ---- the daemon ---- */

static void open_notify_socket(struct test_daemon *daemon, char *path, size_t size)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};

  (void)snprintf(path, size, "%s/notify", daemon->folder);
  (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
  (void)unlink(path);
  daemon->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_true(daemon->notify >= 0);
  assert_int_equal(bind(daemon->notify, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void run_daemon(const struct test_daemon *daemon, const char *notify_path)
{
  const char *arguments[32] = {DLPACKD_PROGRAM, "--socket", daemon->socket};
  size_t n = 3;

  for (size_t i = 0; daemon->arguments && daemon->arguments[i] && n < 31; i++)
    arguments[n++] = daemon->arguments[i];
  /* Whatever ends the test ends the daemon. */
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)setenv("NOTIFY_SOCKET", notify_path, 1);
  (void)unsetenv("LISTEN_FDS");
  (void)execv(arguments[0], (char *const *)arguments);
  _exit(127);
}

static void wait_ready(struct test_daemon *daemon)
{
  struct pollfd poller = {.fd = daemon->notify, .events = POLLIN};
  char message[512];

  for (;;) {
    ssize_t n;

    if (poll(&poller, 1, TEST_PATIENCE_MS) != 1)
      fail_msg("dlpackd did not get ready");
    n = recv(daemon->notify, message, sizeof(message) - 1, 0);
    assert_true(n >= 0);
    message[n] = '\0';
    if (strstr(message, "READY=1"))
      return;
  }
}

static pid_t spawn_daemon(const struct test_daemon *daemon, const char *notify_path)
{
  pid_t pid = fork();

  assert_true(pid >= 0);
  if (pid == 0)
    run_daemon(daemon, notify_path);
  return pid;
}

void test_daemon_start(struct test_daemon *daemon)
{
  char path[96];

  assert_int_equal(daemon->pid, 0);
  open_notify_socket(daemon, path, sizeof(path));
  daemon->pid = spawn_daemon(daemon, path);
  wait_ready(daemon);
  (void)close(daemon->notify);
  daemon->notify = -1;
  (void)snprintf(daemon->shm_prefix, sizeof(daemon->shm_prefix), "dlpackd-%016llx-",
                 (unsigned long long)memory_posix_shm_instance(daemon->socket));
}

void test_daemon_init(struct test_daemon *daemon, const char *const *arguments)
{
  *daemon = (struct test_daemon){.notify = -1, .arguments = arguments};
  (void)snprintf(daemon->folder, sizeof(daemon->folder), "/tmp/dlpackd-test-XXXXXX");
  assert_non_null(mkdtemp(daemon->folder));
  (void)snprintf(daemon->socket, sizeof(daemon->socket), "%s/socket", daemon->folder);
  test_daemon_start(daemon);
}

int test_daemon_run(const struct test_daemon *daemon)
{
  pid_t pid = spawn_daemon(daemon, "");
  int status = 0;

  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

void test_daemon_stop(struct test_daemon *daemon)
{
  int status;

  assert_true(daemon->pid > 0);
  (void)kill(daemon->pid, SIGTERM);
  assert_int_equal(waitpid(daemon->pid, &status, 0), daemon->pid);
  daemon->pid = 0;
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  assert_int_equal(access(daemon->socket, F_OK), -1);
}

void test_daemon_kill(struct test_daemon *daemon)
{
  assert_true(daemon->pid > 0);
  (void)kill(daemon->pid, SIGKILL);
  (void)waitpid(daemon->pid, NULL, 0);
  daemon->pid = 0;
}

static void remove_folder(const char *folder)
{
  DIR *dir = opendir(folder);
  struct dirent *entry;

  while (dir && (entry = readdir(dir)))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      (void)unlinkat(dirfd(dir), entry->d_name, 0);
  if (dir)
    (void)closedir(dir);
  (void)rmdir(folder);
}

void test_daemon_deinit(struct test_daemon *daemon)
{
  pid_t pid = daemon->pid;
  int status = 0;

  if (daemon->notify >= 0)
    (void)close(daemon->notify);
  if (pid > 0) {
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, &status, 0);
  }
  remove_folder(daemon->folder);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int test_daemon_setup(void **state)
{
  struct test_daemon *daemon = malloc(sizeof(*daemon));

  assert_non_null(daemon);
  *state = daemon;
  test_daemon_init(daemon, NULL);
  return 0;
}

int test_daemon_teardown(void **state)
{
  test_daemon_deinit(*state);
  free(*state);
  return 0;
}

struct dlc_client *test_connect(const struct test_daemon *daemon)
{
  struct dlc_client *client = NULL;
  struct dlc_error error;

  test_ok(dlc_connect(daemon->socket, NULL, &client, &error), &error);
  return client;
}

/* ---- counters ---- */

struct wanted_counter {
  const char *name;
  uint64_t value;
  bool found;
};

static void pick_counter(void *context, const char *name, uint64_t value)
{
  struct wanted_counter *wanted = context;

  if (strcmp(name, wanted->name) != 0)
    return;
  wanted->value = value;
  wanted->found = true;
}

uint64_t test_counter(struct dlc_client *client, const char *name)
{
  struct wanted_counter wanted = {.name = name};
  struct dlc_error error;

  test_ok(dlc_stats(client, pick_counter, &wanted, &error), &error);
  if (!wanted.found)
    fail_msg("no counter '%s'", name);
  return wanted.value;
}

struct counter_wait {
  struct dlc_client *client;
  const char *name;
  uint64_t value;
};

static bool counter_has_value(void *context)
{
  const struct counter_wait *wait = context;

  return test_counter(wait->client, wait->name) == wait->value;
}

void test_wait_counter(struct dlc_client *client, const char *name, uint64_t value)
{
  struct counter_wait wait = {client, name, value};

  if (!test_wait_until(counter_has_value, &wait))
    fail_msg("'%s' is %llu and not %llu", name, (unsigned long long)test_counter(client, name),
             (unsigned long long)value);
}

/* ---- other processes ---- */

/* Entries whose name begins with `start`. */
static size_t count_entries(const char *folder, const char *start)
{
  DIR *dir = opendir(folder);
  struct dirent *entry;
  size_t n = 0;

  while (dir && (entry = readdir(dir)))
    n += entry->d_name[0] != '.' && strncmp(entry->d_name, start, strlen(start)) == 0;
  if (dir)
    (void)closedir(dir);
  return n;
}

size_t test_count_fds_of(pid_t pid)
{
  char path[64];

  (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
  return count_entries(path, "");
}

size_t test_count_links_of(pid_t pid, const char *text)
{
  char path[64], target[256];
  struct dirent *entry;
  size_t n = 0;
  DIR *dir;

  (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
  dir = opendir(path);
  while (dir && (entry = readdir(dir))) {
    ssize_t size = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

    target[size > 0 ? size : 0] = '\0';
    n += strstr(target, text) != NULL;
  }
  if (dir)
    (void)closedir(dir);
  return n;
}

size_t test_count_shm(const struct test_daemon *daemon)
{
  return count_entries("/dev/shm", daemon->shm_prefix);
}

size_t test_count_maps_of_pid(pid_t pid, const char *text)
{
  char path[64], line[1024];
  size_t n = 0;
  FILE *file;

  (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
  file = fopen(path, "re");
  while (file && fgets(line, sizeof(line), file))
    n += strstr(line, text) != NULL;
  if (file)
    (void)fclose(file);
  return n;
}

/* ---- children ---- */

/* What goes wrong in a child must not jump back into its copy of the test
 * program, whether an assertion says so or the kernel. */
static void leave_test_program(void)
{
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS};
  static const struct rlimit no_core = {0, 0};

  (void)setenv("CMOCKA_TEST_ABORT", "1", 1);
  (void)setrlimit(RLIMIT_CORE, &no_core);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(signals); i++)
    (void)signal(signals[i], SIG_DFL);
}

void test_child_start(struct test_child *child,
                      int (*function)(void *context, struct test_pipe_ends *ends), void *context)
{
  int down[2], up[2];

  assert_int_equal(pipe(down), 0);
  assert_int_equal(pipe(up), 0);
  (void)fflush(NULL);
  child->pid = fork();
  assert_true(child->pid >= 0);
  if (child->pid == 0) {
    struct test_pipe_ends ends = {down[0], up[1]};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    leave_test_program();
    (void)close(down[1]);
    (void)close(up[0]);
    _exit(function(context, &ends));
  }
  (void)close(down[0]);
  (void)close(up[1]);
  child->to_child = down[1];
  child->from_child = up[0];
}

void test_tell(int fd, uint64_t word)
{
  assert_int_equal(write(fd, &word, sizeof(word)), sizeof(word));
}

uint64_t test_hear(int fd)
{
  struct pollfd poller = {.fd = fd, .events = POLLIN};
  uint64_t word = 0;

  if (poll(&poller, 1, TEST_PATIENCE_MS) != 1 || read(fd, &word, sizeof(word)) != sizeof(word))
    fail_msg("the other process says nothing");
  return word;
}

static void close_ends(struct test_child *child)
{
  (void)close(child->to_child);
  (void)close(child->from_child);
  child->pid = 0;
}

void test_child_kill(struct test_child *child)
{
  if (child->pid <= 0)
    return;
  (void)kill(child->pid, SIGKILL);
  (void)waitpid(child->pid, NULL, 0);
  close_ends(child);
}

void test_child_join(struct test_child *child)
{
  int status;

  assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
  close_ends(child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

void test_child_join_signal(struct test_child *child, int signal_number)
{
  int status;

  assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
  close_ends(child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), signal_number);
}

/* ---- tensors ---- */

struct dlc_view test_view_f32(float *data, int64_t *shape, int32_t ndim)
{
  return (struct dlc_view){
      .data = data,
      .device_type = kDLCPU,
      .ndim = ndim,
      .dtype_code = kDLFloat,
      .dtype_bits = 32,
      .dtype_lanes = 1,
      .shape = shape,
  };
}
