#include "io/plans.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/cleanup.h"

struct plans {
  struct loop *loop;
  struct segments *segments;
  struct store *store;
  struct plans_host host;
  size_t n_under_way;
};

/* How far a plan has come. On the stack, unless it has to wait for a thread. */
struct plan_run {
  struct plans *plans;
  struct plan *plan;
  size_t n_done;
  struct segment_job job;
};

static void advance(struct plan_run *run);

int plans_new(struct plans **ret, struct loop *loop, struct segments *segments, struct store *store,
              const struct plans_host *host)
{
  struct plans *plans = calloc(1, sizeof(*plans));

  if (!plans)
    return -ENOMEM;
  plans->loop = loop;
  plans->segments = segments;
  plans->store = store;
  plans->host = *host;
  *ret = plans;
  return 0;
}

struct plans *plans_free(struct plans *plans)
{
  if (!plans)
    return NULL;
  assert(plans->n_under_way == 0);
  free(plans);
  return NULL;
}

size_t plans_under_way(const struct plans *plans)
{
  return plans->n_under_way;
}

static void finish(struct plan_run *run, int result)
{
  struct plans *plans = run->plans;

  plans->n_under_way--;
  plans->host.done(plans->host.context, run->plan, result, run->n_done);
}

static int on_thread(void *context)
{
  struct plan_run *run = context;

  return segment_job_work(&run->job);
}

static void on_thread_done(void *context, int result)
{
  struct plan_run *run = context;
  struct plans *plans = run->plans;

  result = segments_finish(plans->segments, &run->job, result);
  if (result < 0) {
    finish(run, result);
  } else {
    run->n_done++;
    advance(run);
  }
  free(run);
  plans->host.turn_done(plans->host.context);
}

/* Return: true if a thread has it now; the caller's `run` is then of no use. */
static bool hand_over(const struct plan_run *run)
{
  struct plan_run *copy = malloc(sizeof(*copy));

  if (!copy)
    return false;
  *copy = *run;
  if (segment_job_detach(&copy->job) < 0) {
    free(copy);
    return false;
  }
  if (loop_work(run->plans->loop, on_thread, on_thread_done, copy) < 0) {
    copy->job.own_fd = dlp_close(copy->job.own_fd);
    free(copy);
    return false;
  }
  return true;
}

static int run_segment(struct plan_run *run, const struct effect *effect, bool *ret_handed_over)
{
  int r = segments_begin(run->plans->segments, effect, &run->job);

  if (r == SEGMENTS_E_DONE)
    return 0;
  if (r < 0)
    return r;
  *ret_handed_over = run->job.is_slow && hand_over(run);
  if (*ret_handed_over)
    return 0;
  return segments_finish(run->plans->segments, &run->job, segment_job_work(&run->job));
}

static int run_effect(struct plan_run *run, const struct effect *effect, bool *ret_handed_over)
{
  struct plans *plans = run->plans;

  switch (effect->kind) {
  case EFFECT_SESSION_OPEN:
  case EFFECT_SESSION_CLOSE:
    return plans->host.run_session(plans->host.context, effect);
  case EFFECT_SEGMENT_CREATE:
  case EFFECT_SEGMENT_WRITE:
  case EFFECT_SEGMENT_CHECK:
  case EFFECT_SEGMENT_SEAL:
  case EFFECT_SEGMENT_DROP:
    return run_segment(run, effect, ret_handed_over);
  case EFFECT_ROW_PREPARE:
  case EFFECT_COMMIT_LIVE:
  case EFFECT_ROW_FREE:
    return store_run(plans->store, effect);
  }
  assert(!"a kind of effect");
  return -EINVAL;
}

/* Until it is done or a thread has it. */
static void advance(struct plan_run *run)
{
  int r = 0;

  for (; run->n_done < run->plan->n_effects; run->n_done++) {
    bool handed_over = false;

    r = run_effect(run, &run->plan->effects[run->n_done], &handed_over);
    if (handed_over)
      return;
    if (r < 0)
      break;
  }
  finish(run, r);
}

void plans_run(struct plans *plans, struct plan *plan)
{
  struct plan_run run = {.plans = plans, .plan = plan};

  plans->n_under_way++;
  advance(&run);
}
