#include "core/release.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

void releases_init(struct releases *releases)
{
  *releases = (struct releases){0};
  dlp_list_init(&releases->plan.link);
  releases->plan.effects = releases->effects;
}

void releases_deinit(struct releases *releases)
{
  assert(releases->n_pending == 0 && releases->n_reserved == 0 && !releases->is_out);
  free(releases->pending);
}

static struct release *at(struct releases *releases, size_t i)
{
  return &releases->pending[(releases->first + i) & (releases->capacity - 1)];
}

static int grow(struct releases *releases, size_t needed)
{
  size_t capacity = releases->capacity ? releases->capacity * 2 : 64;
  struct release *pending;

  while (capacity < needed)
    capacity *= 2;
  pending = malloc(capacity * sizeof(*pending));
  if (!pending)
    return -ENOMEM;
  for (size_t i = 0; i < releases->n_pending; i++)
    pending[i] = *at(releases, i);
  free(releases->pending);
  releases->pending = pending;
  releases->capacity = capacity;
  releases->first = 0;
  return 0;
}

int releases_reserve(struct releases *releases, size_t n)
{
  size_t needed = releases->n_pending + releases->n_reserved + n;

  if (needed > releases->capacity) {
    int r = grow(releases, needed);
    if (r < 0)
      return r;
  }
  releases->n_reserved += n;
  return 0;
}

void releases_unreserve(struct releases *releases, size_t n)
{
  assert(releases->n_reserved >= n);
  releases->n_reserved -= n;
}

static uint64_t id_of(const struct effect *effect)
{
  switch (effect->kind) {
  case EFFECT_SEGMENT_DROP:
    return effect->segment;
  case EFFECT_ROW_FREE:
    return effect->row;
  default:
    assert(effect->kind == EFFECT_SESSION_CLOSE);
    return effect->session;
  }
}

void releases_push(struct releases *releases, const struct effect *effect)
{
  releases_unreserve(releases, 1);
  assert(releases->n_pending < releases->capacity);
  *at(releases, releases->n_pending++) =
      (struct release){.id = id_of(effect), .kind = effect->kind, .backend = effect->backend};
}

static struct effect effect_of(const struct release *release)
{
  struct effect effect = {.kind = (enum effect_kind)release->kind, .backend = release->backend};

  if (effect.kind == EFFECT_SEGMENT_DROP)
    effect.segment = release->id;
  else if (effect.kind == EFFECT_ROW_FREE)
    effect.row = release->id;
  else
    effect.session = release->id;
  return effect;
}

struct plan *releases_take(struct releases *releases)
{
  size_t n = releases->n_pending < RELEASES_PER_PLAN ? releases->n_pending : RELEASES_PER_PLAN;

  if (n == 0 || releases->is_out)
    return NULL;
  for (size_t i = 0; i < n; i++)
    releases->effects[i] = effect_of(at(releases, i));
  releases->first = (releases->first + n) & (releases->capacity - 1);
  releases->n_pending -= n;
  releases->plan.n_effects = n;
  releases->is_out = true;
  return &releases->plan;
}

void releases_done(struct releases *releases)
{
  assert(releases->is_out);
  releases->is_out = false;
}
