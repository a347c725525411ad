#ifndef DLPACKD_CLI_SOURCE_H
#define DLPACKD_CLI_SOURCE_H

/*
 * A file to be published, as tensors whose bytes are the file's own.
 *
 * The views point into the mapped file: publishing copies once, from the file's pages to
 * shared memory. A .safetensors file gives one tensor per entry below its name, and its
 * header as a vector of bytes called NAME/.safetensors, from which the same file can be
 * made again.
 *
 * One thread at a time.
 */

#include "dlclient.h"
#include "file_in.h"
#include "file_type.h"
#include "npy.h"
#include "safetensors.h"

/* Below the name of what was put from a .safetensors file. */
#define SOURCE_HEADER_NAME ".safetensors"

enum {
  SOURCE_E_FORMAT = 1, /* the file is not what it should be; `reason` says why */
};

struct source_tensor {
  char *name; /* whole, ready to publish */
  struct dlc_view view;
  uint64_t size; /* bytes */
  bool keep_layout;
};

struct source {
  struct file_in file;
  struct npy npy;
  struct safetensors safetensors;
  int64_t bytes_shape[1]; /* of the one vector of bytes: a raw file, or the header */
  int64_t strides[LAYOUT_NDIM_MAX];
  struct source_tensor *tensors;
  size_t n_tensors;
};

/*
 * Opens `path` ("-" is standard input) to be published under `name`. The source must not
 * move afterwards: its views point into it.
 * Return: 0, a negative errno, or SOURCE_E_FORMAT with a sentence in `reason`.
 */
int source_open(struct source *source, const char *path, enum file_type type, const char *name,
                struct text *reason);

/* `prefix` and a slash, which it may have already. */
void source_append_prefix(struct text *text, const char *prefix);

void source_close(struct source *source); /* twice is harmless */

#endif
