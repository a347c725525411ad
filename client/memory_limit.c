#include "client/memory_limit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/error.h"
#include "common/cleanup.h"

#define CHECK_FROM (UINT64_C(1) << 20)
#define MAX_AGE_NS INT64_C(1000000000)
#define CGROUP_MOUNT "/sys/fs/cgroup"

/* Version 1 writes "none" as a number that is almost 2^63. */
#define NO_LIMIT_FROM (UINT64_C(1) << 60)

/* Where the two versions keep the same three facts. */
struct cgroup_files {
  const char *below_mount;
  const char *limit;
  const char *used;
  const char *inactive;
  const char *active;
};

static const struct cgroup_files cgroup_v1 = {"/memory", "memory.limit_in_bytes",
                                              "memory.usage_in_bytes", "total_inactive_file",
                                              "total_active_file"};
static const struct cgroup_files cgroup_v2 = {"", "memory.max", "memory.current", "inactive_file",
                                              "active_file"};

void dlc__memory_limit_init(struct dlc__memory_limit *limit)
{
  (void)pthread_mutex_init(&limit->lock, NULL);
  limit->limit = UINT64_MAX;
}

/* The start of a small file. Return: false if there is none. */
static bool read_text(const char *path, char *buffer, size_t size)
{
  dlp_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, buffer, size - 1);

  if (n < 0)
    return false;
  buffer[n] = '\0';
  return true;
}

static bool read_number(const char *directory, const char *file, uint64_t *ret)
{
  char path[512], text[64];
  char *end;

  if (snprintf(path, sizeof(path), "%s/%s", directory, file) >= (int)sizeof(path) ||
      !read_text(path, text, sizeof(text)))
    return false;
  *ret = strtoull(text, &end, 10);
  return end != text;
}

/* A line of memory.stat; 0 if it is not there. */
static uint64_t stat_value(const char *text, const char *key)
{
  size_t size = strlen(key);

  for (const char *line = text; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, key, size) == 0 && line[size] == ' ')
      return strtoull(line + size, NULL, 10);
  }
  return 0;
}

static uint64_t read_cache(const char *directory, const struct cgroup_files *files)
{
  char path[512], text[4096];

  if (snprintf(path, sizeof(path), "%s/memory.stat", directory) >= (int)sizeof(path) ||
      !read_text(path, text, sizeof(text)))
    return 0;
  return stat_value(text, files->inactive) + stat_value(text, files->active);
}

/* Keeps the group that has the least left. */
static void consider_group(struct dlc__memory_limit *limit, const char *directory,
                           const struct cgroup_files *files)
{
  uint64_t bytes, used, cache, left;

  if (!read_number(directory, files->limit, &bytes) || bytes >= NO_LIMIT_FROM ||
      !read_number(directory, files->used, &used))
    return;
  cache = read_cache(directory, files);
  used = used > cache ? used - cache : 0;
  left = bytes > used ? bytes - used : 0;
  if (limit->limit != UINT64_MAX &&
      left >= (limit->limit > limit->used ? limit->limit - limit->used : 0))
    return;
  limit->limit = bytes;
  limit->used = used;
  (void)snprintf(limit->group, sizeof(limit->group), "%.*s", (int)sizeof(limit->group) - 1,
                 directory);
}

/* A group and all that it is in: each may have a limit. Inside a container the
 * path may lead nowhere; then the mount itself is the group. */
static void consider_path(struct dlc__memory_limit *limit, const char *mount, const char *path,
                          const struct cgroup_files *files)
{
  char directory[384];
  size_t base;

  base = (size_t)snprintf(directory, sizeof(directory), "%s%s", mount, files->below_mount);
  if (base >= sizeof(directory) || base + strlen(path) >= sizeof(directory))
    return;
  (void)strcpy(directory + base, path);
  for (;;) {
    char *slash;

    consider_group(limit, directory, files);
    slash = strrchr(directory + base, '/');
    if (!slash)
      return;
    *slash = '\0';
  }
}

static bool is_memory_controller(const char *controllers, size_t size)
{
  for (const char *at = controllers; at < controllers + size;) {
    size_t n = strcspn(at, ",:");

    if (n == strlen("memory") && strncmp(at, "memory", n) == 0)
      return true;
    at += n + 1;
  }
  return false;
}

/* "4:memory:/a/b" of version 1, "0::/a/b" of version 2. */
static void consider_line(struct dlc__memory_limit *limit, char *line, const char *mount)
{
  char *controllers = strchr(line, ':');
  char *path = controllers ? strchr(controllers + 1, ':') : NULL;

  if (!path)
    return;
  controllers++;
  if (controllers == path)
    consider_path(limit, mount, path + 1, &cgroup_v2);
  else if (is_memory_controller(controllers, (size_t)(path - controllers)))
    consider_path(limit, mount, path + 1, &cgroup_v1);
}

void dlc__memory_limit_read(struct dlc__memory_limit *limit, const char *cgroups, const char *mount)
{
  char text[4096];
  char *rest = text;
  char *line;

  limit->limit = UINT64_MAX;
  limit->used = 0;
  (void)snprintf(text, sizeof(text), "%s", cgroups);
  while ((line = strsep(&rest, "\n")))
    consider_line(limit, line, mount);
}

static void refresh(struct dlc__memory_limit *limit)
{
  int64_t now = dlc__clock_now();
  char text[4096];

  if (limit->read_at != 0 && now - limit->read_at < MAX_AGE_NS)
    return;
  limit->read_at = now;
  if (read_text("/proc/self/cgroup", text, sizeof(text)))
    dlc__memory_limit_read(limit, text, CGROUP_MOUNT);
}

int dlc__memory_limit_check(struct dlc__memory_limit *limit, uint64_t wanted,
                            struct dlc_error *reterr)
{
  int r = 0;

  if (wanted < CHECK_FROM)
    return 0;
  (void)pthread_mutex_lock(&limit->lock);
  refresh(limit);
  if (limit->limit != UINT64_MAX &&
      (limit->used > limit->limit || wanted > limit->limit - limit->used))
    r = dlc__error_set(reterr, DLC_E_NO_SPACE, 0,
                       "%" PRIu64 " bytes do not fit this process's control group %s: its memory "
                       "limit is %" PRIu64 " bytes, of which %" PRIu64 " are in use; raise the "
                       "limit, or delete tensors",
                       wanted, limit->group, limit->limit, limit->used);
  else if (limit->limit != UINT64_MAX)
    limit->used += wanted; /* until the next look; several may begin within a second */
  (void)pthread_mutex_unlock(&limit->lock);
  return r;
}
