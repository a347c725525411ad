/* Hostile packets: each costs its sender the connection, or gets a refusal in words, and
 * nobody else anything. */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "proto/lease_page.h"
#include "support/attack.h"
#include "support/tensors.h"
#include "support/test.h"

static const struct msg_name own = {MSG_OWNER_SELF, "own"};

struct opening {
  const struct attack_bench *bench;
  int fd;
};

static bool has_opened(void *context)
{
  struct opening *opening = context;

  opening->fd = test_raw_open(opening->bench->daemon.socket, NULL, NULL);
  return opening->fd >= 0;
}

/* An attacker that is quick runs into its user's quota of sessions, until the daemon has
 * found the earlier ones to be over; then it goes on. */
static int open_session(const struct attack_bench *bench)
{
  struct opening opening = {bench, -1};

  (void)test_wait_until(has_opened, &opening);
  return opening.fd;
}

/* ---- bytes that are no message ---- */

/* A packet on a connection of its own, before or after HELLO. */
static int send_alone(const struct attack_bench *bench, bool greeted, const void *bytes,
                      size_t size)
{
  dlp_auto_close int fd = greeted ? open_session(bench) : test_raw_connect(bench->daemon.socket);

  CHECK(fd >= 0);
  CHECK(test_raw_send_bytes(fd, bytes, size, NULL, 0));
  return 0;
}

static int send_random_bytes(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  static uint8_t bytes[DLP_PACKET_MAX];

  for (uint64_t i = 0; i < 400; i++) {
    size_t size = i < 256 ? i + 1 : (i - 255) * 450;

    test_fill(bytes, size, i);
    if (i < 256)
      bytes[0] = (uint8_t)i;
    CHECK(send_alone(bench, i % 2, bytes, size) == 0);
  }
  CHECK(send_alone(bench, true, bytes, sizeof(bytes)) == 0);
  return 0;
}

static void random_bytes_of_all_lengths_cost_their_sender_only(void **state)
{
  attack_run(*state, send_random_bytes, NULL);
}

/* Well-formed requests of every type, to be broken. */
static const int64_t sample_shape[2] = {3, 4}, sample_strides[2] = {4, -1};
static const struct msg_name sample_names[2] = {{MSG_OWNER_SELF, "a"}, {7, "b/c"}};
static const struct msg_block sample_blocks[2] = {{100, 0}, {5000, 3}};
static const struct msg_place sample_place = {1, 2, 48, 12};
static const struct msg_attribute sample_attribute = {"key", "value"};
static const struct msg_add sample_add = {.name = {MSG_OWNER_SELF, "a"},
                                          .spec = {.code = 2,
                                                   .bits = 32,
                                                   .lanes = 1,
                                                   .ndim = 2,
                                                   .shape = sample_shape,
                                                   .strides = sample_strides},
                                          .place = {1, 2, 48, 12},
                                          .has_expected = true,
                                          .n_attributes = 1,
                                          .attributes = &sample_attribute};
static const uint32_t sample_cell = 1;
static const uint64_t sample_segments[2] = {1, UINT64_MAX};

static const struct msg_request samples[] = {
    {.id = 1, .type = MSG_HELLO, .u.hello = {.major = 1, .client_name = "sample"}},
    {.id = 2, .type = MSG_GOODBYE},
    {.id = 3, .type = MSG_PING},
    {.id = 4,
     .type = MSG_ALLOCATE,
     .u.allocate = {.lifetime = 1, .n_blocks = 2, .blocks = sample_blocks}},
    {.type = MSG_FREE, .u.free = {1, &sample_place}},
    {.id = 5,
     .type = MSG_PUBLISH,
     .u.publish = {.key = 7, .commit = true, .n_adds = 1, .adds = &sample_add}},
    {.id = 6, .type = MSG_ABORT, .u.abort = {7}},
    {.id = 7,
     .type = MSG_GET,
     .u.get = {.access = 1, .timeout_ms = 5, .n_names = 2, .names = sample_names}},
    {.type = MSG_RELEASE, .u.release = {1, &sample_cell}},
    {.id = 8, .type = MSG_MAP, .u.map = {1, 1}},
    {.type = MSG_FORGET, .u.forget = {2, sample_segments}},
    {.id = 9, .type = MSG_DELETE, .u.del = {.name = {MSG_OWNER_SELF, "a"}}},
    {.id = 10, .type = MSG_LIST, .u.list = {.prefix = "a", .after = {MSG_OWNER_SELF, ""}}},
    {.id = 11, .type = MSG_STAT, .u.stat = {.name = {MSG_OWNER_SELF, "a"}}},
    {.id = 12, .type = MSG_WATCH, .u.watch = {.prefix = "a", .timeout_ms = 5}},
    {.id = 13, .type = MSG_STATS},
};

static int send_cut(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  uint8_t bytes[1024];
  size_t size;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(samples); i++) {
    CHECK(codec_encode_request(bytes, sizeof(bytes), &size, &samples[i]) == 0);
    for (size_t cut = 1; cut <= size; cut++)
      CHECK(send_alone(bench, true, bytes, cut) == 0);
  }
  return 0;
}

static void requests_cut_at_every_byte_cost_their_sender_only(void **state)
{
  attack_run(*state, send_cut, NULL);
}

static int send_flipped(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  uint8_t bytes[1024];
  size_t size;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(samples); i++) {
    CHECK(codec_encode_request(bytes, sizeof(bytes), &size, &samples[i]) == 0);
    for (size_t bit = 0; bit < size * 8; bit++) {
      bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
      CHECK(send_alone(bench, true, bytes, size) == 0);
      bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
  }
  return 0;
}

static void requests_with_any_bit_flipped_cost_their_sender_only(void **state)
{
  attack_run(*state, send_flipped, NULL);
}

/* A PING with a field of no meaning behind it, so that it has `size` bytes. */
static size_t padded_ping(uint8_t *bytes, size_t size)
{
  static const struct msg_request ping = {.id = 5, .type = MSG_PING};
  size_t n = 0, rest;

  (void)codec_encode_request(bytes, size, &n, &ping);
  rest = size - n - 5;
  bytes[n++] = 0xba; /* field 999, bytes */
  bytes[n++] = 0x3e;
  bytes[n++] = (uint8_t)(0x80 | (rest & 0x7f));
  bytes[n++] = (uint8_t)(0x80 | (rest >> 7 & 0x7f));
  bytes[n++] = (uint8_t)(rest >> 14);
  memset(bytes + n, 'x', rest);
  return n + rest;
}

static int send_large(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  static uint8_t bytes[DLP_PACKET_MAX + 70000];
  static const size_t too_large[] = {DLP_PACKET_MAX + 1, DLP_PACKET_MAX * 2};
  struct codec_reply reply = {0};
  int fd = open_session(bench);

  CHECK(fd >= 0);
  CHECK(padded_ping(bytes, DLP_PACKET_MAX) == DLP_PACKET_MAX);
  CHECK(test_raw_send_bytes(fd, bytes, DLP_PACKET_MAX, NULL, 0));
  CHECK(test_raw_receive(fd, &reply, NULL) && reply.reply.status == 0);
  codec_reply_deinit(&reply);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(too_large); i++) {
    CHECK(test_raw_send_bytes(fd, bytes, padded_ping(bytes, too_large[i]), NULL, 0));
    CHECK(test_raw_is_hung_up(fd));
    (void)close(fd);
    fd = open_session(bench);
    CHECK(fd >= 0);
  }
  return 0;
}

static void a_packet_of_64_kib_is_served_and_one_more_byte_is_not(void **state)
{
  struct attack_bench *bench = *state;

  attack_run(bench, send_large, NULL);
  attack_wait_log(bench, "larger than the protocol allows");
  test_wait_counter(bench->witness, "protocol_errors_total", 2);
}

/* ---- descriptors ---- */

static int send_nothing(int fd, const int *fds, size_t n_fds)
{
  struct iovec nothing = {NULL, 0};
  union {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int) * 4)];
  } control = {{0}};
  struct msghdr message = {.msg_iov = &nothing, .msg_iovlen = 1};

  if (n_fds > 0) {
    struct cmsghdr *header = &control.align;

    message.msg_control = &control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
    memcpy(CMSG_DATA(header), fds, sizeof(int) * n_fds);
  }
  return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static int send_empty_packets(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  int fds[2] = {STDIN_FILENO, STDOUT_FILENO};

  for (size_t i = 0; i < 300; i++) {
    dlp_auto_close int fd = i % 2 ? open_session(bench) : test_raw_connect(bench->daemon.socket);

    CHECK(fd >= 0);
    CHECK(send_nothing(fd, fds, i % 3) == 0);
    CHECK(test_raw_is_hung_up(fd));
  }
  return 0;
}

static void an_empty_packet_ends_the_connection_and_its_descriptors_are_closed(void **state)
{
  attack_run(*state, send_empty_packets, NULL);
}

/* Things that are not what was asked for. The caller closes them. */
enum { N_OBJECTS = 10 };

static int open_objects(int fds[N_OBJECTS])
{
  int pair[2], ends[2];

  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 || pipe2(ends, O_CLOEXEC) < 0)
    return -1;
  (void)close(pair[1]); /* the other side is gone */
  (void)close(ends[1]);
  fds[0] = pair[0];
  fds[1] = ends[0];
  fds[2] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fds[3] = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
  fds[4] = open("/dev/null", O_RDWR | O_CLOEXEC);
  fds[5] = open("/etc/passwd", O_PATH | O_CLOEXEC);
  fds[6] = memfd_create("object", MFD_CLOEXEC);
  fds[7] = epoll_create1(EPOLL_CLOEXEC);
  fds[8] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  fds[9] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  for (size_t i = 0; i < N_OBJECTS; i++)
    if (fds[i] < 0)
      return -1;
  return 0;
}

static const struct msg_request hello = {
    .id = 1, .n_fds = 1, .type = MSG_HELLO, .u.hello = {.major = 1, .client_name = "hostile"}};

static int greet_with_objects(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  int objects[N_OBJECTS];

  CHECK(open_objects(objects) == 0);
  for (size_t i = 0; i < N_OBJECTS * 20; i++) {
    dlp_auto_close int fd = test_raw_connect(bench->daemon.socket);

    CHECK(fd >= 0);
    CHECK(test_raw_send(fd, &hello, &objects[i % N_OBJECTS], 1));
    CHECK(test_raw_is_hung_up(fd));
  }
  return 0;
}

static void a_hello_with_a_descriptor_that_is_no_pidfd_is_refused(void **state)
{
  struct attack_bench *bench = *state;

  attack_run(bench, greet_with_objects, NULL);
  attack_wait_log(bench, "not a pidfd");
}

static int greet_with_pidfd(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  dlp_auto_close int fd = test_raw_connect(bench->daemon.socket);
  dlp_auto_close int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
  struct codec_reply reply = {0};

  CHECK(fd >= 0 && pidfd >= 0);
  CHECK(test_raw_send(fd, &hello, &pidfd, 1));
  CHECK(test_raw_receive(fd, &reply, NULL) && reply.reply.type == MSG_WELCOME);
  codec_reply_deinit(&reply);
  CHECK(test_raw_is_served(fd));
  return 0;
}

static void a_hello_with_a_pidfd_is_welcome(void **state)
{
  attack_run(*state, greet_with_pidfd, NULL);
}

/* Of a field that comes twice the last one counts: with a tail, a message says what our
 * encoder would not say. */
static bool send_with_tail(int fd, const struct msg_request *request, const char *tail,
                           size_t tail_size, const int *fds, size_t n_fds)
{
  uint8_t bytes[1024];
  size_t size;

  if (codec_encode_request(bytes, sizeof(bytes) - tail_size, &size, request) != 0)
    return false;
  memcpy(bytes + size, tail, tail_size);
  return test_raw_send_bytes(fd, bytes, size + tail_size, fds, n_fds);
}

/* `said` is the field n_fds as it is on the wire. */
struct fd_lie {
  const char *said;
  size_t said_size;
  size_t sent;
};

#define SAID(text) "\x10" text, sizeof("\x10" text) - 1

static int lie_about_descriptors(void *context, struct test_pipe_ends *ends)
{
  static const struct fd_lie lies[] = {
      {SAID("\1"), 0},   {SAID("\xff\xff\xff\xff\x0f"), 0},
      {SAID("\0"), 1},   {SAID("\2"), 1},
      {SAID("\1"), 2},   {SAID("\1"), 1},
      {SAID("\24"), 20}, {SAID("\xfd\1"), 253},
      {SAID("\0"), 253},
  };
  const struct attack_bench *bench = context;
  int fds[DLP_FDSET_MAX];

  for (size_t i = 0; i < DLP_FDSET_MAX; i++)
    fds[i] = STDIN_FILENO;
  for (size_t i = 0; i < TEST_ARRAY_SIZE(lies) * 10; i++) {
    const struct fd_lie *lie = &lies[i % TEST_ARRAY_SIZE(lies)];
    dlp_auto_close int fd = open_session(bench);

    CHECK(fd >= 0);
    CHECK(send_with_tail(fd, &samples[2], lie->said, lie->said_size, fds, lie->sent));
    CHECK(test_raw_is_hung_up(fd));
  }
  return 0;
}

static void a_lie_about_descriptors_ends_the_connection(void **state)
{
  struct attack_bench *bench = *state;

  attack_run(bench, lie_about_descriptors, NULL);
  attack_wait_log(bench, "other descriptors than came");
  attack_wait_log(bench, "a message that takes none");
}

static int list_with_descriptors(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  struct msg_request list = samples[12];
  int fds[20];

  list.n_fds = TEST_ARRAY_SIZE(fds);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(fds); i++)
    fds[i] = memfd_create("attached", MFD_CLOEXEC);
  for (int i = 0; i < 1000; i++) {
    dlp_auto_close int fd = open_session(bench);

    CHECK(fd >= 0);
    for (int j = 0; j < 3; j++)
      (void)test_raw_send(fd, &list, fds, TEST_ARRAY_SIZE(fds));
    CHECK(test_raw_is_hung_up(fd));
  }
  return 0;
}

static void case_17_descriptors_with_lists_a_thousand_times_are_all_closed(void **state)
{
  attack_run(*state, list_with_descriptors, NULL);
}

/* A message of an unknown type is refused in words, and its descriptors are closed. */
static size_t unknown_type(uint8_t *bytes)
{
  /* id 5, n_fds 2, body 35 of no bytes */
  static const uint8_t message[] = {0x08, 5, 0x10, 2, 0x9a, 0x02, 0};

  memcpy(bytes, message, sizeof(message));
  return sizeof(message);
}

static int send_unknown_types(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  dlp_auto_close int fd = open_session(bench);
  int fds[2] = {STDIN_FILENO, STDOUT_FILENO};
  uint8_t bytes[16];

  CHECK(fd >= 0);
  for (int i = 0; i < 1000; i++) {
    struct codec_reply reply = {0};

    CHECK(test_raw_send_bytes(fd, bytes, unknown_type(bytes), fds, 2));
    CHECK(test_raw_receive(fd, &reply, NULL));
    CHECK(reply.reply.status == DLP_STATUS_UNSUPPORTED && reply.reply.id == 5);
    CHECK(reply.reply.message && reply.reply.message[0]);
    codec_reply_deinit(&reply);
  }
  CHECK(test_raw_is_served(fd));
  return 0;
}

static void an_unknown_type_is_refused_in_words_and_the_connection_goes_on(void **state)
{
  attack_run(*state, send_unknown_types, NULL);
}

/* ---- order and envelope ---- */

static int send_critical_fields(void *context, struct test_pipe_ends *ends)
{
  /* id 5, PING with field 999 or 1000 of value 1 */
  static const uint8_t ignored[] = {0x08, 5, 0x92, 0x01, 0, 0xb8, 0x3e, 1};
  static const uint8_t critical[] = {0x08, 5, 0x92, 0x01, 0, 0xc0, 0x3e, 1};
  static const uint8_t inner[] = {0x08, 5, 0x92, 0x01, 3, 0xc0, 0x3e, 1};
  static const struct {
    const uint8_t *bytes;
    size_t size;
    enum dlp_status status;
  } rows[] = {
      {ignored, sizeof(ignored), DLP_STATUS_OK},
      {critical, sizeof(critical), DLP_STATUS_UNSUPPORTED},
      {inner, sizeof(inner), DLP_STATUS_UNSUPPORTED},
  };
  const struct attack_bench *bench = context;
  dlp_auto_close int fd = open_session(bench);

  CHECK(fd >= 0);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++) {
    struct codec_reply reply = {0};

    CHECK(test_raw_send_bytes(fd, rows[i].bytes, rows[i].size, NULL, 0));
    CHECK(test_raw_receive(fd, &reply, NULL));
    CHECK(reply.reply.id == 5 && reply.reply.status == rows[i].status);
    codec_reply_deinit(&reply);
  }
  return 0;
}

static void a_critical_field_is_refused_and_another_is_ignored(void **state)
{
  attack_run(*state, send_critical_fields, NULL);
}

static int greet_in_another_major_version(void *context, struct test_pipe_ends *ends)
{
  static const uint32_t majors[] = {0, 2, UINT32_MAX};
  const struct attack_bench *bench = context;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(majors); i++) {
    const struct msg_request foreign = {
        .id = 8, .type = MSG_HELLO, .u.hello = {.major = majors[i], .client_name = "foreign"}};
    dlp_auto_close int fd = test_raw_connect(bench->daemon.socket);
    struct codec_reply reply = {0};

    CHECK(fd >= 0);
    CHECK(test_raw_call(fd, &foreign, &reply) == DLP_STATUS_VERSION);
    CHECK(reply.reply.id == 8 && strstr(reply.reply.message, "protocol 1.0"));
    codec_reply_deinit(&reply);
    CHECK(test_raw_is_hung_up(fd));
  }
  return 0;
}

static void another_major_version_is_refused_in_words(void **state)
{
  attack_run(*state, greet_in_another_major_version, NULL);
}

static int speak_out_of_turn(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;

  for (size_t i = 1; i < TEST_ARRAY_SIZE(samples); i++) {
    dlp_auto_close int fd = test_raw_connect(bench->daemon.socket);

    CHECK(fd >= 0);
    CHECK(test_raw_send(fd, &samples[i], NULL, 0));
    CHECK(test_raw_is_hung_up(fd));
  }
  return 0;
}

static void a_request_before_hello_ends_the_connection(void **state)
{
  struct attack_bench *bench = *state;

  attack_run(bench, speak_out_of_turn, NULL);
  attack_wait_log(bench, "before HELLO");
}

static int greet_twice(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  uint8_t token[DLP_TOKEN_SIZE] = {0};
  bool resumed = false;
  int fd = test_raw_open(bench->daemon.socket, token, NULL);

  CHECK(fd >= 0);
  CHECK(test_raw_send(fd, &samples[0], NULL, 0));
  CHECK(test_raw_is_hung_up(fd));
  (void)close(fd);
  /* It cost the connection, not the session. */
  fd = test_raw_open(bench->daemon.socket, token, &resumed);
  CHECK(fd >= 0 && resumed);
  CHECK(test_raw_is_served(fd));
  return 0;
}

static void a_second_hello_ends_the_connection_and_not_the_session(void **state)
{
  struct attack_bench *bench = *state;

  attack_run(bench, greet_twice, NULL);
  attack_wait_log(bench, "second HELLO");
}

static int break_the_envelope(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;

  for (size_t i = 1; i < TEST_ARRAY_SIZE(samples); i++) {
    const char *tail = samples[i].id ? "\x08\0" : "\x08\x4d";
    dlp_auto_close int fd = open_session(bench);

    CHECK(fd >= 0);
    CHECK(send_with_tail(fd, &samples[i], tail, 2, NULL, 0));
    CHECK(test_raw_is_hung_up(fd));
  }
  return 0;
}

static void an_id_that_does_not_fit_its_type_ends_the_connection(void **state)
{
  attack_run(*state, break_the_envelope, NULL);
}

/* More of a list than a request may have: made of the bytes of shorter ones. */
static int send_long_lists(void *context, struct test_pipe_ends *ends)
{
  static const uint8_t one_name[] = {0x3a, 3, 0x12, 1, 'a'};
  const struct attack_bench *bench = context;
  static uint8_t bytes[4096];
  dlp_auto_close int fd = open_session(bench);
  size_t n = 0, body = 257 * sizeof(one_name);

  CHECK(fd >= 0);
  bytes[n++] = 0x08;
  bytes[n++] = 5;
  bytes[n++] = 0xba; /* body 23, GET */
  bytes[n++] = 0x01;
  bytes[n++] = (uint8_t)(0x80 | (body & 0x7f));
  bytes[n++] = (uint8_t)(body >> 7);
  for (size_t i = 0; i < 257; i++, n += sizeof(one_name))
    memcpy(bytes + n, one_name, sizeof(one_name));
  CHECK(test_raw_send_bytes(fd, bytes, n, NULL, 0));
  CHECK(test_raw_is_hung_up(fd));
  return 0;
}

static void a_list_above_its_limit_ends_the_connection(void **state)
{
  attack_run(*state, send_long_lists, NULL);
}

/* ---- what is not one's own ---- */

/* A bell asks for a look at a cell of one's own; what is not there is not looked at. */
static int ring_for_what_was_not_given(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  const struct msg_name witness = {MSG_OWNER_SELF, "witness/tensor"};
  struct test_grant grant;
  uint32_t cells[] = {0, 0, 0, DLP_LEASE_CELLS - 1, DLP_LEASE_CELLS, UINT32_MAX};
  const struct msg_request bells = {.type = MSG_RELEASE,
                                    .u.release = {TEST_ARRAY_SIZE(cells), cells}};
  struct msg_request map = {.id = 6, .type = MSG_MAP};
  dlp_auto_close int holder = open_session(bench);
  dlp_auto_close int other = open_session(bench);

  CHECK(holder >= 0 && other >= 0);
  CHECK(test_raw_get(holder, &witness, &grant) == 0);
  cells[1] = grant.cell;
  cells[2] = grant.cell + 1;
  for (int i = 0; i < 100; i++)
    CHECK(test_raw_send(other, &bells, NULL, 0) && test_raw_send(holder, &bells, NULL, 0));
  map.u.map = (struct msg_map){grant.segment, MSG_ACCESS_READ};
  /* Whoever holds it holds it still, and nobody else does. */
  CHECK(test_raw_status(other, &map) == DLP_STATUS_NOT_FOUND);
  CHECK(test_raw_status(holder, &map) == 0);
  return 0;
}

static void a_bell_for_what_was_not_granted_ends_no_lease(void **state)
{
  attack_run(*state, ring_for_what_was_not_given, NULL);
}

static int free_what_is_not_own(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  struct msg_place place, rows[5];
  dlp_auto_close int owner = open_session(bench);

  CHECK(owner >= 0);
  CHECK(test_raw_allocate(owner, 4096, &place));
  rows[0] = rows[1] = rows[2] = rows[3] = rows[4] = place; /* another session's */
  rows[1].offset += 256;
  rows[2].segment = UINT64_MAX;
  rows[3].offset = UINT64_MAX;
  rows[4].segment = 0;
  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++) {
    const struct msg_request request = {.type = MSG_FREE, .u.free = {1, &rows[i]}};
    dlp_auto_close int fd = open_session(bench);

    CHECK(fd >= 0);
    CHECK(test_raw_send(fd, &request, NULL, 0));
    CHECK(test_raw_is_hung_up(fd));
  }
  CHECK(test_raw_is_served(owner));
  /* Twice. */
  for (int i = 0; i < 2; i++)
    CHECK(test_raw_send(owner, &(struct msg_request){.type = MSG_FREE, .u.free = {1, &place}}, NULL,
                        0));
  CHECK(test_raw_is_hung_up(owner));
  return 0;
}

static void a_free_of_what_is_not_ones_own_ends_the_connection(void **state)
{
  struct attack_bench *bench = *state;

  attack_run(bench, free_what_is_not_own, NULL);
  attack_wait_log(bench, "FREE of memory");
}

static int map_what_is_not_held(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  const struct msg_name witness = {MSG_OWNER_SELF, "witness/tensor"};
  struct msg_request map = {.id = 6, .type = MSG_MAP};
  struct test_grant grant;
  dlp_auto_close int fd = open_session(bench);

  CHECK(fd >= 0);
  for (uint64_t segment = 0; segment < 20; segment++)
    for (uint32_t access = 0; access < 4; access++) {
      map.u.map = (struct msg_map){segment, access};
      CHECK(test_raw_status(fd, &map) != 0);
    }
  map.u.map = (struct msg_map){UINT64_MAX, MSG_ACCESS_READ};
  CHECK(test_raw_status(fd, &map) == DLP_STATUS_NOT_FOUND);
  /* Held: to read, not to write. */
  CHECK(test_raw_get(fd, &witness, &grant) == 0);
  for (uint64_t segment = 0; segment < 20; segment++) {
    map.u.map = (struct msg_map){segment, MSG_ACCESS_SHARED};
    CHECK(test_raw_status(fd, &map) != 0);
  }
  return 0;
}

static void memory_in_which_one_holds_nothing_is_not_mapped(void **state)
{
  attack_run(*state, map_what_is_not_held, NULL);
}

/* Blocks that are not there, not one's own, not filled, or too small. */
static int publish_bad_places(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  struct msg_place place, foreign, bad;
  dlp_auto_close int fd = open_session(bench);
  dlp_auto_close int other = open_session(bench);

  CHECK(fd >= 0 && other >= 0);
  CHECK(test_raw_allocate(fd, 3 << 20, &place));
  CHECK(test_raw_allocate(other, 4096, &foreign));
  CHECK(test_raw_publish(fd, 1, &own, &foreign) == DLP_STATUS_INVALID);
  bad = place;
  bad.segment = UINT64_MAX;
  CHECK(test_raw_publish(fd, 2, &own, &bad) == DLP_STATUS_INVALID);
  bad = place;
  bad.offset += 256;
  CHECK(test_raw_publish(fd, 3, &own, &bad) == DLP_STATUS_INVALID);
  bad = place;
  bad.size++;
  CHECK(test_raw_publish(fd, 4, &own, &bad) == DLP_STATUS_LAYOUT);
  bad = place;
  bad.offset = UINT64_MAX - 100;
  CHECK(test_raw_publish(fd, 5, &own, &bad) == DLP_STATUS_INVALID);
  /* Nothing was written: there are no pages to read. */
  CHECK(test_raw_publish(fd, 6, &own, &place) > 0);
  CHECK(test_raw_is_served(fd) && test_raw_is_served(other));
  return 0;
}

static void a_publication_of_what_is_not_there_is_refused(void **state)
{
  attack_run(*state, publish_bad_places, NULL);
}

/* One place of 1,000 bytes; what the tensor says of itself reaches beyond it. */
static int publish_beyond(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  static const int64_t shape[2] = {10, 100}, huge[2] = {INT64_MAX, 2}, negative[2] = {-1, 4},
                       forward[2] = {101, 1}, backward[2] = {-100, 1}, wild[2] = {INT64_MIN, 1};
  struct msg_place place;
  dlp_auto_close int fd = open_session(bench);
  const struct {
    const int64_t *shape, *strides;
    uint64_t first;
    uint32_t lanes;
    enum dlp_status status;
  } rows[] = {
      {shape, forward, 0, 1, DLP_STATUS_LAYOUT},
      {shape, backward, 899, 1, DLP_STATUS_LAYOUT},
      {shape, NULL, 1, 1, DLP_STATUS_LAYOUT},
      {shape, NULL, UINT64_MAX, 1, DLP_STATUS_LAYOUT},
      {shape, wild, 500, 1, DLP_STATUS_LAYOUT},
      {huge, NULL, 0, 1, DLP_STATUS_LAYOUT},
      {negative, NULL, 0, 1, DLP_STATUS_LAYOUT},
      {shape, NULL, 0, 2, DLP_STATUS_LAYOUT},
      {shape, NULL, 0, 0, DLP_STATUS_DTYPE},
      {shape, NULL, 0, 65536, DLP_STATUS_DTYPE},
      {shape, NULL, 0, UINT32_MAX, DLP_STATUS_DTYPE},
  };

  CHECK(fd >= 0);
  CHECK(test_raw_allocate(fd, 1000, &place));
  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++) {
    struct msg_add add = {.name = own,
                          .spec = {.code = 1,
                                   .bits = 8,
                                   .lanes = rows[i].lanes,
                                   .ndim = 2,
                                   .shape = rows[i].shape,
                                   .strides = rows[i].strides},
                          .place = place};
    const struct msg_request request = {
        .id = 3,
        .type = MSG_PUBLISH,
        .u.publish = {.key = i + 1, .commit = true, .n_adds = 1, .adds = &add}};

    add.place.first = rows[i].first;
    CHECK(test_raw_status(fd, &request) == (int)rows[i].status);
  }
  return 0;
}

static void a_tensor_that_reaches_beyond_its_memory_is_refused(void **state)
{
  attack_run(*state, publish_beyond, NULL);
}

/* ALLOCATE with a descriptor. Return: the segment's, writable; -1 if refused. */
static int allocate_segment(int fd, const struct msg_block *block, struct msg_place *ret)
{
  struct msg_request request = {.id = 2,
                                .type = MSG_ALLOCATE,
                                .u.allocate = {.owner = MSG_OWNER_SELF,
                                               .lifetime = MSG_LIFETIME_SESSION,
                                               .gid = MSG_OWNER_SELF,
                                               .n_blocks = 1,
                                               .blocks = block}};
  struct codec_reply reply = {0};
  struct dlp_fdset fds;
  int memory = -1;

  dlp_fdset_init(&fds);
  if (test_raw_send(fd, &request, NULL, 0) && test_raw_receive(fd, &reply, &fds) &&
      reply.reply.type == MSG_ALLOCATED) {
    *ret = reply.reply.u.allocated.places[0];
    memory = dlp_fdset_steal(&fds, 0);
  }
  codec_reply_deinit(&reply);
  dlp_fdset_deinit(&fds);
  return memory;
}

#define FORGED_SIZE (INT64_C(1) << 20)

/* A session with one block, in a segment of its own that it has filled. */
struct forge {
  int fd;
  int memory;
  uint8_t *bytes;
  struct msg_place place;
};

static int forge_init(struct forge *forge, const struct attack_bench *bench)
{
  const struct msg_block block = {.size = FORGED_SIZE, .flags = MSG_BLOCK_OWN_SEGMENT};

  forge->fd = open_session(bench);
  CHECK(forge->fd >= 0);
  forge->memory = allocate_segment(forge->fd, &block, &forge->place);
  CHECK(forge->memory >= 0);
  forge->bytes = mmap(NULL, FORGED_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, forge->memory, 0);
  CHECK(forge->bytes != MAP_FAILED);
  memset(forge->bytes, 1, FORGED_SIZE);
  return 0;
}

static int forge_publish(const struct forge *forge)
{
  return test_raw_publish(forge->fd, 1, &own, &forge->place);
}

static int punch_hole(const struct forge *forge)
{
  return fallocate(forge->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 8192);
}

static int publish_cut_memory(void *context, struct test_pipe_ends *ends)
{
  struct forge forge;

  CHECK(forge_init(&forge, context) == 0);
  CHECK(ftruncate(forge.memory, 4096) == 0);
  CHECK(forge_publish(&forge) > 0);
  CHECK(test_raw_is_served(forge.fd));
  return 0;
}

static int publish_longer_memory(void *context, struct test_pipe_ends *ends)
{
  struct forge forge;

  CHECK(forge_init(&forge, context) == 0);
  CHECK(ftruncate(forge.memory, FORGED_SIZE * 2) == 0);
  CHECK(forge_publish(&forge) > 0);
  CHECK(test_raw_is_served(forge.fd));
  return 0;
}

static int publish_holes(void *context, struct test_pipe_ends *ends)
{
  struct forge forge;

  CHECK(forge_init(&forge, context) == 0);
  CHECK(punch_hole(&forge) == 0);
  CHECK(forge_publish(&forge) > 0);
  CHECK(test_raw_is_served(forge.fd));
  return 0;
}

/* Pages behind the end would be paid for by nobody, for as long as the tensor lives. */
static int reserve_beyond_the_end(void *context, struct test_pipe_ends *ends)
{
  struct forge forge;
  struct stat st;

  CHECK(forge_init(&forge, context) == 0);
  CHECK(fallocate(forge.memory, FALLOC_FL_KEEP_SIZE, FORGED_SIZE, FORGED_SIZE * 8) == 0);
  CHECK(forge_publish(&forge) == 0);
  CHECK(fstat(forge.memory, &st) == 0 && st.st_size == FORGED_SIZE);
  CHECK(st.st_blocks * 512 <= FORGED_SIZE);
  CHECK(fallocate(forge.memory, FALLOC_FL_KEEP_SIZE, FORGED_SIZE, FORGED_SIZE * 8) < 0);
  return 0;
}

static int freeze_what_is_mapped(void *context, struct test_pipe_ends *ends)
{
  const int64_t shape = FORGED_SIZE;
  struct msg_add add = {
      .name = own,
      .spec = {.code = 1, .bits = 8, .lanes = 1, .ndim = 1, .shape = &shape},
      .freeze = true,
  };
  const struct msg_request freeze = {
      .id = 3,
      .type = MSG_PUBLISH,
      .u.publish = {.key = 9, .commit = true, .n_adds = 1, .adds = &add}};
  struct forge forge;

  CHECK(forge_init(&forge, context) == 0);
  add.place = forge.place;
  CHECK(test_raw_status(forge.fd, &freeze) > 0);
  CHECK(test_raw_is_served(forge.fd));
  return 0;
}

static int tamper_after_publishing(void *context, struct test_pipe_ends *ends)
{
  struct forge forge;

  CHECK(forge_init(&forge, context) == 0);
  CHECK(forge_publish(&forge) == 0);
  CHECK(punch_hole(&forge) < 0);
  CHECK(ftruncate(forge.memory, 0) < 0);
  CHECK(pwrite(forge.memory, "x", 1, 0) < 0);
  CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, forge.memory, 0) == MAP_FAILED);
  CHECK(test_raw_publish(forge.fd, 2, &own, &forge.place) > 0);
  return 0;
}

static void memory_that_was_tampered_with_is_not_published(void **state)
{
  attack_run(*state, publish_cut_memory, NULL);
  attack_run(*state, publish_longer_memory, NULL);
  attack_run(*state, publish_holes, NULL);
}

static void pages_beyond_the_end_of_what_is_published_are_taken_away(void **state)
{
  attack_run(*state, reserve_beyond_the_end, NULL);
}

static void what_its_producer_can_still_write_is_not_frozen(void **state)
{
  attack_run(*state, freeze_what_is_mapped, NULL);
}

static void memory_that_is_published_is_out_of_reach(void **state)
{
  attack_run(*state, tamper_after_publishing, NULL);
}

static int allocate_absurdly(void *context, struct test_pipe_ends *ends)
{
  static const struct msg_block sizes[] = {{UINT64_MAX, 0},
                                           {UINT64_MAX - 4095, 0},
                                           {UINT64_MAX / 2 + 1, 1},
                                           {UINT64_C(1) << 46, 3},
                                           {UINT64_MAX, 3}};
  static struct msg_block many[DLP_BATCH_MAX];
  const struct attack_bench *bench = context;
  struct msg_request request = {.id = 4,
                                .type = MSG_ALLOCATE,
                                .u.allocate = {.owner = MSG_OWNER_SELF,
                                               .lifetime = MSG_LIFETIME_SESSION,
                                               .gid = MSG_OWNER_SELF,
                                               .n_blocks = 1}};
  struct msg_allocate *allocate = &request.u.allocate;
  dlp_auto_close int fd = open_session(bench);

  CHECK(fd >= 0);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(sizes); i++) {
    allocate->blocks = &sizes[i];
    CHECK(test_raw_status(fd, &request) == DLP_STATUS_NO_SPACE);
  }
  allocate->n_blocks = 0;
  CHECK(test_raw_status(fd, &request) == DLP_STATUS_INVALID);
  allocate->blocks = many;
  allocate->n_blocks = DLP_PACKET_FDS_MAX + 1;
  CHECK(test_raw_status(fd, &request) == DLP_STATUS_INVALID);
  allocate->n_blocks = 1;
  allocate->lifetime = 0;
  CHECK(test_raw_status(fd, &request) == DLP_STATUS_INVALID);
  allocate->lifetime = MSG_LIFETIME_SESSION;
  allocate->mode = 07777;
  CHECK(test_raw_status(fd, &request) == DLP_STATUS_INVALID);
  allocate->mode = 0;
  allocate->backend = 99;
  CHECK(test_raw_status(fd, &request) == DLP_STATUS_UNSUPPORTED);
  return 0;
}

static void an_allocation_without_sense_is_refused(void **state)
{
  attack_run(*state, allocate_absurdly, NULL);
}

/* ---- too much of it ---- */

static int wait_too_often(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  dlp_auto_close int fd = open_session(bench);
  struct msg_request watch = {
      .type = MSG_WATCH, .u.watch = {.prefix = "", .since = UINT64_MAX, .timeout_ms = UINT32_MAX}};

  CHECK(fd >= 0);
  for (watch.id = 1; watch.id <= 64; watch.id++)
    CHECK(test_raw_send(fd, &watch, NULL, 0));
  for (; watch.id <= 500; watch.id++)
    CHECK(test_raw_status(fd, &watch) == DLP_STATUS_BUSY);
  return 0;
}

static void who_waits_for_too_much_at_once_is_told_so(void **state)
{
  attack_run(*state, wait_too_often, NULL);
}

static int begin_and_never_end(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  dlp_auto_close int fd = open_session(bench);
  struct msg_request get = {
      .type = MSG_GET,
      .u.get = {.more = true, .access = MSG_ACCESS_READ, .n_names = 1, .names = &own}};

  CHECK(fd >= 0);
  for (uint64_t i = 1; i <= 100; i++) {
    get.id = i;
    if (!test_raw_send(fd, &get, NULL, 0))
      break;
  }
  CHECK(test_raw_is_hung_up(fd));
  return 0;
}

static void gets_that_are_begun_and_never_ended_are_limited(void **state)
{
  struct attack_bench *bench = *state;

  attack_run(bench, begin_and_never_end, NULL);
  attack_wait_log(bench, "too many GETs");
}

#define with_bench(test) cmocka_unit_test_setup_teardown(test, attack_setup, attack_teardown)

static const struct CMUnitTest tests[] = {
    with_bench(random_bytes_of_all_lengths_cost_their_sender_only),
    with_bench(requests_cut_at_every_byte_cost_their_sender_only),
    with_bench(requests_with_any_bit_flipped_cost_their_sender_only),
    with_bench(a_packet_of_64_kib_is_served_and_one_more_byte_is_not),
    with_bench(an_empty_packet_ends_the_connection_and_its_descriptors_are_closed),
    with_bench(a_hello_with_a_descriptor_that_is_no_pidfd_is_refused),
    with_bench(a_hello_with_a_pidfd_is_welcome),
    with_bench(a_lie_about_descriptors_ends_the_connection),
    with_bench(case_17_descriptors_with_lists_a_thousand_times_are_all_closed),
    with_bench(an_unknown_type_is_refused_in_words_and_the_connection_goes_on),
    with_bench(a_critical_field_is_refused_and_another_is_ignored),
    with_bench(another_major_version_is_refused_in_words),
    with_bench(a_request_before_hello_ends_the_connection),
    with_bench(a_second_hello_ends_the_connection_and_not_the_session),
    with_bench(an_id_that_does_not_fit_its_type_ends_the_connection),
    with_bench(a_list_above_its_limit_ends_the_connection),
    with_bench(a_bell_for_what_was_not_granted_ends_no_lease),
    with_bench(a_free_of_what_is_not_ones_own_ends_the_connection),
    with_bench(memory_in_which_one_holds_nothing_is_not_mapped),
    with_bench(a_publication_of_what_is_not_there_is_refused),
    with_bench(a_tensor_that_reaches_beyond_its_memory_is_refused),
    with_bench(memory_that_was_tampered_with_is_not_published),
    with_bench(pages_beyond_the_end_of_what_is_published_are_taken_away),
    with_bench(what_its_producer_can_still_write_is_not_frozen),
    with_bench(memory_that_is_published_is_out_of_reach),
    with_bench(an_allocation_without_sense_is_refused),
    with_bench(who_waits_for_too_much_at_once_is_told_so),
    with_bench(gets_that_are_begun_and_never_ended_are_limited),
};

TEST_MAIN(tests)
