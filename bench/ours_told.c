/* SPDX-License-Identifier: MIT */
/*
 * How soon it is told that a lock is gone that others have ended.
 *
 * usage: ours-told URL[+URL…] del|set|flushall|release COUNT [OPTION=VALUE | at=URL]…
 *        ours-told URL waiters SECONDS [OPTION=VALUE]…
 *        ours-told URL bare COUNT
 *
 * del, set, flushall: from the command of another program to the holder's notice. It empties the
 * server. release: from redis-py's release of its Lock to the grant of a waiter. Several URLs: a
 * red lock, which others end on a majority at once. `mended`: how often a node was given it again
 * before the next one lost it, so that it never was without its majority. at: where those others
 * connect to, if URL names no server but where to ask for it; as many as there are URLs.
 *
 * waiters: what five clients send in that time while they wait for a lock that another one holds
 * and renews each 10 s; keep-alives (PING) and what scripts call are not counted.
 *
 * bare: what the server and the machine take of it, with hiredis alone: from the DEL of another to
 * the answer of one who was told, and looked.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockkeeper.h>

#include "common.h"

#define NAME "bench:told"
#define WAITERS 5
#define HELD_US 200000 /* long enough to be looked at */
#define LIMIT_MS 60000
#define MENDED_MS 15000 /* a renewal has confirmed it by then */
#define NODES_MAX 9
#define RENEWED_US 10000000
/* redis-py's Lock.LUA_RELEASE_SCRIPT */
#define RELEASE                                                                                    \
	"local token = redis.call('get', KEYS[1]) if not token or token ~= ARGV[1] then return 0 " \
	"end redis.call('del', KEYS[1]) return 1"

static lk_error err;
static char *urls[NODES_MAX]; /* of the clients */
static size_t url_count;
static redisContext *others[NODES_MAX];
static size_t other_count;
static char **options;
static int option_count;
static int64_t ended_ns;
static long mended;

static void expect(int rc)
{
	if (rc < 0)
		bench_die("%s", err.message);
}

static lk_client *client_new(const char *url)
{
	lk_config *config;
	lk_client *client;
	expect(lk_config_new(&config, &err));
	expect(lk_config_set(config, "url", url, &err));
	for (int i = 0; i < option_count; i++) {
		const char *value = strchr(options[i], '=');
		char name[64];
		if (!value)
			bench_die("not OPTION=VALUE: %s", options[i]);
		snprintf(name, sizeof(name), "%.*s", (int)(value - options[i]), options[i]);
		if (strcmp(name, "at") != 0)
			expect(lk_config_set(config, name, value + 1, &err));
	}
	expect(lk_client_new(&client, config, &err));
	lk_config_free(config);
	return client;
}

static void say(redisContext *other, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	redisReply *reply = redisvCommand(other, format, values);
	va_end(values);
	if (!reply || reply->type == REDIS_REPLY_ERROR)
		bench_die("%s", reply ? reply->str : other->errstr);
	freeReplyObject(reply);
}

static void expect_reply(redisContext *other)
{
	redisReply *reply;
	if (redisGetReply(other, (void **)&reply) != REDIS_OK)
		bench_die("%s", other->errstr);
	freeReplyObject(reply);
}

/* The lock is over with the last of them, which leaves directly behind the others. */
static void end_it(const char *how)
{
	const char *command = strcmp(how, "del") == 0   ? "DEL " NAME
			      : strcmp(how, "set") == 0 ? "SET " NAME " another"
							: "FLUSHALL";
	size_t majority = other_count / 2 + 1;
	int all_sent;
	for (size_t i = 0; i < majority; i++)
		redisAppendCommand(others[i], command);
	for (size_t i = 0; i < majority; i++) {
		ended_ns = bench_now_ns();
		if (redisBufferWrite(others[i], &all_sent) != REDIS_OK)
			bench_die("%s", others[i]->errstr);
	}
	for (size_t i = 0; i < majority; i++)
		expect_reply(others[i]);
}

/* -1: it was mended. */
static int64_t time_holder(lk_client *client, lk_lock *lock, const char *how)
{
	lk_event event = LK_EVENT_INIT;
	expect(lk_lock_acquire(lock, -1, NULL, &err));
	bench_sleep_us(HELD_US + rand() % 20000);
	end_it(how);
	int told = lk_event_wait(client, &event, url_count > 1 ? MENDED_MS : LIMIT_MS, NULL, &err);
	int64_t took_ns = bench_now_ns() - ended_ns;
	if (told != 1) {
		if (url_count == 1 || lk_lock_is_held(lock, NULL, &err) != 1)
			bench_die("no notice of a lock that is lost");
		took_ns = -1;
	}
	lk_lock_release(lock, NULL, &err);
	for (size_t i = 0; i < other_count; i++)
		say(others[i], "DEL %s", NAME);
	return took_ns;
}

static void *release_later(void *argument)
{
	(void)argument;
	bench_sleep_us(HELD_US + rand() % 100000);
	ended_ns = bench_now_ns();
	say(others[0], "EVAL %s 1 %s token", RELEASE, NAME);
	return NULL;
}

static int64_t time_waiter(lk_lock *lock)
{
	pthread_t releases;
	say(others[0], "SET %s token PX 30000", NAME);
	if (pthread_create(&releases, NULL, release_later, NULL) != 0)
		bench_die("no thread");
	expect(lk_lock_acquire(lock, LIMIT_MS, NULL, &err));
	int64_t now_ns = bench_now_ns();
	pthread_join(releases, NULL);
	expect(lk_lock_release(lock, NULL, &err));
	return now_ns - ended_ns;
}

static lk_lock *lock_new(lk_client *const *clients, bool plain)
{
	lk_lock *lock;
	if (plain)
		expect(lk_plain_lock_new(&lock, clients[0], NAME, LK_STRLEN, NULL, &err));
	else if (url_count > 1)
		expect(lk_red_lock_new(&lock, clients, url_count, NAME, LK_STRLEN, NULL, &err));
	else
		expect(lk_lock_new(&lock, clients[0], NAME, LK_STRLEN, &err));
	return lock;
}

static void samples_print(const char *what, struct bench_samples *samples)
{
	double most = bench_samples_us(samples, 1);
	printf("{\"what\": \"%s\", \"count\": %zu, \"p50_us\": %.0f, \"p99_us\": %.0f, "
	       "\"most_us\": %.0f, \"mended\": %ld}\n",
	       what, samples->count, bench_samples_us(samples, 0.5),
	       bench_samples_us(samples, 0.99), most, mended);
}

static void times(const char *how, long count)
{
	struct bench_samples samples;
	lk_client *clients[NODES_MAX];
	bool waits = strcmp(how, "release") == 0;
	for (size_t i = 0; i < url_count; i++)
		clients[i] = client_new(urls[i]);
	lk_lock *lock = lock_new(clients, waits);
	bench_samples_init(&samples, (size_t)count);
	for (long i = 0; i < count; i++) {
		int64_t took_ns = waits ? time_waiter(lock) : time_holder(clients[0], lock, how);
		if (took_ns < 0)
			mended++;
		else
			bench_samples_add(&samples, took_ns);
	}
	samples_print(how, &samples);
	lk_lock_free(lock);
	for (size_t i = 0; i < url_count; i++) {
		lk_client_close(clients[i], LK_CLOSE_RELEASE, &err);
		lk_client_free(clients[i]);
	}
}

/* ---- with hiredis alone ---- */

static void bare(long count)
{
	struct bench_samples samples;
	redisContext *told = bench_connect(urls[0]), *looks = bench_connect(urls[0]);
	redisReply *reply = redisCommand(told, "CLIENT ID");
	long long id = reply ? reply->integer : 0;
	freeReplyObject(reply);
	say(told, "SUBSCRIBE __redis__:invalidate");
	say(looks, "CLIENT TRACKING ON REDIRECT %lld", id);
	bench_samples_init(&samples, (size_t)count);
	for (long i = 0; i < count; i++) {
		say(others[0], "SET %s other", NAME);
		say(looks, "EXISTS %s", NAME);
		bench_sleep_us(HELD_US + rand() % 20000);
		ended_ns = bench_now_ns();
		say(others[0], "DEL %s", NAME);
		if (redisGetReply(told, (void **)&reply) != REDIS_OK)
			bench_die("%s", told->errstr);
		freeReplyObject(reply);
		say(looks, "EXISTS %s", NAME);
		bench_samples_add(&samples, bench_now_ns() - ended_ns);
	}
	samples_print("bare", &samples);
}

/* ---- waiters ---- */

static void *wait_for_it(void *argument)
{
	lk_lock *lock;
	expect(lk_lock_new(&lock, argument, NAME, LK_STRLEN, &err));
	lk_lock_acquire(lock, -1, NULL, NULL);
	return NULL;
}

/* Counts what clients send, in the lines of MONITOR, until then. */
static void count_lines(redisContext *monitor, int64_t until_ns, long *tries, long *commands)
{
	int64_t left_ns;
	*tries = *commands = 0;
	while ((left_ns = until_ns - bench_now_ns()) > 0) {
		struct timeval limit = {.tv_sec = left_ns / 1000000000,
					.tv_usec = left_ns / 1000 % 1000000 + 1};
		redisReply *line;
		redisSetTimeout(monitor, limit);
		if (redisGetReply(monitor, (void **)&line) != REDIS_OK) {
			monitor->err = 0; /* it was the limit; else the next call fails at once */
			continue;
		}
		bool counts = !strstr(line->str, " lua] ") && !strstr(line->str, " \"PING\"");
		*commands += counts;
		*tries += counts && strstr(line->str, " \"EVALSHA\" ");
		freeReplyObject(line);
	}
}

static void waiters(long seconds)
{
	long all_tries = 0, all_commands = 0, tries, commands;
	pthread_t thread;
	say(others[0], "DEL %s", NAME);
	say(others[0], "HSET %s other:1 1", NAME);
	say(others[0], "PEXPIRE %s 30000", NAME);
	for (int i = 0; i < WAITERS; i++) {
		if (pthread_create(&thread, NULL, wait_for_it, client_new(urls[0])) != 0)
			bench_die("no thread");
		bench_sleep_us(300000);
	}
	bench_sleep_us(2000000);
	redisContext *monitor = bench_connect(urls[0]);
	say(monitor, "MONITOR");
	int64_t begun_ns = bench_now_ns(), end_ns = begun_ns + seconds * 1000000000;
	for (int64_t at_ns = begun_ns; at_ns < end_ns;
	     all_tries += tries, all_commands += commands) {
		say(others[0], "PEXPIRE %s 30000", NAME);
		all_commands--;
		at_ns += RENEWED_US * INT64_C(1000);
		count_lines(monitor, at_ns < end_ns ? at_ns : end_ns, &tries, &commands);
	}
	double minutes = (double)(bench_now_ns() - begun_ns) / 60e9;
	printf("{\"what\": \"waiters\", \"tries_a_minute\": %.1f, \"commands_a_minute\": %.1f}\n",
	       (double)all_tries / minutes, (double)all_commands / minutes);
	fflush(stdout);
	_exit(0); /* the threads wait on */
}

static void connect_others(void)
{
	for (int i = 0; i < option_count && other_count < NODES_MAX; i++)
		if (strncmp(options[i], "at=", 3) == 0)
			others[other_count++] = bench_connect(options[i] + 3);
	for (size_t i = 0; i < url_count && other_count < url_count; i++)
		others[other_count++] = bench_connect(urls[i]);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		bench_die("usage: ours-told URL[+URL...] "
			  "del|set|flushall|release|waiters|bare COUNT [OPTION=VALUE | at=URL]...");
	for (char *url = strtok(argv[1], "+"); url && url_count < NODES_MAX;
	     url = strtok(NULL, "+"))
		urls[url_count++] = url;
	long count = bench_number(argv[3], 1, 100000);
	options = argv + 4;
	option_count = argc - 4;
	connect_others();
	if (strcmp(argv[2], "waiters") == 0)
		waiters(count);
	else if (strcmp(argv[2], "bare") == 0)
		bare(count);
	else
		times(argv[2], count);
	return 0;
}
