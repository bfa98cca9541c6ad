/* SPDX-License-Identifier: MIT */
#include "handover.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define WARM_ROUNDS 10
#define WAITING_US 2500 /* from the start of a wait until it is surely in place, and up to … */
#define RANDOM_US 1000  /* … this much more, so that no period of the waiter is met */

struct shared {
	sem_t held, waiting, free;
	int64_t released_ns;
};

static void await(sem_t *semaphore)
{
	while (sem_wait(semaphore) < 0)
		if (errno != EINTR)
			bench_die("sem_wait");
}

static void holder(struct shared *shared, const struct bench_handover_side *side, long rounds)
{
	for (long i = 0; i < rounds; i++) {
		side->acquire();
		sem_post(&shared->held);
		await(&shared->waiting);
		bench_sleep_us(WAITING_US + random() % RANDOM_US);
		shared->released_ns = bench_now_ns();
		side->release();
		await(&shared->free);
	}
}

static void waiter(struct shared *shared, const struct bench_handover_side *side, long rounds)
{
	struct bench_samples samples;
	bench_samples_init(&samples, (size_t)rounds);
	for (long i = 0; i < rounds; i++) {
		await(&shared->held);
		sem_post(&shared->waiting);
		side->acquire();
		int64_t granted_ns = bench_now_ns();
		if (granted_ns < shared->released_ns)
			bench_die("granted before it was released");
		if (i >= WARM_ROUNDS)
			bench_samples_add(&samples, granted_ns - shared->released_ns);
		side->release();
		sem_post(&shared->free);
	}
	printf("{\"p50_us\": %.1f, \"p99_us\": %.1f}\n", bench_samples_us(&samples, 0.5),
	       bench_samples_us(&samples, 0.99));
	fflush(stdout);
}

int bench_handover(int argc, char **argv, const struct bench_handover_side *side)
{
	if (argc != 3 && argc != 4)
		bench_die("usage: %s URL ROUNDS [KIND]", argv[0]);
	long rounds = bench_number(argv[2], 1, 100000) + WARM_ROUNDS;
	struct shared *shared = bench_shared(sizeof(*shared));
	sem_init(&shared->held, 1, 0);
	sem_init(&shared->waiting, 1, 0);
	sem_init(&shared->free, 1, 0);
	redisContext *redis = bench_connect(argv[1]);
	freeReplyObject(redisCommand(redis, "DEL " BENCH_HANDOVER_NAME));
	redisFree(redis);
	pid_t child = fork();
	if (child < 0)
		bench_die("no process");
	side->start(argv[1], argc == 4 ? argv[3] : "lock", child == 0);
	if (child == 0) {
		waiter(shared, side, rounds);
		_exit(0);
	}
	holder(shared, side, rounds);
	int status = -1;
	waitpid(child, &status, 0);
	return status != 0;
}
