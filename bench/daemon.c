#include "daemon.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "process.h"

#define READY_PATIENCE_MS 10000

/* ---- the daemon ---- */

struct launch {
  const struct bench_options *options;
  const struct bench_daemon *daemon;
  const char *const *arguments;
  const char *notify;
};

static void launch(void *context)
{
  const struct launch *how = (const struct launch *)context;
  const char *arguments[32] = {how->options->daemon_program, "--log-level=error", "--socket",
                               how->daemon->socket};
  size_t n = 4;

  for (size_t i = 0; how->arguments && how->arguments[i] && n < 31; i++)
    arguments[n++] = how->arguments[i];
  (void)setenv("NOTIFY_SOCKET", how->notify, 1);
  (void)unsetenv("LISTEN_FDS");
  (void)execv(arguments[0], (char *const *)arguments);
  bench_fail("%s: %m", arguments[0]);
}

static int open_notify(const struct bench_daemon *daemon, struct sockaddr_un *address)
{
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

  address->sun_family = AF_UNIX;
  (void)snprintf(address->sun_path, sizeof(address->sun_path), "%s/notify", daemon->folder);
  bench_check(fd >= 0 && bind(fd, (struct sockaddr *)address, sizeof(*address)) == 0,
              "notify socket");
  return fd;
}

static void await_ready(int notify)
{
  struct pollfd poller = {.fd = notify, .events = POLLIN};
  char message[512];
  ssize_t n;

  do {
    if (poll(&poller, 1, READY_PATIENCE_MS) != 1)
      bench_fail("dlpackd did not get ready");
    n = recv(notify, message, sizeof(message) - 1, 0);
    bench_check(n >= 0, "notify socket");
    message[n] = '\0';
  } while (!strstr(message, "READY=1"));
}

void bench_daemon_start(struct bench_daemon *daemon, const struct bench_options *options,
                        const char *const *arguments)
{
  struct sockaddr_un address = {0};
  struct launch how = {options, daemon, arguments, address.sun_path};
  uint64_t start;
  int notify;

  *daemon = (struct bench_daemon){.pid = 0};
  (void)snprintf(daemon->folder, sizeof(daemon->folder), "%s/XXXXXX", options->folder);
  bench_check(mkdtemp(daemon->folder), "a folder for the socket");
  (void)snprintf(daemon->socket, sizeof(daemon->socket), "%s/socket", daemon->folder);
  notify = open_notify(daemon, &address);
  start = bench_now();
  daemon->pid = bench_spawn(launch, &how);
  await_ready(notify);
  daemon->ready_ns = bench_now() - start;
  (void)close(notify);
}

void bench_daemon_stop(struct bench_daemon *daemon)
{
  bench_stop(daemon->pid);
  daemon->pid = 0;
}

/* ---- clients ---- */

void bench_require(int r, const struct dlc_error *error)
{
  if (r < 0)
    bench_fail("%s: %s", dlc_error_name(r), error->message);
}

struct dlc_client *bench_connect(const struct bench_daemon *daemon)
{
  struct dlc_client *client = NULL;
  struct dlc_error error;

  bench_require(dlc_connect(daemon->socket, NULL, &client, &error), &error);
  return client;
}

void bench_settle(struct dlc_client *client)
{
  struct dlc_daemon_info info;
  struct dlc_error error;

  bench_require(dlc_ping(client, &info, &error), &error);
}

struct dlc_view bench_bytes(void *data, const int64_t *shape)
{
  return (struct dlc_view){
      .data = data,
      .device_type = kDLCPU,
      .ndim = 1,
      .dtype_code = kDLUInt,
      .dtype_bits = 8,
      .dtype_lanes = 1,
      .shape = shape,
  };
}

const char *bench_name(char *buffer, size_t number)
{
  (void)snprintf(buffer, BENCH_NAME_SIZE, "bench/%06zu", number);
  return buffer;
}

static void put_generation(struct dlc_client *client, size_t first, size_t n,
                           const struct dlc_view *view)
{
  struct dlc_generation *generation = NULL;
  struct dlc_error error;
  char name[BENCH_NAME_SIZE];

  bench_require(dlc_begin(client, NULL, &generation, &error), &error);
  for (size_t i = first; i < first + n; i++)
    bench_require(dlc_add_copy(generation, bench_name(name, i), view, NULL, &error), &error);
  bench_require(dlc_commit(generation, NULL, &error), &error);
  dlc_generation_free(generation);
}

void bench_put_many(struct dlc_client *client, size_t first, size_t n, size_t size)
{
  const size_t at_once = 5000;
  int64_t shape = (int64_t)size;
  void *data = calloc(1, size);
  struct dlc_view view = bench_bytes(data, &shape);

  bench_check(data, "a tensor");
  for (size_t done = 0; done < n; done += at_once)
    put_generation(client, first + done, n - done < at_once ? n - done : at_once, &view);
  free(data);
}

void bench_put(struct dlc_client *client, const char *name, void *data, size_t size)
{
  int64_t shape = (int64_t)size;
  struct dlc_view view = bench_bytes(data, &shape);
  struct dlc_error error;

  bench_require(dlc_put(client, name, &view, NULL, NULL, &error), &error);
}

struct DLManagedTensorVersioned *bench_alloc(struct dlc_client *client, size_t size)
{
  int64_t shape = (int64_t)size;
  struct dlc_view view = bench_bytes(NULL, &shape);
  struct DLManagedTensorVersioned *tensor = NULL;
  struct dlc_error error;

  bench_require(dlc_alloc(client, &view, NULL, &tensor, &error), &error);
  return tensor;
}

struct DLManagedTensorVersioned *bench_get(struct dlc_client *client, const char *name,
                                           const struct dlc_get_options *options)
{
  struct DLManagedTensorVersioned *tensor = NULL;
  struct dlc_error error;

  bench_require(dlc_get(client, name, options, &tensor, &error), &error);
  return tensor;
}
