/* What is published next, tensor by tensor; commit.h. */

#include "core/commit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/domain.h"
#include "core/inline.h"
#include "core/reply.h"
#include "proto/name.h"
#include "proto/tensor_spec.h"

/* ---- stagings ---- */

static int compare_entry(const void *key, const struct dlp_tree_node *node)
{
  uintptr_t a = (uintptr_t)key;
  uintptr_t b = (uintptr_t)DLP_CONTAINER(node, struct tensor, staged)->entry;

  return a < b ? -1 : a > b;
}

struct staging *staging_find(const struct session *session, uint64_t key)
{
  dlp_list_for_each (link, &session->stagings) {
    struct staging *staging = DLP_CONTAINER(link, struct staging, link);
    if (staging->key == key)
      return staging;
  }
  return NULL;
}

int staging_new(struct staging **ret, struct session *session, uint64_t key,
                struct quota_refusal *refusal)
{
  struct broker *broker = session->broker;
  struct quota_sum sum = {.of = {[QUOTA_HEAP] = sizeof(struct staging)}};
  struct staging *staging;
  int r;

  if (session->n_stagings == STAGINGS_MAX)
    return STAGING_E_TOO_MANY;
  staging = calloc(1, sizeof(*staging));
  if (!staging)
    return -ENOMEM;
  r = quota_charge(broker->quota, &staging->charge, session->actor.realm, session->actor.uid, &sum,
                   refusal);
  if (r != 0) {
    free(staging);
    return r;
  }
  staging->session = session;
  staging->key = key;
  dlp_list_init(&staging->tensors);
  dlp_tree_init(&staging->entries, compare_entry, broker->config.seed);
  dlp_list_append(&session->stagings, &staging->link);
  session->n_stagings++;
  *ret = staging;
  return 0;
}

/* What the client allotted is its session's again. */
static void give_back_block(struct staging *staging, struct block *block)
{
  if (inline_is_slab(block->segment)) {
    session_drop_block(staging->session->broker, block);
    return;
  }
  block->keep = false;
  session_add_block(staging->session, block);
}

void staging_remove(struct staging *staging, struct tensor *tensor, bool has_row)
{
  staging->n_tensors--;
  staging->attributes_size -= tensor->attributes_size;
  dlp_tree_remove(&staging->entries, &tensor->staged);
  if (tensor->block)
    give_back_block(staging, DLP_TAKE(tensor->block));
  inline_drop(tensor);
  broker_unstage(staging->session->broker, tensor, has_row);
}

void staging_remove_last(struct staging *staging)
{
  staging_remove(staging, DLP_CONTAINER(staging->tensors.previous, struct tensor, link), false);
}

void staging_free(struct staging *staging)
{
  while (!dlp_list_empty(&staging->tensors))
    staging_remove_last(staging);
  dlp_list_remove(&staging->link);
  staging->session->n_stagings--;
  quota_charge_deinit(&staging->charge);
  free(staging);
}

/* ---- adding: every field of `add` comes from a client ---- */

struct add_context {
  struct staging *staging;
  struct connection *connection;
  uint64_t request;
  const struct msg_add *add;
  struct entry_key key;
};

static bool check_name(const struct add_context *c)
{
  int r = name_check(c->add->name.path);

  if (r != 0)
    reply_name(c->connection, c->request, c->add->name.path, r);
  return r == 0;
}

void staging_reply_denied(struct connection *connection, uint64_t request,
                          const struct entry_key *key)
{
  char text[REPLY_NAME_SIZE];

  reply_error(connection, request, DLP_STATUS_DENIED,
              "'%s' belongs to uid %u, who has no such tensor or does not let you replace it",
              reply_name_text(connection, key, text), key->owner);
}

/* Asked of the session, not of the connection, as the commit will be. */
static bool check_permission(const struct add_context *c)
{
  const struct entry *entry = registry_find(&c->connection->broker->registry, &c->key);
  const struct access_rule *rule = entry && entry->newest ? &entry->newest->rule : NULL;

  if (policy_may_publish(&c->staging->session->actor, c->key.owner, rule))
    return true;
  staging_reply_denied(c->connection, c->request, &c->key);
  return false;
}

static bool check_spec(const struct add_context *c, struct tensor_extent *ret)
{
  int r = tensor_spec_extent(&c->add->spec, ret);
  char text[256];

  if (r == 0)
    return true;
  tensor_spec_describe(&c->add->spec, r, text, sizeof(text));
  reply_error(c->connection, c->request,
              r == TENSOR_SPEC_E_DTYPE ? DLP_STATUS_DTYPE : DLP_STATUS_LAYOUT, "%s", text);
  return false;
}

/* From both ends: `low` may be negative, `first` anything. */
static bool place_covers(const struct msg_place *place, const struct tensor_extent *extent)
{
  uint64_t below = extent->low < 0 ? -(uint64_t)extent->low : 0;
  uint64_t above = extent->high > 0 ? (uint64_t)extent->high : 0;

  return place->first <= place->size && below <= place->first &&
         above <= place->size - place->first;
}

static bool check_place(const struct add_context *c, const struct tensor_extent *extent)
{
  const struct msg_place *place = &c->add->place;

  if (extent->low == extent->high) {
    if (place->size == 0 && place->first == 0)
      return true;
    reply_error(c->connection, c->request, DLP_STATUS_LAYOUT,
                "a tensor without elements takes no bytes, but %llu were given",
                (unsigned long long)place->size);
    return false;
  }
  if (place_covers(place, extent))
    return true;
  reply_error(c->connection, c->request, DLP_STATUS_LAYOUT,
              "the tensor's bytes reach from %lld to %lld around its element zero, beyond the "
              "%llu bytes it was given",
              (long long)extent->low, (long long)extent->high, (unsigned long long)place->size);
  return false;
}

/* Sizes only, and no further than they are allowed: there may be thousands. */
static bool check_attributes(const struct add_context *c)
{
  const struct msg_add *add = c->add;
  size_t size = 0;

  for (size_t i = 0; i < add->n_attributes && size <= DLP_ATTRIBUTES_MAX; i++) {
    size_t key_size = strlen(add->attributes[i].key);
    if (key_size == 0 || key_size > DLP_ATTRIBUTE_KEY_MAX) {
      reply_error(c->connection, c->request, DLP_STATUS_INVALID,
                  "an attribute's key has 1 to %d bytes, not %zu", DLP_ATTRIBUTE_KEY_MAX, key_size);
      return false;
    }
    size += key_size + strlen(add->attributes[i].value) + 2;
  }
  if (size > DLP_ATTRIBUTES_MAX) {
    reply_error(c->connection, c->request, DLP_STATUS_INVALID,
                "attributes may have %d bytes in all: publish larger ones as a tensor of bytes",
                DLP_ATTRIBUTES_MAX);
    return false;
  }
  if (c->staging->attributes_size + size > DLP_GENERATION_ATTRIBUTES_MAX) {
    reply_error(c->connection, c->request, DLP_STATUS_INVALID,
                "the attributes of one generation may have %d bytes in all: publish larger ones "
                "as a tensor of bytes",
                DLP_GENERATION_ATTRIBUTES_MAX);
    return false;
  }
  return true;
}

/* They are sorted by now. */
static bool check_attribute_keys(const struct add_context *c, const struct tensor *tensor)
{
  const struct msg_attribute *attributes = tensor_attributes(tensor);

  for (size_t i = 1; i < tensor->n_attributes; i++) {
    if (strcmp(attributes[i - 1].key, attributes[i].key) != 0)
      continue;
    reply_error(c->connection, c->request, DLP_STATUS_INVALID, "an attribute's key is given twice");
    return false;
  }
  return true;
}

/* The block that the place names, if it is this session's, unpublished and fits. */
static bool check_block(const struct add_context *c, const struct block *block)
{
  const struct msg_place *place = &c->add->place;

  if (!block || block->kept) {
    reply_error(c->connection, c->request, DLP_STATUS_INVALID,
                "no unpublished memory of yours starts at byte %llu of segment %llu",
                (unsigned long long)place->offset, (unsigned long long)place->segment);
    return false;
  }
  if (place->size > block->size) {
    reply_error(c->connection, c->request, DLP_STATUS_LAYOUT,
                "the tensor takes %llu bytes, more than the %llu that were allocated",
                (unsigned long long)place->size, (unsigned long long)block->size);
    return false;
  }
  if (block->segment->domain.owner != c->key.owner) {
    reply_error(c->connection, c->request, DLP_STATUS_INVALID,
                "the memory was allocated for names of uid %u, not of uid %u",
                block->segment->domain.owner, c->key.owner);
    return false;
  }
  if (c->add->freeze && (!block->segment->own || block->segment->domain.is_mutable)) {
    reply_error(c->connection, c->request, DLP_STATUS_INVALID,
                "only a tensor with a segment of its own that is not mutable can be frozen");
    return false;
  }
  return true;
}

/* Of what comes inline: as the publication says. */
static bool get_inline_domain(const struct add_context *c, const struct msg_publish *publish,
                              struct pool_domain *ret)
{
  *ret = (struct pool_domain){.owner = c->key.owner,
                              .lifetime = publish->lifetime,
                              .mode = publish->mode,
                              .gid = publish->gid};
  if (!c->add->freeze)
    return domain_complete(c->connection, c->request, ret);
  reply_error(c->connection, c->request, DLP_STATUS_INVALID,
              "only a tensor with a segment of its own can be frozen, not one that comes inline");
  return false;
}

static void draft_init(struct tensor_draft *draft, const struct add_context *c,
                       const struct pool_domain *domain)
{
  const struct session *session = c->staging->session;

  *draft = (struct tensor_draft){
      .add = c->add,
      .rule = {.owner = domain->owner, .gid = domain->gid, .mode = domain->mode},
      .lifetime = domain->lifetime,
      .flags = (domain->is_mutable ? MSG_TENSOR_MUTABLE : 0) |
               (c->add->freeze ? MSG_TENSOR_FROZEN : 0) |
               (domain->backend == MSG_BACKEND_POSIX_SHM ? MSG_TENSOR_UNSEALED : 0),
      .publisher_uid = session->actor.uid,
      .publisher_pid = session->pid,
  };
}

/* Pays for it and makes it. Return: NULL after answering the refusal. */
static struct tensor *make_tensor(const struct add_context *c, const struct tensor_draft *draft)
{
  struct broker *broker = c->connection->broker;
  const struct actor *actor = &c->staging->session->actor;
  struct quota_sum sum = {.of = {[QUOTA_TENSORS] = 1, [QUOTA_HEAP] = tensor_heap_size(draft)}};
  struct quota_charge charge = {0};
  struct quota_refusal refusal;
  struct tensor *tensor = NULL;
  struct entry *entry;
  int r = quota_charge(broker->quota, &charge, actor->realm, actor->uid, &sum, &refusal);

  if (r == QUOTA_E_EXCEEDED) {
    reply_quota(c->connection, c->request, &refusal);
    return NULL;
  }
  entry = r == 0 ? registry_get_entry(&broker->registry, &c->key) : NULL;
  if (entry && dlp_tree_find(&c->staging->entries, entry)) {
    char text[REPLY_NAME_SIZE];
    reply_error(c->connection, c->request, DLP_STATUS_EXISTS, "'%s' is in this generation already",
                reply_name_text(c->connection, &c->key, text));
    quota_charge_deinit(&charge);
    return NULL;
  }
  if (entry && releases_reserve(&broker->releases, 1) == 0) {
    tensor = tensor_new(entry, draft);
    if (!tensor)
      releases_unreserve(&broker->releases, 1);
  }
  if (!tensor) {
    if (entry)
      registry_tidy(&broker->registry, entry);
    quota_charge_deinit(&charge);
    reply_no_memory(c->connection, c->request);
    return NULL;
  }
  tensor->charge = charge;
  return tensor;
}

/* The session's block, or none for what comes inline; and its domain. */
static bool get_memory(const struct add_context *c, const struct msg_publish *publish,
                       struct block **ret_block, struct pool_domain *ret_domain)
{
  *ret_block = NULL;
  if (c->add->payload)
    return get_inline_domain(c, publish, ret_domain);
  *ret_block = session_find_block(c->staging->session, &c->add->place);
  if (!check_block(c, *ret_block))
    return false;
  *ret_domain = (*ret_block)->segment->domain;
  return true;
}

static bool check_add(struct add_context *c)
{
  struct tensor_extent extent;

  if (!check_name(c))
    return false;
  c->key = request_key(c->connection, &c->add->name);
  return check_permission(c) && check_spec(c, &extent) && check_place(c, &extent) &&
         check_attributes(c);
}

static void stage(struct staging *staging, struct tensor *tensor, struct block *block, bool keep)
{
  if (block) {
    session_take_block(staging->session, block);
    block->keep = keep;
  }
  tensor->block = block;
  dlp_list_append(&staging->tensors, &tensor->link);
  dlp_tree_insert(&staging->entries, tensor->entry, &tensor->staged);
  staging->n_tensors++;
  staging->attributes_size += tensor->attributes_size;
}

bool staging_add(struct staging *staging, struct connection *connection, uint64_t request,
                 const struct msg_publish *publish, const struct msg_add *add)
{
  struct add_context c = {staging, connection, request, add, {0}};
  struct tensor_draft draft;
  struct pool_domain domain;
  struct block *block;
  struct tensor *tensor;

  if (!check_add(&c) || !get_memory(&c, publish, &block, &domain))
    return false;
  draft_init(&draft, &c, &domain);
  tensor = make_tensor(&c, &draft);
  if (!tensor)
    return false;
  if (!check_attribute_keys(&c, tensor) ||
      (add->payload && !inline_take(tensor, connection, request, add))) {
    broker_unstage(connection->broker, tensor, false);
    return false;
  }
  stage(staging, tensor, block, add->keep);
  return true;
}
