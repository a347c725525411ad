#ifndef DLPACKD_CLIENT_OWNER_H
#define DLPACKD_CLIENT_OWNER_H

/*
 * Names as a caller writes them, and as they are on the wire.
 *
 * "a/b" is the caller's own, below the client's name space if it has one;
 * "~user/a/b" and "~uid/a/b" are somebody's, in full. What comes back is written
 * so that it could be asked for.
 */

#include "client/handle.h"
#include "proto/name.h"

/* {0} holds none. `name.path` points into the buffer. */
struct dlc__name {
  struct msg_name name;
  char path[DLP_NAME_MAX + 1];
};

/* Return: 0 or a negated code (DLC_E_NAME; DLC_E_NOT_FOUND for an unknown user). */
int dlc__name_resolve(const struct dlc_client *client, const char *name, struct dlc__name *ret,
                      struct dlc_error *reterr);
/* A prefix: "" is everything; a slash may stand at the end. */
int dlc__name_resolve_prefix(const struct dlc_client *client, const char *prefix,
                             struct dlc__name *ret, struct dlc_error *reterr);

/* Splits "~user/rest": *ret_rest is what follows, *ret_owner MSG_OWNER_SELF without a `~`. */
int dlc__name_split_owner(const char *name, uint32_t *ret_owner, const char **ret_rest,
                          struct dlc_error *reterr);

/* As a client of this name space would ask for it. `buffer` has room for DLC__SHOWN_NAME_MAX + 1.
 */
#define DLC__SHOWN_NAME_MAX (DLP_NAME_MAX + 12)
void dlc__name_show(const char *name_space, uint32_t own_uid, const struct msg_name *name,
                    char *buffer);

#endif
