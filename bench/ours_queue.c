/* SPDX-License-Identifier: MIT */
/*
 * Many threads of a process wait for a lock of a kind that another client holds, which then lets
 * go: how many commands each hand-over takes.
 *
 * usage: ours-queue URL KIND WAITERS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "kinds.h"

#define NAME "bench:queue"
#define LIMIT_S 60
#define STILL_US 300000 /* who came last has looked again, and listens */

static lk_client *open_client(const char *url)
{
	lk_error error;
	lk_client *client;
	if (lk_client_open(&client, url, &error))
		bench_die("%s", error.message);
	return client;
}

static void take(lk_lock *lock)
{
	lk_error error;
	if (lk_lock_acquire(lock, -1, NULL, &error))
		bench_die("%s", error.message);
}

static void give_back(lk_lock *lock)
{
	lk_error error;
	if (lk_lock_release(lock, NULL, &error))
		bench_die("%s", error.message);
}

static void *waiter_main(void *lock)
{
	take(lock);
	give_back(lock);
	return NULL;
}

static void wait_for_all(lk_client *client, long waiters)
{
	lk_stats stats = {.struct_size = sizeof(stats)};
	int64_t limit_ns = bench_now_ns() + LIMIT_S * INT64_C(1000000000);
	while (lk_client_stats(client, &stats, NULL), (long)stats.waiting < waiters) {
		if (bench_now_ns() > limit_ns)
			bench_die("%ld of %ld wait", (long)stats.waiting, waiters);
		bench_sleep_us(10000);
	}
	bench_sleep_us(STILL_US);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		bench_die("usage: %s URL KIND WAITERS", argv[0]);
	long waiters = bench_number(argv[3], 1, BENCH_THREADS_MAX);
	redisContext *redis = bench_connect(argv[1]);
	lk_client *holder = open_client(argv[1]), *client = open_client(argv[1]);
	lk_lock *held = bench_lock(holder, argv[2], NAME),
		*lock = bench_lock(client, argv[2], NAME);
	pthread_t *ids = calloc((size_t)waiters, sizeof(*ids));
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 * 1024);
	take(held);
	for (long i = 0; i < waiters; i++)
		if (!ids || pthread_create(&ids[i], &attributes, waiter_main, lock))
			bench_die("no thread");
	wait_for_all(client, waiters);

	long scripts = bench_calls(redis);
	int64_t begun_ns = bench_now_ns();
	give_back(held);
	for (long i = 0; i < waiters; i++)
		pthread_join(ids[i], NULL);
	double ms = (double)(bench_now_ns() - begun_ns) / 1e6;
	scripts = bench_calls(redis) - scripts;
	printf("{\"commands_a_handover\": %.3f, \"drain_ms\": %.2f}\n",
	       (double)scripts / (double)waiters, ms);
	lk_client_free(client);
	lk_client_free(holder);
	return 0;
}
