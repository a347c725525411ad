#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "daemon_private.h"
#include "io/log.h"
#include "io/service.h"

/* ---- time ---- */

static uint64_t clock_us(clockid_t clock)
{
  struct timespec now;

  (void)clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static struct broker_env current_env(struct daemon *daemon)
{
  uint64_t steady_us = clock_us(CLOCK_MONOTONIC);

  return (struct broker_env){
      .steady_us = steady_us,
      .wall_us = clock_us(CLOCK_REALTIME),
      .memory_available = memory_info_available(&daemon->memory, steady_us),
  };
}

/* ---- plans ---- */

static int open_session(struct daemon *daemon, const struct effect *effect)
{
  const struct peer *peer = connections_peer(daemon->connections, effect->connection);

  /* The connection may have gone meanwhile, and with it whoever would tell of its end. */
  if (!peer)
    daemon->somebody_hung_up = true;
  return sessions_open(daemon->sessions, effect->session, peer ? peer->pidfd : -1, effect->pages);
}

static int run_session(void *context, const struct effect *effect)
{
  struct daemon *daemon = context;

  if (effect->kind == EFFECT_SESSION_OPEN)
    return open_session(daemon, effect);
  sessions_close(daemon->sessions, effect->session);
  return 0;
}

static void on_plan_done(void *context, struct plan *plan, int result, size_t failed)
{
  struct daemon *daemon = context;
  struct broker_env env = current_env(daemon);

  broker_plan_done(daemon->broker, plan, result, failed, &env);
}

void daemon_run_plans(struct daemon *daemon)
{
  struct plan *plan;

  while ((plan = broker_next_plan(daemon->broker)))
    plans_run(daemon->plans, plan);
}

static void arm_tick(struct daemon *daemon)
{
  uint64_t deadline = broker_next_deadline(daemon->broker), now;

  if (deadline == UINT64_MAX) {
    loop_timer_unset(daemon->tick);
    return;
  }
  now = clock_us(CLOCK_MONOTONIC);
  loop_timer_set(daemon->tick, deadline > now ? (deadline - now + 999) / 1000 : 0);
}

static void arm_idle(struct daemon *daemon)
{
  bool is_idle = connections_count(daemon->connections) == 0 && broker_is_idle(daemon->broker);

  if (is_idle == daemon->is_idle || daemon->config->idle_exit_s == 0)
    return;
  daemon->is_idle = is_idle;
  if (is_idle)
    loop_timer_set(daemon->idle, daemon->config->idle_exit_s * 1000);
  else
    loop_timer_unset(daemon->idle);
}

/* After everything that called the broker. */
void daemon_settle(struct daemon *daemon)
{
  do
    daemon_run_plans(daemon);
  while (connections_reap(daemon->connections));
  if (daemon->somebody_hung_up)
    sessions_somebody_hung_up(daemon->sessions);
  daemon->somebody_hung_up = false;
  arm_tick(daemon);
  arm_idle(daemon);
}

/* ---- what the broker wants ---- */

static int open_attachment(struct daemon *daemon, const struct attachment *attachment)
{
  switch (attachment->kind) {
  case ATTACHMENT_SEGMENT_READ_ONLY:
    return segments_open_read_only(daemon->segments, attachment->id);
  case ATTACHMENT_SEGMENT_WRITABLE:
    return segments_open_writable(daemon->segments, attachment->id);
  case ATTACHMENT_HOLDS_PAGE:
    return sessions_open_holds(daemon->sessions, attachment->id);
  case ATTACHMENT_GRANTS_PAGE:
    return sessions_open_grants(daemon->sessions, attachment->id);
  }
  return -EINVAL;
}

static int open_attachments(struct daemon *daemon, struct dlp_fdset *fds,
                            const struct attachment *attachments, size_t n_attachments)
{
  for (size_t i = 0; i < n_attachments; i++) {
    dlp_auto_close int fd = open_attachment(daemon, &attachments[i]);
    int r;

    if (fd < 0)
      return fd;
    r = dlp_fdset_add_consume(fds, fd);
    if (r < 0)
      return r;
    (void)DLP_TAKE_FD(fd);
  }
  return 0;
}

static void edge_send(void *context, uint64_t connection, const struct msg_reply *reply,
                      const struct attachment *attachments, size_t n_attachments)
{
  struct daemon *daemon = context;
  dlp_auto_fdset struct dlp_fdset fds;

  dlp_fdset_init(&fds);
  if (open_attachments(daemon, &fds, attachments, n_attachments) < 0)
    connections_fail(daemon->connections, connection, CONN_END_NO_DESCRIPTOR);
  else
    connections_send(daemon->connections, connection, reply, &fds);
}

static void edge_close(void *context, uint64_t connection, const char *reason)
{
  struct daemon *daemon = context;
  struct log_line line;

  log_begin(&line, LOG_LEVEL_DEBUG, "connection closed");
  log_unsigned(&line, "connection", connection);
  log_text(&line, "reason", reason);
  log_end(&line);
  connections_close(daemon->connections, connection);
  daemon->somebody_hung_up = true;
}

/* ---- what comes in ---- */

static int on_joined(void *context, uint64_t connection, const struct peer *peer)
{
  struct daemon *daemon = context;
  struct broker_env env = current_env(daemon);
  struct broker_peer broker_peer = {
      .uid = peer->uid,
      .gid = peer->gid,
      .pid = peer->pid,
      .n_groups = peer->n_groups,
      .groups = peer->groups,
  };

  /* A token that can be guessed would give a session away. */
  if (getrandom(broker_peer.fresh_token, sizeof(broker_peer.fresh_token), 0) !=
      sizeof(broker_peer.fresh_token))
    return -EIO;
  return broker_connect(daemon->broker, connection, &broker_peer, &env);
}

static void on_request(void *context, uint64_t connection, const struct msg_request *request)
{
  struct daemon *daemon = context;
  struct broker_env env = current_env(daemon);

  broker_request(daemon->broker, connection, request, &env);
  daemon_run_plans(daemon);
}

static void on_unknown(void *context, uint64_t connection, uint64_t id)
{
  struct daemon *daemon = context;
  struct broker_env env = current_env(daemon);

  broker_unknown_request(daemon->broker, connection, id, &env);
  daemon_run_plans(daemon);
}

static void on_left(void *context, uint64_t connection, bool broke_protocol)
{
  struct daemon *daemon = context;
  uint64_t session = broker_connection_session(daemon->broker, connection);
  struct broker_env env = current_env(daemon);

  broker_disconnect(daemon->broker, connection, broke_protocol, &env);
  daemon_run_plans(daemon);
  sessions_hung_up(daemon->sessions, session);
}

static void on_turn_done(void *context)
{
  struct daemon *daemon = context;

  daemon_settle(daemon);
  if (daemon->is_leaving && plans_under_way(daemon->plans) == 0)
    loop_stop(daemon->loop);
}

static uint64_t now_us(void *context)
{
  return clock_us(CLOCK_MONOTONIC);
}

static void on_session_died(void *context, uint64_t session)
{
  struct daemon *daemon = context;
  struct broker_env env = current_env(daemon);

  broker_session_died(daemon->broker, session, &env);
  daemon_settle(daemon);
}

static bool is_session_connected(void *context, uint64_t session)
{
  struct daemon *daemon = context;

  return broker_session_connected(daemon->broker, session);
}

static void on_accepted(void *context, int fd)
{
  struct daemon *daemon = context;

  connections_accept(daemon->connections, fd);
}

void daemon_on_listener(void *context, unsigned events)
{
  struct daemon *daemon = context;

  if (listener_accept(daemon->listener, on_accepted, daemon) == LISTENER_E_EXHAUSTED) {
    loop_watch_set(daemon->listener_watch, 0);
    loop_timer_set(daemon->listener_timer, LISTENER_PAUSE_MS);
  }
  daemon_settle(daemon);
}

void daemon_on_pause_over(void *context)
{
  struct daemon *daemon = context;

  loop_watch_set(daemon->listener_watch, LOOP_READABLE);
}

void daemon_on_tick(void *context)
{
  struct daemon *daemon = context;
  struct broker_env env = current_env(daemon);

  broker_tick(daemon->broker, &env);
  daemon_settle(daemon);
}

void daemon_on_idle(void *context)
{
  struct daemon *daemon = context;

  log_event(LOG_LEVEL_INFO, "leaving: nobody was here");
  loop_stop(daemon->loop);
}

void daemon_on_watchdog(void *context)
{
  struct daemon *daemon = context;

  (void)service_notify("WATCHDOG=1");
  loop_timer_set(daemon->watchdog, service_watchdog_ms());
}

void daemon_on_signal(void *context)
{
  struct daemon *daemon = context;

  log_event(LOG_LEVEL_INFO, "leaving: a signal");
  loop_stop(daemon->loop);
}

/* ---- work on another thread ---- */

static void close_work_done(void *context, int result)
{
}

static int close_work(void *context)
{
  (void)close((int)(intptr_t)context);
  return 0;
}

void daemon_close_later(void *context, int fd)
{
  struct daemon *daemon = context;

  if (loop_work(daemon->loop, close_work, close_work_done, (void *)(intptr_t)fd) < 0)
    (void)close(fd);
}

/* ---- who calls whom ---- */

const struct broker_edge daemon_broker_edge = {.send = edge_send, .close = edge_close};

const struct plans_host daemon_plans_host = {
    .run_session = run_session, .done = on_plan_done, .turn_done = on_turn_done};

const struct sessions_host daemon_sessions_host = {.died = on_session_died,
                                                   .connected = is_session_connected};

const struct connections_host daemon_connections_host = {.joined = on_joined,
                                                         .request = on_request,
                                                         .unknown = on_unknown,
                                                         .left = on_left,
                                                         .turn_done = on_turn_done,
                                                         .now_us = now_us};
