#ifndef DLPACKD_IO_SERVICE_H
#define DLPACKD_IO_SERVICE_H

/*
 * What systemd and a service say to each other: datagrams to $NOTIFY_SOCKET,
 * $WATCHDOG_USEC, and sockets handed in by $LISTEN_FDS. Spoken by hand, so that
 * the daemon has no library for it; without systemd all of it does nothing.
 */

#include <stdint.h>

#include "io/complaint.h"

/* One datagram of lines such as "READY=1". Return: 1 if it was sent, 0 if nobody
 * listens, or negative errno. */
int service_notify(const char *state);

/* How often "WATCHDOG=1" is due: half of what systemd waits; 0: never. */
uint64_t service_watchdog_ms(void);

/*
 * The socket that was handed in, or -1 in *ret_fd. The caller owns it.
 * Return: 0, or negative errno (more than one, or numbers that make no sense).
 */
int service_take_socket(int *ret_fd, struct complaint *reterr);

#endif
