#ifndef DLPACKD_CORE_COMMIT_H
#define DLPACKD_CORE_COMMIT_H

/*
 * A publication on its way: begin, add, commit or abort.
 *
 * Tensors are staged one packet at a time, so that a generation of any size takes
 * bounded memory and is refused where it goes wrong. The commit is prepare,
 * effects, commit: pages are checked, segments sealed and rows written first; then
 * one record makes all of it true; then it is visible, all names at once.
 *
 * Pure. One owner thread.
 */

#include "core/broker_private.h"

/* Publications of one session that are under way at a time. */
#define STAGINGS_MAX 256

struct staging {
  struct dlp_list link;    /* session->stagings */
  struct dlp_list tensors; /* struct tensor.link */
  struct dlp_tree entries; /* struct tensor.staged: each name once */
  struct session *session;
  uint64_t key;
  size_t n_tensors;
  size_t attributes_size;
  bool is_committing;
  struct quota_charge charge;
};

/* NULL if there is none. One that is being committed is found too, and not to be
 * changed any more. */
struct staging *staging_find(const struct session *session, uint64_t key);
enum {
  STAGING_E_TOO_MANY = 100,
};

/* Return: 0, -ENOMEM, STAGING_E_TOO_MANY, or QUOTA_E_EXCEEDED with *refusal filled. */
int staging_new(struct staging **ret, struct session *session, uint64_t key,
                struct quota_refusal *refusal);
/* Gives up what is still staged: its blocks are the session's again. */
void staging_free(struct staging *staging);

/* Stages one tensor of `publish`. Answers the refusal itself. Return: true if it was staged. */
bool staging_add(struct staging *staging, struct connection *connection, uint64_t request,
                 const struct msg_publish *publish, const struct msg_add *add);
/* Takes the last one that was staged out again. */
void staging_remove_last(struct staging *staging);

/* Any of them; `has_row`: its row was written. */
void staging_remove(struct staging *staging, struct tensor *tensor, bool has_row);
void staging_reply_denied(struct connection *connection, uint64_t request,
                          const struct entry_key *key);

/* Starts the commit; it is answered when it is done. The staging is spent. */
void staging_commit(struct staging *staging, struct connection *connection, uint64_t request,
                    uint64_t ttl_ms);

#endif
