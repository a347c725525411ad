#include "support/packets.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/packet.h"
#include "support/daemon.h"

int test_raw_connect(const char *socket_path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

  (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
    return fd;
  return dlp_close(fd);
}

static bool wait_for(int fd, short events)
{
  struct pollfd poller = {.fd = fd, .events = events};

  return poll(&poller, 1, TEST_PATIENCE_MS) == 1;
}

bool test_raw_send_bytes(int fd, const void *bytes, size_t size, const int *fds, size_t n_fds)
{
  int r;

  do
    r = dlp_packet_send(fd, bytes, size, fds, n_fds);
  while ((r == PACKET_E_AGAIN || r == PACKET_E_FDS_BUSY) && wait_for(fd, POLLOUT));
  return r == 0;
}

bool test_raw_send(int fd, const struct msg_request *request, const int *fds, size_t n_fds)
{
  uint8_t bytes[DLP_PACKET_MAX];
  size_t size;

  return codec_encode_request(bytes, sizeof(bytes), &size, request) == 0 &&
         test_raw_send_bytes(fd, bytes, size, fds, n_fds);
}

bool test_raw_receive(int fd, struct codec_reply *ret, struct dlp_fdset *fds)
{
  uint8_t bytes[DLP_PACKET_MAX];
  struct dlp_fdset ignored;
  size_t size;
  int r;

  dlp_fdset_init(&ignored);
  do
    r = dlp_packet_receive(fd, bytes, sizeof(bytes), &size, fds ? fds : &ignored);
  while (r == PACKET_E_AGAIN && wait_for(fd, POLLIN));
  dlp_fdset_deinit(&ignored);
  return r == 0 && codec_decode_reply(ret, bytes, size) == 0;
}

bool test_raw_is_hung_up(int fd)
{
  uint8_t bytes[DLP_PACKET_MAX];
  struct dlp_fdset fds;
  size_t size;
  int r;

  dlp_fdset_init(&fds);
  for (;;) {
    r = dlp_packet_receive(fd, bytes, sizeof(bytes), &size, &fds);
    dlp_fdset_deinit(&fds);
    if (r == PACKET_E_EOF)
      return true;
    if (r != 0 && (r != PACKET_E_AGAIN || !wait_for(fd, POLLIN)))
      return false;
  }
}

int test_raw_call(int fd, const struct msg_request *request, struct codec_reply *ret)
{
  if (!test_raw_send(fd, request, NULL, 0) || !test_raw_receive(fd, ret, NULL))
    return -1;
  return (int)ret->reply.status;
}

int test_raw_status(int fd, const struct msg_request *request)
{
  struct codec_reply reply = {0};
  int status = test_raw_call(fd, request, &reply);

  codec_reply_deinit(&reply);
  return status;
}

bool test_raw_is_served(int fd)
{
  return test_raw_status(fd, &(struct msg_request){.id = 4711, .type = MSG_PING}) == 0;
}

int test_raw_open(const char *socket_path, uint8_t token[DLP_TOKEN_SIZE], bool *ret_resumed)
{
  static const uint8_t no_token[DLP_TOKEN_SIZE];
  const struct msg_request hello = {
      .id = 1,
      .type = MSG_HELLO,
      .u.hello = {.major = DLP_PROTOCOL_MAJOR,
                  .client_name = "raw",
                  .token = token && memcmp(token, no_token, DLP_TOKEN_SIZE) ? token : NULL},
  };
  struct codec_reply reply = {0};
  int fd = test_raw_connect(socket_path);

  if (fd < 0)
    return -1;
  if (test_raw_call(fd, &hello, &reply) != 0) {
    codec_reply_deinit(&reply);
    return dlp_close(fd);
  }
  if (token)
    memcpy(token, reply.reply.u.welcome.token, DLP_TOKEN_SIZE);
  if (ret_resumed)
    *ret_resumed = reply.reply.u.welcome.resumed;
  codec_reply_deinit(&reply);
  return fd;
}

bool test_raw_allocate(int fd, uint64_t size, struct msg_place *ret)
{
  const struct msg_block block = {.size = size};
  const struct msg_request request = {.id = 2,
                                      .type = MSG_ALLOCATE,
                                      .u.allocate = {.owner = MSG_OWNER_SELF,
                                                     .lifetime = MSG_LIFETIME_SESSION,
                                                     .gid = MSG_OWNER_SELF,
                                                     .n_blocks = 1,
                                                     .blocks = &block}};
  struct codec_reply reply = {0};
  bool is_there = test_raw_call(fd, &request, &reply) == 0 && reply.reply.type == MSG_ALLOCATED &&
                  reply.reply.u.allocated.n_places == 1;

  if (is_there)
    *ret = reply.reply.u.allocated.places[0];
  codec_reply_deinit(&reply);
  return is_there;
}

int test_raw_publish(int fd, uint64_t key, const struct msg_name *name,
                     const struct msg_place *place)
{
  const int64_t shape = (int64_t)place->size;
  const struct msg_add add = {
      .name = *name,
      .spec = {.code = 1, .bits = 8, .lanes = 1, .ndim = 1, .shape = &shape},
      .place = *place};
  const struct msg_request request = {
      .id = 3,
      .type = MSG_PUBLISH,
      .u.publish = {.key = key, .commit = true, .n_adds = 1, .adds = &add}};

  return test_raw_status(fd, &request);
}

int test_raw_get(int fd, const struct msg_name *name, struct test_grant *ret)
{
  const struct msg_request request = {
      .id = 4, .type = MSG_GET, .u.get = {.access = MSG_ACCESS_READ, .n_names = 1, .names = name}};
  struct codec_reply reply = {0};
  int status = test_raw_call(fd, &request, &reply);

  if (status == 0)
    *ret = (struct test_grant){
        .cell = reply.reply.u.granted.grants[0].cell,
        .version = reply.reply.u.granted.grants[0].tensor.version,
        .segment = reply.reply.u.granted.grants[0].tensor.place.segment,
    };
  codec_reply_deinit(&reply);
  return status;
}
