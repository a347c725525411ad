#include "litmus.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/litmus.h"

/* What is exact gets as many rounds as the minute allows; what is broken shows it long
 * before. */
#define ROUNDS UINT64_C(5000000)
#define RUN_MS 60000

#if defined(DLC_LITMUS_NO_FENCE) || defined(DLC_LITMUS_NO_RECHECK) || \
    defined(DLC_LITMUS_NAIVE_COUNT)
#define IS_BROKEN true
#else
#define IS_BROKEN false
#endif

static int judge(const struct litmus *litmus, const struct litmus_result *result, int status)
{
  uint64_t poisoned = atomic_load(&litmus->n_poisoned);

  (void)printf("%" PRIu64 " replacements, %" PRIu64 " gets, %" PRIu64 " poisoned reads%s\n",
               result->n_retired, atomic_load(&litmus->n_gets), poisoned,
               result->all_freed ? "" : ", something is held for ever");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return EXIT_FAILURE;
  if (IS_BROKEN)
    return poisoned > 0 || !result->all_freed ? EXIT_SUCCESS : EXIT_FAILURE;
  return poisoned == 0 && result->all_freed ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(void)
{
  struct litmus *litmus = mmap(NULL, sizeof(*litmus), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  struct litmus_result result;
  int status = 0;
  pid_t child;

  if (litmus == MAP_FAILED)
    return EXIT_FAILURE;
  child = fork();
  if (child < 0)
    return EXIT_FAILURE;
  if (child == 0)
    _exit(litmus_run_client(litmus));
  litmus_run_daemon(litmus, IS_BROKEN ? UINT64_MAX : ROUNDS, RUN_MS, &result);
  (void)waitpid(child, &status, 0);
  return judge(litmus, &result, status);
}
