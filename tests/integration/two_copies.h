#ifndef DLPACKD_TESTS_INTEGRATION_TWO_COPIES_H
#define DLPACKD_TESTS_INTEGRATION_TWO_COPIES_H

/*
 * What a module with a libdlclient of its own offers. It is built twice, and
 * loaded by name: nobody links it.
 */

#include "dlclient.h"
#include "dlclient_dlpack.h"

/* Return: NULL or a negated code where it failed, as libdlclient said. */
DLC_PUBLIC struct dlc_client *two_copies_connect(const char *socket_path);
DLC_PUBLIC struct DLManagedTensorVersioned *two_copies_get(struct dlc_client *client,
                                                           const char *name);
DLC_PUBLIC int two_copies_put_managed(struct dlc_client *client, const char *name,
                                      struct DLManagedTensorVersioned *tensor);
/* Is the tensor one of this copy's? */
DLC_PUBLIC int two_copies_knows(const struct DLManagedTensorVersioned *tensor);
DLC_PUBLIC void two_copies_close(struct dlc_client *client);

#endif
