#include "core/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Requests that may wait on one connection at a time. */
#define WAITERS_MAX 64

struct waiter {
  struct dlp_list entry_link;      /* entry->waiters, or broker->watchers */
  struct dlp_list connection_link; /* connection->waiters */
  struct connection *connection;
  struct entry *entry; /* NULL: waits for anything */
  struct timer timer;
  struct msg_request request; /* its names are those of `names` */
  struct names *names;
  const struct wait_kind *kind;
  struct quota_charge charge;
};

/* ---- names ---- */

struct names *names_new(uint64_t request)
{
  struct names *names = calloc(1, sizeof(*names));

  if (!names)
    return NULL;
  names->request = request;
  dlp_list_init(&names->link);
  return names;
}

struct names *names_free(struct names *names)
{
  if (!names)
    return NULL;
  for (size_t i = 0; i < names->n; i++)
    free((char *)names->names[i].path);
  free(names->names);
  dlp_list_remove(&names->link);
  quota_charge_deinit(&names->charge);
  free(names);
  return NULL;
}

static int make_room(struct names *names, size_t n)
{
  size_t room = names->room ? names->room : 4;
  struct msg_name *list;

  while (room < names->n + n)
    room *= 2;
  if (room == names->room)
    return 0;
  list = realloc(names->names, room * sizeof(*list));
  if (!list)
    return -ENOMEM;
  names->names = list;
  names->room = room;
  return 0;
}

int names_add(struct names *names, const struct connection *connection, const struct msg_name *list,
              size_t n, struct quota_refusal *refusal)
{
  const struct actor *actor = &connection->actor;
  struct quota_sum sum = {0};
  int r;

  for (size_t i = 0; i < n; i++)
    sum.of[QUOTA_HEAP] += sizeof(struct msg_name) + strlen(list[i].path) + 1;
  r = quota_charge(connection->broker->quota, &names->charge, actor->realm, actor->uid, &sum,
                   refusal);
  if (r == 0)
    r = make_room(names, n);
  for (size_t i = 0; r == 0 && i < n; i++) {
    char *path = strdup(list[i].path);
    if (!path)
      return -ENOMEM;
    names->names[names->n++] = (struct msg_name){list[i].owner, path};
  }
  return r;
}

/* ---- waiters ---- */

static void waiter_free(struct waiter *waiter)
{
  struct broker *broker = waiter->connection->broker;

  dlp_list_remove(&waiter->entry_link);
  dlp_list_remove(&waiter->connection_link);
  waiter->connection->n_waiters--;
  timer_disarm(&broker->timers, &waiter->timer);
  names_free(waiter->names);
  quota_charge_deinit(&waiter->charge);
  if (waiter->entry)
    registry_tidy(&broker->registry, waiter->entry);
  free(waiter);
}

static void deadline_passed(struct timer *timer, void *context)
{
  struct waiter *waiter = DLP_CONTAINER(timer, struct waiter, timer);

  (void)context;
  waiter->kind->at_deadline(waiter->connection, &waiter->request);
  waiter_free(waiter);
}

/* The request as it will be served again: everything it points at is the waiter's. */
static void own_request(struct waiter *waiter, const struct msg_request *request)
{
  const struct msg_name *first = waiter->names->n > 0 ? &waiter->names->names[0] : NULL;

  waiter->request = *request;
  if (request->type == MSG_GET) {
    waiter->request.u.get.names = waiter->names->names;
    waiter->request.u.get.n_names = waiter->names->n;
    waiter->request.u.get.more = false;
  } else if (request->type == MSG_STAT) {
    waiter->request.u.stat.name = *first;
  } else {
    waiter->request.u.watch.prefix = first->path;
  }
}

static int copy_names(struct names **ret, const struct connection *connection,
                      const struct msg_request *request, struct quota_refusal *refusal)
{
  struct msg_name prefix = {request->u.watch.owner, request->u.watch.prefix};
  struct names *names = names_new(request->id);
  int r = -ENOMEM;

  if (names && request->type == MSG_GET)
    r = names_add(names, connection, request->u.get.names, request->u.get.n_names, refusal);
  else if (names && request->type == MSG_STAT)
    r = names_add(names, connection, &request->u.stat.name, 1, refusal);
  else if (names)
    r = names_add(names, connection, &prefix, 1, refusal);
  if (r == 0)
    *ret = names;
  else
    names_free(names);
  return r;
}

static int waiter_new(struct waiter **ret, struct connection *connection,
                      struct quota_refusal *refusal)
{
  struct broker *broker = connection->broker;
  const struct actor *actor = &connection->actor;
  struct quota_sum sum = {.of = {[QUOTA_HEAP] = sizeof(struct waiter) + sizeof(struct entry)}};
  struct waiter *waiter;
  int r;

  if (connection->n_waiters >= WAITERS_MAX)
    return WAIT_E_TOO_MANY;
  waiter = calloc(1, sizeof(*waiter));
  if (!waiter)
    return -ENOMEM;
  r = quota_charge(broker->quota, &waiter->charge, actor->realm, actor->uid, &sum, refusal);
  if (r != 0) {
    free(waiter);
    return r;
  }
  waiter->connection = connection;
  waiter->timer.fire = deadline_passed;
  dlp_list_init(&waiter->entry_link);
  dlp_list_append(&connection->waiters, &waiter->connection_link);
  connection->n_waiters++;
  *ret = waiter;
  return 0;
}

int wait_for(struct connection *connection, const struct msg_request *request,
             const struct entry_key *key, const struct wait_kind *kind,
             struct quota_refusal *refusal)
{
  struct broker *broker = connection->broker;
  struct waiter *waiter;
  int r = waiter_new(&waiter, connection, refusal);

  if (r != 0)
    return r;
  if (key)
    waiter->entry = registry_get_entry(&broker->registry, key);
  r = key && !waiter->entry ? -ENOMEM : 0;
  if (r == 0)
    r = copy_names(&waiter->names, connection, request, refusal);
  if (r != 0) {
    waiter_free(waiter);
    return r;
  }
  waiter->kind = kind;
  own_request(waiter, request);
  dlp_list_append(key ? &waiter->entry->waiters : &broker->watchers, &waiter->entry_link);
  timer_arm(&broker->timers, &waiter->timer, broker->deadline_us);
  return 0;
}

static uint32_t timeout_of(const struct msg_request *request)
{
  switch (request->type) {
  case MSG_GET:
    return request->u.get.timeout_ms;
  case MSG_STAT:
    return request->u.stat.timeout_ms;
  case MSG_WATCH:
    return request->u.watch.timeout_ms;
  default:
    return 0;
  }
}

uint64_t wait_deadline(const struct broker *broker, const struct msg_request *request)
{
  uint32_t timeout_ms = timeout_of(request);

  if (timeout_ms == 0)
    return 0;
  if (timeout_ms == DLP_TIMEOUT_NEVER)
    return UINT64_MAX;
  return broker->env->steady_us + (uint64_t)timeout_ms * 1000;
}

/* Serving may answer, or make the request wait anew with a waiter of its own. */
static void serve_again(struct waiter *waiter)
{
  struct connection *connection = waiter->connection;
  struct broker *broker = connection->broker;
  uint64_t deadline = broker->deadline_us;

  dlp_list_remove(&waiter->entry_link);
  broker->deadline_us = waiter->timer.serial ? waiter->timer.due_us : UINT64_MAX;
  /* This one does not count against the one it may become. */
  quota_charge_deinit(&waiter->charge);
  quota_charge_deinit(&waiter->names->charge);
  connection->n_waiters--;
  waiter->kind->serve(connection, &waiter->request);
  connection->n_waiters++;
  broker->deadline_us = deadline;
  waiter_free(waiter);
}

/* Each is served once, though it may come back to the list while this runs. */
static void serve_all(struct dlp_list *list)
{
  struct dlp_list batch;

  dlp_list_init(&batch);
  while (!dlp_list_empty(list)) {
    struct dlp_list *link = list->next;
    dlp_list_remove(link);
    dlp_list_append(&batch, link);
  }
  while (!dlp_list_empty(&batch))
    serve_again(DLP_CONTAINER(batch.next, struct waiter, entry_link));
}

void wait_changed(struct broker *broker, struct entry *entry)
{
  (void)broker;
  serve_all(&entry->waiters);
}

void wait_watchers(struct broker *broker)
{
  serve_all(&broker->watchers);
}

void wait_forget(struct connection *connection)
{
  while (!dlp_list_empty(&connection->waiters))
    waiter_free(DLP_CONTAINER(connection->waiters.next, struct waiter, connection_link));
}
