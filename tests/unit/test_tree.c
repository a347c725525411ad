#include "support/test.h"

#include <stdlib.h>

#include "common/list.h"
#include "common/tree.h"

struct item {
  struct dlp_tree_node node;
  int key;
  bool present;
};

static const struct item *item_of(const struct dlp_tree_node *node)
{
  return DLP_CONTAINER(node, struct item, node);
}

static int compare_keys(const void *key, const struct dlp_tree_node *node)
{
  int a = *(const int *)key, b = item_of(node)->key;

  return (a > b) - (a < b);
}

/* A tree, and items with the even keys 0, 2, ... so that odd ones lie between. */
struct fixture {
  struct dlp_tree tree;
  size_t n_items;
  struct item *items;
};

static struct fixture *fixture_new(size_t n_items)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));

  assert_non_null(fixture);
  fixture->n_items = n_items;
  fixture->items = calloc(n_items, sizeof(*fixture->items));
  assert_non_null(fixture->items);
  for (size_t i = 0; i < n_items; i++)
    fixture->items[i].key = (int)(2 * i);
  dlp_tree_init(&fixture->tree, compare_keys, 0x5eed);
  return fixture;
}

static int setup_small(void **state)
{
  *state = fixture_new(64);
  return 0;
}

static int setup_large(void **state)
{
  *state = fixture_new(100000);
  return 0;
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;

  free(fixture->items);
  free(fixture);
  return 0;
}

static void insert(struct fixture *fixture, size_t index)
{
  struct item *item = &fixture->items[index];

  dlp_tree_insert(&fixture->tree, &item->key, &item->node);
  item->present = true;
}

static void withdraw(struct fixture *fixture, size_t index)
{
  dlp_tree_remove(&fixture->tree, &fixture->items[index].node);
  fixture->items[index].present = false;
}

/* What the tree should answer: the first present item from `index` on. */
static const struct dlp_tree_node *expected_from(const struct fixture *fixture, size_t index)
{
  for (; index < fixture->n_items; index++)
    if (fixture->items[index].present)
      return &fixture->items[index].node;
  return NULL;
}

static void check_node(const struct dlp_tree *tree, const struct dlp_tree_node *node)
{
  if (node->parent) {
    assert_true(node->parent->left == node || node->parent->right == node);
    assert_true(dlp_tree_priority(tree, node->parent) > dlp_tree_priority(tree, node));
  } else {
    assert_ptr_equal(tree->root, node);
  }
}

static void check_walk(const struct fixture *fixture)
{
  const struct dlp_tree_node *expected = expected_from(fixture, 0);
  size_t n = 0;

  dlp_tree_for_each (node, &fixture->tree) {
    assert_ptr_equal(node, expected);
    check_node(&fixture->tree, node);
    expected = expected_from(fixture, (size_t)(item_of(node) - fixture->items) + 1);
    n++;
  }
  assert_null(expected);
  assert_int_equal(n, fixture->tree.size);
}

static void check_lookups(const struct fixture *fixture)
{
  for (int key = -1; key <= (int)(2 * fixture->n_items); key++) {
    size_t at = (size_t)(key + 1) / 2, after = (size_t)(key + 2) / 2;
    bool present = key >= 0 && key % 2 == 0 && at < fixture->n_items && fixture->items[at].present;

    assert_ptr_equal(dlp_tree_lower_bound(&fixture->tree, &key), expected_from(fixture, at));
    assert_ptr_equal(dlp_tree_after(&fixture->tree, &key), expected_from(fixture, after));
    assert_ptr_equal(dlp_tree_find(&fixture->tree, &key),
                     present ? &fixture->items[at].node : NULL);
  }
}

static void empty_tree_has_nothing(void **state)
{
  struct fixture *fixture = *state;

  assert_null(dlp_tree_first(&fixture->tree));
  assert_int_equal(fixture->tree.size, 0);
  check_walk(fixture);
  check_lookups(fixture);
}

static void one_node_is_found_from_every_side(void **state)
{
  struct fixture *fixture = *state;

  insert(fixture, 30);
  check_walk(fixture);
  check_lookups(fixture);
  withdraw(fixture, 30);
  check_walk(fixture);
  check_lookups(fixture);
}

static void random_changes_agree_with_a_sorted_array(void **state)
{
  struct fixture *fixture = *state;
  unsigned int seed = 1;

  for (int i = 0; i < 5000; i++) {
    size_t index = (size_t)rand_r(&seed) % fixture->n_items;
    if (fixture->items[index].present)
      withdraw(fixture, index);
    else
      insert(fixture, index);
    check_walk(fixture);
    if (i % 16 == 0)
      check_lookups(fixture);
  }
}

static void node_can_be_inserted_again_after_removal(void **state)
{
  struct fixture *fixture = *state;

  for (size_t i = 0; i < fixture->n_items; i++)
    insert(fixture, i);
  for (size_t i = 0; i < fixture->n_items; i++) {
    withdraw(fixture, i);
    insert(fixture, i);
  }
  check_walk(fixture);
  check_lookups(fixture);
}

/* As long listings do: stop, change the tree, go on after the last key seen. */
static void walk_goes_on_from_a_key_that_is_gone(void **state)
{
  struct fixture *fixture = *state;
  struct dlp_tree_node *node;
  size_t n = 0;

  for (size_t i = 0; i < fixture->n_items; i++)
    insert(fixture, i);
  for (node = dlp_tree_first(&fixture->tree); node; n++) {
    int key = item_of(node)->key;
    withdraw(fixture, (size_t)key / 2);
    node = dlp_tree_after(&fixture->tree, &key);
  }
  assert_int_equal(n, fixture->n_items);
  assert_null(fixture->tree.root);
}

static size_t depth_of(const struct dlp_tree_node *node)
{
  size_t depth = 0;

  for (; node; node = node->parent)
    depth++;
  return depth;
}

static size_t greatest_depth(const struct dlp_tree *tree)
{
  size_t greatest = 0;

  dlp_tree_for_each (node, tree) {
    size_t depth = depth_of(node);
    if (depth > greatest)
      greatest = depth;
  }
  return greatest;
}

/* Sorted keys make a plain binary tree a list; here 17 levels would be perfect
 * and about 40 are expected. */
static void sorted_keys_do_not_make_it_deep(void **state)
{
  struct fixture *fixture = *state;

  for (size_t i = 0; i < fixture->n_items; i++)
    insert(fixture, i);
  assert_int_equal(fixture->tree.size, 100000);
  assert_in_range(greatest_depth(&fixture->tree), 17, 64);
}

static void removals_in_order_do_not_make_it_deep(void **state)
{
  struct fixture *fixture = *state;

  for (size_t i = fixture->n_items; i-- > 0;)
    insert(fixture, i);
  for (size_t i = 0; i < fixture->n_items; i++)
    if (i % 4)
      withdraw(fixture, i);
  assert_int_equal(fixture->tree.size, 25000);
  assert_in_range(greatest_depth(&fixture->tree), 15, 64);
  for (size_t i = 0; i < fixture->n_items; i += 4)
    withdraw(fixture, i);
  assert_null(fixture->tree.root);
  assert_int_equal(fixture->tree.size, 0);
}

static void shape_depends_on_the_seed(void **state)
{
  struct dlp_tree a, b;

  dlp_tree_init(&a, compare_keys, 1);
  dlp_tree_init(&b, compare_keys, 2);
  struct item one = {.key = 1};
  assert_true(dlp_tree_priority(&a, &one.node) != dlp_tree_priority(&b, &one.node));
}

#define small(name) cmocka_unit_test_setup_teardown(name, setup_small, teardown)
#define large(name) cmocka_unit_test_setup_teardown(name, setup_large, teardown)

static const struct CMUnitTest tests[] = {
    small(empty_tree_has_nothing),
    small(one_node_is_found_from_every_side),
    small(random_changes_agree_with_a_sorted_array),
    small(node_can_be_inserted_again_after_removal),
    small(walk_goes_on_from_a_key_that_is_gone),
    large(sorted_keys_do_not_make_it_deep),
    large(removals_in_order_do_not_make_it_deep),
    cmocka_unit_test(shape_depends_on_the_seed),
};

TEST_MAIN(tests)
