/* dlctl: reads the global options, finds the command, and sees that its output arrived. */

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cmd.h"

static const struct cmd cmds[] = {
    {"list", "[PREFIX|GLOB] [OPTION...]", "List tensors",
     "  -l, --long       everything that fits a line; never shortened\n"
     "  -a, --all-users  also what others have and let you see\n"
     "      --retired    also replaced and deleted versions that are still held\n",
     cmd_list},
    {"show", "NAME [OPTION...]", "Show one tensor: what is known, a summary, the first values",
     "  -n, --values N   how many values to print; default 8\n"
     "      --no-values  do not look at the values\n",
     cmd_show},
    {"put", "NAME FILE... [OPTION...]", "Publish files; - is standard input",
     "      --type TYPE      npy, safetensors or raw; default: by the name of the file\n"
     "      --raw            the same as --type raw\n"
     "      --lifetime KIND  persistent (default) or ttl\n"
     "      --ttl SECONDS    how long it stays\n"
     "      --mode MODE      who may read and replace it, in octal; default 0600\n"
     "      --group GROUP    whom the group bits of the mode are for\n"
     "      --attr KEY=VALUE an attribute; may be repeated\n"
     "      --backend KIND   memfd or posix-shm; default: as the daemon is configured\n",
     cmd_put},
    {"get", "NAME FILE [OPTION...]", "Write a tensor, or all below a prefix, to a file",
     "      --type TYPE  npy, safetensors or raw; default: by the name of the file\n"
     "      --raw        the same as --type raw\n"
     "      --version V  this version or none\n",
     cmd_get},
    {"rm", "NAME|PREFIX/... [OPTION...]", "Delete tensors",
     "  -r, --recursive  needed to delete all below a prefix\n"
     "      --version V  only if this version is there\n",
     cmd_rm},
    {"wait", "NAME [OPTION...]", "Wait for a tensor, and print its version",
     "      --newer-than V     only a version above this\n"
     "      --timeout SECONDS  give up after this long; default: never\n",
     cmd_wait},
    {"watch", "[PREFIX] [OPTION...]", "Print changes as they happen, a line each",
     "      --since N  begin after change N; 0: with all that is there; default: from now on\n"
     "      --count N  end after so many lines\n",
     cmd_watch},
    {"ping", "[OPTION...]", "Ask the daemon for a sign of life", NULL, cmd_ping},
    {"stats", "[OPTION...]", "Print the daemon's counters",
     "      --prometheus  in the text format of Prometheus\n", cmd_stats},
    {"version", "[OPTION...]", "Print the versions of tool, library and daemon", NULL, cmd_version},
};

#define N_CMDS (sizeof(cmds) / sizeof(cmds[0]))

static const struct cmd *find_cmd(const char *name)
{
  for (size_t i = 0; i < N_CMDS; i++)
    if (strcmp(cmds[i].name, name) == 0)
      return &cmds[i];
  return NULL;
}

static void print_help(void)
{
  (void)printf("usage: dlctl [--socket PATH] [--json] COMMAND [ARGUMENT...]\n"
               "Shows and handles the tensors that dlpackd shares between processes.\n\n");
  for (size_t i = 0; i < N_CMDS; i++)
    (void)printf("  %-8s %s\n", cmds[i].name, cmds[i].summary);
  (void)printf("\n"
               "  --socket PATH  where the daemon listens; default: $DLPACKD_SOCKET, then the\n"
               "                 system's and the user's own\n"
               "  --json         answers for programs\n"
               "  --version      print the version of this tool\n"
               "  --help         print this\n\n"
               "`dlctl help COMMAND` explains one. See dlctl(1).\n");
}

static int run_help(struct cmd_context *context, int argc, char **argv)
{
  const struct cmd *cmd;

  if (argc < 2) {
    print_help();
    return CMD_DONE;
  }
  cmd = find_cmd(argv[1]);
  if (!cmd)
    return cmd_usage(context, "help: there is no command '%s'; see dlctl --help", argv[1]);
  cmd_print_help(cmd);
  return CMD_DONE;
}

static int run_cmd(struct cmd_context *context, int argc, char **argv)
{
  if (strcmp(argv[0], "help") == 0)
    return run_help(context, argc, argv);
  context->cmd = find_cmd(argv[0]);
  if (!context->cmd)
    return cmd_usage(context, "there is no command '%s'; see dlctl --help", argv[0]);
  optind = 0; /* starts getopt anew */
  return context->cmd->run(context, argc, argv);
}

static int refuse_option(struct cmd_context *context, char **argv, const struct option *options,
                         bool missing_argument)
{
  cli_auto_text struct text option = {0};

  cmd_append_refused_option(&option, argv, options);
  return cmd_usage(context,
                   missing_argument ? "%s needs a value" : "%s is not an option; see dlctl --help",
                   text_string(&option));
}

static int run(struct cmd_context *context, int argc, char **argv)
{
  static const struct option options[] = {
      {"version", no_argument, NULL, 'V'},
      CMD_COMMON_OPTIONS,
  };
  int option;

  opterr = 0;
  while ((option = getopt_long(argc, argv, "+:hV", options, NULL)) != -1) {
    switch (option) {
    case CMD_OPTION_SOCKET:
      context->socket_path = optarg;
      break;
    case CMD_OPTION_JSON:
      context->json = true;
      break;
    case 'h':
    case CMD_OPTION_HELP:
      print_help();
      return CMD_DONE;
    case 'V':
      (void)printf("dlctl %s\n", DLCLIENT_VERSION_STRING);
      return CMD_DONE;
    default:
      return refuse_option(context, argv, options, option == ':');
    }
  }
  if (optind == argc)
    return cmd_usage(context, "a command is missing; see dlctl --help");
  return run_cmd(context, argc - optind, argv + optind);
}

/* A reader that has seen enough closes the pipe: that is no failure, and nothing to say. */
static volatile sig_atomic_t pipe_closed;

static void note_closed_pipe(int signal_number)
{
  pipe_closed = 1;
}

static int finish_output(struct cmd_context *context, int exit_code)
{
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout))
    return exit_code;
  if (pipe_closed)
    return exit_code;
  return cmd_fail(context, "cannot write to standard output: %s",
                  errno ? strerror(errno) : "not all of it could be written");
}

int main(int argc, char **argv)
{
  struct sigaction action = {.sa_handler = note_closed_pipe, .sa_flags = SA_RESTART};
  struct cmd_context context = {0};

  (void)setlocale(LC_CTYPE, "");
  /* Without a locale of its own the width of characters is still known. */
  if (MB_CUR_MAX == 1)
    (void)setlocale(LC_CTYPE, "C.UTF-8");
  (void)sigaction(SIGPIPE, &action, NULL);
  return finish_output(&context, run(&context, argc, argv));
}
