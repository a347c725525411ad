#include "sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"

enum {
  CHUNK = 4 << 20,
};

struct dtype sink_dtype(const DLTensor *tensor)
{
  return (struct dtype){tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes};
}

struct layout sink_layout(const DLTensor *tensor)
{
  return (struct layout){tensor->ndim, tensor->shape, tensor->strides};
}

bool sink_is_padded(const DLManagedTensorVersioned *managed)
{
  return managed->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
}

static uint64_t element_bits(const DLManagedTensorVersioned *managed)
{
  return dtype_element_bits(sink_dtype(&managed->dl_tensor), sink_is_padded(managed));
}

uint64_t sink_size(const DLManagedTensorVersioned *managed)
{
  struct layout layout = sink_layout(&managed->dl_tensor);
  uint64_t n_elements = layout_n_elements(&layout);
  uint64_t bits = element_bits(managed);

  return bits % 8 == 0 ? n_elements * (bits / 8) : (n_elements * bits + 7) / 8;
}

static const char *first_byte(const DLManagedTensorVersioned *managed)
{
  return (const char *)managed->dl_tensor.data + managed->dl_tensor.byte_offset;
}

static int write_bytes(struct file_out *file, const char *bytes, uint64_t size,
                       struct progress *progress)
{
  for (uint64_t at = 0; at < size; at += CHUNK) {
    uint64_t part = size - at < CHUNK ? size - at : CHUNK;
    int r = file_out_write(file, bytes + at, part);

    if (r < 0)
      return r;
    progress_add(progress, part);
  }
  return 0;
}

int sink_write_as_it_lies(struct file_out *file, const DLManagedTensorVersioned *managed,
                          struct progress *progress)
{
  return write_bytes(file, first_byte(managed), sink_size(managed), progress);
}

/* A buffer that is written out whenever it is full. */
struct gather {
  struct file_out *file;
  struct progress *progress;
  char *buffer;
  size_t used;
};

static int gather_flush(struct gather *gather)
{
  int r = write_bytes(gather->file, gather->buffer, gather->used, gather->progress);

  gather->used = 0;
  return r;
}

static int gather_run(struct gather *gather, const char *first, const struct layout_run *run,
                      size_t element_size)
{
  int r = 0;

  for (int64_t i = 0; r == 0 && i < run->count; i++) {
    int64_t element = run->offset + i * run->stride;

    if (gather->used + element_size > CHUNK)
      r = gather_flush(gather);
    memcpy(gather->buffer + gather->used, first + element * (int64_t)element_size, element_size);
    gather->used += element_size;
  }
  return r;
}

int sink_write(struct file_out *file, const DLManagedTensorVersioned *managed,
               struct progress *progress)
{
  struct layout layout = sink_layout(&managed->dl_tensor);
  cli_auto_free char *buffer = NULL;
  struct gather gather = {file, progress, NULL, 0};
  struct layout_walk walk;
  struct layout_run run;
  int r = 0;

  /* Elements within a byte are compact, the library sees to that. */
  if (layout_is_row_major(&layout) || element_bits(managed) % 8 != 0)
    return sink_write_as_it_lies(file, managed, progress);
  gather.buffer = buffer = malloc(CHUNK);
  if (!buffer)
    return -ENOMEM;
  layout_walk_init(&walk, &layout);
  while (r == 0 && layout_walk_next(&walk, &run))
    r = gather_run(&gather, first_byte(managed), &run, element_bits(managed) / 8);
  return r == 0 ? gather_flush(&gather) : r;
}
