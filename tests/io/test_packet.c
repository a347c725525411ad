#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/packet.h"
#include "support/fds.h"

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

#define BUFFER_SIZE 4096

/* `here` is our end; `there` belongs to a peer that may be hostile. */
struct fixture {
  size_t fds_before;
  struct rlimit limit;
  int here, there;
  int some_fd;
  struct dlp_fdset fds;
  size_t size;
  char buffer[BUFFER_SIZE];
};

/* What the next calls fail with, instead of reaching the kernel. */
static struct {
  int error;
  int times;
} failure;

ssize_t __real_recvmsg(int socket, struct msghdr *message, int flags);
ssize_t __real_sendmsg(int socket, const struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int socket, struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags);

static bool fails(void)
{
  if (!failure.times)
    return false;
  failure.times--;
  errno = failure.error;
  return true;
}

ssize_t __wrap_recvmsg(int socket, struct msghdr *message, int flags)
{
  return fails() ? -1 : __real_recvmsg(socket, message, flags);
}

ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags)
{
  return fails() ? -1 : __real_sendmsg(socket, message, flags);
}

static void fail_next(int error, int times)
{
  failure.error = error;
  failure.times = times;
}

static int setup(void **state)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));
  int pair[2];

  assert_non_null(fixture);
  fixture->fds_before = test_count_fds();
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &fixture->limit), 0);
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  fixture->here = pair[0];
  fixture->there = pair[1];
  fixture->some_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  assert_true(fixture->some_fd >= 0);
  dlp_fdset_init(&fixture->fds);
  fail_next(0, 0);
  *state = fixture;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;
  size_t fds_before = fixture->fds_before;

  fail_next(0, 0);
  (void)setrlimit(RLIMIT_NOFILE, &fixture->limit);
  dlp_fdset_deinit(&fixture->fds);
  dlp_close(fixture->here);
  dlp_close(fixture->there);
  dlp_close(fixture->some_fd);
  free(fixture);
  return test_count_fds() == fds_before ? 0 : -1;
}

static int receive(struct fixture *fixture)
{
  return dlp_packet_receive(fixture->here, fixture->buffer, BUFFER_SIZE, &fixture->size,
                            &fixture->fds);
}

/* `n_fds` copies of one descriptor. */
static int send_many(struct fixture *fixture, const char *text, size_t n_fds)
{
  int fds[DLP_FDSET_MAX] = {0};

  for (size_t i = 0; i < n_fds; i++)
    fds[i] = fixture->some_fd;
  return dlp_packet_send(fixture->there, text, strlen(text), fds, n_fds);
}

static void assert_received(struct fixture *fixture, const char *text, size_t n_fds)
{
  assert_int_equal(receive(fixture), 0);
  assert_int_equal(fixture->size, strlen(text));
  assert_memory_equal(fixture->buffer, text, fixture->size);
  assert_int_equal(fixture->fds.size, n_fds);
}

/* Puts what the caller likes on the wire, as a peer that follows no rule would. */
static void send_raw(struct fixture *fixture, size_t size, size_t n_headers, size_t fds_each)
{
  static const char bytes[2 * BUFFER_SIZE];
  union {
    struct cmsghdr align;
    char bytes[BUFFER_SIZE];
  } control = {0};
  struct iovec part = {.iov_base = (void *)bytes, .iov_len = size};
  struct msghdr message = {
      .msg_iov = &part,
      .msg_iovlen = 1,
      .msg_control = control.bytes,
      .msg_controllen = n_headers * CMSG_SPACE(fds_each * sizeof(int)),
  };

  for (size_t i = 0; i < n_headers; i++) {
    size_t at = i * CMSG_SPACE(fds_each * sizeof(int));
    struct cmsghdr *header = (struct cmsghdr *)(void *)(control.bytes + at);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds_each * sizeof(int));
    for (size_t k = 0; k < fds_each; k++)
      memcpy(CMSG_DATA(header) + k * sizeof(int), &fixture->some_fd, sizeof(int));
  }
  assert_int_equal(sendmsg(fixture->there, &message, MSG_NOSIGNAL), size);
}

static bool same_file(int a, int b)
{
  struct stat one, other;

  assert_int_equal(fstat(a, &one), 0);
  assert_int_equal(fstat(b, &other), 0);
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static void bytes_and_descriptors_travel_together_in_order(void **state)
{
  struct fixture *fixture = *state;
  int sent[] = {fixture->some_fd, fixture->there};

  assert_int_equal(dlp_packet_send(fixture->there, "first", 5, sent, 2), 0);
  assert_int_equal(dlp_packet_send(fixture->there, "second", 6, NULL, 0), 0);
  assert_received(fixture, "first", 2);
  assert_true(same_file(dlp_fdset_get(&fixture->fds, 0), fixture->some_fd));
  assert_true(same_file(dlp_fdset_get(&fixture->fds, 1), fixture->there));
  dlp_fdset_deinit(&fixture->fds);
  assert_received(fixture, "second", 0);
}

static void received_descriptor_is_close_on_exec(void **state)
{
  struct fixture *fixture = *state;
  int flags = fcntl(fixture->some_fd, F_GETFD);

  assert_int_equal(fcntl(fixture->some_fd, F_SETFD, flags & ~FD_CLOEXEC), 0);
  assert_int_equal(send_many(fixture, "x", 1), 0);
  assert_received(fixture, "x", 1);
  assert_true(fcntl(dlp_fdset_get(&fixture->fds, 0), F_GETFD) & FD_CLOEXEC);
}

static void sender_keeps_its_descriptors(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(send_many(fixture, "x", 1), 0);
  assert_true(fcntl(fixture->some_fd, F_GETFD) >= 0);
}

static void as_many_descriptors_as_the_kernel_passes_arrive(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(send_many(fixture, "x", DLP_FDSET_MAX), 0);
  assert_received(fixture, "x", DLP_FDSET_MAX);
}

static void receiving_never_waits(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(receive(fixture), PACKET_E_AGAIN);
}

static void sending_never_waits(void **state)
{
  struct fixture *fixture = *state;
  int r;

  do {
    r = dlp_packet_send(fixture->there, "x", 1, NULL, 0);
  } while (r == 0);
  assert_int_equal(r, PACKET_E_AGAIN);
  assert_received(fixture, "x", 0);
  while (receive(fixture) == 0)
    ;
  assert_int_equal(dlp_packet_send(fixture->there, "x", 1, NULL, 0), 0);
}

static void packet_that_fits_exactly_is_whole(void **state)
{
  struct fixture *fixture = *state;

  send_raw(fixture, BUFFER_SIZE, 0, 0);
  assert_int_equal(receive(fixture), 0);
  assert_int_equal(fixture->size, BUFFER_SIZE);
}

static void packet_beyond_the_socket_buffer_is_too_large(void **state)
{
  struct fixture *fixture = *state;
  size_t size = 16 << 20;
  char *bytes = calloc(1, size);
  int r;

  assert_non_null(bytes);
  r = dlp_packet_send(fixture->there, bytes, size, NULL, 0);
  free(bytes);
  assert_int_equal(r, PACKET_E_TOO_LARGE);
}

static void what_was_sent_before_the_end_is_read_first(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(send_many(fixture, "last words", 1), 0);
  fixture->there = dlp_close(fixture->there);
  assert_received(fixture, "last words", 1);
  dlp_fdset_deinit(&fixture->fds);
  assert_int_equal(receive(fixture), PACKET_E_EOF);
  assert_int_equal(receive(fixture), PACKET_E_EOF);
}

static void peer_that_left_without_reading_is_the_end(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(dlp_packet_send(fixture->here, "unread", 6, &fixture->some_fd, 1), 0);
  fixture->there = dlp_close(fixture->there);
  assert_int_equal(receive(fixture), PACKET_E_EOF);
}

/* A SIGPIPE would end this program. */
static void sending_to_nobody_is_the_end_without_a_signal(void **state)
{
  struct fixture *fixture = *state;

  (void)signal(SIGPIPE, SIG_DFL);
  fixture->there = dlp_close(fixture->there);
  assert_int_equal(dlp_packet_send(fixture->here, "x", 1, &fixture->some_fd, 1), PACKET_E_EOF);
}

struct hostile {
  const char *what;
  size_t size, n_headers, fds_each;
  int condition;
};

static const struct hostile hostiles[] = {
    {"too long", BUFFER_SIZE + 1, 0, 0, PACKET_E_TRUNCATED},
    {"too long, with a descriptor", BUFFER_SIZE + 1, 1, 1, PACKET_E_TRUNCATED},
    {"too long, with all descriptors", 2 * BUFFER_SIZE, 1, DLP_FDSET_MAX, PACKET_E_TRUNCATED},
    {"empty", 0, 0, 0, PACKET_E_EOF},
    {"empty, with a descriptor", 0, 1, 1, PACKET_E_TRUNCATED},
    {"empty, with all descriptors", 0, 1, DLP_FDSET_MAX, PACKET_E_TRUNCATED},
};

static void hostile_packet_leaves_no_descriptor_and_spares_the_next(void **state)
{
  struct fixture *fixture = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(hostiles); i++) {
    const struct hostile *hostile = &hostiles[i];
    size_t fds = test_count_fds();

    send_raw(fixture, hostile->size, hostile->n_headers, hostile->fds_each);
    assert_int_equal(send_many(fixture, "next", 1), 0);
    if (receive(fixture) != hostile->condition)
      fail_msg("%s", hostile->what);
    assert_int_equal(fixture->fds.size, 0);
    assert_int_equal(test_count_fds(), fds);
    assert_received(fixture, "next", 1);
    dlp_fdset_deinit(&fixture->fds);
    assert_int_equal(test_count_fds(), fds);
  }
}

static void descriptors_in_several_control_messages_all_arrive(void **state)
{
  struct fixture *fixture = *state;

  send_raw(fixture, 1, 5, 3);
  assert_int_equal(receive(fixture), 0);
  assert_int_equal(fixture->fds.size, 15);
}

/* Leaves room for exactly `n` more descriptors in this process. */
static void leave_room_for(struct fixture *fixture, size_t n)
{
  struct rlimit limit = fixture->limit;
  int fd;

  for (size_t i = 0; i <= n; i++) {
    fd = dup(fixture->some_fd);
    assert_true(fd >= 0);
    assert_int_equal(dlp_fdset_add_consume(&fixture->fds, fd), 0);
  }
  /* They took the lowest free numbers: the last one is the first too many. */
  limit.rlim_cur = (rlim_t)fd;
  dlp_fdset_deinit(&fixture->fds);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void full_table_loses_the_packet_but_no_descriptor(void **state)
{
  struct fixture *fixture = *state;
  size_t fds = test_count_fds();

  for (size_t room = 0; room < 10; room++) {
    assert_int_equal(send_many(fixture, "lost", 10), 0);
    assert_int_equal(send_many(fixture, "kept", 0), 0);
    leave_room_for(fixture, room);
    assert_int_equal(receive(fixture), PACKET_E_FDS_LOST);
    assert_int_equal(fixture->fds.size, 0);
    assert_received(fixture, "kept", 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &fixture->limit), 0);
    assert_int_equal(test_count_fds(), fds);
  }
}

static void table_with_just_enough_room_loses_nothing(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(send_many(fixture, "x", 10), 0);
  leave_room_for(fixture, 10);
  assert_received(fixture, "x", 10);
}

/* As a socket unit with PassCredentials= would have it. */
static void credentials_do_not_push_descriptors_out(void **state)
{
  struct fixture *fixture = *state;
  int on = 1;

  assert_int_equal(setsockopt(fixture->here, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
  assert_int_equal(send_many(fixture, "x", DLP_FDSET_MAX), 0);
  assert_received(fixture, "x", DLP_FDSET_MAX);
}

static void pidfd_that_nobody_asked_for_is_closed(void **state)
{
  struct fixture *fixture = *state;
  size_t fds = test_count_fds();
  int on = 1;

  if (setsockopt(fixture->here, SOL_SOCKET, SO_PASSPIDFD, &on, sizeof(on)) < 0)
    skip(); /* before Linux 6.5 */
  assert_int_equal(send_many(fixture, "x", 2), 0);
  assert_received(fixture, "x", 2);
  assert_int_equal(test_count_fds(), fds + 2);
}

static void interrupted_calls_are_made_again(void **state)
{
  struct fixture *fixture = *state;

  fail_next(EINTR, 3);
  assert_int_equal(send_many(fixture, "x", 1), 0);
  fail_next(EINTR, 3);
  assert_received(fixture, "x", 1);
}

struct refusal {
  int error;
  int r;
};

static void each_refusal_of_the_kernel_has_its_condition(void **state)
{
  static const struct refusal sending[] = {
      {EAGAIN, PACKET_E_AGAIN},
      {ENOBUFS, PACKET_E_AGAIN},
      {EPIPE, PACKET_E_EOF},
      {ECONNRESET, PACKET_E_EOF},
      {EMSGSIZE, PACKET_E_TOO_LARGE},
      {ETOOMANYREFS, PACKET_E_FDS_BUSY},
      {EPERM, -EPERM},
      {ENOMEM, -ENOMEM},
  };
  static const struct refusal receiving[] = {
      {EAGAIN, PACKET_E_AGAIN}, {ECONNRESET, PACKET_E_EOF}, {ENOMEM, -ENOMEM}, {EBADF, -EBADF}};
  struct fixture *fixture = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(sending); i++) {
    fail_next(sending[i].error, 1);
    assert_int_equal(send_many(fixture, "x", 1), sending[i].r);
  }
  for (size_t i = 0; i < TEST_ARRAY_SIZE(receiving); i++) {
    fail_next(receiving[i].error, 1);
    assert_int_equal(receive(fixture), receiving[i].r);
  }
}

#define with_pair(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    with_pair(bytes_and_descriptors_travel_together_in_order),
    with_pair(received_descriptor_is_close_on_exec),
    with_pair(sender_keeps_its_descriptors),
    with_pair(as_many_descriptors_as_the_kernel_passes_arrive),
    with_pair(receiving_never_waits),
    with_pair(sending_never_waits),
    with_pair(packet_that_fits_exactly_is_whole),
    with_pair(packet_beyond_the_socket_buffer_is_too_large),
    with_pair(what_was_sent_before_the_end_is_read_first),
    with_pair(peer_that_left_without_reading_is_the_end),
    with_pair(sending_to_nobody_is_the_end_without_a_signal),
    with_pair(hostile_packet_leaves_no_descriptor_and_spares_the_next),
    with_pair(descriptors_in_several_control_messages_all_arrive),
    with_pair(full_table_loses_the_packet_but_no_descriptor),
    with_pair(table_with_just_enough_room_loses_nothing),
    with_pair(credentials_do_not_push_descriptors_out),
    with_pair(pidfd_that_nobody_asked_for_is_closed),
    with_pair(interrupted_calls_are_made_again),
    with_pair(each_refusal_of_the_kernel_has_its_condition),
};

TEST_MAIN(tests)
