#ifndef DLPACKD_CLI_FILE_TYPE_H
#define DLPACKD_CLI_FILE_TYPE_H

/* Which format a file has: as its name ends, or as the user says. Pure. Any thread. */

#include <stdbool.h>

enum file_type {
  FILE_TYPE_BY_NAME = 0, /* to be decided */
  FILE_TYPE_RAW,
  FILE_TYPE_NPY,
  FILE_TYPE_SAFETENSORS,
};

/* False if there is no type of that name; `ret` is untouched then. */
bool file_type_parse(const char *name, enum file_type *ret);

/* `asked` if it is a type, otherwise what `path` ends in; "-" and the rest are raw. */
enum file_type file_type_of(const char *path, enum file_type asked);

#endif
