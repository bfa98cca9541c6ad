/* SPDX-License-Identifier: MIT */
#include "hot.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

#define LINE_LIMIT_S 20

struct run {
	const struct bench_hot_side *side;
	const char *url;
	int threads;
	_Atomic bool stop;
	_Atomic int inside;
	pthread_barrier_t open;
};

struct worker {
	struct run *run;
	int index;
	pthread_t thread;
	_Atomic long grants;
	long before;
};

static void granted(void *context)
{
	struct worker *worker = context;
	if (atomic_fetch_add(&worker->run->inside, 1) != 0)
		bench_die("two holders");
	atomic_fetch_add_explicit(&worker->grants, 1, memory_order_relaxed);
	atomic_fetch_sub(&worker->run->inside, 1);
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct run *run = worker->run;
	void *mine = run->side->open(run->url, worker->index, run->threads);
	pthread_barrier_wait(&run->open);
	while (!atomic_load_explicit(&run->stop, memory_order_relaxed))
		run->side->turn(mine, granted, worker);
	return NULL;
}

static void wait_for_line(struct worker *workers, int threads)
{
	int64_t limit_ns = bench_now_ns() + LINE_LIMIT_S * INT64_C(1000000000);
	for (int i = 0; i < threads; i++)
		while (!atomic_load(&workers[i].grants)) {
			if (bench_now_ns() > limit_ns)
				bench_die("thread %d had no grant in %d s", i, LINE_LIMIT_S);
			bench_sleep_us(1000);
		}
}

static long counted(struct worker *workers, int threads, long *fewest, long *most)
{
	long sum = 0;
	*fewest = LONG_MAX;
	*most = 0;
	for (int i = 0; i < threads; i++) {
		long grants = atomic_load(&workers[i].grants) - workers[i].before;
		*fewest = grants < *fewest ? grants : *fewest;
		*most = grants > *most ? grants : *most;
		sum += grants;
	}
	return sum;
}

int bench_hot(int argc, char **argv, const struct bench_hot_side *side)
{
	if (argc != 4)
		bench_die("usage: %s URL THREADS MS", argv[0]);
	struct run run = {.side = side, .url = argv[1]};
	run.threads = (int)bench_number(argv[2], 2, BENCH_THREADS_MAX);
	long length_ms = bench_number(argv[3], 10, 600000);
	side->start(run.url, run.threads);
	pthread_barrier_init(&run.open, NULL, (unsigned)run.threads);
	struct worker *workers = calloc((size_t)run.threads, sizeof(*workers));
	if (!workers)
		bench_die("out of memory");
	for (int i = 0; i < run.threads; i++) {
		workers[i].run = &run;
		workers[i].index = i;
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]))
			bench_die("no thread");
	}
	wait_for_line(workers, run.threads);

	double cpu_us = bench_cpu_us();
	int64_t begun_ns = bench_now_ns();
	for (int i = 0; i < run.threads; i++)
		workers[i].before = atomic_load(&workers[i].grants);
	bench_sleep_us(length_ms * 1000);
	long fewest, most, grants = counted(workers, run.threads, &fewest, &most);
	double seconds = (double)(bench_now_ns() - begun_ns) / 1e9;
	cpu_us = bench_cpu_us() - cpu_us;
	printf("{\"grants_s\": %.1f, \"fewest\": %ld, \"most\": %ld, \"spread\": %.4f, "
	       "\"cpu_us\": %.3f}\n",
	       (double)grants / seconds, fewest, most,
	       (double)(most - fewest) * run.threads / (double)grants, cpu_us / (double)grants);
	atomic_store(&run.stop, true);
	for (int i = 0; i < run.threads; i++)
		pthread_join(workers[i].thread, NULL);
	return 0;
}
