#ifndef DLPACKD_IO_PEER_H
#define DLPACKD_IO_PEER_H

/*
 * Who is at the other end of a socket, by the kernel's word.
 *
 * Credentials are those at connect(). The pidfd tells when that process dies; kernels
 * before 6.5 have none to give, and others refuse for reasons of their own, so its
 * absence is never an error.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer {
  uint32_t uid;
  uint32_t gid;
  int32_t pid; /* decoration */
  size_t n_groups;
  uint32_t *groups;
  int pidfd; /* or -1 */
};

/* Return: 0 or negative errno; `peer` is valid for peer_deinit() either way. */
int peer_init(struct peer *peer, int socket);
void peer_deinit(struct peer *peer); /* twice is harmless */

/* Is this descriptor, which a stranger sent, a pidfd? */
bool peer_is_pidfd(int fd);

#endif
