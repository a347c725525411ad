#include "common/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 64
/* Old buckets moved by each change; two suffice to be done before the next growth. */
#define MOVED_PER_CHANGE 8

/* ---- SipHash-2-4 (Aumasson and Bernstein, 2012) ---- */

static uint64_t rotate(uint64_t x, int bits)
{
  return (x << bits) | (x >> (64 - bits));
}

static void sip_round(uint64_t v[4])
{
  v[0] += v[1];
  v[2] += v[3];
  v[1] = rotate(v[1], 13) ^ v[0];
  v[3] = rotate(v[3], 16) ^ v[2];
  v[0] = rotate(v[0], 32);
  v[2] += v[1];
  v[0] += v[3];
  v[1] = rotate(v[1], 17) ^ v[2];
  v[3] = rotate(v[3], 21) ^ v[0];
  v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
  v[3] ^= word;
  sip_round(v);
  sip_round(v);
  v[0] ^= word;
}

uint64_t dlp_hash_bytes(const struct dlp_hash *hash, uint64_t more, const void *bytes, size_t size)
{
  uint64_t v[4] = {
      hash->seed[0] ^ UINT64_C(0x736f6d6570736575), hash->seed[1] ^ UINT64_C(0x646f72616e646f6d),
      hash->seed[0] ^ UINT64_C(0x6c7967656e657261), hash->seed[1] ^ UINT64_C(0x7465646279746573)};
  const unsigned char *at = bytes;
  uint64_t last = (uint64_t)(size + sizeof(more)) << 56, word;
  size_t left = size;

  sip_word(v, more);
  for (; left >= 8; left -= 8, at += 8) {
    memcpy(&word, at, 8);
    sip_word(v, word);
  }
  for (size_t i = 0; i < left; i++)
    last |= (uint64_t)at[i] << (8 * i);
  sip_word(v, last);
  v[2] ^= 0xff;
  for (int i = 0; i < 4; i++)
    sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- the table ---- */

static int buckets_init(struct dlp_hash_buckets *buckets, size_t n)
{
  buckets->heads = calloc(n, sizeof(struct dlp_hash_node *));
  buckets->mask = n - 1;
  return buckets->heads ? 0 : -ENOMEM;
}

int dlp_hash_init(struct dlp_hash *hash, uint64_t seed)
{
  *hash = (struct dlp_hash){.seed = {seed, seed ^ UINT64_C(0x9e3779b97f4a7c15)}};
  return buckets_init(&hash->now, FIRST_BUCKETS);
}

void dlp_hash_deinit(struct dlp_hash *hash)
{
  assert(hash->size == 0);
  free(hash->now.heads);
  free(hash->old.heads);
  hash->now.heads = hash->old.heads = NULL;
}

static struct dlp_hash_node **head_of(const struct dlp_hash_buckets *buckets, uint64_t value)
{
  return &buckets->heads[value & buckets->mask];
}

static void push(const struct dlp_hash_buckets *buckets, struct dlp_hash_node *node)
{
  struct dlp_hash_node **head = head_of(buckets, node->hash);

  node->next = *head;
  *head = node;
}

static void move_some(struct dlp_hash *hash)
{
  for (int i = 0; hash->old.heads && i < MOVED_PER_CHANGE; i++) {
    struct dlp_hash_node *node = hash->old.heads[hash->moved];

    while (node) {
      struct dlp_hash_node *next = node->next;
      push(&hash->now, node);
      node = next;
    }
    hash->old.heads[hash->moved] = NULL;
    if (hash->moved++ < hash->old.mask)
      continue;
    free(hash->old.heads);
    hash->old.heads = NULL;
  }
}

static void grow(struct dlp_hash *hash)
{
  struct dlp_hash_buckets larger;

  if (hash->old.heads || hash->size <= hash->now.mask)
    return;
  if (buckets_init(&larger, (hash->now.mask + 1) * 2) < 0)
    return;
  hash->old = hash->now;
  hash->now = larger;
  hash->moved = 0;
}

static struct dlp_hash_node *find_in(const struct dlp_hash_buckets *buckets, uint64_t value,
                                     const void *key, dlp_hash_equal_fn equal)
{
  struct dlp_hash_node *node = *head_of(buckets, value);

  while (node && (node->hash != value || !equal(key, node)))
    node = node->next;
  return node;
}

struct dlp_hash_node *dlp_hash_find(const struct dlp_hash *hash, uint64_t value, const void *key,
                                    dlp_hash_equal_fn equal)
{
  struct dlp_hash_node *node = find_in(&hash->now, value, key, equal);

  return node || !hash->old.heads ? node : find_in(&hash->old, value, key, equal);
}

void dlp_hash_insert(struct dlp_hash *hash, uint64_t value, struct dlp_hash_node *node)
{
  node->hash = value;
  push(&hash->now, node);
  hash->size++;
  grow(hash);
  move_some(hash);
}

static bool remove_from(const struct dlp_hash_buckets *buckets, struct dlp_hash_node *node)
{
  struct dlp_hash_node **at = head_of(buckets, node->hash);

  while (*at && *at != node)
    at = &(*at)->next;
  if (!*at)
    return false;
  *at = node->next;
  return true;
}

void dlp_hash_remove(struct dlp_hash *hash, struct dlp_hash_node *node)
{
  bool found = remove_from(&hash->now, node) || (hash->old.heads && remove_from(&hash->old, node));

  assert(found);
  (void)found;
  node->next = NULL;
  hash->size--;
  move_some(hash);
}
