#ifndef DLPACKD_IO_SESSIONS_H
#define DLPACKD_IO_SESSIONS_H

/*
 * What a session is outside the core: its lease pages and whether its process lives.
 *
 * Death, not hang-up, ends a session. Two things tell it:
 * - its pidfd becomes readable, if it has one;
 * - once its connection is gone, nobody maps its holds page for writing any more: then
 *   F_SEAL_WRITE succeeds on it. The client maps the page right after WELCOME and as
 *   long as the session is to outlive a connection; the mapping ends with exec as well
 *   as with death.
 * The seal is tried on another thread: a client that pins the page (a pipe, a
 * registered buffer) makes the kernel wait for a good while.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/lease.h"
#include "io/loop.h"

/* After a hang-up, and then again and again. */
#define SESSIONS_PROBE_FIRST_MS 50
#define SESSIONS_PROBE_AGAIN_MS 1000

struct sessions;

struct sessions_host {
  void *context;
  /* The process is dead. The session may be closed from within. */
  void (*died)(void *context, uint64_t session);
  /* Does it have a connection? Then there is nothing to probe. */
  bool (*connected)(void *context, uint64_t session);
};

/* Return: 0 or -ENOMEM. */
int sessions_new(struct sessions **ret, struct loop *loop, const struct sessions_host *host);
struct sessions *sessions_free(struct sessions *sessions);

/* Makes the pages and maps them. `pidfd` is borrowed, or -1. The pages stay mapped until
 * sessions_close(). Return: 0 or negative errno. */
int sessions_open(struct sessions *sessions, uint64_t session, int pidfd,
                  struct lease_pages *ret_pages);
void sessions_close(struct sessions *sessions, uint64_t session); /* harmless if unknown */

/* A connection of it ended: if it was the last, watch for its death. */
void sessions_hung_up(struct sessions *sessions, uint64_t session);
/* The same where it is not known whose connection it was: looks at all of them. */
void sessions_somebody_hung_up(struct sessions *sessions);

/* A new descriptor of the holds page, writable, for the client. Return: it, or
 * negative errno. */
int sessions_open_holds(struct sessions *sessions, uint64_t session);
/* The same of the grants page; read-only. */
int sessions_open_grants(struct sessions *sessions, uint64_t session);

#endif
