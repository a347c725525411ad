#include "support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "io/memory.h"
#include "io/plans.h"
#include "support/fds.h"

#define SIZE 65536

struct fixture {
  size_t fds_before;
  struct loop *loop;
  struct storage_backend backend;
  struct segments *segments;
  struct store *store;
  struct plans *plans;
  /* A freeze of this backend waits until a byte can be read here. */
  int gate[2];
  int freeze_result;
  size_t n_done;
  struct plan *last_plan;
  int last_result;
  size_t last_failed;
  size_t n_turns;
};

static int wait_at_gate(void *context, int fd, enum segment_seal seal)
{
  struct fixture *fixture = context;
  char byte;

  if (seal != SEGMENT_SEAL_FROZEN)
    return 0;
  return read(fixture->gate[0], &byte, 1) == 1 ? fixture->freeze_result : -EIO;
}

static int create(void *context, uint64_t segment, uint64_t size)
{
  return memory_memfd_new("test", size);
}

static void forget(void *context, uint64_t segment)
{
}

static int run_session(void *context, const struct effect *effect)
{
  return effect->session == 13 ? -EMFILE : 0;
}

static void on_done(void *context, struct plan *plan, int result, size_t failed)
{
  struct fixture *fixture = context;

  fixture->n_done++;
  fixture->last_plan = plan;
  fixture->last_result = result;
  fixture->last_failed = failed;
}

static void on_turn_done(void *context)
{
  struct fixture *fixture = context;

  fixture->n_turns++;
  loop_stop(fixture->loop);
}

static int setup(void **state)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));
  struct plans_host host = {
      .context = fixture, .run_session = run_session, .done = on_done, .turn_done = on_turn_done};

  /* The first loop of a process opens what stays open. */
  if (!fixture || loop_new(&fixture->loop) < 0)
    return -1;
  fixture->loop = loop_free(fixture->loop);
  fixture->fds_before = test_count_fds();
  fixture->backend = (struct storage_backend){.backend = MSG_BACKEND_MEMFD,
                                              .seals = true,
                                              .create = create,
                                              .seal = wait_at_gate,
                                              .forget = forget,
                                              .context = fixture};
  *state = fixture;
  if (pipe(fixture->gate) < 0 || loop_new(&fixture->loop) < 0 ||
      segments_new(&fixture->segments, &(struct segments_config){.limit = 10}, &fixture->backend,
                   1) < 0 ||
      store_new(&fixture->store, 10) < 0)
    return -1;
  return plans_new(&fixture->plans, fixture->loop, fixture->segments, fixture->store, &host);
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;
  int r;

  fixture->plans = plans_free(fixture->plans);
  fixture->segments = segments_free(fixture->segments);
  fixture->store = store_free(fixture->store);
  fixture->loop = loop_free(fixture->loop);
  (void)dlp_close(fixture->gate[0]);
  (void)dlp_close(fixture->gate[1]);
  r = test_count_fds() == fixture->fds_before ? 0 : -1;
  free(fixture);
  return r;
}

static struct effect create_effect(uint64_t segment)
{
  return (struct effect){.kind = EFFECT_SEGMENT_CREATE,
                         .segment = segment,
                         .size = SIZE,
                         .backend = MSG_BACKEND_MEMFD};
}

static struct effect freeze_effect(uint64_t segment)
{
  return (struct effect){
      .kind = EFFECT_SEGMENT_SEAL, .segment = segment, .seal = SEGMENT_SEAL_FROZEN};
}

static void open_gate(struct fixture *fixture)
{
  assert_int_equal(write(fixture->gate[1], "g", 1), 1);
  loop_run(fixture->loop);
}

static void a_plan_is_done_at_once(void **state)
{
  struct fixture *fixture = *state;
  struct effect effects[] = {{.kind = EFFECT_SESSION_OPEN, .session = 1},
                             create_effect(1),
                             {.kind = EFFECT_ROW_PREPARE, .row = 1, .version = 9},
                             {.kind = EFFECT_COMMIT_LIVE, .version = 9}};
  struct plan plan = {.n_effects = 4, .effects = effects};

  plans_run(fixture->plans, &plan);
  assert_int_equal(fixture->n_done, 1);
  assert_ptr_equal(fixture->last_plan, &plan);
  assert_int_equal(fixture->last_result, 0);
  assert_int_equal(segments_count(fixture->segments), 1);
  assert_int_equal(store_count_live(fixture->store), 1);
}

static void a_plan_stops_at_what_fails(void **state)
{
  struct fixture *fixture = *state;
  struct effect effects[] = {
      create_effect(1), {.kind = EFFECT_SESSION_OPEN, .session = 13}, create_effect(2)};
  struct plan plan = {.n_effects = 3, .effects = effects};

  plans_run(fixture->plans, &plan);
  assert_int_equal(fixture->last_result, -EMFILE);
  assert_int_equal(fixture->last_failed, 1);
  assert_int_equal(segments_count(fixture->segments), 1);
}

static void others_are_served_while_a_freeze_waits(void **state)
{
  struct fixture *fixture = *state;
  struct effect slow[] = {create_effect(1), freeze_effect(1), create_effect(2)};
  struct effect quick[] = {create_effect(3)};
  struct plan slow_plan = {.n_effects = 3, .effects = slow};
  struct plan quick_plan = {.n_effects = 1, .effects = quick};

  plans_run(fixture->plans, &slow_plan);
  assert_int_equal(fixture->n_done, 0);
  plans_run(fixture->plans, &quick_plan);
  assert_int_equal(fixture->n_done, 1);
  assert_ptr_equal(fixture->last_plan, &quick_plan);
  assert_int_equal(plans_under_way(fixture->plans), 1);
  open_gate(fixture);
  assert_int_equal(fixture->n_done, 2);
  assert_ptr_equal(fixture->last_plan, &slow_plan);
  assert_int_equal(fixture->last_result, 0);
  assert_int_equal(fixture->n_turns, 1);
  assert_int_equal(segments_count(fixture->segments), 3);
}

static void a_freeze_that_fails_stops_its_plan(void **state)
{
  struct fixture *fixture = *state;
  struct effect effects[] = {create_effect(1), freeze_effect(1), create_effect(2)};
  struct plan plan = {.n_effects = 3, .effects = effects};

  fixture->freeze_result = -EBUSY;
  plans_run(fixture->plans, &plan);
  open_gate(fixture);
  assert_int_equal(fixture->last_result, -EBUSY);
  assert_int_equal(fixture->last_failed, 1);
  assert_int_equal(segments_count(fixture->segments), 1);
}

static void a_segment_may_be_dropped_while_it_is_frozen(void **state)
{
  struct fixture *fixture = *state;
  struct effect effects[] = {create_effect(1), freeze_effect(1)};
  struct effect drop[] = {{.kind = EFFECT_SEGMENT_DROP, .segment = 1}};
  struct plan plan = {.n_effects = 2, .effects = effects};
  struct plan drop_plan = {.n_effects = 1, .effects = drop};

  plans_run(fixture->plans, &plan);
  plans_run(fixture->plans, &drop_plan);
  assert_int_equal(segments_count(fixture->segments), 0);
  open_gate(fixture);
  assert_int_equal(fixture->last_result, -ENOENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(a_plan_is_done_at_once),
    TEST(a_plan_stops_at_what_fails),
    TEST(others_are_served_while_a_freeze_waits),
    TEST(a_freeze_that_fails_stops_its_plan),
    TEST(a_segment_may_be_dropped_while_it_is_frozen),
};

TEST_MAIN(tests)
