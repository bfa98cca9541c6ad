/* SPDX-License-Identifier: MIT */
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

#include "base/door.h"

struct lk__hold;

struct lk__thread {
	struct lk__park park;
	/* Instead of the park, where it stands for an asynchronous call; from any thread, under any
	 * mutex. */
	void (*on_wake)(struct lk__thread *thread);
	uint64_t serial; /* never used again, unlike pthread_t */
	pthread_mutex_t mutex;
	struct lk__hold *holds;  /* what the thread owns; under the mutex */
	struct lk__thread *next; /* of the client's threads */
	void *client;
	int ended; /* free for the next new thread */
};

static inline void lk__thread_wake(struct lk__thread *thread)
{
	if (thread->on_wake)
		thread->on_wake(thread);
	else
		lk__park_wake(&thread->park);
}

#endif
