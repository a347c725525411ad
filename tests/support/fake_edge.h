#ifndef DLPACKD_TESTS_SUPPORT_FAKE_EDGE_H
#define DLPACKD_TESTS_SUPPORT_FAKE_EDGE_H

/*
 * The outside of a broker, as a model in memory.
 *
 * It gives the broker connections, runs its plans and keeps its answers, and
 * aborts where the broker breaks a rule that holds for every test: effects come in
 * an order that survives a crash, nothing unknown is sealed or dropped, no reader
 * gets a segment that is not sealed, every request is answered exactly once, every
 * answer fits a packet and survives the codec. Effects can be made to fail, and
 * plans can be kept back to be run after other things have happened.
 *
 * Violations abort() rather than fail an assertion of cmocka, so that the fuzzer
 * can use it too.
 */

#include <stdbool.h>

#include "core/broker.h"
#include "proto/codec.h"
#include "proto/lease_page.h"

/* Longer than anything unused is kept. */
#define FAKE_WARM_MS 3000

#define FAKE_EFFECT_KINDS (EFFECT_ROW_FREE + 1)

struct fake_reply {
  struct dlp_list link;
  uint64_t connection;
  struct codec_reply decoded;
  const struct msg_reply *msg; /* of `decoded` */
  size_t n_attachments;
  struct attachment *attachments;
};

struct fake_edge {
  struct broker *broker;
  struct broker_env env;
  uint64_t next_connection;
  uint64_t next_request;

  /* Plans are kept until fake_edge_complete(), instead of being run at once. */
  bool is_holding;
  struct dlp_list held; /* struct fake_held.link */

  /* The `fail_after`-th effect of `fail_kind` from now on, counted from 0, fails
   * once with `fail_error` (negative errno). 0: none does. */
  int fail_error;
  enum effect_kind fail_kind;
  size_t fail_after;

  size_t n_run[FAKE_EFFECT_KINDS]; /* effects that went well */

  /* Called with true before the edge allocates for itself, with false after. */
  void (*exempt)(bool is_exempt);

  struct dlp_list replies;     /* struct fake_reply.link, oldest first */
  struct dlp_list taken;       /* handed out by fake_edge_take_reply() */
  struct dlp_list connections; /* the model */
  struct dlp_list sessions;
  struct dlp_list segments;
  struct dlp_list rows;
  uint64_t last_segment;
  uint8_t last_written; /* all bytes of the last SEGMENT_WRITE, xored */
};

/* Generous limits, one second of grace, clocks that are not zero. */
struct broker_config fake_edge_config(void);

void fake_edge_init(struct fake_edge *edge, const struct broker_config *config);
/* Frees the broker, which asserts that its books balance. */
void fake_edge_deinit(struct fake_edge *edge);

/* Return: the connection, 0 if the broker had no memory for it. */
uint64_t fake_edge_connect(struct fake_edge *edge, const struct broker_peer *peer);
void fake_edge_disconnect(struct fake_edge *edge, uint64_t connection);
bool fake_edge_is_open(const struct fake_edge *edge, uint64_t connection);
/* Why the broker closed it; NULL if it did not. */
const char *fake_edge_close_reason(const struct fake_edge *edge, uint64_t connection);

void fake_edge_request(struct fake_edge *edge, uint64_t connection,
                       const struct msg_request *request);
/* One that the codec could not read, but for its id. */
void fake_edge_unknown_request(struct fake_edge *edge, uint64_t connection, uint64_t id);
void fake_edge_die(struct fake_edge *edge, uint64_t session);
/* Time goes on, and what is due happens. */
void fake_edge_advance(struct fake_edge *edge, uint64_t ms);

/* The oldest answer on a connection that was not taken yet, or NULL. It belongs to
 * the edge and lasts until fake_edge_forget_replies(). */
const struct fake_reply *fake_edge_take_reply(struct fake_edge *edge, uint64_t connection);
void fake_edge_forget_replies(struct fake_edge *edge);
/* Requests that are not answered yet. */
size_t fake_edge_n_unanswered(const struct fake_edge *edge, uint64_t connection);

/* A word of a session's pages: the client's is written, the daemon's is read. */
void fake_edge_hold(struct fake_edge *edge, uint64_t session, uint32_t cell, uint64_t word);
uint64_t fake_edge_grant(const struct fake_edge *edge, uint64_t session, uint32_t cell);

size_t fake_edge_n_held(const struct fake_edge *edge);
/* Runs a plan that was kept back; 0 is the oldest. */
void fake_edge_complete(struct fake_edge *edge, size_t index);
void fake_edge_complete_all(struct fake_edge *edge);

/* One of the broker's counters. */
uint64_t fake_edge_counter(const struct fake_edge *edge, const char *name);

/* Model and broker agree. With no plan kept back: about everything. */
void fake_edge_check(const struct fake_edge *edge);

/* All connections go and all processes die; nothing but what is persistent is left. */
void fake_edge_end_all(struct fake_edge *edge);

#endif
