#include "core/reply.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/name.h"

/* Dropped segments told with one answer. */
#define DROPPED_PER_REPLY 256

void reply_send(struct connection *connection, struct msg_reply *reply,
                const struct attachment *attachments, size_t n_attachments)
{
  struct broker *broker = connection->broker;
  struct session *session = connection->session;

  if (session) {
    reply->dropped = session->dropped;
    reply->n_dropped =
        session->n_dropped < DROPPED_PER_REPLY ? session->n_dropped : DROPPED_PER_REPLY;
  }
  reply->n_fds = (uint32_t)n_attachments;
  broker->edge.send(broker->edge.context, connection->id, reply, attachments, n_attachments);
  if (!session || reply->n_dropped == 0)
    return;
  session->n_dropped -= reply->n_dropped;
  memmove(session->dropped, session->dropped + reply->n_dropped,
          session->n_dropped * sizeof(*session->dropped));
}

void reply_ok(struct connection *connection, uint64_t id)
{
  struct msg_reply reply = {.id = id};

  reply_send(connection, &reply, NULL, 0);
}

void reply_error(struct connection *connection, uint64_t id, enum dlp_status status,
                 const char *format, ...)
{
  char message[REPLY_NAME_SIZE + 512];
  struct msg_reply reply = {.id = id, .status = status, .message = message};
  va_list arguments;

  va_start(arguments, format);
  (void)vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  connection->broker->totals.refused++;
  reply_send(connection, &reply, NULL, 0);
}

void reply_no_memory(struct connection *connection, uint64_t id)
{
  reply_error(connection, id, DLP_STATUS_NO_MEMORY, "the daemon is out of memory");
}

void reply_quota(struct connection *connection, uint64_t id, const struct quota_refusal *refusal)
{
  const char *slot = quota_slot_name(refusal->slot);

  reply_error(connection, id, DLP_STATUS_QUOTA,
              "uid %u may have %llu %s, has %llu and wants %llu more: delete some, or have "
              "'user-%s' of the daemon raised",
              connection->actor.uid, (unsigned long long)refusal->limit, slot,
              (unsigned long long)refusal->used, (unsigned long long)refusal->wanted, slot);
}

void reply_pool(struct connection *connection, uint64_t id, int condition,
                const struct quota_refusal *refusal)
{
  switch (condition) {
  case POOL_E_QUOTA:
    reply_quota(connection, id, refusal);
    break;
  case POOL_E_LIMIT:
    reply_error(connection, id, DLP_STATUS_NO_SPACE,
                "%llu bytes more would be over the daemon's limit of %llu bytes, of which %llu "
                "are in use: delete some, or have 'max-bytes' raised",
                (unsigned long long)refusal->wanted, (unsigned long long)refusal->limit,
                (unsigned long long)refusal->used);
    break;
  case POOL_E_MEMORY:
    reply_error(connection, id, DLP_STATUS_NO_SPACE,
                "%llu bytes more are wanted, but the host has only %llu bytes of memory "
                "available: free some",
                (unsigned long long)refusal->wanted, (unsigned long long)refusal->limit);
    break;
  case POOL_E_SIZE:
    reply_error(connection, id, DLP_STATUS_NO_SPACE, "no tensor can have that many bytes");
    break;
  default:
    reply_no_memory(connection, id);
  }
}

void reply_name(struct connection *connection, uint64_t id, const char *path, int condition)
{
  char text[REPLY_NAME_SIZE];

  name_escape(path, text, sizeof(text));
  reply_error(connection, id, DLP_STATUS_NAME, "'%s' is not a name: %s", text,
              name_describe(condition));
}

void reply_not_found(struct connection *connection, uint64_t id, const struct entry_key *key)
{
  char text[REPLY_NAME_SIZE];
  bool is_own = key->owner == connection->actor.uid;

  reply_error(connection, id, DLP_STATUS_NOT_FOUND, "'%s' is not there%s",
              reply_name_text(connection, key, text), is_own ? "" : ", or you may not have it");
}

bool reply_check_access(struct connection *connection, uint64_t id, uint32_t access)
{
  if (access == MSG_ACCESS_READ || access == MSG_ACCESS_SHARED)
    return true;
  reply_error(connection, id, DLP_STATUS_INVALID, "%u is no kind of access", access);
  return false;
}

void reply_errno(struct connection *connection, uint64_t id, const char *what, int error)
{
  switch (error) {
  case -ENOMEM:
  case -ENOSPC:
    reply_error(connection, id, DLP_STATUS_NO_SPACE, "%s failed: the host is out of memory", what);
    break;
  case -EMFILE:
  case -ENFILE:
    reply_error(connection, id, DLP_STATUS_BUSY,
                "%s failed: the daemon is out of descriptors; delete tensors, or raise its "
                "limit of open files",
                what);
    break;
  case -EOPNOTSUPP:
    reply_error(connection, id, DLP_STATUS_UNSUPPORTED,
                "%s failed: this daemon has no such storage backend", what);
    break;
  default:
    reply_error(connection, id, DLP_STATUS_SYSTEM, "%s failed: %s", what, strerror(-error));
  }
}

const char *reply_name_text(const struct connection *connection, const struct entry_key *key,
                            char buffer[REPLY_NAME_SIZE])
{
  size_t used = 0;

  if (key->owner != connection->actor.uid)
    used = (size_t)snprintf(buffer, REPLY_NAME_SIZE, "~%u/", key->owner);
  name_escape(key->path, buffer + used, REPLY_NAME_SIZE - used);
  return buffer;
}

static uint64_t ttl_left_ms(const struct broker *broker, const struct tensor *tensor)
{
  uint64_t now = broker->env->steady_us;
  const struct entry *entry = tensor->entry;

  if (tensor->lifetime != MSG_LIFETIME_TTL || entry->newest != tensor || entry->ttl.serial == 0)
    return 0;
  return entry->ttl.due_us > now ? (entry->ttl.due_us - now) / 1000 : 0;
}

void reply_fill_tensor(const struct broker *broker, struct msg_tensor *ret,
                       const struct tensor *tensor)
{
  const struct segment *segment = tensor->block->segment;

  *ret = (struct msg_tensor){
      .name = {tensor->entry->key.owner, tensor->entry->key.path},
      .version = tensor->version,
      .spec = tensor_spec(tensor),
      .place = {segment->id, tensor->block->offset, tensor->size, tensor->first},
      .flags = tensor->flags,
      .backend = segment->domain.backend,
      .lifetime = tensor->lifetime,
      .ttl_ms = ttl_left_ms(broker, tensor),
      .mode = tensor->rule.mode,
      .gid = tensor->rule.gid,
      .publisher_uid = tensor->publisher_uid,
      .publisher_pid = tensor->publisher_pid,
      .created_us = tensor->created_wall_us,
      .age_ms = (broker->env->steady_us - tensor->created_steady_us) / 1000,
      .readers = lease_count_holders(tensor),
      .change = tensor->entry->change,
      .n_attributes = tensor->n_attributes,
      .attributes = tensor_attributes(tensor),
  };
}

size_t reply_tensor_size(const struct tensor *tensor)
{
  /* Fixed fields, two numbers a dimension, and what decoding a pair costs the reader. */
  return 320 + strlen(tensor->entry->key.path) + tensor->ndim * 20u + tensor->attributes_size +
         tensor->n_attributes * 48u;
}
