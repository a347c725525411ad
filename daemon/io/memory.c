#include "io/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int memory_find_hole(int fd, uint64_t offset, uint64_t *ret)
{
  struct stat st;
  off_t hole;

  if (fstat(fd, &st) < 0)
    return -errno;
  if (offset > (uint64_t)st.st_size)
    return -EINVAL;
  if (offset == (uint64_t)st.st_size) {
    *ret = offset;
    return 0;
  }
  /* st_blocks would be quicker and is not to be trusted: its owner can have blocks
   * allocated beyond the end, and huge pages are counted whole. */
  hole = lseek(fd, (off_t)offset, SEEK_HOLE);
  if (hole < 0)
    return -errno;
  *ret = (uint64_t)hole;
  return 0;
}

int memory_reopen_read_only(int fd)
{
  char path[64];
  int reopened;

  (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  reopened = open(path, O_RDONLY | O_CLOEXEC);
  return reopened < 0 ? -errno : reopened;
}
