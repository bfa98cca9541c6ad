/* SPDX-License-Identifier: MIT */
/*
 * A process releases, another that waits is granted: the time from before the release to after
 * the grant, on a machine that does nothing else.
 *
 * usage: PROGRAM URL ROUNDS [KIND]
 */
#ifndef BENCH_HANDOVER_H
#define BENCH_HANDOVER_H

#define BENCH_HANDOVER_NAME "bench:handover"

struct bench_handover_side {
	/* In each process; the one that waits is told so. */
	void (*start)(const char *url, const char *kind, int waits);
	void (*acquire)(void); /* waits for as long as it takes */
	void (*release)(void);
};

int bench_handover(int argc, char **argv, const struct bench_handover_side *side);

#endif
