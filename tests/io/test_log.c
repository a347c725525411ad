#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "io/log.h"

struct fixture {
  int kept_stderr;
  int pipe[2];
  char heard[2048];
};

static int setup(void **state)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));

  if (!fixture || pipe2(fixture->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
    return -1;
  fixture->kept_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
  *state = fixture;
  return dup2(fixture->pipe[1], STDERR_FILENO) < 0 ? -1 : 0;
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;

  (void)dup2(fixture->kept_stderr, STDERR_FILENO);
  (void)dlp_close(fixture->kept_stderr);
  (void)dlp_close(fixture->pipe[0]);
  (void)dlp_close(fixture->pipe[1]);
  (void)unsetenv("JOURNAL_STREAM");
  log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
  free(fixture);
  return 0;
}

static const char *hear(struct fixture *fixture)
{
  ssize_t n = read(fixture->pipe[0], fixture->heard, sizeof(fixture->heard) - 1);

  fixture->heard[n > 0 ? n : 0] = '\0';
  return fixture->heard;
}

static void say(enum log_level level, const char *value)
{
  struct log_line line;

  log_begin(&line, level, "it happened");
  log_unsigned(&line, "uid", 1000);
  log_text(&line, "name", value);
  log_end(&line);
}

static void a_line_has_its_level_and_its_fields(void **state)
{
  log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
  say(LOG_LEVEL_WARNING, "a b");
  assert_string_equal(hear(*state), "dlpackd: warning: it happened uid=1000 name=\"a b\"\n");
}

static void what_a_peer_chose_cannot_make_lines_or_colours(void **state)
{
  log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
  say(LOG_LEVEL_INFO, "x\"\n\x1b[31m\\\xc3\xa4");
  assert_string_equal(hear(*state), "dlpackd: info: it happened uid=1000 "
                                    "name=\"x\\x22\\x0a\\x1b[31m\\x5c\\xc3\\xa4\"\n");
}

static void what_is_below_the_level_is_not_said(void **state)
{
  log_setup(LOG_LEVEL_WARNING, LOG_FORMAT_TEXT);
  say(LOG_LEVEL_INFO, "quiet");
  assert_string_equal(hear(*state), "");
}

static void the_journal_is_told_the_level_its_own_way(void **state)
{
  log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JOURNAL);
  say(LOG_LEVEL_ERROR, "");
  assert_string_equal(hear(*state), "<3>it happened uid=1000 name=\"\"\n");
}

static void the_journal_is_recognised_by_its_stream(void **state)
{
  struct fixture *fixture = *state;
  char stream[64];
  struct stat st;

  assert_int_equal(fstat(STDERR_FILENO, &st), 0);
  (void)snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
  assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
  log_setup(LOG_LEVEL_INFO, LOG_FORMAT_AUTO);
  log_event(LOG_LEVEL_INFO, "hello");
  assert_string_equal(hear(fixture), "<6>hello\n");
  (void)snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino + 1);
  assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
  log_setup(LOG_LEVEL_INFO, LOG_FORMAT_AUTO);
  log_event(LOG_LEVEL_INFO, "hello");
  assert_string_equal(hear(fixture), "dlpackd: info: hello\n");
}

static void a_line_that_is_too_long_is_cut_and_stays_a_line(void **state)
{
  static char value[5000];
  const char *heard;

  memset(value, '\n', sizeof(value) - 1);
  log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
  say(LOG_LEVEL_INFO, value);
  heard = hear(*state);
  assert_true(strlen(heard) <= 1024);
  assert_ptr_equal(strchr(heard, '\n'), heard + strlen(heard) - 1);
}

static void a_client_is_heard_once_per_reason_and_minute(void **state)
{
  static struct log_gate gate;
  const uint64_t minute_us = 60 * 1000 * 1000;
  uint64_t suppressed;

  assert_true(log_gate_open(&gate, 1, 1, 5, &suppressed));
  assert_false(log_gate_open(&gate, 1, 1, 6, &suppressed));
  assert_false(log_gate_open(&gate, 1, 1, 7, &suppressed));
  assert_true(log_gate_open(&gate, 1, 2, 7, &suppressed));
  assert_true(log_gate_open(&gate, 2, 1, 7, &suppressed));
  assert_true(log_gate_open(&gate, 1, 1, 5 + minute_us, &suppressed));
  assert_int_equal(suppressed, 2);
}

static void many_clients_make_only_old_ones_forgotten(void **state)
{
  static struct log_gate gate;
  uint64_t suppressed;

  for (uint32_t uid = 0; uid <= LOG_GATE_SIZE; uid++)
    assert_true(log_gate_open(&gate, uid, 1, 100 + uid, &suppressed));
  assert_false(log_gate_open(&gate, LOG_GATE_SIZE, 1, 200, &suppressed));
  assert_true(log_gate_open(&gate, 0, 1, 200, &suppressed));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(a_line_has_its_level_and_its_fields),
    TEST(what_a_peer_chose_cannot_make_lines_or_colours),
    TEST(what_is_below_the_level_is_not_said),
    TEST(the_journal_is_told_the_level_its_own_way),
    TEST(the_journal_is_recognised_by_its_stream),
    TEST(a_line_that_is_too_long_is_cut_and_stays_a_line),
    TEST(a_client_is_heard_once_per_reason_and_minute),
    TEST(many_clients_make_only_old_ones_forgotten),
};

TEST_MAIN(tests)
