#ifndef DLPACKD_COMMON_TREE_H
#define DLPACKD_COMMON_TREE_H

/*
 * Intrusive ordered tree: the one container for "find by key" and "what comes
 * after", so that a long walk can stop and go on later from a key.
 *
 * A treap. A node's priority is a hash, seeded by the owner, of where it lies in
 * memory: whoever picks the keys (a hostile client picks names) cannot see it, so the
 * depth stays logarithmic. Nodes live in what they index, and may not move while they
 * are in a tree; nothing is allocated here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dlp_tree_node {
  struct dlp_tree_node *left, *right, *parent;
};

/* <0, 0, >0 as `key` sorts before, at or after the node. */
typedef int (*dlp_tree_compare_fn)(const void *key, const struct dlp_tree_node *node);

struct dlp_tree {
  struct dlp_tree_node *root;
  dlp_tree_compare_fn compare;
  uint64_t seed;
  size_t size;
};

void dlp_tree_init(struct dlp_tree *tree, dlp_tree_compare_fn compare, uint64_t seed);

/* No node has one of higher priority below it; for the tree itself and its tests. */
uint64_t dlp_tree_priority(const struct dlp_tree *tree, const struct dlp_tree_node *node);

/* Return: the node at `key`, or NULL. */
struct dlp_tree_node *dlp_tree_find(const struct dlp_tree *tree, const void *key);
/* Return: the first node at or after `key`; strictly after it with _after. */
struct dlp_tree_node *dlp_tree_lower_bound(const struct dlp_tree *tree, const void *key);
struct dlp_tree_node *dlp_tree_after(const struct dlp_tree *tree, const void *key);

/* `key` must be that of `node`, and not in the tree. */
void dlp_tree_insert(struct dlp_tree *tree, const void *key, struct dlp_tree_node *node);
void dlp_tree_remove(struct dlp_tree *tree, struct dlp_tree_node *node);

struct dlp_tree_node *dlp_tree_first(const struct dlp_tree *tree);
struct dlp_tree_node *dlp_tree_next(const struct dlp_tree_node *node);

/* The tree may not change within the loop. */
#define dlp_tree_for_each(node, tree) \
  for (struct dlp_tree_node *node = dlp_tree_first(tree); node; node = dlp_tree_next(node))

#endif
