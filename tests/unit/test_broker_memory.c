/* ALLOCATE, FREE, MAP, FORGET. */

#include "support/test.h"

#include <errno.h>
#include <string.h>

#include "support/fake_peer.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct msg_allocate one_block(const struct msg_block *block)
{
  return fake_allocate(block, 1);
}

static const struct msg_reply *allocate_sizes(struct service *s, const uint64_t *sizes, size_t n,
                                              uint32_t flags)
{
  struct msg_block blocks[DLP_BATCH_MAX] = {{0}};
  struct msg_allocate allocate = fake_allocate(blocks, n);

  for (size_t i = 0; i < n; i++)
    blocks[i] = (struct msg_block){sizes ? sizes[i] : 64, flags};
  return fake_peer_allocate(&s->edge, s->alice, &allocate);
}

/* Of what was made before it was refused, all comes back in time. */
static void nothing_was_allocated(struct service *s)
{
  fake_edge_advance(&s->edge, FAKE_WARM_MS);
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 0);
  assert_int_equal(fake_edge_counter(&s->edge, "bytes"), 0);
  fake_edge_check(&s->edge);
}

/* ---- what is refused ---- */

static void number_of_blocks_is_bounded(void **state)
{
  struct service *s = *state;

  assert_int_equal(allocate_sizes(s, NULL, 0, 0)->status, DLP_STATUS_INVALID);
  assert_int_equal(allocate_sizes(s, NULL, DLP_PACKET_FDS_MAX + 1, 0)->status, DLP_STATUS_INVALID);
  nothing_was_allocated(s);
  assert_int_equal(allocate_sizes(s, NULL, DLP_PACKET_FDS_MAX, 0)->status, DLP_STATUS_OK);
}

static void fields_out_of_range_are_refused(void **state)
{
  static const struct {
    uint32_t lifetime, mode, gid, backend;
    enum dlp_status status;
  } cases[] = {
      {0, 0, ALICE, 0, DLP_STATUS_INVALID},
      {4, 0, ALICE, 0, DLP_STATUS_INVALID},
      {UINT32_MAX, 0, ALICE, 0, DLP_STATUS_INVALID},
      {1, 0700, ALICE, 0, DLP_STATUS_INVALID},
      {1, 04600, ALICE, 0, DLP_STATUS_INVALID},
      {1, UINT32_MAX, ALICE, 0, DLP_STATUS_INVALID},
      {1, 0600, GROUP_OF_BOB, 0, DLP_STATUS_DENIED},
      {1, 0600, 0, 0, DLP_STATUS_DENIED},
      {1, 0600, ALICE, 3, DLP_STATUS_UNSUPPORTED},
      {1, 0640, ALICE, MSG_BACKEND_POSIX_SHM, DLP_STATUS_UNSUPPORTED},
  };
  struct service *s = *state;
  struct msg_block block = {.size = 64};

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    struct msg_allocate allocate = one_block(&block);
    const struct msg_reply *reply;

    allocate.lifetime = cases[i].lifetime;
    allocate.mode = cases[i].mode;
    allocate.gid = cases[i].gid;
    allocate.backend = cases[i].backend;
    reply = fake_peer_allocate(&s->edge, s->alice, &allocate);
    assert_int_equal(reply->status, cases[i].status);
    nothing_was_allocated(s);
  }
}

static void memory_that_cannot_be_sealed_serves_its_owner_only(void **state)
{
  struct service *s = *state;
  struct msg_block block = {.size = 64};
  struct msg_allocate allocate = one_block(&block);

  allocate.backend = MSG_BACKEND_POSIX_SHM;
  allocate.mode = 0600;
  assert_int_equal(fake_peer_allocate(&s->edge, s->alice, &allocate)->status, 0);
  allocate.owner = BOB;
  assert_int_equal(fake_peer_allocate(&s->edge, s->alice, &allocate)->status,
                   DLP_STATUS_UNSUPPORTED);
}

static void sizes_near_the_end_of_64_bits_are_refused(void **state)
{
  static const uint64_t sizes[] = {
      UINT64_MAX,        UINT64_MAX - 255,        UINT64_MAX - 4095,
      UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, (UINT64_C(1) << 46) + 1};
  struct service *s = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(sizes); i++) {
    for (uint32_t flags = 0; flags < 4; flags++) {
      const struct msg_reply *reply = allocate_sizes(s, &sizes[i], 1, flags);
      assert_int_equal(reply->status, DLP_STATUS_NO_SPACE);
      nothing_was_allocated(s);
    }
  }
}

static void limit_quota_and_memory_are_told_apart(void **state)
{
  struct service *s = *state;
  uint64_t size = 256 * MIB;
  const struct msg_reply *reply;

  s->config.max_bytes = GIB;
  s->config.limits.of[QUOTA_BYTES] = 300 * MIB;
  service_restart(s);

  reply = allocate_sizes(s, &(uint64_t){2 * GIB}, 1, 0);
  assert_int_equal(reply->status, DLP_STATUS_NO_SPACE);
  assert_non_null(strstr(reply->message, "max-bytes"));

  reply = allocate_sizes(s, &(uint64_t){400 * MIB}, 1, 0);
  assert_int_equal(reply->status, DLP_STATUS_QUOTA);
  assert_non_null(strstr(reply->message, "user-bytes"));

  s->edge.env.memory_available = size - 1;
  reply = allocate_sizes(s, &size, 1, 0);
  assert_int_equal(reply->status, DLP_STATUS_NO_SPACE);
  assert_non_null(strstr(reply->message, "memory available"));
  nothing_was_allocated(s);
}

static void blocks_of_one_request_share_the_memory_available(void **state)
{
  static const uint64_t sizes[] = {12 * MIB, 12 * MIB, 12 * MIB};
  struct service *s = *state;

  s->edge.env.memory_available = 30 * MIB;
  assert_int_equal(allocate_sizes(s, sizes, 3, 0)->status, DLP_STATUS_NO_SPACE);
  nothing_was_allocated(s);
  assert_int_equal(allocate_sizes(s, sizes, 3, MSG_BLOCK_OWN_SEGMENT)->status, DLP_STATUS_NO_SPACE);
  nothing_was_allocated(s);
  assert_int_equal(allocate_sizes(s, sizes, 2, 0)->status, DLP_STATUS_OK);
}

static void refusal_of_the_last_block_leaves_nothing(void **state)
{
  struct service *s = *state;
  uint64_t sizes[5] = {64, 20 * MIB, 64, 20 * MIB, UINT64_MAX};

  assert_int_equal(allocate_sizes(s, sizes, 5, 0)->status, DLP_STATUS_NO_SPACE);
  nothing_was_allocated(s);
}

static void segments_have_a_quota(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;

  s->config.limits.of[QUOTA_SEGMENTS] = 2;
  service_restart(s);
  reply = allocate_sizes(s, NULL, 3, MSG_BLOCK_OWN_SEGMENT);
  assert_int_equal(reply->status, DLP_STATUS_QUOTA);
  assert_non_null(strstr(reply->message, "segments"));
  nothing_was_allocated(s);
}

static void blocks_cost_the_daemon_heap_that_somebody_pays_for(void **state)
{
  struct service *s = *state;
  const struct msg_reply *reply;
  size_t n = 0;

  s->config.limits.of[QUOTA_HEAP] = 64 * 1024;
  service_restart(s);
  do {
    reply = allocate_sizes(s, NULL, DLP_PACKET_FDS_MAX, 0);
    fake_edge_forget_replies(&s->edge);
  } while (fake_edge_counter(&s->edge, "bytes") > n &&
           (n = fake_edge_counter(&s->edge, "bytes")) < GIB);
  reply = allocate_sizes(s, NULL, DLP_PACKET_FDS_MAX, 0);
  assert_int_equal(reply->status, DLP_STATUS_QUOTA);
  assert_non_null(strstr(reply->message, "heap"));
}

/* ---- what fails outside ---- */

static void failed_creation_leaves_nothing(void **state)
{
  static const struct {
    int error;
    enum dlp_status status;
  } cases[] = {{-EMFILE, DLP_STATUS_BUSY},
               {-ENFILE, DLP_STATUS_BUSY},
               {-ENOMEM, DLP_STATUS_NO_SPACE},
               {-ENOSPC, DLP_STATUS_NO_SPACE},
               {-EOPNOTSUPP, DLP_STATUS_UNSUPPORTED},
               {-EIO, DLP_STATUS_SYSTEM}};
  struct service *s = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    for (size_t n = 0; n < 3; n++) {
      s->edge.fail_error = cases[i].error;
      s->edge.fail_kind = EFFECT_SEGMENT_CREATE;
      s->edge.fail_after = n;
      assert_int_equal(allocate_sizes(s, NULL, 3, MSG_BLOCK_OWN_SEGMENT)->status, cases[i].status);
      nothing_was_allocated(s);
    }
  }
}

static void client_that_goes_before_its_memory_comes_gets_none(void **state)
{
  struct service *s = *state;

  s->edge.is_holding = true;
  assert_null(allocate_sizes(s, NULL, 3, 0));
  fake_edge_disconnect(&s->edge, s->alice);
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  nothing_was_allocated(s);
}

static void memory_that_was_not_handed_out_yet_cannot_be_given_back(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  struct msg_request request = {.type = MSG_FREE, .u.free = {1, &place}};

  s->edge.is_holding = true;
  assert_null(allocate_sizes(s, NULL, 1, 0));
  place.offset += DLP_TENSOR_ALIGN; /* where the next will be */
  fake_peer_send(&s->edge, s->alice, &request);
  assert_false(fake_edge_is_open(&s->edge, s->alice));
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  fake_edge_check(&s->edge);
}

static void memory_that_was_not_handed_out_yet_cannot_be_published(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add;
  const struct msg_reply *reply;

  s->edge.is_holding = true;
  assert_null(allocate_sizes(s, NULL, 1, 0));
  place.offset += DLP_TENSOR_ALIGN;
  add = fake_add("w", &place, &shape);
  reply = fake_peer_publish(&s->edge, s->alice,
                            &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add});
  assert_non_null(reply);
  assert_int_equal(reply->status, DLP_STATUS_INVALID);
  s->edge.is_holding = false;
  fake_edge_complete_all(&s->edge);
  assert_int_equal(fake_peer_take(&s->edge, s->alice)->type, MSG_ALLOCATED);
}

/* ---- placement ---- */

static void tensors_start_aligned(void **state)
{
  static const uint64_t sizes[] = {1, 255, 256, 257, 0, 0, 5000};
  struct service *s = *state;
  const struct msg_reply *reply = allocate_sizes(s, sizes, TEST_ARRAY_SIZE(sizes), 0);
  uint64_t end = 0;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(sizes); i++) {
    const struct msg_place *place = &reply->u.allocated.places[i];
    assert_int_equal(place->offset % DLP_TENSOR_ALIGN, 0);
    assert_true(i == 0 || place->offset >= end);
    assert_int_equal(place->size, sizes[i]);
    end = place->offset + (place->size ? place->size : 1);
  }
  assert_int_equal(reply->u.allocated.n_segments, 1);
}

static void blocks_with_pages_of_their_own_share_none(void **state)
{
  static const uint64_t sizes[] = {1, 4096, 4097};
  struct service *s = *state;
  struct msg_place before = fake_peer_block(&s->edge, s->alice, 100);
  const struct msg_reply *reply = allocate_sizes(s, sizes, 3, MSG_BLOCK_OWN_PAGES);
  uint64_t end = 0;

  for (size_t i = 0; i < 3; i++) {
    const struct msg_place *place = &reply->u.allocated.places[i];
    assert_int_equal(place->offset % 4096, 0);
    assert_true(place->offset >= end);
    assert_int_not_equal(place->segment, before.segment);
    end = (place->offset + place->size + 4095) / 4096 * 4096;
  }
  assert_int_equal(fake_peer_block(&s->edge, s->alice, 1).segment, before.segment);
}

static void domains_never_share_a_segment(void **state)
{
  static const struct {
    uint32_t owner, gid, mode, lifetime, backend;
    bool is_mutable;
  } domains[] = {
      {MSG_OWNER_SELF, BOB, 0600, 1, 1, false},          {MSG_OWNER_SELF, BOB, 0640, 1, 1, false},
      {MSG_OWNER_SELF, GROUP_OF_BOB, 0600, 1, 1, false}, {MSG_OWNER_SELF, BOB, 0600, 2, 1, false},
      {MSG_OWNER_SELF, BOB, 0600, 3, 1, false},          {MSG_OWNER_SELF, BOB, 0600, 1, 2, false},
      {MSG_OWNER_SELF, BOB, 0600, 1, 1, true},           {ALICE, BOB, 0600, 1, 1, false},
  };
  uint64_t segments[TEST_ARRAY_SIZE(domains)];
  struct service *s = *state;
  struct msg_block block = {.size = 64};

  for (size_t i = 0; i < TEST_ARRAY_SIZE(domains); i++) {
    struct msg_allocate allocate = one_block(&block);
    allocate.owner = domains[i].owner;
    allocate.gid = domains[i].gid;
    allocate.mode = domains[i].mode;
    allocate.lifetime = domains[i].lifetime;
    allocate.backend = domains[i].backend;
    allocate.is_mutable = domains[i].is_mutable;
    segments[i] = fake_peer_allocate(&s->edge, s->bob, &allocate)->u.allocated.places[0].segment;
    for (size_t j = 0; j < i; j++)
      assert_int_not_equal(segments[i], segments[j]);
  }
  assert_int_not_equal(fake_peer_block(&s->edge, s->alice, 64).segment, segments[0]);
}

static void large_and_mutable_tensors_have_segments_of_their_own(void **state)
{
  static const uint64_t sizes[] = {16 * MIB, 16 * MIB};
  struct service *s = *state;
  const struct msg_reply *reply = allocate_sizes(s, sizes, 2, 0);

  assert_int_equal(reply->u.allocated.n_segments, 2);
  assert_int_equal(reply->u.allocated.segments[0].size, 16 * MIB);
  reply = allocate_sizes(s, NULL, 2, MSG_BLOCK_OWN_SEGMENT);
  assert_int_equal(reply->u.allocated.n_segments, 2);
  assert_int_equal(reply->u.allocated.segments[0].size, 4096);
}

static void many_tensors_need_few_descriptors(void **state)
{
  struct service *s = *state;
  uint64_t sizes[100];

  for (size_t i = 0; i < 100; i++)
    sizes[i] = 4 * MIB;
  for (size_t i = 0; i < 10; i++)
    assert_int_equal(allocate_sizes(s, sizes, 100, 0)->status, 0);
  assert_true(fake_edge_counter(&s->edge, "segments") <= 64);
}

static void descriptor_comes_with_the_first_block_only(void **state)
{
  struct service *s = *state;

  assert_int_equal(allocate_sizes(s, NULL, 2, 0)->u.allocated.n_segments, 1);
  assert_int_equal(allocate_sizes(s, NULL, 2, 0)->u.allocated.n_segments, 0);
}

/* ---- what is used again ---- */

static void free_places(struct service *s, const struct msg_place *places, size_t n)
{
  struct msg_request request = {.type = MSG_FREE, .u.free = {n, places}};

  fake_peer_send(&s->edge, s->alice, &request);
}

static void memory_given_up_is_given_out_again_without_a_descriptor(void **state)
{
  struct service *s = *state;
  struct msg_place first = fake_peer_block(&s->edge, s->alice, 64);
  struct msg_place second = fake_peer_block(&s->edge, s->alice, 64);
  const struct msg_reply *reply;

  free_places(s, &first, 1);
  reply = allocate_sizes(s, NULL, 1, 0);
  assert_int_equal(reply->u.allocated.places[0].segment, second.segment);
  assert_int_equal(reply->u.allocated.places[0].offset, first.offset);
  assert_int_equal(reply->u.allocated.n_segments, 0);
  assert_int_equal(fake_edge_counter(&s->edge, "blocks_reused_total"), 1);
}

static void publish_place(struct service *s, const char *name, const struct msg_place *place,
                          bool keep)
{
  int64_t shape;
  struct msg_add add = fake_add(name, place, &shape);
  const struct msg_reply *reply;

  add.keep = keep;
  reply = fake_peer_publish(&s->edge, s->alice,
                            &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add});
  assert_int_equal(reply->type, MSG_PUBLISHED);
}

static void memory_of_a_replaced_version_is_given_out_again(void **state)
{
  struct service *s = *state;
  struct msg_place first = fake_peer_block(&s->edge, s->alice, 64), second, third;

  publish_place(s, "w", &first, false);
  second = fake_peer_block(&s->edge, s->alice, 64);
  assert_int_not_equal(second.offset, first.offset);
  publish_place(s, "w", &second, false);
  third = fake_peer_block(&s->edge, s->alice, 64);
  assert_int_equal(third.offset, first.offset);
}

static void memory_that_somebody_holds_is_not_given_out(void **state)
{
  struct service *s = *state;
  struct msg_place first = fake_peer_block(&s->edge, s->alice, 64), second;

  publish_place(s, "w", &first, false);
  assert_int_equal(fake_peer_get(&s->edge, s->alice, ALICE, "w")->type, MSG_GRANTED);
  second = fake_peer_block(&s->edge, s->alice, 64);
  publish_place(s, "w", &second, false);
  assert_int_not_equal(fake_peer_block(&s->edge, s->alice, 64).offset, first.offset);
}

static void memory_that_its_producer_keeps_is_not_given_out_before_it_frees_it(void **state)
{
  struct service *s = *state;
  struct msg_place first = fake_peer_block(&s->edge, s->alice, 64);
  struct msg_place other = fake_peer_block(&s->edge, s->alice, 64);

  publish_place(s, "w", &first, true);
  publish_place(s, "w", &other, false);
  assert_int_not_equal(fake_peer_block(&s->edge, s->alice, 64).offset, first.offset);
  free_places(s, &first, 1);
  assert_int_equal(fake_peer_block(&s->edge, s->alice, 64).offset, first.offset);
  assert_true(fake_edge_is_open(&s->edge, s->alice));
}

static void memory_that_its_producer_frees_is_not_given_out_while_it_is_published(void **state)
{
  struct service *s = *state;
  struct msg_place first = fake_peer_block(&s->edge, s->alice, 64), second;

  publish_place(s, "w", &first, true);
  free_places(s, &first, 1);
  second = fake_peer_block(&s->edge, s->alice, 64);
  assert_int_not_equal(second.offset, first.offset);
  publish_place(s, "w", &second, true);
  assert_int_equal(fake_peer_block(&s->edge, s->alice, 64).offset, first.offset);
}

static void memory_that_is_kept_cannot_be_published_twice(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  int64_t shape;
  struct msg_add add = fake_add("again", &place, &shape);

  publish_place(s, "w", &place, true);
  assert_int_equal(
      fake_peer_publish(&s->edge, s->alice,
                        &(struct msg_publish){.commit = true, .n_adds = 1, .adds = &add})
          ->status,
      DLP_STATUS_INVALID);
}

static void memory_that_is_freed_twice_ends_the_connection(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);

  publish_place(s, "w", &place, true);
  free_places(s, &place, 1);
  assert_true(fake_edge_is_open(&s->edge, s->alice));
  free_places(s, &place, 1);
  assert_false(fake_edge_is_open(&s->edge, s->alice));
}

static void memory_that_is_kept_does_not_keep_a_segment(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);

  publish_place(s, "w", &place, true);
  assert_int_equal(fake_peer_delete(&s->edge, s->alice, MSG_OWNER_SELF, "w")->type, MSG_DELETED);
  nothing_was_allocated(s);
  free_places(s, &place, 1); /* it could not know */
  assert_true(fake_edge_is_open(&s->edge, s->alice));
}

static void memory_is_not_given_to_another_session(void **state)
{
  struct service *s = *state;
  uint64_t other = fake_peer_connect(&s->edge, ALICE);
  struct msg_place first = fake_peer_block(&s->edge, s->alice, 64);

  (void)fake_peer_block(&s->edge, s->alice, 64);
  free_places(s, &first, 1);
  assert_int_not_equal(fake_peer_block(&s->edge, other, 64).segment, first.segment);
}

static void warm_memory_is_given_back_before_anything_is_refused(void **state)
{
  static const uint64_t size = 200 * MIB, more = 90 * MIB;
  struct service *s = *state;
  struct msg_place place;

  s->config.limits.of[QUOTA_BYTES] = 256 * MIB;
  service_restart(s);
  place = fake_peer_block(&s->edge, s->alice, size);
  assert_int_equal(allocate_sizes(s, &more, 1, 0)->status, DLP_STATUS_QUOTA);
  free_places(s, &place, 1);
  assert_int_equal(fake_edge_counter(&s->edge, "warm_bytes"), size);
  assert_int_equal(allocate_sizes(s, &more, 1, 0)->status, DLP_STATUS_OK);
  assert_int_equal(fake_edge_counter(&s->edge, "bytes"), more);
}

static void warm_memory_goes_with_its_session(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);

  free_places(s, &place, 1);
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 1);
  fake_edge_die(&s->edge, fake_peer_session(&s->edge, s->alice));
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 0);
}

/* ---- free ---- */

static void segment_goes_with_its_last_block_and_the_client_is_told(void **state)
{
  struct service *s = *state;
  struct msg_place places[] = {fake_peer_block(&s->edge, s->alice, 64),
                               fake_peer_block(&s->edge, s->alice, 64)};
  struct msg_request request = {.type = MSG_FREE, .u.free = {2, places}};
  const struct msg_reply *reply;

  fake_peer_send(&s->edge, s->alice, &request);
  nothing_was_allocated(s);
  reply = fake_peer_call(&s->edge, s->alice, &(struct msg_request){.type = MSG_PING});
  assert_int_equal(reply->n_dropped, 1);
  assert_int_equal(reply->dropped[0], places[0].segment);
  reply = fake_peer_call(&s->edge, s->alice, &(struct msg_request){.type = MSG_PING});
  assert_int_equal(reply->n_dropped, 0);
}

static void many_dropped_segments_are_told_bit_by_bit(void **state)
{
  struct service *s = *state;
  size_t n_told = 0, n_rounds = 0;

  for (size_t i = 0; i < 3; i++) {
    const struct msg_reply *reply =
        allocate_sizes(s, NULL, DLP_PACKET_FDS_MAX, MSG_BLOCK_OWN_SEGMENT);
    struct msg_request request = {
        .type = MSG_FREE, .u.free = {reply->u.allocated.n_places, reply->u.allocated.places}};
    n_told += reply->n_dropped;
    fake_peer_send(&s->edge, s->alice, &request);
  }
  for (; n_told < 3 * DLP_PACKET_FDS_MAX && n_rounds < 10; n_rounds++)
    n_told +=
        fake_peer_call(&s->edge, s->alice, &(struct msg_request){.type = MSG_PING})->n_dropped;
  assert_int_equal(n_told, 3 * DLP_PACKET_FDS_MAX);
}

static void freeing_what_is_not_ones_own_ends_the_connection(void **state)
{
  struct service *s = *state;
  struct msg_place place = fake_peer_block(&s->edge, s->alice, 64);
  struct msg_request request = {.type = MSG_FREE, .u.free = {1, &place}};

  fake_peer_send(&s->edge, s->bob, &request);
  assert_false(fake_edge_is_open(&s->edge, s->bob));
  assert_int_equal(fake_edge_counter(&s->edge, "segments"), 1);
}

static void freeing_what_was_published_ends_the_connection(void **state)
{
  struct service *s = *state;
  struct msg_place place = {.segment = 1, .offset = 0, .size = 64};
  struct msg_request request = {.type = MSG_FREE, .u.free = {1, &place}};

  fake_peer_put(&s->edge, s->alice, "w");
  fake_peer_send(&s->edge, s->alice, &request);
  assert_false(fake_edge_is_open(&s->edge, s->alice));
  assert_int_equal(fake_edge_counter(&s->edge, "tensors"), 1);
}

/* ---- map and forget ---- */

static const struct msg_reply *map(struct service *s, uint64_t connection, uint64_t segment,
                                   uint32_t access)
{
  struct msg_request request = {.type = MSG_MAP, .u.map = {segment, access}};

  return fake_peer_call(&s->edge, connection, &request);
}

static void only_holders_may_map(void **state)
{
  struct service *s = *state;

  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_SESSION, 0644);
  assert_int_equal(map(s, s->bob, 1, MSG_ACCESS_READ)->status, DLP_STATUS_NOT_FOUND);
  assert_int_equal(map(s, s->alice, 1, MSG_ACCESS_READ)->status, DLP_STATUS_NOT_FOUND);
  assert_int_equal(map(s, s->bob, 4711, MSG_ACCESS_READ)->status, DLP_STATUS_NOT_FOUND);
  fake_peer_get(&s->edge, s->bob, ALICE, "w");
  assert_int_equal(map(s, s->bob, 1, MSG_ACCESS_READ)->status, DLP_STATUS_OK);
  assert_int_equal(map(s, s->bob, 1, MSG_ACCESS_SHARED)->status, DLP_STATUS_NOT_FOUND);
}

static void unknown_access_is_refused(void **state)
{
  struct service *s = *state;

  fake_peer_put(&s->edge, s->alice, "w");
  fake_peer_get(&s->edge, s->alice, MSG_OWNER_SELF, "w");
  assert_int_equal(map(s, s->alice, 1, 0)->status, DLP_STATUS_INVALID);
  assert_int_equal(map(s, s->alice, 1, 77)->status, DLP_STATUS_INVALID);
}

static void descriptor_is_sent_once_until_it_is_forgotten(void **state)
{
  struct service *s = *state;
  uint64_t segments[] = {1, 4711};
  struct msg_request forget = {.type = MSG_FORGET, .u.forget = {2, segments}};

  fake_peer_put_with(&s->edge, s->alice, "w", MSG_LIFETIME_SESSION, 0644);
  assert_int_equal(fake_peer_get(&s->edge, s->bob, ALICE, "w")->u.granted.n_segments, 1);
  assert_int_equal(fake_peer_get(&s->edge, s->bob, ALICE, "w")->u.granted.n_segments, 0);
  fake_peer_send(&s->edge, s->bob, &forget);
  assert_int_equal(fake_peer_get(&s->edge, s->bob, ALICE, "w")->u.granted.n_segments, 1);
  assert_true(fake_edge_is_open(&s->edge, s->bob));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, service_setup, service_teardown)

static const struct CMUnitTest tests[] = {
    CASE(number_of_blocks_is_bounded),
    CASE(fields_out_of_range_are_refused),
    CASE(memory_that_cannot_be_sealed_serves_its_owner_only),
    CASE(sizes_near_the_end_of_64_bits_are_refused),
    CASE(limit_quota_and_memory_are_told_apart),
    CASE(blocks_of_one_request_share_the_memory_available),
    CASE(refusal_of_the_last_block_leaves_nothing),
    CASE(segments_have_a_quota),
    CASE(blocks_cost_the_daemon_heap_that_somebody_pays_for),
    CASE(failed_creation_leaves_nothing),
    CASE(client_that_goes_before_its_memory_comes_gets_none),
    CASE(memory_that_was_not_handed_out_yet_cannot_be_given_back),
    CASE(memory_that_was_not_handed_out_yet_cannot_be_published),
    CASE(tensors_start_aligned),
    CASE(blocks_with_pages_of_their_own_share_none),
    CASE(domains_never_share_a_segment),
    CASE(large_and_mutable_tensors_have_segments_of_their_own),
    CASE(many_tensors_need_few_descriptors),
    CASE(descriptor_comes_with_the_first_block_only),
    CASE(memory_given_up_is_given_out_again_without_a_descriptor),
    CASE(memory_of_a_replaced_version_is_given_out_again),
    CASE(memory_that_somebody_holds_is_not_given_out),
    CASE(memory_that_its_producer_keeps_is_not_given_out_before_it_frees_it),
    CASE(memory_that_its_producer_frees_is_not_given_out_while_it_is_published),
    CASE(memory_that_is_kept_cannot_be_published_twice),
    CASE(memory_that_is_freed_twice_ends_the_connection),
    CASE(memory_that_is_kept_does_not_keep_a_segment),
    CASE(memory_is_not_given_to_another_session),
    CASE(warm_memory_is_given_back_before_anything_is_refused),
    CASE(warm_memory_goes_with_its_session),
    CASE(segment_goes_with_its_last_block_and_the_client_is_told),
    CASE(many_dropped_segments_are_told_bit_by_bit),
    CASE(freeing_what_is_not_ones_own_ends_the_connection),
    CASE(freeing_what_was_published_ends_the_connection),
    CASE(only_holders_may_map),
    CASE(unknown_access_is_refused),
    CASE(descriptor_is_sent_once_until_it_is_forgotten),
};

TEST_MAIN(tests)
