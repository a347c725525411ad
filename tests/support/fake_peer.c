#include "support/fake_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition, const char *what, const struct msg_reply *reply)
{
  if (condition)
    return;
  fprintf(stderr, "%s: status %d: %s\n", what, reply ? (int)reply->status : -1,
          reply && reply->message ? reply->message : "no answer");
  abort();
}

/* ---- the fixture ---- */

void service_start(struct service *service)
{
  fake_edge_init(&service->edge, &service->config);
  service->alice = fake_peer_connect(&service->edge, ALICE);
  service->bob = fake_peer_connect(&service->edge, BOB);
}

int service_setup(void **state)
{
  static const uint32_t admins[] = {ROOT_ADMIN};
  struct service *service = calloc(1, sizeof(*service));

  if (!service)
    return -1;
  service->config = fake_edge_config();
  service->config.n_admins = 1;
  service->config.admins = admins;
  service_start(service);
  *state = service;
  return 0;
}

static void stop(struct service *service)
{
  fake_edge_end_all(&service->edge);
  fake_edge_advance(&service->edge, FAKE_WARM_MS);
  fake_edge_check(&service->edge);
  fake_edge_deinit(&service->edge);
}

int service_teardown(void **state)
{
  stop(*state);
  free(*state);
  return 0;
}

void service_restart(struct service *service)
{
  stop(service);
  service_start(service);
}

/* ---- connections ---- */

uint64_t fake_peer_connect_silent(struct fake_edge *edge, uint32_t uid)
{
  static const uint32_t groups[] = {GROUP_OF_BOB};
  struct broker_peer peer = {.uid = uid, .gid = uid, .pid = 77};

  if (uid == BOB) {
    peer.n_groups = 1;
    peer.groups = groups;
  }
  return fake_edge_connect(edge, &peer);
}

const struct msg_reply *fake_peer_hello(struct fake_edge *edge, uint64_t connection,
                                        const uint8_t *token)
{
  struct msg_request request = {.type = MSG_HELLO};

  request.u.hello = (struct msg_hello){.major = DLP_PROTOCOL_MAJOR,
                                       .minor = DLP_PROTOCOL_MINOR,
                                       .client_name = "test",
                                       .token = token};
  return fake_peer_call(edge, connection, &request);
}

uint64_t fake_peer_connect(struct fake_edge *edge, uint32_t uid)
{
  uint64_t connection = fake_peer_connect_silent(edge, uid);
  const struct msg_reply *reply = fake_peer_hello(edge, connection, NULL);

  require(reply && reply->type == MSG_WELCOME, "hello", reply);
  return connection;
}

uint64_t fake_peer_session(const struct fake_edge *edge, uint64_t connection)
{
  return broker_connection_session(edge->broker, connection);
}

/* ---- requests ---- */

uint64_t fake_peer_start(struct fake_edge *edge, uint64_t connection,
                         const struct msg_request *request)
{
  struct msg_request with_id = *request;

  with_id.id = edge->next_request++;
  fake_edge_request(edge, connection, &with_id);
  return with_id.id;
}

const struct msg_reply *fake_peer_take(struct fake_edge *edge, uint64_t connection)
{
  const struct fake_reply *reply = fake_edge_take_reply(edge, connection);

  return reply ? reply->msg : NULL;
}

const struct msg_reply *fake_peer_call(struct fake_edge *edge, uint64_t connection,
                                       const struct msg_request *request)
{
  (void)fake_peer_start(edge, connection, request);
  return fake_peer_take(edge, connection);
}

void fake_peer_send(struct fake_edge *edge, uint64_t connection, const struct msg_request *request)
{
  fake_edge_request(edge, connection, request);
}

struct msg_allocate fake_allocate(const struct msg_block *blocks, size_t n_blocks)
{
  return (struct msg_allocate){.owner = MSG_OWNER_SELF,
                               .gid = MSG_OWNER_SELF,
                               .lifetime = MSG_LIFETIME_SESSION,
                               .n_blocks = n_blocks,
                               .blocks = blocks};
}

const struct msg_reply *fake_peer_allocate(struct fake_edge *edge, uint64_t connection,
                                           const struct msg_allocate *allocate)
{
  struct msg_request request = {.type = MSG_ALLOCATE, .u.allocate = *allocate};

  return fake_peer_call(edge, connection, &request);
}

struct msg_place fake_peer_block_of(struct fake_edge *edge, uint64_t connection, uint64_t size,
                                    uint32_t lifetime, uint32_t mode)
{
  struct msg_block block = {.size = size};
  struct msg_allocate allocate = fake_allocate(&block, 1);
  const struct msg_reply *reply;

  allocate.lifetime = lifetime;
  allocate.mode = mode;
  reply = fake_peer_allocate(edge, connection, &allocate);
  require(reply && reply->type == MSG_ALLOCATED, "allocate", reply);
  return reply->u.allocated.places[0];
}

struct msg_place fake_peer_block(struct fake_edge *edge, uint64_t connection, uint64_t size)
{
  return fake_peer_block_of(edge, connection, size, MSG_LIFETIME_SESSION, 0);
}

struct msg_add fake_add(const char *path, const struct msg_place *place, int64_t *shape)
{
  *shape = (int64_t)place->size;
  return (struct msg_add){.name = {MSG_OWNER_SELF, path},
                          .spec = {.code = 1, .bits = 8, .lanes = 1, .ndim = 1, .shape = shape},
                          .place = *place};
}

const struct msg_reply *fake_peer_publish(struct fake_edge *edge, uint64_t connection,
                                          const struct msg_publish *publish)
{
  struct msg_request request = {.type = MSG_PUBLISH, .u.publish = *publish};

  if (request.u.publish.key == 0)
    request.u.publish.key = UINT64_C(1) << 40 | edge->next_request;
  return fake_peer_call(edge, connection, &request);
}

uint64_t fake_peer_put_with(struct fake_edge *edge, uint64_t connection, const char *path,
                            uint32_t lifetime, uint32_t mode)
{
  struct msg_place place = fake_peer_block_of(edge, connection, 64, lifetime, mode);
  int64_t shape;
  struct msg_add add = fake_add(path, &place, &shape);
  const struct msg_reply *reply = fake_peer_publish(
      edge, connection,
      &(struct msg_publish){.commit = true, .ttl_ms = 500, .n_adds = 1, .adds = &add});

  require(reply && reply->type == MSG_PUBLISHED, "publish", reply);
  return reply->u.published.version;
}

uint64_t fake_peer_put(struct fake_edge *edge, uint64_t connection, const char *path)
{
  return fake_peer_put_with(edge, connection, path, MSG_LIFETIME_SESSION, 0);
}

struct msg_get fake_get(const struct msg_name *name)
{
  return (struct msg_get){.access = MSG_ACCESS_READ, .n_names = 1, .names = name};
}

const struct msg_reply *fake_peer_get(struct fake_edge *edge, uint64_t connection, uint32_t owner,
                                      const char *path)
{
  struct msg_name name = {owner, path};
  struct msg_request request = {.type = MSG_GET, .u.get = fake_get(&name)};

  return fake_peer_call(edge, connection, &request);
}

void fake_peer_release(struct fake_edge *edge, uint64_t connection, uint32_t cell, uint64_t version)
{
  struct msg_request request = {.type = MSG_RELEASE, .u.release = {1, &cell}};

  fake_edge_hold(edge, fake_peer_session(edge, connection), cell, version | DLP_HOLD_RETURNED);
  fake_peer_send(edge, connection, &request);
}

const struct msg_reply *fake_peer_stat(struct fake_edge *edge, uint64_t connection, uint32_t owner,
                                       const char *path)
{
  struct msg_request request = {.type = MSG_STAT, .u.stat = {.name = {owner, path}}};

  return fake_peer_call(edge, connection, &request);
}

const struct msg_reply *fake_peer_delete(struct fake_edge *edge, uint64_t connection,
                                         uint32_t owner, const char *path)
{
  struct msg_request request = {.type = MSG_DELETE, .u.del = {.name = {owner, path}}};

  return fake_peer_call(edge, connection, &request);
}
