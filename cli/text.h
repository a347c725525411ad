#ifndef DLPACKD_CLI_TEXT_H
#define DLPACKD_CLI_TEXT_H

/*
 * A string that grows.
 *
 * Appending never fails visibly: when memory runs out the text remembers it, later
 * appends do nothing, and whoever hands the text on asks `failed` once. The bytes
 * are always followed by a NUL.
 *
 * Pure. One thread at a time.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "cleanup.h"

struct text {
  char *data; /* NULL until something was appended */
  size_t size;
  size_t capacity;
  bool failed;
};

void text_deinit(struct text *text); /* twice is harmless */
void text_clear(struct text *text);  /* empty again; keeps the memory */

void text_append(struct text *text, const char *string);
void text_append_bytes(struct text *text, const void *bytes, size_t size);
void text_append_spaces(struct text *text, size_t count);
__attribute__((format(printf, 2, 3))) void text_printf(struct text *text, const char *format, ...);
__attribute__((format(printf, 2, 0))) void text_vprintf(struct text *text, const char *format,
                                                        va_list arguments);

/* The string; "" if nothing was appended. Borrowed until the next change. */
const char *text_string(const struct text *text);

/* The string as memory of its own, for free(); the text is empty afterwards. NULL if
 * memory ran out. */
char *text_take(struct text *text);

#define cli_auto_text cli_cleanup_(text_deinit)

#endif
