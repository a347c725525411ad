#ifndef DLPACKD_CLIENT_OPTIONS_H
#define DLPACKD_CLIENT_OPTIONS_H

/*
 * Options structs of callers that were compiled against another version of the
 * headers: a shorter one leaves the newer fields zero; a longer one is refused
 * only if it asks for something in what we do not know.
 */

#include <stddef.h>

#include "dlclient.h"

/* `options` starts with its size, or is NULL; *ret has `size` bytes.
 * Return: 0 or -DLC_E_INVALID. */
int dlc__options_read(void *ret, size_t size, const void *options, struct dlc_error *reterr);

#endif
