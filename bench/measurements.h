#ifndef DLPACKD_BENCH_MEASUREMENTS_H
#define DLPACKD_BENCH_MEASUREMENTS_H

/* Every measurement: a function that adds rows. Each lies in bench_<name>.c. */

#include "harness.h"

#define BENCH_MEASUREMENTS(X)                                        \
  X(floors, "what any design has to pay")                            \
  X(hot_get, "get of what this process had before, and its deleter") \
  X(newer, "is what I hold still the newest?")                       \
  X(first_get, "get of a version for the first time")                \
  X(put_small, "put of 4 KiB")                                       \
  X(put_large, "put of 64 MiB by copy")                              \
  X(publish, "publish in place")                                     \
  X(get_many, "get of 10,000 tensors at once")                       \
  X(private, "a writable view of one's own, beside the shared one")  \
  X(clients, "many clients")                                         \
  X(many_tensors, "200,000 small tensors")                           \
  X(large_tensors, "20,000 tensors of 4 MiB, without their pages")   \
  X(create, "create of 1 GiB")                                       \
  X(daemon, "the daemon itself")

#define X(name, about) void bench_##name(const struct bench_options *options);
BENCH_MEASUREMENTS(X)
#undef X

#endif
