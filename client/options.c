#include <string.h>

#include "client/error.h"
#include "client/options.h"

static int options_check_tail(const unsigned char *bytes, size_t from, size_t to,
                              struct dlc_error *reterr)
{
  for (size_t i = from; i < to; i++) {
    if (bytes[i] != 0)
      return dlc__error_set(reterr, DLC_E_INVALID, 0,
                            "the options set a field that this version of libdlclient (%s) does "
                            "not know",
                            DLCLIENT_VERSION_STRING);
  }
  return 0;
}

int dlc__options_read(void *ret, size_t size, const void *options, struct dlc_error *reterr)
{
  size_t given;

  memset(ret, 0, size);
  if (!options)
    return 0;
  memcpy(&given, options, sizeof(given));
  if (given < sizeof(given) || given > 65536)
    return dlc__error_set(reterr, DLC_E_INVALID, 0,
                          "struct_size of the options is %zu; start from the *_OPTIONS_INIT macro",
                          given);
  memcpy(ret, options, given < size ? given : size);
  return options_check_tail((const unsigned char *)options, size, given, reterr);
}
