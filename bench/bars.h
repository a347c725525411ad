#ifndef DLPACKD_BENCH_BARS_H
#define DLPACKD_BENCH_BARS_H

/*
 * What must hold, each bar once: row, which number of the row, which side of the
 * limit is right, the limit in the row's unit.
 */

#include <stddef.h>

enum bench_bar_on {
  BENCH_ON_VALUE,
  BENCH_ON_P99,
  BENCH_ON_RATIO,
};

enum bench_bar_is {
  BENCH_AT_MOST,
  BENCH_AT_LEAST,
};

#define BENCH_BARS(X)                                     \
  X("hot_get.one_thread", VALUE, AT_MOST, 100)            \
  X("hot_get.two_threads", RATIO, AT_LEAST, 1.8)          \
  X("newer.held", VALUE, AT_MOST, 20)                     \
  X("first_get.small", RATIO, AT_MOST, 1.2)               \
  X("first_get.daemon_cpu", VALUE, AT_MOST, 2)            \
  X("put_small.4KiB_waited_for", RATIO, AT_MOST, 2.5)     \
  X("put_large.warm", RATIO, AT_LEAST, 0.9)               \
  X("put_large.fresh", RATIO, AT_LEAST, 1.5)              \
  X("publish.64MiB_recycled", RATIO, AT_MOST, 1.5)        \
  X("get_many.cold", VALUE, AT_MOST, 2)                   \
  X("private.1KiB", RATIO, AT_MOST, 1.3)                  \
  X("private.16KiB", RATIO, AT_MOST, 1.3)                 \
  X("private.64KiB", RATIO, AT_MOST, 1.3)                 \
  X("private.240KiB", RATIO, AT_MOST, 1.3)                \
  X("clients.8_pinned", RATIO, AT_LEAST, 0.7)             \
  X("many_tensors.small_descriptors", VALUE, AT_MOST, 31) \
  X("many_tensors.small_memory", VALUE, AT_MOST, 512)     \
  X("many_tensors.get_while_listing", VALUE, AT_MOST, 2)  \
  X("many_tensors.get_among_many", RATIO, AT_MOST, 1.1)   \
  X("large_tensors.descriptors", VALUE, AT_MOST, 399)     \
  X("daemon.start", VALUE, AT_MOST, 20)                   \
  X("daemon.resident", VALUE, AT_MOST, 6)                 \
  X("daemon.wakeups", VALUE, AT_MOST, 0)                  \
  X("create.1GiB", P99, AT_MOST, 1000)

struct bench_bar {
  const char *row;
  enum bench_bar_on on;
  enum bench_bar_is is;
  double limit;
};

/* NULL: this row has none. */
const struct bench_bar *bench_bar_of(const char *row);
/* The bars in order; NULL after the last. */
const struct bench_bar *bench_bar_at(size_t i);

#endif
