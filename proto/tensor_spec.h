#ifndef DLPACKD_PROTO_TENSOR_SPEC_H
#define DLPACKD_PROTO_TENSOR_SPEC_H

/*
 * Is this dtype, shape and stride sane, and which bytes may it touch?
 *
 * The rules of DLPack 1.3 for what a tensor may be, with everything checked
 * against overflow. The daemon asks it of what a client sends; the library asks
 * it of what its caller passes, and of what the daemon sends.
 *
 * Sub-byte types (fp4, fp6, int4, bits below 8) are packed, element i at bits
 * i*bits upward, and must be compact; with MSG_SPEC_SUBBYTE_PADDED each element
 * takes a whole byte instead.
 *
 * Pure. Any thread.
 */

#include <stdbool.h>

#include "proto/message.h"

enum {
  TENSOR_SPEC_E_DTYPE = 1, /* unknown code, width or lanes */
  TENSOR_SPEC_E_NDIM,      /* above DLP_NDIM_MAX */
  TENSOR_SPEC_E_SHAPE,     /* a negative dimension, or more elements or bytes than INT64_MAX */
  TENSOR_SPEC_E_STRIDES,   /* overflow, or a packed sub-byte type that is not compact */
};

/* The bytes a tensor touches, relative to its element zero: [low, high). Both 0
 * if it has no elements; low is negative if a stride is. */
struct tensor_extent {
  int64_t low;
  int64_t high;
};

/* Return: 0, or TENSOR_SPEC_E_DTYPE. Checks code, bits, lanes and flags together. */
int tensor_spec_check_dtype(uint32_t code, uint32_t bits, uint32_t lanes, uint32_t flags);

/*
 * A sentence for people about what is wrong with a dtype, shape or strides; for
 * the condition that tensor_spec_extent() or _check_dtype() returned.
 */
void tensor_spec_describe(const struct msg_spec *spec, int condition, char *buffer, size_t size);

/*
 * Checks everything. `ret` may be NULL.
 * Return: 0, or a TENSOR_SPEC_E_* condition.
 */
int tensor_spec_extent(const struct msg_spec *spec, struct tensor_extent *ret);

/*
 * Bytes the tensor takes when it is written compactly, whatever its strides.
 * Return: 0, or a TENSOR_SPEC_E_* condition.
 */
int tensor_spec_compact_size(const struct msg_spec *spec, uint64_t *ret);

/* How many elements, and bytes of one; the spec must have passed a check.
 * Packed sub-byte types have no byte size of an element: 0. */
uint64_t tensor_spec_n_elements(const struct msg_spec *spec);
uint32_t tensor_spec_element_size(const struct msg_spec *spec);

/* Row-major without gaps? Dimensions of 1 and tensors without elements do not
 * mind their strides. The spec must have passed a check. */
bool tensor_spec_is_compact(const struct msg_spec *spec);

/* Fills `ndim` compact row-major strides. The spec must have passed a check. */
void tensor_spec_compact_strides(const struct msg_spec *spec, int64_t *ret_strides);

/* "float32", "bfloat16", "float8_e4m3fn", "int4", "complex64", "float32x4"; for an
 * unknown type "code7_bits3". Writes at most `size` bytes with the NUL. */
void tensor_dtype_name(uint32_t code, uint32_t bits, uint32_t lanes, char *buffer, size_t size);

#endif
