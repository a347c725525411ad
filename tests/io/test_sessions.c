#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "io/loop.h"
#include "io/sessions.h"
#include "support/fds.h"

#define SESSION 5
/* Longer than the first probe takes to be due; as long as a death may take to show. */
#define A_WHILE_MS 200
#define TOO_LONG_MS 10000

/* The client is a child, which does as it is told over a socket pair. */
struct fixture {
  struct lease_pages pages;
  size_t fds_before;
  struct loop *loop;
  struct loop_timer *guard;
  struct sessions *sessions;
  bool is_connected;
  size_t n_died;
  pid_t client;
  int to_client;
  int pidfd;
};

static void on_guard(void *context)
{
  struct fixture *fixture = context;

  loop_stop(fixture->loop);
}

static void on_died(void *context, uint64_t session)
{
  struct fixture *fixture = context;

  assert_int_equal(session, SESSION);
  fixture->n_died++;
  sessions_close(fixture->sessions, session);
  loop_stop(fixture->loop);
}

static bool is_connected(void *context, uint64_t session)
{
  struct fixture *fixture = context;

  return fixture->is_connected;
}

/* Each byte is an order, which is answered by the same. */
static void obey(int orders, int holds)
{
  void *page = mmap(NULL, DLP_LEASE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, holds, 0);
  char order;

  if (page == MAP_FAILED)
    _exit(1);
  (void)close(holds);
  (void)write(orders, "m", 1);
  while (read(orders, &order, 1) == 1) {
    if (order == 'u')
      (void)munmap(page, DLP_LEASE_PAGE_SIZE);
    if (order == 'x')
      (void)execl("/bin/cat", "cat", (char *)NULL);
    (void)write(orders, &order, 1);
  }
  _exit(0);
}

static int setup(void **state)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));
  struct sessions_host host = {.context = fixture, .died = on_died, .connected = is_connected};

  if (!fixture)
    return -1;
  /* The first loop of a process opens what stays open. */
  if (loop_new(&fixture->loop) < 0)
    return -1;
  fixture->loop = loop_free(fixture->loop);
  fixture->fds_before = test_count_fds();
  fixture->to_client = fixture->pidfd = -1;
  *state = fixture;
  if (loop_new(&fixture->loop) < 0 ||
      loop_timer_new(&fixture->guard, fixture->loop, on_guard, fixture) < 0)
    return -1;
  return sessions_new(&fixture->sessions, fixture->loop, &host);
}

static void end_client(struct fixture *fixture)
{
  if (fixture->client > 0) {
    (void)kill(fixture->client, SIGKILL);
    (void)waitpid(fixture->client, NULL, 0);
  }
  fixture->client = 0;
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;
  int r;

  end_client(fixture);
  fixture->sessions = sessions_free(fixture->sessions);
  fixture->guard = loop_timer_free(fixture->guard);
  fixture->loop = loop_free(fixture->loop);
  (void)dlp_close(fixture->to_client);
  (void)dlp_close(fixture->pidfd);
  r = test_count_fds() == fixture->fds_before ? 0 : -1;
  free(fixture);
  return r;
}

static void run_for(struct fixture *fixture, uint64_t ms)
{
  loop_timer_set(fixture->guard, ms);
  loop_run(fixture->loop);
  loop_timer_unset(fixture->guard);
}

/* A client that has mapped its page. */
static void start_client(struct fixture *fixture, bool with_pidfd)
{
  dlp_auto_close int holds = -1;
  int pair[2];
  char byte;

  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  fixture->to_client = pair[0];
  assert_int_equal(fcntl(pair[0], F_SETFD, FD_CLOEXEC), 0);
  /* The session's page is made first, so that the child can be born with it; a pidfd
   * needs the child first. */
  if (!with_pidfd)
    assert_int_equal(sessions_open(fixture->sessions, SESSION, -1, &fixture->pages), 0);
  holds = with_pidfd ? memfd_create("holds", 0) : sessions_open_holds(fixture->sessions, SESSION);
  assert_true(holds >= 0);
  fixture->client = fork();
  if (fixture->client == 0) {
    (void)close(pair[0]);
    obey(pair[1], holds);
  }
  assert_true(fixture->client > 0);
  (void)close(pair[1]);
  assert_int_equal(read(fixture->to_client, &byte, 1), 1);
  if (!with_pidfd)
    return;
  fixture->pidfd = (int)syscall(SYS_pidfd_open, fixture->client, 0);
  assert_int_equal(sessions_open(fixture->sessions, SESSION, fixture->pidfd, &fixture->pages), 0);
}

static void order_client(struct fixture *fixture, char order)
{
  char answer = 0;

  assert_int_equal(write(fixture->to_client, &order, 1), 1);
  if (order != 'x')
    assert_int_equal(read(fixture->to_client, &answer, 1), 1);
}

static void death_shows_at_once_by_pidfd(void **state)
{
  struct fixture *fixture = *state;

  start_client(fixture, true);
  fixture->is_connected = true;
  run_for(fixture, A_WHILE_MS);
  assert_int_equal(fixture->n_died, 0);
  end_client(fixture);
  run_for(fixture, TOO_LONG_MS);
  assert_int_equal(fixture->n_died, 1);
}

static void a_hang_up_is_not_death(void **state)
{
  struct fixture *fixture = *state;

  start_client(fixture, false);
  sessions_hung_up(fixture->sessions, SESSION);
  run_for(fixture, A_WHILE_MS);
  assert_int_equal(fixture->n_died, 0);
}

static void death_after_a_hang_up_shows_without_a_pidfd(void **state)
{
  struct fixture *fixture = *state;

  start_client(fixture, false);
  end_client(fixture);
  sessions_hung_up(fixture->sessions, SESSION);
  run_for(fixture, TOO_LONG_MS);
  assert_int_equal(fixture->n_died, 1);
}

static void death_long_after_a_hang_up_shows_without_a_pidfd(void **state)
{
  struct fixture *fixture = *state;

  start_client(fixture, false);
  sessions_hung_up(fixture->sessions, SESSION);
  run_for(fixture, A_WHILE_MS);
  end_client(fixture);
  run_for(fixture, TOO_LONG_MS);
  assert_int_equal(fixture->n_died, 1);
}

static void a_client_that_became_another_program_is_dead(void **state)
{
  struct fixture *fixture = *state;

  start_client(fixture, false);
  order_client(fixture, 'x');
  sessions_hung_up(fixture->sessions, SESSION);
  run_for(fixture, TOO_LONG_MS);
  assert_int_equal(fixture->n_died, 1);
}

static void a_client_that_let_go_of_its_page_is_dead_after_a_hang_up(void **state)
{
  struct fixture *fixture = *state;

  start_client(fixture, false);
  order_client(fixture, 'u');
  sessions_hung_up(fixture->sessions, SESSION);
  run_for(fixture, TOO_LONG_MS);
  assert_int_equal(fixture->n_died, 1);
}

static void a_client_that_came_back_is_not_probed(void **state)
{
  struct fixture *fixture = *state;

  start_client(fixture, false);
  order_client(fixture, 'u');
  sessions_hung_up(fixture->sessions, SESSION);
  fixture->is_connected = true;
  run_for(fixture, A_WHILE_MS);
  assert_int_equal(fixture->n_died, 0);
  fixture->is_connected = false;
  sessions_hung_up(fixture->sessions, SESSION);
  run_for(fixture, TOO_LONG_MS);
  assert_int_equal(fixture->n_died, 1);
}

static void death_shows_too_if_it_is_not_known_who_hung_up(void **state)
{
  struct fixture *fixture = *state;

  start_client(fixture, false);
  fixture->is_connected = true;
  end_client(fixture);
  sessions_somebody_hung_up(fixture->sessions);
  run_for(fixture, A_WHILE_MS);
  assert_int_equal(fixture->n_died, 0);
  fixture->is_connected = false;
  sessions_somebody_hung_up(fixture->sessions);
  run_for(fixture, TOO_LONG_MS);
  assert_int_equal(fixture->n_died, 1);
}

static void the_page_keeps_its_size_and_nobody_elses_hands_off_it(void **state)
{
  struct fixture *fixture = *state;
  dlp_auto_close int holds = -1;
  struct stat st;

  assert_int_equal(sessions_open(fixture->sessions, SESSION, -1, &fixture->pages), 0);
  holds = sessions_open_holds(fixture->sessions, SESSION);
  assert_int_equal(fstat(holds, &st), 0);
  assert_int_equal(st.st_size, DLP_LEASE_PAGE_SIZE);
  assert_int_equal(st.st_mode & 0777, 0600);
  assert_int_equal(ftruncate(holds, 0), -1);
  assert_int_equal(ftruncate(holds, 2 * DLP_LEASE_PAGE_SIZE), -1);
  assert_int_equal(fcntl(holds, F_GET_SEALS) & (F_SEAL_SEAL | F_SEAL_WRITE), 0);
}

static void a_session_that_is_closed_is_not_heard_of_again(void **state)
{
  struct fixture *fixture = *state;

  start_client(fixture, false);
  end_client(fixture);
  sessions_hung_up(fixture->sessions, SESSION);
  sessions_close(fixture->sessions, SESSION);
  sessions_close(fixture->sessions, SESSION);
  run_for(fixture, A_WHILE_MS);
  assert_int_equal(fixture->n_died, 0);
  assert_int_equal(sessions_open_holds(fixture->sessions, SESSION), -ENOENT);
}

static void it_may_end_while_a_probe_is_under_way(void **state)
{
  struct fixture *fixture = *state;

  start_client(fixture, false);
  sessions_hung_up(fixture->sessions, SESSION);
  run_for(fixture, SESSIONS_PROBE_FIRST_MS);
  /* The teardown frees everything at once. */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(death_shows_at_once_by_pidfd),
    TEST(a_hang_up_is_not_death),
    TEST(death_after_a_hang_up_shows_without_a_pidfd),
    TEST(death_long_after_a_hang_up_shows_without_a_pidfd),
    TEST(a_client_that_became_another_program_is_dead),
    TEST(a_client_that_let_go_of_its_page_is_dead_after_a_hang_up),
    TEST(a_client_that_came_back_is_not_probed),
    TEST(death_shows_too_if_it_is_not_known_who_hung_up),
    TEST(the_page_keeps_its_size_and_nobody_elses_hands_off_it),
    TEST(a_session_that_is_closed_is_not_heard_of_again),
    TEST(it_may_end_while_a_probe_is_under_way),
};

TEST_MAIN(tests)
