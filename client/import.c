#include "client/import.h"

#include <stddef.h>
#include <stdio.h>

#include "client/error.h"

/* struct dlc_view is DLTensor, field by field. */
_Static_assert(sizeof(struct dlc_view) == sizeof(DLTensor), "size of DLTensor");
_Static_assert(offsetof(struct dlc_view, device_type) == offsetof(DLTensor, device), "device");
_Static_assert(offsetof(struct dlc_view, ndim) == offsetof(DLTensor, ndim), "ndim");
_Static_assert(offsetof(struct dlc_view, dtype_code) == offsetof(DLTensor, dtype), "dtype");
_Static_assert(offsetof(struct dlc_view, dtype_lanes) ==
                   offsetof(DLTensor, dtype) + offsetof(DLDataType, lanes),
               "lanes");
_Static_assert(offsetof(struct dlc_view, shape) == offsetof(DLTensor, shape), "shape");
_Static_assert(offsetof(struct dlc_view, strides) == offsetof(DLTensor, strides), "strides");
_Static_assert(offsetof(struct dlc_view, byte_offset) == offsetof(DLTensor, byte_offset), "offset");

#define KNOWN_FLAGS                                                \
  (DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED | \
   DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)

/* 19 to 21 are DLPack's from after 1.3. */
static const char *const device_names[] = {
    [kDLCPU] = "kDLCPU",
    [kDLCUDA] = "kDLCUDA",
    [kDLCUDAHost] = "kDLCUDAHost",
    [kDLOpenCL] = "kDLOpenCL",
    [kDLVulkan] = "kDLVulkan",
    [kDLMetal] = "kDLMetal",
    [kDLVPI] = "kDLVPI",
    [kDLROCM] = "kDLROCM",
    [kDLROCMHost] = "kDLROCMHost",
    [kDLExtDev] = "kDLExtDev",
    [kDLCUDAManaged] = "kDLCUDAManaged",
    [kDLOneAPI] = "kDLOneAPI",
    [kDLWebGPU] = "kDLWebGPU",
    [kDLHexagon] = "kDLHexagon",
    [kDLMAIA] = "kDLMAIA",
    [kDLTrn] = "kDLTrn",
    [19] = "kDLTPU",
    [20] = "kDLTPUHost",
    [21] = "kDLAscend",
};

static int import_device(int32_t type, struct dlc_error *reterr)
{
  const size_t n_names = sizeof(device_names) / sizeof(device_names[0]);
  const char *name = type > 0 && (size_t)type < n_names ? device_names[type] : NULL;

  if (type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost)
    return 0;
  return dlc__error_set(reterr, DLC_E_UNSUPPORTED, 0,
                        "the tensor is on device %s (type %d); only host memory can be published: "
                        "copy it to the CPU first",
                        name ? name : "of an unknown kind", type);
}

/* The negative rank is caught before anything is read by it. */
static int import_shape(const struct dlc_view *view, struct dlc_error *reterr)
{
  if (view->ndim < 0 || view->ndim > DLP_NDIM_MAX)
    return dlc__error_set(reterr, DLC_E_LAYOUT, 0, "ndim is %d; it must be 0 to %d", view->ndim,
                          DLP_NDIM_MAX);
  if (view->ndim > 0 && !view->shape)
    return dlc__error_set(reterr, DLC_E_LAYOUT, 0, "shape is NULL, but ndim is %d", view->ndim);
  return 0;
}

static int import_refuse(const struct msg_spec *spec, int condition, struct dlc_error *reterr)
{
  int code = condition == TENSOR_SPEC_E_DTYPE ? DLC_E_DTYPE : DLC_E_LAYOUT;
  char text[256];

  tensor_spec_describe(spec, condition, text, sizeof(text));
  return dlc__error_set(reterr, code, 0, "%s", text);
}

static int import_spec(struct dlc__source *source, struct dlc_error *reterr)
{
  int r = tensor_spec_extent(&source->spec, &source->extent);

  if (r == 0)
    r = tensor_spec_compact_size(&source->spec, &source->compact_size);
  return r == 0 ? 0 : import_refuse(&source->spec, r, reterr);
}

/* Where element zero is, if no byte of the tensor is beyond either end of memory. */
static int import_address(const struct dlc_view *view, struct dlc__source *source,
                          struct dlc_error *reterr)
{
  uintptr_t zero, end;

  if (source->extent.low == source->extent.high)
    return 0;
  if (!view->data)
    return dlc__error_set(reterr, DLC_E_LAYOUT, 0, "data is NULL, but the tensor has elements");
  if (__builtin_add_overflow((uintptr_t)view->data, view->byte_offset, &zero) ||
      __builtin_add_overflow(zero, source->extent.high, &end) ||
      __builtin_add_overflow(zero, source->extent.low, &end))
    return dlc__error_set(reterr, DLC_E_LAYOUT, 0,
                          "byte_offset %llu and the strides lead out of the address space",
                          (unsigned long long)view->byte_offset);
  source->zero = (const uint8_t *)zero;
  return 0;
}

static struct msg_spec import_describe(const struct dlc_view *view, uint32_t spec_flags)
{
  return (struct msg_spec){
      .code = view->dtype_code,
      .bits = view->dtype_bits,
      .lanes = view->dtype_lanes,
      .flags = spec_flags,
      .ndim = (size_t)view->ndim,
      .shape = view->shape,
      .strides = view->ndim > 0 ? view->strides : NULL,
  };
}

/* Device, shape and dtype, and strides if they count. */
static int import_layout(const struct dlc_view *view, uint32_t spec_flags, bool has_strides,
                         struct dlc__source *ret, struct dlc_error *reterr)
{
  int r = import_device(view->device_type, reterr);

  if (r < 0)
    return r;
  r = import_shape(view, reterr);
  if (r < 0)
    return r;
  ret->spec = import_describe(view, spec_flags);
  if (!has_strides)
    ret->spec.strides = NULL;
  return import_spec(ret, reterr);
}

int dlc__import_view(const struct dlc_view *view, uint32_t spec_flags, struct dlc__source *ret,
                     struct dlc_error *reterr)
{
  struct dlc__source source = {.zero = NULL};
  int r;

  if (!view)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "the tensor is NULL");
  r = import_layout(view, spec_flags, true, &source, reterr);
  if (r < 0)
    return r;
  r = import_address(view, &source, reterr);
  if (r == 0)
    *ret = source;
  return r;
}

int dlc__import_prototype(const struct dlc_view *view, struct dlc__source *ret,
                          struct dlc_error *reterr)
{
  struct dlc__source source = {.zero = NULL};
  int r;

  if (!view)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "the prototype is NULL");
  r = import_layout(view, 0, false, &source, reterr);
  if (r == 0)
    *ret = source;
  return r;
}

int dlc__import_versioned(const DLManagedTensorVersioned *managed, struct dlc__source *ret,
                          struct dlc_error *reterr)
{
  uint32_t spec_flags = 0;

  if (managed->version.major != DLPACK_MAJOR_VERSION)
    return dlc__error_set(reterr, DLC_E_VERSION, 0,
                          "the tensor is of DLPack %u.%u; this library knows version %d",
                          managed->version.major, managed->version.minor, DLPACK_MAJOR_VERSION);
  if (managed->flags & ~(uint64_t)KNOWN_FLAGS)
    return dlc__error_set(reterr, DLC_E_UNSUPPORTED, 0,
                          "the tensor has DLPack flags 0x%llx, of which 0x%llx are not known",
                          (unsigned long long)managed->flags,
                          (unsigned long long)(managed->flags & ~(uint64_t)KNOWN_FLAGS));
  if (managed->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
    spec_flags |= MSG_SPEC_SUBBYTE_PADDED;
  return dlc__import_view(dlc_view(&managed->dl_tensor), spec_flags, ret, reterr);
}

int dlc__import_legacy(const DLManagedTensor *managed, struct dlc__source *ret,
                       struct dlc_error *reterr)
{
  return dlc__import_view(dlc_view(&managed->dl_tensor), 0, ret, reterr);
}
