#include "core/session.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/broker_private.h"
#include "core/commit.h"
#include "core/wait.h"

static struct session *session_of(struct dlp_tree_node *node)
{
  return node ? DLP_CONTAINER(node, struct session, by_id) : NULL;
}

struct session *session_find(const struct broker *broker, uint64_t id)
{
  return session_of(dlp_tree_find(&broker->sessions, &id));
}

struct session *session_find_by_token(const struct broker *broker, const uint8_t *token)
{
  struct dlp_tree_node *node = dlp_tree_find(&broker->tokens, token);

  return node ? DLP_CONTAINER(node, struct session, by_token) : NULL;
}

static void free_memory(struct session *session)
{
  quota_charge_deinit(&session->charge);
  free(session->groups);
  free(session->dropped);
  free(session);
}

static void grace_over(struct timer *timer, void *context)
{
  (void)context;
  session_end(DLP_CONTAINER(timer, struct session, grace), "nobody came back");
}

/* What the session says of itself is copied: the connection may go first. */
static int copy_actor(struct session *session, const struct connection *connection)
{
  size_t size = connection->actor.n_groups * sizeof(*session->groups);

  session->actor = connection->actor;
  session->actor.groups = NULL;
  session->pid = connection->pid;
  if (size == 0)
    return 0;
  session->groups = malloc(size);
  if (!session->groups)
    return -ENOMEM;
  memcpy(session->groups, connection->groups, size);
  session->actor.groups = session->groups;
  return 0;
}

static int compare_view(const void *key, const struct dlp_tree_node *node);

static void init_containers(struct session *session)
{
  dlp_list_init(&session->connections);
  dlp_tree_init(&session->blocks, block_compare, session->broker->config.seed);
  dlp_list_init(&session->stagings);
  dlp_list_init(&session->published);
  dlp_tree_init(&session->views, compare_view, session->broker->config.seed);
}

int session_new(struct session **ret, struct broker *broker, const struct connection *connection,
                struct quota_refusal *refusal)
{
  const struct actor *actor = &connection->actor;
  struct quota_sum sum = {.of = {[QUOTA_SESSIONS] = 1, [QUOTA_HEAP] = sizeof(struct session)}};
  struct session *session = calloc(1, sizeof(*session));
  int r;

  if (!session)
    return -ENOMEM;
  r = quota_charge(broker->quota, &session->charge, actor->realm, actor->uid, &sum, refusal);
  if (r == 0)
    r = copy_actor(session, connection);
  if (r == 0)
    r = releases_reserve(&broker->releases, 1);
  if (r != 0) {
    free_memory(session);
    return r;
  }
  session->broker = broker;
  session->id = broker->next_session++;
  memcpy(session->token, connection->fresh_token, DLP_TOKEN_SIZE);
  session->grace.fire = grace_over;
  init_containers(session);
  pool_init(&session->pool, &broker->segments, broker->quota, actor->realm, actor->uid,
            session->id);
  lease_table_init(&session->leases, broker->quota, actor->realm, actor->uid);
  dlp_tree_insert(&broker->sessions, &session->id, &session->by_id);
  dlp_tree_insert(&broker->tokens, session->token, &session->by_token);
  *ret = session;
  return 0;
}

/* ---- the end ---- */

static void give_back_published(struct session *session)
{
  struct broker *broker = session->broker;
  bool changed = false;

  while (!dlp_list_empty(&session->published)) {
    struct tensor *tensor = DLP_CONTAINER(session->published.next, struct tensor, session_link);
    struct entry *entry = tensor->entry;

    dlp_list_remove(&tensor->session_link);
    if (tensor->state != TENSOR_LIVE)
      continue;
    broker_withdraw(broker, entry);
    wait_changed(broker, entry);
    changed = true;
  }
  if (changed)
    wait_watchers(broker);
}

static void drop_blocks(struct session *session)
{
  struct dlp_tree_node *node;

  while ((node = dlp_tree_first(&session->blocks))) {
    struct block *block = DLP_CONTAINER(node, struct block, node);
    dlp_tree_remove(&session->blocks, node);
    if (block->kept)
      broker_let_go(session->broker, block);
    else
      session_drop_block(session->broker, block);
  }
}

/* Order matters: leases and blocks refer to segments, segments to views. */
static void give_back_all(struct session *session)
{
  struct broker *broker = session->broker;
  struct dlp_tree_node *node;
  struct tensor *tensor;

  while (!dlp_list_empty(&session->stagings))
    staging_free(DLP_CONTAINER(session->stagings.next, struct staging, link));
  while ((tensor = lease_end_one(&session->leases)))
    broker_tensor_released(broker, tensor);
  lease_table_deinit(&session->leases);
  drop_blocks(session);
  give_back_published(session);
  broker_drop_warm(broker, &session->pool);
  pool_deinit(&session->pool);
  while ((node = dlp_tree_first(&session->views)))
    segment_view_free(DLP_CONTAINER(node, struct segment_view, node));
}

static void session_free(struct session *session)
{
  struct broker *broker = session->broker;
  struct effect effect = {.kind = EFFECT_SESSION_CLOSE, .session = session->id};

  give_back_all(session);
  releases_push(&broker->releases, &effect);
  dlp_tree_remove(&broker->sessions, &session->by_id);
  dlp_tree_remove(&broker->tokens, &session->by_token);
  free_memory(session);
}

void session_end(struct session *session, const char *reason)
{
  if (session->is_ending)
    return;
  session->is_ending = true;
  timer_disarm(&session->broker->timers, &session->grace);
  dlp_list_for_each (link, &session->connections)
    connection_close(DLP_CONTAINER(link, struct connection, session_link), reason);
  if (session->n_ops == 0)
    session_free(session);
}

void session_op_done(struct session *session)
{
  assert(session->n_ops > 0);
  if (--session->n_ops == 0 && session->is_ending)
    session_free(session);
}

/* ---- connections ---- */

void session_attach(struct session *session, struct connection *connection)
{
  connection->session = session;
  dlp_list_append(&session->connections, &connection->session_link);
  timer_disarm(&session->broker->timers, &session->grace);
}

/* Without a connection and without a lease nobody would miss it: it is given some
 * time to come back. With a lease only its death ends it. */
static void arm_grace(struct session *session)
{
  struct broker *broker = session->broker;
  uint64_t grace_us = (uint64_t)broker->config.session_grace_ms * 1000;

  if (session->is_ending || !dlp_list_empty(&session->connections) ||
      lease_table_is_holding(&session->leases))
    return;
  timer_arm(&broker->timers, &session->grace, broker->env->steady_us + grace_us);
}

void session_detach(struct connection *connection)
{
  struct session *session = connection->session;

  if (!session)
    return;
  connection->session = NULL;
  dlp_list_remove(&connection->session_link);
  arm_grace(session);
}

struct connection *connection_find(const struct broker *broker, uint64_t id)
{
  struct dlp_tree_node *node = dlp_tree_find(&broker->connections, &id);

  return node ? DLP_CONTAINER(node, struct connection, node) : NULL;
}

void connection_free(struct connection *connection)
{
  struct broker *broker = connection->broker;

  wait_forget(connection);
  while (!dlp_list_empty(&connection->collecting))
    names_free(DLP_CONTAINER(connection->collecting.next, struct names, link));
  timer_disarm(&broker->timers, &connection->hello);
  session_detach(connection);
  dlp_tree_remove(&broker->connections, &connection->node);
  free(connection->groups);
  free(connection);
}

void connection_close(struct connection *connection, const char *reason)
{
  struct broker *broker = connection->broker;
  uint64_t id = connection->id;

  connection_free(connection);
  broker->edge.close(broker->edge.context, id, reason);
}

/* ---- segments ---- */

static int compare_view(const void *key, const struct dlp_tree_node *node)
{
  uint64_t a = *(const uint64_t *)key;
  uint64_t b = DLP_CONTAINER(node, struct segment_view, node)->segment->id;

  return a < b ? -1 : a > b;
}

struct segment_view *session_find_view(const struct session *session, uint64_t segment)
{
  struct dlp_tree_node *node = dlp_tree_find(&session->views, &segment);

  return node ? DLP_CONTAINER(node, struct segment_view, node) : NULL;
}

struct segment_view *session_view(struct session *session, struct segment *segment)
{
  struct segment_view *view = session_find_view(session, segment->id);

  if (view)
    return view;
  view = calloc(1, sizeof(*view));
  if (!view)
    return NULL;
  view->segment = segment;
  view->session = session;
  dlp_list_append(&segment->known, &view->segment_link);
  dlp_tree_insert(&session->views, &segment->id, &view->node);
  return view;
}

void segment_view_free(struct segment_view *view)
{
  dlp_list_remove(&view->segment_link);
  dlp_tree_remove(&view->session->views, &view->node);
  free(view);
}

/* Told or not, the memory goes; a client that was not told for want of our memory
 * keeps its mapping a while longer, which is its own loss. */
static void remember_dropped(struct session *session, uint64_t segment)
{
  if (session->n_dropped == SESSION_DROPPED_MAX)
    return;
  if (session->n_dropped == session->n_dropped_room) {
    size_t room = session->n_dropped_room ? session->n_dropped_room * 2 : 16;
    uint64_t *dropped = realloc(session->dropped, room * sizeof(*dropped));
    if (!dropped)
      return;
    session->dropped = dropped;
    session->n_dropped_room = room;
  }
  session->dropped[session->n_dropped++] = segment;
}

/* What its producer has pointers into goes too, as far as we are concerned. */
static void forget_kept(struct broker *broker, struct segment *segment)
{
  struct session *session = session_find(broker, segment->session);

  dlp_list_for_each (link, &segment->blocks) {
    struct block *block = DLP_CONTAINER(link, struct block, link);
    if (!block->kept)
      continue;
    session_take_block(session, block);
    block->kept = false;
  }
}

void session_drop_segment(struct broker *broker, struct segment *segment)
{
  struct effect effect = {
      .kind = EFFECT_SEGMENT_DROP, .segment = segment->id, .backend = segment->domain.backend};

  forget_kept(broker, segment);
  dlp_list_for_each (link, &segment->known) {
    struct segment_view *view = DLP_CONTAINER(link, struct segment_view, segment_link);
    remember_dropped(view->session, segment->id);
    segment_view_free(view);
  }
  if (segment->made)
    releases_push(&broker->releases, &effect);
  else
    releases_unreserve(&broker->releases, 1);
  segment_free(segment);
}

void session_add_block(struct session *session, struct block *block)
{
  struct msg_place place = {.segment = block->segment->id, .offset = block->offset};

  dlp_tree_insert(&session->blocks, &place, &block->node);
}

struct block *session_find_block(const struct session *session, const struct msg_place *place)
{
  struct dlp_tree_node *node = dlp_tree_find(&session->blocks, place);

  return node ? DLP_CONTAINER(node, struct block, node) : NULL;
}

void session_take_block(struct session *session, struct block *block)
{
  dlp_tree_remove(&session->blocks, &block->node);
}

/* ---- commits ---- */

uint64_t session_committed(const struct session *session, uint64_t key)
{
  for (size_t i = 0; i < SESSION_COMMITS_KEPT; i++)
    if (session->commits[i].version != 0 && session->commits[i].key == key)
      return session->commits[i].version;
  return 0;
}

void session_remember_commit(struct session *session, uint64_t key, uint64_t version)
{
  session->commits[session->next_commit] = (struct session_commit){key, version};
  session->next_commit = (session->next_commit + 1) % SESSION_COMMITS_KEPT;
}
