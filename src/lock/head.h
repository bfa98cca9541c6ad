/* SPDX-License-Identifier: MIT */
/*
 * The head of a wait queue: carries out the effects of each step of the lock's attempt
 * (src/sync/attempt.h) and feeds what came of them. It decides nothing.
 *
 *   head.c       steps, tries, answers, grants
 *   head_act.c   the actions: each is begun, and looked at when what it waits for may be there
 *
 * The entry's mutex is held. A try that the head leaves behind stays in flight: the next head waits
 * on for it, and without one the thread that reads its answer steps the detached attempt.
 */
#ifndef LK__LOCK_HEAD_H
#define LK__LOCK_HEAD_H

#include "lock/hold.h"
#include "lock/operation.h"

/* What a head waits for. */
enum lk__head_wait {
	LK__HEAD_NOTHING,
	LK__HEAD_CONNECTION,
	LK__HEAD_ANSWER,
	LK__HEAD_SUBSCRIPTION,
	LK__HEAD_MESSAGE,
	LK__HEAD_PAUSE,
};

struct lk__head {
	struct lk__op *op; /* of the call: what waits */
	struct lk__entry *entry;
	struct lk__caller *waiter;
	struct lk__attempt_event event; /* the next that the attempt is fed */
	uint64_t fence;                 /* of the grant */
	uint64_t epoch;                 /* of the node, before the try */
	bool first;                     /* no try of this head has been sent yet */
	bool moved;                     /* the node is another than the last time */
	struct lk__conn *pinned;        /* while a try is out; NULL */
	struct lk__nodes_call *call;    /* the try, where the lock is on several nodes */
	lk_error *error;
	enum lk__head_wait wait;
	int64_t pause_until_ns;
};

static inline bool lk__caller_cancelled(const struct lk__caller *waiter)
{
	return lk__cancelled(waiter->cancel) || (waiter->stop && atomic_load(waiter->stop));
}

/* A limit that passes while a try is on its way would leave nearly every refusal uncertain: the
 * answer is given a little time. Beyond the limit, for a caller that has one. */
int64_t lk__caller_last_answer_ns(const struct lk__caller *waiter);

/* The head of the queue begins, with the entry's mutex held as in all that follows. */
void lk__head_begin(struct lk__head *head, struct lk__op *op, struct lk__entry *entry,
		    struct lk__caller *waiter, lk_error *error);
void lk__head_end(struct lk__head *head);

/* Feeds the event. 1: the waiter has its grant; 0: `effects` is what to do next; or a code: the
 * head is over, and its waiter still in the queue. */
int lk__head_step(struct lk__head *head, struct lk__effects *effects);

/* The head cannot go on, for that reason. Returns what its caller is told. */
int lk__head_leave(struct lk__head *head, int code);

/* 0, or why the head has to leave. */
int lk__head_over(const struct lk__head *head);

/* ---- events ---- */

void lk__head_happened(struct lk__head *head, enum lk__attempt_event_type type);

/* Looks up where to connect, if the lock is on one node. */
struct lk__conn *lk__head_route(struct lk__head *head);

/* The wait for the connection ended so. 0 with the event, or why the head has to leave. */
int lk__head_connected(struct lk__head *head, int rc, const lk_error *why);
int64_t lk__head_connect_until_ns(const struct lk__head *head, int64_t unlimited_until_ns);

/* While a try is out, and until its grant has an owner or has gone back, close must not take the
 * connection for idle: until the next step. */
void lk__head_pin(struct lk__head *head);

/* The request of a try, ready to be sent; NULL with an event. */
struct lk__request *lk__head_try(struct lk__head *head);
/* Until when its answer is waited for. */
int64_t lk__head_answer_until_ns(const struct lk__head *head);
/* Reads it. */
void lk__head_answered(struct lk__head *head, struct lk__request *request);
/* No answer came: the server has had its time. */
void lk__head_unanswered(struct lk__head *head);
/* For a try that is left behind: feeds its answer to the next head, or to the detached attempt. */
void lk__head_detached(struct lk__request *request);

/* Subscribes. False with an event. */
bool lk__head_subscribe(struct lk__head *head);
int64_t lk__head_subscribe_until_ns(const struct lk__head *head);
int lk__head_subscribed(struct lk__head *head, int rc, const lk_error *why);

/* What has been heard so far is in `mark`. Returns until when to listen. */
int64_t lk__head_listen(struct lk__head *head, int64_t until_ns, bool news_only,
			struct lk__heard *mark);
int lk__head_heard(struct lk__head *head, int rc, const struct lk__heard *mark);

/* A random part of the half of the time until then. */
int64_t lk__head_jitter_ns(int64_t until_ns);

/* ---- the actions ---- */

/* A try at one node (see struct lk__policy): 0 with an event, or LK__OP_WAITS. And a look at it,
 * with the same, or why the head has to leave. */
int lk__head_send(struct lk__head *head);
int lk__head_send_look(struct lk__head *head);

/* 0, or why the head has to leave at once, whatever it waits for. */
int lk__head_gone(const struct lk__head *head);

/* Goes on as far as it can: 1, granted to the waiter; LK__OP_WAITS; or a code, and the waiter is
 * still in the queue. */
int lk__head_run(struct lk__head *head);

#endif
