/*
 * Every allocation of the broker fails once, and then for ever: what was asked is
 * refused or its connection closed, nothing crashes, and everything balances.
 */

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/alloc_failure.h"
#include "support/fake_peer.h"

/* A service in which allocations of the edge and of the clients do not count. */
struct fixture {
  struct fake_edge edge;
  uint64_t alice, bob;
};

typedef void (*scenario_fn)(struct fixture *f);

static void start(struct fixture *f)
{
  struct broker_config config = fake_edge_config();

  fake_edge_init(&f->edge, &config);
  f->edge.exempt = alloc_failure_exempt;
  f->alice = fake_peer_connect(&f->edge, ALICE);
  f->bob = fake_peer_connect(&f->edge, BOB);
}

/* Refused for want of memory, and for nothing else; or served; or cut off. */
static bool went_well(struct fixture *f, uint64_t connection, const struct msg_reply *reply)
{
  if (!reply) {
    assert_false(fake_edge_is_open(&f->edge, connection));
    return false;
  }
  if (reply->status != DLP_STATUS_OK)
    assert_int_equal(reply->status, DLP_STATUS_NO_MEMORY);
  return reply->status == DLP_STATUS_OK;
}

static void torture(scenario_fn prepare, scenario_fn scenario)
{
  for (enum alloc_failure_mode mode = ALLOC_FAILURE_ONCE; mode <= ALLOC_FAILURE_FOR_EVER; mode++) {
    bool failed = true;

    for (size_t n = 0; failed; n++) {
      struct fixture f;

      start(&f);
      if (prepare)
        prepare(&f);
      alloc_failure_start(n, mode);
      scenario(&f);
      failed = alloc_failure_stop();
      fake_edge_check(&f.edge);
      fake_edge_end_all(&f.edge);
      fake_edge_deinit(&f.edge);
      assert_true(n < 10000);
    }
  }
}

/* ---- scenarios ---- */

static void join(struct fixture *f)
{
  uint64_t connection = fake_peer_connect_silent(&f->edge, ALICE);

  if (connection)
    (void)went_well(f, connection, fake_peer_hello(&f->edge, connection, NULL));
}

static void join_of_a_member_of_groups(struct fixture *f)
{
  uint64_t connection = fake_peer_connect_silent(&f->edge, BOB);

  if (connection)
    (void)went_well(f, connection, fake_peer_hello(&f->edge, connection, NULL));
}

static void allocate(struct fixture *f)
{
  struct msg_block blocks[] = {{64, 0}, {64, 0}, {64, MSG_BLOCK_OWN_SEGMENT}, {1 << 25, 0}};
  struct msg_allocate request = fake_allocate(blocks, 4);

  (void)went_well(f, f->alice, fake_peer_allocate(&f->edge, f->alice, &request));
}

static void publish(struct fixture *f)
{
  struct msg_block blocks[] = {{64, 0}, {64, MSG_BLOCK_OWN_SEGMENT}};
  struct msg_allocate allocation = fake_allocate(blocks, 2);
  struct msg_attribute attributes[] = {{"k", "v"}, {"a", "b"}};
  struct msg_add adds[2];
  int64_t shapes[2];
  const struct msg_reply *reply;

  allocation.mode = 0644;
  reply = fake_peer_allocate(&f->edge, f->alice, &allocation);
  if (!went_well(f, f->alice, reply))
    return;
  adds[0] = fake_add("a", &reply->u.allocated.places[0], &shapes[0]);
  adds[1] = fake_add("b", &reply->u.allocated.places[1], &shapes[1]);
  adds[0].n_attributes = 2;
  adds[0].attributes = attributes;
  reply = fake_peer_publish(&f->edge, f->alice,
                            &(struct msg_publish){.key = 3, .n_adds = 1, .adds = &adds[0]});
  if (!went_well(f, f->alice, reply))
    return;
  reply = fake_peer_publish(
      &f->edge, f->alice,
      &(struct msg_publish){.key = 3, .commit = true, .n_adds = 1, .adds = &adds[1]});
  (void)went_well(f, f->alice, reply);
}

static void publish_inline(struct fixture *f)
{
  static const char *const paths[] = {"a", "b"};
  static const uint8_t payload[64];
  struct msg_place place = {.size = sizeof(payload)};
  struct msg_add adds[2];
  int64_t shapes[2];
  const struct msg_reply *reply;

  for (size_t i = 0; i < 2; i++) {
    adds[i] = fake_add(paths[i], &place, &shapes[i]);
    adds[i].payload = payload;
  }
  reply = fake_peer_publish(&f->edge, f->alice,
                            &(struct msg_publish){.commit = true,
                                                  .lifetime = MSG_LIFETIME_SESSION,
                                                  .gid = MSG_OWNER_SELF,
                                                  .n_adds = 2,
                                                  .adds = adds});
  (void)went_well(f, f->alice, reply);
}

/* A piece of a block that was given up, and all of it. */
static void allocate_again(struct fixture *f)
{
  struct msg_block blocks[] = {{1024, 0}, {64, 0}};
  struct msg_allocate request = fake_allocate(blocks, 2);
  const struct msg_reply *reply = fake_peer_allocate(&f->edge, f->alice, &request);
  struct msg_request free_first = {.type = MSG_FREE};

  if (!went_well(f, f->alice, reply))
    return;
  free_first.u.free = (struct msg_free){1, reply->u.allocated.places};
  fake_peer_send(&f->edge, f->alice, &free_first);
  blocks[0].size = 512;
  blocks[1].size = 512;
  (void)went_well(f, f->alice, fake_peer_allocate(&f->edge, f->alice, &request));
}

static void put_some(struct fixture *f)
{
  static const char *const paths[] = {"a",   "b",   "m/0", "m/1", "m/2", "m/3",
                                      "m/4", "m/5", "m/6", "m/7", "m/8", "m/9"};

  for (size_t i = 0; i < TEST_ARRAY_SIZE(paths); i++)
    fake_peer_put_with(&f->edge, f->alice, paths[i], MSG_LIFETIME_SESSION, 0644);
}

static void get(struct fixture *f)
{
  const struct msg_reply *reply = fake_peer_get(&f->edge, f->bob, ALICE, "a");

  if (went_well(f, f->bob, reply))
    fake_peer_release(&f->edge, f->bob, reply->u.granted.grants[0].cell,
                      reply->u.granted.grants[0].tensor.version);
  assert_true(fake_edge_is_open(&f->edge, f->bob));
}

static void get_many(struct fixture *f)
{
  struct msg_name prefix = {ALICE, "m/"};
  struct msg_request request = {.type = MSG_GET, .u.get = fake_get(&prefix)};

  request.u.get.by_prefix = true;
  if (!went_well(f, f->bob, fake_peer_call(&f->edge, f->bob, &request)))
    assert_int_equal(fake_edge_counter(&f->edge, "leases"), 0);
}

static void get_spanning_packets(struct fixture *f)
{
  struct msg_name names[] = {{ALICE, "a"}, {ALICE, "b"}, {ALICE, "m/0"}, {ALICE, "m/1"}};
  struct msg_request request = {.type = MSG_GET, .u.get = fake_get(names)};

  request.id = f->edge.next_request++;
  request.u.get.more = true;
  request.u.get.n_names = 3;
  fake_edge_request(&f->edge, f->bob, &request);
  request.u.get.names = names + 3;
  request.u.get.n_names = 1;
  fake_edge_request(&f->edge, f->bob, &request);
  request.u.get.more = false;
  fake_edge_request(&f->edge, f->bob, &request);
  (void)went_well(f, f->bob, fake_peer_take(&f->edge, f->bob));
}

/* The request waits, is woken for nothing, and is woken. */
static void wait(struct fixture *f)
{
  struct msg_name names[] = {{ALICE, "new"}, {ALICE, "newer"}};
  struct msg_request request = {.type = MSG_GET, .u.get = fake_get(names)};
  const struct msg_reply *reply;

  request.u.get.n_names = 2;
  request.u.get.timeout_ms = 1000;
  reply = fake_peer_call(&f->edge, f->bob, &request);
  alloc_failure_exempt(true);
  fake_peer_put_with(&f->edge, f->alice, "other", MSG_LIFETIME_SESSION, 0644);
  fake_edge_advance(&f->edge, 2000);
  alloc_failure_exempt(false);
  if (!reply)
    reply = fake_peer_take(&f->edge, f->bob);
  assert_non_null(reply);
  assert_true(reply->status == DLP_STATUS_TIMEOUT || reply->status == DLP_STATUS_NO_MEMORY);
}

/* Whoever waits is served within the publication of another. */
static void wake(struct fixture *f)
{
  static const char *const paths[] = {"new", "newer"};
  struct msg_name names[] = {{ALICE, "new"}, {ALICE, "newer"}};
  struct msg_request request = {.type = MSG_GET, .u.get = fake_get(names)};

  request.u.get.n_names = 2;
  request.u.get.timeout_ms = 1000;
  alloc_failure_exempt(true);
  fake_peer_start(&f->edge, f->bob, &request);
  alloc_failure_exempt(false);
  for (size_t i = 0; i < 2; i++) {
    struct msg_block block = {.size = 64};
    struct msg_allocate allocation = fake_allocate(&block, 1);
    struct msg_add add;
    int64_t shape;
    const struct msg_reply *reply;

    allocation.mode = 0644;
    reply = fake_peer_allocate(&f->edge, f->alice, &allocation);
    if (!went_well(f, f->alice, reply))
      return;
    add = fake_add(paths[i], &reply->u.allocated.places[0], &shape);
    reply = fake_peer_publish(&f->edge, f->alice,
                              &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add});
    if (!went_well(f, f->alice, reply))
      return;
  }
  (void)went_well(f, f->bob, fake_peer_take(&f->edge, f->bob));
}

static void watch(struct fixture *f)
{
  struct msg_request request = {
      .type = MSG_WATCH,
      .u.watch = {.owner = ALICE, .prefix = "", .since = UINT64_MAX, .timeout_ms = 1000}};
  struct msg_request delete_below = {.type = MSG_DELETE,
                                     .u.del = {.by_prefix = true, .name = {MSG_OWNER_SELF, "m/"}}};
  const struct msg_reply *reply = fake_peer_call(&f->edge, f->bob, &request);

  (void)went_well(f, f->alice, fake_peer_call(&f->edge, f->alice, &delete_below));
  if (!reply)
    reply = fake_peer_take(&f->edge, f->bob);
  (void)went_well(f, f->bob, reply);
}

static void stat_and_list(struct fixture *f)
{
  struct msg_request stat = {.type = MSG_STAT,
                             .u.stat = {.name = {ALICE, "new"}, .timeout_ms = 1000}};
  struct msg_request list = {.type = MSG_LIST,
                             .u.list = {.owner = ALICE, .prefix = "", .after = {.path = ""}}};
  const struct msg_reply *reply = fake_peer_call(&f->edge, f->bob, &stat);

  if (reply)
    assert_int_equal(reply->status, DLP_STATUS_NO_MEMORY);
  assert_int_equal(fake_peer_call(&f->edge, f->alice, &list)->u.listed.n_tensors, 12);
}

/* Giving back needs no memory. */
static void end(struct fixture *f)
{
  uint64_t session = fake_peer_session(&f->edge, f->bob);

  fake_peer_get(&f->edge, f->bob, ALICE, "a");
  fake_peer_delete(&f->edge, f->alice, MSG_OWNER_SELF, "a");
  fake_edge_die(&f->edge, session);
  fake_peer_call(&f->edge, f->alice, &(struct msg_request){.type = MSG_GOODBYE});
  assert_int_equal(fake_edge_counter(&f->edge, "sessions"), 0);
  assert_int_equal(fake_edge_counter(&f->edge, "segments"), 0);
}

/* ---- tests ---- */

static void new_broker_is_refused(void **state)
{
  struct broker_config config = fake_edge_config();
  struct broker_edge edge = {0};
  uint32_t admins[] = {1};
  struct broker *broker;
  int r = -1;

  (void)state;
  config.n_admins = 1;
  config.admins = admins;
  for (size_t n = 0; r != 0; n++) {
    alloc_failure_start(n, ALLOC_FAILURE_ONCE);
    r = broker_new(&broker, &config, &edge);
    (void)alloc_failure_stop();
  }
  broker_free(broker);
}

static void hello_is_refused(void **state)
{
  (void)state;
  torture(NULL, join);
  torture(NULL, join_of_a_member_of_groups);
}

static void allocation_is_refused(void **state)
{
  (void)state;
  torture(NULL, allocate);
  torture(NULL, allocate_again);
}

static void publication_is_refused(void **state)
{
  (void)state;
  torture(NULL, publish);
  torture(put_some, publish);
  torture(NULL, publish_inline);
  torture(put_some, publish_inline);
}

static void get_is_refused(void **state)
{
  (void)state;
  torture(put_some, get);
}

static void get_of_many_is_refused_whole(void **state)
{
  (void)state;
  torture(put_some, get_many);
  torture(put_some, get_spanning_packets);
}

static void waiting_is_refused(void **state)
{
  (void)state;
  torture(NULL, wait);
  torture(put_some, stat_and_list);
}

static void who_is_woken_is_refused_and_who_publishes_is_not(void **state)
{
  (void)state;
  torture(NULL, wake);
}

static void watch_is_refused(void **state)
{
  (void)state;
  torture(put_some, watch);
}

static void giving_back_needs_no_memory(void **state)
{
  (void)state;
  torture(put_some, end);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(new_broker_is_refused),
    cmocka_unit_test(hello_is_refused),
    cmocka_unit_test(allocation_is_refused),
    cmocka_unit_test(publication_is_refused),
    cmocka_unit_test(get_is_refused),
    cmocka_unit_test(get_of_many_is_refused_whole),
    cmocka_unit_test(waiting_is_refused),
    cmocka_unit_test(who_is_woken_is_refused_and_who_publishes_is_not),
    cmocka_unit_test(watch_is_refused),
    cmocka_unit_test(giving_back_needs_no_memory),
};

TEST_MAIN(tests)
