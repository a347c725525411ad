/* A daemon that is not there, is somebody else, stands still or dies in the middle: every
 * call ends in time, says why, and works again when the daemon does. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "support/measure.h"
#include "support/packets.h"
#include "support/tensors.h"
#include "support/test.h"

#define CALL_MS 300
/* What a call may take beyond its deadline. */
#define LATE_MS (TEST_IS_SANITIZED ? 1000 : 200)

struct bench {
  struct test_daemon daemon;
  struct dlc_client *client; /* of short patience */
  struct dlc_client *other;
  char path[300]; /* where somebody else is */
  int fd;
};

static struct dlc_client *connect_impatiently(const char *path)
{
  struct dlc_connect_options options = DLC_CONNECT_OPTIONS_INIT;
  struct dlc_client *client = NULL;
  struct dlc_error error;

  options.call_timeout_ms = CALL_MS;
  test_ok(dlc_connect(path, &options, &client, &error), &error);
  return client;
}

static int setup(void **state)
{
  struct bench *bench = calloc(1, sizeof(*bench));

  assert_non_null(bench);
  *state = bench;
  bench->fd = -1;
  test_daemon_init(&bench->daemon, NULL);
  bench->client = connect_impatiently(bench->daemon.socket);
  bench->other = test_connect(&bench->daemon);
  (void)snprintf(bench->path, sizeof(bench->path), "%s/other", bench->daemon.folder);
  return 0;
}

static int teardown(void **state)
{
  struct bench *bench = *state;

  if (bench->daemon.pid > 0)
    (void)kill(bench->daemon.pid, SIGCONT);
  dlc_close(bench->client);
  dlc_close(bench->other);
  (void)dlp_close(bench->fd);
  (void)rmdir(bench->path);
  (void)unlink(bench->path);
  test_daemon_deinit(&bench->daemon);
  free(bench);
  return 0;
}

/* ---- nobody, or somebody else ---- */

/* Fails at once, in one sentence that names the path. */
static void refuse_connect(const char *path, int code, const char *word)
{
  struct dlc_client *client = NULL;
  struct dlc_error error;
  int64_t start = test_now_us();
  int r = dlc_connect(path, NULL, &client, &error);

  assert_true(test_now_us() - start < 1000000);
  test_assert_refusal(path, r, code, &error, path, word);
  assert_null(client);
}

static void case_46_without_a_daemon_connect_fails_at_once_and_names_the_path(void **state)
{
  struct bench *bench = *state;

  refuse_connect(bench->path, DLC_E_NO_DAEMON, "dlpackd");
  refuse_connect("/no/such/folder/socket", DLC_E_NO_DAEMON, NULL);
}

static void fill_path(char *path, size_t size)
{
  memset(path, 'x', size);
  path[size] = '\0';
  memcpy(path, "/tmp/", 5);
}

static void case_40_a_path_too_long_for_a_socket_is_refused_with_the_limit(void **state)
{
  static const size_t too_long[] = {108, 200, 280};
  char path[300];

  (void)state;
  fill_path(path, 107); /* as long as it may be */
  refuse_connect(path, DLC_E_NO_DAEMON, NULL);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(too_long); i++) {
    fill_path(path, too_long[i]);
    refuse_connect(path, DLC_E_INVALID, "107");
  }
}

static void case_40_a_daemon_serves_at_a_path_of_107_bytes(void **state)
{
  struct bench *bench = *state;
  char socket[200];
  const char *const arguments[] = {"--socket", socket, NULL};
  struct dlc_client *client;
  size_t used;

  test_daemon_stop(&bench->daemon);
  used = (size_t)snprintf(socket, sizeof(socket), "%s/", bench->daemon.folder);
  memset(socket + used, 's', 107 - used);
  socket[107] = '\0';
  bench->daemon.arguments = arguments;
  test_daemon_start(&bench->daemon);
  bench->daemon.arguments = NULL;
  client = connect_impatiently(socket);
  dlc_close(client);
}

static void case_41_what_is_not_our_daemon_is_told_from_it(void **state)
{
  struct bench *bench = *state;

  bench->fd = open(bench->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  assert_true(bench->fd >= 0);
  refuse_connect(bench->path, DLC_E_NO_DAEMON, NULL);
  assert_int_equal(unlink(bench->path), 0);
  assert_int_equal(mkdir(bench->path, 0700), 0);
  refuse_connect(bench->path, DLC_E_NO_DAEMON, NULL);
}

static int bind_at(const char *path, int type, bool listening)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

  (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
  if (listening)
    assert_int_equal(listen(fd, 1), 0);
  return fd;
}

static void case_41_a_dead_socket_is_nobody(void **state)
{
  struct bench *bench = *state;

  bench->fd = bind_at(bench->path, SOCK_SEQPACKET, false);
  refuse_connect(bench->path, DLC_E_NO_DAEMON, NULL);
}

static void case_41_a_stream_socket_is_not_dlpackd(void **state)
{
  struct bench *bench = *state;

  bench->fd = bind_at(bench->path, SOCK_STREAM, true);
  refuse_connect(bench->path, DLC_E_PROTOCOL, "not dlpackd");
}

/* It takes connections and never says a word. */
static void a_listener_that_is_silent_is_a_timeout(void **state)
{
  struct bench *bench = *state;
  struct dlc_connect_options options = DLC_CONNECT_OPTIONS_INIT;
  struct dlc_client *client;
  struct dlc_error error;
  int64_t start = test_now_us();

  bench->fd = bind_at(bench->path, SOCK_SEQPACKET, true);
  options.call_timeout_ms = CALL_MS;
  test_assert_refusal("silence", dlc_connect(bench->path, &options, &client, &error), DLC_E_TIMEOUT,
                      &error, bench->path, NULL);
  assert_in_range(test_now_us() - start, CALL_MS * 900, (CALL_MS + LATE_MS) * 1000);
}

/* It answers HELLO with something of its own. */
static void *answer_nonsense(void *context)
{
  int listener = *(int *)context;
  char bytes[4096];
  dlp_auto_close int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

  if (fd >= 0 && recv(fd, bytes, sizeof(bytes), 0) > 0)
    (void)send(fd, "HTTP/1.1 400 Bad Request", 24, MSG_NOSIGNAL);
  return NULL;
}

static void case_41_a_listener_that_talks_nonsense_is_not_dlpackd(void **state)
{
  struct bench *bench = *state;
  pthread_t thread;

  bench->fd = bind_at(bench->path, SOCK_SEQPACKET, true);
  assert_int_equal(pthread_create(&thread, NULL, answer_nonsense, &bench->fd), 0);
  refuse_connect(bench->path, DLC_E_PROTOCOL, "not dlpackd");
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static int connect_without_right(void *context, struct test_pipe_ends *ends)
{
  const struct bench *bench = context;
  struct dlc_client *client;
  struct dlc_error error;

  CHECK(setgid(65534) == 0 && setuid(65534) == 0);
  CHECK(dlc_connect(bench->daemon.socket, NULL, &client, &error) == -DLC_E_DENIED);
  CHECK(strstr(error.message, bench->daemon.socket));
  return 0;
}

static void a_socket_that_one_may_not_use_is_denied(void **state)
{
  struct bench *bench = *state;
  struct test_child child;

  if (geteuid() != 0)
    skip();
  test_child_start(&child, connect_without_right, bench);
  test_child_join(&child);
}

/* ---- a daemon that stands still ---- */

/* What the calls below work on, made while the daemon still answers. */
struct scene {
  struct bench *bench;
  struct DLManagedTensorVersioned *unpublished;
  struct dlc_generation *generation;
  struct dlc_watch *watch;
};

static void ignore_counter(void *context, const char *name, uint64_t value)
{
}

static int ignore_info(void *context, const struct dlc_info *info)
{
  return 0;
}

static void ignore_event(void *context, const struct dlc_event *event)
{
}

static int call_connect(struct scene *scene, struct dlc_error *error)
{
  struct dlc_connect_options options = DLC_CONNECT_OPTIONS_INIT;
  struct dlc_client *client;

  options.call_timeout_ms = CALL_MS;
  return dlc_connect(scene->bench->daemon.socket, &options, &client, error);
}

static int call_ping(struct scene *scene, struct dlc_error *error)
{
  return dlc_ping(scene->bench->client, NULL, error);
}

static int call_get(struct scene *scene, struct dlc_error *error)
{
  struct DLManagedTensorVersioned *tensor;

  return dlc_get(scene->bench->client, "t", NULL, &tensor, error);
}

static int call_get_legacy(struct scene *scene, struct dlc_error *error)
{
  struct DLManagedTensor *tensor;

  return dlc_get_legacy(scene->bench->client, "t", NULL, &tensor, error);
}

static int call_get_into(struct scene *scene, struct dlc_error *error)
{
  static struct dlc_slot slot;
  struct DLManagedTensorVersioned *tensor;

  return dlc_get_into(scene->bench->client, "t", NULL, &slot, &tensor, error);
}

static int call_get_many(struct scene *scene, struct dlc_error *error)
{
  struct DLManagedTensorVersioned **tensors;
  const char *prefix = "/";
  size_t n;

  return dlc_get_many(scene->bench->client, &prefix, 0, NULL, &tensors, &n, error);
}

static int call_put(struct scene *scene, struct dlc_error *error)
{
  float value = 1;
  struct dlc_view view = test_view_f32(&value, NULL, 0);

  return dlc_put(scene->bench->client, "late", &view, NULL, NULL, error);
}

static int call_alloc(struct scene *scene, struct dlc_error *error)
{
  struct DLManagedTensorVersioned *tensor;
  int64_t shape = 1 << 20;
  struct dlc_view view = test_view_f32(NULL, &shape, 1);

  return dlc_alloc(scene->bench->client, &view, NULL, &tensor, error);
}

static int call_publish(struct scene *scene, struct dlc_error *error)
{
  return dlc_publish(scene->bench->client, "late", scene->unpublished, NULL, NULL, error);
}

static int call_commit(struct scene *scene, struct dlc_error *error)
{
  return dlc_commit(scene->generation, NULL, error);
}

static int call_stat(struct scene *scene, struct dlc_error *error)
{
  struct dlc_info *info;

  return dlc_stat(scene->bench->client, "t", &info, error);
}

static int call_wait(struct scene *scene, struct dlc_error *error)
{
  return dlc_wait(scene->bench->client, "t", 0, 0, NULL, error);
}

static int call_list(struct scene *scene, struct dlc_error *error)
{
  return dlc_list(scene->bench->client, NULL, ignore_info, NULL, error);
}

static int call_stats(struct scene *scene, struct dlc_error *error)
{
  return dlc_stats(scene->bench->client, ignore_counter, NULL, error);
}

static int call_delete(struct scene *scene, struct dlc_error *error)
{
  return dlc_delete(scene->bench->client, "late", 0, NULL, error);
}

static int call_watch(struct scene *scene, struct dlc_error *error)
{
  struct dlc_watch *watch;

  return dlc_watch_open(scene->bench->client, NULL, DLC_WATCH_FROM_NOW, &watch, error);
}

static const struct {
  const char *name;
  int (*call)(struct scene *scene, struct dlc_error *error);
} calls[] = {
    {"connect", call_connect},   {"ping", call_ping},
    {"get", call_get},           {"get_legacy", call_get_legacy},
    {"get_into", call_get_into}, {"get_many", call_get_many},
    {"put", call_put},           {"alloc", call_alloc},
    {"publish", call_publish},   {"commit", call_commit},
    {"stat", call_stat},         {"wait", call_wait},
    {"list", call_list},         {"stats", call_stats},
    {"delete", call_delete},     {"watch_open", call_watch},
};

static void make_scene(struct scene *scene, struct bench *bench)
{
  struct dlc_publish_options options = test_lifetime(DLC_LIFETIME_SESSION);
  float value = 1;
  struct dlc_view view = test_view_f32(&value, NULL, 0);
  struct dlc_error error;

  scene->bench = bench;
  (void)test_put(bench->client, "t", 4096, 3, NULL);
  scene->unpublished = test_alloc(bench->client, 4096, NULL);
  test_ok(dlc_begin(bench->client, &options, &scene->generation, &error), &error);
  test_ok(dlc_add_copy(scene->generation, "g", &view, NULL, &error), &error);
  test_ok(dlc_watch_open(bench->client, NULL, DLC_WATCH_FROM_NOW, &scene->watch, &error), &error);
}

static void end_scene(struct scene *scene)
{
  test_drop(scene->unpublished);
  dlc_generation_free(scene->generation);
  dlc_watch_close(scene->watch);
}

static void every_call_keeps_its_deadline_when_the_daemon_stands_still(void **state)
{
  struct bench *bench = *state;
  struct DLManagedTensorVersioned *tensor;
  struct scene scene;
  struct dlc_error error;
  int64_t start;

  make_scene(&scene, bench);
  assert_int_equal(kill(bench->daemon.pid, SIGSTOP), 0);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(calls); i++) {
    int64_t took;
    int r;

    start = test_now_us();
    r = calls[i].call(&scene, &error);
    took = (test_now_us() - start) / 1000;
    test_assert_refusal(calls[i].name, r, DLC_E_TIMEOUT, &error, NULL, NULL);
    if (took > CALL_MS + LATE_MS)
      fail_msg("%s took %lld ms", calls[i].name, (long long)took);
  }
  start = test_now_us();
  test_ok(dlc_watch_dispatch(scene.watch, 100, ignore_event, NULL, &error), &error);
  assert_true(test_now_us() - start < (100 + LATE_MS) * 1000);
  assert_int_equal(kill(bench->daemon.pid, SIGCONT), 0);
  /* It works again, and what came too late gave nothing away. */
  test_ok(dlc_ping(bench->other, NULL, &error), &error);
  tensor = test_get(bench->client, "t", DLC_ACCESS_READ);
  test_check(tensor, 3);
  test_drop(tensor);
  end_scene(&scene);
  test_wait_counter(bench->other, "leases", 0);
}

static void leases_that_came_too_late_are_given_back(void **state)
{
  struct bench *bench = *state;
  struct scene scene = {.bench = bench};
  struct dlc_error error;

  (void)test_put(bench->other, "t", 4096, 3, NULL);
  (void)test_put(bench->other, "u", 3 << 20, 4, NULL);
  assert_int_equal(kill(bench->daemon.pid, SIGSTOP), 0);
  assert_int_equal(call_get(&scene, &error), -DLC_E_TIMEOUT);
  assert_int_equal(call_get_many(&scene, &error), -DLC_E_TIMEOUT);
  assert_int_equal(call_alloc(&scene, &error), -DLC_E_TIMEOUT);
  assert_int_equal(kill(bench->daemon.pid, SIGCONT), 0);
  test_ok(dlc_ping(bench->client, NULL, &error), &error);
  test_wait_counter(bench->client, "leases", 0);
  test_delete(bench->other, "t");
  test_delete(bench->other, "u");
  test_wait_counter(bench->client, "bytes", 0);
  (void)test_put(bench->other, "u", 3 << 20, 5, NULL);
  test_drop(test_get(bench->client, "u", DLC_ACCESS_READ));
}

static void close_does_not_wait_for_a_daemon_that_stands_still(void **state)
{
  struct bench *bench = *state;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_client *client = test_connect(&bench->daemon);
  int64_t start;

  (void)test_put(bench->other, "t", 4096, 3, NULL);
  tensor = test_get(client, "t", DLC_ACCESS_READ);
  assert_int_equal(kill(bench->daemon.pid, SIGSTOP), 0);
  start = test_now_us();
  dlc_close(client);
  test_check(tensor, 3);
  test_drop(tensor);
  assert_true(test_now_us() - start < 1000000);
  assert_int_equal(kill(bench->daemon.pid, SIGCONT), 0);
  test_wait_counter(bench->other, "leases", 0);
  test_wait_counter(bench->other, "sessions", 2);
}

#define BACKLOG 600

static void a_backlog_that_is_full_is_a_timeout(void **state)
{
  struct bench *bench = *state;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct scene scene = {.bench = bench};
  static int fds[BACKLOG];
  struct dlc_error error;
  size_t n = 0;
  int64_t start;

  (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", bench->daemon.socket);
  assert_int_equal(kill(bench->daemon.pid, SIGSTOP), 0);
  do {
    fds[n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fds[n] >= 0);
  } while (connect(fds[n++], (struct sockaddr *)&address, sizeof(address)) == 0 && n < BACKLOG);
  assert_int_equal(errno, EAGAIN);
  start = test_now_us();
  assert_int_equal(call_connect(&scene, &error), -DLC_E_TIMEOUT);
  assert_true(test_now_us() - start < (CALL_MS + LATE_MS) * 1000);
  assert_int_equal(kill(bench->daemon.pid, SIGCONT), 0);
  while (n > 0)
    (void)close(fds[--n]);
  test_ok(dlc_ping(bench->other, NULL, &error), &error);
  dlc_close(test_connect(&bench->daemon));
}

/* ---- a daemon that dies ---- */

struct patient {
  struct bench *bench;
  int r;
  int64_t returned_us;
};

/* Has a client of its own, and all the time there is. */
static void *wait_for_ever(void *context)
{
  struct patient *patient = context;
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor;

  options.timeout_ms = -1;
  patient->r = dlc_get(patient->bench->other, "never", &options, &tensor, NULL);
  patient->returned_us = test_now_us();
  return NULL;
}

static void a_call_that_waits_ends_with_the_daemon(void **state)
{
  struct bench *bench = *state;
  struct patient patient = {.bench = bench};
  struct dlc_error error;
  pthread_t thread;
  int64_t killed;

  assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, &patient), 0);
  test_ok(dlc_ping(bench->client, NULL, &error), &error);
  test_daemon_kill(&bench->daemon);
  killed = test_now_us();
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(patient.r == -DLC_E_DISCONNECTED || patient.r == -DLC_E_NO_DAEMON);
  assert_true(patient.returned_us - killed < 1000000);
  test_daemon_start(&bench->daemon);
  test_ok(dlc_ping(bench->other, NULL, &error), &error);
}

static void case_45_calls_fail_fast_while_nobody_is_there_and_tensors_stay(void **state)
{
  struct bench *bench = *state;
  struct DLManagedTensorVersioned *tensors[3];
  struct scene scene = {.bench = bench};
  struct dlc_error error;
  int64_t start;

  (void)test_put(bench->client, "t", 100000, 3, NULL);
  for (int i = 0; i < 3; i++)
    tensors[i] = test_get(bench->client, "t", DLC_ACCESS_READ);
  test_daemon_kill(&bench->daemon);
  start = test_now_us();
  for (int i = 0; i < 20; i++) {
    struct DLManagedTensorVersioned *again;
    int r = dlc_get(bench->client, "never had", NULL, &again, &error);

    assert_true(r == -DLC_E_NO_DAEMON || (i == 0 && r == -DLC_E_DISCONNECTED));
    /* What this process holds is had again without the daemon. */
    test_drop(test_get(bench->client, "t", DLC_ACCESS_READ));
  }
  assert_true(test_now_us() - start < 2000000);
  for (int i = 0; i < 3; i++)
    test_check(tensors[i], 3);
  test_daemon_start(&bench->daemon);
  /* The first call that needs it learns that it is another daemon, which has nothing. */
  test_ok(dlc_ping(bench->client, NULL, &error), &error);
  assert_int_equal(call_get(&scene, &error), -DLC_E_NOT_FOUND);
  (void)test_put(bench->client, "t", 100000, 4, NULL);
  test_check(tensors[0], 3);
  for (int i = 0; i < 3; i++)
    test_drop(tensors[i]);
  tensors[0] = test_get(bench->client, "t", DLC_ACCESS_READ);
  test_check(tensors[0], 4);
  test_drop(tensors[0]);
  test_wait_counter(bench->client, "leases", 0);
}

/* ---- signals ---- */

static volatile sig_atomic_t n_signals;

static void on_signal(int number)
{
  n_signals = n_signals + 1;
}

static void start_storm(void)
{
  struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
  struct itimerval every = {{0, 1000}, {0, 1000}};

  assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
  assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static void end_storm(void)
{
  struct itimerval never = {{0, 0}, {0, 0}};

  assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
}

static void a_signal_every_millisecond_disturbs_no_call(void **state)
{
  struct bench *bench = *state;
  struct dlc_error error;

  start_storm();
  for (int i = 0; i < 3; i++) {
    struct DLManagedTensorVersioned *tensor;
    struct dlc_client *client = test_connect(&bench->daemon);

    (void)test_put(client, "large", 64 << 20, (uint64_t)i, NULL);
    tensor = test_get(client, "large", DLC_ACCESS_READ);
    test_check(tensor, (uint64_t)i);
    test_drop(tensor);
    dlc_close(client);
  }
  for (int i = 0; i < 500; i++) {
    (void)test_put(bench->other, "small", 100, 1, NULL);
    test_drop(test_get(bench->other, "small", DLC_ACCESS_READ));
  }
  test_refused(dlc_wait(bench->client, "never", 0, 100, NULL, &error), DLC_E_TIMEOUT, &error);
  end_storm();
  assert_true(n_signals > 100);
  test_wait_counter(bench->other, "leases", 0);
}

/* ---- a client with few descriptors ---- */

#define N_HELD 200
#define FEW_DESCRIPTORS 64

/* Every second one is large enough for a segment of its own. */
static size_t size_of_held(int i)
{
  return i % 2 ? 3 << 20 : 1000;
}

static int hold_many(void *context, struct test_pipe_ends *ends)
{
  static struct DLManagedTensorVersioned *held[N_HELD];
  const struct rlimit few = {FEW_DESCRIPTORS, FEW_DESCRIPTORS};
  const struct bench *bench = context;
  struct dlc_client *client = NULL;
  char name[16];

  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  CHECK(dlc_connect(bench->daemon.socket, NULL, &client, NULL) == 0);
  for (int i = 0; i < N_HELD; i++) {
    (void)snprintf(name, sizeof(name), "held/%03d", i);
    CHECK(dlc_get(client, name, NULL, &held[i], NULL) == 0);
  }
  for (int i = 0; i < N_HELD; i++)
    CHECK(test_first_wrong(held[i]->dl_tensor.data, size_of_held(i), (uint64_t)i) ==
          size_of_held(i));
  for (int i = 0; i < N_HELD; i++)
    held[i]->deleter(held[i]);
  dlc_close(client);
  return 0;
}

/* More descriptors than are free come with one answer. */
static int get_all_at_once(void *context, struct test_pipe_ends *ends)
{
  const struct rlimit few = {FEW_DESCRIPTORS, FEW_DESCRIPTORS};
  const struct bench *bench = context;
  struct DLManagedTensorVersioned **tensors, *one;
  const char *prefix = "held/";
  struct dlc_client *client = NULL;
  struct dlc_error error;
  size_t n = 0;
  int r;

  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  CHECK(dlc_connect(bench->daemon.socket, NULL, &client, NULL) == 0);
  r = dlc_get_many(client, &prefix, 0, NULL, &tensors, &n, &error);
  if (r == 0) {
    CHECK(n == N_HELD);
    for (int i = 0; i < N_HELD; i++)
      CHECK(test_first_wrong(tensors[i]->dl_tensor.data, size_of_held(i), (uint64_t)i) ==
            size_of_held(i));
    dlc_tensors_free(tensors, n);
  } else {
    CHECK(r == -DLC_E_SYSTEM && error.os_errno == EMFILE);
  }
  /* The connection is as good as before. */
  CHECK(dlc_get(client, "held/001", NULL, &one, NULL) == 0);
  CHECK(test_first_wrong(one->dl_tensor.data, size_of_held(1), 1) == size_of_held(1));
  one->deleter(one);
  dlc_close(client);
  return 0;
}

static void publish_held(struct bench *bench)
{
  char name[16];

  for (int i = 0; i < N_HELD; i++) {
    (void)snprintf(name, sizeof(name), "held/%03d", i);
    (void)test_put(bench->other, name, size_of_held(i), (uint64_t)i, NULL);
  }
}

static void case_14_two_hundred_tensors_are_held_with_64_descriptors(void **state)
{
  struct bench *bench = *state;
  struct test_child child;

  publish_held(bench);
  test_child_start(&child, hold_many, bench);
  test_child_join(&child);
  test_wait_counter(bench->other, "leases", 0);
}

static void case_14_an_answer_with_too_many_descriptors_spoils_nothing(void **state)
{
  struct bench *bench = *state;
  struct test_child child;

  publish_held(bench);
  test_child_start(&child, get_all_at_once, bench);
  test_child_join(&child);
  test_wait_counter(bench->other, "leases", 0);
}

#define with_bench(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
    with_bench(case_46_without_a_daemon_connect_fails_at_once_and_names_the_path),
    with_bench(case_40_a_path_too_long_for_a_socket_is_refused_with_the_limit),
    with_bench(case_40_a_daemon_serves_at_a_path_of_107_bytes),
    with_bench(case_41_what_is_not_our_daemon_is_told_from_it),
    with_bench(case_41_a_dead_socket_is_nobody),
    with_bench(case_41_a_stream_socket_is_not_dlpackd),
    with_bench(a_listener_that_is_silent_is_a_timeout),
    with_bench(case_41_a_listener_that_talks_nonsense_is_not_dlpackd),
    with_bench(a_socket_that_one_may_not_use_is_denied),
    with_bench(every_call_keeps_its_deadline_when_the_daemon_stands_still),
    with_bench(leases_that_came_too_late_are_given_back),
    with_bench(close_does_not_wait_for_a_daemon_that_stands_still),
    with_bench(a_backlog_that_is_full_is_a_timeout),
    with_bench(a_call_that_waits_ends_with_the_daemon),
    with_bench(case_45_calls_fail_fast_while_nobody_is_there_and_tensors_stay),
    with_bench(a_signal_every_millisecond_disturbs_no_call),
    with_bench(case_14_two_hundred_tensors_are_held_with_64_descriptors),
    with_bench(case_14_an_answer_with_too_many_descriptors_spoils_nothing),
};

TEST_MAIN(tests)
