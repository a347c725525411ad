#include "support/fds.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A count that cannot be taken must not pass for one that did not change. */
static void require(int condition, const char *what)
{
  if (condition)
    return;
  perror(what);
  abort();
}

size_t test_count_fds(void)
{
  DIR *directory = opendir("/proc/self/fd");
  struct dirent *entry;
  size_t n = 0;

  require(directory != NULL, "/proc/self/fd");
  while ((entry = readdir(directory)))
    n += entry->d_name[0] != '.';
  closedir(directory);
  return n - 1;
}

size_t test_count_maps_of(const char *text)
{
  FILE *maps = fopen("/proc/self/maps", "re");
  char *line = NULL;
  size_t line_size = 0, n = 0;

  require(maps != NULL, "/proc/self/maps");
  while (getline(&line, &line_size, maps) >= 0)
    n += strstr(line, text) != NULL;
  free(line);
  (void)fclose(maps);
  return n;
}

size_t test_count_maps(void)
{
  return test_count_maps_of("");
}
