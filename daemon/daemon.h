#ifndef DLPACKD_DAEMON_H
#define DLPACKD_DAEMON_H

/*
 * The daemon: the core and the edge, wired together.
 *
 * It owns both. Every event ends in a call of the broker; after it, the plans that the
 * broker has are run, connections that ended are buried, and the timer is set for what
 * the broker waits for next. One thread.
 */

#include "config.h"
#include "io/complaint.h"

struct daemon;

/* Listens when 0 is returned. `config` is borrowed. Return: 0 or negative errno. */
int daemon_new(struct daemon **ret, const struct config *config, struct complaint *reterr);
/* Serves until a signal ends it, or nobody needs it any more. */
void daemon_run(struct daemon *daemon);
/* Ends all sessions and leaves nothing behind: no socket, no name, no memory. */
struct daemon *daemon_free(struct daemon *daemon);

#endif
