#include "support/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "support/test.h"

unsigned test_scale(void)
{
  const char *text = getenv("DLP_TEST_SCALE");
  long scale = text ? strtol(text, NULL, 10) : 1;

  return scale > 1 && scale <= 1000 ? (unsigned)scale : 1;
}

/* ---- known bytes ---- */

/* The eight bytes at word `index`: the mixer of splitmix64. */
static uint64_t known_word(uint64_t seed, uint64_t index)
{
  uint64_t word = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);

  word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
  return word ^ (word >> 31);
}

void test_fill(void *bytes, size_t size, uint64_t seed)
{
  uint8_t *at = bytes;

  for (uint64_t i = 0; size > 0; i++) {
    uint64_t word = known_word(seed, i);
    size_t n = size < sizeof(word) ? size : sizeof(word);

    memcpy(at, &word, n);
    at += n;
    size -= n;
  }
}

size_t test_first_wrong(const void *bytes, size_t size, uint64_t seed)
{
  const uint8_t *at = bytes;

  for (size_t done = 0; done < size; done += sizeof(uint64_t)) {
    uint64_t word = known_word(seed, done / sizeof(word));
    size_t n = size - done < sizeof(word) ? size - done : sizeof(word);

    for (size_t i = 0; memcmp(at + done, &word, n) != 0 && i < n; i++)
      if (at[done + i] != ((const uint8_t *)&word)[i])
        return done + i;
  }
  return size;
}

static struct dlc_view view_bytes(void *data, const int64_t *shape)
{
  return (struct dlc_view){
      .data = data,
      .device_type = kDLCPU,
      .ndim = 1,
      .dtype_code = kDLUInt,
      .dtype_bits = 8,
      .dtype_lanes = 1,
      .shape = shape,
  };
}

uint64_t test_put(struct dlc_client *client, const char *name, size_t size, uint64_t seed,
                  const struct dlc_publish_options *options)
{
  int64_t shape[1] = {(int64_t)size};
  uint8_t *bytes = malloc(size);
  struct dlc_view view = view_bytes(bytes, shape);
  struct dlc_error error;
  uint64_t version = 0;
  int r;

  assert_non_null(bytes);
  test_fill(bytes, size, seed);
  r = dlc_put(client, name, &view, options, &version, &error);
  free(bytes);
  test_ok(r, &error);
  return version;
}

struct DLManagedTensorVersioned *test_alloc(struct dlc_client *client, size_t size,
                                            const struct dlc_publish_options *options)
{
  int64_t shape[1] = {(int64_t)size};
  struct dlc_view prototype = view_bytes(NULL, shape);
  struct DLManagedTensorVersioned *tensor = NULL;
  struct dlc_error error;

  test_ok(dlc_alloc(client, &prototype, options, &tensor, &error), &error);
  return tensor;
}

struct DLManagedTensorVersioned *test_get(struct dlc_client *client, const char *name,
                                          enum dlc_access access)
{
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct DLManagedTensorVersioned *tensor = NULL;
  struct dlc_error error;

  options.access = access;
  test_ok(dlc_get(client, name, &options, &tensor, &error), &error);
  return tensor;
}

void test_delete(struct dlc_client *client, const char *name)
{
  struct dlc_error error;

  test_ok(dlc_delete(client, name, 0, NULL, &error), &error);
}

void test_drop(struct DLManagedTensorVersioned *tensor)
{
  tensor->deleter(tensor);
}

size_t test_size_of(const struct DLManagedTensorVersioned *tensor)
{
  return (size_t)tensor->dl_tensor.shape[0];
}

void test_check(const struct DLManagedTensorVersioned *tensor, uint64_t seed)
{
  size_t size = test_size_of(tensor);

  assert_int_equal(test_first_wrong(tensor->dl_tensor.data, size, seed), size);
}

struct dlc_publish_options test_lifetime(enum dlc_lifetime lifetime)
{
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;

  options.lifetime = lifetime;
  return options;
}
