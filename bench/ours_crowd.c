/* SPDX-License-Identifier: MIT */
/*
 * Many threads of one process wait for a lock that another holds: what the waiting costs, and how
 * many commands the hand-overs take once it is free.
 *
 * usage: ours-crowd URL THREADS MS
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "common.h"

#define NAME "bench:crowd"
#define OWNER "0a7e5d1c-2222-4222-8333-000000000001:1"
#define LIMIT_S 60

static lk_lock *lock;
static _Atomic long grants;

static void *waiter_main(void *argument)
{
	(void)argument;
	lk_error error;
	if (lk_lock_acquire(lock, -1, NULL, &error))
		bench_die("%s", error.message);
	atomic_fetch_add(&grants, 1);
	if (lk_lock_release(lock, NULL, &error))
		bench_die("%s", error.message);
	return NULL;
}

static long subscribers(redisContext *redis)
{
	char channel[96];
	bench_channel(channel, sizeof(channel), NAME);
	redisReply *reply = redisCommand(redis, "PUBSUB NUMSUB %s", channel);
	if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
		bench_die("no NUMSUB");
	long count = reply->element[1]->integer;
	freeReplyObject(reply);
	return count;
}

static void wait_for_crowd(lk_client *client, redisContext *redis, long threads)
{
	lk_stats stats = {.struct_size = sizeof(stats)};
	int64_t limit_ns = bench_now_ns() + LIMIT_S * INT64_C(1000000000);
	do {
		if (bench_now_ns() > limit_ns)
			bench_die("%ld of %ld wait", (long)stats.waiting, threads);
		bench_sleep_us(10000);
		lk_client_stats(client, &stats, NULL);
	} while ((long)stats.waiting < threads || subscribers(redis) < 1);
}

/* The long wait: who runs, who asks? */
static void measure_idle(redisContext *redis, long threads, long length_ms)
{
	long commands = bench_info(redis, "total_commands_processed");
	double cpu_us = bench_cpu_us();
	bench_sleep_us(length_ms * 1000);
	cpu_us = bench_cpu_us() - cpu_us;
	commands = bench_info(redis, "total_commands_processed") - commands - 1;
	printf("{\"cpu_ms_s\": %.3f, \"commands_s\": %.2f, \"subscriptions\": %ld, "
	       "\"heap_bytes_a_waiter\": %ld",
	       cpu_us / (double)length_ms, (double)commands * 1000 / (double)length_ms,
	       subscribers(redis), (long)mallinfo2().uordblks / threads);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		bench_die("usage: %s URL THREADS MS", argv[0]);
	long threads = bench_number(argv[2], 1, BENCH_THREADS_MAX);
	long length_ms = bench_number(argv[3], 10, 600000);
	char channel[96];
	int acquire_size, release_size;
	redisContext *redis = bench_connect(argv[1]);
	bench_channel(channel, sizeof(channel), NAME);
	freeReplyObject(redisCommand(redis, "DEL " NAME));
	char *acquire = bench_script(redis, LK__SCRIPT_LOCK_ACQUIRE, NAME, 3,
				     (const char *[]){OWNER, "600000", BENCH_NO_DEADLINE},
				     &acquire_size);
	char *release = bench_script(redis, LK__SCRIPT_LOCK_RELEASE, NAME, 2,
				     (const char *[]){OWNER, channel}, &release_size);
	freeReplyObject(bench_send(redis, acquire, acquire_size));

	lk_client *client;
	lk_error error;
	pthread_t *ids = calloc((size_t)threads, sizeof(*ids));
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 * 1024);
	if (!ids || lk_client_open(&client, argv[1], &error) ||
	    lk_lock_new(&lock, client, NAME, strlen(NAME), &error))
		bench_die("%s", error.message);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&ids[i], &attributes, waiter_main, NULL))
			bench_die("no thread");
	wait_for_crowd(client, redis, threads);
	measure_idle(redis, threads, length_ms);

	long commands = bench_info(redis, "total_commands_processed");
	int64_t begun_ns = bench_now_ns();
	freeReplyObject(bench_send(redis, release, release_size));
	for (long i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	double seconds = (double)(bench_now_ns() - begun_ns) / 1e9;
	/* Without the first INFO and the release, which is none of theirs. */
	commands = bench_info(redis, "total_commands_processed") - commands - 2;
	printf(", \"grants\": %ld, \"drain_ms\": %.2f, \"commands_a_handover\": %.4f}\n",
	       atomic_load(&grants), seconds * 1e3, (double)commands / (double)threads);
	if (lk_client_close(client, LK_CLOSE_IF_IDLE, &error))
		bench_die("%s", error.message);
	return 0;
}
