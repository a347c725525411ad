/* The bodies of replies, both ways: one reader, one writer and one row of the table each. */

#include <assert.h>

#include "codec_private.h"

typedef void (*read_fn)(struct codec_arena *arena, struct msg_reply *ret, const Dlpackd__Reply *in);
typedef void (*write_fn)(struct codec_arena *arena, Dlpackd__Reply *ret,
                         const struct msg_reply *in);

/* ---- lists that several bodies have ---- */

static const struct msg_segment *read_segments(struct codec_arena *arena, size_t n,
                                               Dlpackd__Segment *const *in)
{
  struct msg_segment *segments = codec_arena_array(arena, n, sizeof(*segments));

  for (size_t i = 0; segments && i < n; i++)
    codec_read_segment(arena, &segments[i], in[i]);
  return segments;
}

static Dlpackd__Segment **write_segments(struct codec_arena *arena, size_t n,
                                         const struct msg_segment *in)
{
  Dlpackd__Segment **segments = CODEC_POINTERS(arena, n);

  for (size_t i = 0; segments && i < n; i++)
    segments[i] = codec_write_segment(arena, &in[i]);
  return segments;
}

/* ---- welcome ---- */

static void read_welcome(struct codec_arena *arena, struct msg_reply *ret, const Dlpackd__Reply *in)
{
  const Dlpackd__Welcome *welcome = in->welcome;

  ret->u.welcome = (struct msg_welcome){
      .major = welcome->major,
      .minor = welcome->minor,
      .features = welcome->features,
      .daemon_id = codec_read_token(arena, &welcome->daemon_id),
      .token = codec_read_token(arena, &welcome->token),
      .boot_id = codec_read_text(arena, &welcome->boot_id),
      .host = codec_read_text(arena, &welcome->host),
      .daemon_version = codec_read_text(arena, &welcome->daemon_version),
      .session = welcome->session,
      .uid = welcome->uid,
      .resumed = welcome->resumed,
      .lease_page_size = welcome->lease_page_size,
  };
  codec_require(arena, ret->u.welcome.daemon_id && ret->u.welcome.token);
}

static void write_welcome(struct codec_arena *arena, Dlpackd__Reply *ret,
                          const struct msg_reply *in)
{
  const struct msg_welcome *from = &in->u.welcome;
  Dlpackd__Welcome *welcome = CODEC_NEW(arena, Dlpackd__Welcome, DLPACKD__WELCOME__INIT);

  assert(from->daemon_id && from->token);
  ret->welcome = welcome;
  if (!welcome)
    return;
  welcome->major = from->major;
  welcome->minor = from->minor;
  welcome->features = from->features;
  welcome->daemon_id = codec_write_token(from->daemon_id);
  welcome->token = codec_write_token(from->token);
  welcome->boot_id = codec_write_text(from->boot_id);
  welcome->host = codec_write_text(from->host);
  welcome->daemon_version = codec_write_text(from->daemon_version);
  welcome->session = from->session;
  welcome->uid = from->uid;
  welcome->resumed = from->resumed;
  welcome->lease_page_size = from->lease_page_size;
}

/* ---- allocated, published ---- */

static void read_allocated(struct codec_arena *arena, struct msg_reply *ret,
                           const Dlpackd__Reply *in)
{
  const Dlpackd__Allocated *allocated = in->allocated;
  struct msg_place *places = codec_arena_array(arena, allocated->n_places, sizeof(*places));

  for (size_t i = 0; places && i < allocated->n_places; i++)
    codec_read_place(arena, &places[i], allocated->places[i]);
  ret->u.allocated = (struct msg_allocated){
      .n_places = allocated->n_places,
      .places = places,
      .n_segments = allocated->n_segments,
      .segments = read_segments(arena, allocated->n_segments, allocated->segments),
  };
}

static void write_allocated(struct codec_arena *arena, Dlpackd__Reply *ret,
                            const struct msg_reply *in)
{
  const struct msg_allocated *from = &in->u.allocated;
  Dlpackd__Allocated *allocated = CODEC_NEW(arena, Dlpackd__Allocated, DLPACKD__ALLOCATED__INIT);

  ret->allocated = allocated;
  if (!allocated)
    return;
  allocated->n_places = from->n_places;
  allocated->places = CODEC_POINTERS(arena, from->n_places);
  for (size_t i = 0; allocated->places && i < from->n_places; i++)
    allocated->places[i] = codec_write_place(arena, &from->places[i]);
  allocated->n_segments = from->n_segments;
  allocated->segments = write_segments(arena, from->n_segments, from->segments);
}

static void read_published(struct codec_arena *arena, struct msg_reply *ret,
                           const Dlpackd__Reply *in)
{
  ret->u.published = (struct msg_published){.version = in->published->version};
}

static void write_published(struct codec_arena *arena, Dlpackd__Reply *ret,
                            const struct msg_reply *in)
{
  ret->published = CODEC_NEW(arena, Dlpackd__Published, DLPACKD__PUBLISHED__INIT);
  if (ret->published)
    ret->published->version = in->u.published.version;
}

/* ---- granted, mapped ---- */

static const struct msg_grant *read_grants(struct codec_arena *arena, const Dlpackd__Granted *in)
{
  struct msg_grant *grants = codec_arena_array(arena, in->n_grants, sizeof(*grants));

  for (size_t i = 0; grants && i < in->n_grants; i++) {
    grants[i].cell = in->grants[i]->cell;
    codec_read_tensor(arena, &grants[i].tensor, in->grants[i]->tensor);
  }
  return grants;
}

static void read_granted(struct codec_arena *arena, struct msg_reply *ret, const Dlpackd__Reply *in)
{
  const Dlpackd__Granted *granted = in->granted;

  ret->u.granted = (struct msg_granted){
      .n_grants = granted->n_grants,
      .grants = read_grants(arena, granted),
      .n_segments = granted->n_segments,
      .segments = read_segments(arena, granted->n_segments, granted->segments),
  };
}

static Dlpackd__Grant *write_grant(struct codec_arena *arena, const struct msg_grant *in)
{
  Dlpackd__Grant *grant = CODEC_NEW(arena, Dlpackd__Grant, DLPACKD__GRANT__INIT);

  if (!grant)
    return NULL;
  grant->cell = in->cell;
  grant->tensor = codec_write_tensor(arena, &in->tensor);
  return grant;
}

static void write_granted(struct codec_arena *arena, Dlpackd__Reply *ret,
                          const struct msg_reply *in)
{
  const struct msg_granted *from = &in->u.granted;
  Dlpackd__Granted *granted = CODEC_NEW(arena, Dlpackd__Granted, DLPACKD__GRANTED__INIT);

  ret->granted = granted;
  if (!granted)
    return;
  granted->n_grants = from->n_grants;
  granted->grants = CODEC_POINTERS(arena, from->n_grants);
  for (size_t i = 0; granted->grants && i < from->n_grants; i++)
    granted->grants[i] = write_grant(arena, &from->grants[i]);
  granted->n_segments = from->n_segments;
  granted->segments = write_segments(arena, from->n_segments, from->segments);
}

static void read_mapped(struct codec_arena *arena, struct msg_reply *ret, const Dlpackd__Reply *in)
{
  codec_read_segment(arena, &ret->u.mapped.segment, in->mapped->segment);
}

static void write_mapped(struct codec_arena *arena, Dlpackd__Reply *ret, const struct msg_reply *in)
{
  ret->mapped = CODEC_NEW(arena, Dlpackd__Mapped, DLPACKD__MAPPED__INIT);
  if (ret->mapped)
    ret->mapped->segment = codec_write_segment(arena, &in->u.mapped.segment);
}

/* ---- deleted, listed ---- */

static void read_deleted(struct codec_arena *arena, struct msg_reply *ret, const Dlpackd__Reply *in)
{
  ret->u.deleted = (struct msg_deleted){.n_names = in->deleted->n_names};
}

static void write_deleted(struct codec_arena *arena, Dlpackd__Reply *ret,
                          const struct msg_reply *in)
{
  ret->deleted = CODEC_NEW(arena, Dlpackd__Deleted, DLPACKD__DELETED__INIT);
  if (ret->deleted)
    ret->deleted->n_names = in->u.deleted.n_names;
}

static void read_listed(struct codec_arena *arena, struct msg_reply *ret, const Dlpackd__Reply *in)
{
  const Dlpackd__Listed *listed = in->listed;
  struct msg_tensor *tensors = codec_arena_array(arena, listed->n_tensors, sizeof(*tensors));

  for (size_t i = 0; tensors && i < listed->n_tensors; i++)
    codec_read_tensor(arena, &tensors[i], listed->tensors[i]);
  ret->u.listed = (struct msg_listed){
      .n_tensors = listed->n_tensors,
      .tensors = tensors,
      .done = listed->done,
  };
  if (listed->next)
    codec_read_name(arena, &ret->u.listed.next, listed->next);
}

static void write_listed(struct codec_arena *arena, Dlpackd__Reply *ret, const struct msg_reply *in)
{
  const struct msg_listed *from = &in->u.listed;
  Dlpackd__Listed *listed = CODEC_NEW(arena, Dlpackd__Listed, DLPACKD__LISTED__INIT);

  ret->listed = listed;
  if (!listed)
    return;
  listed->n_tensors = from->n_tensors;
  listed->tensors = CODEC_POINTERS(arena, from->n_tensors);
  for (size_t i = 0; listed->tensors && i < from->n_tensors; i++)
    listed->tensors[i] = codec_write_tensor(arena, &from->tensors[i]);
  listed->done = from->done;
  listed->next = from->next.path ? codec_write_name(arena, &from->next) : NULL;
}

/* ---- watched, counters ---- */

static void read_event(struct codec_arena *arena, struct msg_event *ret, const Dlpackd__Event *in)
{
  ret->kind = (enum msg_event_kind)in->kind;
  ret->version = in->version;
  ret->change = in->change;
  codec_read_name(arena, &ret->name, in->name);
}

static void read_watched(struct codec_arena *arena, struct msg_reply *ret, const Dlpackd__Reply *in)
{
  const Dlpackd__Watched *watched = in->watched;
  struct msg_event *events = codec_arena_array(arena, watched->n_events, sizeof(*events));

  for (size_t i = 0; events && i < watched->n_events; i++)
    read_event(arena, &events[i], watched->events[i]);
  ret->u.watched = (struct msg_watched){
      .next = watched->next,
      .gap = watched->gap,
      .n_events = watched->n_events,
      .events = events,
  };
}

static Dlpackd__Event *write_event(struct codec_arena *arena, const struct msg_event *in)
{
  Dlpackd__Event *event = CODEC_NEW(arena, Dlpackd__Event, DLPACKD__EVENT__INIT);

  if (!event)
    return NULL;
  event->kind = (Dlpackd__EventKind)in->kind;
  event->name = codec_write_name(arena, &in->name);
  event->version = in->version;
  event->change = in->change;
  return event;
}

static void write_watched(struct codec_arena *arena, Dlpackd__Reply *ret,
                          const struct msg_reply *in)
{
  const struct msg_watched *from = &in->u.watched;
  Dlpackd__Watched *watched = CODEC_NEW(arena, Dlpackd__Watched, DLPACKD__WATCHED__INIT);

  ret->watched = watched;
  if (!watched)
    return;
  watched->next = from->next;
  watched->gap = from->gap;
  watched->n_events = from->n_events;
  watched->events = CODEC_POINTERS(arena, from->n_events);
  for (size_t i = 0; watched->events && i < from->n_events; i++)
    watched->events[i] = write_event(arena, &from->events[i]);
}

static void read_counters(struct codec_arena *arena, struct msg_reply *ret,
                          const Dlpackd__Reply *in)
{
  size_t n = in->counters->n_counters;
  struct msg_counter *counters = codec_arena_array(arena, n, sizeof(*counters));

  for (size_t i = 0; counters && i < n; i++) {
    counters[i].name = codec_read_text(arena, &in->counters->counters[i]->name);
    counters[i].value = in->counters->counters[i]->value;
  }
  ret->u.counters = (struct msg_counters){.n_counters = n, .counters = counters};
}

static Dlpackd__Counter *write_counter(struct codec_arena *arena, const struct msg_counter *in)
{
  Dlpackd__Counter *counter = CODEC_NEW(arena, Dlpackd__Counter, DLPACKD__COUNTER__INIT);

  if (!counter)
    return NULL;
  counter->name = codec_write_text(in->name);
  counter->value = in->value;
  return counter;
}

static void write_counters(struct codec_arena *arena, Dlpackd__Reply *ret,
                           const struct msg_reply *in)
{
  const struct msg_counters *from = &in->u.counters;
  Dlpackd__Counters *counters = CODEC_NEW(arena, Dlpackd__Counters, DLPACKD__COUNTERS__INIT);

  ret->counters = counters;
  if (!counters)
    return;
  counters->n_counters = from->n_counters;
  counters->counters = CODEC_POINTERS(arena, from->n_counters);
  for (size_t i = 0; counters->counters && i < from->n_counters; i++)
    counters->counters[i] = write_counter(arena, &from->counters[i]);
}

/* ---- the table ---- */

static const struct {
  read_fn read;
  write_fn write;
} bodies[] = {
    [MSG_WELCOME] = {.read = read_welcome, .write = write_welcome},
    [MSG_ALLOCATED] = {.read = read_allocated, .write = write_allocated},
    [MSG_PUBLISHED] = {.read = read_published, .write = write_published},
    [MSG_GRANTED] = {.read = read_granted, .write = write_granted},
    [MSG_MAPPED] = {.read = read_mapped, .write = write_mapped},
    [MSG_DELETED] = {.read = read_deleted, .write = write_deleted},
    [MSG_LISTED] = {.read = read_listed, .write = write_listed},
    [MSG_WATCHED] = {.read = read_watched, .write = write_watched},
    [MSG_COUNTERS] = {.read = read_counters, .write = write_counters},
};

_Static_assert(sizeof(bodies) / sizeof(bodies[0]) == MSG_COUNTERS + 1, "every type has a row");
_Static_assert(DLPACKD__REPLY__BODY_WELCOME == MSG_WELCOME + CODEC_BODY_BASE, "first type");
_Static_assert(DLPACKD__REPLY__BODY_COUNTERS == MSG_COUNTERS + CODEC_BODY_BASE, "last type");

void codec_read_reply_body(struct codec_arena *arena, struct msg_reply *ret,
                           const Dlpackd__Reply *in)
{
  if (ret->type != MSG_REPLY_EMPTY)
    bodies[ret->type].read(arena, ret, in);
}

void codec_write_reply_body(struct codec_arena *arena, Dlpackd__Reply *ret,
                            const struct msg_reply *in)
{
  if (in->type == MSG_REPLY_EMPTY)
    return;
  assert(in->type >= MSG_WELCOME && in->type <= MSG_COUNTERS);
  ret->body_case = (Dlpackd__Reply__BodyCase)(in->type + CODEC_BODY_BASE);
  bodies[in->type].write(arena, ret, in);
}
