/*
 * Any bytes through both codecs: what the fast reader takes, the full one takes too, to
 * the same message; and of every message the two make the same bytes.
 */

#include <assert.h>
#include <string.h>

#include "proto/codec_fast.h"

/* More than a packet: see fuzz_codec.c. */
static uint8_t fast_bytes[4 * DLP_PACKET_MAX], full_bytes[4 * DLP_PACKET_MAX],
    other_bytes[4 * DLP_PACKET_MAX];

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void try_request(const uint8_t *bytes, size_t size)
{
  struct codec_request fast = {0}, full = {0};
  bool is_fast = codec_fast_decode_request(&fast, bytes, size);
  size_t n_fast, n_full, n_other;
  int r = codec_full_decode_request(&full, bytes, size);

  assert(!is_fast || r == 0);
  if (r == 0) {
    r = codec_full_encode_request(full_bytes, sizeof(full_bytes), &n_full, &full.request);
    assert(r == 0);
    r = codec_encode_request(fast_bytes, sizeof(fast_bytes), &n_fast, &full.request);
    assert(r == 0 && n_fast == n_full && memcmp(fast_bytes, full_bytes, n_full) == 0);
  }
  if (is_fast) {
    r = codec_full_encode_request(other_bytes, sizeof(other_bytes), &n_other, &fast.request);
    assert(r == 0 && n_other == n_full && memcmp(other_bytes, full_bytes, n_full) == 0);
  }
  codec_request_deinit(&fast);
  codec_request_deinit(&full);
}

static void try_reply(const uint8_t *bytes, size_t size)
{
  struct codec_reply fast = {0}, full = {0};
  bool is_fast = codec_fast_decode_reply(&fast, bytes, size);
  size_t n_fast, n_full, n_other;
  int r = codec_full_decode_reply(&full, bytes, size);

  assert(!is_fast || r == 0);
  if (r == 0) {
    r = codec_full_encode_reply(full_bytes, sizeof(full_bytes), &n_full, &full.reply);
    assert(r == 0);
    r = codec_encode_reply(fast_bytes, sizeof(fast_bytes), &n_fast, &full.reply);
    assert(r == 0 && n_fast == n_full && memcmp(fast_bytes, full_bytes, n_full) == 0);
  }
  if (is_fast) {
    r = codec_full_encode_reply(other_bytes, sizeof(other_bytes), &n_other, &fast.reply);
    assert(r == 0 && n_other == n_full && memcmp(other_bytes, full_bytes, n_full) == 0);
  }
  codec_reply_deinit(&fast);
  codec_reply_deinit(&full);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
  try_request(bytes, size);
  try_reply(bytes, size);
  return 0;
}
