#ifndef DLPACKD_CORE_RELEASE_H
#define DLPACKD_CORE_RELEASE_H

/*
 * What is to be given back outside: segments dropped, rows freed, sessions closed.
 *
 * Giving back must not fail for want of memory. So whoever makes something that
 * will have to be given back reserves the room for saying so, and saying so
 * spends the reservation.
 *
 * Pure. One owner thread.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/effect.h"

/* Effects of one plan. */
#define RELEASES_PER_PLAN 64

/* One of SEGMENT_DROP, ROW_FREE and SESSION_CLOSE, small: there is room for one per
 * tensor that lives. */
struct release {
  uint64_t id; /* of the segment, row or session */
  uint32_t kind;
  uint32_t backend; /* SEGMENT_DROP */
};

struct releases {
  struct release *pending; /* a ring */
  size_t capacity;         /* a power of two, or 0 */
  size_t first;
  size_t n_pending;
  size_t n_reserved; /* may still be pushed */
  struct plan plan;
  struct effect effects[RELEASES_PER_PLAN]; /* of the plan that is out */
  bool is_out;
};

void releases_init(struct releases *releases);
void releases_deinit(struct releases *releases); /* asserts that nothing is pending */

int releases_reserve(struct releases *releases, size_t n); /* 0 or -ENOMEM */
void releases_unreserve(struct releases *releases, size_t n);
/* SEGMENT_DROP, ROW_FREE or SESSION_CLOSE. */
void releases_push(struct releases *releases, const struct effect *effect);

/* What is pending, or a part of it, as one plan, or NULL; one at a time. */
struct plan *releases_take(struct releases *releases);
void releases_done(struct releases *releases);

#endif
