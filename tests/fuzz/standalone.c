/*
 * Runs a fuzz target over files, without libFuzzer: so a corpus is a test like any
 * other, with any compiler. Arguments are files, and folders of files.
 */

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"

#define INPUT_MAX (1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static size_t n_inputs;

/* The input lies in memory of exactly its size, so that AddressSanitizer sees the end. */
static int run_file(const char *path)
{
  static uint8_t buffer[INPUT_MAX];
  dlp_auto_free uint8_t *bytes = NULL;
  FILE *file = fopen(path, "rb");
  size_t size;

  if (!file)
    return -errno;
  size = fread(buffer, 1, sizeof(buffer), file);
  (void)fclose(file);
  bytes = malloc(size ? size : 1);
  if (!bytes)
    return -ENOMEM;
  memcpy(bytes, buffer, size);
  (void)LLVMFuzzerTestOneInput(bytes, size);
  n_inputs++;
  return 0;
}

static int run_folder(const char *path)
{
  DIR *folder = opendir(path);
  const struct dirent *entry;
  int r = 0;

  if (!folder)
    return -errno;
  while (r == 0 && (entry = readdir(folder))) {
    char file[4096];

    if (entry->d_name[0] == '.')
      continue;
    (void)snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
    r = run_file(file);
  }
  (void)closedir(folder);
  return r;
}

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    struct stat status;
    int r = stat(argv[i], &status) < 0 ? -errno : 0;

    if (r == 0)
      r = S_ISDIR(status.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
    if (r < 0) {
      fprintf(stderr, "%s: %s\n", argv[i], strerror(-r));
      return 1;
    }
  }
  printf("%zu inputs\n", n_inputs);
  return n_inputs > 0 ? 0 : 1;
}
