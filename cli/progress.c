#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "human.h"

enum {
  QUIET_MS = 300, /* work that ends sooner shows nothing */
  PERIOD_MS = 100,
};

static uint64_t now_ms(void)
{
  struct timespec now;

  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void progress_init(struct progress *progress, const char *what, uint64_t total)
{
  *progress = (struct progress){.what = what, .total = total, .enabled = isatty(STDERR_FILENO)};
  progress->started_ms = progress->enabled ? now_ms() : 0;
}

static void progress_show(const struct progress *progress, uint64_t elapsed_ms)
{
  cli_auto_text struct text line = {0};

  text_printf(&line, "\r\033[K%s: ", progress->what);
  human_size(&line, progress->done);
  text_append(&line, " of ");
  human_size(&line, progress->total);
  text_append(&line, ", ");
  human_size(&line, (uint64_t)((double)progress->done * 1000 / (double)elapsed_ms));
  text_append(&line, "/s");
  (void)fputs(text_string(&line), stderr);
  (void)fflush(stderr);
}

void progress_add(struct progress *progress, uint64_t bytes)
{
  uint64_t now;

  progress->done += bytes;
  if (!progress->enabled)
    return;
  now = now_ms();
  if (now < progress->started_ms + QUIET_MS || now < progress->shown_ms + PERIOD_MS)
    return;
  progress->shown_ms = now;
  progress->visible = true;
  progress_show(progress, now - progress->started_ms);
}

void progress_deinit(struct progress *progress)
{
  if (progress->visible)
    (void)fputs("\r\033[K", stderr);
  progress->visible = false;
}
