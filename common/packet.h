#ifndef DLPACKD_COMMON_PACKET_H
#define DLPACKD_COMMON_PACKET_H

/*
 * One sendmsg or recvmsg of bytes and descriptors over SOCK_SEQPACKET. Every
 * rule on truncation lives here, and descriptors are close-on-exec from birth.
 *
 * The kernel installs as many descriptors as fit the control buffer or the
 * process's limit and throws the rest away for good; a packet that was cut in
 * either way is a loss nobody can repair, so it is an error and what did arrive
 * is closed.
 */

#include <stdint.h>
#include <sys/types.h>

#include "common/fdset.h"

enum {
  PACKET_E_AGAIN = 1, /* nothing to read, or no room to write: poll and try again */
  PACKET_E_EOF,       /* the peer is gone (or reset, or broke the pipe) */
  PACKET_E_TRUNCATED, /* longer than `size`, or descriptors without a byte; gone */
  PACKET_E_FDS_LOST,  /* descriptors were dropped: no room in this process's table */
  PACKET_E_TOO_LARGE, /* sending: does not fit the socket's buffer */
  PACKET_E_FDS_BUSY,  /* sending: this uid has too many descriptors in flight (ETOOMANYREFS) */
};

/*
 * Never blocks. `fds` must be empty; it owns what arrived, and is empty again
 * unless 0 is returned. A packet of no bytes cannot be told from the end of the
 * connection: a peer that sends one has ended it.
 * Return: 0, negative errno, or PACKET_E_AGAIN, _EOF, _TRUNCATED, _FDS_LOST.
 */
int dlp_packet_receive(int socket, void *buffer, size_t size, size_t *ret_size,
                       struct dlp_fdset *fds);

/*
 * Never blocks, never raises SIGPIPE. Descriptors are borrowed, at most
 * DLP_FDSET_MAX; `size` is not 0.
 * Return: 0, negative errno, or PACKET_E_AGAIN, _EOF, _TOO_LARGE, _FDS_BUSY.
 */
int dlp_packet_send(int socket, const void *bytes, size_t size, const int *fds, size_t n_fds);

#endif
