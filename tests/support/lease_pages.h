#ifndef DLPACKD_TESTS_SUPPORT_LEASE_PAGES_H
#define DLPACKD_TESTS_SUPPORT_LEASE_PAGES_H

/*
 * A session's lease pages in plain memory: the client's side as it is, and the
 * daemon's by hand.
 */

#include <sys/mman.h>

#include "client/lease.h"

struct lease_pages_of {
  struct dlp_grants_page *grants; /* as the daemon has them */
  struct dlc__pages *pages;       /* with a reference */
};

static inline void *lease_page_new(void)
{
  void *page = mmap(NULL, DLP_LEASE_PAGE_SIZE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

  return page == MAP_FAILED ? NULL : page;
}

/* Return: 0, or -1 if out of memory. */
static inline int lease_pages_init(struct lease_pages_of *all)
{
  struct dlp_holds_page *holds = (struct dlp_holds_page *)lease_page_new();

  all->grants = (struct dlp_grants_page *)lease_page_new();
  all->pages = holds && all->grants ? dlc__pages_new_consume(all->grants, holds) : NULL;
  if (!all->pages)
    return -1;
  all->pages->epoch = 1;
  return 0;
}

/* The daemon grants it, and the answer is on its way. */
static inline void lease_pages_grant(struct lease_pages_of *all, uint32_t cell, uint64_t version)
{
  if (cell >= atomic_load(&all->grants->header.n_cells))
    atomic_store(&all->grants->header.n_cells, cell + 1);
  atomic_store(&all->grants->cells[cell], version | DLP_GRANT_LIVE);
}

static inline void lease_pages_retire(struct lease_pages_of *all, uint32_t cell)
{
  uint64_t version = DLP_CELL_VERSION(atomic_load(&all->grants->cells[cell]));

  atomic_store(&all->grants->cells[cell], version | DLP_GRANT_RETIRED);
  atomic_fetch_add(&all->grants->header.retired, 1);
}

static inline uint64_t lease_pages_hold(const struct lease_pages_of *all, uint32_t cell)
{
  return atomic_load(&all->pages->holds->cells[cell]);
}

#endif
