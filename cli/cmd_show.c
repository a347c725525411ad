#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cmd.h"
#include "number.h"
#include "sink.h"
#include "tensor_view.h"
#include "values.h"

enum {
  OPTION_NO_VALUES = CMD_OPTION_OWN,
  VALUES_DEFAULT = 8,
  TRIES = 5, /* between looking and getting somebody may replace it */
};

struct showing {
  struct cmd_context *context;
  const char *name;
  bool no_values;
  uint64_t n_values;
};

static inline void tensor_deletep(DLManagedTensorVersioned **tensor)
{
  if (*tensor)
    (*tensor)->deleter(*tensor);
}

static int parse(struct showing *showing, int argc, char **argv)
{
  static const struct option options[] = {
      {"values", required_argument, NULL, 'n'},
      {"no-values", no_argument, NULL, OPTION_NO_VALUES},
      CMD_COMMON_OPTIONS,
  };
  struct cmd_context *context = showing->context;
  int option;

  while ((option = cmd_option(context, argc, argv, ":n:", options)) != -1) {
    switch (option) {
    case 'n':
      if (number_parse_u64(optarg, 10, &showing->n_values) == 0)
        break;
      context->exit_code = cmd_usage(context, "--values: '%s' is not a number", optarg);
      return -1;
    case OPTION_NO_VALUES:
      showing->no_values = true;
      break;
    default:
      return -1;
    }
  }
  context->exit_code = cmd_check_arguments(context, argc, 1, 1);
  showing->name = argv[optind];
  return context->exit_code == CMD_DONE ? 0 : -1;
}

static struct values values_of(const DLManagedTensorVersioned *managed)
{
  const DLTensor *tensor = &managed->dl_tensor;

  return (struct values){
      .data = (const char *)tensor->data + tensor->byte_offset,
      .dtype = sink_dtype(tensor),
      .padded = sink_is_padded(managed),
      .layout = sink_layout(tensor),
  };
}

static void append_value_line(struct text *text, const char *label, struct dtype dtype,
                              const struct value *value)
{
  text_printf(text, "%-10s ", label);
  value_format(text, dtype, value);
  text_append(text, "\n");
}

static void append_values(struct text *text, const struct showing *showing,
                          const struct values *values)
{
  struct values_summary summary = values_summarise(values);

  if (summary.has_range) {
    append_value_line(text, "min", values->dtype, &summary.min);
    append_value_line(text, "max", values->dtype, &summary.max);
  }
  if (summary.has_mean && summary.kind == VALUE_COMPLEX)
    text_printf(text, "mean       %.6g%+.6gj\n", summary.mean, summary.mean_imaginary);
  else if (summary.has_mean)
    text_printf(text, "mean       %.6g\n", summary.mean);
  if (summary.kind == VALUE_FLOAT || summary.kind == VALUE_COMPLEX)
    text_printf(text, "nan        %" PRIu64 "\ninf        %" PRIu64 "\n", summary.n_nan,
                summary.n_infinite);
  if (showing->n_values == 0 || summary.n_values == 0)
    return;
  text_append(text, "values     ");
  values_format_first(text, values, showing->n_values);
  text_append(text, layout_n_elements(&values->layout) > showing->n_values ? ", ...\n" : "\n");
}

static json_t *number_json(const struct value *value)
{
  switch (value->kind) {
  case VALUE_BOOL:
    return json_boolean(value->unsigned_int);
  case VALUE_INT:
    return json_integer(value->integer);
  case VALUE_UINT:
    /* JSON's integers of most readers, jansson's too, end at 2^63. */
    return value->unsigned_int <= INT64_MAX ? json_integer((json_int_t)value->unsigned_int)
                                            : json_real((double)value->unsigned_int);
  default:
    return isfinite(value->real) ? json_real(value->real) : json_null();
  }
}

/* Values as text: JSON has neither NaN nor complex numbers. */
static void add_values(json_t *json, const struct showing *showing, const struct values *values)
{
  struct values_summary summary = values_summarise(values);
  cli_auto_text struct text first = {0};

  if (summary.has_range) {
    (void)json_object_set_new(json, "min", number_json(&summary.min));
    (void)json_object_set_new(json, "max", number_json(&summary.max));
  }
  if (summary.has_mean && summary.kind == VALUE_COMPLEX)
    (void)json_object_set_new(json, "mean",
                              json_pack("[f, f]", summary.mean, summary.mean_imaginary));
  else if (summary.has_mean && isfinite(summary.mean))
    (void)json_object_set_new(json, "mean", json_real(summary.mean));
  (void)json_object_set_new(json, "nan", json_integer((json_int_t)summary.n_nan));
  (void)json_object_set_new(json, "inf", json_integer((json_int_t)summary.n_infinite));
  values_format_first(&first, values, showing->n_values);
  (void)json_object_set_new(json, "values", tensor_view_json_string(text_string(&first)));
}

/* `managed` NULL: values were not asked for. */
static int print(const struct showing *showing, const struct dlc_info *info,
                 const DLManagedTensorVersioned *managed)
{
  cli_auto_text struct text text = {0};
  struct values values = {0};
  json_t *json;

  if (managed)
    values = values_of(managed);
  if (showing->context->json) {
    json = tensor_view_json(info);
    if (json && managed)
      add_values(json, showing, &values);
    return cmd_print_json(showing->context, json, JSON_INDENT(2));
  }
  tensor_view_lines(&text, info);
  if (managed)
    append_values(&text, showing, &values);
  return cmd_print_text(showing->context, &text);
}

/* Looks before it takes hold, so that our own holding is not counted among the readers. */
static int look(const struct showing *showing, struct dlc_client *client,
                struct dlc_info **ret_info, DLManagedTensorVersioned **ret_tensor,
                struct dlc_error *reterr)
{
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  int r = 0;

  for (int i = 0; i < TRIES; i++) {
    dlc_info_free(*ret_info);
    *ret_info = NULL;
    r = dlc_stat(client, showing->name, ret_info, reterr);
    if (r < 0 || showing->no_values)
      return r;
    options.version = (*ret_info)->version;
    r = dlc_get(client, showing->name, &options, ret_tensor, reterr);
    if (r != -DLC_E_NOT_FOUND)
      return r;
  }
  return r;
}

int cmd_show(struct cmd_context *context, int argc, char **argv)
{
  cmd_auto_client struct dlc_client *client = NULL;
  cmd_auto_info struct dlc_info *info = NULL;
  cli_cleanup_(tensor_deletep) DLManagedTensorVersioned *managed = NULL;
  struct showing showing = {.context = context, .n_values = VALUES_DEFAULT};
  struct dlc_error error = {0};
  int r;

  if (parse(&showing, argc, argv) < 0)
    return context->exit_code;
  r = cmd_connect(context, &client);
  if (r != CMD_DONE)
    return r;
  r = look(&showing, client, &info, &managed, &error);
  if (r == -DLC_E_NOT_FOUND && cmd_is_prefix(client, showing.name))
    return cmd_fail(context, "'%s' is a prefix of names; see: dlctl list %s/", showing.name,
                    showing.name);
  if (r < 0)
    return cmd_fail_library(context, showing.name, &error);
  return print(&showing, info, managed);
}
