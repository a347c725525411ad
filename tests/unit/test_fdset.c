#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "common/fdset.h"
#include "support/fds.h"

struct fixture {
  size_t fds_before;
  struct dlp_fdset set;
};

static int setup(void **state)
{
  struct fixture *fixture = malloc(sizeof(*fixture));

  assert_non_null(fixture);
  fixture->fds_before = test_count_fds();
  dlp_fdset_init(&fixture->set);
  *state = fixture;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;
  size_t fds_before = fixture->fds_before;

  dlp_fdset_deinit(&fixture->set);
  free(fixture);
  return test_count_fds() == fds_before ? 0 : -1;
}

static int some_fd(void)
{
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

  assert_true(fd >= 0);
  return fd;
}

static void fill(struct dlp_fdset *set, size_t n)
{
  while (n-- > 0)
    assert_int_equal(dlp_fdset_add_consume(set, some_fd()), 0);
}

static void deinit_closes_what_is_left(void **state)
{
  struct fixture *fixture = *state;

  fill(&fixture->set, 3);
  assert_int_equal(test_count_fds(), fixture->fds_before + 3);
  dlp_fdset_deinit(&fixture->set);
  assert_int_equal(test_count_fds(), fixture->fds_before);
}

static void deinit_twice_closes_nothing_else(void **state)
{
  struct fixture *fixture = *state;
  int fd;

  fill(&fixture->set, 1);
  fd = dlp_fdset_get(&fixture->set, 0);
  dlp_fdset_deinit(&fixture->set);
  assert_int_equal(some_fd(), fd); /* the number is in use again */
  dlp_fdset_deinit(&fixture->set);
  assert_true(fcntl(fd, F_GETFD) >= 0);
  dlp_close(fd);
}

static void deinit_keeps_errno(void **state)
{
  struct fixture *fixture = *state;

  fill(&fixture->set, 1);
  dlp_close(dlp_fdset_get(&fixture->set, 0)); /* so that close() fails */
  errno = EXDEV;
  dlp_fdset_deinit(&fixture->set);
  assert_int_equal(errno, EXDEV);
}

static void get_lends_and_steal_moves_out(void **state)
{
  struct fixture *fixture = *state;
  int fd;

  fill(&fixture->set, 2);
  fd = dlp_fdset_get(&fixture->set, 1);
  assert_int_equal(dlp_fdset_get(&fixture->set, 1), fd);
  assert_int_equal(dlp_fdset_steal(&fixture->set, 1), fd);
  assert_int_equal(dlp_fdset_get(&fixture->set, 1), -1);
  assert_int_equal(dlp_fdset_steal(&fixture->set, 1), -1);

  dlp_fdset_deinit(&fixture->set);
  assert_true(fcntl(fd, F_GETFD) >= 0);
  dlp_close(fd);
}

static void stealing_one_leaves_the_others_where_they_are(void **state)
{
  struct fixture *fixture = *state;
  int last;

  fill(&fixture->set, 3);
  last = dlp_fdset_get(&fixture->set, 2);
  dlp_close(dlp_fdset_steal(&fixture->set, 0));
  assert_int_equal(dlp_fdset_get(&fixture->set, 2), last);
  assert_int_equal(fixture->set.size, 3);
}

/* Indices come from messages. */
static void index_beyond_the_set_is_no_descriptor(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(dlp_fdset_get(&fixture->set, 0), -1);
  fill(&fixture->set, 1);
  assert_int_equal(dlp_fdset_get(&fixture->set, 1), -1);
  assert_int_equal(dlp_fdset_get(&fixture->set, UINT32_MAX), -1);
  assert_int_equal(dlp_fdset_steal(&fixture->set, SIZE_MAX), -1);
}

static void full_set_leaves_the_descriptor_with_the_caller(void **state)
{
  struct fixture *fixture = *state;
  int fd;

  fill(&fixture->set, DLP_FDSET_MAX);
  fd = some_fd();
  assert_int_equal(dlp_fdset_add_consume(&fixture->set, fd), -ENOSPC);
  assert_true(fcntl(fd, F_GETFD) >= 0);
  dlp_close(fd);
}

static void set_that_is_a_local_closes_at_the_end_of_its_block(void **state)
{
  struct fixture *fixture = *state;

  {
    dlp_auto_fdset struct dlp_fdset local;
    dlp_fdset_init(&local);
    fill(&local, 5);
  }
  assert_int_equal(test_count_fds(), fixture->fds_before);
}

#define with_set(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    with_set(deinit_closes_what_is_left),
    with_set(deinit_twice_closes_nothing_else),
    with_set(deinit_keeps_errno),
    with_set(get_lends_and_steal_moves_out),
    with_set(stealing_one_leaves_the_others_where_they_are),
    with_set(index_beyond_the_set_is_no_descriptor),
    with_set(full_set_leaves_the_descriptor_with_the_caller),
    with_set(set_that_is_a_local_closes_at_the_end_of_its_block),
};

TEST_MAIN(tests)
