/* SPDX-License-Identifier: MIT */
/*
 * The cancel token from the inside: a flag, a descriptor for callers that poll, and the thread
 * that is to be woken when it parks.
 *
 * lk_cancel_now() runs in signal handlers, so there is no lock: `wakers` counts the threads in the
 * middle of it, and a call that ends waits until it is 0 before the thread can go away.
 */
#ifndef LK__BASE_CANCEL_H
#define LK__BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/cancel.h>

struct lk__park;
struct lk__thread;
struct pollfd;

struct lk_cancel {
	_Atomic int set;
	_Atomic int wakers;
	_Atomic(struct lk__thread *) thread;
	int fd;
	lk_interrupt_callback interrupted; /* NULL: a signal changes nothing */
	void *context;
};

/* Ties the token to the calling thread for one call; LK_EINVAL when another call uses it. */
int lk__cancel_enter(lk_cancel *cancel, struct lk__thread *thread, lk_error *error);
void lk__cancel_leave(lk_cancel *cancel);

/* Within the call: from now on it parks elsewhere, in the calling thread's place of that client. */
void lk__cancel_move(lk_cancel *cancel, struct lk__thread *thread);

/* lk__park_wait() and lk__poll() in a call that has this token, or NULL. If a signal handler
 * interrupts them, the program's callback says whether the call ends. */
void lk__cancel_park(lk_cancel *cancel, struct lk__park *park, int64_t deadline_ns);
int lk__cancel_poll(lk_cancel *cancel, struct pollfd *fds, size_t count, int timeout_ms);

static inline bool lk__cancelled(const lk_cancel *cancel)
{
	return cancel && atomic_load(&cancel->set);
}

#endif
