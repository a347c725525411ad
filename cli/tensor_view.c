#include "tensor_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "escape.h"
#include "human.h"
#include "number.h"

struct named_number {
  uint32_t number;
  const char *name;
};

static const struct named_number lifetimes[] = {
    {DLC_LIFETIME_SESSION, "session"},
    {DLC_LIFETIME_PERSISTENT, "persistent"},
    {DLC_LIFETIME_TTL, "ttl"},
    {0, NULL},
};

static const struct named_number backends[] = {
    {DLC_BACKEND_DEFAULT, "default"},
    {DLC_BACKEND_MEMFD, "memfd"},
    {DLC_BACKEND_POSIX_SHM, "posix-shm"},
    {0, NULL},
};

static const struct named_number flags[] = {
    {DLC_INFO_RETIRED, "retired"},   {DLC_INFO_MUTABLE, "mutable"}, {DLC_INFO_FROZEN, "frozen"},
    {DLC_INFO_UNSEALED, "unsealed"}, {DLC_INFO_PADDED, "padded"},   {0, NULL},
};

static const char *name_of(const struct named_number *names, uint32_t number)
{
  for (; names->name; names++)
    if (names->number == number)
      return names->name;
  return "unknown";
}

static void cell_dtype(struct text *text, const struct dlc_info *info)
{
  char name[48];

  text_append(text, dlc_dtype_name(info->dtype_code, info->dtype_bits, info->dtype_lanes, name,
                                   sizeof(name)));
}

static void cell_flags(struct text *text, const struct dlc_info *info)
{
  const char *separator = "";

  if (!(info->flags & DLC_INFO_RETIRED)) {
    text_append(text, "live");
    separator = ",";
  }
  for (const struct named_number *flag = flags; flag->name; flag++)
    if (info->flags & flag->number) {
      text_printf(text, "%s%s", separator, flag->name);
      separator = ",";
    }
}

void tensor_view_name(struct text *text, const char *name)
{
  const char *slash = strchr(name, '/');
  char digits[16] = "";
  uint64_t uid;

  if (name[0] == '~' && slash && (size_t)(slash - name) < sizeof(digits)) {
    memcpy(digits, name + 1, (size_t)(slash - name) - 1);
    if (number_parse_u64(digits, 10, &uid) == 0 && uid < UINT32_MAX) {
      text_append(text, "~");
      human_user(text, (uint32_t)uid);
      name = slash;
    }
  }
  escape_terminal(text, name);
}

static void cell_name(struct text *text, const struct dlc_info *info)
{
  tensor_view_name(text, info->name);
}

static void cell_age(struct text *text, const struct dlc_info *info)
{
  human_age(text, info->age_ms);
}

static void cell_shape(struct text *text, const struct dlc_info *info)
{
  human_dims(text, info->ndim, info->shape);
}

static void cell_size(struct text *text, const struct dlc_info *info)
{
  human_size(text, info->nbytes);
}

static void cell_device(struct text *text, const struct dlc_info *info)
{
  human_device(text, info->device_type);
}

static void cell_owner(struct text *text, const struct dlc_info *info)
{
  human_user(text, info->owner_uid);
}

static void cell_readers(struct text *text, const struct dlc_info *info)
{
  text_printf(text, "%" PRIu32, info->readers);
}

static void cell_state(struct text *text, const struct dlc_info *info)
{
  text_append(text, info->flags & DLC_INFO_RETIRED ? "retired" : "live");
}

static void cell_version(struct text *text, const struct dlc_info *info)
{
  text_printf(text, "%" PRIu64, info->version);
}

static void cell_mode(struct text *text, const struct dlc_info *info)
{
  human_mode(text, info->mode);
}

static void cell_group(struct text *text, const struct dlc_info *info)
{
  human_group(text, info->gid);
}

static void cell_lifetime(struct text *text, const struct dlc_info *info)
{
  text_append(text, name_of(lifetimes, info->lifetime));
  if (info->lifetime == DLC_LIFETIME_TTL) {
    text_append(text, " ");
    human_age(text, info->ttl_ms);
  }
}

static void cell_backend(struct text *text, const struct dlc_info *info)
{
  text_append(text, name_of(backends, info->backend));
}

static void cell_publisher(struct text *text, const struct dlc_info *info)
{
  if (info->publisher_pid)
    text_printf(text, "%" PRId32, info->publisher_pid);
  else
    text_append(text, "-");
}

static void cell_place(struct text *text, const struct dlc_info *info)
{
  text_printf(text, "%" PRIu64 "+%" PRIu64, info->segment, info->offset);
}

typedef void (*cell_fn)(struct text *text, const struct dlc_info *info);

/* The order of the two tables below is the same. */
static const cell_fn cells[] = {
    cell_name,   cell_age,   cell_dtype,   cell_shape, cell_size,
    cell_device, cell_owner, cell_readers, cell_state,
};

static const cell_fn long_cells[] = {
    cell_name,     cell_age,     cell_dtype,     cell_shape,   cell_size, cell_device,
    cell_owner,    cell_readers, cell_flags,     cell_version, cell_mode, cell_group,
    cell_lifetime, cell_backend, cell_publisher, cell_place,
};

#define COMMON_COLUMNS                                                                    \
  {"NAME", .min_columns = 12}, {"AGE", .right = true}, {"DTYPE", .dispensable = 1},       \
      {"SHAPE", .min_columns = 8}, {"SIZE", .right = true}, {"DEVICE", .dispensable = 5}, \
      {"OWNER", .dispensable = 4}, {"READERS", .right = true, .dispensable = 3},          \
  {                                                                                       \
    "STATE", .dispensable = 2                                                             \
  }

const struct render_column tensor_columns[] = {COMMON_COLUMNS};
const size_t tensor_n_columns = sizeof(tensor_columns) / sizeof(tensor_columns[0]);

const struct render_column tensor_long_columns[] = {
    COMMON_COLUMNS,         {"VERSION", .right = true},    {.heading = "MODE"},
    {.heading = "GROUP"},   {.heading = "LIFETIME"},       {.heading = "BACKEND"},
    {"PID", .right = true}, {.heading = "SEGMENT+OFFSET"},
};
const size_t tensor_n_long_columns = sizeof(tensor_long_columns) / sizeof(tensor_long_columns[0]);

_Static_assert(sizeof(cells) / sizeof(cells[0]) ==
                   sizeof(tensor_columns) / sizeof(tensor_columns[0]),
               "one function per column");
_Static_assert(sizeof(long_cells) / sizeof(long_cells[0]) ==
                   sizeof(tensor_long_columns) / sizeof(tensor_long_columns[0]),
               "one function per column");

void tensor_view_row(struct render_table *table, const struct dlc_info *info, bool is_long)
{
  const cell_fn *functions = is_long ? long_cells : cells;
  struct text cell = {0};

  for (size_t i = 0; i < table->n_columns; i++) {
    functions[i](&cell, info);
    render_table_add(table, &cell);
  }
}

static void line_strides(struct text *text, const struct dlc_info *info)
{
  human_dims(text, info->ndim, info->strides);
}

static void line_size(struct text *text, const struct dlc_info *info)
{
  human_size(text, info->nbytes);
  if (info->nbytes >= 1024)
    text_printf(text, " (%" PRIu64 " bytes)", info->nbytes);
}

static void line_created(struct text *text, const struct dlc_info *info)
{
  human_time(text, info->created_us);
  text_append(text, " (");
  human_age(text, info->age_ms);
  text_append(text, " ago)");
}

static void line_publisher(struct text *text, const struct dlc_info *info)
{
  human_user(text, info->publisher_uid);
  if (info->publisher_pid)
    text_printf(text, ", process %" PRId32, info->publisher_pid);
}

static void line_place(struct text *text, const struct dlc_info *info)
{
  text_printf(text, "segment %" PRIu64 ", offset %" PRIu64, info->segment, info->offset);
}

static const struct {
  const char *label;
  cell_fn function;
} lines[] = {
    {"name", cell_name},       {"version", cell_version},     {"state", cell_flags},
    {"dtype", cell_dtype},     {"shape", cell_shape},         {"strides", line_strides},
    {"size", line_size},       {"device", cell_device},       {"owner", cell_owner},
    {"group", cell_group},     {"mode", cell_mode},           {"lifetime", cell_lifetime},
    {"created", line_created}, {"publisher", line_publisher}, {"readers", cell_readers},
    {"backend", cell_backend}, {"place", line_place},
};

void tensor_view_lines(struct text *text, const struct dlc_info *info)
{
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
    text_printf(text, "%-10s ", lines[i].label);
    lines[i].function(text, info);
    text_append(text, "\n");
  }
  for (size_t i = 0; i < info->n_attributes; i++) {
    text_append(text, "attribute  ");
    escape_terminal(text, info->attributes[i].key);
    text_append(text, "=");
    escape_terminal(text, info->attributes[i].value);
    text_append(text, "\n");
  }
}

json_t *tensor_view_json_string(const char *string)
{
  cli_auto_text struct text escaped = {0};
  json_t *json = json_string(string);

  if (json)
    return json;
  escape_terminal(&escaped, string);
  return escaped.failed ? NULL : json_string(text_string(&escaped));
}

static json_t *dims_json(int32_t ndim, const int64_t *dims)
{
  json_t *array = json_array();

  for (int32_t i = 0; i < ndim; i++)
    if (json_array_append_new(array, json_integer(dims[i])) < 0) {
      json_decref(array);
      return NULL;
    }
  return array;
}

static json_t *attributes_json(const struct dlc_info *info)
{
  json_t *object = json_object();

  for (size_t i = 0; i < info->n_attributes; i++) {
    cli_auto_text struct text key = {0};

    /* Keys that are not UTF-8 are told apart by their escaped form. */
    if (json_object_set_new(object, info->attributes[i].key,
                            tensor_view_json_string(info->attributes[i].value)) == 0)
      continue;
    escape_terminal(&key, info->attributes[i].key);
    (void)json_object_set_new(object, text_string(&key),
                              tensor_view_json_string(info->attributes[i].value));
  }
  return object;
}

static json_t *flags_json(const struct dlc_info *info)
{
  json_t *array = json_array();

  for (const struct named_number *flag = flags; flag->name; flag++)
    if (info->flags & flag->number)
      (void)json_array_append_new(array, json_string(flag->name));
  return array;
}

static json_t *text_json(cell_fn function, const struct dlc_info *info)
{
  cli_auto_text struct text text = {0};

  function(&text, info);
  return tensor_view_json_string(text_string(&text));
}

/* As chmod(1) reads it; a number would lose its base. */
static json_t *mode_json(const struct dlc_info *info)
{
  char octal[16];

  (void)snprintf(octal, sizeof(octal), "%04" PRIo32, info->mode);
  return json_string(octal);
}

/* NULL when the time to live does not apply. */
static json_t *ttl_json(const struct dlc_info *info)
{
  return info->lifetime == DLC_LIFETIME_TTL ? json_integer((json_int_t)info->ttl_ms) : NULL;
}

json_t *tensor_view_json(const struct dlc_info *info)
{
  return json_pack(
      "{s:o, s:I, s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:s, s:s, s:o*, s:I, s:o, s:I, s:o, s:o, "
      "s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
      "name", tensor_view_json_string(info->name), "version", (json_int_t)info->version, "state",
      info->flags & DLC_INFO_RETIRED ? "retired" : "live", "flags", flags_json(info), "dtype",
      text_json(cell_dtype, info), "shape", dims_json(info->ndim, info->shape), "strides",
      dims_json(info->ndim, info->strides), "nbytes", (json_int_t)info->nbytes, "device",
      text_json(cell_device, info), "lifetime", name_of(lifetimes, info->lifetime), "backend",
      name_of(backends, info->backend), "ttl_ms", ttl_json(info), "owner_uid",
      (json_int_t)info->owner_uid, "owner", text_json(cell_owner, info), "gid",
      (json_int_t)info->gid, "group", text_json(cell_group, info), "mode", mode_json(info),
      "publisher_uid", (json_int_t)info->publisher_uid, "publisher_pid",
      (json_int_t)info->publisher_pid, "readers", (json_int_t)info->readers, "created_us",
      (json_int_t)info->created_us, "age_ms", (json_int_t)info->age_ms, "segment",
      (json_int_t)info->segment, "offset", (json_int_t)info->offset, "attributes",
      attributes_json(info));
}
