#include "dlclient.h"

const char *dlc_version(void)
{
  return DLCLIENT_VERSION_STRING;
}
