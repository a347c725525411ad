/* DELETE: one name, or what is below a prefix. */

#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "support/fake_peer.h"

static const struct msg_reply *delete_below(struct service *s, uint64_t connection, uint32_t owner,
                                            const char *prefix, uint64_t version)
{
  struct msg_request request = {
      .type = MSG_DELETE,
      .u.del = {.by_prefix = true, .name = {owner, prefix}, .version = version}};

  return fake_peer_call(&s->edge, connection, &request);
}

static const struct msg_reply *delete_one(struct service *s, uint64_t connection, const char *path)
{
  return fake_peer_delete(&s->edge, connection, ALICE, path);
}

static void deletion_frees_the_memory_of_a_name(void **state)
{
  struct service *s = *state;

  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_PERSISTENT, 0);
  assert_int_equal(delete_one(s, s->alice, "w")->u.deleted.n_names, 1);
  fake_edge_advance(&s->edge, FAKE_WARM_MS);
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 0);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors_persistent"), 0);
  assert_int_equal(delete_one(s, s->alice, "w")->status, DLP_STATUS_NOT_FOUND);
}

static void only_the_version_meant_is_deleted(void **state)
{
  struct service *s = *state;
  uint64_t old = fake_peer_put(&s->edge, s->alice, "w");
  struct msg_request request = {.type = MSG_DELETE,
                                .u.del = {.name = {MSG_OWNER_SELF, "w"}, .version = old}};

  fake_peer_put(&s->edge, s->alice, "w");
  assert_int_equal(fake_peer_call(&s->edge, s->alice, &request)->status, DLP_STATUS_CONFLICT);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 1);
}

static void others_delete_only_what_lets_them(void **state)
{
  struct service *s = *state;
  uint64_t admin = fake_peer_connect(&s->edge, ROOT_ADMIN);

  fake_peer_put_with(&s->edge, s->alice, "hidden", MSG_LIFETIME_SESSION, 0600);
  fake_peer_put_with(&s->edge, s->alice, "seen", MSG_LIFETIME_SESSION, 0644);
  fake_peer_put_with(&s->edge, s->alice, "ours", MSG_LIFETIME_SESSION, 0666);
  assert_int_equal(delete_one(s, s->bob, "hidden")->status, DLP_STATUS_NOT_FOUND);
  assert_int_equal(delete_one(s, s->bob, "seen")->status, DLP_STATUS_DENIED);
  assert_int_equal(delete_one(s, s->bob, "ours")->status, DLP_STATUS_OK);
  assert_int_equal(delete_one(s, admin, "hidden")->status, DLP_STATUS_OK);
}

static void owner_deletes_without_a_mode_bit(void **state)
{
  struct service *s = *state;

  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_SESSION, 0004);
  assert_int_equal(delete_one(s, s->alice, "w")->status, DLP_STATUS_OK);
}

static void prefix_takes_what_may_be_deleted(void **state)
{
  struct service *s = *state;

  fake_peer_put_with(&s->edge, s->alice, "m/a", MSG_LIFETIME_SESSION, 0666);
  fake_peer_put_with(&s->edge, s->alice, "m/b", MSG_LIFETIME_SESSION, 0644);
  fake_peer_put_with(&s->edge, s->alice, "m/c", MSG_LIFETIME_SESSION, 0666);
  fake_peer_put_with(&s->edge, s->alice, "n", MSG_LIFETIME_SESSION, 0666);
  assert_int_equal(delete_below(s, s->bob, ALICE, "m/", 0)->u.deleted.n_names, 2);
  assert_int_equal(delete_below(s, s->bob, ALICE, "m/", 0)->status, DLP_STATUS_NOT_FOUND);
  assert_int_equal(delete_below(s, s->bob, MSG_OWNER_SELF, "", 0)->status, DLP_STATUS_NOT_FOUND);
  assert_int_equal(delete_below(s, s->alice, ALICE, "", 0)->u.deleted.n_names, 2);
}

static void long_deletion_comes_in_pages_and_ends(void **state)
{
  struct service *s = *state;
  uint64_t n = 0, n_now;

  for (size_t i = 0; i < DLP_DELETE_PAGE_MAX + 100; i++) {
    char path[32];
    (void)snprintf(path, sizeof(path), "n/%zu", i);
    fake_peer_put(&s->edge, s->alice, path);
    fake_edge_forget_replies(&s->edge);
  }
  do {
    const struct msg_reply *reply = delete_below(s, s->alice, MSG_OWNER_SELF, "n/", 0);
    n_now = reply->u.deleted.n_names;
    n += n_now;
  } while (n_now == DLP_DELETE_PAGE_MAX);
  assert_int_equal(n, DLP_DELETE_PAGE_MAX + 100);
  fake_edge_advance(&s->edge, FAKE_WARM_MS);
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 0);
}

static void names_that_break_the_grammar_are_refused(void **state)
{
  struct service *s = *state;

  assert_int_equal(delete_one(s, s->alice, "")->status, DLP_STATUS_NAME);
  assert_int_equal(delete_one(s, s->alice, "a//b")->status, DLP_STATUS_NAME);
  assert_int_equal(delete_below(s, s->alice, ALICE, "//", 0)->status, DLP_STATUS_NAME);
}

static void deletion_while_a_new_version_is_prepared_does_not_stop_it(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);

  fake_peer_put(&s->edge, s->alice, "w");
  s->edge.is_holding = true;
  assert_null(fake_peer_publish(&s->edge, s->alice,
                                &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add}));
  assert_int_equal(delete_one(s, s->alice, "w")->status, DLP_STATUS_OK);
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  assert_int_equal(fake_peer_take(&s->edge, s->alice)->status, DLP_STATUS_OK);
  assert_int_equal(fake_peer_stat(&s->edge, s->alice, ALICE, "w")->status, DLP_STATUS_OK);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, service_setup, service_teardown)

static const struct CMUnitTest tests[] = {
    CASE(deletion_frees_the_memory_of_a_name),
    CASE(only_the_version_meant_is_deleted),
    CASE(others_delete_only_what_lets_them),
    CASE(owner_deletes_without_a_mode_bit),
    CASE(prefix_takes_what_may_be_deleted),
    CASE(long_deletion_comes_in_pages_and_ends),
    CASE(names_that_break_the_grammar_are_refused),
    CASE(deletion_while_a_new_version_is_prepared_does_not_stop_it),
};

TEST_MAIN(tests)
