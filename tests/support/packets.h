#ifndef DLPACKD_TESTS_SUPPORT_PACKETS_H
#define DLPACKD_TESTS_SUPPORT_PACKETS_H

/*
 * A client without a library: it says to the daemon whatever a test wants to say.
 *
 * Nothing here asserts, since most of it runs in processes that are to be killed: a
 * function says whether it went well. Every wait ends after TEST_PATIENCE_MS.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/fdset.h"
#include "proto/codec.h"

/* In a function that a child runs: a cmocka assertion would go on with the parent's tests. */
#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                     \
    }                                                                               \
  } while (0)

/* A blocking connection; -1 if it was refused. */
int test_raw_connect(const char *socket_path);
/* The same, greeted and welcomed. `token` is NULL or DLP_TOKEN_SIZE bytes, and gets
 * the session's. The lease pages that come are closed. */
int test_raw_open(const char *socket_path, uint8_t token[DLP_TOKEN_SIZE], bool *ret_resumed);

/* Return: false if the other side has hung up. */
bool test_raw_send_bytes(int fd, const void *bytes, size_t size, const int *fds, size_t n_fds);
/* Encodes `request` as it is; the descriptors are borrowed. */
bool test_raw_send(int fd, const struct msg_request *request, const int *fds, size_t n_fds);

/* The next answer; codec_reply_deinit() it. Return: false if the other side hung up, or
 * says nothing. Descriptors that come are closed if `fds` is NULL. */
bool test_raw_receive(int fd, struct codec_reply *ret, struct dlp_fdset *fds);
/* Reads until the other side has hung up. Return: false if it never does. */
bool test_raw_is_hung_up(int fd);
/* Sends and gets the answer. Return: its status; -1 if there was none. */
int test_raw_call(int fd, const struct msg_request *request, struct codec_reply *ret);
/* The same, when only the status is of interest. */
int test_raw_status(int fd, const struct msg_request *request);
/* Does the connection serve a PING? */
bool test_raw_is_served(int fd);

/* ALLOCATE of one block of the sender's, not filled. Return: false if refused. */
bool test_raw_allocate(int fd, uint64_t size, struct msg_place *ret);
/* A publication of one tensor of place->size bytes. Return: the status, or -1. */
int test_raw_publish(int fd, uint64_t key, const struct msg_name *name,
                     const struct msg_place *place);
/* What a GET granted. */
struct test_grant {
  uint32_t cell;
  uint64_t version;
  uint64_t segment;
};
/* GET without a wait. Return: the status, or -1; *ret is filled with 0. */
int test_raw_get(int fd, const struct msg_name *name, struct test_grant *ret);

#endif
