#include "backend.h"

#include "io/memory.h"

const bool backend_is_sparse = true;

void backend_setup(struct storage_backend *ret)
{
  memory_memfd_backend(ret);
}

bool backend_has_name(uint64_t segment)
{
  return false;
}
