#include <inttypes.h>
#include <stdio.h>

#include "cmd.h"
#include "number.h"
#include "tensor_view.h"

enum {
  OPTION_NEWER_THAN = CMD_OPTION_OWN,
  OPTION_TIMEOUT,
};

struct waiting {
  uint64_t newer_than;
  int32_t timeout_ms;
  const char *timeout; /* as it was given */
};

static int parse_timeout(struct cmd_context *context, struct waiting *ret)
{
  uint64_t timeout_ms;

  if (number_parse_seconds(optarg, &timeout_ms) != 0 || timeout_ms > INT32_MAX) {
    context->exit_code = cmd_usage(context, "--timeout: '%s' is not a number of seconds", optarg);
    return -1;
  }
  ret->timeout_ms = (int32_t)timeout_ms;
  ret->timeout = optarg;
  return 0;
}

static int parse(struct cmd_context *context, int argc, char **argv, struct waiting *ret)
{
  static const struct option options[] = {
      {"newer-than", required_argument, NULL, OPTION_NEWER_THAN},
      {"timeout", required_argument, NULL, OPTION_TIMEOUT},
      CMD_COMMON_OPTIONS,
  };
  int option;

  while ((option = cmd_option(context, argc, argv, ":", options)) != -1) {
    switch (option) {
    case OPTION_NEWER_THAN:
      if (number_parse_u64(optarg, 10, &ret->newer_than) == 0)
        break;
      context->exit_code = cmd_usage(context, "--newer-than: '%s' is not a version", optarg);
      return -1;
    case OPTION_TIMEOUT:
      if (parse_timeout(context, ret) < 0)
        return -1;
      break;
    default:
      return -1;
    }
  }
  context->exit_code = cmd_check_arguments(context, argc, 1, 1);
  return context->exit_code == CMD_DONE ? 0 : -1;
}

int cmd_wait(struct cmd_context *context, int argc, char **argv)
{
  cmd_auto_client struct dlc_client *client = NULL;
  cmd_auto_info struct dlc_info *info = NULL;
  struct waiting waiting = {.timeout_ms = -1};
  struct dlc_error error = {0};
  const char *name;
  int r;

  if (parse(context, argc, argv, &waiting) < 0)
    return context->exit_code;
  name = argv[optind];
  r = cmd_connect(context, &client);
  if (r != CMD_DONE)
    return r;
  r = dlc_wait(client, name, waiting.newer_than, waiting.timeout_ms, &info, &error);
  if (r == -DLC_E_TIMEOUT && waiting.timeout)
    return cmd_fail(context, "no such version of '%s' came within %s s", name, waiting.timeout);
  if (r < 0)
    return cmd_fail_library(context, name, &error);
  if (context->json)
    return cmd_print_json(context, tensor_view_json(info), JSON_INDENT(2));
  (void)printf("%" PRIu64 "\n", info->version);
  return CMD_DONE;
}
