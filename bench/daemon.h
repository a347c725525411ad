#ifndef DLPACKD_BENCH_DAEMON_H
#define DLPACKD_BENCH_DAEMON_H

/*
 * A dlpackd of our own, on a socket in a folder of its own, and clients of it.
 */

#include <stdint.h>
#include <sys/types.h>

#include <dlclient.h>
#include <dlclient_dlpack.h>

#include "harness.h"

struct bench_daemon {
  pid_t pid;
  char folder[64];
  char socket[96];
  uint64_t ready_ns; /* from fork to READY=1 */
};

/* Where the caller is pinned, there the daemon is. `arguments` ends with NULL; NULL: none. */
void bench_daemon_start(struct bench_daemon *daemon, const struct bench_options *options,
                        const char *const *arguments);
void bench_daemon_stop(struct bench_daemon *daemon);

/* ---- clients ---- */

struct dlc_client *bench_connect(const struct bench_daemon *daemon);
/* The daemon has served everything that was sent before. */
void bench_settle(struct dlc_client *client);
/* `r` of a dlclient function, or the end of this measurement. */
void bench_require(int r, const struct dlc_error *error);

/* A tensor of `size` bytes, at `data`. `shape` has to live as long as it. */
struct dlc_view bench_bytes(void *data, const int64_t *shape);

/* Room for a name; bench_name() gives "bench/000042". */
#define BENCH_NAME_SIZE 32
const char *bench_name(char *buffer, size_t number);

/* Tensors number `first` to `first + n - 1`, of `size` bytes each, many at a time. */
void bench_put_many(struct dlc_client *client, size_t first, size_t n, size_t size);
void bench_put(struct dlc_client *client, const char *name, void *data, size_t size);
struct DLManagedTensorVersioned *bench_alloc(struct dlc_client *client, size_t size);
struct DLManagedTensorVersioned *bench_get(struct dlc_client *client, const char *name,
                                           const struct dlc_get_options *options);

#endif
