/* GET and STAT that wait. */

#include "support/test.h"

#include <string.h>

#include "support/fake_peer.h"

static uint64_t wait_for_names(struct service *s, const struct msg_name *names, size_t n,
                               uint32_t timeout_ms)
{
  struct msg_request request = {.type = MSG_GET, .u.get = fake_get(names)};

  request.u.get.n_names = n;
  request.u.get.timeout_ms = timeout_ms;
  return fake_peer_start(&s->edge, s->bob, &request);
}

static void put_readable(struct service *s, const char *path)
{
  fake_peer_put_with(&s->edge, s->alice, path, MSG_LIFETIME_SESSION, 0644);
}

static void waiting_get_is_woken_by_the_publication(void **state)
{
  struct service *s = *state;
  struct msg_name name = {ALICE, "w"};
  uint64_t id = wait_for_names(s, &name, 1, 1000);
  const struct msg_reply *reply;

  assert_null(fake_peer_take(&s->edge, s->bob));
  put_readable(s, "other");
  assert_null(fake_peer_take(&s->edge, s->bob));
  put_readable(s, "w");
  reply = fake_peer_take(&s->edge, s->bob);
  assert_int_equal(reply->id, id);
  assert_int_equal(reply->u.granted.n_grants, 1);
  fake_edge_advance(&s->edge, 5000);
  assert_null(fake_peer_take(&s->edge, s->bob));
}

static void waiting_get_ends_at_its_deadline(void **state)
{
  struct service *s = *state;
  struct msg_name name = {ALICE, "w"};

  wait_for_names(s, &name, 1, 1000);
  fake_edge_advance(&s->edge, 999);
  assert_null(fake_peer_take(&s->edge, s->bob));
  fake_edge_advance(&s->edge, 1);
  assert_int_equal(fake_peer_take(&s->edge, s->bob)->status, DLP_STATUS_TIMEOUT);
  put_readable(s, "w");
  assert_null(fake_peer_take(&s->edge, s->bob));
}

static void deadline_stays_when_it_is_woken_for_nothing(void **state)
{
  struct service *s = *state;
  struct msg_name names[] = {{ALICE, "a"}, {ALICE, "b"}};

  wait_for_names(s, names, 2, 1000);
  fake_edge_advance(&s->edge, 600);
  put_readable(s, "a");
  assert_null(fake_peer_take(&s->edge, s->bob));
  fake_edge_advance(&s->edge, 400);
  assert_int_equal(fake_peer_take(&s->edge, s->bob)->status, DLP_STATUS_TIMEOUT);
}

static void waiting_without_limit_has_no_deadline(void **state)
{
  struct service *s = *state;
  struct msg_name name = {ALICE, "w"};

  wait_for_names(s, &name, 1, DLP_TIMEOUT_NEVER);
  fake_edge_advance(&s->edge, UINT64_C(1000000000000));
  put_readable(s, "w");
  assert_int_equal(fake_peer_take(&s->edge, s->bob)->status, DLP_STATUS_OK);
}

static void many_names_are_waited_for_together(void **state)
{
  struct service *s = *state;
  struct msg_name names[] = {{ALICE, "a"}, {ALICE, "b"}, {ALICE, "c"}};

  wait_for_names(s, names, 3, DLP_TIMEOUT_NEVER);
  put_readable(s, "c");
  put_readable(s, "a");
  assert_null(fake_peer_take(&s->edge, s->bob));
  put_readable(s, "b");
  assert_int_equal(fake_peer_take(&s->edge, s->bob)->u.granted.n_grants, 3);
}

static void newer_version_is_waited_for(void **state)
{
  struct service *s = *state;
  struct msg_name name = {ALICE, "w"};
  struct msg_request request = {.type = MSG_GET, .u.get = fake_get(&name)};
  uint64_t version = fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_SESSION, 0644);

  request.u.get.newer_than = version;
  request.u.get.timeout_ms = 1000;
  assert_null(fake_peer_call(&s->edge, s->bob, &request));
  put_readable(s, "w");
  assert_true(fake_peer_take(&s->edge, s->bob)->u.granted.grants[0].tensor.version > version);
}

static void name_that_may_not_be_read_is_waited_for_until_it_may(void **state)
{
  struct service *s = *state;
  struct msg_name name = {ALICE, "w"};

  wait_for_names(s, &name, 1, DLP_TIMEOUT_NEVER);
  fake_peer_put(&s->edge, s->alice, "w");
  assert_null(fake_peer_take(&s->edge, s->bob));
  put_readable(s, "w");
  assert_int_equal(fake_peer_take(&s->edge, s->bob)->status, DLP_STATUS_OK);
}

static void waiting_name_is_nothing_that_others_see(void **state)
{
  struct service *s = *state;
  struct msg_name name = {ALICE, "w"};
  struct msg_request list = {
      .type = MSG_LIST, .u.list = {.owner = MSG_OWNER_SELF, .prefix = "", .after = {.path = ""}}};

  wait_for_names(s, &name, 1, DLP_TIMEOUT_NEVER);
  assert_int_equal(fake_peer_call(&s->edge, s->alice, &list)->u.listed.n_tensors, 0);
  assert_int_equal(fake_peer_stat(&s->edge, s->alice, ALICE, "w")->status, DLP_STATUS_NOT_FOUND);
}

static void waiting_stat_tells_without_a_lease(void **state)
{
  struct service *s = *state;
  struct msg_request request = {.type = MSG_STAT,
                                .u.stat = {.name = {ALICE, "w"}, .timeout_ms = 1000}};

  assert_null(fake_peer_call(&s->edge, s->bob, &request));
  put_readable(s, "w");
  assert_int_equal(fake_peer_take(&s->edge, s->bob)->u.listed.n_tensors, 1);
  assert_int_equal(fake_edge_counter(&s->edge, "leases"), 0);
  request.u.stat.name.path = "x";
  assert_null(fake_peer_call(&s->edge, s->bob, &request));
  fake_edge_advance(&s->edge, 1000);
  assert_int_equal(fake_peer_take(&s->edge, s->bob)->status, DLP_STATUS_TIMEOUT);
}

static void requests_that_wait_are_bounded(void **state)
{
  struct service *s = *state;
  struct msg_name name = {ALICE, "w"};
  size_t n = 0;
  const struct msg_reply *reply;

  do
    wait_for_names(s, &name, 1, DLP_TIMEOUT_NEVER);
  while (!(reply = fake_peer_take(&s->edge, s->bob)) && ++n < 1000);
  assert_int_equal(reply->status, DLP_STATUS_BUSY);
  put_readable(s, "w");
  while (fake_peer_take(&s->edge, s->bob))
    n--;
  assert_int_equal(n, 0);
}

static void request_woken_at_the_edge_of_its_quota_goes_on_waiting(void **state)
{
  struct service *s = *state;
  struct msg_name names[] = {{ALICE, "a"}, {ALICE, "b"}};
  size_t n = 0;
  const struct msg_reply *reply;

  s->config.limits.of[QUOTA_HEAP] = 16000;
  service_restart(s);
  do
    wait_for_names(s, names, 2, DLP_TIMEOUT_NEVER);
  while (!(reply = fake_peer_take(&s->edge, s->bob)) && ++n < 1000);
  assert_int_equal(reply->status, DLP_STATUS_QUOTA);
  put_readable(s, "a");
  assert_null(fake_peer_take(&s->edge, s->bob));
  put_readable(s, "b");
  while (fake_peer_take(&s->edge, s->bob))
    n--;
  assert_int_equal(n, 0);
}

static void client_that_goes_is_not_answered(void **state)
{
  struct service *s = *state;
  struct msg_name name = {ALICE, "w"};

  wait_for_names(s, &name, 1, DLP_TIMEOUT_NEVER);
  fake_edge_disconnect(&s->edge, s->bob);
  put_readable(s, "w");
  assert_null(fake_peer_take(&s->edge, s->bob));
}

static void waiting_and_spanning_requests_of_one_connection_do_not_meet(void **state)
{
  struct service *s = *state;
  struct msg_name name = {ALICE, "w"};
  struct msg_request spanning = {.type = MSG_GET, .u.get = fake_get(&name)};
  uint64_t id;

  wait_for_names(s, &name, 1, DLP_TIMEOUT_NEVER);
  spanning.u.get.more = true;
  id = fake_peer_start(&s->edge, s->bob, &spanning);
  put_readable(s, "w");
  assert_int_equal(fake_peer_take(&s->edge, s->bob)->u.granted.n_grants, 1);
  spanning.id = id;
  spanning.u.get.more = false;
  fake_edge_request(&s->edge, s->bob, &spanning);
  assert_int_equal(fake_peer_take(&s->edge, s->bob)->u.granted.n_grants, 2);
}

static void waiting_request_is_answered_itself_whatever_has_its_id(void **state)
{
  struct service *s = *state;
  struct msg_name names[] = {{ALICE, "w"}, {ALICE, "v"}};
  struct msg_request spanning = {.type = MSG_GET, .u.get = fake_get(&names[1])};

  put_readable(s, "v");
  spanning.id = wait_for_names(s, names, 1, DLP_TIMEOUT_NEVER);
  spanning.u.get.more = true;
  fake_edge_request(&s->edge, s->bob, &spanning);
  put_readable(s, "w");
  assert_int_equal(fake_peer_take(&s->edge, s->bob)->u.granted.n_grants, 1);
}

static void waiting_by_prefix_does_not_exist(void **state)
{
  struct service *s = *state;
  struct msg_name name = {ALICE, "w"};
  struct msg_request request = {.type = MSG_GET, .u.get = fake_get(&name)};

  request.u.get.by_prefix = true;
  request.u.get.timeout_ms = 1000;
  assert_int_equal(fake_peer_call(&s->edge, s->bob, &request)->status, DLP_STATUS_NOT_FOUND);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, service_setup, service_teardown)

static const struct CMUnitTest tests[] = {
    CASE(waiting_get_is_woken_by_the_publication),
    CASE(waiting_get_ends_at_its_deadline),
    CASE(deadline_stays_when_it_is_woken_for_nothing),
    CASE(waiting_without_limit_has_no_deadline),
    CASE(many_names_are_waited_for_together),
    CASE(newer_version_is_waited_for),
    CASE(name_that_may_not_be_read_is_waited_for_until_it_may),
    CASE(waiting_name_is_nothing_that_others_see),
    CASE(waiting_stat_tells_without_a_lease),
    CASE(requests_that_wait_are_bounded),
    CASE(request_woken_at_the_edge_of_its_quota_goes_on_waiting),
    CASE(client_that_goes_is_not_answered),
    CASE(waiting_and_spanning_requests_of_one_connection_do_not_meet),
    CASE(waiting_request_is_answered_itself_whatever_has_its_id),
    CASE(waiting_by_prefix_does_not_exist),
};

TEST_MAIN(tests)
