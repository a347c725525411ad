/* Two libdlclients in one process: a tensor of one is a stranger's to the other, and works. */

#include <dlfcn.h>
#include <stdlib.h>

#include "support/tensors.h"
#include "support/test.h"
#include "two_copies.h"

#define SIZE 5000

struct copy {
  void *module;
  struct dlc_client *(*connect)(const char *socket_path);
  struct DLManagedTensorVersioned *(*get)(struct dlc_client *client, const char *name);
  int (*put_managed)(struct dlc_client *client, const char *name,
                     struct DLManagedTensorVersioned *tensor);
  int (*knows)(const struct DLManagedTensorVersioned *tensor);
  void (*close)(struct dlc_client *client);
};

struct copies {
  struct test_daemon daemon;
  struct copy of[2];
  struct dlc_client *clients[2];
};

/* ISO C has no cast from an object's address to a function's. */
static void find(const struct copy *copy, const char *name, void *ret_function)
{
  *(void **)ret_function = dlsym(copy->module, name);
  assert_non_null(*(void **)ret_function);
}

static void load(struct copy *copy, const char *path)
{
  copy->module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!copy->module)
    fail_msg("%s", dlerror());
  find(copy, "two_copies_connect", &copy->connect);
  find(copy, "two_copies_get", &copy->get);
  find(copy, "two_copies_put_managed", &copy->put_managed);
  find(copy, "two_copies_knows", &copy->knows);
  find(copy, "two_copies_close", &copy->close);
}

static int setup(void **state)
{
  static const char *const paths[] = {TWO_COPIES_A, TWO_COPIES_B};
  struct copies *copies = calloc(1, sizeof(*copies));

  assert_non_null(copies);
  *state = copies;
  test_daemon_init(&copies->daemon, NULL);
  for (size_t i = 0; i < 2; i++) {
    load(&copies->of[i], paths[i]);
    copies->clients[i] = copies->of[i].connect(copies->daemon.socket);
    assert_non_null(copies->clients[i]);
  }
  return 0;
}

/* The modules stay loaded, as a deleter that was handed on would need them. */
static int teardown(void **state)
{
  struct copies *copies = *state;

  for (size_t i = 0; i < 2; i++)
    copies->of[i].close(copies->clients[i]);
  test_daemon_deinit(&copies->daemon);
  free(copies);
  return 0;
}

/* Field case 35. */
static void a_tensor_goes_from_one_copy_of_the_library_to_the_other(void **state)
{
  struct copies *copies = *state;
  struct dlc_client *client = test_connect(&copies->daemon);
  struct DLManagedTensorVersioned *first, *second;

  (void)test_put(client, "w", SIZE, 1, NULL);
  first = copies->of[0].get(copies->clients[0], "w");
  assert_non_null(first);
  assert_true(copies->of[0].knows(first));
  assert_false(copies->of[1].knows(first));
  /* Its deleter is the first copy's, called by the second. */
  assert_int_equal(copies->of[1].put_managed(copies->clients[1], "v", first), 0);
  second = copies->of[1].get(copies->clients[1], "v");
  assert_non_null(second);
  test_check(second, 1);
  test_drop(second);
  test_wait_counter(client, "leases", 0);
  dlc_close(client);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_tensor_goes_from_one_copy_of_the_library_to_the_other, setup,
                                    teardown),
};

TEST_MAIN(tests)
