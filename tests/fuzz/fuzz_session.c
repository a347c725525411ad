/*
 * Any sequence of events against the whole service: several connections of several
 * users, requests whose fields are drawn from small sets so that they often hit what
 * is there, plans kept back and finished in any order, effects that fail, clients
 * that hang up, processes that die, time that passes.
 *
 * The fake edge aborts when a rule is broken. After every event its model and the
 * broker's counters agree; at the end nothing is left.
 */

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "support/fake_edge.h"

#define N_USERS 3
#define N_CONNECTIONS 6
#define N_PLACES 16
#define N_CELLS 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
  const uint8_t *data;
  size_t size;
};

struct lease {
  uint32_t cell;
  uint64_t version;
};

struct player {
  uint64_t connection; /* 0: none */
  struct msg_place places[N_PLACES];
  size_t n_places;
  struct lease leases[N_CELLS];
  size_t n_leases;
  uint8_t token[DLP_TOKEN_SIZE];
  uint64_t session;
  uint64_t spanning; /* id of a GET whose packets are not all sent; 0: none */
};

static struct fake_edge edge;
static struct player players[N_CONNECTIONS];

static uint8_t take(struct input *input)
{
  if (input->size == 0)
    return 0;
  input->size--;
  return *input->data++;
}

static uint32_t pick(struct input *input, uint32_t n)
{
  return take(input) % n;
}

static bool often(struct input *input)
{
  return pick(input, 8) != 0;
}

/* ---- fields from small sets ---- */

static const char *pick_path(struct input *input)
{
  static const char *const paths[] = {"a", "a/b", "a/b/c", "b", "ab", "z/1", "z/2", "z/3"};
  static const char *const bad[] = {"", "/", "a//b", "..", "@x", "~x", "\x01", "a/"};

  return often(input) ? paths[pick(input, 8)] : bad[pick(input, 8)];
}

static const char *pick_prefix(struct input *input)
{
  static const char *const prefixes[] = {"", "a", "a/", "z/", "a/b", "zz", "..", "/"};

  return prefixes[pick(input, 8)];
}

static uint32_t pick_owner(struct input *input)
{
  static const uint32_t owners[] = {
      MSG_OWNER_SELF, MSG_OWNER_SELF, MSG_OWNER_SELF, 1000, 1001, 1002, 0, MSG_LIST_ALL_OWNERS};

  return owners[pick(input, 8)];
}

static uint64_t pick_size(struct input *input)
{
  static const uint64_t sizes[] = {64, 0, 1, 4096, UINT64_MAX, 1ull << 24, 1ull << 46, 300};

  return often(input) ? 64 : sizes[pick(input, 8)];
}

static uint64_t pick_number(struct input *input)
{
  static const uint64_t numbers[] = {0, 1, 2, 63, 64, 65, UINT64_MAX, UINT64_MAX - 63};

  return numbers[pick(input, 8)];
}

static uint32_t pick_timeout(struct input *input)
{
  static const uint32_t timeouts[] = {0, 0, 1, 1000, DLP_TIMEOUT_NEVER, DLP_TIMEOUT_NEVER - 1};

  return timeouts[pick(input, 6)];
}

static struct msg_name pick_name(struct input *input)
{
  uint32_t owner = pick_owner(input);

  return (struct msg_name){owner, pick_path(input)};
}

static struct msg_place pick_place(struct input *input, const struct player *player)
{
  struct msg_place place = {.size = 64};

  if (often(input) && player->n_places > 0)
    return player->places[pick(input, (uint32_t)player->n_places)];
  place.segment = pick_number(input);
  place.offset = pick_number(input);
  place.size = pick_number(input);
  place.first = pick_number(input);
  return place;
}

/* ---- what clients learn from answers ---- */

static void learn(struct player *player, const struct msg_reply *reply)
{
  if (reply->type == MSG_WELCOME) {
    memcpy(player->token, reply->u.welcome.token, DLP_TOKEN_SIZE);
    player->session = reply->u.welcome.session;
  } else if (reply->type == MSG_ALLOCATED) {
    for (size_t i = 0; i < reply->u.allocated.n_places; i++)
      player->places[player->n_places++ % N_PLACES] = reply->u.allocated.places[i];
    if (player->n_places > N_PLACES)
      player->n_places = N_PLACES;
  } else if (reply->type == MSG_GRANTED) {
    for (size_t i = 0; i < reply->u.granted.n_grants; i++) {
      const struct msg_grant *grant = &reply->u.granted.grants[i];
      if (player->n_leases < N_CELLS)
        player->leases[player->n_leases++] = (struct lease){grant->cell, grant->tensor.version};
    }
  }
}

static void learn_all(void)
{
  for (size_t i = 0; i < N_CONNECTIONS; i++) {
    const struct fake_reply *reply;

    while (players[i].connection && (reply = fake_edge_take_reply(&edge, players[i].connection)))
      learn(&players[i], reply->msg);
  }
  fake_edge_forget_replies(&edge);
}

/* ---- requests ---- */

static void send(struct player *player, struct msg_request *request)
{
  static const bool one_way[] = {
      [MSG_FREE] = true, [MSG_RELEASE] = true, [MSG_FORGET] = true, [MSG_STATS] = false};

  if (request->id == 0 && !one_way[request->type])
    request->id = edge.next_request++;
  fake_edge_request(&edge, player->connection, request);
}

static void hello(struct input *input, struct player *player)
{
  struct msg_request request = {.type = MSG_HELLO};
  const struct player *other = &players[pick(input, N_CONNECTIONS)];

  request.u.hello.major = often(input) ? DLP_PROTOCOL_MAJOR : pick(input, 3);
  request.u.hello.client_name = "";
  request.u.hello.token = pick(input, 2) ? other->token : NULL;
  send(player, &request);
}

static void allocate(struct input *input, struct player *player)
{
  static const uint32_t modes[] = {0, 0, 0600, 0644, 0666, 0660, 0777, 0004};
  struct msg_request request = {.type = MSG_ALLOCATE};
  struct msg_block blocks[4];
  struct msg_allocate *message = &request.u.allocate;

  message->owner = often(input) ? MSG_OWNER_SELF : pick_owner(input);
  message->lifetime = often(input) ? 1 + pick(input, 3) : pick(input, 6);
  message->mode = modes[pick(input, 8)];
  message->gid = often(input) ? MSG_OWNER_SELF : pick(input, 3);
  message->backend = often(input) ? 0 : pick(input, 4);
  message->is_mutable = pick(input, 8) == 0;
  message->n_blocks = often(input) ? 1 + pick(input, 3) : pick(input, 5);
  message->blocks = blocks;
  for (size_t i = 0; i < message->n_blocks; i++) {
    blocks[i].size = pick_size(input);
    blocks[i].flags = pick(input, 4);
  }
  send(player, &request);
}

static void publish(struct input *input, struct player *player)
{
  struct msg_request request = {.type = MSG_PUBLISH};
  struct msg_add adds[3];
  static const uint8_t payload[4096];
  int64_t shapes[3], strides[3];
  struct msg_attribute attribute = {"k", "v"};
  struct msg_publish *message = &request.u.publish;

  message->key = pick(input, 2) ? edge.next_request : pick(input, 4);
  message->commit = often(input);
  message->ttl_ms = often(input) ? 1000 : pick_number(input);
  message->lifetime = often(input) ? 1 + pick(input, 3) : pick(input, 6);
  message->mode = pick(input, 4) ? 0 : 0666;
  message->gid = often(input) ? MSG_OWNER_SELF : pick(input, 3);
  message->n_adds = pick(input, 4);
  message->adds = adds;
  for (size_t i = 0; i < message->n_adds; i++) {
    struct msg_add *add = &adds[i];

    *add = (struct msg_add){.name = pick_name(input), .place = pick_place(input, player)};
    if (pick(input, 2) && add->place.size <= sizeof(payload))
      add->payload = payload;
    add->keep = pick(input, 4) == 0;
    add->spec = (struct msg_spec){
        .code = often(input) ? 1 : pick(input, 20), .bits = 8, .lanes = 1, .ndim = 1};
    shapes[i] = often(input) ? (int64_t)add->place.size : (int64_t)pick_number(input);
    strides[i] = often(input) ? 1 : (int64_t)pick_number(input);
    add->spec.shape = &shapes[i];
    add->spec.strides = pick(input, 2) ? &strides[i] : NULL;
    add->freeze = pick(input, 8) == 0;
    add->has_expected = pick(input, 8) == 0;
    add->expected = pick_number(input);
    add->n_attributes = pick(input, 2);
    add->attributes = &attribute;
  }
  send(player, &request);
}

static void get(struct input *input, struct player *player)
{
  struct msg_request request = {.type = MSG_GET, .id = player->spanning};
  struct msg_name names[4];
  struct msg_get *message = &request.u.get;

  message->more = !often(input);
  message->by_prefix = !message->more && !player->spanning && pick(input, 4) == 0;
  message->access = often(input) ? MSG_ACCESS_READ : pick(input, 4);
  message->version = often(input) ? 0 : pick_number(input);
  message->newer_than = often(input) ? 0 : edge.env.wall_us;
  message->timeout_ms = pick_timeout(input);
  message->n_names = message->by_prefix ? 1 : pick(input, 5);
  message->names = names;
  for (size_t i = 0; i < message->n_names; i++)
    names[i] = pick_name(input);
  if (message->by_prefix)
    names[0].path = pick_prefix(input);
  if (request.id == 0)
    request.id = edge.next_request++;
  player->spanning = message->more ? request.id : 0;
  send(player, &request);
}

static void release(struct input *input, struct player *player)
{
  struct msg_request request = {.type = MSG_RELEASE};
  static const uint64_t tags[] = {DLP_HOLD_HELD, DLP_HOLD_FREE, DLP_HOLD_RETURNED,
                                  DLP_HOLD_ESCAPED | DLP_HOLD_FREE};
  uint64_t session = broker_connection_session(edge.broker, player->connection);
  uint32_t cell = pick(input, 4);
  uint64_t word = pick_number(input) | tags[pick(input, 4)];

  request.u.release = (struct msg_release){1, &cell};
  if (often(input) && player->n_leases > 0) {
    size_t i = pick(input, (uint32_t)player->n_leases);
    cell = player->leases[i].cell;
    word = player->leases[i].version | tags[pick(input, 4)];
    player->leases[i] = player->leases[--player->n_leases];
  }
  if (session != 0)
    fake_edge_hold(&edge, session, cell, word);
  if (often(input))
    send(player, &request);
}

static void give_back(struct input *input, struct player *player)
{
  struct msg_request request = {.type = MSG_FREE};
  struct msg_place place = pick_place(input, player);

  request.u.free = (struct msg_free){1, &place};
  send(player, &request);
}

static void about_segments(struct input *input, struct player *player)
{
  uint64_t segment = pick(input, 16);
  struct msg_request request = {.type = MSG_FORGET, .u.forget = {1, &segment}};

  if (pick(input, 2)) {
    request.type = MSG_MAP;
    request.u.map = (struct msg_map){segment, pick(input, 4)};
  }
  send(player, &request);
}

static void delete (struct input *input, struct player *player)
{
  struct msg_request request = {.type = MSG_DELETE};

  request.u.del.by_prefix = pick(input, 2);
  request.u.del.name = pick_name(input);
  if (request.u.del.by_prefix)
    request.u.del.name.path = pick_prefix(input);
  request.u.del.version = often(input) ? 0 : pick_number(input);
  send(player, &request);
}

static void look(struct input *input, struct player *player)
{
  struct msg_request request = {.type = MSG_LIST};

  switch (pick(input, 4)) {
  case 0:
    request.u.list = (struct msg_list){.owner = pick_owner(input),
                                       .prefix = pick_prefix(input),
                                       .after = {pick_owner(input), pick(input, 2) ? "" : "a/b"},
                                       .limit = pick(input, 4),
                                       .retired = pick(input, 2)};
    break;
  case 1:
    request.type = MSG_STAT;
    request.u.stat.name = pick_name(input);
    request.u.stat.newer_than = often(input) ? 0 : edge.env.wall_us;
    request.u.stat.timeout_ms = pick_timeout(input);
    break;
  case 2:
    request.type = MSG_WATCH;
    request.u.watch.owner = pick_owner(input);
    request.u.watch.prefix = pick_prefix(input);
    request.u.watch.since = pick_number(input);
    request.u.watch.timeout_ms = pick_timeout(input);
    break;
  default:
    request.type = MSG_STATS;
  }
  send(player, &request);
}

static void other(struct input *input, struct player *player)
{
  static const enum msg_request_type types[] = {MSG_PING, MSG_ABORT, MSG_ABORT, MSG_GOODBYE};
  struct msg_request request = {.type = types[pick(input, 4)]};

  request.u.abort.key = pick(input, 4);
  send(player, &request);
}

/* ---- events ---- */

static void connect(struct input *input, struct player *player)
{
  static const uint32_t groups[] = {2};
  struct broker_peer peer = {.uid = 1000 + pick(input, N_USERS), .gid = 1, .pid = 9};

  if (player->connection && fake_edge_is_open(&edge, player->connection))
    fake_edge_disconnect(&edge, player->connection);
  peer.realm = pick(input, 16) == 0;
  peer.n_groups = pick(input, 2);
  peer.groups = groups;
  player->connection = fake_edge_connect(&edge, &peer);
  player->spanning = 0;
}

static void outside(struct input *input, struct player *player)
{
  static const int errors[] = {-ENOMEM,  -ENOSPC,     -EMFILE, -EBUSY,
                               -ENODATA, -EOPNOTSUPP, -EIO,    -EIO};
  size_t n_held = fake_edge_n_held(&edge);

  switch (pick(input, 8)) {
  case 0:
    edge.is_holding = !edge.is_holding;
    break;
  case 1:
  case 2:
    if (n_held > 0)
      fake_edge_complete(&edge, pick(input, (uint32_t)n_held));
    break;
  case 3:
    edge.fail_error = errors[pick(input, 8)];
    edge.fail_after = pick(input, 4);
    /* What gives back cannot fail. */
    edge.fail_kind =
        (const enum effect_kind[]){EFFECT_SESSION_OPEN,  EFFECT_SEGMENT_CREATE,
                                   EFFECT_SEGMENT_CHECK, EFFECT_SEGMENT_SEAL,
                                   EFFECT_ROW_PREPARE,   EFFECT_COMMIT_LIVE,
                                   EFFECT_SEGMENT_WRITE, EFFECT_COMMIT_LIVE}[pick(input, 8)];
    break;
  case 4:
    if (player->connection && fake_edge_is_open(&edge, player->connection))
      fake_edge_disconnect(&edge, player->connection);
    break;
  case 5:
    if (player->session)
      fake_edge_die(&edge, player->session);
    break;
  case 6:
    fake_edge_advance(&edge, (const uint64_t[]){0, 1, 500, 6000}[pick(input, 4)]);
    break;
  default:
    edge.env.memory_available = pick(input, 2) ? 1ull << 40 : pick_size(input);
  }
}

static void step(struct input *input)
{
  static void (*const requests[])(struct input *, struct player *) = {
      hello, allocate, allocate,  publish,        publish, publish, get,  get,
      get,   release,  give_back, about_segments, delete,  look,    look, other};
  struct player *player = &players[pick(input, N_CONNECTIONS)];
  uint32_t what = pick(input, 24);

  if (what < 16 && player->connection)
    requests[what](input, player);
  else if (what < 22)
    outside(input, player);
  else {
    connect(input, player);
    hello(input, player);
  }
  learn_all();
  fake_edge_check(&edge);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const uint32_t admins[] = {1002};
  struct input input = {data, size};
  struct broker_config config = fake_edge_config();

  config.n_admins = 1;
  config.admins = admins;
  if (pick(&input, 2)) {
    config.max_bytes = 1 << 20;
    config.limits = (struct quota_sum){.of = {[QUOTA_BYTES] = 1 << 16,
                                              [QUOTA_SEGMENTS] = 6,
                                              [QUOTA_TENSORS] = 6,
                                              [QUOTA_LEASES] = 6,
                                              [QUOTA_SESSIONS] = 4,
                                              [QUOTA_HEAP] = 20000}};
  }
  fake_edge_init(&edge, &config);
  memset(players, 0, sizeof(players));
  for (size_t i = 0; i < 3; i++) {
    connect(&input, &players[i]);
    hello(&input, &players[i]);
    learn_all();
  }
  for (size_t i = 0; i < 400 && input.size > 0; i++)
    step(&input);
  edge.fail_error = 0;
  fake_edge_end_all(&edge);
  fake_edge_deinit(&edge);
  return 0;
}
