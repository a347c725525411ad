#ifndef DLPACKD_CORE_REGISTRY_H
#define DLPACKD_CORE_REGISTRY_H

/*
 * Names, and the versions under them.
 *
 * An entry is a name of one owner in one realm. It lives while there is anything
 * to say about it: a newest version, replaced versions that somebody holds, a
 * version being prepared, a request waiting for it, or the memory of a deletion
 * (kept for those who watch, up to a bound).
 *
 * Every change of what an entry shows gives it the next change number. So a watch
 * is a number: what it has not seen are the entries with a greater one, newest
 * version only, however slow it is.
 *
 * Pure. One owner thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/hash.h"
#include "common/list.h"
#include "common/tree.h"
#include "core/policy.h"
#include "core/pool.h"
#include "core/quota.h"
#include "core/timer.h"
#include "proto/message.h"

/* Deletions that are remembered. */
#define REGISTRY_TOMBSTONES_MAX 4096

struct entry_key {
  uint32_t realm;
  uint32_t owner;
  const char *path;
};

struct entry {
  struct dlp_tree_node node;      /* registry->entries */
  struct dlp_hash_node hash_node; /* registry->names */
  struct entry_key key;           /* the path is part of the entry */
  struct tensor *newest;
  struct dlp_list held;             /* struct tensor.link: retired, not yet let go */
  struct dlp_list waiters;          /* struct waiter.entry_link */
  uint32_t n_staged;                /* versions being prepared */
  struct dlp_tree_node change_node; /* registry->changes, unless `change` is 0 */
  uint64_t change;                  /* 0: never showed anything */
  union {
    struct timer ttl; /* with a newest version: when its time is over */
    struct {          /* without: of the last deletion, if there was one, */
      struct dlp_list tombstone_link;
      uint64_t deleted_version;
      struct access_rule deleted_rule; /* and who may hear of it */
    };
  };
};

enum tensor_state {
  TENSOR_STAGED,  /* being prepared: nobody sees it */
  TENSOR_LIVE,    /* the newest of its name */
  TENSOR_RETIRED, /* replaced or deleted; freed at its last lease */
};

/* One version of one name. */
struct tensor {
  struct entry *entry;
  struct dlp_list link; /* entry->held, or its staging's */
  union {
    struct {                       /* while it is staged */
      struct dlp_tree_node staged; /* its staging's, by entry */
      uint8_t *payload;            /* bytes that came inline, and are not in its block yet */
      uint64_t expected;
      bool has_expected;
    };
    struct {                        /* afterwards */
      struct dlp_list session_link; /* of a session that takes it along when it ends; once it
                                       is retired, of the broker's retired ones */
      struct dlp_list leases;       /* struct lease.tensor_link */
      uint64_t created_wall_us;
      uint64_t created_steady_us;
    };
  };
  struct block *block;
  uint64_t version;
  uint64_t row;
  uint64_t size; /* of its bytes, from the block's first one on */
  uint64_t first;
  struct quota_charge charge;
  struct access_rule rule;
  uint32_t publisher_uid;
  int32_t publisher_pid;
  uint32_t n_leases;
  /* A checked tensor's numbers are small; tensor_spec() and tensor_attributes(). */
  uint16_t dtype_lanes;
  uint8_t dtype_code;
  uint8_t dtype_bits;
  uint8_t spec_flags; /* enum msg_spec_flags */
  uint8_t ndim;
  bool has_strides;
  uint8_t state;    /* enum tensor_state */
  uint8_t lifetime; /* enum msg_lifetime */
  uint8_t flags;    /* enum msg_tensor_flags */
  uint16_t n_attributes;
  uint16_t attributes_size;
  /* What has no fixed size follows: shape, strides, attributes, their strings. */
};

struct registry {
  struct dlp_tree entries;    /* by realm, owner, path: for walks */
  struct dlp_hash names;      /* the same, for finding one */
  struct dlp_tree changes;    /* struct entry.change_node, by change number */
  struct dlp_list tombstones; /* struct entry.tombstone_link, oldest deletion first */
  uint64_t change;            /* the last one given */
  struct timers *timers;
  uint64_t forgotten; /* deletions up to this change may have been forgotten */
  size_t n_tombstones;
  size_t n_live;
  size_t n_retired;
};

/* `timers` are those that entries' times to live are armed in. Return: 0 or -ENOMEM. */
int registry_init(struct registry *registry, struct timers *timers, uint64_t seed);
void registry_deinit(struct registry *registry); /* asserts that only tombstones are left */

struct entry *registry_find(const struct registry *registry, const struct entry_key *key);
/* Finds or makes. Return: NULL if out of memory. */
struct entry *registry_get_entry(struct registry *registry, const struct entry_key *key);
/* The first entry at or after `key`; strictly after with `after`. Stays within a realm. */
struct entry *registry_seek(const struct registry *registry, const struct entry_key *key,
                            bool after);
struct entry *registry_next(const struct entry *entry);
/* Frees it if there is nothing left to say about it. */
void registry_tidy(struct registry *registry, struct entry *entry);

/* What a tensor is made of; everything is copied. */
struct tensor_draft {
  const struct msg_add *add; /* checked */
  struct access_rule rule;
  uint32_t lifetime;
  uint32_t flags;
  uint32_t publisher_uid;
  int32_t publisher_pid;
};

/* Bytes of heap a tensor of this draft takes, with its entry. */
uint64_t tensor_heap_size(const struct tensor_draft *draft);
/* A staged tensor of `entry`. Return: NULL if out of memory. */
struct tensor *tensor_new(struct entry *entry, const struct tensor_draft *draft);

/* Its dtype, shape and strides; the arrays are part of it. */
struct msg_spec tensor_spec(const struct tensor *tensor);
/* Sorted by key. */
const struct msg_attribute *tensor_attributes(const struct tensor *tensor);

/*
 * It becomes the newest, unless a newer one was published (and perhaps deleted) while
 * it was prepared: commits may be done in another order than they were begun, and
 * versions of a name grow. It must be out of its staging's tree and have no payload. Return: the
 * version that is retired by it, which may be itself, or NULL.
 */
struct tensor *registry_publish(struct registry *registry, struct tensor *tensor);
/* The newest version is withdrawn. Another entry's tombstone may be freed by it.
 * Return: it, as above. */
struct tensor *registry_withdraw(struct registry *registry, struct entry *entry);

/* Retired and held by nobody: the caller frees it. */
bool tensor_is_unused(const struct tensor *tensor);
/* Frees a staged or unused tensor; its block and leases must be gone. Does not
 * tidy the entry. */
void tensor_free(struct registry *registry, struct tensor *tensor);

/* What changed after a change number, oldest first; NULL at the end. */
struct entry *registry_first_change_after(const struct registry *registry, uint64_t change);
struct entry *registry_next_change(const struct entry *entry);

/* A prefix is of bytes: "" holds everything, "a/b" holds "a/b", "a/b/c" and "a/bc". */
bool registry_has_prefix(const char *path, const char *prefix);

#endif
