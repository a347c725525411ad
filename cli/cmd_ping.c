#include <stdio.h>
#include <time.h>

#include "cmd.h"
#include "escape.h"
#include "tensor_view.h"

static double elapsed_ms(const struct timespec *start, const struct timespec *end)
{
  return (double)(end->tv_sec - start->tv_sec) * 1e3 +
         (double)(end->tv_nsec - start->tv_nsec) / 1e6;
}

static int print_info(struct cmd_context *context, const struct dlc_daemon_info *info, double ms)
{
  cli_auto_text struct text id = {0};
  cli_auto_text struct text line = {0};

  for (size_t i = 0; i < sizeof(info->daemon_id); i++)
    text_printf(&id, "%02x", info->daemon_id[i]);
  if (context->json)
    return cmd_print_json(
        context,
        json_pack("{s:o, s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:f}", "daemon_version",
                  tensor_view_json_string(info->daemon_version), "daemon_id", text_string(&id),
                  "socket", tensor_view_json_string(info->socket_path), "boot_id",
                  tensor_view_json_string(info->boot_id), "host",
                  tensor_view_json_string(info->host), "protocol_major",
                  (json_int_t)info->protocol_major, "protocol_minor",
                  (json_int_t)info->protocol_minor, "session", (json_int_t)info->session, "uid",
                  (json_int_t)info->uid, "round_trip_ms", ms),
        JSON_INDENT(2));
  text_append(&line, "dlpackd ");
  escape_terminal(&line, info->daemon_version);
  text_append(&line, " answers at ");
  escape_terminal(&line, info->socket_path);
  text_printf(&line, " in %.2f ms\n", ms);
  return cmd_print_text(context, &line);
}

int cmd_ping(struct cmd_context *context, int argc, char **argv)
{
  static const struct option options[] = {CMD_COMMON_OPTIONS};
  cmd_auto_client struct dlc_client *client = NULL;
  struct dlc_daemon_info info;
  struct dlc_error error = {0};
  struct timespec start, end;
  int r;

  if (cmd_option(context, argc, argv, ":", options) != -1)
    return context->exit_code;
  r = cmd_check_arguments(context, argc, 0, 0);
  if (r == CMD_DONE)
    r = cmd_connect(context, &client);
  if (r != CMD_DONE)
    return r;
  (void)clock_gettime(CLOCK_MONOTONIC, &start);
  if (dlc_ping(client, &info, &error) < 0)
    return cmd_fail_library(context, NULL, &error);
  (void)clock_gettime(CLOCK_MONOTONIC, &end);
  return print_info(context, &info, elapsed_ms(&start, &end));
}
