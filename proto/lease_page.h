#ifndef DLPACKD_PROTO_LEASE_PAGE_H
#define DLPACKD_PROTO_LEASE_PAGE_H

/*
 * The two pages by which a session holds versions without a message.
 *
 * *Grants* are written by the daemon only: cell k is 0, v|LIVE or v|RETIRED.
 * *Holds* are written by the client only: v|HELD, v|FREE or v|RETURNED, each
 * perhaps |ESCAPED; at first 0. tests/model/protocol.md is the protocol, word for
 * word, and says which accesses are sequentially consistent and why.
 *
 * Each is a memory file of DLP_LEASE_PAGE_SIZE bytes, of which only what is used
 * has pages: a header of one page, then the cells. Little-endian.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "limits.h"

#define DLP_LEASE_HEADER_SIZE 4096
#define DLP_LEASE_CELLS 262144
#define DLP_LEASE_PAGE_SIZE (DLP_LEASE_HEADER_SIZE + DLP_LEASE_CELLS * 8)

/* Versions are below 2^53; the tags are above. */
#define DLP_GRANT_LIVE (UINT64_C(1) << 62)
#define DLP_GRANT_RETIRED (UINT64_C(1) << 63)
#define DLP_HOLD_ESCAPED (UINT64_C(1) << 60)
#define DLP_HOLD_HELD (UINT64_C(1) << 61)
#define DLP_HOLD_FREE (UINT64_C(1) << 62)
#define DLP_HOLD_RETURNED (UINT64_C(1) << 63)
#define DLP_CELL_VERSION(cell) ((cell)&DLP_VERSION_MAX)

/* What precedes the cells of the grants. */
struct dlp_grants_header {
  /* Grows with every retirement in this session: cells that are not looked at
   * otherwise are worth a look. */
  _Atomic uint32_t retired;
  /* No cell from here on was ever granted. */
  _Atomic uint32_t n_cells;
};

/* A page as it is mapped. The other side may be hostile: a cell is read once, into
 * a local, and judged there. */
struct dlp_grants_page {
  union {
    struct dlp_grants_header header;
    unsigned char padding[DLP_LEASE_HEADER_SIZE];
  };
  _Atomic uint64_t cells[DLP_LEASE_CELLS];
};

struct dlp_holds_page {
  unsigned char padding[DLP_LEASE_HEADER_SIZE];
  _Atomic uint64_t cells[DLP_LEASE_CELLS];
};

_Static_assert(sizeof(struct dlp_grants_page) == DLP_LEASE_PAGE_SIZE, "as PROTOCOL.md has it");
_Static_assert(sizeof(struct dlp_holds_page) == DLP_LEASE_PAGE_SIZE, "as PROTOCOL.md has it");

#endif
