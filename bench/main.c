/*
 * dlp_bench: what dlpackd costs, beside what the least that does the same costs.
 *
 * Exit status: 0 measured, whether the bars hold or not; 1 something could not be
 * measured; 2 it was asked wrongly.
 */

#include <errno.h>
#include <fnmatch.h>
#include <ftw.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bars.h"
#include "measurements.h"
#include "process.h"
#include "report.h"

enum {
  EXIT_USAGE = 2,
};

struct measurement {
  const char *name;
  const char *about;
  void (*run)(const struct bench_options *options);
};

static const struct measurement measurements[] = {
#define X(name, about) {#name, about, bench_##name},
    BENCH_MEASUREMENTS(X)
#undef X
};

struct arguments {
  struct bench_options options;
  const char *json;
  const char *only;
};

/* ---- arguments ---- */

static void print_usage(FILE *file)
{
  (void)fprintf(file, "usage: dlp_bench [--daemon PROGRAM] [--json FILE] [--only PATTERN] "
                      "[--quick]\nMeasures dlpackd beside the least that does the same.\n\n"
                      "PATTERN is a glob over these:\n");
  for (size_t i = 0; i < sizeof(measurements) / sizeof(*measurements); i++)
    (void)fprintf(file, "  %-13s %s\n", measurements[i].name, measurements[i].about);
}

static bool is_wanted(const struct arguments *arguments, const struct measurement *measurement)
{
  return !arguments->only || fnmatch(arguments->only, measurement->name, 0) == 0;
}

static int check_wanted(const struct arguments *arguments)
{
  for (size_t i = 0; i < sizeof(measurements) / sizeof(*measurements); i++)
    if (is_wanted(arguments, &measurements[i]))
      return 0;
  (void)fprintf(stderr, "dlp_bench: no measurement is called '%s'\n", arguments->only);
  print_usage(stderr);
  return EXIT_USAGE;
}

static int read_arguments(struct arguments *arguments, int argc, char **argv)
{
  static const struct option options[] = {
      {"daemon", required_argument, NULL, 'd'}, {"json", required_argument, NULL, 'j'},
      {"only", required_argument, NULL, 'o'},   {"quick", no_argument, NULL, 'q'},
      {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
  };
  int c;

  *arguments = (struct arguments){.options.daemon_program = DLP_BENCH_DAEMON};
  while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
    switch (c) {
    case 'd':
      arguments->options.daemon_program = optarg;
      break;
    case 'j':
      arguments->json = optarg;
      break;
    case 'o':
      arguments->only = optarg;
      break;
    case 'q':
      arguments->options.is_quick = true;
      break;
    case 'h':
      print_usage(stdout);
      exit(EXIT_SUCCESS);
    default:
      print_usage(stderr);
      return EXIT_USAGE;
    }
  }
  if (optind == argc)
    return check_wanted(arguments);
  print_usage(stderr);
  return EXIT_USAGE;
}

/* ---- running ---- */

/* What should have been measured and was not: its bars do not hold. */
static void add_failed_rows(const char *measurement, struct bench_rows *rows)
{
  const struct bench_bar *bar;
  size_t size = strlen(measurement);

  for (size_t i = 0; (bar = bench_bar_at(i)); i++) {
    struct bench_row row;
    bool is_there = false;

    if (strncmp(bar->row, measurement, size) != 0 || bar->row[size] != '.')
      continue;
    for (size_t j = 0; j < rows->n; j++)
      is_there = is_there || strcmp(rows->rows[j].name, bar->row) == 0;
    if (is_there)
      continue;
    bench_row_init(&row, bar->row, bar->row, BENCH_COUNT);
    row.failed = true;
    bench_row_add(&row);
  }
}

static bool run_measurement(const struct measurement *measurement,
                            const struct bench_options *options, struct bench_rows *rows)
{
  int status = 0;
  uint64_t start = bench_now();
  pid_t pid = fork();

  if (pid == 0) {
    measurement->run(options);
    exit(EXIT_SUCCESS);
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid)
    status = 1;
  if (isatty(STDERR_FILENO))
    (void)fprintf(stderr, "%-12s %5.1f s\n", measurement->name,
                  (double)(bench_now() - start) / 1e9);
  if (status == 0)
    return true;
  (void)fprintf(stderr, "dlp_bench: %s could not be measured\n", measurement->name);
  add_failed_rows(measurement->name, rows);
  return false;
}

static bool run_all(const struct arguments *arguments, struct bench_rows *rows)
{
  bool all_right = true;

  for (size_t i = 0; i < sizeof(measurements) / sizeof(*measurements); i++) {
    if (!is_wanted(arguments, &measurements[i]))
      continue;
    all_right = run_measurement(&measurements[i], &arguments->options, rows) && all_right;
  }
  return all_right;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
  return remove(path);
}

/* What a measurement that failed left in it goes too. */
static bool run_in_folder(struct arguments *arguments, struct bench_rows *rows)
{
  char folder[] = "/tmp/dlp-bench-XXXXXX";
  bool all_right;

  bench_check(mkdtemp(folder), "a folder below /tmp");
  arguments->options.folder = folder;
  all_right = run_all(arguments, rows);
  (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  return all_right;
}

static bool write_json(const struct bench_rows *rows, const char *path)
{
  FILE *file = fopen(path, "we");
  bool is_written;

  if (!file) {
    (void)fprintf(stderr, "dlp_bench: %s: %s\n", path, strerror(errno));
    return false;
  }
  bench_report_json(rows, file);
  is_written = !ferror(file);
  if (fclose(file) == 0 && is_written)
    return true;
  (void)fprintf(stderr, "dlp_bench: %s: not written\n", path);
  return false;
}

int main(int argc, char **argv)
{
  struct arguments arguments;
  struct bench_rows *rows;
  bool all_right;
  int r = read_arguments(&arguments, argc, argv);

  if (r != 0)
    return r;
  (void)bench_n_cores(); /* before anything is pinned */
  rows = bench_rows_open();
  all_right = run_in_folder(&arguments, rows);
  bench_report_text(rows, stdout);
  if (arguments.json)
    all_right = write_json(rows, arguments.json) && all_right;
  return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
