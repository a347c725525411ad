#include "support/alloc_failure.h"

#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *string);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *string);

static bool is_on, has_failed;
static unsigned int n_exemptions;
static enum alloc_failure_mode failure_mode;
static size_t n_left;

void alloc_failure_start(size_t n, enum alloc_failure_mode mode)
{
  n_left = n;
  failure_mode = mode;
  has_failed = false;
  is_on = true;
}

bool alloc_failure_stop(void)
{
  is_on = false;
  return has_failed;
}

void alloc_failure_exempt(bool is_exempt)
{
  n_exemptions += is_exempt ? 1 : -1u;
}

static bool fails(void)
{
  if (!is_on || n_exemptions > 0)
    return false;
  if (n_left > 0) {
    n_left--;
    return false;
  }
  if (has_failed && failure_mode == ALLOC_FAILURE_ONCE)
    return false;
  has_failed = true;
  return true;
}

void *__wrap_malloc(size_t size)
{
  return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
  return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
  return fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *string)
{
  return fails() ? NULL : __real_strdup(string);
}
