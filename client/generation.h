#ifndef DLPACKD_CLIENT_GENERATION_H
#define DLPACKD_CLIENT_GENERATION_H

/*
 * A publication, from begin to commit. dlc_put() and dlc_publish() are
 * generations of one tensor.
 *
 * What is added is copied at once, but nothing is told to the daemon before the
 * commit; then all of it goes out under one random key, in as many packets as it
 * takes. Small tensors wait in the heap, so that one request allots memory to
 * many of them.
 *
 * A commit whose answer was lost with the connection is asked for again under
 * the same key, which the daemon knows if it was done.
 *
 * One thread at a time.
 */

#include "client/hold.h"
#include "client/import.h"

/* With options that were read by dlc__publish_options_read(). Return: 0 or a negated code. */
int dlc__generation_new(struct dlc_client *client, const struct dlc_publish_options *options,
                        struct dlc_generation **ret, struct dlc_error *reterr);
int dlc__generation_add_copy(struct dlc_generation *generation, const char *name,
                             const struct dlc__source *source,
                             const struct dlc_publish_options *options, struct dlc_error *reterr);
int dlc__generation_add(struct dlc_generation *generation, const char *name,
                        DLManagedTensorVersioned *tensor, const struct dlc_publish_options *options,
                        struct dlc_error *reterr);

#endif
