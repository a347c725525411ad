/* The main job: a tensor goes from one process to another, without a copy. */

#include <string.h>

#include "support/daemon.h"
#include "support/test.h"

static void a_tensor_that_was_put_is_got_as_it_was(void **state)
{
  struct dlc_client *client = test_connect(*state);
  float values[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {2, 3};
  struct dlc_view view = test_view_f32(values, shape, 2);
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;
  uint64_t version;

  test_ok(dlc_put(client, "a/b", &view, NULL, &version, &error), &error);
  test_ok(dlc_get(client, "a/b", NULL, &tensor, &error), &error);
  assert_int_equal(tensor->dl_tensor.ndim, 2);
  assert_int_equal(tensor->dl_tensor.shape[1], 3);
  assert_int_equal(tensor->dl_tensor.strides[0], 3);
  assert_memory_equal(tensor->dl_tensor.data, values, sizeof(values));
  assert_int_equal(tensor->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  assert_int_equal(dlc_tensor_info(tensor)->version, version);
  tensor->deleter(tensor);
  dlc_close(client);
}

static int produce(void *context, struct test_pipe_ends *ends)
{
  struct dlc_client *client = test_connect(context);
  float values[4] = {1, 2, 3, 4};
  int64_t shape[1] = {4};
  struct dlc_view view = test_view_f32(values, shape, 1);
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  struct dlc_error error;

  options.lifetime = DLC_LIFETIME_PERSISTENT;
  test_ok(dlc_put(client, "w", &view, &options, NULL, &error), &error);
  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  return 0;
}

static void another_process_reads_what_a_dead_one_published(void **state)
{
  struct test_child producer;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_client *client;
  struct dlc_error error;

  test_child_start(&producer, produce, *state);
  (void)test_hear(producer.from_child);
  test_child_kill(&producer);
  client = test_connect(*state);
  test_wait_counter(client, "sessions", 1);
  test_ok(dlc_get(client, "w", NULL, &tensor, &error), &error);
  assert_true(((float *)tensor->dl_tensor.data)[3] == 4);
  tensor->deleter(tensor);
  dlc_close(client);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_tensor_that_was_put_is_got_as_it_was, test_daemon_setup,
                                    test_daemon_teardown),
    cmocka_unit_test_setup_teardown(another_process_reads_what_a_dead_one_published,
                                    test_daemon_setup, test_daemon_teardown),
};

TEST_MAIN(tests)
