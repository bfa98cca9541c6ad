/* SPDX-License-Identifier: MIT */
/* One attempt at all locks of a multi lock that are not taken yet; and giving back. */
#ifndef LK__DRIVE_MULTI_ASK_H
#define LK__DRIVE_MULTI_ASK_H

#include "drive/multi.h"

#define LK__MULTI_ALL 1
#define LK__MULTI_BUSY 0

struct lk__multi_work;

struct lk__multi_ask {
	const struct lk__multi *multi;
	struct lk__multi_work *work; /* 20 KB, too many for the stacks of small threads */
	const struct lk__want *want;
	struct lk__thread *threads[LK__MULTI_MAX]; /* the caller's, in each part's client */
	bool taken[LK__MULTI_MAX];
	int64_t until_ns;
	size_t busy;  /* the part to wait for */
	int code;     /* why it was not had: LK_EBUSY, or what stood in the way */
	bool again;   /* because requests were not sent, or came late for the first time; no more */
	bool unknown; /* in some round parts may have been granted, for all we know */
	bool late;    /* one came late, and has taught us the server's time */
	lk_error *error;
};

/* The owner as each client knows it. */
struct lk__owner lk__multi_owner(const struct lk__thread *thread, const struct lk__owner *owner);

/* Finds the caller's threads, and memory for what follows; before all else. LK_ENOMEM. */
int lk__multi_begin(struct lk__multi_ask *ask);
void lk__multi_end(struct lk__multi_ask *ask);

/* LK__MULTI_ALL; LK__MULTI_BUSY, with `busy` and `code` (those that were granted are marked); or a
 * code that waiting cannot mend. */
int lk__multi_ask(struct lk__multi_ask *ask);

/* Releases once what is taken, all at once. 0, or the first code: LK_EMAYBEHELD where a part was
 * given up and the server has not confirmed it. What is not answered by `most_ns` goes on without
 * us. */
int lk__multi_give_back(struct lk__multi_ask *ask, int64_t most_ns);

#endif
