#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/copy.h"
#include "client/error.h"
#include "client/fork.h"
#include "client/generation_private.h"
#include "client/managed.h"
#include "client/owner.h"
#include "client/publish_options.h"

/* Up to this size a tensor waits in the heap for others, up to so many bytes of them. */
#define STAGED_TENSOR_MAX (UINT64_C(64) << 10)
#define STAGED_BYTES_MAX (UINT64_C(1) << 20)

struct entry_key {
  uint32_t owner;
  const char *path;
};

static int entry_compare(const void *key, const struct dlp_tree_node *node)
{
  const struct entry_key *a = (const struct entry_key *)key;
  const struct msg_name *b = &DLP_CONTAINER(node, struct dlc__entry, node)->add.name;

  if (a->owner != b->owner)
    return a->owner < b->owner ? -1 : 1;
  return strcmp(a->path, b->path);
}

/* ---- begin and free ---- */

/* A session's keys must differ, and not those of a session before it either. */
static bool generation_key(uint64_t *ret)
{
  static atomic_ullong next;
  unsigned long long none = 0, first;

  if (atomic_load_explicit(&next, memory_order_relaxed) == 0) {
    if (getrandom(&first, sizeof(first), 0) != sizeof(first))
      return false;
    (void)atomic_compare_exchange_strong(&next, &none, first | 1);
  }
  *ret = atomic_fetch_add_explicit(&next, 2, memory_order_relaxed);
  return true;
}

int dlc__generation_new(struct dlc_client *client, const struct dlc_publish_options *options,
                        struct dlc_generation **ret, struct dlc_error *reterr)
{
  struct dlc_generation *generation = (struct dlc_generation *)calloc(1, sizeof(*generation));

  if (!generation)
    return dlc__error_no_memory(reterr);
  if (!generation_key(&generation->key)) {
    int error = -errno;

    free(generation);
    return dlc__error_system(reterr, error, "get random bytes");
  }
  generation->client = dlc__client_ref(client);
  generation->options = *options;
  generation->ttl_ms = options->ttl_ms;
  dlp_list_init(&generation->entries);
  dlp_list_init(&generation->staged);
  dlp_tree_init(&generation->names, entry_compare, generation->key);
  *ret = generation;
  return 0;
}

static void entry_free(struct dlc__entry *entry)
{
  dlp_list_remove(&entry->link);
  dlp_list_remove(&entry->staged_link);
  if (entry->block) {
    int expected = DLC__BLOCK_ADDED;

    (void)atomic_compare_exchange_strong(&entry->block->state, &expected, DLC__BLOCK_OURS);
    dlc__block_unref(entry->block);
  }
  if (entry->hold)
    dlc__hold_unref(entry->hold);
  free(entry->staged);
  free(entry);
}

void dlc_generation_free(struct dlc_generation *generation)
{
  struct dlc_client *client;
  bool is_child;

  if (!generation)
    return;
  client = generation->client;
  is_child = dlc__fork_is_child(client->fork_generation);
  if (!is_child)
    dlc__transport_cork(client->transport);
  dlp_list_for_each (at, &generation->entries)
    entry_free(DLP_CONTAINER(at, struct dlc__entry, link));
  if (!is_child)
    dlc__transport_uncork(client->transport);
  free(generation);
  dlc__client_unref(client);
}

/* ---- entries ---- */

/* What of the options is for this tensor, and the dimensions it gets. */
struct entry_parts {
  const struct dlc__name *name;
  const struct msg_spec *spec;
  const struct dlc_publish_options *options;
  bool keep_strides;
};

struct entry_room {
  size_t dims;
  size_t attributes;
  size_t texts;
};

static struct entry_room entry_measure(const struct entry_parts *parts)
{
  struct entry_room room = {
      .dims = 2 * parts->spec->ndim * sizeof(int64_t),
      .attributes = parts->options->n_attributes * sizeof(struct msg_attribute),
      .texts = strlen(parts->name->path) + 1,
  };

  for (size_t i = 0; i < parts->options->n_attributes; i++)
    room.texts +=
        strlen(parts->options->attributes[i].key) + strlen(parts->options->attributes[i].value) + 2;
  return room;
}

static const char *entry_text(char **at, const char *text)
{
  char *copy = *at;
  size_t size = strlen(text) + 1;

  memcpy(copy, text, size);
  *at += size;
  return copy;
}

static void entry_set_spec(struct dlc__entry *entry, int64_t *dims, const struct entry_parts *parts)
{
  const struct msg_spec *spec = parts->spec;

  entry->add.spec = *spec;
  entry->add.spec.shape = dims;
  entry->add.spec.strides = NULL;
  if (spec->ndim == 0)
    return;
  memcpy(dims, spec->shape, spec->ndim * sizeof(*dims));
  if (!parts->keep_strides || !spec->strides)
    return;
  memcpy(dims + spec->ndim, spec->strides, spec->ndim * sizeof(*dims));
  entry->add.spec.strides = dims + spec->ndim;
}

static struct dlc__entry *entry_new(const struct entry_parts *parts)
{
  const struct dlc_publish_options *options = parts->options;
  struct entry_room room = entry_measure(parts);
  struct dlc__entry *entry =
      (struct dlc__entry *)calloc(1, sizeof(*entry) + room.dims + room.attributes + room.texts);
  struct msg_attribute *attributes;
  char *texts;

  if (!entry)
    return NULL;
  attributes = (struct msg_attribute *)((char *)(entry + 1) + room.dims);
  texts = (char *)attributes + room.attributes;
  dlp_list_init(&entry->link);
  dlp_list_init(&entry->staged_link);
  entry_set_spec(entry, (int64_t *)(entry + 1), parts);
  entry->add.name.owner = parts->name->name.owner;
  entry->add.name.path = entry_text(&texts, parts->name->path);
  entry->add.has_expected = (options->flags & DLC_IF_NEWEST) != 0;
  entry->add.expected = options->expected;
  entry->add.n_attributes = options->n_attributes;
  entry->add.attributes = attributes;
  for (size_t i = 0; i < options->n_attributes; i++) {
    attributes[i].key = entry_text(&texts, options->attributes[i].key);
    attributes[i].value = entry_text(&texts, options->attributes[i].value);
  }
  return entry;
}

/* A frozen tensor without a byte has nothing to freeze. */
void dlc__entry_set_place(struct dlc__entry *entry, struct dlc__block *block, uint64_t size,
                          uint64_t first)
{
  entry->block = block;
  entry->add.place = block->place;
  entry->add.place.size = size;
  entry->add.place.first = first;
  entry->add.freeze = block->domain.is_frozen;
}

/* The generation owns the entry from here on. */
static void generation_insert(struct dlc_generation *generation, struct dlc__entry *entry)
{
  struct entry_key key = {entry->add.name.owner, entry->add.name.path};

  dlp_tree_insert(&generation->names, &key, &entry->node);
  dlp_list_append(&generation->entries, &entry->link);
}

static void generation_remove(struct dlc_generation *generation, struct dlc__entry *entry)
{
  dlp_tree_remove(&generation->names, &entry->node);
  entry_free(entry);
}

static int generation_check_open(const struct dlc_generation *generation, struct dlc_error *reterr)
{
  if (!generation)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "the generation is NULL");
  if (generation->over)
    return dlc__error_set(reterr, DLC_E_INVALID, 0,
                          "the generation was committed, or its commit failed; begin a new one");
  return dlc__client_check(generation->client, reterr);
}

static int generation_resolve(const struct dlc_generation *generation, const char *name,
                              struct dlc__name *ret, struct dlc_error *reterr)
{
  struct entry_key key;
  int r = dlc__name_resolve(generation->client, name, ret, reterr);

  if (r < 0)
    return r;
  key = (struct entry_key){ret->name.owner, ret->path};
  if (dlp_tree_find(&generation->names, &key))
    return dlc__error_set(reterr, DLC_E_EXISTS, 0, "the generation has this name already");
  return 0;
}

/* Places of another session mean nothing to this one. */
int dlc__generation_join_epoch(struct dlc_generation *generation, uint64_t epoch,
                               struct dlc_error *reterr)
{
  if (generation->epoch == 0)
    generation->epoch = epoch;
  if (generation->epoch == epoch)
    return 0;
  return dlc__error_set(reterr, DLC_E_DISCONNECTED, 0,
                        "the daemon was started anew meanwhile: memory that it had given before "
                        "is gone, and with it what was added to this generation");
}

/* ---- add a copy ---- */

/* What is written: all of it compactly, or the bytes between first and last. */
struct image {
  const uint8_t *bytes; /* as they lie in the source; NULL: they have to be gathered */
  uint64_t size;
  uint64_t first; /* where element zero is in it */
};

static struct image image_of(const struct dlc__source *source, bool keep_layout)
{
  const struct tensor_extent *extent = &source->extent;
  struct image image = {.size = source->compact_size};

  if (extent->low == extent->high)
    return (struct image){.size = 0};
  if (keep_layout) {
    image.bytes = source->zero + extent->low;
    image.size = (uint64_t)extent->high - (uint64_t)extent->low;
    image.first = -(uint64_t)extent->low;
  } else if (tensor_spec_is_compact(&source->spec)) {
    image.bytes = source->zero;
  }
  return image;
}

static int image_write(const struct image *image, const struct dlc__source *source,
                       struct dlc__block *block, struct dlc_error *reterr)
{
  uint8_t *start;
  int r;

  if (image->size == 0)
    return 0;
  if (image->bytes)
    return dlc__block_write(block, image->bytes, image->size, reterr);
  r = dlc__block_map(block, &start, reterr);
  if (r < 0)
    return r;
  dlc__copy_compact(start, source);
  /* A segment that we map for writing cannot be frozen; and nobody writes to it again. */
  dlc__block_unmap(block);
  return 0;
}

static int add_copy_staged(struct dlc_generation *generation, struct dlc__entry *entry,
                           const struct dlc__source *source, const struct image *image,
                           struct dlc_error *reterr)
{
  entry->staged = (uint8_t *)malloc(image->size > 0 ? image->size : 1);
  if (!entry->staged)
    return dlc__error_no_memory(reterr);
  if (image->bytes)
    memcpy(entry->staged, image->bytes, image->size);
  else
    dlc__copy_compact(entry->staged, source);
  entry->add.place.size = image->size;
  entry->add.place.first = image->first;
  entry->may_be_inline = generation->options.backend == DLC_BACKEND_DEFAULT;
  dlp_list_append(&generation->staged, &entry->staged_link);
  generation->n_staged++;
  generation->staged_bytes += image->size;
  return 0;
}

static int add_copy_direct(struct dlc_generation *generation, struct dlc__entry *entry,
                           const struct dlc__source *source, const struct image *image,
                           struct dlc_error *reterr)
{
  struct msg_block wanted = {entry->wanted, dlc__block_flags(&entry->domain, false)};
  struct dlc__block *block;
  int r = dlc__blocks_allocate(generation->client, &entry->domain, &wanted, 1, &block, reterr);

  if (r < 0)
    return r;
  r = dlc__generation_join_epoch(generation, block->epoch, reterr);
  if (r == 0)
    r = image_write(image, source, block, reterr);
  if (r < 0) {
    dlc__block_unref(block);
    return r;
  }
  atomic_store(&block->state, DLC__BLOCK_ADDED);
  dlc__entry_set_place(entry, block, image->size, image->first);
  return 0;
}

static bool generation_is_full(const struct dlc_generation *generation)
{
  return generation->n_staged >= DLC__BLOCKS_MAX || generation->staged_bytes >= STAGED_BYTES_MAX;
}

int dlc__generation_add_copy(struct dlc_generation *generation, const char *name,
                             const struct dlc__source *source,
                             const struct dlc_publish_options *options, struct dlc_error *reterr)
{
  bool keep_layout = (options->flags & DLC_KEEP_LAYOUT) != 0;
  struct image image = image_of(source, keep_layout);
  struct dlc__name resolved;
  struct dlc__entry *entry;
  int r = generation_resolve(generation, name, &resolved, reterr);

  if (r < 0)
    return r;
  entry = entry_new(&(struct entry_parts){&resolved, &source->spec, options, keep_layout});
  if (!entry)
    return dlc__error_no_memory(reterr);
  entry->domain = dlc__publish_domain(&generation->options, resolved.name.owner);
  entry->wanted = image.size > 0 ? image.size : 1; /* a block of nothing would have no place */
  if (image.size <= STAGED_TENSOR_MAX && !entry->domain.is_frozen && !entry->domain.is_mutable)
    r = add_copy_staged(generation, entry, source, &image, reterr);
  else
    r = add_copy_direct(generation, entry, source, &image, reterr);
  if (r < 0) {
    entry_free(entry);
    return r;
  }
  generation_insert(generation, entry);
  if (!generation_is_full(generation))
    return 0;
  r = dlc__generation_flush(generation, reterr);
  if (r < 0)
    generation_remove(generation, entry);
  return r;
}

/* ---- add in place ---- */

static int add_claim_block(const struct dlc_generation *generation, const struct dlc__hold *hold,
                           struct dlc_error *reterr)
{
  int expected = DLC__BLOCK_OURS;

  if (!hold)
    return dlc__error_set(reterr, DLC_E_INVALID, 0,
                          "the tensor is not from dlc_alloc(); use dlc_put() to publish a copy");
  if (!hold->block)
    return dlc__error_set(reterr, DLC_E_PUBLISHED, 0,
                          "the tensor was got, and so is published already: fill a new one from "
                          "dlc_alloc()");
  if (hold->client != generation->client)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "the tensor was allocated by another client");
  if (!atomic_compare_exchange_strong(&hold->block->state, &expected, DLC__BLOCK_ADDED))
    return dlc__error_set(reterr, DLC_E_PUBLISHED, 0,
                          "the tensor is published already, or was added to a generation: fill a "
                          "new one from dlc_alloc()");
  return 0;
}

static int add_check_owner(const struct dlc_generation *generation, const struct dlc__hold *hold,
                           const struct dlc__name *name, struct dlc_error *reterr)
{
  uint32_t own_uid = dlc__client_uid(generation->client);
  uint32_t wanted = name->name.owner == MSG_OWNER_SELF ? own_uid : name->name.owner;

  if (hold->block->domain.owner == MSG_OWNER_SELF ? wanted == own_uid
                                                  : wanted == hold->block->domain.owner)
    return 0;
  return dlc__error_set(reterr, DLC_E_UNSUPPORTED, 0,
                        "memory from dlc_alloc() is for names of this user; use dlc_put() for "
                        "somebody else's");
}

static int add_in_place(struct dlc_generation *generation, const struct dlc__name *name,
                        struct dlc__hold *hold, const struct dlc_publish_options *options,
                        struct dlc_error *reterr)
{
  struct dlc__entry *entry;
  uint64_t size = 0;
  int r = add_check_owner(generation, hold, name, reterr);

  if (r == 0)
    r = dlc__generation_join_epoch(generation, hold->block->epoch, reterr);
  if (r < 0)
    return r;
  entry = entry_new(&(struct entry_parts){name, &hold->spec, options, false});
  if (!entry)
    return dlc__error_no_memory(reterr);
  (void)tensor_spec_compact_size(&hold->spec, &size);
  entry->domain = hold->block->domain;
  dlc__block_ref(hold->block);
  dlc__entry_set_place(entry, hold->block, size, 0);
  entry->hold = dlc__hold_ref(hold);
  entry->add.keep = hold->block->mapping != NULL;
  if (generation->ttl_ms == 0)
    generation->ttl_ms = options->ttl_ms != 0 ? options->ttl_ms : hold->block->ttl_ms;
  generation_insert(generation, entry);
  return 0;
}

int dlc__generation_add(struct dlc_generation *generation, const char *name,
                        DLManagedTensorVersioned *tensor, const struct dlc_publish_options *options,
                        struct dlc_error *reterr)
{
  struct dlc__hold *hold = dlc__managed_hold(tensor);
  struct dlc__name resolved;
  int r = generation_resolve(generation, name, &resolved, reterr);

  if (r < 0)
    return r;
  r = add_claim_block(generation, hold, reterr);
  if (r < 0)
    return r;
  r = add_in_place(generation, &resolved, hold, options, reterr);
  if (r < 0)
    atomic_store(&hold->block->state, DLC__BLOCK_OURS);
  return r;
}

/* ---- the public functions ---- */

int dlc_begin(struct dlc_client *client, const struct dlc_publish_options *options,
              struct dlc_generation **ret_generation, struct dlc_error *reterr)
{
  struct dlc_publish_options wanted;
  int r = dlc__client_check(client, reterr);

  if (r < 0)
    return r;
  if (!ret_generation)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "ret_generation is NULL");
  r = dlc__publish_options_read(options, &wanted, reterr);
  return r < 0 ? r : dlc__generation_new(client, &wanted, ret_generation, reterr);
}

int dlc_add_copy(struct dlc_generation *generation, const char *name, const struct dlc_view *tensor,
                 const struct dlc_publish_options *options, struct dlc_error *reterr)
{
  struct dlc_publish_options wanted;
  struct dlc__source source;
  int r = generation_check_open(generation, reterr);

  if (r < 0)
    return r;
  r = dlc__publish_options_read(options, &wanted, reterr);
  if (r < 0)
    return r;
  r = dlc__import_view(tensor, 0, &source, reterr);
  return r < 0 ? r : dlc__generation_add_copy(generation, name, &source, &wanted, reterr);
}

int dlc_add(struct dlc_generation *generation, const char *name,
            struct DLManagedTensorVersioned *tensor, const struct dlc_publish_options *options,
            struct dlc_error *reterr)
{
  struct dlc_publish_options wanted;
  int r = generation_check_open(generation, reterr);

  if (r < 0)
    return r;
  r = dlc__publish_options_read(options, &wanted, reterr);
  return r < 0 ? r : dlc__generation_add(generation, name, tensor, &wanted, reterr);
}

int dlc_commit(struct dlc_generation *generation, uint64_t *ret_version, struct dlc_error *reterr)
{
  int r = generation_check_open(generation, reterr);

  if (r < 0)
    return r;
  if (dlp_list_empty(&generation->entries))
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "nothing was added to the generation");
  generation->over = true;
  return dlc__generation_commit(generation, ret_version, reterr);
}
