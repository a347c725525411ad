#include <pthread.h>
#include <stdatomic.h>

#include "client/cache.h"
#include "client/fork.h"

static atomic_uint fork_generation = 1;
static atomic_uint fork_count;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int fork_result;

static void fork_before(void)
{
  dlc__caches_before_fork();
  atomic_fetch_add_explicit(&fork_count, 1, memory_order_relaxed);
}

static void fork_in_child(void)
{
  dlc__caches_after_fork_in_child();
  atomic_fetch_add_explicit(&fork_generation, 1, memory_order_relaxed);
}

static void fork_register(void)
{
  fork_result = -pthread_atfork(fork_before, dlc__caches_after_fork, fork_in_child);
}

int dlc__fork_watch(void)
{
  (void)pthread_once(&fork_once, fork_register);
  return fork_result;
}

unsigned dlc__fork_count(void)
{
  return atomic_load_explicit(&fork_count, memory_order_relaxed);
}

unsigned dlc__fork_generation(void)
{
  return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}
