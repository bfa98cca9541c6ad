/* SPDX-License-Identifier: MIT */
/*
 * Processes that share one lock: how it is divided, how long a term is, how long a wait.
 *
 * usage: ours-share URL MS TEAM...
 *
 * A team is a process: a number of threads of one client of the library, or "slow", one bare
 * waiter that takes 3 ms from the message to its try, as a process on a JVM may.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockkeeper.h>

#include "common.h"

#define NAME "bench:share"
#define TEAMS_MAX 8
#define TERMS_MAX 200000
#define SLOW_US 3000
#define LINE_LIMIT_S 20

struct team {
	_Atomic long grants;
	_Atomic int64_t longest_wait_ns;
};

struct shared {
	_Atomic int phase; /* 0 warming, 1 counting, 2 over */
	_Atomic int inside;
	int holder; /* written by who holds the lock */
	int64_t first_ns, last_ns;
	_Atomic long term_count;
	uint32_t term_ns[TERMS_MAX];
	struct team teams[TEAMS_MAX];
};

struct member {
	struct shared *shared;
	int team;
	lk_lock *lock;
};

static void granted(struct shared *shared, int team, int64_t waited_ns)
{
	int64_t now_ns = bench_now_ns();
	if (atomic_fetch_add(&shared->inside, 1) != 0)
		bench_die("two holders");
	if (shared->holder != team) {
		long count = atomic_load(&shared->term_count);
		if (atomic_load(&shared->phase) == 1 && count < TERMS_MAX) {
			shared->term_ns[count] = (uint32_t)(shared->last_ns - shared->first_ns);
			atomic_store(&shared->term_count, count + 1);
		}
		shared->holder = team;
		shared->first_ns = now_ns;
	}
	shared->last_ns = now_ns;
	struct team *mine = &shared->teams[team];
	atomic_fetch_add(&mine->grants, 1);
	if (atomic_load(&shared->phase) == 1 && waited_ns > atomic_load(&mine->longest_wait_ns))
		atomic_store(&mine->longest_wait_ns, waited_ns);
	atomic_fetch_sub(&shared->inside, 1);
}

static void *member_main(void *argument)
{
	struct member *member = argument;
	lk_error error;
	while (atomic_load(&member->shared->phase) < 2) {
		int64_t begun_ns = bench_now_ns();
		if (lk_lock_acquire(member->lock, -1, NULL, &error))
			bench_die("%s", error.message);
		granted(member->shared, member->team, bench_now_ns() - begun_ns);
		if (lk_lock_release(member->lock, NULL, &error))
			bench_die("%s", error.message);
	}
	return NULL;
}

static void run_team(const char *url, struct shared *shared, int team, int threads)
{
	lk_client *client;
	struct member member = {.shared = shared, .team = team};
	lk_error error;
	if (lk_client_open(&client, url, &error) ||
	    lk_lock_new(&member.lock, client, NAME, strlen(NAME), &error))
		bench_die("%s", error.message);
	pthread_t *ids = calloc((size_t)threads, sizeof(*ids));
	for (int i = 0; ids && i < threads; i++)
		if (pthread_create(&ids[i], NULL, member_main, &member))
			bench_die("no thread");
	for (int i = 0; ids && i < threads; i++)
		pthread_join(ids[i], NULL);
}

/* Not faster than a JVM: subscribed, it tries, hears of a release, takes its time, tries again. */
static void run_slow(const char *url, struct shared *shared, int team)
{
	char channel[96];
	int acquire_size, release_size;
	const char *owner = "0a7e5d1c-1111-4222-8333-000000000001:1";
	bench_channel(channel, sizeof(channel), NAME);
	redisContext *scripts = bench_connect(url), *messages = bench_connect(url);
	freeReplyObject(redisCommand(messages, "SUBSCRIBE %s", channel));
	char *acquire = bench_script(scripts, LK__SCRIPT_LOCK_ACQUIRE, NAME, 3,
				     (const char *[]){owner, BENCH_LEASE, BENCH_NO_DEADLINE},
				     &acquire_size);
	char *release = bench_script(scripts, LK__SCRIPT_LOCK_RELEASE, NAME, 2,
				     (const char *[]){owner, channel}, &release_size);
	int64_t begun_ns = bench_now_ns();
	while (atomic_load(&shared->phase) < 2) {
		redisReply *reply = bench_send(scripts, acquire, acquire_size);
		if (reply->type == REDIS_REPLY_NIL) {
			granted(shared, team, bench_now_ns() - begun_ns);
			freeReplyObject(bench_send(scripts, release, release_size));
			begun_ns = bench_now_ns();
		} else {
			void *message = NULL;
			if (redisGetReply(messages, &message) != REDIS_OK)
				bench_die("connection lost: %s", messages->errstr);
			freeReplyObject(message);
			bench_sleep_us(SLOW_US);
		}
		freeReplyObject(reply);
	}
}

static void watch(struct shared *shared, int teams, long length_ms)
{
	long before[TEAMS_MAX], counted[TEAMS_MAX], sum = 0;
	int64_t limit_ns = bench_now_ns() + LINE_LIMIT_S * INT64_C(1000000000);
	for (int i = 0; i < teams; i++)
		while (!atomic_load(&shared->teams[i].grants)) {
			if (bench_now_ns() > limit_ns)
				bench_die("team %d had no grant in %d s", i, LINE_LIMIT_S);
			bench_sleep_us(1000);
		}
	atomic_store(&shared->phase, 1);
	for (int i = 0; i < teams; i++)
		before[i] = atomic_load(&shared->teams[i].grants);
	bench_sleep_us(length_ms * 1000);
	for (int i = 0; i < teams; i++)
		sum += counted[i] = atomic_load(&shared->teams[i].grants) - before[i];
	atomic_store(&shared->phase, 2);
	struct bench_samples terms;
	long count = atomic_load(&shared->term_count);
	bench_samples_init(&terms, TERMS_MAX);
	for (long i = 0; i < count; i++)
		bench_samples_add(&terms, shared->term_ns[i]);
	printf("{\"grants_s\": %.1f, \"terms\": %ld, \"term_p50_ms\": %.3f, \"term_p99_ms\": %.3f, "
	       "\"term_most_ms\": %.3f",
	       (double)sum * 1000 / (double)length_ms, count, bench_samples_us(&terms, 0.5) / 1e3,
	       bench_samples_us(&terms, 0.99) / 1e3, bench_samples_us(&terms, 1) / 1e3);
	for (int i = 0; i < teams; i++)
		printf(", \"share_%d\": %.4f, \"grants_%d\": %ld, \"longest_wait_%d_ms\": %.2f", i,
		       sum ? (double)counted[i] / (double)sum : 0, i, counted[i], i,
		       (double)atomic_load(&shared->teams[i].longest_wait_ns) / 1e6);
	printf("}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc < 5 || argc > 3 + TEAMS_MAX)
		bench_die("usage: %s URL MS TEAM...", argv[0]);
	long length_ms = bench_number(argv[2], 10, 600000);
	int teams = argc - 3;
	struct shared *shared = bench_shared(sizeof(*shared));
	shared->holder = -1;
	redisContext *redis = bench_connect(argv[1]);
	freeReplyObject(redisCommand(redis, "DEL " NAME));
	redisFree(redis);
	pid_t children[TEAMS_MAX];
	for (int i = 0; i < teams; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			if (strcmp(argv[3 + i], "slow") == 0)
				run_slow(argv[1], shared, i);
			else
				run_team(argv[1], shared, i,
					 (int)bench_number(argv[3 + i], 1, 1024));
			_exit(0);
		}
	}
	watch(shared, teams, length_ms);
	/* The last of them may hear no message any more: they are ours to end. */
	for (int i = 0; i < teams; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	return 0;
}
