#ifndef DLPACKD_CLI_NUMBER_H
#define DLPACKD_CLI_NUMBER_H

/* Numbers on the command line: the whole string, or it is refused. Pure. Any thread. */

#include <stdint.h>

enum {
  NUMBER_E_SYNTAX = 1, /* not a number of that kind, or out of range */
};

/* Return: 0, or NUMBER_E_SYNTAX. */
int number_parse_u64(const char *string, unsigned base, uint64_t *ret);

/* Seconds with a fraction, to milliseconds; a fraction of a millisecond rounds up.
 * Return: 0, or NUMBER_E_SYNTAX. */
int number_parse_seconds(const char *string, uint64_t *ret_ms);

#endif
