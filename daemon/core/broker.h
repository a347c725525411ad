#ifndef DLPACKD_CORE_BROKER_H
#define DLPACKD_CORE_BROKER_H

/*
 * The whole service as function calls: connections come and go, requests go in,
 * answers and plans come out.
 *
 * The broker owns registry, sessions, leases and quota. It makes no system call
 * and knows no clock: whoever calls it says what time it is. It trusts no field
 * of a request and no order of requests; a client's mistake ends in a status or
 * in the end of its connection.
 *
 * Not thread-safe: one owner thread. The edge's functions are called from within
 * the broker's and may not call back into it.
 */

#include "core/effect.h"
#include "core/quota.h"
#include "proto/message.h"

struct broker;

/* What the world looks like during a call. */
struct broker_env {
  uint64_t steady_us;        /* a clock that never jumps */
  uint64_t wall_us;          /* since 1970 */
  uint64_t memory_available; /* bytes the host could still give */
};

struct broker_config {
  struct quota_sum limits;   /* per uid */
  uint64_t max_bytes;        /* of all segments together */
  uint32_t backend;          /* enum msg_backend, for MSG_BACKEND_DEFAULT */
  uint32_t default_mode;     /* when a client says 0 */
  uint32_t session_grace_ms; /* a session without connection and lease ends then */
  uint64_t max_answer;       /* bytes that one answer may have; 0: any number */
  uint64_t seed;             /* for the shape of trees; random */
  uint8_t daemon_id[DLP_TOKEN_SIZE];
  const char *boot_id; /* strings must outlive the broker */
  const char *host;
  const char *daemon_version;
  size_t n_admins; /* uids that may list, count and delete everything */
  const uint32_t *admins;
};

/* Who is at the other end, by the kernel's word. */
struct broker_peer {
  uint32_t uid;
  uint32_t gid;
  int32_t pid;
  uint32_t realm;
  size_t n_groups;
  const uint32_t *groups;              /* copied */
  uint8_t fresh_token[DLP_TOKEN_SIZE]; /* random; for the session, if it is a new one */
};

/* A descriptor to send along with an answer. */
enum attachment_kind {
  ATTACHMENT_SEGMENT_READ_ONLY,
  ATTACHMENT_SEGMENT_WRITABLE,
  ATTACHMENT_HOLDS_PAGE,  /* writable */
  ATTACHMENT_GRANTS_PAGE, /* read-only */
};

struct attachment {
  enum attachment_kind kind;
  uint64_t id; /* of the segment or session */
};

/* The outside, as the broker sees it. Both must return at once and cannot fail:
 * what cannot be sent ends the connection later. */
struct broker_edge {
  void *context;
  /* `reply` and what it points at are borrowed for the call. */
  void (*send)(void *context, uint64_t connection, const struct msg_reply *reply,
               const struct attachment *attachments, size_t n_attachments);
  /* The broker has forgotten the connection already; flush what was sent and close. */
  void (*close)(void *context, uint64_t connection, const char *reason);
};

/* Return: 0 or -ENOMEM. */
int broker_new(struct broker **ret, const struct broker_config *config,
               const struct broker_edge *edge);
/* Ends everything; asserts that the books balance. No plan may be outstanding. */
struct broker *broker_free(struct broker *broker);
DLP_DEFINE_CLEANUP(struct broker, broker)

/* A connection joined; `connection` is a number the edge chose, never used before.
 * Return: 0 or -ENOMEM (close it). */
int broker_connect(struct broker *broker, uint64_t connection, const struct broker_peer *peer,
                   const struct broker_env *env);
/* It is gone, by the edge's doing or the peer's, who may have broken the protocol. */
void broker_disconnect(struct broker *broker, uint64_t connection, bool broke_protocol,
                       const struct broker_env *env);

/* A request that was decoded. Never fails: what is wrong with it is answered. */
void broker_request(struct broker *broker, uint64_t connection, const struct msg_request *request,
                    const struct broker_env *env);
/* A well-formed request of a type or with a field that is not known here. */
void broker_unknown_request(struct broker *broker, uint64_t connection, uint64_t id,
                            const struct broker_env *env);

/* The process behind a session is dead. Harmless if the session is gone. */
void broker_session_died(struct broker *broker, uint64_t session, const struct broker_env *env);
/* The session of a connection, 0 before HELLO was answered. */
uint64_t broker_connection_session(const struct broker *broker, uint64_t connection);
/* Has it a connection? False too if there is no such session. */
bool broker_session_connected(const struct broker *broker, uint64_t session);

/* The next plan to run, or NULL. Ask again until NULL after every call above. */
struct plan *broker_next_plan(struct broker *broker);
/* `result` is 0, or the negative errno of the effect at `failed`. */
void broker_plan_done(struct broker *broker, struct plan *plan, int result, size_t failed,
                      const struct broker_env *env);

/* When broker_tick() is next due, on the steady clock; UINT64_MAX: never. */
uint64_t broker_next_deadline(const struct broker *broker);
void broker_tick(struct broker *broker, const struct broker_env *env);

/* Nobody is here and nothing would be lost by leaving. */
bool broker_is_idle(const struct broker *broker);

/* Calls `function` for each counter, in a fixed order. */
void broker_counters(const struct broker *broker,
                     void (*function)(void *context, const char *name, uint64_t value),
                     void *context);

#endif
