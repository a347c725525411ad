#ifndef DLPACKD_IO_MEMORY_INFO_H
#define DLPACKD_IO_MEMORY_INFO_H

/*
 * How much memory the host could still give: the kernel's own estimate, read
 * anew at most ten times a second.
 */

#include <stdint.h>

struct memory_info {
  int fd; /* /proc/meminfo, or -1 */
  uint64_t read_us;
  uint64_t available;
};

void memory_info_init(struct memory_info *info);
void memory_info_deinit(struct memory_info *info);

/* Bytes; UINT64_MAX where the kernel does not say. */
uint64_t memory_info_available(struct memory_info *info, uint64_t now_us);

/* Bytes of memory the host has. */
uint64_t memory_info_total(void);

#endif
