/* SPDX-License-Identifier: MIT */
/*
 * How long an election is vacant: from the call by which a leader resigns, or transfers, until the
 * next one's campaign has returned. Two processes take turns; others only stand by. With kill: from
 * the kill of a leader's process, at a random time between its renewals.
 *
 * usage: ours-election URL ROUNDS resign|transfer|kill OTHERS
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockkeeper.h>

#include "common.h"

#define NAME "bench-election"
#define OTHERS_MOST 1000
#define WARM_ROUNDS 20
#define WAITING_US 2500 /* the next one surely listens */

struct shared {
	_Atomic int64_t given_ns;
	_Atomic int done;
	/* Of kills: a leader leads; the next one has led. */
	_Atomic int leads, followed;
};

static lk_client *client_open(const char *url)
{
	lk_config *config = NULL;
	lk_client *client = NULL;
	lk_error error = {0};
	if (lk_config_new(&config, &error) || lk_config_set(config, "url", url, &error) ||
	    lk_client_new(&client, config, &error))
		bench_die("%s", error.message);
	lk_config_free(config);
	return client;
}

static lk_election *candidate_new(lk_client *client, int standing)
{
	lk_election *election = NULL;
	lk_error error = {0};
	lk_election_options options = LK_ELECTION_OPTIONS_INIT;
	options.standing = standing;
	if (lk_election_new(&election, client, NAME, LK_STRLEN, &options, &error))
		bench_die("%s", error.message);
	return election;
}

/* Waits until the other one waits, and listens: its id. */
static void next_await(lk_election *election, const struct shared *shared, lk_candidate *next_out)
{
	do {
		bench_sleep_us(WAITING_US);
		if (lk_election_candidates(election, next_out, 1, NULL) < 1)
			next_out->standing = LK_STAND_BY;
	} while (!shared->done && (next_out->standing != LK_STAND_NORMAL || !next_out->listens));
}

static void take_turns(const char *url, struct shared *shared, long rounds, int transfers,
		       struct bench_samples *samples)
{
	lk_error error = {0};
	lk_candidate next = LK_CANDIDATE_INIT;
	lk_client *client = client_open(url);
	lk_election *election = candidate_new(client, LK_STAND_NORMAL);
	for (long i = 0; i < rounds && !shared->done; i++) {
		if (lk_election_campaign(election, 20000, NULL, NULL, &error)) {
			if (!shared->done)
				fprintf(stderr, "%s\n", error.message);
			break;
		}
		int64_t now_ns = bench_now_ns();
		if (i >= WARM_ROUNDS && samples)
			bench_samples_add(samples, now_ns - shared->given_ns);
		next_await(election, shared, &next);
		shared->given_ns = bench_now_ns();
		int code = transfers ? lk_election_transfer(election, next.id, &error)
				     : lk_election_resign(election, -1, &error);
		if (code && !shared->done)
			bench_die("%s", error.message);
	}
	shared->done = 1;
	lk_election_free(election);
	lk_client_close(client, LK_CLOSE_RELEASE, NULL);
	lk_client_free(client);
}

/* ---- kills ---- */

#define KILL_MOST_US 1000000 /* behind the begin of a term */

static void await(const _Atomic int *flag)
{
	while (!*flag)
		bench_sleep_us(1000);
}

/* Leads until it is killed. */
_Noreturn static void victim_lead(const char *url, struct shared *shared)
{
	lk_error error = {0};
	lk_election *election = candidate_new(client_open(url), LK_STAND_NORMAL);
	if (lk_election_campaign(election, 20000, NULL, NULL, &error))
		bench_die("%s", error.message);
	shared->leads = 1;
	for (;;)
		pause();
}

static void follow(const char *url, struct shared *shared, long rounds,
		   struct bench_samples *samples)
{
	lk_error error = {0};
	lk_candidate next = LK_CANDIDATE_INIT;
	lk_client *client = client_open(url);
	lk_election *election = candidate_new(client, LK_STAND_NORMAL);
	for (long i = 0; i < rounds; i++) {
		await(&shared->leads);
		if (lk_election_campaign(election, -1, NULL, NULL, &error))
			bench_die("%s", error.message);
		bench_samples_add(samples, bench_now_ns() - shared->given_ns);
		shared->leads = 0;
		shared->done = i + 1 == rounds;
		shared->followed = 1;
		next_await(election, shared, &next);
		lk_election_resign(election, -1, NULL);
	}
	lk_election_free(election);
	lk_client_free(client);
}

static void leaders_kill(const char *url, struct shared *shared)
{
	while (!shared->done) {
		pid_t leader = fork();
		if (leader == 0)
			victim_lead(url, shared);
		await(&shared->leads);
		bench_sleep_us(100000 + random() % KILL_MOST_US);
		shared->given_ns = bench_now_ns();
		kill(leader, SIGKILL);
		waitpid(leader, NULL, 0);
		await(&shared->followed);
		shared->followed = 0;
	}
}

static void others_stand(const char *url, const struct shared *shared, long count, int kills)
{
	static lk_election *others[OTHERS_MOST];
	lk_client *client = client_open(url);
	while (kills && !shared->leads && !shared->done)
		bench_sleep_us(1000);
	for (long i = 0; i < count; i++) {
		others[i] = candidate_new(client, LK_STAND_BY);
		if (lk_election_join(others[i], NULL))
			bench_die("join");
	}
	while (!shared->done)
		bench_sleep_us(10000);
	for (long i = 0; i < count; i++)
		lk_election_free(others[i]);
	lk_client_free(client);
}

int main(int argc, char **argv)
{
	struct bench_samples samples;
	if (argc != 5)
		bench_die("usage: ours-election URL ROUNDS resign|transfer|kill OTHERS");
	long rounds = atol(argv[2]), others = atol(argv[4]);
	int transfers = strcmp(argv[3], "transfer") == 0;
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || others > OTHERS_MOST)
		bench_die("no memory, or too many others");
	bench_samples_init(&samples, (size_t)rounds);
	int kills = strcmp(argv[3], "kill") == 0;
	if (fork() == 0) {
		if (kills)
			leaders_kill(argv[1], shared);
		else
			take_turns(argv[1], shared, rounds + WARM_ROUNDS + 1, transfers, NULL);
		_exit(0);
	}
	if (others && fork() == 0) {
		others_stand(argv[1], shared, others, kills);
		_exit(0);
	}
	if (kills)
		follow(argv[1], shared, rounds, &samples);
	else
		take_turns(argv[1], shared, rounds + WARM_ROUNDS, transfers, &samples);
	while (wait(NULL) > 0 || errno == EINTR) {}
	printf("{\"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n",
	       bench_samples_us(&samples, 0.5), bench_samples_us(&samples, 0.99),
	       bench_samples_us(&samples, 1));
	return 0;
}
