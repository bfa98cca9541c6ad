/* SPDX-License-Identifier: MIT */
/*
 * The library's record of one thread that uses one client: where it parks, and who it is.
 *
 * It lives as long as the client, also when the thread has ended: whoever wakes a thread may do
 * so a moment too late.
 */
#ifndef LK__BASE_THREAD_H
#define LK__BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/door.h"

struct lk__hold;
struct lk__thread;

/*
 * Which of a client's threads calls, as far as the last ones tell. A lone caller may keep a core
 * busy while it waits; beside others, who need that core, it may not.
 */
struct lk__callers {
	struct lk__thread *_Atomic last;
	_Atomic int64_t mixed_ns; /* when another than `last` called; 0: never */
};

#define LK__ALONE_NS (50 * LK__MS) /* so long nobody else has called */
#define LK__MIXED_NS (5 * LK__MS)  /* between two notes that others call: each costs all of them */

struct lk__thread {
	struct lk__park park;
	/* Instead of the park, where it stands for an asynchronous call; from any thread, under any
	 * mutex. */
	void (*on_wake)(struct lk__thread *thread);
	_Atomic int
		polled; /* a descriptor + 1, beside the park: it sleeps in poll(); 0: it does not */
	_Atomic bool looks; /* a wait for no request of its own is to end, so that it looks */
	uint64_t serial;    /* never used again, unlike pthread_t */
	pthread_mutex_t mutex;
	struct lk__hold *holds;  /* what the thread owns; under the mutex */
	struct lk__thread *next; /* of the client's threads */
	void *client;
	struct lk__callers *callers; /* of that client; NULL: it has no others */
	int ended;                   /* free for the next new thread */
};

/* The thread calls. */
static inline void lk__callers_note(struct lk__callers *callers, struct lk__thread *thread)
{
	struct lk__thread *last = atomic_load_explicit(&callers->last, memory_order_relaxed);
	if (last == thread)
		return;
	int64_t now_ns = lk__now_ns();
	if (now_ns - atomic_load_explicit(&callers->mixed_ns, memory_order_relaxed) < LK__MIXED_NS)
		return;
	atomic_store_explicit(&callers->last, thread, memory_order_relaxed);
	if (last)
		atomic_store_explicit(&callers->mixed_ns, now_ns, memory_order_relaxed);
}

/* Tells whether no other thread has called for a while. */
static inline bool lk__thread_is_alone(const struct lk__thread *thread, int64_t now_ns)
{
	const struct lk__callers *callers = thread->callers;
	if (!callers)
		return true;
	int64_t mixed_ns = atomic_load_explicit(&callers->mixed_ns, memory_order_relaxed);
	return mixed_ns == 0 || now_ns - mixed_ns >= LK__ALONE_NS;
}

static inline void lk__thread_wake(struct lk__thread *thread)
{
	if (thread->on_wake) {
		thread->on_wake(thread);
		return;
	}
	lk__park_wake(&thread->park);
	int polled = atomic_load(&thread->polled);
	if (polled)
		lk__wake_fd(polled - 1);
}

#endif
