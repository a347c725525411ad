#include "io/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

#define SHM_DIRECTORY "/dev/shm"
#define SHM_NAME_SIZE 64

/* FNV-1a: nobody is to be kept from finding a collision, it only names. */
static uint64_t hash(uint64_t value, const void *bytes, size_t size)
{
  const uint8_t *at = bytes;

  for (size_t i = 0; i < size; i++)
    value = (value ^ at[i]) * UINT64_C(0x100000001b3);
  return value;
}

static void segment_name(char name[SHM_NAME_SIZE], const struct memory_posix_shm *shm,
                         uint64_t segment)
{
  (void)snprintf(name, SHM_NAME_SIZE, "/dlpackd-%016" PRIx64 "-%" PRIu64, shm->instance, segment);
}

static void remove_leftovers(const struct memory_posix_shm *shm)
{
  char prefix[SHM_NAME_SIZE];
  DIR *directory = opendir(SHM_DIRECTORY);
  struct dirent *entry;
  int length;

  if (!directory)
    return;
  length = snprintf(prefix, sizeof(prefix), "dlpackd-%016" PRIx64 "-", shm->instance);
  while ((entry = readdir(directory))) {
    struct stat st;

    if (strncmp(entry->d_name, prefix, (size_t)length) != 0)
      continue;
    if (fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_uid == geteuid())
      (void)unlinkat(dirfd(directory), entry->d_name, 0);
  }
  (void)closedir(directory);
}

uint64_t memory_posix_shm_instance(const char *socket_path)
{
  uid_t uid = geteuid();
  struct stat st = {0};
  uint64_t instance;

  /* Containers that share /dev/shm have the same paths and users, but no file system. */
  (void)stat(socket_path, &st);
  instance = hash(UINT64_C(0xcbf29ce484222325), socket_path, strlen(socket_path));
  instance = hash(instance, &uid, sizeof(uid));
  return hash(instance, &st.st_dev, sizeof(st.st_dev));
}

void memory_posix_shm_init(struct memory_posix_shm *shm, const char *socket_path)
{
  shm->instance = memory_posix_shm_instance(socket_path);
  remove_leftovers(shm);
}

static int shm_create(void *context, uint64_t segment, uint64_t size)
{
  dlp_auto_close int fd = -1;
  char name[SHM_NAME_SIZE];
  int r;

  if (size > INT64_MAX)
    return -EFBIG;
  segment_name(name, context, segment);
  fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    return -errno;
  r = ftruncate(fd, (off_t)size) < 0 ? -errno : -posix_fallocate(fd, 0, (off_t)size);
  if (r < 0) {
    (void)shm_unlink(name);
    return r;
  }
  return DLP_TAKE_FD(fd);
}

static int shm_seal(void *context, int fd, enum segment_seal seal)
{
  if (seal == SEGMENT_SEAL_FROZEN)
    return -EOPNOTSUPP;
  /* Whoever may write has a descriptor already. */
  return fchmod(fd, 0400) < 0 ? -errno : 0;
}

/* All pages were reserved at creation; the kernel calls a reserved page a hole until it
 * is written. Only our own user could have punched holes since, to its own harm. */
static int shm_find_hole(void *context, int fd, uint64_t offset, uint64_t *ret)
{
  struct stat st;

  if (fstat(fd, &st) < 0)
    return -errno;
  if ((uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size)
    return memory_find_hole(fd, offset, ret);
  if (offset > (uint64_t)st.st_size)
    return -EINVAL;
  *ret = (uint64_t)st.st_size;
  return 0;
}

static int shm_open_read_only(void *context, uint64_t segment, int fd)
{
  return memory_reopen_read_only(fd);
}

static void shm_forget(void *context, uint64_t segment)
{
  char name[SHM_NAME_SIZE];

  segment_name(name, context, segment);
  (void)shm_unlink(name);
}

void memory_posix_shm_backend(struct storage_backend *ret, struct memory_posix_shm *shm)
{
  *ret = (struct storage_backend){
      .name = "posix-shm",
      .backend = MSG_BACKEND_POSIX_SHM,
      .seals = false,
      .create = shm_create,
      .seal = shm_seal,
      .find_hole = shm_find_hole,
      .open_read_only = shm_open_read_only,
      .forget = shm_forget,
      .context = shm,
  };
}
