#ifndef DLPACKD_CLIENT_TRANSPORT_PRIVATE_H
#define DLPACKD_CLIENT_TRANSPORT_PRIVATE_H

/*
 * The transport's inside, shared by its three files: transport.c connects,
 * transport_io.c moves packets, call.c waits.
 *
 * Unless it says otherwise, a function here wants transport->lock held; those
 * that poll give it up meanwhile.
 */

#include "client/transport.h"

/* A socket that several threads may be polling: it is closed by the last of them. */
struct dlc__link {
  int fd;
  unsigned users;
};

/* Texts of a WELCOME; kept until the end, because they were handed out. */
struct dlc__texts {
  struct dlc__texts *older;
  char *boot_id;
  char *host;
  char *daemon_version;
};

struct dlc__transport {
  pthread_mutex_t lock;
  pthread_cond_t changed; /* connected, or a long request is sent */
  struct dlc__transport_owner owner;
  char *socket_path;
  char *client_name;

  struct dlc__link *link;           /* NULL: not connected */
  const struct dlc__call *spanning; /* is in the middle of a request of several packets */
  bool connecting;                  /* a thread is at it */
  bool reading;                     /* a thread is the reader */
  unsigned corks;
  uint64_t next_id;
  _Atomic uint64_t epoch; /* 0: there was no session yet */
  struct dlp_list calls;
  struct dlp_list leftovers;        /* struct dlc__reply.link: nobody waits for these */
  struct dlc__reply *_Atomic spare; /* one that is free, for the next packet; or NULL */
  struct dlc__outbox outbox;
  union dlc__outbox_batch batch;

  struct dlc_daemon_info info;
  struct dlc__texts *texts;
  uint8_t token[DLP_TOKEN_SIZE];
  struct dlc__pages *pages; /* of the session; NULL: there was none yet */

  uint8_t out[DLP_PACKET_MAX];
  uint8_t in[DLP_PACKET_MAX];
};

/* A condition variable for deadlines of clock.h. Return: 0 or negative errno. */
int dlc__transport_init_cond(pthread_cond_t *cond);

void dlc__link_unuse(struct dlc__link *link);
/* The connection is of no use any more: `code` is what its calls are told. */
void dlc__transport_lose_link(struct dlc__transport *transport, int code);
/* Reads the connection to its end, for DRAIN_MS at most; nothing is sent on it any more. */
void dlc__transport_drain(struct dlc__transport *transport);
/* Return: 0 with a connection, or a negated code. */
int dlc__transport_ensure_link(struct dlc__transport *transport, int64_t deadline,
                               struct dlc_error *reterr);

/* Return: 0, or what dlp_packet_send() returned; the link may be lost. */
int dlc__transport_send(struct dlc__transport *transport, const struct msg_request *request);
/* One-way messages, as many as go without waiting. */
void dlc__transport_flush(struct dlc__transport *transport);
/* Until the socket has room. */
void dlc__transport_wait_for_room(struct dlc__transport *transport, int64_t deadline);
/* As the reader: waits until something comes, and routes all there is; but with `until`,
 * what comes after its answer is left to the next reader, whom
 * dlc__transport_offer_reading() finds: to look for more would be a system call for
 * nothing, mostly. */
void dlc__transport_read(struct dlc__transport *transport, const struct dlc__call *until,
                         short more_events, int timeout_ms);
/* A role that nobody has is offered to one who sleeps. */
void dlc__transport_offer_reading(struct dlc__transport *transport);

/* Without the lock: the end of a reply. An orphan's grants are given back. */
void dlc__transport_dispose(struct dlc__transport *transport, struct dlc__reply *reply,
                            bool orphaned);
/* Without the lock: disposes of what nobody waited for. */
void dlc__transport_clear_leftovers(struct dlc__transport *transport);

/* NULL if the list is empty. */
struct dlc__reply *dlc__reply_first(struct dlp_list *list);
void dlc__reply_free(struct dlc__reply *reply);

#endif
