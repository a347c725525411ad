#include "support/test.h"

#include <string.h>

#include <stdlib.h>

#include "core/quota.h"

#define REALM 0u
#define UID 1000u

static const struct quota_sum limits = {.of = {[QUOTA_BYTES] = 100,
                                               [QUOTA_TENSORS] = 10,
                                               [QUOTA_LEASES] = UINT64_MAX,
                                               [QUOTA_HEAP] = UINT64_MAX}};

struct fixture {
  struct quota *quota;
  struct quota_charge charges[3];
};

static int setup(void **state)
{
  struct fixture *f = calloc(1, sizeof(*f));

  if (!f || quota_new(&f->quota, &limits, 7) != 0)
    return -1;
  *state = f;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(f->charges); i++)
    quota_charge_deinit(&f->charges[i]);
  quota_free(f->quota);
  free(f);
  return 0;
}

static int charge(struct fixture *f, size_t i, uint32_t uid, uint64_t bytes, uint64_t tensors)
{
  struct quota_sum sum = {.of = {[QUOTA_BYTES] = bytes, [QUOTA_TENSORS] = tensors}};

  return quota_charge(f->quota, &f->charges[i], REALM, uid, &sum, NULL);
}

static void charge_is_counted_until_it_is_given_back(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(charge(f, 0, UID, 60, 1), 0);
  assert_int_equal(quota_used(f->quota, REALM, UID).of[QUOTA_BYTES], 60);
  quota_charge_deinit(&f->charges[0]);
  assert_int_equal(quota_used(f->quota, REALM, UID).of[QUOTA_BYTES], 0);
  quota_charge_deinit(&f->charges[0]);
}

static void limit_itself_may_be_reached(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(charge(f, 0, UID, 100, 0), 0);
  assert_int_equal(charge(f, 1, UID, 1, 0), QUOTA_E_EXCEEDED);
  assert_int_equal(charge(f, 1, UID, 0, 10), 0);
}

static void refused_charge_leaves_no_trace(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(charge(f, 0, UID, 60, 1), 0);
  assert_int_equal(charge(f, 1, UID, 10, 10), QUOTA_E_EXCEEDED);
  assert_int_equal(quota_used(f->quota, REALM, UID).of[QUOTA_BYTES], 60);
  assert_int_equal(quota_total(f->quota).of[QUOTA_TENSORS], 1);
  assert_null(f->charges[1].user);
}

static void refusal_says_what_was_refused(void **state)
{
  struct fixture *f = *state;
  struct quota_sum sum = {.of = {[QUOTA_TENSORS] = 8}};
  struct quota_refusal refusal;

  assert_int_equal(charge(f, 0, UID, 0, 3), 0);
  assert_int_equal(quota_charge(f->quota, &f->charges[1], REALM, UID, &sum, &refusal),
                   QUOTA_E_EXCEEDED);
  assert_int_equal(refusal.slot, QUOTA_TENSORS);
  assert_int_equal(refusal.limit, 10);
  assert_int_equal(refusal.used, 3);
  assert_int_equal(refusal.wanted, 8);
}

static void charges_add_up(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(charge(f, 0, UID, 10, 0), 0);
  assert_int_equal(charge(f, 0, UID, 20, 1), 0);
  assert_int_equal(charge(f, 0, UID, 80, 0), QUOTA_E_EXCEEDED);
  assert_int_equal(quota_used(f->quota, REALM, UID).of[QUOTA_BYTES], 30);
  quota_charge_deinit(&f->charges[0]);
  assert_int_equal(quota_total(f->quota).of[QUOTA_BYTES], 0);
}

static void users_have_limits_of_their_own(void **state)
{
  struct fixture *f = *state;
  struct quota_sum sum = {.of = {[QUOTA_BYTES] = 100}};

  assert_int_equal(charge(f, 0, UID, 100, 0), 0);
  assert_int_equal(charge(f, 1, UID + 1, 100, 0), 0);
  assert_int_equal(quota_charge(f->quota, &f->charges[2], REALM + 1, UID, &sum, NULL), 0);
  assert_int_equal(quota_total(f->quota).of[QUOTA_BYTES], 300);
}

static void slot_without_a_limit_set_holds_nothing(void **state)
{
  struct fixture *f = *state;
  struct quota_sum sum = {.of = {[QUOTA_SESSIONS] = 1}};

  assert_int_equal(quota_charge(f->quota, &f->charges[0], REALM, UID, &sum, NULL),
                   QUOTA_E_EXCEEDED);
}

static void sums_that_overflow_are_refused(void **state)
{
  struct fixture *f = *state;
  struct quota_sum sum = {.of = {[QUOTA_BYTES] = UINT64_MAX}};

  quota_free(f->quota);
  assert_int_equal(quota_new(&f->quota, &sum, 7), 0);
  assert_int_equal(quota_charge(f->quota, &f->charges[0], REALM, UID, &sum, NULL), 0);
  sum.of[QUOTA_BYTES] = 1;
  assert_int_equal(quota_charge(f->quota, &f->charges[1], REALM, UID, &sum, NULL),
                   QUOTA_E_EXCEEDED);
}

static void payment_of_more_than_it_can_tell_is_refused(void **state)
{
  struct fixture *f = *state;
  const struct {
    enum quota_slot slot;
    uint64_t most;
  } cases[] = {{QUOTA_LEASES, UINT8_MAX}, {QUOTA_HEAP, UINT32_MAX}};

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    struct quota_refusal refusal = {0};
    struct quota_sum sum = {0};

    sum.of[cases[i].slot] = cases[i].most;
    assert_int_equal(quota_charge(f->quota, &f->charges[0], REALM, UID, &sum, NULL), 0);
    sum.of[cases[i].slot] = 1;
    assert_int_equal(quota_charge(f->quota, &f->charges[0], REALM, UID, &sum, &refusal),
                     QUOTA_E_EXCEEDED);
    assert_int_equal(refusal.slot, cases[i].slot);
    assert_int_equal(quota_charge(f->quota, &f->charges[1], REALM, UID, &sum, NULL), 0);
  }
}

static void every_slot_has_a_name(void **state)
{
  (void)state;
  for (int slot = 0; slot < QUOTA_N_SLOTS; slot++)
    assert_true(strlen(quota_slot_name((enum quota_slot)slot)) > 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(charge_is_counted_until_it_is_given_back),
    CASE(limit_itself_may_be_reached),
    CASE(refused_charge_leaves_no_trace),
    CASE(refusal_says_what_was_refused),
    CASE(charges_add_up),
    CASE(users_have_limits_of_their_own),
    CASE(slot_without_a_limit_set_holds_nothing),
    CASE(sums_that_overflow_are_refused),
    CASE(payment_of_more_than_it_can_tell_is_refused),
    cmocka_unit_test(every_slot_has_a_name),
};

TEST_MAIN(tests)
