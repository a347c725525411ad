#ifndef DLPACKD_CLIENT_ERROR_H
#define DLPACKD_CLIENT_ERROR_H

/*
 * Filling struct dlc_error: the one place where a status of the wire or an errno
 * becomes a code of the library.
 *
 * Messages are one sentence each, in the words of the user: what, which limit,
 * what to do. Any thread; no state.
 */

#include "dlclient.h"
#include "proto/message.h"

/* Fills *reterr, which may be NULL. Return: -code, for `return dlc__error_set(...)`. */
int dlc__error_set(struct dlc_error *reterr, int code, int os_errno, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* For a negative errno: "cannot <what>: <why>". -ENOMEM is DLC_E_NO_MEMORY. */
int dlc__error_system(struct dlc_error *reterr, int negative_errno, const char *what);

int dlc__error_no_memory(struct dlc_error *reterr);

/* What the daemon answered; its status is not 0. */
int dlc__error_from_reply(struct dlc_error *reterr, const struct msg_reply *reply);

#endif
