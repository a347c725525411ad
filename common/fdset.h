#ifndef DLPACKD_COMMON_FDSET_H
#define DLPACKD_COMMON_FDSET_H

/*
 * Up to DLP_FDSET_MAX descriptors as one owned thing.
 *
 * Descriptors that arrive from a peer live in a set from the instruction after
 * recvmsg until somebody steals one; what is left is closed with the set.
 */

#include <stddef.h>

#include "common/cleanup.h"

/* SCM_MAX_FD: more than the kernel passes in one message does not exist. */
#define DLP_FDSET_MAX 253

struct dlp_fdset {
  size_t size;
  int fds[DLP_FDSET_MAX];
};

void dlp_fdset_init(struct dlp_fdset *set);
void dlp_fdset_deinit(struct dlp_fdset *set); /* closes what is left; twice is harmless */

/* Borrow: -1 if there is none, or it was stolen. */
int dlp_fdset_get(const struct dlp_fdset *set, size_t index);
/* Move out: the caller closes it. -1 as above. */
int dlp_fdset_steal(struct dlp_fdset *set, size_t index);
/* The set owns `fd` if 0 is returned; -ENOSPC if it is full. */
int dlp_fdset_add_consume(struct dlp_fdset *set, int fd);

#define dlp_auto_fdset dlp_cleanup_(dlp_fdset_deinit)

#endif
