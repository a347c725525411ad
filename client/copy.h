#ifndef DLPACKD_CLIENT_COPY_H
#define DLPACKD_CLIENT_COPY_H

/*
 * A tensor of any strides, written compactly and row-major.
 *
 * Neighbouring dimensions that lie densely are taken as one; what then is a run
 * of bytes is copied as one; a transpose goes in tiles, so that neither side
 * misses the cache at every element.
 *
 * Pure: reads and writes what it is given. The source must have been checked.
 */

#include "client/import.h"

/* `target` has room for source->compact_size bytes. */
void dlc__copy_compact(uint8_t *target, const struct dlc__source *source);

#endif
