#include "check.h"
#include "threads.h"
#include "waiting.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct thread {
	pthread_t id;
	size_t index;
	thread_body body;
	void *argument;
	struct threads *all;
	_Atomic bool done;
};

static void *thread_main(void *context)
{
	struct thread *thread = context;
	check_in_thread = true;
	pthread_barrier_wait(&thread->all->start);
	thread->body(thread->index, thread->argument);
	atomic_store(&thread->done, true);
	return NULL;
}

void threads_start(struct threads *threads, size_t count, thread_body body, void *argument)
{
	pthread_attr_t attributes;
	threads->count = count;
	threads->list = calloc(count, sizeof(*threads->list));
	pthread_barrier_init(&threads->start, NULL, (unsigned)count);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 * 1024);
	for (size_t i = 0; i < count; i++) {
		struct thread *thread = &threads->list[i];
		thread->index = i;
		thread->body = body;
		thread->argument = argument;
		thread->all = threads;
		if (pthread_create(&thread->id, &attributes, thread_main, thread)) {
			fprintf(stderr, "harness: thread %zu of %zu: no more threads\n", i, count);
			abort(); /* the others wait at the barrier */
		}
	}
	pthread_attr_destroy(&attributes);
}

void threads_join(struct threads *threads, int64_t limit_ms)
{
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += slow_ms(limit_ms) / 1000 + 1;
	for (size_t i = 0; i < threads->count; i++) {
		if (pthread_timedjoin_np(threads->list[i].id, NULL, &end)) {
			fprintf(stderr, "harness: thread %zu of %zu does not end\n", i,
				threads->count);
			abort();
		}
	}
	pthread_barrier_destroy(&threads->start);
	free(threads->list);
	threads->list = NULL;
	int failures = check_take_failures();
	if (failures)
		check_fail(__FILE__, __LINE__, "%d checks failed in threads", failures);
}

bool thread_done(const struct threads *threads, size_t index)
{
	return atomic_load(&threads->list[index].done);
}

pthread_t thread_id(const struct threads *threads, size_t index)
{
	return threads->list[index].id;
}
