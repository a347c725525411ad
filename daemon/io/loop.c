#include "io/loop.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <uv.h>

#include "common/cleanup.h"

struct loop {
  uv_loop_t uv;
};

/* Each starts with its libuv handle, so that one function can free them all. */
struct loop_watch {
  uv_poll_t uv;
  unsigned events;
  loop_watch_fn function;
  void *context;
};

struct loop_timer {
  uv_timer_t uv;
  loop_fn function;
  void *context;
};

struct loop_signal {
  uv_signal_t uv;
  loop_fn function;
  void *context;
};

struct loop_job {
  uv_work_t uv;
  int (*work)(void *context);
  void (*done)(void *context, int result);
  void *context;
  int result;
};

static void on_closed(uv_handle_t *handle)
{
  free(handle);
}

int loop_new(struct loop **ret)
{
  dlp_auto_free struct loop *loop = calloc(1, sizeof(*loop));
  int r;

  if (!loop)
    return -ENOMEM;
  r = uv_loop_init(&loop->uv);
  if (r < 0)
    return r;
  *ret = DLP_TAKE(loop);
  return 0;
}

struct loop *loop_free(struct loop *loop)
{
  int r;

  if (!loop)
    return NULL;
  (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
  r = uv_loop_close(&loop->uv);
  assert(r == 0);
  free(loop);
  return NULL;
}

void loop_run(struct loop *loop)
{
  (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *loop)
{
  uv_stop(&loop->uv);
}

static void on_poll(uv_poll_t *uv, int status, int events)
{
  struct loop_watch *watch = (struct loop_watch *)uv;
  unsigned told = 0;

  if (status < 0) {
    /* libuv has stopped the handle. Reading tells what happened. */
    told = LOOP_READABLE | LOOP_BROKEN;
    watch->events = 0;
  }
  if (events & UV_READABLE)
    told |= LOOP_READABLE;
  if (events & UV_WRITABLE)
    told |= LOOP_WRITABLE;
  if (told)
    watch->function(watch->context, told);
}

int loop_watch_new(struct loop_watch **ret, struct loop *loop, int fd, unsigned events,
                   loop_watch_fn function, void *context)
{
  dlp_auto_free struct loop_watch *watch = calloc(1, sizeof(*watch));
  int r;

  if (!watch)
    return -ENOMEM;
  watch->function = function;
  watch->context = context;
  r = uv_poll_init(&loop->uv, &watch->uv, fd);
  if (r < 0)
    return r;
  loop_watch_set(watch, events);
  *ret = DLP_TAKE(watch);
  return 0;
}

struct loop_watch *loop_watch_free(struct loop_watch *watch)
{
  if (watch)
    uv_close((uv_handle_t *)&watch->uv, on_closed);
  return NULL;
}

void loop_watch_set(struct loop_watch *watch, unsigned events)
{
  int uv_events = 0;

  if (events == watch->events)
    return;
  watch->events = events;
  if (events & LOOP_READABLE)
    uv_events |= UV_READABLE;
  if (events & LOOP_WRITABLE)
    uv_events |= UV_WRITABLE;
  if (uv_events)
    (void)uv_poll_start(&watch->uv, uv_events, on_poll);
  else
    (void)uv_poll_stop(&watch->uv);
}

static void on_timer(uv_timer_t *uv)
{
  struct loop_timer *timer = (struct loop_timer *)uv;

  timer->function(timer->context);
}

int loop_timer_new(struct loop_timer **ret, struct loop *loop, loop_fn function, void *context)
{
  struct loop_timer *timer = calloc(1, sizeof(*timer));

  if (!timer)
    return -ENOMEM;
  timer->function = function;
  timer->context = context;
  (void)uv_timer_init(&loop->uv, &timer->uv);
  *ret = timer;
  return 0;
}

struct loop_timer *loop_timer_free(struct loop_timer *timer)
{
  if (timer)
    uv_close((uv_handle_t *)&timer->uv, on_closed);
  return NULL;
}

void loop_timer_set(struct loop_timer *timer, uint64_t ms)
{
  /* libuv counts from the start of the turn, which may lie some time back. */
  uv_update_time(timer->uv.loop);
  (void)uv_timer_start(&timer->uv, on_timer, ms, 0);
}

void loop_timer_unset(struct loop_timer *timer)
{
  (void)uv_timer_stop(&timer->uv);
}

static void on_signal(uv_signal_t *uv, int signal_number)
{
  struct loop_signal *signal = (struct loop_signal *)uv;

  signal->function(signal->context);
}

int loop_signal_new(struct loop_signal **ret, struct loop *loop, int signal_number,
                    loop_fn function, void *context)
{
  struct loop_signal *signal = calloc(1, sizeof(*signal));
  int r;

  if (!signal)
    return -ENOMEM;
  signal->function = function;
  signal->context = context;
  r = uv_signal_init(&loop->uv, &signal->uv);
  if (r < 0) {
    free(signal);
    return r;
  }
  r = uv_signal_start(&signal->uv, on_signal, signal_number);
  if (r < 0) {
    loop_signal_free(signal);
    return r;
  }
  *ret = signal;
  return 0;
}

struct loop_signal *loop_signal_free(struct loop_signal *signal)
{
  if (signal)
    uv_close((uv_handle_t *)&signal->uv, on_closed);
  return NULL;
}

static void on_work(uv_work_t *uv)
{
  struct loop_job *job = (struct loop_job *)uv;

  job->result = job->work(job->context);
}

static void on_work_done(uv_work_t *uv, int status)
{
  struct loop_job *job = (struct loop_job *)uv;

  job->done(job->context, job->result);
  free(job);
}

int loop_work(struct loop *loop, int (*work)(void *context),
              void (*done)(void *context, int result), void *context)
{
  struct loop_job *job = calloc(1, sizeof(*job));
  int r;

  if (!job)
    return -ENOMEM;
  job->work = work;
  job->done = done;
  job->context = context;
  r = uv_queue_work(&loop->uv, &job->uv, on_work, on_work_done);
  if (r < 0)
    free(job);
  return r;
}
