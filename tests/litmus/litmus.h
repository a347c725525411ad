#ifndef DLPACKD_TESTS_LITMUS_H
#define DLPACKD_TESTS_LITMUS_H

/*
 * A daemon and a client, two processes, that have nothing in common but the lease
 * pages, the tensors' memory, and a mailbox for what would go over the socket.
 *
 * The daemon replaces tensors as fast as it can, and writes poison over what it takes
 * for free. Two threads of the client get, read and drop. Who reads poison has found a
 * lease that was lost.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/lease_page.h"

enum {
  LITMUS_THREADS = 2,
  LITMUS_NAMES = 1,  /* one, so that all threads share its lease */
  LITMUS_WORDS = 4,  /* of a tensor's memory */
  LITMUS_PLACES = 64 /* for tensors */
};

#define LITMUS_POISON UINT64_C(0xdeaddeaddeaddead)

enum litmus_mail_state { LITMUS_QUIET, LITMUS_ASKED, LITMUS_GRANTED };

/* A get of one thread. */
struct litmus_mail {
  _Alignas(128) atomic_int state;
  uint32_t name;
  uint32_t cell;
  uint32_t place;
  uint64_t version;
};

struct litmus_place {
  _Alignas(128) _Atomic uint64_t words[LITMUS_WORDS];
};

struct litmus {
  struct litmus_mail mails[LITMUS_THREADS];
  struct litmus_place places[LITMUS_PLACES];
  _Alignas(128) atomic_bool stop; /* the daemon has done its rounds */
  atomic_bool client_is_done;
  _Atomic uint64_t n_gets, n_poisoned; /* of all threads, at the end */
  struct dlp_grants_page grants;
  struct dlp_holds_page holds;
};

/* What a run did. */
struct litmus_result {
  uint64_t n_retired;
  bool all_freed; /* nothing is held at the end */
};

/* Replaces until somebody has read poison, or for `rounds` replacements, or for `ms`. */
void litmus_run_daemon(struct litmus *litmus, uint64_t rounds, int64_t ms,
                       struct litmus_result *ret);
/* In a child. Return: its exit status. */
int litmus_run_client(struct litmus *litmus);

#endif
