#include "io/connections.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/list.h"
#include "common/tree.h"
#include "io/log.h"

/* Answers kept for all of a user's connections together: so many times what is kept for
 * one. A few may be slow at once; a thousand are no accident. */
#define OUTPUTS_PER_UID 8

struct entry {
  struct dlp_tree_node node;
  struct dlp_list ended_link; /* connections->ended */
  struct connections *connections;
  struct conn *conn;
  struct loop_watch *watch;
  struct loop_timer *timer;
  unsigned armed_ms; /* what the timer was set to; 0: it does not run */
};

struct connections {
  struct loop *loop;
  struct connections_host host;
  struct conn_host conn_host;
  size_t limit_per_uid;
  struct dlp_tree tree;
  struct dlp_list ended;
  uint64_t last_id;
  struct log_gate gate;
};

/* Reasons of the gate beyond enum conn_end. */
enum {
  REASON_TOO_MANY = 1000,
};

static uint64_t entry_id(const struct dlp_tree_node *node)
{
  return conn_id(DLP_CONTAINER(node, struct entry, node)->conn);
}

static int compare(const void *key, const struct dlp_tree_node *node)
{
  uint64_t id = *(const uint64_t *)key, other = entry_id(node);

  return (id > other) - (id < other);
}

static struct entry *find(const struct connections *connections, uint64_t id)
{
  struct dlp_tree_node *node = dlp_tree_find(&connections->tree, &id);

  return node ? DLP_CONTAINER(node, struct entry, node) : NULL;
}

static void on_request(void *context, uint64_t connection, const struct msg_request *request)
{
  struct connections *connections = context;

  connections->host.request(connections->host.context, connection, request);
}

static void on_unknown(void *context, uint64_t connection, uint64_t id)
{
  struct connections *connections = context;

  connections->host.unknown(connections->host.context, connection, id);
}

static void arm(struct entry *entry)
{
  unsigned ms = conn_retry_ms(entry->conn);

  if (ms == entry->armed_ms)
    return;
  entry->armed_ms = ms;
  if (ms)
    loop_timer_set(entry->timer, ms);
  else
    loop_timer_unset(entry->timer);
}

static void on_changed(void *context, struct conn *conn)
{
  struct connections *connections = context;
  struct entry *entry = find(connections, conn_id(conn));

  if (!entry)
    return;
  loop_watch_set(entry->watch, conn_interest(conn));
  arm(entry);
  if (conn_end(conn) != CONN_END_NOT) {
    dlp_list_remove(&entry->ended_link);
    dlp_list_append(&connections->ended, &entry->ended_link);
  }
}

static void on_event(void *context, unsigned events)
{
  struct entry *entry = context;
  struct connections *connections = entry->connections;

  conn_dispatch(entry->conn, events);
  connections->host.turn_done(connections->host.context);
}

static void on_timer(void *context)
{
  struct entry *entry = context;
  struct connections *connections = entry->connections;

  entry->armed_ms = 0;
  conn_retry(entry->conn);
  connections->host.turn_done(connections->host.context);
}

int connections_new(struct connections **ret, struct loop *loop,
                    const struct connections_host *host, size_t output_limit, size_t limit_per_uid)
{
  struct connections *connections = calloc(1, sizeof(*connections));

  if (!connections)
    return -ENOMEM;
  connections->loop = loop;
  connections->host = *host;
  connections->conn_host = (struct conn_host){
      .context = connections,
      .request = on_request,
      .unknown = on_unknown,
      .changed = on_changed,
      .output_limit = output_limit,
  };
  connections->limit_per_uid = limit_per_uid;
  dlp_tree_init(&connections->tree, compare, 1);
  dlp_list_init(&connections->ended);
  *ret = connections;
  return 0;
}

static struct entry *entry_free(struct entry *entry)
{
  (void)loop_watch_free(entry->watch);
  (void)loop_timer_free(entry->timer);
  (void)conn_free(entry->conn);
  free(entry);
  return NULL;
}

DLP_DEFINE_CLEANUP(struct entry, entry)

struct connections *connections_free(struct connections *connections)
{
  struct dlp_tree_node *node;

  if (!connections)
    return NULL;
  while ((node = dlp_tree_first(&connections->tree))) {
    dlp_tree_remove(&connections->tree, node);
    (void)entry_free(DLP_CONTAINER(node, struct entry, node));
  }
  free(connections);
  return NULL;
}

static void log_peer(struct connections *connections, const struct peer *peer, uint32_t reason,
                     const char *text)
{
  struct log_line line;
  uint64_t suppressed, now_us = connections->host.now_us(connections->host.context);

  if (!log_gate_open(&connections->gate, peer->uid, reason, now_us, &suppressed))
    return;
  log_begin(&line, LOG_LEVEL_WARNING, "connection ended");
  log_unsigned(&line, "uid", peer->uid);
  log_unsigned(&line, "pid", (uint64_t)peer->pid);
  log_text(&line, "reason", text);
  if (suppressed)
    log_unsigned(&line, "suppressed", suppressed);
  log_end(&line);
}

static bool has_too_many(const struct connections *connections, uint32_t uid)
{
  size_t n = 0;

  dlp_tree_for_each (node, &connections->tree)
    n += conn_peer(DLP_CONTAINER(node, struct entry, node)->conn)->uid == uid;
  return n >= connections->limit_per_uid;
}

/* Return: 0 or negative errno; `socket` is taken if 0. */
static int entry_new_consume(struct entry **ret, struct connections *connections, int socket)
{
  dlp_cleanup_(entry_freep) struct entry *entry = calloc(1, sizeof(*entry));
  int r;

  if (!entry)
    return -ENOMEM;
  entry->connections = connections;
  dlp_list_init(&entry->ended_link);
  r = loop_timer_new(&entry->timer, connections->loop, on_timer, entry);
  if (r < 0)
    return r;
  /* First the watch: when the connection exists, it owns the socket. */
  r = loop_watch_new(&entry->watch, connections->loop, socket, LOOP_READABLE, on_event, entry);
  if (r < 0)
    return r;
  r = conn_new_consume(&entry->conn, connections->last_id + 1, socket, &connections->conn_host);
  if (r < 0)
    return r;
  connections->last_id++;
  *ret = DLP_TAKE(entry);
  return 0;
}

static int join(struct connections *connections, struct entry *entry)
{
  const struct peer *peer = conn_peer(entry->conn);
  uint64_t id = conn_id(entry->conn);
  int r;

  if (has_too_many(connections, peer->uid)) {
    log_peer(connections, peer, REASON_TOO_MANY, "the user has too many connections");
    return -EUSERS;
  }
  r = connections->host.joined(connections->host.context, id, peer);
  if (r < 0)
    return r;
  dlp_tree_insert(&connections->tree, &id, &entry->node);
  return 0;
}

void connections_accept(struct connections *connections, int socket)
{
  dlp_cleanup_(entry_freep) struct entry *entry = NULL;

  if (entry_new_consume(&entry, connections, socket) < 0) {
    (void)dlp_close(socket);
    return;
  }
  if (join(connections, entry) == 0)
    (void)DLP_TAKE(entry);
}

/* Looks at all connections, but only for one that is behind already. */
static bool keeps_too_much(const struct connections *connections, const struct conn *conn)
{
  uint32_t uid = conn_peer(conn)->uid;
  size_t sum = 0;

  if (conn_queued(conn) <= CONN_PAUSE_BYTES)
    return false;
  dlp_tree_for_each (node, &connections->tree) {
    const struct conn *other = DLP_CONTAINER(node, struct entry, node)->conn;

    if (conn_peer(other)->uid == uid)
      sum += conn_queued(other);
  }
  return sum / OUTPUTS_PER_UID > connections->conn_host.output_limit;
}

void connections_send(struct connections *connections, uint64_t connection,
                      const struct msg_reply *reply, struct dlp_fdset *fds)
{
  struct entry *entry = find(connections, connection);

  if (!entry) {
    dlp_fdset_deinit(fds);
    return;
  }
  conn_send(entry->conn, reply, fds);
  if (keeps_too_much(connections, entry->conn))
    conn_fail(entry->conn, CONN_END_SLOW_READER);
}

void connections_close(struct connections *connections, uint64_t connection)
{
  struct entry *entry = find(connections, connection);

  if (entry)
    conn_close(entry->conn);
}

void connections_fail(struct connections *connections, uint64_t connection, enum conn_end end)
{
  struct entry *entry = find(connections, connection);

  if (entry)
    conn_fail(entry->conn, end);
}

const struct peer *connections_peer(const struct connections *connections, uint64_t connection)
{
  struct entry *entry = find(connections, connection);

  return entry ? conn_peer(entry->conn) : NULL;
}

static void bury(struct connections *connections, struct entry *entry)
{
  enum conn_end end = conn_end(entry->conn);
  uint64_t id = conn_id(entry->conn);

  dlp_list_remove(&entry->ended_link);
  if (end != CONN_END_PEER_GONE && end != CONN_END_CLOSED)
    log_peer(connections, conn_peer(entry->conn), end, conn_end_reason(end));
  if (!conn_is_closing(entry->conn))
    connections->host.left(connections->host.context, id, conn_end_is_protocol_error(end));
  dlp_tree_remove(&connections->tree, &entry->node);
  (void)entry_free(entry);
}

bool connections_reap(struct connections *connections)
{
  bool any = !dlp_list_empty(&connections->ended);

  while (!dlp_list_empty(&connections->ended))
    bury(connections, DLP_CONTAINER(connections->ended.next, struct entry, ended_link));
  return any;
}

size_t connections_count(const struct connections *connections)
{
  return connections->tree.size;
}
