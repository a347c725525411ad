#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cache.h"
#include "client/fork.h"
#include "support/lease_pages.h"

#define ANY (&(const struct dlc__wanted){0})

/* A client that is connected to nothing, and pages in plain memory. */
struct fixture {
  struct lease_pages_of all;
  struct dlc_client client;
  struct dlc__hold *held[4]; /* dropped at the end, if a test has left it there */
  atomic_bool stop;
};

static void ignore_orphan(void *context, struct dlc__reply *reply)
{
}

static void ignore_dropped(void *context, uint64_t epoch, const uint64_t *segments, size_t n)
{
}

static void ignore_retired(void *context, struct dlc__pages *pages)
{
}

static int setup(void **state)
{
  static const struct dlc__transport_owner owner = {
      .orphan = ignore_orphan, .dropped = ignore_dropped, .retired = ignore_retired};
  struct fixture *f = calloc(1, sizeof(*f));

  if (!f || dlc__fork_watch() < 0 || lease_pages_init(&f->all) < 0)
    return -1;
  f->client.refs = 1;
  f->client.fork_generation = dlc__fork_generation();
  f->client.cache = dlc__cache_new();
  *state = f;
  return f->client.cache
             ? dlc__transport_new(&f->client.transport, "/nonexistent", "test", &owner, NULL)
             : -1;
}

/* Nobody has kept a reference to the client or to the pages. */
static int teardown(void **state)
{
  struct fixture *f = *state;
  int left;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(f->held); i++) {
    if (f->held[i])
      dlc__hold_unref(f->held[i]);
  }
  dlc__cache_close(f->client.cache);
  left = (int)f->client.refs - 1 + (int)f->all.pages->refs - 1;
  dlc__cache_free(f->client.cache);
  dlc__transport_free(f->client.transport);
  dlc__pages_unref(f->all.pages);
  free(f);
  return left;
}

static struct dlc__hold *add_sized(struct fixture *f, const char *name, uint32_t cell,
                                   uint64_t version, uint64_t nbytes)
{
  const int64_t shape = 4;
  const struct msg_spec spec = {.code = 2, .bits = 32, .lanes = 1, .ndim = 1, .shape = &shape};
  struct dlc__hold *hold = dlc__hold_new(&f->client, &spec);

  assert_non_null(hold);
  hold->info = calloc(1, sizeof(*hold->info));
  assert_non_null(hold->info);
  hold->info->nbytes = nbytes;
  lease_pages_grant(&f->all, cell, version);
  assert_true(dlc__pages_take_answer(f->all.pages, cell, version));
  hold->lease = dlc__lease_of(f->all.pages, cell, version);
  dlc__cache_add(f->client.cache, hold, name);
  return hold;
}

/* A new grant, used for the first time. */
static struct dlc__hold *add(struct fixture *f, const char *name, uint32_t cell, uint64_t version)
{
  return add_sized(f, name, cell, version, 16);
}

static struct dlc__hold *get(struct fixture *f, const char *name)
{
  return dlc__cache_get(f->client.cache, name, ANY);
}

static void expect(const struct fixture *f, uint32_t cell, uint64_t word)
{
  assert_int_equal(lease_pages_hold(&f->all, cell), word);
}

static bool is_rung(const struct fixture *f, uint32_t cell)
{
  return f->all.pages->cells->bells.words[cell / 64] >> cell % 64 & 1;
}

/* ---- getting again ---- */

static void what_was_dropped_is_got_again_by_its_name(void **state)
{
  struct fixture *f = *state;
  struct dlc__hold *hold = add(f, "a/b", 3, 100);

  expect(f, 3, 100 | DLP_HOLD_HELD);
  dlc__hold_unref(hold);
  expect(f, 3, 100 | DLP_HOLD_FREE);
  assert_ptr_equal(get(f, "a/b"), hold);
  expect(f, 3, 100 | DLP_HOLD_HELD);
  dlc__hold_unref(hold);
  assert_null(get(f, "a"));
  assert_null(get(f, "a/b/c"));
  assert_null(get(f, ""));
  assert_false(is_rung(f, 3));
}

static void many_users_of_one_are_counted(void **state)
{
  struct fixture *f = *state;
  struct dlc__hold *hold = add(f, "a", 3, 100);

  assert_ptr_equal(get(f, "a"), hold);
  assert_ptr_equal(dlc__hold_ref(hold), hold);
  dlc__hold_unref(hold);
  dlc__hold_unref(hold);
  expect(f, 3, 100 | DLP_HOLD_HELD);
  dlc__hold_unref(hold);
  expect(f, 3, 100 | DLP_HOLD_FREE);
}

static void what_was_retired_while_idle_is_given_back_by_the_next_get(void **state)
{
  struct fixture *f = *state;

  dlc__hold_unref(add(f, "a", 3, 100));
  lease_pages_retire(&f->all, 3);
  assert_null(get(f, "a"));
  expect(f, 3, 100 | DLP_HOLD_RETURNED);
  assert_true(is_rung(f, 3));
  assert_int_equal(f->client.refs, 1);
}

static void what_was_retired_while_in_use_is_not_got_again_and_stays_held(void **state)
{
  struct fixture *f = *state;
  struct dlc__hold *hold = add(f, "a", 3, 100);

  lease_pages_retire(&f->all, 3);
  assert_null(get(f, "a"));
  expect(f, 3, 100 | DLP_HOLD_HELD);
  dlc__hold_unref(hold);
  expect(f, 3, 100 | DLP_HOLD_RETURNED);
  assert_true(is_rung(f, 3));
}

static void what_is_retired_is_given_back_by_its_last_user(void **state)
{
  struct fixture *f = *state;
  struct dlc__hold *hold = add(f, "a", 3, 100);

  lease_pages_retire(&f->all, 3);
  dlc__hold_unref(hold);
  expect(f, 3, 100 | DLP_HOLD_RETURNED);
  assert_true(is_rung(f, 3));
}

static void a_newer_version_takes_the_place_of_an_older_one(void **state)
{
  struct fixture *f = *state;
  struct dlc__hold *idle = add(f, "a", 1, 100), *used, *newest;

  dlc__hold_unref(idle);
  used = add(f, "a", 2, 101);
  expect(f, 1, 100 | DLP_HOLD_RETURNED);
  newest = add(f, "a", 3, 102);
  expect(f, 2, 101 | DLP_HOLD_HELD);
  assert_ptr_equal(get(f, "a"), newest);
  dlc__hold_unref(newest);
  dlc__hold_unref(newest);
  dlc__hold_unref(used);
  expect(f, 2, 101 | DLP_HOLD_RETURNED);
  expect(f, 3, 102 | DLP_HOLD_FREE);
}

static void a_late_answer_does_not_take_the_place_of_the_newest(void **state)
{
  struct fixture *f = *state;
  struct dlc__hold *newest = add(f, "a", 1, 101), *late = add(f, "a", 2, 100),
                   *twin = add(f, "a", 3, 101);

  assert_ptr_equal(get(f, "a"), newest);
  dlc__hold_unref(newest);
  dlc__hold_unref(newest);
  dlc__hold_unref(late);
  dlc__hold_unref(twin);
  expect(f, 1, 101 | DLP_HOLD_FREE);
  expect(f, 2, 100 | DLP_HOLD_RETURNED);
  expect(f, 3, 101 | DLP_HOLD_RETURNED);
}

static void only_a_version_that_is_wanted_is_got(void **state)
{
  struct fixture *f = *state;
  const struct {
    struct dlc__wanted wanted;
    bool is_got;
  } rows[] = {{{0, 0}, true},    {{100, 0}, true},  {{99, 0}, false},
              {{101, 0}, false}, {{0, 99}, true},   {{0, 100}, false},
              {{0, 101}, false}, {{100, 99}, true}, {{100, 100}, false}};
  struct dlc__hold *hold = add(f, "a", 1, 100);

  dlc__hold_unref(hold);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++) {
    struct dlc__hold *got = dlc__cache_get(f->client.cache, "a", &rows[i].wanted);

    assert_ptr_equal(got, rows[i].is_got ? hold : NULL);
    if (got)
      dlc__hold_unref(got);
  }
}

static void what_has_no_name_is_given_back_after_use(void **state)
{
  struct fixture *f = *state;

  dlc__hold_unref(add(f, NULL, 70, 100));
  expect(f, 70, 100 | DLP_HOLD_RETURNED);
  assert_true(is_rung(f, 70));
}

static void that_nothing_newer_is_there_is_known_of_what_is_live(void **state)
{
  struct fixture *f = *state;
  struct dlc__cache *cache = f->client.cache;

  assert_false(dlc__cache_knows_none_above(cache, "a", 100));
  dlc__hold_unref(add(f, "a", 1, 100));
  assert_true(dlc__cache_knows_none_above(cache, "a", 100));
  assert_true(dlc__cache_knows_none_above(cache, "a", 101));
  assert_false(dlc__cache_knows_none_above(cache, "a", 99));
  lease_pages_retire(&f->all, 1);
  assert_false(dlc__cache_knows_none_above(cache, "a", 100));
}

/* ---- letting go ---- */

static void a_sweep_gives_back_what_is_retired_and_idle(void **state)
{
  struct fixture *f = *state;

  dlc__cache_sweep(f->client.cache, f->all.pages);
  f->held[0] = add(f, "used", 1, 100);
  f->held[1] = add(f, "used too", 2, 101);
  dlc__hold_unref(add(f, "idle", 3, 102));
  dlc__hold_unref(add(f, "idle too", 4, 103));
  lease_pages_retire(&f->all, 2);
  lease_pages_retire(&f->all, 4);
  dlc__cache_sweep(f->client.cache, f->all.pages);
  expect(f, 1, 100 | DLP_HOLD_HELD);
  expect(f, 2, 101 | DLP_HOLD_HELD);
  expect(f, 3, 102 | DLP_HOLD_FREE);
  expect(f, 4, 103 | DLP_HOLD_RETURNED);
}

static void a_new_session_knows_nothing_of_the_old_ones(void **state)
{
  struct fixture *f = *state;
  struct lease_pages_of next;
  struct dlc__hold *used = add(f, "used", 1, 100);

  dlc__hold_unref(add(f, "idle", 2, 101));
  dlc__cache_sweep(f->client.cache, f->all.pages);
  assert_int_equal(lease_pages_init(&next), 0);
  next.pages->epoch = 2;
  atomic_store(&f->all.pages->is_over, true);
  assert_null(get(f, "used"));
  dlc__cache_sweep(f->client.cache, next.pages);
  expect(f, 1, 100 | DLP_HOLD_HELD);
  expect(f, 2, 101 | DLP_HOLD_RETURNED);
  dlc__hold_unref(used);
  expect(f, 1, 100 | DLP_HOLD_RETURNED);
  dlc__pages_unref(next.pages);
}

static void after_close_nothing_stays_idle(void **state)
{
  struct fixture *f = *state;
  struct dlc__hold *used = add(f, "used", 1, 100);

  dlc__hold_unref(add(f, "idle", 2, 101));
  dlc__cache_close(f->client.cache);
  expect(f, 2, 101 | DLP_HOLD_RETURNED);
  expect(f, 1, 100 | DLP_HOLD_HELD);
  dlc__hold_unref(used);
  expect(f, 1, 100 | DLP_HOLD_RETURNED);
  assert_int_equal(f->client.refs, 1);
}

static size_t add_idle(struct fixture *f, uint32_t n, uint64_t nbytes)
{
  char name[32];
  size_t n_idle = 0;

  for (uint32_t i = 0; i < n; i++) {
    (void)snprintf(name, sizeof(name), "layer/%u", i);
    dlc__hold_unref(add_sized(f, name, i, 100, nbytes));
  }
  for (uint32_t i = 0; i < n; i++)
    n_idle += lease_pages_hold(&f->all, i) == (100 | DLP_HOLD_FREE);
  return n_idle;
}

static void what_is_idle_is_bounded_in_number(void **state)
{
  struct fixture *f = *state;
  size_t n_idle = add_idle(f, 80000, 16);

  assert_in_range(n_idle, 60000, 65536);
  /* The last one that was used is still there. */
  expect(f, 79999, 100 | DLP_HOLD_FREE);
}

static void large_tensors_that_are_idle_are_bounded_in_number(void **state)
{
  size_t n_idle = add_idle(*state, 2000, UINT64_C(1) << 20);

  assert_in_range(n_idle, 900, 1024);
}

static void large_tensors_that_are_idle_are_bounded_in_bytes(void **state)
{
  size_t n_idle = add_idle(*state, 100, UINT64_C(512) << 20);

  assert_in_range(n_idle, 1, 8);
}

/* ---- fork ---- */

static void a_fork_marks_what_is_held(void **state)
{
  struct fixture *f = *state;
  struct dlc__hold *used = add(f, "used", 1, 100), *loose = add(f, NULL, 2, 101);
  int status;
  pid_t child;

  dlc__hold_unref(add(f, "idle", 3, 102));
  child = fork();
  if (child == 0) {
    dlc__hold_unref(used);
    dlc__hold_unref(loose);
    /* Plain memory is copied: what the child wrote there shows here. */
    _exit(lease_pages_hold(&f->all, 1) == (100 | DLP_HOLD_HELD | DLP_HOLD_ESCAPED) && !is_rung(f, 2)
              ? 0
              : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  expect(f, 1, 100 | DLP_HOLD_HELD | DLP_HOLD_ESCAPED);
  expect(f, 2, 101 | DLP_HOLD_HELD | DLP_HOLD_ESCAPED);
  expect(f, 3, 102 | DLP_HOLD_FREE);
  dlc__hold_unref(used);
  dlc__hold_unref(loose);
  expect(f, 1, 100 | DLP_HOLD_FREE | DLP_HOLD_ESCAPED);
  expect(f, 2, 101 | DLP_HOLD_RETURNED | DLP_HOLD_ESCAPED);
  lease_pages_retire(&f->all, 1);
  assert_null(get(f, "used"));
  expect(f, 1, 100 | DLP_HOLD_RETURNED | DLP_HOLD_ESCAPED);
}

/* Plain memory is the child's own here: what it scribbles there is touched by nobody. */
static void a_fork_of_a_child_touches_nothing_of_its_parents(void **state)
{
  struct fixture *f = *state;
  struct dlc__hold *used = add(f, "used", 1, 100);
  int status;
  pid_t child = fork(), grandchild;

  if (child == 0) {
    atomic_store(&f->all.pages->holds->cells[1], 4711);
    grandchild = fork();
    if (grandchild == 0)
      _exit(0);
    _exit(waitpid(grandchild, &status, 0) == grandchild && status == 0 &&
                  lease_pages_hold(&f->all, 1) == 4711
              ? 0
              : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  dlc__hold_unref(used);
}

/* ---- threads ---- */

enum { N_THREADS = 4, N_ROUNDS = 20000 };

static void *get_and_drop(void *context)
{
  struct fixture *f = context;
  static const char *const names[] = {"a", "b"};

  for (int i = 0; i < N_ROUNDS; i++) {
    struct dlc__hold *hold = get(f, names[i % 2]);
    uint64_t word = hold ? lease_pages_hold(&f->all, hold->lease.cell) & ~DLP_HOLD_ESCAPED : 0;

    if (!hold || word != (hold->lease.version | DLP_HOLD_HELD))
      return f;
    if (i % 3 == 0)
      dlc__hold_unref(dlc__hold_ref(hold));
    dlc__hold_unref(hold);
  }
  return NULL;
}

static void *sweep_and_fork(void *context)
{
  struct fixture *f = context;

  while (!f->stop) {
    pid_t child = fork();

    if (child == 0)
      _exit(0);
    (void)waitpid(child, NULL, 0);
    dlc__cache_sweep(f->client.cache, f->all.pages);
  }
  return NULL;
}

static void threads_that_share_a_lease_never_see_it_free(void **state)
{
  struct fixture *f = *state;
  pthread_t threads[N_THREADS], other;
  void *failed[N_THREADS];

  dlc__hold_unref(add(f, "a", 1, 100));
  dlc__hold_unref(add(f, "b", 2, 100));
  assert_int_equal(pthread_create(&other, NULL, sweep_and_fork, f), 0);
  for (int i = 0; i < N_THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, get_and_drop, f), 0);
  for (int i = 0; i < N_THREADS; i++)
    assert_int_equal(pthread_join(threads[i], &failed[i]), 0);
  f->stop = true;
  assert_int_equal(pthread_join(other, NULL), 0);
  for (int i = 0; i < N_THREADS; i++)
    assert_null(failed[i]);
  assert_int_equal(lease_pages_hold(&f->all, 1) & ~DLP_HOLD_ESCAPED, 100 | DLP_HOLD_FREE);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(what_was_dropped_is_got_again_by_its_name),
    CASE(many_users_of_one_are_counted),
    CASE(what_was_retired_while_idle_is_given_back_by_the_next_get),
    CASE(what_was_retired_while_in_use_is_not_got_again_and_stays_held),
    CASE(what_is_retired_is_given_back_by_its_last_user),
    CASE(a_newer_version_takes_the_place_of_an_older_one),
    CASE(a_late_answer_does_not_take_the_place_of_the_newest),
    CASE(only_a_version_that_is_wanted_is_got),
    CASE(what_has_no_name_is_given_back_after_use),
    CASE(that_nothing_newer_is_there_is_known_of_what_is_live),
    CASE(a_sweep_gives_back_what_is_retired_and_idle),
    CASE(a_new_session_knows_nothing_of_the_old_ones),
    CASE(after_close_nothing_stays_idle),
    CASE(what_is_idle_is_bounded_in_number),
    CASE(large_tensors_that_are_idle_are_bounded_in_number),
    CASE(large_tensors_that_are_idle_are_bounded_in_bytes),
    CASE(a_fork_marks_what_is_held),
    CASE(a_fork_of_a_child_touches_nothing_of_its_parents),
    CASE(threads_that_share_a_lease_never_see_it_free),
};

TEST_MAIN(tests)
