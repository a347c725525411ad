#ifndef DLPACKD_CLI_PUBLISH_H
#define DLPACKD_CLI_PUBLISH_H

/*
 * Sources -> the daemon: one tensor as it is, several as one generation.
 *
 * One thread at a time.
 */

#include "progress.h"
#include "source.h"

/*
 * Publishes everything in `sources` at once. `ret_failed` is what could not be added: a
 * name, borrowed from the sources, or NULL.
 * Return: 0 or a negated DLC_E_*, with `reterr` filled.
 */
int publish_sources(struct dlc_client *client, const struct source *sources, size_t n_sources,
                    const struct dlc_publish_options *options, struct progress *progress,
                    uint64_t *ret_version, const char **ret_failed, struct dlc_error *reterr);

uint64_t publish_total_size(const struct source *sources, size_t n_sources);
size_t publish_n_tensors(const struct source *sources, size_t n_sources);

#endif
