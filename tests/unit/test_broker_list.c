/* LIST in pages, and STATS. */

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fake_peer.h"

struct found {
  size_t n;
  size_t n_pages;
  uint64_t hash; /* of owners, names and versions, in order */
};

static void add_to_hash(struct found *found, const struct msg_tensor *tensor)
{
  for (const char *at = tensor->name.path; *at; at++)
    found->hash = found->hash * 31 + (uint8_t)*at;
  found->hash = found->hash * 31 + tensor->name.owner;
  found->hash = found->hash * 31 + tensor->version;
  found->n++;
}

/* As a client walks: after the last name, or after `next`. */
static struct found walk(struct service *s, uint64_t connection, const struct msg_list *first)
{
  struct msg_request request = {.type = MSG_LIST, .u.list = *first};
  struct found found = {0};
  const struct msg_listed *listed;
  char after[DLP_NAME_MAX + 1] = "";

  request.u.list.after.path = after;
  do {
    const struct msg_reply *reply = fake_peer_call(&s->edge, connection, &request);

    assert_int_equal(reply->status, DLP_STATUS_OK);
    listed = &reply->u.listed;
    for (size_t i = 0; i < listed->n_tensors; i++)
      add_to_hash(&found, &listed->tensors[i]);
    if (listed->next.path) {
      request.u.list.after.owner = listed->next.owner;
      strcpy(after, listed->next.path);
    } else if (listed->n_tensors > 0) {
      const struct msg_tensor *last = &listed->tensors[listed->n_tensors - 1];
      request.u.list.after.owner = last->name.owner;
      strcpy(after, last->name.path);
    }
    assert_true(++found.n_pages < 100000);
  } while (!listed->done);
  return found;
}

static struct msg_list everything(uint32_t owner, uint32_t limit)
{
  return (struct msg_list){.owner = owner, .prefix = "", .limit = limit};
}

static void put_numbered(struct service *s, uint64_t connection, size_t n, uint32_t mode)
{
  for (size_t i = 0; i < n; i++) {
    char path[32];
    (void)snprintf(path, sizeof(path), "n/%zu", i);
    fake_peer_put_with(&s->edge, connection, path, MSG_LIFETIME_SESSION, mode);
    fake_edge_forget_replies(&s->edge);
  }
}

static void pages_of_any_size_show_the_same(void **state)
{
  static const uint32_t limits[] = {1, 2, 3, 7, 100, 255, 256, 257, UINT32_MAX};
  struct service *s = *state;
  struct msg_list list = everything(MSG_OWNER_SELF, 0);
  struct found all;

  put_numbered(s, s->alice, 1000, 0600);
  all = walk(s, s->alice, &list);
  assert_int_equal(all.n, 1000);
  assert_in_range(all.n_pages, 4, 8);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(limits); i++) {
    struct found found;
    list.limit = limits[i];
    found = walk(s, s->alice, &list);
    assert_int_equal(found.n, 1000);
    assert_true(found.hash == all.hash);
  }
}

static void list_of_all_owners_shows_what_may_be_seen(void **state)
{
  struct service *s = *state;
  struct msg_list list = everything(MSG_LIST_ALL_OWNERS, 7);
  uint64_t admin = fake_peer_connect(&s->edge, ROOT_ADMIN);

  put_numbered(s, s->alice, 300, 0600);
  put_numbered(s, s->bob, 20, 0644);
  fake_peer_put_with(&s->edge, s->alice, "shown", MSG_LIFETIME_SESSION, 0622);
  assert_int_equal(walk(s, s->alice, &list).n, 321);
  assert_int_equal(walk(s, s->bob, &list).n, 21);
  assert_int_equal(walk(s, admin, &list).n, 321);
  list.owner = ALICE;
  assert_int_equal(walk(s, s->bob, &list).n, 1);
}

static void prefix_and_owner_bound_the_list(void **state)
{
  struct service *s = *state;
  struct msg_list list = everything(MSG_OWNER_SELF, 2);

  put_numbered(s, s->alice, 12, 0600);
  put_numbered(s, s->bob, 5, 0666);
  fake_peer_put(&s->edge, s->alice, "m");
  fake_peer_put(&s->edge, s->alice, "o");
  list.prefix = "n/1";
  assert_int_equal(walk(s, s->alice, &list).n, 3);
  list.owner = MSG_LIST_ALL_OWNERS;
  assert_int_equal(walk(s, s->alice, &list).n, 4);
  list.prefix = "zz";
  assert_int_equal(walk(s, s->alice, &list).n, 0);
  list.prefix = "/";
  list.after.path = "";
  assert_int_equal(
      fake_peer_call(&s->edge, s->alice, &(struct msg_request){.type = MSG_LIST, .u.list = list})
          ->status,
      DLP_STATUS_NAME);
}

static void many_hidden_names_do_not_make_a_page_long(void **state)
{
  struct service *s = *state;
  struct msg_list list = everything(ALICE, 0);

  put_numbered(s, s->alice, 1000, 0600);
  fake_peer_put_with(&s->edge, s->alice, "zz", MSG_LIFETIME_SESSION, 0644);
  assert_in_range(walk(s, s->bob, &list).n_pages, 1000 / DLP_LIST_PAGE_MAX, 8);
  assert_int_equal(walk(s, s->bob, &list).n, 1);
}

static void retired_versions_show_when_asked_for(void **state)
{
  struct service *s = *state;
  struct msg_list list = everything(MSG_OWNER_SELF, 0);

  for (size_t i = 0; i < 5; i++) {
    fake_peer_put(&s->edge, s->alice, "w");
    fake_peer_get(&s->edge, s->alice, MSG_OWNER_SELF, "w");
  }
  fake_peer_put(&s->edge, s->alice, "a");
  fake_peer_get(&s->edge, s->alice, MSG_OWNER_SELF, "a");
  fake_peer_delete(&s->edge, s->alice, MSG_OWNER_SELF, "a");
  assert_int_equal(walk(s, s->alice, &list).n, 1);
  list.retired = true;
  for (list.limit = 0; list.limit < 8; list.limit++)
    assert_int_equal(walk(s, s->alice, &list).n, 6);
}

static void versions_of_one_name_are_on_one_page(void **state)
{
  struct service *s = *state;
  struct msg_list list = everything(MSG_OWNER_SELF, 0);

  for (size_t i = 0; i < 70; i++) {
    char path[32];
    (void)snprintf(path, sizeof(path), "w%zu", i);
    for (size_t j = 0; j < 5; j++) {
      fake_peer_put(&s->edge, s->alice, path);
      fake_peer_get(&s->edge, s->alice, MSG_OWNER_SELF, path);
      fake_edge_forget_replies(&s->edge);
    }
  }
  list.retired = true;
  assert_int_equal(walk(s, s->alice, &list).n, 350);
}

static void retired_versions_of_one_name_are_bounded(void **state)
{
  struct service *s = *state;
  struct msg_list list = everything(MSG_OWNER_SELF, 0);

  for (size_t i = 0; i < 40; i++) {
    fake_peer_put(&s->edge, s->alice, "w");
    fake_peer_get(&s->edge, s->alice, MSG_OWNER_SELF, "w");
  }
  list.retired = true;
  assert_int_equal(walk(s, s->alice, &list).n, 17);
}

static void deleted_names_are_not_listed(void **state)
{
  struct service *s = *state;
  struct msg_list list = everything(MSG_OWNER_SELF, 0);

  fake_peer_put(&s->edge, s->alice, "w");
  fake_peer_delete(&s->edge, s->alice, MSG_OWNER_SELF, "w");
  assert_int_equal(walk(s, s->alice, &list).n, 0);
}

static void realms_do_not_see_each_other(void **state)
{
  struct service *s = *state;
  struct broker_peer peer = {.uid = ALICE, .gid = ALICE, .realm = 1};
  uint64_t elsewhere = fake_edge_connect(&s->edge, &peer);
  struct msg_list list = everything(MSG_LIST_ALL_OWNERS, 0);

  assert_int_equal(fake_peer_hello(&s->edge, elsewhere, NULL)->type, MSG_WELCOME);
  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_SESSION, 0666);
  assert_int_equal(walk(s, elsewhere, &list).n, 0);
  assert_int_equal(fake_peer_get(&s->edge, elsewhere, ALICE, "w")->status, DLP_STATUS_NOT_FOUND);
  fake_peer_put(&s->edge, elsewhere, "w");
  assert_int_equal(walk(s, elsewhere, &list).n, 1);
  assert_int_equal(walk(s, s->alice, &list).n, 1);
}

static void stats_tell_the_counters(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;
  bool found = false;

  fake_peer_put(&s->edge, s->alice, "w");
  reply = fake_peer_call(&s->edge, s->bob, &(struct msg_request){.type = MSG_STATS});
  assert_int_equal(reply->type, MSG_COUNTERS);
  for (size_t i = 0; i < reply->u.counters.n_counters; i++) {
    const struct msg_counter *counter = &reply->u.counters.counters[i];
    if (strcmp(counter->name, "tensors") != 0)
      continue;
    found = true;
    assert_int_equal(counter->value, 1);
  }
  assert_true(found);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, service_setup, service_teardown)

static const struct CMUnitTest tests[] = {
    CASE(pages_of_any_size_show_the_same),
    CASE(list_of_all_owners_shows_what_may_be_seen),
    CASE(prefix_and_owner_bound_the_list),
    CASE(many_hidden_names_do_not_make_a_page_long),
    CASE(retired_versions_show_when_asked_for),
    CASE(versions_of_one_name_are_on_one_page),
    CASE(retired_versions_of_one_name_are_bounded),
    CASE(deleted_names_are_not_listed),
    CASE(realms_do_not_see_each_other),
    CASE(stats_tell_the_counters),
};

TEST_MAIN(tests)
