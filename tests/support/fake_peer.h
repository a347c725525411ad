#ifndef DLPACKD_TESTS_SUPPORT_FAKE_PEER_H
#define DLPACKD_TESTS_SUPPORT_FAKE_PEER_H

/*
 * Requests as clients make them, over a fake edge, and a fixture for tests of the
 * whole service. What a test does not care about gets a usual value.
 */

#include "support/fake_edge.h"

/* An edge with users; in *state. The teardown ends everything and checks that
 * nothing is left. */
struct service {
  struct fake_edge edge;
  struct broker_config config; /* for tests that start the broker anew */
  uint64_t alice;              /* uid 1000, connected */
  uint64_t bob;                /* uid 1001, group 1001 and 2000 */
};

#define ALICE 1000u
#define BOB 1001u
#define ROOT_ADMIN 1u /* an administrator */
#define GROUP_OF_BOB 2000u

int service_setup(void **state);
int service_teardown(void **state);
/* For a test that ended the edge itself. */
void service_start(struct service *service);
/* Starts again with the service's config as it is now. */
void service_restart(struct service *service);

/* Connected and welcomed. Aborts if not. */
uint64_t fake_peer_connect(struct fake_edge *edge, uint32_t uid);
/* Connected, and has said nothing. */
uint64_t fake_peer_connect_silent(struct fake_edge *edge, uint32_t uid);
const struct msg_reply *fake_peer_hello(struct fake_edge *edge, uint64_t connection,
                                        const uint8_t *token);

/* Gives the request an id and sends it. Return: the id. */
uint64_t fake_peer_start(struct fake_edge *edge, uint64_t connection,
                         const struct msg_request *request);
/* The next answer, or NULL if there is none yet. */
const struct msg_reply *fake_peer_take(struct fake_edge *edge, uint64_t connection);
/* Both in one; NULL if it is not answered at once. */
const struct msg_reply *fake_peer_call(struct fake_edge *edge, uint64_t connection,
                                       const struct msg_request *request);
/* One-way. */
void fake_peer_send(struct fake_edge *edge, uint64_t connection, const struct msg_request *request);

/* An allocation of blocks of `size`, for the sender, of a session lifetime. */
struct msg_allocate fake_allocate(const struct msg_block *blocks, size_t n_blocks);
const struct msg_reply *fake_peer_allocate(struct fake_edge *edge, uint64_t connection,
                                           const struct msg_allocate *allocate);
/* One block; aborts if refused. */
struct msg_place fake_peer_block(struct fake_edge *edge, uint64_t connection, uint64_t size);
/* One of another domain than the usual. */
struct msg_place fake_peer_block_of(struct fake_edge *edge, uint64_t connection, uint64_t size,
                                    uint32_t lifetime, uint32_t mode);

/* `size` bytes of uint8 at a place. *shape is filled and must outlive the add. */
struct msg_add fake_add(const char *path, const struct msg_place *place, int64_t *shape);
const struct msg_reply *fake_peer_publish(struct fake_edge *edge, uint64_t connection,
                                          const struct msg_publish *publish);
/* Allocates 64 bytes and publishes them. Return: the version; aborts if refused. */
uint64_t fake_peer_put(struct fake_edge *edge, uint64_t connection, const char *path);
uint64_t fake_peer_put_with(struct fake_edge *edge, uint64_t connection, const char *path,
                            uint32_t lifetime, uint32_t mode);

/* GET of one name of an owner. */
struct msg_get fake_get(const struct msg_name *name);
const struct msg_reply *fake_peer_get(struct fake_edge *edge, uint64_t connection, uint32_t owner,
                                      const char *path);
/* Gives a cell back, and rings. */
void fake_peer_release(struct fake_edge *edge, uint64_t connection, uint32_t cell,
                       uint64_t version);
/* STAT without waiting. */
const struct msg_reply *fake_peer_stat(struct fake_edge *edge, uint64_t connection, uint32_t owner,
                                       const char *path);
const struct msg_reply *fake_peer_delete(struct fake_edge *edge, uint64_t connection,
                                         uint32_t owner, const char *path);

/* Of connection's session. */
uint64_t fake_peer_session(const struct fake_edge *edge, uint64_t connection);

#endif
