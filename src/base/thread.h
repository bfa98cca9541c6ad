/*
 * What the library keeps about one thread that uses one client: where it parks, and who it is.
 *
 * It lives as long as the client, also when the thread has ended: whoever wakes a thread may do
 * so a moment too late.
 */
#ifndef LK__BASE_THREAD_H
#define LK__BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "base/park.h"

struct lk__hold;

struct lk__thread {
	struct lk__park park;
	uint64_t serial; /* never used again, unlike pthread_t */
	pthread_mutex_t mutex;
	struct lk__hold *holds;  /* what the thread owns; under the mutex */
	struct lk__thread *next; /* of the client's threads */
	void *client;
	int ended; /* free for the next new thread */
};

/* Starts a thread of the library's own, in which all signals are blocked. 0 or an errno. */
int lk__thread_start(pthread_t *thread_out, int detached, void *(*main)(void *), void *argument);

/* Makes an eventfd readable. Async-signal-safe. */
static inline void lk__wake_fd(int fd)
{
	ssize_t wrote = write(fd, &(uint64_t){1}, sizeof(uint64_t));
	(void)wrote; /* a full counter wakes as well */
}

#endif
