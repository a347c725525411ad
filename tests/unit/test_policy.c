#include "support/test.h"

#include <stdlib.h>

#include "core/policy.h"

#define OWNER 1000u
#define GROUP 50u

static const uint32_t groups[] = {49, GROUP};
static const struct actor owner = {.uid = OWNER, .gid = 7};
static const struct actor member = {.uid = 1001, .gid = 7, .n_groups = 2, .groups = groups};
static const struct actor main_member = {.uid = 1002, .gid = GROUP};
static const struct actor stranger = {.uid = 1003, .gid = 7};
static const struct actor admin = {.uid = 1, .gid = 1, .is_admin = true};

static struct access_rule rule(uint32_t mode)
{
  return (struct access_rule){OWNER, GROUP, mode};
}

static void first_class_that_fits_decides(void **state)
{
  static const struct {
    const struct actor *actor;
    uint32_t mode;
    bool may_read, may_write;
  } cases[] = {
      {&owner, 0600, true, true},         {&owner, 0400, true, false},
      {&owner, 0200, false, true},        {&owner, 0066, false, false},
      {&member, 0640, true, false},       {&member, 0620, false, true},
      {&member, 0606, false, false},      {&main_member, 0660, true, true},
      {&main_member, 0604, false, false}, {&stranger, 0604, true, false},
      {&stranger, 0602, false, true},     {&stranger, 0660, false, false},
      {&admin, 0660, false, false},       {&admin, 0664, true, false},
  };

  (void)state;
  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    struct access_rule r = rule(cases[i].mode);
    assert_int_equal(policy_may_read(cases[i].actor, &r), cases[i].may_read);
    assert_int_equal(policy_may_write(cases[i].actor, &r), cases[i].may_write);
  }
}

static void owners_and_administrators_list_and_delete_whatever_the_mode(void **state)
{
  struct access_rule r = rule(0);

  (void)state;
  assert_true(policy_may_list(&owner, &r));
  assert_true(policy_may_list(&admin, &r));
  assert_true(policy_may_delete(&owner, &r));
  assert_true(policy_may_delete(&admin, &r));
  assert_false(policy_may_list(&stranger, &r));
  assert_false(policy_may_delete(&stranger, &r));
}

static void either_bit_lets_list_and_only_w_lets_delete(void **state)
{
  struct access_rule readable = rule(0604), writable = rule(0602);

  (void)state;
  assert_true(policy_may_list(&stranger, &readable));
  assert_true(policy_may_list(&stranger, &writable));
  assert_false(policy_may_delete(&stranger, &readable));
  assert_true(policy_may_delete(&stranger, &writable));
}

static void name_space_belongs_to_its_owner(void **state)
{
  struct access_rule readable = rule(0644), writable = rule(0666);

  (void)state;
  assert_true(policy_may_publish(&owner, OWNER, NULL));
  assert_true(policy_may_publish(&owner, OWNER, &readable));
  assert_false(policy_may_publish(&stranger, OWNER, NULL));
  assert_false(policy_may_publish(&stranger, OWNER, &readable));
  assert_true(policy_may_publish(&stranger, OWNER, &writable));
  assert_false(policy_may_publish(&admin, OWNER, NULL));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(first_class_that_fits_decides),
    cmocka_unit_test(owners_and_administrators_list_and_delete_whatever_the_mode),
    cmocka_unit_test(either_bit_lets_list_and_only_w_lets_delete),
    cmocka_unit_test(name_space_belongs_to_its_owner),
};

TEST_MAIN(tests)
