/* SPDX-License-Identifier: MIT */
#include "turns.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define FAILED_PAUSE_US 100000
#define SAMPLES_MAX (1u << 18)

struct run {
	const struct turns_lock *lock;
	const char *url, *kind, *name;
	long threads, ms, turns, hold_us, pause_us;
	bool same, twice;
	FILE *history;
	_Atomic bool over;
	pthread_barrier_t open;
};

static FILE *_Atomic told; /* the history, once it is open */

struct worker {
	struct run *run;
	int index;
	pthread_t thread;
	char name[128];
	struct bench_samples samples;
	long pairs;
};

static void read_word(struct run *run, const char *word)
{
	struct {
		const char *key;
		long *value;
	} numbers[] = {{"threads=", &run->threads},
		       {"ms=", &run->ms},
		       {"turns=", &run->turns},
		       {"hold_us=", &run->hold_us},
		       {"pause_us=", &run->pause_us}};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		size_t length = strlen(numbers[i].key);
		if (strncmp(word, numbers[i].key, length) == 0) {
			*numbers[i].value = bench_number(word + length, 0, 1000000000);
			return;
		}
	}
	if (strncmp(word, "name=", 5) == 0)
		run->name = word + 5;
	else if (strcmp(word, "same") == 0)
		run->same = true;
	else if (strcmp(word, "twice") == 0)
		run->twice = true;
	else if (strcmp(word, "live") == 0)
		setvbuf(run->history, NULL, _IOLBF, 4096);
	else
		bench_die("unknown word: %s", word);
}

const void *turns_kind(const char *name, const void *rows, size_t count, size_t size)
{
	for (size_t i = 0; i < count; i++) {
		const void *row = (const char *)rows + i * size;
		if (strcmp(*(const char *const *)row, name) == 0)
			return row;
	}
	bench_die("no kind is called %s", name);
}

void turns_tell(const char *text)
{
	FILE *history = atomic_load(&told);
	if (history)
		fprintf(history, "T %d - - %lld %s\n", (int)getpid(), (long long)bench_now_ns(),
			text);
}

static void tell_failure(struct worker *worker, const char *text)
{
	fprintf(worker->run->history, "E %d %d %s %lld %s\n", (int)getpid(), worker->index,
		worker->name, (long long)bench_now_ns(), text ? text : "no reason");
	bench_sleep_us(FAILED_PAUSE_US);
}

/* The holder takes what it has once more, and gives it back once. */
static void take_again(struct worker *worker, void *session)
{
	const struct turns_lock *lock = worker->run->lock;
	const char *text = NULL;
	if (lock->lock(session, worker->name, &text) != TURNS_OK) {
		turns_tell(text ? text : "refused");
		return;
	}
	turns_tell("entered again");
	lock->unlock(session, worker->name, &text);
	turns_tell("gave it back once");
}

/* One pair; false if the lock could not be taken. */
static bool take_turn(struct worker *worker, void *session)
{
	struct run *run = worker->run;
	const char *text = NULL;
	int64_t begun_ns = bench_now_ns();
	if (run->lock->lock(session, worker->name, &text) != TURNS_OK) {
		tell_failure(worker, text);
		return false;
	}
	int64_t granted_ns = bench_now_ns();
	fprintf(run->history, "G %d %d %s %lld %lld\n", (int)getpid(), worker->index, worker->name,
		(long long)begun_ns, (long long)granted_ns);
	if (run->twice)
		take_again(worker, session);
	if (run->hold_us)
		bench_sleep_us(run->hold_us);
	int64_t release_ns = bench_now_ns();
	enum turns_outcome outcome = run->lock->unlock(session, worker->name, &text);
	int64_t done_ns = bench_now_ns();
	fprintf(run->history, "R %d %d %s %lld %lld %s\n", (int)getpid(), worker->index,
		worker->name, (long long)release_ns, (long long)done_ns,
		outcome == TURNS_OK     ? "ok"
		: outcome == TURNS_LOST ? "lost"
		: text                  ? text
					: "failed");
	bench_samples_add(&worker->samples, (granted_ns - begun_ns) + (done_ns - release_ns));
	worker->pairs++;
	return true;
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct run *run = worker->run;
	void *session = run->lock->open(run->url, run->kind);
	bench_samples_init(&worker->samples, SAMPLES_MAX / (size_t)run->threads + 1);
	pthread_barrier_wait(&run->open);
	while (!atomic_load(&run->over)) {
		if (take_turn(worker, session) && run->turns && worker->pairs >= run->turns)
			break;
		if (run->pause_us)
			bench_sleep_us(run->pause_us);
	}
	return NULL;
}

static void print_sum(struct worker *workers, long threads, double seconds, double cpu_us)
{
	struct bench_samples all;
	long pairs = 0;
	bench_samples_init(&all, SAMPLES_MAX + (size_t)threads);
	for (long i = 0; i < threads; i++) {
		bench_samples_merge(&all, &workers[i].samples);
		pairs += workers[i].pairs;
	}
	if (!pairs)
		bench_die("no turn was taken");
	printf("{\"pairs\": %ld, \"pairs_s\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
	       "\"cpu_us\": %.2f}\n",
	       pairs, (double)pairs / seconds, bench_samples_us(&all, 0.5),
	       bench_samples_us(&all, 0.99), cpu_us / (double)pairs);
}

static void run_threads(struct run *run)
{
	struct worker *workers = calloc((size_t)run->threads, sizeof(*workers));
	if (!workers)
		bench_die("out of memory");
	pthread_barrier_init(&run->open, NULL, (unsigned)run->threads + 1);
	for (int i = 0; i < run->threads; i++) {
		workers[i].run = run;
		workers[i].index = i;
		snprintf(workers[i].name, sizeof(workers[i].name), "%s-%d", run->name,
			 run->same ? 0 : i);
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]))
			bench_die("no thread");
	}
	pthread_barrier_wait(&run->open);
	double cpu_us = bench_cpu_us();
	int64_t begun_ns = bench_now_ns();
	if (!run->turns) {
		bench_sleep_us(run->ms * 1000);
		atomic_store(&run->over, true);
	}
	for (int i = 0; i < run->threads; i++)
		pthread_join(workers[i].thread, NULL);
	double seconds = (double)(bench_now_ns() - begun_ns) / 1e9;
	print_sum(workers, run->threads, seconds, bench_cpu_us() - cpu_us);
}

static int keep(const struct turns_lock *lock, const char *url, const char *kind, long count)
{
	void *session = lock->open(url, kind);
	for (long i = 0; i < count; i++) {
		char name[64];
		const char *text = NULL;
		snprintf(name, sizeof(name), "kept-%ld", i);
		if (lock->lock(session, name, &text) != TURNS_OK)
			bench_die("%s: %s", name, text ? text : "not taken");
	}
	puts("kept");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}

int turns_main(int argc, char **argv, const struct turns_lock *lock)
{
	if (argc < 4)
		bench_die("usage: %s URL KIND HISTORY|keep …, see turns.h", argv[0]);
	if (strcmp(argv[3], "keep") == 0)
		return keep(lock, argv[1], argv[2], bench_number(argv[4], 1, 100000));
	struct run run = {.lock = lock,
			  .url = argv[1],
			  .kind = argv[2],
			  .name = "turns",
			  .threads = 1,
			  .ms = 1000};
	run.history = fopen(argv[3], "ae");
	if (!run.history)
		bench_die("%s: cannot be written", argv[3]);
	for (int i = 4; i < argc; i++)
		read_word(&run, argv[i]);
	atomic_store(&told, run.history);
	run_threads(&run);
	atomic_store(&told, NULL);
	return fflush(run.history) != 0;
}
