#include "client/lease.h"

#include <stdlib.h>
#include <sys/mman.h>

/* ---- pages ---- */

struct dlc__pages *dlc__pages_new_consume(const struct dlp_grants_page *grants,
                                          struct dlp_holds_page *holds)
{
  struct dlc__pages *pages = (struct dlc__pages *)calloc(1, sizeof(*pages));
  void *cells;

  if (!pages)
    return NULL;
  /* Of what is reserved here only what is used takes memory. */
  cells = mmap(NULL, sizeof(struct dlc__cells), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cells == MAP_FAILED) {
    free(pages);
    return NULL;
  }
  pages->refs = 1;
  pages->retired_known = UINT32_MAX; /* the first look finds something */
  pages->grants = grants;
  pages->holds = holds;
  pages->cells = (struct dlc__cells *)cells;
  return pages;
}

struct dlc__pages *dlc__pages_ref(struct dlc__pages *pages)
{
  atomic_fetch_add_explicit(&pages->refs, 1, memory_order_relaxed);
  return pages;
}

void dlc__pages_unref(struct dlc__pages *pages)
{
  if (atomic_fetch_sub_explicit(&pages->refs, 1, memory_order_acq_rel) > 1)
    return;
  (void)munmap(pages->holds, sizeof(*pages->holds));
  (void)munmap((void *)(uintptr_t)pages->grants, sizeof(*pages->grants));
  (void)munmap(pages->cells, sizeof(*pages->cells));
  free(pages);
}

uint32_t dlc__pages_n_cells(const struct dlc__pages *pages)
{
  uint32_t n = atomic_load_explicit(&pages->grants->header.n_cells, memory_order_acquire);

  return n < DLP_LEASE_CELLS ? n : DLP_LEASE_CELLS;
}

bool dlc__pages_have_retired(struct dlc__pages *pages)
{
  uint32_t retired = atomic_load_explicit(&pages->grants->header.retired, memory_order_acquire);

  return retired != atomic_load_explicit(&pages->retired_known, memory_order_relaxed) &&
         retired != atomic_exchange_explicit(&pages->retired_known, retired, memory_order_relaxed);
}

/* ---- leases ---- */

struct dlc__lease dlc__lease_of(struct dlc__pages *pages, uint32_t cell, uint64_t version)
{
  return (struct dlc__lease){
      .pages = dlc__pages_ref(pages),
      .grant = &pages->grants->cells[cell],
      .hold = &pages->holds->cells[cell],
      .version = version,
      .cell = cell,
  };
}

void dlc__lease_escape(struct dlc__lease *lease)
{
  lease->is_escaped = true;
  dlc__lease_begin(lease);
}

/* In this order: a walk that finds the word returned has no use for the record, and a
 * grant that finds it returned makes a new one. */
void dlc__lease_return(const struct dlc__lease *lease)
{
  struct dlc__cells *cells = lease->pages->cells;

  atomic_store_explicit(&cells->taken[lease->cell], 0, memory_order_relaxed);
  atomic_store_explicit(lease->hold, dlc__lease_word(lease, DLP_HOLD_RETURNED),
                        memory_order_seq_cst);
  dlc__bells_ring(&cells->bells, lease->cell);
}

/* ---- answers, and those that were lost ---- */

bool dlc__pages_take_answer(struct dlc__pages *pages, uint32_t cell, uint64_t version)
{
  if (cell >= DLP_LEASE_CELLS || version == 0 || version > DLP_VERSION_MAX ||
      atomic_load_explicit(&pages->cells->taken[cell], memory_order_relaxed) != 0)
    return false;
  atomic_store_explicit(&pages->cells->taken[cell], version, memory_order_relaxed);
  return true;
}

void dlc__pages_forget_answer(struct dlc__pages *pages, uint32_t cell)
{
  atomic_store_explicit(&pages->cells->taken[cell], 0, memory_order_relaxed);
}

static void pages_walk_cell(struct dlc__pages *pages, uint32_t cell)
{
  struct dlc__cells *cells = pages->cells;
  uint64_t grant = atomic_load_explicit(&pages->grants->cells[cell], memory_order_seq_cst);
  uint64_t hold = atomic_load_explicit(&pages->holds->cells[cell], memory_order_relaxed);
  uint64_t version = DLP_CELL_VERSION(grant);

  if (version == 0)
    return;
  if (atomic_load_explicit(&cells->taken[cell], memory_order_relaxed) != version) {
    uint64_t escaped = DLP_CELL_VERSION(hold) == version ? hold & DLP_HOLD_ESCAPED : 0;

    atomic_store_explicit(&pages->holds->cells[cell], version | DLP_HOLD_RETURNED | escaped,
                          memory_order_seq_cst);
    dlc__bells_ring(&cells->bells, cell);
  } else if (grant != (version | DLP_GRANT_LIVE) &&
             (hold & ~DLP_HOLD_ESCAPED) == (version | DLP_HOLD_FREE)) {
    dlc__bells_ring(&cells->bells, cell);
  }
}

void dlc__pages_walk(struct dlc__pages *pages)
{
  uint32_t n = dlc__pages_n_cells(pages);

  for (uint32_t cell = 0; cell < n; cell++)
    pages_walk_cell(pages, cell);
}
