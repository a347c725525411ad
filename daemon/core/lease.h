#ifndef DLPACKD_CORE_LEASE_H
#define DLPACKD_CORE_LEASE_H

/*
 * Leases: who holds what.
 *
 * A lease is one session's right to one version, in a cell of that session: a word
 * in its grants page, which the daemon writes, and a word in its holds page, which
 * the client writes. tests/model/protocol.md is the protocol. From the moment the
 * daemon stores a grant it counts as held, until the client's word says otherwise;
 * whatever is not clearly *free* or *returned* counts as held. So a hostile client
 * can keep what it was granted, which its quota bounds, and free nothing of others.
 *
 * While a version is published its grants stay, so that a client takes it again
 * without asking; a retired version's grants end as soon as they are not held.
 *
 * Pure but for two pages of shared memory. One owner thread.
 */

#include <stdint.h>

#include "common/list.h"
#include "core/quota.h"
#include "core/registry.h"
#include "proto/lease_page.h"

/* The pages of one session, mapped: the grants writable, the holds read-only. */
struct lease_pages {
  struct dlp_grants_page *grants;
  const struct dlp_holds_page *holds;
};

struct lease {
  struct dlp_list tensor_link; /* tensor->leases */
  struct dlp_list link;        /* table->granted, or table->open */
  struct tensor *tensor;       /* NULL: the cell is not granted */
  struct lease_table *table;
  uint32_t cell;
  struct quota_charge charge;
};

/* Chunk i has 8 << i cells: many leases cost few allocations, and go back at once. */
#define LEASE_CHUNKS 16

/* A session's cells. */
struct lease_table {
  struct lease_pages pages;
  struct lease *chunks[LEASE_CHUNKS]; /* of cells, each twice as large as the one before */
  uint32_t n_cells;                   /* ever granted; not in the order of their numbers */
  uint32_t n_granted;
  struct dlp_list granted;
  struct dlp_list open;       /* not granted; the client may not have let go of them yet */
  struct quota_charge charge; /* for the chunks */
  struct quota *quota;
  uint32_t realm;
  uint32_t uid;
};

enum {
  LEASE_E_QUOTA = 1,
  LEASE_E_CELLS, /* the session has no cell left */
};

void lease_table_init(struct lease_table *table, struct quota *quota, uint32_t realm, uint32_t uid);
/* Frees the cells, and what was paid for them; asserts that none is granted. */
void lease_table_deinit(struct lease_table *table);

/*
 * Grants `tensor`, which is live, in a cell of its own: never one that has served
 * the same version, so that an old word of the client's cannot be taken for a new one.
 * Return: 0, -ENOMEM, LEASE_E_CELLS, or LEASE_E_QUOTA with *refusal filled.
 */
int lease_grant(struct lease_table *table, struct tensor *tensor, uint32_t *ret_cell,
                struct quota_refusal *refusal);

/* The request is refused after all: its grant ends as if it had never been. */
void lease_revoke(struct lease_table *table, uint32_t cell);

/*
 * The client says that cell `cell` is worth a look. Return: the tensor whose lease
 * that ended, to be freed by the caller if it is unused; else NULL.
 */
struct tensor *lease_look(struct lease_table *table, uint32_t cell);

/* `tensor` was retired: its grants say so from here on, and those that are not held
 * end. */
void lease_retire(struct tensor *tensor);
/* Ends what is over of a retired tensor's leases: its holders may have let go meanwhile. */
void lease_review(struct tensor *tensor);

/* Ends any one granted lease: the process is dead. Return: its tensor; NULL: none. */
struct tensor *lease_end_one(struct lease_table *table);

/* Does the session hold something in this segment? */
bool lease_holds_segment(const struct lease_table *table, const struct segment *segment);

/* Leases of the session that are held at this moment, not just granted. */
uint32_t lease_table_count_held(const struct lease_table *table);
/* Is any? */
bool lease_table_is_holding(const struct lease_table *table);
/* Leases of the tensor that are held at this moment; of very many, the later ones count
 * without a look. */
uint32_t lease_count_holders(const struct tensor *tensor);

#endif
