/* Watches: a long poll on a connection, and so a session, of its own. */

#include <stdlib.h>
#include <string.h>

#include "client/clock.h"
#include "client/error.h"
#include "client/fork.h"
#include "client/owner.h"

struct dlc_watch {
  struct dlc__transport *transport;
  unsigned fork_generation;
  int32_t call_timeout_ms;
  char *name_space;
  struct dlc__name prefix;
  uint64_t since;
  uint8_t daemon_id[DLP_TOKEN_SIZE]; /* whose numbers `since` is of */
  struct dlc__call call;             /* outstanding, if its transport is set */
};

/* A watch is granted nothing and maps nothing. */
static void watch_ignore_orphan(void *context, struct dlc__reply *reply)
{
}

static void watch_ignore_dropped(void *context, uint64_t epoch, const uint64_t *segments,
                                 size_t n_segments)
{
}

static void watch_ignore_retired(void *context, struct dlc__pages *pages)
{
}

static int64_t watch_deadline(const struct dlc_watch *watch)
{
  return dlc__deadline_in(watch->call_timeout_ms);
}

static struct msg_request watch_request(const struct dlc_watch *watch, uint32_t timeout_ms)
{
  return (struct msg_request){.type = MSG_WATCH,
                              .u.watch = {.owner = watch->prefix.name.owner,
                                          .prefix = watch->prefix.path,
                                          .since = watch->since,
                                          .timeout_ms = timeout_ms}};
}

/* Change numbers of another daemon mean nothing here: begin again, with a gap. */
static bool watch_is_same_daemon(struct dlc_watch *watch)
{
  struct dlc_daemon_info info;
  bool same;

  dlc__transport_info(watch->transport, &info);
  same = memcmp(info.daemon_id, watch->daemon_id, sizeof(info.daemon_id)) == 0;
  memcpy(watch->daemon_id, info.daemon_id, sizeof(info.daemon_id));
  return same;
}

/* Sends the long poll. Return: 0, 1 if the daemon is another one, or a negated code. */
static int watch_arm(struct dlc_watch *watch, struct dlc_error *reterr)
{
  struct msg_request request;
  bool same;
  int r = dlc__transport_connect(watch->transport, watch_deadline(watch), reterr);

  if (r < 0)
    return r;
  same = watch_is_same_daemon(watch);
  if (!same)
    watch->since = DLC_WATCH_EVERYTHING;
  watch->call = (struct dlc__call){0};
  r = dlc__call_begin(watch->transport, &watch->call, watch_deadline(watch), reterr);
  request = watch_request(watch, DLP_TIMEOUT_NEVER);
  if (r == 0)
    r = dlc__call_send(&watch->call, &request, watch_deadline(watch), reterr);
  if (r < 0) {
    dlc__call_end(&watch->call);
    return r;
  }
  return same ? 0 : 1;
}

/* ---- open and close ---- */

/* Nothing that changes from here on is missed: "now" is a number before we return. */
static int watch_find_now(struct dlc_watch *watch, struct dlc_error *reterr)
{
  dlc__auto_call struct dlc__call call = {0};
  struct msg_request request = watch_request(watch, 0);
  struct dlc__reply *reply;
  int r = dlc__call_run(watch->transport, &call, &request, watch_deadline(watch), reterr);

  if (r < 0)
    return r;
  reply = dlc__call_reply(&call, MSG_WATCHED, reterr);
  if (!reply)
    return -DLC_E_PROTOCOL;
  watch->since = reply->decoded.reply.u.watched.next;
  return 0;
}

static int watch_start(struct dlc_watch *watch, struct dlc_error *reterr)
{
  int r = dlc__transport_connect(watch->transport, watch_deadline(watch), reterr);

  if (r < 0)
    return r;
  (void)watch_is_same_daemon(watch);
  if (watch->since == DLC_WATCH_FROM_NOW)
    r = watch_find_now(watch, reterr);
  if (r == 0)
    r = watch_arm(watch, reterr);
  return r < 0 ? r : 0;
}

static int watch_init(struct dlc_watch *watch, struct dlc_client *client, const char *prefix,
                      struct dlc_error *reterr)
{
  static const struct dlc__transport_owner owner = {.orphan = watch_ignore_orphan,
                                                    .dropped = watch_ignore_dropped,
                                                    .retired = watch_ignore_retired};
  struct dlc_daemon_info info;
  int r = dlc__name_resolve_prefix(client, prefix ? prefix : "", &watch->prefix, reterr);

  if (r < 0)
    return r;
  watch->call_timeout_ms = client->call_timeout_ms;
  watch->name_space = strdup(client->name_space);
  if (!watch->name_space)
    return dlc__error_no_memory(reterr);
  dlc__transport_info(client->transport, &info);
  return dlc__transport_new(&watch->transport, info.socket_path,
                            dlc__transport_client_name(client->transport), &owner, reterr);
}

int dlc_watch_open(struct dlc_client *client, const char *prefix, uint64_t since,
                   struct dlc_watch **ret_watch, struct dlc_error *reterr)
{
  struct dlc_watch *watch;
  int r = dlc__client_check(client, reterr);

  if (r < 0)
    return r;
  if (!ret_watch)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "ret_watch is NULL");
  watch = (struct dlc_watch *)calloc(1, sizeof(*watch));
  if (!watch)
    return dlc__error_no_memory(reterr);
  watch->fork_generation = client->fork_generation;
  watch->since = since;
  r = watch_init(watch, client, prefix, reterr);
  if (r == 0)
    r = watch_start(watch, reterr);
  if (r < 0) {
    dlc_watch_close(watch);
    return r;
  }
  *ret_watch = watch;
  return 0;
}

void dlc_watch_close(struct dlc_watch *watch)
{
  if (!watch)
    return;
  if (dlc__fork_is_child(watch->fork_generation)) {
    dlc__transport_abandon(watch->transport);
    return;
  }
  dlc__call_end(&watch->call);
  if (watch->transport)
    dlc__transport_free(watch->transport);
  free(watch->name_space);
  free(watch);
}

int dlc_watch_fd(const struct dlc_watch *watch)
{
  return watch ? dlc__transport_fd(watch->transport) : -1;
}

/* ---- dispatch ---- */

struct sink {
  const struct dlc_watch *watch;
  dlc_watch_fn function;
  void *context;
  uint32_t own_uid;
  int n;
};

static void sink_put(struct sink *sink, uint32_t kind, const char *name, uint64_t version,
                     uint64_t change)
{
  const struct dlc_event event = {.struct_size = sizeof(event),
                                  .kind = kind,
                                  .name = name,
                                  .version = version,
                                  .change = change};

  sink->function(sink->context, &event);
  sink->n++;
}

static void sink_put_event(struct sink *sink, const struct msg_event *event)
{
  char name[DLC__SHOWN_NAME_MAX + 1];

  dlc__name_show(sink->watch->name_space, sink->own_uid, &event->name, name);
  sink_put(sink, event->kind == MSG_EVENT_DELETED ? DLC_EVENT_DELETED : DLC_EVENT_PUBLISHED, name,
           event->version, event->change);
}

static int watch_take(struct dlc_watch *watch, struct sink *sink, struct dlc_error *reterr)
{
  struct dlc__reply *reply = dlc__call_reply(&watch->call, MSG_WATCHED, reterr);
  const struct msg_watched *watched;

  if (!reply)
    return -DLC_E_PROTOCOL;
  watched = &reply->decoded.reply.u.watched;
  watch->since = watched->next;
  if (watched->gap)
    sink_put(sink, DLC_EVENT_GAP, "", 0, watched->next);
  for (size_t i = 0; i < watched->n_events; i++)
    sink_put_event(sink, &watched->events[i]);
  return 0;
}

/* One round: an outstanding poll, its answer if there is one by then, the next poll. */
static int watch_turn(struct dlc_watch *watch, int64_t deadline, struct sink *sink,
                      struct dlc_error *reterr)
{
  struct dlc_daemon_info info;
  int r;

  if (!watch->call.transport) {
    r = watch_arm(watch, reterr);
    if (r < 0)
      return r;
    if (r > 0)
      sink_put(sink, DLC_EVENT_GAP, "", 0, 0);
  }
  r = dlc__call_wait(&watch->call, deadline, reterr);
  if (r == -DLC_E_TIMEOUT && !watch->call.done)
    return 0;
  dlc__transport_info(watch->transport, &info);
  sink->own_uid = info.uid;
  if (r == 0)
    r = watch_take(watch, sink, reterr);
  dlc__call_end(&watch->call);
  if (r < 0)
    return r;
  /* So that the descriptor tells of what comes next. A daemon that is gone by
   * now is the next dispatch's to report. */
  r = watch_arm(watch, NULL);
  if (r > 0)
    sink_put(sink, DLC_EVENT_GAP, "", 0, 0);
  return 0;
}

int dlc_watch_dispatch(struct dlc_watch *watch, int32_t timeout_ms, dlc_watch_fn function,
                       void *context, struct dlc_error *reterr)
{
  struct sink sink = {.watch = watch, .function = function, .context = context};
  int64_t deadline = dlc__deadline_in(timeout_ms);
  int r;

  if (!watch || !function)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "the watch or the function is NULL");
  if (dlc__fork_is_child(watch->fork_generation))
    return dlc__error_set(reterr, DLC_E_FORKED, 0,
                          "this watch was opened before fork() and belongs to the parent");
  r = dlc__check_timeout(timeout_ms, reterr);
  if (r < 0)
    return r;
  do {
    r = watch_turn(watch, deadline, &sink, reterr);
  } while (r == 0 && sink.n == 0 && !dlc__deadline_passed(deadline));
  return r < 0 ? r : sink.n;
}
