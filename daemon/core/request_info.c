/* LIST, STAT, WATCH, STATS, PING, GOODBYE: what tells, and changes nothing. */

#include <string.h>

#include "core/reply.h"
#include "core/wait.h"
#include "proto/name.h"

/* Replaced versions of one name that a page shows at most. */
#define RETIRED_PER_NAME 16

void request_goodbye(struct connection *connection, const struct msg_request *request)
{
  reply_ok(connection, request->id);
  session_end(connection->session, "goodbye");
}

void request_ping(struct connection *connection, const struct msg_request *request)
{
  reply_ok(connection, request->id);
}

/* ---- names, for all that take a prefix ---- */

static bool is_listable(const struct connection *connection, const struct tensor *tensor)
{
  return tensor && policy_may_list(&connection->actor, &tensor->rule);
}

static uint32_t resolve_owner(const struct connection *connection, uint32_t owner)
{
  return owner == MSG_OWNER_SELF ? connection->actor.uid : owner;
}

static bool check_prefix(struct connection *connection, uint64_t id, const char *prefix)
{
  int r = name_check_prefix(prefix);

  if (r != 0)
    reply_name(connection, id, prefix, r);
  return r == 0;
}

/* ---- list ---- */

/* A page being filled. */
struct page {
  struct connection *connection;
  const struct msg_list *list;
  uint32_t owner; /* or MSG_LIST_ALL_OWNERS */
  uint32_t limit; /* no further name once there are as many tensors */
  struct msg_tensor tensors[DLP_BATCH_MAX];
  uint32_t n;
  size_t size;
};

static bool page_has_room(const struct page *page, const struct tensor *tensor)
{
  return page->n < DLP_BATCH_MAX && page->size + reply_tensor_size(tensor) <= REPLY_FILL_MAX;
}

/* Return: false if there was no room. */
static bool page_add(struct page *page, const struct tensor *tensor)
{
  if (!is_listable(page->connection, tensor))
    return true;
  if (!page_has_room(page, tensor))
    return false;
  page->size += reply_tensor_size(tensor);
  reply_fill_tensor(page->connection->broker, &page->tensors[page->n++], tensor);
  return true;
}

/* Return: false if it has to go to the next page, whole. */
static bool page_add_entry(struct page *page, const struct entry *entry)
{
  uint32_t n = page->n, n_retired = 0;
  size_t size = page->size;

  if (n >= page->limit || !page_add(page, entry->newest))
    return false;
  if (!page->list->retired)
    return true;
  dlp_list_for_each (link, &entry->held) {
    if (n_retired++ == RETIRED_PER_NAME)
      break;
    if (page_add(page, DLP_CONTAINER(link, struct tensor, link)))
      continue;
    if (n == 0) /* one name is more than a packet holds: show what fits */
      return true;
    page->n = n;
    page->size = size;
    return false;
  }
  return true;
}

/* Where the walk begins: after the last name of the page before, or at the prefix. */
static struct entry *first_entry(const struct page *page)
{
  const struct connection *connection = page->connection;
  const struct registry *registry = &connection->broker->registry;
  bool all = page->owner == MSG_LIST_ALL_OWNERS;
  struct entry_key key = {connection->actor.realm, all ? 0 : page->owner, page->list->prefix};

  if (page->list->after.path[0] == '\0') {
    if (all)
      key.path = "";
    return registry_seek(registry, &key, false);
  }
  key.owner = resolve_owner(connection, page->list->after.owner);
  key.path = page->list->after.path;
  return registry_seek(registry, &key, true);
}

/* Is the walk of a single owner past what could have the prefix? */
static bool is_past(const struct page *page, const struct entry *entry)
{
  if (page->owner == MSG_LIST_ALL_OWNERS)
    return false;
  return entry->key.owner != page->owner ||
         (!registry_has_prefix(entry->key.path, page->list->prefix) &&
          strcmp(entry->key.path, page->list->prefix) > 0);
}

static void reply_page(struct page *page, const struct msg_request *request, bool done,
                       const struct entry *last)
{
  struct msg_reply reply = {.id = request->id, .type = MSG_LISTED};

  reply.u.listed.n_tensors = page->n;
  reply.u.listed.tensors = page->tensors;
  reply.u.listed.done = done;
  if (!done && last)
    reply.u.listed.next = (struct msg_name){last->key.owner, last->key.path};
  reply_send(page->connection, &reply, NULL, 0);
}

void request_list(struct connection *connection, const struct msg_request *request)
{
  const struct msg_list *list = &request->u.list;
  struct page page = {.connection = connection,
                      .list = list,
                      .owner = list->owner == MSG_LIST_ALL_OWNERS
                                   ? list->owner
                                   : resolve_owner(connection, list->owner),
                      .limit = list->limit};
  const struct entry *entry, *last = NULL;
  unsigned int n_visited = 0;

  if (!check_prefix(connection, request->id, list->prefix))
    return;
  if (page.limit == 0 || page.limit > DLP_BATCH_MAX)
    page.limit = DLP_BATCH_MAX;
  entry = first_entry(&page);
  while (entry && !is_past(&page, entry)) {
    if (n_visited++ == DLP_LIST_PAGE_MAX)
      break;
    if (registry_has_prefix(entry->key.path, list->prefix) && !page_add_entry(&page, entry))
      break;
    last = entry;
    entry = registry_next(entry);
  }
  reply_page(&page, request, !entry || is_past(&page, entry), last);
}

/* ---- stat ---- */

static void reply_stat_timeout(struct connection *connection, const struct msg_request *request)
{
  struct entry_key key = request_key(connection, &request->u.stat.name);
  char text[REPLY_NAME_SIZE];

  reply_error(connection, request->id, DLP_STATUS_TIMEOUT, "'%s' did not come in time",
              reply_name_text(connection, &key, text));
}

static void reply_wait_refused(struct connection *connection, uint64_t id, int r,
                               const struct quota_refusal *refusal)
{
  if (r == WAIT_E_TOO_MANY)
    reply_error(connection, id, DLP_STATUS_BUSY,
                "too many requests of this connection are waiting already");
  else if (r == QUOTA_E_EXCEEDED)
    reply_quota(connection, id, refusal);
  else
    reply_no_memory(connection, id);
}

static void reply_info(struct connection *connection, uint64_t id, const struct tensor *tensor)
{
  struct msg_reply reply = {.id = id, .type = MSG_LISTED};
  struct msg_tensor info;

  reply_fill_tensor(connection->broker, &info, tensor);
  reply.u.listed.n_tensors = 1;
  reply.u.listed.tensors = &info;
  reply.u.listed.done = true;
  reply_send(connection, &reply, NULL, 0);
}

void request_stat(struct connection *connection, const struct msg_request *request)
{
  static const struct wait_kind kind = {request_stat, reply_stat_timeout};
  const struct msg_stat *stat = &request->u.stat;
  struct broker *broker = connection->broker;
  struct entry_key key = request_key(connection, &stat->name);
  int r = name_check(stat->name.path);
  const struct entry *entry;
  struct quota_refusal refusal;

  if (r != 0) {
    reply_name(connection, request->id, stat->name.path, r);
    return;
  }
  entry = registry_find(&broker->registry, &key);
  if (entry && is_listable(connection, entry->newest) &&
      entry->newest->version > stat->newer_than) {
    reply_info(connection, request->id, entry->newest);
    return;
  }
  if (broker->deadline_us == 0) {
    reply_not_found(connection, request->id, &key);
    return;
  }
  r = wait_for(connection, request, &key, &kind, &refusal);
  if (r != 0)
    reply_wait_refused(connection, request->id, r, &refusal);
}

/* ---- watch ---- */

struct changes {
  struct msg_event events[DLP_BATCH_MAX];
  size_t n;
  size_t size;
};

static bool is_watched(const struct connection *connection, const struct msg_watch *watch,
                       const struct entry *entry)
{
  uint32_t owner = resolve_owner(connection, watch->owner);

  if (entry->key.realm != connection->actor.realm)
    return false;
  if (watch->owner != MSG_LIST_ALL_OWNERS && entry->key.owner != owner)
    return false;
  return registry_has_prefix(entry->key.path, watch->prefix);
}

/* Who could see a version hears of its deletion. */
static bool may_see_change(const struct connection *connection, const struct entry *entry)
{
  return policy_may_list(&connection->actor,
                         entry->newest ? &entry->newest->rule : &entry->deleted_rule);
}

/* Return: false if there is no room for it in this packet. */
static bool add_event(struct changes *changes, const struct entry *entry)
{
  size_t size = 64 + strlen(entry->key.path);

  if (changes->n == DLP_BATCH_MAX || changes->size + size > REPLY_FILL_MAX)
    return false;
  changes->size += size;
  changes->events[changes->n++] = (struct msg_event){
      .kind = entry->newest ? MSG_EVENT_PUBLISHED : MSG_EVENT_DELETED,
      .name = {entry->key.owner, entry->key.path},
      .version = entry->newest ? entry->newest->version : entry->deleted_version,
      .change = entry->change,
  };
  return true;
}

static void reply_watched(struct connection *connection, uint64_t id, const struct changes *changes,
                          uint64_t next, bool gap)
{
  struct msg_reply reply = {.id = id, .type = MSG_WATCHED};

  reply.u.watched = (struct msg_watched){next, gap, changes->n, changes->events};
  reply_send(connection, &reply, NULL, 0);
}

static void reply_nothing_changed(struct connection *connection, const struct msg_request *request)
{
  static const struct changes nothing;

  reply_watched(connection, request->id, &nothing, request->u.watch.since, false);
}

/* Collects what is newer than `since`. Return: `since` of the next WATCH. */
static uint64_t collect_changes(struct connection *connection, const struct msg_watch *watch,
                                uint64_t since, struct changes *changes)
{
  const struct registry *registry = &connection->broker->registry;
  const struct entry *entry = registry_first_change_after(registry, since);
  uint64_t next = since;

  for (; entry; entry = registry_next_change(entry)) {
    bool from_start = watch->since == 0 && !entry->newest;
    if (!from_start && is_watched(connection, watch, entry) && may_see_change(connection, entry) &&
        !add_event(changes, entry))
      return next;
    next = entry->change;
  }
  return registry->change > next ? registry->change : next;
}

void request_watch(struct connection *connection, const struct msg_request *request)
{
  static const struct wait_kind kind = {request_watch, reply_nothing_changed};
  const struct msg_watch *watch = &request->u.watch;
  struct broker *broker = connection->broker;
  const struct registry *registry = &broker->registry;
  struct msg_request again = *request;
  struct changes changes = {.n = 0};
  struct quota_refusal refusal;
  uint64_t since = watch->since, next;
  bool gap;
  int r;

  if (!check_prefix(connection, request->id, watch->prefix))
    return;
  if (since > registry->change) /* from now on; or a number of another daemon's */
    since = registry->change;
  gap = (since != 0 && since < registry->forgotten) ||
        (watch->since > registry->change && watch->since != UINT64_MAX);
  next = collect_changes(connection, watch, since, &changes);
  if (changes.n > 0 || gap || broker->deadline_us == 0) {
    reply_watched(connection, request->id, &changes, next, gap);
    return;
  }
  again.u.watch.since = next;
  r = wait_for(connection, &again, NULL, &kind, &refusal);
  if (r != 0)
    reply_wait_refused(connection, request->id, r, &refusal);
}

/* ---- stats ---- */

#define COUNTERS_MAX 64

struct counter_list {
  struct msg_counter counters[COUNTERS_MAX];
  size_t n;
};

static void add_counter(void *context, const char *name, uint64_t value)
{
  struct counter_list *list = context;

  if (list->n < COUNTERS_MAX)
    list->counters[list->n++] = (struct msg_counter){name, value};
}

void request_stats(struct connection *connection, const struct msg_request *request)
{
  struct msg_reply reply = {.id = request->id, .type = MSG_COUNTERS};
  struct counter_list list = {.n = 0};

  broker_counters(connection->broker, add_counter, &list);
  reply.u.counters.n_counters = list.n;
  reply.u.counters.counters = list.counters;
  reply_send(connection, &reply, NULL, 0);
}
