#include <inttypes.h>
#include <stdio.h>

#include "cmd.h"
#include "number.h"
#include "tensor_view.h"

enum {
  OPTION_SINCE = CMD_OPTION_OWN,
  OPTION_COUNT,
};

struct watching {
  struct cmd_context *context;
  uint64_t since;
  uint64_t count; /* lines still to print; UINT64_MAX: without end */
  bool broken;    /* nobody reads any more, or memory ran out */
};

static inline void watch_closep(struct dlc_watch **watch)
{
  dlc_watch_close(*watch);
}

static int parse_number(struct cmd_context *context, const char *option, uint64_t *ret)
{
  if (number_parse_u64(optarg, 10, ret) == 0)
    return 0;
  context->exit_code = cmd_usage(context, "%s: '%s' is not a number", option, optarg);
  return -1;
}

static int parse(struct cmd_context *context, int argc, char **argv, struct watching *ret)
{
  static const struct option options[] = {
      {"since", required_argument, NULL, OPTION_SINCE},
      {"count", required_argument, NULL, OPTION_COUNT},
      CMD_COMMON_OPTIONS,
  };
  int option;

  while ((option = cmd_option(context, argc, argv, ":", options)) != -1) {
    switch (option) {
    case OPTION_SINCE:
      if (parse_number(context, "--since", &ret->since) < 0)
        return -1;
      break;
    case OPTION_COUNT:
      if (parse_number(context, "--count", &ret->count) < 0)
        return -1;
      break;
    default:
      return -1;
    }
  }
  context->exit_code = cmd_check_arguments(context, argc, 0, 1);
  return context->exit_code == CMD_DONE ? 0 : -1;
}

static const char *kind_name(uint32_t kind)
{
  static const char *const names[] = {
      [DLC_EVENT_PUBLISHED] = "published",
      [DLC_EVENT_DELETED] = "deleted",
      [DLC_EVENT_GAP] = "gap",
  };

  return kind > 0 && kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "unknown";
}

static void print_json(struct watching *watching, const struct dlc_event *event)
{
  json_t *json = json_pack("{s:I, s:s, s:I, s:o}", "change", (json_int_t)event->change, "event",
                           kind_name(event->kind), "version", (json_int_t)event->version, "name",
                           tensor_view_json_string(event->name));

  if (cmd_print_json(watching->context, json, JSON_COMPACT) != CMD_DONE)
    watching->broken = true;
}

static void print_line(struct watching *watching, const struct dlc_event *event)
{
  cli_auto_text struct text line = {0};

  text_printf(&line, "%" PRIu64 " %s %" PRIu64 " ", event->change, kind_name(event->kind),
              event->version);
  tensor_view_name(&line, event->name);
  text_append(&line, "\n");
  if (cmd_print_text(watching->context, &line) != CMD_DONE)
    watching->broken = true;
}

static void print_event(void *context, const struct dlc_event *event)
{
  struct watching *watching = context;

  if (watching->count == 0 || watching->broken)
    return;
  if (watching->context->json)
    print_json(watching, event);
  else
    print_line(watching, event);
  if (fflush(stdout) != 0)
    watching->broken = true;
  if (watching->count != UINT64_MAX)
    watching->count--;
}

static int watch_all(struct watching *watching, struct dlc_watch *watch)
{
  struct dlc_error error = {0};
  int r;

  while (watching->count > 0 && !watching->broken) {
    r = dlc_watch_dispatch(watch, -1, print_event, watching, &error);
    /* The next call connects again, and fails if nobody is there. */
    if (r < 0 && r != -DLC_E_DISCONNECTED)
      return cmd_fail_library(watching->context, NULL, &error);
  }
  return CMD_DONE;
}

int cmd_watch(struct cmd_context *context, int argc, char **argv)
{
  cmd_auto_client struct dlc_client *client = NULL;
  cli_cleanup_(watch_closep) struct dlc_watch *watch = NULL;
  struct watching watching = {context, DLC_WATCH_FROM_NOW, UINT64_MAX, false};
  struct dlc_error error = {0};
  int r;

  if (parse(context, argc, argv, &watching) < 0)
    return context->exit_code;
  r = cmd_connect(context, &client);
  if (r != CMD_DONE)
    return r;
  if (dlc_watch_open(client, argv[optind], watching.since, &watch, &error) < 0)
    return cmd_fail_library(context, argv[optind], &error);
  return watch_all(&watching, watch);
}
