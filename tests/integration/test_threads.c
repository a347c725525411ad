/*
 * One client, many threads: gets, puts, waits and deleters at the same time, and
 * forks in the middle of it.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define SMALL 5000

struct threads {
  struct test_daemon daemon;
  struct dlc_client *watcher;
  struct test_baseline before;
};

static int setup(void **state)
{
  struct threads *threads = calloc(1, sizeof(*threads));

  assert_non_null(threads);
  *state = threads;
  test_daemon_init(&threads->daemon, NULL);
  threads->watcher = test_connect(&threads->daemon);
  threads->before = test_baseline_take(threads->watcher, &threads->daemon);
  return 0;
}

static int teardown(void **state)
{
  struct threads *threads = *state;

  dlc_close(threads->watcher);
  test_daemon_deinit(&threads->daemon);
  free(threads);
  return 0;
}

/* ---- a crowd ---- */

#define N_THREADS_MAX 16
#define N_ROUNDS 150
#define N_SHARED_NAMES 4
#define QUEUE_SIZE 64

/* Tensors on their way to the thread that deletes them. */
struct queue {
  _Atomic(struct DLManagedTensorVersioned *) slots[QUEUE_SIZE];
  atomic_bool is_over;
};

struct crowd {
  struct dlc_client *client;
  struct queue queue;
  atomic_uint n_wrong;
};

struct member {
  struct crowd *crowd;
  unsigned number;
  pthread_t thread;
};

/* To the other thread, if it has room. */
static void hand_over(struct queue *queue, struct DLManagedTensorVersioned *tensor, unsigned at)
{
  struct DLManagedTensorVersioned *nothing = NULL;

  if (!atomic_compare_exchange_strong(&queue->slots[at % QUEUE_SIZE], &nothing, tensor))
    test_drop(tensor);
}

static void *delete_what_comes(void *context)
{
  struct queue *queue = context;
  bool is_over;

  do {
    is_over = atomic_load(&queue->is_over);
    for (size_t i = 0; i < QUEUE_SIZE; i++) {
      struct DLManagedTensorVersioned *tensor = atomic_exchange(&queue->slots[i], NULL);

      if (tensor)
        test_drop(tensor);
    }
    (void)sched_yield();
  } while (!is_over);
  return NULL;
}

/* Names are replaced all the time: the first byte says which seed the rest follows. An
 * assertion would have to be the main thread's. */
static bool one_round(struct member *member, unsigned round)
{
  struct crowd *crowd = member->crowd;
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor, *copy;
  struct dlc_error error;
  char name[32];

  (void)snprintf(name, sizeof(name), "shared/%u", (member->number + round) % N_SHARED_NAMES);
  if (round % 8 == 0)
    (void)test_put(crowd->client, name, SMALL, 5, NULL);
  options.access = round % 5 ? DLC_ACCESS_READ : DLC_ACCESS_PRIVATE;
  if (dlc_get(crowd->client, name, &options, &tensor, &error) < 0)
    return false;
  if (test_first_wrong(tensor->dl_tensor.data, SMALL, 5) != SMALL)
    return false;
  if (dlc_dup(tensor, &copy, &error) < 0)
    return false;
  hand_over(&crowd->queue, copy, member->number * N_ROUNDS + round);
  test_drop(tensor);
  return true;
}

static void *run_member(void *context)
{
  struct member *member = context;

  for (unsigned i = 0; i < N_ROUNDS * test_scale(); i++)
    if (!one_round(member, i))
      atomic_fetch_add(&member->crowd->n_wrong, 1);
  return NULL;
}

static void run_crowd(struct threads *threads, unsigned n_threads)
{
  struct crowd crowd = {.client = test_connect(&threads->daemon)};
  struct member members[N_THREADS_MAX];
  pthread_t deleter;
  char name[32];

  for (unsigned i = 0; i < N_SHARED_NAMES; i++) {
    (void)snprintf(name, sizeof(name), "shared/%u", i);
    (void)test_put(crowd.client, name, SMALL, 5, NULL);
  }
  assert_int_equal(pthread_create(&deleter, NULL, delete_what_comes, &crowd.queue), 0);
  for (unsigned i = 0; i < n_threads; i++) {
    members[i] = (struct member){.crowd = &crowd, .number = i};
    assert_int_equal(pthread_create(&members[i].thread, NULL, run_member, &members[i]), 0);
  }
  for (unsigned i = 0; i < n_threads; i++)
    (void)pthread_join(members[i].thread, NULL);
  /* What is still in the queue is deleted after the client is closed. */
  dlc_close(crowd.client);
  atomic_store(&crowd.queue.is_over, true);
  (void)pthread_join(deleter, NULL);
  assert_int_equal(atomic_load(&crowd.n_wrong), 0);
  test_baseline_soon(threads->watcher, &threads->daemon, &threads->before);
}

/* Field case 34. */
static void two_threads_get_and_a_third_deletes(void **state)
{
  run_crowd(*state, 2);
}

/* Field case 34. */
static void sixteen_threads_get_and_a_seventeenth_deletes(void **state)
{
  run_crowd(*state, N_THREADS_MAX);
}

/* ---- filling ---- */

#define N_FILLERS 8
#define N_BLOCKS 20

struct filler {
  struct dlc_client *client;
  unsigned number;
  pthread_t thread;
};

static void *fill_and_publish(void *context)
{
  struct filler *filler = context;
  char name[32];

  for (unsigned i = 0; i < N_BLOCKS; i++) {
    struct DLManagedTensorVersioned *tensor = test_alloc(filler->client, SMALL, NULL);
    struct dlc_error error;

    test_fill(tensor->dl_tensor.data, SMALL, filler->number * N_BLOCKS + i);
    (void)snprintf(name, sizeof(name), "fill/%u", filler->number * N_BLOCKS + i);
    test_ok(dlc_publish(filler->client, name, tensor, NULL, NULL, &error), &error);
    test_drop(tensor);
  }
  return NULL;
}

/* Only one answer brings the descriptor of a segment that the others share; whose turn it is
 * first to look at its answer is the scheduler's choice. */
static void fill_at_the_same_time(struct threads *threads)
{
  struct dlc_client *client = test_connect(&threads->daemon);
  struct filler fillers[N_FILLERS];
  char name[32];

  for (unsigned i = 0; i < N_FILLERS; i++) {
    fillers[i] = (struct filler){.client = client, .number = i};
    assert_int_equal(pthread_create(&fillers[i].thread, NULL, fill_and_publish, &fillers[i]), 0);
  }
  for (unsigned i = 0; i < N_FILLERS; i++)
    (void)pthread_join(fillers[i].thread, NULL);
  for (unsigned i = 0; i < N_FILLERS * N_BLOCKS; i++) {
    struct DLManagedTensorVersioned *tensor;

    (void)snprintf(name, sizeof(name), "fill/%u", i);
    tensor = test_get(threads->watcher, name, DLC_ACCESS_READ);
    test_check(tensor, i);
    test_drop(tensor);
  }
  dlc_close(client);
}

static void threads_of_a_new_client_fill_one_segment(void **state)
{
  struct threads *threads = *state;

  for (unsigned i = 0; i < 20 * test_scale(); i++)
    fill_at_the_same_time(threads);
  test_baseline_soon(threads->watcher, &threads->daemon, &threads->before);
}

/* ---- waiting ---- */

#define N_WAITERS 8

struct waiter {
  struct dlc_client *client;
  char name[32];
  pthread_t thread;
  int returned;
  uint64_t version;
};

static void *wait_for_name(void *context)
{
  struct waiter *waiter = context;
  struct dlc_info *info = NULL;
  struct dlc_error error;

  waiter->returned = dlc_wait(waiter->client, waiter->name, 0, -1, &info, &error);
  if (waiter->returned == 0)
    waiter->version = info->version;
  dlc_info_free(info);
  return NULL;
}

/* Whoever reads the socket for all of them may be woken first, last or in between. */
static void threads_that_wait_are_woken_each_by_its_own_name(void **state)
{
  struct threads *threads = *state;
  struct waiter waiters[N_WAITERS];

  for (unsigned i = 0; i < N_WAITERS; i++) {
    waiters[i] = (struct waiter){.client = threads->watcher};
    (void)snprintf(waiters[i].name, sizeof(waiters[i].name), "late/%u", i);
    assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for_name, &waiters[i]), 0);
  }
  for (unsigned i = 0; i < N_WAITERS; i++) {
    struct waiter *waiter = &waiters[(i * 3 + 5) % N_WAITERS];
    uint64_t version = test_put(threads->watcher, waiter->name, SMALL, i, NULL);

    (void)pthread_join(waiter->thread, NULL);
    assert_int_equal(waiter->returned, 0);
    assert_int_equal(waiter->version, version);
  }
}

static void a_thread_that_waits_does_not_hold_up_the_others(void **state)
{
  struct threads *threads = *state;
  struct waiter waiter = {.client = threads->watcher, .name = "late"};

  assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_name, &waiter), 0);
  for (uint64_t i = 0; i < 200; i++) {
    struct DLManagedTensorVersioned *tensor;

    (void)test_put(threads->watcher, "w", SMALL, i, NULL);
    tensor = test_get(threads->watcher, "w", DLC_ACCESS_READ);
    test_check(tensor, i);
    test_drop(tensor);
  }
  (void)test_put(threads->watcher, "late", SMALL, 1, NULL);
  (void)pthread_join(waiter.thread, NULL);
  assert_int_equal(waiter.returned, 0);
}

/* ---- forking ---- */

#define N_FORKS 50
#define N_BUSY 3

struct busy {
  struct dlc_client *client;
  atomic_bool is_over;
};

static void *get_all_the_time(void *context)
{
  struct busy *busy = context;

  while (!atomic_load(&busy->is_over))
    test_drop(test_get(busy->client, "w", DLC_ACCESS_READ));
  return NULL;
}

struct forker {
  const struct test_daemon *daemon;
  struct dlc_client *client;
  struct DLManagedTensorVersioned *tensor;
};

static int use_in_child(void *context, struct test_pipe_ends *ends)
{
  struct forker *forker = context;
  struct dlc_client *client = test_connect(forker->daemon);

  test_check(forker->tensor, 1);
  test_drop(forker->tensor);
  test_drop(test_get(client, "w", DLC_ACCESS_READ));
  dlc_close(forker->client);
  dlc_close(client);
  return 0;
}

/* Field case 16. Whatever lock of the client a thread holds at that instant is held in the
 * child for ever. */
static void a_fork_amid_busy_threads_gives_a_child_that_works(void **state)
{
#ifdef __SANITIZE_ADDRESS__
  /* Its allocator does not release its own locks in the child. */
  skip();
#endif
  struct threads *threads = *state;
  struct forker forker = {.daemon = &threads->daemon, .client = threads->watcher};
  struct busy busy = {.client = threads->watcher};
  pthread_t busy_threads[N_BUSY];
  struct test_child child;

  (void)test_put(threads->watcher, "w", SMALL, 1, NULL);
  forker.tensor = test_get(threads->watcher, "w", DLC_ACCESS_READ);
  for (size_t i = 0; i < N_BUSY; i++)
    assert_int_equal(pthread_create(&busy_threads[i], NULL, get_all_the_time, &busy), 0);
  for (unsigned i = 0; i < N_FORKS * test_scale(); i++) {
    test_child_start(&child, use_in_child, &forker);
    test_child_join(&child);
  }
  atomic_store(&busy.is_over, true);
  for (size_t i = 0; i < N_BUSY; i++)
    (void)pthread_join(busy_threads[i], NULL);
  test_check(forker.tensor, 1);
  test_drop(forker.tensor);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(two_threads_get_and_a_third_deletes, setup, teardown),
    cmocka_unit_test_setup_teardown(sixteen_threads_get_and_a_seventeenth_deletes, setup, teardown),
    cmocka_unit_test_setup_teardown(threads_of_a_new_client_fill_one_segment, setup, teardown),
    cmocka_unit_test_setup_teardown(threads_that_wait_are_woken_each_by_its_own_name, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_thread_that_waits_does_not_hold_up_the_others, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(a_fork_amid_busy_threads_gives_a_child_that_works, setup,
                                    teardown),
};

TEST_MAIN(tests)
