/* GET and RELEASE: leases granted as of one instant, and given back. */

#include <stdlib.h>
#include <string.h>

#include "core/reply.h"
#include "core/wait.h"
#include "proto/name.h"

/* The tensors one GET is about, in order. */
struct selection {
  struct tensor **tensors;
  size_t n;
  size_t room;
};

static bool selection_add(struct selection *selection, struct tensor *tensor)
{
  if (selection->n == selection->room) {
    size_t room = selection->room ? selection->room * 2 : 16;
    struct tensor **tensors = realloc(selection->tensors, room * sizeof(struct tensor *));
    if (!tensors)
      return false;
    selection->tensors = tensors;
    selection->room = room;
  }
  selection->tensors[selection->n++] = tensor;
  return true;
}

static void selection_deinit(struct selection *selection)
{
  free(selection->tensors);
}

/* ---- what was asked for ---- */

/* Others' tensors that may not be read are not there. */
static struct tensor *readable(const struct connection *connection, const struct entry *entry)
{
  struct tensor *tensor = entry ? entry->newest : NULL;

  if (tensor) /* for the answer, and as far away as all else of it */
    __builtin_prefetch(tensor->block);
  return tensor && policy_may_read(&connection->actor, &tensor->rule) ? tensor : NULL;
}

static bool suits(const struct msg_get *get, const struct tensor *tensor)
{
  return tensor && tensor->version > get->newer_than &&
         (get->version == 0 || get->version == tensor->version);
}

enum selected {
  SELECTED,
  SELECTED_NOT_ALL, /* *ret_missing is the first that is not there */
  SELECT_FAILED,    /* answered */
};

static enum selected select_names(struct connection *connection, const struct msg_request *request,
                                  struct selection *selection, struct entry_key *ret_missing)
{
  const struct msg_get *get = &request->u.get;

  for (size_t i = 0; i < get->n_names; i++) {
    int r = name_check(get->names[i].path);
    struct tensor *tensor;

    if (r != 0) {
      reply_name(connection, request->id, get->names[i].path, r);
      return SELECT_FAILED;
    }
    *ret_missing = request_key(connection, &get->names[i]);
    tensor = readable(connection, registry_find(&connection->broker->registry, ret_missing));
    if (!suits(get, tensor))
      return SELECTED_NOT_ALL;
    if (!selection_add(selection, tensor)) {
      reply_no_memory(connection, request->id);
      return SELECT_FAILED;
    }
  }
  return SELECTED;
}

static enum selected select_prefix(struct connection *connection, const struct msg_request *request,
                                   struct selection *selection, struct entry_key *ret_prefix)
{
  const struct msg_get *get = &request->u.get;
  int r = name_check_prefix(get->names[0].path);
  struct entry *entry;

  if (r != 0) {
    reply_name(connection, request->id, get->names[0].path, r);
    return SELECT_FAILED;
  }
  *ret_prefix = request_key(connection, &get->names[0]);
  entry = registry_seek(&connection->broker->registry, ret_prefix, false);
  for (; entry && entry->key.owner == ret_prefix->owner &&
         registry_has_prefix(entry->key.path, ret_prefix->path);
       entry = registry_next(entry)) {
    struct tensor *tensor = readable(connection, entry);
    if (!suits(get, tensor))
      continue;
    if (selection->n == DLP_GET_MANY_MAX) {
      reply_error(connection, request->id, DLP_STATUS_INVALID,
                  "more than %d tensors are below this prefix: ask for a longer one",
                  DLP_GET_MANY_MAX);
      return SELECT_FAILED;
    }
    if (!selection_add(selection, tensor)) {
      reply_no_memory(connection, request->id);
      return SELECT_FAILED;
    }
  }
  return selection->n > 0 ? SELECTED : SELECTED_NOT_ALL;
}

/* ---- permission to map ---- */

static bool check_access(struct connection *connection, const struct msg_request *request,
                         const struct tensor *tensor)
{
  char text[REPLY_NAME_SIZE];

  if (request->u.get.access == MSG_ACCESS_READ)
    return true;
  if (!(tensor->flags & MSG_TENSOR_MUTABLE)) {
    reply_error(connection, request->id, DLP_STATUS_UNSUPPORTED,
                "'%s' was not published as mutable: get it read-only or private",
                reply_name_text(connection, &tensor->entry->key, text));
    return false;
  }
  if (!policy_may_write(&connection->actor, &tensor->rule)) {
    reply_error(connection, request->id, DLP_STATUS_DENIED,
                "mode %#o of '%s' does not let you write", tensor->rule.mode,
                reply_name_text(connection, &tensor->entry->key, text));
    return false;
  }
  return true;
}

/* ---- the answer ---- */

/* One packet's worth of grants. */
struct granted_packet {
  struct msg_grant grants[DLP_BATCH_MAX];
  struct msg_segment segments[DLP_PACKET_FDS_MAX];
  struct attachment attachments[DLP_PACKET_FDS_MAX];
  uint32_t n_grants;
  uint32_t n_segments;
  size_t size;
};

static void send_packet(struct connection *connection, uint64_t id, struct granted_packet *packet,
                        bool more)
{
  struct msg_reply reply = {.id = id, .more = more, .type = MSG_GRANTED};

  reply.u.granted.n_grants = packet->n_grants;
  reply.u.granted.grants = packet->grants;
  reply.u.granted.n_segments = packet->n_segments;
  reply.u.granted.segments = packet->segments;
  reply_send(connection, &reply, packet->attachments, packet->n_segments);
  packet->n_grants = packet->n_segments = 0;
  packet->size = 0;
}

static bool is_full(const struct granted_packet *packet, const struct tensor *next)
{
  return packet->n_grants == DLP_BATCH_MAX || packet->n_segments == DLP_PACKET_FDS_MAX ||
         (packet->n_grants > 0 && packet->size + reply_tensor_size(next) > REPLY_FILL_MAX);
}

static void add_grant(struct granted_packet *packet, const struct broker *broker,
                      struct segment_view *view, uint32_t access, const struct tensor *tensor,
                      uint32_t cell)
{
  struct segment *segment = tensor->block->segment;
  bool shared = access == MSG_ACCESS_SHARED;
  uint32_t flag = shared ? SEGMENT_VIEW_SHARED : SEGMENT_VIEW_READ;
  struct msg_grant *grant = &packet->grants[packet->n_grants++];

  packet->size += reply_tensor_size(tensor);
  grant->cell = cell;
  reply_fill_tensor(broker, &grant->tensor, tensor);
  if (tensor->size == 0 || (view->flags & flag))
    return;
  view->flags |= flag;
  packet->segments[packet->n_segments] =
      (struct msg_segment){segment->id, segment->size, segment->domain.backend, packet->n_segments};
  packet->attachments[packet->n_segments++] = (struct attachment){
      shared ? ATTACHMENT_SEGMENT_WRITABLE : ATTACHMENT_SEGMENT_READ_ONLY, segment->id};
}

static void revoke_all(struct session *session, const uint32_t *cells, size_t n)
{
  while (n-- > 0)
    lease_revoke(&session->leases, cells[n]);
}

/* All leases or none: a refusal leaves nothing granted. */
static bool grant_all(struct connection *connection, const struct msg_request *request,
                      const struct selection *selection, uint32_t *cells)
{
  struct session *session = connection->session;

  for (size_t i = 0; i < selection->n; i++) {
    struct tensor *tensor = selection->tensors[i];
    struct quota_refusal refusal;
    int r = 0;

    if (!check_access(connection, request, tensor)) {
      revoke_all(session, cells, i);
      return false;
    }
    if (!session_view(session, tensor->block->segment))
      r = -1;
    if (r == 0)
      r = lease_grant(&session->leases, tensor, &cells[i], &refusal);
    if (r == 0)
      continue;
    revoke_all(session, cells, i);
    if (r == LEASE_E_QUOTA)
      reply_quota(connection, request->id, &refusal);
    else if (r == LEASE_E_CELLS)
      reply_error(connection, request->id, DLP_STATUS_BUSY,
                  "this session has %d versions already: let some go", DLP_LEASE_CELLS);
    else
      reply_no_memory(connection, request->id);
    return false;
  }
  return true;
}

/* A longer answer than the edge keeps for a reader would end the connection. */
static bool check_size(struct connection *connection, const struct msg_request *request,
                       const struct selection *selection)
{
  uint64_t max = connection->broker->config.max_answer, size = 0;

  for (size_t i = 0; i < selection->n; i++)
    size += reply_tensor_size(selection->tensors[i]);
  if (max == 0 || size <= max)
    return true;
  reply_error(connection, request->id, DLP_STATUS_INVALID,
              "the answer about %zu tensors might have %llu bytes, above the limit of %llu: ask "
              "for fewer at once, or have 'output-limit' of the daemon raised",
              selection->n, (unsigned long long)size, (unsigned long long)max);
  return false;
}

static void answer(struct connection *connection, const struct msg_request *request,
                   const struct selection *selection)
{
  struct broker *broker = connection->broker;
  dlp_auto_free struct granted_packet *packet = malloc(sizeof(*packet));
  dlp_auto_free uint32_t *cells = malloc((selection->n + 1) * sizeof(*cells));

  if (!packet || !cells) {
    reply_no_memory(connection, request->id);
    return;
  }
  if (!check_size(connection, request, selection) ||
      !grant_all(connection, request, selection, cells))
    return;
  packet->n_grants = packet->n_segments = 0;
  packet->size = 0;
  for (size_t i = 0; i < selection->n; i++) {
    struct tensor *tensor = selection->tensors[i];
    if (is_full(packet, tensor))
      send_packet(connection, request->id, packet, true);
    add_grant(packet, broker, session_view(connection->session, tensor->block->segment),
              request->u.get.access, tensor, cells[i]);
  }
  send_packet(connection, request->id, packet, false);
  broker->totals.grants += selection->n;
}

/* ---- serving ---- */

static void reply_timeout(struct connection *connection, const struct msg_request *request)
{
  struct entry_key key = request_key(connection, &request->u.get.names[0]);
  char text[REPLY_NAME_SIZE];

  reply_error(connection, request->id, DLP_STATUS_TIMEOUT, "'%s' did not come in time",
              reply_name_text(connection, &key, text));
}

static void serve(struct connection *connection, const struct msg_request *request);

static void wait_or_refuse(struct connection *connection, const struct msg_request *request,
                           const struct entry_key *missing)
{
  static const struct wait_kind kind = {serve, reply_timeout};
  struct quota_refusal refusal;
  int r;

  if (request->u.get.by_prefix || connection->broker->deadline_us == 0) {
    reply_not_found(connection, request->id, missing);
    return;
  }
  r = wait_for(connection, request, missing, &kind, &refusal);
  if (r == WAIT_E_TOO_MANY)
    reply_error(connection, request->id, DLP_STATUS_BUSY,
                "too many requests of this connection are waiting already");
  else if (r == QUOTA_E_EXCEEDED)
    reply_quota(connection, request->id, &refusal);
  else if (r != 0)
    reply_no_memory(connection, request->id);
}

static void serve(struct connection *connection, const struct msg_request *request)
{
  const struct msg_get *get = &request->u.get;
  struct selection selection = {0};
  struct entry_key missing = {0};
  enum selected selected = get->by_prefix ? select_prefix(connection, request, &selection, &missing)
                                          : select_names(connection, request, &selection, &missing);

  if (selected == SELECTED)
    answer(connection, request, &selection);
  else if (selected == SELECTED_NOT_ALL)
    wait_or_refuse(connection, request, &missing);
  selection_deinit(&selection);
}

/* All of its names are here. */
static void serve_whole(struct connection *connection, const struct msg_request *request)
{
  const struct msg_get *get = &request->u.get;

  if (!reply_check_access(connection, request->id, get->access))
    return;
  if (get->n_names == 0 || (get->by_prefix && get->n_names != 1))
    reply_error(connection, request->id, DLP_STATUS_INVALID,
                "a GET takes one prefix, or at least one name");
  else
    serve(connection, request);
}

/* ---- a GET that spans packets: its names are kept until the last has come ---- */

/* So many at a time on one connection, whose threads may send between each other. */
#define COLLECTING_MAX 16

static struct names *find_collecting(const struct connection *connection, uint64_t request)
{
  dlp_list_for_each (link, &connection->collecting) {
    struct names *names = DLP_CONTAINER(link, struct names, link);
    if (names->request == request)
      return names;
  }
  return NULL;
}

static struct names *begin_collecting(struct connection *connection, uint64_t request)
{
  struct names *names;

  if (connection->n_collecting == COLLECTING_MAX) {
    protocol_error(connection, "too many GETs that span packets at once");
    return NULL;
  }
  names = names_new(request);
  if (!names) {
    connection_close(connection, "out of memory for a GET that spans packets");
    return NULL;
  }
  dlp_list_append(&connection->collecting, &names->link);
  connection->n_collecting++;
  return names;
}

/* A refusal is answered at once; the packets that still come are swallowed. */
static void collect(struct connection *connection, const struct msg_request *request,
                    struct names *names)
{
  const struct msg_get *get = &request->u.get;
  struct quota_refusal refusal;
  int r;

  if (names->refused)
    return;
  names->refused = true;
  if (names->n + get->n_names > DLP_GET_MANY_MAX) {
    reply_error(connection, request->id, DLP_STATUS_INVALID, "one request gets at most %d names",
                DLP_GET_MANY_MAX);
    return;
  }
  r = names_add(names, connection, get->names, get->n_names, &refusal);
  if (r == QUOTA_E_EXCEEDED)
    reply_quota(connection, request->id, &refusal);
  else if (r != 0)
    reply_no_memory(connection, request->id);
  else
    names->refused = false;
}

static void serve_collected(struct connection *connection, const struct msg_request *request,
                            struct names *names)
{
  struct msg_request whole = *request;

  dlp_list_remove(&names->link);
  connection->n_collecting--;
  whole.u.get.names = names->names;
  whole.u.get.n_names = names->n;
  if (!names->refused)
    serve_whole(connection, &whole);
  names_free(names);
}

void request_get(struct connection *connection, const struct msg_request *request)
{
  const struct msg_get *get = &request->u.get;
  struct names *names = find_collecting(connection, request->id);

  if (!names && !get->more) {
    serve_whole(connection, request);
    return;
  }
  if (get->by_prefix) {
    protocol_error(connection, "GET by prefix that spans packets");
    return;
  }
  if (!names)
    names = begin_collecting(connection, request->id);
  if (!names)
    return;
  collect(connection, request, names);
  if (!get->more)
    serve_collected(connection, request, names);
}

/* A bell, not a claim: what a cell's word says is looked at, and nothing else. */
void request_release(struct connection *connection, const struct msg_request *request)
{
  const struct msg_release *release = &request->u.release;

  for (size_t i = 0; i < release->n_cells; i++) {
    struct tensor *tensor = lease_look(&connection->session->leases, release->cells[i]);
    if (tensor)
      broker_tensor_released(connection->broker, tensor);
  }
}
