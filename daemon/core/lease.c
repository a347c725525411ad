#include "core/lease.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Cells of the open list that one grant looks at: the client may be slow to let go. */
#define OPEN_TRIES 8

/* Leases of a tensor whose words are looked at to count its holders: one client can have
 * very many, and every answer about the tensor counts them. */
#define LOOKS_MAX 256u

/* Two lines of the cache: processors fetch them in pairs. */
#define CELLS_PER_LINE 16u
#define LINES_PER_BLOCK 32u
#define CELLS_PER_BLOCK (CELLS_PER_LINE * LINES_PER_BLOCK)
_Static_assert(DLP_LEASE_CELLS % CELLS_PER_BLOCK == 0, "whole blocks");

void lease_table_init(struct lease_table *table, struct quota *quota, uint32_t realm, uint32_t uid)
{
  *table = (struct lease_table){.quota = quota, .realm = realm, .uid = uid};
  dlp_list_init(&table->granted);
  dlp_list_init(&table->open);
}

void lease_table_deinit(struct lease_table *table)
{
  assert(table->n_granted == 0);
  for (size_t i = 0; i < LEASE_CHUNKS; i++)
    free(table->chunks[i]);
  memset(table->chunks, 0, sizeof(table->chunks));
  quota_charge_deinit(&table->charge);
  table->n_cells = 0;
  dlp_list_init(&table->open);
}

/*
 * Cells that are granted one after the other lie in different cache lines, so that
 * threads of a client that hold different versions do not write to the same one:
 * each block of 512 cells (a page) is dealt out line by line.
 */
static uint32_t cell_of_number(uint32_t number)
{
  uint32_t in_block = number % CELLS_PER_BLOCK;

  return number - in_block + in_block % LINES_PER_BLOCK * CELLS_PER_LINE +
         in_block / LINES_PER_BLOCK;
}

static uint32_t number_of_cell(uint32_t cell)
{
  uint32_t in_block = cell % CELLS_PER_BLOCK;

  return cell - in_block + in_block % CELLS_PER_LINE * LINES_PER_BLOCK + in_block / CELLS_PER_LINE;
}

static unsigned chunk_of(uint32_t number)
{
  return 31 - (unsigned)__builtin_clz(number / 8 + 1);
}

/* Its chunk must be there. */
static struct lease *lease_at(const struct lease_table *table, uint32_t number)
{
  unsigned chunk = chunk_of(number);

  return &table->chunks[chunk][number - 8 * ((1u << chunk) - 1)];
}

/* Return: NULL if the cell was never granted. */
static struct lease *lease_in_cell(const struct lease_table *table, uint32_t cell)
{
  if (cell >= DLP_LEASE_CELLS || number_of_cell(cell) >= table->n_cells)
    return NULL;
  return lease_at(table, number_of_cell(cell));
}

/* ---- the client's words: hostile, so read once ---- */

static uint64_t hold_of(const struct lease *lease)
{
  return atomic_load_explicit(&lease->table->pages.holds->cells[lease->cell], memory_order_seq_cst);
}

static void set_grant(const struct lease *lease, uint64_t word)
{
  atomic_store_explicit(&lease->table->pages.grants->cells[lease->cell], word,
                        memory_order_seq_cst);
}

static bool says(uint64_t hold, uint64_t version, uint64_t tag)
{
  return (hold & ~DLP_HOLD_ESCAPED) == (version | tag);
}

/* May the cell serve `version`? Its last word must be that it was given back, and for
 * another version. */
static bool is_open_for(const struct lease *lease, uint64_t version)
{
  uint64_t hold = hold_of(lease);

  if (hold == 0)
    return true;
  return (hold & ~DLP_HOLD_ESCAPED) == (DLP_CELL_VERSION(hold) | DLP_HOLD_RETURNED) &&
         DLP_CELL_VERSION(hold) != version;
}

/* ---- cells ---- */

static struct lease *reuse_cell(struct lease_table *table, uint64_t version)
{
  for (int i = 0; i < OPEN_TRIES && !dlp_list_empty(&table->open); i++) {
    struct lease *lease = DLP_CONTAINER(table->open.next, struct lease, link);
    dlp_list_remove(&lease->link);
    if (is_open_for(lease, version))
      return lease;
    dlp_list_append(&table->open, &lease->link);
  }
  return NULL;
}

/* Paid for until the session ends: a client that does not let go of its cells, but of its
 * leases, would have us make new ones for ever. */
static int add_chunk(struct lease_table *table, unsigned chunk, struct quota_refusal *refusal)
{
  size_t n = (size_t)8 << chunk;
  struct quota_sum sum = {.of = {[QUOTA_HEAP] = n * sizeof(struct lease)}};
  struct lease *leases = calloc(n, sizeof(*leases));
  int r = leases
              ? quota_charge(table->quota, &table->charge, table->realm, table->uid, &sum, refusal)
              : -ENOMEM;

  if (r == 0)
    table->chunks[chunk] = leases;
  else
    free(leases);
  return r == QUOTA_E_EXCEEDED ? LEASE_E_QUOTA : r;
}

static int add_cell(struct lease_table *table, struct lease **ret, struct quota_refusal *refusal)
{
  uint32_t number = table->n_cells, cell = cell_of_number(number);
  unsigned chunk = chunk_of(number);
  int r;

  if (number == DLP_LEASE_CELLS)
    return LEASE_E_CELLS;
  r = table->chunks[chunk] ? 0 : add_chunk(table, chunk, refusal);
  if (r != 0)
    return r;
  *ret = lease_at(table, number);
  **ret = (struct lease){.table = table, .cell = cell};
  dlp_list_init(&(*ret)->tensor_link);
  dlp_list_init(&(*ret)->link);
  table->n_cells++;
  atomic_store_explicit(&table->pages.grants->header.n_cells,
                        cell - cell % CELLS_PER_BLOCK + CELLS_PER_BLOCK, memory_order_release);
  return 0;
}

/* A fresh cell whose word is not 0 was scribbled on: it waits with the open ones. */
static int get_cell(struct lease_table *table, uint64_t version, struct lease **ret,
                    struct quota_refusal *refusal)
{
  *ret = reuse_cell(table, version);
  for (int i = 0; !*ret && i < OPEN_TRIES; i++) {
    int r = add_cell(table, ret, refusal);
    if (r != 0)
      return r;
    if (is_open_for(*ret, version))
      return 0;
    dlp_list_append(&table->open, &(*ret)->link);
    *ret = NULL;
  }
  return *ret ? 0 : LEASE_E_CELLS;
}

/* ---- granting ---- */

int lease_grant(struct lease_table *table, struct tensor *tensor, uint32_t *ret_cell,
                struct quota_refusal *refusal)
{
  struct quota_sum sum = {.of = {[QUOTA_LEASES] = 1}};
  struct lease *lease;
  int r = get_cell(table, tensor->version, &lease, refusal);

  if (r != 0)
    return r;
  r = quota_charge(table->quota, &lease->charge, table->realm, table->uid, &sum, refusal);
  if (r != 0) {
    dlp_list_append(&table->open, &lease->link);
    return r == QUOTA_E_EXCEEDED ? LEASE_E_QUOTA : r;
  }
  lease->tensor = tensor;
  dlp_list_append(&tensor->leases, &lease->tensor_link);
  dlp_list_append(&table->granted, &lease->link);
  tensor->n_leases++;
  table->n_granted++;
  set_grant(lease, tensor->version | DLP_GRANT_LIVE);
  *ret_cell = lease->cell;
  return 0;
}

/* ---- ending ---- */

/* Whoever forked while it held it may read on for ever: never written again. */
static void note_escape(const struct lease *lease, uint64_t hold)
{
  if ((hold & DLP_HOLD_ESCAPED) && DLP_CELL_VERSION(hold) == lease->tensor->version)
    lease->tensor->block->escaped = true;
}

static struct tensor *end(struct lease *lease, uint64_t hold)
{
  struct lease_table *table = lease->table;
  struct tensor *tensor = lease->tensor;

  note_escape(lease, hold);
  set_grant(lease, 0);
  dlp_list_remove(&lease->tensor_link);
  dlp_list_remove(&lease->link);
  dlp_list_append(&table->open, &lease->link);
  tensor->n_leases--;
  table->n_granted--;
  lease->tensor = NULL;
  quota_charge_deinit(&lease->charge);
  return tensor;
}

void lease_revoke(struct lease_table *table, uint32_t cell)
{
  (void)end(lease_in_cell(table, cell), 0);
}

/* Given back for good, or not held and not to be granted any more. */
static bool is_over(const struct lease *lease, uint64_t hold)
{
  uint64_t version = lease->tensor->version;

  if (says(hold, version, DLP_HOLD_RETURNED))
    return true;
  return lease->tensor->state == TENSOR_RETIRED && says(hold, version, DLP_HOLD_FREE);
}

struct tensor *lease_look(struct lease_table *table, uint32_t cell)
{
  struct lease *lease = lease_in_cell(table, cell);
  uint64_t hold;

  if (!lease || !lease->tensor)
    return NULL;
  hold = hold_of(lease);
  return is_over(lease, hold) ? end(lease, hold) : NULL;
}

/* Either the client sees *retired*, or we see its *held*: both sides store, then load,
 * sequentially consistent. A client that holds nothing of it may still have it mapped. */
void lease_retire(struct tensor *tensor)
{
  dlp_list_for_each (link, &tensor->leases) {
    struct lease *lease = DLP_CONTAINER(link, struct lease, tensor_link);

    set_grant(lease, tensor->version | DLP_GRANT_RETIRED);
    atomic_fetch_add_explicit(&lease->table->pages.grants->header.retired, 1, memory_order_release);
  }
  lease_review(tensor);
}

void lease_review(struct tensor *tensor)
{
  dlp_list_for_each (link, &tensor->leases) {
    struct lease *lease = DLP_CONTAINER(link, struct lease, tensor_link);
    uint64_t hold = hold_of(lease);

    if (is_over(lease, hold))
      (void)end(lease, hold);
  }
}

struct tensor *lease_end_one(struct lease_table *table)
{
  struct lease *lease;

  if (dlp_list_empty(&table->granted))
    return NULL;
  lease = DLP_CONTAINER(table->granted.next, struct lease, link);
  return end(lease, hold_of(lease));
}

bool lease_holds_segment(const struct lease_table *table, const struct segment *segment)
{
  dlp_list_for_each (link, &table->granted)
    if (DLP_CONTAINER(link, struct lease, link)->tensor->block->segment == segment)
      return true;
  return false;
}

/* Everything that is not clearly free or returned. */
static bool is_held(const struct lease *lease)
{
  uint64_t hold = hold_of(lease), version = lease->tensor->version;

  return !says(hold, version, DLP_HOLD_FREE) && !says(hold, version, DLP_HOLD_RETURNED);
}

bool lease_table_is_holding(const struct lease_table *table)
{
  dlp_list_for_each (link, &table->granted)
    if (is_held(DLP_CONTAINER(link, struct lease, link)))
      return true;
  return false;
}

uint32_t lease_table_count_held(const struct lease_table *table)
{
  uint32_t n = 0;

  dlp_list_for_each (link, &table->granted)
    n += is_held(DLP_CONTAINER(link, struct lease, link));
  return n;
}

uint32_t lease_count_holders(const struct tensor *tensor)
{
  uint32_t n = 0, looks = 0;

  dlp_list_for_each (link, &tensor->leases) {
    if (looks++ == LOOKS_MAX)
      return n + (tensor->n_leases - LOOKS_MAX);
    n += is_held(DLP_CONTAINER(link, struct lease, tensor_link));
  }
  return n;
}
