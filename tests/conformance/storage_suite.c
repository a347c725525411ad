/*
 * What every backend of core/storage.h must do, whatever it is made of.
 */

#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend.h"
#include "common/cleanup.h"
#include "support/fds.h"

#define PAGE 4096
#define SIZE (16 * PAGE)
#define SEGMENT 7

struct fixture {
  struct storage_backend backend;
  size_t fds_before;
  int fd;
  int read_only;
  unsigned char *map;
};

static int setup(void **state)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));

  if (!fixture)
    return -1;
  backend_setup(&fixture->backend);
  fixture->fds_before = test_count_fds();
  fixture->read_only = -1;
  fixture->map = MAP_FAILED;
  fixture->fd = fixture->backend.create(fixture->backend.context, SEGMENT, SIZE);
  *state = fixture;
  return fixture->fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;
  int r;

  if (fixture->map != MAP_FAILED)
    (void)munmap(fixture->map, SIZE);
  (void)dlp_close(fixture->read_only);
  fixture->backend.forget(fixture->backend.context, SEGMENT);
  (void)dlp_close(fixture->fd);
  r = test_count_fds() == fixture->fds_before && !backend_has_name(SEGMENT) ? 0 : -1;
  free(fixture);
  return r;
}

static void map_writable(struct fixture *fixture)
{
  fixture->map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fixture->fd, 0);
  assert_ptr_not_equal(fixture->map, MAP_FAILED);
}

static int seal(struct fixture *fixture, enum segment_seal kind)
{
  return fixture->backend.seal(fixture->backend.context, fixture->fd, kind);
}

static uint64_t find_hole(struct fixture *fixture, uint64_t offset)
{
  uint64_t hole = 0;

  assert_int_equal(fixture->backend.find_hole(fixture->backend.context, fixture->fd, offset, &hole),
                   0);
  return hole;
}

static void open_read_only(struct fixture *fixture)
{
  fixture->read_only =
      fixture->backend.open_read_only(fixture->backend.context, SEGMENT, fixture->fd);
  assert_true(fixture->read_only >= 0);
}

static void a_segment_has_exactly_the_size_asked_for(void **state)
{
  struct fixture *fixture = *state;
  struct stat st;

  assert_int_equal(fstat(fixture->fd, &st), 0);
  assert_int_equal(st.st_size, SIZE);
}

static void a_segment_reads_as_zeros(void **state)
{
  struct fixture *fixture = *state;

  map_writable(fixture);
  for (size_t i = 0; i < SIZE; i++)
    assert_int_equal(fixture->map[i], 0);
}

static void a_segment_is_nobody_elses(void **state)
{
  struct fixture *fixture = *state;
  struct stat st;

  assert_int_equal(fstat(fixture->fd, &st), 0);
  assert_int_equal(st.st_mode & 07777, 0600);
}

static void descriptors_do_not_survive_exec(void **state)
{
  struct fixture *fixture = *state;

  open_read_only(fixture);
  assert_true(fcntl(fixture->fd, F_GETFD) & FD_CLOEXEC);
  assert_true(fcntl(fixture->read_only, F_GETFD) & FD_CLOEXEC);
}

static void what_is_written_is_read_through_the_read_only_descriptor(void **state)
{
  struct fixture *fixture = *state;
  unsigned char byte = 0;

  map_writable(fixture);
  fixture->map[PAGE + 3] = 0x5a;
  open_read_only(fixture);
  assert_int_equal(pread(fixture->read_only, &byte, 1, PAGE + 3), 1);
  assert_int_equal(byte, 0x5a);
}

static void the_read_only_descriptor_cannot_be_mapped_writable(void **state)
{
  struct fixture *fixture = *state;

  open_read_only(fixture);
  assert_ptr_equal(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fixture->read_only, 0),
                   MAP_FAILED);
  assert_int_equal(errno, EACCES);
  assert_int_equal(ftruncate(fixture->read_only, 0), -1);
}

static void a_read_only_descriptor_is_to_be_had_after_the_seal_too(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), 0);
  open_read_only(fixture);
}

static void its_producer_goes_on_filling_what_is_sealed(void **state)
{
  struct fixture *fixture = *state;

  map_writable(fixture);
  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), 0);
  fixture->map[0] = 1;
  assert_int_equal(fixture->map[0], 1);
}

static void sealing_again_is_harmless(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), 0);
  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), 0);
}

static void what_is_sealed_read_only_takes_no_new_writer(void **state)
{
  struct fixture *fixture = *state;

  if (!fixture->backend.seals)
    skip();
  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), 0);
  assert_ptr_equal(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fixture->fd, 0),
                   MAP_FAILED);
  assert_int_equal(pwrite(fixture->fd, "x", 1, 0), -1);
}

static void what_is_sealed_keeps_its_size_and_its_pages(void **state)
{
  struct fixture *fixture = *state;

  if (!fixture->backend.seals)
    skip();
  map_writable(fixture);
  memset(fixture->map, 1, SIZE);
  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), 0);
  assert_int_equal(ftruncate(fixture->fd, SIZE / 2), -1);
  assert_int_equal(ftruncate(fixture->fd, SIZE * 2), -1);
  assert_int_equal(fallocate(fixture->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE), -1);
  assert_int_equal(madvise(fixture->map, PAGE, MADV_REMOVE), -1);
  assert_int_equal(find_hole(fixture, 0), SIZE);
}

static void no_seal_can_be_added_by_others(void **state)
{
  struct fixture *fixture = *state;

  if (!fixture->backend.seals)
    skip();
  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), 0);
  assert_int_equal(fcntl(fixture->fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  assert_int_equal(errno, EPERM);
}

static void what_is_sealed_mutable_is_written_by_its_holders(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(seal(fixture, SEGMENT_SEAL_MUTABLE), 0);
  map_writable(fixture);
  fixture->map[0] = 1;
  if (fixture->backend.seals)
    assert_int_equal(ftruncate(fixture->fd, 0), -1);
}

static void freezing_waits_until_nobody_can_write(void **state)
{
  struct fixture *fixture = *state;

  if (!fixture->backend.seals) {
    assert_int_equal(seal(fixture, SEGMENT_SEAL_FROZEN), -EOPNOTSUPP);
    return;
  }
  map_writable(fixture);
  assert_int_equal(seal(fixture, SEGMENT_SEAL_FROZEN), -EBUSY);
  assert_int_equal(munmap(fixture->map, SIZE), 0);
  fixture->map = MAP_FAILED;
  assert_int_equal(seal(fixture, SEGMENT_SEAL_FROZEN), 0);
  assert_int_equal(pwrite(fixture->fd, "x", 1, 0), -1);
  assert_int_equal(seal(fixture, SEGMENT_SEAL_FROZEN), 0);
}

static void a_fresh_segment_has_the_pages_it_promises(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(find_hole(fixture, 0), backend_is_sparse ? 0 : SIZE);
}

static void a_page_that_nobody_touched_is_a_hole(void **state)
{
  struct fixture *fixture = *state;

  if (!backend_is_sparse)
    skip();
  map_writable(fixture);
  memset(fixture->map, 1, 3 * PAGE);
  memset(fixture->map + 4 * PAGE, 1, SIZE - 4 * PAGE);
  assert_int_equal(find_hole(fixture, 0), 3 * PAGE);
  assert_int_equal(find_hole(fixture, 3 * PAGE + 1), 3 * PAGE + 1);
  assert_int_equal(find_hole(fixture, 4 * PAGE), SIZE);
  assert_int_equal(find_hole(fixture, SIZE), SIZE);
}

static void a_hole_cannot_be_hidden_by_blocks_beyond_the_end(void **state)
{
  struct fixture *fixture = *state;

  if (!backend_is_sparse)
    skip();
  map_writable(fixture);
  memset(fixture->map, 1, SIZE - PAGE);
  assert_int_equal(fallocate(fixture->fd, FALLOC_FL_KEEP_SIZE, SIZE, 8 * PAGE), 0);
  assert_int_equal(find_hole(fixture, 0), SIZE - PAGE);
}

static void an_offset_beyond_the_end_is_refused(void **state)
{
  struct fixture *fixture = *state;
  uint64_t hole;

  assert_int_equal(
      fixture->backend.find_hole(fixture->backend.context, fixture->fd, SIZE + 1, &hole), -EINVAL);
  assert_int_equal(
      fixture->backend.find_hole(fixture->backend.context, fixture->fd, UINT64_MAX, &hole),
      -EINVAL);
}

static void a_size_beyond_all_memory_is_refused(void **state)
{
  struct fixture *fixture = *state;
  int r = fixture->backend.create(fixture->backend.context, SEGMENT + 1, UINT64_MAX - PAGE + 1);

  (void)dlp_close(r);
  assert_true(r < 0);
  assert_false(backend_has_name(SEGMENT + 1));
}

static void what_is_forgotten_has_no_name(void **state)
{
  struct fixture *fixture = *state;

  fixture->backend.forget(fixture->backend.context, SEGMENT);
  assert_false(backend_has_name(SEGMENT));
}

static void names_of_a_killed_daemon_are_removed_by_the_next(void **state)
{
  struct fixture *fixture = *state;
  struct storage_backend next;

  backend_setup(&next);
  assert_false(backend_has_name(SEGMENT));
  assert_int_equal(pwrite(fixture->fd, "x", 1, 0), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(a_segment_has_exactly_the_size_asked_for),
    TEST(a_segment_reads_as_zeros),
    TEST(a_segment_is_nobody_elses),
    TEST(descriptors_do_not_survive_exec),
    TEST(what_is_written_is_read_through_the_read_only_descriptor),
    TEST(the_read_only_descriptor_cannot_be_mapped_writable),
    TEST(a_read_only_descriptor_is_to_be_had_after_the_seal_too),
    TEST(its_producer_goes_on_filling_what_is_sealed),
    TEST(sealing_again_is_harmless),
    TEST(what_is_sealed_read_only_takes_no_new_writer),
    TEST(what_is_sealed_keeps_its_size_and_its_pages),
    TEST(no_seal_can_be_added_by_others),
    TEST(what_is_sealed_mutable_is_written_by_its_holders),
    TEST(freezing_waits_until_nobody_can_write),
    TEST(a_fresh_segment_has_the_pages_it_promises),
    TEST(a_page_that_nobody_touched_is_a_hole),
    TEST(a_hole_cannot_be_hidden_by_blocks_beyond_the_end),
    TEST(an_offset_beyond_the_end_is_refused),
    TEST(a_size_beyond_all_memory_is_refused),
    TEST(what_is_forgotten_has_no_name),
    TEST(names_of_a_killed_daemon_are_removed_by_the_next),
};

TEST_MAIN(tests)
