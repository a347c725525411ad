#ifndef DLPACKD_PROTO_NAME_H
#define DLPACKD_PROTO_NAME_H

/*
 * The grammar of names.
 *
 * A path such as `model/layers.0/weight`: UTF-8, components of 1 to 255 bytes
 * between single slashes, at most 1,023 bytes in all; no empty, `.` or `..`
 * component, no slash at either end, no `@` (kept for other hosts), no leading
 * `~` (names of other owners), nothing of Unicode's Cc, Cf, Zl and Zp.
 *
 * Pure. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>

enum {
  NAME_E_EMPTY = 1,
  NAME_E_TOO_LONG,
  NAME_E_COMPONENT_EMPTY, /* "a//b", or a slash at either end */
  NAME_E_COMPONENT_TOO_LONG,
  NAME_E_COMPONENT_DOTS,
  NAME_E_AT,
  NAME_E_TILDE,
  NAME_E_UTF8,
  NAME_E_CONTROL,
};

/* Return: 0, or a NAME_E_* condition. */
int name_check(const char *path);

/* A prefix: "" (everything), or a name, or a name and a slash.
 * Return: 0, or a NAME_E_* condition. */
int name_check_prefix(const char *prefix);

/* A sentence for people about which rule was broken; a static string. */
const char *name_describe(int condition);

/*
 * Writes `path` with everything that could confuse a terminal as \xNN. Use it
 * before showing what came from a peer. Truncates with "..." at `size`.
 */
void name_escape(const char *path, char *buffer, size_t size);

#endif
