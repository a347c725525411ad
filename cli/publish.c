#include "publish.h"

#include <string.h>

#include "dlclient_dlpack.h"

enum {
  CHUNK = 8 << 20,          /* bytes between two looks at the progress */
  WATCHED_SIZE = 256 << 20, /* a tensor of this size is worth watching while it is copied */
};

uint64_t publish_total_size(const struct source *sources, size_t n_sources)
{
  uint64_t total = 0;

  for (size_t i = 0; i < n_sources; i++)
    for (size_t j = 0; j < sources[i].n_tensors; j++)
      total += sources[i].tensors[j].size;
  return total;
}

size_t publish_n_tensors(const struct source *sources, size_t n_sources)
{
  size_t total = 0;

  for (size_t i = 0; i < n_sources; i++)
    total += sources[i].n_tensors;
  return total;
}

static struct dlc_publish_options options_of(const struct source_tensor *tensor,
                                             const struct dlc_publish_options *options)
{
  struct dlc_publish_options own = *options;

  if (tensor->keep_layout)
    own.flags |= DLC_KEEP_LAYOUT;
  return own;
}

static void copy_in_chunks(char *to, const struct source_tensor *tensor, struct progress *progress)
{
  const char *from = tensor->view.data;

  for (uint64_t at = 0; at < tensor->size; at += CHUNK) {
    uint64_t size = tensor->size - at < CHUNK ? tensor->size - at : CHUNK;

    memcpy(to + at, from + at, size);
    progress_add(progress, size);
  }
}

/* The same as a put, a piece at a time, so that somebody who waits sees it move. */
static int publish_watched(struct dlc_client *client, const struct source_tensor *tensor,
                           const struct dlc_publish_options *options, struct progress *progress,
                           uint64_t *ret_version, struct dlc_error *reterr)
{
  DLManagedTensorVersioned *allocated = NULL;
  int r = dlc_alloc(client, &tensor->view, options, &allocated, reterr);

  if (r < 0)
    return r;
  copy_in_chunks(allocated->dl_tensor.data, tensor, progress);
  r = dlc_publish(client, tensor->name, allocated, options, ret_version, reterr);
  allocated->deleter(allocated);
  return r;
}

static int publish_one(struct dlc_client *client, const struct source_tensor *tensor,
                       const struct dlc_publish_options *options, struct progress *progress,
                       uint64_t *ret_version, struct dlc_error *reterr)
{
  struct dlc_publish_options own = options_of(tensor, options);

  if (progress->enabled && !tensor->keep_layout && tensor->size >= WATCHED_SIZE)
    return publish_watched(client, tensor, &own, progress, ret_version, reterr);
  return dlc_put(client, tensor->name, &tensor->view, &own, ret_version, reterr);
}

static int add_source(struct dlc_generation *generation, const struct source *source,
                      const struct dlc_publish_options *options, struct progress *progress,
                      const char **ret_failed, struct dlc_error *reterr)
{
  for (size_t i = 0; i < source->n_tensors; i++) {
    const struct source_tensor *tensor = &source->tensors[i];
    struct dlc_publish_options own = options_of(tensor, options);
    int r = dlc_add_copy(generation, tensor->name, &tensor->view, &own, reterr);

    if (r < 0) {
      *ret_failed = tensor->name;
      return r;
    }
    progress_add(progress, tensor->size);
  }
  return 0;
}

static int publish_generation(struct dlc_client *client, const struct source *sources,
                              size_t n_sources, const struct dlc_publish_options *options,
                              struct progress *progress, uint64_t *ret_version,
                              const char **ret_failed, struct dlc_error *reterr)
{
  struct dlc_generation *generation = NULL;
  int r = dlc_begin(client, options, &generation, reterr);

  for (size_t i = 0; r == 0 && i < n_sources; i++)
    r = add_source(generation, &sources[i], options, progress, ret_failed, reterr);
  if (r == 0)
    r = dlc_commit(generation, ret_version, reterr);
  dlc_generation_free(generation);
  return r;
}

int publish_sources(struct dlc_client *client, const struct source *sources, size_t n_sources,
                    const struct dlc_publish_options *options, struct progress *progress,
                    uint64_t *ret_version, const char **ret_failed, struct dlc_error *reterr)
{
  *ret_failed = NULL;
  if (publish_n_tensors(sources, n_sources) == 1) {
    *ret_failed = sources[0].tensors[0].name;
    return publish_one(client, &sources[0].tensors[0], options, progress, ret_version, reterr);
  }
  return publish_generation(client, sources, n_sources, options, progress, ret_version, ret_failed,
                            reterr);
}
