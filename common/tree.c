#include "common/tree.h"

#include <assert.h>

/* splitmix64 of where the node is: equidistributed, no two alike, and nothing to store. */
uint64_t dlp_tree_priority(const struct dlp_tree *tree, const struct dlp_tree_node *node)
{
  uint64_t z = (uintptr_t)node ^ tree->seed;

  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static bool is_above(const struct dlp_tree *tree, const struct dlp_tree_node *a,
                     const struct dlp_tree_node *b)
{
  return dlp_tree_priority(tree, a) > dlp_tree_priority(tree, b);
}

static struct dlp_tree_node **slot_of(struct dlp_tree *tree, struct dlp_tree_node *node)
{
  if (!node->parent)
    return &tree->root;
  return node->parent->left == node ? &node->parent->left : &node->parent->right;
}

static void set_child(struct dlp_tree_node **slot, struct dlp_tree_node *parent,
                      struct dlp_tree_node *child)
{
  *slot = child;
  if (child)
    child->parent = parent;
}

/* `node` changes places with its parent; order is kept. */
static void rotate_up(struct dlp_tree *tree, struct dlp_tree_node *node)
{
  struct dlp_tree_node *parent = node->parent;
  struct dlp_tree_node **slot = slot_of(tree, parent);
  struct dlp_tree_node *above = parent->parent;

  if (parent->left == node) {
    set_child(&parent->left, parent, node->right);
    set_child(&node->right, node, parent);
  } else {
    set_child(&parent->right, parent, node->left);
    set_child(&node->left, node, parent);
  }
  set_child(slot, above, node);
}

void dlp_tree_init(struct dlp_tree *tree, dlp_tree_compare_fn compare, uint64_t seed)
{
  *tree = (struct dlp_tree){.compare = compare, .seed = seed * UINT64_C(0x9e3779b97f4a7c15)};
}

struct dlp_tree_node *dlp_tree_find(const struct dlp_tree *tree, const void *key)
{
  struct dlp_tree_node *node = tree->root;

  while (node) {
    int r = tree->compare(key, node);
    if (r == 0)
      return node;
    node = r < 0 ? node->left : node->right;
  }
  return NULL;
}

static struct dlp_tree_node *bound(const struct dlp_tree *tree, const void *key, bool strict)
{
  struct dlp_tree_node *node = tree->root, *best = NULL;

  while (node) {
    int r = tree->compare(key, node);
    if (r < 0 || (r == 0 && !strict)) {
      best = node;
      node = node->left;
    } else {
      node = node->right;
    }
  }
  return best;
}

struct dlp_tree_node *dlp_tree_lower_bound(const struct dlp_tree *tree, const void *key)
{
  return bound(tree, key, false);
}

struct dlp_tree_node *dlp_tree_after(const struct dlp_tree *tree, const void *key)
{
  return bound(tree, key, true);
}

void dlp_tree_insert(struct dlp_tree *tree, const void *key, struct dlp_tree_node *node)
{
  struct dlp_tree_node **slot = &tree->root, *parent = NULL;

  while (*slot) {
    int r = tree->compare(key, *slot);
    assert(r != 0);
    parent = *slot;
    slot = r < 0 ? &parent->left : &parent->right;
  }
  *node = (struct dlp_tree_node){.parent = parent};
  *slot = node;
  while (node->parent && is_above(tree, node, node->parent))
    rotate_up(tree, node);
  tree->size++;
}

void dlp_tree_remove(struct dlp_tree *tree, struct dlp_tree_node *node)
{
  assert(*slot_of(tree, node) == node);
  while (node->left && node->right)
    rotate_up(tree, is_above(tree, node->left, node->right) ? node->left : node->right);
  set_child(slot_of(tree, node), node->parent, node->left ? node->left : node->right);
  *node = (struct dlp_tree_node){0};
  tree->size--;
}

struct dlp_tree_node *dlp_tree_first(const struct dlp_tree *tree)
{
  struct dlp_tree_node *node = tree->root;

  while (node && node->left)
    node = node->left;
  return node;
}

struct dlp_tree_node *dlp_tree_next(const struct dlp_tree_node *node)
{
  if (node->right) {
    struct dlp_tree_node *next = node->right;
    while (next->left)
      next = next->left;
    return next;
  }
  while (node->parent && node->parent->right == node)
    node = node->parent;
  return node->parent;
}
