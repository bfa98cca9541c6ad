/* SPDX-License-Identifier: MIT */
/*
 * Many locks held by one client for a time: all must be alive at the end. Bytes a lock, and what
 * the renewals cost.
 *
 * usage: ours-many URL LOCKS MS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "common.h"

static lk_lock *take(lk_client *client, long index)
{
	char name[32];
	lk_lock *lock;
	lk_error error;
	int size = snprintf(name, sizeof(name), "bench:many:%ld", index);
	if (lk_lock_new(&lock, client, name, (size_t)size, &error) ||
	    lk_lock_acquire(lock, NULL, &error))
		bench_die("%s", error.message);
	return lock;
}

/* What both the client and the server say of them. */
static long count_alive(redisContext *redis, lk_lock **locks, long count)
{
	long alive = 0;
	for (long i = 0; i < count; i++) {
		char field[LK_FIELD_SIZE];
		if (lk_lock_is_held(locks[i], NULL, NULL) != 1 ||
		    lk_lock_export(locks[i], NULL, field, sizeof(field), NULL))
			continue;
		redisReply *reply = redisCommand(redis, "HEXISTS bench:many:%ld %s", i, field);
		alive += reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
		freeReplyObject(reply);
	}
	return alive;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		bench_die("usage: %s URL LOCKS MS", argv[0]);
	long count = bench_number(argv[2], 1, 10000000);
	long length_ms = bench_number(argv[3], 10, 3600000);
	lk_client *client;
	lk_error error;
	lk_stats stats = {.struct_size = sizeof(stats)};
	redisContext *redis = bench_connect(argv[1]);
	lk_lock **locks = calloc((size_t)count, sizeof(*locks));
	if (!locks || lk_client_open(&client, argv[1], &error))
		bench_die("%s", locks ? error.message : "out of memory");

	long heap = bench_heap_bytes(), resident = bench_resident_bytes();
	int64_t begun_ns = bench_now_ns();
	for (long i = 0; i < count; i++)
		locks[i] = take(client, i);
	double taking_s = (double)(bench_now_ns() - begun_ns) / 1e9;
	heap = bench_heap_bytes() - heap;
	resident = bench_resident_bytes() - resident;

	lk_client_stats(client, &stats, NULL);
	uint64_t renewals = stats.renewals;
	double cpu_us = bench_cpu_us();
	bench_sleep_us(length_ms * 1000);
	cpu_us = bench_cpu_us() - cpu_us;
	lk_client_stats(client, &stats, NULL);
	printf("{\"locks\": %ld, \"alive_share\": %.6f, \"lost\": %ld, \"heap_bytes_a_lock\": %ld, "
	       "\"resident_bytes_a_lock\": %ld, \"renewals_s\": %.1f, \"cpu_ms_s\": %.3f, "
	       "\"taking_s\": %.2f}\n",
	       count, (double)count_alive(redis, locks, count) / (double)count, (long)stats.lost,
	       heap / count, resident / count,
	       (double)(stats.renewals - renewals) * 1000 / (double)length_ms,
	       cpu_us / (double)length_ms, taking_s);
	for (long i = 0; i < count; i++)
		if (lk_lock_release(locks[i], NULL, &error))
			bench_die("%s", error.message);
	return lk_client_close(client, LK_CLOSE_IF_IDLE, &error) ? 1 : 0;
}
