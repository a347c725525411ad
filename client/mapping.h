#ifndef DLPACKD_CLIENT_MAPPING_H
#define DLPACKD_CLIENT_MAPPING_H

/*
 * Segments of shared memory that are mapped in this process.
 *
 * A segment is mapped once per way of looking at it, and shared by all tensors
 * and threads; when the last user goes it is unmapped, and the daemon is told.
 * Identity is (epoch, segment id): never a descriptor, whose number is used
 * again, and never a bare id, which another daemon may give too.
 *
 * The daemon's word is not enough to map memory: a file that could be cut short
 * would end this process by SIGBUS, one that could be written would change under
 * a reader. So seals and size are looked at here before anything is mapped.
 *
 * Thread-safe. In a forked child only dlc__mapping_unref() may be called; it
 * unmaps and touches no lock.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "client/transport.h"
#include "common/tree.h"

enum dlc__view {
  DLC__VIEW_READ,
  DLC__VIEW_SHARED,   /* writable, of a mutable tensor */
  DLC__VIEW_PRODUCER, /* writable, to be filled; kept until the daemon drops the segment */
  DLC__N_VIEWS,
};

struct dlc__segment;

struct dlc__mapping {
  struct dlc__segment *segment;
  enum dlc__view view;
  atomic_uint refs;
  uint8_t *base;         /* NULL: not mapped this way */
  atomic_ullong present; /* of a producer's: pages of its start that are known to be there */
};

struct dlc__maps {
  pthread_mutex_t lock;
  struct dlp_tree segments;
  struct dlc__transport *transport;
  unsigned fork_generation;
};

/* What is known of a segment before it is mapped. */
struct dlc__segment_facts {
  uint64_t epoch;
  uint64_t id;
  uint64_t size;
  uint32_t tensor_flags; /* enum msg_tensor_flags */
  bool own_publisher;    /* this user published it */
};

int dlc__maps_init(struct dlc__maps *maps, struct dlc__transport *transport);
/* Unmaps what the producer kept. No mapping may be in use. */
void dlc__maps_deinit(struct dlc__maps *maps);

/* Return: one more reference, or NULL if it is not mapped this way. */
struct dlc__mapping *dlc__maps_find(struct dlc__maps *maps, uint64_t epoch, uint64_t id,
                                    enum dlc__view view);
/*
 * Maps `fd` (borrowed), unless another thread was faster. A PRODUCER view gets one
 * reference more, which the daemon's word ends.
 * Return: 0 with one more reference in *ret, or a negated code.
 */
int dlc__maps_add(struct dlc__maps *maps, const struct dlc__segment_facts *facts,
                  enum dlc__view view, int fd, struct dlc__mapping **ret, struct dlc_error *reterr);
uint64_t dlc__mapping_size(const struct dlc__mapping *mapping);
struct dlc__mapping *dlc__mapping_ref(struct dlc__mapping *mapping);
void dlc__mapping_unref(struct dlc__mapping *mapping);

/* Checks a descriptor as dlc__maps_add() does. Return: 0 or a negated code. */
int dlc__segment_check(const struct dlc__segment_facts *facts, enum dlc__view view, int fd,
                       struct dlc_error *reterr);

/* The daemon has dropped these. */
void dlc__maps_dropped(struct dlc__maps *maps, uint64_t epoch, const uint64_t *ids, size_t n_ids);
/* Its descriptor came, but it is not mapped by us: say so, or it would not come again. */
void dlc__maps_forget_unmapped(struct dlc__maps *maps, uint64_t epoch, uint64_t id);

#endif
