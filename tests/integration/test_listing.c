/* Lists in pages, and watches: what is seen, in which order, and at whose cost. */

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/measure.h"
#include "support/packets.h"
#include "support/tensors.h"
#include "support/test.h"

struct bench {
  struct test_daemon daemon;
  struct dlc_client *client;
  struct dlc_watch *watch;
};

static int setup(void **state)
{
  struct bench *bench = calloc(1, sizeof(*bench));

  assert_non_null(bench);
  *state = bench;
  test_daemon_init(&bench->daemon, NULL);
  bench->client = test_connect(&bench->daemon);
  return 0;
}

static int teardown(void **state)
{
  struct bench *bench = *state;

  dlc_watch_close(bench->watch);
  dlc_close(bench->client);
  test_daemon_deinit(&bench->daemon);
  free(bench);
  return 0;
}

/* "<prefix>00000" and so on, one byte each, in one commit. */
static void publish_many(struct dlc_client *client, const char *prefix, int n)
{
  struct dlc_generation *generation;
  struct dlc_error error;
  float value = 1;
  struct dlc_view view = test_view_f32(&value, NULL, 0);
  char name[64];

  test_ok(dlc_begin(client, NULL, &generation, &error), &error);
  for (int i = 0; i < n; i++) {
    (void)snprintf(name, sizeof(name), "%s%05d", prefix, i);
    test_ok(dlc_add_copy(generation, name, &view, NULL, &error), &error);
  }
  test_ok(dlc_commit(generation, NULL, &error), &error);
  dlc_generation_free(generation);
}

/* ---- lists ---- */

struct listing {
  size_t n;
  size_t stop_after; /* 0: never */
  bool is_sorted;
  char last[1100];
};

static int note_name(void *context, const struct dlc_info *info)
{
  struct listing *listing = context;

  listing->is_sorted = listing->is_sorted && strcmp(listing->last, info->name) < 0;
  (void)snprintf(listing->last, sizeof(listing->last), "%s", info->name);
  listing->n++;
  return listing->n == listing->stop_after ? 42 : 0;
}

static struct listing list(struct bench *bench, const char *pattern)
{
  struct dlc_list_options options = DLC_LIST_OPTIONS_INIT;
  struct listing listing = {.is_sorted = true};
  struct dlc_error error;

  options.pattern = pattern;
  test_ok(dlc_list(bench->client, &options, note_name, &listing, &error), &error);
  assert_true(listing.is_sorted);
  return listing;
}

static void five_thousand_names_are_listed_once_each_and_in_order(void **state)
{
  struct bench *bench = *state;

  publish_many(bench->client, "a/", 2500);
  publish_many(bench->client, "b/", 2500);
  assert_int_equal(list(bench, NULL).n, 5000);
  assert_string_equal(list(bench, NULL).last, "b/02499");
}

static void a_pattern_chooses(void **state)
{
  static const struct {
    const char *pattern;
    size_t n;
  } rows[] = {
      {"a/", 600},    {"a/00", 600},  {"a/005", 100}, {"a/00500", 1}, {"a", 603},
      {"b/", 3},      {"c", 0},       {"*", 606},     {"a/*1", 60},   {"a/0?5?0", 10},
      {"*/00001", 2}, {"?/00001", 2}, {"a?00001", 1}, {"*0000*", 13}, {"b/0000[01]", 2},
      {"a/00599", 1}, {"a/*/x", 0},   {"a.c", 1},     {"**", 606},    {"a/0000?", 10},
  };
  struct bench *bench = *state;

  publish_many(bench->client, "a/", 600);
  publish_many(bench->client, "b/", 3);
  (void)test_put(bench->client, "a.c", 4, 1, NULL);
  (void)test_put(bench->client, "abc", 4, 1, NULL);
  (void)test_put(bench->client, "a0", 4, 1, NULL);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++) {
    size_t n = list(bench, rows[i].pattern).n;

    if (n != rows[i].n)
      fail_msg("'%s' lists %zu names and not %zu", rows[i].pattern, n, rows[i].n);
  }
}

static void a_listing_ends_when_its_function_says_so(void **state)
{
  struct bench *bench = *state;
  struct listing listing = {.is_sorted = true, .stop_after = 300};
  struct dlc_error error;

  publish_many(bench->client, "a/", 1000);
  assert_int_equal(dlc_list(bench->client, NULL, note_name, &listing, &error), 42);
  assert_int_equal(listing.n, 300);
}

/* The function of a listing may use the client, and change what is listed. */
static int delete_listed(void *context, const struct dlc_info *info)
{
  struct bench *bench = context;

  test_delete(bench->client, info->name);
  return 0;
}

static void names_may_be_deleted_while_they_are_listed(void **state)
{
  struct bench *bench = *state;
  struct dlc_error error;

  publish_many(bench->client, "a/", 700);
  test_ok(dlc_list(bench->client, NULL, delete_listed, bench, &error), &error);
  assert_int_equal(list(bench, NULL).n, 0);
}

static void a_replaced_version_is_listed_on_request_while_it_is_held(void **state)
{
  struct bench *bench = *state;
  struct dlc_list_options options = DLC_LIST_OPTIONS_INIT;
  struct listing listing = {.is_sorted = true};
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  (void)test_put(bench->client, "t", 100, 1, NULL);
  tensor = test_get(bench->client, "t", DLC_ACCESS_READ);
  (void)test_put(bench->client, "t", 100, 2, NULL);
  assert_int_equal(list(bench, NULL).n, 1);
  options.flags = DLC_LIST_RETIRED;
  test_ok(dlc_list(bench->client, &options, note_name, &listing, &error), &error);
  assert_int_equal(listing.n, 2);
  test_drop(tensor);
}

static int publish_as_another(void *context, struct test_pipe_ends *ends)
{
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  const struct bench *bench = context;
  struct dlc_client *client;
  float value = 1;
  struct dlc_view view = test_view_f32(&value, NULL, 0);

  CHECK(setgid(65534) == 0 && setuid(65534) == 0);
  CHECK(dlc_connect(bench->daemon.socket, NULL, &client, NULL) == 0);
  options.mode = 0644;
  options.lifetime = DLC_LIFETIME_PERSISTENT;
  CHECK(dlc_put(client, "theirs", &view, &options, NULL, NULL) == 0);
  dlc_close(client);
  return 0;
}

static int name_of_all(void *context, const struct dlc_info *info)
{
  char *names = context;

  (void)strcat(names, info->name);
  (void)strcat(names, " ");
  return 0;
}

static void names_of_all_owners_are_told_apart(void **state)
{
  static const char *const arguments[] = {"--socket-mode", "0666", NULL};
  struct bench *bench = *state;
  struct dlc_list_options options = DLC_LIST_OPTIONS_INIT;
  char names[256] = "";
  struct test_child child;
  struct dlc_error error;

  if (geteuid() != 0)
    skip();
  test_daemon_stop(&bench->daemon);
  bench->daemon.arguments = arguments;
  test_daemon_start(&bench->daemon);
  assert_int_equal(chmod(bench->daemon.folder, 0711), 0);
  (void)test_put(bench->client, "ours", 4, 1, NULL);
  test_child_start(&child, publish_as_another, bench);
  test_child_join(&child);
  options.flags = DLC_LIST_ALL_OWNERS;
  test_ok(dlc_list(bench->client, &options, name_of_all, names, &error), &error);
  assert_string_equal(names, "ours ~65534/theirs ");
}

/* ---- a list in a loop, and somebody else ---- */

#define MANY 20000
#define N_SAMPLES 2000
#define N_TURNS 20
/* A get may come to stand behind one page of some 80, never behind a whole list. On a
 * machine with nothing else to do it takes as long as alone; that would be a test of the
 * machine. */
#define LEAST_PART_OF_A_LIST 8

static int list_for_ever(void *context, struct test_pipe_ends *ends)
{
  const struct bench *bench = context;
  struct dlc_client *client;
  bool told = false;

  CHECK(dlc_connect(bench->daemon.socket, NULL, &client, NULL) == 0);
  for (;;) {
    struct listing listing = {.is_sorted = true};

    CHECK(dlc_list(client, NULL, note_name, &listing, NULL) == 0);
    CHECK(listing.n == MANY);
    if (!told)
      test_tell(ends->out, 1);
    told = true;
  }
}

static void sample_gets(struct bench *bench, int64_t *samples, int n)
{
  for (int i = 0; i < n; i++) {
    int64_t start = test_now_us();

    test_drop(test_get(bench->client, "a/00007", DLC_ACCESS_READ));
    samples[i] = test_now_us() - start;
  }
}

/* In turns, so that what else the machine does is the same for both. */
static void case_39_a_get_is_not_delayed_by_a_list_in_a_loop(void **state)
{
  struct bench *bench = *state;
  static int64_t alone[N_SAMPLES], beside[N_SAMPLES], lists[N_TURNS];
  const int turn = N_SAMPLES / N_TURNS;
  struct test_child lister;
  int64_t median_beside, median_list;

  publish_many(bench->client, "a/", MANY);
  test_child_start(&lister, list_for_ever, bench);
  (void)test_hear(lister.from_child);
  for (int i = 0; i < N_TURNS; i++) {
    assert_int_equal(kill(lister.pid, SIGSTOP), 0);
    sample_gets(bench, alone + i * turn, turn);
    assert_int_equal(kill(lister.pid, SIGCONT), 0);
    sample_gets(bench, beside + i * turn, turn);
    lists[i] = test_now_us();
    assert_int_equal(list(bench, NULL).n, MANY);
    lists[i] = test_now_us() - lists[i];
  }
  test_child_kill(&lister);
  median_beside = test_percentile(beside, N_SAMPLES, 50);
  median_list = test_percentile(lists, N_TURNS, 50);
  print_message("    a get takes %lld us alone, %lld us beside lists of %lld us\n",
                (long long)test_percentile(alone, N_SAMPLES, 50), (long long)median_beside,
                (long long)median_list);
  assert_true(median_beside * LEAST_PART_OF_A_LIST <= median_list);
}

/* ---- watches ---- */

struct events {
  int n_published, n_deleted, n_gaps;
  uint64_t last_change;
  uint64_t last_version;
  char last_name[64];
};

static void note_event(void *context, const struct dlc_event *event)
{
  struct events *events = context;

  events->n_published += event->kind == DLC_EVENT_PUBLISHED;
  events->n_deleted += event->kind == DLC_EVENT_DELETED;
  events->n_gaps += event->kind == DLC_EVENT_GAP;
  if (event->kind == DLC_EVENT_GAP)
    return;
  assert_true(event->change > events->last_change);
  events->last_change = event->change;
  events->last_version = event->version;
  (void)snprintf(events->last_name, sizeof(events->last_name), "%s", event->name);
}

static void open_watch(struct bench *bench, const char *prefix, uint64_t since)
{
  struct dlc_error error;

  dlc_watch_close(bench->watch);
  bench->watch = NULL;
  test_ok(dlc_watch_open(bench->client, prefix, since, &bench->watch, &error), &error);
}

/* Dispatches until so many changes came. */
static struct events expect_events(struct bench *bench, int n)
{
  struct events events = {0};
  struct dlc_error error;
  int got = 0;

  while (got < n) {
    int r = dlc_watch_dispatch(bench->watch, TEST_PATIENCE_MS, note_event, &events, &error);

    test_ok(r, &error);
    if (r == 0)
      fail_msg("%d changes came, and not %d", got, n);
    got += r;
  }
  assert_int_equal(got, n);
  return events;
}

static void expect_silence(struct bench *bench)
{
  struct events events = {0};
  struct dlc_error error;

  assert_int_equal(dlc_watch_dispatch(bench->watch, 30, note_event, &events, &error), 0);
}

static void a_watch_of_everything_begins_with_what_is_there(void **state)
{
  struct bench *bench = *state;

  publish_many(bench->client, "a/", 1000);
  publish_many(bench->client, "b/", 10);
  open_watch(bench, "a/", DLC_WATCH_EVERYTHING);
  assert_int_equal(expect_events(bench, 1000).n_published, 1000);
  expect_silence(bench);
  (void)test_put(bench->client, "b/x", 4, 1, NULL);
  (void)test_put(bench->client, "a/x", 4, 1, NULL);
  assert_string_equal(expect_events(bench, 1).last_name, "a/x");
}

static void a_watch_from_now_tells_what_comes(void **state)
{
  struct bench *bench = *state;
  struct events events;
  uint64_t version;

  publish_many(bench->client, "a/", 10);
  open_watch(bench, NULL, DLC_WATCH_FROM_NOW);
  expect_silence(bench);
  version = test_put(bench->client, "a/x", 4, 1, NULL);
  events = expect_events(bench, 1);
  assert_int_equal(events.n_published, 1);
  assert_true(events.last_version == version);
  test_delete(bench->client, "a/x");
  events = expect_events(bench, 1);
  assert_int_equal(events.n_deleted, 1);
  assert_true(events.last_version == version);
}

static void a_watch_resumes_where_another_ended(void **state)
{
  struct bench *bench = *state;
  struct events events;
  uint64_t change;

  (void)test_put(bench->client, "a", 4, 1, NULL);
  open_watch(bench, NULL, DLC_WATCH_EVERYTHING);
  change = expect_events(bench, 1).last_change;
  (void)test_put(bench->client, "b", 4, 1, NULL);
  test_delete(bench->client, "a");
  open_watch(bench, NULL, change);
  events = expect_events(bench, 2);
  assert_int_equal(events.n_published, 1);
  assert_int_equal(events.n_deleted, 1);
  open_watch(bench, NULL, events.last_change);
  expect_silence(bench);
}

static void a_change_number_that_never_was_is_a_gap(void **state)
{
  struct bench *bench = *state;

  (void)test_put(bench->client, "a", 4, 1, NULL);
  open_watch(bench, NULL, UINT64_C(1) << 60);
  assert_int_equal(expect_events(bench, 1).n_gaps, 1);
}

static void deletions_that_are_forgotten_are_a_gap(void **state)
{
  struct bench *bench = *state;
  struct events events = {0};
  struct dlc_error error;
  uint64_t change;

  (void)test_put(bench->client, "z", 4, 1, NULL);
  open_watch(bench, NULL, DLC_WATCH_EVERYTHING);
  change = expect_events(bench, 1).last_change;
  dlc_watch_close(bench->watch);
  bench->watch = NULL;
  publish_many(bench->client, "a/", 10000);
  test_ok(dlc_delete(bench->client, "a/", 0, NULL, &error), &error);
  /* More than the daemon remembers. */
  assert_in_range(test_counter(bench->client, "names_deleted"), 0, 9999);
  open_watch(bench, NULL, change);
  assert_true(dlc_watch_dispatch(bench->watch, TEST_PATIENCE_MS, note_event, &events, &error) > 0);
  assert_int_equal(events.n_gaps, 1);
}

#define N_WRITES 3000

static void a_slow_watcher_sees_the_newest_and_not_all(void **state)
{
  struct bench *bench = *state;
  struct events events;
  uint64_t version = 0;

  open_watch(bench, NULL, DLC_WATCH_FROM_NOW);
  for (int i = 0; i < N_WRITES; i++)
    version = test_put(bench->client, "t", 4, 1, NULL);
  /* One was on its way already; the second is of all the rest. */
  events = expect_events(bench, 2);
  assert_true(events.last_version == version);
  expect_silence(bench);
}

static void a_watcher_that_never_looks_costs_nothing(void **state)
{
  struct bench *bench = *state;
  uint64_t rss, rss_after, heap;

  for (int i = 0; i < N_WRITES; i++)
    (void)test_put(bench->client, i % 2 ? "t" : "u", 100, 1, NULL);
  open_watch(bench, NULL, DLC_WATCH_EVERYTHING);
  heap = test_counter(bench->client, "heap");
  rss = test_rss_kib(bench->daemon.pid);
  for (int i = 0; i < N_WRITES; i++)
    (void)test_put(bench->client, i % 2 ? "t" : "u", 100, 1, NULL);
  rss_after = test_rss_kib(bench->daemon.pid);
  assert_int_equal(test_counter(bench->client, "heap"), heap);
  if (!TEST_IS_SANITIZED)
    assert_in_range(rss_after, 0, rss + 1024);
  assert_int_equal(expect_events(bench, 2).n_published, 2);
}

static bool is_readable(struct bench *bench, int timeout_ms)
{
  struct pollfd poller = {.fd = dlc_watch_fd(bench->watch), .events = POLLIN};

  return poll(&poller, 1, timeout_ms) == 1;
}

static void a_watch_fits_a_poll_loop(void **state)
{
  struct bench *bench = *state;
  struct events events = {0};
  struct dlc_error error;

  open_watch(bench, NULL, DLC_WATCH_FROM_NOW);
  assert_false(is_readable(bench, 30));
  for (int i = 1; i <= 20; i++) {
    (void)test_put(bench->client, "t", 4, 1, NULL);
    assert_true(is_readable(bench, TEST_PATIENCE_MS));
    test_ok(dlc_watch_dispatch(bench->watch, 0, note_event, &events, &error), &error);
    assert_int_equal(events.n_published, i);
    assert_false(is_readable(bench, 0));
    assert_int_equal(dlc_watch_dispatch(bench->watch, 0, note_event, &events, &error), 0);
  }
}

static void a_watch_outlives_its_client(void **state)
{
  struct bench *bench = *state;
  struct dlc_client *client = test_connect(&bench->daemon);
  struct dlc_error error;

  test_ok(dlc_watch_open(client, NULL, DLC_WATCH_FROM_NOW, &bench->watch, &error), &error);
  dlc_close(client);
  (void)test_put(bench->client, "t", 4, 1, NULL);
  assert_int_equal(expect_events(bench, 1).n_published, 1);
}

static void a_watch_goes_on_after_a_restart_of_the_daemon(void **state)
{
  struct bench *bench = *state;
  struct events events = {0};
  struct dlc_error error;
  int r;

  (void)test_put(bench->client, "t", 4, 1, NULL);
  open_watch(bench, NULL, DLC_WATCH_EVERYTHING);
  (void)expect_events(bench, 1);
  test_daemon_kill(&bench->daemon);
  assert_true(is_readable(bench, TEST_PATIENCE_MS));
  test_refused(dlc_watch_dispatch(bench->watch, 1000, note_event, &events, &error),
               DLC_E_DISCONNECTED, &error);
  test_refused(dlc_watch_dispatch(bench->watch, 1000, note_event, &events, &error), DLC_E_NO_DAEMON,
               &error);
  test_daemon_start(&bench->daemon);
  (void)test_put(bench->client, "t", 4, 2, NULL);
  /* Another daemon, which counts from the beginning: list again, and then what is there. */
  while (events.n_published == 0) {
    events.last_change = 0;
    r = dlc_watch_dispatch(bench->watch, TEST_PATIENCE_MS, note_event, &events, &error);
    test_ok(r, &error);
    assert_true(r > 0);
  }
  assert_int_equal(events.n_gaps, 1);
  assert_string_equal(events.last_name, "t");
}

#define with_bench(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
    with_bench(five_thousand_names_are_listed_once_each_and_in_order),
    with_bench(a_pattern_chooses),
    with_bench(a_listing_ends_when_its_function_says_so),
    with_bench(names_may_be_deleted_while_they_are_listed),
    with_bench(a_replaced_version_is_listed_on_request_while_it_is_held),
    with_bench(names_of_all_owners_are_told_apart),
    with_bench(case_39_a_get_is_not_delayed_by_a_list_in_a_loop),
    with_bench(a_watch_of_everything_begins_with_what_is_there),
    with_bench(a_watch_from_now_tells_what_comes),
    with_bench(a_watch_resumes_where_another_ended),
    with_bench(a_change_number_that_never_was_is_a_gap),
    with_bench(deletions_that_are_forgotten_are_a_gap),
    with_bench(a_slow_watcher_sees_the_newest_and_not_all),
    with_bench(a_watcher_that_never_looks_costs_nothing),
    with_bench(a_watch_fits_a_poll_loop),
    with_bench(a_watch_outlives_its_client),
    with_bench(a_watch_goes_on_after_a_restart_of_the_daemon),
};

TEST_MAIN(tests)
