#include "support/fake_edge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lease.h"
#include "core/registry.h"

#define REQUIRE(condition)                                                                     \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "%s:%d: the broker broke a rule: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                                 \
    }                                                                                          \
  } while (0)

struct fake_connection {
  struct dlp_list link;
  uint64_t id;
  bool is_open;
  char *close_reason;
  uint64_t *unanswered;
  size_t n_unanswered;
  uint64_t spanning; /* a GET of which more packets are to come; 0: none */
};

enum fake_session_state {
  FAKE_SESSION_OPEN,
  FAKE_SESSION_CLOSED,
};

struct fake_session {
  struct dlp_list link;
  uint64_t id;
  enum fake_session_state state;
  struct lease_pages pages;
  struct dlp_holds_page *holds; /* the same, as the client has it */
};

struct fake_segment {
  struct dlp_list link;
  uint64_t id;
  uint64_t size;
  uint32_t backend;
  bool is_sealed;
  bool is_mutable;
  bool is_frozen;
  bool is_slab;
};

struct fake_row {
  struct dlp_list link;
  uint64_t number;
  uint64_t version;
  uint64_t segment;
  uint64_t offset, size;
  bool is_live;
};

struct fake_held {
  struct dlp_list link;
  struct plan *plan;
};

static void exempt(const struct fake_edge *edge, bool is_exempt)
{
  if (edge->exempt)
    edge->exempt(is_exempt);
}

static void *make(size_t size)
{
  void *made = calloc(1, size);

  REQUIRE(made);
  return made;
}

/* ---- finding ---- */

#define FIND(list, type, field, value)                          \
  ({                                                            \
    type *_found = NULL;                                        \
    dlp_list_for_each (_link, list) {                           \
      if (DLP_CONTAINER(_link, type, link)->field == (value)) { \
        _found = DLP_CONTAINER(_link, type, link);              \
        break;                                                  \
      }                                                         \
    }                                                           \
    _found;                                                     \
  })

static struct fake_connection *find_connection(const struct fake_edge *edge, uint64_t id)
{
  return FIND(&edge->connections, struct fake_connection, id, id);
}

static struct fake_session *find_session(const struct fake_edge *edge, uint64_t id)
{
  return FIND(&edge->sessions, struct fake_session, id, id);
}

static struct fake_segment *find_segment(const struct fake_edge *edge, uint64_t id)
{
  return FIND(&edge->segments, struct fake_segment, id, id);
}

static struct fake_row *find_row(const struct fake_edge *edge, uint64_t number)
{
  return FIND(&edge->rows, struct fake_row, number, number);
}

/* ---- requests and their answers ---- */

static void expect_answer(struct fake_connection *connection, uint64_t id)
{
  for (size_t i = 0; i < connection->n_unanswered; i++)
    if (connection->unanswered[i] == id)
      return; /* a client that uses an id twice gets what it deserves */
  connection->unanswered =
      realloc(connection->unanswered, (connection->n_unanswered + 1) * sizeof(uint64_t));
  REQUIRE(connection->unanswered);
  connection->unanswered[connection->n_unanswered++] = id;
}

static void note_answer(struct fake_connection *connection, uint64_t id, bool more)
{
  for (size_t i = 0; i < connection->n_unanswered; i++) {
    if (connection->unanswered[i] != id)
      continue;
    if (!more)
      connection->unanswered[i] = connection->unanswered[--connection->n_unanswered];
    return;
  }
  REQUIRE(!"an answer to what was not asked, or a second one");
}

static void check_segments(const struct fake_edge *edge, const struct fake_reply *reply,
                           const struct msg_segment *segments, size_t n)
{
  bool to_producer = reply->msg->type == MSG_ALLOCATED;

  REQUIRE(n == reply->n_attachments);
  for (size_t i = 0; i < n; i++) {
    const struct attachment *attachment = &reply->attachments[i];
    const struct fake_segment *segment = find_segment(edge, segments[i].id);

    REQUIRE(segments[i].fd_index == i && attachment->id == segments[i].id);
    REQUIRE(segment && segment->size == segments[i].size);
    REQUIRE(segment->backend == segments[i].backend);
    if (to_producer)
      REQUIRE(attachment->kind == ATTACHMENT_SEGMENT_WRITABLE && !segment->is_slab);
    else if (attachment->kind == ATTACHMENT_SEGMENT_WRITABLE)
      REQUIRE(segment->is_sealed && segment->is_mutable);
    else
      REQUIRE(attachment->kind == ATTACHMENT_SEGMENT_READ_ONLY && segment->is_sealed);
  }
}

static void check_grants(const struct fake_edge *edge, const struct msg_granted *granted)
{
  for (size_t i = 0; i < granted->n_grants; i++) {
    const struct msg_place *place = &granted->grants[i].tensor.place;
    const struct fake_segment *segment = find_segment(edge, place->segment);

    REQUIRE(segment && segment->is_sealed);
    REQUIRE(place->offset <= segment->size && place->size <= segment->size - place->offset);
  }
}

static void check_reply(const struct fake_edge *edge, const struct fake_reply *reply)
{
  const struct msg_reply *msg = reply->msg;

  REQUIRE((msg->status == DLP_STATUS_OK) == (msg->message == NULL || !msg->message[0]));
  REQUIRE(msg->status == DLP_STATUS_OK || msg->type == MSG_REPLY_EMPTY);
  REQUIRE(msg->n_fds == reply->n_attachments);
  for (size_t i = 0; i < msg->n_dropped; i++)
    REQUIRE(msg->dropped[i] <= edge->last_segment);
  switch (msg->type) {
  case MSG_WELCOME:
    REQUIRE(reply->n_attachments == (msg->u.welcome.resumed ? 0 : 2));
    REQUIRE(find_session(edge, msg->u.welcome.session)->state == FAKE_SESSION_OPEN);
    break;
  case MSG_ALLOCATED:
    check_segments(edge, reply, msg->u.allocated.segments, msg->u.allocated.n_segments);
    break;
  case MSG_GRANTED:
    check_segments(edge, reply, msg->u.granted.segments, msg->u.granted.n_segments);
    check_grants(edge, &msg->u.granted);
    break;
  case MSG_MAPPED:
    check_segments(edge, reply, &msg->u.mapped.segment, 1);
    break;
  default:
    REQUIRE(reply->n_attachments == 0);
  }
}

/* A copy as the client would see it. */
static void edge_send(void *context, uint64_t id, const struct msg_reply *msg,
                      const struct attachment *attachments, size_t n_attachments)
{
  static uint8_t packet[DLP_PACKET_MAX];
  struct fake_edge *edge = context;
  struct fake_connection *connection = find_connection(edge, id);
  struct fake_reply *reply;
  size_t size;

  exempt(edge, true);
  REQUIRE(connection && connection->is_open);
  note_answer(connection, msg->id, msg->more);
  REQUIRE(n_attachments <= DLP_PACKET_FDS_MAX);
  reply = make(sizeof(*reply));
  reply->connection = id;
  REQUIRE(codec_encode_reply(packet, sizeof(packet), &size, msg) == 0);
  REQUIRE(codec_decode_reply(&reply->decoded, packet, size) == 0);
  reply->msg = &reply->decoded.reply;
  reply->n_attachments = n_attachments;
  reply->attachments = make((n_attachments + 1) * sizeof(*attachments));
  if (n_attachments > 0)
    memcpy(reply->attachments, attachments, n_attachments * sizeof(*attachments));
  dlp_list_append(&edge->replies, &reply->link);
  check_reply(edge, reply);
  exempt(edge, false);
}

static void edge_close(void *context, uint64_t id, const char *reason)
{
  struct fake_edge *edge = context;
  struct fake_connection *connection = find_connection(edge, id);

  exempt(edge, true);
  REQUIRE(connection && connection->is_open && reason && *reason);
  connection->is_open = false;
  connection->close_reason = strdup(reason);
  REQUIRE(connection->close_reason);
  exempt(edge, false);
}

/* ---- effects ---- */

/* Twice is harmless. */
static void free_pages(struct fake_session *session)
{
  free(session->pages.grants);
  free(session->holds);
  session->pages.grants = NULL;
  session->holds = NULL;
}

static int open_session(struct fake_edge *edge, const struct effect *effect)
{
  struct fake_session *session = make(sizeof(*session));

  REQUIRE(!find_session(edge, effect->session));
  session->id = effect->session;
  session->holds = make(sizeof(*session->holds));
  session->pages = (struct lease_pages){make(sizeof(*session->pages.grants)), session->holds};
  *effect->pages = session->pages;
  dlp_list_append(&edge->sessions, &session->link);
  return 0;
}

/* One that could not be opened is closed all the same. */
static int close_session(struct fake_edge *edge, const struct effect *effect)
{
  struct fake_session *session = find_session(edge, effect->session);

  if (session) {
    REQUIRE(session->state == FAKE_SESSION_OPEN);
    session->state = FAKE_SESSION_CLOSED;
    free_pages(session);
  }
  return 0;
}

static int create_segment(struct fake_edge *edge, const struct effect *effect)
{
  struct fake_segment *segment = make(sizeof(*segment));

  REQUIRE(!find_segment(edge, effect->segment)); /* and ids are not used again: */
  REQUIRE(effect->size > 0 && effect->size % 4096 == 0);
  REQUIRE(effect->backend == MSG_BACKEND_MEMFD || effect->backend == MSG_BACKEND_POSIX_SHM);
  segment->id = effect->segment;
  segment->size = effect->size;
  segment->backend = effect->backend;
  segment->is_slab = effect->is_slab;
  if (effect->segment > edge->last_segment)
    edge->last_segment = effect->segment;
  dlp_list_append(&edge->segments, &segment->link);
  return 0;
}

static int write_segment(struct fake_edge *edge, const struct effect *effect)
{
  const struct fake_segment *segment = find_segment(edge, effect->segment);
  uint8_t sum = 0;

  REQUIRE(segment && segment->is_slab && effect->size > 0 && effect->data);
  REQUIRE(effect->offset <= segment->size && effect->size <= segment->size - effect->offset);
  for (uint64_t i = 0; i < effect->size; i++)
    sum ^= effect->data[i]; /* it is there to be read */
  edge->last_written = sum;
  return 0;
}

static int check_segment(struct fake_edge *edge, const struct effect *effect)
{
  const struct fake_segment *segment = find_segment(edge, effect->segment);

  REQUIRE(segment && effect->size > 0);
  REQUIRE(effect->offset <= segment->size && effect->size <= segment->size - effect->offset);
  REQUIRE(segment->is_sealed); /* or what was there could go after it was seen */
  return 0;
}

static int seal_segment(struct fake_edge *edge, const struct effect *effect)
{
  struct fake_segment *segment = find_segment(edge, effect->segment);

  REQUIRE(segment);
  REQUIRE(!segment->is_sealed || segment->is_mutable == (effect->seal == SEGMENT_SEAL_MUTABLE));
  segment->is_sealed = true;
  segment->is_mutable = effect->seal == SEGMENT_SEAL_MUTABLE;
  segment->is_frozen |= effect->seal == SEGMENT_SEAL_FROZEN;
  return 0;
}

static int drop_segment(struct fake_edge *edge, const struct effect *effect)
{
  struct fake_segment *segment = find_segment(edge, effect->segment);

  REQUIRE(segment);
  dlp_list_for_each (link, &edge->rows)
    REQUIRE(DLP_CONTAINER(link, struct fake_row, link)->segment != effect->segment);
  dlp_list_remove(&segment->link);
  free(segment);
  return 0;
}

/* Bytes that somebody may still look at are not given to another tensor. */
static void check_is_unused(const struct fake_edge *edge, const struct tensor *tensor)
{
  if (!dlp_list_empty(&edge->held) || tensor->size == 0)
    return; /* what frees rows may wait */
  dlp_list_for_each (link, &edge->rows) {
    const struct fake_row *row = DLP_CONTAINER(link, struct fake_row, link);
    REQUIRE(row->segment != tensor->block->segment->id || row->size == 0 ||
            row->offset + row->size <= tensor->block->offset ||
            tensor->block->offset + tensor->size <= row->offset);
  }
}

static int prepare_row(struct fake_edge *edge, const struct effect *effect)
{
  const struct tensor *tensor = effect->tensor;
  const struct fake_segment *segment = find_segment(edge, tensor->block->segment->id);
  struct fake_row *row = make(sizeof(*row));

  REQUIRE(effect->row != 0 && !find_row(edge, effect->row));
  REQUIRE(tensor->row == effect->row && tensor->version == effect->version);
  REQUIRE(effect->segment == tensor->block->segment->id);
  REQUIRE(tensor->entry->key.path[0] != '\0');
  REQUIRE(segment && segment->is_sealed);
  REQUIRE(tensor->block->offset <= segment->size &&
          tensor->size <= segment->size - tensor->block->offset);
  check_is_unused(edge, tensor);
  row->offset = tensor->block->offset;
  row->size = tensor->size;
  row->number = effect->row;
  row->version = effect->version;
  row->segment = segment->id;
  dlp_list_append(&edge->rows, &row->link);
  return 0;
}

static int make_live(struct fake_edge *edge, const struct effect *effect)
{
  size_t n = 0;

  dlp_list_for_each (link, &edge->rows) {
    struct fake_row *row = DLP_CONTAINER(link, struct fake_row, link);
    if (row->version != effect->version)
      continue;
    REQUIRE(!row->is_live);
    row->is_live = true;
    n++;
  }
  REQUIRE(n > 0);
  return 0;
}

static int free_row(struct fake_edge *edge, const struct effect *effect)
{
  struct fake_row *row = find_row(edge, effect->row);

  REQUIRE(row);
  dlp_list_remove(&row->link);
  free(row);
  return 0;
}

static bool fails(struct fake_edge *edge, const struct effect *effect)
{
  if (edge->fail_error == 0 || effect->kind != edge->fail_kind)
    return false;
  return edge->fail_after-- == 0;
}

static int run_effect(struct fake_edge *edge, const struct effect *effect)
{
  static int (*const run[FAKE_EFFECT_KINDS])(struct fake_edge *, const struct effect *) = {
      [EFFECT_SESSION_OPEN] = open_session,     [EFFECT_SESSION_CLOSE] = close_session,
      [EFFECT_SEGMENT_CREATE] = create_segment, [EFFECT_SEGMENT_WRITE] = write_segment,
      [EFFECT_SEGMENT_CHECK] = check_segment,   [EFFECT_SEGMENT_SEAL] = seal_segment,
      [EFFECT_SEGMENT_DROP] = drop_segment,     [EFFECT_ROW_PREPARE] = prepare_row,
      [EFFECT_COMMIT_LIVE] = make_live,         [EFFECT_ROW_FREE] = free_row,
  };
  int r;

  if (fails(edge, effect)) {
    r = edge->fail_error;
    edge->fail_error = 0;
    return r;
  }
  r = run[effect->kind](edge, effect);
  if (r == 0)
    edge->n_run[effect->kind]++;
  return r;
}

static void run_plan(struct fake_edge *edge, struct plan *plan)
{
  size_t done = 0;
  int r = 0;

  exempt(edge, true);
  for (; done < plan->n_effects; done++) {
    r = run_effect(edge, &plan->effects[done]);
    if (r != 0)
      break;
  }
  exempt(edge, false);
  broker_plan_done(edge->broker, plan, r, done, &edge->env);
}

static void run_plans(struct fake_edge *edge)
{
  struct plan *plan;

  while ((plan = broker_next_plan(edge->broker))) {
    if (edge->is_holding) {
      struct fake_held *held;
      exempt(edge, true);
      held = make(sizeof(*held));
      held->plan = plan;
      dlp_list_append(&edge->held, &held->link);
      exempt(edge, false);
    } else {
      run_plan(edge, plan);
    }
  }
}

size_t fake_edge_n_held(const struct fake_edge *edge)
{
  size_t n = 0;

  dlp_list_for_each (link, &edge->held)
    n++;
  return n;
}

void fake_edge_complete(struct fake_edge *edge, size_t index)
{
  struct dlp_list *link = edge->held.next;
  struct fake_held *held;
  struct plan *plan;

  while (index-- > 0)
    link = link->next;
  REQUIRE(link != &edge->held);
  held = DLP_CONTAINER(link, struct fake_held, link);
  plan = held->plan;
  dlp_list_remove(link);
  free(held);
  run_plan(edge, plan);
  run_plans(edge);
}

void fake_edge_complete_all(struct fake_edge *edge)
{
  while (!dlp_list_empty(&edge->held))
    fake_edge_complete(edge, 0);
}

/* ---- life ---- */

struct broker_config fake_edge_config(void)
{
  struct broker_config config = {
      .max_bytes = UINT64_C(1) << 40,
      .backend = MSG_BACKEND_MEMFD,
      .default_mode = 0600,
      .session_grace_ms = 1000,
      .seed = 42,
      .daemon_id = "0123456789abcde",
      .boot_id = "boot",
      .host = "host",
      .daemon_version = "0.1",
  };

  config.limits = (struct quota_sum){.of = {[QUOTA_BYTES] = UINT64_C(1) << 40,
                                            [QUOTA_SEGMENTS] = 100000,
                                            [QUOTA_TENSORS] = 1000000,
                                            [QUOTA_LEASES] = 1000000,
                                            [QUOTA_SESSIONS] = 1000,
                                            [QUOTA_HEAP] = UINT64_C(1) << 32}};
  return config;
}

void fake_edge_init(struct fake_edge *edge, const struct broker_config *config)
{
  struct broker_edge functions = {.context = edge, .send = edge_send, .close = edge_close};

  *edge = (struct fake_edge){
      .env = {.steady_us = 1000000,
              .wall_us = UINT64_C(1700000000000000),
              .memory_available = UINT64_C(1) << 40},
      .next_connection = 1,
      .next_request = 1,
  };
  dlp_list_init(&edge->held);
  dlp_list_init(&edge->replies);
  dlp_list_init(&edge->taken);
  dlp_list_init(&edge->connections);
  dlp_list_init(&edge->sessions);
  dlp_list_init(&edge->segments);
  dlp_list_init(&edge->rows);
  REQUIRE(broker_new(&edge->broker, config, &functions) == 0);
}

static void free_reply(struct fake_reply *reply)
{
  dlp_list_remove(&reply->link);
  codec_reply_deinit(&reply->decoded);
  free(reply->attachments);
  free(reply);
}

static void free_all(struct dlp_list *list)
{
  dlp_list_for_each (link, list) {
    dlp_list_remove(link);
    free(link); /* the link comes first in all of the model's structs */
  }
}

void fake_edge_deinit(struct fake_edge *edge)
{
  if (!edge->broker)
    return;
  exempt(edge, true);
  edge->is_holding = false;
  fake_edge_complete_all(edge);
  run_plans(edge);
  dlp_list_for_each (link, &edge->connections) {
    struct fake_connection *connection = DLP_CONTAINER(link, struct fake_connection, link);
    free(connection->unanswered);
    free(connection->close_reason);
  }
  edge->broker = broker_free(edge->broker);
  dlp_list_for_each (link, &edge->replies)
    free_reply(DLP_CONTAINER(link, struct fake_reply, link));
  fake_edge_forget_replies(edge);
  free_all(&edge->connections);
  dlp_list_for_each (link, &edge->sessions)
    free_pages(DLP_CONTAINER(link, struct fake_session, link));
  free_all(&edge->sessions);
  free_all(&edge->segments);
  free_all(&edge->rows);
  exempt(edge, false);
}

/* ---- inputs ---- */

uint64_t fake_edge_connect(struct fake_edge *edge, const struct broker_peer *peer)
{
  struct broker_peer with_token = *peer;
  struct fake_connection *connection;
  uint64_t id = edge->next_connection++;

  exempt(edge, true);
  memcpy(with_token.fresh_token, &id, sizeof(id));
  connection = make(sizeof(*connection));
  connection->id = id;
  connection->is_open = true;
  dlp_list_append(&edge->connections, &connection->link);
  exempt(edge, false);
  if (broker_connect(edge->broker, id, &with_token, &edge->env) == 0)
    return id;
  connection->is_open = false;
  return 0;
}

void fake_edge_disconnect(struct fake_edge *edge, uint64_t id)
{
  struct fake_connection *connection = find_connection(edge, id);

  connection->is_open = false;
  broker_disconnect(edge->broker, id, false, &edge->env);
  run_plans(edge);
}

bool fake_edge_is_open(const struct fake_edge *edge, uint64_t id)
{
  const struct fake_connection *connection = find_connection(edge, id);

  return connection && connection->is_open;
}

const char *fake_edge_close_reason(const struct fake_edge *edge, uint64_t id)
{
  return find_connection(edge, id)->close_reason;
}

void fake_edge_request(struct fake_edge *edge, uint64_t id, const struct msg_request *request)
{
  struct fake_connection *connection = find_connection(edge, id);

  REQUIRE(connection);
  if (!connection->is_open)
    return;
  exempt(edge, true);
  if (request->id != 0 && request->id != connection->spanning)
    expect_answer(connection, request->id);
  if (request->type == MSG_GET)
    connection->spanning = request->u.get.more ? request->id : 0;
  exempt(edge, false);
  broker_request(edge->broker, id, request, &edge->env);
  run_plans(edge);
}

void fake_edge_unknown_request(struct fake_edge *edge, uint64_t id, uint64_t request)
{
  struct fake_connection *connection = find_connection(edge, id);

  if (request != 0)
    expect_answer(connection, request);
  broker_unknown_request(edge->broker, id, request, &edge->env);
  run_plans(edge);
}

void fake_edge_die(struct fake_edge *edge, uint64_t session)
{
  broker_session_died(edge->broker, session, &edge->env);
  run_plans(edge);
}

void fake_edge_advance(struct fake_edge *edge, uint64_t ms)
{
  edge->env.steady_us += ms * 1000;
  edge->env.wall_us += ms * 1000;
  broker_tick(edge->broker, &edge->env);
  run_plans(edge);
}

/* ---- looking ---- */

const struct fake_reply *fake_edge_take_reply(struct fake_edge *edge, uint64_t connection)
{
  struct fake_reply *reply = FIND(&edge->replies, struct fake_reply, connection, connection);

  if (!reply)
    return NULL;
  dlp_list_remove(&reply->link);
  dlp_list_append(&edge->taken, &reply->link);
  return reply;
}

void fake_edge_forget_replies(struct fake_edge *edge)
{
  dlp_list_for_each (link, &edge->taken)
    free_reply(DLP_CONTAINER(link, struct fake_reply, link));
}

size_t fake_edge_n_unanswered(const struct fake_edge *edge, uint64_t id)
{
  const struct fake_connection *connection = find_connection(edge, id);

  return connection->n_unanswered;
}

struct counter_query {
  const char *name;
  uint64_t value;
  bool is_found;
};

static void see_counter(void *context, const char *name, uint64_t value)
{
  struct counter_query *query = context;

  if (strcmp(name, query->name) != 0)
    return;
  query->value = value;
  query->is_found = true;
}

uint64_t fake_edge_counter(const struct fake_edge *edge, const char *name)
{
  struct counter_query query = {.name = name};

  broker_counters(edge->broker, see_counter, &query);
  REQUIRE(query.is_found);
  return query.value;
}

static size_t count(const struct dlp_list *list)
{
  size_t n = 0;

  dlp_list_for_each (link, list)
    n++;
  return n;
}

void fake_edge_check(const struct fake_edge *edge)
{
  size_t n_sessions = 0, n_open = 0;

  dlp_list_for_each (link, &edge->connections)
    n_open += DLP_CONTAINER(link, struct fake_connection, link)->is_open;
  REQUIRE(fake_edge_counter(edge, "connections") == n_open);
  if (!dlp_list_empty(&edge->held))
    return;
  dlp_list_for_each (link, &edge->sessions)
    n_sessions += DLP_CONTAINER(link, struct fake_session, link)->state == FAKE_SESSION_OPEN;
  dlp_list_for_each (link, &edge->rows)
    REQUIRE(DLP_CONTAINER(link, struct fake_row, link)->is_live);
  REQUIRE(fake_edge_counter(edge, "sessions") == n_sessions);
  REQUIRE(fake_edge_counter(edge, "segments") == count(&edge->segments));
  REQUIRE(fake_edge_counter(edge, "tensors") + fake_edge_counter(edge, "tensors_retired") ==
          count(&edge->rows));
  if (n_sessions == 0) {
    REQUIRE(fake_edge_counter(edge, "leases") == 0);
    REQUIRE(fake_edge_counter(edge, "tensors_retired") == 0);
    REQUIRE(fake_edge_counter(edge, "tensors") == fake_edge_counter(edge, "tensors_persistent"));
  }
  if (n_sessions == 0 && n_open == 0 && fake_edge_counter(edge, "tensors") == 0) {
    REQUIRE(fake_edge_counter(edge, "segments") == fake_edge_counter(edge, "warm_segments"));
    REQUIRE(fake_edge_counter(edge, "bytes") == fake_edge_counter(edge, "warm_bytes"));
    REQUIRE(broker_is_idle(edge->broker));
  }
  if (n_sessions == 0 && n_open == 0 && fake_edge_counter(edge, "tensors") == 0 &&
      fake_edge_counter(edge, "warm_segments") == 0) {
    REQUIRE(fake_edge_counter(edge, "segments") == 0);
    REQUIRE(fake_edge_counter(edge, "bytes") == 0);
    REQUIRE(fake_edge_counter(edge, "heap") == 0);
    REQUIRE(broker_is_idle(edge->broker));
  }
}

void fake_edge_end_all(struct fake_edge *edge)
{
  edge->is_holding = false;
  fake_edge_complete_all(edge);
  dlp_list_for_each (link, &edge->connections) {
    struct fake_connection *connection = DLP_CONTAINER(link, struct fake_connection, link);
    if (connection->is_open)
      fake_edge_disconnect(edge, connection->id);
  }
  dlp_list_for_each (link, &edge->sessions)
    fake_edge_die(edge, DLP_CONTAINER(link, struct fake_session, link)->id);
  fake_edge_check(edge);
}

void fake_edge_hold(struct fake_edge *edge, uint64_t session, uint32_t cell, uint64_t word)
{
  atomic_store(&find_session(edge, session)->holds->cells[cell], word);
}

uint64_t fake_edge_grant(const struct fake_edge *edge, uint64_t session, uint32_t cell)
{
  return atomic_load(&find_session(edge, session)->pages.grants->cells[cell]);
}
