#include "number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

int number_parse_u64(const char *string, unsigned base, uint64_t *ret)
{
  char *end;
  unsigned long long value;

  if (!isdigit((unsigned char)*string))
    return NUMBER_E_SYNTAX;
  errno = 0;
  value = strtoull(string, &end, (int)base);
  if (errno || *end)
    return NUMBER_E_SYNTAX;
  *ret = value;
  return 0;
}

int number_parse_seconds(const char *string, uint64_t *ret_ms)
{
  char *end;
  double value;

  if (!isdigit((unsigned char)*string) && *string != '.')
    return NUMBER_E_SYNTAX;
  value = strtod(string, &end);
  if (*end || end == string || !isfinite(value) || value > 1e12)
    return NUMBER_E_SYNTAX;
  *ret_ms = (uint64_t)ceil(value * 1000);
  return 0;
}
