#ifndef DLPACKD_CLIENT_HOLD_H
#define DLPACKD_CLIENT_HOLD_H

/*
 * What keeps a tensor's bytes in place: its lease, its mapping or its copy.
 *
 * Every DLPack tensor we hand out has one reference; so has a generation for
 * what was added to it. The last one to go gives everything back, or, if the hold
 * is in the cache, leaves it there to be taken again. That may be on any thread,
 * after dlc_close(), or in a forked child, where it only frees and unmaps.
 *
 * Holds of different tensors share no cache line, so that threads which use them do
 * not either.
 */

#include <stdatomic.h>

#include "client/handle.h"
#include "client/record.h"
#include "dlclient_dlpack.h"

struct dlc__block;
struct dlc__shard;

/* Where the cache has it; its shard's lock covers this. */
struct dlc__cached {
  struct dlc__shard *shard;
  struct dlp_list link;   /* shard->holds */
  struct dlp_list idle;   /* shard->idle, while nobody uses it */
  struct dlc__hold *next; /* of its bucket */
  char *name;             /* by which it is found; NULL: by none */
  uint64_t hash;
};

struct dlc__hold {
  atomic_uint refs;
  unsigned fork_generation;
  struct dlc_client *client;
  struct dlc__mapping *mapping;   /* or NULL */
  struct dlc__block *block;       /* of dlc_alloc(), or NULL */
  DLManagedTensorVersioned *sole; /* of dlc_alloc(), until its deleter runs */
  struct dlc__lease lease;        /* or {0} */
  struct dlc__cached cached;      /* with a lease */
  void *private_base;             /* a copy-on-write mapping of our own, or NULL */
  size_t private_size;
  void *data;            /* element zero; NULL if there is none */
  uint64_t flags;        /* DLPACK_FLAG_BITMASK_* */
  struct dlc_info *info; /* NULL: not published yet */
  bool has_own_info;     /* info is in `memory` */
  void *memory;          /* that this lies in, to be freed */
  struct msg_spec spec;  /* arrays are in `dims` */
  int64_t dims[2 * DLP_NDIM_MAX];
};

/* With a reference to the client. Return: one reference; NULL if out of memory. */
struct dlc__hold *dlc__hold_new(struct dlc_client *client, const struct msg_spec *spec);
/* The same, with `extra` bytes behind it, at *ret_extra, aligned for a tensor. */
struct dlc__hold *dlc__hold_new_with(struct dlc_client *client, const struct msg_spec *spec,
                                     size_t extra, uint8_t **ret_extra);
struct dlc__hold *dlc__hold_ref(struct dlc__hold *hold);
void dlc__hold_unref(struct dlc__hold *hold);
/* Gives everything back. Nobody has a reference or can get one. */
void dlc__hold_end(struct dlc__hold *hold);
static inline void dlc__hold_unrefp(struct dlc__hold **hold)
{
  if (*hold)
    dlc__hold_unref(*hold);
}
#define dlc__auto_hold dlp_cleanup_(dlc__hold_unrefp)

#endif
