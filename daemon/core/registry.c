#include "core/registry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64

static int compare_entry(const void *key, const struct dlp_tree_node *node)
{
  const struct entry_key *a = key, *b = &DLP_CONTAINER(node, struct entry, node)->key;

  if (a->realm != b->realm)
    return a->realm < b->realm ? -1 : 1;
  if (a->owner != b->owner)
    return a->owner < b->owner ? -1 : 1;
  return strcmp(a->path, b->path);
}

static int compare_change(const void *key, const struct dlp_tree_node *node)
{
  uint64_t a = *(const uint64_t *)key;
  uint64_t b = DLP_CONTAINER(node, struct entry, change_node)->change;

  return a < b ? -1 : a > b;
}

static struct entry *entry_of(struct dlp_tree_node *node)
{
  return node ? DLP_CONTAINER(node, struct entry, node) : NULL;
}

int registry_init(struct registry *registry, struct timers *timers, uint64_t seed)
{
  int r;

  *registry = (struct registry){.timers = timers};
  r = dlp_hash_init(&registry->names, seed);
  if (r < 0)
    return r;
  dlp_tree_init(&registry->entries, compare_entry, seed);
  dlp_tree_init(&registry->changes, compare_change, ~seed);
  dlp_list_init(&registry->tombstones);
  return 0;
}

static void unmark_changed(struct registry *registry, struct entry *entry)
{
  if (entry->change == 0)
    return;
  dlp_tree_remove(&registry->changes, &entry->change_node);
  entry->change = 0;
}

static void forget_entry(struct registry *registry, struct entry *entry)
{
  dlp_list_remove(&entry->tombstone_link);
  unmark_changed(registry, entry);
  dlp_tree_remove(&registry->entries, &entry->node);
  dlp_hash_remove(&registry->names, &entry->hash_node);
  free(entry);
}

static bool is_tombstone(const struct entry *entry)
{
  return !entry->newest && !dlp_list_empty(&entry->tombstone_link);
}

static void unmark_tombstone(struct registry *registry, struct entry *entry)
{
  if (!is_tombstone(entry))
    return;
  dlp_list_remove(&entry->tombstone_link);
  registry->n_tombstones--;
}

static bool is_in_use(const struct entry *entry)
{
  return entry->newest || entry->n_staged > 0 || !dlp_list_empty(&entry->held) ||
         !dlp_list_empty(&entry->waiters);
}

/* The deletion need not be remembered any more. */
static void drop_tombstone(struct registry *registry, struct entry *entry)
{
  if (entry->change > registry->forgotten)
    registry->forgotten = entry->change;
  unmark_tombstone(registry, entry);
  unmark_changed(registry, entry);
  if (!is_in_use(entry))
    forget_entry(registry, entry);
}

void registry_deinit(struct registry *registry)
{
  dlp_list_for_each (link, &registry->tombstones)
    drop_tombstone(registry, DLP_CONTAINER(link, struct entry, tombstone_link));
  assert(registry->entries.size == 0);
  dlp_hash_deinit(&registry->names);
  assert(registry->n_live == 0 && registry->n_retired == 0 && registry->n_tombstones == 0);
}

static uint64_t hash_of(const struct registry *registry, const struct entry_key *key)
{
  return dlp_hash_bytes(&registry->names, (uint64_t)key->realm << 32 | key->owner, key->path,
                        strlen(key->path));
}

static void prefetch(const void *object, size_t size)
{
  for (size_t i = 0; i < size; i += CACHE_LINE)
    __builtin_prefetch((const char *)object + i);
}

/* Of many names each one's memory is far away. What is read of this one next is asked
 * for together, while its path is compared. */
static bool is_entry(const void *key, const struct dlp_hash_node *node)
{
  const struct entry *entry = DLP_CONTAINER(node, struct entry, hash_node);
  const struct entry_key *a = key, *b = &entry->key;

  prefetch(entry->newest, sizeof(struct tensor) + CACHE_LINE);
  return a->realm == b->realm && a->owner == b->owner && strcmp(a->path, b->path) == 0;
}

struct entry *registry_find(const struct registry *registry, const struct entry_key *key)
{
  struct dlp_hash_node *node =
      dlp_hash_find(&registry->names, hash_of(registry, key), key, is_entry);

  return node ? DLP_CONTAINER(node, struct entry, hash_node) : NULL;
}

struct entry *registry_get_entry(struct registry *registry, const struct entry_key *key)
{
  struct entry *entry = registry_find(registry, key);
  size_t path_size = strlen(key->path) + 1;

  if (entry)
    return entry;
  entry = calloc(1, sizeof(*entry) + path_size);
  if (!entry)
    return NULL;
  memcpy(entry + 1, key->path, path_size);
  entry->key = (struct entry_key){key->realm, key->owner, (const char *)(entry + 1)};
  dlp_list_init(&entry->held);
  dlp_list_init(&entry->waiters);
  dlp_list_init(&entry->tombstone_link);
  dlp_tree_insert(&registry->entries, &entry->key, &entry->node);
  dlp_hash_insert(&registry->names, hash_of(registry, key), &entry->hash_node);
  return entry;
}

struct entry *registry_seek(const struct registry *registry, const struct entry_key *key,
                            bool after)
{
  struct entry *entry = entry_of(after ? dlp_tree_after(&registry->entries, key)
                                       : dlp_tree_lower_bound(&registry->entries, key));

  return entry && entry->key.realm == key->realm ? entry : NULL;
}

struct entry *registry_next(const struct entry *entry)
{
  struct entry *next = entry_of(dlp_tree_next(&entry->node));

  return next && next->key.realm == entry->key.realm ? next : NULL;
}

void registry_tidy(struct registry *registry, struct entry *entry)
{
  if (!is_in_use(entry) && !is_tombstone(entry))
    forget_entry(registry, entry);
}

/* ---- tensors ---- */

static size_t attributes_size(const struct msg_add *add)
{
  size_t size = 0;

  for (size_t i = 0; i < add->n_attributes; i++)
    size += strlen(add->attributes[i].key) + strlen(add->attributes[i].value) + 2;
  return size;
}

static size_t tensor_alloc_size(const struct msg_add *add)
{
  size_t n_numbers = add->spec.ndim * (add->spec.strides ? 2 : 1);

  return sizeof(struct tensor) + n_numbers * sizeof(int64_t) +
         add->n_attributes * sizeof(struct msg_attribute) + attributes_size(add);
}

uint64_t tensor_heap_size(const struct tensor_draft *draft)
{
  return tensor_alloc_size(draft->add) + sizeof(struct entry) + strlen(draft->add->name.path) + 1;
}

static int compare_attribute(const void *a, const void *b)
{
  return strcmp(((const struct msg_attribute *)a)->key, ((const struct msg_attribute *)b)->key);
}

static const char *copy_string(char **at, const char *string)
{
  size_t size = strlen(string) + 1;
  const char *copy = memcpy(*at, string, size);

  *at += size;
  return copy;
}

/* Behind the struct: numbers, pairs, strings. */
static int64_t *numbers_of(const struct tensor *tensor)
{
  return (int64_t *)(tensor + 1);
}

static struct msg_attribute *attributes_of(const struct tensor *tensor)
{
  size_t n_numbers = (size_t)tensor->ndim * (tensor->has_strides ? 2 : 1);

  return (struct msg_attribute *)(numbers_of(tensor) + n_numbers);
}

struct msg_spec tensor_spec(const struct tensor *tensor)
{
  const int64_t *numbers = numbers_of(tensor);

  return (struct msg_spec){.code = tensor->dtype_code,
                           .bits = tensor->dtype_bits,
                           .lanes = tensor->dtype_lanes,
                           .flags = tensor->spec_flags,
                           .ndim = tensor->ndim,
                           .shape = numbers,
                           .strides = tensor->has_strides ? numbers + tensor->ndim : NULL};
}

const struct msg_attribute *tensor_attributes(const struct tensor *tensor)
{
  return attributes_of(tensor);
}

static void copy_spec(struct tensor *tensor, const struct msg_spec *spec)
{
  int64_t *numbers = numbers_of(tensor);

  assert(spec->code <= UINT8_MAX && spec->bits <= UINT8_MAX && spec->lanes <= UINT16_MAX);
  assert(spec->flags <= UINT8_MAX && spec->ndim <= DLP_NDIM_MAX);
  tensor->dtype_code = (uint8_t)spec->code;
  tensor->dtype_bits = (uint8_t)spec->bits;
  tensor->dtype_lanes = (uint16_t)spec->lanes;
  tensor->spec_flags = (uint8_t)spec->flags;
  tensor->ndim = (uint8_t)spec->ndim;
  tensor->has_strides = spec->strides != NULL;
  for (size_t i = 0; i < spec->ndim; i++)
    *numbers++ = spec->shape[i];
  for (size_t i = 0; spec->strides && i < spec->ndim; i++)
    *numbers++ = spec->strides[i];
}

/* After the numbers. */
static void copy_attributes(struct tensor *tensor, const struct msg_add *add)
{
  struct msg_attribute *attributes = attributes_of(tensor);
  size_t size = attributes_size(add);
  char *strings = (char *)(attributes + add->n_attributes);

  assert(size <= DLP_ATTRIBUTES_MAX && add->n_attributes <= size);
  tensor->n_attributes = (uint16_t)add->n_attributes;
  tensor->attributes_size = (uint16_t)size;
  for (size_t i = 0; i < add->n_attributes; i++) {
    attributes[i].key = copy_string(&strings, add->attributes[i].key);
    attributes[i].value = copy_string(&strings, add->attributes[i].value);
  }
  if (add->n_attributes > 1)
    qsort(attributes, add->n_attributes, sizeof(*attributes), compare_attribute);
}

struct tensor *tensor_new(struct entry *entry, const struct tensor_draft *draft)
{
  const struct msg_add *add = draft->add;
  struct tensor *tensor = calloc(1, tensor_alloc_size(add));

  if (!tensor)
    return NULL;
  copy_spec(tensor, &add->spec);
  copy_attributes(tensor, add);
  tensor->entry = entry;
  tensor->state = TENSOR_STAGED;
  tensor->rule = draft->rule;
  assert(draft->lifetime <= UINT8_MAX && draft->flags <= UINT8_MAX);
  tensor->lifetime = (uint8_t)draft->lifetime;
  tensor->flags = (uint8_t)draft->flags;
  tensor->publisher_uid = draft->publisher_uid;
  tensor->publisher_pid = draft->publisher_pid;
  tensor->size = add->place.size;
  tensor->first = add->place.first;
  tensor->has_expected = add->has_expected;
  tensor->expected = add->expected;
  dlp_list_init(&tensor->link);
  entry->n_staged++;
  return tensor;
}

static void mark_changed(struct registry *registry, struct entry *entry)
{
  unmark_changed(registry, entry);
  entry->change = ++registry->change;
  dlp_tree_insert(&registry->changes, &entry->change, &entry->change_node);
}

static void retire(struct registry *registry, struct tensor *tensor)
{
  tensor->state = TENSOR_RETIRED;
  tensor->flags |= MSG_TENSOR_RETIRED;
  dlp_list_append(&tensor->entry->held, &tensor->link);
  registry->n_retired++;
}

static struct tensor *retire_newest(struct registry *registry, struct entry *entry)
{
  struct tensor *tensor = entry->newest;

  if (!tensor)
    return NULL;
  timer_disarm(registry->timers, &entry->ttl);
  entry->newest = NULL;
  registry->n_live--;
  retire(registry, tensor);
  return tensor;
}

static bool is_superseded(const struct tensor *tensor)
{
  const struct entry *entry = tensor->entry;
  uint64_t newest = entry->newest ? entry->newest->version : entry->deleted_version;

  return tensor->version < newest;
}

struct tensor *registry_publish(struct registry *registry, struct tensor *tensor)
{
  struct entry *entry = tensor->entry;
  struct tensor *replaced;

  assert(tensor->state == TENSOR_STAGED);
  dlp_list_remove(&tensor->link);
  dlp_list_init(&tensor->session_link);
  dlp_list_init(&tensor->leases);
  entry->n_staged--;
  if (is_superseded(tensor)) {
    retire(registry, tensor);
    return tensor;
  }
  unmark_tombstone(registry, entry);
  replaced = retire_newest(registry, entry);
  entry->newest = tensor;
  entry->ttl = (struct timer){0}; /* nothing of a deletion is in its place any more */
  tensor->state = TENSOR_LIVE;
  registry->n_live++;
  mark_changed(registry, entry);
  return replaced;
}

static void bound_tombstones(struct registry *registry)
{
  if (registry->n_tombstones <= REGISTRY_TOMBSTONES_MAX)
    return;
  drop_tombstone(registry, DLP_CONTAINER(registry->tombstones.next, struct entry, tombstone_link));
}

struct tensor *registry_withdraw(struct registry *registry, struct entry *entry)
{
  struct tensor *tensor = retire_newest(registry, entry);

  assert(tensor);
  entry->deleted_version = tensor->version;
  entry->deleted_rule = tensor->rule;
  mark_changed(registry, entry);
  dlp_list_append(&registry->tombstones, &entry->tombstone_link);
  registry->n_tombstones++;
  bound_tombstones(registry);
  return tensor;
}

bool tensor_is_unused(const struct tensor *tensor)
{
  return tensor->state == TENSOR_RETIRED && tensor->n_leases == 0;
}

void tensor_free(struct registry *registry, struct tensor *tensor)
{
  assert(tensor->state != TENSOR_LIVE);
  assert(!tensor->block && tensor->n_leases == 0);
  if (tensor->state == TENSOR_STAGED) {
    tensor->entry->n_staged--;
  } else {
    registry->n_retired--;
    dlp_list_remove(&tensor->session_link);
  }
  dlp_list_remove(&tensor->link);
  quota_charge_deinit(&tensor->charge);
  free(tensor);
}

/* ---- changes ---- */

static struct entry *changed_entry(struct dlp_tree_node *node)
{
  return node ? DLP_CONTAINER(node, struct entry, change_node) : NULL;
}

struct entry *registry_next_change(const struct entry *entry)
{
  return changed_entry(dlp_tree_next(&entry->change_node));
}

struct entry *registry_first_change_after(const struct registry *registry, uint64_t change)
{
  return changed_entry(dlp_tree_after(&registry->changes, &change));
}

bool registry_has_prefix(const char *path, const char *prefix)
{
  return strncmp(path, prefix, strlen(prefix)) == 0;
}
