#include "core/inline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/reply.h"

static struct quota_sum payload_sum(uint64_t size)
{
  return (struct quota_sum){.of = {[QUOTA_HEAP] = size}};
}

bool inline_take(struct tensor *tensor, struct connection *connection, uint64_t request,
                 const struct msg_add *add)
{
  const struct actor *actor = &connection->session->actor;
  struct quota_sum sum = payload_sum(add->place.size);
  struct quota_refusal refusal;
  uint8_t *payload = malloc(add->place.size > 0 ? add->place.size : 1);
  int r = payload ? quota_charge(connection->broker->quota, &tensor->charge, actor->realm,
                                 actor->uid, &sum, &refusal)
                  : -1;

  if (r == 0) {
    memcpy(payload, add->payload, add->place.size);
    tensor->payload = payload;
    return true;
  }
  free(payload);
  if (r == QUOTA_E_EXCEEDED)
    reply_quota(connection, request, &refusal);
  else
    reply_no_memory(connection, request);
  return false;
}

void inline_drop(struct tensor *tensor)
{
  struct quota_sum sum = payload_sum(tensor->size);

  if (!tensor->payload)
    return;
  quota_charge_less(&tensor->charge, &sum);
  free(tensor->payload);
  tensor->payload = NULL;
}

static int place_one(struct op *op, struct tensor *tensor, struct pool_request *request,
                     struct quota_refusal *refusal)
{
  struct broker *broker = op->broker;
  const struct actor *actor = &op->session->actor;
  struct pool *pool =
      segments_slab_pool(&broker->segments, broker->quota, actor->realm, actor->uid);
  bool is_first;
  int r;

  if (!pool)
    return -ENOMEM;
  request->size = tensor->size;
  request->domain = (struct pool_domain){.owner = tensor->rule.owner,
                                         .gid = tensor->rule.gid,
                                         .mode = tensor->rule.mode,
                                         .lifetime = tensor->lifetime,
                                         .backend = broker->config.backend};
  r = broker_place(broker, pool, request, &tensor->block, &is_first, refusal);
  if (r != 0)
    return r;
  if (is_first)
    op_add(op, &(struct effect){.kind = EFFECT_SEGMENT_CREATE,
                                .segment = tensor->block->segment->id,
                                .size = tensor->block->segment->size,
                                .backend = tensor->block->segment->domain.backend,
                                .is_slab = true});
  return 0;
}

bool inline_place(struct staging *staging, struct op *op, struct connection *connection)
{
  struct broker *broker = op->broker;
  struct pool_request request = {.batch = broker->next_batch++,
                                 .memory_available = broker->env->memory_available};

  dlp_list_for_each (link, &staging->tensors) {
    struct tensor *tensor = DLP_CONTAINER(link, struct tensor, link);
    struct quota_refusal refusal;
    int r = tensor->payload ? place_one(op, tensor, &request, &refusal) : 0;

    if (r == 0)
      continue;
    reply_pool(connection, op->request, r, &refusal);
    return false;
  }
  return true;
}

void inline_note_made(struct op *op, size_t n_done)
{
  for (size_t i = 0; i < n_done; i++) {
    const struct effect *effect = &op->plan.effects[i];
    if (effect->kind == EFFECT_SEGMENT_CREATE)
      segments_find(&op->broker->segments, effect->segment)->made = true;
  }
}

void inline_plan_writes(const struct staging *staging, struct op *op)
{
  dlp_list_for_each (link, &staging->tensors) {
    const struct tensor *tensor = DLP_CONTAINER(link, struct tensor, link);
    if (!tensor->payload || tensor->size == 0)
      continue;
    op_add(op, &(struct effect){.kind = EFFECT_SEGMENT_WRITE,
                                .segment = tensor->block->segment->id,
                                .backend = tensor->block->segment->domain.backend,
                                .offset = tensor->block->offset,
                                .size = tensor->size,
                                .data = tensor->payload});
  }
}
