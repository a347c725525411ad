#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/overflow.h"
#include "config_private.h"
#include "io/memory_info.h"
#include "proto/message.h"

static void *field_of(struct config *config, const struct option_row *option)
{
  return (char *)config + option->field;
}

static int store_u64(struct config *config, const struct option_row *option, uint64_t value)
{
  if (value < option->least || value > option->most)
    return -ERANGE;
  *(uint64_t *)field_of(config, option) = value;
  return 0;
}

/* Decimal digits, then *ret_rest. */
static int parse_digits(const char *text, uint64_t *ret, const char **ret_rest)
{
  char *end;

  if (!isdigit((unsigned char)*text))
    return -EINVAL;
  errno = 0;
  *ret = strtoull(text, &end, 10);
  if (errno)
    return -ERANGE;
  *ret_rest = end;
  return 0;
}

/* A number, perhaps with K, M, G or T (powers of 1024), or a percentage. */
static int parse_amount(struct config *config, const struct option_row *option, const char *text)
{
  static const char units[] = "KMGT";
  const char *rest, *unit;
  uint64_t value;
  int r = parse_digits(text, &value, &rest);

  if (r < 0)
    return r;
  if (strcmp(rest, "%") == 0 && option->whole) {
    uint64_t whole = option->whole();

    if (value > 100)
      return -ERANGE;
    return store_u64(config, option, whole / 100 * value + whole % 100 * value / 100);
  }
  if (*rest == '\0')
    return store_u64(config, option, value);
  unit = strchr(units, toupper((unsigned char)*rest));
  if (!unit || rest[1] != '\0')
    return -EINVAL;
  if (!dlp_mul_u64(value, UINT64_C(1) << (10 * (unit - units + 1)), &value))
    return -ERANGE;
  return store_u64(config, option, value);
}

static int parse_number(struct config *config, const struct option_row *option, const char *text)
{
  const char *rest;
  uint64_t value;
  int r = parse_digits(text, &value, &rest);

  if (r < 0 || *rest)
    return -EINVAL;
  return store_u64(config, option, value);
}

static int parse_mode(struct config *config, const struct option_row *option, const char *text)
{
  uint64_t value = 0;

  if (!*text || strlen(text) > 4)
    return -EINVAL;
  for (const char *c = text; *c; c++) {
    if (*c < '0' || *c > '7')
      return -EINVAL;
    value = value * 8 + (uint64_t)(*c - '0');
  }
  return store_u64(config, option, value);
}

static int parse_socket_mode(struct config *config, const struct option_row *option,
                             const char *text)
{
  if (strcmp(text, "auto") != 0)
    return parse_mode(config, option, text);
  config->socket_mode = CONFIG_MODE_AUTO;
  return 0;
}

static int parse_socket(struct config *config, const struct option_row *option, const char *text)
{
  char *copy = NULL;

  if (!*text)
    return -EINVAL;
  if (strcmp(text, "auto") != 0) {
    copy = strdup(text);
    if (!copy)
      return -ENOMEM;
  }
  free(config->socket);
  config->socket = copy;
  return 0;
}

struct word {
  const char *word;
  int value;
};

static int find_word(const struct word *words, const char *text, int *ret)
{
  for (; words->word; words++)
    if (strcmp(words->word, text) == 0) {
      *ret = words->value;
      return 0;
    }
  return -EINVAL;
}

static int parse_storage(struct config *config, const struct option_row *option, const char *text)
{
  static const struct word words[] = {
      {"memfd", MSG_BACKEND_MEMFD}, {"posix-shm", MSG_BACKEND_POSIX_SHM}, {NULL, 0}};
  int value;
  int r = find_word(words, text, &value);

  if (r == 0)
    config->storage = (uint64_t)value;
  return r;
}

static int parse_log_level(struct config *config, const struct option_row *option, const char *text)
{
  static const struct word words[] = {{"error", LOG_LEVEL_ERROR},
                                      {"warning", LOG_LEVEL_WARNING},
                                      {"info", LOG_LEVEL_INFO},
                                      {"debug", LOG_LEVEL_DEBUG},
                                      {NULL, 0}};
  int value;
  int r = find_word(words, text, &value);

  if (r == 0)
    config->log_level = (enum log_level)value;
  return r;
}

static int parse_log_format(struct config *config, const struct option_row *option,
                            const char *text)
{
  static const struct word words[] = {{"auto", LOG_FORMAT_AUTO},
                                      {"text", LOG_FORMAT_TEXT},
                                      {"journal", LOG_FORMAT_JOURNAL},
                                      {NULL, 0}};
  int value;
  int r = find_word(words, text, &value);

  if (r == 0)
    config->log_format = (enum log_format)value;
  return r;
}

static int find_uid(const char *text, uint32_t *ret)
{
  const struct passwd *user;
  const char *rest;
  uint64_t value;

  if (parse_digits(text, &value, &rest) == 0 && !*rest) {
    /* The last uid is the system's word for "none". */
    if (value >= UINT32_MAX)
      return -ERANGE;
    *ret = (uint32_t)value;
    return 0;
  }
  user = getpwnam(text);
  if (!user)
    return -ENOENT;
  *ret = user->pw_uid;
  return 0;
}

static int parse_admin(struct config *config, const struct option_row *option, const char *text)
{
  uint32_t uid, *admins;
  int r = find_uid(text, &uid);

  if (r < 0)
    return r;
  admins = reallocarray(config->admins, config->n_admins + 1, sizeof(*admins));
  if (!admins)
    return -ENOMEM;
  admins[config->n_admins++] = uid;
  config->admins = admins;
  return 0;
}

uint64_t config_descriptor_limit(void)
{
  struct rlimit limit;

  if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
    return 1024;
  /* The soft one is raised to it at the start. */
  return limit.rlim_max;
}

#define FIELD(name) offsetof(struct config, name)
#define USER_LIMIT(slot) (FIELD(user_limits) + (slot) * sizeof(uint64_t))
#define AMOUNT "a number, perhaps with K, M, G or T"
#define AMOUNT_OF(what) AMOUNT ", or a percentage of " what

const struct option_row config_options[] = {
    {"socket", "PATH", "auto", "a path, or auto",
     "where to listen; auto: $RUNTIME_DIRECTORY/socket, " CONFIG_SYSTEM_SOCKET
     " for root, $XDG_RUNTIME_DIR/dlpackd/socket, or /tmp/dlpackd-UID/socket",
     parse_socket, 0, 0, 0, NULL},
    {"socket-mode", "MODE", "auto", "an octal mode up to 0777, or auto",
     "who may connect; auto: 0660 below /run for the system's daemon, else 0600", parse_socket_mode,
     FIELD(socket_mode), 0, 0777, NULL},
    {"max-bytes", "SIZE", "80%", AMOUNT_OF("the host's memory"), "memory of all segments together",
     parse_amount, FIELD(max_bytes), 1, UINT64_MAX, memory_info_total},
    {"storage", "KIND", "memfd", "memfd or posix-shm", "where segments come from", parse_storage, 0,
     0, 0, NULL},
    {"default-mode", "MODE", "0600", "an octal mode from 0001 to 0777",
     "permissions of tensors published without any", parse_mode, FIELD(default_mode), 1, 0777,
     NULL},
    {"user-bytes", "SIZE", "80%", AMOUNT_OF("the host's memory"), "memory of one user's segments",
     parse_amount, USER_LIMIT(QUOTA_BYTES), 1, UINT64_MAX, memory_info_total},
    {"user-tensors", "N", "100000", AMOUNT, "versions of one user, published or held", parse_amount,
     USER_LIMIT(QUOTA_TENSORS), 1, UINT32_MAX, NULL},
    {"user-segments", "N", "50%", AMOUNT_OF("the descriptor limit"), "segments of one user",
     parse_amount, USER_LIMIT(QUOTA_SEGMENTS), 1, UINT32_MAX, config_descriptor_limit},
    {"user-leases", "N", "256K", AMOUNT, "versions that one user's processes hold", parse_amount,
     USER_LIMIT(QUOTA_LEASES), 1, UINT32_MAX, NULL},
    {"user-sessions", "N", "1024", AMOUNT, "processes of one user", parse_amount,
     USER_LIMIT(QUOTA_SESSIONS), 1, UINT32_MAX, NULL},
    {"user-heap", "SIZE", "64M", AMOUNT, "the daemon's own memory on behalf of one user",
     parse_amount, USER_LIMIT(QUOTA_HEAP), 64 << 10, UINT64_MAX, NULL},
    {"output-limit", "SIZE", "32M", AMOUNT ", from 128K on",
     "answers kept for a client that does not read; 8 times that for all of a user's", parse_amount,
     FIELD(output_limit), 128 << 10, UINT64_MAX, NULL},
    {"idle-exit", "SECONDS", "0", "a number of seconds up to 31536000",
     "leave when nobody was here for so long and nothing would be lost; 0: never", parse_number,
     FIELD(idle_exit_s), 0, 31536000, NULL},
    {"admin", "USER", NULL, "a uid or the name of a user",
     "may list, count and delete everything; may be repeated", parse_admin, 0, 0, 0, NULL},
    {"log-level", "LEVEL", "info", "error, warning, info or debug", "what is worth a line",
     parse_log_level, 0, 0, 0, NULL},
    {"log-format", "FORMAT", "auto", "auto, text or journal",
     "auto: journal if standard error is its stream, else text", parse_log_format, 0, 0, 0, NULL},
};

const size_t config_n_options = sizeof(config_options) / sizeof(config_options[0]);
