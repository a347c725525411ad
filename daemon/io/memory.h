#ifndef DLPACKD_IO_MEMORY_H
#define DLPACKD_IO_MEMORY_H

/*
 * The backends of core/storage.h, and what they have in common.
 *
 * memfd: no name anywhere, and the kernel keeps everybody from writing what is
 * sealed. Pages are charged to whoever touches them first.
 * posix-shm: objects below /dev/shm, for tools that want names. They cannot be
 * sealed, so only the mode keeps others out, and their pages are reserved at creation:
 * that charges the daemon, but turns a full /dev/shm into an error instead of a
 * SIGBUS later.
 */

#include <stdint.h>

#include "core/storage.h"

/* Before glibc 2.31. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

void memory_memfd_backend(struct storage_backend *ret);

/* Names that tell whose they are: a daemon that comes back to the same socket as
 * the same user knows what a killed one left. {0} is none. */
struct memory_posix_shm {
  uint64_t instance;
};

/* The number in the names of a daemon that serves this path, where the socket is already. */
uint64_t memory_posix_shm_instance(const char *socket_path);
/* `socket_path` chooses the names; what an earlier daemon left under them is removed. */
void memory_posix_shm_init(struct memory_posix_shm *shm, const char *socket_path);
/* `shm` is borrowed as long as the backend is used. */
void memory_posix_shm_backend(struct storage_backend *ret, struct memory_posix_shm *shm);

/* A memfd of `size` bytes that can be sealed and is nobody else's (mode 0600).
 * Return: the descriptor, or negative errno. */
int memory_memfd_new(const char *label, uint64_t size);

/* storage_backend.find_hole for files in memory. */
int memory_find_hole(int fd, uint64_t offset, uint64_t *ret);
/* Return: another description of the file, for reading only, or negative errno. */
int memory_reopen_read_only(int fd);

#endif
