/*
 * Versions: what is held does not change, whatever becomes of its name; a newer
 * one is waited for; names end by deletion and by themselves.
 */

#include <stdlib.h>

#include "support/measure.h"
#include "support/tensors.h"
#include "support/test.h"

#define SIZE 5000

struct atomics {
  struct test_daemon daemon;
  struct dlc_client *client;
  struct test_child writer;
};

static int setup(void **state)
{
  struct atomics *atomics = calloc(1, sizeof(*atomics));

  assert_non_null(atomics);
  *state = atomics;
  test_daemon_init(&atomics->daemon, NULL);
  atomics->client = test_connect(&atomics->daemon);
  return 0;
}

static int teardown(void **state)
{
  struct atomics *atomics = *state;

  test_child_kill(&atomics->writer);
  dlc_close(atomics->client);
  test_daemon_deinit(&atomics->daemon);
  free(atomics);
  return 0;
}

/* ---- snapshots ---- */

#define N_REPLACEMENTS 1000

static int replace_a_thousand_times(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  uint64_t version = test_put(client, "w", SIZE, 0, NULL);

  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  for (uint64_t i = 1; i <= N_REPLACEMENTS; i++) {
    uint64_t next = test_put(client, "w", SIZE, i, NULL);

    assert_true(next > version);
    version = next;
    if (i % 100 == 0) {
      test_tell(ends->out, i);
      (void)test_hear(ends->in);
    }
  }
  return 0;
}

static void a_holder_sees_its_bytes_unchanged_over_a_thousand_replacements(void **state)
{
  struct atomics *atomics = *state;
  struct DLManagedTensorVersioned *held;

  test_child_start(&atomics->writer, replace_a_thousand_times, &atomics->daemon);
  (void)test_hear(atomics->writer.from_child);
  held = test_get(atomics->client, "w", DLC_ACCESS_READ);
  test_tell(atomics->writer.to_child, 1);
  for (uint64_t i = 100; i <= N_REPLACEMENTS; i += 100) {
    struct DLManagedTensorVersioned *newest;

    assert_int_equal(test_hear(atomics->writer.from_child), i);
    test_check(held, 0);
    newest = test_get(atomics->client, "w", DLC_ACCESS_READ);
    test_check(newest, i);
    test_drop(newest);
    test_tell(atomics->writer.to_child, 1);
  }
  test_child_join(&atomics->writer);
  test_check(held, 0);
  test_drop(held);
}

/* Field case 52. */
static void every_holder_keeps_the_version_it_got(void **state)
{
  struct atomics *atomics = *state;
  struct DLManagedTensorVersioned *held[50];

  for (uint64_t i = 0; i < TEST_ARRAY_SIZE(held); i++) {
    (void)test_put(atomics->client, "w", SIZE, i, NULL);
    held[i] = test_get(atomics->client, "w", DLC_ACCESS_READ);
  }
  assert_int_equal(test_counter(atomics->client, "tensors_retired"), TEST_ARRAY_SIZE(held) - 1);
  for (uint64_t i = 0; i < TEST_ARRAY_SIZE(held); i++) {
    test_check(held[i], i);
    test_drop(held[i]);
  }
  test_wait_counter(atomics->client, "tensors_retired", 0);
}

/* ---- waiting ---- */

static int wait_for_newer(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  struct dlc_info *info;
  struct dlc_error error;
  uint64_t version = 0;

  for (int i = 0; i < 3; i++) {
    test_ok(dlc_wait(client, "w", version, -1, &info, &error), &error);
    assert_true(info->version > version);
    version = info->version;
    dlc_info_free(info);
    test_tell(ends->out, version);
  }
  return 0;
}

/* Field case 52. */
static void a_wait_ends_when_a_newer_version_comes(void **state)
{
  struct atomics *atomics = *state;

  test_child_start(&atomics->writer, wait_for_newer, &atomics->daemon);
  for (uint64_t i = 0; i < 3; i++) {
    uint64_t version = test_put(atomics->client, "w", SIZE, i, NULL);

    assert_int_equal(test_hear(atomics->writer.from_child), version);
  }
  test_child_join(&atomics->writer);
}

static void a_wait_for_what_does_not_come_ends_in_time(void **state)
{
  struct atomics *atomics = *state;
  uint64_t version = test_put(atomics->client, "w", SIZE, 1, NULL);
  struct dlc_error error;
  int64_t start = test_now_us();

  test_refused(dlc_wait(atomics->client, "w", version, 100, NULL, &error), DLC_E_TIMEOUT, &error);
  assert_true(test_now_us() - start >= 100000);
}

/* ---- the end of names ---- */

static void a_tensor_with_a_ttl_goes_by_itself_and_stays_for_its_holder(void **state)
{
  struct atomics *atomics = *state;
  struct dlc_publish_options options = test_lifetime(DLC_LIFETIME_TTL);
  struct dlc_get_options wanted = DLC_GET_OPTIONS_INIT;
  struct DLManagedTensorVersioned *held, *tensor;
  struct dlc_error error;

  options.ttl_ms = 200;
  (void)test_put(atomics->client, "w", SIZE, 1, &options);
  held = test_get(atomics->client, "w", DLC_ACCESS_READ);
  test_wait_counter(atomics->client, "tensors", 0);
  test_refused(dlc_get(atomics->client, "w", &wanted, &tensor, &error), DLC_E_NOT_FOUND, &error);
  test_check(held, 1);
  test_drop(held);
  test_wait_counter(atomics->client, "bytes", 0);
}

static int expect_deleting(void *context, const struct dlc_info *info)
{
  size_t *n_retired = context;

  if (info->flags & DLC_INFO_RETIRED) {
    assert_string_equal(info->name, "w");
    assert_int_equal(info->readers, 1);
    ++*n_retired;
  }
  return 0;
}

/* Field case 20. */
static void a_deleted_name_is_gone_at_once_and_its_memory_with_the_last_holder(void **state)
{
  struct atomics *atomics = *state;
  struct dlc_list_options options = DLC_LIST_OPTIONS_INIT;
  struct DLManagedTensorVersioned *held, *tensor;
  struct dlc_error error;
  uint64_t first, second;
  size_t n_retired = 0;

  first = test_put(atomics->client, "w", SIZE, 1, NULL);
  held = test_get(atomics->client, "w", DLC_ACCESS_READ);
  test_delete(atomics->client, "w");
  test_refused(dlc_get(atomics->client, "w", NULL, &tensor, &error), DLC_E_NOT_FOUND, &error);
  test_refused(dlc_delete(atomics->client, "w", 0, NULL, &error), DLC_E_NOT_FOUND, &error);
  options.flags = DLC_LIST_RETIRED;
  test_ok(dlc_list(atomics->client, &options, expect_deleting, &n_retired, &error), &error);
  assert_int_equal(n_retired, 1);
  second = test_put(atomics->client, "w", SIZE, 2, NULL);
  assert_true(second > first);
  test_check(held, 1);
  tensor = test_get(atomics->client, "w", DLC_ACCESS_READ);
  test_check(tensor, 2);
  test_drop(tensor);
  test_drop(held);
  test_wait_counter(atomics->client, "tensors_retired", 0);
  test_delete(atomics->client, "w");
  test_wait_counter(atomics->client, "bytes", 0);
}

static void versions_grow_over_replacement_deletion_and_restart(void **state)
{
  struct atomics *atomics = *state;
  uint64_t version = 0;

  for (uint64_t i = 0; i < 100; i++) {
    uint64_t next = test_put(atomics->client, i % 3 ? "w" : "v", SIZE, i, NULL);

    assert_true(next > version);
    assert_true(next < UINT64_C(1) << 53);
    version = next;
    if (i % 5 == 0)
      test_delete(atomics->client, i % 3 ? "w" : "v");
    if (i % 20 == 19) {
      test_daemon_stop(&atomics->daemon);
      test_daemon_start(&atomics->daemon);
    }
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_holder_sees_its_bytes_unchanged_over_a_thousand_replacements,
                                    setup, teardown),
    cmocka_unit_test_setup_teardown(every_holder_keeps_the_version_it_got, setup, teardown),
    cmocka_unit_test_setup_teardown(a_wait_ends_when_a_newer_version_comes, setup, teardown),
    cmocka_unit_test_setup_teardown(a_wait_for_what_does_not_come_ends_in_time, setup, teardown),
    cmocka_unit_test_setup_teardown(a_tensor_with_a_ttl_goes_by_itself_and_stays_for_its_holder,
                                    setup, teardown),
    cmocka_unit_test_setup_teardown(
        a_deleted_name_is_gone_at_once_and_its_memory_with_the_last_holder, setup, teardown),
    cmocka_unit_test_setup_teardown(versions_grow_over_replacement_deletion_and_restart, setup,
                                    teardown),
};

TEST_MAIN(tests)
