/*
 * What lies below a prefix -> one .safetensors file, as of one instant.
 *
 * If it was put from such a file and still has what the kept header says, the header is
 * written as it was, and the file is the same, byte for byte. Otherwise a header is made;
 * the __metadata__ of a kept one goes into it.
 */

#include <errno.h>
#include <string.h>

#include "cmd_get.h"
#include "escape.h"
#include "safetensors.h"
#include "sink.h"
#include "source.h"

/* The tensors that were got, and the file they are to become. */
struct collection {
  const struct getting *getting;
  DLManagedTensorVersioned **tensors; /* in the order of their names' bytes */
  size_t n_tensors;
  const DLManagedTensorVersioned *header; /* the kept one; NULL if there is none */
  struct safetensors file;                /* index: into `tensors` */
  struct text bytes;                      /* a header of our making; empty if it is the kept one */
};

static void collection_deinit(struct collection *collection)
{
  dlc_tensors_free(collection->tensors, collection->n_tensors);
  safetensors_deinit(&collection->file);
  text_deinit(&collection->bytes);
}

static const char *name_of(const DLManagedTensorVersioned *managed)
{
  const struct dlc_info *info = dlc_tensor_info(managed);

  return info ? info->name : "";
}

/* What comes after the prefix that was asked for, which the library may have written with a
 * number for a user's name, or without our own. A single tensor keeps its last component. */
static const char *suffix_of(const struct collection *collection,
                             const DLManagedTensorVersioned *managed)
{
  const char *asked = collection->getting->name;
  const char *at = name_of(managed);
  const char *slash;
  bool skip_owner = asked[0] == '~' && at[0] != '~';

  if (strcmp(asked, "/") == 0)
    return at;
  for (; *asked; asked++) {
    /* Each component that was asked for, the last one too, takes one away. */
    if (*asked != '/' && asked[1] != '\0')
      continue;
    slash = skip_owner ? NULL : strchr(at, '/');
    at = slash ? slash + 1 : at;
    skip_owner = false;
  }
  return at;
}

static int compare_suffix(const struct collection *collection, const char *suffix, size_t index)
{
  return strcmp(suffix, suffix_of(collection, collection->tensors[index]));
}

/* Return: the index, or n_tensors. */
static size_t find_suffix(const struct collection *collection, const char *suffix)
{
  size_t low = 0;
  size_t high = collection->n_tensors;

  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = compare_suffix(collection, suffix, middle);

    if (order == 0)
      return middle;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return collection->n_tensors;
}

/* One tensor under exactly that name, as a list of one. */
static int collect_one(struct collection *collection, struct dlc_client *client,
                       const struct dlc_get_options *options, struct dlc_error *reterr)
{
  const char *name = collection->getting->name;

  return dlc_get_many(client, &name, 1, options, &collection->tensors, &collection->n_tensors,
                      reterr);
}

static int collect(struct collection *collection, struct dlc_client *client,
                   struct dlc_error *reterr)
{
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  cli_auto_text struct text prefix = {0};
  const char *string;
  size_t length = strlen(collection->getting->name);
  int r;

  options.version = collection->getting->version;
  text_printf(&prefix, "%s%s", collection->getting->name,
              length && collection->getting->name[length - 1] == '/' ? "" : "/");
  string = text_string(&prefix);
  r = dlc_get_many(client, &string, 0, &options, &collection->tensors, &collection->n_tensors,
                   reterr);
  if (r == -DLC_E_NOT_FOUND || (r == 0 && collection->n_tensors == 0))
    r = collect_one(collection, client, &options, reterr);
  return r;
}

/* Is this tensor what the header's entry describes? */
static bool matches(const struct safetensors_tensor *entry, const DLManagedTensorVersioned *managed)
{
  const DLTensor *tensor = &managed->dl_tensor;

  return dtype_equal(entry->dtype, sink_dtype(tensor)) && !sink_is_padded(managed) &&
         entry->ndim == tensor->ndim &&
         (tensor->ndim == 0 ||
          memcmp(entry->shape, tensor->shape, (size_t)tensor->ndim * sizeof(entry->shape[0])) == 0);
}

/* Return: 0, or 1 if something that the header names is missing or has changed. */
static int match_header(struct collection *collection)
{
  for (size_t i = 0; i < collection->file.n_tensors; i++) {
    struct safetensors_tensor *entry = &collection->file.tensors[i];
    cli_auto_text struct text suffix = {0};

    escape_name(&suffix, entry->name);
    entry->index = find_suffix(collection, text_string(&suffix));
    if (entry->index == collection->n_tensors || !matches(entry, collection->tensors[entry->index]))
      return 1;
  }
  return 0;
}

static void note_left_out(const struct collection *collection)
{
  size_t n_used = collection->file.n_tensors + 1;

  if (n_used < collection->n_tensors)
    cmd_warn(collection->getting->context,
             "%zu more below '%s' did not come from the file it was put from, and are left out",
             collection->n_tensors - n_used, collection->getting->name);
}

/* Return: 0, 1 if there is no kept header that describes what is there, or -ENOMEM. */
static int use_kept_header(struct collection *collection)
{
  cli_auto_text struct text reason = {0};
  size_t index = find_suffix(collection, SOURCE_HEADER_NAME);
  const DLTensor *tensor;
  int r;

  if (index == collection->n_tensors)
    return 1;
  collection->header = collection->tensors[index];
  tensor = &collection->header->dl_tensor;
  r = tensor->ndim == 1 ? safetensors_parse((const char *)tensor->data + tensor->byte_offset,
                                            sink_size(collection->header), SAFETENSORS_SIZE_UNKNOWN,
                                            &collection->file, &reason)
                        : SAFETENSORS_E_FORMAT;
  if (r == -ENOMEM)
    return r;
  if (r == 0 && collection->file.data_offset == sink_size(collection->header) &&
      match_header(collection) == 0) {
    note_left_out(collection);
    return 0;
  }
  cmd_warn(collection->getting->context,
           "what is below '%s' is not what was put from a file any more; making a new header",
           collection->getting->name);
  return 1;
}

/* The name in the file: the inverse of how `put` names it, for what `put` could have named. */
static char *file_name(const char *suffix)
{
  cli_auto_text struct text plain = {0};
  cli_auto_text struct text again = {0};

  if (escape_name_undo(&plain, suffix) == 0) {
    escape_name(&again, text_string(&plain));
    if (strcmp(text_string(&again), suffix) == 0)
      return text_take(&plain);
  }
  return strdup(suffix);
}

static int describe_tensor(struct collection *collection, size_t index)
{
  const struct getting *getting = collection->getting;
  const DLManagedTensorVersioned *managed = collection->tensors[index];
  const DLTensor *tensor = &managed->dl_tensor;
  struct safetensors_tensor *entry = &collection->file.tensors[collection->file.n_tensors];
  char dtype[48];

  entry->dtype = sink_dtype(tensor);
  if (!dtype_to_safetensors(entry->dtype) || sink_is_padded(managed)) {
    (void)dlc_dtype_name(entry->dtype.code, entry->dtype.bits, entry->dtype.lanes, dtype,
                         sizeof(dtype));
    return cmd_fail(getting->context,
                    "'%s' is %s%s, which .safetensors has no name for; write its bytes with --raw",
                    name_of(managed), sink_is_padded(managed) ? "padded " : "", dtype);
  }
  entry->name = file_name(suffix_of(collection, managed));
  if (!entry->name)
    return cmd_fail_memory(getting->context);
  entry->ndim = tensor->ndim;
  for (int32_t i = 0; i < tensor->ndim; i++)
    entry->shape[i] = tensor->shape[i];
  entry->index = index;
  collection->file.n_tensors++;
  return CMD_DONE;
}

/* Return: an exit code. */
static int make_header(struct collection *collection)
{
  const struct getting *getting = collection->getting;
  cli_auto_free char *metadata = collection->file.metadata;
  cli_auto_text struct text reason = {0};
  int r;

  collection->file.metadata = NULL;
  safetensors_deinit(&collection->file);
  collection->file.tensors = calloc(collection->n_tensors + 1, sizeof(collection->file.tensors[0]));
  if (!collection->file.tensors)
    return cmd_fail_memory(getting->context);
  for (size_t i = 0; i < collection->n_tensors; i++) {
    if (collection->tensors[i] == collection->header)
      continue;
    r = describe_tensor(collection, i);
    if (r != CMD_DONE)
      return r;
  }
  r = safetensors_format(&collection->bytes, collection->file.tensors, collection->file.n_tensors,
                         metadata, &reason);
  if (r == SAFETENSORS_E_FORMAT)
    return cmd_fail(getting->context, "'%s': %s", getting->name, text_string(&reason));
  return r < 0 ? cmd_fail_memory(getting->context) : CMD_DONE;
}

static int write_header(const struct collection *collection, struct file_out *file,
                        struct progress *progress)
{
  if (collection->bytes.size > 0)
    return file_out_write(file, collection->bytes.data, collection->bytes.size);
  return sink_write(file, collection->header, progress);
}

static int write_parts(const struct collection *collection, struct file_out *file,
                       struct progress *progress)
{
  int r = write_header(collection, file, progress);

  for (size_t i = 0; r == 0 && i < collection->file.n_tensors; i++)
    r = sink_write(file, collection->tensors[collection->file.tensors[i].index], progress);
  return r;
}

static uint64_t total_size(const struct collection *collection)
{
  uint64_t total = 0;

  for (size_t i = 0; i < collection->n_tensors; i++)
    total += sink_size(collection->tensors[i]);
  return total;
}

static int write_file(const struct collection *collection)
{
  const struct getting *getting = collection->getting;
  cli_auto_text struct text label = {0};
  cli_cleanup_(progress_deinit) struct progress progress = {0};
  cli_cleanup_(file_out_close) struct file_out file = {.fd = -1};
  int r = file_out_open(&file, getting->path);

  if (r < 0)
    return get_fail_write(getting, r);
  text_append(&label, "get ");
  escape_terminal(&label, getting->name);
  progress_init(&progress, text_string(&label), total_size(collection));
  r = write_parts(collection, &file, &progress);
  if (r == 0)
    r = file_out_commit(&file);
  progress_deinit(&progress);
  return r < 0 ? get_fail_write(getting, r) : CMD_DONE;
}

int get_safetensors(const struct getting *getting, struct dlc_client *client)
{
  cli_cleanup_(collection_deinit) struct collection collection = {.getting = getting};
  struct dlc_error error = {0};
  int r = collect(&collection, client, &error);

  if (r < 0)
    return cmd_fail_library(getting->context, getting->name, &error);
  r = use_kept_header(&collection);
  if (r < 0)
    return cmd_fail_memory(getting->context);
  if (r > 0) {
    r = make_header(&collection);
    if (r != CMD_DONE)
      return r;
  }
  return write_file(&collection);
}
