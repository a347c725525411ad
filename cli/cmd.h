#ifndef DLPACKD_CLI_CMD_H
#define DLPACKD_CLI_CMD_H

/*
 * A command of dlctl, and what all of them share: options, errors, exit codes.
 *
 * A command gets its own arguments, prints what was asked for to standard output and one
 * specific line to standard error for what went wrong. It returns an exit code.
 */

#include <getopt.h>
#include <jansson.h>

#include "cleanup.h"
#include "dlclient.h"
#include "text.h"

enum cmd_exit {
  CMD_DONE = 0,
  CMD_FAILED = 1,
  CMD_USAGE = 2,
};

struct cmd_context;

struct cmd {
  const char *name;
  const char *arguments; /* as in the usage line */
  const char *summary;   /* one line */
  const char *options;   /* a paragraph of lines; NULL if there are none */
  int (*run)(struct cmd_context *context, int argc, char **argv);
};

struct cmd_context {
  const struct cmd *cmd;
  const char *socket_path; /* NULL: as dlc_connect() chooses */
  bool json;
  int exit_code; /* what to return when cmd_option() said to stop */
};

int cmd_list(struct cmd_context *context, int argc, char **argv);
int cmd_show(struct cmd_context *context, int argc, char **argv);
int cmd_put(struct cmd_context *context, int argc, char **argv);
int cmd_get(struct cmd_context *context, int argc, char **argv);
int cmd_rm(struct cmd_context *context, int argc, char **argv);
int cmd_wait(struct cmd_context *context, int argc, char **argv);
int cmd_watch(struct cmd_context *context, int argc, char **argv);
int cmd_ping(struct cmd_context *context, int argc, char **argv);
int cmd_stats(struct cmd_context *context, int argc, char **argv);
int cmd_version(struct cmd_context *context, int argc, char **argv);

/* The numbers of options without a letter. */
enum {
  CMD_OPTION_SOCKET = 256,
  CMD_OPTION_JSON,
  CMD_OPTION_HELP,
  CMD_OPTION_OWN, /* a command's own begin here */
};

/* Goes at the end of each command's table of long options. */
#define CMD_COMMON_OPTIONS                                                                        \
  {"socket", required_argument, NULL, CMD_OPTION_SOCKET},                                         \
      {"json", no_argument, NULL, CMD_OPTION_JSON}, {"help", no_argument, NULL, CMD_OPTION_HELP}, \
  {                                                                                               \
    NULL, 0, NULL, 0                                                                              \
  }

/*
 * getopt_long() for commands: handles the common options and reports mistakes.
 * Return: the option, -1 when there are no more (optind is set), or -2 to return
 * context->exit_code at once. `letters` begins with ":".
 */
int cmd_option(struct cmd_context *context, int argc, char **argv, const char *letters,
               const struct option *options);

/* What getopt_long() has just refused, as it was given: "-x" or "--long". */
void cmd_append_refused_option(struct text *text, char **argv, const struct option *options);

/* Fails with CMD_USAGE unless optind leaves `min` to `max` arguments.
 * Return: CMD_DONE or CMD_USAGE. */
int cmd_check_arguments(struct cmd_context *context, int argc, int min, int max);

void cmd_print_help(const struct cmd *cmd);

/* One line to standard error: "dlctl: list: ...". They return CMD_FAILED or CMD_USAGE. */
__attribute__((format(printf, 2, 3))) int cmd_fail(const struct cmd_context *context,
                                                   const char *format, ...);
__attribute__((format(printf, 2, 3))) int cmd_usage(const struct cmd_context *context,
                                                    const char *format, ...);
__attribute__((format(printf, 2, 3))) void cmd_warn(const struct cmd_context *context,
                                                    const char *format, ...);
int cmd_fail_memory(const struct cmd_context *context);

/* `subject` goes before the sentence, escaped; NULL if that names it already. */
int cmd_fail_library(const struct cmd_context *context, const char *subject,
                     const struct dlc_error *error);

/* Prints what went wrong, and returns CMD_FAILED, or gives a connection. */
int cmd_connect(const struct cmd_context *context, struct dlc_client **ret_client);

/* Prints a document and drops the reference. Return: CMD_DONE or CMD_FAILED. */
int cmd_print_json(const struct cmd_context *context, json_t *json, size_t flags);

/* Prints what was gathered. Return: CMD_DONE or CMD_FAILED. */
int cmd_print_text(const struct cmd_context *context, const struct text *text);

/* Are there names below `name`? Used to say that somebody meant a prefix. */
bool cmd_is_prefix(struct dlc_client *client, const char *name);

static inline void cmd_client_closep(struct dlc_client **client)
{
  dlc_close(*client);
}

static inline void cmd_info_freep(struct dlc_info **info)
{
  dlc_info_free(*info);
}

static inline void cmd_json_decrefp(json_t **json)
{
  json_decref(*json);
}

#define cmd_auto_client cli_cleanup_(cmd_client_closep)
#define cmd_auto_info cli_cleanup_(cmd_info_freep)
#define cmd_auto_json cli_cleanup_(cmd_json_decrefp)

#endif
