/*
 * The two codecs against each other: what the fast one writes are the bytes of the
 * full one, and what it reads the full one reads to the same message. Random messages,
 * and their bytes with some changed.
 */

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "codec_samples.h"
#include "proto/codec_fast.h"

struct bench {
  uint8_t bytes[DLP_PACKET_MAX];
  size_t size;
  uint8_t again[DLP_PACKET_MAX];
  struct codec_request fast_request, full_request;
  struct codec_reply fast_reply, full_reply;
  uint64_t random;
};

static int setup(void **state)
{
  struct bench *bench = calloc(1, sizeof(*bench));

  *state = bench;
  if (!bench)
    return -1;
  bench->random = 1;
  return 0;
}

static void clear(struct bench *bench)
{
  codec_request_deinit(&bench->fast_request);
  codec_request_deinit(&bench->full_request);
  codec_reply_deinit(&bench->fast_reply);
  codec_reply_deinit(&bench->full_reply);
}

static int teardown(void **state)
{
  clear(*state);
  free(*state);
  return 0;
}

/* ---- random messages ---- */

#define LIST_MAX 40

/* What a message's pointers point to. */
struct parts {
  int64_t sides[DLP_NDIM_MAX];
  uint64_t numbers[LIST_MAX];
  uint32_t cells[LIST_MAX];
  uint8_t payload[512];
  struct msg_name names[LIST_MAX];
  struct msg_add adds[LIST_MAX];
  struct msg_grant grants[LIST_MAX];
  struct msg_tensor tensors[LIST_MAX];
  struct msg_place places[LIST_MAX];
  struct msg_segment segments[LIST_MAX];
};

static const struct msg_attribute attributes[] = {
    {"framework", "torch"}, {"", ""}, {"sprache", "größer"}, {"k", ""}};
static const char *const texts[] = {"", "w", "model/layers.0/attention/weight", "日本/語",
                                    "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z/"
                                    "0123456789/0123456789/0123456789/0123456789/0123456789/"
                                    "0123456789/0123456789"};

/* Of any length, so that varints are too. */
static uint64_t any(struct bench *bench)
{
  bench->random = bench->random * 6364136223846793005u + 1442695040888963407u;
  return bench->random >> (bench->random >> 58);
}

static size_t below(struct bench *bench, size_t n)
{
  (void)any(bench);
  return (size_t)((bench->random >> 33) % n);
}

static size_t any_count(struct bench *bench)
{
  return below(bench, 2) ? below(bench, 3) : below(bench, LIST_MAX + 1);
}

static struct msg_name any_name(struct bench *bench)
{
  return (struct msg_name){.owner = (uint32_t)any(bench) >> 1,
                           .path = texts[below(bench, TEST_ARRAY_SIZE(texts))]};
}

static struct msg_spec any_spec(struct bench *bench, struct parts *parts)
{
  struct msg_spec spec = {.code = (uint32_t)any(bench),
                          .bits = (uint32_t)any(bench),
                          .lanes = (uint32_t)any(bench),
                          .flags = (uint32_t)below(bench, 2),
                          .ndim =
                              below(bench, 4) ? below(bench, 5) : below(bench, DLP_NDIM_MAX + 1)};

  for (size_t i = 0; i < DLP_NDIM_MAX; i++)
    parts->sides[i] = (int64_t)(any(bench) * (below(bench, 2) ? 1 : UINT64_MAX));
  spec.shape = spec.ndim ? parts->sides : NULL;
  spec.strides = spec.ndim && below(bench, 2) ? parts->sides : NULL;
  return spec;
}

static struct msg_place any_place(struct bench *bench)
{
  return (struct msg_place){any(bench), any(bench), any(bench), any(bench)};
}

static struct msg_tensor any_tensor(struct bench *bench, struct parts *parts)
{
  return (struct msg_tensor){
      .name = any_name(bench),
      .version = any(bench),
      .spec = any_spec(bench, parts),
      .place = any_place(bench),
      .flags = (uint32_t)any(bench),
      .backend = (uint32_t)any(bench) >> below(bench, 2),
      .lifetime = (uint32_t)below(bench, 4),
      .ttl_ms = any(bench),
      .mode = (uint32_t)any(bench),
      .gid = (uint32_t)any(bench),
      .publisher_uid = (uint32_t)any(bench),
      .publisher_pid = (int32_t)any(bench),
      .created_us = any(bench),
      .age_ms = any(bench),
      .readers = (uint32_t)any(bench),
      .change = any(bench),
      .n_attributes = below(bench, TEST_ARRAY_SIZE(attributes) + 1),
      .attributes = attributes,
  };
}

static const struct msg_segment *any_segments(struct bench *bench, struct parts *parts, size_t n)
{
  for (size_t i = 0; i < n; i++)
    parts->segments[i] = (struct msg_segment){any(bench), any(bench), (uint32_t)below(bench, 3),
                                              (uint32_t)any(bench)};
  return parts->segments;
}

static struct msg_add any_add(struct bench *bench, struct parts *parts)
{
  struct msg_add add = {.name = any_name(bench),
                        .spec = any_spec(bench, parts),
                        .place = any_place(bench),
                        .freeze = below(bench, 2),
                        .keep = below(bench, 2),
                        .has_expected = below(bench, 2),
                        .n_attributes = below(bench, TEST_ARRAY_SIZE(attributes) + 1),
                        .attributes = attributes};

  if (add.has_expected)
    add.expected = below(bench, 2) ? any(bench) : 0;
  if (below(bench, 2))
    add.name.owner = MSG_OWNER_SELF;
  if (below(bench, 2)) {
    add.place.size = below(bench, sizeof(parts->payload));
    add.payload = parts->payload;
  }
  return add;
}

static void fill_get(struct bench *bench, struct parts *parts, struct msg_request *ret)
{
  struct msg_get *get = &ret->u.get;

  get->n_names = any_count(bench);
  get->by_prefix = get->n_names == 1 && below(bench, 2);
  get->more = !get->by_prefix && below(bench, 2);
  get->access = (uint32_t)below(bench, 3);
  get->version = any(bench);
  get->newer_than = any(bench);
  get->timeout_ms = (uint32_t)any(bench);
  for (size_t i = 0; i < get->n_names; i++) {
    parts->names[i] = any_name(bench);
    if (below(bench, 2))
      parts->names[i].owner = MSG_OWNER_SELF;
  }
  get->names = parts->names;
}

static void fill_publish(struct bench *bench, struct parts *parts, struct msg_request *ret)
{
  struct msg_publish *publish = &ret->u.publish;

  publish->key = any(bench);
  publish->commit = below(bench, 2);
  publish->ttl_ms = any(bench);
  publish->lifetime = (uint32_t)below(bench, 4);
  publish->mode = (uint32_t)any(bench);
  publish->gid = below(bench, 2) ? MSG_OWNER_SELF : (uint32_t)any(bench) >> 1;
  publish->n_adds = any_count(bench);
  for (size_t i = 0; i < publish->n_adds; i++)
    parts->adds[i] = any_add(bench, parts);
  publish->adds = parts->adds;
}

static void fill_release(struct bench *bench, struct parts *parts, struct msg_request *ret)
{
  ret->u.release.n_cells = any_count(bench);
  for (size_t i = 0; i < ret->u.release.n_cells; i++)
    parts->cells[i] = (uint32_t)any(bench);
  ret->u.release.cells = parts->cells;
}

static void make_request(struct bench *bench, struct parts *parts, struct msg_request *ret)
{
  static const enum msg_request_type types[] = {MSG_PING, MSG_GET, MSG_RELEASE, MSG_PUBLISH};

  *ret = (struct msg_request){.id = any(bench) | 1,
                              .n_fds = (uint32_t)below(bench, DLP_PACKET_FDS_MAX + 1),
                              .type = types[below(bench, TEST_ARRAY_SIZE(types))]};
  if (ret->type == MSG_GET)
    fill_get(bench, parts, ret);
  else if (ret->type == MSG_PUBLISH)
    fill_publish(bench, parts, ret);
  else if (ret->type == MSG_RELEASE)
    fill_release(bench, parts, ret);
}

static void fill_granted(struct bench *bench, struct parts *parts, struct msg_reply *ret)
{
  struct msg_granted *granted = &ret->u.granted;

  granted->n_grants = any_count(bench);
  for (size_t i = 0; i < granted->n_grants; i++)
    parts->grants[i] = (struct msg_grant){(uint32_t)any(bench), any_tensor(bench, parts)};
  granted->grants = parts->grants;
  granted->n_segments = any_count(bench);
  granted->segments = any_segments(bench, parts, granted->n_segments);
}

static void fill_allocated(struct bench *bench, struct parts *parts, struct msg_reply *ret)
{
  struct msg_allocated *allocated = &ret->u.allocated;

  allocated->n_places = any_count(bench);
  for (size_t i = 0; i < allocated->n_places; i++)
    parts->places[i] = any_place(bench);
  allocated->places = parts->places;
  allocated->n_segments = any_count(bench);
  allocated->segments = any_segments(bench, parts, allocated->n_segments);
}

static void fill_listed(struct bench *bench, struct parts *parts, struct msg_reply *ret)
{
  struct msg_listed *listed = &ret->u.listed;

  listed->n_tensors = any_count(bench);
  for (size_t i = 0; i < listed->n_tensors; i++)
    parts->tensors[i] = any_tensor(bench, parts);
  listed->tensors = parts->tensors;
  listed->done = below(bench, 2);
  if (!listed->done)
    listed->next = any_name(bench);
}

static void make_reply(struct bench *bench, struct parts *parts, struct msg_reply *ret)
{
  static const enum msg_reply_type types[] = {MSG_REPLY_EMPTY, MSG_ALLOCATED, MSG_PUBLISHED,
                                              MSG_GRANTED, MSG_LISTED};

  *ret = (struct msg_reply){.id = any(bench),
                            .n_fds = (uint32_t)below(bench, DLP_PACKET_FDS_MAX + 1),
                            .more = below(bench, 2),
                            .status = (enum dlp_status)below(bench, 22),
                            .n_dropped = any_count(bench),
                            .dropped = parts->numbers,
                            .type = types[below(bench, TEST_ARRAY_SIZE(types))]};
  if (ret->status != DLP_STATUS_OK)
    ret->message = texts[below(bench, TEST_ARRAY_SIZE(texts))];
  for (size_t i = 0; i < LIST_MAX; i++)
    parts->numbers[i] = any(bench);
  if (ret->type == MSG_GRANTED)
    fill_granted(bench, parts, ret);
  else if (ret->type == MSG_ALLOCATED)
    fill_allocated(bench, parts, ret);
  else if (ret->type == MSG_LISTED)
    fill_listed(bench, parts, ret);
  else if (ret->type == MSG_PUBLISHED)
    ret->u.published.version = any(bench);
}

/* ---- both readers ---- */

static bool read_request_with_both(struct bench *bench)
{
  bool is_fast;

  clear(bench);
  is_fast = codec_fast_decode_request(&bench->fast_request, bench->bytes, bench->size);
  if (is_fast) {
    assert_int_equal(codec_full_decode_request(&bench->full_request, bench->bytes, bench->size), 0);
    codec_assert_same_request(&bench->full_request.request, &bench->fast_request.request);
  }
  return is_fast;
}

static bool read_reply_with_both(struct bench *bench)
{
  bool is_fast;

  clear(bench);
  is_fast = codec_fast_decode_reply(&bench->fast_reply, bench->bytes, bench->size);
  if (is_fast) {
    assert_int_equal(codec_full_decode_reply(&bench->full_reply, bench->bytes, bench->size), 0);
    codec_assert_same_reply(&bench->full_reply.reply, &bench->fast_reply.reply);
  }
  return is_fast;
}

/* Numbers that are negative on the wire are left to the full reader. */
static bool is_negative(uint32_t number)
{
  return (int32_t)number < 0;
}

static bool tensor_has_negative(const struct msg_tensor *tensor)
{
  return is_negative(tensor->backend) || tensor->publisher_pid < 0;
}

static bool has_negative(const struct msg_reply *reply)
{
  for (size_t i = 0; reply->type == MSG_GRANTED && i < reply->u.granted.n_grants; i++)
    if (tensor_has_negative(&reply->u.granted.grants[i].tensor))
      return true;
  for (size_t i = 0; reply->type == MSG_LISTED && i < reply->u.listed.n_tensors; i++)
    if (tensor_has_negative(&reply->u.listed.tensors[i]))
      return true;
  return false;
}

/* ---- tests ---- */

static void requests_are_the_same_bytes_and_come_back(void **state)
{
  struct bench *bench = *state;
  struct parts parts = {0};

  for (int round = 0; round < 3000; round++) {
    struct msg_request request;
    size_t full_size;

    make_request(bench, &parts, &request);
    assert_true(codec_fast_writes_request(&request));
    assert_int_equal(
        codec_fast_encode_request(bench->bytes, sizeof(bench->bytes), &bench->size, &request), 0);
    assert_int_equal(
        codec_full_encode_request(bench->again, sizeof(bench->again), &full_size, &request), 0);
    assert_int_equal(bench->size, full_size);
    assert_memory_equal(bench->bytes, bench->again, full_size);
    assert_true(read_request_with_both(bench));
    codec_assert_same_request(&request, &bench->fast_request.request);
  }
}

static void replies_are_the_same_bytes_and_come_back(void **state)
{
  struct bench *bench = *state;
  struct parts parts = {0};

  for (int round = 0; round < 3000; round++) {
    struct msg_reply reply;
    size_t full_size;

    make_reply(bench, &parts, &reply);
    assert_true(codec_fast_writes_reply(&reply));
    assert_int_equal(
        codec_fast_encode_reply(bench->bytes, sizeof(bench->bytes), &bench->size, &reply), 0);
    assert_int_equal(
        codec_full_encode_reply(bench->again, sizeof(bench->again), &full_size, &reply), 0);
    assert_int_equal(bench->size, full_size);
    assert_memory_equal(bench->bytes, bench->again, full_size);
    assert_true(read_reply_with_both(bench) || has_negative(&reply));
  }
}

static void samples_are_the_same_bytes(void **state)
{
  struct bench *bench = *state;
  size_t full_size;

  for (size_t i = 0; i < codec_n_sample_requests; i++) {
    const struct msg_request *request = &codec_sample_requests[i];

    (void)codec_encode_request(bench->bytes, sizeof(bench->bytes), &bench->size, request);
    (void)codec_full_encode_request(bench->again, sizeof(bench->again), &full_size, request);
    assert_int_equal(bench->size, full_size);
    assert_memory_equal(bench->bytes, bench->again, full_size);
    assert_int_equal(read_request_with_both(bench), codec_fast_writes_request(request));
  }
  for (size_t i = 0; i < codec_n_sample_replies; i++) {
    const struct msg_reply *reply = &codec_sample_replies[i];

    (void)codec_encode_reply(bench->bytes, sizeof(bench->bytes), &bench->size, reply);
    (void)codec_full_encode_reply(bench->again, sizeof(bench->again), &full_size, reply);
    assert_int_equal(bench->size, full_size);
    assert_memory_equal(bench->bytes, bench->again, full_size);
    (void)read_reply_with_both(bench);
  }
}

static void what_fits_exactly_fits_and_nothing_less(void **state)
{
  struct bench *bench = *state;
  struct parts parts = {0};

  for (int round = 0; round < 60; round++) {
    struct msg_request request;
    size_t needed, written;
    uint8_t *tight;

    make_request(bench, &parts, &request);
    assert_int_equal(
        codec_full_encode_request(bench->again, sizeof(bench->again), &needed, &request), 0);
    /* On the heap, so that one byte too many is noticed. */
    tight = malloc(needed);
    assert_non_null(tight);
    for (size_t size = needed > 600 ? needed - 600 : 0; size < needed; size++)
      assert_int_equal(codec_fast_encode_request(tight, size, &written, &request),
                       CODEC_E_TOO_LARGE);
    assert_int_equal(codec_fast_encode_request(tight, needed, &written, &request), 0);
    assert_memory_equal(tight, bench->again, needed);
    free(tight);
  }
}

/* One byte another, one left out, or one put in. */
static void change(struct bench *bench)
{
  size_t at = below(bench, bench->size);

  switch (below(bench, 4)) {
  case 0:
    bench->bytes[at] = (uint8_t)any(bench);
    break;
  case 1:
    bench->bytes[at] ^= (uint8_t)(1u << below(bench, 8));
    break;
  case 2:
    memmove(bench->bytes + at, bench->bytes + at + 1, --bench->size - at);
    break;
  default:
    if (bench->size == sizeof(bench->bytes))
      break;
    memmove(bench->bytes + at + 1, bench->bytes + at, bench->size++ - at);
    bench->bytes[at] = (uint8_t)any(bench);
  }
}

static void changed_requests_mean_the_same_to_both(void **state)
{
  struct bench *bench = *state;
  struct parts parts = {0};
  int n_read = 0;

  for (int round = 0; round < 12000; round++) {
    struct msg_request request;

    make_request(bench, &parts, &request);
    (void)codec_fast_encode_request(bench->bytes, sizeof(bench->bytes), &bench->size, &request);
    for (size_t i = below(bench, 3); i <= 2 && bench->size > 1; i++)
      change(bench);
    n_read += read_request_with_both(bench);
  }
  assert_true(n_read > 100);
}

static void changed_replies_mean_the_same_to_both(void **state)
{
  struct bench *bench = *state;
  struct parts parts = {0};
  int n_read = 0;

  for (int round = 0; round < 12000; round++) {
    struct msg_reply reply;

    make_reply(bench, &parts, &reply);
    (void)codec_fast_encode_reply(bench->bytes, sizeof(bench->bytes), &bench->size, &reply);
    for (size_t i = below(bench, 3); i <= 2 && bench->size > 1; i++)
      change(bench);
    n_read += read_reply_with_both(bench);
  }
  assert_true(n_read > 100);
}

/* ---- what costs the full reader most, byte for byte ---- */

/* `n` times these bytes as the content of one field, in a packet that ends there. */
static void repeat(struct bench *bench, const char *head, uint8_t body_tag, const void *bytes,
                   size_t size, size_t n)
{
  size_t head_size = strlen(head);

  memcpy(bench->bytes, head, head_size);
  bench->bytes[head_size] = body_tag;
  bench->bytes[head_size + 1] = 1;
  bench->bytes[head_size + 2] = (uint8_t)(n * size % 128 | 128);
  bench->bytes[head_size + 3] = (uint8_t)(n * size / 128 % 128 | 128);
  bench->bytes[head_size + 4] = (uint8_t)(n * size / 16384);
  bench->size = head_size + 5;
  for (size_t i = 0; i < n; i++, bench->size += size)
    memcpy(bench->bytes + bench->size, bytes, size);
}

static void dense_lists_are_refused_by_both_or_by_none(void **state)
{
  static const struct {
    uint8_t body_tag;
    const char *bytes;
    size_t size;
  } lists[] = {
      {0x9a, "\x0a\x00", 2},                                          /* places */
      {0x9a, "\x12\x00", 2},                                          /* segments */
      {0xa2, "\x0a\x0a\x12\x08\x0a\x02\x08\x01\x1a\x00\x22\x00", 12}, /* grants */
      {0xa2,
       "\x0a\x10\x12\x0e\x0a\x02\x08\x01\x1a\x00\x22\x00"
       "\x8a\x01\x00\x8a\x01\x00",
       18}, /* grants with attributes */
      {0xa2, "\x0a\x0d\x12\x0b\x0a\x05\x08\x01\x12\x01z\x1a\x00\x22\x00", 15},
  };
  struct bench *bench = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(lists); i++) {
    size_t most = (DLP_PACKET_MAX - 16) / lists[i].size;
    bool was_read = true;

    for (size_t n = 1; n <= most; n += 1 + n / 50) {
      repeat(bench, "\x08\x07", lists[i].body_tag, lists[i].bytes, lists[i].size, n);
      was_read = read_reply_with_both(bench);
    }
    assert_false(was_read);
  }
}

static void a_packet_full_of_ordinary_grants_is_read_by_the_fast_one(void **state)
{
  static const int64_t shape[] = {64};
  static struct msg_grant grants[DLP_PACKET_MAX / 64];
  struct msg_reply reply = {.id = 1, .type = MSG_GRANTED, .u.granted.grants = grants};
  struct bench *bench = *state;

  for (size_t size = 64, n = 0; n < TEST_ARRAY_SIZE(grants); n++) {
    grants[n] = (struct msg_grant){
        .cell = (uint32_t)n,
        .tensor = {.name = {1000, "bench/000000"},
                   .version = DLP_VERSION_MAX - n,
                   .spec = {.code = 1, .bits = 8, .lanes = 1, .ndim = 1, .shape = shape},
                   .place = {3, 256 * n, 64, 0},
                   .backend = MSG_BACKEND_MEMFD,
                   .lifetime = MSG_LIFETIME_SESSION,
                   .mode = 0600,
                   .created_us = DLP_VERSION_MAX - n,
                   .readers = 1,
                   .change = n}};
    size += codec_grant_size(&grants[n]);
    if (size > DLP_PACKET_MAX)
      break;
    reply.u.granted.n_grants = n + 1;
  }
  assert_int_equal(codec_encode_reply(bench->bytes, sizeof(bench->bytes), &bench->size, &reply), 0);
  assert_true(bench->size > DLP_PACKET_MAX - 256);
  assert_true(read_reply_with_both(bench));
}

static void small_messages_take_nothing_from_the_heap(void **state)
{
  static const struct msg_name name = {1000, "model/layers.0/attention/weight"};
  static const int64_t shape[] = {128, 64};
  static const struct msg_grant grant = {7,
                                         {.name = {1000, "model/layers.0/attention/weight"},
                                          .spec = {.ndim = 2, .shape = shape, .strides = shape}}};
  static const struct msg_request request = {
      .id = 1, .type = MSG_GET, .u.get = {.n_names = 1, .names = &name}};
  static const struct msg_reply reply = {
      .id = 1, .type = MSG_GRANTED, .u.granted = {.n_grants = 1, .grants = &grant}};
  struct bench *bench = *state;

  (void)codec_encode_request(bench->bytes, sizeof(bench->bytes), &bench->size, &request);
  assert_int_equal(codec_decode_request(&bench->fast_request, bench->bytes, bench->size), 0);
  assert_null(bench->fast_request.arena);
  (void)codec_encode_reply(bench->bytes, sizeof(bench->bytes), &bench->size, &reply);
  assert_int_equal(codec_decode_reply(&bench->fast_reply, bench->bytes, bench->size), 0);
  assert_null(bench->fast_reply.arena);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(requests_are_the_same_bytes_and_come_back),
    TEST(replies_are_the_same_bytes_and_come_back),
    TEST(samples_are_the_same_bytes),
    TEST(what_fits_exactly_fits_and_nothing_less),
    TEST(changed_requests_mean_the_same_to_both),
    TEST(changed_replies_mean_the_same_to_both),
    TEST(dense_lists_are_refused_by_both_or_by_none),
    TEST(a_packet_full_of_ordinary_grants_is_read_by_the_fast_one),
    TEST(small_messages_take_nothing_from_the_heap),
};

TEST_MAIN(tests)
