#include "io/connection.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "common/cleanup.h"
#include "common/list.h"
#include "common/packet.h"
#include "io/loop.h"
#include "proto/codec.h"

/* Descriptors that cannot go out yet (too many are under way, or the last are unread):
 * no event tells when they can. A reader that reads is soon done, one that sleeps for
 * an hour is not to wake us a thousand times a second. */
#define CONN_RETRY_FIRST_MS 1
#define CONN_RETRY_LAST_MS 256
/* For a peer that is to be closed and does not read its last packets. */
#define CONN_LINGER_MS 5000
/* Below the least that a packet costs; the kernel's own reference may be on top. */
#define CONN_UNREAD_SLACK 256

struct packet {
  struct dlp_list link;
  size_t n_fds;
  int *fds; /* owned until sent */
  size_t size;
  uint8_t bytes[];
};

struct conn {
  uint64_t id;
  int fd;
  const struct conn_host *host;
  struct peer peer;
  enum conn_end end;
  bool is_closing;
  bool has_answered; /* since the last packet was received */
  bool fds_unread;   /* the last packet with descriptors may be unread still */
  unsigned retry_ms; /* 0: an event will tell */
  unsigned next_retry_ms;
  unsigned linger_ms; /* what is left for sending, once it is closing */
  struct dlp_list queue;
  size_t queue_bytes;
  size_t queue_packets;
};

static const struct {
  const char *reason;
  bool is_protocol_error;
} ends[] = {
    [CONN_END_NOT] = {"it did not end", false},
    [CONN_END_PEER_GONE] = {"the client is gone", false},
    [CONN_END_CLOSED] = {"closed", false},
    [CONN_END_MALFORMED] = {"a packet is not a message of the protocol", true},
    [CONN_END_TOO_LARGE] = {"a packet is larger than the protocol allows", true},
    [CONN_END_FD_COUNT] = {"a message says it has other descriptors than came", true},
    [CONN_END_FD_UNEXPECTED] = {"descriptors came with a message that takes none", true},
    [CONN_END_FD_NO_PIDFD] = {"the descriptor with HELLO is not a pidfd", true},
    [CONN_END_FD_LOST] = {"no descriptor was free to receive one", false},
    [CONN_END_SLOW_READER] = {"the client does not read its answers", true},
    [CONN_END_NO_DESCRIPTOR] = {"a descriptor for an answer could not be opened", false},
    [CONN_END_SYSTEM] = {"the system refused", false},
};

bool conn_end_is_protocol_error(enum conn_end end)
{
  return ends[end].is_protocol_error;
}

const char *conn_end_reason(enum conn_end end)
{
  return ends[end].reason;
}

int conn_new_consume(struct conn **ret, uint64_t id, int socket, const struct conn_host *host)
{
  struct conn *conn = calloc(1, sizeof(*conn));
  int r;

  if (!conn)
    return -ENOMEM;
  r = peer_init(&conn->peer, socket);
  if (r < 0) {
    peer_deinit(&conn->peer);
    free(conn);
    return r;
  }
  conn->id = id;
  conn->fd = socket;
  conn->host = host;
  conn->next_retry_ms = CONN_RETRY_FIRST_MS;
  conn->linger_ms = CONN_LINGER_MS;
  dlp_list_init(&conn->queue);
  *ret = conn;
  return 0;
}

static void packet_free(struct packet *packet)
{
  for (size_t i = 0; i < packet->n_fds; i++)
    (void)dlp_close(packet->fds[i]);
  free(packet->fds);
  free(packet);
}

static void dequeue(struct conn *conn, struct packet *packet)
{
  dlp_list_remove(&packet->link);
  conn->queue_bytes -= packet->size;
  conn->queue_packets--;
  packet_free(packet);
}

static struct packet *first_packet(struct conn *conn)
{
  return DLP_CONTAINER(conn->queue.next, struct packet, link);
}

struct conn *conn_free(struct conn *conn)
{
  if (!conn)
    return NULL;
  while (!dlp_list_empty(&conn->queue))
    dequeue(conn, first_packet(conn));
  assert(conn->queue_bytes == 0 && conn->queue_packets == 0);
  peer_deinit(&conn->peer);
  (void)dlp_close(conn->fd);
  free(conn);
  return NULL;
}

static void changed(struct conn *conn)
{
  conn->host->changed(conn->host->context, conn);
}

void conn_fail(struct conn *conn, enum conn_end end)
{
  if (conn->end != CONN_END_NOT)
    return;
  conn->end = end;
  changed(conn);
}

/* ---- output ---- */

/* In-flight descriptors are counted per user of the daemon, for all its clients: one
 * that does not read may hold up one packet of them, not the whole budget. */
static bool must_wait_for_reader(struct conn *conn)
{
  int unread = 0;

  if (!conn->fds_unread)
    return false;
  if (ioctl(conn->fd, SIOCOUTQ, &unread) == 0 && unread >= CONN_UNREAD_SLACK)
    return true;
  conn->fds_unread = false;
  return false;
}

static void retry_later(struct conn *conn)
{
  conn->retry_ms = conn->next_retry_ms;
  if (conn->next_retry_ms < CONN_RETRY_LAST_MS)
    conn->next_retry_ms *= 2;
}

/* Return: true if it is sent; else no more can be sent now. */
static bool send_now(struct conn *conn, const uint8_t *bytes, size_t size, const int *fds,
                     size_t n_fds)
{
  int r;

  if (n_fds > 0 && must_wait_for_reader(conn)) {
    retry_later(conn);
    return false;
  }
  r = dlp_packet_send(conn->fd, bytes, size, fds, n_fds);
  switch (r) {
  case 0:
    conn->fds_unread = conn->fds_unread || n_fds > 0;
    conn->next_retry_ms = CONN_RETRY_FIRST_MS;
    return true;
  case PACKET_E_AGAIN:
    return false;
  case PACKET_E_FDS_BUSY:
    retry_later(conn);
    return false;
  case PACKET_E_EOF:
    conn_fail(conn, conn->is_closing ? CONN_END_CLOSED : CONN_END_PEER_GONE);
    return false;
  default:
    conn_fail(conn, CONN_END_SYSTEM);
    return false;
  }
}

static bool send_packet(struct conn *conn, struct packet *packet)
{
  bool is_sent = send_now(conn, packet->bytes, packet->size, packet->fds, packet->n_fds);

  if (is_sent)
    dequeue(conn, packet);
  return is_sent;
}

static void flush(struct conn *conn)
{
  conn->retry_ms = 0;
  while (conn->end == CONN_END_NOT && !dlp_list_empty(&conn->queue))
    if (!send_packet(conn, first_packet(conn)))
      break;
  if (conn->is_closing && dlp_list_empty(&conn->queue))
    conn_fail(conn, CONN_END_CLOSED);
  changed(conn);
}

static struct packet *packet_new(const uint8_t *bytes, size_t size, struct dlp_fdset *fds)
{
  struct packet *packet = malloc(sizeof(*packet) + size);

  if (!packet)
    return NULL;
  dlp_list_init(&packet->link);
  packet->size = size;
  memcpy(packet->bytes, bytes, size);
  packet->n_fds = 0;
  packet->fds = fds->size ? malloc(fds->size * sizeof(int)) : NULL;
  if (fds->size && !packet->fds) {
    free(packet);
    return NULL;
  }
  for (size_t i = 0; i < fds->size; i++)
    packet->fds[packet->n_fds++] = dlp_fdset_steal(fds, i);
  return packet;
}

/* Keeps what cannot be sent now. */
static void enqueue(struct conn *conn, const uint8_t *bytes, size_t size, struct dlp_fdset *fds)
{
  struct packet *packet = packet_new(bytes, size, fds);

  if (!packet) {
    conn_fail(conn, CONN_END_SYSTEM);
    return;
  }
  dlp_list_append(&conn->queue, &packet->link);
  conn->queue_bytes += packet->size;
  conn->queue_packets++;
  if (conn->queue_bytes > conn->host->output_limit)
    conn_fail(conn, CONN_END_SLOW_READER);
  changed(conn);
}

void conn_send(struct conn *conn, const struct msg_reply *reply, struct dlp_fdset *fds)
{
  uint8_t bytes[DLP_PACKET_MAX];
  struct msg_reply counted = *reply;
  size_t size;

  conn->has_answered = true;
  counted.n_fds = (uint32_t)fds->size;
  if (conn->end != CONN_END_NOT)
    ; /* nobody is there to read it */
  else if (codec_encode_reply(bytes, sizeof(bytes), &size, &counted) != 0)
    conn_fail(conn, CONN_END_SYSTEM);
  else if (!dlp_list_empty(&conn->queue) || !send_now(conn, bytes, size, fds->fds, fds->size))
    enqueue(conn, bytes, size, fds);
  dlp_fdset_deinit(fds);
}

void conn_close(struct conn *conn)
{
  conn->is_closing = true;
  flush(conn);
}

void conn_retry(struct conn *conn)
{
  if (conn->is_closing) {
    unsigned waited_ms = conn_retry_ms(conn);

    conn->linger_ms -= waited_ms < conn->linger_ms ? waited_ms : conn->linger_ms;
  }
  if (conn->is_closing && conn->linger_ms == 0)
    conn_fail(conn, CONN_END_CLOSED);
  else
    flush(conn);
}

/* ---- input ---- */

/* HELLO may bring the sender's own pidfd; the kernel's word goes before it.
 * Return: CONN_END_NOT if the descriptors are as they should be. */
static enum conn_end take_fds(struct conn *conn, const struct msg_request *request,
                              struct dlp_fdset *fds)
{
  if (request->n_fds != fds->size)
    return CONN_END_FD_COUNT;
  if (fds->size == 0)
    return CONN_END_NOT;
  if (request->type != MSG_HELLO || fds->size > 1)
    return CONN_END_FD_UNEXPECTED;
  if (!peer_is_pidfd(dlp_fdset_get(fds, 0)))
    return CONN_END_FD_NO_PIDFD;
  if (conn->peer.pidfd < 0)
    conn->peer.pidfd = dlp_fdset_steal(fds, 0);
  return CONN_END_NOT;
}

static void handle_packet(struct conn *conn, const uint8_t *bytes, size_t size,
                          struct dlp_fdset *fds)
{
  struct codec_request decoded = {0};
  enum conn_end end;
  int r = codec_decode_request(&decoded, bytes, size);

  switch (r) {
  case 0:
    end = take_fds(conn, &decoded.request, fds);
    /* Not kept longer than need be: serving it may take descriptors. */
    dlp_fdset_deinit(fds);
    if (end == CONN_END_NOT)
      conn->host->request(conn->host->context, conn->id, &decoded.request);
    else
      conn_fail(conn, end);
    break;
  case CODEC_E_UNKNOWN:
    dlp_fdset_deinit(fds);
    conn->host->unknown(conn->host->context, conn->id, decoded.request.id);
    break;
  case CODEC_E_MALFORMED:
    conn_fail(conn, CONN_END_MALFORMED);
    break;
  default:
    conn_fail(conn, CONN_END_SYSTEM);
    break;
  }
  codec_request_deinit(&decoded);
}

/* Return: true if there may be more to read. */
static bool receive_packet(struct conn *conn)
{
  uint8_t bytes[DLP_PACKET_MAX];
  dlp_auto_fdset struct dlp_fdset fds;
  size_t size;
  int r;

  dlp_fdset_init(&fds);
  r = dlp_packet_receive(conn->fd, bytes, sizeof(bytes), &size, &fds);
  switch (r) {
  case 0:
    conn->has_answered = false;
    handle_packet(conn, bytes, size, &fds);
    return true;
  case PACKET_E_AGAIN:
    return false;
  case PACKET_E_EOF:
    conn_fail(conn, CONN_END_PEER_GONE);
    return false;
  case PACKET_E_TRUNCATED:
    conn_fail(conn, CONN_END_TOO_LARGE);
    return false;
  case PACKET_E_FDS_LOST:
    conn_fail(conn, CONN_END_FD_LOST);
    return false;
  default:
    conn_fail(conn, CONN_END_SYSTEM);
    return false;
  }
}

static bool may_read(const struct conn *conn)
{
  return conn->end == CONN_END_NOT && !conn->is_closing && conn->queue_bytes <= CONN_PAUSE_BYTES &&
         conn->queue_packets <= CONN_PAUSE_PACKETS;
}

/* Who was answered reads that first, as a rule: to look for another packet of its would
 * be a system call for nothing. If there is one, the loop tells of it in its next turn. */
static void receive(struct conn *conn, bool is_last_turn)
{
  for (int i = 0; i < CONN_PACKETS_PER_TURN && may_read(conn); i++)
    if (!receive_packet(conn) || (conn->has_answered && !is_last_turn))
      return;
}

void conn_dispatch(struct conn *conn, unsigned events)
{
  if (events & LOOP_WRITABLE)
    flush(conn);
  if (events & LOOP_READABLE)
    receive(conn, events & LOOP_BROKEN);
  if (events & LOOP_BROKEN)
    conn_fail(conn, conn->is_closing ? CONN_END_CLOSED : CONN_END_PEER_GONE);
  changed(conn);
}

/* ---- questions ---- */

uint64_t conn_id(const struct conn *conn)
{
  return conn->id;
}

const struct peer *conn_peer(const struct conn *conn)
{
  return &conn->peer;
}

unsigned conn_interest(const struct conn *conn)
{
  unsigned events = 0;

  if (conn->end != CONN_END_NOT)
    return 0;
  if (may_read(conn))
    events |= LOOP_READABLE;
  if (!dlp_list_empty(&conn->queue) && conn->retry_ms == 0)
    events |= LOOP_WRITABLE;
  return events;
}

unsigned conn_retry_ms(const struct conn *conn)
{
  if (conn->end != CONN_END_NOT)
    return 0;
  if (conn->retry_ms)
    return conn->retry_ms;
  return conn->is_closing ? conn->linger_ms : 0;
}

size_t conn_queued(const struct conn *conn)
{
  return conn->queue_bytes;
}

enum conn_end conn_end(const struct conn *conn)
{
  return conn->end;
}

bool conn_is_closing(const struct conn *conn)
{
  return conn->is_closing;
}
