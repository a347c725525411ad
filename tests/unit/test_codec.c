/*
 * The codec against its friends (every message there and back), against hostile
 * bytes, and against memory that ends at every point. The linker wraps malloc, which
 * serves protobuf-c too since that gets its memory from us, and what opens an arena.
 */

#include "support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec_samples.h"
#include "proto/codec.h"

/* ---- a heap that fails ---- */

static size_t heap_used;
static size_t n_allocations;
static size_t failing_allocation; /* 1 is the first; 0: none */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
  if (++n_allocations == failing_allocation)
    return NULL;
  heap_used += size;
  return __real_malloc(size);
}

static void fail_allocation(size_t n)
{
  heap_used = 0;
  n_allocations = 0;
  failing_allocation = n;
}

/* ---- an arena that ends early ---- */

static size_t arena_limit = SIZE_MAX;

struct codec_arena;
void __real_codec_arena_init(struct codec_arena *arena, size_t budget);
void __wrap_codec_arena_init(struct codec_arena *arena, size_t budget);

void __wrap_codec_arena_init(struct codec_arena *arena, size_t budget)
{
  __real_codec_arena_init(arena, budget < arena_limit ? budget : arena_limit);
}

/* ---- what a test works with ---- */

struct bench {
  uint8_t bytes[2 * DLP_PACKET_MAX];
  size_t size;
  struct codec_request request;
  struct codec_reply reply;
};

static int setup(void **state)
{
  *state = calloc(1, sizeof(struct bench));
  return *state ? 0 : -1;
}

static int teardown(void **state)
{
  struct bench *bench = *state;

  fail_allocation(0);
  arena_limit = SIZE_MAX;
  codec_request_deinit(&bench->request);
  codec_reply_deinit(&bench->reply);
  free(bench);
  return 0;
}

static int decode_request(struct bench *bench)
{
  codec_request_deinit(&bench->request);
  return codec_decode_request(&bench->request, bench->bytes, bench->size);
}

static int decode_reply(struct bench *bench)
{
  codec_reply_deinit(&bench->reply);
  return codec_decode_reply(&bench->reply, bench->bytes, bench->size);
}

static int encode_request(struct bench *bench, const struct msg_request *request)
{
  return codec_encode_request(bench->bytes, DLP_PACKET_MAX, &bench->size, request);
}

static int encode_reply(struct bench *bench, const struct msg_reply *reply)
{
  return codec_encode_reply(bench->bytes, DLP_PACKET_MAX, &bench->size, reply);
}

/* ---- writing packets by hand ---- */

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, GROUP = 3, FIXED32 = 5 };

static void put_varint(struct bench *bench, uint64_t value)
{
  for (; value >= 128; value >>= 7)
    bench->bytes[bench->size++] = (uint8_t)(value | 128);
  bench->bytes[bench->size++] = (uint8_t)value;
}

static void put_number(struct bench *bench, uint32_t field, uint64_t value)
{
  put_varint(bench, (uint64_t)field << 3 | VARINT);
  put_varint(bench, value);
}

static void put_bytes(struct bench *bench, uint32_t field, const void *bytes, size_t size)
{
  put_varint(bench, (uint64_t)field << 3 | LENGTH);
  put_varint(bench, size);
  if (size > 0)
    memcpy(bench->bytes + bench->size, bytes, size);
  bench->size += size;
}

/* What was written from `start` on becomes the content of a field. */
static void wrap_bytes(struct bench *bench, uint32_t field, size_t start)
{
  static uint8_t content[DLP_PACKET_MAX];
  size_t size = bench->size - start;

  assert_true(size <= sizeof(content));
  memcpy(content, bench->bytes + start, size);
  bench->size = start;
  put_bytes(bench, field, content, size);
}

static void start_packet(struct bench *bench)
{
  bench->size = 0;
  put_number(bench, 1, 7); /* id */
}

/* A STAT of a name whose path is these bytes. */
static void make_stat(struct bench *bench, const void *path, size_t size)
{
  size_t start;

  start_packet(bench);
  start = bench->size;
  put_bytes(bench, 2, path, size);
  wrap_bytes(bench, 1, start);
  wrap_bytes(bench, 29, start);
}

/* A PUBLISH of one tensor of so many dimensions and strides, and attributes. */
static void make_publish(struct bench *bench, size_t n_shape, size_t n_strides, size_t key_size,
                         size_t value_size)
{
  static const uint8_t ones[DLP_PACKET_MAX] = {[0 ... DLP_PACKET_MAX - 1] = 1};
  size_t start, at;

  start_packet(bench);
  start = bench->size;
  put_bytes(bench, 1, "\x12\x01w", 3);
  at = bench->size;
  put_bytes(bench, 5, ones, n_shape);
  put_bytes(bench, 6, ones, n_strides);
  wrap_bytes(bench, 2, at);
  put_bytes(bench, 3, NULL, 0);
  at = bench->size;
  put_bytes(bench, 1, ones, key_size);
  put_bytes(bench, 2, ones, value_size);
  wrap_bytes(bench, 6, at);
  wrap_bytes(bench, 4, start);
  wrap_bytes(bench, 21, start);
}

/* A request of type `body` whose list at `field` has `n` empty elements. */
static void make_list(struct bench *bench, uint32_t body, uint32_t field, size_t n)
{
  size_t start;

  start_packet(bench);
  start = bench->size;
  for (size_t i = 0; i < n; i++)
    put_bytes(bench, field, NULL, 0);
  wrap_bytes(bench, body, start);
}

/* ---- there and back ---- */

static void every_request_comes_back_as_it_was(void **state)
{
  struct bench *bench = *state;

  for (size_t i = 0; i < codec_n_sample_requests; i++) {
    assert_int_equal(encode_request(bench, &codec_sample_requests[i]), 0);
    assert_int_equal(decode_request(bench), 0);
    codec_assert_same_request(&codec_sample_requests[i], &bench->request.request);
  }
}

static void every_reply_comes_back_as_it_was(void **state)
{
  struct bench *bench = *state;

  for (size_t i = 0; i < codec_n_sample_replies; i++) {
    assert_int_equal(encode_reply(bench, &codec_sample_replies[i]), 0);
    assert_int_equal(decode_reply(bench), 0);
    codec_assert_same_reply(&codec_sample_replies[i], &bench->reply.reply);
  }
}

static void samples_leave_out_no_type(void **state)
{
  uint32_t requests = 0, replies = 0;

  for (size_t i = 0; i < codec_n_sample_requests; i++)
    requests |= 1u << codec_sample_requests[i].type;
  for (size_t i = 0; i < codec_n_sample_replies; i++)
    replies |= 1u << codec_sample_replies[i].type;
  assert_int_equal(requests, (2u << MSG_STATS) - 2);
  assert_int_equal(replies, (2u << MSG_COUNTERS) - 1);
}

static void what_is_absent_means_the_sender_and_the_beginning(void **state)
{
  struct bench *bench = *state;

  make_list(bench, 28, 99, 0);
  assert_int_equal(decode_request(bench), 0);
  assert_true(bench->request.request.u.list.owner == MSG_OWNER_SELF);
  assert_string_equal(bench->request.request.u.list.prefix, "");
  assert_string_equal(bench->request.request.u.list.after.path, "");
  make_list(bench, 19, 99, 0);
  assert_int_equal(decode_request(bench), 0);
  assert_true(bench->request.request.u.allocate.owner == MSG_OWNER_SELF);
  assert_true(bench->request.request.u.allocate.gid == MSG_OWNER_SELF);
}

static void message_that_does_not_fit_is_too_large(void **state)
{
  struct bench *bench = *state;
  const struct msg_request *request = &codec_sample_requests[0];
  size_t full;

  assert_int_equal(encode_request(bench, request), 0);
  full = bench->size;
  for (size_t size = 0; size < full; size++)
    assert_int_equal(codec_encode_request(bench->bytes, size, &bench->size, request),
                     CODEC_E_TOO_LARGE);
  assert_int_equal(codec_encode_request(bench->bytes, full, &bench->size, request), 0);
}

/* ---- hostile bytes ---- */

static void expect_malformed(struct bench *bench)
{
  assert_int_equal(decode_request(bench), CODEC_E_MALFORMED);
  assert_null(bench->request.arena);
}

static void empty_packet_is_malformed(void **state)
{
  struct bench *bench = *state;

  bench->size = 0;
  expect_malformed(bench);
  assert_int_equal(decode_reply(bench), CODEC_E_MALFORMED);
}

static void packet_above_the_limit_is_malformed(void **state)
{
  static const uint8_t zeroes[DLP_PACKET_MAX];
  struct bench *bench = *state;

  make_stat(bench, "w", 1);
  put_bytes(bench, 9, zeroes, DLP_PACKET_MAX - bench->size - 4);
  assert_int_equal(bench->size, DLP_PACKET_MAX);
  assert_int_equal(decode_request(bench), 0);
  put_number(bench, 9, 0);
  expect_malformed(bench);
}

static void random_bytes_never_harm(void **state)
{
  struct bench *bench = *state;
  uint64_t random = 88172645463325252u;

  for (int round = 0; round < 20000; round++) {
    bench->size = (size_t)round % 300;
    for (size_t i = 0; i < bench->size; i++) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      bench->bytes[i] = (uint8_t)random;
    }
    (void)decode_request(bench);
    (void)decode_reply(bench);
  }
}

static void every_truncation_is_survived(void **state)
{
  struct bench *bench = *state;

  for (size_t i = 0; i < codec_n_sample_requests; i++) {
    assert_int_equal(encode_request(bench, &codec_sample_requests[i]), 0);
    for (; bench->size > 0; bench->size--)
      (void)decode_request(bench);
  }
  for (size_t i = 0; i < codec_n_sample_replies; i++) {
    assert_int_equal(encode_reply(bench, &codec_sample_replies[i]), 0);
    for (; bench->size > 0; bench->size--)
      (void)decode_reply(bench);
  }
}

static void every_flipped_bit_is_survived(void **state)
{
  struct bench *bench = *state;

  for (size_t i = 0; i < codec_n_sample_requests; i++) {
    assert_int_equal(encode_request(bench, &codec_sample_requests[i]), 0);
    for (size_t bit = 0; bit < bench->size * 8; bit++) {
      bench->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
      (void)decode_request(bench);
      bench->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
  }
}

static void decoding_stays_within_its_budget(void **state)
{
  struct bench *bench = *state;

  /* 64 KiB of two-byte unknown fields, on their own and in a body. */
  bench->size = 0;
  while (bench->size < DLP_PACKET_MAX)
    put_number(bench, 9, 0);
  fail_allocation(0);
  expect_malformed(bench);
  assert_true(heap_used <= DLP_DECODE_BUDGET);

  /* 64 KiB of empty submessages, in lists with a limit and without. */
  make_list(bench, 21, 4, 32000);
  fail_allocation(0);
  expect_malformed(bench);
  assert_true(heap_used <= DLP_DECODE_BUDGET);
  make_list(bench, 19, 1, 32000);
  fail_allocation(0);
  assert_int_equal(decode_reply(bench), CODEC_E_MALFORMED);
  assert_true(heap_used <= DLP_DECODE_BUDGET);

  /* One body after the other, each replacing the last. */
  start_packet(bench);
  while (bench->size < DLP_PACKET_MAX - 2)
    put_bytes(bench, bench->size % 2 ? 18 : 31, NULL, 0);
  fail_allocation(0);
  (void)decode_request(bench);
  assert_true(heap_used <= DLP_DECODE_BUDGET);
}

static void list_over_its_limit_is_malformed(void **state)
{
  static const struct {
    uint32_t body, field;
  } lists[] = {{19, 7}, {20, 1}, {23, 7}}; /* blocks, places, names */
  struct bench *bench = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(lists); i++) {
    make_list(bench, lists[i].body, lists[i].field, DLP_BATCH_MAX);
    assert_int_equal(decode_request(bench), 0);
    make_list(bench, lists[i].body, lists[i].field, DLP_BATCH_MAX + 1);
    expect_malformed(bench);
  }
}

static void more_numbers_than_a_batch_are_malformed(void **state)
{
  static const uint32_t bodies[] = {24, 26}; /* cells of RELEASE, segments of FORGET */
  static const uint8_t ones[DLP_BATCH_MAX + 1] = {[0 ... DLP_BATCH_MAX] = 1};
  struct bench *bench = *state;
  size_t start;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(bodies); i++)
    for (size_t n = DLP_BATCH_MAX; n <= DLP_BATCH_MAX + 1; n++) {
      start_packet(bench);
      start = bench->size;
      put_bytes(bench, 1, ones, n);
      wrap_bytes(bench, bodies[i], start);
      assert_int_equal(decode_request(bench), n > DLP_BATCH_MAX ? CODEC_E_MALFORMED : 0);
    }
}

static void text_must_be_utf8_without_nul(void **state)
{
  static const struct {
    const char *path;
    size_t size;
    int expected;
  } cases[] = {
      {"good", 4, 0},
      {"g\xc3\xbct", 4, 0},
      {"", 0, 0},
      {"\0", 1, CODEC_E_MALFORMED},
      {"a\0b", 3, CODEC_E_MALFORMED},
      {"trailing\0", 9, CODEC_E_MALFORMED},
      {"\xff", 1, CODEC_E_MALFORMED},
      {"cut\xc3", 4, CODEC_E_MALFORMED},
      {"\xc0\xaf", 2, CODEC_E_MALFORMED},         /* an overlong slash */
      {"\xed\xa0\x80", 3, CODEC_E_MALFORMED},     /* a surrogate */
      {"\xf4\x90\x80\x80", 4, CODEC_E_MALFORMED}, /* above U+10FFFF */
  };
  struct bench *bench = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    make_stat(bench, cases[i].path, cases[i].size);
    assert_int_equal(decode_request(bench), cases[i].expected);
  }
}

static void token_of_another_size_is_malformed(void **state)
{
  struct bench *bench = *state;
  size_t start;

  for (size_t size = 1; size <= 20; size++) {
    start_packet(bench);
    start = bench->size;
    put_bytes(bench, 5, "0123456789abcdefghij", size);
    wrap_bytes(bench, 16, start);
    assert_int_equal(decode_request(bench), size == DLP_TOKEN_SIZE ? 0 : CODEC_E_MALFORMED);
  }
}

static void client_name_has_a_limit(void **state)
{
  static const char name[DLP_CLIENT_NAME_MAX + 1] = {[0 ... DLP_CLIENT_NAME_MAX] = 'n'};
  struct bench *bench = *state;
  size_t start;

  for (size_t size = DLP_CLIENT_NAME_MAX; size <= DLP_CLIENT_NAME_MAX + 1; size++) {
    start_packet(bench);
    start = bench->size;
    put_bytes(bench, 4, name, size);
    wrap_bytes(bench, 16, start);
    assert_int_equal(decode_request(bench), size > DLP_CLIENT_NAME_MAX ? CODEC_E_MALFORMED : 0);
  }
}

static void shape_strides_and_attributes_have_limits(void **state)
{
  static const struct {
    size_t n_shape, n_strides, key_size, value_size;
    int expected;
  } cases[] = {
      {0, 0, 1, 0, 0},
      {DLP_NDIM_MAX, DLP_NDIM_MAX, 1, 1, 0},
      {DLP_NDIM_MAX + 1, 0, 1, 1, CODEC_E_MALFORMED},
      {DLP_NDIM_MAX + 1, DLP_NDIM_MAX + 1, 1, 1, CODEC_E_MALFORMED},
      {60000, 0, 1, 1, CODEC_E_MALFORMED},
      {2, 3, 1, 1, CODEC_E_MALFORMED},
      {3, 2, 1, 1, CODEC_E_MALFORMED},
      {0, 1, 1, 1, CODEC_E_MALFORMED},
      {1, 1, 6, DLP_ATTRIBUTES_MAX - 6, 0},
      {1, 1, 6, DLP_ATTRIBUTES_MAX - 5, CODEC_E_MALFORMED},
  };
  struct bench *bench = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    make_publish(bench, cases[i].n_shape, cases[i].n_strides, cases[i].key_size,
                 cases[i].value_size);
    assert_int_equal(decode_request(bench), cases[i].expected);
  }
}

static void missing_parts_are_malformed(void **state)
{
  /* Add without name; DELETE and STAT without name; GET of a prefix without one. */
  static const struct {
    uint32_t body, field;
  } cases[] = {{21, 4}, {27, 99}, {29, 99}};
  struct bench *bench = *state;
  size_t start;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    make_list(bench, cases[i].body, cases[i].field, 1);
    expect_malformed(bench);
  }
  start_packet(bench);
  start = bench->size;
  put_number(bench, 2, 1);
  wrap_bytes(bench, 23, start);
  expect_malformed(bench);
}

static void answer_without_tokens_name_or_segment_is_malformed(void **state)
{
  static const struct {
    uint32_t body, field;
  } cases[] = {{16, 6}, {19, 1}, {20, 99}, {22, 1}, {23, 3}};
  struct bench *bench = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    make_list(bench, cases[i].body, cases[i].field, 1);
    assert_int_equal(decode_reply(bench), CODEC_E_MALFORMED);
  }
}

static void request_that_wants_an_answer_needs_an_id(void **state)
{
  struct bench *bench = *state;

  bench->size = 0;
  put_bytes(bench, 18, NULL, 0);
  expect_malformed(bench);
  bench->size = 0;
  put_bytes(bench, 24, NULL, 0);
  assert_int_equal(decode_request(bench), 0);
}

static void more_descriptors_than_a_packet_carries_are_malformed(void **state)
{
  struct bench *bench = *state;

  start_packet(bench);
  put_bytes(bench, 18, NULL, 0);
  put_number(bench, 2, DLP_PACKET_FDS_MAX);
  assert_int_equal(decode_request(bench), 0);
  put_number(bench, 2, DLP_PACKET_FDS_MAX + 1);
  expect_malformed(bench);
}

static void group_and_field_number_zero_are_malformed(void **state)
{
  struct bench *bench = *state;

  start_packet(bench);
  put_bytes(bench, 18, NULL, 0);
  put_varint(bench, 9 << 3 | GROUP);
  expect_malformed(bench);
  start_packet(bench);
  put_bytes(bench, 18, NULL, 0);
  put_varint(bench, 0);
  put_varint(bench, 0);
  expect_malformed(bench);
}

/* ---- old and new ---- */

static void unknown_type_is_told_apart_with_its_id(void **state)
{
  struct bench *bench = *state;

  for (uint32_t body = 32; body < 3000; body += 41) {
    start_packet(bench);
    put_bytes(bench, body, "anything", 8);
    assert_int_equal(decode_request(bench), CODEC_E_UNKNOWN);
    assert_int_equal(bench->request.request.id, 7);
    assert_null(bench->request.arena);
    assert_int_equal(decode_reply(bench), CODEC_E_UNKNOWN);
    assert_int_equal(bench->reply.reply.id, 7);
  }
}

static void request_without_a_type_is_malformed(void **state)
{
  struct bench *bench = *state;

  start_packet(bench);
  put_number(bench, 9, 1);
  expect_malformed(bench);
}

static void unknown_field_below_1000_is_ignored(void **state)
{
  struct bench *bench = *state;
  size_t start;

  start_packet(bench);
  put_number(bench, 9, 1);
  start = bench->size;
  put_number(bench, 3, 0xf00d);
  put_bytes(bench, 500, "from the future", 15);
  put_number(bench, 999, 1);
  wrap_bytes(bench, 16, start);
  assert_int_equal(decode_request(bench), 0);
  assert_int_equal(bench->request.request.u.hello.features, 0xf00d);
}

static void unknown_critical_field_refuses_the_message(void **state)
{
  struct bench *bench = *state;
  size_t start;

  /* In the envelope, in a body, in an element of a list of a body. */
  for (int depth = 0; depth < 3; depth++) {
    start_packet(bench);
    start = bench->size;
    put_number(bench, 1000, 1);
    if (depth == 2)
      wrap_bytes(bench, 7, start);
    if (depth > 0)
      wrap_bytes(bench, 23, start);
    else
      put_bytes(bench, 23, NULL, 0);
    assert_int_equal(decode_request(bench), CODEC_E_UNKNOWN);
    assert_int_equal(bench->request.request.id, 7);
  }
}

static void status_of_a_later_version_is_kept_as_its_number(void **state)
{
  struct bench *bench = *state;

  start_packet(bench);
  put_number(bench, 4, 5000);
  assert_int_equal(decode_reply(bench), 0);
  assert_int_equal(bench->reply.reply.status, 5000);
  assert_string_equal(bench->reply.reply.message, "");
  put_number(bench, 4, UINT64_MAX);
  assert_int_equal(decode_reply(bench), CODEC_E_MALFORMED);
}

/* ---- full packets ---- */

static const struct msg_attribute two_attributes[] = {{"step", "1200"}, {"dp", "0"}};
static const int64_t small_shape[] = {4096};

static struct msg_tensor dense_tensor(void)
{
  return (struct msg_tensor){
      .name = {1000, "m/0"},
      .version = 1u << 31,
      .spec = {.code = 2, .bits = 32, .lanes = 1, .ndim = 1, .shape = small_shape},
      .place = {.segment = 1, .offset = 256, .size = 16384},
      .flags = MSG_TENSOR_FROZEN,
      .backend = MSG_BACKEND_MEMFD,
      .lifetime = MSG_LIFETIME_TTL,
      .ttl_ms = 1,
      .mode = 0644,
      .gid = 1,
      .publisher_uid = 1,
      .publisher_pid = 1,
      .created_us = 1u << 31,
      .age_ms = 1,
      .readers = 1,
      .change = 1,
      .n_attributes = TEST_ARRAY_SIZE(two_attributes),
      .attributes = two_attributes,
  };
}

static void a_packet_full_of_grants_decodes_within_the_budget(void **state)
{
  static struct msg_grant grants[DLP_PACKET_MAX / 32];
  struct bench *bench = *state;
  struct msg_reply reply = {.id = 1, .type = MSG_GRANTED, .u.granted.grants = grants};
  size_t room = DLP_PACKET_MAX - 64;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(grants); i++) {
    grants[i] = (struct msg_grant){.cell = (uint32_t)i, .tensor = dense_tensor()};
    if (codec_grant_size(&grants[i]) > room)
      break;
    room -= codec_grant_size(&grants[i]);
    reply.u.granted.n_grants++;
  }
  assert_int_equal(encode_reply(bench, &reply), 0);
  assert_true(bench->size > DLP_PACKET_MAX - 512);
  assert_int_equal(decode_reply(bench), 0);
  codec_assert_same_reply(&reply, &bench->reply.reply);
}

static void a_packet_full_of_events_decodes_within_the_budget(void **state)
{
  static struct msg_event events[2600];
  struct bench *bench = *state;
  struct msg_reply reply = {.id = 1, .type = MSG_WATCHED, .u.watched.events = events};

  for (size_t i = 0; i < TEST_ARRAY_SIZE(events); i++)
    events[i] = (struct msg_event){MSG_EVENT_PUBLISHED, {1000, "a"}, DLP_VERSION_MAX, i + 1};
  reply.u.watched.n_events = TEST_ARRAY_SIZE(events);
  assert_int_equal(encode_reply(bench, &reply), 0);
  assert_true(bench->size > DLP_PACKET_MAX - 8192);
  assert_int_equal(decode_reply(bench), 0);
  codec_assert_same_reply(&reply, &bench->reply.reply);
}

/* ---- sizes ---- */

static size_t reply_size(struct bench *bench, const struct msg_reply *reply)
{
  assert_int_equal(encode_reply(bench, reply), 0);
  return bench->size;
}

static size_t request_size(struct bench *bench, const struct msg_request *request)
{
  assert_int_equal(encode_request(bench, request), 0);
  return bench->size;
}

/* An envelope and a body cost this much at most; the rest is the part itself. */
#define ENVELOPE_MAX 32

static uint64_t next_random(uint64_t *random)
{
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return *random >> (*random >> 58); /* of any length */
}

static void randomise_tensor(struct msg_tensor *tensor, int64_t *sides, uint64_t *random)
{
  *tensor = dense_tensor();
  for (size_t i = 0; i < DLP_NDIM_MAX; i++)
    sides[i] = (int64_t)(next_random(random) << (i % 8));
  tensor->name.owner = (uint32_t)next_random(random) >> 1;
  tensor->version = next_random(random);
  tensor->spec.ndim = next_random(random) % (DLP_NDIM_MAX + 1);
  tensor->spec.shape = sides;
  tensor->spec.strides = next_random(random) % 2 && tensor->spec.ndim ? sides : NULL;
  tensor->spec.code = (uint32_t)next_random(random);
  tensor->place.offset = next_random(random);
  tensor->place.first = next_random(random);
  tensor->backend = (uint32_t)next_random(random);
  tensor->lifetime = (uint32_t)next_random(random);
  tensor->publisher_pid = (int32_t)next_random(random);
  tensor->change = next_random(random);
  tensor->age_ms = next_random(random);
  tensor->n_attributes = next_random(random) % 3;
}

static void size_bounds_hold_and_are_close(void **state)
{
  struct bench *bench = *state;
  uint64_t random = 1;
  int64_t sides[DLP_NDIM_MAX];

  for (int round = 0; round < 20000; round++) {
    struct msg_grant grant = {.cell = (uint32_t)next_random(&random)};
    struct msg_reply granted = {.id = 1, .type = MSG_GRANTED, .u.granted = {1, &grant, 0, NULL}};
    struct msg_reply listed = {
        .id = 1, .type = MSG_LISTED, .u.listed = {.n_tensors = 1, .tensors = &grant.tensor}};
    size_t size;

    randomise_tensor(&grant.tensor, sides, &random);
    size = reply_size(bench, &granted);
    assert_true(size <= codec_grant_size(&grant) + ENVELOPE_MAX);
    assert_true(size >= codec_grant_size(&grant));
    size = reply_size(bench, &listed);
    assert_true(size <= codec_tensor_size(&grant.tensor) + ENVELOPE_MAX);
    assert_true(size >= codec_tensor_size(&grant.tensor));
  }
}

static void parts_take_no_more_than_their_bound(void **state)
{
  struct bench *bench = *state;
  uint64_t random = 2;
  int64_t sides[DLP_NDIM_MAX];

  for (int round = 0; round < 5000; round++) {
    struct msg_tensor tensor;
    struct msg_add adds[2];
    struct msg_request publish = {.id = 1, .type = MSG_PUBLISH, .u.publish = {.adds = adds}};
    struct msg_request get = {.id = 1, .type = MSG_GET};
    size_t one, two;

    randomise_tensor(&tensor, sides, &random);
    adds[0] = (struct msg_add){.name = {MSG_OWNER_SELF, ""}};
    adds[1] = (struct msg_add){.name = tensor.name,
                               .spec = tensor.spec,
                               .place = tensor.place,
                               .freeze = random & 4,
                               .has_expected = random & 8,
                               .expected = tensor.version,
                               .n_attributes = tensor.n_attributes,
                               .attributes = two_attributes};
    /* What the second element adds, but for the longer prefix of its body. */
    publish.u.publish.n_adds = 1;
    one = request_size(bench, &publish);
    publish.u.publish.n_adds = 2;
    two = request_size(bench, &publish);
    assert_true(two - one <= codec_add_size(&adds[1]) + 2);
    get.u.get.names = &tensor.name;
    one = request_size(bench, &get);
    get.u.get.n_names = 1;
    two = request_size(bench, &get);
    assert_true(two - one <= codec_name_size(&tensor.name) + 2);
  }
}

/* ---- no memory ---- */

typedef int (*step_fn)(struct bench *bench, size_t sample);

static int encode_sample_request(struct bench *bench, size_t sample)
{
  return encode_request(bench, &codec_sample_requests[sample]);
}

static int decode_sample_request(struct bench *bench, size_t sample)
{
  return decode_request(bench);
}

static int encode_sample_reply(struct bench *bench, size_t sample)
{
  return encode_reply(bench, &codec_sample_replies[sample]);
}

static int decode_sample_reply(struct bench *bench, size_t sample)
{
  return decode_reply(bench);
}

/* Every step of every sample, each after the one that makes its input. */
static void with_every_step(struct bench *bench, void (*function)(struct bench *, step_fn, size_t))
{
  for (size_t i = 0; i < codec_n_sample_requests; i++) {
    function(bench, encode_sample_request, i);
    function(bench, decode_sample_request, i);
    codec_assert_same_request(&codec_sample_requests[i], &bench->request.request);
  }
  for (size_t i = 0; i < codec_n_sample_replies; i++) {
    function(bench, encode_sample_reply, i);
    function(bench, decode_sample_reply, i);
    codec_assert_same_reply(&codec_sample_replies[i], &bench->reply.reply);
  }
}

static void fail_each_allocation(struct bench *bench, step_fn step, size_t sample)
{
  int r = -ENOMEM;

  for (size_t n = 1; r != 0; n++) {
    assert_int_equal(r, -ENOMEM);
    fail_allocation(n);
    r = step(bench, sample);
  }
  fail_allocation(0);
}

static void failed_allocation_is_told_and_leaks_nothing(void **state)
{
  with_every_step(*state, fail_each_allocation);
}

static void end_the_arena_anywhere(struct bench *bench, step_fn step, size_t sample)
{
  int r = CODEC_E_MALFORMED;

  for (arena_limit = 0; r != 0; arena_limit += 8) {
    assert_int_equal(r, CODEC_E_MALFORMED);
    r = step(bench, sample);
  }
  arena_limit = SIZE_MAX;
}

static void budget_that_ends_anywhere_leaves_nothing_half_done(void **state)
{
  with_every_step(*state, end_the_arena_anywhere);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(every_request_comes_back_as_it_was),
    TEST(every_reply_comes_back_as_it_was),
    TEST(samples_leave_out_no_type),
    TEST(what_is_absent_means_the_sender_and_the_beginning),
    TEST(message_that_does_not_fit_is_too_large),
    TEST(empty_packet_is_malformed),
    TEST(packet_above_the_limit_is_malformed),
    TEST(random_bytes_never_harm),
    TEST(every_truncation_is_survived),
    TEST(every_flipped_bit_is_survived),
    TEST(decoding_stays_within_its_budget),
    TEST(list_over_its_limit_is_malformed),
    TEST(more_numbers_than_a_batch_are_malformed),
    TEST(text_must_be_utf8_without_nul),
    TEST(token_of_another_size_is_malformed),
    TEST(client_name_has_a_limit),
    TEST(shape_strides_and_attributes_have_limits),
    TEST(missing_parts_are_malformed),
    TEST(answer_without_tokens_name_or_segment_is_malformed),
    TEST(request_that_wants_an_answer_needs_an_id),
    TEST(more_descriptors_than_a_packet_carries_are_malformed),
    TEST(group_and_field_number_zero_are_malformed),
    TEST(unknown_type_is_told_apart_with_its_id),
    TEST(request_without_a_type_is_malformed),
    TEST(unknown_field_below_1000_is_ignored),
    TEST(unknown_critical_field_refuses_the_message),
    TEST(status_of_a_later_version_is_kept_as_its_number),
    TEST(a_packet_full_of_grants_decodes_within_the_budget),
    TEST(a_packet_full_of_events_decodes_within_the_budget),
    TEST(size_bounds_hold_and_are_close),
    TEST(parts_take_no_more_than_their_bound),
    TEST(failed_allocation_is_told_and_leaks_nothing),
    TEST(budget_that_ends_anywhere_leaves_nothing_half_done),
};

TEST_MAIN(tests)
