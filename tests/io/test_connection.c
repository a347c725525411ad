#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/packet.h"
#include "io/connection.h"
#include "io/loop.h"
#include "proto/codec.h"
#include "support/fds.h"

#define CONNECTION 42
#define OUTPUT_LIMIT ((size_t)256 << 10)

/* The connection has one end of a socket pair, the test, as a client, the other. */
struct fixture {
  size_t fds_before;
  struct conn_host host;
  struct conn *conn;
  int client;
  int some_fd;
  size_t n_requests;
  size_t n_unknown;
  size_t n_changed;
  uint64_t last_request;
  enum msg_request_type last_type;
  size_t reply_per_request; /* bytes of answer to send for each */
};

static struct msg_reply long_reply(size_t size)
{
  static char text[60000];

  memset(text, 'x', sizeof(text));
  text[size] = '\0';
  return (struct msg_reply){.id = 1, .status = DLP_STATUS_NOT_FOUND, .message = text};
}

static void send_reply(struct fixture *fixture, size_t size, int fd)
{
  struct msg_reply reply = long_reply(size);
  struct dlp_fdset fds;

  dlp_fdset_init(&fds);
  if (fd >= 0)
    assert_int_equal(dlp_fdset_add_consume(&fds, fcntl(fd, F_DUPFD_CLOEXEC, 0)), 0);
  conn_send(fixture->conn, &reply, &fds);
}

static void on_request(void *context, uint64_t connection, const struct msg_request *request)
{
  struct fixture *fixture = context;

  assert_int_equal(connection, CONNECTION);
  fixture->n_requests++;
  fixture->last_request = request->id;
  fixture->last_type = request->type;
  if (fixture->reply_per_request)
    send_reply(fixture, fixture->reply_per_request, -1);
}

static void on_unknown(void *context, uint64_t connection, uint64_t id)
{
  struct fixture *fixture = context;

  fixture->n_unknown++;
  fixture->last_request = id;
}

static void on_changed(void *context, struct conn *conn)
{
  struct fixture *fixture = context;

  fixture->n_changed++;
}

static int setup(void **state)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));
  int pair[2];

  if (!fixture)
    return -1;
  fixture->fds_before = test_count_fds();
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
    return -1;
  fixture->client = pair[1];
  fixture->some_fd = memfd_create("some", MFD_CLOEXEC);
  fixture->host = (struct conn_host){.context = fixture,
                                     .request = on_request,
                                     .unknown = on_unknown,
                                     .changed = on_changed,
                                     .output_limit = OUTPUT_LIMIT};
  *state = fixture;
  return conn_new_consume(&fixture->conn, CONNECTION, pair[0], &fixture->host);
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;
  int r;

  (void)conn_free(fixture->conn);
  (void)dlp_close(fixture->client);
  (void)dlp_close(fixture->some_fd);
  r = test_count_fds() == fixture->fds_before ? 0 : -1;
  free(fixture);
  return r;
}

static size_t encode(uint8_t *buffer, const struct msg_request *request)
{
  size_t size = 0;

  assert_int_equal(codec_encode_request(buffer, DLP_PACKET_MAX, &size, request), 0);
  return size;
}

static void client_sends(struct fixture *fixture, const struct msg_request *request, const int *fds,
                         size_t n_fds)
{
  uint8_t buffer[DLP_PACKET_MAX];
  size_t size = encode(buffer, request);

  assert_int_equal(dlp_packet_send(fixture->client, buffer, size, fds, n_fds), 0);
}

static void client_pings(struct fixture *fixture, uint64_t id)
{
  client_sends(fixture, &(struct msg_request){.id = id, .type = MSG_PING}, NULL, 0);
}

static void client_says_hello(struct fixture *fixture, uint32_t says_n_fds, const int *fds,
                              size_t n_fds)
{
  struct msg_request hello = {
      .id = 1, .n_fds = says_n_fds, .type = MSG_HELLO, .u.hello = {.major = 1, .client_name = "t"}};

  client_sends(fixture, &hello, fds, n_fds);
}

/* Return: what dlp_packet_receive() says; the reply's id and descriptors, if any. */
static int client_receives(struct fixture *fixture, uint64_t *ret_id, size_t *ret_n_fds)
{
  uint8_t buffer[DLP_PACKET_MAX];
  struct codec_reply decoded = {0};
  struct dlp_fdset fds;
  size_t size;
  int r;

  dlp_fdset_init(&fds);
  r = dlp_packet_receive(fixture->client, buffer, sizeof(buffer), &size, &fds);
  if (r == 0) {
    assert_int_equal(codec_decode_reply(&decoded, buffer, size), 0);
    *ret_id = decoded.reply.id;
    *ret_n_fds = fds.size;
    assert_int_equal(decoded.reply.n_fds, fds.size);
    codec_reply_deinit(&decoded);
  }
  dlp_fdset_deinit(&fds);
  return r;
}

static void readable(struct fixture *fixture)
{
  conn_dispatch(fixture->conn, LOOP_READABLE);
}

static void assert_ended(struct fixture *fixture, enum conn_end end)
{
  assert_int_equal(conn_end(fixture->conn), end);
  assert_int_equal(conn_interest(fixture->conn), 0);
  assert_int_equal(conn_retry_ms(fixture->conn), 0);
  assert_true(fixture->n_changed > 0);
}

/* ---- what honest clients see ---- */

static void a_request_reaches_the_broker(void **state)
{
  struct fixture *fixture = *state;

  client_pings(fixture, 9);
  readable(fixture);
  assert_int_equal(fixture->n_requests, 1);
  assert_int_equal(fixture->last_request, 9);
  assert_int_equal(fixture->last_type, MSG_PING);
  assert_int_equal(conn_end(fixture->conn), CONN_END_NOT);
  assert_int_equal(conn_interest(fixture->conn), LOOP_READABLE);
}

static void an_answer_reaches_the_client_with_its_descriptor(void **state)
{
  struct fixture *fixture = *state;
  uint64_t id;
  size_t n_fds;

  send_reply(fixture, 10, fixture->some_fd);
  assert_int_equal(client_receives(fixture, &id, &n_fds), 0);
  assert_int_equal(id, 1);
  assert_int_equal(n_fds, 1);
}

static void a_turn_handles_a_bounded_number_of_packets(void **state)
{
  struct fixture *fixture = *state;

  for (uint64_t i = 0; i < CONN_PACKETS_PER_TURN + 5; i++)
    client_pings(fixture, i + 1);
  readable(fixture);
  assert_int_equal(fixture->n_requests, CONN_PACKETS_PER_TURN);
  readable(fixture);
  assert_int_equal(fixture->n_requests, CONN_PACKETS_PER_TURN + 5);
}

static void hello_may_bring_a_pidfd(void **state)
{
  struct fixture *fixture = *state;
  dlp_auto_close int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

  client_says_hello(fixture, 1, &pidfd, 1);
  readable(fixture);
  assert_int_equal(conn_end(fixture->conn), CONN_END_NOT);
  assert_int_equal(fixture->n_requests, 1);
  assert_true(peer_is_pidfd(conn_peer(fixture->conn)->pidfd));
}

static void the_peer_is_who_the_kernel_says(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(conn_peer(fixture->conn)->uid, geteuid());
  assert_int_equal(conn_peer(fixture->conn)->gid, getegid());
  assert_int_equal(conn_peer(fixture->conn)->pid, getpid());
}

static void the_end_of_the_client_is_the_end(void **state)
{
  struct fixture *fixture = *state;

  client_pings(fixture, 1);
  fixture->client = dlp_close(fixture->client);
  readable(fixture);
  assert_int_equal(fixture->n_requests, 1);
  assert_ended(fixture, CONN_END_PEER_GONE);
}

static void an_error_on_the_socket_is_the_end(void **state)
{
  struct fixture *fixture = *state;

  conn_dispatch(fixture->conn, LOOP_READABLE | LOOP_BROKEN);
  assert_ended(fixture, CONN_END_PEER_GONE);
}

static void closing_sends_what_is_kept_first(void **state)
{
  struct fixture *fixture = *state;
  uint64_t id;
  size_t n_fds;

  while (conn_interest(fixture->conn) == LOOP_READABLE)
    send_reply(fixture, 10000, -1);
  conn_close(fixture->conn);
  assert_int_equal(conn_end(fixture->conn), CONN_END_NOT);
  assert_int_equal(conn_interest(fixture->conn), LOOP_WRITABLE);
  while (client_receives(fixture, &id, &n_fds) == 0)
    conn_dispatch(fixture->conn, LOOP_WRITABLE);
  assert_ended(fixture, CONN_END_CLOSED);
}

static void a_client_that_is_closed_and_does_not_read_is_not_waited_for(void **state)
{
  struct fixture *fixture = *state;
  unsigned waited_ms = 0;

  while (conn_interest(fixture->conn) == LOOP_READABLE)
    send_reply(fixture, 10000, -1);
  conn_close(fixture->conn);
  while (conn_end(fixture->conn) == CONN_END_NOT) {
    assert_true(conn_retry_ms(fixture->conn) > 0);
    waited_ms += conn_retry_ms(fixture->conn);
    conn_retry(fixture->conn);
  }
  assert_true(waited_ms <= 6000);
  assert_ended(fixture, CONN_END_CLOSED);
}

/* ---- back-pressure ---- */

static void a_client_that_does_not_read_is_not_served_further(void **state)
{
  struct fixture *fixture = *state;
  size_t n_served;

  fixture->reply_per_request = 50000;
  for (uint64_t i = 0; i < 20; i++)
    client_pings(fixture, i + 1);
  while (conn_interest(fixture->conn) & LOOP_READABLE && fixture->n_requests < 20)
    readable(fixture);
  n_served = fixture->n_requests;
  assert_true(n_served < 20);
  assert_int_equal(conn_interest(fixture->conn), LOOP_WRITABLE);
  readable(fixture);
  assert_int_equal(fixture->n_requests, n_served);
  assert_int_equal(conn_end(fixture->conn), CONN_END_NOT);
}

static void it_is_served_again_when_it_has_read(void **state)
{
  struct fixture *fixture = *state;
  size_t n_replies = 0, n_fds;
  uint64_t id;

  fixture->reply_per_request = 50000;
  for (uint64_t i = 0; i < 20; i++)
    client_pings(fixture, i + 1);
  for (int turns = 0; turns < 100 && n_replies < 20; turns++) {
    conn_dispatch(fixture->conn, conn_interest(fixture->conn));
    while (client_receives(fixture, &id, &n_fds) == 0)
      n_replies++;
  }
  assert_int_equal(n_replies, 20);
  assert_int_equal(fixture->n_requests, 20);
}

static void small_answers_pause_reading_by_their_number(void **state)
{
  struct fixture *fixture = *state;

  while (conn_interest(fixture->conn) & LOOP_READABLE)
    send_reply(fixture, 1, -1);
  assert_int_equal(conn_interest(fixture->conn), LOOP_WRITABLE);
  assert_int_equal(conn_end(fixture->conn), CONN_END_NOT);
}

static void a_client_that_never_reads_is_dropped_at_the_limit(void **state)
{
  struct fixture *fixture = *state;

  for (int i = 0; i < 50; i++)
    send_reply(fixture, 50000, -1);
  assert_ended(fixture, CONN_END_SLOW_READER);
}

static void descriptors_kept_for_it_are_closed_with_it(void **state)
{
  struct fixture *fixture = *state;

  while (conn_interest(fixture->conn) == LOOP_READABLE)
    send_reply(fixture, 10000, -1);
  send_reply(fixture, 10, fixture->some_fd);
  /* The teardown counts. */
}

static void one_unread_packet_with_descriptors_holds_up_the_next(void **state)
{
  struct fixture *fixture = *state;
  uint64_t id;
  size_t n_fds;

  send_reply(fixture, 10, fixture->some_fd);
  send_reply(fixture, 10, fixture->some_fd);
  assert_true(conn_retry_ms(fixture->conn) > 0);
  assert_int_equal(conn_interest(fixture->conn), LOOP_READABLE);
  assert_int_equal(client_receives(fixture, &id, &n_fds), 0);
  assert_int_equal(client_receives(fixture, &id, &n_fds), PACKET_E_AGAIN);
  conn_retry(fixture->conn);
  assert_int_equal(client_receives(fixture, &id, &n_fds), 0);
  assert_int_equal(n_fds, 1);
  assert_int_equal(conn_retry_ms(fixture->conn), 0);
}

/* ---- what hostile clients try ---- */

static void a_pidfd_must_be_one(void **state)
{
  struct fixture *fixture = *state;

  client_says_hello(fixture, 1, &fixture->some_fd, 1);
  readable(fixture);
  assert_ended(fixture, CONN_END_FD_NO_PIDFD);
  assert_int_equal(fixture->n_requests, 0);
}

static void a_socket_is_no_pidfd(void **state)
{
  struct fixture *fixture = *state;

  client_says_hello(fixture, 1, &fixture->client, 1);
  readable(fixture);
  assert_ended(fixture, CONN_END_FD_NO_PIDFD);
}

static void more_descriptors_than_said_end_it(void **state)
{
  struct fixture *fixture = *state;
  int fds[] = {fixture->some_fd, fixture->some_fd};

  client_says_hello(fixture, 0, fds, 1);
  readable(fixture);
  assert_ended(fixture, CONN_END_FD_COUNT);
}

static void fewer_descriptors_than_said_end_it(void **state)
{
  struct fixture *fixture = *state;

  client_says_hello(fixture, 1, NULL, 0);
  readable(fixture);
  assert_ended(fixture, CONN_END_FD_COUNT);
}

static void two_descriptors_with_hello_end_it(void **state)
{
  struct fixture *fixture = *state;
  int fds[] = {fixture->some_fd, fixture->some_fd};

  client_says_hello(fixture, 2, fds, 2);
  readable(fixture);
  assert_ended(fixture, CONN_END_FD_UNEXPECTED);
}

static void descriptors_where_none_belong_end_it(void **state)
{
  struct fixture *fixture = *state;

  client_sends(fixture, &(struct msg_request){.id = 1, .n_fds = 1, .type = MSG_PING},
               &fixture->some_fd, 1);
  readable(fixture);
  assert_ended(fixture, CONN_END_FD_UNEXPECTED);
  assert_true(conn_end_is_protocol_error(conn_end(fixture->conn)));
  assert_int_equal(fixture->n_requests, 0);
}

static void random_bytes_end_it(void **state)
{
  struct fixture *fixture = *state;
  uint8_t bytes[512];

  for (size_t i = 0; i < sizeof(bytes); i++)
    bytes[i] = (uint8_t)(i * 197 + 0xff);
  assert_int_equal(dlp_packet_send(fixture->client, bytes, sizeof(bytes), &fixture->some_fd, 1), 0);
  readable(fixture);
  assert_ended(fixture, CONN_END_MALFORMED);
}

static void a_packet_above_the_limit_ends_it(void **state)
{
  struct fixture *fixture = *state;
  static uint8_t bytes[DLP_PACKET_MAX + 1];

  assert_int_equal(dlp_packet_send(fixture->client, bytes, sizeof(bytes), NULL, 0), 0);
  readable(fixture);
  assert_ended(fixture, CONN_END_TOO_LARGE);
}

static void nothing_is_served_after_the_end(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(dlp_packet_send(fixture->client, "\xff", 1, NULL, 0), 0);
  client_pings(fixture, 2);
  readable(fixture);
  readable(fixture);
  assert_ended(fixture, CONN_END_MALFORMED);
  assert_int_equal(fixture->n_requests, 0);
}

static void a_type_of_tomorrow_is_refused_by_its_id(void **state)
{
  struct fixture *fixture = *state;
  uint8_t buffer[DLP_PACKET_MAX];
  /* A critical field (number 1000, varint) behind a PING. */
  static const uint8_t critical[] = {0xc0, 0x3e, 0x01};
  size_t size = encode(buffer, &(struct msg_request){.id = 5, .type = MSG_PING});

  memcpy(buffer + size, critical, sizeof(critical));
  assert_int_equal(
      dlp_packet_send(fixture->client, buffer, size + sizeof(critical), &fixture->some_fd, 1), 0);
  readable(fixture);
  assert_int_equal(fixture->n_unknown, 1);
  assert_int_equal(fixture->last_request, 5);
  assert_int_equal(conn_end(fixture->conn), CONN_END_NOT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(a_request_reaches_the_broker),
    TEST(an_answer_reaches_the_client_with_its_descriptor),
    TEST(a_turn_handles_a_bounded_number_of_packets),
    TEST(hello_may_bring_a_pidfd),
    TEST(the_peer_is_who_the_kernel_says),
    TEST(the_end_of_the_client_is_the_end),
    TEST(an_error_on_the_socket_is_the_end),
    TEST(closing_sends_what_is_kept_first),
    TEST(a_client_that_is_closed_and_does_not_read_is_not_waited_for),
    TEST(a_client_that_does_not_read_is_not_served_further),
    TEST(it_is_served_again_when_it_has_read),
    TEST(small_answers_pause_reading_by_their_number),
    TEST(a_client_that_never_reads_is_dropped_at_the_limit),
    TEST(descriptors_kept_for_it_are_closed_with_it),
    TEST(one_unread_packet_with_descriptors_holds_up_the_next),
    TEST(a_pidfd_must_be_one),
    TEST(a_socket_is_no_pidfd),
    TEST(more_descriptors_than_said_end_it),
    TEST(fewer_descriptors_than_said_end_it),
    TEST(two_descriptors_with_hello_end_it),
    TEST(descriptors_where_none_belong_end_it),
    TEST(random_bytes_end_it),
    TEST(a_packet_above_the_limit_ends_it),
    TEST(nothing_is_served_after_the_end),
    TEST(a_type_of_tomorrow_is_refused_by_its_id),
};

TEST_MAIN(tests)
