#include <stdlib.h>
#include <string.h>

#include "client/block.h"
#include "client/cache.h"
#include "client/clock.h"
#include "client/error.h"
#include "client/fork.h"
#include "client/handle.h"
#include "client/options.h"
#include "client/socket.h"
#include "common/utf8.h"
#include "proto/name.h"

#define DEFAULT_CALL_TIMEOUT_MS 10000

/* ---- what the transport asks of a client ---- */

/* Leases that came too late for whoever wanted them. */
static void client_return_grants(struct dlc_client *client, const struct dlc__reply *reply)
{
  const struct msg_granted *granted = &reply->decoded.reply.u.granted;

  for (size_t i = 0; i < granted->n_grants; i++) {
    const struct msg_grant *grant = &granted->grants[i];
    struct dlc__lease lease = dlc__lease_of(reply->pages, grant->cell, grant->tensor.version);

    dlc__transport_return_consume(client->transport, &lease);
  }
  for (size_t i = 0; i < granted->n_segments; i++)
    dlc__maps_forget_unmapped(&client->maps, reply->epoch, granted->segments[i].id);
}

static void client_return_places(struct dlc_client *client, const struct dlc__reply *reply)
{
  const struct msg_allocated *allocated = &reply->decoded.reply.u.allocated;

  for (size_t i = 0; i < allocated->n_places; i++) {
    struct dlc__oneway *item = calloc(1, sizeof(*item));

    if (!item)
      return;
    item->container = item;
    item->epoch = reply->epoch;
    item->u.place = allocated->places[i];
    dlc__transport_post_consume(client->transport, DLC__ONEWAY_FREE, item);
  }
}

static void client_orphan(void *context, struct dlc__reply *reply)
{
  struct dlc_client *client = (struct dlc_client *)context;

  dlc__transport_cork(client->transport);
  if (reply->decoded.reply.type == MSG_GRANTED)
    client_return_grants(client, reply);
  else if (reply->decoded.reply.type == MSG_ALLOCATED)
    client_return_places(client, reply);
  dlc__transport_uncork(client->transport);
}

static void client_dropped(void *context, uint64_t epoch, const uint64_t *segments,
                           size_t n_segments)
{
  struct dlc_client *client = (struct dlc_client *)context;

  dlc__maps_dropped(&client->maps, epoch, segments, n_segments);
}

static void client_retired(void *context, struct dlc__pages *pages)
{
  struct dlc_client *client = (struct dlc_client *)context;

  dlc__transport_cork(client->transport);
  dlc__cache_sweep(client->cache, pages);
  dlc__transport_uncork(client->transport);
}

static void client_arrived(void *context, struct dlc__reply *reply)
{
  if (reply->decoded.reply.type == MSG_ALLOCATED)
    dlc__blocks_arrived((struct dlc_client *)context, reply);
}

/* ---- life ---- */

struct dlc_client *dlc__client_ref(struct dlc_client *client)
{
  atomic_fetch_add_explicit(&client->refs, 1, memory_order_relaxed);
  return client;
}

static void client_free(struct dlc_client *client)
{
  dlc__cache_free(client->cache);
  dlc__maps_deinit(&client->maps);
  dlc__transport_free(client->transport);
  free(client->name_space);
  free(client);
}

void dlc__client_unref(struct dlc_client *client)
{
  if (atomic_fetch_sub_explicit(&client->refs, 1, memory_order_acq_rel) > 1)
    return;
  /* A child's copy of the parent's tables and locks is as it was at an
   * arbitrary moment: it is left alone, but for the socket. */
  if (dlc__fork_is_child(client->fork_generation))
    dlc__transport_abandon(client->transport);
  else
    client_free(client);
}

int dlc__client_check(const struct dlc_client *client, struct dlc_error *reterr)
{
  if (!client)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "the client is NULL");
  if (dlc__fork_is_child(client->fork_generation))
    return dlc__error_set(reterr, DLC_E_FORKED, 0,
                          "this client was opened before fork() and belongs to the parent; call "
                          "dlc_connect() in the child");
  return 0;
}

int64_t dlc__client_deadline(const struct dlc_client *client, int32_t extra_ms)
{
  if (extra_ms < 0 || client->call_timeout_ms < 0)
    return DLC__NEVER;
  return dlc__deadline_in((int64_t)extra_ms + client->call_timeout_ms);
}

uint32_t dlc__client_uid(struct dlc_client *client)
{
  struct dlc_daemon_info info;

  dlc__transport_info(client->transport, &info);
  return info.uid;
}

int dlc__check_timeout(int32_t timeout_ms, struct dlc_error *reterr)
{
  if (timeout_ms >= -1)
    return 0;
  return dlc__error_set(reterr, DLC_E_INVALID, 0,
                        "the timeout is %d ms; it must be 0 or more, or -1 for no limit",
                        timeout_ms);
}

uint32_t dlc__wire_timeout(int32_t timeout_ms)
{
  return timeout_ms < 0 ? DLP_TIMEOUT_NEVER : (uint32_t)timeout_ms;
}

/* ---- connecting ---- */

/* "a/b/" and "a/b" are the same name space. */
static int client_set_name_space(struct dlc_client *client, const char *name_space,
                                 struct dlc_error *reterr)
{
  size_t size;
  int r;

  if (!name_space)
    name_space = getenv("DLPACKD_NAMESPACE");
  if (!name_space)
    name_space = "";
  client->name_space = strdup(name_space);
  if (!client->name_space)
    return dlc__error_no_memory(reterr);
  size = strlen(name_space);
  if (size > 0 && name_space[size - 1] == '/')
    client->name_space[size - 1] = '\0';
  if (size == 0)
    return 0;
  r = name_check(client->name_space);
  return r == 0 ? 0
                : dlc__error_set(reterr, DLC_E_NAME, 0, "the name space is not a name: %s",
                                 name_describe(r));
}

/* The program's name, unless the caller gave one. Cut on a code point's border. */
static int client_choose_name(const char *wanted, char *buffer, struct dlc_error *reterr)
{
  size_t size;

  if (!wanted || !*wanted)
    wanted = program_invocation_short_name;
  if (!dlp_utf8_valid(wanted, strlen(wanted)))
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "client_name is not UTF-8");
  size = strlen(wanted);
  if (size > DLP_CLIENT_NAME_MAX)
    size = DLP_CLIENT_NAME_MAX;
  while (size > 0 && ((unsigned char)wanted[size] & 0xc0) == 0x80)
    size--;
  memcpy(buffer, wanted, size);
  buffer[size] = '\0';
  return 0;
}

static int client_set_timeout(struct dlc_client *client, int32_t timeout_ms,
                              struct dlc_error *reterr)
{
  client->call_timeout_ms = timeout_ms == 0 ? DEFAULT_CALL_TIMEOUT_MS : timeout_ms;
  return dlc__check_timeout(timeout_ms, reterr);
}

static int client_open(struct dlc_client *client, const char *socket_path, const char *client_name,
                       struct dlc_error *reterr)
{
  const struct dlc__transport_owner owner = {.context = client,
                                             .orphan = client_orphan,
                                             .dropped = client_dropped,
                                             .retired = client_retired,
                                             .arrived = client_arrived};
  int r = dlc__transport_new(&client->transport, socket_path, client_name, &owner, reterr);

  if (r < 0)
    return r;
  client->cache = dlc__cache_new();
  if (!client->cache || dlc__maps_init(&client->maps, client->transport) < 0) {
    if (client->cache)
      dlc__cache_free(client->cache);
    dlc__transport_free(client->transport);
    return dlc__error_no_memory(reterr);
  }
  r = dlc__transport_connect(client->transport, dlc__client_deadline(client, 0), reterr);
  if (r < 0) {
    dlc__cache_free(client->cache);
    dlc__maps_deinit(&client->maps);
    dlc__transport_free(client->transport);
  }
  return r;
}

static int client_new(const char *socket_path, const struct dlc_connect_options *options,
                      struct dlc_client *client, struct dlc_error *reterr)
{
  dlp_auto_free char *path = NULL;
  char name[DLP_CLIENT_NAME_MAX + 1];
  int r;

  if (options->flags != 0)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "unknown flags 0x%x for dlc_connect()",
                          options->flags);
  r = client_set_timeout(client, options->call_timeout_ms, reterr);
  if (r < 0)
    return r;
  r = client_choose_name(options->client_name, name, reterr);
  if (r < 0)
    return r;
  r = client_set_name_space(client, options->name_space, reterr);
  if (r < 0)
    return r;
  r = dlc__socket_find(socket_path, &path, reterr);
  return r < 0 ? r : client_open(client, path, name, reterr);
}

int dlc_connect(const char *socket_path, const struct dlc_connect_options *options,
                struct dlc_client **ret_client, struct dlc_error *reterr)
{
  struct dlc_connect_options wanted;
  struct dlc_client *client;
  int r;

  if (!ret_client)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "ret_client is NULL");
  r = dlc__options_read(&wanted, sizeof(wanted), options, reterr);
  if (r < 0)
    return r;
  r = dlc__fork_watch();
  client = (struct dlc_client *)calloc(1, sizeof(*client));
  if (r < 0 || !client) {
    free(client);
    return dlc__error_no_memory(reterr);
  }
  client->refs = 1;
  client->fork_generation = dlc__fork_generation();
  dlc__memory_limit_init(&client->memory_limit);
  r = client_new(socket_path, &wanted, client, reterr);
  if (r < 0) {
    free(client->name_space);
    free(client);
    return r;
  }
  *ret_client = client;
  return 0;
}

void dlc_close(struct dlc_client *client)
{
  if (!client)
    return;
  if (dlc__fork_is_child(client->fork_generation)) {
    dlc__transport_abandon(client->transport);
  } else {
    dlc__transport_cork(client->transport);
    dlc__cache_close(client->cache);
    dlc__transport_uncork(client->transport);
  }
  dlc__client_unref(client);
}

int dlc_ping(struct dlc_client *client, struct dlc_daemon_info *ret_info, struct dlc_error *reterr)
{
  dlc__auto_call struct dlc__call call = {0};
  struct msg_request request = {.type = MSG_PING};
  int r = dlc__client_check(client, reterr);

  if (r < 0)
    return r;
  r = dlc__call_run(client->transport, &call, &request, dlc__client_deadline(client, 0), reterr);
  if (r == 0 && ret_info)
    dlc__transport_info(client->transport, ret_info);
  return r;
}
