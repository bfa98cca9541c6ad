/* SPDX-License-Identifier: MIT */
/*
 * Locks on Redis as articles have them, faults included; none is to be used. Kinds:
 *
 *     setnx-getset    the value is the time of its end; behind it, GETSET decides who takes it
 *     setnx-expire    SETNX, and then EXPIRE
 *     del-by-anybody  SET NX PX, and DEL without a look at whose it is
 *     get-then-del    SET NX PX, and GET and DEL if it is one's own
 *
 * A thread asks again each 10 ms. The lease is LEASE_MS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "common.h"
#include "turns.h"

#define POLL_US 10000
#define LEASE_MS 2000

struct session;

struct kind {
	const char *name;
	int (*take)(struct session *session, const char *name);
	void (*give)(struct session *session, const char *name);
};

struct session {
	const struct kind *kind;
	redisContext *redis;
	char owner[64];
	long long end_ms; /* of setnx-getset */
};

static long long wall_ms(void)
{
	struct timeval now;
	gettimeofday(&now, NULL);
	return now.tv_sec * 1000LL + now.tv_usec / 1000;
}

static redisReply *answered(struct session *session, redisReply *reply)
{
	if (!reply || reply->type == REDIS_REPLY_ERROR)
		bench_die("%s", reply ? reply->str : session->redis->errstr);
	return reply;
}

/* A number as it is; of a string, whether it is "OK". */
static long long number(struct session *session, redisReply *reply)
{
	answered(session, reply);
	long long value = reply->type == REDIS_REPLY_INTEGER ? reply->integer
							     : reply->type == REDIS_REPLY_STATUS;
	freeReplyObject(reply);
	return value;
}

/* The end that stands in a string; 0: there is none. */
static long long end_in(struct session *session, redisReply *reply)
{
	answered(session, reply);
	long long value = reply->type == REDIS_REPLY_STRING ? atoll(reply->str) : 0;
	freeReplyObject(reply);
	return value;
}

static int take_getset(struct session *session, const char *name)
{
	long long now = wall_ms();
	session->end_ms = now + LEASE_MS;
	if (number(session, redisCommand(session->redis, "SETNX %s %lld", name, session->end_ms)))
		return 1;
	long long seen = end_in(session, redisCommand(session->redis, "GET %s", name));
	if (!seen || seen >= now)
		return 0;
	return end_in(session, redisCommand(session->redis, "GETSET %s %lld", name,
					    session->end_ms)) == seen;
}

static int take_setnx(struct session *session, const char *name)
{
	if (!number(session, redisCommand(session->redis, "SETNX %s %s", name, session->owner)))
		return 0;
	number(session, redisCommand(session->redis, "PEXPIRE %s %d", name, LEASE_MS));
	return 1;
}

static int take_set(struct session *session, const char *name)
{
	return (int)number(session, redisCommand(session->redis, "SET %s %s NX PX %d", name,
						 session->owner, LEASE_MS));
}

static void give_any(struct session *session, const char *name)
{
	number(session, redisCommand(session->redis, "DEL %s", name));
}

static void give_own(struct session *session, const char *name)
{
	redisReply *reply = answered(session, redisCommand(session->redis, "GET %s", name));
	int own = reply->type == REDIS_REPLY_STRING && strcmp(reply->str, session->owner) == 0;
	freeReplyObject(reply);
	if (own)
		give_any(session, name);
}

static const struct kind kinds[] = {{"setnx-getset", take_getset, give_any},
				    {"setnx-expire", take_setnx, give_any},
				    {"del-by-anybody", take_set, give_any},
				    {"get-then-del", take_set, give_own}};

static void *homemade_open(const char *url, const char *kind)
{
	static _Atomic int sessions;
	struct session *session = calloc(1, sizeof(*session));
	if (!session)
		bench_die("out of memory");
	session->kind = turns_kind(kind, kinds, sizeof(kinds) / sizeof(kinds[0]), sizeof(kinds[0]));
	session->redis = bench_connect(url);
	snprintf(session->owner, sizeof(session->owner), "%d-%d", (int)getpid(), sessions++);
	return session;
}

static enum turns_outcome homemade_lock(void *opened, const char *name, const char **text)
{
	struct session *session = opened;
	(void)text;
	while (!session->kind->take(session, name))
		bench_sleep_us(POLL_US);
	return TURNS_OK;
}

/* None of them knows whether it still had the lock. */
static enum turns_outcome homemade_unlock(void *opened, const char *name, const char **text)
{
	struct session *session = opened;
	(void)text;
	session->kind->give(session, name);
	return TURNS_OK;
}

int main(int argc, char **argv)
{
	static const struct turns_lock lock = {homemade_open, homemade_lock, homemade_unlock};
	return turns_main(argc, argv, &lock);
}
