/*
 * dlpackd: arguments, configuration, and the daemon's life.
 *
 * Exit status: 0 it was asked to leave, 1 it could not start, 2 it was asked wrongly.
 */

#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "config.h"
#include "daemon.h"
#include "io/complaint.h"
#include "io/log.h"

enum {
  EXIT_USAGE = 2,
};

static int report(const struct complaint *complaint, int status)
{
  (void)fprintf(stderr, "dlpackd: %s\n", complaint->text);
  return status;
}

static int serve(const struct config *config)
{
  struct complaint complaint;
  struct daemon *daemon;

  log_setup(config->log_level, config->log_format);
  if (daemon_new(&daemon, config, &complaint) < 0) {
    log_event(LOG_LEVEL_ERROR, complaint.text);
    return EXIT_FAILURE;
  }
  daemon_run(daemon);
  (void)daemon_free(daemon);
  return EXIT_SUCCESS;
}

static int run(const struct config *config)
{
  switch (config->action) {
  case CONFIG_HELP:
    config_print_help(stdout);
    return EXIT_SUCCESS;
  case CONFIG_VERSION:
    (void)puts("dlpackd " DLPACKD_VERSION);
    return EXIT_SUCCESS;
  case CONFIG_CHECK:
    (void)puts("The configuration is right.");
    return EXIT_SUCCESS;
  case CONFIG_RUN:
    return serve(config);
  }
  return EXIT_USAGE;
}

int main(int argc, char **argv)
{
  dlp_cleanup_(config_deinit) struct config config;
  struct complaint complaint;

  if (config_init(&config, argc, argv, &complaint) < 0)
    return report(&complaint, EXIT_USAGE);
  return run(&config);
}
