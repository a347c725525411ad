#ifndef DLPACKD_CLIENT_IMPORT_H
#define DLPACKD_CLIENT_IMPORT_H

/*
 * What a caller hands in, checked before anything of it is used.
 *
 * Libraries give out null strides, negative and zero strides, byte offsets, null
 * data of empty tensors, null deleters; all of that is legal somewhere. What no
 * reader could survive (a negative rank, sizes that overflow, device memory) is
 * refused by name.
 *
 * Pure. Any thread.
 */

#include "dlclient_dlpack.h"
#include "proto/tensor_spec.h"

/* A tensor in this process's memory. Shape and strides are the caller's. */
struct dlc__source {
  struct msg_spec spec;
  const uint8_t *zero;         /* element zero; NULL if there is none */
  struct tensor_extent extent; /* the bytes it touches, from `zero` */
  uint64_t compact_size;
};

/* Return: 0 or a negated code. */
int dlc__import_view(const struct dlc_view *view, uint32_t spec_flags, struct dlc__source *ret,
                     struct dlc_error *reterr);
/* Of another major version nothing but the version is read. */
int dlc__import_versioned(const DLManagedTensorVersioned *managed, struct dlc__source *ret,
                          struct dlc_error *reterr);
int dlc__import_legacy(const DLManagedTensor *managed, struct dlc__source *ret,
                       struct dlc_error *reterr);

/* Only dtype, rank, shape and device of a prototype: no data, compact. */
int dlc__import_prototype(const struct dlc_view *view, struct dlc__source *ret,
                          struct dlc_error *reterr);

#endif
