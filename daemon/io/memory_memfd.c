#include "io/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static int create_unsized(const char *label)
{
  int fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

  /* Before Linux 6.3. */
  if (fd < 0 && errno == EINVAL)
    fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  return fd < 0 ? -errno : fd;
}

int memory_memfd_new(const char *label, uint64_t size)
{
  dlp_auto_close int fd = create_unsized(label);

  if (fd < 0)
    return fd;
  if (size > INT64_MAX)
    return -EFBIG;
  /* A memfd comes open to everybody who can name it through /proc. */
  if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t)size) < 0)
    return -errno;
  return DLP_TAKE_FD(fd);
}

static int memfd_create_segment(void *context, uint64_t segment, uint64_t size)
{
  char label[64];

  (void)snprintf(label, sizeof(label), "dlpackd:%" PRIu64, segment);
  return memory_memfd_new(label, size);
}

/* FROZEN asks for WRITE too: FUTURE_WRITE alone would leave a producer's old mapping. */
static const int wanted_seals[] = {
    [SEGMENT_SEAL_READ_ONLY] = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE,
    [SEGMENT_SEAL_MUTABLE] = F_SEAL_GROW | F_SEAL_SHRINK,
    [SEGMENT_SEAL_FROZEN] = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE,
};

static int memfd_seal(void *context, int fd, enum segment_seal seal)
{
  int wanted = wanted_seals[seal];
  int seals = fcntl(fd, F_GET_SEALS);

  if (seals < 0)
    return -errno;
  if ((seals & wanted) != wanted && fcntl(fd, F_ADD_SEALS, wanted) < 0)
    return -errno;
  /* Others may reopen it by path for reading; what is mutable, nobody. */
  if (seal != SEGMENT_SEAL_MUTABLE && fchmod(fd, 0444) < 0)
    return -errno;
  if (!(seals & F_SEAL_SEAL) && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) < 0)
    return -errno;
  return 0;
}

static int memfd_find_hole(void *context, int fd, uint64_t offset, uint64_t *ret)
{
  return memory_find_hole(fd, offset, ret);
}

static int memfd_open_read_only(void *context, uint64_t segment, int fd)
{
  return memory_reopen_read_only(fd);
}

static void memfd_forget(void *context, uint64_t segment)
{
}

void memory_memfd_backend(struct storage_backend *ret)
{
  *ret = (struct storage_backend){
      .name = "memfd",
      .backend = MSG_BACKEND_MEMFD,
      .seals = true,
      .create = memfd_create_segment,
      .seal = memfd_seal,
      .find_hole = memfd_find_hole,
      .open_read_only = memfd_open_read_only,
      .forget = memfd_forget,
  };
}
