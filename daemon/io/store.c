#include "io/store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/hash.h"
#include "common/list.h"

/*
 * Rows are numbered one after the other, and many live as long, so they lie together:
 * a page is that of PAGE_ROWS numbers that follow each other, and is there while any of
 * them is.
 */
#define PAGE_ROWS 16

struct row {
  uint64_t version; /* of its commit */
  uint64_t segment;
};

/* Row i of a page is that with the number number * PAGE_ROWS + i. */
struct page {
  struct dlp_hash_node node;     /* its hash is the page's number, which is ours: no attack */
  struct dlp_list link;          /* store->all */
  struct dlp_list prepared_link; /* store->prepared while it has rows that are */
  uint16_t prepared;             /* bit i: row i is PREP */
  uint16_t live;                 /* bit i: row i is LIVE; in neither: free */
  struct row rows[PAGE_ROWS];
};
_Static_assert(PAGE_ROWS == sizeof(((struct page *)NULL)->live) * 8, "a bit for each row");

struct store {
  struct dlp_hash pages;    /* for finding one */
  struct dlp_list all;      /* the same, for walks */
  struct dlp_list prepared; /* few: those of commits under way */
  size_t n_prepared;
  size_t n_live;
  size_t limit;
};

int store_new(struct store **ret, size_t limit)
{
  struct store *store = calloc(1, sizeof(*store));
  int r;

  if (!store)
    return -ENOMEM;
  r = dlp_hash_init(&store->pages, 0);
  if (r < 0) {
    free(store);
    return r;
  }
  dlp_list_init(&store->all);
  dlp_list_init(&store->prepared);
  store->limit = limit;
  *ret = store;
  return 0;
}

static uint16_t bit_of(uint64_t number)
{
  return (uint16_t)(1u << number % PAGE_ROWS);
}

static bool is_page(const void *key, const struct dlp_hash_node *node)
{
  (void)key;
  (void)node;
  return true; /* its number is its hash */
}

static struct page *find_page(const struct store *store, uint64_t number)
{
  struct dlp_hash_node *node = dlp_hash_find(&store->pages, number / PAGE_ROWS, NULL, is_page);

  return node ? DLP_CONTAINER(node, struct page, node) : NULL;
}

static struct page *get_page(struct store *store, uint64_t number)
{
  struct page *page = find_page(store, number);

  if (page)
    return page;
  page = calloc(1, sizeof(*page));
  if (!page)
    return NULL;
  dlp_list_init(&page->prepared_link);
  dlp_list_append(&store->all, &page->link);
  dlp_hash_insert(&store->pages, number / PAGE_ROWS, &page->node);
  return page;
}

static void free_page(struct store *store, struct page *page)
{
  dlp_list_remove(&page->link);
  dlp_list_remove(&page->prepared_link);
  dlp_hash_remove(&store->pages, &page->node);
  free(page);
}

static void set_free(struct store *store, uint64_t number)
{
  struct page *page = find_page(store, number);
  uint16_t bit = bit_of(number);

  if (!page)
    return;
  store->n_prepared -= (page->prepared & bit) != 0;
  store->n_live -= (page->live & bit) != 0;
  page->prepared &= (uint16_t)~bit;
  page->live &= (uint16_t)~bit;
  if (!page->prepared)
    dlp_list_remove(&page->prepared_link);
  if (!page->prepared && !page->live)
    free_page(store, page);
}

struct store *store_free(struct store *store)
{
  if (!store)
    return NULL;
  dlp_list_for_each (link, &store->all) {
    struct page *page = DLP_CONTAINER(link, struct page, link);

    store->n_prepared -= (size_t)__builtin_popcount(page->prepared);
    store->n_live -= (size_t)__builtin_popcount(page->live);
    free_page(store, page);
  }
  assert(store->n_prepared == 0 && store->n_live == 0);
  dlp_hash_deinit(&store->pages);
  free(store);
  return NULL;
}

static int prepare(struct store *store, const struct effect *effect)
{
  uint16_t bit = bit_of(effect->row);
  struct page *page = find_page(store, effect->row);

  assert(effect->row != 0);
  if (page && ((page->prepared | page->live) & bit))
    return -EEXIST;
  if (store->n_prepared + store->n_live >= store->limit)
    return -ENOSPC;
  page = get_page(store, effect->row);
  if (!page)
    return -ENOMEM;
  page->rows[effect->row % PAGE_ROWS] = (struct row){effect->version, effect->segment};
  if (!page->prepared)
    dlp_list_append(&store->prepared, &page->prepared_link);
  page->prepared |= bit;
  store->n_prepared++;
  return 0;
}

/* Return: how many rows of the page that makes live. */
static size_t commit_page(struct page *page, uint64_t version)
{
  size_t n = 0;

  for (unsigned int i = 0; i < PAGE_ROWS; i++) {
    uint16_t bit = bit_of(i);
    if (!(page->prepared & bit) || page->rows[i].version != version)
      continue;
    page->prepared &= (uint16_t)~bit;
    page->live |= bit;
    n++;
  }
  if (!page->prepared)
    dlp_list_remove(&page->prepared_link);
  return n;
}

/* All rows of the commit, at once. */
static int commit(struct store *store, uint64_t version)
{
  size_t n = 0;

  dlp_list_for_each (link, &store->prepared)
    n += commit_page(DLP_CONTAINER(link, struct page, prepared_link), version);
  store->n_prepared -= n;
  store->n_live += n;
  return n ? 0 : -ENOENT;
}

int store_run(struct store *store, const struct effect *effect)
{
  switch (effect->kind) {
  case EFFECT_ROW_PREPARE:
    return prepare(store, effect);
  case EFFECT_COMMIT_LIVE:
    return commit(store, effect->version);
  case EFFECT_ROW_FREE:
    set_free(store, effect->row);
    return 0;
  default:
    assert(!"an effect of the store");
    return -EINVAL;
  }
}

size_t store_count_prepared(const struct store *store)
{
  return store->n_prepared;
}

size_t store_count_live(const struct store *store)
{
  return store->n_live;
}

void store_check(const struct store *store)
{
  size_t n_pages = 0, n_prepared = 0, n_live = 0, n_listed = 0, n_with_prepared = 0;

  dlp_list_for_each (link, &store->all) {
    const struct page *page = DLP_CONTAINER(link, struct page, link);

    n_pages++;
    n_prepared += (size_t)__builtin_popcount(page->prepared);
    n_live += (size_t)__builtin_popcount(page->live);
    n_with_prepared += page->prepared != 0;
    assert((page->prepared | page->live) != 0);
    assert((page->prepared & page->live) == 0);
    assert(dlp_list_empty(&page->prepared_link) == (page->prepared == 0));
    assert(find_page(store, page->node.hash * PAGE_ROWS) == page);
  }
  dlp_list_for_each (link, &store->prepared)
    n_listed++;
  assert(n_pages == store->pages.size && n_listed == n_with_prepared);
  assert(n_prepared == store->n_prepared && n_live == store->n_live);
  assert(n_prepared + n_live <= store->limit);
}
