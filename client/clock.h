#ifndef DLPACKD_CLIENT_CLOCK_H
#define DLPACKD_CLIENT_CLOCK_H

/*
 * Deadlines: points on CLOCK_MONOTONIC, in nanoseconds. A call fixes its
 * deadline once, when it begins, so that no number of retries makes it longer.
 */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define DLC__NEVER INT64_MAX

int64_t dlc__clock_now(void);

/* `ms` from now; a negative one is never. */
int64_t dlc__deadline_in(int64_t ms);

bool dlc__deadline_passed(int64_t deadline);

/* For poll(): rounded up, -1 for never. */
int dlc__deadline_poll_ms(int64_t deadline);

struct timespec dlc__deadline_timespec(int64_t deadline);

/* Sleeps `ms`, or until the deadline if that is sooner. */
void dlc__clock_nap(int64_t ms, int64_t deadline);

#endif
