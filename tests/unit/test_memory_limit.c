#include "support/test.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/memory_limit.h"

#define MIB (UINT64_C(1) << 20)

/* A made-up mount of control groups. */
struct mount {
  char path[64];
  struct dlc__memory_limit limit;
};

static int mount_setup(void **state)
{
  struct mount *m = calloc(1, sizeof(*m));

  if (!m)
    return -1;
  strcpy(m->path, "/tmp/dlpackd-test-XXXXXX");
  dlc__memory_limit_init(&m->limit);
  *state = m;
  return mkdtemp(m->path) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
  return remove(path);
}

static int mount_teardown(void **state)
{
  struct mount *m = *state;

  (void)nftw(m->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  free(m);
  return 0;
}

static void mount_write(const struct mount *m, const char *directory, const char *file,
                        const char *text)
{
  char path[256];
  int fd;

  snprintf(path, sizeof(path), "%s%s", m->path, directory);
  (void)mkdir(path, 0700);
  snprintf(path, sizeof(path), "%s%s/%s", m->path, directory, file);
  fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
}

static void without_a_group_there_is_no_limit(void **state)
{
  struct mount *m = *state;

  dlc__memory_limit_read(&m->limit, "0::/\n", m->path);
  assert_true(m->limit.limit == UINT64_MAX);
  dlc__memory_limit_read(&m->limit, "nonsense", m->path);
  assert_true(m->limit.limit == UINT64_MAX);
}

static void the_tightest_group_on_the_way_up_counts(void **state)
{
  struct mount *m = *state;

  mount_write(m, "/outer", "memory.max", "8388608\n");
  mount_write(m, "/outer", "memory.current", "7340032\n");
  mount_write(m, "/outer/inner", "memory.max", "67108864\n");
  mount_write(m, "/outer/inner", "memory.current", "1048576\n");
  dlc__memory_limit_read(&m->limit, "0::/outer/inner\n", m->path);
  assert_int_equal(m->limit.limit, 8 * MIB);
  assert_int_equal(m->limit.used, 7 * MIB);
  assert_non_null(strstr(m->limit.group, "/outer"));
  assert_null(strstr(m->limit.group, "inner"));
}

static void a_group_that_says_max_has_no_limit(void **state)
{
  struct mount *m = *state;

  mount_write(m, "/g", "memory.max", "max\n");
  mount_write(m, "/g", "memory.current", "1048576\n");
  dlc__memory_limit_read(&m->limit, "0::/g\n", m->path);
  assert_true(m->limit.limit == UINT64_MAX);
}

static void page_cache_does_not_count_as_used(void **state)
{
  struct mount *m = *state;

  mount_write(m, "/g", "memory.max", "8388608\n");
  mount_write(m, "/g", "memory.current", "7340032\n");
  mount_write(m, "/g", "memory.stat", "anon 5\nactive_file 1048576\ninactive_file 4194304\n");
  dlc__memory_limit_read(&m->limit, "0::/g\n", m->path);
  assert_int_equal(m->limit.used, 2 * MIB);
}

static void version_1_is_read_from_its_memory_controller(void **state)
{
  struct mount *m = *state;

  mount_write(m, "/memory", "memory.limit_in_bytes", "9223372036854771712\n");
  mount_write(m, "/memory/g", "memory.limit_in_bytes", "4194304\n");
  mount_write(m, "/memory/g", "memory.usage_in_bytes", "1048576\n");
  dlc__memory_limit_read(&m->limit, "3:cpu,cpuacct:/x\n4:hugetlb,memory:/g\n", m->path);
  assert_int_equal(m->limit.limit, 4 * MIB);
}

static void what_does_not_fit_is_refused_with_the_limit_and_the_group(void **state)
{
  struct mount *m = *state;
  struct dlc_error error;

  m->limit = (struct dlc__memory_limit){.lock = PTHREAD_MUTEX_INITIALIZER,
                                        .read_at = dlc__clock_now(),
                                        .limit = 64 * MIB,
                                        .used = 60 * MIB,
                                        .group = "/sys/fs/cgroup/job"};
  assert_int_equal(dlc__memory_limit_check(&m->limit, 100 * MIB, &error), -DLC_E_NO_SPACE);
  assert_non_null(strstr(error.message, "67108864"));
  assert_non_null(strstr(error.message, "/sys/fs/cgroup/job"));
  assert_int_equal(dlc__memory_limit_check(&m->limit, 3 * MIB, &error), 0);
  /* Nothing was filled yet, but it is spoken for. */
  assert_int_equal(dlc__memory_limit_check(&m->limit, 3 * MIB, &error), -DLC_E_NO_SPACE);
  assert_int_equal(dlc__memory_limit_check(&m->limit, 1024, &error), 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, mount_setup, mount_teardown)

static const struct CMUnitTest tests[] = {
    CASE(without_a_group_there_is_no_limit),
    CASE(the_tightest_group_on_the_way_up_counts),
    CASE(a_group_that_says_max_has_no_limit),
    CASE(page_cache_does_not_count_as_used),
    CASE(version_1_is_read_from_its_memory_controller),
    CASE(what_does_not_fit_is_refused_with_the_limit_and_the_group),
};

TEST_MAIN(tests)
