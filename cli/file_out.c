#include "file_out.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cleanup.h"

/* What to remove when a signal ends us. Set and cleared with the signals blocked. */
static const char *volatile doomed;

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};

static void remove_and_die(int signal_number)
{
  if (doomed)
    (void)unlink(doomed);
  (void)signal(signal_number, SIG_DFL);
  (void)raise(signal_number);
}

static void set_doomed(const char *path)
{
  sigset_t set, old;

  (void)sigemptyset(&set);
  for (size_t i = 0; i < sizeof(ending_signals) / sizeof(ending_signals[0]); i++)
    (void)sigaddset(&set, ending_signals[i]);
  (void)sigprocmask(SIG_BLOCK, &set, &old);
  doomed = path;
  (void)sigprocmask(SIG_SETMASK, &old, NULL);
}

static void catch_signals(void)
{
  struct sigaction action = {.sa_handler = remove_and_die};
  struct sigaction before;

  for (size_t i = 0; i < sizeof(ending_signals) / sizeof(ending_signals[0]); i++) {
    if (sigaction(ending_signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
      (void)sigaction(ending_signals[i], &action, NULL);
  }
}

static int make_temporary_name(struct file_out *file)
{
  const char *slash = strrchr(file->path, '/');
  int folder = slash ? (int)(slash - file->path) + 1 : 0;

  if (asprintf(&file->temporary, "%.*s.dlctl-%ld.tmp", folder, file->path, (long)getpid()) < 0) {
    file->temporary = NULL;
    return -ENOMEM;
  }
  return 0;
}

static int open_temporary(struct file_out *file, const struct stat *existing)
{
  int r = make_temporary_name(file);

  if (r < 0)
    return r;
  catch_signals();
  file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file->fd < 0)
    return -errno;
  set_doomed(file->temporary);
  /* A file that is replaced keeps its permissions; best effort, as with cp. */
  if (existing)
    (void)!fchmod(file->fd, existing->st_mode & 07777);
  return 0;
}

static int open_path(struct file_out *file, const char *path)
{
  struct stat existing;
  bool exists = stat(path, &existing) == 0;

  if (exists && S_ISDIR(existing.st_mode))
    return -EISDIR;
  if (exists && !S_ISREG(existing.st_mode)) {
    file->fd = open(path, O_WRONLY | O_CLOEXEC);
    return file->fd < 0 ? -errno : 0;
  }
  file->path = exists ? realpath(path, NULL) : strdup(path);
  if (!file->path)
    return -errno;
  return open_temporary(file, exists ? &existing : NULL);
}

int file_out_open(struct file_out *file, const char *path)
{
  int r = 0;

  *file = (struct file_out){.fd = -1};
  if (strcmp(path, "-") == 0) {
    file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    return file->fd < 0 ? -errno : 0;
  }
  r = open_path(file, path);
  if (r < 0)
    file_out_close(file);
  return r;
}

int file_out_write(struct file_out *file, const void *bytes, size_t size)
{
  const char *at = bytes;

  while (size > 0) {
    ssize_t n = write(file->fd, at, size);

    if (n < 0 && errno != EINTR)
      return -errno;
    at += n > 0 ? n : 0;
    size -= n > 0 ? (size_t)n : 0;
  }
  return 0;
}

int file_out_commit(struct file_out *file)
{
  int fd = file->fd;

  file->fd = -1;
  if (close(fd) < 0)
    return -errno;
  if (!file->temporary)
    return 0;
  if (rename(file->temporary, file->path) < 0)
    return -errno;
  set_doomed(NULL);
  free(file->temporary);
  file->temporary = NULL;
  return 0;
}

void file_out_close(struct file_out *file)
{
  if (file->fd >= 0)
    (void)close(file->fd);
  if (file->temporary && doomed == file->temporary) {
    (void)unlink(file->temporary);
    set_doomed(NULL);
  }
  free(file->temporary);
  free(file->path);
  *file = (struct file_out){.fd = -1};
}
