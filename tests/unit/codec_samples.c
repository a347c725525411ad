#include "codec_samples.h"

#include <string.h>

#include "support/test.h"

static const uint8_t token[DLP_TOKEN_SIZE] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const uint8_t daemon_id[DLP_TOKEN_SIZE] = "sixteen bytes id";

static const int64_t shape[] = {2, 3, 300};
static const int64_t strides[] = {-900, 0, INT64_MIN};
static const struct msg_attribute attributes[] = {
    {"framework", "torch"}, {"sprache", "größer"}, {"empty", ""}};

#define SAMPLE_SPEC                                                                 \
  {                                                                                 \
    .code = 2, .bits = 16, .lanes = 4, .flags = MSG_SPEC_SUBBYTE_PADDED, .ndim = 3, \
    .shape = shape, .strides = strides                                              \
  }
#define SAMPLE_PLACE                                                         \
  {                                                                          \
    .segment = 1ull << 40, .offset = 4096, .size = UINT64_MAX, .first = 1800 \
  }

static const struct msg_name names[] = {{MSG_OWNER_SELF, "model/layers.0/weight"},
                                        {0, "root's"},
                                        {1000, ""},
                                        {MSG_OWNER_SELF - 1, "日本/語"}};
static const struct msg_block blocks[] = {{1, 0}, {1ull << 33, MSG_BLOCK_OWN_SEGMENT}, {0, 0}};
static const struct msg_place places[] = {{1, 2, 3, 4}, {0}, SAMPLE_PLACE};
static const uint32_t cells[] = {0, 7, UINT32_MAX};
static const uint64_t segments[] = {1, 0, UINT64_MAX, 300};

static const struct msg_add adds[] = {
    {.name = {1000, "a/b"},
     .spec = SAMPLE_SPEC,
     .place = SAMPLE_PLACE,
     .freeze = true,
     .keep = true,
     .has_expected = true,
     .expected = 77,
     .n_attributes = TEST_ARRAY_SIZE(attributes),
     .attributes = attributes},
    {.name = {MSG_OWNER_SELF, "scalar"}, .spec = {.code = 1, .bits = 8, .lanes = 1}},
    {.name = {0, "new only"}, .has_expected = true, .spec = {.ndim = 1, .shape = shape}},
    {.name = {0, "inline"},
     .spec = {.code = 1, .bits = 8, .lanes = 1},
     .place = {.size = 3, .first = 1},
     .payload = (const uint8_t *)"\0\1\377"},
};

const struct msg_request codec_sample_requests[] = {
    {.id = 1,
     .n_fds = 1,
     .type = MSG_HELLO,
     .u.hello = {.major = 1,
                 .minor = 2,
                 .features = 1ull << 63,
                 .client_name = "trainer",
                 .token = token}},
    {.id = 2, .type = MSG_HELLO, .u.hello = {.client_name = ""}},
    {.id = 3, .type = MSG_GOODBYE},
    {.id = 4, .type = MSG_PING},
    {.id = 5,
     .type = MSG_ALLOCATE,
     .u.allocate = {.owner = 1000,
                    .lifetime = MSG_LIFETIME_TTL,
                    .mode = 0640,
                    .gid = 0,
                    .backend = MSG_BACKEND_POSIX_SHM,
                    .is_mutable = true,
                    .n_blocks = TEST_ARRAY_SIZE(blocks),
                    .blocks = blocks}},
    {.id = 6,
     .type = MSG_ALLOCATE,
     .u.allocate = {.owner = MSG_OWNER_SELF, .gid = MSG_OWNER_SELF, .lifetime = UINT32_MAX}},
    {.type = MSG_FREE, .u.free = {TEST_ARRAY_SIZE(places), places}},
    {.id = 8,
     .type = MSG_PUBLISH,
     .u.publish = {.key = UINT64_MAX,
                   .commit = true,
                   .ttl_ms = 60000,
                   .n_adds = TEST_ARRAY_SIZE(adds),
                   .adds = adds}},
    {.id = 9, .type = MSG_ABORT, .u.abort = {.key = 5}},
    {.id = 10,
     .type = MSG_GET,
     .u.get = {.more = true,
               .access = MSG_ACCESS_SHARED,
               .version = 11,
               .newer_than = 12,
               .timeout_ms = UINT32_MAX,
               .n_names = TEST_ARRAY_SIZE(names),
               .names = names}},
    {.id = 11,
     .type = MSG_GET,
     .u.get = {.by_prefix = true, .access = MSG_ACCESS_READ, .n_names = 1, .names = names}},
    {.type = MSG_RELEASE, .u.release = {TEST_ARRAY_SIZE(cells), cells}},
    {.id = 13, .type = MSG_MAP, .u.map = {.segment = 9, .access = MSG_ACCESS_READ}},
    {.type = MSG_FORGET, .u.forget = {TEST_ARRAY_SIZE(segments), segments}},
    {.id = 15,
     .type = MSG_DELETE,
     .u.del = {.by_prefix = true, .name = {1000, "model/"}, .version = 3}},
    {.id = 16,
     .type = MSG_LIST,
     .u.list = {.owner = MSG_LIST_ALL_OWNERS,
                .prefix = "model/",
                .after = {1000, "model/a"},
                .limit = 256,
                .retired = true}},
    {.id = 17,
     .type = MSG_LIST,
     .u.list = {.owner = 0, .prefix = "", .after = {MSG_OWNER_SELF, ""}}},
    {.id = 18, .type = MSG_STAT, .u.stat = {.name = {1000, "w"}, .newer_than = 4, .timeout_ms = 5}},
    {.id = 19,
     .type = MSG_WATCH,
     .u.watch = {.owner = 1000, .prefix = "a/", .since = UINT64_MAX, .timeout_ms = 30000}},
    {.id = 20, .type = MSG_WATCH, .u.watch = {.owner = MSG_LIST_ALL_OWNERS, .prefix = ""}},
    {.id = UINT64_MAX, .type = MSG_STATS},
};
const size_t codec_n_sample_requests = TEST_ARRAY_SIZE(codec_sample_requests);

#define SAMPLE_TENSOR                                                                              \
  {                                                                                                \
    .name = {1000, "model/w"}, .version = DLP_VERSION_MAX, .spec = SAMPLE_SPEC,                    \
    .place = SAMPLE_PLACE, .flags = MSG_TENSOR_MUTABLE | MSG_TENSOR_RETIRED,                       \
    .backend = MSG_BACKEND_MEMFD, .lifetime = MSG_LIFETIME_PERSISTENT, .ttl_ms = 5, .mode = 0644,  \
    .gid = 100, .publisher_uid = 1000, .publisher_pid = -1, .created_us = 1ull << 50, .age_ms = 6, \
    .readers = 7, .change = 8, .n_attributes = TEST_ARRAY_SIZE(attributes),                        \
    .attributes = attributes                                                                       \
  }

static const struct msg_segment new_segments[] = {{1, 1ull << 26, MSG_BACKEND_MEMFD, 0},
                                                  {2, 4096, MSG_BACKEND_POSIX_SHM, 1}};
static const struct msg_tensor tensors[] = {SAMPLE_TENSOR, {.name = {0, "zero"}}};
static const struct msg_grant grants[] = {{.cell = 0, .tensor = SAMPLE_TENSOR},
                                          {.cell = 4000, .tensor = {.name = {0, "zero"}}}};
static const struct msg_event events[] = {{MSG_EVENT_PUBLISHED, {1000, "a"}, 5, 6},
                                          {MSG_EVENT_DELETED, {0, "b/c"}, 7, 8}};
static const struct msg_counter counters[] = {{"bytes", UINT64_MAX}, {"tensors", 0}};

const struct msg_reply codec_sample_replies[] = {
    {.id = 1, .status = DLP_STATUS_OK},
    {.id = 2,
     .status = DLP_STATUS_QUOTA,
     .message = "too much",
     .n_dropped = 4,
     .dropped = segments},
    {.id = 3,
     .n_fds = 1,
     .type = MSG_WELCOME,
     .u.welcome = {.major = 1,
                   .minor = 3,
                   .features = 6,
                   .daemon_id = daemon_id,
                   .token = token,
                   .boot_id = "0f3c",
                   .host = "box",
                   .daemon_version = "0.1.0",
                   .session = 4,
                   .uid = 1000,
                   .resumed = true,
                   .lease_page_size = 4096}},
    {.id = 4,
     .n_fds = 2,
     .type = MSG_ALLOCATED,
     .u.allocated = {TEST_ARRAY_SIZE(places), places, TEST_ARRAY_SIZE(new_segments), new_segments}},
    {.id = 5, .type = MSG_PUBLISHED, .u.published = {.version = 1ull << 52}},
    {.id = 6,
     .n_fds = 2,
     .more = true,
     .type = MSG_GRANTED,
     .u.granted = {TEST_ARRAY_SIZE(grants), grants, TEST_ARRAY_SIZE(new_segments), new_segments}},
    {.id = 7, .n_fds = 200, .type = MSG_MAPPED, .u.mapped = {{3, 8192, MSG_BACKEND_MEMFD, 199}}},
    {.id = 8, .type = MSG_DELETED, .u.deleted = {.n_names = 300}},
    {.id = 9,
     .type = MSG_LISTED,
     .u.listed = {TEST_ARRAY_SIZE(tensors), tensors, .done = true, .next = {5, "m"}}},
    {.id = 10, .type = MSG_LISTED, .u.listed = {.done = false}},
    {.id = 11,
     .type = MSG_WATCHED,
     .u.watched = {.next = 9, .gap = true, .n_events = TEST_ARRAY_SIZE(events), .events = events}},
    {.id = 12, .type = MSG_COUNTERS, .u.counters = {TEST_ARRAY_SIZE(counters), counters}},
};
const size_t codec_n_sample_replies = TEST_ARRAY_SIZE(codec_sample_replies);

/* ---- comparison ---- */

#define SAME(member) assert_true(a->member == b->member)
#define SAME_TEXT(member) assert_string_equal(a->member, b->member)
/* A list: its length, and each element by a function. */
#define SAME_LIST(count, list, function)  \
  do {                                    \
    SAME(count);                          \
    for (size_t i = 0; i < a->count; i++) \
      function(&a->list[i], &b->list[i]); \
  } while (0)

static void same_number(const uint64_t *a, const uint64_t *b)
{
  assert_true(*a == *b);
}

static void same_token(const uint8_t *a, const uint8_t *b)
{
  assert_int_equal(a == NULL, b == NULL);
  if (a)
    assert_memory_equal(a, b, DLP_TOKEN_SIZE);
}

static void same_name(const struct msg_name *a, const struct msg_name *b)
{
  SAME(owner);
  assert_int_equal(a->path == NULL, b->path == NULL);
  if (a->path)
    SAME_TEXT(path);
}

static void same_attribute(const struct msg_attribute *a, const struct msg_attribute *b)
{
  SAME_TEXT(key);
  SAME_TEXT(value);
}

static void same_spec(const struct msg_spec *a, const struct msg_spec *b)
{
  SAME(code);
  SAME(bits);
  SAME(lanes);
  SAME(flags);
  SAME(ndim);
  assert_int_equal(a->strides == NULL, b->strides == NULL);
  for (size_t i = 0; i < a->ndim; i++) {
    SAME(shape[i]);
    if (a->strides)
      SAME(strides[i]);
  }
}

static void same_place(const struct msg_place *a, const struct msg_place *b)
{
  SAME(segment);
  SAME(offset);
  SAME(size);
  SAME(first);
}

static void same_segment(const struct msg_segment *a, const struct msg_segment *b)
{
  SAME(id);
  SAME(size);
  SAME(backend);
  SAME(fd_index);
}

static void same_tensor(const struct msg_tensor *a, const struct msg_tensor *b)
{
  same_name(&a->name, &b->name);
  same_spec(&a->spec, &b->spec);
  same_place(&a->place, &b->place);
  SAME(version);
  SAME(flags);
  SAME(backend);
  SAME(lifetime);
  SAME(ttl_ms);
  SAME(mode);
  SAME(gid);
  SAME(publisher_uid);
  SAME(publisher_pid);
  SAME(created_us);
  SAME(age_ms);
  SAME(readers);
  SAME(change);
  SAME_LIST(n_attributes, attributes, same_attribute);
}

static void same_grant(const struct msg_grant *a, const struct msg_grant *b)
{
  SAME(cell);
  same_tensor(&a->tensor, &b->tensor);
}

static void same_block(const struct msg_block *a, const struct msg_block *b)
{
  SAME(size);
  SAME(flags);
}

static void same_cell(const uint32_t *a, const uint32_t *b)
{
  assert_int_equal(*a, *b);
}

static void same_add(const struct msg_add *a, const struct msg_add *b)
{
  same_name(&a->name, &b->name);
  same_spec(&a->spec, &b->spec);
  same_place(&a->place, &b->place);
  SAME(freeze);
  SAME(keep);
  SAME(has_expected);
  SAME(expected);
  SAME_LIST(n_attributes, attributes, same_attribute);
  assert_int_equal(a->payload != NULL, b->payload != NULL);
  if (a->payload)
    assert_memory_equal(a->payload, b->payload, a->place.size);
}

static void same_event(const struct msg_event *a, const struct msg_event *b)
{
  SAME(kind);
  same_name(&a->name, &b->name);
  SAME(version);
  SAME(change);
}

static void same_counter(const struct msg_counter *a, const struct msg_counter *b)
{
  SAME_TEXT(name);
  SAME(value);
}

static void same_allocate(const struct msg_allocate *a, const struct msg_allocate *b)
{
  SAME(owner);
  SAME(lifetime);
  SAME(mode);
  SAME(gid);
  SAME(backend);
  SAME(is_mutable);
  SAME_LIST(n_blocks, blocks, same_block);
}

static void same_get(const struct msg_get *a, const struct msg_get *b)
{
  SAME(more);
  SAME(by_prefix);
  SAME(access);
  SAME(version);
  SAME(newer_than);
  SAME(timeout_ms);
  SAME_LIST(n_names, names, same_name);
}

static void same_list(const struct msg_list *a, const struct msg_list *b)
{
  SAME(owner);
  SAME_TEXT(prefix);
  same_name(&a->after, &b->after);
  SAME(limit);
  SAME(retired);
}

static void same_hello(const struct msg_hello *a, const struct msg_hello *b)
{
  SAME(major);
  SAME(minor);
  SAME(features);
  SAME_TEXT(client_name);
  same_token(a->token, b->token);
}

void codec_assert_same_request(const struct msg_request *a, const struct msg_request *b)
{
  SAME(id);
  SAME(n_fds);
  SAME(type);
  switch (a->type) {
  case MSG_HELLO:
    same_hello(&a->u.hello, &b->u.hello);
    break;
  case MSG_GOODBYE:
  case MSG_PING:
  case MSG_STATS:
    break;
  case MSG_ALLOCATE:
    same_allocate(&a->u.allocate, &b->u.allocate);
    break;
  case MSG_FREE:
    SAME_LIST(u.free.n_places, u.free.places, same_place);
    break;
  case MSG_PUBLISH:
    SAME(u.publish.key);
    SAME(u.publish.commit);
    SAME(u.publish.ttl_ms);
    SAME_LIST(u.publish.n_adds, u.publish.adds, same_add);
    break;
  case MSG_ABORT:
    SAME(u.abort.key);
    break;
  case MSG_GET:
    same_get(&a->u.get, &b->u.get);
    break;
  case MSG_RELEASE:
    SAME_LIST(u.release.n_cells, u.release.cells, same_cell);
    break;
  case MSG_MAP:
    SAME(u.map.segment);
    SAME(u.map.access);
    break;
  case MSG_FORGET:
    SAME_LIST(u.forget.n_segments, u.forget.segments, same_number);
    break;
  case MSG_DELETE:
    SAME(u.del.by_prefix);
    SAME(u.del.version);
    same_name(&a->u.del.name, &b->u.del.name);
    break;
  case MSG_LIST:
    same_list(&a->u.list, &b->u.list);
    break;
  case MSG_STAT:
    same_name(&a->u.stat.name, &b->u.stat.name);
    SAME(u.stat.newer_than);
    SAME(u.stat.timeout_ms);
    break;
  case MSG_WATCH:
    SAME(u.watch.owner);
    SAME_TEXT(u.watch.prefix);
    SAME(u.watch.since);
    SAME(u.watch.timeout_ms);
    break;
  }
}

static void same_welcome(const struct msg_welcome *a, const struct msg_welcome *b)
{
  SAME(major);
  SAME(minor);
  SAME(features);
  same_token(a->daemon_id, b->daemon_id);
  same_token(a->token, b->token);
  SAME_TEXT(boot_id);
  SAME_TEXT(host);
  SAME_TEXT(daemon_version);
  SAME(session);
  SAME(uid);
  SAME(resumed);
  SAME(lease_page_size);
}

static void same_envelope(const struct msg_reply *a, const struct msg_reply *b)
{
  SAME(id);
  SAME(n_fds);
  SAME(more);
  SAME(status);
  SAME(type);
  assert_int_equal(a->message == NULL, b->message == NULL);
  if (a->message)
    SAME_TEXT(message);
  SAME_LIST(n_dropped, dropped, same_number);
}

void codec_assert_same_reply(const struct msg_reply *a, const struct msg_reply *b)
{
  same_envelope(a, b);
  switch (a->type) {
  case MSG_REPLY_EMPTY:
    break;
  case MSG_WELCOME:
    same_welcome(&a->u.welcome, &b->u.welcome);
    break;
  case MSG_ALLOCATED:
    SAME_LIST(u.allocated.n_places, u.allocated.places, same_place);
    SAME_LIST(u.allocated.n_segments, u.allocated.segments, same_segment);
    break;
  case MSG_PUBLISHED:
    SAME(u.published.version);
    break;
  case MSG_GRANTED:
    SAME_LIST(u.granted.n_grants, u.granted.grants, same_grant);
    SAME_LIST(u.granted.n_segments, u.granted.segments, same_segment);
    break;
  case MSG_MAPPED:
    same_segment(&a->u.mapped.segment, &b->u.mapped.segment);
    break;
  case MSG_DELETED:
    SAME(u.deleted.n_names);
    break;
  case MSG_LISTED:
    SAME(u.listed.done);
    same_name(&a->u.listed.next, &b->u.listed.next);
    SAME_LIST(u.listed.n_tensors, u.listed.tensors, same_tensor);
    break;
  case MSG_WATCHED:
    SAME(u.watched.next);
    SAME(u.watched.gap);
    SAME_LIST(u.watched.n_events, u.watched.events, same_event);
    break;
  case MSG_COUNTERS:
    SAME_LIST(u.counters.n_counters, u.counters.counters, same_counter);
    break;
  }
}
