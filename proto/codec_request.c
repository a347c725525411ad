/* The bodies of requests, both ways: one reader, one writer and one row of the table each. */

#include <assert.h>
#include <string.h>

#include "codec_private.h"
#include "proto/codec.h"

typedef void (*read_fn)(struct codec_arena *arena, struct msg_request *ret,
                        const Dlpackd__Request *in);
typedef void (*write_fn)(struct codec_arena *arena, Dlpackd__Request *ret,
                         const struct msg_request *in);

static bool is_batch(struct codec_arena *arena, size_t n)
{
  return codec_require(arena, n <= DLP_BATCH_MAX);
}

/* ---- hello ---- */

static void read_hello(struct codec_arena *arena, struct msg_request *ret,
                       const Dlpackd__Request *in)
{
  codec_require(arena, in->hello->client_name.len <= DLP_CLIENT_NAME_MAX);
  ret->u.hello = (struct msg_hello){
      .major = in->hello->major,
      .minor = in->hello->minor,
      .features = in->hello->features,
      .client_name = codec_read_text(arena, &in->hello->client_name),
      .token = codec_read_token(arena, &in->hello->token),
  };
}

static void write_hello(struct codec_arena *arena, Dlpackd__Request *ret,
                        const struct msg_request *in)
{
  Dlpackd__Hello *hello = CODEC_NEW(arena, Dlpackd__Hello, DLPACKD__HELLO__INIT);

  ret->hello = hello;
  if (!hello)
    return;
  hello->major = in->u.hello.major;
  hello->minor = in->u.hello.minor;
  hello->features = in->u.hello.features;
  hello->client_name = codec_write_text(in->u.hello.client_name);
  hello->token = codec_write_token(in->u.hello.token);
  assert(hello->client_name.len <= DLP_CLIENT_NAME_MAX);
}

/* ---- those without fields ---- */

static void read_nothing(struct codec_arena *arena, struct msg_request *ret,
                         const Dlpackd__Request *in)
{
}

static void write_goodbye(struct codec_arena *arena, Dlpackd__Request *ret,
                          const struct msg_request *in)
{
  ret->goodbye = CODEC_NEW(arena, Dlpackd__Goodbye, DLPACKD__GOODBYE__INIT);
}

static void write_ping(struct codec_arena *arena, Dlpackd__Request *ret,
                       const struct msg_request *in)
{
  ret->ping = CODEC_NEW(arena, Dlpackd__Ping, DLPACKD__PING__INIT);
}

static void write_stats(struct codec_arena *arena, Dlpackd__Request *ret,
                        const struct msg_request *in)
{
  ret->stats = CODEC_NEW(arena, Dlpackd__Stats, DLPACKD__STATS__INIT);
}

/* ---- allocate, free ---- */

static const struct msg_block *read_blocks(struct codec_arena *arena, const Dlpackd__Allocate *in)
{
  struct msg_block *blocks = NULL;

  if (is_batch(arena, in->n_blocks))
    blocks = codec_arena_array(arena, in->n_blocks, sizeof(*blocks));
  for (size_t i = 0; blocks && i < in->n_blocks; i++)
    blocks[i] = (struct msg_block){.size = in->blocks[i]->size, .flags = in->blocks[i]->flags};
  return blocks;
}

static void read_allocate(struct codec_arena *arena, struct msg_request *ret,
                          const Dlpackd__Request *in)
{
  const Dlpackd__Allocate *allocate = in->allocate;
  bool has_owner = allocate->owner_choice_case == DLPACKD__ALLOCATE__OWNER_CHOICE_OWNER;
  bool has_gid = allocate->gid_choice_case == DLPACKD__ALLOCATE__GID_CHOICE_GID;

  ret->u.allocate = (struct msg_allocate){
      .owner = has_owner ? allocate->owner : MSG_OWNER_SELF,
      .lifetime = (uint32_t)allocate->lifetime,
      .mode = allocate->mode,
      .gid = has_gid ? allocate->gid : MSG_OWNER_SELF,
      .backend = (uint32_t)allocate->backend,
      .is_mutable = allocate->is_mutable,
      .n_blocks = allocate->n_blocks,
      .blocks = read_blocks(arena, allocate),
  };
}

static Dlpackd__Block **write_blocks(struct codec_arena *arena, size_t n,
                                     const struct msg_block *in)
{
  Dlpackd__Block **blocks = CODEC_POINTERS(arena, n);

  assert(n <= DLP_BATCH_MAX);
  for (size_t i = 0; blocks && i < n; i++) {
    blocks[i] = CODEC_NEW(arena, Dlpackd__Block, DLPACKD__BLOCK__INIT);
    if (!blocks[i])
      break;
    blocks[i]->size = in[i].size;
    blocks[i]->flags = in[i].flags;
  }
  return blocks;
}

static void write_allocate(struct codec_arena *arena, Dlpackd__Request *ret,
                           const struct msg_request *in)
{
  const struct msg_allocate *from = &in->u.allocate;
  Dlpackd__Allocate *allocate = CODEC_NEW(arena, Dlpackd__Allocate, DLPACKD__ALLOCATE__INIT);

  ret->allocate = allocate;
  if (!allocate)
    return;
  if (from->owner != MSG_OWNER_SELF)
    allocate->owner_choice_case = DLPACKD__ALLOCATE__OWNER_CHOICE_OWNER;
  allocate->owner = from->owner;
  allocate->lifetime = (Dlpackd__Lifetime)from->lifetime;
  allocate->mode = from->mode;
  if (from->gid != MSG_OWNER_SELF)
    allocate->gid_choice_case = DLPACKD__ALLOCATE__GID_CHOICE_GID;
  allocate->gid = from->gid;
  allocate->backend = (Dlpackd__Backend)from->backend;
  allocate->is_mutable = from->is_mutable;
  allocate->n_blocks = from->n_blocks;
  allocate->blocks = write_blocks(arena, from->n_blocks, from->blocks);
}

static void read_free(struct codec_arena *arena, struct msg_request *ret,
                      const Dlpackd__Request *in)
{
  struct msg_place *places = NULL;

  if (is_batch(arena, in->free->n_places))
    places = codec_arena_array(arena, in->free->n_places, sizeof(*places));
  for (size_t i = 0; places && i < in->free->n_places; i++)
    codec_read_place(arena, &places[i], in->free->places[i]);
  ret->u.free = (struct msg_free){.n_places = in->free->n_places, .places = places};
}

static void write_free(struct codec_arena *arena, Dlpackd__Request *ret,
                       const struct msg_request *in)
{
  const struct msg_free *from = &in->u.free;

  assert(from->n_places <= DLP_BATCH_MAX);
  ret->free = CODEC_NEW(arena, Dlpackd__Free, DLPACKD__FREE__INIT);
  if (!ret->free)
    return;
  ret->free->n_places = from->n_places;
  ret->free->places = CODEC_POINTERS(arena, from->n_places);
  for (size_t i = 0; ret->free->places && i < from->n_places; i++)
    ret->free->places[i] = codec_write_place(arena, &from->places[i]);
}

/* ---- publish, abort ---- */

/* The bytes stay in the decoded message, which lives as long as the arena. */
static void read_payload(struct codec_arena *arena, struct msg_add *ret, const Dlpackd__Add *in)
{
  if (!in->is_inline)
    return;
  (void)codec_require(arena,
                      in->payload.len <= DLP_INLINE_MAX && in->payload.len == ret->place.size);
  ret->payload = in->payload.data ? in->payload.data : (const uint8_t *)"";
}

static void read_add(struct codec_arena *arena, struct msg_add *ret, const Dlpackd__Add *in)
{
  bool has_expected = in->expected_choice_case == DLPACKD__ADD__EXPECTED_CHOICE_EXPECTED;

  codec_read_name(arena, &ret->name, in->name);
  codec_read_spec(arena, &ret->spec, in->spec);
  codec_read_place(arena, &ret->place, in->place);
  read_payload(arena, ret, in);
  ret->freeze = in->freeze;
  ret->keep = in->keep;
  ret->has_expected = has_expected;
  ret->expected = has_expected ? in->expected : 0;
  ret->n_attributes = in->n_attributes;
  ret->attributes = codec_read_attributes(arena, in->n_attributes, in->attributes);
}

static Dlpackd__Add *write_add(struct codec_arena *arena, const struct msg_add *in)
{
  Dlpackd__Add *add = CODEC_NEW(arena, Dlpackd__Add, DLPACKD__ADD__INIT);

  if (!add)
    return NULL;
  add->name = codec_write_name(arena, &in->name);
  add->spec = codec_write_spec(arena, &in->spec);
  add->place = codec_write_place(arena, &in->place);
  if (in->payload) {
    assert(in->place.size <= DLP_INLINE_MAX);
    add->is_inline = true;
    add->payload = (ProtobufCBinaryData){in->place.size, (uint8_t *)in->payload}; /* only read */
  }
  add->freeze = in->freeze;
  add->keep = in->keep;
  if (in->has_expected)
    add->expected_choice_case = DLPACKD__ADD__EXPECTED_CHOICE_EXPECTED;
  add->expected = in->expected;
  add->n_attributes = in->n_attributes;
  add->attributes = codec_write_attributes(arena, in->n_attributes, in->attributes);
  return add;
}

static void read_publish(struct codec_arena *arena, struct msg_request *ret,
                         const Dlpackd__Request *in)
{
  struct msg_add *adds = NULL;

  if (is_batch(arena, in->publish->n_adds))
    adds = codec_arena_array(arena, in->publish->n_adds, sizeof(*adds));
  for (size_t i = 0; adds && i < in->publish->n_adds; i++)
    read_add(arena, &adds[i], in->publish->adds[i]);
  ret->u.publish = (struct msg_publish){
      .key = in->publish->key,
      .commit = in->publish->commit,
      .ttl_ms = in->publish->ttl_ms,
      .lifetime = (uint32_t)in->publish->lifetime,
      .mode = in->publish->mode,
      .gid = in->publish->gid_choice_case == DLPACKD__PUBLISH__GID_CHOICE_GID ? in->publish->gid
                                                                              : MSG_OWNER_SELF,
      .n_adds = in->publish->n_adds,
      .adds = adds,
  };
}

static void write_publish(struct codec_arena *arena, Dlpackd__Request *ret,
                          const struct msg_request *in)
{
  const struct msg_publish *from = &in->u.publish;
  Dlpackd__Publish *publish = CODEC_NEW(arena, Dlpackd__Publish, DLPACKD__PUBLISH__INIT);

  assert(from->n_adds <= DLP_BATCH_MAX);
  ret->publish = publish;
  if (!publish)
    return;
  publish->key = from->key;
  publish->commit = from->commit;
  publish->ttl_ms = from->ttl_ms;
  publish->lifetime = (Dlpackd__Lifetime)from->lifetime;
  publish->mode = from->mode;
  if (from->gid != MSG_OWNER_SELF)
    publish->gid_choice_case = DLPACKD__PUBLISH__GID_CHOICE_GID;
  publish->gid = from->gid;
  publish->n_adds = from->n_adds;
  publish->adds = CODEC_POINTERS(arena, from->n_adds);
  for (size_t i = 0; publish->adds && i < from->n_adds; i++)
    publish->adds[i] = write_add(arena, &from->adds[i]);
}

static void read_abort(struct codec_arena *arena, struct msg_request *ret,
                       const Dlpackd__Request *in)
{
  ret->u.abort = (struct msg_abort){.key = in->abort->key};
}

static void write_abort(struct codec_arena *arena, Dlpackd__Request *ret,
                        const struct msg_request *in)
{
  ret->abort = CODEC_NEW(arena, Dlpackd__Abort, DLPACKD__ABORT__INIT);
  if (ret->abort)
    ret->abort->key = in->u.abort.key;
}

/* ---- get, release ---- */

static void read_get(struct codec_arena *arena, struct msg_request *ret, const Dlpackd__Request *in)
{
  const Dlpackd__Get *get = in->get;
  struct msg_name *names = NULL;

  if (is_batch(arena, get->n_names) &&
      codec_require(arena, !get->by_prefix || (get->n_names == 1 && !get->more)))
    names = codec_arena_array(arena, get->n_names, sizeof(*names));
  for (size_t i = 0; names && i < get->n_names; i++)
    codec_read_name(arena, &names[i], get->names[i]);
  ret->u.get = (struct msg_get){
      .more = get->more,
      .by_prefix = get->by_prefix,
      .access = (uint32_t)get->access,
      .version = get->version,
      .newer_than = get->newer_than,
      .timeout_ms = get->timeout_ms,
      .n_names = get->n_names,
      .names = names,
  };
}

static void write_get(struct codec_arena *arena, Dlpackd__Request *ret,
                      const struct msg_request *in)
{
  const struct msg_get *from = &in->u.get;
  Dlpackd__Get *get = CODEC_NEW(arena, Dlpackd__Get, DLPACKD__GET__INIT);

  assert(from->n_names <= DLP_BATCH_MAX);
  assert(!from->by_prefix || (from->n_names == 1 && !from->more));
  ret->get = get;
  if (!get)
    return;
  get->more = from->more;
  get->by_prefix = from->by_prefix;
  get->access = (Dlpackd__Access)from->access;
  get->version = from->version;
  get->newer_than = from->newer_than;
  get->timeout_ms = from->timeout_ms;
  get->n_names = from->n_names;
  get->names = CODEC_POINTERS(arena, from->n_names);
  for (size_t i = 0; get->names && i < from->n_names; i++)
    get->names[i] = codec_write_name(arena, &from->names[i]);
}

static void read_release(struct codec_arena *arena, struct msg_request *ret,
                         const Dlpackd__Request *in)
{
  (void)is_batch(arena, in->release->n_cells);
  ret->u.release =
      (struct msg_release){.n_cells = in->release->n_cells, .cells = in->release->cells};
}

static void write_release(struct codec_arena *arena, Dlpackd__Request *ret,
                          const struct msg_request *in)
{
  const struct msg_release *from = &in->u.release;

  assert(from->n_cells <= DLP_BATCH_MAX);
  ret->release = CODEC_NEW(arena, Dlpackd__Release, DLPACKD__RELEASE__INIT);
  if (!ret->release)
    return;
  ret->release->n_cells = from->n_cells;
  ret->release->cells = (uint32_t *)from->cells; /* only read */
}

/* ---- map, forget ---- */

static void read_map(struct codec_arena *arena, struct msg_request *ret, const Dlpackd__Request *in)
{
  ret->u.map = (struct msg_map){.segment = in->map->segment, .access = (uint32_t)in->map->access};
}

static void write_map(struct codec_arena *arena, Dlpackd__Request *ret,
                      const struct msg_request *in)
{
  ret->map = CODEC_NEW(arena, Dlpackd__Map, DLPACKD__MAP__INIT);
  if (!ret->map)
    return;
  ret->map->segment = in->u.map.segment;
  ret->map->access = (Dlpackd__Access)in->u.map.access;
}

static void read_forget(struct codec_arena *arena, struct msg_request *ret,
                        const Dlpackd__Request *in)
{
  size_t n = in->forget->n_segments;

  is_batch(arena, n);
  ret->u.forget = (struct msg_forget){.n_segments = n, .segments = n ? in->forget->segments : NULL};
}

static void write_forget(struct codec_arena *arena, Dlpackd__Request *ret,
                         const struct msg_request *in)
{
  assert(in->u.forget.n_segments <= DLP_BATCH_MAX);
  ret->forget = CODEC_NEW(arena, Dlpackd__Forget, DLPACKD__FORGET__INIT);
  if (!ret->forget)
    return;
  ret->forget->n_segments = in->u.forget.n_segments;
  ret->forget->segments = (uint64_t *)in->u.forget.segments;
}

/* ---- delete, list, stat, watch ---- */

static void read_delete(struct codec_arena *arena, struct msg_request *ret,
                        const Dlpackd__Request *in)
{
  ret->u.del.by_prefix = in->delete_->by_prefix;
  ret->u.del.version = in->delete_->version;
  codec_read_name(arena, &ret->u.del.name, in->delete_->name);
}

static void write_delete(struct codec_arena *arena, Dlpackd__Request *ret,
                         const struct msg_request *in)
{
  Dlpackd__Delete *del = CODEC_NEW(arena, Dlpackd__Delete, DLPACKD__DELETE__INIT);

  ret->delete_ = del;
  if (!del)
    return;
  del->by_prefix = in->u.del.by_prefix;
  del->name = codec_write_name(arena, &in->u.del.name);
  del->version = in->u.del.version;
}

static void read_list(struct codec_arena *arena, struct msg_request *ret,
                      const Dlpackd__Request *in)
{
  const Dlpackd__List *list = in->list;
  bool has_owner = list->owner_choice_case == DLPACKD__LIST__OWNER_CHOICE_OWNER;

  ret->u.list = (struct msg_list){
      .owner = list->all_owners ? MSG_LIST_ALL_OWNERS
               : has_owner      ? list->owner
                                : MSG_OWNER_SELF,
      .prefix = codec_read_text(arena, &list->prefix),
      .after = {.owner = MSG_OWNER_SELF, .path = ""},
      .limit = list->limit,
      .retired = list->retired,
  };
  if (list->after)
    codec_read_name(arena, &ret->u.list.after, list->after);
}

static void write_list(struct codec_arena *arena, Dlpackd__Request *ret,
                       const struct msg_request *in)
{
  const struct msg_list *from = &in->u.list;
  Dlpackd__List *list = CODEC_NEW(arena, Dlpackd__List, DLPACKD__LIST__INIT);

  ret->list = list;
  if (!list)
    return;
  list->all_owners = from->owner == MSG_LIST_ALL_OWNERS;
  if (from->owner != MSG_OWNER_SELF && from->owner != MSG_LIST_ALL_OWNERS)
    list->owner_choice_case = DLPACKD__LIST__OWNER_CHOICE_OWNER;
  list->owner = from->owner;
  list->prefix = codec_write_text(from->prefix);
  list->after = from->after.path ? codec_write_name(arena, &from->after) : NULL;
  list->limit = from->limit;
  list->retired = from->retired;
}

static void read_stat(struct codec_arena *arena, struct msg_request *ret,
                      const Dlpackd__Request *in)
{
  ret->u.stat.newer_than = in->stat->newer_than;
  ret->u.stat.timeout_ms = in->stat->timeout_ms;
  codec_read_name(arena, &ret->u.stat.name, in->stat->name);
}

static void write_stat(struct codec_arena *arena, Dlpackd__Request *ret,
                       const struct msg_request *in)
{
  ret->stat = CODEC_NEW(arena, Dlpackd__Stat, DLPACKD__STAT__INIT);
  if (!ret->stat)
    return;
  ret->stat->name = codec_write_name(arena, &in->u.stat.name);
  ret->stat->newer_than = in->u.stat.newer_than;
  ret->stat->timeout_ms = in->u.stat.timeout_ms;
}

static void read_watch(struct codec_arena *arena, struct msg_request *ret,
                       const Dlpackd__Request *in)
{
  const Dlpackd__Watch *watch = in->watch;
  bool has_owner = watch->owner_choice_case == DLPACKD__WATCH__OWNER_CHOICE_OWNER;

  ret->u.watch = (struct msg_watch){
      .owner = watch->all_owners ? MSG_LIST_ALL_OWNERS
               : has_owner       ? watch->owner
                                 : MSG_OWNER_SELF,
      .prefix = codec_read_text(arena, &watch->prefix),
      .since = watch->since,
      .timeout_ms = watch->timeout_ms,
  };
}

static void write_watch(struct codec_arena *arena, Dlpackd__Request *ret,
                        const struct msg_request *in)
{
  const struct msg_watch *from = &in->u.watch;
  Dlpackd__Watch *watch = CODEC_NEW(arena, Dlpackd__Watch, DLPACKD__WATCH__INIT);

  ret->watch = watch;
  if (!watch)
    return;
  watch->all_owners = from->owner == MSG_LIST_ALL_OWNERS;
  if (from->owner != MSG_OWNER_SELF && from->owner != MSG_LIST_ALL_OWNERS)
    watch->owner_choice_case = DLPACKD__WATCH__OWNER_CHOICE_OWNER;
  watch->owner = from->owner;
  watch->prefix = codec_write_text(from->prefix);
  watch->since = from->since;
  watch->timeout_ms = from->timeout_ms;
}

/* ---- the table ---- */

static const struct {
  read_fn read;
  write_fn write;
  bool one_way; /* no answer, hence no need for an id */
} bodies[] = {
    [MSG_HELLO] = {.read = read_hello, .write = write_hello},
    [MSG_GOODBYE] = {.read = read_nothing, .write = write_goodbye},
    [MSG_PING] = {.read = read_nothing, .write = write_ping},
    [MSG_ALLOCATE] = {.read = read_allocate, .write = write_allocate},
    [MSG_FREE] = {.read = read_free, .write = write_free, .one_way = true},
    [MSG_PUBLISH] = {.read = read_publish, .write = write_publish},
    [MSG_ABORT] = {.read = read_abort, .write = write_abort},
    [MSG_GET] = {.read = read_get, .write = write_get},
    [MSG_RELEASE] = {.read = read_release, .write = write_release, .one_way = true},
    [MSG_MAP] = {.read = read_map, .write = write_map},
    [MSG_FORGET] = {.read = read_forget, .write = write_forget, .one_way = true},
    [MSG_DELETE] = {.read = read_delete, .write = write_delete},
    [MSG_LIST] = {.read = read_list, .write = write_list},
    [MSG_STAT] = {.read = read_stat, .write = write_stat},
    [MSG_WATCH] = {.read = read_watch, .write = write_watch},
    [MSG_STATS] = {.read = read_nothing, .write = write_stats},
};

_Static_assert(sizeof(bodies) / sizeof(bodies[0]) == MSG_STATS + 1, "every type has a row");
_Static_assert(DLPACKD__REQUEST__BODY_HELLO == MSG_HELLO + CODEC_BODY_BASE, "first type");
_Static_assert(DLPACKD__REQUEST__BODY_STATS == MSG_STATS + CODEC_BODY_BASE, "last type");

void codec_read_request_body(struct codec_arena *arena, struct msg_request *ret,
                             const Dlpackd__Request *in)
{
  codec_require(arena, ret->id != 0 || bodies[ret->type].one_way);
  bodies[ret->type].read(arena, ret, in);
}

void codec_write_request_body(struct codec_arena *arena, Dlpackd__Request *ret,
                              const struct msg_request *in)
{
  assert(in->type >= MSG_HELLO && in->type <= MSG_STATS);
  assert(in->id != 0 || bodies[in->type].one_way);
  ret->body_case = (Dlpackd__Request__BodyCase)(in->type + CODEC_BODY_BASE);
  bodies[in->type].write(arena, ret, in);
}
