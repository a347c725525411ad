#ifndef DLPACKD_CLIENT_MEMORY_LIMIT_H
#define DLPACKD_CLIENT_MEMORY_LIMIT_H

/*
 * How much memory this process's control group still has.
 *
 * Who fills shared memory pays for its pages, and a group over its limit is not
 * refused: the kernel kills somebody in it. So the library looks before it lets
 * a large allocation begin. The answer is a second old at most, and a forecast,
 * not a promise: others in the group allocate too. Page cache that the kernel
 * would give up first does not count.
 *
 * Thread-safe.
 */

#include <pthread.h>
#include <stdint.h>

#include "dlclient.h"

struct dlc__memory_limit {
  pthread_mutex_t lock;
  int64_t read_at; /* 0: never */
  uint64_t limit;  /* UINT64_MAX: none */
  uint64_t used;
  char group[256]; /* the directory whose limit is the tightest */
};

void dlc__memory_limit_init(struct dlc__memory_limit *limit);

/* Return: 0 or -DLC_E_NO_SPACE. Small amounts are not looked at. */
int dlc__memory_limit_check(struct dlc__memory_limit *limit, uint64_t wanted,
                            struct dlc_error *reterr);

/* The groups of /proc/self/cgroup's text, below `mount`; for the library and its tests. */
void dlc__memory_limit_read(struct dlc__memory_limit *limit, const char *cgroups,
                            const char *mount);

#endif
