#ifndef DLPACKD_CLIENT_PUBLISH_OPTIONS_H
#define DLPACKD_CLIENT_PUBLISH_OPTIONS_H

/*
 * struct dlc_publish_options, read and checked.
 *
 * Pure. Any thread.
 */

#include "client/block.h"

/* Return: 0 or a negated code; *ret is filled with defaults in place. */
int dlc__publish_options_read(const struct dlc_publish_options *options,
                              struct dlc_publish_options *ret, struct dlc_error *reterr);

/* Its part that decides who may map the memory, for names of `owner`. */
struct dlc__domain dlc__publish_domain(const struct dlc_publish_options *options, uint32_t owner);

#endif
