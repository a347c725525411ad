#ifndef DLPACKD_TESTS_SUPPORT_TENSORS_H
#define DLPACKD_TESTS_SUPPORT_TENSORS_H

/*
 * Tensors whose every byte is known, because it follows from a seed.
 *
 * For the process of the test and for its children alike: what goes wrong fails
 * the test, or ends the child with a message.
 */

#include "support/daemon.h"

/* How many times as long the long loops run: $DLP_TEST_SCALE, at least 1. */
unsigned test_scale(void);

/* ---- known bytes ---- */

void test_fill(void *bytes, size_t size, uint64_t seed);
/* Index of the first byte that is not as test_fill() left it; `size` if there is none. */
size_t test_first_wrong(const void *bytes, size_t size, uint64_t seed);

/* A copy of `size` known bytes goes to `name`. Return: the version it got. */
uint64_t test_put(struct dlc_client *client, const char *name, size_t size, uint64_t seed,
                  const struct dlc_publish_options *options);
/* `size` bytes in shared memory, to be filled and published. */
struct DLManagedTensorVersioned *test_alloc(struct dlc_client *client, size_t size,
                                            const struct dlc_publish_options *options);
struct DLManagedTensorVersioned *test_get(struct dlc_client *client, const char *name,
                                          enum dlc_access access);
void test_delete(struct dlc_client *client, const char *name);
/* The tensor's deleter. */
void test_drop(struct DLManagedTensorVersioned *tensor);

size_t test_size_of(const struct DLManagedTensorVersioned *tensor);
void test_check(const struct DLManagedTensorVersioned *tensor, uint64_t seed);

struct dlc_publish_options test_lifetime(enum dlc_lifetime lifetime);

#endif
