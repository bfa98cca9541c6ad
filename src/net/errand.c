/* SPDX-License-Identifier: MIT */
#include "net/errand.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>

#include "base/door.h"

#define LOOK_MS 1000 /* between looks, in case its descriptor was closed */

void lk__errand_leave(struct lk__errand *errand)
{
	if (!errand || atomic_fetch_sub(&errand->users, 1) > 1)
		return;
	if (errand->fd >= 0)
		lk__fd_close(errand->fd);
	errand->free(errand);
}

static void *errand_main(void *argument)
{
	struct lk__errand *errand = argument;
	errand->run(errand);
	atomic_store(&errand->done, true);
	lk__wake_fd(errand->fd);
	lk__errand_leave(errand);
	return NULL;
}

int lk__errand_begin(struct lk__errand *errand, bool thread)
{
	errand->fd = -1;
	atomic_store(&errand->done, !thread);
	atomic_store(&errand->users, thread ? 2 : 1);
	if (!thread) {
		errand->run(errand);
		return 0;
	}
	errand->fd = lk__wake_fd_new();
	int failed = errand->fd < 0 ? errno : lk__thread_start(NULL, errand_main, errand);
	if (failed) {
		lk__errand_leave(errand); /* for the thread that is not there */
		lk__errand_leave(errand);
	}
	return failed;
}

void lk__errand_end(struct lk__errand *errand)
{
	while (errand && !lk__errand_is_done(errand)) {
		struct pollfd polled = {.fd = errand->fd, .events = POLLIN};
		lk__poll(&polled, 1, LOOK_MS);
	}
	lk__errand_leave(errand);
}
