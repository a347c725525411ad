#ifndef DLPACKD_BENCH_ECHO_H
#define DLPACKD_BENCH_ECHO_H

/*
 * The floor of everything that asks a daemon: a server that answers packets over
 * SEQPACKET sockets, and does nothing else.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum bench_echo_kind {
  BENCH_ECHO_BLOCKING, /* recv and send: the least there is, for one client */
  BENCH_ECHO_EPOLL,    /* what serving more than one client costs */
};

#define BENCH_ECHO_CLIENTS_MAX 32

struct bench_echo {
  pid_t server;
  size_t n_clients;
  int fds[BENCH_ECHO_CLIENTS_MAX]; /* one for each client */
};

/* Sizes of a request and of its answer; about those of a GET of one small tensor. */
#define BENCH_ECHO_REQUEST 48
#define BENCH_ECHO_REPLY 160

void bench_echo_start(struct bench_echo *echo, enum bench_echo_kind kind, size_t n_clients);
void bench_echo_stop(struct bench_echo *echo);

/* One request, `n_replies` packets of `reply_size` bytes (at most 64 KiB) back. */
void bench_echo_call(int fd, uint32_t reply_size, uint32_t n_replies);

#endif
