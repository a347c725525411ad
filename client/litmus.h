#ifndef DLPACKD_CLIENT_LITMUS_H
#define DLPACKD_CLIENT_LITMUS_H

/*
 * For tests/litmus alone: what a build of that test may break, to see that the test
 * notices. The library is never built with any of these defined.
 *
 *   DLC_LITMUS_NO_FENCE     taking again is a store and a load, not in order
 *   DLC_LITMUS_NO_RECHECK   taking again does not look whether the version is retired
 *   DLC_LITMUS_NAIVE_COUNT  a thread that drops writes the cell after it has counted,
 *                           when another may have taken again
 */

#include <stdatomic.h>

#ifdef DLC_LITMUS_NO_FENCE
#define DLC__TAKE_ORDER memory_order_relaxed
#else
#define DLC__TAKE_ORDER memory_order_seq_cst
#endif

#ifdef DLC_LITMUS_NO_RECHECK
#define DLC__TAKE_CHECKS 0
#else
#define DLC__TAKE_CHECKS 1
#endif

#ifdef DLC_LITMUS_NAIVE_COUNT
#define DLC__COUNT_IS_NAIVE 1
#else
#define DLC__COUNT_IS_NAIVE 0
#endif

#endif
