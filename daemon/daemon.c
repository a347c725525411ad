#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "daemon_private.h"
#include "io/log.h"
#include "io/service.h"

/* A session that lost its connection and holds nothing has so long to come back. */
#define DAEMON_SESSION_GRACE_MS 10000
/* Every session may have some connections; threads share one. */
#define DAEMON_CONNECTIONS_PER_SESSION 2
#define DAEMON_CONNECTIONS_MORE 16

DLP_DEFINE_CLEANUP(struct daemon, daemon)

/* All that we may have: descriptors are what segments and clients are made of. */
static uint64_t raise_descriptor_limit(void)
{
  struct rlimit limit;

  if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
    return 1024;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_max;
}

static int open_listener(struct daemon *daemon, struct complaint *reterr)
{
  dlp_auto_free char *path = NULL;
  dlp_auto_close int fd = -1;
  int r = service_take_socket(&fd, reterr);

  if (r < 0)
    return r;
  if (fd >= 0) {
    r = listener_adopt_consume(&daemon->listener, fd, reterr);
    if (r == 0)
      (void)DLP_TAKE_FD(fd);
    return r;
  }
  r = config_socket_path(daemon->config, &path, reterr);
  if (r < 0)
    return r;
  return listener_open(&daemon->listener, path, config_socket_mode(daemon->config, path), reterr);
}

static int make_storage(struct daemon *daemon)
{
  uint64_t n_descriptors = raise_descriptor_limit();
  struct segments_config segments = {
      /* A quarter stays for clients, whatever segments there are. */
      .limit = (size_t)(n_descriptors / 4 * 3),
      .close_later = daemon_close_later,
      .context = daemon,
  };
  struct plans_host host = daemon_plans_host;
  int r;

  memory_posix_shm_init(&daemon->shm, listener_path(daemon->listener));
  memory_memfd_backend(&daemon->backends[0]);
  memory_posix_shm_backend(&daemon->backends[1], &daemon->shm);
  r = segments_new(&daemon->segments, &segments, daemon->backends, 2);
  if (r == 0)
    r = store_new(&daemon->store, SIZE_MAX);
  if (r < 0)
    return r;
  host.context = daemon;
  return plans_new(&daemon->plans, daemon->loop, daemon->segments, daemon->store, &host);
}

static int make_peers(struct daemon *daemon)
{
  const struct config *config = daemon->config;
  size_t per_uid = (size_t)config->user_limits.of[QUOTA_SESSIONS] * DAEMON_CONNECTIONS_PER_SESSION +
                   DAEMON_CONNECTIONS_MORE;
  struct sessions_host sessions_host = daemon_sessions_host;
  struct connections_host connections_host = daemon_connections_host;
  int r;

  sessions_host.context = daemon;
  connections_host.context = daemon;
  r = sessions_new(&daemon->sessions, daemon->loop, &sessions_host);
  if (r < 0)
    return r;
  return connections_new(&daemon->connections, daemon->loop, &connections_host,
                         config->output_limit, per_uid);
}

/* One line of a file; "" if there is none. */
static void read_line(const char *path, char *text, size_t size)
{
  dlp_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

  text[n > 0 ? n : 0] = '\0';
  text[strcspn(text, "\n")] = '\0';
}

static int make_broker(struct daemon *daemon)
{
  const struct config *config = daemon->config;
  struct broker_config broker = {
      .limits = config->user_limits,
      .max_bytes = config->max_bytes,
      .backend = (uint32_t)config->storage,
      .default_mode = (uint32_t)config->default_mode,
      .session_grace_ms = DAEMON_SESSION_GRACE_MS,
      /* What is read before the queue is too long for reading may be unsent still. */
      .max_answer = config->output_limit - CONN_PAUSE_BYTES,
      .boot_id = daemon->boot_id,
      .host = daemon->host,
      .daemon_version = DLPACKD_VERSION,
      .n_admins = config->n_admins,
      .admins = config->admins,
  };
  struct broker_edge edge = daemon_broker_edge;

  edge.context = daemon;
  read_line("/proc/sys/kernel/random/boot_id", daemon->boot_id, sizeof(daemon->boot_id));
  if (gethostname(daemon->host, sizeof(daemon->host) - 1) < 0)
    daemon->host[0] = '\0';
  if (getrandom(&broker.seed, sizeof(broker.seed), 0) != sizeof(broker.seed) ||
      getrandom(broker.daemon_id, sizeof(broker.daemon_id), 0) != sizeof(broker.daemon_id))
    return -EIO;
  return broker_new(&daemon->broker, &broker, &edge);
}

static int make_timers(struct daemon *daemon)
{
  const struct {
    struct loop_timer **ret;
    loop_fn function;
  } timers[] = {
      {&daemon->listener_timer, daemon_on_pause_over},
      {&daemon->tick, daemon_on_tick},
      {&daemon->idle, daemon_on_idle},
      {&daemon->watchdog, daemon_on_watchdog},
  };

  for (size_t i = 0; i < sizeof(timers) / sizeof(timers[0]); i++) {
    int r = loop_timer_new(timers[i].ret, daemon->loop, timers[i].function, daemon);

    if (r < 0)
      return r;
  }
  return 0;
}

static int watch_outside(struct daemon *daemon)
{
  int r = loop_signal_new(&daemon->terminate, daemon->loop, SIGTERM, daemon_on_signal, daemon);

  if (r == 0)
    r = loop_signal_new(&daemon->interrupt, daemon->loop, SIGINT, daemon_on_signal, daemon);
  if (r == 0)
    r = loop_watch_new(&daemon->listener_watch, daemon->loop, listener_fd(daemon->listener),
                       LOOP_READABLE, daemon_on_listener, daemon);
  return r;
}

static int make_parts(struct daemon *daemon)
{
  int (*const steps[])(struct daemon *) = {make_storage, make_peers, make_broker, make_timers,
                                           watch_outside};

  for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
    int r = steps[i](daemon);

    if (r < 0)
      return r;
  }
  return 0;
}

int daemon_new(struct daemon **ret, const struct config *config, struct complaint *reterr)
{
  dlp_cleanup_(daemon_freep) struct daemon *daemon = calloc(1, sizeof(*daemon));
  int r;

  if (!daemon)
    return complain(reterr, -ENOMEM, "out of memory");
  daemon->config = config;
  memory_info_init(&daemon->memory);
  (void)signal(SIGPIPE, SIG_IGN);
  (void)signal(SIGHUP, SIG_IGN);
  r = loop_new(&daemon->loop);
  if (r < 0)
    return complain(reterr, r, "cannot make the event loop: %s", strerror(-r));
  r = open_listener(daemon, reterr);
  if (r < 0)
    return r;
  r = make_parts(daemon);
  if (r < 0)
    return complain(reterr, r, "cannot start: %s", strerror(-r));
  *ret = DLP_TAKE(daemon);
  return 0;
}

void daemon_run(struct daemon *daemon)
{
  struct log_line line;
  uint64_t watchdog_ms = service_watchdog_ms();

  log_begin(&line, LOG_LEVEL_INFO, "serving");
  log_text(&line, "socket", listener_path(daemon->listener));
  log_text(&line, "version", DLPACKD_VERSION);
  log_end(&line);
  if (watchdog_ms)
    loop_timer_set(daemon->watchdog, watchdog_ms);
  daemon_settle(daemon);
  (void)service_notify("READY=1\nSTATUS=Serving");
  loop_run(daemon->loop);
  (void)service_notify("STOPPING=1\nSTATUS=Leaving");
}

/* Every plan must be given back to the broker; a thread may have one. */
static void finish_plans(struct daemon *daemon)
{
  daemon->is_leaving = true;
  daemon_run_plans(daemon);
  if (plans_under_way(daemon->plans) > 0)
    loop_run(daemon->loop);
}

static void free_peers(struct daemon *daemon)
{
  if (daemon->broker)
    finish_plans(daemon);
  /* The broker says goodbye to connections, and sessions are its own: it goes first. */
  daemon->broker = daemon->broker ? broker_free(daemon->broker) : NULL;
  daemon->connections = connections_free(daemon->connections);
  daemon->sessions = sessions_free(daemon->sessions);
}

struct daemon *daemon_free(struct daemon *daemon)
{
  if (!daemon)
    return NULL;
  free_peers(daemon);
  daemon->plans = plans_free(daemon->plans);
  daemon->segments = segments_free(daemon->segments);
  daemon->store = store_free(daemon->store);
  (void)loop_watch_free(daemon->listener_watch);
  (void)loop_timer_free(daemon->listener_timer);
  (void)loop_timer_free(daemon->tick);
  (void)loop_timer_free(daemon->idle);
  (void)loop_timer_free(daemon->watchdog);
  (void)loop_signal_free(daemon->terminate);
  (void)loop_signal_free(daemon->interrupt);
  (void)listener_free(daemon->listener);
  (void)loop_free(daemon->loop);
  memory_info_deinit(&daemon->memory);
  free(daemon);
  return NULL;
}
