#ifndef DLPACKD_CORE_BROKER_PRIVATE_H
#define DLPACKD_CORE_BROKER_PRIVATE_H

/*
 * What the files of the broker share. Nobody else includes it.
 */

#include "core/broker.h"
#include "core/registry.h"
#include "core/release.h"
#include "core/session.h"
#include "core/timer.h"

struct broker_totals {
  uint64_t commits;
  uint64_t grants;
  uint64_t refused; /* requests answered with an error */
  uint64_t protocol_errors;
};

struct broker {
  struct broker_config config;
  uint32_t *admins;
  struct broker_edge edge;
  const struct broker_env *env; /* of the call that is being served */
  uint64_t deadline_us;         /* of the request that is being served */
  struct quota *quota;
  struct registry registry;
  struct segments segments;
  struct timers timers;
  struct releases releases;
  struct dlp_tree connections; /* by id */
  struct dlp_tree sessions;    /* by id */
  struct dlp_tree tokens;      /* sessions by token */
  struct dlp_list plans;       /* struct plan.link: not handed out yet */
  struct dlp_list retired;     /* struct tensor.session_link: held by somebody yet */
  struct timer sweep;          /* looks whether they still are */
  struct timer trim;           /* drops what was warm for long enough */
  struct dlp_list watchers;    /* struct waiter.broker_link: WATCH requests */
  uint64_t next_session;
  uint64_t next_batch;
  uint64_t next_row;
  uint64_t last_version;
  size_t n_persistent; /* live tensors that keep an idle daemon from leaving */
  struct broker_totals totals;
};

/* ---- plans with a result ---- */

/* A plan under way. Its owner is the queue, then the edge, then broker_plan_done(). */
struct op {
  struct plan plan; /* first: a plan given back is an op */
  struct broker *broker;
  struct session *session; /* kept from going by n_ops */
  uint64_t connection;     /* may have gone meanwhile */
  uint64_t request;
  /* `result` as of broker_plan_done(). Must not fail; frees what its own fields own. */
  void (*done)(struct op *op, int result, size_t failed);
  size_t max_effects;
};

/* An op of `size` bytes (a struct that begins with struct op), all else zero.
 * Return: NULL if out of memory. */
struct op *op_new(size_t size, size_t max_effects, struct session *session, uint64_t connection,
                  uint64_t request);
/* Of one that was not started. */
void op_free(struct op *op);
void op_add(struct op *op, const struct effect *effect);
/* Queues it; op->done is called for it exactly once, later. */
void op_start(struct op *op);

/* ---- serving requests: one function per type ---- */

typedef void (*request_fn)(struct connection *connection, const struct msg_request *request);

void request_goodbye(struct connection *connection, const struct msg_request *request);
void request_ping(struct connection *connection, const struct msg_request *request);
void request_allocate(struct connection *connection, const struct msg_request *request);
void request_free(struct connection *connection, const struct msg_request *request);
void request_publish(struct connection *connection, const struct msg_request *request);
void request_abort(struct connection *connection, const struct msg_request *request);
void request_get(struct connection *connection, const struct msg_request *request);
void request_release(struct connection *connection, const struct msg_request *request);
void request_map(struct connection *connection, const struct msg_request *request);
void request_forget(struct connection *connection, const struct msg_request *request);
void request_delete(struct connection *connection, const struct msg_request *request);
void request_list(struct connection *connection, const struct msg_request *request);
void request_stat(struct connection *connection, const struct msg_request *request);
void request_watch(struct connection *connection, const struct msg_request *request);
void request_stats(struct connection *connection, const struct msg_request *request);

/* A name of a request made whole: realm and owner filled in. */
struct entry_key request_key(const struct connection *connection, const struct msg_name *name);

/* The peer broke the protocol: its connection ends. */
void protocol_error(struct connection *connection, const char *reason);

/* ---- memory ---- */

/* Drops what is warm for too long, or too much. */
void broker_trim(struct broker *broker);
/* Drops all that is warm of a pool. */
void broker_drop_warm(struct broker *broker, const struct pool *pool);
/* The producer has no pointer into a block any more that it had kept; it is in no tree. */
void broker_let_go(struct broker *broker, struct block *block);
/*
 * As pool_place(), but gives up what is warm before it refuses. *ret_is_first: the
 * segment is new, and nothing else has it made; its drop is reserved.
 */
int broker_place(struct broker *broker, struct pool *pool, struct pool_request *request,
                 struct block **ret, bool *ret_is_first, struct quota_refusal *refusal);

/* ---- tensors ---- */

/* The newest version of an entry goes; those who wait or watch are told by the caller
 * with wait_changed(). */
void broker_withdraw(struct broker *broker, struct entry *entry);
/* `tensor` was replaced or withdrawn: what tied it to its time as the newest ends. */
void broker_retired(struct broker *broker, struct tensor *tensor);
/* `tensor` was retired or let go: if nobody holds it, it and its memory go. */
void broker_tensor_released(struct broker *broker, struct tensor *tensor);
/* Takes a staged tensor out again. */
void broker_unstage(struct broker *broker, struct tensor *tensor, bool has_row);

#endif
