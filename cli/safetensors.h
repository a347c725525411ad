#ifndef DLPACKD_CLI_SAFETENSORS_H
#define DLPACKD_CLI_SAFETENSORS_H

/*
 * The .safetensors format: eight bytes of length, a JSON header, the tensors' bytes.
 *
 * The file comes from anywhere. What is accepted is what the format promises: each
 * tensor's range has the size its dtype and shape say, and the ranges follow each
 * other without holes or overlaps from the first byte of the data to the last.
 *
 * A header is written in the order that the format's own library uses (widest type
 * first, then by name), padded so that the data is 8-byte aligned.
 *
 * Pure. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "layout.h"
#include "text.h"

/* For a header that is not in its file any more: its ranges say how long that was. */
#define SAFETENSORS_SIZE_UNKNOWN UINT64_MAX

enum {
  SAFETENSORS_E_FORMAT = 1, /* not a file that can be taken; `reason` says why */
};

struct safetensors_tensor {
  char *name; /* as in the file */
  struct dtype dtype;
  int32_t ndim;
  int64_t shape[LAYOUT_NDIM_MAX];
  uint64_t begin; /* in the data section, in bytes */
  uint64_t end;
  size_t index; /* the caller's own; goes with the tensor when they are sorted */
};

struct safetensors {
  struct safetensors_tensor *tensors; /* in the order of their bytes */
  size_t n_tensors;
  char *metadata;       /* the JSON text of __metadata__; NULL if there is none */
  uint64_t data_offset; /* of the data section, in the file; what is before is the header */
  uint64_t data_size;
};

void safetensors_deinit(struct safetensors *file); /* twice is harmless */

/*
 * Reads the header of a file; `header` is all of it, or its beginning with at least the
 * whole header, and `file_size` what the file is long, or SAFETENSORS_SIZE_UNKNOWN.
 * Return: 0, SAFETENSORS_E_FORMAT with a sentence, not escaped, in `reason`, or -ENOMEM.
 */
int safetensors_parse(const void *header, size_t size, uint64_t file_size, struct safetensors *ret,
                      struct text *reason);

/*
 * Sorts the tensors, gives them their ranges, and appends length and header. Every dtype
 * must be one of the format's; `metadata` is JSON text or NULL.
 * Return: 0, SAFETENSORS_E_FORMAT with a sentence in `reason`, or -ENOMEM.
 */
int safetensors_format(struct text *text, struct safetensors_tensor *tensors, size_t n_tensors,
                       const char *metadata, struct text *reason);

/* Bytes of a tensor; false if that overflows or is no whole number of them. */
bool safetensors_tensor_size(const struct safetensors_tensor *tensor, uint64_t *ret);

#endif
