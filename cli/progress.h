#ifndef DLPACKD_CLI_PROGRESS_H
#define DLPACKD_CLI_PROGRESS_H

/*
 * One line on a terminal that says how far a long copy is; gone when it ends.
 *
 * Shown only if standard error is a terminal and the work lasts. One thread at a time.
 */

#include <stdbool.h>
#include <stdint.h>

struct progress {
  const char *what; /* borrowed; fit for a terminal */
  uint64_t total;
  uint64_t done;
  uint64_t started_ms;
  uint64_t shown_ms;
  bool enabled;
  bool visible;
};

void progress_init(struct progress *progress, const char *what, uint64_t total);
void progress_add(struct progress *progress, uint64_t bytes);
void progress_deinit(struct progress *progress); /* erases the line; twice is harmless */

#endif
