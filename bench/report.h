#ifndef DLPACKD_BENCH_REPORT_H
#define DLPACKD_BENCH_REPORT_H

/* Rows and bars together: a table for people, JSON for programs. */

#include <stdbool.h>
#include <stdio.h>

#include "harness.h"

/* A bar that failed to be measured does not hold. */
void bench_report_text(const struct bench_rows *rows, FILE *file);
void bench_report_json(const struct bench_rows *rows, FILE *file);

#endif
