#ifndef DLPACKD_BENCH_PROCESS_H
#define DLPACKD_BENCH_PROCESS_H

/*
 * Processes and what the kernel says of them: cores, children, processor time,
 * memory, descriptors.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The cores we may use, by turn: 0 is where both sides of a comparison run. */
enum bench_core {
  BENCH_CORE_MAIN = 0,
  BENCH_CORE_OTHER = 1,
  BENCH_CORE_ANY = -1,
};

/* How many cores there are for us. */
unsigned bench_n_cores(void);
/* This thread, and what it starts from now on. */
void bench_pin(enum bench_core core);

/* A child that ends with us. It returns from `body` to exit with 0. */
pid_t bench_spawn(void (*body)(void *context), void *context);
void bench_stop(pid_t pid); /* and wait for it */
void bench_join(pid_t pid); /* fails unless it exits with 0 */

uint64_t bench_cpu_ns(pid_t pid);      /* of all its threads that live */
uint64_t bench_wakeups(pid_t pid);     /* how often its threads went to sleep of themselves */
size_t bench_n_descriptors(pid_t pid); /* open ones */
/* A field of smaps_rollup, in bytes: "Pss:", "Rss:". */
uint64_t bench_memory(pid_t pid, const char *field);

/* ---- meeting of processes: a word in memory that parent and children share ---- */

struct bench_word {
  uint32_t value;
};

/* Memory for `size` bytes, zero, shared with children. */
void *bench_shared(size_t size);
void bench_word_set(struct bench_word *word, uint32_t value); /* and wake who waits */
uint32_t bench_word_get(const struct bench_word *word);
void bench_word_add(struct bench_word *word, uint32_t n);
/* Until it is `value`. Sleeps. */
void bench_word_await(struct bench_word *word, uint32_t value);

#endif
