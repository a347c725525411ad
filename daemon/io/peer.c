#include "io/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static int read_groups(struct peer *peer, int socket)
{
  /* Most users are in few groups; a longer list is asked for again at its size. */
  socklen_t size = 32 * sizeof(gid_t);

  for (int tries = 0; tries < 2; tries++) {
    dlp_auto_free uint32_t *groups = malloc(size ? size : 1);

    if (!groups)
      return -ENOMEM;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &size) == 0) {
      peer->n_groups = size / sizeof(gid_t);
      peer->groups = DLP_TAKE(groups);
      return 0;
    }
    if (errno != ERANGE)
      break;
  }
  /* A peer without its supplementary groups may do less, not more. */
  return 0;
}

static int read_pidfd(int socket)
{
  int fd = -1;
  socklen_t size = sizeof(fd);

  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) < 0)
    return -1;
  return fd;
}

int peer_init(struct peer *peer, int socket)
{
  struct ucred credentials;
  socklen_t size = sizeof(credentials);
  int r;

  memset(peer, 0, sizeof(*peer));
  peer->pidfd = -1;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
    return -errno;
  peer->uid = credentials.uid;
  peer->gid = credentials.gid;
  peer->pid = credentials.pid;
  r = read_groups(peer, socket);
  if (r < 0)
    return r;
  peer->pidfd = read_pidfd(socket);
  return 0;
}

void peer_deinit(struct peer *peer)
{
  free(peer->groups);
  peer->groups = NULL;
  peer->n_groups = 0;
  peer->pidfd = dlp_close(peer->pidfd);
}

bool peer_is_pidfd(int fd)
{
  char path[64], line[128];
  bool found = false;
  FILE *file;

  /* Its link's text changed over kernel versions, the line of its fdinfo did not. */
  (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
  file = fopen(path, "re");
  if (!file)
    return false;
  while (!found && fgets(line, sizeof(line), file))
    found = strncmp(line, "Pid:\t", 5) == 0;
  (void)fclose(file);
  return found;
}
