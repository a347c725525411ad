#ifndef DLPACKD_CORE_WAIT_H
#define DLPACKD_CORE_WAIT_H

/*
 * Requests that wait: a GET or STAT for a name to be there or to be newer, a
 * WATCH for anything below a prefix to change.
 *
 * A waiter holds a copy of its request. When something it may be about changes it
 * is taken off and the request is served again from the start, which answers it or
 * makes it wait anew until the same deadline. So there is one way to serve a
 * request, and a waiter that is woken for nothing does no harm.
 *
 * Pure. One owner thread.
 */

#include "core/broker_private.h"

/* Names of a GET, copied: they outlive the packets they came in. */
struct names {
  struct dlp_list link; /* connection->collecting, while more are to come */
  bool refused;         /* answered already: what else comes is swallowed */
  uint64_t request;
  size_t n;
  size_t room;
  struct msg_name *names;
  uint64_t heap; /* bytes, as charged */
  struct quota_charge charge;
};

/* Return: NULL if out of memory. */
struct names *names_new(uint64_t request);
struct names *names_free(struct names *names);
/* Return: 0, -ENOMEM, or QUOTA_E_EXCEEDED with *refusal filled. */
int names_add(struct names *names, const struct connection *connection, const struct msg_name *list,
              size_t n, struct quota_refusal *refusal);

enum {
  WAIT_E_TOO_MANY = 100, /* this connection has as many requests waiting as it may */
};

/* How a request that waits goes on. Neither may close the connection. */
struct wait_kind {
  request_fn serve;       /* again, when something has changed */
  request_fn at_deadline; /* answers that its time is over */
};

/*
 * Makes the request being served wait until `key` changes, or (key NULL) until
 * anything does, or until broker->deadline_us.
 * Return: 0, -ENOMEM, WAIT_E_TOO_MANY, or QUOTA_E_EXCEEDED with *refusal filled.
 */
int wait_for(struct connection *connection, const struct msg_request *request,
             const struct entry_key *key, const struct wait_kind *kind,
             struct quota_refusal *refusal);

/* When a request that comes now has to be answered at the latest; 0: it never waits. */
uint64_t wait_deadline(const struct broker *broker, const struct msg_request *request);

/* The entry shows something new: who waits for it is served. Call when the change
 * is whole, not between the names of one commit. May free the entry. */
void wait_changed(struct broker *broker, struct entry *entry);
/* Something has changed: watches are served. Once per commit or deletion. */
void wait_watchers(struct broker *broker);

/* The connection goes: what waits on it goes. */
void wait_forget(struct connection *connection);

#endif
