/* SPDX-License-Identifier: MIT */
/*
 * An errand can be neither limited nor stepped, so it has a thread of its own: a name to look up, a
 * callback of the program, files of certificates.
 *
 * The thread is detached. The giver of the errand waits for its descriptor, or leaves: then the
 * thread frees it at the end.
 */
#ifndef LK__NET_ERRAND_H
#define LK__NET_ERRAND_H

#include <stdatomic.h>
#include <stdbool.h>

/* The first member of what it is about. */
struct lk__errand {
	void (*run)(struct lk__errand *errand);
	void (*free)(struct lk__errand *errand); /* by the last that lets go of it */
	_Atomic int users;
	_Atomic bool done; /* what `run` has written is there */
	int fd;            /* readable when it is done */
};

/* Begins it; `run` and `free` are set. 0, or an errno, and then it is freed. Without a thread it is
 * done here. */
int lk__errand_begin(struct lk__errand *errand, bool thread);

static inline bool lk__errand_is_done(const struct lk__errand *errand)
{
	return atomic_load(&errand->done);
}

/* Lets go of it, done or not. NULL is fine. */
void lk__errand_leave(struct lk__errand *errand);

/* Waits until it is done, and lets go of it. NULL is fine. */
void lk__errand_end(struct lk__errand *errand);

#endif
