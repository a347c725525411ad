/* dlc_stat, dlc_wait, dlc_list, dlc_stats: looking without holding. */

#include <stdlib.h>
#include <string.h>

#include "client/cache.h"
#include "client/error.h"
#include "client/glob.h"
#include "client/options.h"
#include "client/owner.h"
#include "client/record.h"
#include "proto/tensor_spec.h"

const char *dlc_info_attribute(const struct dlc_info *info, const char *key)
{
  if (!info || !key)
    return NULL;
  for (size_t i = 0; i < info->n_attributes; i++) {
    if (strcmp(info->attributes[i].key, key) == 0)
      return info->attributes[i].value;
  }
  return NULL;
}

const char *dlc_dtype_name(uint8_t code, uint8_t bits, uint16_t lanes, char *buffer, size_t size)
{
  tensor_dtype_name(code, bits, lanes, buffer, size);
  return buffer;
}

void dlc_info_free(struct dlc_info *info)
{
  free(info);
}

/* The daemon's word on a layout is checked before it is handed on. */
static int info_make(struct dlc_client *client, const struct msg_tensor *tensor,
                     struct dlc_info **ret, struct dlc_error *reterr)
{
  const struct dlc__reader reader = {client->name_space, dlc__client_uid(client)};

  if (tensor_spec_extent(&tensor->spec, NULL) != 0)
    return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                          "the daemon described a tensor whose layout is not valid");
  *ret = dlc__record_new(&reader, tensor);
  return *ret ? 0 : dlc__error_no_memory(reterr);
}

/* ---- stat and wait ---- */

static int stat_call(struct dlc_client *client, struct msg_request *request, int64_t deadline,
                     struct dlc_info **ret, struct dlc_error *reterr)
{
  dlc__auto_call struct dlc__call call = {0};
  struct dlc__reply *reply;
  int r = dlc__call_run(client->transport, &call, request, deadline, reterr);

  if (r < 0)
    return r;
  reply = dlc__call_reply(&call, MSG_LISTED, reterr);
  if (!reply)
    return -DLC_E_PROTOCOL;
  if (reply->decoded.reply.u.listed.n_tensors != 1)
    return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                          "the daemon described %zu tensors, where one was asked for",
                          reply->decoded.reply.u.listed.n_tensors);
  return ret ? info_make(client, &reply->decoded.reply.u.listed.tensors[0], ret, reterr) : 0;
}

static int stat_name(struct dlc_client *client, const char *name, uint64_t newer_than,
                     int32_t timeout_ms, struct dlc_info **ret, struct dlc_error *reterr)
{
  struct msg_request request = {.type = MSG_STAT};
  struct dlc__name resolved;
  int r = dlc__client_check(client, reterr);

  if (r == 0)
    r = dlc__check_timeout(timeout_ms, reterr);
  if (r == 0)
    r = dlc__name_resolve(client, name, &resolved, reterr);
  if (r < 0)
    return r;
  request.u.stat = (struct msg_stat){
      .name = resolved.name, .newer_than = newer_than, .timeout_ms = dlc__wire_timeout(timeout_ms)};
  return stat_call(client, &request, dlc__client_deadline(client, timeout_ms), ret, reterr);
}

int dlc_stat(struct dlc_client *client, const char *name, struct dlc_info **ret_info,
             struct dlc_error *reterr)
{
  if (!ret_info)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "ret_info is NULL");
  return stat_name(client, name, 0, 0, ret_info, reterr);
}

/* Of a name that this process holds or held, its own page says whether there is a newer
 * version. */
static bool wait_is_in_vain(struct dlc_client *client, const char *name, uint64_t newer_than,
                            int32_t timeout_ms)
{
  return client && name && timeout_ms == 0 && dlc__client_check(client, NULL) == 0 &&
         dlc__cache_knows_none_above(client->cache, name, newer_than);
}

int dlc_wait(struct dlc_client *client, const char *name, uint64_t newer_than, int32_t timeout_ms,
             struct dlc_info **ret_info, struct dlc_error *reterr)
{
  int r;

  if (wait_is_in_vain(client, name, newer_than, timeout_ms))
    return dlc__error_set(reterr, DLC_E_TIMEOUT, 0, "there is no newer version of \"%s\"", name);
  r = stat_name(client, name, newer_than, timeout_ms, ret_info, reterr);

  /* Not waiting at all is a wait that is over. */
  if (r != -DLC_E_NOT_FOUND || timeout_ms != 0)
    return r;
  if (reterr)
    reterr->code = DLC_E_TIMEOUT;
  return -DLC_E_TIMEOUT;
}

/* ---- list ---- */

/* A listing on its way. */
struct listing {
  struct dlc_client *client;
  struct msg_list list;
  struct dlc__name prefix;
  const char *glob; /* without a "~user/", or NULL */
  char after[DLP_NAME_MAX + 1];
  dlc_list_fn function;
  void *context;
};

/* The start of a pattern that is a prefix by the grammar: "a/" of "a/.*". */
static size_t listing_literal_size(const char *path)
{
  char literal[DLP_NAME_MAX + 1];
  size_t size = dlc__glob_literal_size(path);

  if (size > DLP_NAME_MAX)
    return 0;
  memcpy(literal, path, size);
  literal[size] = '\0';
  if (name_check_prefix(literal) == 0)
    return size;
  while (size > 0 && literal[size - 1] != '/')
    size--;
  return size;
}

/* The daemon filters by the literal start of the pattern, we by the rest. */
static int listing_set_pattern(struct listing *listing, const char *pattern,
                               struct dlc_error *reterr)
{
  dlp_auto_free char *prefix = strdup(pattern);
  const char *path;
  uint32_t owner;
  int r = dlc__name_split_owner(pattern, &owner, &path, reterr);

  if (r < 0)
    return r;
  if (!prefix)
    return dlc__error_no_memory(reterr);
  if (dlc__glob_is_pattern(path)) {
    listing->glob = path;
    prefix[(size_t)(path - pattern) + listing_literal_size(path)] = '\0';
  }
  return dlc__name_resolve_prefix(listing->client, prefix, &listing->prefix, reterr);
}

static int listing_init(struct listing *listing, const struct dlc_list_options *options,
                        struct dlc_error *reterr)
{
  const char *pattern = options->pattern ? options->pattern : "";
  bool all = (options->flags & DLC_LIST_ALL_OWNERS) != 0;
  int r = listing_set_pattern(listing, pattern, reterr);

  if (r < 0)
    return r;
  if (all && listing->prefix.name.owner != MSG_OWNER_SELF)
    return dlc__error_set(reterr, DLC_E_INVALID, 0,
                          "a pattern of one user's names and DLC_LIST_ALL_OWNERS exclude each "
                          "other");
  listing->list = (struct msg_list){
      .owner = all ? MSG_LIST_ALL_OWNERS : listing->prefix.name.owner,
      .prefix = listing->prefix.name.path,
      .after = {MSG_OWNER_SELF, ""},
      .limit = DLP_LIST_PAGE_MAX,
      .retired = (options->flags & DLC_LIST_RETIRED) != 0,
  };
  return 0;
}

/* The pattern is of names as the caller writes them, without any "~user/". */
static bool listing_wants(const struct listing *listing, const struct msg_tensor *tensor)
{
  const char *path = tensor->name.path;
  size_t space = strlen(listing->client->name_space);

  if (!listing->glob)
    return true;
  if (listing->prefix.name.owner == MSG_OWNER_SELF && space > 0 &&
      strncmp(path, listing->client->name_space, space) == 0 && path[space] == '/')
    path += space + 1;
  return dlc__glob_match(listing->glob, path);
}

static int listing_show(const struct listing *listing, const struct msg_listed *listed,
                        struct dlc_error *reterr)
{
  for (size_t i = 0; i < listed->n_tensors; i++) {
    struct dlc_info *info;
    int r;

    if (!listing_wants(listing, &listed->tensors[i]))
      continue;
    r = info_make(listing->client, &listed->tensors[i], &info, reterr);
    if (r < 0)
      return r;
    r = listing->function(listing->context, info);
    dlc_info_free(info);
    if (r != 0)
      return r;
  }
  return 0;
}

/* Where the next page begins. Return: false if that is nowhere. */
static bool listing_advance(struct listing *listing, const struct msg_listed *listed)
{
  const struct msg_name *last = &listed->next;

  if (!last->path && listed->n_tensors > 0)
    last = &listed->tensors[listed->n_tensors - 1].name;
  if (!last->path || strlen(last->path) > DLP_NAME_MAX)
    return false;
  (void)strcpy(listing->after, last->path);
  listing->list.after = (struct msg_name){last->owner, listing->after};
  return true;
}

static int listing_page(struct listing *listing, bool *ret_done, struct dlc_error *reterr)
{
  struct dlc_client *client = listing->client;
  dlc__auto_call struct dlc__call call = {0};
  struct msg_request request = {.type = MSG_LIST, .u.list = listing->list};
  const struct msg_listed *listed;
  struct dlc__reply *reply;
  int r =
      dlc__call_run(client->transport, &call, &request, dlc__client_deadline(client, 0), reterr);

  if (r < 0)
    return r;
  reply = dlc__call_reply(&call, MSG_LISTED, reterr);
  if (!reply)
    return -DLC_E_PROTOCOL;
  listed = &reply->decoded.reply.u.listed;
  *ret_done = listed->done;
  if (!listed->done && !listing_advance(listing, listed))
    return dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                          "the daemon's listing does not say how it goes on");
  return listing_show(listing, listed, reterr);
}

int dlc_list(struct dlc_client *client, const struct dlc_list_options *options,
             dlc_list_fn function, void *context, struct dlc_error *reterr)
{
  struct listing listing = {.client = client, .function = function, .context = context};
  struct dlc_list_options wanted;
  bool done = false;
  int r = dlc__client_check(client, reterr);

  if (r == 0)
    r = dlc__options_read(&wanted, sizeof(wanted), options, reterr);
  if (r < 0)
    return r;
  if (!function || wanted.reserved != 0 ||
      (wanted.flags & ~(uint32_t)(DLC_LIST_ALL_OWNERS | DLC_LIST_RETIRED)))
    return dlc__error_set(reterr, DLC_E_INVALID, 0,
                          "function is NULL, or the options set unknown flags");
  r = listing_init(&listing, &wanted, reterr);
  while (r == 0 && !done)
    r = listing_page(&listing, &done, reterr);
  return r;
}

/* ---- stats ---- */

int dlc_stats(struct dlc_client *client, dlc_stats_fn function, void *context,
              struct dlc_error *reterr)
{
  dlc__auto_call struct dlc__call call = {0};
  struct msg_request request = {.type = MSG_STATS};
  const struct msg_counters *counters;
  struct dlc__reply *reply;
  int r = dlc__client_check(client, reterr);

  if (r < 0)
    return r;
  if (!function)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "function is NULL");
  r = dlc__call_run(client->transport, &call, &request, dlc__client_deadline(client, 0), reterr);
  if (r < 0)
    return r;
  reply = dlc__call_reply(&call, MSG_COUNTERS, reterr);
  if (!reply)
    return -DLC_E_PROTOCOL;
  counters = &reply->decoded.reply.u.counters;
  for (size_t i = 0; i < counters->n_counters; i++)
    function(context, counters->counters[i].name, counters->counters[i].value);
  return 0;
}
