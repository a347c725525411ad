#include "core/commit.h"

#include <errno.h>
#include <string.h>

#include "core/inline.h"
#include "core/reply.h"
#include "core/wait.h"

struct commit_op {
  struct op op;
  struct staging *staging;
  uint64_t version;
  uint64_t ttl_ms;
};

enum commit_check {
  COMMIT_CHECKED,
  COMMIT_E_CONFLICT, /* a name's newest version is not the expected one */
  COMMIT_E_DENIED,   /* a name may not be published to any more */
};

/* Since the tensors were added as much time has passed as the client liked. With a
 * condition *ret_broken is the tensor it is about. */
static enum commit_check check_commit(const struct staging *staging,
                                      const struct tensor **ret_broken)
{
  const struct actor *actor = &staging->session->actor;

  dlp_list_for_each (link, &staging->tensors) {
    const struct tensor *tensor = DLP_CONTAINER(link, struct tensor, link);
    const struct tensor *newest = tensor->entry->newest;

    *ret_broken = tensor;
    if (!policy_may_publish(actor, tensor->entry->key.owner, newest ? &newest->rule : NULL))
      return COMMIT_E_DENIED;
    if (tensor->has_expected && tensor->expected != (newest ? newest->version : 0))
      return COMMIT_E_CONFLICT;
  }
  return COMMIT_CHECKED;
}

static void reply_refused(struct connection *connection, uint64_t request, enum commit_check check,
                          const struct tensor *tensor)
{
  const struct tensor *newest = tensor->entry->newest;
  char text[REPLY_NAME_SIZE];

  if (check == COMMIT_E_DENIED) {
    staging_reply_denied(connection, request, &tensor->entry->key);
    return;
  }
  reply_error(connection, request, DLP_STATUS_CONFLICT,
              "the newest version of '%s' is %llu, not the expected %llu",
              reply_name_text(connection, &tensor->entry->key, text),
              (unsigned long long)(newest ? newest->version : 0),
              (unsigned long long)tensor->expected);
}

static enum segment_seal seal_for(const struct tensor *tensor)
{
  if (tensor->flags & MSG_TENSOR_MUTABLE)
    return SEGMENT_SEAL_MUTABLE;
  return tensor->flags & MSG_TENSOR_FROZEN ? SEGMENT_SEAL_FROZEN : SEGMENT_SEAL_READ_ONLY;
}

/* Each segment once. */
static void plan_seals(struct commit_op *commit)
{
  uint64_t plan = commit->op.broker->next_batch++;

  dlp_list_for_each (link, &commit->staging->tensors) {
    const struct tensor *tensor = DLP_CONTAINER(link, struct tensor, link);
    struct segment *segment = tensor->block->segment;
    if ((segment->sealed && !(tensor->flags & MSG_TENSOR_FROZEN)) || segment->planned == plan)
      continue;
    segment->planned = plan;
    op_add(&commit->op, &(struct effect){.kind = EFFECT_SEGMENT_SEAL,
                                         .segment = segment->id,
                                         .backend = segment->domain.backend,
                                         .seal = seal_for(tensor)});
  }
}

/* After the seals: before them, pages that were seen could be taken away again. What we
 * wrote ourselves is there. */
static void plan_checks(struct commit_op *commit)
{
  dlp_list_for_each (link, &commit->staging->tensors) {
    const struct tensor *tensor = DLP_CONTAINER(link, struct tensor, link);
    if (tensor->size == 0 || tensor->payload)
      continue;
    op_add(&commit->op, &(struct effect){.kind = EFFECT_SEGMENT_CHECK,
                                         .segment = tensor->block->segment->id,
                                         .backend = tensor->block->segment->domain.backend,
                                         .offset = tensor->block->offset,
                                         .size = tensor->size});
  }
}

/* First all that may refuse, then the rows, then the record that makes them true. */
static void plan_commit(struct commit_op *commit)
{
  struct broker *broker = commit->op.broker;

  plan_seals(commit);
  inline_plan_writes(commit->staging, &commit->op);
  plan_checks(commit);
  dlp_list_for_each (link, &commit->staging->tensors) {
    struct tensor *tensor = DLP_CONTAINER(link, struct tensor, link);
    tensor->version = commit->version;
    tensor->row = broker->next_row++;
    op_add(&commit->op, &(struct effect){.kind = EFFECT_ROW_PREPARE,
                                         .row = tensor->row,
                                         .version = commit->version,
                                         .segment = tensor->block->segment->id,
                                         .tensor = tensor});
  }
  op_add(&commit->op, &(struct effect){.kind = EFFECT_COMMIT_LIVE, .version = commit->version});
}

/* Segments that this plan sealed before it failed, or all, are sealed. */
static void note_seals(struct commit_op *commit, size_t n_done)
{
  for (size_t i = 0; i < n_done; i++) {
    const struct effect *effect = &commit->op.plan.effects[i];
    struct segment *segment;
    if (effect->kind != EFFECT_SEGMENT_SEAL)
      continue;
    segment = segments_find(&commit->op.broker->segments, effect->segment);
    segment->sealed = true;
    segment->frozen |= effect->seal == SEGMENT_SEAL_FROZEN;
  }
}

static void ttl_over(struct timer *timer, void *context)
{
  struct broker *broker = context;
  struct entry *entry = DLP_CONTAINER(timer, struct entry, ttl);

  broker_withdraw(broker, entry);
  wait_changed(broker, entry);
  wait_watchers(broker);
}

static uint64_t ttl_due(const struct broker *broker, uint64_t ttl_ms)
{
  uint64_t left_ms = (UINT64_MAX - broker->env->steady_us) / 1000;

  return ttl_ms >= left_ms ? UINT64_MAX : broker->env->steady_us + ttl_ms * 1000;
}

/* Until the producer frees it, nothing else is put there, whatever becomes of the tensor. */
static void keep_block(struct session *session, struct block *block)
{
  block->kept = true;
  session_add_block(session, block);
}

static void publish_one(struct commit_op *commit, struct tensor *tensor)
{
  struct broker *broker = commit->op.broker;
  struct tensor *replaced;

  dlp_tree_remove(&commit->staging->entries, &tensor->staged);
  inline_drop(tensor);
  if (tensor->block->keep)
    keep_block(commit->op.session, tensor->block);
  replaced = registry_publish(&broker->registry, tensor);
  tensor->created_wall_us = broker->env->wall_us;
  tensor->created_steady_us = broker->env->steady_us;
  if (replaced == tensor) {
    broker_tensor_released(broker, tensor);
    return;
  }
  if (tensor->lifetime == MSG_LIFETIME_SESSION)
    dlp_list_append(&commit->op.session->published, &tensor->session_link);
  else
    broker->n_persistent++;
  if (tensor->lifetime == MSG_LIFETIME_TTL) {
    tensor->entry->ttl.fire = ttl_over;
    timer_arm(&broker->timers, &tensor->entry->ttl, ttl_due(broker, commit->ttl_ms));
  }
  if (replaced)
    broker_retired(broker, replaced);
}

/* Everything at once: nobody is served before all names show the new version. */
static void publish_all(struct commit_op *commit)
{
  struct broker *broker = commit->op.broker;
  struct staging *staging = commit->staging;
  uint64_t first_change = broker->registry.change;
  struct entry *entry;

  while (!dlp_list_empty(&staging->tensors))
    publish_one(commit, DLP_CONTAINER(staging->tensors.next, struct tensor, link));
  staging->n_tensors = 0;
  session_remember_commit(commit->op.session, staging->key, commit->version);
  broker->totals.commits++;

  entry = registry_first_change_after(&broker->registry, first_change);
  while (entry) {
    struct entry *next = registry_next_change(entry);
    wait_changed(broker, entry);
    entry = next;
  }
  wait_watchers(broker);
}

static void take_back(struct commit_op *commit, size_t n_done)
{
  struct staging *staging = commit->staging;
  size_t n_rows = 0;

  for (size_t i = 0; i < n_done; i++)
    n_rows += commit->op.plan.effects[i].kind == EFFECT_ROW_PREPARE;
  while (!dlp_list_empty(&staging->tensors)) {
    struct tensor *tensor = DLP_CONTAINER(staging->tensors.next, struct tensor, link);
    staging_remove(staging, tensor, n_rows > 0);
    n_rows -= n_rows > 0;
  }
}

static void reply_effect_failed(struct connection *connection, uint64_t request,
                                const struct effect *effect, int error)
{
  if (effect->kind == EFFECT_SEGMENT_CHECK && error == -ENODATA)
    reply_error(connection, request, DLP_STATUS_INVALID,
                "not all pages of the tensor are there: write to every byte before publishing");
  else if (effect->kind == EFFECT_SEGMENT_SEAL && error == -EBUSY)
    reply_error(connection, request, DLP_STATUS_INVALID,
                "the tensor is to be frozen, but is still mapped writable");
  else if (effect->kind == EFFECT_SEGMENT_SEAL && error == -EPERM)
    reply_error(connection, request, DLP_STATUS_INVALID,
                "the segment was given another size, or other seals, than it was made with");
  else if (effect->kind == EFFECT_SEGMENT_SEAL && error == -EOPNOTSUPP)
    reply_error(connection, request, DLP_STATUS_UNSUPPORTED,
                "this storage backend cannot freeze: use memfd");
  else
    reply_errno(connection, request, "publishing", error);
}

static void commit_done(struct op *op, int result, size_t failed)
{
  struct commit_op *commit = (struct commit_op *)op;
  struct broker *broker = op->broker;
  struct connection *connection = connection_find(broker, op->connection);
  const struct tensor *broken = NULL;
  size_t n_done = result == 0 ? op->plan.n_effects : failed;
  enum commit_check check = check_commit(commit->staging, &broken);

  inline_note_made(op, n_done);
  note_seals(commit, n_done);
  if (result == 0 && check == COMMIT_CHECKED) {
    publish_all(commit);
    connection = connection_find(broker, op->connection);
    if (connection) {
      struct msg_reply reply = {.id = op->request, .type = MSG_PUBLISHED};
      reply.u.published.version = commit->version;
      reply_send(connection, &reply, NULL, 0);
    }
  } else {
    if (connection && result < 0)
      reply_effect_failed(connection, op->request, &op->plan.effects[failed], result);
    else if (connection)
      reply_refused(connection, op->request, check, broken);
    take_back(commit, n_done);
  }
  staging_free(commit->staging);
}

/* Everything that may refuse without an effect. Return: the plan, still without effects;
 * NULL after answering the refusal. */
static struct commit_op *new_commit(struct staging *staging, struct connection *connection,
                                    uint64_t request)
{
  const struct tensor *broken;
  enum commit_check check = check_commit(staging, &broken);
  struct op *op;

  if (staging->n_tensors == 0) {
    reply_error(connection, request, DLP_STATUS_INVALID, "nothing was added to this publication");
    return NULL;
  }
  if (check != COMMIT_CHECKED) {
    reply_refused(connection, request, check, broken);
    return NULL;
  }
  /* Of a tensor: its slab, a seal, a write or a check, a row. */
  op = op_new(sizeof(struct commit_op), staging->n_tensors * 4 + 1, staging->session,
              connection->id, request);
  if (!op) {
    reply_no_memory(connection, request);
    return NULL;
  }
  if (!inline_place(staging, op, connection)) {
    op_free(op);
    return NULL;
  }
  return (struct commit_op *)op;
}

void staging_commit(struct staging *staging, struct connection *connection, uint64_t request,
                    uint64_t ttl_ms)
{
  struct broker *broker = connection->broker;
  struct commit_op *commit = new_commit(staging, connection, request);

  if (!commit) {
    staging_free(staging);
    return;
  }
  commit->staging = staging;
  commit->ttl_ms = ttl_ms;
  commit->version =
      broker->env->wall_us > broker->last_version ? broker->env->wall_us : broker->last_version + 1;
  broker->last_version = commit->version;
  staging->is_committing = true;
  commit->op.done = commit_done;
  plan_commit(commit);
  op_start(&commit->op);
}
