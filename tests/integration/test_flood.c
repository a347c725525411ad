/* Too much of everything: connections, descriptors, unread answers, and ten thousand
 * requests that look as if they had a sense. Others are served throughout. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/packet.h"
#include "support/attack.h"
#include "support/tensors.h"
#include "support/test.h"

/* ---- connections that say nothing ---- */

#define MANY_CONNECTIONS 300

static int connect_and_be_silent(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  int fds[MANY_CONNECTIONS];

  for (int i = 0; i < MANY_CONNECTIONS; i++) {
    fds[i] = test_raw_connect(bench->daemon.socket);
    CHECK(fds[i] >= 0);
  }
  for (int i = 0; i < MANY_CONNECTIONS; i++)
    CHECK(test_raw_is_hung_up(fds[i]));
  return 0;
}

static void connections_without_hello_are_closed_after_a_while(void **state)
{
  struct attack_bench *bench = *state;

  attack_run(bench, connect_and_be_silent, NULL);
  attack_wait_log(bench, "no HELLO in time");
}

/* ---- no descriptor left ---- */

#define FEW_DESCRIPTORS 64
#define FLOOD 200

/* Connects until the daemon can take no more, and says when; leaves when told. */
static int flood(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  int fds[FLOOD];

  for (int i = 0; i < FLOOD; i++)
    fds[i] = test_raw_connect(bench->daemon.socket);
  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  for (int i = 0; i < FLOOD; i++)
    (void)dlp_close(fds[i]);
  return 0;
}

static void serve_for_a_second(struct attack_bench *bench)
{
  const struct timespec pause = {.tv_nsec = 20000000};
  int64_t start = test_now_us();
  uint64_t cpu = test_cpu_us(bench->daemon.pid);
  struct dlc_error error;
  int64_t served = 0;

  while (test_now_us() - start < 1000000) {
    int64_t before = test_now_us();

    test_ok(dlc_ping(bench->witness, NULL, &error), &error);
    served += test_now_us() - before;
    (void)nanosleep(&pause, NULL);
  }
  assert_true(served < 500000);
  /* Not spinning over connections that it cannot take. */
  if (!TEST_IS_SANITIZED)
    assert_in_range(test_cpu_us(bench->daemon.pid) - cpu, 0, 50000);
}

static bool can_connect(void *context)
{
  struct attack_bench *bench = context;
  struct dlc_client *client;

  if (dlc_connect(bench->daemon.socket, NULL, &client, NULL) < 0)
    return false;
  dlc_close(client);
  return true;
}

static void case_5_out_of_descriptors_old_peers_are_served_and_no_processor_burnt(void **state)
{
  struct attack_bench *bench = *state;
  struct rlimit few, before;
  struct test_child attacker;

  assert_int_equal(prlimit(bench->daemon.pid, RLIMIT_NOFILE, NULL, &before), 0);
  few = (struct rlimit){FEW_DESCRIPTORS, before.rlim_max};
  assert_int_equal(prlimit(bench->daemon.pid, RLIMIT_NOFILE, &few, NULL), 0);
  test_child_start(&attacker, flood, bench);
  (void)test_hear(attacker.from_child);
  serve_for_a_second(bench);
  test_tell(attacker.to_child, 1);
  test_child_join(&attacker);
  assert_true(test_wait_until(can_connect, bench));
  assert_int_equal(prlimit(bench->daemon.pid, RLIMIT_NOFILE, &before, NULL), 0);
  attack_assert_nothing_left(bench);
}

/* ---- a client that does not read ---- */

#define NAMES_TO_ASK_FOR 3000

static const char *const small_output[] = {"--output-limit", "128K", NULL};

static int setup_small_output(void **state)
{
  return attack_setup_with(state, small_output);
}

static void publish_many(struct dlc_client *client, int n)
{
  struct dlc_generation *generation;
  struct dlc_error error;
  float value = 1;
  struct dlc_view view = test_view_f32(&value, NULL, 0);
  char name[256];

  test_ok(dlc_begin(client, NULL, &generation, &error), &error);
  for (int i = 0; i < n; i++) {
    (void)snprintf(name, sizeof(name), "many/%0200d", i);
    test_ok(dlc_add_copy(generation, name, &view, NULL, &error), &error);
  }
  test_ok(dlc_commit(generation, NULL, &error), &error);
  dlc_generation_free(generation);
}

/* Sends as much as goes out, reads nothing, and is hung up on or held back. */
static int ask_and_not_read(const struct attack_bench *bench, const struct msg_request *request)
{
  dlp_auto_close int fd = test_raw_open(bench->daemon.socket, NULL, NULL);
  struct msg_request next = *request;
  uint8_t bytes[DLP_PACKET_MAX];
  int64_t end = test_now_us() + 1000000;
  size_t size;
  int r = 0;

  CHECK(fd >= 0);
  while (r != PACKET_E_EOF && test_now_us() < end) {
    struct pollfd poller = {.fd = fd, .events = POLLOUT};

    next.id++;
    CHECK(codec_encode_request(bytes, sizeof(bytes), &size, &next) == 0);
    r = dlp_packet_send(fd, bytes, size, NULL, 0);
    CHECK(r >= 0 || r == -ECONNRESET);
    if (r == PACKET_E_AGAIN)
      (void)poll(&poller, 1, 50);
  }
  return 0;
}

#define NAMES_AT_ONCE 100
#define WAITING 60

/* Many answers that wait for the same, and nobody who reads them. */
static int wait_and_not_read(void *context, struct test_pipe_ends *ends)
{
  static char paths[NAMES_AT_ONCE][256];
  const struct attack_bench *bench = context;
  struct msg_name names[NAMES_AT_ONCE];
  struct msg_request get = {.type = MSG_GET,
                            .u.get = {.access = MSG_ACCESS_READ,
                                      .timeout_ms = DLP_TIMEOUT_NEVER,
                                      .n_names = NAMES_AT_ONCE,
                                      .names = names}};
  dlp_auto_close int fd = test_raw_open(bench->daemon.socket, NULL, NULL);
  dlp_auto_close int publisher = test_raw_open(bench->daemon.socket, NULL, NULL);
  struct msg_place place;

  CHECK(fd >= 0 && publisher >= 0);
  for (int i = 0; i < NAMES_AT_ONCE; i++) {
    (void)snprintf(paths[i], sizeof(paths[i]), "many/%0200d", i);
    names[i] = (struct msg_name){MSG_OWNER_SELF, paths[i]};
  }
  names[NAMES_AT_ONCE - 1].path = "later";
  for (get.id = 1; get.id <= WAITING; get.id++)
    CHECK(test_raw_send(fd, &get, NULL, 0));
  CHECK(test_raw_allocate(publisher, 0, &place));
  CHECK(test_raw_publish(publisher, 1, &names[NAMES_AT_ONCE - 1], &place) == 0);
  CHECK(test_raw_is_hung_up(fd));
  return 0;
}

static int list_and_not_read(void *context, struct test_pipe_ends *ends)
{
  const struct msg_request list = {
      .type = MSG_LIST, .u.list = {.owner = MSG_OWNER_SELF, .prefix = "many/", .after = {0, ""}}};

  return ask_and_not_read(context, &list);
}

static int ping_and_not_read(void *context, struct test_pipe_ends *ends)
{
  return ask_and_not_read(context, &(struct msg_request){.type = MSG_PING});
}

static void case_37_who_does_not_read_is_dropped_or_held_back(void **state)
{
  struct attack_bench *bench = *state;

  publish_many(bench->witness, NAMES_TO_ASK_FOR);
  bench->before = test_baseline_take(bench->witness, &bench->daemon);
  bench->rss_before_kib = test_rss_kib(bench->daemon.pid);
  attack_run(bench, ping_and_not_read, NULL);
  attack_run(bench, list_and_not_read, NULL);
  attack_run(bench, wait_and_not_read, NULL);
  attack_wait_log(bench, "does not read its answers");
}

/* One session, so that its leases are counted once; each connection asks for everything. */
#define HOARDERS 100
/* Of the daemon's heap, with what the allocator adds. */
#define BYTES_PER_GRANT 192

static const char *const some_output[] = {"--output-limit", "2M", NULL};

static int setup_some_output(void **state)
{
  return attack_setup_with(state, some_output);
}

static int hoard_answers(void *context, struct test_pipe_ends *ends)
{
  static const struct msg_name many = {MSG_OWNER_SELF, "many/"};
  const struct msg_request get = {
      .id = 5,
      .type = MSG_GET,
      .u.get = {.by_prefix = true, .access = MSG_ACCESS_READ, .n_names = 1, .names = &many}};
  const struct attack_bench *bench = context;
  uint8_t token[DLP_TOKEN_SIZE] = {0};

  for (int i = 0; i < HOARDERS; i++) {
    int fd = test_raw_open(bench->daemon.socket, token, NULL);

    CHECK(fd >= 0);
    (void)test_raw_send(fd, &get, NULL, 0);
  }
  test_tell(ends->out, 1);
  (void)test_hear(ends->in);
  return 0;
}

static void many_connections_of_a_user_that_do_not_read_share_a_limit(void **state)
{
  struct attack_bench *bench = *state;
  struct test_child attacker;
  uint64_t rss_kib, grants_kib;

  publish_many(bench->witness, NAMES_TO_ASK_FOR);
  bench->before = test_baseline_take(bench->witness, &bench->daemon);
  bench->rss_before_kib = test_rss_kib(bench->daemon.pid);
  test_child_start(&attacker, hoard_answers, bench);
  (void)test_hear(attacker.from_child);
  attack_wait_log(bench, "does not read its answers");
  (void)attack_witness(bench);
  /* 8 times 2 MiB, and not 100 times half a MiB; what was granted is paid for by itself. */
  rss_kib = test_rss_kib(bench->daemon.pid);
  grants_kib = test_counter(bench->witness, "grants") * BYTES_PER_GRANT / 1024;
  if (!TEST_IS_SANITIZED)
    assert_in_range(rss_kib, 0, bench->rss_before_kib + grants_kib + (24 << 10));
  test_tell(attacker.to_child, 1);
  test_child_join(&attacker);
  attack_assert_nothing_left(bench);
}

static int get_all(struct attack_bench *bench, struct dlc_error *reterr)
{
  struct DLManagedTensorVersioned **tensors;
  const char *prefix = "many/";
  size_t n = 0;
  int r = dlc_get_many(bench->witness, &prefix, 0, NULL, &tensors, &n, reterr);

  if (r < 0)
    return r;
  assert_int_equal(n, NAMES_TO_ASK_FOR);
  dlc_tensors_free(tensors, n);
  return 0;
}

static void who_reads_gets_a_large_answer(void **state)
{
  struct attack_bench *bench = *state;
  struct dlc_error error;

  publish_many(bench->witness, NAMES_TO_ASK_FOR);
  test_ok(get_all(bench, &error), &error);
}

static void an_answer_above_the_limit_is_refused_in_words(void **state)
{
  struct attack_bench *bench = *state;
  struct dlc_error error;

  publish_many(bench->witness, NAMES_TO_ASK_FOR);
  test_assert_refusal("too large an answer", get_all(bench, &error), DLC_E_INVALID, &error,
                      "3000 tensors", "output-limit");
  (void)attack_witness(bench);
  test_wait_counter(bench->witness, "leases", 0);
}

/* ---- a client that is stopped in the middle ---- */

static int stop_in_the_middle(void *context, struct test_pipe_ends *ends)
{
  static const struct msg_name names[] = {{MSG_OWNER_SELF, "witness/tensor"}};
  const struct attack_bench *bench = context;
  const struct msg_request begun = {
      .id = 5,
      .type = MSG_GET,
      .u.get = {.more = true, .access = MSG_ACCESS_READ, .n_names = 1, .names = names}};
  const struct msg_request list = {
      .id = 6,
      .type = MSG_LIST,
      .u.list = {.owner = MSG_OWNER_SELF, .prefix = "", .after = {0, ""}}};
  struct test_grant grant;
  struct msg_place place;
  int fd = test_raw_open(bench->daemon.socket, NULL, NULL);

  CHECK(fd >= 0);
  CHECK(test_raw_get(fd, names, &grant) == 0);
  CHECK(test_raw_allocate(fd, 1 << 20, &place));
  CHECK(test_raw_send(fd, &list, NULL, 0) && test_raw_send(fd, &begun, NULL, 0));
  test_tell(ends->out, 1);
  (void)raise(SIGSTOP);
  return 1;
}

static void a_client_that_is_stopped_holds_up_nobody(void **state)
{
  struct attack_bench *bench = *state;
  struct test_child attacker;
  int64_t end;

  test_child_start(&attacker, stop_in_the_middle, bench);
  (void)test_hear(attacker.from_child);
  end = test_now_us() + 300000;
  while (test_now_us() < end)
    assert_true(attack_witness(bench) < 2000000);
  assert_int_equal(test_counter(bench->witness, "leases"), 1);
  test_child_kill(&attacker);
  attack_assert_nothing_left(bench);
}

/* ---- requests at random ---- */

#define N_SEQUENCES 10000
#define SEQUENCES_US 5000000
#define MAX_STEPS 12

struct dice {
  uint64_t state;
};

static uint64_t roll(struct dice *dice, uint64_t n)
{
  dice->state ^= dice->state << 13;
  dice->state ^= dice->state >> 7;
  dice->state ^= dice->state << 17;
  return dice->state % n;
}

/* Mostly small, sometimes at an edge. */
static uint64_t some_number(struct dice *dice)
{
  static const uint64_t edges[] = {0,         1,    UINT32_MAX,     UINT64_MAX,
                                   INT64_MAX, 4096, UINT64_MAX - 1, (uint64_t)1 << 32};

  return roll(dice, 4) ? roll(dice, 20) : edges[roll(dice, TEST_ARRAY_SIZE(edges))];
}

struct pieces {
  char paths[4][16];
  struct msg_name names[4];
  struct msg_block blocks[4];
  struct msg_place places[4];
  uint32_t cells[4];
  struct msg_add adds[4];
  int64_t shape[4];
  int64_t strides[4];
  struct msg_attribute attribute;
  uint64_t segments[4];
};

static struct msg_place some_place(struct dice *dice)
{
  return (struct msg_place){
      .segment = roll(dice, 30),
      .offset = roll(dice, 4) * 256,
      .size = roll(dice, 3) ? roll(dice, 600) : some_number(dice),
      .first = roll(dice, 3) ? 0 : some_number(dice),
  };
}

static void roll_pieces(struct dice *dice, struct pieces *p)
{
  static const char *const prefixes[] = {"", "r/", "r/a", "witness", "x//y", "r/@"};

  p->attribute = (struct msg_attribute){"key", "value"};
  for (size_t i = 0; i < 4; i++) {
    (void)snprintf(p->paths[i], sizeof(p->paths[i]), "%s%c",
                   prefixes[roll(dice, TEST_ARRAY_SIZE(prefixes))], 'a' + (int)roll(dice, 4));
    p->names[i] = (struct msg_name){roll(dice, 8) ? MSG_OWNER_SELF : 1000, p->paths[i]};
    p->blocks[i] = (struct msg_block){roll(dice, 9) ? roll(dice, 600) : some_number(dice),
                                      (uint32_t)roll(dice, 4)};
    p->places[i] = some_place(dice);
    p->cells[i] = (uint32_t)(roll(dice, 2) ? roll(dice, 4) : some_number(dice));
    p->shape[i] = (int64_t)some_number(dice);
    p->strides[i] = (int64_t)some_number(dice) - 10;
    p->segments[i] = some_number(dice);
  }
  for (size_t i = 0; i < 4; i++) {
    size_t ndim = roll(dice, 4);

    p->adds[i] = (struct msg_add){
        .name = p->names[i],
        .spec = {.code = (uint32_t)roll(dice, 20),
                 .bits = roll(dice, 3) ? 8 : (uint32_t)roll(dice, 70),
                 .lanes = (uint32_t)roll(dice, 4),
                 .ndim = ndim,
                 .shape = p->shape,
                 .strides = ndim && roll(dice, 2) ? p->strides : NULL},
        .place = p->places[i],
        .freeze = roll(dice, 4) == 0,
        .has_expected = roll(dice, 8) == 0,
        .n_attributes = roll(dice, 2),
        .attributes = &p->attribute,
    };
  }
}

static struct msg_request some_request(struct dice *dice, const struct pieces *p, uint64_t id)
{
  struct msg_request request = {.id = id,
                                .type = (enum msg_request_type)(MSG_PING + roll(dice, 14))};
  size_t n = 1 + roll(dice, 4);
  uint32_t wait_ms = (uint32_t)roll(dice, 3);

  switch (request.type) {
  case MSG_ALLOCATE:
    request.u.allocate = (struct msg_allocate){
        .owner = MSG_OWNER_SELF,
        .lifetime = (uint32_t)roll(dice, 5),
        .mode = roll(dice, 4) ? 0 : 0644,
        .gid = MSG_OWNER_SELF,
        .backend = (uint32_t)roll(dice, 4),
        .is_mutable = roll(dice, 4) == 0,
        .n_blocks = n,
        .blocks = p->blocks,
    };
    break;
  case MSG_FREE:
    request.u.free = (struct msg_free){n, p->places};
    break;
  case MSG_PUBLISH:
    request.u.publish = (struct msg_publish){.key = 1 + roll(dice, 3),
                                             .commit = roll(dice, 2),
                                             .ttl_ms = roll(dice, 2),
                                             .n_adds = n,
                                             .adds = p->adds};
    break;
  case MSG_ABORT:
    request.u.abort.key = 1 + roll(dice, 3);
    break;
  case MSG_GET:
    request.u.get = (struct msg_get){.more = n > 1 && roll(dice, 4) == 0,
                                     .by_prefix = n == 1 && roll(dice, 2),
                                     .access = (uint32_t)roll(dice, 4),
                                     .version = roll(dice, 4) ? 0 : some_number(dice),
                                     .timeout_ms = wait_ms,
                                     .n_names = n,
                                     .names = p->names};
    break;
  case MSG_RELEASE:
    request.u.release = (struct msg_release){n, p->cells};
    break;
  case MSG_MAP:
    request.u.map = (struct msg_map){some_number(dice), (uint32_t)roll(dice, 4)};
    break;
  case MSG_FORGET:
    request.u.forget = (struct msg_forget){n, p->segments};
    break;
  case MSG_DELETE:
    request.u.del = (struct msg_delete){roll(dice, 4) == 0, {MSG_OWNER_SELF, "r/a"}, 0};
    break;
  case MSG_LIST:
    request.u.list = (struct msg_list){MSG_OWNER_SELF,
                                       p->paths[0],
                                       {MSG_OWNER_SELF, ""},
                                       (uint32_t)some_number(dice),
                                       roll(dice, 2)};
    break;
  case MSG_STAT:
    request.u.stat = (struct msg_stat){p->names[0], some_number(dice), wait_ms};
    break;
  case MSG_WATCH:
    request.u.watch = (struct msg_watch){MSG_OWNER_SELF, p->paths[0], some_number(dice), wait_ms};
    break;
  default:
    break;
  }
  if (request.type == MSG_FREE || request.type == MSG_RELEASE || request.type == MSG_FORGET)
    request.id = 0;
  return request;
}

/* Takes what is there, and does not wait for more. */
static void drain(int fd)
{
  uint8_t bytes[DLP_PACKET_MAX];
  struct dlp_fdset fds;
  size_t size;

  dlp_fdset_init(&fds);
  while (dlp_packet_receive(fd, bytes, sizeof(bytes), &size, &fds) == 0)
    dlp_fdset_deinit(&fds);
}

static int one_sequence(const struct attack_bench *bench, struct dice *dice)
{
  dlp_auto_close int fd = test_raw_open(bench->daemon.socket, NULL, NULL);
  size_t n_steps = 1 + roll(dice, MAX_STEPS);
  struct pieces pieces;

  CHECK(fd >= 0);
  for (uint64_t id = 1; id <= n_steps; id++) {
    struct msg_request request;

    roll_pieces(dice, &pieces);
    request = some_request(dice, &pieces, id);
    if (!test_raw_send(fd, &request, NULL, 0))
      break;
    drain(fd);
  }
  return 0;
}

static int many_sequences(void *context, struct test_pipe_ends *ends)
{
  const struct attack_bench *bench = context;
  struct dice dice = {UINT64_C(0x9e3779b97f4a7c15)};
  int64_t end = test_now_us() + SEQUENCES_US;
  int n;

  for (n = 0; n < N_SEQUENCES && test_now_us() < end; n++)
    CHECK(one_sequence(bench, &dice) == 0);
  (void)printf("    %d sequences\n", n);
  (void)fflush(stdout);
  return 0;
}

static void requests_at_random_leave_the_daemon_as_it_was(void **state)
{
  attack_run(*state, many_sequences, NULL);
}

#define with_bench(test) cmocka_unit_test_setup_teardown(test, attack_setup, attack_teardown)

static const struct CMUnitTest tests[] = {
    with_bench(connections_without_hello_are_closed_after_a_while),
    with_bench(case_5_out_of_descriptors_old_peers_are_served_and_no_processor_burnt),
    cmocka_unit_test_setup_teardown(case_37_who_does_not_read_is_dropped_or_held_back,
                                    setup_small_output, attack_teardown),
    cmocka_unit_test_setup_teardown(many_connections_of_a_user_that_do_not_read_share_a_limit,
                                    setup_some_output, attack_teardown),
    with_bench(who_reads_gets_a_large_answer),
    cmocka_unit_test_setup_teardown(an_answer_above_the_limit_is_refused_in_words,
                                    setup_small_output, attack_teardown),
    with_bench(a_client_that_is_stopped_holds_up_nobody),
    with_bench(requests_at_random_leave_the_daemon_as_it_was),
};

TEST_MAIN(tests)
