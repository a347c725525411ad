#include <limits.h>
#include <string.h>

#include "cmd.h"
#include "number.h"

enum {
  OPTION_VERSION = CMD_OPTION_OWN,
};

struct removal {
  bool recursive;
  uint64_t version;
  uint64_t n_deleted;
};

static bool is_prefix(const char *name)
{
  size_t length = strlen(name);

  return length > 0 && name[length - 1] == '/';
}

static int parse(struct cmd_context *context, int argc, char **argv, struct removal *ret)
{
  static const struct option options[] = {
      {"recursive", no_argument, NULL, 'r'},
      {"version", required_argument, NULL, OPTION_VERSION},
      CMD_COMMON_OPTIONS,
  };
  int option;

  while ((option = cmd_option(context, argc, argv, ":r", options)) != -1) {
    switch (option) {
    case 'r':
      ret->recursive = true;
      break;
    case OPTION_VERSION:
      if (number_parse_u64(optarg, 10, &ret->version) == 0 && ret->version > 0)
        break;
      context->exit_code = cmd_usage(context, "--version: '%s' is not a version", optarg);
      return -1;
    default:
      return -1;
    }
  }
  context->exit_code = cmd_check_arguments(context, argc, 1, INT_MAX);
  return context->exit_code == CMD_DONE ? 0 : -1;
}

/* Refused before anything is deleted. */
static int check_names(struct cmd_context *context, char **names, const struct removal *removal)
{
  for (; *names; names++) {
    if (!is_prefix(*names))
      continue;
    if (!removal->recursive)
      return cmd_usage(context, "'%s' is a prefix; -r deletes everything below it", *names);
    if (removal->version)
      return cmd_usage(context, "--version goes with names, not with the prefix '%s'", *names);
  }
  return CMD_DONE;
}

static int remove_name(struct cmd_context *context, struct dlc_client *client, const char *name,
                       struct removal *removal)
{
  struct dlc_error error = {0};
  uint64_t count = 0;
  int r = dlc_delete(client, name, removal->version, &count, &error);

  removal->n_deleted += r == 0 ? count : 0;
  if (r == -DLC_E_NOT_FOUND && !is_prefix(name) && cmd_is_prefix(client, name))
    return cmd_fail(context, "'%s' is a prefix of names; delete them with: dlctl rm -r %s/", name,
                    name);
  return r < 0 ? cmd_fail_library(context, name, &error) : CMD_DONE;
}

int cmd_rm(struct cmd_context *context, int argc, char **argv)
{
  cmd_auto_client struct dlc_client *client = NULL;
  struct removal removal = {0};
  int exit_code;

  if (parse(context, argc, argv, &removal) < 0)
    return context->exit_code;
  exit_code = check_names(context, argv + optind, &removal);
  if (exit_code == CMD_DONE)
    exit_code = cmd_connect(context, &client);
  if (exit_code != CMD_DONE)
    return exit_code;
  for (char **name = argv + optind; *name; name++)
    if (remove_name(context, client, *name, &removal) != CMD_DONE)
      exit_code = CMD_FAILED;
  if (context->json)
    (void)cmd_print_json(context, json_pack("{s:I}", "deleted", (json_int_t)removal.n_deleted), 0);
  return exit_code;
}
