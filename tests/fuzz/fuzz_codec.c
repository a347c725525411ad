/*
 * Any bytes as a request and as a reply: nothing crashes, nothing takes more heap
 * than it may, and what decodes is a message that can be encoded and is then the
 * same again.
 */

#include <assert.h>
#include <string.h>

#include "proto/codec.h"

/* More than a packet: a number that came in five bytes may be one that is written in
 * ten, so what is encoded can be longer than what was decoded. */
static uint8_t first[4 * DLP_PACKET_MAX], second[4 * DLP_PACKET_MAX];

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void try_request(const uint8_t *bytes, size_t size)
{
  struct codec_request decoded = {0}, again = {0};
  size_t n_first, n_second;

  if (codec_decode_request(&decoded, bytes, size) == 0) {
    int r = codec_encode_request(first, sizeof(first), &n_first, &decoded.request);
    assert(r == 0);
    r = codec_decode_request(&again, first, n_first);
    /* It may have outgrown the packet or the budget, but not become another. */
    assert(r == 0 || r == CODEC_E_MALFORMED);
    if (r == 0) {
      r = codec_encode_request(second, sizeof(second), &n_second, &again.request);
      assert(r == 0 && n_first == n_second && memcmp(first, second, n_first) == 0);
    }
  }
  codec_request_deinit(&decoded);
  codec_request_deinit(&again);
}

static void try_reply(const uint8_t *bytes, size_t size)
{
  struct codec_reply decoded = {0}, again = {0};
  size_t n_first, n_second;

  if (codec_decode_reply(&decoded, bytes, size) == 0) {
    int r = codec_encode_reply(first, sizeof(first), &n_first, &decoded.reply);
    assert(r == 0);
    r = codec_decode_reply(&again, first, n_first);
    assert(r == 0 || r == CODEC_E_MALFORMED);
    if (r == 0) {
      r = codec_encode_reply(second, sizeof(second), &n_second, &again.reply);
      assert(r == 0 && n_first == n_second && memcmp(first, second, n_first) == 0);
    }
  }
  codec_reply_deinit(&decoded);
  codec_reply_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
  try_request(bytes, size);
  try_reply(bytes, size);
  return 0;
}
