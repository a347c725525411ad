/* ALLOCATE, FREE, MAP, FORGET: memory to fill, and descriptors to map it by. */

#include <stdlib.h>

#include "core/domain.h"
#include "core/reply.h"

/* ---- allocate ---- */

/* Its blocks become the session's when their segments are there: until then nobody
 * can give them back or publish them. */
struct allocate_op {
  struct op op;
  size_t n_blocks;
  struct block *blocks[DLP_PACKET_FDS_MAX];
};

static void give_back(struct allocate_op *allocate)
{
  for (size_t i = 0; i < allocate->n_blocks; i++)
    session_drop_block(allocate->op.broker, allocate->blocks[i]);
  allocate->n_blocks = 0;
}

/* The first effect says how many segments were made before one could not be. */
static void note_made(struct allocate_op *allocate, size_t n_done)
{
  for (size_t i = 0; i < n_done; i++)
    segments_find(&allocate->op.broker->segments, allocate->op.plan.effects[i].segment)->made =
        true;
}

/* The segments that the session was not sent yet. Return: false if out of memory. */
static bool fill_segments(struct allocate_op *allocate, struct msg_segment *segments,
                          struct attachment *attachments, uint32_t *ret_n)
{
  uint32_t n = 0;

  for (size_t i = 0; i < allocate->n_blocks; i++) {
    struct segment *segment = allocate->blocks[i]->segment;
    struct segment_view *view = session_view(allocate->op.session, segment);

    if (!view)
      return false;
    if (view->flags & SEGMENT_VIEW_PRODUCER)
      continue;
    view->flags |= SEGMENT_VIEW_PRODUCER;
    segments[n] = (struct msg_segment){segment->id, segment->size, segment->domain.backend, n};
    attachments[n] = (struct attachment){ATTACHMENT_SEGMENT_WRITABLE, segment->id};
    n++;
  }
  *ret_n = n;
  return true;
}

static void reply_allocated(struct allocate_op *allocate, struct connection *connection)
{
  struct msg_reply reply = {.id = allocate->op.request, .type = MSG_ALLOCATED};
  struct msg_place places[DLP_PACKET_FDS_MAX];
  struct msg_segment segments[DLP_PACKET_FDS_MAX];
  struct attachment attachments[DLP_PACKET_FDS_MAX];
  uint32_t n;

  if (!fill_segments(allocate, segments, attachments, &n)) {
    give_back(allocate);
    reply_no_memory(connection, allocate->op.request);
    return;
  }
  for (size_t i = 0; i < allocate->n_blocks; i++) {
    struct block *block = allocate->blocks[i];
    session_add_block(allocate->op.session, block);
    places[i] = (struct msg_place){
        .segment = block->segment->id, .offset = block->offset, .size = block->size};
  }
  reply.u.allocated.n_places = allocate->n_blocks;
  reply.u.allocated.places = places;
  reply.u.allocated.n_segments = n;
  reply.u.allocated.segments = segments;
  reply_send(connection, &reply, attachments, n);
}

static void allocate_done(struct op *op, int result, size_t failed)
{
  struct allocate_op *allocate = (struct allocate_op *)op;
  struct connection *connection = connection_find(op->broker, op->connection);

  note_made(allocate, result == 0 ? op->plan.n_effects : failed);
  if (result == 0 && connection) {
    reply_allocated(allocate, connection);
    return;
  }
  give_back(allocate);
  if (connection)
    reply_errno(connection, op->request, "making a segment", result);
}

/* One block, and the effect that makes its segment if there is none yet.
 * Return: 0, -ENOMEM, or POOL_E_* with *refusal filled. */
static int place_block(struct allocate_op *allocate, struct pool_request *pool_request,
                       const struct msg_block *wanted, struct quota_refusal *refusal)
{
  struct session *session = allocate->op.session;
  struct block *block;
  bool is_first;
  int r;

  pool_request->size = wanted->size;
  pool_request->flags = wanted->flags;
  r = broker_place(allocate->op.broker, &session->pool, pool_request, &block, &is_first, refusal);
  if (r != 0)
    return r;
  allocate->blocks[allocate->n_blocks++] = block;
  if (is_first)
    op_add(&allocate->op, &(struct effect){.kind = EFFECT_SEGMENT_CREATE,
                                           .session = session->id,
                                           .segment = block->segment->id,
                                           .size = block->segment->size,
                                           .backend = block->segment->domain.backend});
  return 0;
}

/* Places all blocks or none. Return: false after answering the refusal. */
static bool place_blocks(struct allocate_op *allocate, struct connection *connection,
                         const struct msg_request *request, struct pool_request *pool_request)
{
  const struct msg_allocate *wanted = &request->u.allocate;
  struct quota_refusal refusal;

  for (size_t i = 0; i < wanted->n_blocks; i++) {
    int r = place_block(allocate, pool_request, &wanted->blocks[i], &refusal);
    if (r == 0)
      continue;
    give_back(allocate);
    reply_pool(connection, request->id, r, &refusal);
    return false;
  }
  return true;
}

void request_allocate(struct connection *connection, const struct msg_request *request)
{
  const struct msg_allocate *wanted = &request->u.allocate;
  struct broker *broker = connection->broker;
  struct pool_request pool_request = {.memory_available = broker->env->memory_available,
                                      .domain = {.owner = wanted->owner,
                                                 .gid = wanted->gid,
                                                 .mode = wanted->mode,
                                                 .lifetime = wanted->lifetime,
                                                 .backend = wanted->backend,
                                                 .is_mutable = wanted->is_mutable}};
  struct allocate_op *allocate;
  struct op *op;

  if (wanted->n_blocks == 0 || wanted->n_blocks > DLP_PACKET_FDS_MAX) {
    reply_error(connection, request->id, DLP_STATUS_INVALID,
                "one request allocates 1 to %d blocks, not %zu", DLP_PACKET_FDS_MAX,
                wanted->n_blocks);
    return;
  }
  if (!domain_complete(connection, request->id, &pool_request.domain))
    return;
  op =
      op_new(sizeof(*allocate), wanted->n_blocks, connection->session, connection->id, request->id);
  if (!op) {
    reply_no_memory(connection, request->id);
    return;
  }
  allocate = (struct allocate_op *)op;
  op->done = allocate_done;
  pool_request.batch = broker->next_batch++;
  if (place_blocks(allocate, connection, request, &pool_request))
    op_start(op);
  else
    op_free(op);
}

/* ---- the rest ---- */

/* A segment that has gone meanwhile has taken what the producer kept of it along. */
static bool free_one(struct connection *connection, const struct msg_place *place)
{
  struct session *session = connection->session;
  struct block *block = session_find_block(session, place);

  if (!block)
    return place->segment != 0 && !segments_find(&connection->broker->segments, place->segment) &&
           place->segment < connection->broker->segments.next_id;
  session_take_block(session, block);
  if (block->kept)
    broker_let_go(connection->broker, block);
  else
    session_drop_block(connection->broker, block);
  return true;
}

void request_free(struct connection *connection, const struct msg_request *request)
{
  const struct msg_free *list = &request->u.free;

  for (size_t i = 0; i < list->n_places; i++) {
    if (!free_one(connection, &list->places[i])) {
      protocol_error(connection, "FREE of memory that is not the session's");
      return;
    }
  }
}

static bool may_map(const struct connection *connection, const struct segment *segment,
                    uint32_t access)
{
  if (!segment || !lease_holds_segment(&connection->session->leases, segment))
    return false;
  if (access == MSG_ACCESS_READ)
    return true;
  const struct access_rule rule = {segment->domain.owner, segment->domain.gid,
                                   segment->domain.mode};
  return segment->domain.is_mutable && policy_may_write(&connection->actor, &rule);
}

void request_map(struct connection *connection, const struct msg_request *request)
{
  struct broker *broker = connection->broker;
  bool shared = request->u.map.access == MSG_ACCESS_SHARED;
  struct segment *segment = segments_find(&broker->segments, request->u.map.segment);
  struct msg_reply reply = {.id = request->id, .type = MSG_MAPPED};
  struct segment_view *view;
  struct attachment attachment;

  if (!reply_check_access(connection, request->id, request->u.map.access))
    return;
  if (!may_map(connection, segment, request->u.map.access)) {
    reply_error(connection, request->id, DLP_STATUS_NOT_FOUND,
                "you hold nothing in segment %llu that you may map this way",
                (unsigned long long)request->u.map.segment);
    return;
  }
  view = session_view(connection->session, segment);
  if (!view) {
    reply_no_memory(connection, request->id);
    return;
  }
  view->flags |= shared ? SEGMENT_VIEW_SHARED : SEGMENT_VIEW_READ;
  attachment = (struct attachment){
      shared ? ATTACHMENT_SEGMENT_WRITABLE : ATTACHMENT_SEGMENT_READ_ONLY, segment->id};
  reply.u.mapped.segment =
      (struct msg_segment){segment->id, segment->size, segment->domain.backend, 0};
  reply_send(connection, &reply, &attachment, 1);
}

/* Ids that are not known are no error: the segment may have been dropped meanwhile. */
void request_forget(struct connection *connection, const struct msg_request *request)
{
  const struct msg_forget *list = &request->u.forget;

  for (size_t i = 0; i < list->n_segments; i++) {
    struct segment_view *view = session_find_view(connection->session, list->segments[i]);
    if (!view)
      continue;
    view->flags &= ~(uint32_t)(SEGMENT_VIEW_READ | SEGMENT_VIEW_SHARED);
    if (view->flags == 0)
      segment_view_free(view);
  }
}
