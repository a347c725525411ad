#ifndef DLPACKD_CLI_FILE_OUT_H
#define DLPACKD_CLI_FILE_OUT_H

/*
 * A file that is there whole or not at all.
 *
 * What is written goes to a hidden file in the same folder, which takes the name when
 * all of it is on its way to the disk. A signal that ends the tool removes it. Only
 * standard output and what is no plain file (a pipe, /dev/null) are written directly.
 *
 * One at a time in the process, from one thread.
 */

#include <stddef.h>

struct file_out {
  int fd;
  char *path;      /* the final one, links followed; NULL when written directly */
  char *temporary; /* NULL when written directly */
};

/* `path` "-" is standard output. Return: 0 or a negative errno. */
int file_out_open(struct file_out *file, const char *path);

/* Return: 0 or a negative errno. */
int file_out_write(struct file_out *file, const void *bytes, size_t size);

/* Gives the file its name. Return: 0 or a negative errno. */
int file_out_commit(struct file_out *file);

/* Closes; without a commit nothing is left behind. Twice is harmless. */
void file_out_close(struct file_out *file);

#endif
