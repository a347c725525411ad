#include "support/test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "config.h"
#include "io/memory_info.h"
#include "proto/message.h"

struct fixture {
  struct config config;
  struct complaint complaint;
  char file[64];
  struct rlimit limit;
  int child_status;
};

static int setup(void **state)
{
  struct fixture *fixture = calloc(1, sizeof(*fixture));
  int fd;

  if (!fixture)
    return -1;
  (void)unsetenv("DLPACKD_SOCKET");
  (void)unsetenv("RUNTIME_DIRECTORY");
  (void)strcpy(fixture->file, "/tmp/test-config-XXXXXX");
  fd = getrlimit(RLIMIT_NOFILE, &fixture->limit) < 0 ? -1 : mkstemp(fixture->file);
  (void)dlp_close(fd);
  *state = fixture;
  return fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;

  (void)unsetenv("DLPACKD_SOCKET");
  (void)unsetenv("RUNTIME_DIRECTORY");
  config_deinit(&fixture->config);
  (void)unlink(fixture->file);
  free(fixture);
  return 0;
}

/* Up to three arguments; NULL ends them. */
static int parse(struct fixture *fixture, const char *first, const char *second, const char *third)
{
  const char *arguments[] = {"dlpackd", first, second, third, NULL};
  int n = 1;

  while (arguments[n])
    n++;
  config_deinit(&fixture->config);
  fixture->complaint.text[0] = '\0';
  return config_init(&fixture->config, n, (char **)arguments, &fixture->complaint);
}

static int parse_file(struct fixture *fixture, const char *text, const char *flag)
{
  FILE *file = fopen(fixture->file, "we");

  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
  return parse(fixture, "--config", fixture->file, flag);
}

static void assert_complaint(struct fixture *fixture, const char *part)
{
  if (!strstr(fixture->complaint.text, part))
    fail_msg("\"%s\" does not contain \"%s\"", fixture->complaint.text, part);
}

static void nothing_said_means_the_defaults(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse(fixture, NULL, NULL, NULL), 0);
  assert_int_equal(fixture->config.action, CONFIG_RUN);
  assert_int_equal(fixture->config.storage, MSG_BACKEND_MEMFD);
  assert_int_equal(fixture->config.default_mode, 0600);
  assert_true(fixture->config.max_bytes < memory_info_total() / 100 * 81);
  assert_true(fixture->config.max_bytes > memory_info_total() / 100 * 79);
  assert_int_equal(fixture->config.idle_exit_s, 0);
  assert_int_equal(fixture->config.n_admins, 0);
  assert_int_equal(fixture->config.log_level, LOG_LEVEL_INFO);
}

static void every_user_limit_has_a_default(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse(fixture, NULL, NULL, NULL), 0);
  for (size_t i = 0; i < QUOTA_N_SLOTS; i++)
    assert_true(fixture->config.user_limits.of[i] > 0);
}

static void segments_of_one_user_fit_the_descriptors(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse(fixture, NULL, NULL, NULL), 0);
  assert_true(fixture->config.user_limits.of[QUOTA_SEGMENTS] <= config_descriptor_limit() / 2);
}

static void sizes_have_units(void **state)
{
  static const struct {
    const char *flag;
    uint64_t value;
  } cases[] = {
      {"--max-bytes=4096", 4096},
      {"--max-bytes=3K", 3 << 10},
      {"--max-bytes=3m", 3 << 20},
      {"--max-bytes=2G", UINT64_C(2) << 30},
      {"--max-bytes=1T", UINT64_C(1) << 40},
  };
  struct fixture *fixture = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    assert_int_equal(parse(fixture, cases[i].flag, NULL, NULL), 0);
    assert_int_equal(fixture->config.max_bytes, cases[i].value);
  }
}

static void a_percentage_is_of_the_hosts_memory(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse(fixture, "--max-bytes", "50%", NULL), 0);
  assert_int_equal(fixture->config.max_bytes, memory_info_total() / 2);
}

static void a_percentage_of_little_is_not_nothing(void **state)
{
  struct fixture *fixture = *state;
  struct rlimit little = fixture->limit;

  little.rlim_max = little.rlim_cur = 64;
  /* In a child: a hard limit cannot be raised again by everybody. */
  if (fork() == 0) {
    bool ok = setrlimit(RLIMIT_NOFILE, &little) == 0 && parse(fixture, NULL, NULL, NULL) == 0 &&
              fixture->config.user_limits.of[QUOTA_SEGMENTS] == 32;
    _exit(ok ? 0 : 1);
  }
  assert_true(wait(&fixture->child_status) > 0);
  assert_int_equal(fixture->child_status, 0);
}

static void values_that_make_no_sense_are_refused_with_what_is_allowed(void **state)
{
  static const struct {
    const char *flag;
    const char *part;
  } cases[] = {
      {"--max-bytes=", "must be a number"},
      {"--max-bytes=-1", "must be a number"},
      {"--max-bytes=1KB", "must be a number"},
      {"--max-bytes=1X", "must be a number"},
      {"--max-bytes=0", "must be a number"},
      {"--max-bytes=101%", "must be a number"},
      {"--max-bytes=99999999999999999999", "must be a number"},
      {"--max-bytes=99999999999T", "must be a number"},
      {"--user-tensors=5%", "must be a number"},
      {"--storage=disk", "memfd or posix-shm"},
      {"--default-mode=0", "octal"},
      {"--default-mode=0888", "octal"},
      {"--default-mode=17777", "octal"},
      {"--socket-mode=01777", "octal"},
      {"--socket-mode=rw", "octal"},
      {"--socket=", "a path"},
      {"--idle-exit=1K", "seconds"},
      {"--idle-exit=99999999", "seconds"},
      {"--log-level=loud", "error, warning, info or debug"},
      {"--log-format=xml", "auto, text or journal"},
      {"--admin=no-such-user-here", "uid or the name"},
      {"--admin=4294967295", "uid or the name"},
      {"--output-limit=1", "128K"},
  };
  struct fixture *fixture = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    assert_true(parse(fixture, cases[i].flag, NULL, NULL) < 0);
    assert_complaint(fixture, cases[i].part);
  }
}

static void unknown_flags_are_named(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse(fixture, "--no-such-thing", NULL, NULL), -EINVAL);
  assert_complaint(fixture, "--no-such-thing");
  assert_int_equal(parse(fixture, "stray", NULL, NULL), -EINVAL);
  assert_complaint(fixture, "stray");
  assert_int_equal(parse(fixture, "--storage", NULL, NULL), -EINVAL);
  assert_complaint(fixture, "--storage needs a value");
}

static void admins_are_named_by_uid_or_name_and_add_up(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse(fixture, "--admin=root", "--admin=1000", NULL), 0);
  assert_int_equal(fixture->config.n_admins, 2);
  assert_int_equal(fixture->config.admins[0], 0);
  assert_int_equal(fixture->config.admins[1], 1000);
}

static void a_file_sets_options(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse_file(fixture,
                              "# a comment\n\n  storage = posix-shm # here\nmax-bytes=1G\n"
                              "socket = /some/where\n",
                              NULL),
                   0);
  assert_int_equal(fixture->config.storage, MSG_BACKEND_POSIX_SHM);
  assert_int_equal(fixture->config.max_bytes, 1 << 30);
  assert_string_equal(fixture->config.socket, "/some/where");
}

static void a_flag_goes_before_the_file_wherever_it_stands(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse_file(fixture, "max-bytes = 1G\n", "--max-bytes=2G"), 0);
  assert_int_equal(fixture->config.max_bytes, UINT64_C(2) << 30);
}

static void a_mistake_in_a_file_is_told_with_its_line(void **state)
{
  static const struct {
    const char *text;
    const char *part;
  } cases[] = {
      {"\nstorage = disk\n", ":2: storage is \"disk\"; it must be memfd or posix-shm"},
      {"# x\n\ncolour = blue\n", ":3: there is no option \"colour\""},
      {"storage\n", ":1: \"storage\" is not of the form"},
      {"= 5\n", ":1: there is no option \"\""},
      {"config = /other\n", "there is no option \"config\""},
  };
  struct fixture *fixture = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(cases); i++) {
    assert_true(parse_file(fixture, cases[i].text, NULL) < 0);
    assert_complaint(fixture, cases[i].part);
    assert_complaint(fixture, fixture->file);
  }
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse(fixture, "--config=/nowhere/at/all", NULL, NULL), -ENOENT);
  assert_complaint(fixture, "/nowhere/at/all");
  assert_true(parse(fixture, "--config=/", NULL, NULL) < 0);
}

static void the_environment_names_the_socket_unless_a_flag_does(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(setenv("DLPACKD_SOCKET", "/from/environment", 1), 0);
  assert_int_equal(parse(fixture, NULL, NULL, NULL), 0);
  assert_string_equal(fixture->config.socket, "/from/environment");
  assert_int_equal(parse(fixture, "--socket=/from/flag", NULL, NULL), 0);
  assert_string_equal(fixture->config.socket, "/from/flag");
}

static void under_systemd_the_socket_is_in_its_directory(void **state)
{
  struct fixture *fixture = *state;
  dlp_auto_free char *path = NULL;

  assert_int_equal(setenv("RUNTIME_DIRECTORY", "/run/dlpackd", 1), 0);
  assert_int_equal(parse(fixture, NULL, NULL, NULL), 0);
  assert_int_equal(config_socket_path(&fixture->config, &path, &fixture->complaint), 0);
  assert_string_equal(path, "/run/dlpackd/socket");
}

static void the_systems_socket_lets_its_group_in_and_others_do_not(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse(fixture, NULL, NULL, NULL), 0);
  assert_int_equal(config_socket_mode(&fixture->config, "/run/dlpackd/socket"), 0660);
  assert_int_equal(config_socket_mode(&fixture->config, "/tmp/x/socket"), 0600);
  assert_int_equal(parse(fixture, "--socket-mode=0666", NULL, NULL), 0);
  assert_int_equal(config_socket_mode(&fixture->config, "/tmp/x/socket"), 0666);
}

static void commands_are_recognised(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse(fixture, "--help", NULL, NULL), 0);
  assert_int_equal(fixture->config.action, CONFIG_HELP);
  assert_int_equal(parse(fixture, "-h", NULL, NULL), 0);
  assert_int_equal(fixture->config.action, CONFIG_HELP);
  assert_int_equal(parse(fixture, "--version", NULL, NULL), 0);
  assert_int_equal(fixture->config.action, CONFIG_VERSION);
  assert_int_equal(parse(fixture, "--check-config", NULL, NULL), 0);
  assert_int_equal(fixture->config.action, CONFIG_CHECK);
  assert_true(parse(fixture, "--check-config", "--storage=disk", NULL) < 0);
}

struct help {
  char *text;
};

static void assert_in_help(void *context, const char *name, const char *default_text)
{
  const struct help *help = context;
  char flag[64], shown[64];
  const char *at;

  (void)snprintf(flag, sizeof(flag), "  --%s=", name);
  at = strstr(help->text, flag);
  if (!at)
    fail_msg("--help does not have %s", flag);
  if (!default_text)
    return;
  (void)snprintf(shown, sizeof(shown), " [%s]\n", default_text);
  at = strchr(at, '\n') - strlen(shown) + 1;
  assert_memory_equal(at, shown, strlen(shown));
}

static void help_has_every_option_with_its_default(void **state)
{
  struct help help;
  size_t size;
  FILE *file = open_memstream(&help.text, &size);

  config_print_help(file);
  assert_int_equal(fclose(file), 0);
  config_each_option(assert_in_help, &help);
  free(help.text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(nothing_said_means_the_defaults),
    TEST(every_user_limit_has_a_default),
    TEST(segments_of_one_user_fit_the_descriptors),
    TEST(sizes_have_units),
    TEST(a_percentage_is_of_the_hosts_memory),
    TEST(a_percentage_of_little_is_not_nothing),
    TEST(values_that_make_no_sense_are_refused_with_what_is_allowed),
    TEST(unknown_flags_are_named),
    TEST(admins_are_named_by_uid_or_name_and_add_up),
    TEST(a_file_sets_options),
    TEST(a_flag_goes_before_the_file_wherever_it_stands),
    TEST(a_mistake_in_a_file_is_told_with_its_line),
    TEST(a_file_that_cannot_be_read_is_named),
    TEST(the_environment_names_the_socket_unless_a_flag_does),
    TEST(under_systemd_the_socket_is_in_its_directory),
    TEST(the_systems_socket_lets_its_group_in_and_others_do_not),
    TEST(commands_are_recognised),
    TEST(help_has_every_option_with_its_default),
};

TEST_MAIN(tests)
