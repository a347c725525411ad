#include "config.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "config_private.h"
#include "io/listener.h"

static const struct {
  const char *name;
  const char *argument;
  const char *help;
} commands[] = {
    {"config", "FILE", "read options from FILE: lines of \"key = value\", # begins a comment"},
    {"check-config", NULL, "say whether the configuration is right, and leave"},
    {"version", NULL, "print the version and leave"},
    {"help", NULL, "print this and leave"},
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Room for all of them and the end. */
#define CONFIG_FLAGS_MAX 64

/* getopt_long's value of the first command; options have their index. */
#define FIRST_COMMAND 1000

enum command {
  COMMAND_CONFIG = FIRST_COMMAND,
  COMMAND_CHECK,
  COMMAND_VERSION,
  COMMAND_HELP,
};

static int set_option(struct config *config, const struct option_row *option, const char *where,
                      const char *text, struct complaint *reterr)
{
  int r = option->parse(config, option, text);

  if (r == -ENOMEM)
    return complain(reterr, r, "out of memory");
  if (r < 0)
    return complain(reterr, r, "%s%s is \"%s\"; it must be %s", where, option->name, text,
                    option->allowed);
  return 0;
}

static const struct option_row *find_option(const char *name)
{
  for (size_t i = 0; i < config_n_options; i++)
    if (strcmp(config_options[i].name, name) == 0)
      return &config_options[i];
  return NULL;
}

static int set_defaults(struct config *config, struct complaint *reterr)
{
  for (size_t i = 0; i < config_n_options; i++) {
    int r = config_options[i].default_text
                ? set_option(config, &config_options[i], "the default of ",
                             config_options[i].default_text, reterr)
                : 0;

    if (r < 0)
      return r;
  }
  return 0;
}

/* ---- the file ---- */

/* Without the white space at its ends. */
static char *strip(char *text)
{
  char *end;

  while (isspace((unsigned char)*text))
    text++;
  end = text + strlen(text);
  while (end > text && isspace((unsigned char)end[-1]))
    end--;
  *end = '\0';
  return text;
}

static int read_line(struct config *config, char *line, const char *where, struct complaint *reterr)
{
  const struct option_row *option;
  char *key, *value;

  line[strcspn(line, "#\n")] = '\0';
  key = strip(line);
  if (!*key)
    return 0;
  value = strchr(key, '=');
  if (!value)
    return complain(reterr, -EINVAL, "%s\"%s\" is not of the form \"key = value\"", where, key);
  *value++ = '\0';
  key = strip(key);
  option = find_option(key);
  if (!option)
    return complain(reterr, -EINVAL, "%sthere is no option \"%s\"; dlpackd --help lists them",
                    where, key);
  return set_option(config, option, where, strip(value), reterr);
}

static int read_file(struct config *config, const char *path, struct complaint *reterr)
{
  dlp_auto_free char *line = NULL;
  FILE *file = fopen(path, "re");
  char where[256];
  size_t size = 0;
  int r = 0;

  if (!file)
    return complain(reterr, -errno, "cannot read the configuration %s: %s", path, strerror(errno));
  for (unsigned number = 1; r == 0 && getline(&line, &size, file) >= 0; number++) {
    (void)snprintf(where, sizeof(where), "%s:%u: ", path, number);
    r = read_line(config, line, where, reterr);
  }
  if (r == 0 && ferror(file))
    r = complain(reterr, -EIO, "cannot read the configuration %s", path);
  (void)fclose(file);
  return r;
}

/* ---- flags ---- */

static void fill_long_options(struct option *ret)
{
  assert(config_n_options + N_COMMANDS < CONFIG_FLAGS_MAX);
  memset(ret, 0, CONFIG_FLAGS_MAX * sizeof(*ret));
  for (size_t i = 0; i < config_n_options; i++)
    *ret++ = (struct option){config_options[i].name, required_argument, NULL, (int)i};
  for (size_t i = 0; i < N_COMMANDS; i++)
    *ret++ =
        (struct option){commands[i].name, commands[i].argument ? required_argument : no_argument,
                        NULL, FIRST_COMMAND + (int)i};
}

typedef int (*flag_fn)(struct config *config, int value, const char *text,
                       struct complaint *reterr);

static int each_flag(struct config *config, int argc, char **argv, flag_fn function,
                     struct complaint *reterr)
{
  struct option long_options[CONFIG_FLAGS_MAX];
  int value, r;

  fill_long_options(long_options);
  optind = 0;
  opterr = 0;
  while ((value = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
    if (value == ':')
      return complain(reterr, -EINVAL, "%s needs a value; see dlpackd --help", argv[optind - 1]);
    if (value == '?')
      return complain(reterr, -EINVAL, "%s is no option, or takes no value; see dlpackd --help",
                      argv[optind - 1]);
    r = function(config, value == 'h' ? COMMAND_HELP : value, optarg, reterr);
    if (r < 0)
      return r;
  }
  if (optind < argc)
    return complain(reterr, -EINVAL, "\"%s\" is not expected; see dlpackd --help", argv[optind]);
  return 0;
}

/* What has to be known before options count: the file stands below the flags. */
static int take_command(struct config *config, int value, const char *text,
                        struct complaint *reterr)
{
  switch (value) {
  case COMMAND_CONFIG:
    return read_file(config, text, reterr);
  case COMMAND_CHECK:
    if (config->action == CONFIG_RUN)
      config->action = CONFIG_CHECK;
    return 0;
  case COMMAND_VERSION:
    if (config->action != CONFIG_HELP)
      config->action = CONFIG_VERSION;
    return 0;
  case COMMAND_HELP:
    config->action = CONFIG_HELP;
    return 0;
  default:
    return 0;
  }
}

static int take_option(struct config *config, int value, const char *text, struct complaint *reterr)
{
  return value < FIRST_COMMAND ? set_option(config, &config_options[value], "--", text, reterr) : 0;
}

int config_init(struct config *config, int argc, char **argv, struct complaint *reterr)
{
  const char *socket = getenv("DLPACKD_SOCKET");
  int r;

  memset(config, 0, sizeof(*config));
  r = set_defaults(config, reterr);
  if (r < 0)
    return r;
  r = each_flag(config, argc, argv, take_command, reterr);
  if (r < 0)
    return r;
  if (socket && *socket)
    r = set_option(config, find_option("socket"), "$DLPACKD_SOCKET: ", socket, reterr);
  if (r < 0)
    return r;
  return each_flag(config, argc, argv, take_option, reterr);
}

void config_deinit(struct config *config)
{
  free(config->socket);
  config->socket = NULL;
  free(config->admins);
  config->admins = NULL;
  config->n_admins = 0;
}

static void print_row(FILE *file, const char *name, const char *argument, const char *help,
                      const char *default_text)
{
  char flag[64];

  (void)snprintf(flag, sizeof(flag), "--%s%s%s", name, argument ? "=" : "",
                 argument ? argument : "");
  (void)fprintf(file, "  %-22s %s", flag, help);
  if (default_text)
    (void)fprintf(file, " [%s]", default_text);
  (void)fputc('\n', file);
}

void config_print_help(FILE *file)
{
  (void)fputs("Usage: dlpackd [OPTION]...\n"
              "Passes tensors between the processes of this host, through shared memory.\n\n"
              "Options, which are also keys of the configuration file [defaults]:\n",
              file);
  for (size_t i = 0; i < config_n_options; i++)
    print_row(file, config_options[i].name, config_options[i].argument, config_options[i].help,
              config_options[i].default_text);
  (void)fputs("\nOther:\n", file);
  for (size_t i = 0; i < N_COMMANDS; i++)
    print_row(file, commands[i].name, commands[i].argument, commands[i].help, NULL);
  (void)fputs("\nEnvironment: DLPACKD_SOCKET is the socket, unless --socket says another.\n", file);
}

void config_each_option(void (*function)(void *context, const char *name, const char *default_text),
                        void *context)
{
  for (size_t i = 0; i < config_n_options; i++)
    function(context, config_options[i].name, config_options[i].default_text);
}

/* ---- the socket ---- */

static int format_path(char **ret, const char *directory, const char *rest,
                       struct complaint *reterr)
{
  if (asprintf(ret, "%s%s", directory, rest) < 0) {
    *ret = NULL;
    return complain(reterr, -ENOMEM, "out of memory");
  }
  return 0;
}

static int temporary_path(char **ret, struct complaint *reterr)
{
  char directory[64];
  int r;

  (void)snprintf(directory, sizeof(directory), "/tmp/dlpackd-%u", (unsigned)geteuid());
  r = listener_private_directory(directory, reterr);
  return r < 0 ? r : format_path(ret, directory, "/socket", reterr);
}

int config_socket_path(const struct config *config, char **ret, struct complaint *reterr)
{
  const char *service = getenv("RUNTIME_DIRECTORY");
  const char *user = getenv("XDG_RUNTIME_DIR");

  if (config->socket)
    return format_path(ret, config->socket, "", reterr);
  if (service && *service)
    return format_path(ret, service, "/socket", reterr);
  if (geteuid() == 0)
    return format_path(ret, CONFIG_SYSTEM_SOCKET, "", reterr);
  if (user && *user)
    return format_path(ret, user, "/dlpackd/socket", reterr);
  return temporary_path(ret, reterr);
}

unsigned config_socket_mode(const struct config *config, const char *path)
{
  if (config->socket_mode != CONFIG_MODE_AUTO)
    return (unsigned)config->socket_mode;
  return strcmp(path, CONFIG_SYSTEM_SOCKET) == 0 ? 0660 : 0600;
}
