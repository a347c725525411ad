#ifndef DLPACKD_PROTO_CODEC_H
#define DLPACKD_PROTO_CODEC_H

/*
 * Bytes <-> message.h. The only user of protobuf-c: its names, its allocator
 * and its rules for unknown fields end here. The messages of every get and put are
 * read and written by hand beside it, to the same effect (codec_fast.h).
 *
 * Decoding takes hostile bytes: it spends at most DLP_DECODE_BUDGET of heap,
 * checks every string for UTF-8 and embedded NUL, and bounds every list. Fields
 * it does not know are ignored if their number is below 1000 and refuse the
 * message otherwise (that is how a later version says "you must understand
 * this").
 *
 * Pure: no sockets, no clock. Any thread.
 */

#include "message.h"

enum {
  CODEC_E_MALFORMED = 1, /* not a message of ours, or breaks a limit */
  CODEC_E_UNKNOWN,       /* well-formed, but a type or critical field we do not know */
  CODEC_E_TOO_LARGE,     /* encoding: does not fit the buffer */
};

/* Enough for a GET of one name, and for what grants one tensor without attributes. */
#define CODEC_REQUEST_OWN_SIZE 384
#define CODEC_REPLY_OWN_SIZE 768

/* What holds a decoded message. {0} holds none. Do not copy it: `own` is what a small
 * message takes before the heap. */
struct codec_request {
  struct msg_request request;
  void *arena;
  uint64_t own[CODEC_REQUEST_OWN_SIZE / sizeof(uint64_t)];
};

struct codec_reply {
  struct msg_reply reply;
  void *arena;
  uint64_t own[CODEC_REPLY_OWN_SIZE / sizeof(uint64_t)];
};

/* As {0} would, but leaves `own` as it is. */
static inline void codec_reply_init(struct codec_reply *reply)
{
  reply->reply = (struct msg_reply){0};
  reply->arena = NULL;
}

/*
 * Return: 0, -ENOMEM, CODEC_E_MALFORMED or CODEC_E_UNKNOWN. With the latter
 * ret->request.id is set (0 if even that was not to be had), so that the request
 * can be refused by its id. Otherwise *ret is filled only with 0.
 */
int codec_decode_request(struct codec_request *ret, const uint8_t *bytes, size_t n_bytes);
void codec_request_deinit(struct codec_request *request);

int codec_decode_reply(struct codec_reply *ret, const uint8_t *bytes, size_t n_bytes);
void codec_reply_deinit(struct codec_reply *reply);

/*
 * Writes at most `size` bytes; *ret_size gets how many.
 * Return: 0, -ENOMEM or CODEC_E_TOO_LARGE.
 */
int codec_encode_request(uint8_t *buffer, size_t size, size_t *ret_size,
                         const struct msg_request *request);
int codec_encode_reply(uint8_t *buffer, size_t size, size_t *ret_size,
                       const struct msg_reply *reply);

/* Upper bound of what encoding takes, for whoever packs many into one packet. */
size_t codec_grant_size(const struct msg_grant *grant);
size_t codec_tensor_size(const struct msg_tensor *tensor);
size_t codec_add_size(const struct msg_add *add);
size_t codec_name_size(const struct msg_name *name);

#endif
