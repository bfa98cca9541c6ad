/* SPDX-License-Identifier: MIT */
#include "pairs.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define WARM_PAIRS 8000 /* of all threads together */

struct run {
	const struct bench_side *side;
	const char *url, *kind;
	int threads;
	int core; /* -1: any */
	int one_name;
	pthread_barrier_t warm, go;
	int64_t until_ns;
};

struct worker {
	struct run *run;
	int index;
	pthread_t thread;
	size_t pairs;
	struct bench_samples samples;
};

static void stay_on(int core)
{
	cpu_set_t cores;
	CPU_ZERO(&cores);
	CPU_SET(core, &cores);
	if (sched_setaffinity(0, sizeof(cores), &cores))
		bench_die("no core %d", core);
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct run *run = worker->run;
	char name[64];
	snprintf(name, sizeof(name), "bench:%s:%d", run->kind, run->one_name ? 0 : worker->index);
	void *mine = run->side->open(run->url, name);
	run->side->pair(mine);
	if (run->core >= 0)
		stay_on(run->core);
	for (int i = 0; i < WARM_PAIRS / run->threads; i++)
		run->side->pair(mine);
	pthread_barrier_wait(&run->warm);
	pthread_barrier_wait(&run->go);
	int64_t begun_ns = bench_now_ns();
	while (begun_ns < run->until_ns) {
		run->side->pair(mine);
		int64_t now_ns = bench_now_ns();
		bench_samples_add(&worker->samples, now_ns - begun_ns);
		worker->pairs++;
		begun_ns = now_ns;
	}
	return NULL;
}

static struct worker *start_workers(struct run *run)
{
	struct worker *workers = calloc((size_t)run->threads, sizeof(*workers));
	if (!workers)
		bench_die("out of memory");
	pthread_barrier_init(&run->warm, NULL, (unsigned)run->threads + 1);
	pthread_barrier_init(&run->go, NULL, (unsigned)run->threads + 1);
	for (int i = 0; i < run->threads; i++) {
		workers[i] = (struct worker){.run = run, .index = i};
		bench_samples_init(&workers[i].samples,
				   BENCH_SAMPLES_MAX / 2 / (size_t)run->threads);
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]))
			bench_die("no thread");
	}
	return workers;
}

int bench_pairs(int argc, char **argv, const struct bench_side *side)
{
	if (argc < 4)
		bench_die("usage: %s URL THREADS MS [no-wait] [core=N] [kind=KIND] [one-name]",
			  argv[0]);
	struct run run = {.side = side, .url = argv[1], .kind = "lock", .core = -1};
	int no_wait = 0;
	for (int i = 4; i < argc; i++) {
		if (strncmp(argv[i], "core=", 5) == 0)
			run.core = (int)bench_number(argv[i] + 5, 0, 1023);
		else if (strncmp(argv[i], "kind=", 5) == 0)
			run.kind = argv[i] + 5;
		else if (strcmp(argv[i], "one-name") == 0)
			run.one_name = 1;
		else if (strcmp(argv[i], "no-wait") == 0)
			no_wait = 1;
		else
			bench_die("unknown: %s", argv[i]);
	}
	run.threads = (int)bench_number(argv[2], 1, BENCH_THREADS_MAX);
	int64_t length_ns = bench_number(argv[3], 10, 600000) * INT64_C(1000000);
	side->start(run.url, no_wait, run.kind);
	struct worker *workers = start_workers(&run);

	pthread_barrier_wait(&run.warm);
	int64_t begun_ns = bench_now_ns();
	double cpu_us = bench_cpu_us();
	long switches = bench_switches();
	run.until_ns = begun_ns + length_ns;
	pthread_barrier_wait(&run.go);
	struct bench_samples all;
	size_t pairs = 0;
	for (int i = 0; i < run.threads; i++)
		pthread_join(workers[i].thread, NULL);
	double seconds = (double)(bench_now_ns() - begun_ns) / 1e9;
	cpu_us = bench_cpu_us() - cpu_us;
	switches = bench_switches() - switches;
	long connections = side->connections();
	side->stop();

	bench_samples_init(&all, BENCH_SAMPLES_MAX);
	for (int i = 0; i < run.threads; i++) {
		pairs += workers[i].pairs;
		bench_samples_merge(&all, &workers[i].samples);
	}
	printf("{\"pairs_s\": %.1f, \"p50_us\": %.2f, \"p99_us\": %.2f, \"cpu_us\": %.3f, "
	       "\"switches\": %.3f, \"connections\": %ld}\n",
	       (double)pairs / seconds, bench_samples_us(&all, 0.5), bench_samples_us(&all, 0.99),
	       cpu_us / (double)pairs, (double)switches / (double)pairs, connections);
	return 0;
}
