/* SPDX-License-Identifier: MIT */
#include "async.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

#define WARM_PAIRS 20000 /* at least two of each name */
#define MOST_AT_ONCE 256

struct pair {
	int64_t begun_ns;
	bool held;
};

struct run {
	const struct bench_async_side *side;
	uint32_t count;
	struct pair *pairs;
	struct bench_samples samples;
	uint64_t answers; /* two a pair */
	uint64_t done;    /* whole pairs */
	uint32_t in_flight;
	bool ending; /* begins no more */
};

static void begin(struct run *run, uint32_t index, int64_t now_ns)
{
	run->pairs[index] = (struct pair){.begun_ns = now_ns};
	run->in_flight++;
	run->side->acquire(index);
}

static void go_on(struct run *run, uint32_t index, int64_t now_ns)
{
	struct pair *pair = &run->pairs[index];
	run->answers++;
	if (!pair->held) {
		pair->held = true;
		run->side->release(index);
		return;
	}
	bench_samples_add(&run->samples, now_ns - pair->begun_ns);
	run->done++;
	run->in_flight--;
	if (!run->ending)
		begin(run, index, now_ns);
}

static int64_t turn(struct run *run)
{
	uint32_t indexes[MOST_AT_ONCE];
	size_t count = run->side->take(indexes, MOST_AT_ONCE);
	int64_t now_ns = bench_now_ns();
	for (size_t i = 0; i < count; i++)
		go_on(run, indexes[i], now_ns);
	return now_ns;
}

static void warm_up(struct run *run)
{
	uint64_t enough = run->count > WARM_PAIRS / 2 ? 2 * run->count : WARM_PAIRS;
	for (uint32_t i = 0; i < run->count; i++)
		begin(run, i, bench_now_ns());
	while (run->done < enough)
		turn(run);
	run->answers = run->done = 0;
	run->samples.count = 0;
}

/* For a time, and until there is a pair to show for each name. */
static void measure(struct run *run, int64_t length_ns, double *seconds_out, double *cpu_us_out,
		    long *switches_out)
{
	int64_t begun_ns = bench_now_ns(), now_ns = begun_ns;
	double cpu_us = bench_cpu_us();
	long switches = bench_switches();
	while (now_ns - begun_ns < length_ns || run->done < run->count)
		now_ns = turn(run);
	*cpu_us_out = bench_cpu_us() - cpu_us;
	*switches_out = bench_switches() - switches;
	*seconds_out = (double)(now_ns - begun_ns) / 1e9;
}

int bench_async(int argc, char **argv, const struct bench_async_side *side)
{
	if (argc != 4)
		bench_die("usage: %s URL PAIRS MS", argv[0]);
	struct run run = {.side = side};
	run.count = (uint32_t)bench_number(argv[2], 1, BENCH_ASYNC_MAX);
	int64_t length_ns = bench_number(argv[3], 10, 60000) * INT64_C(1000000);
	run.pairs = calloc(run.count, sizeof(*run.pairs));
	if (!run.pairs)
		bench_die("out of memory");
	bench_samples_init(&run.samples, BENCH_SAMPLES_MAX);
	side->start(argv[1], run.count);
	warm_up(&run);

	double seconds, cpu_us;
	long switches;
	measure(&run, length_ns, &seconds, &cpu_us, &switches);
	double pairs = (double)run.answers / 2;
	long connections = side->connections();
	run.ending = true;
	while (run.in_flight)
		turn(&run);
	side->stop();
	printf("{\"pairs_s\": %.1f, \"p50_us\": %.2f, \"p99_us\": %.2f, \"cpu_us\": %.3f, "
	       "\"switches\": %.3f, \"connections\": %ld}\n",
	       pairs / seconds, bench_samples_us(&run.samples, 0.5),
	       bench_samples_us(&run.samples, 0.99), cpu_us / pairs, (double)switches / pairs,
	       connections);
	free(run.pairs);
	return 0;
}
