/* SPDX-License-Identifier: MIT */
/*
 * What semaphores and latches share: a handle on a count in Redis, and changes of it that count
 * once however often they are sent.
 */
#ifndef LK__API_COUNTER_H
#define LK__API_COUNTER_H

#include "drive/caller.h"

#define LK__COUNTER_KEYS_MAX 1      /* beside the count and the records */
#define LK__COUNTER_ARGUMENTS_MAX 2 /* after deadline and channel */

struct lk__counter {
	lk_client *client;
	struct lk__entry *entry;
	pthread_mutex_t mutex;
	uint64_t *settled; /* changes whose records can go: as many as threads made them at once */
	size_t settled_count, settled_room;
};

/* One change: a script with the keys count, record, settled record and `key` (unless NULL), and
 * the arguments deadline, channel and `arguments`. */
struct lk__change {
	enum lk__script_id script;
	const char *key;
	size_t key_size;
	size_t argument_count;
	const char *arguments[LK__COUNTER_ARGUMENTS_MAX];
};

struct lk__counter_call {
	struct lk__counter *counter;
	const char *operation;
	struct lk__thread *thread;
	int saved;
	lk_error *error;
};

/* Checks the name, and makes the handle's inside. */
int lk__counter_open(struct lk__counter *counter, lk_client *client,
		     const struct lk__recipe *recipe, const void *name, size_t name_size,
		     const char *operation, lk_error *error);
void lk__counter_close(struct lk__counter *counter);

/* The first and last words of a call; `counter` may be NULL. */
int lk__counter_enter(struct lk__counter_call *call, struct lk__counter *counter,
		      const char *operation, lk_error *error);
int lk__counter_leave(struct lk__counter_call *call, int rc);

/* Asks, and gives the reply, to be freed with its request. For requests that may be sent twice. */
int lk__counter_ask(struct lk__counter_call *call, struct lk__request *request,
		    struct lk__request **answer_out);

/* Makes a change, and gives the integer that the script answers. */
int lk__counter_change(struct lk__counter_call *call, const struct lk__change *change,
		       int64_t *answer_out);

/* The count as it is, 0 without one. */
int lk__counter_get(struct lk__counter_call *call, int64_t *count_out);

/* Waits for the entry's grant: `want` without owner. */
int lk__counter_acquire(struct lk__counter_call *call, struct lk__want *want);

#endif
