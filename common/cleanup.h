#ifndef DLPACKD_COMMON_CLEANUP_H
#define DLPACKD_COMMON_CLEANUP_H

/*
 * Owning locals. A local that owns something says so in its declaration, and is
 * given up in plain sight:
 *
 *   dlp_auto_close int fd = -1;
 *   dlp_cleanup_(quota_freep) struct quota *q = NULL;
 *   ...
 *   *ret = DLP_TAKE(q);
 *
 * Handlers keep errno.
 */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define dlp_cleanup_(function) __attribute__((cleanup(function)))

/* Move a pointer out: its variable is NULL afterwards. */
#define DLP_TAKE(pointer)                 \
  ({                                      \
    __typeof__(pointer) *_p = &(pointer); \
    __typeof__(pointer) _value = *_p;     \
    *_p = NULL;                           \
    _value;                               \
  })

/* Move a descriptor out: its variable is -1 afterwards. */
#define DLP_TAKE_FD(fd) \
  ({                    \
    int *_p = &(fd);    \
    int _value = *_p;   \
    *_p = -1;           \
    _value;             \
  })

/* Defines `name_freep`, which calls name_free() on what is not NULL. */
#define DLP_DEFINE_CLEANUP(type, name)            \
  static inline void name##_freep(type **pointer) \
  {                                               \
    int saved_errno = errno;                      \
    if (*pointer)                                 \
      name##_free(*pointer);                      \
    errno = saved_errno;                          \
  }

static inline int dlp_close(int fd)
{
  int saved_errno = errno;
  if (fd >= 0)
    (void)close(fd);
  errno = saved_errno;
  return -1;
}

static inline void dlp_closep(int *fd)
{
  *fd = dlp_close(*fd);
}

static inline void dlp_heapp(void *pointer)
{
  int saved_errno = errno;
  free(*(void **)pointer);
  errno = saved_errno;
}

#define dlp_auto_close dlp_cleanup_(dlp_closep)
#define dlp_auto_free dlp_cleanup_(dlp_heapp)

#endif
