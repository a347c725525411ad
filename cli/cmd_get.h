#ifndef DLPACKD_CLI_CMD_GET_H
#define DLPACKD_CLI_CMD_GET_H

/* The two halves of `dlctl get`: single tensors, and .safetensors files of many. */

#include "cmd.h"
#include "file_type.h"

struct getting {
  struct cmd_context *context;
  const char *name;
  const char *path;
  enum file_type type;
  uint64_t version; /* 0: the newest */
};

/* Prints what went wrong. Return: an exit code. */
int get_safetensors(const struct getting *getting, struct dlc_client *client);

/* The line for a file that could not be written. Return: CMD_FAILED, or CMD_DONE if it is
 * a pipe whose reader has seen enough. */
int get_fail_write(const struct getting *getting, int error);

#endif
