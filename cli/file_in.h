#ifndef DLPACKD_CLI_FILE_IN_H
#define DLPACKD_CLI_FILE_IN_H

/*
 * The bytes of a file, in memory, without a copy: mapped, private and read-only. Only
 * what cannot be mapped (a pipe) is read.
 *
 * A file that somebody shortens while it is mapped ends the process with SIGBUS; that
 * is the price of not copying it first. One thread at a time.
 */

#include <stdbool.h>
#include <stddef.h>

struct file_in {
  const void *data; /* NULL if size is 0 */
  size_t size;
  bool mapped;
};

/* `path` "-" is standard input. Return: 0 or a negative errno; -EISDIR for a folder. */
int file_in_open(struct file_in *file, const char *path);

void file_in_close(struct file_in *file); /* twice is harmless */

#endif
