#ifndef DLPACKD_IO_STORE_H
#define DLPACKD_IO_STORE_H

/*
 * The directory of what is published: rows, and commits that make them count.
 *
 * The steps are those of a store that survives the daemon: a row is written as PREP;
 * one record of the commit makes all its rows LIVE at once; a row that is not in a
 * commit counts for nothing. Here it is a table in memory, so that the core meets
 * every step, and every failure, from the first day.
 */

#include <stddef.h>

#include "core/effect.h"

struct store;

/* Return: 0 or -ENOMEM. */
int store_new(struct store **ret, size_t limit);
struct store *store_free(struct store *store);

/* An EFFECT_ROW_* or EFFECT_COMMIT_LIVE. Return: 0, or negative errno: -ENOSPC: full;
 * -EEXIST: the row is taken; -ENOENT: the commit has no rows. */
int store_run(struct store *store, const struct effect *effect);

size_t store_count_prepared(const struct store *store);
size_t store_count_live(const struct store *store);

/* Asserts that it is what its steps can have made of it. */
void store_check(const struct store *store);

#endif
