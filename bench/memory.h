#ifndef DLPACKD_BENCH_MEMORY_H
#define DLPACKD_BENCH_MEMORY_H

/* Memory without a broker: what the floors copy to and map. */

#include <stddef.h>
#include <stdint.h>

int bench_memfd(size_t size);                    /* no page of it is there yet */
uint8_t *bench_map(int fd, size_t size);         /* shared and writable */
uint8_t *bench_warm(size_t size);                /* private memory whose pages are there */
uint8_t *bench_warm_shared(int fd, size_t size); /* as bench_map(), and all pages are there */

#endif
