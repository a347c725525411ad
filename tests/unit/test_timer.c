#include "support/test.h"

#include <stdlib.h>

#include "core/timer.h"

enum { N_TIMERS = 4 };

struct fixture {
  struct timers timers;
  struct timer all[N_TIMERS];
  size_t fired[16];
  size_t n_fired;
  size_t rearm; /* the timer that arms another when it fires, N_TIMERS: none */
  uint64_t rearm_due;
};

static void note(struct timer *timer, void *context)
{
  struct fixture *f = context;
  size_t i = (size_t)(timer - f->all);

  assert_int_equal(timer->serial, 0);
  assert_in_range(f->n_fired, 0, TEST_ARRAY_SIZE(f->fired) - 1);
  f->fired[f->n_fired++] = i;
  if (i == f->rearm)
    timer_arm(&f->timers, &f->all[(i + 1) % N_TIMERS], f->rearm_due);
}

static int setup(void **state)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));

  if (!fixture)
    return -1;
  timers_init(&fixture->timers, 3);
  for (size_t i = 0; i < N_TIMERS; i++)
    fixture->all[i].fire = note;
  fixture->rearm = N_TIMERS;
  *state = fixture;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < N_TIMERS; i++)
    timer_disarm(&f->timers, &f->all[i]);
  timers_deinit(&f->timers);
  free(f);
  return 0;
}

static void timers_fire_in_order_when_they_are_due(void **state)
{
  struct fixture *f = *state;

  timer_arm(&f->timers, &f->all[0], 30);
  timer_arm(&f->timers, &f->all[1], 10);
  timer_arm(&f->timers, &f->all[2], 20);
  assert_int_equal(timers_next_due(&f->timers), 10);
  timers_fire(&f->timers, 9, f);
  assert_int_equal(f->n_fired, 0);
  timers_fire(&f->timers, 20, f);
  assert_int_equal(f->n_fired, 2);
  assert_int_equal(f->fired[0], 1);
  assert_int_equal(f->fired[1], 2);
  assert_int_equal(timers_next_due(&f->timers), 30);
}

static void timers_of_one_instant_fire_in_the_order_they_were_armed(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < N_TIMERS; i++)
    timer_arm(&f->timers, &f->all[N_TIMERS - 1 - i], 5);
  timers_fire(&f->timers, 5, f);
  for (size_t i = 0; i < N_TIMERS; i++)
    assert_int_equal(f->fired[i], N_TIMERS - 1 - i);
}

static void timer_armed_again_fires_once_at_the_later_time(void **state)
{
  struct fixture *f = *state;

  timer_arm(&f->timers, &f->all[0], 5);
  timer_arm(&f->timers, &f->all[0], 50);
  timers_fire(&f->timers, 49, f);
  assert_int_equal(f->n_fired, 0);
  timers_fire(&f->timers, 50, f);
  timers_fire(&f->timers, 500, f);
  assert_int_equal(f->n_fired, 1);
}

static void disarmed_timer_does_not_fire(void **state)
{
  struct fixture *f = *state;

  timer_arm(&f->timers, &f->all[0], 5);
  timer_disarm(&f->timers, &f->all[0]);
  timer_disarm(&f->timers, &f->all[0]);
  timers_fire(&f->timers, UINT64_MAX - 1, f);
  assert_int_equal(f->n_fired, 0);
  assert_int_equal(timers_next_due(&f->timers), UINT64_MAX);
}

static void never_is_not_armed(void **state)
{
  struct fixture *f = *state;

  timer_arm(&f->timers, &f->all[0], 5);
  timer_arm(&f->timers, &f->all[0], UINT64_MAX);
  timers_fire(&f->timers, UINT64_MAX, f);
  assert_int_equal(f->n_fired, 0);
}

static void timer_armed_by_another_for_the_past_fires_in_the_same_call(void **state)
{
  struct fixture *f = *state;

  f->rearm = 0;
  f->rearm_due = 1;
  timer_arm(&f->timers, &f->all[0], 5);
  timers_fire(&f->timers, 5, f);
  assert_int_equal(f->n_fired, 2);
  assert_int_equal(f->fired[1], 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(timers_fire_in_order_when_they_are_due),
    CASE(timers_of_one_instant_fire_in_the_order_they_were_armed),
    CASE(timer_armed_again_fires_once_at_the_later_time),
    CASE(disarmed_timer_does_not_fire),
    CASE(never_is_not_armed),
    CASE(timer_armed_by_another_for_the_past_fires_in_the_same_call),
};

TEST_MAIN(tests)
