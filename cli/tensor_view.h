#ifndef DLPACKD_CLI_TENSOR_VIEW_H
#define DLPACKD_CLI_TENSOR_VIEW_H

/*
 * What is known of a tensor -> table cells, lines for people, JSON.
 *
 * Everything in struct dlc_info may come from a hostile peer: text is escaped, numbers
 * are bounded by the library. JSON keeps names as they are, in ASCII with \u escapes.
 *
 * One thread at a time (the names of users come from the C library).
 */

#include <jansson.h>

#include "dlclient.h"
#include "render.h"

/* The columns of `dlctl list`, and those of `--long`. */
extern const struct render_column tensor_columns[];
extern const size_t tensor_n_columns;
extern const struct render_column tensor_long_columns[];
extern const size_t tensor_n_long_columns;

/* Adds one row. */
void tensor_view_row(struct render_table *table, const struct dlc_info *info, bool is_long);

/* Appends "label: value" lines. */
void tensor_view_lines(struct text *text, const struct dlc_info *info);

/* A new object; NULL if memory ran out. */
json_t *tensor_view_json(const struct dlc_info *info);

/* The name for people: `~1000/w` becomes `~alice/w`; escaped. */
void tensor_view_name(struct text *text, const char *name);

/* A JSON string; what is not UTF-8 is escaped first. */
json_t *tensor_view_json_string(const char *string);

#endif
