#include "human.h"

#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <time.h>

#include "escape.h"

void human_size(struct text *text, uint64_t bytes)
{
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = (double)bytes / 1024;
  size_t unit = 0;

  if (bytes < 1024) {
    text_printf(text, "%" PRIu64 " B", bytes);
    return;
  }
  /* 1023.95 and more would be printed as 1024.0. */
  while (value >= 1023.95 && unit + 1 < sizeof(units) / sizeof(units[0])) {
    value /= 1024;
    unit++;
  }
  text_printf(text, "%.1f %s", value, units[unit]);
}

void human_age(struct text *text, uint64_t age_ms)
{
  static const struct {
    uint64_t seconds;
    char unit;
  } steps[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
  uint64_t seconds = age_ms / 1000;
  size_t i = 0;

  while (i < 3 && seconds < steps[i].seconds)
    i++;
  text_printf(text, "%" PRIu64 "%c", seconds / steps[i].seconds, steps[i].unit);
}

void human_dims(struct text *text, int32_t ndim, const int64_t *dims)
{
  text_append(text, "[");
  for (int32_t i = 0; i < ndim; i++)
    text_printf(text, "%s%" PRId64, i ? "," : "", dims[i]);
  text_append(text, "]");
}

void human_time(struct text *text, uint64_t us)
{
  time_t seconds = (time_t)(us / 1000000);
  struct tm tm;
  char date[32];
  char zone[16];

  if (!localtime_r(&seconds, &tm) || !strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm) ||
      !strftime(zone, sizeof(zone), "%z", &tm)) {
    text_printf(text, "%" PRIu64 " us", us);
    return;
  }
  text_printf(text, "%s.%06u %s", date, (unsigned)(us % 1000000), zone);
}

void human_mode(struct text *text, uint32_t mode)
{
  for (unsigned bit = 0; bit < 9; bit++)
    text_printf(text, "%c", mode & (0400u >> bit) ? "rwx"[bit % 3] : '-');
}

void human_user(struct text *text, uint32_t uid)
{
  const struct passwd *user = getpwuid(uid);

  if (user)
    escape_terminal(text, user->pw_name);
  else
    text_printf(text, "%" PRIu32, uid);
}

void human_group(struct text *text, uint32_t gid)
{
  const struct group *group = getgrgid(gid);

  if (group)
    escape_terminal(text, group->gr_name);
  else
    text_printf(text, "%" PRIu32, gid);
}

void human_device(struct text *text, int32_t device_type)
{
  static const char *const names[] = {
      [1] = "cpu",        [2] = "cuda",     [3] = "cuda_host",     [4] = "opencl",
      [7] = "vulkan",     [8] = "metal",    [9] = "vpi",           [10] = "rocm",
      [11] = "rocm_host", [12] = "ext_dev", [13] = "cuda_managed", [14] = "oneapi",
      [15] = "webgpu",    [16] = "hexagon", [17] = "maia",         [18] = "trn",
  };

  if (device_type >= 0 && (size_t)device_type < sizeof(names) / sizeof(names[0]) &&
      names[device_type])
    text_append(text, names[device_type]);
  else
    text_printf(text, "device %" PRId32, device_type);
}
