#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "cmd.h"
#include "escape.h"
#include "tensor_view.h"

enum {
  OPTION_PROMETHEUS = CMD_OPTION_OWN,
};

struct gathering {
  struct text text;
  json_t *json;
  bool prometheus;
};

/* Metric names have a grammar of their own, and the daemon's word is not trusted with it. */
static void append_metric_name(struct text *text, const char *name)
{
  text_append(text, "dlpackd_");
  for (; *name; name++)
    text_printf(text, "%c", isalnum((unsigned char)*name) && isascii(*name) ? *name : '_');
}

static bool ends_with(const char *string, const char *end)
{
  size_t length = strlen(string);

  return length >= strlen(end) && strcmp(string + length - strlen(end), end) == 0;
}

static void append_prometheus(struct text *text, const char *name, uint64_t value)
{
  text_append(text, "# TYPE ");
  append_metric_name(text, name);
  text_append(text, ends_with(name, "_total") ? " counter\n" : " gauge\n");
  append_metric_name(text, name);
  text_printf(text, " %" PRIu64 "\n", value);
}

static void append_line(struct text *text, const char *name, uint64_t value)
{
  size_t before = text->size;

  escape_terminal(text, name);
  if (text->size - before < 32)
    text_append_spaces(text, 32 - (text->size - before));
  text_printf(text, " %" PRIu64 "\n", value);
}

static void add_counter(void *context, const char *name, uint64_t value)
{
  struct gathering *gathering = context;

  if (gathering->prometheus)
    append_prometheus(&gathering->text, name, value);
  else if (gathering->json)
    (void)json_object_set_new(gathering->json, name, json_integer((json_int_t)value));
  else
    append_line(&gathering->text, name, value);
}

static int gather(struct cmd_context *context, struct gathering *gathering)
{
  cmd_auto_client struct dlc_client *client = NULL;
  struct dlc_error error = {0};
  int r = cmd_connect(context, &client);

  if (r != CMD_DONE)
    return r;
  if (dlc_stats(client, add_counter, gathering, &error) < 0)
    return cmd_fail_library(context, NULL, &error);
  if (gathering->json)
    return cmd_print_json(context, json_incref(gathering->json), JSON_INDENT(2));
  return cmd_print_text(context, &gathering->text);
}

int cmd_stats(struct cmd_context *context, int argc, char **argv)
{
  static const struct option options[] = {
      {"prometheus", no_argument, NULL, OPTION_PROMETHEUS},
      CMD_COMMON_OPTIONS,
  };
  struct gathering gathering = {0};
  int option;
  int exit_code;

  while ((option = cmd_option(context, argc, argv, ":", options)) != -1) {
    if (option != OPTION_PROMETHEUS)
      return context->exit_code;
    gathering.prometheus = true;
  }
  exit_code = cmd_check_arguments(context, argc, 0, 0);
  if (exit_code == CMD_DONE && gathering.prometheus && context->json)
    exit_code = cmd_usage(context, "--json and --prometheus do not go together");
  if (exit_code != CMD_DONE)
    return exit_code;
  if (context->json)
    gathering.json = json_object();
  exit_code = gather(context, &gathering);
  json_decref(gathering.json);
  text_deinit(&gathering.text);
  return exit_code;
}
