#ifndef DLPACKD_IO_LISTENER_H
#define DLPACKD_IO_LISTENER_H

/*
 * The socket that clients connect to: made at a path, or handed in by systemd.
 *
 * At a path there is one daemon: a lock file beside the socket is held for its
 * life, a socket that somebody serves is left alone, and what an earlier daemon
 * left behind is replaced. Nothing else at the path is ever touched, and at the end
 * only the socket that is still ours is removed.
 *
 * No loop here: the owner waits for listener_fd() and calls listener_accept().
 */

#include <stdbool.h>
#include <stdint.h>

#include "io/complaint.h"

enum {
  LISTENER_E_EXHAUSTED = 1, /* no descriptor is free: do not ask again for LISTENER_PAUSE_MS */
};

#define LISTENER_PAUSE_MS 100
#define LISTENER_ACCEPT_MAX 16 /* per call: clients that are here already want service too */

struct listener;

/* Binds at `path`, with the permission bits `mode`. Its directory is made if it is
 * missing. Return: 0 or negative errno. */
int listener_open(struct listener **ret, const char *path, unsigned mode, struct complaint *reterr);
/* Serves a socket that listens already; `fd` becomes ours if 0 is returned.
 * Return: 0 or negative errno. */
int listener_adopt_consume(struct listener **ret, int fd, struct complaint *reterr);
struct listener *listener_free(struct listener *listener);

/* Borrowed. */
int listener_fd(const struct listener *listener);
/* "" if a socket without a name was handed in. */
const char *listener_path(const struct listener *listener);

/*
 * Takes up to LISTENER_ACCEPT_MAX connections, each handed to `function`, which owns
 * the descriptor. Return: 0, or LISTENER_E_EXHAUSTED.
 */
int listener_accept(struct listener *listener, void (*function)(void *context, int fd),
                    void *context);

/* Makes `path` a directory of ours with `mode`, or checks that one which is there is
 * owned by us, is no link, and lets nobody else in. For sockets below /tmp, where
 * anybody may have been first. Return: 0 or negative errno. */
int listener_private_directory(const char *path, struct complaint *reterr);

#endif
