/* PUBLISH, ABORT, DELETE: what changes names. */

#include <string.h>

#include "core/commit.h"
#include "core/reply.h"
#include "core/wait.h"
#include "proto/name.h"

/* ---- publish ---- */

/* The publication with the request's key, begun if need be. Return: NULL after
 * answering the refusal. */
static struct staging *get_staging(struct connection *connection, const struct msg_request *request)
{
  struct quota_refusal refusal;
  struct staging *staging = staging_find(connection->session, request->u.publish.key);
  int r = 0;

  if (!staging)
    r = staging_new(&staging, connection->session, request->u.publish.key, &refusal);
  if (r == 0 && !staging->is_committing)
    return staging;
  if (r == 0)
    reply_error(connection, request->id, DLP_STATUS_BUSY,
                "this publication is being committed: ask again");
  else if (r == STAGING_E_TOO_MANY)
    reply_error(connection, request->id, DLP_STATUS_BUSY,
                "%d publications are under way already: commit or abort one", STAGINGS_MAX);
  else if (r == QUOTA_E_EXCEEDED)
    reply_quota(connection, request->id, &refusal);
  else
    reply_no_memory(connection, request->id);
  return NULL;
}

static void reply_published(struct connection *connection, uint64_t id, uint64_t version)
{
  struct msg_reply reply = {.id = id, .type = MSG_PUBLISHED};

  reply.u.published.version = version;
  reply_send(connection, &reply, NULL, 0);
}

/* All of a packet's tensors are staged, or none. */
static bool add_all(struct staging *staging, struct connection *connection,
                    const struct msg_request *request)
{
  const struct msg_publish *publish = &request->u.publish;

  for (size_t i = 0; i < publish->n_adds; i++) {
    if (staging_add(staging, connection, request->id, publish, &publish->adds[i]))
      continue;
    while (i-- > 0)
      staging_remove_last(staging);
    return false;
  }
  return true;
}

static bool needs_ttl(const struct staging *staging)
{
  dlp_list_for_each (link, &staging->tensors)
    if (DLP_CONTAINER(link, struct tensor, link)->lifetime == MSG_LIFETIME_TTL)
      return true;
  return false;
}

void request_publish(struct connection *connection, const struct msg_request *request)
{
  const struct msg_publish *publish = &request->u.publish;
  uint64_t version = session_committed(connection->session, publish->key);
  struct staging *staging;

  if (version != 0) {
    reply_published(connection, request->id, version);
    return;
  }
  staging = get_staging(connection, request);
  if (!staging)
    return;
  if (!add_all(staging, connection, request)) {
    /* A commit that was refused is over; what one packet added before is given up. */
    if (publish->commit || staging->n_tensors == 0)
      staging_free(staging);
  } else if (!publish->commit) {
    reply_published(connection, request->id, 0);
  } else if (publish->ttl_ms == 0 && needs_ttl(staging)) {
    reply_error(connection, request->id, DLP_STATUS_INVALID,
                "a time to live of 0 milliseconds was given");
    staging_free(staging);
  } else {
    staging_commit(staging, connection, request->id, publish->ttl_ms);
  }
}

void request_abort(struct connection *connection, const struct msg_request *request)
{
  struct staging *staging = staging_find(connection->session, request->u.abort.key);

  if (staging && staging->is_committing) {
    reply_error(connection, request->id, DLP_STATUS_BUSY,
                "this publication is being committed already");
    return;
  }
  if (staging)
    staging_free(staging);
  reply_ok(connection, request->id);
}

/* ---- delete ---- */

static void delete_entry(struct broker *broker, struct entry *entry)
{
  broker_withdraw(broker, entry);
  wait_changed(broker, entry);
}

static void reply_deleted(struct connection *connection, uint64_t id, uint64_t n)
{
  struct msg_reply reply = {.id = id, .type = MSG_DELETED};

  reply.u.deleted.n_names = n;
  reply_send(connection, &reply, NULL, 0);
}

static void delete_one(struct connection *connection, const struct msg_request *request)
{
  const struct msg_delete *del = &request->u.del;
  struct broker *broker = connection->broker;
  struct entry_key key = request_key(connection, &del->name);
  struct entry *entry = registry_find(&broker->registry, &key);
  const struct tensor *newest = entry ? entry->newest : NULL;
  char text[REPLY_NAME_SIZE];

  if (!newest || !policy_may_list(&connection->actor, &newest->rule)) {
    reply_not_found(connection, request->id, &key);
  } else if (!policy_may_delete(&connection->actor, &newest->rule)) {
    reply_error(connection, request->id, DLP_STATUS_DENIED, "you may read '%s', not delete it",
                reply_name_text(connection, &key, text));
  } else if (del->version != 0 && del->version != newest->version) {
    reply_error(connection, request->id, DLP_STATUS_CONFLICT,
                "the newest version of '%s' is %llu, not %llu",
                reply_name_text(connection, &key, text), (unsigned long long)newest->version,
                (unsigned long long)del->version);
  } else {
    delete_entry(broker, entry);
    wait_watchers(broker);
    reply_deleted(connection, request->id, 1);
  }
}

/* Whatever of it the caller may delete; the walk goes by keys, since a deletion may
 * free entries. */
static uint64_t delete_below(struct connection *connection, const struct entry_key *prefix,
                             uint64_t version)
{
  struct broker *broker = connection->broker;
  struct entry_key key = *prefix;
  struct entry *entry = registry_seek(&broker->registry, &key, false);
  uint64_t n = 0;
  char path[DLP_NAME_MAX + 1];

  while (entry && entry->key.owner == prefix->owner &&
         registry_has_prefix(entry->key.path, prefix->path) && n < DLP_DELETE_PAGE_MAX) {
    const struct tensor *newest = entry->newest;
    if (!newest || !policy_may_delete(&connection->actor, &newest->rule) ||
        (version != 0 && version != newest->version)) {
      entry = registry_next(entry);
      continue;
    }
    strcpy(path, entry->key.path);
    key.path = path;
    delete_entry(broker, entry);
    n++;
    entry = registry_seek(&broker->registry, &key, true);
  }
  return n;
}

static void delete_prefix(struct connection *connection, const struct msg_request *request)
{
  const struct msg_delete *del = &request->u.del;
  struct entry_key prefix = request_key(connection, &del->name);
  uint64_t n = delete_below(connection, &prefix, del->version);
  char text[REPLY_NAME_SIZE];

  if (n == 0) {
    reply_error(connection, request->id, DLP_STATUS_NOT_FOUND,
                "nothing that you may delete is below '%s'",
                reply_name_text(connection, &prefix, text));
    return;
  }
  wait_watchers(connection->broker);
  reply_deleted(connection, request->id, n);
}

void request_delete(struct connection *connection, const struct msg_request *request)
{
  const struct msg_delete *del = &request->u.del;
  int r = del->by_prefix ? name_check_prefix(del->name.path) : name_check(del->name.path);

  if (r != 0)
    reply_name(connection, request->id, del->name.path, r);
  else if (del->by_prefix)
    delete_prefix(connection, request);
  else
    delete_one(connection, request);
}
