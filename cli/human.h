#ifndef DLPACKD_CLI_HUMAN_H
#define DLPACKD_CLI_HUMAN_H

/* Quantities for people. Pure but for the names of users and the time zone. */

#include <stdint.h>

#include "text.h"

void human_size(struct text *text, uint64_t bytes); /* "512 B", "1.5 KiB", "12.0 GiB" */
void human_age(struct text *text, uint64_t age_ms); /* "3s", "5m", "2h", "4d" */
void human_dims(struct text *text, int32_t ndim, const int64_t *dims); /* "[2,3]" */
void human_time(struct text *text, uint64_t us);   /* "2025-01-31 23:59:59.123456 +0100" */
void human_mode(struct text *text, uint32_t mode); /* "rw-r-----" */
void human_user(struct text *text, uint32_t uid);  /* its name, escaped, or the number */
void human_group(struct text *text, uint32_t gid);
void human_device(struct text *text, int32_t device_type); /* "cpu", "cuda", "device 99" */

#endif
