/* SPDX-License-Identifier: MIT */
/*
 * The calls of semaphores, latches and permit semaphores share this.
 *
 * The handle of each is its counter. Each call is there twice, blocking and as the start of an
 * asynchronous one. What both check, change and ask is written once, for a call that knows which of
 * the two it is.
 */
#ifndef LK__API_COUNTER_H
#define LK__API_COUNTER_H

#include "api/check.h"

struct lk__counter_call {
	struct lk__counter *counter; /* NULL: the caller's handle is */
	const char *operation;
	lk_error *error;
	const struct lk__start *start; /* NULL: it blocks */
	struct lk__thread *thread;     /* from enter to leave */
	int saved;
};

static inline struct lk__counter_call lk__counter_call(void *handle, const char *operation,
						       lk_error *error)
{
	return (struct lk__counter_call){.counter = handle, .operation = operation, .error = error};
}

static inline struct lk__counter_call lk__counter_start(const struct lk__start *start)
{
	return (struct lk__counter_call){.counter = start->handle,
					 .operation = start->operation,
					 .error = start->error,
					 .start = start};
}

/* Checks the name, and makes a handle. Free it with lk__counter_free(). `permits`, `ttl_ms`: as the
 * counter has them. */
int lk__counter_open(struct lk__counter **counter_out, lk_client *client,
		     const struct lk__recipe *recipe, const void *name, size_t name_size,
		     int64_t permits, int64_t ttl_ms, const char *operation, lk_error *error);
void *lk__counter_free(void *handle); /* NULL, also of NULL */

/* 0, or LK_EINVAL for what cannot be added to a count of permits. */
int lk__counter_check_added(const struct lk__counter_call *call, int64_t change);

/* ---- whole calls, whose arguments are good: 0, with the outputs if it blocks; or a code ---- */

/* Makes a change, and gives the integer that the script answers. */
int lk__counter_change(struct lk__counter_call *call, const struct lk__change *change,
		       int64_t *answer_out);
/* Changes the count, and returns the code or what was answered. */
int lk__counter_change_said(struct lk__counter_call *call, const struct lk__change *change);

/* The count as it is, 0 without one. */
int lk__counter_get(struct lk__counter_call *call, int64_t *count_out);

/* Waits for a grant: `want` without owner and what the counter says. */
int lk__counter_wait(struct lk__counter_call *call, struct lk__want *want);

/* ---- the parts of a call ---- */

/* Its first words, and its last ones: those of one that never waits, or as the call says. */
int lk__counter_enter_briefly(struct lk__counter_call *call);
int lk__counter_enter(struct lk__counter_call *call);
int lk__counter_leave(struct lk__counter_call *call, int rc);

/* Waits for the entry's grant, in a blocking call. */
int lk__counter_acquire(struct lk__counter_call *call, struct lk__want *want);

/* Starts an asynchronous call, and leaves. NULL: the counter's entry, and no owner. */
int lk__counter_go(struct lk__counter_call *call, struct lk__entry *entry,
		   const struct lk__owner *owner, struct lk__async_want *want);

#endif
