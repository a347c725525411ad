#include "core/broker.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/broker_private.h"
#include "core/reply.h"
#include "core/wait.h"

/* A connection that has not said HELLO by then is closed. */
#define HELLO_DEADLINE_US (5 * UINT64_C(1000000))

/* How often retired versions that are held are looked at, and how many at a time. */
#define SWEEP_US UINT64_C(1000000)
#define SWEEP_TENSORS 4096

static void sweep(struct timer *timer, void *context);

/* ---- life ---- */

static int compare_connection(const void *key, const struct dlp_tree_node *node)
{
  uint64_t a = *(const uint64_t *)key, b = DLP_CONTAINER(node, struct connection, node)->id;

  return a < b ? -1 : a > b;
}

static int compare_session(const void *key, const struct dlp_tree_node *node)
{
  uint64_t a = *(const uint64_t *)key, b = DLP_CONTAINER(node, struct session, by_id)->id;

  return a < b ? -1 : a > b;
}

static int compare_token(const void *key, const struct dlp_tree_node *node)
{
  return memcmp(key, DLP_CONTAINER(node, struct session, by_token)->token, DLP_TOKEN_SIZE);
}

static int copy_admins(struct broker *broker, const struct broker_config *config)
{
  size_t size = config->n_admins * sizeof(*broker->admins);

  if (size == 0)
    return 0;
  broker->admins = malloc(size);
  if (!broker->admins)
    return -ENOMEM;
  memcpy(broker->admins, config->admins, size);
  broker->config.admins = broker->admins;
  return 0;
}

int broker_new(struct broker **ret, const struct broker_config *config,
               const struct broker_edge *edge)
{
  struct broker *broker = calloc(1, sizeof(*broker));
  int r;

  if (!broker)
    return -ENOMEM;
  broker->config = *config;
  broker->edge = *edge;
  r = copy_admins(broker, config);
  if (r == 0)
    r = quota_new(&broker->quota, &config->limits, config->seed);
  if (r == 0)
    r = registry_init(&broker->registry, &broker->timers, config->seed ^ 1);
  if (r < 0) {
    quota_free(broker->quota);
    free(broker->admins);
    free(broker);
    return r;
  }
  segments_init(&broker->segments, config->max_bytes, config->seed ^ 2);
  timers_init(&broker->timers, config->seed ^ 3);
  releases_init(&broker->releases);
  dlp_tree_init(&broker->connections, compare_connection, config->seed ^ 4);
  dlp_tree_init(&broker->sessions, compare_session, config->seed ^ 5);
  dlp_tree_init(&broker->tokens, compare_token, config->seed ^ 6);
  dlp_list_init(&broker->plans);
  dlp_list_init(&broker->watchers);
  dlp_list_init(&broker->retired);
  broker->sweep.fire = sweep;
  broker->next_session = broker->next_batch = broker->next_row = 1;
  *ret = broker;
  return 0;
}

/* Persistent tensors have no session to go with. */
static void withdraw_all(struct broker *broker)
{
  struct dlp_tree_node *node = dlp_tree_first(&broker->registry.entries);

  while (node) {
    struct entry *entry = DLP_CONTAINER(node, struct entry, node);
    if (entry->newest)
      broker_withdraw(broker, entry); /* it stays, as the latest deletion */
    node = dlp_tree_next(node);
  }
}

static void drop_all_warm(struct broker *broker)
{
  struct segment *segment;

  while ((segment = segments_first_idle(&broker->segments, 0, 0, true)))
    session_drop_segment(broker, segment);
  timer_disarm(&broker->timers, &broker->trim);
}

struct broker *broker_free(struct broker *broker)
{
  struct broker_env env = {0};
  struct dlp_tree_node *node;

  if (!broker)
    return NULL;
  broker->env = &env;
  assert(dlp_list_empty(&broker->plans));
  while ((node = dlp_tree_first(&broker->connections)))
    connection_free(DLP_CONTAINER(node, struct connection, node));
  while ((node = dlp_tree_first(&broker->sessions)))
    session_end(DLP_CONTAINER(node, struct session, by_id), "the daemon ends");
  withdraw_all(broker);
  drop_all_warm(broker);
  timer_disarm(&broker->timers, &broker->sweep);
  /* Nobody runs it any more: the edge lets go of everything when it ends. */
  while (releases_take(&broker->releases))
    releases_done(&broker->releases);
  releases_deinit(&broker->releases);
  registry_deinit(&broker->registry);
  segments_deinit(&broker->segments);
  timers_deinit(&broker->timers);
  quota_free(broker->quota);
  free(broker->admins);
  free(broker);
  return NULL;
}

/* ---- plans ---- */

struct op *op_new(size_t size, size_t max_effects, struct session *session, uint64_t connection,
                  uint64_t request)
{
  struct op *op = calloc(1, size);

  if (!op)
    return NULL;
  op->plan.effects = calloc(max_effects, sizeof(*op->plan.effects));
  if (!op->plan.effects) {
    free(op);
    return NULL;
  }
  dlp_list_init(&op->plan.link);
  op->broker = session->broker;
  op->session = session;
  op->connection = connection;
  op->request = request;
  op->max_effects = max_effects;
  session->n_ops++;
  return op;
}

static void op_release(struct op *op)
{
  free(op->plan.effects);
  free(op);
}

void op_free(struct op *op)
{
  struct session *session = op->session;

  op_release(op);
  session_op_done(session);
}

void op_add(struct op *op, const struct effect *effect)
{
  assert(op->plan.n_effects < op->max_effects);
  op->plan.effects[op->plan.n_effects++] = *effect;
}

void op_start(struct op *op)
{
  dlp_list_append(&op->broker->plans, &op->plan.link);
}

struct plan *broker_next_plan(struct broker *broker)
{
  struct plan *plan;

  if (dlp_list_empty(&broker->plans))
    return releases_take(&broker->releases);
  plan = DLP_CONTAINER(broker->plans.next, struct plan, link);
  dlp_list_remove(&plan->link);
  return plan;
}

void broker_plan_done(struct broker *broker, struct plan *plan, int result, size_t failed,
                      const struct broker_env *env)
{
  struct op *op;

  broker->env = env;
  if (plan == &broker->releases.plan) {
    releases_done(&broker->releases);
    return;
  }
  op = DLP_CONTAINER(plan, struct op, plan);
  op->done(op, result, failed);
  op_free(op);
}

/* ---- tensors ---- */

static void arm_sweep(struct broker *broker)
{
  if (!dlp_list_empty(&broker->retired) && broker->sweep.serial == 0)
    timer_arm(&broker->timers, &broker->sweep, broker->env->steady_us + SWEEP_US);
}

void broker_retired(struct broker *broker, struct tensor *tensor)
{
  dlp_list_remove(&tensor->session_link);
  if (tensor->lifetime != MSG_LIFETIME_SESSION)
    broker->n_persistent--;
  lease_retire(tensor);
  if (!tensor_is_unused(tensor)) {
    dlp_list_append(&broker->retired, &tensor->session_link);
    arm_sweep(broker);
  }
  broker_tensor_released(broker, tensor);
}

/* Holders ring when they let go; a ring may be lost with a connection, or fall between
 * the client's two steps. So what is retired and held is looked at now and then. */
static void sweep(struct timer *timer, void *context)
{
  struct broker *broker = context;
  struct dlp_list *last = broker->retired.previous;
  size_t n = 0;

  (void)timer;
  dlp_list_for_each (link, &broker->retired) {
    struct tensor *tensor = DLP_CONTAINER(link, struct tensor, session_link);
    bool is_last = link == last;

    lease_review(tensor);
    dlp_list_remove(link);
    dlp_list_append(&broker->retired, link);
    broker_tensor_released(broker, tensor);
    if (is_last || ++n == SWEEP_TENSORS)
      break;
  }
  arm_sweep(broker);
}

void broker_withdraw(struct broker *broker, struct entry *entry)
{
  broker_retired(broker, registry_withdraw(&broker->registry, entry));
}

void broker_tensor_released(struct broker *broker, struct tensor *tensor)
{
  struct effect effect = {.kind = EFFECT_ROW_FREE, .row = tensor->row};
  struct entry *entry = tensor->entry;

  if (!tensor_is_unused(tensor))
    return;
  releases_push(&broker->releases, &effect);
  session_drop_block(broker, DLP_TAKE(tensor->block));
  tensor_free(&broker->registry, tensor);
  registry_tidy(&broker->registry, entry);
}

void broker_unstage(struct broker *broker, struct tensor *tensor, bool has_row)
{
  struct effect effect = {.kind = EFFECT_ROW_FREE, .row = tensor->row};
  struct entry *entry = tensor->entry;

  if (has_row)
    releases_push(&broker->releases, &effect);
  else
    releases_unreserve(&broker->releases, 1);
  tensor_free(&broker->registry, tensor);
  registry_tidy(&broker->registry, entry);
}

/* ---- connections ---- */

static void hello_overdue(struct timer *timer, void *context)
{
  (void)context;
  connection_close(DLP_CONTAINER(timer, struct connection, hello), "no HELLO in time");
}

static bool is_admin(const struct broker *broker, uint32_t uid)
{
  for (size_t i = 0; i < broker->config.n_admins; i++)
    if (broker->config.admins[i] == uid)
      return true;
  return false;
}

int broker_connect(struct broker *broker, uint64_t id, const struct broker_peer *peer,
                   const struct broker_env *env)
{
  struct connection *connection = calloc(1, sizeof(*connection));
  size_t groups_size = peer->n_groups * sizeof(*peer->groups);

  broker->env = env;
  if (!connection)
    return -ENOMEM;
  if (groups_size > 0) {
    connection->groups = malloc(groups_size);
    if (!connection->groups) {
      free(connection);
      return -ENOMEM;
    }
    memcpy(connection->groups, peer->groups, groups_size);
  }
  connection->broker = broker;
  connection->id = id;
  connection->pid = peer->pid;
  connection->actor = (struct actor){
      .realm = peer->realm,
      .uid = peer->uid,
      .gid = peer->gid,
      .n_groups = peer->n_groups,
      .groups = connection->groups,
      .is_admin = is_admin(broker, peer->uid),
  };
  memcpy(connection->fresh_token, peer->fresh_token, DLP_TOKEN_SIZE);
  connection->hello.fire = hello_overdue;
  dlp_list_init(&connection->session_link);
  dlp_list_init(&connection->waiters);
  dlp_list_init(&connection->collecting);
  dlp_tree_insert(&broker->connections, &connection->id, &connection->node);
  timer_arm(&broker->timers, &connection->hello, env->steady_us + HELLO_DEADLINE_US);
  return 0;
}

void broker_disconnect(struct broker *broker, uint64_t id, bool broke_protocol,
                       const struct broker_env *env)
{
  struct connection *connection = connection_find(broker, id);

  broker->env = env;
  broker->totals.protocol_errors += broke_protocol;
  if (connection)
    connection_free(connection);
}

void protocol_error(struct connection *connection, const char *reason)
{
  connection->broker->totals.protocol_errors++;
  connection_close(connection, reason);
}

/* ---- hello ---- */

static void welcome(struct connection *connection, uint64_t id, bool resumed)
{
  const struct broker_config *config = &connection->broker->config;
  struct session *session = connection->session;
  struct msg_reply reply = {.id = id, .type = MSG_WELCOME};
  struct attachment pages[] = {{ATTACHMENT_HOLDS_PAGE, session->id},
                               {ATTACHMENT_GRANTS_PAGE, session->id}};

  timer_disarm(&connection->broker->timers, &connection->hello);
  reply.u.welcome = (struct msg_welcome){
      .major = DLP_PROTOCOL_MAJOR,
      .minor = DLP_PROTOCOL_MINOR,
      .daemon_id = config->daemon_id,
      .token = session->token,
      .boot_id = config->boot_id,
      .host = config->host,
      .daemon_version = config->daemon_version,
      .session = session->id,
      .uid = connection->actor.uid,
      .resumed = resumed,
      .lease_page_size = DLP_LEASE_PAGE_SIZE,
  };
  reply_send(connection, &reply, pages, resumed ? 0 : 2);
}

static void session_opened(struct op *op, int result, size_t failed)
{
  struct broker *broker = op->broker;
  struct connection *connection = connection_find(broker, op->connection);
  struct session *session = op->session;

  (void)failed;
  if (result == 0) {
    session->is_open = true;
    if (connection)
      welcome(connection, op->request, false);
    return;
  }
  if (connection)
    reply_errno(connection, op->request, "opening a session", result);
  session_end(session, "no session");
}

static void open_session(struct connection *connection, uint64_t id)
{
  struct broker *broker = connection->broker;
  struct quota_refusal refusal;
  struct session *session;
  struct op *op;
  int r = session_new(&session, broker, connection, &refusal);

  if (r == QUOTA_E_EXCEEDED)
    reply_quota(connection, id, &refusal);
  else if (r != 0)
    reply_no_memory(connection, id);
  if (r != 0) {
    connection_close(connection, "no session");
    return;
  }
  session_attach(session, connection);
  op = op_new(sizeof(*op), 1, session, connection->id, id);
  if (!op) {
    reply_no_memory(connection, id);
    session_end(session, "out of memory");
    return;
  }
  op->done = session_opened;
  op_add(op, &(struct effect){.kind = EFFECT_SESSION_OPEN,
                              .session = session->id,
                              .connection = connection->id,
                              .pages = &session->leases.pages});
  op_start(op);
}

static bool may_resume(const struct connection *connection, const struct session *session)
{
  return session && session->is_open && !session->is_ending &&
         session->actor.uid == connection->actor.uid &&
         session->actor.realm == connection->actor.realm;
}

static void hello(struct connection *connection, const struct msg_request *request)
{
  const struct msg_hello *message = &request->u.hello;
  struct session *known = NULL;

  if (connection->session) {
    protocol_error(connection, "a second HELLO");
    return;
  }
  if (message->major != DLP_PROTOCOL_MAJOR) {
    reply_error(connection, request->id, DLP_STATUS_VERSION,
                "the daemon speaks protocol %d.%d, the client %u.%u: update the older one",
                DLP_PROTOCOL_MAJOR, DLP_PROTOCOL_MINOR, message->major, message->minor);
    connection_close(connection, "another major version");
    return;
  }
  if (message->token)
    known = session_find_by_token(connection->broker, message->token);
  if (may_resume(connection, known)) {
    session_attach(known, connection);
    welcome(connection, request->id, true);
    return;
  }
  open_session(connection, request->id);
}

/* ---- requests ---- */

struct request_kind {
  request_fn serve;
  bool is_one_way; /* has no id and no answer */
};

static const struct request_kind request_kinds[] = {
    [MSG_GOODBYE] = {request_goodbye, false},   [MSG_PING] = {request_ping, false},
    [MSG_ALLOCATE] = {request_allocate, false}, [MSG_FREE] = {request_free, true},
    [MSG_PUBLISH] = {request_publish, false},   [MSG_ABORT] = {request_abort, false},
    [MSG_GET] = {request_get, false},           [MSG_RELEASE] = {request_release, true},
    [MSG_MAP] = {request_map, false},           [MSG_FORGET] = {request_forget, true},
    [MSG_DELETE] = {request_delete, false},     [MSG_LIST] = {request_list, false},
    [MSG_STAT] = {request_stat, false},         [MSG_WATCH] = {request_watch, false},
    [MSG_STATS] = {request_stats, false},
};

static const struct request_kind *kind_of(const struct msg_request *request)
{
  size_t n = sizeof(request_kinds) / sizeof(request_kinds[0]);

  if ((size_t)request->type >= n || !request_kinds[request->type].serve)
    return NULL;
  return &request_kinds[request->type];
}

void broker_request(struct broker *broker, uint64_t id, const struct msg_request *request,
                    const struct broker_env *env)
{
  struct connection *connection = connection_find(broker, id);
  const struct request_kind *kind = kind_of(request);

  broker->env = env;
  if (!connection)
    return;
  if (request->type == MSG_HELLO) {
    hello(connection, request);
    return;
  }
  if (!connection->session || !connection->session->is_open) {
    protocol_error(connection, "a request before HELLO was answered");
    return;
  }
  if (!kind || kind->is_one_way != (request->id == 0)) {
    protocol_error(connection, "a request with an id that does not fit its type");
    return;
  }
  broker->deadline_us = wait_deadline(broker, request);
  kind->serve(connection, request);
}

void broker_unknown_request(struct broker *broker, uint64_t id, uint64_t request,
                            const struct broker_env *env)
{
  struct connection *connection = connection_find(broker, id);

  broker->env = env;
  if (!connection)
    return;
  if (!connection->session || request == 0) {
    protocol_error(connection, "a request of an unknown type");
    return;
  }
  reply_error(connection, request, DLP_STATUS_UNSUPPORTED,
              "this daemon (protocol %d.%d) does not know that request", DLP_PROTOCOL_MAJOR,
              DLP_PROTOCOL_MINOR);
}

struct entry_key request_key(const struct connection *connection, const struct msg_name *name)
{
  uint32_t owner = name->owner == MSG_OWNER_SELF ? connection->actor.uid : name->owner;

  return (struct entry_key){connection->actor.realm, owner, name->path};
}

/* ---- sessions, as the edge sees them ---- */

void broker_session_died(struct broker *broker, uint64_t id, const struct broker_env *env)
{
  struct session *session = session_find(broker, id);

  broker->env = env;
  if (session)
    session_end(session, "the process is gone");
}

uint64_t broker_connection_session(const struct broker *broker, uint64_t id)
{
  const struct connection *connection = connection_find(broker, id);

  return connection && connection->session && connection->session->is_open ? connection->session->id
                                                                           : 0;
}

bool broker_session_connected(const struct broker *broker, uint64_t id)
{
  const struct session *session = session_find(broker, id);

  return session && !dlp_list_empty(&session->connections);
}

/* ---- time ---- */

uint64_t broker_next_deadline(const struct broker *broker)
{
  return timers_next_due(&broker->timers);
}

void broker_tick(struct broker *broker, const struct broker_env *env)
{
  broker->env = env;
  timers_fire(&broker->timers, env->steady_us, broker);
}

bool broker_is_idle(const struct broker *broker)
{
  return broker->sessions.size == 0 && broker->connections.size == 0 && broker->n_persistent == 0;
}

static uint64_t count_held(const struct broker *broker)
{
  uint64_t n = 0;

  dlp_tree_for_each (node, &broker->sessions)
    n += lease_table_count_held(&DLP_CONTAINER(node, struct session, by_id)->leases);
  return n;
}

void broker_counters(const struct broker *broker,
                     void (*function)(void *context, const char *name, uint64_t value),
                     void *context)
{
  struct quota_sum used = quota_total(broker->quota);

  function(context, "tensors", broker->registry.n_live);
  function(context, "tensors_retired", broker->registry.n_retired);
  function(context, "tensors_persistent", broker->n_persistent);
  function(context, "names", broker->registry.entries.size);
  function(context, "names_deleted", broker->registry.n_tombstones);
  function(context, "segments", broker->segments.tree.size);
  function(context, "segments_made_total", broker->segments.n_made);
  function(context, "bytes", broker->segments.held_bytes);
  function(context, "bytes_limit", broker->segments.max_bytes);
  function(context, "warm_segments", broker->segments.n_idle);
  function(context, "warm_bytes", broker->segments.warm_bytes);
  function(context, "blocks_reused_total", broker->segments.n_reused);
  function(context, "blocks_fresh_total", broker->segments.n_fresh);
  function(context, "leases", count_held(broker));
  function(context, "grants", used.of[QUOTA_LEASES]);
  function(context, "sessions", broker->sessions.size);
  function(context, "connections", broker->connections.size);
  function(context, "heap", used.of[QUOTA_HEAP]);
  function(context, "change", broker->registry.change);
  function(context, "commits_total", broker->totals.commits);
  function(context, "grants_total", broker->totals.grants);
  function(context, "refused_total", broker->totals.refused);
  function(context, "protocol_errors_total", broker->totals.protocol_errors);
}
