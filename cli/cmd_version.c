#include <stdio.h>

#include "cmd.h"
#include "escape.h"
#include "tensor_view.h"

/* The daemon may be away: that is an answer, not a failure. */
static bool ask_daemon(struct cmd_context *context, struct dlc_client **ret_client,
                       struct dlc_daemon_info *ret_info, struct dlc_error *reterr)
{
  struct dlc_connect_options options = DLC_CONNECT_OPTIONS_INIT;

  options.client_name = "dlctl";
  return dlc_connect(context->socket_path, &options, ret_client, reterr) == 0 &&
         dlc_ping(*ret_client, ret_info, reterr) == 0;
}

static int print_versions(struct cmd_context *context, const struct dlc_daemon_info *info,
                          const struct dlc_error *error)
{
  cli_auto_text struct text text = {0};

  if (context->json)
    return cmd_print_json(
        context,
        json_pack("{s:s, s:s, s:o}", "dlctl", DLCLIENT_VERSION_STRING, "libdlclient", dlc_version(),
                  "dlpackd", info ? tensor_view_json_string(info->daemon_version) : json_null()),
        JSON_INDENT(2));
  text_printf(&text, "dlctl %s\nlibdlclient %s\ndlpackd ", DLCLIENT_VERSION_STRING, dlc_version());
  if (info) {
    escape_terminal(&text, info->daemon_version);
    text_append(&text, " at ");
    escape_terminal(&text, info->socket_path);
  } else {
    text_append(&text, "not known: ");
    escape_terminal(&text, error->message);
  }
  text_append(&text, "\n");
  return cmd_print_text(context, &text);
}

int cmd_version(struct cmd_context *context, int argc, char **argv)
{
  static const struct option options[] = {CMD_COMMON_OPTIONS};
  cmd_auto_client struct dlc_client *client = NULL;
  struct dlc_daemon_info info;
  struct dlc_error error = {0};
  bool answered;
  int r;

  if (cmd_option(context, argc, argv, ":", options) != -1)
    return context->exit_code;
  r = cmd_check_arguments(context, argc, 0, 0);
  if (r != CMD_DONE)
    return r;
  answered = ask_daemon(context, &client, &info, &error);
  return print_versions(context, answered ? &info : NULL, &error);
}
