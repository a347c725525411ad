#include "file_type.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct {
  const char *name; /* and, with a dot, how file names end */
  enum file_type type;
} types[] = {
    {"raw", FILE_TYPE_RAW},
    {"npy", FILE_TYPE_NPY},
    {"safetensors", FILE_TYPE_SAFETENSORS},
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

bool file_type_parse(const char *name, enum file_type *ret)
{
  for (size_t i = 0; i < N_TYPES; i++)
    if (strcmp(types[i].name, name) == 0) {
      *ret = types[i].type;
      return true;
    }
  return false;
}

enum file_type file_type_of(const char *path, enum file_type asked)
{
  const char *slash = strrchr(path, '/');
  const char *dot = strrchr(slash ? slash : path, '.');

  if (asked != FILE_TYPE_BY_NAME)
    return asked;
  for (size_t i = 0; dot && i < N_TYPES; i++)
    if (strcasecmp(dot + 1, types[i].name) == 0)
      return types[i].type;
  return FILE_TYPE_RAW;
}
