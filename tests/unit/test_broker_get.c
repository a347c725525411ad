/* GET and RELEASE: leases. */

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fake_peer.h"

static const struct msg_reply *get_as(struct service *s, uint64_t connection,
                                      const struct msg_get *get)
{
  struct msg_request request = {.type = MSG_GET, .u.get = *get};

  return fake_peer_call(&s->edge, connection, &request);
}

static const struct msg_reply *get_own(struct service *s, const char *path)
{
  return fake_peer_get(&s->edge, s->alice, MSG_OWNER_SELF, path);
}

static uint64_t leases(struct service *s)
{
  return fake_edge_counter(&s->edge, "leases");
}

/* ---- what is granted ---- */

static void get_tells_all_about_the_tensor(void **state)
{
  struct service *s = *state;
  uint64_t version = fake_peer_put_with(&s->edge, s->alice, "a/b", MSG_LIFETIME_PERSISTENT, 0644);
  const struct msg_tensor *tensor;

  fake_edge_advance(&s->edge, 7);
  tensor = &fake_peer_get(&s->edge, s->bob, ALICE, "a/b")->u.granted.grants[0].tensor;
  assert_string_equal(tensor->name.path, "a/b");
  assert_int_equal(tensor->name.owner, ALICE);
  assert_int_equal(tensor->version, version);
  assert_int_equal(tensor->spec.shape[0], 64);
  assert_int_equal(tensor->place.size, 64);
  assert_int_equal(tensor->lifetime, MSG_LIFETIME_PERSISTENT);
  assert_int_equal(tensor->mode, 0644);
  assert_int_equal(tensor->gid, ALICE);
  assert_int_equal(tensor->publisher_uid, ALICE);
  assert_int_equal(tensor->publisher_pid, 77);
  assert_int_equal(tensor->age_ms, 7);
  assert_int_equal(tensor->readers, 1);
  assert_int_equal(tensor->backend, MSG_BACKEND_MEMFD);
  assert_int_equal(tensor->flags, 0);
}

static void get_by_version_takes_this_one_or_none(void **state)
{
  struct service *s = *state;
  struct msg_name name = {MSG_OWNER_SELF, "w"};
  struct msg_get get = fake_get(&name);

  get.version = fake_peer_put(&s->edge, s->alice, "w");
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_OK);
  fake_peer_put(&s->edge, s->alice, "w");
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_NOT_FOUND);
}

static void get_newer_than_skips_what_is_known(void **state)
{
  struct service *s = *state;
  struct msg_name name = {MSG_OWNER_SELF, "w"};
  struct msg_get get = fake_get(&name);

  get.newer_than = fake_peer_put(&s->edge, s->alice, "w");
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_NOT_FOUND);
  get.newer_than--;
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_OK);
}

static void get_by_prefix_comes_in_the_order_of_bytes(void **state)
{
  static const char *const put[] = {"m/b", "m/a", "n", "m/a/z", "mm"};
  static const char *const expected[] = {"m/a", "m/a/z", "m/b"};
  struct service *s = *state;
  struct msg_name prefix = {MSG_OWNER_SELF, "m/"};
  struct msg_get get = fake_get(&prefix);
  const struct msg_reply *reply;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(put); i++)
    fake_peer_put(&s->edge, s->alice, put[i]);
  get.by_prefix = true;
  reply = get_as(s, s->alice, &get);
  assert_int_equal(reply->u.granted.n_grants, TEST_ARRAY_SIZE(expected));
  for (size_t i = 0; i < TEST_ARRAY_SIZE(expected); i++)
    assert_string_equal(reply->u.granted.grants[i].tensor.name.path, expected[i]);
  prefix.path = "x";
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_NOT_FOUND);
}

static void get_of_several_comes_in_the_order_asked_for(void **state)
{
  struct service *s = *state;
  struct msg_name names[] = {{MSG_OWNER_SELF, "b"}, {ALICE, "a"}, {MSG_OWNER_SELF, "b"}};
  struct msg_get get = fake_get(names);
  const struct msg_reply *reply;

  fake_peer_put(&s->edge, s->alice, "a");
  fake_peer_put(&s->edge, s->alice, "b");
  get.n_names = 3;
  reply = get_as(s, s->alice, &get);
  assert_int_equal(reply->u.granted.n_grants, 3);
  assert_string_equal(reply->u.granted.grants[1].tensor.name.path, "a");
  assert_int_not_equal(reply->u.granted.grants[0].cell, reply->u.granted.grants[2].cell);
  assert_int_equal(leases(s), 3);
}

static void one_missing_of_many_grants_none(void **state)
{
  struct service *s = *state;
  struct msg_name names[] = {{MSG_OWNER_SELF, "a"}, {MSG_OWNER_SELF, "gone"}};
  struct msg_get get = fake_get(names);
  const struct msg_reply *reply;

  fake_peer_put(&s->edge, s->alice, "a");
  get.n_names = 2;
  reply = get_as(s, s->alice, &get);
  assert_int_equal(reply->status, DLP_STATUS_NOT_FOUND);
  assert_non_null(strstr(reply->message, "'gone'"));
  assert_int_equal(leases(s), 0);
}

static void requests_for_nothing_are_refused(void **state)
{
  struct service *s = *state;
  struct msg_name names[] = {{MSG_OWNER_SELF, "a"}, {MSG_OWNER_SELF, "b"}};
  struct msg_get get = fake_get(names);

  get.n_names = 0;
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_INVALID);
  get.by_prefix = true;
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_INVALID);
  get.n_names = 2;
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_INVALID);
  names[0].path = "//";
  get.n_names = 1;
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_NAME);
  get.by_prefix = false;
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_NAME);
}

static void unknown_access_is_refused(void **state)
{
  struct service *s = *state;
  struct msg_name name = {MSG_OWNER_SELF, "w"};
  struct msg_get get = fake_get(&name);

  fake_peer_put(&s->edge, s->alice, "w");
  get.access = 0;
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_INVALID);
  get.access = 77;
  assert_int_equal(get_as(s, s->alice, &get)->status, DLP_STATUS_INVALID);
}

/* ---- permission ---- */

static void what_may_not_be_read_is_told_as_what_is_not_there(void **state)
{
  struct service *s = *state;
  char hidden[256], missing[256];

  fake_peer_put(&s->edge, s->alice, "w");
  (void)snprintf(hidden, sizeof(hidden), "%s",
                 fake_peer_get(&s->edge, s->bob, ALICE, "w")->message);
  fake_peer_delete(&s->edge, s->alice, MSG_OWNER_SELF, "w");
  (void)snprintf(missing, sizeof(missing), "%s",
                 fake_peer_get(&s->edge, s->bob, ALICE, "w")->message);
  assert_string_equal(hidden, missing);
}

static void group_may_read_what_its_bits_say(void **state)
{
  struct service *s = *state;
  struct msg_block block = {.size = 64};
  struct msg_allocate allocate = fake_allocate(&block, 1);
  uint64_t carol = fake_peer_connect(&s->edge, 1002);
  struct msg_place place;
  int64_t shape;
  struct msg_add add;

  allocate.gid = GROUP_OF_BOB;
  allocate.mode = 0640;
  place = fake_peer_allocate(&s->edge, s->bob, &allocate)->u.allocated.places[0];
  add = fake_add("w", &place, &shape);
  fake_peer_publish(&s->edge, s->bob,
                    &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add});
  assert_int_equal(fake_peer_get(&s->edge, carol, BOB, "w")->status, DLP_STATUS_NOT_FOUND);
  assert_int_equal(fake_peer_get(&s->edge, s->alice, BOB, "w")->status, DLP_STATUS_NOT_FOUND);
  assert_int_equal(fake_peer_get(&s->edge, s->bob, BOB, "w")->status, DLP_STATUS_OK);
}

static void administrators_do_not_read(void **state)
{
  struct service *s = *state;
  uint64_t admin = fake_peer_connect(&s->edge, ROOT_ADMIN);

  fake_peer_put(&s->edge, s->alice, "w");
  assert_int_equal(fake_peer_get(&s->edge, admin, ALICE, "w")->status, DLP_STATUS_NOT_FOUND);
  assert_int_equal(fake_peer_stat(&s->edge, admin, ALICE, "w")->status, DLP_STATUS_OK);
}

static void put_mutable(struct service *s, const char *path, uint32_t mode)
{
  struct msg_block block = {.size = 64};
  struct msg_allocate allocate = fake_allocate(&block, 1);
  struct msg_place place;
  int64_t shape;
  struct msg_add add;

  allocate.is_mutable = true;
  allocate.mode = mode;
  place = fake_peer_allocate(&s->edge, s->alice, &allocate)->u.allocated.places[0];
  add = fake_add(path, &place, &shape);
  assert_int_equal(
      fake_peer_publish(&s->edge, s->alice,
                        &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add})
          ->status,
      DLP_STATUS_OK);
}

static enum dlp_status get_shared(struct service *s, const char *path)
{
  struct msg_name name = {ALICE, path};
  struct msg_get get = fake_get(&name);

  get.access = MSG_ACCESS_SHARED;
  return get_as(s, s->bob, &get)->status;
}

static void shared_needs_a_mutable_tensor_and_the_right_to_write(void **state)
{
  struct service *s = *state;

  fake_peer_put_with(&s->edge, s->alice, "fixed", MSG_LIFETIME_SESSION, 0666);
  put_mutable(s, "theirs", 0644);
  put_mutable(s, "ours", 0666);
  assert_int_equal(get_shared(s, "fixed"), DLP_STATUS_UNSUPPORTED);
  assert_int_equal(get_shared(s, "theirs"), DLP_STATUS_DENIED);
  assert_int_equal(leases(s), 0);
  assert_int_equal(get_shared(s, "ours"), DLP_STATUS_OK);
}

/* ---- quota ---- */

static void refused_leases_leave_none(void **state)
{
  struct service *s = *state;
  struct msg_name prefix = {MSG_OWNER_SELF, ""};
  struct msg_get get = fake_get(&prefix);
  const struct msg_reply *reply;

  s->config.limits.of[QUOTA_LEASES] = 2;
  service_restart(s);
  fake_peer_put(&s->edge, s->alice, "a");
  fake_peer_put(&s->edge, s->alice, "b");
  fake_peer_put(&s->edge, s->alice, "c");
  get.by_prefix = true;
  reply = get_as(s, s->alice, &get);
  assert_int_equal(reply->status, DLP_STATUS_QUOTA);
  assert_non_null(strstr(reply->message, "leases"));
  assert_int_equal(leases(s), 0);
  assert_int_equal(get_own(s, "a")->status, DLP_STATUS_OK);
}

/* ---- many ---- */

static void put_many(struct service *s, size_t n, uint32_t flags)
{
  static struct msg_block blocks[DLP_PACKET_FDS_MAX];

  for (size_t from = 0; from < n; from += DLP_PACKET_FDS_MAX) {
    size_t count = n - from < DLP_PACKET_FDS_MAX ? n - from : DLP_PACKET_FDS_MAX;
    struct msg_add adds[DLP_PACKET_FDS_MAX];
    int64_t shapes[DLP_PACKET_FDS_MAX];
    char paths[DLP_PACKET_FDS_MAX][16];
    struct msg_allocate allocate = fake_allocate(blocks, count);
    const struct msg_reply *reply;

    for (size_t i = 0; i < count; i++)
      blocks[i] = (struct msg_block){64, flags};
    reply = fake_peer_allocate(&s->edge, s->alice, &allocate);
    for (size_t i = 0; i < count; i++) {
      (void)snprintf(paths[i], sizeof(paths[i]), "m/%05zu", from + i);
      adds[i] = fake_add(paths[i], &reply->u.allocated.places[i], &shapes[i]);
    }
    reply = fake_peer_publish(&s->edge, s->alice,
                              &(struct msg_publish){.commit = true, .n_adds = count, .adds = adds});
    assert_int_equal(reply->status, DLP_STATUS_OK);
    fake_edge_forget_replies(&s->edge);
  }
}

/* Reads the packets of an answer. Return: grants in all. */
static size_t count_grants(struct service *s, const struct msg_reply *reply, size_t *ret_segments,
                           size_t *ret_packets)
{
  size_t n = 0;

  *ret_segments = *ret_packets = 0;
  for (; reply; reply = reply->more ? fake_peer_take(&s->edge, s->alice) : NULL) {
    char path[32];
    assert_int_equal(reply->status, DLP_STATUS_OK);
    for (size_t i = 0; i < reply->u.granted.n_grants; i++) {
      (void)snprintf(path, sizeof(path), "m/%05zu", n++);
      assert_string_equal(reply->u.granted.grants[i].tensor.name.path, path);
    }
    *ret_segments += reply->u.granted.n_segments;
    ++*ret_packets;
  }
  return n;
}

static void long_answer_spans_packets(void **state)
{
  struct service *s = *state;
  struct msg_name prefix = {MSG_OWNER_SELF, "m/"};
  struct msg_get get = fake_get(&prefix);
  size_t n_segments, n_packets;

  put_many(s, 1000, 0);
  get.by_prefix = true;
  assert_int_equal(count_grants(s, get_as(s, s->alice, &get), &n_segments, &n_packets), 1000);
  assert_int_equal(n_segments, 1);
  assert_in_range(n_packets, 4, 8);
}

static void many_descriptors_span_packets(void **state)
{
  struct service *s = *state;
  struct msg_name prefix = {MSG_OWNER_SELF, "m/"};
  struct msg_get get = fake_get(&prefix);
  size_t n_segments, n_packets;

  put_many(s, 500, MSG_BLOCK_OWN_SEGMENT);
  get.by_prefix = true;
  assert_int_equal(count_grants(s, get_as(s, s->alice, &get), &n_segments, &n_packets), 500);
  assert_int_equal(n_segments, 500);
  assert_in_range(n_packets, 3, 6);
}

static void tensors_as_large_as_they_can_be_fit_into_packets(void **state)
{
  struct service *s = *state;
  char long_path[4][1000], value[3700];
  int64_t shape[64], strides[64];
  struct msg_attribute attributes[128];
  char keys[128][4];
  struct msg_name prefix = {MSG_OWNER_SELF, ""};
  struct msg_get get = fake_get(&prefix);
  const struct msg_reply *reply;
  size_t n = 0;

  memset(value, 'v', sizeof(value));
  value[sizeof(value) - 128 * 5] = '\0';
  for (size_t i = 0; i < 128; i++) {
    (void)snprintf(keys[i], sizeof(keys[i]), "%zu", i);
    attributes[i] = (struct msg_attribute){keys[i], i == 0 ? value : ""};
  }
  for (size_t i = 0; i < 64; i++) {
    shape[i] = 1;
    strides[i] = INT64_MIN;
  }
  for (size_t i = 0; i < 4; i++) {
    struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
    int64_t unused;
    struct msg_add add;

    memset(long_path[i], 'a' + (int)i, 999);
    long_path[i][999] = '\0';
    for (size_t j = 200; j < 999; j += 200)
      long_path[i][j] = '/';
    add = fake_add(long_path[i], &place, &unused);
    add.spec.ndim = 64;
    add.spec.shape = shape;
    add.spec.strides = strides;
    add.n_attributes = 128;
    add.attributes = attributes;
    reply = fake_peer_publish(&s->edge, s->alice,
                              &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add});
    assert_int_equal(reply->status, DLP_STATUS_OK);
  }
  get.by_prefix = true;
  for (reply = get_as(s, s->alice, &get); reply;
       reply = reply->more ? fake_peer_take(&s->edge, s->alice) : NULL)
    n += reply->u.granted.n_grants;
  assert_int_equal(n, 4);
}

/* Names m/00000, ... in packets of 100. Return: the first answer. */
static const struct msg_reply *get_spanning(struct service *s, size_t n)
{
  uint64_t id = s->edge.next_request++;

  for (size_t from = 0; from < n; from += 100) {
    struct msg_name names[100];
    char paths[100][16];
    struct msg_request request = {.type = MSG_GET, .id = id, .u.get = fake_get(names)};
    size_t count = n - from < 100 ? n - from : 100;

    for (size_t i = 0; i < count; i++) {
      (void)snprintf(paths[i], sizeof(paths[i]), "m/%05zu", from + i);
      names[i] = (struct msg_name){MSG_OWNER_SELF, paths[i]};
    }
    request.u.get.n_names = count;
    request.u.get.more = from + count < n;
    fake_edge_request(&s->edge, s->alice, &request);
  }
  return fake_peer_take(&s->edge, s->alice);
}

static void long_question_spans_packets(void **state)
{
  struct service *s = *state;
  size_t n_segments, n_packets;

  put_many(s, 1000, 0);
  assert_int_equal(count_grants(s, get_spanning(s, 1000), &n_segments, &n_packets), 1000);
  assert_int_equal(leases(s), 1000);
}

static void question_that_is_too_long_is_answered_once(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply = get_spanning(s, DLP_GET_MANY_MAX + 300);

  assert_int_equal(reply->status, DLP_STATUS_INVALID);
  assert_null(fake_peer_take(&s->edge, s->alice));
  assert_true(fake_edge_is_open(&s->edge, s->alice));
  assert_int_equal(fake_edge_n_unanswered(&s->edge, s->alice), 0);
}

static void question_that_outgrows_the_quota_is_answered_once(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;

  s->config.limits.of[QUOTA_HEAP] = 30000;
  service_restart(s);
  reply = get_spanning(s, 5000);
  assert_int_equal(reply->status, DLP_STATUS_QUOTA);
  assert_null(fake_peer_take(&s->edge, s->alice));
  assert_int_equal(fake_edge_n_unanswered(&s->edge, s->alice), 0);
}

static void question_by_prefix_does_not_span_packets(void **state)
{
  struct service *s = *state;
  struct msg_name prefix = {MSG_OWNER_SELF, ""};
  struct msg_get get = fake_get(&prefix);

  get.by_prefix = get.more = true;
  assert_null(get_as(s, s->alice, &get));
  assert_false(fake_edge_is_open(&s->edge, s->alice));
}

static void questions_that_never_end_are_bounded(void **state)
{
  struct service *s = *state;
  struct msg_name name = {MSG_OWNER_SELF, "w"};
  struct msg_get get = fake_get(&name);

  get.more = true;
  for (size_t i = 0; i < 100 && fake_edge_is_open(&s->edge, s->alice); i++)
    assert_null(get_as(s, s->alice, &get));
  assert_false(fake_edge_is_open(&s->edge, s->alice));
  fake_edge_advance(&s->edge, s->config.session_grace_ms);
  fake_edge_disconnect(&s->edge, s->bob);
  fake_edge_advance(&s->edge, s->config.session_grace_ms);
  fake_edge_check(&s->edge);
}

/* ---- release ---- */

static void lease_ends_when_its_cell_is_given_back(void **state)
{
  struct service *s = *state;
  uint64_t version = fake_peer_put(&s->edge, s->alice, "w");
  uint64_t session = fake_peer_session(&s->edge, s->alice);
  uint32_t cell = get_own(s, "w")->u.granted.grants[0].cell;
  uint32_t other = get_own(s, "w")->u.granted.grants[0].cell;

  assert_int_not_equal(other, cell);
  assert_int_equal(fake_edge_grant(&s->edge, session, cell), version | DLP_GRANT_LIVE);
  fake_peer_release(&s->edge, s->alice, cell, version);
  assert_int_equal(fake_edge_grant(&s->edge, session, cell), 0);
  assert_int_equal(leases(s), 1);
  fake_peer_release(&s->edge, s->alice, other, version);
  assert_int_equal(leases(s), 0);
  assert_true(fake_edge_is_open(&s->edge, s->alice));
}

static void what_is_free_is_kept_until_its_version_is_retired(void **state)
{
  struct service *s = *state;
  uint64_t version = fake_peer_put(&s->edge, s->alice, "w");
  uint64_t session = fake_peer_session(&s->edge, s->alice);
  uint32_t cell = get_own(s, "w")->u.granted.grants[0].cell;

  fake_edge_hold(&s->edge, session, cell, version | DLP_HOLD_FREE);
  assert_int_equal(leases(s), 0);
  assert_int_equal(fake_edge_grant(&s->edge, session, cell), version | DLP_GRANT_LIVE);
  fake_peer_put(&s->edge, s->alice, "w");
  assert_int_equal(fake_edge_grant(&s->edge, session, cell), 0);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors_retired"), 0);
}

static void a_holder_that_forgets_to_ring_is_found_by_the_sweep(void **state)
{
  struct service *s = *state;
  uint64_t version = fake_peer_put(&s->edge, s->alice, "w");
  uint64_t session = fake_peer_session(&s->edge, s->alice);
  uint32_t cell = get_own(s, "w")->u.granted.grants[0].cell;

  fake_edge_hold(&s->edge, session, cell, version | DLP_HOLD_HELD);
  fake_peer_put(&s->edge, s->alice, "w");
  assert_int_equal(fake_edge_grant(&s->edge, session, cell), version | DLP_GRANT_RETIRED);
  fake_edge_advance(&s->edge, 5000);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors_retired"), 1);
  fake_edge_hold(&s->edge, session, cell, version | DLP_HOLD_FREE);
  fake_edge_advance(&s->edge, 5000);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors_retired"), 0);
}

/* Whatever a client writes into its page, it can keep what it was granted, and free
 * nothing of others. */
static void scribbling_over_the_holds_hurts_nobody_else(void **state)
{
  static const uint64_t words[] = {1, UINT64_MAX, DLP_HOLD_FREE, DLP_HOLD_RETURNED,
                                   DLP_HOLD_FREE | DLP_HOLD_RETURNED};
  struct service *s = *state;
  uint64_t version = fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_SESSION, 0644);
  uint64_t bobs = fake_peer_session(&s->edge, s->bob);
  uint32_t mine = get_own(s, "w")->u.granted.grants[0].cell;
  uint32_t his = fake_peer_get(&s->edge, s->bob, ALICE, "w")->u.granted.grants[0].cell;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(words); i++) {
    struct msg_request bell = {.type = MSG_RELEASE, .u.release = {1, &his}};
    fake_edge_hold(&s->edge, bobs, his, words[i]);
    fake_peer_send(&s->edge, s->bob, &bell);
    assert_int_equal(leases(s), 2);
  }
  fake_peer_put(&s->edge, s->alice, "w");
  assert_int_equal(fake_edge_counter(&s->edge, "tensors_retired"), 1);
  fake_peer_release(&s->edge, s->alice, mine, version);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors_retired"), 1);
  fake_edge_die(&s->edge, bobs);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors_retired"), 0);
}

static void a_bell_for_nothing_does_nothing(void **state)
{
  static const uint32_t cells[] = {0, 1, 1000, DLP_LEASE_CELLS, UINT32_MAX};
  struct service *s = *state;
  struct msg_request bell = {.type = MSG_RELEASE, .u.release = {TEST_ARRAY_SIZE(cells), cells}};

  fake_peer_put(&s->edge, s->alice, "w");
  get_own(s, "w");
  fake_peer_send(&s->edge, s->alice, &bell);
  fake_peer_send(&s->edge, s->bob, &bell);
  assert_int_equal(leases(s), 1);
  assert_true(fake_edge_is_open(&s->edge, s->alice));
}

static void replaced_version_stays_for_its_holder_and_no_one_else(void **state)
{
  struct service *s = *state;
  uint64_t old = fake_peer_put(&s->edge, s->alice, "w"), fresh;
  uint32_t cell = get_own(s, "w")->u.granted.grants[0].cell;

  fresh = fake_peer_put(&s->edge, s->alice, "w");
  assert_int_equal(fake_edge_counter(&s->edge, "tensors_retired"), 1);
  assert_int_equal(get_own(s, "w")->u.granted.grants[0].tensor.version, fresh);
  fake_peer_release(&s->edge, s->alice, cell, old);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors_retired"), 0);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 1);
  fake_edge_check(&s->edge);
}

static void cells_are_used_again_but_never_for_the_same_version(void **state)
{
  struct service *s = *state;
  uint32_t cells[2] = {0, 0};

  for (size_t i = 0; i < 100; i++) {
    uint64_t version = fake_peer_put(&s->edge, s->alice, "w");

    for (size_t j = 0; j < 2; j++) {
      cells[j] = get_own(s, "w")->u.granted.grants[0].cell;
      fake_peer_release(&s->edge, s->alice, cells[j], version);
    }
    assert_int_not_equal(cells[0], cells[1]);
    assert_true(cells[0] < 4 * 16 && cells[1] < 4 * 16);
  }
}

static void deletion_hides_at_once_and_frees_at_the_last_release(void **state)
{
  struct service *s = *state;
  uint64_t version = fake_peer_put(&s->edge, s->alice, "w");
  uint32_t cell = get_own(s, "w")->u.granted.grants[0].cell;

  fake_peer_delete(&s->edge, s->alice, MSG_OWNER_SELF, "w");
  assert_int_equal(get_own(s, "w")->status, DLP_STATUS_NOT_FOUND);
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 1);
  fake_peer_release(&s->edge, s->alice, cell, version);
  fake_edge_advance(&s->edge, FAKE_WARM_MS);
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, service_setup, service_teardown)

static const struct CMUnitTest tests[] = {
    CASE(get_tells_all_about_the_tensor),
    CASE(get_by_version_takes_this_one_or_none),
    CASE(get_newer_than_skips_what_is_known),
    CASE(get_by_prefix_comes_in_the_order_of_bytes),
    CASE(get_of_several_comes_in_the_order_asked_for),
    CASE(one_missing_of_many_grants_none),
    CASE(requests_for_nothing_are_refused),
    CASE(unknown_access_is_refused),
    CASE(what_may_not_be_read_is_told_as_what_is_not_there),
    CASE(group_may_read_what_its_bits_say),
    CASE(administrators_do_not_read),
    CASE(shared_needs_a_mutable_tensor_and_the_right_to_write),
    CASE(refused_leases_leave_none),
    CASE(long_answer_spans_packets),
    CASE(many_descriptors_span_packets),
    CASE(tensors_as_large_as_they_can_be_fit_into_packets),
    CASE(long_question_spans_packets),
    CASE(question_that_is_too_long_is_answered_once),
    CASE(question_that_outgrows_the_quota_is_answered_once),
    CASE(question_by_prefix_does_not_span_packets),
    CASE(questions_that_never_end_are_bounded),
    CASE(lease_ends_when_its_cell_is_given_back),
    CASE(what_is_free_is_kept_until_its_version_is_retired),
    CASE(a_holder_that_forgets_to_ring_is_found_by_the_sweep),
    CASE(scribbling_over_the_holds_hurts_nobody_else),
    CASE(a_bell_for_nothing_does_nothing),
    CASE(replaced_version_stays_for_its_holder_and_no_one_else),
    CASE(cells_are_used_again_but_never_for_the_same_version),
    CASE(deletion_hides_at_once_and_frees_at_the_last_release),
};

TEST_MAIN(tests)
