#include "support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "io/memory.h"
#include "io/segments.h"
#include "support/fds.h"

#define PAGE 4096
#define SIZE (16 * PAGE)
#define LARGE ((uint64_t)64 << 20)
#define LIMIT 3

struct fixture {
  size_t fds_before;
  struct storage_backend backend;
  int (*find_hole)(void *context, int fd, uint64_t offset, uint64_t *ret);
  struct segments *segments;
  size_t n_walks;
  size_t n_closed_later;
  unsigned char *map;
};

static struct fixture *current;

static int count_walks(void *context, int fd, uint64_t offset, uint64_t *ret)
{
  current->n_walks++;
  return current->find_hole(context, fd, offset, ret);
}

static void close_later(void *context, int fd)
{
  struct fixture *fixture = context;

  fixture->n_closed_later++;
  (void)dlp_close(fd);
}

static int setup(void **state)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));
  struct segments_config config = {.limit = LIMIT, .close_later = close_later, .context = fixture};

  if (!fixture)
    return -1;
  current = fixture;
  fixture->fds_before = test_count_fds();
  fixture->map = MAP_FAILED;
  memory_memfd_backend(&fixture->backend);
  fixture->find_hole = fixture->backend.find_hole;
  fixture->backend.find_hole = count_walks;
  *state = fixture;
  return segments_new(&fixture->segments, &config, &fixture->backend, 1);
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;
  int r;

  if (fixture->map != MAP_FAILED)
    (void)munmap(fixture->map, SIZE);
  (void)segments_free(fixture->segments);
  r = test_count_fds() == fixture->fds_before ? 0 : -1;
  free(fixture);
  return r;
}

static int create(struct fixture *fixture, uint64_t id, uint64_t size)
{
  return segments_run(fixture->segments, &(struct effect){.kind = EFFECT_SEGMENT_CREATE,
                                                          .segment = id,
                                                          .size = size,
                                                          .backend = MSG_BACKEND_MEMFD});
}

static int check(struct fixture *fixture, uint64_t offset, uint64_t size)
{
  return segments_run(
      fixture->segments,
      &(struct effect){.kind = EFFECT_SEGMENT_CHECK, .segment = 1, .offset = offset, .size = size});
}

static int seal(struct fixture *fixture, enum segment_seal kind)
{
  return segments_run(fixture->segments,
                      &(struct effect){.kind = EFFECT_SEGMENT_SEAL, .segment = 1, .seal = kind});
}

static void drop(struct fixture *fixture, uint64_t id)
{
  assert_int_equal(
      segments_run(fixture->segments, &(struct effect){.kind = EFFECT_SEGMENT_DROP, .segment = id}),
      0);
}

static void create_mapped(struct fixture *fixture)
{
  dlp_auto_close int fd = -1;

  assert_int_equal(create(fixture, 1, SIZE), 0);
  fd = segments_open_writable(fixture->segments, 1);
  assert_true(fd >= 0);
  fixture->map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_ptr_not_equal(fixture->map, MAP_FAILED);
}

static void clients_get_descriptors_of_what_was_created(void **state)
{
  struct fixture *fixture = *state;
  dlp_auto_close int fd = -1;
  unsigned char byte;

  create_mapped(fixture);
  fixture->map[9] = 3;
  fd = segments_open_read_only(fixture->segments, 1);
  assert_int_equal(pread(fd, &byte, 1, 9), 1);
  assert_int_equal(byte, 3);
}

static void what_was_dropped_is_gone(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(create(fixture, 1, SIZE), 0);
  drop(fixture, 1);
  drop(fixture, 1);
  assert_int_equal(segments_count(fixture->segments), 0);
  assert_int_equal(segments_open_read_only(fixture->segments, 1), -ENOENT);
  assert_int_equal(segments_open_writable(fixture->segments, 1), -ENOENT);
  assert_int_equal(check(fixture, 0, 1), -ENOENT);
  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), -ENOENT);
}

static void the_limit_leaves_descriptors_for_others(void **state)
{
  struct fixture *fixture = *state;

  for (uint64_t id = 1; id <= LIMIT; id++)
    assert_int_equal(create(fixture, id, SIZE), 0);
  assert_int_equal(create(fixture, LIMIT + 1, SIZE), -EMFILE);
  drop(fixture, 2);
  assert_int_equal(create(fixture, LIMIT + 2, SIZE), 0);
}

static void a_backend_that_is_not_there_is_not_supported(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(
      segments_run(fixture->segments, &(struct effect){.kind = EFFECT_SEGMENT_CREATE,
                                                       .segment = 1,
                                                       .size = SIZE,
                                                       .backend = MSG_BACKEND_POSIX_SHM}),
      -EOPNOTSUPP);
}

static void large_segments_are_closed_elsewhere(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(create(fixture, 1, LARGE), 0);
  assert_int_equal(create(fixture, 2, SIZE), 0);
  drop(fixture, 1);
  drop(fixture, 2);
  assert_int_equal(fixture->n_closed_later, 1);
}

static void pages_that_are_there_are_found_and_others_missed(void **state)
{
  struct fixture *fixture = *state;

  create_mapped(fixture);
  memset(fixture->map, 1, 4 * PAGE);
  memset(fixture->map + 8 * PAGE, 1, 2 * PAGE);
  assert_int_equal(check(fixture, 0, 4 * PAGE), 0);
  assert_int_equal(check(fixture, 8 * PAGE, 2 * PAGE), 0);
  assert_int_equal(check(fixture, 0, 4 * PAGE + 1), -ENODATA);
  assert_int_equal(check(fixture, 5 * PAGE, 1), -ENODATA);
  assert_int_equal(check(fixture, 8 * PAGE, 3 * PAGE), -ENODATA);
  assert_int_equal(check(fixture, 5 * PAGE, 0), 0);
}

static void ranges_beyond_the_end_are_refused(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(create(fixture, 1, SIZE), 0);
  assert_int_equal(check(fixture, 0, SIZE + 1), -EINVAL);
  assert_int_equal(check(fixture, SIZE, 1), -EINVAL);
  assert_int_equal(check(fixture, UINT64_MAX, 1), -EINVAL);
  assert_int_equal(check(fixture, 1, UINT64_MAX), -EINVAL);
}

static void before_the_seal_every_check_looks_anew(void **state)
{
  struct fixture *fixture = *state;

  create_mapped(fixture);
  memset(fixture->map, 1, SIZE);
  assert_int_equal(check(fixture, 0, PAGE), 0);
  assert_int_equal(madvise(fixture->map, PAGE, MADV_REMOVE), 0);
  assert_int_equal(check(fixture, 0, PAGE), -ENODATA);
}

static void what_stays_mutable_is_looked_at_anew_too(void **state)
{
  struct fixture *fixture = *state;

  create_mapped(fixture);
  memset(fixture->map, 1, SIZE);
  assert_int_equal(seal(fixture, SEGMENT_SEAL_MUTABLE), 0);
  assert_int_equal(check(fixture, 0, PAGE), 0);
  assert_int_equal(madvise(fixture->map, PAGE, MADV_REMOVE), 0);
  assert_int_equal(check(fixture, 0, PAGE), -ENODATA);
}

static void after_the_seal_pages_are_walked_once(void **state)
{
  struct fixture *fixture = *state;

  create_mapped(fixture);
  memset(fixture->map, 1, SIZE);
  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), 0);
  for (uint64_t page = 0; page < SIZE / PAGE; page++)
    assert_int_equal(check(fixture, page * PAGE, PAGE), 0);
  assert_int_equal(fixture->n_walks, 1);
}

static void a_hole_that_was_filled_is_found_filled(void **state)
{
  struct fixture *fixture = *state;

  create_mapped(fixture);
  memset(fixture->map, 1, 4 * PAGE);
  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), 0);
  assert_int_equal(check(fixture, 0, 5 * PAGE), -ENODATA);
  fixture->map[4 * PAGE] = 1;
  assert_int_equal(check(fixture, 0, 5 * PAGE), 0);
  assert_int_equal(check(fixture, 2 * PAGE, 4 * PAGE), -ENODATA);
}

static void a_tensor_above_a_hole_does_not_hide_it(void **state)
{
  struct fixture *fixture = *state;

  create_mapped(fixture);
  memset(fixture->map, 1, 2 * PAGE);
  memset(fixture->map + 4 * PAGE, 1, 2 * PAGE);
  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), 0);
  assert_int_equal(check(fixture, 0, 2 * PAGE), 0);
  assert_int_equal(check(fixture, 4 * PAGE, 2 * PAGE), 0);
  assert_int_equal(check(fixture, 0, 6 * PAGE), -ENODATA);
  assert_int_equal(check(fixture, PAGE, 2 * PAGE), -ENODATA);
}

/* ---- slabs ---- */

static int create_slab(struct fixture *fixture, uint64_t size)
{
  return segments_run(fixture->segments, &(struct effect){.kind = EFFECT_SEGMENT_CREATE,
                                                          .segment = 1,
                                                          .size = size,
                                                          .backend = MSG_BACKEND_MEMFD,
                                                          .is_slab = true});
}

static int write_slab(struct fixture *fixture, uint64_t offset, const char *text, uint64_t size)
{
  return segments_run(fixture->segments, &(struct effect){.kind = EFFECT_SEGMENT_WRITE,
                                                          .segment = 1,
                                                          .offset = offset,
                                                          .size = size,
                                                          .data = (const uint8_t *)text});
}

static void slab_is_written_before_and_after_it_is_sealed(void **state)
{
  struct fixture *fixture = *state;
  dlp_auto_close int fd = -1;
  char text[6] = "";

  assert_int_equal(create_slab(fixture, SIZE), 0);
  assert_int_equal(write_slab(fixture, 0, "first", 5), 0);
  assert_int_equal(seal(fixture, SEGMENT_SEAL_READ_ONLY), 0);
  assert_int_equal(write_slab(fixture, 2 * PAGE + 7, "again", 5), 0);
  fd = segments_open_read_only(fixture->segments, 1);
  assert_int_equal(pread(fd, text, 5, 0), 5);
  assert_string_equal(text, "first");
  assert_int_equal(pread(fd, text, 5, 2 * PAGE + 7), 5);
  assert_string_equal(text, "again");
  assert_ptr_equal(mmap(NULL, SIZE, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
}

static void write_to_what_is_no_slab_or_beyond_its_end_is_refused(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(write_slab(fixture, 0, "x", 1), -ENOENT);
  assert_int_equal(create_slab(fixture, SIZE), 0);
  assert_int_equal(write_slab(fixture, SIZE, "x", 1), -EINVAL);
  assert_int_equal(write_slab(fixture, SIZE - 1, "xy", 2), -EINVAL);
  assert_int_equal(write_slab(fixture, UINT64_MAX, "xy", 2), -EINVAL);
  assert_int_equal(write_slab(fixture, SIZE - 1, "x", 1), 0);
  drop(fixture, 1);
  assert_int_equal(create(fixture, 1, SIZE), 0);
  assert_int_equal(write_slab(fixture, 0, "x", 1), -EINVAL);
}

static void slab_that_is_dropped_is_not_mapped_any_more(void **state)
{
  struct fixture *fixture = *state;
  size_t before = test_count_maps_of("dlpackd:");

  assert_int_equal(create_slab(fixture, SIZE), 0);
  assert_int_equal(test_count_maps_of("dlpackd:"), before + 1);
  drop(fixture, 1);
  assert_int_equal(test_count_maps_of("dlpackd:"), before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(clients_get_descriptors_of_what_was_created),
    TEST(what_was_dropped_is_gone),
    TEST(the_limit_leaves_descriptors_for_others),
    TEST(a_backend_that_is_not_there_is_not_supported),
    TEST(large_segments_are_closed_elsewhere),
    TEST(pages_that_are_there_are_found_and_others_missed),
    TEST(ranges_beyond_the_end_are_refused),
    TEST(before_the_seal_every_check_looks_anew),
    TEST(what_stays_mutable_is_looked_at_anew_too),
    TEST(after_the_seal_pages_are_walked_once),
    TEST(a_hole_that_was_filled_is_found_filled),
    TEST(a_tensor_above_a_hole_does_not_hide_it),
    TEST(slab_is_written_before_and_after_it_is_sealed),
    TEST(write_to_what_is_no_slab_or_beyond_its_end_is_refused),
    TEST(slab_that_is_dropped_is_not_mapped_any_more),
};

TEST_MAIN(tests)
