/* SPDX-License-Identifier: MIT */
/*
 * A count in Redis, and changes of it that count once however often they are sent.
 *
 * A change has a number, under which the server remembers its answer. So a request that was sent
 * again, or made anew because it came late, finds what the first copy has done. The record of a
 * change whose answer is known goes with the next change of the same counter.
 *
 * Here are the parts of a change; its operation (counting.h) waits between them.
 */
#ifndef LK__DRIVE_COUNT_COUNTER_H
#define LK__DRIVE_COUNT_COUNTER_H

#include "drive/lock/acquire.h"

#define LK__CHANGE_ARGUMENTS_MAX 3  /* after deadline and channel */
#define LK__CHANGE_ARGUMENT_SIZE 40 /* a permit's id, or a number */

struct lk__counter {
	_Atomic size_t refs; /* of the handle, and of changes in flight */
	lk_client *client;
	struct lk__entry *entry;
	int64_t permits; /* what a missing count becomes; 0: it stays missing */
	int64_t ttl_ms;  /* how long the count lasts at least; 0: not said */
	pthread_mutex_t mutex;
	uint64_t *settled; /* changes whose records can go: as many as were made at once */
	size_t settled_count, settled_room;
};

/* A counter over that entry, with references of entry and client; NULL when out of memory. */
struct lk__counter *lk__counter_new(struct lk__entry *entry);
void lk__counter_ref(struct lk__counter *counter);
void lk__counter_unref(struct lk__counter *counter);

/* What is to be changed: a script with the keys count, record and settled record, and the arguments
 * deadline, channel, these, and how long the count lasts at least. */
struct lk__change {
	enum lk__script_id script;
	bool permits; /* another key: the permits in use */
	size_t argument_count;
	char arguments[LK__CHANGE_ARGUMENTS_MAX][LK__CHANGE_ARGUMENT_SIZE];
};

void lk__change_add_text(struct lk__change *change, const char *text);
void lk__change_add_number(struct lk__change *change, int64_t number);

/* One change on its way. */
struct lk__changing {
	struct lk__counter *counter;
	const char *operation; /* lives on: a constant */
	struct lk__change change;
	uint64_t number;
	uint64_t settled;
	bool made_anew; /* once, because it came late */
	bool copied;    /* a copy of it may have run that nobody has heard of */
	int64_t answer;
};

/* Each begin has its end. The caller keeps the counter alive. */
void lk__change_begin(struct lk__changing *changing, struct lk__counter *counter,
		      const struct lk__change *change, const char *operation);

/* NULL when out of memory. Its deadline is to be set. */
struct lk__request *lk__change_request(const struct lk__changing *changing);

/* What its reply says: 1, `answer` is known; 0, another request is to be made; or a code. */
int lk__change_read(struct lk__changing *changing, const struct lk__request *request,
		    lk_error *error);

/* It is over, with 0 or a code. Returns what its caller is told. */
int lk__change_end(struct lk__changing *changing, int rc, lk_error *error);

/* Waiting for a connection has ended with `rc`: what the caller is told. */
int lk__counter_unconnected(const struct lk__entry *entry, const char *operation, int rc,
			    const lk_error *why, lk_error *error);

/* When what is asked now has to be answered. */
int64_t lk__counter_until_ns(const struct lk__entry *entry);

/* Asks for the count as it is; NULL when out of memory. */
struct lk__request *lk__count_request(const struct lk__entry *entry);
/* What was answered; `rc`: 0, or the code without an answer. The count is 0 without a key. */
int lk__count_read(const struct lk__entry *entry, const struct lk__request *request, int rc,
		   const char *operation, int64_t *count_out, lk_error *error);

/* What the caller of a semaphore or a latch is told of a wait that ended with `rc`; `count`: of
 * permits. */
int lk__counter_waited(const struct lk__entry *entry, int64_t count, int rc, lk_error *error);

#endif
