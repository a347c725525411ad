#ifndef DLPACKD_TESTS_CONFORMANCE_BACKEND_H
#define DLPACKD_TESTS_CONFORMANCE_BACKEND_H

/* The backend under test: each program of the suite links one file that has these. */

#include <stdbool.h>
#include <stdint.h>

#include "core/storage.h"

void backend_setup(struct storage_backend *ret);

/* Does a name of this segment exist outside the daemon? */
bool backend_has_name(uint64_t segment);

/* Do pages have to be touched before they are there? */
extern const bool backend_is_sparse;

#endif
