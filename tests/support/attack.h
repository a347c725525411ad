#ifndef DLPACKD_TESTS_SUPPORT_ATTACK_H
#define DLPACKD_TESTS_SUPPORT_ATTACK_H

/*
 * A daemon under attack, and a witness.
 *
 * The attacker is a process of its own, so that it can be stopped, killed and watched
 * to its end. Meanwhile the witness, an ordinary client, asks for answers and for the
 * bytes of a tensor; afterwards the daemon has what it had before, and no more.
 */

#include "support/measure.h"
#include "support/packets.h"

struct attack_bench {
  struct test_daemon daemon;
  struct dlc_client *witness;
  struct test_baseline before;
  uint64_t rss_before_kib;
  int log;       /* what the daemon has said */
  void *context; /* of the attack */
};

typedef int attack_fn(void *bench, struct test_pipe_ends *ends);

/* For cmocka. The daemon's log is kept, at level debug. */
int attack_setup(void **state);
int attack_setup_with(void **state, const char *const *arguments);
int attack_teardown(void **state);

/* Runs the attack in a process of its own; asserts that it returns 0, that the witness
 * is served throughout, and that nothing is left. */
void attack_run(struct attack_bench *bench, attack_fn *attack, void *context);
/* The witness asks until the attacker is gone; for attacks that are ended by hand. */
void attack_watch(struct attack_bench *bench, const struct test_child *attacker);
void attack_assert_nothing_left(struct attack_bench *bench);

/* Waits until the daemon has said `text`; fails the test if it never does. */
void attack_wait_log(struct attack_bench *bench, const char *text);

/* The witness gets its tensor, and asks whether the daemon is there. Return: how long
 * both took, in microseconds. */
int64_t attack_witness(struct attack_bench *bench);

#endif
