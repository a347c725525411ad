#ifndef DLPACKD_IO_PLANS_H
#define DLPACKD_IO_PLANS_H

/*
 * Runs the core's plans: effects in order, up to the first that fails.
 *
 * Most plans are done before plans_run() returns. One that holds an effect whose length
 * a client chooses goes on when a thread has done that effect, and meanwhile others
 * are served.
 */

#include <stddef.h>

#include "core/effect.h"
#include "io/loop.h"
#include "io/segments.h"
#include "io/store.h"

struct plans;

struct plans_host {
  void *context;
  /* An EFFECT_SESSION_*. Return: 0 or negative errno. */
  int (*run_session)(void *context, const struct effect *effect);
  /* As broker_plan_done() has it. */
  void (*done)(void *context, struct plan *plan, int result, size_t failed);
  /* A plan that took its time was done. */
  void (*turn_done)(void *context);
};

/* `segments` and `store` are borrowed. Return: 0 or -ENOMEM. */
int plans_new(struct plans **ret, struct loop *loop, struct segments *segments, struct store *store,
              const struct plans_host *host);
/* None may be under way. */
struct plans *plans_free(struct plans *plans);

void plans_run(struct plans *plans, struct plan *plan);

/* Started, and not done. */
size_t plans_under_way(const struct plans *plans);

#endif
