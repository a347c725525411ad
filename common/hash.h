#ifndef DLPACKD_COMMON_HASH_H
#define DLPACKD_COMMON_HASH_H

/*
 * Intrusive hash table, for finding by key what is looked for most.
 *
 * Keys come from hostile clients, so they are hashed with SipHash under a secret
 * seed: nobody can make them collide. Growing moves a few buckets with each
 * change, so that no single call takes long however large the table is. Nodes live
 * in what they index; only the buckets are allocated, and when there is no memory
 * for more the table goes on with those it has.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dlp_hash_node {
  struct dlp_hash_node *next;
  uint64_t hash;
};

struct dlp_hash_buckets {
  struct dlp_hash_node **heads;
  size_t mask; /* their number, a power of two, less one */
};

struct dlp_hash {
  struct dlp_hash_buckets now;
  struct dlp_hash_buckets old; /* being moved; heads NULL: none */
  size_t moved;                /* of the old ones */
  size_t size;
  uint64_t seed[2];
};

/* Is the node the one that is looked for? Its hash is equal. */
typedef bool (*dlp_hash_equal_fn)(const void *key, const struct dlp_hash_node *node);

/* Return: 0 or -ENOMEM. */
int dlp_hash_init(struct dlp_hash *hash, uint64_t seed);
void dlp_hash_deinit(struct dlp_hash *hash); /* asserts that it is empty */

/* SipHash-2-4 of the bytes, under the table's seed; `more` is a number to go with them. */
uint64_t dlp_hash_bytes(const struct dlp_hash *hash, uint64_t more, const void *bytes, size_t size);

struct dlp_hash_node *dlp_hash_find(const struct dlp_hash *hash, uint64_t value, const void *key,
                                    dlp_hash_equal_fn equal);
/* The key may not be in the table. */
void dlp_hash_insert(struct dlp_hash *hash, uint64_t value, struct dlp_hash_node *node);
void dlp_hash_remove(struct dlp_hash *hash, struct dlp_hash_node *node);

#endif
