#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "io/listener.h"
#include "support/fds.h"

#define N_CLIENTS 40

struct fixture {
  size_t fds_before;
  struct rlimit limit;
  char directory[64];
  char path[96];
  struct listener *listener;
  int other; /* a socket that is not the listener's */
  int clients[N_CLIENTS];
  int accepted[N_CLIENTS];
  size_t n_accepted;
  struct complaint complaint;
};

static int setup(void **state)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));

  if (!fixture)
    return -1;
  fixture->fds_before = test_count_fds();
  fixture->other = -1;
  memset(fixture->clients, -1, sizeof(fixture->clients));
  (void)strcpy(fixture->directory, "/tmp/test-listener-XXXXXX");
  if (!mkdtemp(fixture->directory) || getrlimit(RLIMIT_NOFILE, &fixture->limit) < 0)
    return -1;
  (void)snprintf(fixture->path, sizeof(fixture->path), "%s/in/socket", fixture->directory);
  *state = fixture;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;
  char command[128];
  int r;

  (void)setrlimit(RLIMIT_NOFILE, &fixture->limit);
  fixture->listener = listener_free(fixture->listener);
  (void)dlp_close(fixture->other);
  for (size_t i = 0; i < N_CLIENTS; i++)
    (void)dlp_close(fixture->clients[i]);
  for (size_t i = 0; i < fixture->n_accepted; i++)
    (void)dlp_close(fixture->accepted[i]);
  (void)snprintf(command, sizeof(command), "rm -r %s", fixture->directory);
  r = system(command) == 0 && test_count_fds() == fixture->fds_before ? 0 : -1;
  free(fixture);
  return r;
}

static int open_at(struct fixture *fixture, unsigned mode)
{
  return listener_open(&fixture->listener, fixture->path, mode, &fixture->complaint);
}

static void make_directory(struct fixture *fixture)
{
  char path[80];

  (void)snprintf(path, sizeof(path), "%s/in", fixture->directory);
  assert_int_equal(mkdir(path, 0700), 0);
}

static struct sockaddr_un address_of(const char *path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};

  (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
  return address;
}

/* A socket that somebody else bound at the path. */
static void bind_other(struct fixture *fixture, int type, bool listens)
{
  struct sockaddr_un address = address_of(fixture->path);

  make_directory(fixture);
  fixture->other = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fixture->other, (struct sockaddr *)&address, sizeof(address)), 0);
  if (listens)
    assert_int_equal(listen(fixture->other, 1), 0);
}

static int connect_client(struct fixture *fixture)
{
  struct sockaddr_un address = address_of(fixture->path);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
  return fd;
}

static void on_accepted(void *context, int fd)
{
  struct fixture *fixture = context;

  fixture->accepted[fixture->n_accepted++] = fd;
}

static unsigned mode_of(const char *path)
{
  struct stat st;

  assert_int_equal(lstat(path, &st), 0);
  return st.st_mode & 0777;
}

static void clients_get_through(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(open_at(fixture, 0600), 0);
  fixture->clients[0] = connect_client(fixture);
  assert_int_equal(listener_accept(fixture->listener, on_accepted, fixture), 0);
  assert_int_equal(fixture->n_accepted, 1);
  assert_true(fcntl(fixture->accepted[0], F_GETFD) & FD_CLOEXEC);
  assert_true(fcntl(fixture->accepted[0], F_GETFL) & O_NONBLOCK);
}

static void the_socket_and_its_directory_have_the_modes_that_fit(void **state)
{
  struct fixture *fixture = *state;
  char directory[80];

  (void)snprintf(directory, sizeof(directory), "%s/in", fixture->directory);
  assert_int_equal(open_at(fixture, 0660), 0);
  assert_int_equal(mode_of(fixture->path), 0660);
  assert_int_equal(mode_of(directory), 0755);
  fixture->listener = listener_free(fixture->listener);
  assert_int_equal(rmdir(directory), 0);
  assert_int_equal(open_at(fixture, 0600), 0);
  assert_int_equal(mode_of(fixture->path), 0600);
  assert_int_equal(mode_of(directory), 0700);
}

static void nothing_is_left_at_the_end(void **state)
{
  struct fixture *fixture = *state;
  char directory[80];

  (void)snprintf(directory, sizeof(directory), "%s/in", fixture->directory);
  assert_int_equal(open_at(fixture, 0600), 0);
  fixture->listener = listener_free(fixture->listener);
  assert_int_equal(rmdir(directory), 0);
}

static void a_second_daemon_refuses(void **state)
{
  struct fixture *fixture = *state;
  struct listener *second = NULL;

  assert_int_equal(open_at(fixture, 0600), 0);
  assert_int_equal(listener_open(&second, fixture->path, 0600, &fixture->complaint), -EADDRINUSE);
  assert_null(second);
  assert_non_null(strstr(fixture->complaint.text, "another dlpackd"));
  fixture->clients[0] = connect_client(fixture);
}

static void a_served_socket_without_a_lock_is_left_alone(void **state)
{
  struct fixture *fixture = *state;

  bind_other(fixture, SOCK_SEQPACKET, true);
  assert_int_equal(open_at(fixture, 0600), -EADDRINUSE);
  fixture->clients[0] = connect_client(fixture);
}

static void a_stale_socket_is_replaced(void **state)
{
  struct fixture *fixture = *state;

  bind_other(fixture, SOCK_SEQPACKET, true);
  fixture->other = dlp_close(fixture->other);
  assert_int_equal(open_at(fixture, 0600), 0);
  fixture->clients[0] = connect_client(fixture);
}

static void a_socket_of_another_kind_is_left_alone(void **state)
{
  struct fixture *fixture = *state;

  bind_other(fixture, SOCK_STREAM, true);
  assert_int_equal(open_at(fixture, 0600), -EADDRINUSE);
  assert_non_null(strstr(fixture->complaint.text, "another program's"));
}

static void a_file_at_the_path_is_left_alone(void **state)
{
  struct fixture *fixture = *state;

  make_directory(fixture);
  fixture->other = open(fixture->path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  assert_int_equal(open_at(fixture, 0600), -EEXIST);
  assert_non_null(strstr(fixture->complaint.text, "not a socket"));
  assert_int_equal(access(fixture->path, F_OK), 0);
}

static void a_lock_file_that_is_a_link_is_not_followed(void **state)
{
  struct fixture *fixture = *state;
  char lock[128], target[96];

  make_directory(fixture);
  (void)snprintf(lock, sizeof(lock), "%s.lock", fixture->path);
  (void)snprintf(target, sizeof(target), "%s/target", fixture->directory);
  assert_int_equal(symlink(target, lock), 0);
  assert_int_equal(open_at(fixture, 0600), -ELOOP);
  assert_int_equal(access(target, F_OK), -1);
}

static void a_path_that_does_not_fit_is_refused_with_the_limit(void **state)
{
  struct fixture *fixture = *state;
  char path[109];

  memset(path, 'a', sizeof(path));
  path[0] = '/';
  path[108] = '\0';
  assert_int_equal(listener_open(&fixture->listener, path, 0600, &fixture->complaint),
                   -ENAMETOOLONG);
  assert_non_null(strstr(fixture->complaint.text, "108 bytes"));
  assert_non_null(strstr(fixture->complaint.text, "allows 107"));
}

static void a_directory_that_cannot_be_made_is_named(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(
      listener_open(&fixture->listener, "/proc/nowhere/socket", 0600, &fixture->complaint),
      -ENOENT);
  assert_non_null(strstr(fixture->complaint.text, "/proc/nowhere"));
}

static void anothers_socket_at_our_path_stays_at_the_end(void **state)
{
  struct fixture *fixture = *state;
  struct sockaddr_un address = address_of(fixture->path);

  assert_int_equal(open_at(fixture, 0600), 0);
  assert_int_equal(unlink(fixture->path), 0);
  fixture->other = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fixture->other, (struct sockaddr *)&address, sizeof(address)), 0);
  fixture->listener = listener_free(fixture->listener);
  assert_int_equal(access(fixture->path, F_OK), 0);
}

static void a_wake_up_takes_a_bounded_number(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(open_at(fixture, 0600), 0);
  for (size_t i = 0; i < LISTENER_ACCEPT_MAX + 4; i++)
    fixture->clients[i] = connect_client(fixture);
  assert_int_equal(listener_accept(fixture->listener, on_accepted, fixture), 0);
  assert_int_equal(fixture->n_accepted, LISTENER_ACCEPT_MAX);
  assert_int_equal(listener_accept(fixture->listener, on_accepted, fixture), 0);
  assert_int_equal(fixture->n_accepted, LISTENER_ACCEPT_MAX + 4);
}

static void without_a_free_descriptor_it_hangs_up_and_asks_for_a_pause(void **state)
{
  struct fixture *fixture = *state;
  struct rlimit none = fixture->limit;
  char byte;

  assert_int_equal(open_at(fixture, 0600), 0);
  fixture->clients[0] = connect_client(fixture);
  none.rlim_cur = (rlim_t)fixture->clients[0] + 1;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  assert_int_equal(listener_accept(fixture->listener, on_accepted, fixture), LISTENER_E_EXHAUSTED);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &fixture->limit), 0);
  assert_int_equal(fixture->n_accepted, 0);
  assert_int_equal(recv(fixture->clients[0], &byte, 1, 0), 0);
  fixture->clients[1] = connect_client(fixture);
  assert_int_equal(listener_accept(fixture->listener, on_accepted, fixture), 0);
  assert_int_equal(fixture->n_accepted, 1);
}

static void a_socket_handed_in_is_served_and_left(void **state)
{
  struct fixture *fixture = *state;

  bind_other(fixture, SOCK_SEQPACKET, true);
  assert_int_equal(listener_adopt_consume(&fixture->listener, fixture->other, &fixture->complaint),
                   0);
  fixture->other = -1;
  assert_string_equal(listener_path(fixture->listener), fixture->path);
  fixture->clients[0] = connect_client(fixture);
  assert_int_equal(listener_accept(fixture->listener, on_accepted, fixture), 0);
  assert_int_equal(fixture->n_accepted, 1);
  fixture->listener = listener_free(fixture->listener);
  assert_int_equal(access(fixture->path, F_OK), 0);
}

static void a_stream_socket_handed_in_is_refused(void **state)
{
  struct fixture *fixture = *state;

  bind_other(fixture, SOCK_STREAM, true);
  assert_int_equal(listener_adopt_consume(&fixture->listener, fixture->other, &fixture->complaint),
                   -EPROTOTYPE);
  assert_non_null(strstr(fixture->complaint.text, "ListenSequentialPacket="));
}

static void a_socket_handed_in_that_does_not_listen_is_refused(void **state)
{
  struct fixture *fixture = *state;

  bind_other(fixture, SOCK_SEQPACKET, false);
  assert_int_equal(listener_adopt_consume(&fixture->listener, fixture->other, &fixture->complaint),
                   -EINVAL);
}

static void a_private_directory_is_made_or_found_private(void **state)
{
  struct fixture *fixture = *state;
  char path[96];

  (void)snprintf(path, sizeof(path), "%s/private", fixture->directory);
  assert_int_equal(listener_private_directory(path, &fixture->complaint), 0);
  assert_int_equal(mode_of(path), 0700);
  assert_int_equal(listener_private_directory(path, &fixture->complaint), 0);
}

static void a_private_directory_that_others_may_enter_is_refused(void **state)
{
  struct fixture *fixture = *state;
  char path[96];

  (void)snprintf(path, sizeof(path), "%s/open", fixture->directory);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_int_equal(chmod(path, 0770), 0);
  assert_int_equal(listener_private_directory(path, &fixture->complaint), -EPERM);
}

static void a_private_directory_that_is_a_link_is_refused(void **state)
{
  struct fixture *fixture = *state;
  char path[96];

  (void)snprintf(path, sizeof(path), "%s/link", fixture->directory);
  assert_int_equal(symlink(fixture->directory, path), 0);
  assert_int_equal(listener_private_directory(path, &fixture->complaint), -ENOTDIR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(clients_get_through),
    TEST(the_socket_and_its_directory_have_the_modes_that_fit),
    TEST(nothing_is_left_at_the_end),
    TEST(a_second_daemon_refuses),
    TEST(a_served_socket_without_a_lock_is_left_alone),
    TEST(a_stale_socket_is_replaced),
    TEST(a_socket_of_another_kind_is_left_alone),
    TEST(a_file_at_the_path_is_left_alone),
    TEST(a_lock_file_that_is_a_link_is_not_followed),
    TEST(a_path_that_does_not_fit_is_refused_with_the_limit),
    TEST(a_directory_that_cannot_be_made_is_named),
    TEST(anothers_socket_at_our_path_stays_at_the_end),
    TEST(a_wake_up_takes_a_bounded_number),
    TEST(without_a_free_descriptor_it_hangs_up_and_asks_for_a_pause),
    TEST(a_socket_handed_in_is_served_and_left),
    TEST(a_stream_socket_handed_in_is_refused),
    TEST(a_socket_handed_in_that_does_not_listen_is_refused),
    TEST(a_private_directory_is_made_or_found_private),
    TEST(a_private_directory_that_others_may_enter_is_refused),
    TEST(a_private_directory_that_is_a_link_is_refused),
};

TEST_MAIN(tests)
