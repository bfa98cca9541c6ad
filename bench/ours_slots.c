/* SPDX-License-Identifier: MIT */
/*
 * From a lock's name to its slot in a cluster: the median of rounds. No server is asked.
 *
 * usage: ours-slots ROUNDS
 */
#include <stdint.h>
#include <stdio.h>

#include "common.h"
#include "topo/topo.h"

#define NAMES 1000
#define SHORT 20 /* bytes, as of "orders:customer-1234" */
#define LONG 100

static double slot_ns(size_t size, long rounds)
{
	static char names[NAMES][LONG + 1];
	struct bench_samples samples;
	bench_samples_init(&samples, (size_t)rounds);
	for (int i = 0; i < NAMES; i++)
		snprintf(names[i], sizeof(names[i]), "%0*d", (int)size, i);
	for (long round = 0; round < rounds; round++) {
		int64_t begun_ns = bench_now_ns();
		for (int i = 0; i < NAMES; i++)
			if (lk__slot_of(names[i], size) >= LK__SLOTS)
				bench_die("there is no such slot");
		bench_samples_add(&samples, bench_now_ns() - begun_ns);
	}
	return bench_samples_us(&samples, 0.5) * 1e3 / NAMES;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		bench_die("usage: %s ROUNDS", argv[0]);
	long rounds = bench_number(argv[1], 1, 100000);
	printf("{\"short_ns\": %.1f, \"long_ns\": %.1f}\n", slot_ns(SHORT, rounds),
	       slot_ns(LONG, rounds));
	return 0;
}
