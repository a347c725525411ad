#include "file_in.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cleanup.h"

enum {
  READ_FIRST = 1 << 20,
};

/* Return: 0, a negative errno, or 1 if the file is not one to map. */
static int file_in_map(struct file_in *file, int fd)
{
  struct stat stat;
  void *data;

  if (fstat(fd, &stat) < 0)
    return -errno;
  if (S_ISDIR(stat.st_mode))
    return -EISDIR;
  /* Files of /proc say that they are empty. */
  if (!S_ISREG(stat.st_mode) || stat.st_size == 0 || lseek(fd, 0, SEEK_CUR) != 0)
    return 1;
  data = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED)
    return -errno;
  (void)madvise(data, (size_t)stat.st_size, MADV_SEQUENTIAL);
  *file = (struct file_in){data, (size_t)stat.st_size, true};
  return 0;
}

static int file_in_read(struct file_in *file, int fd)
{
  cli_auto_free char *data = NULL;
  size_t capacity = 0;
  size_t size = 0;
  ssize_t n;

  do {
    if (size == capacity) {
      char *more;

      capacity = capacity ? capacity * 2 : READ_FIRST;
      more = realloc(data, capacity);
      if (!more)
        return -ENOMEM;
      data = more;
    }
    n = read(fd, data + size, capacity - size);
    if (n < 0 && errno != EINTR)
      return -errno;
    size += n > 0 ? (size_t)n : 0;
  } while (n != 0);
  *file = (struct file_in){data, size, false};
  data = NULL;
  return 0;
}

int file_in_open(struct file_in *file, const char *path)
{
  cli_auto_close int opened = -1;
  int fd = STDIN_FILENO;
  int r;

  if (strcmp(path, "-") != 0) {
    opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0)
      return -errno;
    fd = opened;
  }
  r = file_in_map(file, fd);
  return r == 1 ? file_in_read(file, fd) : r;
}

void file_in_close(struct file_in *file)
{
  if (file->mapped)
    (void)munmap((void *)file->data, file->size);
  else
    free((void *)file->data);
  *file = (struct file_in){0};
}
