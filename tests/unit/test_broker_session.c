/* HELLO, resuming, goodbye, death and grace. */

#include "support/test.h"

#include <errno.h>
#include <string.h>

#include "support/fake_peer.h"

static const struct msg_reply *say_hello(struct service *s, uint64_t connection, uint32_t major)
{
  struct msg_request request = {.type = MSG_HELLO, .u.hello = {.major = major, .minor = 7}};

  return fake_peer_call(&s->edge, connection, &request);
}

static void ping_is_answered(struct service *s, uint64_t connection)
{
  const struct msg_reply *reply =
      fake_peer_call(&s->edge, connection, &(struct msg_request){.type = MSG_PING});

  assert_non_null(reply);
  assert_int_equal(reply->status, DLP_STATUS_OK);
}

/* ---- hello ---- */

static void hello_tells_who_both_sides_are(void **state)
{
  struct service *s = *state;
  uint64_t connection = fake_peer_connect_silent(&s->edge, 1234);
  const struct msg_reply *reply = say_hello(s, connection, DLP_PROTOCOL_MAJOR);

  assert_int_equal(reply->type, MSG_WELCOME);
  assert_int_equal(reply->u.welcome.uid, 1234);
  assert_int_equal(reply->u.welcome.minor, DLP_PROTOCOL_MINOR);
  assert_int_equal(reply->u.welcome.lease_page_size, DLP_LEASE_PAGE_SIZE);
  assert_string_equal(reply->u.welcome.boot_id, "boot");
  assert_memory_equal(reply->u.welcome.daemon_id, s->config.daemon_id, DLP_TOKEN_SIZE);
  assert_false(reply->u.welcome.resumed);
}

static void foreign_major_is_refused_in_words(void **state)
{
  struct service *s = *state;
  uint64_t connection = fake_peer_connect_silent(&s->edge, ALICE);
  const struct msg_reply *reply = say_hello(s, connection, DLP_PROTOCOL_MAJOR + 1);

  assert_int_equal(reply->status, DLP_STATUS_VERSION);
  assert_non_null(strstr(reply->message, "1.0"));
  assert_non_null(strstr(reply->message, "2.7"));
  assert_false(fake_edge_is_open(&s->edge, connection));
}

static void second_hello_ends_the_connection_only(void **state)
{
  struct service *s = *state;

  assert_null(say_hello(s, s->alice, DLP_PROTOCOL_MAJOR));
  assert_false(fake_edge_is_open(&s->edge, s->alice));
  ping_is_answered(s, s->bob);
}

static void request_before_hello_ends_the_connection(void **state)
{
  struct service *s = *state;
  uint64_t connection = fake_peer_connect_silent(&s->edge, ALICE);

  assert_null(fake_peer_call(&s->edge, connection, &(struct msg_request){.type = MSG_PING}));
  assert_false(fake_edge_is_open(&s->edge, connection));
}

static void request_before_hello_is_answered_ends_the_connection(void **state)
{
  struct service *s = *state;
  uint64_t connection = fake_peer_connect_silent(&s->edge, ALICE);

  s->edge.is_holding = true;
  assert_null(say_hello(s, connection, DLP_PROTOCOL_MAJOR));
  assert_null(fake_peer_call(&s->edge, connection, &(struct msg_request){.type = MSG_PING}));
  assert_false(fake_edge_is_open(&s->edge, connection));
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  fake_edge_advance(&s->edge, s->config.session_grace_ms);
  assert_int_equal(fake_edge_counter(&s->edge, "sessions"), 2);
}

static void silence_is_ended_after_a_while(void **state)
{
  struct service *s = *state;
  uint64_t connection = fake_peer_connect_silent(&s->edge, ALICE);

  fake_edge_advance(&s->edge, 4999);
  assert_true(fake_edge_is_open(&s->edge, connection));
  fake_edge_advance(&s->edge, 1);
  assert_false(fake_edge_is_open(&s->edge, connection));
  assert_true(fake_edge_is_open(&s->edge, s->alice));
}

static void sessions_have_a_quota(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;
  uint64_t connection;

  s->config.limits.of[QUOTA_SESSIONS] = 1;
  service_restart(s);
  connection = fake_peer_connect_silent(&s->edge, ALICE);
  reply = say_hello(s, connection, DLP_PROTOCOL_MAJOR);
  assert_int_equal(reply->status, DLP_STATUS_QUOTA);
  assert_non_null(strstr(reply->message, "sessions"));
  assert_false(fake_edge_is_open(&s->edge, connection));
  ping_is_answered(s, s->alice);
}

static void session_that_cannot_be_opened_leaves_nothing(void **state)
{
  struct service *s = *state;
  uint64_t connection = fake_peer_connect_silent(&s->edge, ALICE);
  const struct msg_reply *reply;

  s->edge.fail_error = -EMFILE;
  s->edge.fail_kind = EFFECT_SESSION_OPEN;
  reply = say_hello(s, connection, DLP_PROTOCOL_MAJOR);
  assert_int_equal(reply->status, DLP_STATUS_BUSY);
  assert_false(fake_edge_is_open(&s->edge, connection));
  assert_int_equal(fake_edge_counter(&s->edge, "sessions"), 2);
  fake_edge_check(&s->edge);
}

static void ids_must_fit_the_type_of_request(void **state)
{
  struct service *s = *state;

  fake_peer_send(&s->edge, s->alice, &(struct msg_request){.type = MSG_PING});
  assert_false(fake_edge_is_open(&s->edge, s->alice));
  fake_peer_start(&s->edge, s->bob, &(struct msg_request){.type = MSG_RELEASE});
  assert_false(fake_edge_is_open(&s->edge, s->bob));
}

static void unknown_type_ends_the_connection(void **state)
{
  struct service *s = *state;

  fake_peer_start(&s->edge, s->alice, &(struct msg_request){.type = 4711});
  assert_false(fake_edge_is_open(&s->edge, s->alice));
}

static void request_of_a_later_protocol_is_refused_by_its_id(void **state)
{
  struct service *s = *state;
  uint64_t silent = fake_peer_connect_silent(&s->edge, ALICE);
  const struct msg_reply *reply;

  fake_edge_unknown_request(&s->edge, s->bob, 9);
  reply = fake_peer_take(&s->edge, s->bob);
  assert_int_equal(reply->id, 9);
  assert_int_equal(reply->status, DLP_STATUS_UNSUPPORTED);
  assert_true(fake_edge_is_open(&s->edge, s->bob));
  fake_edge_unknown_request(&s->edge, silent, 9);
  assert_false(fake_edge_is_open(&s->edge, silent));
  fake_edge_unknown_request(&s->edge, s->alice, 0);
  assert_false(fake_edge_is_open(&s->edge, s->alice));
}

static void connection_that_is_gone_is_no_event(void **state)
{
  struct service *s = *state;

  broker_request(s->edge.broker, 4711, &(struct msg_request){.id = 1, .type = MSG_PING},
                 &s->edge.env);
  broker_unknown_request(s->edge.broker, 4711, 1, &s->edge.env);
  broker_disconnect(s->edge.broker, 4711, false, &s->edge.env);
  ping_is_answered(s, s->alice);
}

/* ---- resuming ---- */

struct standing {
  uint8_t token[DLP_TOKEN_SIZE];
  uint64_t connection;
  uint64_t session;
};

static struct standing join(struct service *s, uint32_t uid)
{
  struct standing standing = {.connection = fake_peer_connect_silent(&s->edge, uid)};
  const struct msg_reply *reply = say_hello(s, standing.connection, DLP_PROTOCOL_MAJOR);

  memcpy(standing.token, reply->u.welcome.token, DLP_TOKEN_SIZE);
  standing.session = reply->u.welcome.session;
  return standing;
}

static void token_brings_back_the_session(void **state)
{
  struct service *s = *state;
  struct standing standing = join(s, ALICE);
  uint64_t second = fake_peer_connect_silent(&s->edge, ALICE);
  const struct msg_reply *reply;

  fake_peer_put(&s->edge, standing.connection, "w");
  fake_edge_disconnect(&s->edge, standing.connection);
  reply = fake_peer_hello(&s->edge, second, standing.token);
  assert_true(reply->u.welcome.resumed);
  assert_int_equal(reply->u.welcome.session, standing.session);
  fake_edge_advance(&s->edge, 10 * s->config.session_grace_ms);
  assert_int_equal(fake_peer_stat(&s->edge, second, MSG_OWNER_SELF, "w")->status, DLP_STATUS_OK);
}

static void token_of_another_user_gives_a_session_of_ones_own(void **state)
{
  struct service *s = *state;
  struct standing standing = join(s, ALICE);
  uint64_t thief = fake_peer_connect_silent(&s->edge, BOB);
  const struct msg_reply *reply = fake_peer_hello(&s->edge, thief, standing.token);

  assert_false(reply->u.welcome.resumed);
  assert_int_not_equal(reply->u.welcome.session, standing.session);
  assert_int_equal(reply->u.welcome.uid, BOB);
}

static void token_of_an_ended_session_gives_a_new_one(void **state)
{
  struct service *s = *state;
  struct standing standing = join(s, ALICE);
  uint64_t second = fake_peer_connect_silent(&s->edge, ALICE);

  fake_edge_die(&s->edge, standing.session);
  assert_false(fake_edge_is_open(&s->edge, standing.connection));
  assert_false(fake_peer_hello(&s->edge, second, standing.token)->u.welcome.resumed);
}

/* ---- the end ---- */

static void goodbye_is_answered_and_takes_everything_along(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;

  fake_peer_put(&s->edge, s->alice, "w");
  fake_peer_block(&s->edge, s->alice, 100);
  reply = fake_peer_call(&s->edge, s->alice, &(struct msg_request){.type = MSG_GOODBYE});
  assert_int_equal(reply->status, DLP_STATUS_OK);
  assert_false(fake_edge_is_open(&s->edge, s->alice));
  assert_int_equal(fake_edge_counter(&s->edge, "sessions"), 1);
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 0);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 0);
}

static void session_without_a_lease_ends_after_its_grace(void **state)
{
  struct service *s = *state;

  fake_peer_put(&s->edge, s->alice, "w");
  fake_edge_disconnect(&s->edge, s->alice);
  fake_edge_advance(&s->edge, s->config.session_grace_ms - 1);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 1);
  fake_edge_advance(&s->edge, 1);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 0);
  assert_int_equal(fake_edge_counter(&s->edge, "sessions"), 1);
}

static void session_with_a_lease_stays_until_its_process_dies(void **state)
{
  struct service *s = *state;
  uint64_t session = fake_peer_session(&s->edge, s->alice);

  fake_peer_put(&s->edge, s->alice, "w");
  assert_int_equal(fake_peer_get(&s->edge, s->alice, MSG_OWNER_SELF, "w")->status, 0);
  fake_edge_disconnect(&s->edge, s->alice);
  fake_edge_advance(&s->edge, 1000 * s->config.session_grace_ms);
  assert_int_equal(fake_edge_counter(&s->edge, "sessions"), 2);
  fake_edge_die(&s->edge, session);
  assert_int_equal(fake_edge_counter(&s->edge, "sessions"), 1);
  assert_int_equal(fake_edge_counter(&s->edge, "leases"), 0);
  fake_edge_check(&s->edge);
}

static void death_of_a_stranger_is_no_event(void **state)
{
  struct service *s = *state;

  fake_edge_die(&s->edge, 4711);
  ping_is_answered(s, s->alice);
}

static void persistent_tensor_survives_its_producer(void **state)
{
  struct service *s = *state;

  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_PERSISTENT, 0644);
  fake_edge_die(&s->edge, fake_peer_session(&s->edge, s->alice));
  assert_int_equal(fake_peer_get(&s->edge, s->bob, ALICE, "w")->u.granted.n_grants, 1);
  assert_false(broker_is_idle(s->edge.broker));
}

static void holders_keep_what_a_dead_producer_published(void **state)
{
  struct service *s = *state;

  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_SESSION, 0644);
  assert_int_equal(fake_peer_get(&s->edge, s->bob, ALICE, "w")->u.granted.n_grants, 1);
  fake_edge_die(&s->edge, fake_peer_session(&s->edge, s->alice));
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 1);
  assert_int_equal(fake_peer_get(&s->edge, s->bob, ALICE, "w")->status, DLP_STATUS_NOT_FOUND);
  fake_edge_die(&s->edge, fake_peer_session(&s->edge, s->bob));
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 0);
}

static void death_while_a_plan_is_under_way_waits_for_it(void **state)
{
  struct service *s = *state;
  uint64_t session = fake_peer_session(&s->edge, s->alice);
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add = fake_add("w", &place, &shape);

  s->edge.is_holding = true;
  assert_null(fake_peer_publish(&s->edge, s->alice,
                                &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add}));
  fake_edge_die(&s->edge, session);
  assert_false(fake_edge_is_open(&s->edge, s->alice));
  assert_int_equal(fake_edge_counter(&s->edge, "sessions"), 2);
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  assert_int_equal(fake_edge_counter(&s->edge, "sessions"), 1);
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 0);
  fake_edge_check(&s->edge);
}

static void edge_is_told_when_to_come_again(void **state)
{
  struct service *s = *state;
  uint64_t session = fake_peer_session(&s->edge, s->alice);

  assert_int_equal(broker_next_deadline(s->edge.broker), UINT64_MAX);
  assert_true(broker_session_connected(s->edge.broker, session));
  fake_edge_disconnect(&s->edge, s->alice);
  assert_false(broker_session_connected(s->edge.broker, session));
  assert_int_equal(broker_next_deadline(s->edge.broker),
                   s->edge.env.steady_us + s->config.session_grace_ms * 1000);
}

static void daemon_may_end_at_any_time(void **state)
{
  struct service *s = *state;
  struct msg_name name = {ALICE, "missing"};
  struct msg_request request = {.type = MSG_GET, .u.get = fake_get(&name)};

  request.u.get.timeout_ms = 1000;
  fake_peer_put_with(&s->edge, s->alice, "kept", MSG_LIFETIME_PERSISTENT, 0644);
  fake_peer_put_with(&s->edge, s->alice, "timed", MSG_LIFETIME_TTL, 0644);
  fake_peer_get(&s->edge, s->bob, ALICE, "kept");
  fake_peer_put(&s->edge, s->alice, "kept");
  fake_peer_start(&s->edge, s->bob, &request);
  fake_peer_connect_silent(&s->edge, ALICE);
  fake_edge_deinit(&s->edge);
  service_start(s);
}

static void daemon_is_idle_without_sessions_and_persistent_tensors(void **state)
{
  struct service *s = *state;

  assert_false(broker_is_idle(s->edge.broker));
  fake_edge_end_all(&s->edge);
  assert_true(broker_is_idle(s->edge.broker));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, service_setup, service_teardown)

static const struct CMUnitTest tests[] = {
    CASE(hello_tells_who_both_sides_are),
    CASE(foreign_major_is_refused_in_words),
    CASE(second_hello_ends_the_connection_only),
    CASE(request_before_hello_ends_the_connection),
    CASE(request_before_hello_is_answered_ends_the_connection),
    CASE(silence_is_ended_after_a_while),
    CASE(sessions_have_a_quota),
    CASE(session_that_cannot_be_opened_leaves_nothing),
    CASE(ids_must_fit_the_type_of_request),
    CASE(unknown_type_ends_the_connection),
    CASE(request_of_a_later_protocol_is_refused_by_its_id),
    CASE(connection_that_is_gone_is_no_event),
    CASE(token_brings_back_the_session),
    CASE(token_of_another_user_gives_a_session_of_ones_own),
    CASE(token_of_an_ended_session_gives_a_new_one),
    CASE(goodbye_is_answered_and_takes_everything_along),
    CASE(session_without_a_lease_ends_after_its_grace),
    CASE(session_with_a_lease_stays_until_its_process_dies),
    CASE(death_of_a_stranger_is_no_event),
    CASE(persistent_tensor_survives_its_producer),
    CASE(holders_keep_what_a_dead_producer_published),
    CASE(death_while_a_plan_is_under_way_waits_for_it),
    CASE(edge_is_told_when_to_come_again),
    CASE(daemon_may_end_at_any_time),
    CASE(daemon_is_idle_without_sessions_and_persistent_tensors),
};

TEST_MAIN(tests)
