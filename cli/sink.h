#ifndef DLPACKD_CLI_SINK_H
#define DLPACKD_CLI_SINK_H

/*
 * Tensors -> a file: their elements, row-major and without gaps, straight from shared
 * memory where they lie so already.
 *
 * One thread at a time.
 */

#include "dlclient_dlpack.h"
#include "dtype.h"
#include "file_out.h"
#include "layout.h"
#include "progress.h"

struct dtype sink_dtype(const DLTensor *tensor);
struct layout sink_layout(const DLTensor *tensor);

/* Sub-byte elements that take a whole byte each? */
bool sink_is_padded(const DLManagedTensorVersioned *managed);

/* Bytes that sink_write() writes. */
uint64_t sink_size(const DLManagedTensorVersioned *managed);

/* Return: 0 or a negative errno. */
int sink_write(struct file_out *file, const DLManagedTensorVersioned *managed,
               struct progress *progress);

/* As the elements lie; the tensor must be column-major. Return: 0 or a negative errno. */
int sink_write_as_it_lies(struct file_out *file, const DLManagedTensorVersioned *managed,
                          struct progress *progress);

#endif
