#ifndef DLPACKD_CLIENT_BELLS_H
#define DLPACKD_CLIENT_BELLS_H

/*
 * Cells that the daemon should look at, until it was told.
 *
 * A set of bits, so that ringing needs no memory, cannot fail, and costs one packet
 * for many cells however often each was rung.
 *
 * Not thread-safe: the transport's lock covers it. {0} is none.
 */

#include <stddef.h>
#include <stdint.h>

#include "proto/lease_page.h"

#define DLC__BELL_WORDS (DLP_LEASE_CELLS / 64)
#define DLC__BELL_SUMMARY (DLC__BELL_WORDS / 64)

struct dlc__bells {
  uint64_t summary[DLC__BELL_SUMMARY]; /* which words are not 0 */
  uint64_t words[DLC__BELL_WORDS];
};

void dlc__bells_ring(struct dlc__bells *bells, uint32_t cell);
/* The first cells, up to `max`. Takes nothing out. Return: how many. */
size_t dlc__bells_peek(const struct dlc__bells *bells, uint32_t *cells, size_t max);
/* The daemon was told of these. */
void dlc__bells_told(struct dlc__bells *bells, const uint32_t *cells, size_t n_cells);

#endif
