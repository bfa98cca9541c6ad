/* SPDX-License-Identifier: MIT */
#include "base/cancel.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "base/descriptors.h"
#include "base/fail.h"
#include "base/thread.h"

int lk_cancel_new(lk_cancel **cancel_out, lk_error *error)
{
	if (!cancel_out)
		return lk__fail(error, LK_EINVAL, "lk_cancel_new: cancel_out is NULL");
	lk_cancel *cancel = calloc(1, sizeof(*cancel));
	if (!cancel)
		return lk__fail(error, LK_ENOMEM, "lk_cancel_new: out of memory");
	cancel->fd = lk__wake_fd_new();
	if (cancel->fd < 0) {
		int saved = errno;
		free(cancel);
		return lk__fail_system(error, saved, "lk_cancel_new: eventfd");
	}
	lk__fd_forget(cancel->fd); /* a forked child may use it with clients of its own */
	*cancel_out = cancel;
	return 0;
}

void lk_cancel_now(lk_cancel *cancel)
{
	int saved = errno;
	atomic_store(&cancel->set, 1);
	lk__wake_fd(cancel->fd);
	atomic_fetch_add(&cancel->wakers, 1);
	struct lk__thread *thread = atomic_load(&cancel->thread);
	if (thread)
		lk__park_wake(&thread->park);
	atomic_fetch_sub(&cancel->wakers, 1);
	errno = saved;
}

void lk_cancel_reset(lk_cancel *cancel)
{
	lk__wake_fd_clear(cancel->fd);
	atomic_store(&cancel->set, 0);
}

int lk_cancel_is_set(const lk_cancel *cancel)
{
	return atomic_load(&cancel->set) != 0;
}

void lk_cancel_on_interrupt(lk_cancel *cancel, lk_interrupt_callback callback, void *context)
{
	cancel->interrupted = callback;
	cancel->context = context;
}

lk_cancel *lk_cancel_free(lk_cancel *cancel)
{
	if (cancel) {
		lk__fd_close(cancel->fd);
		free(cancel);
	}
	return NULL;
}

int lk__cancel_enter(lk_cancel *cancel, struct lk__thread *thread, lk_error *error)
{
	struct lk__thread *nobody = NULL;
	if (!cancel || atomic_compare_exchange_strong(&cancel->thread, &nobody, thread))
		return 0;
	return lk__fail(error, LK_EINVAL, "cancel: the token is used by another call");
}

void lk__cancel_move(lk_cancel *cancel, struct lk__thread *thread)
{
	if (cancel)
		atomic_store(&cancel->thread, thread);
}

void lk__cancel_leave(lk_cancel *cancel)
{
	if (!cancel)
		return;
	atomic_store(&cancel->thread, NULL);
	while (atomic_load(&cancel->wakers) > 0)
		sched_yield();
}

static void cancel_interrupted(lk_cancel *cancel)
{
	if (cancel && cancel->interrupted && cancel->interrupted(cancel->context))
		lk_cancel_now(cancel);
}

void lk__cancel_park(lk_cancel *cancel, struct lk__park *park, int64_t deadline_ns)
{
	if (lk__park_wait(park, deadline_ns) == LK__INTERRUPTED)
		cancel_interrupted(cancel);
}

int lk__cancel_poll(lk_cancel *cancel, struct pollfd *fds, size_t count, int timeout_ms)
{
	int ready = lk__poll(fds, count, timeout_ms);
	if (ready < 0 && errno == EINTR)
		cancel_interrupted(cancel);
	return ready;
}
