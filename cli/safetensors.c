#include "safetensors.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

enum {
  LENGTH_SIZE = 8,
  HEADER_MAX = 100000000, /* as in the format's own library */
};

/* The one key that is no tensor. */
#define METADATA "__metadata__"

static inline void json_decrefp_(json_t **json)
{
  json_decref(*json);
}

#define auto_json cli_cleanup_(json_decrefp_)

void safetensors_deinit(struct safetensors *file)
{
  for (size_t i = 0; i < file->n_tensors; i++)
    free(file->tensors[i].name);
  free(file->tensors);
  free(file->metadata);
  *file = (struct safetensors){0};
}

__attribute__((format(printf, 2, 3))) static int refuse(struct text *reason, const char *format,
                                                        ...);

static int refuse(struct text *reason, const char *format, ...)
{
  va_list arguments;

  va_start(arguments, format);
  text_vprintf(reason, format, arguments);
  va_end(arguments);
  return SAFETENSORS_E_FORMAT;
}

bool safetensors_tensor_size(const struct safetensors_tensor *tensor, uint64_t *ret)
{
  uint64_t n_elements;
  uint64_t bits;

  if (layout_check_shape(tensor->ndim, tensor->shape, &n_elements) != 0 ||
      __builtin_mul_overflow(n_elements, dtype_element_bits(tensor->dtype, false), &bits) ||
      bits % 8 != 0)
    return false;
  *ret = bits / 8;
  return true;
}

static int parse_shape(struct safetensors_tensor *tensor, const json_t *shape, struct text *reason)
{
  if (!json_is_array(shape))
    return refuse(reason, "tensor '%s' has no shape", tensor->name);
  if (json_array_size(shape) > LAYOUT_NDIM_MAX)
    return refuse(reason, "tensor '%s' has %zu dimensions; %d is the limit", tensor->name,
                  json_array_size(shape), LAYOUT_NDIM_MAX);
  for (size_t i = 0; i < json_array_size(shape); i++) {
    const json_t *dim = json_array_get(shape, i);

    if (!json_is_integer(dim) || json_integer_value(dim) < 0)
      return refuse(reason, "tensor '%s': dimension %zu is not a number of 0 or more", tensor->name,
                    i);
    tensor->shape[tensor->ndim++] = json_integer_value(dim);
  }
  return 0;
}

static int parse_offsets(struct safetensors_tensor *tensor, const json_t *offsets,
                         uint64_t data_size, struct text *reason)
{
  const json_t *begin = json_array_get(offsets, 0);
  const json_t *end = json_array_get(offsets, 1);

  if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
      json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
    return refuse(reason, "tensor '%s': data_offsets are not a begin and an end", tensor->name);
  tensor->begin = (uint64_t)json_integer_value(begin);
  tensor->end = (uint64_t)json_integer_value(end);
  if (tensor->end > data_size)
    return refuse(reason, "tensor '%s' ends at byte %" PRIu64 " of the data; the file has %" PRIu64,
                  tensor->name, tensor->end, data_size);
  return 0;
}

static int parse_tensor(struct safetensors_tensor *tensor, const json_t *entry, uint64_t data_size,
                        struct text *reason)
{
  const char *dtype = json_string_value(json_object_get(entry, "dtype"));
  uint64_t size;
  int r;

  if (!json_is_object(entry) || !dtype)
    return refuse(reason, "tensor '%s' has no dtype", tensor->name);
  if (!dtype_from_safetensors(dtype, &tensor->dtype))
    return refuse(reason, "tensor '%s': dtype '%.32s' is not known", tensor->name, dtype);
  r = parse_shape(tensor, json_object_get(entry, "shape"), reason);
  if (r == 0)
    r = parse_offsets(tensor, json_object_get(entry, "data_offsets"), data_size, reason);
  if (r != 0)
    return r;
  if (!safetensors_tensor_size(tensor, &size))
    return refuse(reason,
                  "tensor '%s': its shape does not come to a whole number of bytes that "
                  "can be counted",
                  tensor->name);
  if (size != tensor->end - tensor->begin)
    return refuse(reason,
                  "tensor '%s': dtype and shape need %" PRIu64 " bytes, data_offsets give %" PRIu64,
                  tensor->name, size, tensor->end - tensor->begin);
  return 0;
}

static int parse_metadata(struct safetensors *file, const json_t *metadata, struct text *reason)
{
  const char *key;
  json_t *value;

  if (!json_is_object(metadata))
    return refuse(reason, "__metadata__ is not an object of strings");
  json_object_foreach((json_t *)metadata, key, value)
  {
    if (!json_is_string(value))
      return refuse(reason, "__metadata__: the value of '%.64s' is not a string", key);
  }
  file->metadata = json_dumps(metadata, JSON_COMPACT);
  return file->metadata ? 0 : -ENOMEM;
}

static int parse_entries(struct safetensors *file, const json_t *root, struct text *reason)
{
  const char *key;
  json_t *entry;
  int r = 0;

  file->tensors = calloc(json_object_size(root) + 1, sizeof(file->tensors[0]));
  if (!file->tensors)
    return -ENOMEM;
  json_object_foreach((json_t *)root, key, entry)
  {
    struct safetensors_tensor *tensor = &file->tensors[file->n_tensors];

    if (strcmp(key, METADATA) == 0) {
      r = parse_metadata(file, entry, reason);
    } else {
      tensor->name = strdup(key);
      if (!tensor->name)
        return -ENOMEM;
      file->n_tensors++;
      r = parse_tensor(tensor, entry, file->data_size, reason);
    }
    if (r != 0)
      return r;
  }
  return 0;
}

static int compare_ranges(const void *a, const void *b)
{
  const struct safetensors_tensor *x = a;
  const struct safetensors_tensor *y = b;

  if (x->begin != y->begin)
    return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

static int check_ranges(struct safetensors *file, bool size_known, struct text *reason)
{
  uint64_t at = 0;

  qsort(file->tensors, file->n_tensors, sizeof(file->tensors[0]), compare_ranges);
  for (size_t i = 0; i < file->n_tensors; i++) {
    const struct safetensors_tensor *tensor = &file->tensors[i];

    if (tensor->begin < at)
      return refuse(reason, "tensors '%s' and '%s' overlap", file->tensors[i - 1].name,
                    tensor->name);
    if (tensor->begin > at)
      return refuse(reason, "a hole of %" PRIu64 " bytes lies before tensor '%s'",
                    tensor->begin - at, tensor->name);
    at = tensor->end;
  }
  if (!size_known)
    file->data_size = at;
  if (at != file->data_size)
    return refuse(reason, "%" PRIu64 " bytes of data belong to no tensor", file->data_size - at);
  return 0;
}

static int find_header(const uint8_t *bytes, size_t size, uint64_t file_size, uint64_t *ret,
                       struct text *reason)
{
  uint64_t length = 0;

  if (size < LENGTH_SIZE || file_size < LENGTH_SIZE)
    return refuse(reason, "not a .safetensors file: it is shorter than 8 bytes");
  for (unsigned i = LENGTH_SIZE; i > 0; i--)
    length = length << 8 | bytes[i - 1];
  if (length > HEADER_MAX)
    return refuse(reason,
                  "not a .safetensors file: the header claims %" PRIu64 " bytes; %d is the limit",
                  length, HEADER_MAX);
  if (length > file_size - LENGTH_SIZE || length > size - LENGTH_SIZE)
    return refuse(reason, "the header claims %" PRIu64 " bytes, the file has %" PRIu64, length,
                  file_size - LENGTH_SIZE);
  if (length == 0 || bytes[LENGTH_SIZE] != '{')
    return refuse(reason, "not a .safetensors file: the header does not begin with '{'");
  *ret = length;
  return 0;
}

int safetensors_parse(const void *header, size_t size, uint64_t file_size, struct safetensors *ret,
                      struct text *reason)
{
  cli_cleanup_(safetensors_deinit) struct safetensors file = {0};
  auto_json json_t *root = NULL;
  json_error_t error;
  uint64_t length = 0;
  int r;

  r = find_header(header, size, file_size, &length, reason);
  if (r != 0)
    return r;
  root = json_loadb((const char *)header + LENGTH_SIZE, length, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    return refuse(reason, "the header is not JSON: %s", error.text);
  if (!json_is_object(root))
    return refuse(reason, "the header is not a JSON object");
  file.data_offset = LENGTH_SIZE + length;
  file.data_size = file_size - file.data_offset;
  r = parse_entries(&file, root, reason);
  if (r == 0)
    r = check_ranges(&file, file_size != SAFETENSORS_SIZE_UNKNOWN, reason);
  if (r != 0)
    return r;
  *ret = file;
  file = (struct safetensors){0};
  return 0;
}

/* Widest type first, so that every tensor is aligned; then by name. */
static int compare_for_file(const void *a, const void *b)
{
  const struct safetensors_tensor *x = a;
  const struct safetensors_tensor *y = b;

  if (x->dtype.bits != y->dtype.bits)
    return x->dtype.bits > y->dtype.bits ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int assign_ranges(struct safetensors_tensor *tensors, size_t n_tensors, struct text *reason)
{
  uint64_t at = 0;
  uint64_t size;

  qsort(tensors, n_tensors, sizeof(tensors[0]), compare_for_file);
  for (size_t i = 0; i < n_tensors; i++) {
    if (!safetensors_tensor_size(&tensors[i], &size))
      return refuse(reason, "tensor '%s' does not fill whole bytes", tensors[i].name);
    tensors[i].begin = at;
    if (__builtin_add_overflow(at, size, &at) || at > INT64_MAX)
      return refuse(reason, "the tensors together are too large");
    tensors[i].end = at;
  }
  return 0;
}

static json_t *entry_to_json(const struct safetensors_tensor *tensor)
{
  const char *dtype = dtype_to_safetensors(tensor->dtype);
  json_t *shape = json_array();

  assert(dtype);
  for (int32_t i = 0; i < tensor->ndim; i++)
    json_array_append_new(shape, json_integer(tensor->shape[i]));
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                   (json_int_t)tensor->begin, (json_int_t)tensor->end);
}

static int header_to_json(json_t **ret, const struct safetensors_tensor *tensors, size_t n_tensors,
                          const char *metadata, struct text *reason)
{
  auto_json json_t *root = json_object();
  json_t *parsed;

  if (metadata) {
    parsed = json_loads(metadata, 0, NULL);
    if (!parsed || json_object_set_new(root, METADATA, parsed) < 0)
      return -ENOMEM;
  }
  for (size_t i = 0; i < n_tensors; i++) {
    if (strcmp(tensors[i].name, METADATA) == 0 || json_object_get(root, tensors[i].name))
      return refuse(reason, "the format has no room for a tensor of the name '%s'",
                    tensors[i].name);
    if (json_object_set_new(root, tensors[i].name, entry_to_json(&tensors[i])) < 0)
      return refuse(reason, "tensor '%s': the name is not UTF-8", tensors[i].name);
  }
  *ret = root;
  root = NULL;
  return 0;
}

int safetensors_format(struct text *text, struct safetensors_tensor *tensors, size_t n_tensors,
                       const char *metadata, struct text *reason)
{
  auto_json json_t *root = NULL;
  cli_auto_free char *json = NULL;
  uint8_t prefix[LENGTH_SIZE];
  uint64_t length;
  int r;

  r = assign_ranges(tensors, n_tensors, reason);
  if (r == 0)
    r = header_to_json(&root, tensors, n_tensors, metadata, reason);
  if (r != 0)
    return r;
  json = json_dumps(root, JSON_COMPACT);
  if (!json)
    return -ENOMEM;
  length = (strlen(json) + 7) / 8 * 8;
  for (unsigned i = 0; i < LENGTH_SIZE; i++)
    prefix[i] = (uint8_t)(length >> (8 * i));
  text_append_bytes(text, prefix, sizeof(prefix));
  text_append(text, json);
  text_append_spaces(text, length - strlen(json));
  return text->failed ? -ENOMEM : 0;
}
