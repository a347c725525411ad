#ifndef DLPACKD_PROTO_MESSAGE_H
#define DLPACKD_PROTO_MESSAGE_H

/*
 * The messages as plain C: what the core and the client see.
 *
 * dlpackd.proto is the wire and says what each message means; codec.c turns one
 * into the other. Pointers in a decoded message belong to it and end with it;
 * in a message that is to be encoded they belong to whoever made it.
 *
 * A decoded message has been checked for form only: counts agree with arrays,
 * strings are UTF-8 without NUL, lists are within limits.h. Whether a name, a
 * shape or an offset makes sense is for the receiver to decide, who must take
 * the sender for hostile.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limits.h"
#include "status.h"

/* Who a name belongs to: a uid, or this: the one who asks. */
#define MSG_OWNER_SELF UINT32_MAX

enum msg_lifetime {
  MSG_LIFETIME_SESSION = 1,    /* goes with the session that published it */
  MSG_LIFETIME_PERSISTENT = 2, /* stays until deleted */
  MSG_LIFETIME_TTL = 3,        /* stays for ttl_ms, then is deleted */
};

enum msg_backend {
  MSG_BACKEND_DEFAULT = 0, /* the daemon's choice, by its configuration */
  MSG_BACKEND_MEMFD = 1,
  MSG_BACKEND_POSIX_SHM = 2,
};

enum msg_access {
  MSG_ACCESS_READ = 1,   /* map read-only */
  MSG_ACCESS_SHARED = 2, /* map writable: mutable tensors whose mode grants w */
};

enum msg_block_flags {
  MSG_BLOCK_OWN_SEGMENT = 1u << 0, /* nothing else will lie in its segment */
  MSG_BLOCK_OWN_PAGES = 1u << 1,   /* starts on a page and shares none */
};

enum msg_tensor_flags {
  MSG_TENSOR_MUTABLE = 1u << 0,
  MSG_TENSOR_FROZEN = 1u << 1,   /* sealed against its producer too */
  MSG_TENSOR_UNSEALED = 1u << 2, /* its backend cannot seal: trust the owner */
  MSG_TENSOR_RETIRED = 1u << 3,  /* replaced or deleted, still held */
};

enum msg_spec_flags {
  MSG_SPEC_SUBBYTE_PADDED = 1u << 0, /* DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED */
};

/* A name in somebody's name space. */
struct msg_name {
  uint32_t owner; /* uid, or MSG_OWNER_SELF */
  const char *path;
};

struct msg_attribute {
  const char *key;
  const char *value;
};

/* What a tensor looks like. `strides` count elements; NULL means compact and
 * row-major. Numbers as DLPack defines them. */
struct msg_spec {
  uint32_t code;
  uint32_t bits;
  uint32_t lanes;
  uint32_t flags; /* enum msg_spec_flags */
  size_t ndim;
  const int64_t *shape;
  const int64_t *strides;
};

/* Where its bytes are: [offset, offset + size) of a segment; its element zero
 * lies `first` bytes after `offset` (not 0 only if a stride is negative). A tensor
 * without elements has a block of size 0, which is never mapped: `size` and `first`
 * are 0. */
struct msg_place {
  uint64_t segment;
  uint64_t offset;
  uint64_t size;
  uint64_t first;
};

/* A segment whose descriptor travels in the same packet. */
struct msg_segment {
  uint64_t id;
  uint64_t size;
  uint32_t backend;  /* enum msg_backend */
  uint32_t fd_index; /* which of the packet's descriptors */
};

/* What is known of one version of one name. */
struct msg_tensor {
  struct msg_name name; /* owner is always a uid here */
  uint64_t version;
  struct msg_spec spec;
  struct msg_place place;
  uint32_t flags; /* enum msg_tensor_flags */
  uint32_t backend;
  uint32_t lifetime;
  uint64_t ttl_ms; /* what is left, with MSG_LIFETIME_TTL */
  uint32_t mode;   /* permission bits, as of a file; x means nothing */
  uint32_t gid;
  uint32_t publisher_uid;
  int32_t publisher_pid; /* decoration: no decision rests on it */
  uint64_t created_us;   /* wall clock, microseconds since 1970 */
  uint64_t age_ms;       /* by the daemon's steady clock */
  uint32_t readers;      /* leases on it that are held */
  uint64_t change;       /* the registry's change number of this name */
  size_t n_attributes;
  const struct msg_attribute *attributes;
};

/* A lease given, in a cell of the session's pages (lease_page.h): it counts as held
 * until the client's word in that cell says otherwise. */
struct msg_grant {
  uint32_t cell;
  struct msg_tensor tensor;
};

/* ---- requests, client to daemon ---- */

enum msg_request_type {
  MSG_HELLO = 1,
  MSG_GOODBYE = 2,
  MSG_PING = 3,
  MSG_ALLOCATE = 4,
  MSG_FREE = 5,
  MSG_PUBLISH = 6,
  MSG_ABORT = 7,
  MSG_GET = 8,
  MSG_RELEASE = 9,
  MSG_MAP = 10,
  MSG_FORGET = 11,
  MSG_DELETE = 12,
  MSG_LIST = 13,
  MSG_STAT = 14,
  MSG_WATCH = 15,
  MSG_STATS = 16,
};

/* First on every connection. A token makes the connection one more of a session
 * that exists. May carry one descriptor: the sender's own pidfd, which a kernel
 * without SO_PEERPIDFD needs. */
struct msg_hello {
  uint32_t major;
  uint32_t minor;
  uint64_t features;
  const char *client_name;
  const uint8_t *token; /* DLP_TOKEN_SIZE bytes, or NULL */
};

struct msg_block {
  uint64_t size;
  uint32_t flags; /* enum msg_block_flags */
};

/* Memory to fill. All blocks of one request belong to one access domain. */
struct msg_allocate {
  uint32_t owner; /* of the names it is for */
  uint32_t lifetime;
  uint32_t mode;
  uint32_t gid; /* MSG_OWNER_SELF: the sender's own group */
  uint32_t backend;
  bool is_mutable;
  size_t n_blocks;
  const struct msg_block *blocks;
};

/* By their place: unpublished blocks given back, and published ones that the sender had
 * kept a pointer into (msg_add.keep) and does not any more. One-way. */
struct msg_free {
  size_t n_places;
  const struct msg_place *places;
};

struct msg_add {
  struct msg_name name;
  struct msg_spec spec;
  struct msg_place place; /* offset and size as ALLOCATE gave them, or less */
  bool freeze;            /* seal against the producer too; own segment only */
  bool keep;              /* the sender keeps a pointer into it, until it frees the place */
  const uint8_t *payload; /* the bytes themselves, instead of a place: place.size of them, */
                          /* at most DLP_INLINE_MAX; place.first counts. NULL: a place */
  bool has_expected;      /* refuse unless the newest version is `expected` */
  uint64_t expected;      /* 0: there must be none */
  size_t n_attributes;
  const struct msg_attribute *attributes;
};

/* One publication, in as many packets as it takes: the same key in all, the
 * last with `commit`. A key that was committed before answers as it did then. */
struct msg_publish {
  uint64_t key;
  bool commit;
  uint32_t lifetime; /* of what comes inline; mode and gid as in ALLOCATE */
  uint32_t mode;
  uint32_t gid;
  uint64_t ttl_ms; /* with `commit`, for blocks of MSG_LIFETIME_TTL */
  size_t n_adds;
  const struct msg_add *adds;
};

struct msg_abort {
  uint64_t key;
};

/* Leases for names, or for every name below a prefix, as of one instant. The
 * names may span packets: the same request id, `more` set in all but the last.
 * With a timeout (milliseconds; DLP_TIMEOUT_NEVER: no limit) the answer waits
 * until each name has a version above `newer_than`. */
struct msg_get {
  bool more;
  bool by_prefix; /* names[0].path is a prefix; "" is everything of an owner */
  uint32_t access;
  uint64_t version;    /* this one or none; 0: the newest */
  uint64_t newer_than; /* 0: any */
  uint32_t timeout_ms; /* 0 never waits */
  size_t n_names;
  const struct msg_name *names;
};

/* Cells whose words in the holds page are worth a look: the client has let go of what
 * was retired, or gives a cell back. One-way. */
struct msg_release {
  size_t n_cells;
  const uint32_t *cells;
};

/* The descriptor of a segment in which the session holds a lease. */
struct msg_map {
  uint64_t segment;
  uint32_t access;
};

/* Segments the client has unmapped. One-way. */
struct msg_forget {
  size_t n_segments;
  const uint64_t *segments;
};

/* By prefix at most DLP_DELETE_PAGE_MAX names go at a time: repeat while the
 * answer says so many. Not one of them is NOT_FOUND. */
struct msg_delete {
  bool by_prefix;
  struct msg_name name;
  uint64_t version; /* 0: whatever is there */
};

#define MSG_LIST_ALL_OWNERS (UINT32_MAX - 1)

/* One page: what follows `after` in order of (owner, path). */
struct msg_list {
  uint32_t owner; /* uid, MSG_OWNER_SELF or MSG_LIST_ALL_OWNERS */
  const char *prefix;
  struct msg_name after; /* path "" starts at the beginning */
  uint32_t limit;
  bool retired; /* also versions that are only held */
};

/* One name without a lease; with a timeout, a wait for a newer version. */
struct msg_stat {
  struct msg_name name;
  uint64_t newer_than;
  uint32_t timeout_ms;
};

/* What changed below a prefix after change number `since`. Answers when there
 * is something, or empty at the timeout. `since` UINT64_MAX means from now on. */
struct msg_watch {
  uint32_t owner; /* as in LIST */
  const char *prefix;
  uint64_t since;
  uint32_t timeout_ms;
};

struct msg_request {
  uint64_t id;    /* chosen by the client, not 0; 0 in one-way requests */
  uint32_t n_fds; /* descriptors that the sender says it attached */
  enum msg_request_type type;
  union {
    struct msg_hello hello;
    struct msg_allocate allocate;
    struct msg_free free;
    struct msg_publish publish;
    struct msg_abort abort;
    struct msg_get get;
    struct msg_release release;
    struct msg_map map;
    struct msg_forget forget;
    struct msg_delete del;
    struct msg_list list;
    struct msg_stat stat;
    struct msg_watch watch;
  } u;
};

/* ---- answers, daemon to client ---- */

enum msg_reply_type {
  MSG_REPLY_EMPTY = 0, /* status and message only */
  MSG_WELCOME = 1,
  MSG_ALLOCATED = 2,
  MSG_PUBLISHED = 3,
  MSG_GRANTED = 4,
  MSG_MAPPED = 5,
  MSG_DELETED = 6,
  MSG_LISTED = 7,
  MSG_WATCHED = 8,
  MSG_COUNTERS = 9,
};

/* Carries two descriptors, the session's holds page (writable) and its grants page, if
 * the session is new. */
struct msg_welcome {
  uint32_t major;
  uint32_t minor;
  uint64_t features;
  const uint8_t *daemon_id; /* DLP_TOKEN_SIZE bytes */
  const uint8_t *token;     /* DLP_TOKEN_SIZE bytes */
  const char *boot_id;
  const char *host;
  const char *daemon_version;
  uint64_t session;
  uint32_t uid;             /* as the kernel told the daemon */
  bool resumed;             /* the token was known: leases and memory are as they were */
  uint64_t lease_page_size; /* of each of the two */
};

struct msg_allocated {
  size_t n_places;
  const struct msg_place *places; /* `first` unused */
  size_t n_segments;
  const struct msg_segment *segments;
};

struct msg_published {
  uint64_t version; /* 0 before the commit */
};

/* Spans packets: `more` set in all but the last. Grants come in the order of
 * the names asked for, or of the names' bytes when a prefix was. */
struct msg_granted {
  size_t n_grants;
  const struct msg_grant *grants;
  size_t n_segments;
  const struct msg_segment *segments;
};

struct msg_mapped {
  struct msg_segment segment;
};

struct msg_deleted {
  uint64_t n_names;
};

/* A page. `done`: nothing follows; else ask again after the last name, or after
 * `next` when it is set (everything visited was hidden from you). */
struct msg_listed {
  size_t n_tensors;
  const struct msg_tensor *tensors;
  bool done;
  struct msg_name next; /* path NULL: not set */
};

enum msg_event_kind {
  MSG_EVENT_PUBLISHED = 1,
  MSG_EVENT_DELETED = 2,
};

struct msg_event {
  enum msg_event_kind kind;
  struct msg_name name;
  uint64_t version; /* the newest, or the one that was deleted */
  uint64_t change;
};

struct msg_watched {
  uint64_t next; /* `since` of the next WATCH */
  bool gap;      /* deletions may have been missed: list again */
  size_t n_events;
  const struct msg_event *events;
};

struct msg_counter {
  const char *name;
  uint64_t value;
};

struct msg_counters {
  size_t n_counters;
  const struct msg_counter *counters;
};

struct msg_reply {
  uint64_t id;    /* of the request */
  uint32_t n_fds; /* set by whoever attaches them */
  bool more;      /* another packet answers the same request */
  enum dlp_status status;
  const char *message; /* one sentence for people; NULL with status 0 */
  size_t n_dropped;    /* segments of this session that are gone: unmap them */
  const uint64_t *dropped;
  enum msg_reply_type type;
  union {
    struct msg_welcome welcome;
    struct msg_allocated allocated;
    struct msg_published published;
    struct msg_granted granted;
    struct msg_mapped mapped;
    struct msg_deleted deleted;
    struct msg_listed listed;
    struct msg_watched watched;
    struct msg_counters counters;
  } u;
};

#endif
