#include "cmd.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "escape.h"

static bool is_value_of_long_option(int value, const struct option *options)
{
  for (; options->name; options++)
    if (options->val == value)
      return true;
  return false;
}

/* After an unknown letter `optind` may still be at the argument that has it, so that the one
 * before it says nothing. */
void cmd_append_refused_option(struct text *text, char **argv, const struct option *options)
{
  bool was_long =
      strncmp(argv[optind - 1], "--", 2) == 0 && is_value_of_long_option(optopt, options);

  if (optopt > 0 && optopt < CMD_OPTION_SOCKET && !was_long)
    text_printf(text, "-%c", optopt);
  else
    text_append(text, argv[optind - 1]);
}

static int refuse_option(struct cmd_context *context, char **argv, const struct option *options,
                         bool missing_argument)
{
  cli_auto_text struct text option = {0};

  cmd_append_refused_option(&option, argv, options);
  cmd_usage(context, missing_argument ? "%s needs a value" : "%s is not an option here",
            text_string(&option));
  return context->exit_code = CMD_USAGE;
}

int cmd_option(struct cmd_context *context, int argc, char **argv, const char *letters,
               const struct option *options)
{
  int option;

  opterr = 0;
  for (;;) {
    option = getopt_long(argc, argv, letters, options, NULL);
    switch (option) {
    case CMD_OPTION_SOCKET:
      context->socket_path = optarg;
      break;
    case CMD_OPTION_JSON:
      context->json = true;
      break;
    case CMD_OPTION_HELP:
      cmd_print_help(context->cmd);
      context->exit_code = CMD_DONE;
      return -2;
    case ':':
    case '?':
      refuse_option(context, argv, options, option == ':');
      return -2;
    default:
      return option;
    }
  }
}

int cmd_check_arguments(struct cmd_context *context, int argc, int min, int max)
{
  int n = argc - optind;

  if (n < min)
    return cmd_usage(context, "too few arguments; usage: dlctl %s %s", context->cmd->name,
                     context->cmd->arguments);
  if (n > max)
    return cmd_usage(context, "too many arguments; usage: dlctl %s %s", context->cmd->name,
                     context->cmd->arguments);
  return CMD_DONE;
}

void cmd_print_help(const struct cmd *cmd)
{
  (void)printf("usage: dlctl %s %s\n%s.\n", cmd->name, cmd->arguments, cmd->summary);
  if (cmd->options)
    (void)printf("\n%s", cmd->options);
  (void)printf("\nEvery command takes --socket PATH, --json and --help. See dlctl(1).\n");
}

/* What is printed may name what a peer said: nothing of it may reach the terminal raw. */
__attribute__((format(printf, 2, 0))) static void print_error(const struct cmd_context *context,
                                                              const char *format, va_list arguments)
{
  cli_auto_free char *line = NULL;
  cli_auto_text struct text safe = {0};

  (void)fflush(stdout);
  if (vasprintf(&line, format, arguments) < 0) {
    line = NULL;
    (void)fputs("dlctl: out of memory\n", stderr);
    return;
  }
  escape_terminal(&safe, line);
  if (context->cmd)
    (void)fprintf(stderr, "dlctl: %s: %s\n", context->cmd->name, text_string(&safe));
  else
    (void)fprintf(stderr, "dlctl: %s\n", text_string(&safe));
}

int cmd_fail(const struct cmd_context *context, const char *format, ...)
{
  va_list arguments;

  va_start(arguments, format);
  print_error(context, format, arguments);
  va_end(arguments);
  return CMD_FAILED;
}

int cmd_usage(const struct cmd_context *context, const char *format, ...)
{
  va_list arguments;

  va_start(arguments, format);
  print_error(context, format, arguments);
  va_end(arguments);
  return CMD_USAGE;
}

void cmd_warn(const struct cmd_context *context, const char *format, ...)
{
  va_list arguments;

  va_start(arguments, format);
  print_error(context, format, arguments);
  va_end(arguments);
}

int cmd_fail_memory(const struct cmd_context *context)
{
  return cmd_fail(context, "out of memory");
}

static int fail_no_daemon(const struct cmd_context *context, const struct dlc_error *error)
{
  const char *path = context->socket_path;

  if (!path)
    path = getenv("DLPACKD_SOCKET");
  if (path && *path && !strstr(error->message, path))
    return cmd_fail(context, "%s (tried %s); try: dlpackd --socket %s", error->message, path, path);
  if (path && *path)
    return cmd_fail(context, "%s; try: dlpackd --socket %s", error->message, path);
  return cmd_fail(context,
                  "%s (tried /run/dlpackd/socket, $XDG_RUNTIME_DIR/dlpackd/socket and "
                  "/tmp/dlpackd-UID/socket); try: dlpackd",
                  error->message);
}

int cmd_fail_library(const struct cmd_context *context, const char *subject,
                     const struct dlc_error *error)
{
  if (error->code == DLC_E_NO_DAEMON)
    return fail_no_daemon(context, error);
  if (subject && !strstr(error->message, subject))
    return cmd_fail(context, "%s: %s", subject, error->message);
  return cmd_fail(context, "%s", error->message);
}

int cmd_connect(const struct cmd_context *context, struct dlc_client **ret_client)
{
  struct dlc_connect_options options = DLC_CONNECT_OPTIONS_INIT;
  struct dlc_error error = {0};

  options.client_name = "dlctl";
  if (dlc_connect(context->socket_path, &options, ret_client, &error) < 0)
    return cmd_fail_library(context, NULL, &error);
  return CMD_DONE;
}

int cmd_print_json(const struct cmd_context *context, json_t *json, size_t flags)
{
  cmd_auto_json json_t *owned = json;

  if (!owned)
    return cmd_fail_memory(context);
  /* ASCII only: the rest could move the cursor of a terminal. A pipe that was closed is
   * looked at when standard output is. */
  if (json_dumpf(owned, stdout, flags | JSON_ENSURE_ASCII) < 0 && !ferror(stdout))
    return cmd_fail_memory(context);
  (void)putchar('\n');
  return CMD_DONE;
}

int cmd_print_text(const struct cmd_context *context, const struct text *text)
{
  if (text->failed)
    return cmd_fail_memory(context);
  (void)fwrite(text_string(text), 1, text->size, stdout);
  return CMD_DONE;
}

static int stop_at_first(void *context, const struct dlc_info *info)
{
  *(bool *)context = true;
  return 1;
}

bool cmd_is_prefix(struct dlc_client *client, const char *name)
{
  struct dlc_list_options options = DLC_LIST_OPTIONS_INIT;
  cli_auto_text struct text prefix = {0};
  bool found = false;

  text_printf(&prefix, "%s/", name);
  options.pattern = text_string(&prefix);
  return dlc_list(client, &options, stop_at_first, &found, NULL) >= 0 && found;
}
