#include "echo.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "process.h"

#define PACKET_MAX 65536

struct request {
  uint32_t reply_size;
  uint32_t n_replies;
};

struct server {
  enum bench_echo_kind kind;
  size_t n_clients;
  int fds[BENCH_ECHO_CLIENTS_MAX];
};

static void answer(int fd)
{
  static char packet[PACKET_MAX];
  struct request request;

  if (recv(fd, packet, sizeof(packet), 0) < (ssize_t)sizeof(request))
    _exit(0);
  memcpy(&request, packet, sizeof(request));
  for (uint32_t i = 0; i < request.n_replies; i++)
    if (send(fd, packet, request.reply_size, MSG_NOSIGNAL) < 0)
      _exit(0);
}

static void serve_epoll(const struct server *server)
{
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event events[64];

  for (size_t i = 0; i < server->n_clients; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = server->fds[i]};

    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, server->fds[i], &event);
  }
  for (;;) {
    int n = epoll_wait(epoll, events, 64, -1);

    for (int i = 0; i < n; i++)
      answer(events[i].data.fd);
  }
}

static void serve(void *context)
{
  const struct server *server = (const struct server *)context;

  if (server->kind == BENCH_ECHO_EPOLL)
    serve_epoll(server);
  for (;;)
    answer(server->fds[0]);
}

void bench_echo_start(struct bench_echo *echo, enum bench_echo_kind kind, size_t n_clients)
{
  struct server server = {.kind = kind, .n_clients = n_clients};

  echo->n_clients = n_clients;
  for (size_t i = 0; i < n_clients; i++) {
    int pair[2];

    bench_check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    echo->fds[i] = pair[0];
    server.fds[i] = pair[1];
  }
  echo->server = bench_spawn(serve, &server);
  for (size_t i = 0; i < n_clients; i++)
    (void)close(server.fds[i]);
}

void bench_echo_stop(struct bench_echo *echo)
{
  bench_stop(echo->server);
  for (size_t i = 0; i < echo->n_clients; i++)
    (void)close(echo->fds[i]);
}

void bench_echo_call(int fd, uint32_t reply_size, uint32_t n_replies)
{
  static char reply[PACKET_MAX];
  char request[BENCH_ECHO_REQUEST] = {0};

  memcpy(request, &(struct request){reply_size, n_replies}, sizeof(struct request));
  bench_check(send(fd, request, sizeof(request), MSG_NOSIGNAL) == sizeof(request), "echo");
  for (uint32_t i = 0; i < n_replies; i++)
    bench_check(recv(fd, reply, sizeof(reply), 0) == (ssize_t)reply_size, "echo");
}
