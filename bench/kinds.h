/* SPDX-License-Identifier: MIT */
/* A lock of a kind by its name in the benchmark: "lock", "fair-lock", … */
#ifndef BENCH_KINDS_H
#define BENCH_KINDS_H

#include <lockkeeper.h>

/* Ends the program when there is no such kind, or it cannot be made. */
lk_lock *bench_lock(lk_client *client, const char *kind, const char *name);

#endif
