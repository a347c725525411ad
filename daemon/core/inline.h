#ifndef DLPACKD_CORE_INLINE_H
#define DLPACKD_CORE_INLINE_H

/*
 * Tensors whose bytes came within PUBLISH: kept in the heap until the commit, which
 * finds them a place in a slab of the publisher's and has the daemon write them there.
 *
 * Pure. One owner thread.
 */

#include "core/commit.h"

/* Copies and pays for the bytes. Return: false after answering the refusal. */
bool inline_take(struct tensor *tensor, struct connection *connection, uint64_t request,
                 const struct msg_add *add);
/* They are written, or given up. Harmless if there are none. */
void inline_drop(struct tensor *tensor);

/* Places for all of them, and the effects that make new slabs. Return: false after
 * answering the refusal; what was placed goes with the staging. */
bool inline_place(struct staging *staging, struct op *op, struct connection *connection);
/* Slabs that this plan made before it failed, or all, are made. */
void inline_note_made(struct op *op, size_t n_done);
void inline_plan_writes(const struct staging *staging, struct op *op);

static inline bool inline_is_slab(const struct segment *segment)
{
  return segment->session == 0;
}

#endif
