/* SPDX-License-Identifier: MIT */
/*
 * One thread that keeps many pairs in flight, each an acquire and then a release of a name of its
 * own: pairs a second, how long a pair takes, what it costs. Both sides are run by this one
 * program.
 *
 * usage: PROGRAM URL PAIRS MS
 */
#ifndef BENCH_ASYNC_H
#define BENCH_ASYNC_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_ASYNC_MAX 65536      /* pairs in flight */
#define BENCH_ASYNC_LIMIT_MS 20000 /* without an answer, it is over */

struct bench_async_side {
	/* Makes the names 0 … pairs - 1. */
	void (*start)(const char *url, uint32_t pairs);
	/* Both only start it. */
	void (*acquire)(uint32_t index);
	void (*release)(uint32_t index);
	/* Waits until something is done, and writes whose it is: `most` of them at most. */
	size_t (*take)(uint32_t *indexes_out, size_t most);
	long (*connections)(void);
	void (*stop)(void);
};

int bench_async(int argc, char **argv, const struct bench_async_side *side);

#endif
