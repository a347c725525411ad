/* PUBLISH and ABORT: what is refused, what is atomic, what a repeated key does. */

#include "support/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fake_peer.h"

static enum dlp_status publish_one(struct service *s, uint64_t connection,
                                   const struct msg_add *add)
{
  const struct msg_reply *reply = fake_peer_publish(
      &s->edge, connection,
      &(struct msg_publish){.commit = true, .ttl_ms = 1000, .n_adds = 1, .adds = add});

  assert_non_null(reply);
  return reply->status;
}

static void assert_version(struct service *s, const char *path, uint64_t version)
{
  const struct msg_reply *reply = fake_peer_stat(&s->edge, s->alice, MSG_OWNER_SELF, path);

  if (version == 0) {
    assert_int_equal(reply->status, DLP_STATUS_NOT_FOUND);
    return;
  }
  assert_int_equal(reply->status, DLP_STATUS_OK);
  assert_int_equal(reply->u.listed.tensors[0].version, version);
}

/* ---- one tensor that is wrong: refused, and its memory is as before ---- */

static void refused_with(struct service *s, const struct msg_add *add, enum dlp_status status)
{
  assert_int_equal(publish_one(s, s->alice, add), status);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 0);
  assert_int_equal(fake_edge_counter(&s->edge, "names"), 0);
  fake_edge_check(&s->edge);
  fake_edge_forget_replies(&s->edge);
}

static void names_that_break_the_grammar_are_refused(void **state)
{
  static const char *const names[] = {
      "",
      "/a",
      "a/",
      "a//b",
      ".",
      "a/../b",
      "@host/a",
      "~bob/a",
      "\x01",
      "a\nb",
      "\x7f",
      "a\xe2\x80\xa8",
      "\xef\xbb\xbf",
      "\xc0\x80",
      "\xff",
  };
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  char component[257], whole[1026];
  int64_t shape;
  struct msg_add add = fake_add("", &place, &shape);

  for (size_t i = 0; i < TEST_ARRAY_SIZE(names); i++) {
    add.name.path = names[i];
    refused_with(s, &add, DLP_STATUS_NAME);
  }
  memset(component, 'a', 256);
  component[256] = '\0';
  add.name.path = component;
  refused_with(s, &add, DLP_STATUS_NAME);
  for (size_t i = 0; i < 1024; i++)
    whole[i] = i % 100 == 99 ? '/' : 'a';
  whole[1024] = '\0';
  add.name.path = whole;
  refused_with(s, &add, DLP_STATUS_NAME);
  add.name.path = "good";
  assert_int_equal(publish_one(s, s->alice, &add), DLP_STATUS_OK);
}

static void dtypes_that_are_not_known_are_refused_by_name(void **state)
{
  static const struct {
    uint32_t code, bits, lanes;
  } dtypes[] = {{0, 0, 1}, {2, 7, 1}, {99, 8, 1}, {2, 32, 0}, {2, 32, 65536}, {UINT32_MAX, 8, 1}};
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);

  for (size_t i = 0; i < TEST_ARRAY_SIZE(dtypes); i++) {
    add.spec.code = dtypes[i].code;
    add.spec.bits = dtypes[i].bits;
    add.spec.lanes = dtypes[i].lanes;
    refused_with(s, &add, DLP_STATUS_DTYPE);
  }
}

static void shapes_that_cannot_be_are_refused(void **state)
{
  static const int64_t shapes[][3] = {
      {-1, 1, 1},
      {INT64_MIN, 1, 1},
      {INT64_MAX, 2, 1},
      {INT64_MAX, INT64_MAX, INT64_MAX},
      {INT64_C(1) << 32, INT64_C(1) << 32, 1},
      {-1, -1, 1},
      {4, 4, 5},
  };
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);

  for (size_t i = 0; i < TEST_ARRAY_SIZE(shapes); i++) {
    add.spec.ndim = 3;
    add.spec.shape = shapes[i];
    refused_with(s, &add, DLP_STATUS_LAYOUT);
  }
}

static void bytes_outside_the_place_are_refused_from_both_ends(void **state)
{
  static const struct {
    int64_t shape, stride;
    uint64_t size, first;
    bool is_good;
  } cases[] = {
      {64, 1, 64, 0, true},
      {64, -1, 64, 63, true},
      {64, 0, 64, 0, true},
      {1, INT64_MAX, 64, 63, true},
      {64, 1, 63, 0, false},
      {65, 1, 64, 0, false},
      {64, 1, 64, 1, false},
      {64, -1, 64, 62, false},
      {64, -1, 64, 64, false},
      {64, 1, 64, UINT64_MAX, false},
      {64, -1, 64, UINT64_MAX, false},
      {64, 2, 64, 0, false},
      {2, INT64_MAX, 64, 0, false},
      {2, INT64_MIN, 64, 63, false},
      {3, INT64_MAX, 64, 0, false},
      {64, 1, 65, 0, false},
      {64, 1, UINT64_MAX, 0, false},
      {64, 1, 0, 0, false},
      {0, 1, 64, 0, false},
      {0, 1, 0, 1, false},
      {0, 1, 0, 0, true},
  };
  struct service *s = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
    int64_t shape;
    struct msg_add add = fake_add("w", &place, &shape);

    shape = cases[i].shape;
    add.spec.strides = &cases[i].stride;
    add.place.size = cases[i].size;
    add.place.first = cases[i].first;
    assert_int_equal(publish_one(s, s->alice, &add),
                     cases[i].is_good ? DLP_STATUS_OK : DLP_STATUS_LAYOUT);
    fake_edge_forget_replies(&s->edge);
  }
}

static void memory_that_is_not_there_is_refused(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  struct msg_place places[] = {
      {.segment = place.segment, .offset = 1, .size = 64},
      {.segment = place.segment, .offset = UINT64_MAX, .size = 64},
      {.segment = place.segment, .offset = UINT64_MAX - 63, .size = 64},
      {.segment = place.segment, .offset = place.offset + 256, .size = 64},
      {.segment = place.segment + 1, .offset = 0, .size = 64},
      {.segment = 0, .offset = 0, .size = 64},
      {.segment = UINT64_MAX, .offset = 0, .size = 64},
  };
  int64_t shape;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(places); i++) {
    struct msg_add add = fake_add("w", &places[i], &shape);
    refused_with(s, &add, DLP_STATUS_INVALID);
  }
}

static void memory_of_another_session_is_refused(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->bob, 64);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);

  refused_with(s, &add, DLP_STATUS_INVALID);
}

static void memory_is_published_once(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add adds[] = {fake_add("a", &place, &shape), fake_add("b", &place, &shape)};
  const struct msg_reply *reply = fake_peer_publish(
      &s->edge, s->alice, &(struct msg_publish){.commit = true, .n_adds = 2, .adds = adds});

  assert_int_equal(reply->status, DLP_STATUS_INVALID);
  assert_version(s, "a", 0);
  assert_int_equal(publish_one(s, s->alice, &adds[0]), DLP_STATUS_OK);
  assert_int_equal(publish_one(s, s->alice, &adds[1]), DLP_STATUS_INVALID);
}

static void memory_for_another_owners_names_is_refused(void **state)
{
  struct service *s = *state;
  struct msg_block block = {.size = 64};
  struct msg_allocate allocate = fake_allocate(&block, 1);
  struct msg_place place;
  int64_t shape;
  struct msg_add add;

  allocate.owner = BOB;
  place = fake_peer_allocate(&s->edge, s->alice, &allocate)->u.allocated.places[0];
  add = fake_add("w", &place, &shape);
  refused_with(s, &add, DLP_STATUS_INVALID);
}

static void only_immutable_tensors_with_their_own_segment_freeze(void **state)
{
  struct service *s = *state;
  struct msg_block block = {.size = 64, .flags = MSG_BLOCK_OWN_SEGMENT};
  struct msg_allocate allocate = fake_allocate(&block, 1);
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);

  add.freeze = true;
  refused_with(s, &add, DLP_STATUS_INVALID);
  allocate.is_mutable = true;
  add.place = fake_peer_allocate(&s->edge, s->alice, &allocate)->u.allocated.places[0];
  refused_with(s, &add, DLP_STATUS_INVALID);
  allocate.is_mutable = false;
  add.place = fake_peer_allocate(&s->edge, s->alice, &allocate)->u.allocated.places[0];
  assert_int_equal(publish_one(s, s->alice, &add), DLP_STATUS_OK);
  assert_true(fake_peer_stat(&s->edge, s->alice, MSG_OWNER_SELF, "w")->u.listed.tensors[0].flags &
              MSG_TENSOR_FROZEN);
}

static void attributes_are_bounded(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);
  char key[DLP_ATTRIBUTE_KEY_MAX + 2], value[DLP_ATTRIBUTES_MAX + 1];
  struct msg_attribute attributes[2] = {{"b", "2"}, {"a", "1"}};
  const struct msg_tensor *tensor;

  add.attributes = attributes;
  add.n_attributes = 1;
  memset(key, 'k', sizeof(key) - 1);
  key[sizeof(key) - 1] = '\0';
  attributes[0].key = key;
  refused_with(s, &add, DLP_STATUS_INVALID);
  attributes[0].key = "";
  refused_with(s, &add, DLP_STATUS_INVALID);
  memset(value, 'v', sizeof(value) - 1);
  value[sizeof(value) - 1] = '\0';
  attributes[0] = (struct msg_attribute){"b", value};
  refused_with(s, &add, DLP_STATUS_INVALID);
  attributes[0] = (struct msg_attribute){"a", ""};
  add.n_attributes = 2;
  refused_with(s, &add, DLP_STATUS_INVALID);
  attributes[0] = (struct msg_attribute){"b", "2"};
  assert_int_equal(publish_one(s, s->alice, &add), DLP_STATUS_OK);
  tensor = &fake_peer_stat(&s->edge, s->alice, MSG_OWNER_SELF, "w")->u.listed.tensors[0];
  assert_int_equal(tensor->n_attributes, 2);
  assert_string_equal(tensor->attributes[0].key, "a");
  assert_string_equal(tensor->attributes[1].value, "2");
}

static void many_attributes_do_not_stall_the_daemon(void **state)
{
  enum { N = 9000 };
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  static struct msg_attribute attributes[N];
  static char keys[N][6];
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);

  for (size_t i = 0; i < N; i++) {
    (void)snprintf(keys[i], sizeof(keys[i]), "%zx", i);
    attributes[i] = (struct msg_attribute){keys[i], ""};
  }
  add.n_attributes = N;
  add.attributes = attributes;
  for (size_t i = 0; i < 20; i++)
    refused_with(s, &add, DLP_STATUS_INVALID);
}

static void attributes_of_a_generation_are_bounded(void **state)
{
  struct service *s = *state;
  char value[4000];
  struct msg_attribute attribute = {"k", value};
  size_t n = 0;

  memset(value, 'v', sizeof(value) - 1);
  value[sizeof(value) - 1] = '\0';
  for (; n < 100; n++) {
    struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
    int64_t shape;
    char path[32];
    struct msg_add add;
    const struct msg_reply *reply;

    (void)snprintf(path, sizeof(path), "w%zu", n);
    add = fake_add(path, &place, &shape);
    add.attributes = &attribute;
    add.n_attributes = 1;
    reply = fake_peer_publish(&s->edge, s->alice,
                              &(struct msg_publish){.key = 5, .n_adds = 1, .adds = &add});
    if (reply->status != DLP_STATUS_OK)
      break;
  }
  assert_int_equal(n, DLP_GENERATION_ATTRIBUTES_MAX / 4002);
}

static void name_is_once_in_a_generation(void **state)
{
  struct service *s = *state;
  struct msg_place places[] = {fake_peer_block(&s->edge, s->alice, 64),
                               fake_peer_block(&s->edge, s->alice, 64)};
  int64_t shape;
  struct msg_add adds[] = {fake_add("w", &places[0], &shape), fake_add("w", &places[1], &shape)};
  const struct msg_reply *reply = fake_peer_publish(
      &s->edge, s->alice, &(struct msg_publish){.commit = true, .n_adds = 2, .adds = adds});

  assert_int_equal(reply->status, DLP_STATUS_EXISTS);
  assert_version(s, "w", 0);
}

static void empty_publication_is_refused(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply =
      fake_peer_publish(&s->edge, s->alice, &(struct msg_publish){.commit = true});

  assert_int_equal(reply->status, DLP_STATUS_INVALID);
  fake_edge_check(&s->edge);
}

static void tensors_have_a_quota(void **state)
{
  struct service *s = *state;
  struct msg_place place;
  int64_t shape;
  struct msg_add add;

  s->config.limits.of[QUOTA_TENSORS] = 1;
  service_restart(s);
  fake_peer_put(&s->edge, s->alice, "a");
  place = fake_peer_block(&s->edge, s->alice, 64);
  add = fake_add("b", &place, &shape);
  assert_int_equal(publish_one(s, s->alice, &add), DLP_STATUS_QUOTA);
  assert_version(s, "b", 0);
}

/* ---- whose names ---- */

static void publish_in_alices_name_space(struct service *s, uint64_t key, bool commit,
                                         enum dlp_status expected)
{
  struct msg_block block = {.size = 64};
  struct msg_allocate allocate = fake_allocate(&block, 1);
  struct msg_place place;
  int64_t shape;
  struct msg_add add;

  allocate.owner = ALICE;
  place = fake_peer_allocate(&s->edge, s->bob, &allocate)->u.allocated.places[0];
  add = fake_add("w", &place, &shape);
  add.name.owner = ALICE;
  assert_int_equal(fake_peer_publish(&s->edge, s->bob,
                                     &(struct msg_publish){
                                         .key = key, .commit = commit, .n_adds = 1, .adds = &add})
                       ->status,
                   expected);
}

static void another_may_replace_only_what_lets_him(void **state)
{
  struct service *s = *state;

  publish_in_alices_name_space(s, 1, true, DLP_STATUS_DENIED);
  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_SESSION, 0644);
  publish_in_alices_name_space(s, 2, true, DLP_STATUS_DENIED);
  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_SESSION, 0666);
  publish_in_alices_name_space(s, 3, true, DLP_STATUS_OK);
}

static void permission_that_was_withdrawn_before_the_commit_is_gone(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;

  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_SESSION, 0666);
  publish_in_alices_name_space(s, 1, false, DLP_STATUS_OK);
  assert_int_equal(fake_peer_delete(&s->edge, s->alice, MSG_OWNER_SELF, "w")->status, 0);
  reply = fake_peer_publish(&s->edge, s->bob, &(struct msg_publish){.key = 1, .commit = true});
  assert_int_equal(reply->status, DLP_STATUS_DENIED);
  assert_version(s, "w", 0);
}

static void permission_that_is_withdrawn_during_the_commit_is_gone(void **state)
{
  struct service *s = *state;

  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_SESSION, 0666);
  publish_in_alices_name_space(s, 1, false, DLP_STATUS_OK);
  s->edge.is_holding = true;
  assert_null(fake_peer_publish(&s->edge, s->bob, &(struct msg_publish){.key = 1, .commit = true}));
  assert_int_equal(fake_peer_delete(&s->edge, s->alice, MSG_OWNER_SELF, "w")->status, 0);
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  assert_int_equal(fake_peer_take(&s->edge, s->bob)->status, DLP_STATUS_DENIED);
  assert_version(s, "w", 0);
  fake_edge_check(&s->edge);
}

/* ---- expected versions ---- */

static enum dlp_status publish_expecting(struct service *s, uint64_t expected)
{
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);

  add.has_expected = true;
  add.expected = expected;
  return publish_one(s, s->alice, &add);
}

static void expected_version_must_be_the_newest(void **state)
{
  struct service *s = *state;
  uint64_t version;

  assert_int_equal(publish_expecting(s, 1), DLP_STATUS_CONFLICT);
  assert_int_equal(publish_expecting(s, 0), DLP_STATUS_OK);
  assert_int_equal(publish_expecting(s, 0), DLP_STATUS_CONFLICT);
  version = fake_peer_put(&s->edge, s->alice, "w");
  assert_int_equal(publish_expecting(s, version - 1), DLP_STATUS_CONFLICT);
  assert_version(s, "w", version);
  assert_int_equal(publish_expecting(s, version), DLP_STATUS_OK);
}

static void of_two_that_expect_the_same_one_wins(void **state)
{
  struct service *s = *state;
  size_t n_ok = 0, n_conflict = 0;
  struct msg_place places[] = {fake_peer_block(&s->edge, s->alice, 64),
                               fake_peer_block(&s->edge, s->alice, 64)};

  s->edge.is_holding = true;
  for (size_t i = 0; i < 2; i++) {
    int64_t shape;
    struct msg_add add = fake_add("w", &places[i], &shape);
    add.has_expected = true;
    assert_null(fake_peer_publish(
        &s->edge, s->alice, &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add}));
  }
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  for (size_t i = 0; i < 2; i++) {
    const struct msg_reply *reply = fake_peer_take(&s->edge, s->alice);
    n_ok += reply->status == DLP_STATUS_OK;
    n_conflict += reply->status == DLP_STATUS_CONFLICT;
  }
  assert_int_equal(n_ok, 1);
  assert_int_equal(n_conflict, 1);
  fake_edge_check(&s->edge);
}

/* ---- keys and packets ---- */

static void repeated_key_is_answered_as_before(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);
  struct msg_publish publish = {.key = 7, .commit = true, .n_adds = 1, .adds = &add};
  uint64_t version = fake_peer_publish(&s->edge, s->alice, &publish)->u.published.version;

  assert_int_not_equal(version, 0);
  assert_int_equal(fake_peer_publish(&s->edge, s->alice, &publish)->u.published.version, version);
  assert_int_equal(fake_edge_counter(&s->edge, "commits_total"), 1);
}

static void key_repeated_during_the_commit_does_no_harm(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);
  struct msg_publish publish = {.key = 7, .commit = true, .n_adds = 1, .adds = &add};

  s->edge.is_holding = true;
  assert_null(fake_peer_publish(&s->edge, s->alice, &publish));
  assert_int_equal(fake_peer_publish(&s->edge, s->alice, &publish)->status, DLP_STATUS_BUSY);
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  assert_int_equal(fake_peer_take(&s->edge, s->alice)->status, DLP_STATUS_OK);
  assert_int_equal(fake_peer_publish(&s->edge, s->alice, &publish)->status, DLP_STATUS_OK);
}

static void publication_of_several_packets_shows_at_the_commit(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;

  for (int i = 0; i < 3; i++) {
    struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
    int64_t shape;
    struct msg_add add = fake_add((const char *[]){"a", "b", "c"}[i], &place, &shape);
    reply = fake_peer_publish(&s->edge, s->alice,
                              &(struct msg_publish){.key = 9, .n_adds = 1, .adds = &add});
    assert_int_equal(reply->status, DLP_STATUS_OK);
    assert_int_equal(reply->u.published.version, 0);
    assert_version(s, "a", 0);
  }
  reply = fake_peer_publish(&s->edge, s->alice, &(struct msg_publish){.key = 9, .commit = true});
  assert_version(s, "a", reply->u.published.version);
  assert_version(s, "c", reply->u.published.version);
}

static void refused_packet_leaves_the_earlier_ones(void **state)
{
  struct service *s = *state;
  struct msg_place places[] = {fake_peer_block(&s->edge, s->alice, 64),
                               fake_peer_block(&s->edge, s->alice, 64)};
  int64_t shape;
  struct msg_add first = fake_add("a", &places[0], &shape);
  struct msg_add bad[] = {fake_add("b", &places[1], &shape), fake_add("//", &places[1], &shape)};

  assert_int_equal(fake_peer_publish(&s->edge, s->alice,
                                     &(struct msg_publish){.key = 9, .n_adds = 1, .adds = &first})
                       ->status,
                   DLP_STATUS_OK);
  assert_int_equal(fake_peer_publish(&s->edge, s->alice,
                                     &(struct msg_publish){.key = 9, .n_adds = 2, .adds = bad})
                       ->status,
                   DLP_STATUS_NAME);
  assert_int_equal(
      fake_peer_publish(&s->edge, s->alice, &(struct msg_publish){.key = 9, .commit = true})
          ->status,
      DLP_STATUS_OK);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 1);
  assert_version(s, "b", 0);
}

static void aborted_publication_gives_its_memory_back(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);
  struct msg_request abort_it = {.type = MSG_ABORT, .u.abort = {.key = 9}};

  fake_peer_publish(&s->edge, s->alice, &(struct msg_publish){.key = 9, .n_adds = 1, .adds = &add});
  assert_int_equal(fake_peer_call(&s->edge, s->alice, &abort_it)->status, DLP_STATUS_OK);
  assert_int_equal(fake_peer_call(&s->edge, s->alice, &abort_it)->status, DLP_STATUS_OK);
  assert_version(s, "w", 0);
  assert_int_equal(publish_one(s, s->alice, &add), DLP_STATUS_OK);
}

static void publications_begun_at_once_are_bounded(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply = NULL;
  uint64_t key = 1;

  do {
    fake_edge_forget_replies(&s->edge);
    reply = fake_peer_publish(&s->edge, s->alice, &(struct msg_publish){.key = key});
  } while (reply->status == DLP_STATUS_OK && ++key < 10000);
  assert_int_equal(reply->status, DLP_STATUS_BUSY);
}

/* ---- time to live ---- */

static void tensor_with_a_time_to_live_goes_by_itself(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;

  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_TTL, 0); /* of 500 ms */
  fake_edge_end_all(&s->edge);
  s->alice = fake_peer_connect(&s->edge, ALICE);
  fake_edge_advance(&s->edge, 400);
  reply = fake_peer_stat(&s->edge, s->alice, MSG_OWNER_SELF, "w");
  assert_int_equal(reply->u.listed.tensors[0].ttl_ms, 100);
  fake_edge_advance(&s->edge, 100);
  assert_version(s, "w", 0);
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 0);
}

static void time_to_live_of_the_replaced_version_is_over(void **state)
{
  struct service *s = *state;
  uint64_t version;

  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_TTL, 0);
  version = fake_peer_put(&s->edge, s->alice, "w");
  fake_edge_advance(&s->edge, 1000);
  assert_version(s, "w", version);
}

static void time_to_live_of_nothing_is_refused(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block_of(&s->edge, s->alice, 64, MSG_LIFETIME_TTL, 0);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);

  assert_int_equal(
      fake_peer_publish(&s->edge, s->alice,
                        &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add})
          ->status,
      DLP_STATUS_INVALID);
}

/* ---- versions ---- */

static void versions_grow_also_when_the_clock_goes_back(void **state)
{
  struct service *s = *state;
  uint64_t first = fake_peer_put(&s->edge, s->alice, "w"), second, third;

  assert_int_equal(first, s->edge.env.wall_us);
  second = fake_peer_put(&s->edge, s->alice, "w");
  s->edge.env.wall_us -= 1000000;
  third = fake_peer_put(&s->edge, s->alice, "v");
  assert_true(first < second && second < third);
}

static void commit_that_is_overtaken_does_not_bring_an_older_version_back(void **state)
{
  struct service *s = *state;

  for (int deleted = 0; deleted < 2; deleted++) {
    struct msg_place places[] = {fake_peer_block(&s->edge, s->alice, 64),
                                 fake_peer_block(&s->edge, s->alice, 64)};
    uint64_t versions[2];

    s->edge.is_holding = true;
    for (size_t i = 0; i < 2; i++) {
      int64_t shape;
      struct msg_add add = fake_add("w", &places[i], &shape);
      assert_null(fake_peer_publish(
          &s->edge, s->alice, &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add}));
    }
    fake_edge_complete(&s->edge, 1);
    versions[1] = fake_peer_take(&s->edge, s->alice)->u.published.version;
    if (deleted)
      assert_int_equal(fake_peer_delete(&s->edge, s->alice, MSG_OWNER_SELF, "w")->status, 0);
    s->edge.is_holding = false;
    fake_edge_complete_all(&s->edge);
    versions[0] = fake_peer_take(&s->edge, s->alice)->u.published.version;
    assert_true(versions[0] < versions[1]);
    assert_version(s, "w", deleted ? 0 : versions[1]);
    fake_edge_check(&s->edge);
  }
}

/* ---- atomic ---- */

enum { GENERATION = 100 };

/* One generation in one packet, of small names. */
static const struct msg_reply *publish_generation(struct service *s)
{
  static struct msg_block blocks[GENERATION];
  struct msg_add adds[GENERATION];
  int64_t shapes[GENERATION];
  char paths[GENERATION][16];
  struct msg_allocate allocate;
  const struct msg_reply *reply;
  bool was_holding = s->edge.is_holding;

  for (size_t i = 0; i < GENERATION; i++)
    blocks[i] = (struct msg_block){64, i % 10 ? 0 : MSG_BLOCK_OWN_SEGMENT};
  allocate = fake_allocate(blocks, GENERATION);
  s->edge.is_holding = false;
  reply = fake_peer_allocate(&s->edge, s->alice, &allocate);
  assert_int_equal(reply->status, DLP_STATUS_OK);
  s->edge.is_holding = was_holding;
  for (size_t i = 0; i < GENERATION; i++) {
    (void)snprintf(paths[i], sizeof(paths[i]), "g/%zu", i);
    adds[i] = fake_add(paths[i], &reply->u.allocated.places[i], &shapes[i]);
  }
  return fake_peer_publish(
      &s->edge, s->alice,
      &(struct msg_publish){.commit = true, .n_adds = GENERATION, .adds = adds});
}

static uint64_t get_generation(struct service *s)
{
  struct msg_name prefix = {MSG_OWNER_SELF, "g/"};
  struct msg_request request = {.type = MSG_GET, .u.get = fake_get(&prefix)};
  const struct msg_reply *reply;
  uint64_t version;

  request.u.get.by_prefix = true;
  reply = fake_peer_call(&s->edge, s->alice, &request);
  if (reply->status != DLP_STATUS_OK)
    return 0;
  assert_int_equal(reply->u.granted.n_grants, GENERATION);
  version = reply->u.granted.grants[0].tensor.version;
  for (size_t i = 0; i < GENERATION; i++)
    assert_int_equal(reply->u.granted.grants[i].tensor.version, version);
  return version;
}

static void generation_shows_whole_or_not_at_all(void **state)
{
  struct service *s = *state;
  uint64_t first, second;

  s->edge.is_holding = true;
  assert_null(publish_generation(s));
  assert_int_equal(get_generation(s), 0);
  fake_edge_complete_all(&s->edge);
  first = fake_peer_take(&s->edge, s->alice)->u.published.version;
  assert_int_equal(get_generation(s), first);
  assert_null(publish_generation(s));
  assert_int_equal(get_generation(s), first);
  fake_edge_complete_all(&s->edge);
  second = fake_peer_take(&s->edge, s->alice)->u.published.version;
  assert_int_equal(get_generation(s), second);
  assert_true(second > first);
}

static void generation_that_fails_anywhere_changes_nothing(void **state)
{
  static const enum effect_kind kinds[] = {EFFECT_SEGMENT_SEAL, EFFECT_SEGMENT_CHECK,
                                           EFFECT_ROW_PREPARE, EFFECT_COMMIT_LIVE};
  struct service *s = *state;
  uint64_t version = publish_generation(s)->u.published.version;
  size_t n_failed = 0;

  for (size_t kind = 0; kind < TEST_ARRAY_SIZE(kinds); kind++) {
    for (size_t n = 0;; n++) {
      const struct msg_reply *reply;

      s->edge.fail_error = -ENOSPC;
      s->edge.fail_kind = kinds[kind];
      s->edge.fail_after = n;
      reply = publish_generation(s);
      if (reply->status == DLP_STATUS_OK) {
        version = reply->u.published.version;
        break;
      }
      n_failed++;
      assert_int_equal(s->edge.fail_error, 0);
      assert_int_equal(get_generation(s), version);
      assert_int_equal(fake_edge_counter(&s->edge, "tensors"), GENERATION);
      fake_edge_check(&s->edge);
      fake_edge_forget_replies(&s->edge);
    }
    s->edge.fail_error = 0;
  }
  assert_int_equal(n_failed, 10 + 2 * GENERATION + 1);
}

static void failures_outside_are_told_in_words(void **state)
{
  static const struct {
    enum effect_kind kind;
    int error;
    enum dlp_status status;
    const char *word;
  } cases[] = {
      {EFFECT_SEGMENT_CHECK, -ENODATA, DLP_STATUS_INVALID, "pages"},
      {EFFECT_SEGMENT_SEAL, -EBUSY, DLP_STATUS_INVALID, "mapped"},
      {EFFECT_SEGMENT_SEAL, -EOPNOTSUPP, DLP_STATUS_UNSUPPORTED, "freeze"},
      {EFFECT_ROW_PREPARE, -ENOSPC, DLP_STATUS_NO_SPACE, "publishing"},
      {EFFECT_COMMIT_LIVE, -EIO, DLP_STATUS_SYSTEM, "publishing"},
  };
  struct service *s = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    struct msg_block block = {.size = 64, .flags = MSG_BLOCK_OWN_SEGMENT};
    struct msg_allocate allocate = fake_allocate(&block, 1);
    struct msg_place place =
        fake_peer_allocate(&s->edge, s->alice, &allocate)->u.allocated.places[0];
    int64_t shape;
    struct msg_add add = fake_add("w", &place, &shape);
    const struct msg_reply *reply;

    add.freeze = true;
    s->edge.fail_error = cases[i].error;
    s->edge.fail_kind = cases[i].kind;
    s->edge.fail_after = 0;
    reply = fake_peer_publish(&s->edge, s->alice,
                              &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add});
    assert_int_equal(reply->status, cases[i].status);
    assert_non_null(strstr(reply->message, cases[i].word));
    assert_int_equal(publish_one(s, s->alice, &add), DLP_STATUS_OK);
  }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, service_setup, service_teardown)

static const struct CMUnitTest tests[] = {
    CASE(names_that_break_the_grammar_are_refused),
    CASE(dtypes_that_are_not_known_are_refused_by_name),
    CASE(shapes_that_cannot_be_are_refused),
    CASE(bytes_outside_the_place_are_refused_from_both_ends),
    CASE(memory_that_is_not_there_is_refused),
    CASE(memory_of_another_session_is_refused),
    CASE(memory_is_published_once),
    CASE(memory_for_another_owners_names_is_refused),
    CASE(only_immutable_tensors_with_their_own_segment_freeze),
    CASE(attributes_are_bounded),
    CASE(many_attributes_do_not_stall_the_daemon),
    CASE(attributes_of_a_generation_are_bounded),
    CASE(name_is_once_in_a_generation),
    CASE(empty_publication_is_refused),
    CASE(tensors_have_a_quota),
    CASE(another_may_replace_only_what_lets_him),
    CASE(permission_that_was_withdrawn_before_the_commit_is_gone),
    CASE(permission_that_is_withdrawn_during_the_commit_is_gone),
    CASE(expected_version_must_be_the_newest),
    CASE(of_two_that_expect_the_same_one_wins),
    CASE(repeated_key_is_answered_as_before),
    CASE(key_repeated_during_the_commit_does_no_harm),
    CASE(publication_of_several_packets_shows_at_the_commit),
    CASE(refused_packet_leaves_the_earlier_ones),
    CASE(aborted_publication_gives_its_memory_back),
    CASE(publications_begun_at_once_are_bounded),
    CASE(tensor_with_a_time_to_live_goes_by_itself),
    CASE(time_to_live_of_the_replaced_version_is_over),
    CASE(time_to_live_of_nothing_is_refused),
    CASE(versions_grow_also_when_the_clock_goes_back),
    CASE(commit_that_is_overtaken_does_not_bring_an_older_version_back),
    CASE(generation_shows_whole_or_not_at_all),
    CASE(generation_that_fails_anywhere_changes_nothing),
    CASE(failures_outside_are_told_in_words),
};

TEST_MAIN(tests)
