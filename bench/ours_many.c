/* SPDX-License-Identifier: MIT */
/*
 * Many locks held by one client for a time: all must be alive at the end. Bytes a lock, what the
 * renewals cost, and how evenly they come.
 *
 * A holder is a thread that takes its part, and gives it back at the end: a thread that ended
 * earlier would abandon its locks.
 *
 * usage: ours-many URL LOCKS MS HOLDERS
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "common.h"

#define HOLDERS_MAX 256
#define STEP_MS 100  /* renewals are counted in steps of this length */
#define AT_ONCE 1000 /* questions to the server before their answers are read */

static const char *url;
static lk_client *client;
static lk_lock **locks;
static long count, holders;
static _Atomic long alive;
static pthread_barrier_t taken, over, counted;

static lk_lock *take(long index)
{
	char name[32];
	lk_lock *lock;
	lk_error error;
	int size = snprintf(name, sizeof(name), "bench:many:%ld", index);
	if (lk_lock_new(&lock, client, name, (size_t)size, &error) ||
	    lk_lock_acquire(lock, -1, NULL, &error))
		bench_die("%s", error.message);
	return lock;
}

static long count_yes(redisContext *redis, long asked)
{
	long yes = 0;
	for (; asked > 0; asked--) {
		void *answer = NULL;
		if (redisGetReply(redis, &answer) != REDIS_OK)
			bench_die("connection lost: %s", redis->errstr);
		const redisReply *reply = answer;
		yes += reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
		freeReplyObject(answer);
	}
	return yes;
}

/* How many of a holder's locks both the client and the server call its own. */
static long count_alive(long first)
{
	redisContext *redis = bench_connect(url);
	long asked = 0, yes = 0;
	for (long i = first; i < count; i += holders) {
		char field[LK_FIELD_SIZE];
		if (!lk_lock_is_held(locks[i], NULL, NULL) ||
		    lk_lock_export(locks[i], NULL, field, sizeof(field), NULL))
			continue;
		redisAppendCommand(redis, "HEXISTS bench:many:%ld %s", i, field);
		if (++asked == AT_ONCE) {
			yes += count_yes(redis, asked);
			asked = 0;
		}
	}
	yes += count_yes(redis, asked);
	redisFree(redis);
	return yes;
}

static void *hold(void *argument)
{
	long first = (long)(intptr_t)argument;
	for (long i = first; i < count; i += holders)
		locks[i] = take(i);
	pthread_barrier_wait(&taken);
	pthread_barrier_wait(&over);
	atomic_fetch_add(&alive, count_alive(first));
	pthread_barrier_wait(&counted);
	for (long i = first; i < count; i += holders) {
		lk_lock_release(locks[i], NULL, NULL); /* what fails now fails no figure */
		lk_lock_free(locks[i]);
	}
	return NULL;
}

/* ---- the time in which they are held ---- */

struct held {
	double renewals_s;
	double burst; /* the most in one step, as a multiple of the mean */
	double cpu_ms_s, server_cpu_ms_s;
};

static uint64_t renewals(void)
{
	lk_stats stats = {.struct_size = sizeof(stats)};
	lk_client_stats(client, &stats, NULL);
	return stats.renewals;
}

/* What the server has used; INFO gives seconds. */
static double server_cpu_ms(redisContext *redis)
{
	double used_s = 0;
	redisReply *reply = redisCommand(redis, "INFO cpu");
	const char *user = reply && reply->str ? strstr(reply->str, "used_cpu_user:") : NULL;
	const char *system = reply && reply->str ? strstr(reply->str, "used_cpu_sys:") : NULL;
	if (!user || !system)
		bench_die("no INFO cpu");
	used_s = strtod(user + strlen("used_cpu_user:"), NULL) +
		 strtod(system + strlen("used_cpu_sys:"), NULL);
	freeReplyObject(reply);
	return used_s * 1e3;
}

static struct held look_on(long length_ms)
{
	redisContext *redis = bench_connect(url);
	double server_ms = server_cpu_ms(redis);
	int64_t begun_ns = bench_now_ns(), step_ns = begun_ns, end_ns = begun_ns;
	uint64_t first = renewals(), last = first;
	double cpu_us = bench_cpu_us(), most_s = 0;
	while (end_ns - begun_ns < length_ms * INT64_C(1000000)) {
		bench_sleep_us((length_ms < STEP_MS ? length_ms : STEP_MS) * 1000);
		end_ns = bench_now_ns();
		uint64_t now = renewals();
		double step_s = (double)(now - last) * 1e9 / (double)(end_ns - step_ns);
		if (step_s > most_s)
			most_s = step_s;
		last = now;
		step_ns = end_ns;
	}
	double length_s = (double)(end_ns - begun_ns) / 1e9;
	double mean_s = (double)(last - first) / length_s;
	struct held held = {mean_s, mean_s > 0 ? most_s / mean_s : 0,
			    (bench_cpu_us() - cpu_us) / 1e3 / length_s,
			    (server_cpu_ms(redis) - server_ms) / length_s};
	redisFree(redis);
	return held;
}

static void start(pthread_t *threads)
{
	if (pthread_barrier_init(&taken, NULL, (unsigned)holders + 1) ||
	    pthread_barrier_init(&over, NULL, (unsigned)holders + 1) ||
	    pthread_barrier_init(&counted, NULL, (unsigned)holders + 1))
		bench_die("no barrier");
	for (long i = 0; i < holders; i++)
		if (pthread_create(&threads[i], NULL, hold, (void *)(intptr_t)i))
			bench_die("no thread");
}

int main(int argc, char **argv)
{
	if (argc != 5)
		bench_die("usage: %s URL LOCKS MS HOLDERS", argv[0]);
	count = bench_number(argv[2], 1, 10000000);
	long length_ms = bench_number(argv[3], 10, 3600000);
	holders = bench_number(argv[4], 1, HOLDERS_MAX);
	pthread_t threads[HOLDERS_MAX];
	lk_error error;
	lk_stats stats = {.struct_size = sizeof(stats)};
	url = argv[1];
	locks = calloc((size_t)count, sizeof(*locks));
	if (!locks || lk_client_open(&client, url, &error))
		bench_die("%s", locks ? error.message : "out of memory");

	long heap = bench_heap_bytes(), resident = bench_resident_bytes();
	int64_t begun_ns = bench_now_ns();
	start(threads);
	pthread_barrier_wait(&taken);
	double taking_s = (double)(bench_now_ns() - begun_ns) / 1e9;
	struct held held = look_on(length_ms);
	heap = bench_heap_bytes() - heap;
	resident = bench_resident_bytes() - resident;
	lk_client_stats(client, &stats, NULL);
	pthread_barrier_wait(&over);
	pthread_barrier_wait(&counted);
	printf("{\"locks\": %ld, \"alive_share\": %.6f, \"lost\": %ld, \"heap_bytes_a_lock\": %ld, "
	       "\"resident_bytes_a_lock\": %ld, \"renewals_s\": %.1f, \"burst\": %.2f, "
	       "\"cpu_ms_s\": %.3f, \"server_cpu_ms_s\": %.3f, \"taking_s\": %.2f}\n",
	       count, (double)alive / (double)count, (long)stats.lost, heap / count,
	       resident / count, held.renewals_s, held.burst, held.cpu_ms_s, held.server_cpu_ms_s,
	       taking_s);
	fflush(stdout);
	for (long i = 0; i < holders; i++)
		pthread_join(threads[i], NULL);
	lk_client_close(client, LK_CLOSE_RELEASE, NULL);
	return 0;
}
