#ifndef DLPACKD_TESTS_HEADER_DLPACK_LAYOUT_H
#define DLPACKD_TESTS_HEADER_DLPACK_LAYOUT_H

/*
 * The layout of DLPack's structs on 64-bit machines, as every copy of dlpack.h and every
 * process that exchanges tensors has it. It can never change. C99 and C++11. Copies of 1.0 and
 * 1.1 give the versioned form a tag but, in C, no typedef: so the tag is used here.
 */
#include <stddef.h>

#define FROZEN_JOIN_(a, b) a##b
#define FROZEN_JOIN(a, b) FROZEN_JOIN_(a, b)
#define FROZEN(condition) typedef char FROZEN_JOIN(frozen_, __LINE__)[(condition) ? 1 : -1]

FROZEN(sizeof(void *) == 8);

FROZEN(sizeof(DLPackVersion) == 8);
FROZEN(offsetof(DLPackVersion, major) == 0);
FROZEN(offsetof(DLPackVersion, minor) == 4);

FROZEN(sizeof(DLDevice) == 8);
FROZEN(offsetof(DLDevice, device_type) == 0);
FROZEN(offsetof(DLDevice, device_id) == 4);

FROZEN(sizeof(DLDataType) == 4);
FROZEN(offsetof(DLDataType, code) == 0);
FROZEN(offsetof(DLDataType, bits) == 1);
FROZEN(offsetof(DLDataType, lanes) == 2);

FROZEN(sizeof(DLTensor) == 48);
FROZEN(offsetof(DLTensor, data) == 0);
FROZEN(offsetof(DLTensor, device) == 8);
FROZEN(offsetof(DLTensor, ndim) == 16);
FROZEN(offsetof(DLTensor, dtype) == 20);
FROZEN(offsetof(DLTensor, shape) == 24);
FROZEN(offsetof(DLTensor, strides) == 32);
FROZEN(offsetof(DLTensor, byte_offset) == 40);

FROZEN(sizeof(struct DLManagedTensor) == 64);
FROZEN(offsetof(struct DLManagedTensor, dl_tensor) == 0);
FROZEN(offsetof(struct DLManagedTensor, manager_ctx) == 48);
FROZEN(offsetof(struct DLManagedTensor, deleter) == 56);

FROZEN(sizeof(struct DLManagedTensorVersioned) == 80);
FROZEN(offsetof(struct DLManagedTensorVersioned, version) == 0);
FROZEN(offsetof(struct DLManagedTensorVersioned, manager_ctx) == 8);
FROZEN(offsetof(struct DLManagedTensorVersioned, deleter) == 16);
FROZEN(offsetof(struct DLManagedTensorVersioned, flags) == 24);
FROZEN(offsetof(struct DLManagedTensorVersioned, dl_tensor) == 32);

FROZEN(DLPACK_FLAG_BITMASK_READ_ONLY == 1);
FROZEN(DLPACK_FLAG_BITMASK_IS_COPIED == 2);
FROZEN(DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED == 4);

FROZEN(kDLCPU == 1);
FROZEN(kDLCUDA == 2);
FROZEN(kDLCUDAHost == 3);
FROZEN(kDLROCMHost == 11);
FROZEN(kDLInt == 0);
FROZEN(kDLUInt == 1);
FROZEN(kDLFloat == 2);
FROZEN(kDLBfloat == 4);
FROZEN(kDLComplex == 5);

/* dlc_view() stands for a DLTensor without a copy: the same layout, field by field. */
FROZEN(sizeof(struct dlc_view) == sizeof(DLTensor));
FROZEN(offsetof(struct dlc_view, data) == offsetof(DLTensor, data));
FROZEN(offsetof(struct dlc_view, device_type) == offsetof(DLTensor, device));
FROZEN(offsetof(struct dlc_view, device_id) ==
       offsetof(DLTensor, device) + offsetof(DLDevice, device_id));
FROZEN(offsetof(struct dlc_view, ndim) == offsetof(DLTensor, ndim));
FROZEN(offsetof(struct dlc_view, dtype_code) == offsetof(DLTensor, dtype));
FROZEN(offsetof(struct dlc_view, dtype_bits) == offsetof(DLTensor, dtype) + 1);
FROZEN(offsetof(struct dlc_view, dtype_lanes) == offsetof(DLTensor, dtype) + 2);
FROZEN(offsetof(struct dlc_view, shape) == offsetof(DLTensor, shape));
FROZEN(offsetof(struct dlc_view, strides) == offsetof(DLTensor, strides));
FROZEN(offsetof(struct dlc_view, byte_offset) == offsetof(DLTensor, byte_offset));

#endif
