#ifndef DLPACKD_CLIENT_FORK_H
#define DLPACKD_CLIENT_FORK_H

/*
 * Which side of a fork are we on?
 *
 * What a client holds belongs to the process that opened it: its leases, its
 * socket, its locks (another thread may have held one at the moment of the
 * fork). A child may read the tensors and run their deleters, which then touch
 * none of these; what is held is marked as escaped before every fork. Objects remember the
 * generation they were made in; a child is of another.
 */

#include <stdbool.h>

/* Counts forks from here on. Harmless twice. Return: 0 or negative errno. */
int dlc__fork_watch(void);

unsigned dlc__fork_generation(void);
/* Forks that this process has begun: what a child could see before one it may see for
 * ever. */
unsigned dlc__fork_count(void);

static inline bool dlc__fork_is_child(unsigned generation)
{
  return generation != dlc__fork_generation();
}

#endif
