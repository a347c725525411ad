#ifndef DLPACKD_CLIENT_GENERATION_PRIVATE_H
#define DLPACKD_CLIENT_GENERATION_PRIVATE_H

/*
 * A generation's inside, shared by its two files: generation.c adds,
 * generation_commit.c gets memory for what waits, and commits.
 */

#include "client/block.h"
#include "client/generation.h"
#include "proto/codec.h"

/* One tensor. Everything it points at lies behind it, in one piece of heap. */
struct dlc__entry {
  struct dlp_tree_node node;   /* by owner and path: each name once */
  struct dlp_list link;        /* in the order of adding */
  struct dlp_list staged_link; /* while its bytes wait in the heap */
  struct msg_add add;
  struct dlc__domain domain;
  struct dlc__block *block; /* or NULL: staged */
  struct dlc__hold *hold;   /* of dlc_add(), or NULL */
  uint8_t *staged;          /* bytes that wait, or NULL */
  uint64_t wanted;          /* bytes of its block */
  bool may_be_inline;       /* the daemon may choose where they go */
};

struct dlc_generation {
  struct dlc_client *client;
  struct dlc_publish_options options;
  uint64_t key;
  uint64_t ttl_ms;
  uint64_t epoch; /* of its blocks; 0: none yet */
  bool over;      /* committed, or tried to */
  struct dlp_list entries;
  struct dlp_list staged;
  struct dlp_tree names;
  size_t n_staged;
  uint64_t staged_bytes;
};

/* The block's first bytes are the entry's image; it holds what the domain says. */
void dlc__entry_set_place(struct dlc__entry *entry, struct dlc__block *block, uint64_t size,
                          uint64_t first);
/* Places of another session mean nothing to this one. Return: 0 or a negated code. */
int dlc__generation_join_epoch(struct dlc_generation *generation, uint64_t epoch,
                               struct dlc_error *reterr);
/* Memory for all that waits in the heap. Return: 0 or a negated code. */
int dlc__generation_flush(struct dlc_generation *generation, struct dlc_error *reterr);
/* Return: 0 or a negated code. */
int dlc__generation_commit(struct dlc_generation *generation, uint64_t *ret_version,
                           struct dlc_error *reterr);

#endif
