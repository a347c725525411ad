#include "core/timer.h"

#include <assert.h>

static int compare(const void *key, const struct dlp_tree_node *node)
{
  const struct timer *a = key, *b = DLP_CONTAINER(node, struct timer, node);

  if (a->due_us != b->due_us)
    return a->due_us < b->due_us ? -1 : 1;
  return a->serial < b->serial ? -1 : a->serial > b->serial;
}

void timers_init(struct timers *timers, uint64_t seed)
{
  dlp_tree_init(&timers->tree, compare, seed);
  timers->next_serial = 1;
}

void timers_deinit(struct timers *timers)
{
  assert(timers->tree.size == 0);
}

void timer_arm(struct timers *timers, struct timer *timer, uint64_t due_us)
{
  timer_disarm(timers, timer);
  if (due_us == UINT64_MAX)
    return;
  timer->due_us = due_us;
  timer->serial = timers->next_serial++;
  dlp_tree_insert(&timers->tree, timer, &timer->node);
}

void timer_disarm(struct timers *timers, struct timer *timer)
{
  if (timer->serial == 0)
    return;
  dlp_tree_remove(&timers->tree, &timer->node);
  timer->serial = 0;
}

static struct timer *first(const struct timers *timers)
{
  struct dlp_tree_node *node = dlp_tree_first(&timers->tree);

  return node ? DLP_CONTAINER(node, struct timer, node) : NULL;
}

uint64_t timers_next_due(const struct timers *timers)
{
  const struct timer *timer = first(timers);

  return timer ? timer->due_us : UINT64_MAX;
}

void timers_fire(struct timers *timers, uint64_t now_us, void *context)
{
  struct timer *timer;

  while ((timer = first(timers)) && timer->due_us <= now_us) {
    timer_disarm(timers, timer);
    timer->fire(timer, context);
  }
}
