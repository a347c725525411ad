#ifndef DLPACKD_CLIENT_HANDLE_H
#define DLPACKD_CLIENT_HANDLE_H

/*
 * What struct dlc_client is: the session, what is mapped, what is leased.
 *
 * It is counted. Every hold and every generation has a reference, so a deleter finds
 * everything it needs after dlc_close(); the session ends with the last of them. A
 * tensor counts on its hold alone: threads that get and drop write nothing in common.
 */

#include <stdatomic.h>

#include "client/mapping.h"
#include "client/memory_limit.h"
#include "client/transport.h"

struct dlc__cache;

struct dlc_client {
  atomic_uint refs;
  unsigned fork_generation;
  int32_t call_timeout_ms; /* -1: none */
  char *name_space;        /* without a slash at the end; "" is none */
  struct dlc__transport *transport;
  struct dlc__maps maps;
  struct dlc__cache *cache;
  struct dlc__memory_limit memory_limit;
};

struct dlc_client *dlc__client_ref(struct dlc_client *client);
void dlc__client_unref(struct dlc_client *client);

/* Is there a client, and does it belong to this process? Return: 0 or a negated code. */
int dlc__client_check(const struct dlc_client *client, struct dlc_error *reterr);

/* When a call that may wait `extra_ms` (-1: for ever) for something has to be over. */
int64_t dlc__client_deadline(const struct dlc_client *client, int32_t extra_ms);

/* Who the daemon takes us for. */
uint32_t dlc__client_uid(struct dlc_client *client);

/* `timeout_ms` as a caller gives it; 0 never waits, -1 without limit.
 * Return: 0 or -DLC_E_INVALID. */
int dlc__check_timeout(int32_t timeout_ms, struct dlc_error *reterr);
/* The same on the wire. */
uint32_t dlc__wire_timeout(int32_t timeout_ms);

#endif
