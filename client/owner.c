#include "client/owner.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/error.h"

/* Longer than any user name of a real system. */
#define USER_MAX 255

static bool owner_is_number(const char *text, uint32_t *ret)
{
  uint64_t value = 0;

  if (!*text)
    return false;
  for (; *text; text++) {
    if (*text < '0' || *text > '9')
      return false;
    value = value * 10 + (uint64_t)(*text - '0');
    if (value >= MSG_LIST_ALL_OWNERS)
      return false;
  }
  *ret = (uint32_t)value;
  return true;
}

static int owner_look_up(const char *user, uint32_t *ret, struct dlc_error *reterr)
{
  char buffer[4096];
  struct passwd entry;
  struct passwd *found = NULL;

  if (owner_is_number(user, ret))
    return 0;
  (void)getpwnam_r(user, &entry, buffer, sizeof(buffer), &found);
  if (!found)
    return dlc__error_set(reterr, DLC_E_NOT_FOUND, 0, "there is no user \"%s\" on this host", user);
  *ret = (uint32_t)found->pw_uid;
  return 0;
}

int dlc__name_split_owner(const char *name, uint32_t *ret_owner, const char **ret_rest,
                          struct dlc_error *reterr)
{
  char user[USER_MAX + 1];
  size_t size;

  *ret_owner = MSG_OWNER_SELF;
  *ret_rest = name;
  if (name[0] != '~')
    return 0;
  size = strcspn(name + 1, "/");
  if (size == 0 || size > USER_MAX || name[1 + size] != '/')
    return dlc__error_set(reterr, DLC_E_NAME, 0,
                          "a name that begins with \"~\" is one of another user: ~user/name");
  memcpy(user, name + 1, size);
  user[size] = '\0';
  *ret_rest = name + 1 + size + 1;
  return owner_look_up(user, ret_owner, reterr);
}

static int name_refuse(const char *what, int condition, struct dlc_error *reterr)
{
  return dlc__error_set(reterr, DLC_E_NAME, 0, "%s: %s", what, name_describe(condition));
}

/* Puts the name space before an own path. */
static int name_join(const struct dlc_client *client, const char *path, struct dlc__name *ret,
                     struct dlc_error *reterr)
{
  const char *space = ret->name.owner == MSG_OWNER_SELF ? client->name_space : "";
  size_t space_size = strlen(space), path_size = strlen(path);
  size_t start = space_size > 0 ? space_size + 1 : 0;

  if (start + path_size > DLP_NAME_MAX)
    return name_refuse("name", NAME_E_TOO_LONG, reterr);
  memcpy(ret->path, space, space_size);
  ret->path[space_size] = '/';
  memcpy(ret->path + start, path, path_size + 1);
  ret->name.path = ret->path;
  return 0;
}

int dlc__name_resolve(const struct dlc_client *client, const char *name, struct dlc__name *ret,
                      struct dlc_error *reterr)
{
  const char *path;
  int r;

  if (!name)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "the name is NULL");
  r = dlc__name_split_owner(name, &ret->name.owner, &path, reterr);
  if (r < 0)
    return r;
  r = name_check(path);
  if (r != 0)
    return name_refuse("name", r, reterr);
  return name_join(client, path, ret, reterr);
}

int dlc__name_resolve_prefix(const struct dlc_client *client, const char *prefix,
                             struct dlc__name *ret, struct dlc_error *reterr)
{
  const char *path;
  int r = dlc__name_split_owner(prefix, &ret->name.owner, &path, reterr);

  if (r < 0)
    return r;
  r = name_check_prefix(path);
  if (r != 0)
    return name_refuse("prefix", r, reterr);
  return name_join(client, path, ret, reterr);
}

static void show_path(const char *path, char *buffer)
{
  size_t size = strnlen(path, DLC__SHOWN_NAME_MAX);

  memcpy(buffer, path, size);
  buffer[size] = '\0';
}

void dlc__name_show(const char *name_space, uint32_t own_uid, const struct msg_name *name,
                    char *buffer)
{
  const char *path = name->path;
  size_t space = strlen(name_space);

  if (name->owner != own_uid && name->owner != MSG_OWNER_SELF) {
    (void)snprintf(buffer, DLC__SHOWN_NAME_MAX + 1, "~%u/%s", name->owner, path);
    return;
  }
  if (space == 0)
    show_path(path, buffer);
  else if (strncmp(path, name_space, space) == 0 && path[space] == '/')
    show_path(path + space + 1, buffer);
  else
    (void)snprintf(buffer, DLC__SHOWN_NAME_MAX + 1, "~%u/%s", own_uid, path);
}
