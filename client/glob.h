#ifndef DLPACKD_CLIENT_GLOB_H
#define DLPACKD_CLIENT_GLOB_H

/*
 * Patterns over names: `*` is any run of bytes, slashes too; `?` one code point;
 * `[a-z]` one of a set, `[!a-z]` one that is not; `\` takes the next byte as it
 * is. A `[` without its `]` is itself.
 *
 * Time is at most the product of the two lengths, whatever the pattern. Pure.
 */

#include <stdbool.h>
#include <stddef.h>

bool dlc__glob_is_pattern(const char *text);

/* How many bytes stand before the first special one. */
size_t dlc__glob_literal_size(const char *pattern);

bool dlc__glob_match(const char *pattern, const char *text);

#endif
