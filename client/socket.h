#ifndef DLPACKD_CLIENT_SOCKET_H
#define DLPACKD_CLIENT_SOCKET_H

/*
 * Where the daemon listens, and getting through to it.
 *
 * The first socket that is there is the one: if it may not be used, that is an
 * error which names it, never a reason to try another daemon in silence. A path
 * that does not fit sun_path is refused, never cut.
 */

#include <stdint.h>

#include "dlclient.h"

/* `given` may be NULL: see dlc_connect(). *ret is the caller's to free.
 * Return: 0 or a negated code. */
int dlc__socket_find(const char *given, char **ret, struct dlc_error *reterr);

/* A connected, non-blocking, close-on-exec SOCK_SEQPACKET socket.
 * Return: 0 or a negated code. */
int dlc__socket_connect(const char *path, int64_t deadline, int *ret_fd, struct dlc_error *reterr);

#endif
