#ifndef DLPACKD_IO_SEGMENTS_H
#define DLPACKD_IO_SEGMENTS_H

/*
 * The memory that the daemon holds: segment number -> descriptor and backend.
 *
 * Runs the core's effects on segments and opens the descriptors that go to clients.
 * Numbers are never used again, so a descriptor that the system recycles can never
 * be taken for another segment.
 *
 * What the daemon itself fills (slabs) is mapped as long as it is there.
 *
 * It keeps the daemon from using up its descriptors: beyond `limit` segments a new one
 * fails with EMFILE, and connections can still be taken.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/effect.h"
#include "core/storage.h"

struct segments;

struct segments_config {
  size_t limit;
  /* Closing frees the pages, which takes long for large segments: `close_later` owns
   * the descriptor and closes it elsewhere. NULL: closed at once. */
  void (*close_later)(void *context, int fd);
  void *context;
};

/* `backends` and what they point at must outlive it. Return: 0 or -ENOMEM. */
int segments_new(struct segments **ret, const struct segments_config *config,
                 const struct storage_backend *backends, size_t n_backends);
/* Forgets and closes all. */
struct segments *segments_free(struct segments *segments);

/* An EFFECT_SEGMENT_*, here and now. Return: 0 or negative errno, as core/effect.h
 * says. */
int segments_run(struct segments *segments, const struct effect *effect);

/*
 * The same in three steps, so that the middle one can be done on another thread: a
 * client chooses how long some take (a reservation of gigabytes, a walk over their
 * pages, a freeze that waits for pinned ones).
 */
enum {
  SEGMENTS_E_DONE = 1, /* there is nothing left to do */
};

struct segment_job {
  const struct storage_backend *backend;
  struct effect effect;
  bool is_slow;
  bool joins;    /* CHECK: goes on where the last one ended */
  uint64_t from; /* CHECK: where to look from */
  uint64_t hole; /* CHECK: what was found */
  int fd;        /* CREATE: the result; else borrowed until segment_job_detach() */
  int own_fd;    /* or -1 */
  uint8_t *base; /* CREATE of a slab: the result, too */
};

/* Return: 0, negative errno, or SEGMENTS_E_DONE; with the last two, *job is of no use. */
int segments_begin(struct segments *segments, const struct effect *effect, struct segment_job *job);
/* Makes it independent of the segment, which may be dropped meanwhile.
 * Return: 0 or negative errno. */
int segment_job_detach(struct segment_job *job);
/* On any thread. Return: 0 or negative errno. */
int segment_job_work(struct segment_job *job);
/* Whatever `result` the work had. Return: the result of it all. */
int segments_finish(struct segments *segments, struct segment_job *job, int result);

/* A new descriptor for a client, which the caller closes. Return: it, or negative
 * errno (-ENOENT: there is no such segment). */
int segments_open_read_only(struct segments *segments, uint64_t id);
int segments_open_writable(struct segments *segments, uint64_t id);

size_t segments_count(const struct segments *segments);

#endif
