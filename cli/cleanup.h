#ifndef DLPACKD_CLI_CLEANUP_H
#define DLPACKD_CLI_CLEANUP_H

/*
 * Owning locals of dlctl: a local that owns something says so in its declaration.
 *
 * dlctl sees public headers only, so it has its own few lines for this. Handlers keep
 * errno.
 */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define cli_cleanup_(function) __attribute__((cleanup(function)))

static inline void cli_freep(void *pointer)
{
  int saved_errno = errno;

  free(*(void **)pointer);
  errno = saved_errno;
}

static inline void cli_closep(int *fd)
{
  int saved_errno = errno;

  if (*fd >= 0)
    (void)close(*fd);
  errno = saved_errno;
}

#define cli_auto_free cli_cleanup_(cli_freep)
#define cli_auto_close cli_cleanup_(cli_closep)

#endif
