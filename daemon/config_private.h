#ifndef DLPACKD_CONFIG_PRIVATE_H
#define DLPACKD_CONFIG_PRIVATE_H

/*
 * The table of options, which config_options.c has and config.c reads. Nobody else
 * includes it.
 */

#include <stddef.h>
#include <stdint.h>

#include "config.h"

/* Where the system's daemon listens. */
#define CONFIG_SYSTEM_SOCKET "/run/dlpackd/socket"

struct option_row;

/* Return: 0 or negative errno; without a sentence, the table's `allowed` is one. */
typedef int (*parse_fn)(struct config *config, const struct option_row *option, const char *text);

struct option_row {
  const char *name;
  const char *argument;
  const char *default_text; /* NULL: none, it may be left out */
  const char *allowed;      /* in a sentence: "must be ..." */
  const char *help;
  parse_fn parse;
  size_t field; /* offset of what parse fills */
  uint64_t least, most;
  uint64_t (*whole)(void); /* what a percentage is of */
};

extern const struct option_row config_options[];
extern const size_t config_n_options;

#endif
