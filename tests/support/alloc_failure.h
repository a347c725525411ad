#ifndef DLPACKD_TESTS_SUPPORT_ALLOC_FAILURE_H
#define DLPACKD_TESTS_SUPPORT_ALLOC_FAILURE_H

/*
 * Makes allocations of the code under test fail, one by one: a test runs a scenario
 * with n = 0, 1, 2, ... until it gets by without the n-th allocation.
 *
 * The program is linked with --wrap=malloc,calloc,realloc,strdup; what comes from
 * shared libraries is not concerned.
 */

#include <stdbool.h>
#include <stddef.h>

enum alloc_failure_mode {
  ALLOC_FAILURE_ONCE,    /* the n-th fails, the next works again */
  ALLOC_FAILURE_FOR_EVER /* the n-th and all after it fail */
};

void alloc_failure_start(size_t n, enum alloc_failure_mode mode);
/* Return: whether one failed since the start. */
bool alloc_failure_stop(void);

/* Between true and false what is allocated does not count. Nests. */
void alloc_failure_exempt(bool is_exempt);

#endif
