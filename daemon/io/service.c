#include "io/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"

#define SERVICE_FIRST_FD 3

/* All of `text`, decimal. */
static int parse_number(const char *text, uint64_t *ret)
{
  char *end;

  if (*text < '0' || *text > '9')
    return -EINVAL;
  errno = 0;
  *ret = strtoull(text, &end, 10);
  return errno || *end ? -EINVAL : 0;
}

/* Is the environment meant for us? A parent's variables may have been inherited. */
static bool is_ours(const char *variable)
{
  const char *text = getenv(variable);
  uint64_t pid;

  return text && parse_number(text, &pid) == 0 && pid == (uint64_t)getpid();
}

int service_notify(const char *state)
{
  const char *path = getenv("NOTIFY_SOCKET");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  dlp_auto_close int fd = -1;
  size_t length;
  ssize_t n;

  if (!path || (path[0] != '/' && path[0] != '@'))
    return 0;
  length = strlen(path);
  if (length < 2 || length >= sizeof(address.sun_path))
    return -EINVAL;
  memcpy(address.sun_path, path, length);
  if (path[0] == '@')
    address.sun_path[0] = '\0';
  fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -errno;
  n = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
  return n < 0 ? -errno : 1;
}

uint64_t service_watchdog_ms(void)
{
  const char *text = getenv("WATCHDOG_USEC");
  uint64_t us, ms;

  if (!text || parse_number(text, &us) < 0 || us == 0)
    return 0;
  if (getenv("WATCHDOG_PID") && !is_ours("WATCHDOG_PID"))
    return 0;
  ms = us / 2000;
  return ms ? ms : 1;
}

int service_take_socket(int *ret_fd, struct complaint *reterr)
{
  const char *text = getenv("LISTEN_FDS");
  uint64_t n_fds;

  *ret_fd = -1;
  if (!text || !is_ours("LISTEN_PID"))
    return 0;
  if (parse_number(text, &n_fds) < 0)
    return complain(reterr, -EINVAL, "LISTEN_FDS is \"%s\", which is no number", text);
  if (n_fds == 0)
    return 0;
  if (n_fds > 1)
    return complain(reterr, -EINVAL,
                    "%s sockets were handed in by LISTEN_FDS; dlpackd serves exactly one", text);
  if (fcntl(SERVICE_FIRST_FD, F_SETFD, FD_CLOEXEC) < 0)
    return complain(reterr, -errno, "LISTEN_FDS is 1, but descriptor %d is not open",
                    SERVICE_FIRST_FD);
  *ret_fd = SERVICE_FIRST_FD;
  return 0;
}
