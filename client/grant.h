#ifndef DLPACKD_CLIENT_GRANT_H
#define DLPACKD_CLIENT_GRANT_H

/*
 * A hold, made out of what the daemon granted: the lease, and the bytes mapped or
 * copied as the caller wants to access them.
 *
 * The daemon is not believed: a layout that is not valid, a place outside its
 * segment or memory that is not sealed ends in DLC_E_PROTOCOL, not in a mapping.
 *
 * Any thread.
 */

#include "client/hold.h"

struct dlc__grant {
  struct dlc_client *client;
  uint32_t access; /* enum dlc_access */
  uint32_t own_uid;
  struct dlc__reply *reply; /* its descriptors may be taken out */
  const struct msg_tensor *tensor;
};

/*
 * Makes a hold, whose lease it is from the first use on: dlc__cache_add() has been
 * called. It is cached by `name`, unless that is NULL or the bytes are writable.
 * `lease` is taken, whatever happens. Return: 0 or a negated code.
 */
int dlc__grant_hold_consume(const struct dlc__grant *grant, struct dlc__lease *lease,
                            const char *name, struct dlc__hold **ret, struct dlc_error *reterr);

/* A private copy in the heap, which holds no lease. Return: 0 or a negated code. */
int dlc__hold_copy(const struct dlc__hold *source, struct dlc__hold **ret,
                   struct dlc_error *reterr);
/* Is a private tensor of this many bytes such a copy? Else it is a mapping of its own. */
bool dlc__hold_is_copied(uint64_t size);

#endif
