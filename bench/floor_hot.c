/* SPDX-License-Identifier: MIT */
/*
 * The floor of a hand-over: threads in a ring, each with a connection; the one whose turn it is
 * exchanges the owner for the next in one script, and wakes the next by futex. The least a bare
 * program can do where each grant is the server's.
 */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"
#include "hot.h"

#define NAME "bench:hot"

struct seat {
	_Atomic uint32_t turn;
	redisContext *redis;
	char *exchange;
	int exchange_size;
	struct seat *next;
};

static struct seat *seats;

static void owner_field(char *field_out, size_t size, int index)
{
	snprintf(field_out, size, "5f0c8c5e-7a3e-4d0a-9b59-0b1f5b7f2f11:%d", 1000000 + index);
}

static void floor_start(const char *url, int threads)
{
	char owner[64];
	int size;
	seats = calloc((size_t)threads, sizeof(*seats));
	if (!seats)
		bench_die("out of memory");
	redisContext *redis = bench_connect(url);
	owner_field(owner, sizeof(owner), 0);
	freeReplyObject(redisCommand(redis, "DEL " NAME));
	char *acquire = bench_script(redis, LK__SCRIPT_LOCK_ACQUIRE, NAME, 3,
				     (const char *[]){owner, BENCH_LEASE, BENCH_NO_DEADLINE},
				     &size);
	freeReplyObject(bench_send(redis, acquire, size));
	redisFreeCommand(acquire);
	redisFree(redis);
	atomic_store(&seats[0].turn, 1);
}

static void *floor_open(const char *url, int index, int threads)
{
	struct seat *seat = &seats[index];
	char mine[64], next[64], channel[96];
	owner_field(mine, sizeof(mine), index);
	owner_field(next, sizeof(next), (index + 1) % threads);
	bench_channel(channel, sizeof(channel), NAME);
	seat->next = &seats[(index + 1) % threads];
	seat->redis = bench_connect(url);
	seat->exchange = bench_script(
		seat->redis, LK__SCRIPT_LOCK_EXCHANGE, NAME, 5,
		(const char *[]){next, BENCH_LEASE, BENCH_NO_DEADLINE, mine, channel},
		&seat->exchange_size);
	return seat;
}

static void floor_turn(void *worker, void (*granted)(void *), void *context)
{
	struct seat *seat = worker;
	while (!atomic_load(&seat->turn))
		syscall(SYS_futex, &seat->turn, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	atomic_store(&seat->turn, 0);
	granted(context);
	redisReply *reply = bench_send(seat->redis, seat->exchange, seat->exchange_size);
	if (reply->type != REDIS_REPLY_NIL)
		bench_die("not exchanged");
	freeReplyObject(reply);
	atomic_store(&seat->next->turn, 1);
	syscall(SYS_futex, &seat->next->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct bench_hot_side side = {floor_start, floor_open, floor_turn};
	return bench_hot(argc, argv, &side);
}
