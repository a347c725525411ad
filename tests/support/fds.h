#ifndef DLPACKD_TESTS_SUPPORT_FDS_H
#define DLPACKD_TESTS_SUPPORT_FDS_H

/*
 * What this process holds open: a test takes the number before and after, and
 * they are the same, or something leaked.
 */

#include <stddef.h>

/* Open descriptors of this process, without the one used to count them. */
size_t test_count_fds(void);

/* Mappings of this process: lines of /proc/self/maps. The heap may grow a
 * mapping of its own; count those of one file with the other function. */
size_t test_count_maps(void);

/* Mappings whose line in /proc/self/maps contains `text`, such as "memfd:". */
size_t test_count_maps_of(const char *text);

#endif
