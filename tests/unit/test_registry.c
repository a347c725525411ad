#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry.h"

#define OWNER 1000u

struct fixture {
  struct timers timers;
  struct registry registry;
  uint64_t version;
};

static int setup(void **state)
{
  struct fixture *f = calloc(1, sizeof(*f));

  if (!f)
    return -1;
  if (registry_init(&f->registry, &f->timers, 5) != 0)
    return -1;
  timers_init(&f->timers, 1);
  f->version = 100;
  *state = f;
  return 0;
}

static struct entry_key key_of(const char *path)
{
  return (struct entry_key){0, OWNER, path};
}

static struct entry *find(struct fixture *f, const char *path)
{
  struct entry_key key = key_of(path);

  return registry_find(&f->registry, &key);
}

static void let_go(struct fixture *f, struct tensor *tensor)
{
  struct entry *entry = tensor->entry;

  assert_true(tensor_is_unused(tensor));
  tensor_free(&f->registry, tensor);
  registry_tidy(&f->registry, entry);
}

static void withdraw(struct fixture *f, const char *path)
{
  let_go(f, registry_withdraw(&f->registry, find(f, path)));
}

static int teardown(void **state)
{
  struct fixture *f = *state;
  struct dlp_tree_node *node = dlp_tree_first(&f->registry.entries);

  for (; node; node = dlp_tree_next(node)) {
    struct entry *entry = DLP_CONTAINER(node, struct entry, node);
    if (entry->newest)
      let_go(f, registry_withdraw(&f->registry, entry));
  }
  registry_deinit(&f->registry);
  free(f);
  return 0;
}

static struct tensor *stage(struct fixture *f, const char *path)
{
  struct entry_key key = key_of(path);
  struct msg_attribute attributes[] = {{"z", "1"}, {"a", "2"}};
  int64_t shape[] = {2, 3};
  struct msg_add add = {
      .name = {OWNER, path},
      .spec = {.code = 2, .bits = 32, .lanes = 1, .ndim = 2, .shape = shape, .strides = shape},
      .n_attributes = 2,
      .attributes = attributes,
  };
  struct tensor_draft draft = {.add = &add, .rule = {OWNER, OWNER, 0600}, .lifetime = 1};
  struct tensor *tensor = tensor_new(registry_get_entry(&f->registry, &key), &draft);

  tensor->version = f->version++;
  return tensor;
}

static struct tensor *publish(struct fixture *f, const char *path)
{
  struct tensor *tensor = stage(f, path);
  struct tensor *replaced = registry_publish(&f->registry, tensor);

  if (replaced)
    let_go(f, replaced);
  return tensor;
}

static void everything_of_a_tensor_is_copied(void **state)
{
  struct fixture *f = *state;
  const struct tensor *tensor = publish(f, "w");

  assert_int_equal(tensor_spec(tensor).shape[1], 3);
  assert_int_equal(tensor_spec(tensor).strides[0], 2);
  assert_string_equal(tensor_attributes(tensor)[0].key, "a");
  assert_string_equal(tensor_attributes(tensor)[1].value, "1");
  assert_int_equal(tensor->attributes_size, 8);
  assert_string_equal(tensor->entry->key.path, "w");
}

static void staged_tensor_is_not_the_newest(void **state)
{
  struct fixture *f = *state;
  struct tensor *tensor = stage(f, "w");

  assert_null(find(f, "w")->newest);
  tensor_free(&f->registry, tensor);
  registry_tidy(&f->registry, find(f, "w"));
  assert_null(find(f, "w"));
}

static void publication_replaces_the_newest(void **state)
{
  struct fixture *f = *state;
  struct tensor *old = publish(f, "w"), *fresh = stage(f, "w");

  assert_ptr_equal(registry_publish(&f->registry, fresh), old);
  assert_ptr_equal(find(f, "w")->newest, fresh);
  assert_int_equal(old->state, TENSOR_RETIRED);
  assert_true(old->flags & MSG_TENSOR_RETIRED);
  assert_int_equal(f->registry.n_live, 1);
  assert_int_equal(f->registry.n_retired, 1);
  let_go(f, old);
}

static void older_version_never_replaces_a_newer_one(void **state)
{
  struct fixture *f = *state;
  struct tensor *old = stage(f, "w"), *older = stage(f, "w"), *fresh;

  older->version = 1;
  fresh = publish(f, "w");
  assert_ptr_equal(registry_publish(&f->registry, old), old);
  let_go(f, old);
  assert_ptr_equal(find(f, "w")->newest, fresh);
  withdraw(f, "w");
  assert_ptr_equal(registry_publish(&f->registry, older), older);
  let_go(f, older);
  assert_null(find(f, "w")->newest);
}

static void version_in_use_stays_until_it_is_let_go(void **state)
{
  struct fixture *f = *state;
  struct tensor *tensor = publish(f, "w");

  tensor->n_leases = 1;
  assert_ptr_equal(registry_withdraw(&f->registry, find(f, "w")), tensor);
  assert_false(tensor_is_unused(tensor));
  assert_false(dlp_list_empty(&find(f, "w")->held));
  tensor->n_leases = 0;
  let_go(f, tensor);
}

static void every_change_gets_the_next_number(void **state)
{
  struct fixture *f = *state;

  publish(f, "a");
  publish(f, "b");
  publish(f, "a");
  assert_int_equal(find(f, "b")->change, 2);
  assert_int_equal(find(f, "a")->change, 3);
  withdraw(f, "b");
  assert_int_equal(find(f, "b")->change, 4);
  assert_int_equal(f->registry.change, 4);
}

static void changes_after_a_number_come_oldest_first(void **state)
{
  struct fixture *f = *state;
  struct entry *entry;

  publish(f, "a");
  publish(f, "b");
  publish(f, "c");
  publish(f, "a");
  entry = registry_first_change_after(&f->registry, 2);
  assert_string_equal(entry->key.path, "c");
  entry = registry_next_change(entry);
  assert_string_equal(entry->key.path, "a");
  assert_null(registry_next_change(entry));
  assert_null(registry_first_change_after(&f->registry, 4));
  assert_null(registry_first_change_after(&f->registry, UINT64_MAX));
  assert_string_equal(registry_first_change_after(&f->registry, 0)->key.path, "b");
}

static void deletion_is_remembered_with_its_version(void **state)
{
  struct fixture *f = *state;
  uint64_t version = publish(f, "w")->version;

  withdraw(f, "w");
  assert_int_equal(find(f, "w")->deleted_version, version);
  assert_int_equal(f->registry.n_tombstones, 1);
  publish(f, "w");
  assert_int_equal(f->registry.n_tombstones, 0);
}

static void oldest_deletions_are_forgotten_first(void **state)
{
  struct fixture *f = *state;
  char path[32];

  for (size_t i = 0; i < REGISTRY_TOMBSTONES_MAX + 2; i++) {
    (void)snprintf(path, sizeof(path), "%zu", i);
    publish(f, path);
    withdraw(f, path);
  }
  assert_int_equal(f->registry.n_tombstones, REGISTRY_TOMBSTONES_MAX);
  assert_null(find(f, "1"));
  assert_non_null(find(f, "2"));
  assert_int_equal(f->registry.forgotten, 4);
}

static void entry_that_is_waited_for_outlives_its_forgotten_deletion(void **state)
{
  struct fixture *f = *state;
  struct dlp_list waiter;
  struct entry *entry;
  char path[32];

  publish(f, "waited");
  entry = find(f, "waited");
  dlp_list_append(&entry->waiters, &waiter);
  withdraw(f, "waited");
  for (size_t i = 0; i < REGISTRY_TOMBSTONES_MAX; i++) {
    (void)snprintf(path, sizeof(path), "%zu", i);
    publish(f, path);
    withdraw(f, path);
  }
  assert_ptr_equal(find(f, "waited"), entry);
  assert_int_equal(entry->change, 0);
  dlp_list_remove(&waiter);
  registry_tidy(&f->registry, entry);
  assert_null(find(f, "waited"));
}

static void walk_goes_by_owner_and_bytes_within_a_realm(void **state)
{
  struct fixture *f = *state;
  struct entry_key other = {1, OWNER, "a"}, key = {0, 0, ""};
  struct entry *entry, *elsewhere = registry_get_entry(&f->registry, &other);

  publish(f, "b");
  publish(f, "a/b");
  publish(f, "a");
  entry = registry_seek(&f->registry, &key, false);
  assert_string_equal(entry->key.path, "a");
  entry = registry_seek(&f->registry, &entry->key, true);
  assert_string_equal(entry->key.path, "a/b");
  entry = registry_next(entry);
  assert_string_equal(entry->key.path, "b");
  assert_null(registry_next(entry));
  assert_null(registry_seek(&f->registry, &entry->key, true));
  registry_tidy(&f->registry, elsewhere);
}

static void prefix_is_of_bytes(void **state)
{
  (void)state;
  assert_true(registry_has_prefix("a/b", ""));
  assert_true(registry_has_prefix("a/b", "a/b"));
  assert_true(registry_has_prefix("a/bc", "a/b"));
  assert_false(registry_has_prefix("a", "a/"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(everything_of_a_tensor_is_copied),
    CASE(staged_tensor_is_not_the_newest),
    CASE(publication_replaces_the_newest),
    CASE(older_version_never_replaces_a_newer_one),
    CASE(version_in_use_stays_until_it_is_let_go),
    CASE(every_change_gets_the_next_number),
    CASE(changes_after_a_number_come_oldest_first),
    CASE(deletion_is_remembered_with_its_version),
    CASE(oldest_deletions_are_forgotten_first),
    CASE(entry_that_is_waited_for_outlives_its_forgotten_deletion),
    CASE(walk_goes_by_owner_and_bytes_within_a_realm),
    cmocka_unit_test(prefix_is_of_bytes),
};

TEST_MAIN(tests)
