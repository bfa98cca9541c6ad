/* SPDX-License-Identifier: MIT */
/*
 * Threads that acquire and release, each its own name, for a time: pairs a second, what a pair
 * takes, what it costs. Both sides are run by this one program.
 *
 * usage: PROGRAM URL THREADS MS [no-wait] [core=N] [kind=lock] [one-name]
 *
 * one-name: all of them take the same one, which must be a kind that can be shared.
 *
 * With core=N the threads run on that core, from when they are connected; the caller of the program
 * keeps the server on another.
 */
#ifndef BENCH_PAIRS_H
#define BENCH_PAIRS_H

struct bench_side {
	/* Once, then once a thread, then once a pair. */
	void (*start)(const char *url, int no_wait, const char *kind);
	void *(*open)(const char *url, const char *name);
	void (*pair)(void *worker);
	long (*connections)(void);
	void (*stop)(void);
};

int bench_pairs(int argc, char **argv, const struct bench_side *side);

#endif
