#include "support/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/fork.h"
#include "client/managed.h"

/* A client that is connected to nothing; holds only count it. */
struct fixture {
  struct dlc_client client;
  struct dlc_slot slot;
};

static int fixture_setup(void **state)
{
  struct fixture *f = calloc(1, sizeof(*f));

  if (!f || dlc__fork_watch() < 0)
    return -1;
  f->client.refs = 1;
  f->client.fork_generation = dlc__fork_generation();
  *state = f;
  return 0;
}

/* Nobody has kept a reference. */
static int fixture_teardown(void **state)
{
  struct fixture *f = *state;
  int left = (int)f->client.refs - 1;

  free(f);
  return left;
}

static struct dlc__hold *hold_new(struct fixture *f, size_t ndim, const int64_t *shape,
                                  const int64_t *strides)
{
  const struct msg_spec spec = {
      .code = 2, .bits = 32, .lanes = 1, .ndim = ndim, .shape = shape, .strides = strides};
  uint8_t *bytes;
  struct dlc__hold *hold = dlc__hold_new_with(&f->client, &spec, 256, &bytes);

  assert_non_null(hold);
  hold->data = bytes;
  hold->info = calloc(1, sizeof(*hold->info));
  assert_non_null(hold->info);
  return hold;
}

static const int64_t shape[] = {3, 4}, strides[] = {-4, 1};

static void a_tensor_says_what_dlpack_1_3_asks_for(void **state)
{
  struct dlc__hold *hold = hold_new(*state, 2, shape, strides);
  DLManagedTensorVersioned *tensor;

  hold->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  assert_int_equal(dlc__managed_new_consume(hold, &tensor), 0);
  assert_int_equal(tensor->version.major, 1);
  assert_int_equal(tensor->version.minor, 3);
  assert_int_equal(tensor->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  assert_ptr_equal(tensor->dl_tensor.data, hold->data);
  assert_int_equal(tensor->dl_tensor.device.device_type, kDLCPU);
  assert_int_equal(tensor->dl_tensor.device.device_id, 0);
  assert_int_equal(tensor->dl_tensor.ndim, 2);
  assert_int_equal(tensor->dl_tensor.dtype.code, kDLFloat);
  assert_int_equal(tensor->dl_tensor.byte_offset, 0);
  assert_memory_equal(tensor->dl_tensor.shape, shape, sizeof(shape));
  assert_memory_equal(tensor->dl_tensor.strides, strides, sizeof(strides));
  tensor->deleter(tensor);
}

static void strides_are_filled_in_where_there_were_none(void **state)
{
  const int64_t compact[] = {4, 1};
  DLManagedTensorVersioned *tensor;

  assert_int_equal(dlc__managed_new_consume(hold_new(*state, 2, shape, NULL), &tensor), 0);
  assert_memory_equal(tensor->dl_tensor.strides, compact, sizeof(compact));
  tensor->deleter(tensor);
}

static void a_scalar_has_arrays_to_point_at(void **state)
{
  DLManagedTensorVersioned *tensor;

  assert_int_equal(dlc__managed_new_consume(hold_new(*state, 0, NULL, NULL), &tensor), 0);
  assert_non_null(tensor->dl_tensor.shape);
  assert_non_null(tensor->dl_tensor.strides);
  tensor->dl_tensor.shape[0] = tensor->dl_tensor.strides[0] = 7;
  tensor->deleter(tensor);
}

static void the_legacy_form_holds_the_same(void **state)
{
  struct dlc__hold *hold = hold_new(*state, 2, shape, strides);
  DLManagedTensor *tensor;

  assert_int_equal(dlc__managed_new_legacy_consume(hold, &tensor), 0);
  assert_ptr_equal(tensor->dl_tensor.data, hold->data);
  assert_memory_equal(tensor->dl_tensor.strides, strides, sizeof(strides));
  tensor->deleter(tensor);
}

static void a_duplicate_lives_on_without_the_first(void **state)
{
  struct dlc__hold *hold = hold_new(*state, 2, shape, strides);
  DLManagedTensorVersioned *first, *second;
  DLManagedTensor *third;

  memcpy(hold->data, "abc", 4);
  assert_int_equal(dlc__managed_new_consume(hold, &first), 0);
  assert_int_equal(dlc_dup(first, &second, NULL), 0);
  assert_int_equal(dlc_dup_legacy(first, &third, NULL), 0);
  first->deleter(first);
  second->deleter(second);
  assert_string_equal(third->dl_tensor.data, "abc");
  third->deleter(third);
}

static void what_is_not_ours_is_not_duplicated(void **state)
{
  DLManagedTensorVersioned foreign = {.version = {1, 3}};
  DLManagedTensorVersioned *copy;

  assert_int_equal(dlc_dup(&foreign, &copy, NULL), -DLC_E_INVALID);
  assert_int_equal(dlc_dup(NULL, &copy, NULL), -DLC_E_INVALID);
  assert_null(dlc_tensor_info(&foreign));
  assert_null(dlc_tensor_info(NULL));
}

static void a_slot_holds_the_highest_rank_and_forgives_a_second_deleter(void **state)
{
  struct fixture *f = *state;
  int64_t ones[DLP_NDIM_MAX];
  DLManagedTensorVersioned *tensor;

  for (size_t i = 0; i < DLP_NDIM_MAX; i++)
    ones[i] = 1;
  tensor = dlc__managed_init_consume(&f->slot, hold_new(f, DLP_NDIM_MAX, ones, ones));
  assert_ptr_equal(tensor, &f->slot);
  assert_int_equal(tensor->dl_tensor.shape[DLP_NDIM_MAX - 1], 1);
  assert_int_equal(tensor->dl_tensor.strides[DLP_NDIM_MAX - 1], 1);
  tensor->deleter(tensor);
  tensor->deleter(tensor);
}

static void *delete_elsewhere(void *tensor)
{
  ((DLManagedTensorVersioned *)tensor)->deleter(tensor);
  return NULL;
}

static void another_thread_may_delete(void **state)
{
  DLManagedTensorVersioned *tensor;
  pthread_t thread;

  assert_int_equal(dlc__managed_new_consume(hold_new(*state, 2, shape, NULL), &tensor), 0);
  assert_int_equal(pthread_create(&thread, NULL, delete_elsewhere, tensor), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_forked_child_may_delete_its_copy(void **state)
{
  DLManagedTensorVersioned *tensor;
  int status;
  pid_t child;

  assert_int_equal(dlc__managed_new_consume(hold_new(*state, 2, shape, NULL), &tensor), 0);
  child = fork();
  if (child == 0) {
    tensor->deleter(tensor);
    _exit(dlc__fork_is_child(((struct fixture *)*state)->client.fork_generation) ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  tensor->deleter(tensor);
}

static void an_array_may_have_gaps(void **state)
{
  DLManagedTensorVersioned **tensors = calloc(3, sizeof(*tensors));

  assert_non_null(tensors);
  dlc_tensors_free(tensors, 3);
  dlc_tensors_free(NULL, 3);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, fixture_setup, fixture_teardown)

static const struct CMUnitTest tests[] = {
    CASE(a_tensor_says_what_dlpack_1_3_asks_for),
    CASE(strides_are_filled_in_where_there_were_none),
    CASE(a_scalar_has_arrays_to_point_at),
    CASE(the_legacy_form_holds_the_same),
    CASE(a_duplicate_lives_on_without_the_first),
    CASE(what_is_not_ours_is_not_duplicated),
    CASE(a_slot_holds_the_highest_rank_and_forgives_a_second_deleter),
    CASE(another_thread_may_delete),
    CASE(a_forked_child_may_delete_its_copy),
    CASE(an_array_may_have_gaps),
};

TEST_MAIN(tests)
