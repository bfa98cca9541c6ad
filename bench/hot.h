/* SPDX-License-Identifier: MIT */
/*
 * Threads of one process that pass one lock around, held for no time: grants a second, and the
 * fewest and most of a thread, counted once every thread stands in line.
 *
 * usage: PROGRAM URL THREADS MS
 */
#ifndef BENCH_HOT_H
#define BENCH_HOT_H

#include <stdbool.h>

struct bench_hot_side {
	void (*start)(const char *url, int threads);
	void *(*open)(const char *url, int index, int threads);
	/* Takes the lock, calls `granted` while it is held, gives it up. */
	void (*turn)(void *worker, void (*granted)(void *), void *context);
};

int bench_hot(int argc, char **argv, const struct bench_hot_side *side);

#endif
