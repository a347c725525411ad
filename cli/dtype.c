#include "dtype.h"

#include <stddef.h>
#include <string.h>

#include "dlclient_dlpack.h"

static const struct {
  struct dtype dtype;
  const char *npy;
  const char *safetensors;
} dtypes[] = {
    {{kDLBool, 8, 1}, "|b1", "BOOL"},
    {{kDLInt, 8, 1}, "|i1", "I8"},
    {{kDLInt, 16, 1}, "<i2", "I16"},
    {{kDLInt, 32, 1}, "<i4", "I32"},
    {{kDLInt, 64, 1}, "<i8", "I64"},
    {{kDLUInt, 8, 1}, "|u1", "U8"},
    {{kDLUInt, 16, 1}, "<u2", "U16"},
    {{kDLUInt, 32, 1}, "<u4", "U32"},
    {{kDLUInt, 64, 1}, "<u8", "U64"},
    {{kDLFloat, 16, 1}, "<f2", "F16"},
    {{kDLFloat, 32, 1}, "<f4", "F32"},
    {{kDLFloat, 64, 1}, "<f8", "F64"},
    {{kDLComplex, 64, 1}, "<c8", "C64"},
    {{kDLComplex, 128, 1}, "<c16", NULL},
    {{kDLBfloat, 16, 1}, NULL, "BF16"},
    {{kDLFloat8_e4m3fn, 8, 1}, NULL, "F8_E4M3"},
    {{kDLFloat8_e5m2, 8, 1}, NULL, "F8_E5M2"},
    {{kDLFloat8_e8m0fnu, 8, 1}, NULL, "F8_E8M0"},
    {{kDLFloat8_e4m3fnuz, 8, 1}, NULL, "F8_E4M3FNUZ"},
    {{kDLFloat8_e5m2fnuz, 8, 1}, NULL, "F8_E5M2FNUZ"},
    {{kDLFloat6_e2m3fn, 6, 1}, NULL, "F6_E2M3"},
    {{kDLFloat6_e3m2fn, 6, 1}, NULL, "F6_E3M2"},
    {{kDLFloat4_e2m1fn, 4, 1}, NULL, "F4"},
};

#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

bool dtype_equal(struct dtype a, struct dtype b)
{
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

const char *dtype_to_npy(struct dtype dtype)
{
  for (size_t i = 0; i < N_DTYPES; i++)
    if (dtype_equal(dtypes[i].dtype, dtype))
      return dtypes[i].npy;
  return NULL;
}

const char *dtype_to_safetensors(struct dtype dtype)
{
  for (size_t i = 0; i < N_DTYPES; i++)
    if (dtype_equal(dtypes[i].dtype, dtype))
      return dtypes[i].safetensors;
  return NULL;
}

/* "=" is the byte order of the machine, which is little on all we run on; "|" says that
 * there is none, and some writers use "<" there. So the first character tells nothing. */
bool dtype_from_npy(const char *descr, struct dtype *ret)
{
  if (!*descr || !strchr("<|=", descr[0]))
    return false;
  for (size_t i = 0; i < N_DTYPES; i++)
    if (dtypes[i].npy && strcmp(dtypes[i].npy + 1, descr + 1) == 0) {
      *ret = dtypes[i].dtype;
      return true;
    }
  return false;
}

bool dtype_from_safetensors(const char *name, struct dtype *ret)
{
  for (size_t i = 0; i < N_DTYPES; i++)
    if (dtypes[i].safetensors && strcmp(dtypes[i].safetensors, name) == 0) {
      *ret = dtypes[i].dtype;
      return true;
    }
  return false;
}

uint64_t dtype_element_bits(struct dtype dtype, bool padded)
{
  if (padded && dtype.bits < 8)
    return 8 * (uint64_t)dtype.lanes;
  return (uint64_t)dtype.bits * dtype.lanes;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "files are little-endian and are copied as they are");
