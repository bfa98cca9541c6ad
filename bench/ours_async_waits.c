/* SPDX-License-Identifier: MIT */
/*
 * Many waits through one queue, each for a lock of its own that another client holds: what the
 * waiting costs the server, the processor and the memory. Then all are cancelled.
 *
 * usage: ours-async-waits URL WAITS MS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "common.h"

#define OWNER "0a7e5d1c-2222-4222-8333-000000000001:1"
#define HOLD_S 120
#define LEASE "120000"
#define SECOND_NS INT64_C(1000000000)
#define LIMIT_S 60       /* until all listen; and for the end */
#define STILL_US 500000  /* so long without a command: who came last has looked again */
#define STILL_LIMIT_S 20 /* after that it counts what there is */
#define MOST_AT_ONCE 256

struct wait {
	lk_lock *lock;
	uint64_t id;
};

static lk_client *client;
static lk_queue *queue;
static struct wait *waits;
static long wait_count;
static redisContext *redis;

static void check(int rc, const lk_error *error)
{
	if (rc < 0)
		bench_die("%s", error->message);
}

static void wait_name(char *name_out, size_t size, long index)
{
	snprintf(name_out, size, "bench:waits:%ld", index);
}

/* ---- the other client ---- */

static void hold_all(void)
{
	const char *sha1 = bench_script_load(redis, LK__SCRIPT_LOCK_ACQUIRE);
	for (long i = 0; i < wait_count; i++) {
		char name[32];
		wait_name(name, sizeof(name), i);
		redisReply *reply = redisCommand(
			redis, "EVALSHA %s 1 %s " OWNER " " LEASE " " BENCH_NO_DEADLINE, sha1,
			name);
		if (!reply || reply->type != REDIS_REPLY_NIL)
			bench_die("cannot hold %s", name);
		freeReplyObject(reply);
	}
}

static void give_back_all(void)
{
	for (long i = 0; i < wait_count; i++) {
		char name[32];
		wait_name(name, sizeof(name), i);
		freeReplyObject(redisCommand(redis, "DEL %s", name));
	}
}

/* ---- the waits ---- */

static void open_all(const char *url)
{
	lk_error error;
	check(lk_client_open(&client, url, &error), &error);
	/* Neither the connections nor the thread count as memory of the waits. */
	lk_lock *lock;
	check(lk_lock_new(&lock, client, "bench:waits:first", LK_STRLEN, &error), &error);
	check(lk_lock_acquire(lock, -1, NULL, &error), &error);
	check(lk_lock_release(lock, NULL, &error), &error);
	lk_lock_free(lock);
}

static void start_all(void)
{
	lk_error error;
	check(lk_queue_new(&queue, (size_t)wait_count, &error), &error);
	for (long i = 0; i < wait_count; i++) {
		char name[32], owner[32];
		lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
		wait_name(name, sizeof(name), i);
		snprintf(owner, sizeof(owner), "task %ld", i);
		options.owner = owner;
		options.tag = (uint64_t)i;
		check(lk_lock_new(&waits[i].lock, client, name, LK_STRLEN, &error), &error);
		lk_request request = {.struct_size = sizeof(request),
				      .operation = LK_OP_ACQUIRE,
				      .lock = waits[i].lock,
				      .wait_ms = -1,
				      .acquire = &options,
				      .tag = i};
		check(lk_queue_start(queue, &request, &waits[i].id, &error), &error);
	}
}

/* Takes what there is; each must have ended as `code` says. */
static long take(int code, int64_t wait_ms)
{
	static lk_completion completions[MOST_AT_ONCE] = {LK_COMPLETION_INIT};
	lk_error error;
	int count = lk_queue_take(queue, completions, MOST_AT_ONCE, wait_ms, &error);
	check(count, &error);
	for (int i = 0; i < count; i++)
		if (completions[i].error.code != code)
			bench_die("wait %ld ended: %s", (long)completions[i].tag,
				  completions[i].error.code ? completions[i].error.message
							    : "acquired");
	return count;
}

static void wait_until_all_listen(void)
{
	int64_t limit_ns = bench_now_ns() + LIMIT_S * SECOND_NS;
	for (long listening; (listening = bench_subscriptions(redis)) < wait_count;) {
		if (bench_now_ns() > limit_ns)
			bench_die("%ld of %ld listen", listening, wait_count);
		bench_sleep_us(20000);
	}
}

static void wait_until_still(void)
{
	int64_t limit_ns = bench_now_ns() + STILL_LIMIT_S * SECOND_NS;
	long before, commands = bench_commands(redis);
	do {
		before = commands;
		bench_sleep_us(STILL_US);
		commands = bench_commands(redis);
	} while (commands != before && bench_now_ns() < limit_ns);
}

static void measure_idle(long length_ms)
{
	long commands = bench_commands(redis);
	double cpu_us = bench_cpu_us();
	bench_sleep_us(length_ms * 1000);
	cpu_us = bench_cpu_us() - cpu_us;
	commands = bench_commands(redis) - commands;
	if (take(0, 0))
		bench_die("a wait has ended");
	printf("\"commands\": %ld, \"cpu_ms_s\": %.3f, ", commands, cpu_us / (double)length_ms);
}

static void cancel_all(void)
{
	lk_error error;
	long ended = 0;
	int64_t begun_ns = bench_now_ns(), now_ns = begun_ns;
	for (long i = 0; i < wait_count; i++)
		check(lk_queue_cancel(queue, waits[i].id, &error), &error);
	while (ended < wait_count && now_ns < begun_ns + LIMIT_S * SECOND_NS) {
		ended += take(LK_ECANCELLED, 1000);
		now_ns = bench_now_ns();
	}
	if (ended < wait_count)
		bench_die("%ld of %ld ended", ended, wait_count);
	printf("\"cancel_ms\": %.2f}\n", (double)(now_ns - begun_ns) / 1e6);
}

static void close_all(void)
{
	lk_error error;
	check(lk_queue_free(queue, &error), &error);
	for (long i = 0; i < wait_count; i++)
		lk_lock_free(waits[i].lock);
	check(lk_client_close(client, LK_CLOSE_IF_IDLE, &error), &error);
	lk_client_free(client);
	free(waits);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		bench_die("usage: %s URL WAITS MS", argv[0]);
	wait_count = bench_number(argv[2], 1, 65536);
	long length_ms = bench_number(argv[3], 10, HOLD_S * 500);
	redis = bench_connect(argv[1]);
	waits = calloc((size_t)wait_count, sizeof(*waits));
	if (!waits)
		bench_die("out of memory");
	memset(waits, 0xff,
	       (size_t)wait_count * sizeof(*waits)); /* touched: not memory of theirs */
	open_all(argv[1]);
	int64_t held_ns = bench_now_ns();
	hold_all();

	long heap = bench_heap_bytes(), resident = bench_resident_bytes();
	int64_t begun_ns = bench_now_ns();
	start_all();
	double start_ms = (double)(bench_now_ns() - begun_ns) / 1e6;
	wait_until_all_listen();
	double listen_ms = (double)(bench_now_ns() - begun_ns) / 1e6;
	wait_until_still();
	heap = bench_heap_bytes() - heap;
	resident = bench_resident_bytes() - resident;
	printf("{\"heap_bytes_a_wait\": %ld, \"resident_bytes_a_wait\": %ld, \"start_ms\": %.2f, "
	       "\"listen_ms\": %.2f, ",
	       heap / wait_count, resident / wait_count, start_ms, listen_ms);
	measure_idle(length_ms);
	if (bench_now_ns() - held_ns > (HOLD_S - 5) * SECOND_NS)
		bench_die("it took longer than the leases last");
	cancel_all();
	give_back_all();
	close_all();
	return 0;
}
