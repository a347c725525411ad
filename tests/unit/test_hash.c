#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/list.h"

struct item {
  struct dlp_hash_node node;
  uint64_t key;
};

static bool is_key(const void *key, const struct dlp_hash_node *node)
{
  return *(const uint64_t *)key == DLP_CONTAINER(node, struct item, node)->key;
}

static uint64_t value_of(const struct dlp_hash *hash, uint64_t key)
{
  return dlp_hash_bytes(hash, 0, &key, sizeof(key));
}

static struct item *find(const struct dlp_hash *hash, uint64_t key)
{
  struct dlp_hash_node *node = dlp_hash_find(hash, value_of(hash, key), &key, is_key);

  return node ? DLP_CONTAINER(node, struct item, node) : NULL;
}

static int setup(void **state)
{
  *state = calloc(1, sizeof(struct dlp_hash));
  return *state ? dlp_hash_init(*state, 42) : -1;
}

static int teardown(void **state)
{
  dlp_hash_deinit(*state);
  free(*state);
  return 0;
}

/* While it grows too: every key is found after every change. */
static void what_was_inserted_is_found_until_it_is_removed(void **state)
{
  enum { N = 20000 };
  struct dlp_hash *hash = *state;
  struct item *items = calloc(N, sizeof(*items));

  for (uint64_t i = 0; i < N; i++) {
    items[i].key = i * i;
    dlp_hash_insert(hash, value_of(hash, i * i), &items[i].node);
    assert_ptr_equal(find(hash, i * i), &items[i]);
    assert_ptr_equal(find(hash, (i / 2) * (i / 2)), &items[i / 2]);
    assert_null(find(hash, i * i + 2 * i + 2)); /* no square */
  }
  for (uint64_t i = 0; i < N; i += 2)
    dlp_hash_remove(hash, &items[i].node);
  for (uint64_t i = 0; i < N; i++)
    assert_ptr_equal(find(hash, i * i), i % 2 ? &items[i] : NULL);
  for (uint64_t i = 1; i < N; i += 2)
    dlp_hash_remove(hash, &items[i].node);
  free(items);
}

static void equal_hashes_are_told_apart_by_their_keys(void **state)
{
  struct dlp_hash *hash = *state;
  struct item items[3] = {{.key = 1}, {.key = 2}, {.key = 3}};
  uint64_t key = 2;

  for (size_t i = 0; i < 3; i++)
    dlp_hash_insert(hash, 7, &items[i].node);
  assert_ptr_equal(dlp_hash_find(hash, 7, &key, is_key), &items[1].node);
  dlp_hash_remove(hash, &items[1].node);
  assert_null(dlp_hash_find(hash, 7, &key, is_key));
  dlp_hash_remove(hash, &items[0].node);
  dlp_hash_remove(hash, &items[2].node);
}

/* The vector of the authors' paper: 15 bytes 00 01 .. 0e under the key 00 01 .. 0f. */
static void bytes_are_hashed_as_the_paper_says(void **state)
{
  struct dlp_hash *hash = *state;
  unsigned char bytes[7];

  hash->seed[0] = UINT64_C(0x0706050403020100);
  hash->seed[1] = UINT64_C(0x0f0e0d0c0b0a0908);
  for (unsigned char i = 0; i < 7; i++)
    bytes[i] = 8 + i;
  assert_int_equal(dlp_hash_bytes(hash, UINT64_C(0x0706050403020100), bytes, 7),
                   UINT64_C(0xa129ca6149be45e5));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(what_was_inserted_is_found_until_it_is_removed),
    CASE(equal_hashes_are_told_apart_by_their_keys),
    CASE(bytes_are_hashed_as_the_paper_says),
};

TEST_MAIN(tests)
