#ifndef DLPACKD_CORE_TIMER_H
#define DLPACKD_CORE_TIMER_H

/*
 * What is due when: deadlines of waiting requests, of tensors with a time to
 * live, of sessions nobody is connected to. Timers live in what they belong to.
 *
 * Pure: time comes in as a number. One owner thread.
 */

#include "common/list.h"
#include "common/tree.h"

struct timer {
  struct dlp_tree_node node;
  uint64_t due_us;
  uint64_t serial; /* 0: not armed. Also tells timers of the same instant apart */
  void (*fire)(struct timer *timer, void *context);
};

struct timers {
  struct dlp_tree tree;
  uint64_t next_serial;
};

void timers_init(struct timers *timers, uint64_t seed);
void timers_deinit(struct timers *timers); /* asserts that none is armed */

/* Arms, or arms again. UINT64_MAX never fires and is not armed. */
void timer_arm(struct timers *timers, struct timer *timer, uint64_t due_us);
void timer_disarm(struct timers *timers, struct timer *timer); /* twice is harmless */

uint64_t timers_next_due(const struct timers *timers); /* UINT64_MAX: none */

/* Fires, each disarmed before, what is due by now. A timer that is armed by
 * another's firing for an instant that has passed fires in the same call. */
void timers_fire(struct timers *timers, uint64_t now_us, void *context);

#endif
