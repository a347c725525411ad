/* Two users: who may not see a tensor learns nothing of it, by any call. Needs root, to
 * become somebody else; is skipped otherwise. */

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/measure.h"
#include "support/packets.h"
#include "support/test.h"

#define STRANGER 65534
#define GROUP 54321

/* One tensor of each kind, of the same owner. */
static const struct {
  const char *name;
  uint32_t mode;
  bool of_group;
} published[] = {
    {"secret", 0600, false},
    {"shared", 0640, true},
    {"public", 0644, false},
};

struct bench {
  struct test_daemon daemon;
  struct dlc_client *owner;
  uint8_t token[DLP_TOKEN_SIZE];
  gid_t group; /* of the stranger, besides its own; 0: none */
};

static void publish(struct bench *bench, size_t i)
{
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  float value = 1;
  struct dlc_view view = test_view_f32(&value, NULL, 0);
  struct dlc_error error;

  options.mode = published[i].mode;
  options.has_gid = published[i].of_group;
  options.gid = published[i].of_group ? GROUP : 0;
  test_ok(dlc_put(bench->owner, published[i].name, &view, &options, NULL, &error), &error);
}

static int setup(void **state)
{
  static const char *const arguments[] = {"--socket-mode", "0666", NULL};
  struct bench *bench = calloc(1, sizeof(*bench));

  assert_non_null(bench);
  *state = bench;
  test_daemon_init(&bench->daemon, arguments);
  assert_int_equal(chmod(bench->daemon.folder, 0711), 0);
  bench->owner = test_connect(&bench->daemon);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(published); i++)
    publish(bench, i);
  return 0;
}

static int teardown(void **state)
{
  struct bench *bench = *state;

  dlc_close(bench->owner);
  test_daemon_deinit(&bench->daemon);
  free(bench);
  return 0;
}

static bool become_stranger(const struct bench *bench)
{
  return setgroups(bench->group ? 1 : 0, &bench->group) == 0 && setgid(STRANGER) == 0 &&
         setuid(STRANGER) == 0;
}

static void run_as_stranger(struct bench *bench,
                            int (*function)(void *context, struct test_pipe_ends *ends))
{
  struct test_child child;

  if (geteuid() != 0) {
    print_message("skipped: only root can become another user\n");
    skip();
  }
  test_child_start(&child, function, bench);
  test_child_join(&child);
}

/* ---- what is hidden is answered as what is not there ---- */

struct answers {
  struct dlc_error get, wait, stat, stat_later, many, delete, put;
};

static void ask(struct dlc_client *client, const char *name, struct answers *ret)
{
  struct dlc_get_options later = DLC_GET_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor, **tensors;
  float value = 2;
  struct dlc_view view = test_view_f32(&value, NULL, 0);
  struct dlc_info *info;
  size_t n;

  memset(ret, 0, sizeof(*ret));
  later.timeout_ms = 20;
  (void)!dlc_get(client, name, NULL, &tensor, &ret->get);
  (void)!dlc_get(client, name, &later, &tensor, &ret->wait);
  (void)!dlc_stat(client, name, &info, &ret->stat);
  (void)!dlc_wait(client, name, 0, 20, &info, &ret->stat_later);
  (void)!dlc_get_many(client, &name, 1, NULL, &tensors, &n, &ret->many);
  (void)!dlc_delete(client, name, 0, NULL, &ret->delete);
  (void)!dlc_put(client, name, &view, NULL, NULL, &ret->put);
}

/* The same but for the name, which has as many letters. */
static bool same_answer(const struct dlc_error *a, const struct dlc_error *b)
{
  char text[sizeof(b->message)];
  char *at;

  memcpy(text, b->message, sizeof(text));
  while ((at = strstr(text, "absent")))
    memcpy(at, "secret", 6);
  if (a->code == b->code && a->code != 0 && strcmp(a->message, text) == 0)
    return true;
  (void)fprintf(stderr, "'%s' (%d) and '%s' (%d)\n", a->message, a->code, b->message, b->code);
  return false;
}

static int ask_for_a_secret(void *context, struct test_pipe_ends *ends)
{
  const struct bench *bench = context;
  struct answers secret, absent;
  struct dlc_client *client;

  CHECK(become_stranger(bench));
  CHECK(dlc_connect(bench->daemon.socket, NULL, &client, NULL) == 0);
  ask(client, "~0/secret", &secret);
  ask(client, "~0/absent", &absent);
  CHECK(secret.get.code == DLC_E_NOT_FOUND);
  CHECK(secret.wait.code == DLC_E_TIMEOUT);
  CHECK(secret.put.code == DLC_E_DENIED);
  CHECK(same_answer(&secret.get, &absent.get));
  CHECK(same_answer(&secret.wait, &absent.wait));
  CHECK(same_answer(&secret.stat, &absent.stat));
  CHECK(same_answer(&secret.stat_later, &absent.stat_later));
  CHECK(same_answer(&secret.many, &absent.many));
  CHECK(same_answer(&secret.delete, &absent.delete));
  CHECK(same_answer(&secret.put, &absent.put));
  dlc_close(client);
  return 0;
}

static void case_42_a_secret_is_answered_as_what_is_not_there(void **state)
{
  struct bench *bench = *state;

  run_as_stranger(bench, ask_for_a_secret);
  test_wait_counter(bench->owner, "sessions", 1);
  assert_int_equal(test_counter(bench->owner, "leases"), 0);
}

/* ---- what may be read ---- */

static int count_name(void *context, const struct dlc_info *info)
{
  int *n = context;

  if (strcmp(info->name, "~0/secret") == 0)
    *n += 1000;
  *n += 1;
  return 0;
}

static int names_seen(struct dlc_client *client, const struct dlc_list_options *options)
{
  int n = 0;

  return dlc_list(client, options, count_name, &n, NULL) == 0 ? n : -1;
}

static int list_as_stranger(struct dlc_client *client, int n_wanted)
{
  struct dlc_list_options options = DLC_LIST_OPTIONS_INIT;

  CHECK(names_seen(client, NULL) == 0);
  options.flags = DLC_LIST_ALL_OWNERS | DLC_LIST_RETIRED;
  CHECK(names_seen(client, &options) == n_wanted);
  options.flags = 0;
  options.pattern = "~0/";
  CHECK(names_seen(client, &options) == n_wanted);
  options.pattern = "~0/s*t";
  CHECK(names_seen(client, &options) == 0);
  return 0;
}

static int read_only_what_is_public(void *context, struct test_pipe_ends *ends)
{
  struct dlc_get_options shared = DLC_GET_OPTIONS_INIT;
  const struct bench *bench = context;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_client *client;
  float value = 2;
  struct dlc_view view = test_view_f32(&value, NULL, 0);
  int n_visible = bench->group == GROUP ? 2 : 1;

  CHECK(become_stranger(bench));
  CHECK(dlc_connect(bench->daemon.socket, NULL, &client, NULL) == 0);
  CHECK(dlc_get(client, "~0/public", NULL, &tensor, NULL) == 0);
  tensor->deleter(tensor);
  CHECK(dlc_get(client, "~root/public", NULL, &tensor, NULL) == 0);
  tensor->deleter(tensor);
  CHECK(dlc_get(client, "~0/shared", NULL, &tensor, NULL) ==
        (n_visible == 2 ? 0 : -DLC_E_NOT_FOUND));
  if (n_visible == 2)
    tensor->deleter(tensor);
  shared.access = DLC_ACCESS_SHARED;
  CHECK(dlc_get(client, "~0/public", &shared, &tensor, NULL) < 0);
  CHECK(dlc_put(client, "~0/public", &view, NULL, NULL, NULL) == -DLC_E_DENIED);
  CHECK(dlc_delete(client, "~0/public", 0, NULL, NULL) == -DLC_E_DENIED);
  CHECK(dlc_delete(client, "~0/", 0, NULL, NULL) == -DLC_E_NOT_FOUND);
  CHECK(list_as_stranger(client, n_visible) == 0);
  dlc_close(client);
  return 0;
}

static void case_42_others_get_what_the_mode_grants_and_change_nothing(void **state)
{
  struct bench *bench = *state;

  run_as_stranger(bench, read_only_what_is_public);
  bench->group = GROUP;
  run_as_stranger(bench, read_only_what_is_public);
  assert_int_equal(test_counter(bench->owner, "tensors"), TEST_ARRAY_SIZE(published));
}

/* ---- watching ---- */

struct seen {
  int n_secret, n_public;
};

static void note_event(void *context, const struct dlc_event *event)
{
  struct seen *seen = context;

  if (strcmp(event->name, "~0/public") == 0)
    seen->n_public++;
  else
    seen->n_secret++;
}

static int watch_a_secret(void *context, struct test_pipe_ends *ends)
{
  const struct bench *bench = context;
  struct seen seen = {0};
  struct dlc_client *client;
  struct dlc_watch *watch;

  CHECK(become_stranger(bench));
  CHECK(dlc_connect(bench->daemon.socket, NULL, &client, NULL) == 0);
  CHECK(dlc_watch_open(client, "~0/", DLC_WATCH_EVERYTHING, &watch, NULL) == 0);
  CHECK(dlc_watch_dispatch(watch, TEST_PATIENCE_MS, note_event, &seen, NULL) == 1);
  CHECK(seen.n_public == 1 && seen.n_secret == 0);
  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  CHECK(dlc_watch_dispatch(watch, TEST_PATIENCE_MS, note_event, &seen, NULL) == 1);
  CHECK(seen.n_public == 2 && seen.n_secret == 0);
  dlc_watch_close(watch);
  dlc_close(client);
  return 0;
}

static void a_watcher_hears_nothing_of_what_it_may_not_see(void **state)
{
  struct bench *bench = *state;
  struct test_child child;
  struct dlc_error error;

  if (geteuid() != 0)
    skip();
  test_child_start(&child, watch_a_secret, bench);
  (void)test_hear(child.from_child);
  publish(bench, 0);
  test_ok(dlc_delete(bench->owner, "secret", 0, NULL, &error), &error);
  publish(bench, 2);
  test_tell(child.to_child, 1);
  test_child_join(&child);
}

/* ---- below the library ---- */

static int take_a_session_over(void *context, struct test_pipe_ends *ends)
{
  const struct bench *bench = context;
  uint8_t token[DLP_TOKEN_SIZE];
  bool resumed = true;
  int fd;

  memcpy(token, bench->token, sizeof(token));
  CHECK(become_stranger(bench));
  fd = test_raw_open(bench->daemon.socket, token, &resumed);
  CHECK(fd >= 0);
  CHECK(!resumed);
  CHECK(memcmp(token, bench->token, sizeof(token)) != 0);
  (void)close(fd);
  return 0;
}

static void a_token_is_worth_nothing_to_another_user(void **state)
{
  struct bench *bench = *state;
  int fd = test_raw_open(bench->daemon.socket, bench->token, NULL);

  assert_true(fd >= 0);
  run_as_stranger(bench, take_a_session_over);
  assert_true(test_raw_is_served(fd));
  (void)close(fd);
}

/* Names and memory of somebody else, and a uid that is said to be another's. */
static int speak_for_another(void *context, struct test_pipe_ends *ends)
{
  const struct bench *bench = context;
  const struct msg_name secret = {0, "secret"}, fresh = {0, "fresh"}, own = {STRANGER, "own"};
  struct test_grant grant;
  struct msg_place place;
  uint64_t segment;
  int fd;

  CHECK(become_stranger(bench));
  fd = test_raw_open(bench->daemon.socket, NULL, NULL);
  CHECK(fd >= 0);
  CHECK(test_raw_get(fd, &secret, &grant) == DLP_STATUS_NOT_FOUND);
  CHECK(test_raw_allocate(fd, 4096, &place));
  CHECK(test_raw_publish(fd, 1, &fresh, &place) == DLP_STATUS_DENIED);
  CHECK(test_raw_publish(fd, 2, &secret, &place) == DLP_STATUS_DENIED);
  for (segment = 0; segment <= place.segment + 2; segment++) {
    const struct msg_request map = {.id = 9, .type = MSG_MAP, .u.map = {segment, MSG_ACCESS_READ}};

    CHECK(test_raw_status(fd, &map) == DLP_STATUS_NOT_FOUND);
  }
  CHECK(test_raw_get(fd, &own, &grant) == DLP_STATUS_NOT_FOUND);
  (void)close(fd);
  return 0;
}

static void nobody_publishes_or_maps_for_another_by_hand_made_packets(void **state)
{
  struct bench *bench = *state;

  run_as_stranger(bench, speak_for_another);
  assert_int_equal(test_counter(bench->owner, "tensors"), TEST_ARRAY_SIZE(published));
}

#define with_bench(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
    with_bench(case_42_a_secret_is_answered_as_what_is_not_there),
    with_bench(case_42_others_get_what_the_mode_grants_and_change_nothing),
    with_bench(a_watcher_hears_nothing_of_what_it_may_not_see),
    with_bench(a_token_is_worth_nothing_to_another_user),
    with_bench(nobody_publishes_or_maps_for_another_by_hand_made_packets),
};

TEST_MAIN(tests)
