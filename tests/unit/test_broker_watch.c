/* WATCH: what changed below a prefix. */

#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "core/registry.h"
#include "support/fake_peer.h"

#define FROM_NOW UINT64_MAX

static const struct msg_reply *watch(struct service *s, uint64_t connection, uint32_t owner,
                                     const char *prefix, uint64_t since, uint32_t timeout_ms)
{
  struct msg_request request = {
      .type = MSG_WATCH,
      .u.watch = {.owner = owner, .prefix = prefix, .since = since, .timeout_ms = timeout_ms}};

  return fake_peer_call(&s->edge, connection, &request);
}

static const struct msg_watched *look(struct service *s, uint64_t since)
{
  return &watch(s, s->alice, MSG_OWNER_SELF, "", since, 0)->u.watched;
}

static void put(struct service *s, const char *path)
{
  fake_peer_put(&s->edge, s->alice, path);
}

static void drop(struct service *s, const char *path)
{
  assert_int_equal(fake_peer_delete(&s->edge, s->alice, MSG_OWNER_SELF, path)->status, 0);
}

static void assert_event(const struct msg_watched *watched, size_t i, enum msg_event_kind kind,
                         const char *path)
{
  assert_true(i < watched->n_events);
  assert_int_equal(watched->events[i].kind, kind);
  assert_string_equal(watched->events[i].name.path, path);
}

static void watch_from_the_beginning_tells_what_is_there(void **state)
{
  struct service *s = *state;
  const struct msg_watched *watched;

  put(s, "a");
  put(s, "gone");
  put(s, "b");
  drop(s, "gone");
  watched = look(s, 0);
  assert_int_equal(watched->n_events, 2);
  assert_event(watched, 0, MSG_EVENT_PUBLISHED, "a");
  assert_event(watched, 1, MSG_EVENT_PUBLISHED, "b");
  assert_false(watched->gap);
  assert_int_equal(look(s, watched->next)->n_events, 0);
}

static void many_changes_of_a_name_are_one_event(void **state)
{
  struct service *s = *state;
  uint64_t since = look(s, FROM_NOW)->next, version = 0;
  const struct msg_watched *watched;

  for (size_t i = 0; i < 100; i++)
    version = fake_peer_put(&s->edge, s->alice, "w");
  watched = look(s, since);
  assert_int_equal(watched->n_events, 1);
  assert_int_equal(watched->events[0].version, version);
}

static void deletion_is_an_event_with_its_version(void **state)
{
  struct service *s = *state;
  uint64_t version = fake_peer_put(&s->edge, s->alice, "w"), since = look(s, 0)->next;
  const struct msg_watched *watched;

  drop(s, "w");
  watched = look(s, since);
  assert_event(watched, 0, MSG_EVENT_DELETED, "w");
  assert_int_equal(watched->events[0].version, version);
  put(s, "w");
  watched = look(s, watched->next);
  assert_event(watched, 0, MSG_EVENT_PUBLISHED, "w");
}

static void end_of_a_session_is_seen_as_deletions(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;

  fake_peer_put_with(&s->edge, s->alice, "a", MSG_LIFETIME_SESSION, 0644);
  fake_peer_put_with(&s->edge, s->alice, "b", MSG_LIFETIME_SESSION, 0644);
  assert_null(watch(s, s->bob, ALICE, "", FROM_NOW, DLP_TIMEOUT_NEVER));
  fake_edge_die(&s->edge, fake_peer_session(&s->edge, s->alice));
  reply = fake_peer_take(&s->edge, s->bob);
  assert_int_equal(reply->u.watched.n_events, 2);
  assert_event(&reply->u.watched, 0, MSG_EVENT_DELETED, "a");
}

static void watch_waits_and_is_woken_once_per_commit(void **state)
{
  struct service *s = *state;
  struct msg_place places[] = {fake_peer_block(&s->edge, s->alice, 64),
                               fake_peer_block(&s->edge, s->alice, 64)};
  int64_t shape;
  struct msg_add adds[] = {fake_add("a", &places[0], &shape), fake_add("b", &places[1], &shape)};
  uint64_t second = fake_peer_connect(&s->edge, ALICE);
  const struct msg_reply *reply;

  assert_null(watch(s, second, MSG_OWNER_SELF, "", FROM_NOW, 1000));
  fake_peer_publish(&s->edge, s->alice,
                    &(struct msg_publish){.commit = true, .n_adds = 2, .adds = adds});
  reply = fake_peer_take(&s->edge, second);
  assert_int_equal(reply->u.watched.n_events, 2);
  assert_null(fake_peer_take(&s->edge, second));
}

static void watch_answers_nothing_at_its_deadline(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;
  uint64_t since = look(s, FROM_NOW)->next;

  assert_null(watch(s, s->alice, MSG_OWNER_SELF, "", FROM_NOW, 1000));
  fake_edge_advance(&s->edge, 1000);
  reply = fake_peer_take(&s->edge, s->alice);
  assert_int_equal(reply->status, DLP_STATUS_OK);
  assert_int_equal(reply->u.watched.n_events, 0);
  assert_int_equal(reply->u.watched.next, since);
}

static void other_names_do_not_wake_a_watch(void **state)
{
  struct service *s = *state;
  uint64_t second = fake_peer_connect(&s->edge, ALICE);

  assert_null(watch(s, second, MSG_OWNER_SELF, "m/", FROM_NOW, 1000));
  put(s, "n");
  put(s, "m");
  assert_null(fake_peer_take(&s->edge, second));
  put(s, "m/x");
  assert_event(&fake_peer_take(&s->edge, second)->u.watched, 0, MSG_EVENT_PUBLISHED, "m/x");
}

static void watch_shows_what_may_be_listed_only(void **state)
{
  struct service *s = *state;
  uint64_t admin = fake_peer_connect(&s->edge, ROOT_ADMIN), since;

  put(s, "before");
  since = look(s, FROM_NOW)->next;
  put(s, "hidden");
  fake_peer_put_with(&s->edge, s->alice, "shown", MSG_LIFETIME_SESSION, 0644);
  put(s, "gone");
  drop(s, "gone");
  assert_int_equal(watch(s, s->bob, ALICE, "", since, 0)->u.watched.n_events, 1);
  assert_int_equal(watch(s, s->bob, MSG_LIST_ALL_OWNERS, "", since, 0)->u.watched.n_events, 1);
  assert_int_equal(watch(s, s->bob, MSG_OWNER_SELF, "", since, 0)->u.watched.n_events, 0);
  assert_int_equal(watch(s, admin, ALICE, "", since, 0)->u.watched.n_events, 3);
}

static void long_list_of_changes_comes_in_pages(void **state)
{
  struct service *s = *state;
  uint64_t since = 0;
  size_t n = 0, n_pages = 0;
  const struct msg_watched *watched;
  char path[300];

  for (size_t i = 0; i < 1000; i++) {
    (void)snprintf(path, sizeof(path), "%0250zu", i);
    put(s, path);
    fake_edge_forget_replies(&s->edge);
  }
  do {
    watched = look(s, since);
    since = watched->next;
    for (size_t i = 0; i < watched->n_events; i++) {
      (void)snprintf(path, sizeof(path), "%0250zu", n++);
      assert_event(watched, i, MSG_EVENT_PUBLISHED, path);
    }
    n_pages++;
  } while (watched->n_events > 0);
  assert_int_equal(n, 1000);
  assert_in_range(n_pages, 5, 12);
}

static void forgotten_deletions_are_told_as_a_gap(void **state)
{
  struct service *s = *state;
  uint64_t since;
  const struct msg_watched *watched;

  put(s, "kept");
  since = look(s, 0)->next;
  for (size_t i = 0; i <= REGISTRY_TOMBSTONES_MAX; i++) {
    char path[32];
    (void)snprintf(path, sizeof(path), "%zu", i);
    put(s, path);
    drop(s, path);
    fake_edge_forget_replies(&s->edge);
  }
  assert_true(look(s, since)->gap);
  assert_false(look(s, look(s, FROM_NOW)->next)->gap);
  watched = look(s, 0);
  assert_false(watched->gap);
  assert_event(watched, 0, MSG_EVENT_PUBLISHED, "kept");
  assert_int_equal(fake_edge_counter(&s->edge, "names_deleted"), REGISTRY_TOMBSTONES_MAX);
}

static void number_of_another_daemon_is_told_as_a_gap(void **state)
{
  struct service *s = *state;

  put(s, "w");
  assert_true(look(s, 1000)->gap);
  assert_false(look(s, FROM_NOW)->gap);
}

static void bad_prefix_is_refused(void **state)
{
  struct service *s = *state;

  assert_int_equal(watch(s, s->alice, MSG_OWNER_SELF, "//", 0, 0)->status, DLP_STATUS_NAME);
}

static void watches_are_bounded_per_connection(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply = NULL;

  for (size_t n = 0; n < 1000 && !reply; n++)
    reply = watch(s, s->alice, MSG_OWNER_SELF, "", FROM_NOW, DLP_TIMEOUT_NEVER);
  assert_int_equal(reply->status, DLP_STATUS_BUSY);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, service_setup, service_teardown)

static const struct CMUnitTest tests[] = {
    CASE(watch_from_the_beginning_tells_what_is_there),
    CASE(many_changes_of_a_name_are_one_event),
    CASE(deletion_is_an_event_with_its_version),
    CASE(end_of_a_session_is_seen_as_deletions),
    CASE(watch_waits_and_is_woken_once_per_commit),
    CASE(watch_answers_nothing_at_its_deadline),
    CASE(other_names_do_not_wake_a_watch),
    CASE(watch_shows_what_may_be_listed_only),
    CASE(long_list_of_changes_comes_in_pages),
    CASE(forgotten_deletions_are_told_as_a_gap),
    CASE(number_of_another_daemon_is_told_as_a_gap),
    CASE(bad_prefix_is_refused),
    CASE(watches_are_bounded_per_connection),
};

TEST_MAIN(tests)
