/*
 * stress: threads that acquire and release, and a history of what they believed.
 *
 *   kind=WORD             the kind of lock (kinds.c), or semaphore, permits
 *   count=N               permits at a time
 *   threads=N pairs=M     each thread makes M pairs; a later "stop" ends it early
 *   name=PREFIX names=K   0: a fresh name for every pair; 1: one name for all (PREFIX itself);
 *                         K: PREFIX0 … PREFIX<K-1>, in turn
 *   wait=MS               -1: no limit; 0: try; else a wait limit
 *   lease=MS hold_us=US no_wait=1 pause_us=US (between pairs)
 *   queue=1               a lock's calls are asynchronous, each pair's under a name of its own
 *   cancel_us=US          a token a thread, one of them cancelled so often
 *   freeze_us=US freeze_ms=MS   one thread after the other is stopped for so long, wherever it
 *                         is; so much time between two stops
 *   history=FILE capacity=RECORDS run=N
 *
 * The answer counts the codes of acquires and releases, and the grants of each thread.
 */
#include "driver.h"
#include "history.h"
#include "holding.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODES 32

struct stress {
	const struct command *command;
	lk_client *client;
	int64_t threads, pairs, names, wait_ms, lease_ms, hold_us, pause_us, count;
	int64_t cancel_us, freeze_us, freeze_ms;
	uint32_t run;
	enum history_mode mode;
	const char *name;
	struct history history;
	pthread_barrier_t start;
	atomic_int running;
};

struct stress_thread {
	struct stress *stress;
	uint32_t number;
	pthread_t thread;
	lk_cancel *cancel;
	int64_t grants, longest_wait_ns;
	int64_t acquired[CODES], released[CODES]; /* by -code */
	char message[504];                        /* of the last failure */
};

/* The newest "stop": it also ends a stress that was asked for before it and begins after it. */
static atomic_long stop_id;

void stress_stop_all(const struct command *command)
{
	atomic_store(&stop_id, command->id);
}

static int stress_stopped(const struct stress *stress)
{
	return stress->command->id < atomic_load(&stop_id);
}

static void sleep_us(int64_t us)
{
	if (us > 0)
		usleep((useconds_t)us);
}

static uint32_t lock_number(const struct stress_thread *self, int64_t pair)
{
	const struct stress *stress = self->stress;
	if (stress->names == 0)
		return (uint32_t)(self->number * stress->pairs + pair);
	return (uint32_t)((self->number + pair) % stress->names);
}

static int holding_make(const struct stress_thread *self, uint32_t number, struct holding *holding,
			lk_error *error)
{
	const struct stress *stress = self->stress;
	char name[256];
	if (stress->names == 1)
		snprintf(name, sizeof(name), "%s", stress->name);
	else
		snprintf(name, sizeof(name), "%s%u", stress->name, number);
	return holding_open(holding, stress->command, stress->client, name, error);
}

static void count_code(struct stress_thread *self, int64_t *counts, int code, const char *message)
{
	counts[code <= 0 && -code < CODES ? -code : CODES - 1]++;
	if (code < 0)
		snprintf(self->message, sizeof(self->message), "%s", message);
}

/* Holds a grant for a while and gives it up; `record` is that of the grant. */
static void hold_and_release(struct stress_thread *self, struct holding *holding,
			     struct history_record *record)
{
	struct stress *stress = self->stress;
	lk_error error = {0};
	self->grants++;
	sleep_us(stress->hold_us);
	int64_t deadline_ns = holding_deadline_ns(holding);
	if (deadline_ns >= 0)
		record->deadline_ns = deadline_ns;
	record->time_ns = now_ns();
	history_add(&stress->history, record, HISTORY_RELEASE);
	record->code = holding_release(holding, &error);
	record->time_ns = now_ns();
	history_add(&stress->history, record, HISTORY_RELEASED);
	count_code(self, self->released, record->code, error.message);
}

static void pair_run(struct stress_thread *self, int64_t pair)
{
	struct stress *stress = self->stress;
	struct history_record record = {
		.process = (uint32_t)getpid(),
		.thread = self->number,
		.attempt = (uint32_t)pair,
		.lock = lock_number(self, pair),
		.run = stress->run,
		.mode = stress->mode,
		.permits = (uint32_t)(stress->mode == HISTORY_PERMITS ? stress->count : 0),
	};
	struct holding holding;
	lk_error error = {0};
	record.code = holding_make(self, record.lock, &holding, &error);
	if (record.code) {
		count_code(self, self->acquired, record.code, error.message);
		return;
	}
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = stress->lease_ms;
	options.cancel = self->cancel;
	int64_t begun_ns = record.time_ns = now_ns();
	history_add(&stress->history, &record, HISTORY_INVOKE);
	record.code = holding_acquire(&holding, stress->wait_ms, &options, &error);
	record.time_ns = now_ns();
	count_code(self, self->acquired, record.code, error.message);
	if (record.time_ns - begun_ns > self->longest_wait_ns)
		self->longest_wait_ns = record.time_ns - begun_ns;
	if (record.code == 0) {
		/* A grant whose deadline is gone already says nothing: then it is "over". */
		int64_t deadline_ns = holding_deadline_ns(&holding);
		record.deadline_ns = deadline_ns < 0 ? begun_ns : deadline_ns;
		record.fence = holding_fence(&holding);
		history_add(&stress->history, &record, HISTORY_GRANTED);
		hold_and_release(self, &holding, &record);
	} else {
		history_add(&stress->history, &record, HISTORY_FAILED);
	}
	holding_close(&holding);
}

static void *stress_thread_main(void *argument)
{
	struct stress_thread *self = argument;
	struct stress *stress = self->stress;
	pthread_barrier_wait(&stress->start);
	for (int64_t pair = 0; pair < stress->pairs && !stress_stopped(stress); pair++) {
		if (self->cancel)
			lk_cancel_reset(self->cancel);
		pair_run(self, pair);
		sleep_us(stress->pause_us);
	}
	atomic_fetch_sub(&stress->running, 1);
	return NULL;
}

static void codes_answer(struct answer *answer, const char *prefix, const struct stress *stress,
			 const struct stress_thread *threads, int released)
{
	char key[64];
	for (int code = 0; code < CODES; code++) {
		int64_t sum = 0;
		for (int64_t i = 0; i < stress->threads; i++)
			sum += released ? threads[i].released[code] : threads[i].acquired[code];
		snprintf(key, sizeof(key), "%s%s", prefix, code ? lk_error_name(-code) : "OK");
		if (sum)
			answer_int(answer, key, sum);
	}
}

static void stress_answer(struct answer *answer, struct stress *stress,
			  struct stress_thread *threads)
{
	int64_t least = INT64_MAX, most = 0, sum = 0, longest_ns = 0;
	for (int64_t i = 0; i < stress->threads; i++) {
		int64_t grants = threads[i].grants;
		least = grants < least ? grants : least;
		most = grants > most ? grants : most;
		sum += grants;
		if (threads[i].longest_wait_ns > longest_ns)
			longest_ns = threads[i].longest_wait_ns;
		if (threads[i].message[0])
			answer_string(answer, "message", threads[i].message);
	}
	answer_int(answer, "grants", sum);
	answer_int(answer, "least", least);
	answer_int(answer, "most", most);
	answer_int(answer, "longest_wait_us", longest_ns / 1000);
	answer_int(answer, "overflowed", history_overflowed(&stress->history));
	codes_answer(answer, "acquire_", stress, threads, 0);
	codes_answer(answer, "release_", stress, threads, 1);
}

static void stress_read(struct stress *stress, const struct command *command)
{
	const char *name = command_text(command, "name", NULL);
	stress->command = command;
	stress->client = handle_client(command);
	stress->mode = holding_mode(command);
	stress->count = command_number(command, "count", 1);
	stress->name = name ? name : "stress";
	stress->threads = command_number(command, "threads", 1);
	stress->pairs = command_number(command, "pairs", 1);
	stress->names = command_number(command, "names", 1);
	stress->wait_ms = command_number(command, "wait", -1);
	stress->lease_ms = command_number(command, "lease", 0);
	stress->hold_us = command_number(command, "hold_us", 0);
	stress->pause_us = command_number(command, "pause_us", 0);
	stress->cancel_us = command_number(command, "cancel_us", 0);
	stress->freeze_us = command_number(command, "freeze_us", 0);
	stress->freeze_ms = command_number(command, "freeze_ms", 200);
	stress->run = (uint32_t)command_number(command, "run", 0);
	atomic_init(&stress->running, (int)stress->threads);
}

/* Cancels or stops the threads in turn while they run; they are joined only afterwards. */
static void stress_disturb(struct stress *stress, struct stress_thread *threads)
{
	int64_t pause_us = stress->cancel_us ? stress->cancel_us : stress->freeze_us;
	for (int64_t i = 0; pause_us && atomic_load(&stress->running) > 0; i++) {
		struct stress_thread *thread = &threads[i % stress->threads];
		sleep_us(pause_us);
		if (stress->cancel_us) {
			lk_cancel_now(thread->cancel);
		} else {
			freeze_thread(thread->thread, stress->freeze_ms);
			sleep_us(stress->freeze_ms * 1000);
		}
	}
}

static int stress_thread_start(struct stress_thread *self)
{
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 * 1024);
	int failed = pthread_create(&self->thread, &attributes, stress_thread_main, self);
	pthread_attr_destroy(&attributes);
	return failed;
}

void stress_run(const struct command *command, struct answer *answer)
{
	struct stress stress = {0};
	stress_read(&stress, command);
	if (!holding_known(command)) {
		answer_string(answer, "code", "unknown kind");
		return;
	}
	const char *path = command_text(command, "history", NULL);
	size_t capacity = (size_t)command_number(command, "capacity",
						 stress.threads * stress.pairs * 4);
	if (path && history_open(&stress.history, path, capacity))
		abort();
	struct stress_thread *threads = calloc((size_t)stress.threads, sizeof(*threads));
	if (!threads || pthread_barrier_init(&stress.start, NULL, (unsigned)stress.threads))
		abort();
	for (int64_t i = 0; i < stress.threads; i++) {
		threads[i].stress = &stress;
		threads[i].number = (uint32_t)i;
		if (stress.cancel_us && lk_cancel_new(&threads[i].cancel, NULL))
			abort();
		if (stress_thread_start(&threads[i]))
			abort();
	}
	stress_disturb(&stress, threads);
	for (int64_t i = 0; i < stress.threads; i++) {
		pthread_join(threads[i].thread, NULL);
		lk_cancel_free(threads[i].cancel);
	}
	stress_answer(answer, &stress, threads);
	answer_string(answer, "code", "OK");
	history_close(&stress.history);
	pthread_barrier_destroy(&stress.start);
	free(threads);
}
