/* Memory that comes back: blocks to their pools, warm segments to the host. */

#include "core/broker_private.h"

static void trim_due(struct timer *timer, void *context)
{
  struct broker *broker = context;

  (void)timer;
  broker_trim(broker);
  segments_tidy_slabs(&broker->segments);
}

void broker_trim(struct broker *broker)
{
  struct segment *segment;
  uint64_t due;

  while ((segment = segments_excess(&broker->segments, broker->env->steady_us)))
    session_drop_segment(broker, segment);
  due = segments_next_due(&broker->segments);
  broker->trim.fire = trim_due;
  if (due == UINT64_MAX)
    timer_disarm(&broker->timers, &broker->trim);
  else if (broker->trim.serial == 0 || broker->trim.due_us > due)
    timer_arm(&broker->timers, &broker->trim, due);
}

static void settled(struct broker *broker, struct segment *segment)
{
  if (segment)
    session_drop_segment(broker, segment);
  broker_trim(broker);
}

void session_drop_block(struct broker *broker, struct block *block)
{
  settled(broker, block_free(block, broker->env->steady_us));
}

void broker_let_go(struct broker *broker, struct block *block)
{
  settled(broker, block_let_go(block, broker->env->steady_us));
}

void broker_drop_warm(struct broker *broker, const struct pool *pool)
{
  struct segment *segment;

  while ((segment = pool_first_idle(pool)))
    session_drop_segment(broker, segment);
  broker_trim(broker);
}

/* Drops one that is warm, so that the request may fit. Return: false if none is. */
static bool take_back(struct broker *broker, const struct pool *pool, int refused,
                      struct pool_request *request)
{
  struct segment *segment =
      segments_first_idle(&broker->segments, pool->realm, pool->payer, refused != POOL_E_QUOTA);

  if (!segment)
    return false;
  request->memory_available += segment->mark;
  session_drop_segment(broker, segment);
  return true;
}

static bool is_short(int r)
{
  return r == POOL_E_LIMIT || r == POOL_E_MEMORY || r == POOL_E_QUOTA;
}

int broker_place(struct broker *broker, struct pool *pool, struct pool_request *request,
                 struct block **ret, bool *ret_is_first, struct quota_refusal *refusal)
{
  uint64_t held;
  int r = releases_reserve(&broker->releases, 1); /* for the segment, should it be new */

  if (r != 0)
    return r;
  do {
    held = broker->segments.held_bytes;
    r = pool_place(pool, request, ret, refusal);
  } while (is_short(r) && take_back(broker, pool, r, request));
  *ret_is_first = r == 0 && !(*ret)->segment->made && (*ret)->segment->n_blocks == 1;
  if (!*ret_is_first)
    releases_unreserve(&broker->releases, 1);
  if (r == 0)
    request->memory_available -= broker->segments.held_bytes - held;
  return r;
}
