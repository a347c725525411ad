#include <limits.h>
#include <poll.h>

#include "client/clock.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

int64_t dlc__clock_now(void)
{
  struct timespec now;

  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t dlc__deadline_in(int64_t ms)
{
  return ms < 0 ? DLC__NEVER : dlc__clock_now() + ms * NS_PER_MS;
}

bool dlc__deadline_passed(int64_t deadline)
{
  return deadline != DLC__NEVER && dlc__clock_now() >= deadline;
}

int dlc__deadline_poll_ms(int64_t deadline)
{
  int64_t left;

  if (deadline == DLC__NEVER)
    return -1;
  left = (deadline - dlc__clock_now() + NS_PER_MS - 1) / NS_PER_MS;
  if (left < 0)
    return 0;
  return left > INT_MAX ? INT_MAX : (int)left;
}

struct timespec dlc__deadline_timespec(int64_t deadline)
{
  struct timespec at = {.tv_sec = (time_t)(deadline / NS_PER_S), .tv_nsec = deadline % NS_PER_S};

  return at;
}

void dlc__clock_nap(int64_t ms, int64_t deadline)
{
  int64_t end = dlc__deadline_in(ms);

  (void)poll(NULL, 0, dlc__deadline_poll_ms(end < deadline ? end : deadline));
}
