#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

int bench_memfd(size_t size)
{
  int fd = memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);

  bench_check(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "memfd");
  return fd;
}

uint8_t *bench_map(int fd, size_t size)
{
  uint8_t *base = (uint8_t *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

  bench_check(base != MAP_FAILED, "mmap");
  return base;
}

uint8_t *bench_warm(size_t size)
{
  uint8_t *bytes = (uint8_t *)aligned_alloc(4096, (size + 4095) / 4096 * 4096);

  bench_check(bytes, "a source");
  memset(bytes, 7, size);
  return bytes;
}

uint8_t *bench_warm_shared(int fd, size_t size)
{
  uint8_t *base = bench_map(fd, size);

  memset(base, 1, size);
  return base;
}
