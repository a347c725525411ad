#ifndef DLPACKD_CLI_ESCAPE_H
#define DLPACKD_CLI_ESCAPE_H

/*
 * Two escapes.
 *
 * For the terminal: what comes from a peer may hold control characters, invalid
 * UTF-8 or marks that reverse the direction of writing; a line of dlctl must never
 * move the cursor or look like another line.
 *
 * For names: a tensor in a file may be called anything, a published one may not.
 * What the grammar of names forbids becomes %XX, and comes back unchanged.
 *
 * Pure. Any thread.
 */

#include <stddef.h>

#include "text.h"

enum {
  ESCAPE_E_SYNTAX = 1, /* "%" without two hexadecimal digits, or %00 */
};

/* Appends `string` fit for a terminal: unsafe bytes as \xNN, a backslash doubled. */
void escape_terminal(struct text *text, const char *string);

/* Columns that an escaped string takes. Depends on LC_CTYPE. */
size_t escape_columns(const char *string);

/* How many bytes of the character at `string` belong together; 1 for a byte that is
 * not UTF-8, 0 at the end. */
size_t escape_character_size(const char *string);

/* Appends the published form of a tensor's name in a file. */
void escape_name(struct text *text, const char *name);

/* Appends the name in the file of a published name.
 * Return: 0, or ESCAPE_E_SYNTAX. */
int escape_name_undo(struct text *text, const char *published);

#endif
