#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "io/service.h"

struct fixture {
  char directory[64];
  char path[96];
  int manager; /* systemd's end */
  struct complaint complaint;
};

static void clear_environment(void)
{
  static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                      "LISTEN_FDS", "LISTEN_PID"};

  for (size_t i = 0; i < TEST_ARRAY_SIZE(names); i++)
    (void)unsetenv(names[i]);
}

static int setup(void **state)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));

  if (!fixture)
    return -1;
  clear_environment();
  fixture->manager = -1;
  (void)strcpy(fixture->directory, "/tmp/test-service-XXXXXX");
  if (!mkdtemp(fixture->directory))
    return -1;
  (void)snprintf(fixture->path, sizeof(fixture->path), "%s/notify", fixture->directory);
  *state = fixture;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;
  int r;

  clear_environment();
  (void)dlp_close(fixture->manager);
  (void)unlink(fixture->path);
  r = rmdir(fixture->directory);
  free(fixture);
  return r;
}

static void listen_as_manager(struct fixture *fixture, const char *name)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(name);

  memcpy(address.sun_path, name, length);
  if (name[0] == '@')
    address.sun_path[0] = '\0';
  fixture->manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  assert_int_equal(bind(fixture->manager, (struct sockaddr *)&address,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                   0);
  assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
}

static void assert_manager_hears(struct fixture *fixture, const char *expected)
{
  char text[256];
  ssize_t n = recv(fixture->manager, text, sizeof(text) - 1, 0);

  assert_true(n >= 0);
  text[n] = '\0';
  assert_string_equal(text, expected);
}

static void set_number(const char *name, long value)
{
  char text[32];

  (void)snprintf(text, sizeof(text), "%ld", value);
  assert_int_equal(setenv(name, text, 1), 0);
}

static void without_systemd_nothing_is_told(void **state)
{
  assert_int_equal(service_notify("READY=1"), 0);
  assert_int_equal(service_watchdog_ms(), 0);
}

static void the_manager_hears_what_is_told(void **state)
{
  struct fixture *fixture = *state;

  listen_as_manager(fixture, fixture->path);
  assert_int_equal(service_notify("READY=1\nSTATUS=Serving"), 1);
  assert_manager_hears(fixture, "READY=1\nSTATUS=Serving");
}

static void a_manager_in_the_abstract_name_space_hears_it_too(void **state)
{
  struct fixture *fixture = *state;
  char name[64];

  (void)snprintf(name, sizeof(name), "@test-service-%d", (int)getpid());
  listen_as_manager(fixture, name);
  assert_int_equal(service_notify("WATCHDOG=1"), 1);
  assert_manager_hears(fixture, "WATCHDOG=1");
}

static void a_manager_that_is_gone_is_an_error_and_no_more(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(setenv("NOTIFY_SOCKET", fixture->path, 1), 0);
  assert_int_equal(service_notify("READY=1"), -ENOENT);
}

static void the_watchdog_is_fed_at_half_its_time(void **state)
{
  assert_int_equal(setenv("WATCHDOG_USEC", "30000000", 1), 0);
  assert_int_equal(service_watchdog_ms(), 15000);
}

static void the_watchdog_of_another_process_is_not_ours(void **state)
{
  assert_int_equal(setenv("WATCHDOG_USEC", "30000000", 1), 0);
  set_number("WATCHDOG_PID", (long)getpid() + 1);
  assert_int_equal(service_watchdog_ms(), 0);
  set_number("WATCHDOG_PID", (long)getpid());
  assert_int_equal(service_watchdog_ms(), 15000);
}

static void a_watchdog_time_that_is_no_number_is_none(void **state)
{
  assert_int_equal(setenv("WATCHDOG_USEC", "soon", 1), 0);
  assert_int_equal(service_watchdog_ms(), 0);
  assert_int_equal(setenv("WATCHDOG_USEC", "-1", 1), 0);
  assert_int_equal(service_watchdog_ms(), 0);
}

static void sockets_for_another_process_are_not_taken(void **state)
{
  struct fixture *fixture = *state;
  int fd = 77;

  assert_int_equal(setenv("LISTEN_FDS", "1", 1), 0);
  set_number("LISTEN_PID", (long)getpid() + 1);
  assert_int_equal(service_take_socket(&fd, &fixture->complaint), 0);
  assert_int_equal(fd, -1);
}

static void more_than_one_socket_is_refused(void **state)
{
  struct fixture *fixture = *state;
  int fd;

  assert_int_equal(setenv("LISTEN_FDS", "2", 1), 0);
  set_number("LISTEN_PID", (long)getpid());
  assert_int_equal(service_take_socket(&fd, &fixture->complaint), -EINVAL);
  assert_non_null(strstr(fixture->complaint.text, "exactly one"));
}

static void a_number_of_sockets_that_is_no_number_is_refused(void **state)
{
  struct fixture *fixture = *state;
  int fd;

  assert_int_equal(setenv("LISTEN_FDS", "one", 1), 0);
  set_number("LISTEN_PID", (long)getpid());
  assert_int_equal(service_take_socket(&fd, &fixture->complaint), -EINVAL);
}

static void the_socket_handed_in_does_not_survive_exec(void **state)
{
  struct fixture *fixture = *state;
  int fd;

  /* Descriptor 3 is where systemd puts it; whatever is there is put back. */
  dlp_auto_close int kept = fcntl(3, F_DUPFD_CLOEXEC, 10);
  dlp_auto_close int socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

  assert_int_equal(dup2(socket_fd, 3), 3);
  assert_int_equal(setenv("LISTEN_FDS", "1", 1), 0);
  set_number("LISTEN_PID", (long)getpid());
  assert_int_equal(service_take_socket(&fd, &fixture->complaint), 0);
  assert_int_equal(fd, 3);
  assert_true(fcntl(3, F_GETFD) & FD_CLOEXEC);
  if (kept >= 0)
    (void)dup2(kept, 3);
  else
    (void)close(3);
  if (socket_fd == 3)
    socket_fd = -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(without_systemd_nothing_is_told),
    TEST(the_manager_hears_what_is_told),
    TEST(a_manager_in_the_abstract_name_space_hears_it_too),
    TEST(a_manager_that_is_gone_is_an_error_and_no_more),
    TEST(the_watchdog_is_fed_at_half_its_time),
    TEST(the_watchdog_of_another_process_is_not_ours),
    TEST(a_watchdog_time_that_is_no_number_is_none),
    TEST(sockets_for_another_process_are_not_taken),
    TEST(more_than_one_socket_is_refused),
    TEST(a_number_of_sockets_that_is_no_number_is_refused),
    TEST(the_socket_handed_in_does_not_survive_exec),
};

TEST_MAIN(tests)
