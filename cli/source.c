#include "source.h"

#include <errno.h>
#include <string.h>

#include "dlclient_dlpack.h"
#include "escape.h"

static struct source_tensor *add_tensor(struct source *source, struct text *name)
{
  struct source_tensor *tensor = &source->tensors[source->n_tensors];

  tensor->name = text_take(name);
  if (!tensor->name)
    return NULL;
  source->n_tensors++;
  tensor->view.device_type = kDLCPU;
  return tensor;
}

static void set_dtype(struct dlc_view *view, struct dtype dtype)
{
  view->dtype_code = dtype.code;
  view->dtype_bits = dtype.bits;
  view->dtype_lanes = dtype.lanes;
}

/* What the library takes is not const; it only reads. */
static void *file_at(const struct source *source, uint64_t offset, uint64_t size)
{
  return size ? (char *)(uintptr_t)source->file.data + offset : NULL;
}

/* The first `size` bytes of the file as a vector. */
static int add_bytes(struct source *source, struct text *name, uint64_t size)
{
  static const struct dtype byte = {kDLUInt, 8, 1};
  struct source_tensor *tensor = add_tensor(source, name);

  if (!tensor)
    return -ENOMEM;
  source->bytes_shape[0] = (int64_t)size;
  tensor->size = size;
  tensor->view.data = file_at(source, 0, size);
  tensor->view.ndim = 1;
  tensor->view.shape = source->bytes_shape;
  set_dtype(&tensor->view, byte);
  return 0;
}

static int open_npy(struct source *source, struct text *name, struct text *reason)
{
  struct source_tensor *tensor;
  struct npy *npy = &source->npy;

  if (npy_parse(source->file.data, source->file.size, npy, reason) != 0)
    return SOURCE_E_FORMAT;
  tensor = add_tensor(source, name);
  if (!tensor)
    return -ENOMEM;
  tensor->size = npy->data_size;
  tensor->view.data = file_at(source, npy->data_offset, npy->data_size);
  tensor->view.ndim = npy->ndim;
  tensor->view.shape = npy->shape;
  set_dtype(&tensor->view, npy->dtype);
  if (npy->fortran_order && npy->ndim > 1) {
    layout_column_major_strides(npy->ndim, npy->shape, source->strides);
    tensor->view.strides = source->strides;
    tensor->keep_layout = true;
  }
  return 0;
}

void source_append_prefix(struct text *text, const char *prefix)
{
  size_t size = strlen(prefix);

  text_append(text, prefix);
  if (size == 0 || prefix[size - 1] != '/')
    text_append(text, "/");
}

static int add_entry(struct source *source, const struct safetensors_tensor *entry,
                     const char *prefix)
{
  cli_auto_text struct text name = {0};
  struct source_tensor *tensor;

  source_append_prefix(&name, prefix);
  escape_name(&name, entry->name);
  tensor = add_tensor(source, &name);
  if (!tensor)
    return -ENOMEM;
  tensor->size = entry->end - entry->begin;
  tensor->view.data = file_at(source, source->safetensors.data_offset + entry->begin, tensor->size);
  tensor->view.ndim = entry->ndim;
  tensor->view.shape = entry->shape;
  set_dtype(&tensor->view, entry->dtype);
  return 0;
}

static int open_safetensors(struct source *source, const char *prefix, struct text *reason)
{
  cli_auto_text struct text header_name = {0};
  struct safetensors *file = &source->safetensors;
  int r;

  r = safetensors_parse(source->file.data, source->file.size, source->file.size, file, reason);
  if (r != 0)
    return r == SAFETENSORS_E_FORMAT ? SOURCE_E_FORMAT : r;
  free(source->tensors);
  source->tensors = calloc(file->n_tensors + 1, sizeof(source->tensors[0]));
  if (!source->tensors)
    return -ENOMEM;
  source_append_prefix(&header_name, prefix);
  text_append(&header_name, SOURCE_HEADER_NAME);
  r = add_bytes(source, &header_name, file->data_offset);
  for (size_t i = 0; r == 0 && i < file->n_tensors; i++)
    r = add_entry(source, &file->tensors[i], prefix);
  return r;
}

static int open_as(struct source *source, enum file_type type, const char *name,
                   struct text *reason)
{
  cli_auto_text struct text copy = {0};

  source->tensors = calloc(1, sizeof(source->tensors[0]));
  if (!source->tensors)
    return -ENOMEM;
  text_append(&copy, name);
  if (type == FILE_TYPE_NPY)
    return open_npy(source, &copy, reason);
  if (type == FILE_TYPE_SAFETENSORS)
    return open_safetensors(source, name, reason);
  return add_bytes(source, &copy, source->file.size);
}

int source_open(struct source *source, const char *path, enum file_type type, const char *name,
                struct text *reason)
{
  int r;

  memset(source, 0, sizeof(*source));
  r = file_in_open(&source->file, path);
  if (r < 0)
    return r;
  r = open_as(source, file_type_of(path, type), name, reason);
  if (r != 0)
    source_close(source);
  return r;
}

void source_close(struct source *source)
{
  for (size_t i = 0; i < source->n_tensors; i++)
    free(source->tensors[i].name);
  free(source->tensors);
  safetensors_deinit(&source->safetensors);
  file_in_close(&source->file);
  memset(source, 0, sizeof(*source));
}
