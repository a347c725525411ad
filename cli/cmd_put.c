#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "cmd.h"
#include "escape.h"
#include "human.h"
#include "number.h"
#include "publish.h"

enum {
  OPTION_TYPE = CMD_OPTION_OWN,
  OPTION_RAW,
  OPTION_LIFETIME,
  OPTION_TTL,
  OPTION_MODE,
  OPTION_GROUP,
  OPTION_ATTR,
  OPTION_BACKEND,
  ATTRIBUTES_MAX = 256, /* the library's limit on bytes is met earlier */
};

struct putting {
  struct cmd_context *context;
  enum file_type type;
  struct dlc_publish_options options;
  bool lifetime_given;
  struct dlc_attribute attributes[ATTRIBUTES_MAX]; /* keys are ours */
};

/* Each takes optarg. Return: CMD_DONE or CMD_USAGE. */
static int set_type(struct putting *putting)
{
  if (file_type_parse(optarg, &putting->type))
    return CMD_DONE;
  return cmd_usage(putting->context, "--type: '%s' is none of npy, safetensors and raw", optarg);
}

static int set_raw(struct putting *putting)
{
  putting->type = FILE_TYPE_RAW;
  return CMD_DONE;
}

static int set_lifetime(struct putting *putting)
{
  putting->lifetime_given = true;
  if (strcmp(optarg, "persistent") == 0)
    putting->options.lifetime = DLC_LIFETIME_PERSISTENT;
  else if (strcmp(optarg, "ttl") == 0)
    putting->options.lifetime = DLC_LIFETIME_TTL;
  else if (strcmp(optarg, "session") == 0)
    return cmd_usage(putting->context,
                     "--lifetime session: the tensor would go as soon as dlctl exits; use "
                     "persistent, or --ttl SECONDS");
  else
    return cmd_usage(putting->context, "--lifetime: '%s' is neither persistent nor ttl", optarg);
  return CMD_DONE;
}

static int set_ttl(struct putting *putting)
{
  if (number_parse_seconds(optarg, &putting->options.ttl_ms) == 0 && putting->options.ttl_ms > 0)
    return CMD_DONE;
  return cmd_usage(putting->context, "--ttl: '%s' is not a number of seconds above 0", optarg);
}

static int set_mode(struct putting *putting)
{
  uint64_t mode;

  if (number_parse_u64(optarg, 8, &mode) != 0 || mode > 0777)
    return cmd_usage(putting->context, "--mode: '%s' is not an octal mode such as 0640", optarg);
  if (mode & 0111)
    return cmd_usage(putting->context, "--mode: '%s' has x bits; a tensor has r and w only",
                     optarg);
  if ((mode & 0600) == 0)
    return cmd_usage(putting->context, "--mode: '%s' keeps its owner out", optarg);
  putting->options.mode = (uint32_t)mode;
  return CMD_DONE;
}

static int set_group(struct putting *putting)
{
  const struct group *group = getgrnam(optarg);
  uint64_t gid;

  if (group)
    gid = group->gr_gid;
  else if (number_parse_u64(optarg, 10, &gid) != 0 || gid >= UINT32_MAX)
    return cmd_usage(putting->context, "--group: there is no group '%s'", optarg);
  putting->options.gid = (uint32_t)gid;
  putting->options.has_gid = 1;
  return CMD_DONE;
}

static int set_attribute(struct putting *putting)
{
  char *equals = strchr(optarg, '=');
  struct dlc_attribute *attribute = &putting->attributes[putting->options.n_attributes];

  if (!equals || equals == optarg)
    return cmd_usage(putting->context, "--attr: '%s' is not KEY=VALUE", optarg);
  if (putting->options.n_attributes == ATTRIBUTES_MAX)
    return cmd_usage(putting->context, "--attr: more than %d attributes", ATTRIBUTES_MAX);
  attribute->key = strndup(optarg, (size_t)(equals - optarg));
  if (!attribute->key)
    return cmd_fail_memory(putting->context);
  attribute->value = equals + 1;
  putting->options.attributes = putting->attributes;
  putting->options.n_attributes++;
  return CMD_DONE;
}

static int set_backend(struct putting *putting)
{
  if (strcmp(optarg, "memfd") == 0)
    putting->options.backend = DLC_BACKEND_MEMFD;
  else if (strcmp(optarg, "posix-shm") == 0)
    putting->options.backend = DLC_BACKEND_POSIX_SHM;
  else
    return cmd_usage(putting->context, "--backend: '%s' is neither memfd nor posix-shm", optarg);
  return CMD_DONE;
}

static int (*const setters[])(struct putting *putting) = {
    [OPTION_TYPE - CMD_OPTION_OWN] = set_type,
    [OPTION_RAW - CMD_OPTION_OWN] = set_raw,
    [OPTION_LIFETIME - CMD_OPTION_OWN] = set_lifetime,
    [OPTION_TTL - CMD_OPTION_OWN] = set_ttl,
    [OPTION_MODE - CMD_OPTION_OWN] = set_mode,
    [OPTION_GROUP - CMD_OPTION_OWN] = set_group,
    [OPTION_ATTR - CMD_OPTION_OWN] = set_attribute,
    [OPTION_BACKEND - CMD_OPTION_OWN] = set_backend,
};

/* A time to live says what lifetime is meant; a lifetime of its own needs the time. */
static int settle_lifetime(struct putting *putting)
{
  struct dlc_publish_options *options = &putting->options;

  if (options->ttl_ms > 0 && !putting->lifetime_given)
    options->lifetime = DLC_LIFETIME_TTL;
  if (options->ttl_ms > 0 && options->lifetime == DLC_LIFETIME_PERSISTENT)
    return cmd_usage(putting->context, "--ttl and --lifetime persistent contradict each other");
  if (options->ttl_ms == 0 && options->lifetime == DLC_LIFETIME_TTL)
    return cmd_usage(putting->context, "--lifetime ttl needs --ttl SECONDS");
  return CMD_DONE;
}

static int parse(struct putting *putting, int argc, char **argv)
{
  static const struct option options[] = {
      {"type", required_argument, NULL, OPTION_TYPE},
      {"raw", no_argument, NULL, OPTION_RAW},
      {"lifetime", required_argument, NULL, OPTION_LIFETIME},
      {"ttl", required_argument, NULL, OPTION_TTL},
      {"mode", required_argument, NULL, OPTION_MODE},
      {"group", required_argument, NULL, OPTION_GROUP},
      {"attr", required_argument, NULL, OPTION_ATTR},
      {"backend", required_argument, NULL, OPTION_BACKEND},
      CMD_COMMON_OPTIONS,
  };
  struct cmd_context *context = putting->context;
  int option;

  while ((option = cmd_option(context, argc, argv, ":", options)) != -1) {
    if (option < CMD_OPTION_OWN)
      return -1;
    context->exit_code = setters[option - CMD_OPTION_OWN](putting);
    if (context->exit_code != CMD_DONE)
      return -1;
  }
  context->exit_code = cmd_check_arguments(context, argc, 2, INT_MAX);
  if (context->exit_code == CMD_DONE)
    context->exit_code = settle_lifetime(putting);
  return context->exit_code == CMD_DONE ? 0 : -1;
}

/* With one file NAME is its name; with more, each goes below NAME as its file is called. */
static void append_name(struct text *text, const char *name, const char *path, int n_files)
{
  const char *slash = strrchr(path, '/');
  cli_auto_text struct text stem = {0};
  const char *base = slash ? slash + 1 : path;
  const char *dot = strrchr(base, '.');

  if (n_files == 1) {
    text_append(text, name);
    return;
  }
  source_append_prefix(text, name);
  text_append_bytes(&stem, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
  escape_name(text, text_string(&stem));
}

static int open_source(struct putting *putting, struct source *source, const char *name,
                       const char *path, int n_files)
{
  cli_auto_text struct text whole = {0};
  cli_auto_text struct text reason = {0};
  int r;

  append_name(&whole, name, path, n_files);
  if (whole.failed)
    return cmd_fail_memory(putting->context);
  r = source_open(source, path, putting->type, text_string(&whole), &reason);
  if (r < 0)
    return cmd_fail(putting->context, "%s: %s", path, strerror(-r));
  if (r == SOURCE_E_FORMAT)
    return cmd_fail(putting->context, "%s: %s", path, text_string(&reason));
  return CMD_DONE;
}

static int report(struct putting *putting, const char *name, const struct source *sources,
                  size_t n_sources, uint64_t version)
{
  size_t n_tensors = publish_n_tensors(sources, n_sources);
  uint64_t size = publish_total_size(sources, n_sources);
  cli_auto_text struct text text = {0};

  if (putting->context->json)
    return cmd_print_json(putting->context,
                          json_pack("{s:I, s:I, s:I}", "version", (json_int_t)version, "tensors",
                                    (json_int_t)n_tensors, "bytes", (json_int_t)size),
                          0);
  escape_terminal(&text, name);
  text_printf(&text, ": version %" PRIu64 ", %zu tensor%s, ", version, n_tensors,
              n_tensors == 1 ? "" : "s");
  human_size(&text, size);
  text_append(&text, "\n");
  return cmd_print_text(putting->context, &text);
}

static int publish(struct putting *putting, const char *name, const struct source *sources,
                   size_t n_sources)
{
  cmd_auto_client struct dlc_client *client = NULL;
  cli_auto_text struct text label = {0};
  cli_cleanup_(progress_deinit) struct progress progress = {0};
  struct dlc_error error = {0};
  const char *failed;
  uint64_t version = 0;
  int r = cmd_connect(putting->context, &client);

  if (r != CMD_DONE)
    return r;
  text_append(&label, "put ");
  escape_terminal(&label, name);
  progress_init(&progress, text_string(&label), publish_total_size(sources, n_sources));
  r = publish_sources(client, sources, n_sources, &putting->options, &progress, &version, &failed,
                      &error);
  progress_deinit(&progress);
  if (r < 0)
    return cmd_fail_library(putting->context, failed, &error);
  return report(putting, name, sources, n_sources, version);
}

static int put(struct putting *putting, const char *name, char **paths, int n_files)
{
  struct source *sources = calloc((size_t)n_files, sizeof(sources[0]));
  int exit_code = sources ? CMD_DONE : cmd_fail_memory(putting->context);
  int n_opened = 0;

  for (; exit_code == CMD_DONE && n_opened < n_files; n_opened++)
    exit_code = open_source(putting, &sources[n_opened], name, paths[n_opened], n_files);
  if (exit_code == CMD_DONE)
    exit_code = publish(putting, name, sources, (size_t)n_files);
  for (int i = 0; i < n_opened; i++)
    source_close(&sources[i]);
  free(sources);
  return exit_code;
}

int cmd_put(struct cmd_context *context, int argc, char **argv)
{
  struct putting putting = {.context = context, .options = DLC_PUBLISH_OPTIONS_INIT};
  int exit_code;

  putting.options.lifetime = DLC_LIFETIME_PERSISTENT;
  if (parse(&putting, argc, argv) == 0)
    exit_code = put(&putting, argv[optind], argv + optind + 1, argc - optind - 1);
  else
    exit_code = context->exit_code;
  for (size_t i = 0; i < putting.options.n_attributes; i++)
    free((char *)(uintptr_t)putting.attributes[i].key);
  return exit_code;
}
