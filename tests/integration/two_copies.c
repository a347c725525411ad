/* One of two modules of a process that have a libdlclient each, with nothing in common. */

#include "two_copies.h"

struct dlc_client *two_copies_connect(const char *socket_path)
{
  struct dlc_client *client = NULL;
  struct dlc_error error;

  return dlc_connect(socket_path, NULL, &client, &error) == 0 ? client : NULL;
}

struct DLManagedTensorVersioned *two_copies_get(struct dlc_client *client, const char *name)
{
  struct DLManagedTensorVersioned *tensor = NULL;
  struct dlc_error error;

  return dlc_get(client, name, NULL, &tensor, &error) == 0 ? tensor : NULL;
}

int two_copies_put_managed(struct dlc_client *client, const char *name,
                           struct DLManagedTensorVersioned *tensor)
{
  struct dlc_error error;

  return dlc_put_managed(client, name, tensor, NULL, NULL, &error);
}

int two_copies_knows(const struct DLManagedTensorVersioned *tensor)
{
  return dlc_tensor_info(tensor) != NULL;
}

void two_copies_close(struct dlc_client *client)
{
  dlc_close(client);
}
