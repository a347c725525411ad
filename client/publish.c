/* dlc_put, dlc_alloc, dlc_publish, dlc_delete: generations of one, and their end. */

#include <stdlib.h>
#include <string.h>

#include "client/block.h"
#include "client/error.h"
#include "client/generation.h"
#include "client/managed.h"
#include "client/owner.h"
#include "client/publish_options.h"

static inline void generation_freep(struct dlc_generation **generation)
{
  dlc_generation_free(*generation);
}

/* A publication of one tensor: the options that were given, and a generation for it. */
static int publication_begin(struct dlc_client *client, const struct dlc_publish_options *options,
                             struct dlc_publish_options *ret_options,
                             struct dlc_generation **ret_generation, struct dlc_error *reterr)
{
  int r = dlc__client_check(client, reterr);

  if (r < 0)
    return r;
  r = dlc__publish_options_read(options, ret_options, reterr);
  return r < 0 ? r : dlc__generation_new(client, ret_options, ret_generation, reterr);
}

/* ---- put ---- */

static int put_source(struct dlc_client *client, const char *name, const struct dlc__source *source,
                      const struct dlc_publish_options *options, uint64_t *ret_version,
                      struct dlc_error *reterr)
{
  dlp_cleanup_(generation_freep) struct dlc_generation *generation = NULL;
  struct dlc_publish_options wanted;
  int r = publication_begin(client, options, &wanted, &generation, reterr);

  if (r < 0)
    return r;
  r = dlc__generation_add_copy(generation, name, source, &wanted, reterr);
  return r < 0 ? r : dlc_commit(generation, ret_version, reterr);
}

int dlc_put(struct dlc_client *client, const char *name, const struct dlc_view *tensor,
            const struct dlc_publish_options *options, uint64_t *ret_version,
            struct dlc_error *reterr)
{
  struct dlc__source source;
  int r = dlc__import_view(tensor, 0, &source, reterr);

  return r < 0 ? r : put_source(client, name, &source, options, ret_version, reterr);
}

int dlc_put_managed(struct dlc_client *client, const char *name,
                    struct DLManagedTensorVersioned *managed,
                    const struct dlc_publish_options *options, uint64_t *ret_version,
                    struct dlc_error *reterr)
{
  struct dlc__source source;
  int r;

  if (!managed)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "the tensor is NULL");
  r = dlc__import_versioned(managed, &source, reterr);
  if (r == 0)
    r = put_source(client, name, &source, options, ret_version, reterr);
  if (managed->deleter)
    managed->deleter(managed);
  return r;
}

int dlc_put_legacy(struct dlc_client *client, const char *name, struct DLManagedTensor *managed,
                   const struct dlc_publish_options *options, uint64_t *ret_version,
                   struct dlc_error *reterr)
{
  struct dlc__source source;
  int r;

  if (!managed)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "the tensor is NULL");
  r = dlc__import_legacy(managed, &source, reterr);
  if (r == 0)
    r = put_source(client, name, &source, options, ret_version, reterr);
  if (managed->deleter)
    managed->deleter(managed);
  return r;
}

/* ---- alloc ---- */

/* The hold takes the block. */
static int alloc_hold(struct dlc_client *client, const struct dlc__source *source,
                      struct dlc__block *block, struct dlc__hold **ret, struct dlc_error *reterr)
{
  struct dlc__hold *hold = dlc__hold_new(client, &source->spec);
  uint8_t *start = NULL;
  int r;

  if (!hold) {
    dlc__block_unref(block);
    return dlc__error_no_memory(reterr);
  }
  hold->block = block;
  r = dlc__block_map(block, &start, reterr);
  if (r < 0) {
    dlc__hold_unref(hold);
    return r;
  }
  dlc__block_open(block);
  hold->data = source->compact_size > 0 ? start : NULL;
  *ret = hold;
  return 0;
}

static int alloc_block(struct dlc_client *client, const struct dlc__source *source,
                       const struct dlc_publish_options *options, struct dlc__block **ret,
                       struct dlc_error *reterr)
{
  struct dlc__domain domain = dlc__publish_domain(options, MSG_OWNER_SELF);
  /* A block of nothing would have no place. */
  uint64_t size = source->compact_size > 0 ? source->compact_size : 1;
  struct msg_block wanted = {size, dlc__block_flags(&domain, true)};
  int r = dlc__blocks_allocate(client, &domain, &wanted, 1, ret, reterr);

  if (r == 0)
    (*ret)->ttl_ms = options->ttl_ms;
  return r;
}

int dlc_alloc(struct dlc_client *client, const struct dlc_view *prototype,
              const struct dlc_publish_options *options,
              struct DLManagedTensorVersioned **ret_tensor, struct dlc_error *reterr)
{
  dlc__auto_hold struct dlc__hold *hold = NULL;
  struct dlc_publish_options wanted;
  struct dlc__source source;
  struct dlc__block *block;
  int r = dlc__client_check(client, reterr);

  if (r < 0)
    return r;
  if (!ret_tensor)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "ret_tensor is NULL");
  r = dlc__publish_options_read(options, &wanted, reterr);
  if (r < 0)
    return r;
  r = dlc__import_prototype(prototype, &source, reterr);
  if (r < 0)
    return r;
  r = alloc_block(client, &source, &wanted, &block, reterr);
  if (r < 0)
    return r;
  r = alloc_hold(client, &source, block, &hold, reterr);
  if (r < 0)
    return r;
  if (dlc__managed_new_consume(hold, ret_tensor) < 0)
    return dlc__error_no_memory(reterr);
  DLP_TAKE(hold)->sole = *ret_tensor;
  return 0;
}

int dlc_publish(struct dlc_client *client, const char *name,
                struct DLManagedTensorVersioned *tensor, const struct dlc_publish_options *options,
                uint64_t *ret_version, struct dlc_error *reterr)
{
  dlp_cleanup_(generation_freep) struct dlc_generation *generation = NULL;
  struct dlc_publish_options wanted;
  int r = publication_begin(client, options, &wanted, &generation, reterr);

  if (r < 0)
    return r;
  r = dlc__generation_add(generation, name, tensor, &wanted, reterr);
  return r < 0 ? r : dlc_commit(generation, ret_version, reterr);
}

/* ---- delete ---- */

static int delete_once(struct dlc_client *client, struct msg_request *request, uint64_t *ret_count,
                       int64_t deadline, struct dlc_error *reterr)
{
  dlc__auto_call struct dlc__call call = {0};
  struct dlc__reply *reply;
  int r = dlc__call_run(client->transport, &call, request, deadline, reterr);

  if (r < 0)
    return r;
  reply = dlc__call_reply(&call, MSG_DELETED, reterr);
  if (!reply)
    return -DLC_E_PROTOCOL;
  *ret_count = reply->decoded.reply.u.deleted.n_names;
  return 0;
}

/* The daemon deletes so many names at a time, lest others wait. */
static int delete_all(struct dlc_client *client, struct msg_request *request, uint64_t *ret_count,
                      struct dlc_error *reterr)
{
  uint64_t sum = 0;
  uint64_t n;
  int r;

  do {
    r = delete_once(client, request, &n, dlc__client_deadline(client, 0), reterr);
    if (r == -DLC_E_NOT_FOUND && sum > 0)
      break;
    if (r < 0)
      return r;
    sum += n;
  } while (request->u.del.by_prefix && n >= DLP_DELETE_PAGE_MAX);
  *ret_count = sum;
  return 0;
}

/* "a/" and "~user/a/" are prefixes, "/" and "~user/" everything. */
static int delete_resolve(struct dlc_client *client, const char *name, struct dlc__name *ret,
                          bool *ret_by_prefix, struct dlc_error *reterr)
{
  size_t size = name ? strlen(name) : 0;

  *ret_by_prefix = size > 0 && name[size - 1] == '/';
  if (!*ret_by_prefix)
    return dlc__name_resolve(client, name, ret, reterr);
  return dlc__name_resolve_prefix(client, size == 1 ? "" : name, ret, reterr);
}

int dlc_delete(struct dlc_client *client, const char *name, uint64_t version, uint64_t *ret_count,
               struct dlc_error *reterr)
{
  struct msg_request request = {.type = MSG_DELETE, .u.del = {.version = version}};
  struct dlc__name resolved;
  uint64_t count = 0;
  int r = dlc__client_check(client, reterr);

  if (r < 0)
    return r;
  r = delete_resolve(client, name, &resolved, &request.u.del.by_prefix, reterr);
  if (r < 0)
    return r;
  request.u.del.name = resolved.name;
  r = delete_all(client, &request, &count, reterr);
  if (r == 0 && ret_count)
    *ret_count = count;
  return r;
}
