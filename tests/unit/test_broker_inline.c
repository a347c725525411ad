/* PUBLISH with the bytes inside: small tensors in slabs that the daemon writes. */

#include "support/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "support/fake_peer.h"

#define SIZE 100

static uint8_t bytes[DLP_INLINE_MAX];

struct put {
  struct msg_publish publish;
  struct msg_add add;
  int64_t shape;
};

static struct put *put_init(struct put *put, const char *path, uint64_t size)
{
  const struct msg_place place = {.size = size};

  *put = (struct put){.publish = {.commit = true,
                                  .lifetime = MSG_LIFETIME_PERSISTENT,
                                  .gid = MSG_OWNER_SELF,
                                  .n_adds = 1,
                                  .adds = &put->add}};
  put->add = fake_add(path, &place, &put->shape);
  put->add.payload = bytes;
  return put;
}

static const struct msg_reply *try_put(struct service *s, uint64_t peer, const char *path,
                                       uint64_t size)
{
  struct put put;

  return fake_peer_publish(&s->edge, peer, &put_init(&put, path, size)->publish);
}

static struct msg_place put_and_get(struct service *s, uint64_t peer, const struct put *put)
{
  const struct msg_reply *reply = fake_peer_publish(&s->edge, peer, &put->publish);

  assert_int_equal(reply->type, MSG_PUBLISHED);
  reply = fake_peer_stat(&s->edge, peer, MSG_OWNER_SELF, put->add.name.path);
  assert_int_equal(reply->type, MSG_LISTED);
  return reply->u.listed.tensors[0].place;
}

static struct msg_place put_one(struct service *s, uint64_t peer, const char *path)
{
  struct put put;

  return put_and_get(s, peer, put_init(&put, path, SIZE));
}

static void nothing_is_left(struct service *s)
{
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 0);
  fake_edge_advance(&s->edge, FAKE_WARM_MS);
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 0);
  assert_int_equal(fake_edge_counter(&s->edge, "bytes"), 0);
  fake_edge_check(&s->edge);
}

static void tensor_that_comes_inline_is_there_after_one_request(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;

  bytes[3] = 77;
  (void)put_one(s, s->alice, "w");
  assert_int_equal(s->edge.last_written, 77);
  bytes[3] = 0;
  reply = fake_peer_get(&s->edge, s->alice, ALICE, "w");
  assert_int_equal(reply->type, MSG_GRANTED);
  assert_int_equal(reply->u.granted.grants[0].tensor.place.size, SIZE);
  assert_int_equal(reply->u.granted.grants[0].tensor.lifetime, MSG_LIFETIME_PERSISTENT);
}

static void tensor_without_bytes_may_come_inline(void **state)
{
  struct service *s = *state;

  assert_int_equal(try_put(s, s->alice, "w", 0)->type, MSG_PUBLISHED);
  assert_int_equal(s->edge.n_run[EFFECT_SEGMENT_WRITE], 0);
}

static void many_short_lived_producers_share_a_slab(void **state)
{
  struct service *s = *state;

  for (size_t i = 0; i < 100; i++) {
    uint64_t peer = fake_peer_connect(&s->edge, ALICE);
    char path[32];
    (void)snprintf(path, sizeof(path), "n/%zu", i);
    (void)put_one(s, peer, path);
    fake_edge_die(&s->edge, fake_peer_session(&s->edge, peer));
    fake_edge_forget_replies(&s->edge);
  }
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 1);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 100);
}

static void slabs_are_of_one_user_and_one_domain(void **state)
{
  struct service *s = *state;
  struct put group, session;
  struct msg_place places[4];

  put_init(&group, "group", SIZE)->publish.mode = 0640;
  put_init(&session, "session", SIZE)->publish.lifetime = MSG_LIFETIME_SESSION;
  places[0] = put_one(s, s->alice, "w");
  places[1] = put_one(s, s->bob, "w");
  places[2] = put_and_get(s, s->alice, &group);
  places[3] = put_and_get(s, s->alice, &session);
  for (size_t i = 0; i < 4; i++)
    for (size_t j = 0; j < i; j++)
      assert_int_not_equal(places[i].segment, places[j].segment);
}

static void place_in_a_slab_is_used_again(void **state)
{
  struct service *s = *state;
  struct msg_place first = put_one(s, s->alice, "w");

  (void)put_one(s, s->alice, "w");
  assert_int_equal(put_one(s, s->alice, "w").offset, first.offset);
  assert_int_equal(fake_edge_counter(&s->edge, "bytes"), 512);
}

static void tensor_of_a_session_goes_with_it_and_the_slab_stays(void **state)
{
  struct service *s = *state;
  struct put put;
  uint64_t peer = fake_peer_connect(&s->edge, ALICE);

  put_init(&put, "mine", SIZE)->publish.lifetime = MSG_LIFETIME_SESSION;
  (void)put_and_get(s, s->alice, &put);
  put.add.name.path = "its";
  (void)put_and_get(s, peer, &put);
  fake_edge_die(&s->edge, fake_peer_session(&s->edge, peer));
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 1);
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 1);
  fake_edge_die(&s->edge, fake_peer_session(&s->edge, s->alice));
  nothing_is_left(s);
}

static void slab_is_nobodys_to_fill_or_free(void **state)
{
  struct service *s = *state;
  struct msg_place place = put_one(s, s->alice, "w");
  struct msg_request request = {.type = MSG_FREE, .u.free = {1, &place}};
  int64_t shape;
  struct msg_add add = fake_add("again", &place, &shape);

  assert_int_equal(
      fake_peer_publish(&s->edge, s->alice,
                        &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add})
          ->status,
      DLP_STATUS_INVALID);
  fake_peer_send(&s->edge, s->alice, &request);
  assert_false(fake_edge_is_open(&s->edge, s->alice));
}

static void publication_says_who_may_read_and_is_checked(void **state)
{
  static const struct {
    uint32_t lifetime, mode, gid;
    enum dlp_status status;
  } cases[] = {
      {0, 0, ALICE, DLP_STATUS_INVALID},    {4, 0, ALICE, DLP_STATUS_INVALID},
      {1, 0700, ALICE, DLP_STATUS_INVALID}, {1, 0640, GROUP_OF_BOB, DLP_STATUS_DENIED},
      {3, 0, ALICE, DLP_STATUS_INVALID}, /* a time to live of 0 */
  };
  struct service *s = *state;
  struct put put;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    put_init(&put, "w", SIZE);
    put.publish.lifetime = cases[i].lifetime;
    put.publish.mode = cases[i].mode;
    put.publish.gid = cases[i].gid;
    assert_int_equal(fake_peer_publish(&s->edge, s->alice, &put.publish)->status, cases[i].status);
    nothing_is_left(s);
  }
  put_init(&put, "w", SIZE)->publish.mode = 0600;
  (void)put_and_get(s, s->alice, &put);
  assert_int_equal(fake_peer_get(&s->edge, s->bob, ALICE, "w")->status, DLP_STATUS_NOT_FOUND);
}

static void names_of_others_are_not_published_to(void **state)
{
  struct service *s = *state;
  struct put put;

  put_init(&put, "w", SIZE)->add.name.owner = BOB;
  assert_int_equal(fake_peer_publish(&s->edge, s->alice, &put.publish)->status, DLP_STATUS_DENIED);
  nothing_is_left(s);
}

static void bytes_and_layout_must_agree(void **state)
{
  struct service *s = *state;
  struct put put;

  put_init(&put, "w", SIZE)->shape = SIZE + 1;
  assert_int_equal(fake_peer_publish(&s->edge, s->alice, &put.publish)->status, DLP_STATUS_LAYOUT);
  put_init(&put, "w", SIZE)->add.freeze = true;
  assert_int_equal(fake_peer_publish(&s->edge, s->alice, &put.publish)->status, DLP_STATUS_INVALID);
  nothing_is_left(s);
}

static void publisher_pays_for_bytes_segment_and_waiting_bytes(void **state)
{
  static const struct {
    enum quota_slot slot;
    uint64_t limit;
    const char *word;
  } cases[] = {
      {QUOTA_BYTES, SIZE, "bytes"}, {QUOTA_SEGMENTS, 0, "segments"}, {QUOTA_HEAP, 8192, "heap"}};
  struct service *s = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    struct quota_sum limits = s->config.limits;
    const struct msg_reply *reply;
    s->config.limits.of[cases[i].slot] = cases[i].limit;
    service_restart(s);
    reply = try_put(s, s->alice, "w", 16384);
    assert_int_equal(reply->status, DLP_STATUS_QUOTA);
    assert_non_null(strstr(reply->message, cases[i].word));
    nothing_is_left(s);
    s->config.limits = limits;
  }
}

static void failure_of_any_effect_leaves_nothing(void **state)
{
  static const enum effect_kind kinds[] = {EFFECT_SEGMENT_CREATE, EFFECT_SEGMENT_SEAL,
                                           EFFECT_SEGMENT_WRITE, EFFECT_ROW_PREPARE,
                                           EFFECT_COMMIT_LIVE};
  struct service *s = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(kinds); i++) {
    s->edge.fail_error = -ENOMEM;
    s->edge.fail_kind = kinds[i];
    s->edge.fail_after = 0;
    assert_int_equal(try_put(s, s->alice, "w", SIZE)->status, DLP_STATUS_NO_SPACE);
    assert_int_equal(s->edge.fail_error, 0);
    nothing_is_left(s);
  }
  assert_int_equal(try_put(s, s->alice, "w", SIZE)->type, MSG_PUBLISHED);
}

static void nothing_shows_before_all_of_it_is_written(void **state)
{
  struct service *s = *state;
  struct put puts[2];
  struct msg_add adds[2];

  for (size_t i = 0; i < 2; i++) {
    put_init(&puts[i], i ? "b" : "a", SIZE);
    adds[i] = puts[i].add;
  }
  puts[0].publish.n_adds = 2;
  puts[0].publish.adds = adds;
  s->edge.is_holding = true;
  assert_null(fake_peer_publish(&s->edge, s->alice, &puts[0].publish));
  assert_int_equal(fake_peer_get(&s->edge, s->alice, ALICE, "a")->status, DLP_STATUS_NOT_FOUND);
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  assert_int_equal(fake_peer_take(&s->edge, s->alice)->type, MSG_PUBLISHED);
  assert_int_equal(fake_peer_get(&s->edge, s->alice, ALICE, "a")->type, MSG_GRANTED);
  assert_int_equal(fake_peer_get(&s->edge, s->alice, ALICE, "b")->type, MSG_GRANTED);
}

static void two_that_commit_at_once_do_not_meet(void **state)
{
  struct service *s = *state;
  struct put put;

  s->edge.is_holding = true;
  assert_null(fake_peer_publish(&s->edge, s->alice, &put_init(&put, "a", SIZE)->publish));
  assert_null(fake_peer_publish(&s->edge, s->alice, &put_init(&put, "b", SIZE)->publish));
  fake_edge_complete(&s->edge, 1);
  fake_edge_complete(&s->edge, 0);
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  assert_int_equal(fake_peer_get(&s->edge, s->bob, ALICE, "a")->status, DLP_STATUS_NOT_FOUND);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 2);
  fake_edge_check(&s->edge);
}

static void client_that_dies_meanwhile_leaves_what_it_committed(void **state)
{
  struct service *s = *state;
  struct put put;

  s->edge.is_holding = true;
  assert_null(fake_peer_publish(&s->edge, s->alice, &put_init(&put, "w", SIZE)->publish));
  fake_edge_die(&s->edge, fake_peer_session(&s->edge, s->alice));
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 1);
  fake_edge_check(&s->edge);
}

static void publication_that_is_given_up_leaves_nothing(void **state)
{
  struct service *s = *state;
  struct put put;
  struct msg_request abort = {.type = MSG_ABORT, .u.abort = {.key = 5}};

  put_init(&put, "w", SIZE);
  put.publish.key = 5;
  put.publish.commit = false;
  assert_int_equal(fake_peer_publish(&s->edge, s->alice, &put.publish)->type, MSG_PUBLISHED);
  assert_int_equal(fake_peer_call(&s->edge, s->alice, &abort)->status, DLP_STATUS_OK);
  nothing_is_left(s);
}

static void inline_and_allotted_tensors_go_together(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, SIZE);
  struct put put;
  int64_t shape;
  struct msg_add adds[2];

  put_init(&put, "inline", SIZE);
  adds[0] = put.add;
  adds[1] = fake_add("allotted", &place, &shape);
  put.publish.n_adds = 2;
  put.publish.adds = adds;
  put.publish.ttl_ms = 0;
  assert_int_equal(fake_peer_publish(&s->edge, s->alice, &put.publish)->type, MSG_PUBLISHED);
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 2);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, service_setup, service_teardown)

static const struct CMUnitTest tests[] = {
    CASE(tensor_that_comes_inline_is_there_after_one_request),
    CASE(tensor_without_bytes_may_come_inline),
    CASE(many_short_lived_producers_share_a_slab),
    CASE(slabs_are_of_one_user_and_one_domain),
    CASE(place_in_a_slab_is_used_again),
    CASE(tensor_of_a_session_goes_with_it_and_the_slab_stays),
    CASE(slab_is_nobodys_to_fill_or_free),
    CASE(publication_says_who_may_read_and_is_checked),
    CASE(names_of_others_are_not_published_to),
    CASE(bytes_and_layout_must_agree),
    CASE(publisher_pays_for_bytes_segment_and_waiting_bytes),
    CASE(failure_of_any_effect_leaves_nothing),
    CASE(nothing_shows_before_all_of_it_is_written),
    CASE(two_that_commit_at_once_do_not_meet),
    CASE(client_that_dies_meanwhile_leaves_what_it_committed),
    CASE(publication_that_is_given_up_leaves_nothing),
    CASE(inline_and_allotted_tensors_go_together),
};

TEST_MAIN(tests)
