#include "support/test.h"

#include <errno.h>
#include <stdlib.h>

#include "core/pool.h"
#include "support/alloc_failure.h"

#define MIB (UINT64_C(1) << 20)
#define UID 1000u
#define NOT_MADE 77 /* a batch whose segments stay unmade */

struct fixture {
  struct quota *quota;
  struct segments segments;
  struct pool pool;
  struct block *blocks[64];
  size_t n_blocks;
  struct quota_refusal refusal;
  uint64_t now_us;
};

static const struct pool_domain usual = {
    .owner = UID, .gid = UID, .mode = 0600, .lifetime = 1, .backend = MSG_BACKEND_MEMFD};

static int setup(void **state)
{
  struct quota_sum limits = {
      .of = {[QUOTA_BYTES] = 256 * MIB, [QUOTA_SEGMENTS] = 8, [QUOTA_HEAP] = 4096}};
  struct fixture *f = calloc(1, sizeof(*f));

  if (!f || quota_new(&f->quota, &limits, 1) != 0)
    return -1;
  segments_init(&f->segments, 512 * MIB, 1);
  pool_init(&f->pool, &f->segments, f->quota, 0, UID, 1);
  *state = f;
  return 0;
}

static void drop_excess(struct fixture *f)
{
  struct segment *segment;

  while ((segment = segments_excess(&f->segments, f->now_us)))
    segment_free(segment);
}

static void give_up(struct fixture *f, size_t i)
{
  struct segment *segment = block_free(f->blocks[i], f->now_us);

  f->blocks[i] = NULL;
  if (segment)
    segment_free(segment);
  drop_excess(f);
}

static void advance(struct fixture *f, uint64_t us)
{
  f->now_us += us;
  drop_excess(f);
}

static int teardown(void **state)
{
  struct fixture *f = *state;

  (void)alloc_failure_stop();
  for (size_t i = 0; i < f->n_blocks; i++)
    if (f->blocks[i])
      give_up(f, i);
  advance(f, POOL_WARM_US);
  pool_deinit(&f->pool);
  segments_deinit(&f->segments);
  quota_free(f->quota);
  free(f);
  return 0;
}

static int place_in(struct fixture *f, const struct pool_domain *domain, uint64_t size,
                    uint32_t flags, uint64_t batch, uint64_t memory)
{
  struct pool_request request = {
      .domain = *domain, .size = size, .flags = flags, .batch = batch, .memory_available = memory};
  int r = pool_place(&f->pool, &request, &f->blocks[f->n_blocks], &f->refusal);

  if (r == 0)
    f->blocks[f->n_blocks++]->segment->made = batch != NOT_MADE;
  return r;
}

static int place(struct fixture *f, uint64_t size)
{
  return place_in(f, &usual, size, 0, 1, UINT64_MAX);
}

static const struct block *last(const struct fixture *f)
{
  return f->blocks[f->n_blocks - 1];
}

static void small_blocks_fill_a_segment_from_its_start(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place(f, 1), 0);
  assert_int_equal(last(f)->offset, 0);
  assert_int_equal(place(f, 1), 0);
  assert_int_equal(last(f)->offset, DLP_TENSOR_ALIGN);
  assert_ptr_equal(f->blocks[0]->segment, f->blocks[1]->segment);
}

static void bytes_are_charged_as_they_are_handed_out(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place(f, 1000), 0);
  assert_int_equal(f->segments.held_bytes, 1024);
  assert_int_equal(quota_used(f->quota, 0, UID).of[QUOTA_BYTES], 1024);
  assert_int_equal(quota_used(f->quota, 0, UID).of[QUOTA_SEGMENTS], 1);
  assert_int_equal(place(f, 0), 0);
  assert_int_equal(f->segments.held_bytes, 1280);
}

static void lift_limits(struct fixture *f)
{
  struct quota_sum limits = {
      .of = {
          [QUOTA_BYTES] = UINT64_MAX / 2, [QUOTA_SEGMENTS] = 1000, [QUOTA_HEAP] = UINT64_MAX / 2}};

  f->segments.max_bytes = UINT64_MAX;
  pool_deinit(&f->pool);
  quota_free(f->quota);
  assert_int_equal(quota_new(&f->quota, &limits, 1), 0);
  pool_init(&f->pool, &f->segments, f->quota, 0, UID, 1);
}

static void segment_of_ones_own_is_charged_whole(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place_in(f, &usual, 5000, MSG_BLOCK_OWN_SEGMENT, 1, UINT64_MAX), 0);
  assert_int_equal(last(f)->segment->size, 8192);
  assert_int_equal(f->segments.held_bytes, 8192);
  assert_true(last(f)->segment->own);
}

static void bytes_come_back_a_while_after_the_last_block_of_a_segment(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place(f, 100), 0);
  assert_int_equal(place(f, 100), 0);
  give_up(f, 0);
  advance(f, POOL_WARM_US);
  assert_int_equal(f->segments.held_bytes, 512);
  give_up(f, 1);
  assert_int_equal(f->segments.warm_bytes, 512);
  advance(f, POOL_WARM_US - 1);
  assert_int_equal(f->segments.held_bytes, 512);
  advance(f, 1);
  assert_int_equal(f->segments.held_bytes, 0);
  assert_int_equal(f->segments.warm_bytes, 0);
  assert_int_equal(quota_total(f->quota).of[QUOTA_BYTES], 0);
  assert_int_equal(quota_total(f->quota).of[QUOTA_HEAP], 0);
}

static void segments_grow_with_what_is_placed(void **state)
{
  static const uint64_t sizes[] = {64, 64, 128, 256};
  struct fixture *f = *state;
  uint64_t id = 0;
  size_t n = 0;

  lift_limits(f);
  while (n < TEST_ARRAY_SIZE(sizes)) {
    assert_int_equal(place(f, 8 * MIB), 0);
    if (last(f)->segment->id == id)
      continue;
    id = last(f)->segment->id;
    assert_int_equal(last(f)->segment->size, sizes[n++] * MIB);
    assert_int_equal(last(f)->offset, 0);
  }
}

static void segment_that_is_not_made_yet_serves_its_own_request_only(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place_in(f, &usual, 64, 0, NOT_MADE, UINT64_MAX), 0);
  assert_int_equal(place_in(f, &usual, 64, 0, 2, UINT64_MAX), 0);
  assert_ptr_not_equal(f->blocks[0]->segment, f->blocks[1]->segment);
  assert_int_equal(place_in(f, &usual, 64, 0, NOT_MADE, UINT64_MAX), 0);
  assert_ptr_equal(f->blocks[1]->segment, f->blocks[2]->segment);
}

static void segment_that_could_not_be_made_goes_at_once(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place_in(f, &usual, 64, 0, NOT_MADE, UINT64_MAX), 0);
  assert_int_equal(place_in(f, &usual, 64, 0, NOT_MADE, UINT64_MAX), 0);
  f->blocks[0]->segment->made = false;
  give_up(f, 0);
  give_up(f, 1);
  assert_int_equal(f->segments.tree.size, 0);
}

static void limits_are_told_apart(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place(f, 600 * MIB), POOL_E_LIMIT);
  assert_int_equal(f->refusal.limit, 512 * MIB);
  assert_int_equal(place(f, 300 * MIB), POOL_E_QUOTA);
  assert_int_equal(f->refusal.slot, QUOTA_BYTES);
  assert_int_equal(place_in(f, &usual, 64 * MIB, 0, 1, 64 * MIB - 1), POOL_E_MEMORY);
  assert_int_equal(f->refusal.limit, 64 * MIB - 1);
  assert_int_equal(place_in(f, &usual, 64 * MIB, 0, 1, 64 * MIB), 0);
  assert_int_equal(place(f, UINT64_MAX), POOL_E_SIZE);
  assert_int_equal(place(f, UINT64_MAX - 4095), POOL_E_SIZE);
  assert_int_equal(f->segments.tree.size, 1);
}

static void blocks_cost_heap(void **state)
{
  struct fixture *f = *state;
  int r = 0;

  while (r == 0 && f->n_blocks < TEST_ARRAY_SIZE(f->blocks))
    r = place(f, 0);
  assert_int_equal(r, POOL_E_QUOTA);
  assert_int_equal(f->refusal.slot, QUOTA_HEAP);
}

static void producer_that_goes_leaves_segments_with_blocks(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place(f, 64), 0);
  assert_int_equal(place(f, 64), 0);
  give_up(f, 0);
  pool_deinit(&f->pool);
  assert_int_equal(f->segments.tree.size, 1);
  assert_ptr_equal(segments_find(&f->segments, last(f)->segment->id), last(f)->segment);
}

static void ids_of_segments_are_never_used_again(void **state)
{
  struct fixture *f = *state;
  uint64_t id = 0;

  for (size_t i = 0; i < 20; i++) {
    assert_int_equal(place(f, 64), 0);
    assert_true(last(f)->segment->id > id);
    id = last(f)->segment->id;
    give_up(f, f->n_blocks - 1);
    advance(f, POOL_WARM_US);
    assert_null(segments_find(&f->segments, id));
  }
}

static void placement_without_memory_leaves_nothing(void **state)
{
  struct fixture *f = *state;
  int r = -ENOMEM;

  for (size_t n = 0; r != 0; n++) {
    alloc_failure_start(n, ALLOC_FAILURE_ONCE);
    r = place(f, 64);
    if (alloc_failure_stop())
      assert_int_equal(r, -ENOMEM);
    if (r == 0)
      break;
    assert_int_equal(f->segments.tree.size, 0);
    assert_int_equal(f->segments.held_bytes, 0);
    assert_int_equal(quota_total(f->quota).of[QUOTA_HEAP], 0);
  }
}

/* ---- what is used again ---- */

static void block_given_up_is_given_out_again(void **state)
{
  struct fixture *f = *state;
  uint64_t held;

  assert_int_equal(place(f, 1000), 0);
  assert_int_equal(place(f, 1000), 0);
  assert_int_equal(place(f, 1000), 0);
  held = f->segments.held_bytes;
  give_up(f, 1);
  assert_int_equal(place(f, 900), 0);
  assert_int_equal(last(f)->offset, 1024);
  assert_int_equal(last(f)->size, 900);
  assert_int_equal(f->segments.held_bytes, held);
  assert_int_equal(f->segments.n_reused, 1);
  assert_int_equal(f->segments.n_fresh, 3);
}

static void neighbours_that_are_free_become_one(void **state)
{
  static const size_t order[] = {1, 3, 2};
  struct fixture *f = *state;

  for (size_t i = 0; i < 5; i++)
    assert_int_equal(place(f, 256), 0);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(order); i++)
    give_up(f, order[i]);
  assert_int_equal(place(f, 3 * 256), 0);
  assert_int_equal(last(f)->offset, 256);
  assert_int_equal(f->segments.held_bytes, 5 * 256);
}

static void what_is_left_of_a_block_stays_free(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place(f, 4 * 256), 0);
  assert_int_equal(place(f, 256), 0);
  give_up(f, 0);
  for (uint64_t i = 0; i < 4; i++) {
    assert_int_equal(place(f, 200), 0);
    assert_int_equal(last(f)->offset, i * 256);
  }
  assert_int_equal(place(f, 200), 0);
  assert_int_equal(last(f)->offset, 5 * 256);
}

static void smallest_room_that_fits_is_taken(void **state)
{
  static const uint64_t sizes[] = {8 * 256, 1, 3 * 256, 1, 2 * 256, 1};
  struct fixture *f = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(sizes); i++)
    assert_int_equal(place(f, sizes[i]), 0);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(sizes); i += 2)
    give_up(f, i);
  assert_int_equal(place(f, 2 * 256), 0);
  assert_int_equal(last(f)->offset, 13 * 256);
}

static void block_that_may_be_looked_at_for_ever_is_never_given_out_again(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < 3; i++)
    assert_int_equal(place(f, 256), 0);
  f->blocks[1]->escaped = true;
  give_up(f, 0);
  give_up(f, 1);
  assert_int_equal(place(f, 512), 0);
  assert_int_equal(last(f)->offset, 3 * 256);
  assert_int_equal(place(f, 256), 0);
  assert_int_equal(last(f)->offset, 0);
  /* Its segment goes when nothing else is in it: at once, since it is of little use. */
  give_up(f, 2);
  give_up(f, 3);
  give_up(f, 4);
  assert_int_equal(f->segments.tree.size, 0);
}

static void block_that_its_producer_keeps_is_given_out_after_it_lets_go(void **state)
{
  struct fixture *f = *state;
  struct block *block;

  assert_int_equal(place(f, 256), 0);
  assert_int_equal(place(f, 256), 0);
  block = f->blocks[0];
  block->kept = true;
  give_up(f, 0);
  assert_int_equal(place(f, 256), 0);
  assert_int_equal(last(f)->offset, 512);
  assert_null(block_let_go(block, f->now_us));
  assert_int_equal(place(f, 256), 0);
  assert_int_equal(last(f)->offset, 0);
}

static void producer_that_lets_go_first_changes_nothing_for_the_version(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place(f, 256), 0);
  f->blocks[0]->kept = true;
  assert_null(block_let_go(f->blocks[0], f->now_us));
  assert_int_equal(place(f, 256), 0);
  assert_int_equal(last(f)->offset, 256);
  give_up(f, 0);
  assert_int_equal(place(f, 256), 0);
  assert_int_equal(last(f)->offset, 0);
}

static void blocks_with_pages_of_their_own_are_never_mixed_with_others(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place_in(f, &usual, 100, MSG_BLOCK_OWN_PAGES, 1, UINT64_MAX), 0);
  assert_int_equal(place(f, 100), 0);
  assert_ptr_not_equal(f->blocks[0]->segment, f->blocks[1]->segment);
  give_up(f, 0);
  assert_int_equal(place(f, 100), 0);
  assert_ptr_equal(last(f)->segment, f->blocks[1]->segment);
  assert_int_equal(place_in(f, &usual, 4096, MSG_BLOCK_OWN_PAGES, 1, UINT64_MAX), 0);
  assert_int_equal(last(f)->offset, 0);
}

static void other_domains_and_producers_get_nothing_of_it(void **state)
{
  struct fixture *f = *state;
  struct pool other;
  struct pool_domain group = usual;
  uint64_t id;

  assert_int_equal(place(f, 100), 0);
  id = last(f)->segment->id;
  give_up(f, 0);
  group.mode = 0640;
  assert_int_equal(place_in(f, &group, 100, 0, 1, UINT64_MAX), 0);
  assert_int_not_equal(last(f)->segment->id, id);

  pool_init(&other, &f->segments, f->quota, 0, UID, 2);
  assert_int_equal(
      pool_place(&other,
                 &(struct pool_request){
                     .domain = usual, .size = 100, .batch = 1, .memory_available = UINT64_MAX},
                 &f->blocks[f->n_blocks], &f->refusal),
      0);
  f->n_blocks++;
  assert_int_not_equal(last(f)->segment->id, id);
  give_up(f, f->n_blocks - 1);
  pool_deinit(&other);
}

static void large_segment_is_used_again_if_half_of_it_is_needed(void **state)
{
  struct fixture *f = *state;
  uint64_t id;

  assert_int_equal(place(f, 40 * MIB), 0);
  id = last(f)->segment->id;
  give_up(f, 0);
  assert_int_equal(place(f, 19 * MIB), 0);
  assert_int_not_equal(last(f)->segment->id, id);
  assert_int_equal(place(f, 20 * MIB), 0);
  assert_int_equal(last(f)->segment->id, id);
  assert_int_equal(last(f)->offset, 0);
  assert_int_equal(f->segments.warm_bytes, 0);
}

static void segment_wished_for_alone_is_never_used_again(void **state)
{
  struct fixture *f = *state;
  struct pool_domain shared = usual;

  assert_int_equal(place_in(f, &usual, 20 * MIB, MSG_BLOCK_OWN_SEGMENT, 1, UINT64_MAX), 0);
  give_up(f, 0);
  assert_int_equal(f->segments.tree.size, 0);
  shared.is_mutable = true;
  assert_int_equal(place_in(f, &shared, 100, 0, 1, UINT64_MAX), 0);
  give_up(f, 1);
  assert_int_equal(f->segments.tree.size, 0);
}

static void frozen_segment_is_never_used_again(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place(f, 20 * MIB), 0);
  last(f)->segment->frozen = true;
  give_up(f, 0);
  assert_int_equal(f->segments.tree.size, 0);
}

static void warm_memory_of_one_producer_is_bounded(void **state)
{
  static const uint64_t size = POOL_WARM_MAX / 4;
  struct fixture *f = *state;
  uint64_t first;

  lift_limits(f);
  for (size_t i = 0; i < 6; i++)
    assert_int_equal(place(f, size), 0);
  first = f->blocks[0]->segment->id;
  for (size_t i = 0; i < 6; i++)
    give_up(f, i);
  assert_int_equal(f->segments.warm_bytes, POOL_WARM_MAX);
  assert_null(segments_find(&f->segments, first)); /* the oldest went */
}

static void warm_segment_that_is_used_again_is_not_dropped(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(place(f, 100), 0);
  give_up(f, 0);
  advance(f, POOL_WARM_US / 2);
  assert_int_equal(place(f, 100), 0);
  advance(f, POOL_WARM_US);
  assert_int_equal(f->segments.tree.size, 1);
  assert_int_equal(segments_next_due(&f->segments), UINT64_MAX);
  give_up(f, 1);
  assert_int_equal(segments_next_due(&f->segments), f->now_us + POOL_WARM_US);
}

static void warm_memory_is_found_by_who_pays_for_it(void **state)
{
  struct fixture *f = *state;

  assert_null(segments_first_idle(&f->segments, 0, UID, true));
  assert_int_equal(place(f, 100), 0);
  give_up(f, 0);
  assert_non_null(segments_first_idle(&f->segments, 0, UID, false));
  assert_null(segments_first_idle(&f->segments, 0, UID + 1, false));
  assert_null(segments_first_idle(&f->segments, 1, UID, false));
  assert_non_null(segments_first_idle(&f->segments, 0, UID + 1, true));
}

static void slabs_belong_to_a_payer(void **state)
{
  struct fixture *f = *state;
  struct pool *slabs = segments_slab_pool(&f->segments, f->quota, 0, UID);

  assert_non_null(slabs);
  assert_ptr_equal(segments_slab_pool(&f->segments, f->quota, 0, UID), slabs);
  assert_ptr_not_equal(segments_slab_pool(&f->segments, f->quota, 1, UID), slabs);
  assert_ptr_not_equal(segments_slab_pool(&f->segments, f->quota, 0, UID + 1), slabs);
  segments_tidy_slabs(&f->segments);
  assert_int_equal(f->segments.slabs.size, 0);
}

/* Random use against a plain model: no two blocks overlap, the books balance. */
static void random_use_never_overlaps(void **state)
{
  struct fixture *f = *state;
  uint64_t random = 1;

  f->n_blocks = TEST_ARRAY_SIZE(f->blocks);
  lift_limits(f);
  for (size_t n = 0; n < 20000; n++) {
    size_t i;
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
    i = (random >> 33) % f->n_blocks;
    if (f->blocks[i]) {
      give_up(f, i);
      continue;
    }
    assert_int_equal(pool_place(&f->pool,
                                &(struct pool_request){.domain = usual,
                                                       .size = (random >> 40) % 5000,
                                                       .batch = 1,
                                                       .memory_available = UINT64_MAX},
                                &f->blocks[i], &f->refusal),
                     0);
    f->blocks[i]->segment->made = true;
    for (size_t j = 0; j < f->n_blocks; j++) {
      const struct block *a = f->blocks[i], *b = f->blocks[j];
      if (!b || i == j || a->segment != b->segment)
        continue;
      assert_true(a->offset + a->size <= b->offset || b->offset + b->size <= a->offset);
    }
  }
  assert_true(f->segments.held_bytes < f->n_blocks * 5256 * 2);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(small_blocks_fill_a_segment_from_its_start),
    CASE(bytes_are_charged_as_they_are_handed_out),
    CASE(segment_of_ones_own_is_charged_whole),
    CASE(bytes_come_back_a_while_after_the_last_block_of_a_segment),
    CASE(segments_grow_with_what_is_placed),
    CASE(segment_that_is_not_made_yet_serves_its_own_request_only),
    CASE(segment_that_could_not_be_made_goes_at_once),
    CASE(limits_are_told_apart),
    CASE(blocks_cost_heap),
    CASE(producer_that_goes_leaves_segments_with_blocks),
    CASE(ids_of_segments_are_never_used_again),
    CASE(placement_without_memory_leaves_nothing),
    CASE(block_given_up_is_given_out_again),
    CASE(neighbours_that_are_free_become_one),
    CASE(what_is_left_of_a_block_stays_free),
    CASE(smallest_room_that_fits_is_taken),
    CASE(block_that_may_be_looked_at_for_ever_is_never_given_out_again),
    CASE(block_that_its_producer_keeps_is_given_out_after_it_lets_go),
    CASE(producer_that_lets_go_first_changes_nothing_for_the_version),
    CASE(blocks_with_pages_of_their_own_are_never_mixed_with_others),
    CASE(other_domains_and_producers_get_nothing_of_it),
    CASE(large_segment_is_used_again_if_half_of_it_is_needed),
    CASE(segment_wished_for_alone_is_never_used_again),
    CASE(frozen_segment_is_never_used_again),
    CASE(warm_memory_of_one_producer_is_bounded),
    CASE(warm_segment_that_is_used_again_is_not_dropped),
    CASE(warm_memory_is_found_by_who_pays_for_it),
    CASE(slabs_belong_to_a_payer),
    CASE(random_use_never_overlaps),
};

TEST_MAIN(tests)
