#ifndef DLPACKD_DAEMON_PRIVATE_H
#define DLPACKD_DAEMON_PRIVATE_H

/*
 * What the files of the daemon share: its parts, and the functions that they call when
 * something happens. Nobody else includes it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "core/broker.h"
#include "io/connections.h"
#include "io/listener.h"
#include "io/loop.h"
#include "io/memory.h"
#include "io/memory_info.h"
#include "io/plans.h"
#include "io/segments.h"
#include "io/sessions.h"
#include "io/store.h"

struct daemon {
  const struct config *config;
  struct loop *loop;
  struct listener *listener;
  struct loop_watch *listener_watch;
  struct loop_timer *listener_timer; /* after a pause */
  struct loop_signal *terminate, *interrupt;
  struct loop_timer *tick;
  struct loop_timer *idle;
  struct loop_timer *watchdog;
  bool is_idle;
  bool is_leaving;
  bool somebody_hung_up; /* by the broker's doing: whose session it was is not known */
  struct memory_info memory;
  struct memory_posix_shm shm;
  struct storage_backend backends[2];
  struct segments *segments;
  struct sessions *sessions;
  struct store *store;
  struct plans *plans;
  struct connections *connections;
  struct broker *broker;
  char boot_id[64];
  char host[256];
};

/* Each has the daemon as its context. */
extern const struct broker_edge daemon_broker_edge;
extern const struct plans_host daemon_plans_host;
extern const struct sessions_host daemon_sessions_host;
extern const struct connections_host daemon_connections_host;
void daemon_on_listener(void *context, unsigned events);
void daemon_on_pause_over(void *context);
void daemon_on_tick(void *context);
void daemon_on_idle(void *context);
void daemon_on_watchdog(void *context);
void daemon_on_signal(void *context);
/* Frees the pages of a large segment without holding up the loop. */
void daemon_close_later(void *context, int fd);

/* Runs the plans that there are. */
void daemon_run_plans(struct daemon *daemon);
/* After everything that called the broker: plans, what ended, and when to wake up. */
void daemon_settle(struct daemon *daemon);

#endif
