/* dlc_get and its kin: leases, mapped and made into DLPack tensors. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cache.h"
#include "client/error.h"
#include "client/grant.h"
#include "client/managed.h"
#include "client/options.h"
#include "client/owner.h"
#include "proto/codec.h"

/* Room for what a GET has besides its names. */
#define GET_OVERHEAD 128

/* ---- options ---- */

static int get_options_read(const struct dlc_get_options *options, struct dlc_get_options *ret,
                            struct dlc_error *reterr)
{
  int r = dlc__options_read(ret, sizeof(*ret), options, reterr);

  if (r < 0)
    return r;
  if (ret->access == 0)
    ret->access = DLC_ACCESS_READ;
  if (ret->access > DLC_ACCESS_SHARED)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "access is none of enum dlc_access");
  if (ret->flags != 0 || ret->reserved != 0)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "unknown flags are set");
  return dlc__check_timeout(ret->timeout_ms, reterr);
}

/* ---- the answer ---- */

/* What was got. {0} is nothing. */
struct harvest {
  struct dlc_client *client;
  struct dlc__hold **holds;
  struct dlc__lease *leases; /* taken, but not in a hold yet */
  size_t n;                  /* grants */
};

static void harvest_deinit(struct harvest *harvest)
{
  for (size_t i = 0; harvest->holds && i < harvest->n; i++) {
    if (harvest->holds[i])
      dlc__hold_unref(harvest->holds[i]);
  }
  for (size_t i = 0; harvest->leases && i < harvest->n; i++) {
    if (harvest->leases[i].pages)
      dlc__transport_return_consume(harvest->client->transport, &harvest->leases[i]);
  }
  free(harvest->holds);
  free(harvest->leases);
  *harvest = (struct harvest){.n = 0};
}

static int harvest_count(struct dlc__call *call, size_t expected, size_t *ret,
                         struct dlc_error *reterr)
{
  size_t n = 0;

  dlp_list_for_each (link, &call->replies) {
    struct dlc__reply *reply = dlc__reply_at(link);
    if (reply->decoded.reply.type != MSG_GRANTED)
      return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                            "the daemon answered with something else than was asked for");
    n += reply->decoded.reply.u.granted.n_grants;
  }
  if (expected != 0 && n != expected)
    return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                          "the daemon granted %zu tensors, where %zu were asked for", n, expected);
  *ret = n;
  return 0;
}

/* All leases first: from here on they are given back by us, not by the transport. */
static int harvest_leases(struct dlc__call *call, struct harvest *harvest)
{
  size_t at = 0;

  harvest->holds = (struct dlc__hold **)calloc(harvest->n + 1, sizeof(*harvest->holds));
  harvest->leases = (struct dlc__lease *)calloc(harvest->n + 1, sizeof(*harvest->leases));
  if (!harvest->holds || !harvest->leases)
    return -ENOMEM;
  call->taken = true;
  dlp_list_for_each (link, &call->replies) {
    struct dlc__reply *reply = dlc__reply_at(link);
    const struct msg_granted *granted = &reply->decoded.reply.u.granted;

    for (size_t i = 0; i < granted->n_grants; i++, at++)
      harvest->leases[at] =
          dlc__lease_of(reply->pages, granted->grants[i].cell, granted->grants[i].tensor.version);
  }
  return 0;
}

/* A small private tensor is a copy of one that may be read, which others find too. */
static int harvest_hold(struct dlc__grant context, struct dlc__lease *lease, const char *name,
                        struct dlc__hold **ret, struct dlc_error *reterr)
{
  dlc__auto_hold struct dlc__hold *source = NULL;
  bool copies =
      context.access == DLC_ACCESS_PRIVATE && dlc__hold_is_copied(context.tensor->place.size);
  int r;

  if (copies)
    context.access = DLC_ACCESS_READ;
  r = dlc__grant_hold_consume(&context, lease, name, &source, reterr);
  if (r == 0 && copies)
    return dlc__hold_copy(source, ret, reterr);
  if (r == 0)
    *ret = DLP_TAKE(source);
  return r;
}

/* `names` are as the caller gave them; NULL: whatever the daemon found by a prefix. */
static int harvest_holds(struct dlc__grant *context, struct dlc__call *call,
                         const char *const *names, struct harvest *harvest,
                         struct dlc_error *reterr)
{
  const char *space = context->client->name_space;
  char shown[DLC__SHOWN_NAME_MAX + 1];
  size_t at = 0;

  dlp_list_for_each (link, &call->replies) {
    struct dlc__reply *reply = dlc__reply_at(link);
    const struct msg_granted *granted = &reply->decoded.reply.u.granted;

    context->reply = reply;
    for (size_t i = 0; i < granted->n_grants; i++, at++) {
      int r;

      context->tensor = &granted->grants[i].tensor;
      if (!names)
        dlc__name_show(space, context->own_uid, &context->tensor->name, shown);
      r = harvest_hold(*context, &harvest->leases[at], names ? names[at] : shown,
                       &harvest->holds[at], reterr);
      if (r < 0)
        return r;
    }
  }
  return 0;
}

/* ---- the request ---- */

struct request {
  const struct msg_name *names;
  const char *const *given; /* as the caller wrote them; NULL with a prefix */
  size_t n_names;
  bool by_prefix;
};

static size_t request_pack(const struct request *request, size_t from)
{
  size_t size = GET_OVERHEAD;
  size_t n = 0;

  for (; from + n < request->n_names && n < DLP_BATCH_MAX; n++) {
    size += codec_name_size(&request->names[from + n]);
    if (n > 0 && size > DLP_PACKET_MAX)
      break;
  }
  return n;
}

static int request_send(struct dlc__call *call, const struct request *request,
                        const struct dlc_get_options *options, int64_t deadline,
                        struct dlc_error *reterr)
{
  size_t at = 0;
  int r = 0;

  do {
    size_t n = request_pack(request, at);
    struct msg_request packet = {
        .type = MSG_GET,
        .u.get = {.more = at + n < request->n_names,
                  .by_prefix = request->by_prefix,
                  .access =
                      options->access == DLC_ACCESS_SHARED ? MSG_ACCESS_SHARED : MSG_ACCESS_READ,
                  .version = options->version,
                  .newer_than = options->newer_than,
                  .timeout_ms = request->by_prefix ? 0 : dlc__wire_timeout(options->timeout_ms),
                  .n_names = n,
                  .names = request->names + at},
    };

    r = dlc__call_send(call, &packet, deadline, reterr);
    at += n;
  } while (r == 0 && at < request->n_names);
  return r;
}

static int acquire_once(struct dlc_client *client, const struct request *request,
                        const struct dlc_get_options *options, struct harvest *harvest,
                        struct dlc_error *reterr)
{
  dlc__auto_call struct dlc__call call = {0};
  struct dlc__grant context = {.client = client, .access = options->access};
  int64_t deadline = dlc__client_deadline(client, request->by_prefix ? 0 : options->timeout_ms);
  int r = dlc__call_begin(client->transport, &call, deadline, reterr);

  if (r == 0)
    r = request_send(&call, request, options, deadline, reterr);
  if (r == 0)
    r = dlc__call_wait(&call, deadline, reterr);
  if (r == 0)
    r = harvest_count(&call, request->by_prefix ? 0 : request->n_names, &harvest->n, reterr);
  if (r < 0)
    return r;
  harvest->client = client;
  if (harvest_leases(&call, harvest) < 0)
    return dlc__error_no_memory(reterr);
  context.own_uid = dlc__client_uid(client);
  return harvest_holds(&context, &call, request->given, harvest, reterr);
}

/* What is idle here counts against the limits too: it goes before they are reached. */
static int acquire(struct dlc_client *client, const struct request *request,
                   const struct dlc_get_options *options, struct harvest *harvest,
                   struct dlc_error *reterr)
{
  int r = acquire_once(client, request, options, harvest, reterr);

  if ((r != -DLC_E_QUOTA && r != -DLC_E_BUSY) || !dlc__cache_clear(client->cache))
    return r;
  return acquire_once(client, request, options, harvest, reterr);
}

/* ---- one ---- */

/* From the daemon. */
static int acquire_cold(struct dlc_client *client, const char *name,
                        const struct dlc_get_options *options, struct dlc__hold **ret,
                        struct dlc_error *reterr)
{
  dlp_cleanup_(harvest_deinit) struct harvest harvest = {.n = 0};
  struct dlc__name resolved;
  int r = dlc__name_resolve(client, name, &resolved, reterr);

  if (r < 0)
    return r;
  r = acquire(client, &(struct request){.names = &resolved.name, .given = &name, .n_names = 1},
              options, &harvest, reterr);
  if (r == 0)
    *ret = DLP_TAKE(harvest.holds[0]);
  return r;
}

/* From what this process had before. Return: 1 if only the daemon can say. */
static int acquire_hot(struct dlc_client *client, const char *name,
                       const struct dlc_get_options *options, struct dlc__hold **ret,
                       struct dlc_error *reterr)
{
  const struct dlc__wanted wanted = {options->version, options->newer_than};
  struct dlc__hold *hold;
  int r;

  if (options->access == DLC_ACCESS_SHARED || !name)
    return 1;
  hold = dlc__cache_get(client->cache, name, &wanted);
  if (!hold)
    return 1;
  if (options->access == DLC_ACCESS_READ) {
    *ret = hold;
    return 0;
  }
  r = dlc__hold_is_copied(hold->info->nbytes) ? dlc__hold_copy(hold, ret, reterr) : 1;
  dlc__hold_unref(hold);
  return r;
}

static int acquire_one(struct dlc_client *client, const char *name,
                       const struct dlc_get_options *options, struct dlc__hold **ret,
                       struct dlc_error *reterr)
{
  struct dlc_get_options wanted;
  int r = dlc__client_check(client, reterr);

  if (r < 0)
    return r;
  r = get_options_read(options, &wanted, reterr);
  if (r < 0)
    return r;
  r = acquire_hot(client, name, &wanted, ret, reterr);
  return r <= 0 ? r : acquire_cold(client, name, &wanted, ret, reterr);
}

static int check_output(const void *output, struct dlc_error *reterr)
{
  return output ? 0 : dlc__error_set(reterr, DLC_E_INVALID, 0, "the place for the result is NULL");
}

int dlc_get(struct dlc_client *client, const char *name, const struct dlc_get_options *options,
            struct DLManagedTensorVersioned **ret_tensor, struct dlc_error *reterr)
{
  dlc__auto_hold struct dlc__hold *hold = NULL;
  int r = check_output(ret_tensor, reterr);

  if (r == 0)
    r = acquire_one(client, name, options, &hold, reterr);
  if (r < 0)
    return r;
  if (dlc__managed_new_consume(hold, ret_tensor) < 0)
    return dlc__error_no_memory(reterr);
  hold = NULL;
  return 0;
}

int dlc_get_legacy(struct dlc_client *client, const char *name,
                   const struct dlc_get_options *options, struct DLManagedTensor **ret_tensor,
                   struct dlc_error *reterr)
{
  dlc__auto_hold struct dlc__hold *hold = NULL;
  int r = check_output(ret_tensor, reterr);

  if (r == 0)
    r = acquire_one(client, name, options, &hold, reterr);
  if (r < 0)
    return r;
  if (dlc__managed_new_legacy_consume(hold, ret_tensor) < 0)
    return dlc__error_no_memory(reterr);
  hold = NULL;
  return 0;
}

int dlc_get_into(struct dlc_client *client, const char *name, const struct dlc_get_options *options,
                 struct dlc_slot *slot, struct DLManagedTensorVersioned **ret_tensor,
                 struct dlc_error *reterr)
{
  struct dlc__hold *hold;
  int r = check_output(ret_tensor, reterr);

  if (r == 0)
    r = check_output(slot, reterr);
  if (r == 0)
    r = acquire_one(client, name, options, &hold, reterr);
  if (r < 0)
    return r;
  *ret_tensor = dlc__managed_init_consume(slot, hold);
  return 0;
}

/* ---- many ---- */

/* Names resolved, in one piece of heap. {0} is none. */
struct name_list {
  struct msg_name *names;
  struct dlc__name *resolved; /* of one prefix, or scratch */
  char *paths;
};

static void name_list_deinit(struct name_list *list)
{
  free(list->names);
  free(list->resolved);
  free(list->paths);
}

static int name_list_fill(struct dlc_client *client, const char *const *names, size_t n,
                          struct name_list *list, struct dlc_error *reterr)
{
  size_t used = 0, room = 0;

  for (size_t i = 0; i < n; i++) {
    size_t size;
    int r = dlc__name_resolve(client, names[i], list->resolved, reterr);

    if (r < 0)
      return r;
    size = strlen(list->resolved->path) + 1;
    if (used + size > room) {
      char *paths = (char *)realloc(list->paths, room = 2 * (used + size));

      if (!paths)
        return dlc__error_no_memory(reterr);
      list->paths = paths;
    }
    memcpy(list->paths + used, list->resolved->path, size);
    list->names[i].owner = list->resolved->name.owner;
    used += size;
  }
  /* Now they do not move any more. */
  for (size_t i = 0, at = 0; i < n; i++) {
    list->names[i].path = list->paths + at;
    at += strlen(list->paths + at) + 1;
  }
  return 0;
}

static int name_list_prefix(struct dlc_client *client, const char *prefix, struct name_list *list,
                            struct dlc_error *reterr)
{
  size_t size = prefix ? strlen(prefix) : 0;
  int r;

  if (size == 0 || prefix[size - 1] != '/')
    return dlc__error_set(reterr, DLC_E_NAME, 0,
                          "a prefix ends in \"/\"; \"/\" alone is everything of this user");
  r = dlc__name_resolve_prefix(client, size == 1 ? "" : prefix, list->resolved, reterr);
  if (r == 0)
    list->names[0] = list->resolved->name;
  return r;
}

static int name_list_init(struct dlc_client *client, const char *const *names, size_t n,
                          struct name_list *list, struct dlc_error *reterr)
{
  if (!names || n > DLP_GET_MANY_MAX)
    return dlc__error_set(reterr, DLC_E_INVALID, 0,
                          "n_names is %zu; it must be 0 to %d, and names not NULL", n,
                          DLP_GET_MANY_MAX);
  list->names = (struct msg_name *)calloc(n > 0 ? n : 1, sizeof(*list->names));
  list->resolved = (struct dlc__name *)calloc(1, sizeof(*list->resolved));
  if (!list->names || !list->resolved)
    return dlc__error_no_memory(reterr);
  return n == 0 ? name_list_prefix(client, names[0], list, reterr)
                : name_list_fill(client, names, n, list, reterr);
}

static int harvest_make_tensors(struct harvest *harvest, DLManagedTensorVersioned ***ret)
{
  DLManagedTensorVersioned **tensors =
      (DLManagedTensorVersioned **)calloc(harvest->n + 1, sizeof(*tensors));

  for (size_t i = 0; tensors && i < harvest->n; i++) {
    if (dlc__managed_new_consume(harvest->holds[i], &tensors[i]) < 0) {
      dlc_tensors_free(tensors, i);
      return -ENOMEM;
    }
    harvest->holds[i] = NULL;
  }
  *ret = tensors;
  return tensors ? 0 : -ENOMEM;
}

int dlc_get_many(struct dlc_client *client, const char *const *names, size_t n_names,
                 const struct dlc_get_options *options,
                 struct DLManagedTensorVersioned ***ret_tensors, size_t *ret_count,
                 struct dlc_error *reterr)
{
  dlp_cleanup_(harvest_deinit) struct harvest harvest = {.n = 0};
  dlp_cleanup_(name_list_deinit) struct name_list list = {.names = NULL};
  struct dlc_get_options wanted;
  int r = dlc__client_check(client, reterr);

  if (r == 0)
    r = check_output(ret_tensors, reterr);
  if (r == 0)
    r = check_output(ret_count, reterr);
  if (r == 0)
    r = get_options_read(options, &wanted, reterr);
  if (r == 0)
    r = name_list_init(client, names, n_names, &list, reterr);
  if (r < 0)
    return r;
  r = acquire(client,
              &(struct request){.names = list.names,
                                .given = n_names > 0 ? names : NULL,
                                .n_names = n_names > 0 ? n_names : 1,
                                .by_prefix = n_names == 0},
              &wanted, &harvest, reterr);
  if (r < 0)
    return r;
  if (harvest_make_tensors(&harvest, ret_tensors) < 0)
    return dlc__error_no_memory(reterr);
  *ret_count = harvest.n;
  return 0;
}
