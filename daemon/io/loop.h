#ifndef DLPACKD_IO_LOOP_H
#define DLPACKD_IO_LOOP_H

/*
 * The event loop: descriptors, timers, signals, and work that would hold up the
 * loop. The only user of libuv, so nothing else in the daemon knows its rules.
 *
 * Objects are on the heap because libuv needs their memory until a close has run
 * through; to the owner they are gone when the free function returns, and no
 * callback of theirs comes after it. Free a watch before closing its descriptor: a
 * copy of the socket elsewhere would keep it registered for ever.
 *
 * One thread, but for the function given to loop_work().
 */

#include <stdint.h>

struct loop;
struct loop_watch;
struct loop_timer;
struct loop_signal;

enum loop_events {
  LOOP_READABLE = 1u << 0,
  LOOP_WRITABLE = 1u << 1,
  LOOP_BROKEN = 1u << 2, /* an error on the descriptor; nothing more will be told of it */
};

typedef void (*loop_watch_fn)(void *context, unsigned events);
typedef void (*loop_fn)(void *context);

/* Return: 0 or negative errno. */
int loop_new(struct loop **ret);
/* Everything made with it must have been freed; waits for work that is under way. */
struct loop *loop_free(struct loop *loop);

/* Until loop_stop(). */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* `fd` is borrowed and must be non-blocking; `events` 0 watches nothing.
 * Return: 0 or negative errno (-EPERM: not something that can be waited for). */
int loop_watch_new(struct loop_watch **ret, struct loop *loop, int fd, unsigned events,
                   loop_watch_fn function, void *context);
struct loop_watch *loop_watch_free(struct loop_watch *watch);
void loop_watch_set(struct loop_watch *watch, unsigned events);

/* Not running until it is set. Return: 0 or -ENOMEM. */
int loop_timer_new(struct loop_timer **ret, struct loop *loop, loop_fn function, void *context);
struct loop_timer *loop_timer_free(struct loop_timer *timer);
/* Once, after `ms`; replaces what was set. */
void loop_timer_set(struct loop_timer *timer, uint64_t ms);
void loop_timer_unset(struct loop_timer *timer);

/* Return: 0 or negative errno. */
int loop_signal_new(struct loop_signal **ret, struct loop *loop, int signal_number,
                    loop_fn function, void *context);
struct loop_signal *loop_signal_free(struct loop_signal *signal);

/*
 * Runs `work` on another thread, then `done` with its result on the loop's. It
 * cannot be called back: `context` must live until `done` ran.
 * Return: 0 or negative errno; `done` is not called then.
 */
int loop_work(struct loop *loop, int (*work)(void *context),
              void (*done)(void *context, int result), void *context);

#endif
