#ifndef DLPACKD_CORE_SESSION_H
#define DLPACKD_CORE_SESSION_H

/*
 * Sessions and connections.
 *
 * A session is one process's standing with the daemon: who it is, what it holds,
 * what it is about to publish. It outlives its connections; it ends by goodbye,
 * by the process's death, or some time after its last connection if it holds no
 * lease. Whatever lives in it goes with it.
 *
 * Pure. One owner thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"
#include "common/tree.h"
#include "core/lease.h"
#include "core/policy.h"
#include "core/pool.h"
#include "core/quota.h"
#include "core/timer.h"

struct broker;
struct staging;

/* Segments that an idle session is told of at most; what is over is its own loss. */
#define SESSION_DROPPED_MAX 65536

/* What a session has been sent of a segment, so that it is sent once. */
enum segment_view_flags {
  SEGMENT_VIEW_READ = 1u << 0,
  SEGMENT_VIEW_SHARED = 1u << 1,
  SEGMENT_VIEW_PRODUCER = 1u << 2,
};

struct segment_view {
  struct dlp_list segment_link; /* segment->known */
  struct dlp_tree_node node;    /* session->views, by the segment's id */
  struct segment *segment;
  struct session *session;
  uint32_t flags;
};

/* Commits that were answered, so that a request repeated after a lost answer is
 * harmless. */
#define SESSION_COMMITS_KEPT 64

struct session_commit {
  uint64_t key;
  uint64_t version; /* 0: unused */
};

struct session {
  struct dlp_tree_node by_id;
  struct dlp_tree_node by_token;
  struct broker *broker;
  uint64_t id;
  uint8_t token[DLP_TOKEN_SIZE];
  struct actor actor;
  uint32_t *groups;
  int32_t pid;
  bool is_open;   /* the edge has opened it */
  bool is_ending; /* no request is served any more */
  uint32_t n_ops; /* plans under way on its behalf: it cannot go before they are done */
  struct dlp_list connections;
  struct pool pool;
  struct lease_table leases;
  struct dlp_tree blocks;   /* struct block.node: allocated, not published */
  struct dlp_list stagings; /* struct staging.link */
  uint32_t n_stagings;
  struct dlp_list published; /* struct tensor.session_link: session lifetime */
  struct dlp_tree views;     /* struct segment_view.node */
  uint64_t *dropped;         /* segments to say are gone, with the next answer */
  size_t n_dropped;
  size_t n_dropped_room;
  struct session_commit commits[SESSION_COMMITS_KEPT];
  size_t next_commit;
  struct timer grace;
  struct quota_charge charge;
};

struct connection {
  struct dlp_tree_node node;
  struct dlp_list session_link;
  struct broker *broker;
  uint64_t id;
  struct session *session; /* NULL before HELLO */
  struct actor actor;
  uint32_t *groups;
  int32_t pid;
  uint8_t fresh_token[DLP_TOKEN_SIZE];
  struct timer hello;
  struct dlp_list waiters; /* struct waiter.connection_link */
  uint32_t n_waiters;
  struct dlp_list collecting; /* struct names.link: of GETs that span packets */
  uint32_t n_collecting;
};

/* One of a session; `actor` must be the connection's. Return: 0, -ENOMEM, or
 * QUOTA_E_EXCEEDED with *refusal filled. */
int session_new(struct session **ret, struct broker *broker, const struct connection *connection,
                struct quota_refusal *refusal);

/* No more requests; what it holds is given back as soon as no plan is under way. */
void session_end(struct session *session, const char *reason);
/* A plan that was started for it is done. */
void session_op_done(struct session *session);

struct session *session_find(const struct broker *broker, uint64_t id);
struct session *session_find_by_token(const struct broker *broker, const uint8_t *token);

void session_attach(struct session *session, struct connection *connection);
void session_detach(struct connection *connection);

/* The session's view of a segment, NULL if it has none; and the same, made if need be, NULL
 * if out of memory. */
struct segment_view *session_find_view(const struct session *session, uint64_t segment);
struct segment_view *session_view(struct session *session, struct segment *segment);
void segment_view_free(struct segment_view *view);

/* Drops a segment without blocks: all who know it are told with their next answer. */
void session_drop_segment(struct broker *broker, struct segment *segment);
/* The session's unpublished blocks: add one; find the one that starts at a place (NULL
 * if there is none); take one out. */
void session_add_block(struct session *session, struct block *block);
struct block *session_find_block(const struct session *session, const struct msg_place *place);
void session_take_block(struct session *session, struct block *block);
/* Gives up a block that is in no tree; its segment goes with the last one. */
void session_drop_block(struct broker *broker, struct block *block);

/* The version that was committed with `key`, 0 if none was. */
uint64_t session_committed(const struct session *session, uint64_t key);
void session_remember_commit(struct session *session, uint64_t key, uint64_t version);

struct connection *connection_find(const struct broker *broker, uint64_t id);
/* Forgets it, with what waits on it. The edge is not told. */
void connection_free(struct connection *connection);
/* Forgets it and has the edge close it. */
void connection_close(struct connection *connection, const char *reason);

#endif
