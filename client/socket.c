#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/error.h"
#include "client/socket.h"
#include "common/cleanup.h"

#define SYSTEM_SOCKET "/run/dlpackd/socket"

/* The kernel's room for a path, less the NUL. */
#define SOCKET_PATH_MAX (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

/* The daemon takes connections in turns of some milliseconds at worst. */
#define BACKLOG_NAP_MS 2

/* A refusal to look counts as being there: the connect will say what is wrong. */
static bool socket_is_there(const char *path)
{
  struct stat status;

  return stat(path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* Anybody may make a directory in /tmp: only one that is ours is believed. */
static int socket_check_own_directory(const char *directory, struct dlc_error *reterr)
{
  struct stat status;

  if (lstat(directory, &status) < 0)
    return 0;
  if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 022))
    return dlc__error_set(reterr, DLC_E_DENIED, 0,
                          "%s is not a directory that only this user may write to; not trusting "
                          "a daemon there",
                          directory);
  return 0;
}

static int socket_none_found(struct dlc_error *reterr)
{
  return dlc__error_set(reterr, DLC_E_NO_DAEMON, ENOENT,
                        "no daemon found: DLPACKD_SOCKET is not set, and there is neither "
                        "%s nor a socket of this user; start dlpackd",
                        SYSTEM_SOCKET);
}

static int socket_find_for_user(char **ret, struct dlc_error *reterr)
{
  const char *runtime = getenv("XDG_RUNTIME_DIR");
  dlp_auto_free char *path = NULL;
  char directory[64];
  int r;

  if (runtime && runtime[0] == '/') {
    if (asprintf(&path, "%s/dlpackd/socket", runtime) < 0) {
      path = NULL;
      return dlc__error_no_memory(reterr);
    }
    if (socket_is_there(path)) {
      *ret = DLP_TAKE(path);
      return 0;
    }
    free(DLP_TAKE(path));
  }
  (void)snprintf(directory, sizeof(directory), "/tmp/dlpackd-%u", (unsigned)getuid());
  if (asprintf(&path, "%s/socket", directory) < 0) {
    path = NULL;
    return dlc__error_no_memory(reterr);
  }
  if (!socket_is_there(path))
    return socket_none_found(reterr);
  r = socket_check_own_directory(directory, reterr);
  if (r < 0)
    return r;
  *ret = DLP_TAKE(path);
  return 0;
}

int dlc__socket_find(const char *given, char **ret, struct dlc_error *reterr)
{
  if (!given)
    given = getenv("DLPACKD_SOCKET");
  if (given && !*given)
    given = NULL;
  if (!given && socket_is_there(SYSTEM_SOCKET))
    given = SYSTEM_SOCKET;
  if (!given)
    return socket_find_for_user(ret, reterr);
  if (strlen(given) > SOCKET_PATH_MAX)
    return dlc__error_set(reterr, DLC_E_INVALID, ENAMETOOLONG,
                          "the socket path has %zu bytes; the kernel allows %zu: %s", strlen(given),
                          SOCKET_PATH_MAX, given);
  *ret = strdup(given);
  return *ret ? 0 : dlc__error_no_memory(reterr);
}

static int socket_refused(int error, const char *path, struct dlc_error *reterr)
{
  switch (error) {
  case ENOENT:
  case ENOTDIR:
    return dlc__error_set(reterr, DLC_E_NO_DAEMON, error, "there is no socket at %s; start dlpackd",
                          path);
  case ECONNREFUSED:
    return dlc__error_set(reterr, DLC_E_NO_DAEMON, error, "no daemon listens at %s; start dlpackd",
                          path);
  case EACCES:
  case EPERM:
    return dlc__error_set(reterr, DLC_E_DENIED, error,
                          "this user may not use the socket %s; see the mode and group of it and "
                          "of its directory",
                          path);
  case EPROTOTYPE:
    return dlc__error_set(reterr, DLC_E_PROTOCOL, error, "what listens at %s is not dlpackd", path);
  default:
    return dlc__error_set(reterr, DLC_E_SYSTEM, error, "cannot connect to %s: %s", path,
                          strerror(error));
  }
}

static int socket_try(int fd, const char *path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};

  memcpy(address.sun_path, path, strlen(path));
  return connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

int dlc__socket_connect(const char *path, int64_t deadline, int *ret_fd, struct dlc_error *reterr)
{
  dlp_auto_close int fd = -1;
  int r;

  if (strlen(path) > SOCKET_PATH_MAX)
    return dlc__error_set(reterr, DLC_E_INVALID, ENAMETOOLONG,
                          "the socket path has %zu bytes; the kernel allows %zu: %s", strlen(path),
                          SOCKET_PATH_MAX, path);
  fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return dlc__error_system(reterr, -errno, "make a socket");
  for (;;) {
    r = socket_try(fd, path);
    if (r == 0 || r == -EISCONN)
      break;
    /* EAGAIN: the daemon's backlog is full, and no poll tells when it is not. */
    if (r != -EAGAIN && r != -EINTR)
      return socket_refused(-r, path, reterr);
    if (dlc__deadline_passed(deadline))
      return dlc__error_set(reterr, DLC_E_TIMEOUT, 0, "the daemon at %s took no connection in time",
                            path);
    if (r == -EAGAIN)
      dlc__clock_nap(BACKLOG_NAP_MS, deadline);
  }
  *ret_fd = DLP_TAKE_FD(fd);
  return 0;
}
