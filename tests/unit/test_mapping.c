#include "support/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/mapping.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define SIZE 8192
#define LENGTH_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Memory as a daemon might send it, and a client that is connected to nothing. */
struct fixture {
  int fd;
  struct dlc__transport *transport;
  struct dlc__maps maps;
};

static void ignore_orphan(void *context, struct dlc__reply *reply)
{
}

static void ignore_dropped(void *context, uint64_t epoch, const uint64_t *segments, size_t n)
{
}

static void ignore_retired(void *context, struct dlc__pages *pages)
{
}

static int fixture_setup(void **state)
{
  static const struct dlc__transport_owner owner = {
      .orphan = ignore_orphan, .dropped = ignore_dropped, .retired = ignore_retired};
  struct fixture *f = calloc(1, sizeof(*f));

  if (!f)
    return -1;
  f->fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (f->fd < 0 || ftruncate(f->fd, SIZE) < 0 || pwrite(f->fd, "bytes", 6, 0) != 6)
    return -1;
  *state = f;
  if (dlc__transport_new(&f->transport, "/nowhere", "test", &owner, NULL) < 0)
    return -1;
  return dlc__maps_init(&f->maps, f->transport);
}

static int fixture_teardown(void **state)
{
  struct fixture *f = *state;

  dlc__maps_deinit(&f->maps);
  dlc__transport_free(f->transport);
  close(f->fd);
  free(f);
  return 0;
}

static void seal(const struct fixture *f, int seals)
{
  assert_int_equal(fcntl(f->fd, F_ADD_SEALS, seals), 0);
}

static struct dlc__segment_facts facts_of(uint32_t flags)
{
  return (struct dlc__segment_facts){.id = 7, .size = SIZE, .tensor_flags = flags};
}

static void assert_refused(const struct dlc__segment_facts *facts, int fd, const char *words)
{
  struct dlc_error error = {0};

  assert_int_equal(dlc__segment_check(facts, DLC__VIEW_READ, fd, &error), -DLC_E_PROTOCOL);
  if (!strstr(error.message, words))
    fail_msg("\"%s\" does not say \"%s\"", error.message, words);
}

static void memory_that_can_be_cut_short_is_not_mapped(void **state)
{
  struct fixture *f = *state;
  struct dlc__segment_facts facts = facts_of(0);

  assert_refused(&facts, f->fd, "length");
  seal(f, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
  assert_refused(&facts, f->fd, "length"); /* seals could still be added */
}

static void memory_that_can_be_written_is_not_mapped(void **state)
{
  struct fixture *f = *state;
  struct dlc__segment_facts facts = facts_of(0);

  seal(f, LENGTH_SEALS);
  assert_refused(&facts, f->fd, "writing");
}

static void sealed_memory_is_mapped(void **state)
{
  struct fixture *f = *state;
  struct dlc__segment_facts facts = facts_of(0);

  seal(f, LENGTH_SEALS | F_SEAL_FUTURE_WRITE);
  assert_int_equal(dlc__segment_check(&facts, DLC__VIEW_READ, f->fd, NULL), 0);
}

static void frozen_memory_has_to_be_sealed_against_its_producer(void **state)
{
  struct fixture *f = *state;
  struct dlc__segment_facts facts = facts_of(MSG_TENSOR_FROZEN);

  seal(f, LENGTH_SEALS | F_SEAL_FUTURE_WRITE);
  assert_refused(&facts, f->fd, "frozen");
}

static void mutable_memory_needs_a_sealed_length_only(void **state)
{
  struct fixture *f = *state;
  struct dlc__segment_facts facts = facts_of(MSG_TENSOR_MUTABLE);

  seal(f, LENGTH_SEALS);
  assert_int_equal(dlc__segment_check(&facts, DLC__VIEW_SHARED, f->fd, NULL), 0);
}

static void unsealed_memory_is_believed_of_ones_own_user_only(void **state)
{
  struct fixture *f = *state;
  struct dlc__segment_facts facts = facts_of(MSG_TENSOR_UNSEALED);

  assert_refused(&facts, f->fd, "another user");
  facts.own_publisher = true;
  assert_int_equal(dlc__segment_check(&facts, DLC__VIEW_READ, f->fd, NULL), 0);
}

static void a_size_that_is_not_the_files_is_refused(void **state)
{
  struct fixture *f = *state;
  struct dlc__segment_facts facts = facts_of(0);
  const uint64_t sizes[] = {0, SIZE - 1, SIZE + 4096, UINT64_MAX};

  seal(f, LENGTH_SEALS | F_SEAL_FUTURE_WRITE);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(sizes); i++) {
    facts.size = sizes[i];
    assert_refused(&facts, f->fd, "size");
  }
}

static void what_is_not_memory_is_refused(void **state)
{
  struct dlc__segment_facts facts = facts_of(0);
  int directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  assert_true(directory >= 0);
  assert_refused(&facts, directory, "not memory");
  close(directory);
}

static void a_segment_is_mapped_once_and_unmapped_at_its_last_reference(void **state)
{
  struct fixture *f = *state;
  struct dlc__segment_facts facts = facts_of(0);
  struct dlc__mapping *first, *second, *third;

  seal(f, LENGTH_SEALS | F_SEAL_FUTURE_WRITE);
  assert_null(dlc__maps_find(&f->maps, 0, 7, DLC__VIEW_READ));
  assert_int_equal(dlc__maps_add(&f->maps, &facts, DLC__VIEW_READ, f->fd, &first, NULL), 0);
  assert_int_equal(dlc__maps_add(&f->maps, &facts, DLC__VIEW_READ, f->fd, &second, NULL), 0);
  third = dlc__maps_find(&f->maps, 0, 7, DLC__VIEW_READ);
  assert_ptr_equal(first, second);
  assert_ptr_equal(first, third);
  assert_string_equal(first->base, "bytes");
  dlc__mapping_unref(first);
  dlc__mapping_unref(second);
  assert_string_equal(third->base, "bytes");
  dlc__mapping_unref(third);
  assert_null(dlc__maps_find(&f->maps, 0, 7, DLC__VIEW_READ));
  assert_int_equal(f->maps.segments.size, 0);
}

static void the_same_number_from_another_session_is_another_segment(void **state)
{
  struct fixture *f = *state;
  struct dlc__segment_facts facts = facts_of(0);
  struct dlc__mapping *mapping;

  seal(f, LENGTH_SEALS | F_SEAL_FUTURE_WRITE);
  assert_int_equal(dlc__maps_add(&f->maps, &facts, DLC__VIEW_READ, f->fd, &mapping, NULL), 0);
  assert_null(dlc__maps_find(&f->maps, 1, 7, DLC__VIEW_READ));
  dlc__mapping_unref(mapping);
}

static void a_producers_mapping_stays_until_the_segment_is_dropped(void **state)
{
  struct fixture *f = *state;
  struct dlc__segment_facts facts = facts_of(0);
  struct dlc__mapping *mapping;
  const uint64_t id = 7;

  assert_int_equal(dlc__maps_add(&f->maps, &facts, DLC__VIEW_PRODUCER, f->fd, &mapping, NULL), 0);
  mapping->base[0] = 'B';
  dlc__mapping_unref(mapping);
  mapping = dlc__maps_find(&f->maps, 0, id, DLC__VIEW_PRODUCER);
  assert_non_null(mapping);
  dlc__maps_dropped(&f->maps, 0, &id, 1);
  assert_string_equal(mapping->base, "Bytes"); /* still used */
  dlc__mapping_unref(mapping);
  assert_null(dlc__maps_find(&f->maps, 0, id, DLC__VIEW_PRODUCER));
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, fixture_setup, fixture_teardown)

static const struct CMUnitTest tests[] = {
    CASE(memory_that_can_be_cut_short_is_not_mapped),
    CASE(memory_that_can_be_written_is_not_mapped),
    CASE(sealed_memory_is_mapped),
    CASE(frozen_memory_has_to_be_sealed_against_its_producer),
    CASE(mutable_memory_needs_a_sealed_length_only),
    CASE(unsealed_memory_is_believed_of_ones_own_user_only),
    CASE(a_size_that_is_not_the_files_is_refused),
    CASE(what_is_not_memory_is_refused),
    CASE(a_segment_is_mapped_once_and_unmapped_at_its_last_reference),
    CASE(the_same_number_from_another_session_is_another_segment),
    CASE(a_producers_mapping_stays_until_the_segment_is_dropped),
};

TEST_MAIN(tests)
