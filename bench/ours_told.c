/* SPDX-License-Identifier: MIT */
/*
 * How soon it is told that a lock is gone that others have ended.
 *
 * usage: ours-told URL del|set|flushall|release COUNT [OPTION=VALUE]
 *        ours-told URL waiters SECONDS [OPTION=VALUE]
 *
 * del, set, flushall: from the command of another program to the holder's notice. It empties the
 * server. release: from redis-py's release of its Lock to the grant of a waiter. Waiters: what five
 * clients send in that time while they wait for a lock that another one holds and renews.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "common.h"

#define NAME "bench:told"
#define WAITERS 5
#define HELD_US 200000 /* long enough to be looked at */
#define LIMIT_MS 60000
/* redis-py's Lock.LUA_RELEASE_SCRIPT */
#define RELEASE                                                                                    \
	"local token = redis.call('get', KEYS[1]) if not token or token ~= ARGV[1] then return 0 " \
	"end redis.call('del', KEYS[1]) return 1"

static lk_error err;
static redisContext *other;
static int64_t ended_ns;

static void expect(int rc)
{
	if (rc < 0)
		bench_die("%s", err.message);
}

static lk_client *client_new(const char *url, char *option)
{
	lk_config *config;
	lk_client *client;
	char *value = option ? strchr(option, '=') : NULL;
	expect(lk_config_new(&config, &err));
	expect(lk_config_set(config, "url", url, &err));
	if (value) {
		char name[64];
		snprintf(name, sizeof(name), "%.*s", (int)(value - option), option);
		expect(lk_config_set(config, name, value + 1, &err));
	}
	expect(lk_client_new(&client, config, &err));
	lk_config_free(config);
	return client;
}

static void say(const char *format, ...)
{
	va_list values;
	va_start(values, format);
	redisReply *reply = redisvCommand(other, format, values);
	va_end(values);
	if (!reply || reply->type == REDIS_REPLY_ERROR)
		bench_die("%s", reply ? reply->str : other->errstr);
	freeReplyObject(reply);
}

static void end_it(const char *how)
{
	ended_ns = bench_now_ns();
	if (strcmp(how, "del") == 0)
		say("DEL %s", NAME);
	else if (strcmp(how, "set") == 0)
		say("SET %s another", NAME);
	else
		say("FLUSHALL");
}

static int64_t time_holder(lk_client *client, lk_lock *lock, const char *how)
{
	lk_event event = LK_EVENT_INIT;
	expect(lk_lock_acquire(lock, -1, NULL, &err));
	bench_sleep_us(HELD_US + rand() % 20000);
	end_it(how);
	if (lk_event_wait(client, &event, LIMIT_MS, NULL, &err) != 1)
		bench_die("no notice within %d ms", LIMIT_MS);
	int64_t took_ns = bench_now_ns() - ended_ns;
	lk_lock_release(lock, NULL, &err);
	say("DEL %s", NAME);
	return took_ns;
}

static void *release_later(void *argument)
{
	(void)argument;
	bench_sleep_us(HELD_US + rand() % 100000);
	ended_ns = bench_now_ns();
	say("EVAL %s 1 %s token", RELEASE, NAME);
	return NULL;
}

static int64_t time_waiter(lk_lock *lock)
{
	pthread_t releases;
	say("SET %s token PX 30000", NAME);
	if (pthread_create(&releases, NULL, release_later, NULL) != 0)
		bench_die("no thread");
	expect(lk_lock_acquire(lock, LIMIT_MS, NULL, &err));
	int64_t now_ns = bench_now_ns();
	pthread_join(releases, NULL);
	expect(lk_lock_release(lock, NULL, &err));
	return now_ns - ended_ns;
}

static void times(const char *url, const char *how, long count, char *option)
{
	struct bench_samples samples;
	lk_client *client = client_new(url, option);
	lk_lock *lock;
	bool waits = strcmp(how, "release") == 0;
	expect(waits ? lk_plain_lock_new(&lock, client, NAME, LK_STRLEN, NULL, &err)
		     : lk_lock_new(&lock, client, NAME, LK_STRLEN, &err));
	bench_samples_init(&samples, (size_t)count);
	for (long i = 0; i < count; i++)
		bench_samples_add(&samples,
				  waits ? time_waiter(lock) : time_holder(client, lock, how));
	double most = bench_samples_us(&samples, 1);
	printf("{\"what\": \"%s\", \"count\": %ld, \"p50_us\": %.0f, \"p99_us\": %.0f, "
	       "\"most_us\": %.0f}\n",
	       how, count, bench_samples_us(&samples, 0.5), bench_samples_us(&samples, 0.99), most);
	lk_lock_free(lock);
	lk_client_close(client, LK_CLOSE_RELEASE, &err);
	lk_client_free(client);
}

static void *wait_for_it(void *argument)
{
	lk_lock *lock;
	expect(lk_lock_new(&lock, argument, NAME, LK_STRLEN, &err));
	lk_lock_acquire(lock, -1, NULL, NULL);
	return NULL;
}

static void waiters(const char *url, long seconds, char *option)
{
	lk_client *holder = client_new(url, option);
	lk_lock *lock;
	expect(lk_lock_new(&lock, holder, NAME, LK_STRLEN, &err));
	expect(lk_lock_acquire(lock, -1, NULL, &err));
	for (int i = 0; i < WAITERS; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, wait_for_it, client_new(url, option)) != 0)
			bench_die("no thread");
		bench_sleep_us(300000);
	}
	bench_sleep_us(2000000);
	long calls = bench_calls(other), all = bench_commands(other);
	int64_t begun_ns = bench_now_ns();
	bench_sleep_us(seconds * 1000000);
	double minutes = (double)(bench_now_ns() - begun_ns) / 60e9;
	printf("{\"what\": \"waiters\", \"calls_a_minute\": %.1f, \"commands_a_minute\": %.1f}\n",
	       (double)(bench_calls(other) - calls) / minutes,
	       (double)(bench_commands(other) - all) / minutes);
	exit(0); /* the threads wait on */
}

int main(int argc, char **argv)
{
	if (argc < 4)
		bench_die("usage: ours-told URL del|set|flushall|release|waiters COUNT [OPTION]");
	other = bench_connect(argv[1]);
	long count = bench_number(argv[3], 1, 100000);
	if (strcmp(argv[2], "waiters") == 0)
		waiters(argv[1], count, argc > 4 ? argv[4] : NULL);
	else
		times(argv[1], argv[2], count, argc > 4 ? argv[4] : NULL);
	return 0;
}
