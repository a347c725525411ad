#include "common/fdset.h"

#include <assert.h>
#include <errno.h>

void dlp_fdset_init(struct dlp_fdset *set)
{
  set->size = 0;
}

void dlp_fdset_deinit(struct dlp_fdset *set)
{
  for (size_t i = 0; i < set->size; i++)
    set->fds[i] = dlp_close(set->fds[i]);
  set->size = 0;
}

int dlp_fdset_get(const struct dlp_fdset *set, size_t index)
{
  return index < set->size ? set->fds[index] : -1;
}

int dlp_fdset_steal(struct dlp_fdset *set, size_t index)
{
  return index < set->size ? DLP_TAKE_FD(set->fds[index]) : -1;
}

int dlp_fdset_add_consume(struct dlp_fdset *set, int fd)
{
  assert(fd >= 0);
  if (set->size == DLP_FDSET_MAX)
    return -ENOSPC;
  set->fds[set->size++] = fd;
  return 0;
}
