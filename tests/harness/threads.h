/* Threads of a test: start some at one moment, join them within a limit. */
#ifndef HARNESS_THREADS_H
#define HARNESS_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define THREADS_MAX 1024

typedef void (*thread_body)(size_t index, void *argument);

struct threads {
	size_t count;
	struct thread *list;
	pthread_barrier_t start;
};

/* Starts `count` threads that begin `body` together; each gets its index and `argument`. */
void threads_start(struct threads *threads, size_t count, thread_body body, void *argument);

/*
 * Joins them all. A thread that has not ended within `limit_ms` (times slow) ends the process:
 * there is no way to go on past it. Checks that failed in threads fail the test here.
 */
void threads_join(struct threads *threads, int64_t limit_ms);

/* Whether thread `index` has returned. */
bool thread_done(const struct threads *threads, size_t index);

/* Its pthread_t, for pthread_kill() and pthread_cancel(). */
pthread_t thread_id(const struct threads *threads, size_t index);

#endif
