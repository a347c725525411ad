#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "client/owner.h"

static struct dlc_client client_in(const char *name_space)
{
  return (struct dlc_client){.name_space = (char *)name_space};
}

static void assert_resolved(const char *name_space, const char *name, uint32_t owner,
                            const char *path)
{
  struct dlc_client client = client_in(name_space);
  struct dlc__name resolved;

  assert_int_equal(dlc__name_resolve(&client, name, &resolved, NULL), 0);
  assert_int_equal(resolved.name.owner, owner);
  assert_string_equal(resolved.name.path, path);
}

static void assert_refused(const char *name, int code)
{
  struct dlc_client client = client_in("");
  struct dlc__name resolved;
  struct dlc_error error = {0};

  assert_int_equal(dlc__name_resolve(&client, name, &resolved, &error), -code);
  assert_true(strlen(error.message) > 0);
}

static void a_plain_name_is_ones_own(void **state)
{
  assert_resolved("", "model/w", MSG_OWNER_SELF, "model/w");
}

static void the_name_space_goes_before_own_names_only(void **state)
{
  assert_resolved("job/1", "w", MSG_OWNER_SELF, "job/1/w");
  assert_resolved("job/1", "~1000/w", 1000, "w");
}

static void a_user_is_named_or_numbered(void **state)
{
  assert_resolved("", "~root/a/b", 0, "a/b");
  assert_resolved("", "~0/a/b", 0, "a/b");
}

static void what_is_no_name_is_refused(void **state)
{
  assert_refused("", DLC_E_NAME);
  assert_refused("a//b", DLC_E_NAME);
  assert_refused("/a", DLC_E_NAME);
  assert_refused("a@b", DLC_E_NAME);
  assert_refused("~", DLC_E_NAME);
  assert_refused("~root", DLC_E_NAME);
  assert_refused("~/a", DLC_E_NAME);
  assert_refused("~root/", DLC_E_NAME);
  assert_refused("~root/~root/a", DLC_E_NAME);
  assert_refused("~no such user/a", DLC_E_NOT_FOUND);
  assert_refused("~4294967295/a", DLC_E_NOT_FOUND);
  assert_refused(NULL, DLC_E_INVALID);
}

static void a_name_that_its_name_space_makes_too_long_is_refused(void **state)
{
  struct dlc_client client = client_in("job/1");
  struct dlc__name resolved;
  char name[DLP_NAME_MAX + 1];

  memset(name, 'x', sizeof(name));
  for (size_t i = 200; i < sizeof(name); i += 200)
    name[i] = '/';
  name[DLP_NAME_MAX] = '\0';
  client.name_space = (char *)"";
  assert_int_equal(dlc__name_resolve(&client, name, &resolved, NULL), 0);
  client.name_space = (char *)"job/1";
  assert_int_equal(dlc__name_resolve(&client, name, &resolved, NULL), -DLC_E_NAME);
}

static void a_prefix_may_be_everything(void **state)
{
  struct dlc_client client = client_in("job");
  struct dlc__name resolved;

  assert_int_equal(dlc__name_resolve_prefix(&client, "", &resolved, NULL), 0);
  assert_string_equal(resolved.name.path, "job/");
  assert_int_equal(dlc__name_resolve_prefix(&client, "~root/", &resolved, NULL), 0);
  assert_string_equal(resolved.name.path, "");
  assert_int_equal(resolved.name.owner, 0);
}

static void assert_shown(const char *name_space, uint32_t owner, const char *path,
                         const char *expected)
{
  const struct msg_name name = {owner, path};
  char shown[DLC__SHOWN_NAME_MAX + 1];

  dlc__name_show(name_space, 1000, &name, shown);
  assert_string_equal(shown, expected);
}

static void a_name_is_shown_as_one_would_ask_for_it(void **state)
{
  assert_shown("", 1000, "a/b", "a/b");
  assert_shown("", 0, "a/b", "~0/a/b");
  assert_shown("job", 1000, "job/a", "a");
  assert_shown("job", 1000, "jobs/a", "~1000/jobs/a");
  assert_shown("job", 0, "job/a", "~0/job/a");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_plain_name_is_ones_own),
    cmocka_unit_test(the_name_space_goes_before_own_names_only),
    cmocka_unit_test(a_user_is_named_or_numbered),
    cmocka_unit_test(what_is_no_name_is_refused),
    cmocka_unit_test(a_name_that_its_name_space_makes_too_long_is_refused),
    cmocka_unit_test(a_prefix_may_be_everything),
    cmocka_unit_test(a_name_is_shown_as_one_would_ask_for_it),
};

TEST_MAIN(tests)
