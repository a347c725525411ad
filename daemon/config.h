#ifndef DLPACKD_CONFIG_H
#define DLPACKD_CONFIG_H

/*
 * What the daemon can be told, by flags, a file and the environment.
 *
 * One table has every option with its default, its help and its parser; the flags, the
 * keys of the file and --help are made from it, so a default is written once.
 * What is said later wins: default, file, $DLPACKD_SOCKET, flag.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/quota.h"
#include "io/complaint.h"
#include "io/log.h"

/* socket-mode "auto" */
#define CONFIG_MODE_AUTO UINT64_MAX

enum config_action {
  CONFIG_RUN,
  CONFIG_CHECK,
  CONFIG_HELP,
  CONFIG_VERSION,
};

struct config {
  enum config_action action;
  char *socket; /* as it was said; NULL: config_socket_path() chooses */
  uint64_t socket_mode;
  uint64_t max_bytes;
  uint64_t storage; /* enum msg_backend */
  uint64_t default_mode;
  struct quota_sum user_limits;
  uint64_t output_limit;
  uint64_t idle_exit_s; /* 0: never */
  enum log_level log_level;
  enum log_format log_format;
  size_t n_admins;
  uint32_t *admins;
};

/* `config` is valid for config_deinit() either way. Return: 0 or negative errno. */
int config_init(struct config *config, int argc, char **argv, struct complaint *reterr);
void config_deinit(struct config *config); /* twice is harmless */

/* What --help says. */
void config_print_help(FILE *file);

/* How many descriptors the process may have: what "50%" of user-segments is of. */
uint64_t config_descriptor_limit(void);

/* Where the socket is to be; the caller frees it. Below /tmp, its directory is made
 * and checked. Return: 0 or negative errno. */
int config_socket_path(const struct config *config, char **ret, struct complaint *reterr);
/* The permission bits of a socket at `path`. */
unsigned config_socket_mode(const struct config *config, const char *path);

/* Calls `function` with each option's name and default, in the order of the help. */
void config_each_option(void (*function)(void *context, const char *name, const char *default_text),
                        void *context);

#endif
