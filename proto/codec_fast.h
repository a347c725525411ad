#ifndef DLPACKD_PROTO_CODEC_FAST_H
#define DLPACKD_PROTO_CODEC_FAST_H

/*
 * The two ways between bytes and messages: `full` is protobuf-c's, which knows every
 * message; `fast` is by hand, for those that every get and put sends, and for the pages of
 * listings, which others wait for.
 *
 * Full is the authority. Fast writes the same bytes. It reads only what it takes in its
 * stride, which is what a writer of this version makes: with anything else (an unknown
 * field, fields out of order, a limit that is broken, nonsense) it steps back, and full
 * decides what that is. What fast reads, full would have read to the same message, its
 * budget of heap included. Tests and a fuzz target hold the two together
 * (docs/adr/0009-two-codecs.md).
 *
 * For codec.c and the tests alone. Any thread.
 */

#include "proto/codec.h"

/* Return: whether *ret was filled; if not, nothing has become of it. */
bool codec_fast_decode_request(struct codec_request *ret, const uint8_t *bytes, size_t n_bytes);
bool codec_fast_decode_reply(struct codec_reply *ret, const uint8_t *bytes, size_t n_bytes);

bool codec_fast_writes_request(const struct msg_request *request);
bool codec_fast_writes_reply(const struct msg_reply *reply);
/* Return: 0 or CODEC_E_TOO_LARGE. */
int codec_fast_encode_request(uint8_t *buffer, size_t size, size_t *ret_size,
                              const struct msg_request *request);
int codec_fast_encode_reply(uint8_t *buffer, size_t size, size_t *ret_size,
                            const struct msg_reply *reply);

/* Return: as those of codec.h. */
int codec_full_decode_request(struct codec_request *ret, const uint8_t *bytes, size_t n_bytes);
int codec_full_decode_reply(struct codec_reply *ret, const uint8_t *bytes, size_t n_bytes);
int codec_full_encode_request(uint8_t *buffer, size_t size, size_t *ret_size,
                              const struct msg_request *request);
int codec_full_encode_reply(uint8_t *buffer, size_t size, size_t *ret_size,
                            const struct msg_reply *reply);

#endif
