#ifndef DLPACKD_CORE_STORAGE_H
#define DLPACKD_CORE_STORAGE_H

/*
 * A memory backend: where segments come from. A table of functions; memfd,
 * posix-shm and the tests' fake fill it in, and one conformance suite runs over
 * all of them (tests/conformance).
 *
 * Descriptors come close-on-exec. A segment is created writable and without
 * pages: whoever touches a page first pays for it (its cgroup is charged), so
 * the daemon never does.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/effect.h"

struct storage_backend {
  const char *name; /* as in configuration: "memfd", "posix-shm" */
  uint32_t backend; /* enum msg_backend */
  bool seals;       /* false: readers are kept from writing by nothing but their own mapping */

  /* A segment of exactly `size` bytes, a multiple of the page size. `label` shows
   * in /proc/PID/maps. Return: the descriptor, or negative errno. */
  int (*create)(void *context, uint64_t segment, uint64_t size);

  /* From here on its size is fixed and, by `seal`, its bytes. Repeating it is
   * harmless. Return: 0 or negative errno (-EBUSY: FROZEN and still mapped writable;
   * -EOPNOTSUPP: FROZEN and the backend does not seal). */
  int (*seal)(void *context, int fd, enum segment_seal seal);

  /* *ret is the first byte at or after `offset` whose page is not there, or the
   * segment's size. Return: 0 or negative errno (-EINVAL: beyond the end). */
  int (*find_hole)(void *context, int fd, uint64_t offset, uint64_t *ret);

  /* A descriptor of the same segment that cannot be mapped writable.
   * Return: the descriptor, or negative errno. */
  int (*open_read_only)(void *context, uint64_t segment, int fd);

  /* Its name, if it has one, is gone afterwards. Does not close. */
  void (*forget)(void *context, uint64_t segment);

  void *context;
};

#endif
