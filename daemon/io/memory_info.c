#include "io/memory_info.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/cleanup.h"

#define MEMORY_INFO_US (100 * 1000)

void memory_info_init(struct memory_info *info)
{
  info->fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
  info->read_us = 0;
  info->available = UINT64_MAX;
}

void memory_info_deinit(struct memory_info *info)
{
  info->fd = dlp_close(info->fd);
}

static uint64_t read_available(int fd)
{
  char text[4096];
  uint64_t kib;
  const char *line;
  ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

  if (n <= 0)
    return UINT64_MAX;
  text[n] = '\0';
  line = strstr(text, "MemAvailable:");
  if (!line || sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
    return UINT64_MAX;
  return kib * 1024;
}

uint64_t memory_info_available(struct memory_info *info, uint64_t now_us)
{
  if (info->fd < 0)
    return UINT64_MAX;
  if (info->read_us == 0 || now_us - info->read_us >= MEMORY_INFO_US) {
    info->available = read_available(info->fd);
    info->read_us = now_us;
  }
  return info->available;
}

uint64_t memory_info_total(void)
{
  struct sysinfo info;

  if (sysinfo(&info) < 0)
    return UINT64_MAX;
  return (uint64_t)info.totalram * info.mem_unit;
}
