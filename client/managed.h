#ifndef DLPACKD_CLIENT_MANAGED_H
#define DLPACKD_CLIENT_MANAGED_H

/*
 * DLPack's two forms, built around a hold.
 *
 * Both by the letter of version 1.3, in the way that the most consumers get
 * right: strides always filled in, byte_offset 0 and the offset folded into
 * `data` (several consumers ignore the field), NULL data of a tensor without
 * elements, arrays to point at even for rank 0. The deleters are plain C and
 * work on any thread, in a forked child and at exit.
 */

#include "client/hold.h"
#include "dlclient_dlpack.h"

/* Takes the caller's reference if 0 is returned. Return: 0 or -ENOMEM. */
int dlc__managed_new_consume(struct dlc__hold *hold, DLManagedTensorVersioned **ret);
int dlc__managed_new_legacy_consume(struct dlc__hold *hold, DLManagedTensor **ret);
/* In the caller's memory. Takes the reference. */
DLManagedTensorVersioned *dlc__managed_init_consume(struct dlc_slot *slot, struct dlc__hold *hold);

/* Borrowed. NULL: the tensor is not one of this library's. */
struct dlc__hold *dlc__managed_hold(const DLManagedTensorVersioned *tensor);

#endif
