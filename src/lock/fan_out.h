/* SPDX-License-Identifier: MIT */
/*
 * Several nodes asked at once by one caller, who goes on as soon as it knows enough.
 *
 * Each node is asked one or more commands, in order, on a connection of its own. A calling thread
 * sleeps in one poll() over all of them and reads for itself where nobody else does. An
 * asynchronous call is woken by answers that the loops of the nodes' clients read. What is not
 * answered when the caller ends the fan-out stays in flight: its reader gives it to `late`.
 */
#ifndef LK__LOCK_FAN_OUT_H
#define LK__LOCK_FAN_OUT_H

#include "conn/conn.h"

#define LK__FAN_OUT_NODES_MAX 64
#define LK__FAN_OUT_ASKS_MAX 12 /* commands a node */

struct lk__fan_out;
struct lk__op;

/* One node's part. */
struct lk__fan_out_part {
	struct lk__fan_out *fan_out;
	struct lk__conn *conn;
	size_t count, done;
	bool taken;
	struct lk__request *request[LK__FAN_OUT_ASKS_MAX]; /* all are done when done == count */
};

/* The use that is made of the answers. `take` and `decided` are called with the fan-out locked, by
 * the caller; `late` and `end` with no mutex held, by the threads that read the answers, perhaps at
 * once. */
struct lk__fan_out_use {
	void *context;
	/* The answers of a node are complete. May be NULL. */
	void (*take)(void *context, size_t node, const struct lk__fan_out_part *part);
	/* Whether the caller knows enough. */
	bool (*decided)(void *context);
	/* The same as `take`, once the caller has gone. May be NULL. */
	void (*late)(void *context, size_t node, const struct lk__fan_out_part *part);
	/* The caller has gone, and all answers are there: frees the context. May be NULL. */
	void (*end)(void *context);
};

/* Makes one for `count` nodes. `thread`: the caller's. NULL, and errno, when out of memory or
 * descriptors. */
struct lk__fan_out *lk__fan_out_new(size_t count, const struct lk__fan_out_use *use,
				    struct lk__thread *thread);

/* Adds a command for a node; NULL stands for one that there was no memory for: the node is then
 * not asked. All before lk__fan_out_go(). */
void lk__fan_out_add(struct lk__fan_out *fan_out, size_t node, struct lk__conn *conn,
		     struct lk__request *request);

/* Sends them all. */
void lk__fan_out_go(struct lk__fan_out *fan_out);

/* Waits until it is decided, until all are there, or the deadline: LK__WAIT_READY, LK__WAIT_TIME_UP
 * or LK_ECANCELLED. */
int lk__fan_out_wait(struct lk__fan_out *fan_out, int64_t until_ns, lk_cancel *cancel);

/* Looks, for an asynchronous call, which is woken until this is true. */
bool lk__fan_out_look(struct lk__fan_out *fan_out);

/* From `take` alone: asks its node one more command, from now on on that connection; its answers
 * will be taken again. False when it was NULL, or one too many. */
bool lk__fan_out_more(struct lk__fan_out *fan_out, size_t node, struct lk__conn *conn,
		      struct lk__request *request);

/* The caller has no more time: what was answered, and waits for replicas or disks, is done, and its
 * answer says which are missing (lk__conn_hurry()). Before lk__fan_out_withdraw(), which takes it.
 * For callers that hold no lock. */
void lk__fan_out_hurry(struct lk__fan_out *fan_out);

/* Takes back what was not sent yet, which is taken as an answer that says so. */
void lk__fan_out_withdraw(struct lk__fan_out *fan_out);

/* A node's part, as it was asked. */
const struct lk__fan_out_part *lk__fan_out_at(const struct lk__fan_out *fan_out, size_t node);

/* The caller goes. */
void lk__fan_out_end(struct lk__fan_out *fan_out);

/* One command for one connection. */
struct lk__ask {
	struct lk__conn *conn;
	struct lk__request *request;
};

/*
 * One command each for several connections. `read` is called for each, as the answers come, with
 * its request, done, or NULL where none came in time; what was not sent by then is done, with
 * LK_EUNREACHABLE, and not sent any more; what lacks replicas or disks by then, with
 * LK_ENOTDURABLE. The requests are gone then. Until an answer is read, closing its client waits:
 * what `read` still sends gets through.
 */
struct lk__asks {
	size_t count;
	struct lk__ask of[LK__FAN_OUT_NODES_MAX];
	void (*read)(void *context, size_t index, const struct lk__request *request);
	void *context;
	int64_t until_ns;
	struct lk__fan_out *fan_out; /* asks all at once; NULL: */
	size_t next;                 /* one after the other */
};

/* Sends them, for an operation that waits for the answers. Look: true when all are read, at the
 * latest when op->until_ns is over, or if it gives up. */
void lk__asks_begin(struct lk__asks *asks, struct lk__op *op, int64_t until_ns);
bool lk__asks_look(struct lk__asks *asks, struct lk__op *op, bool gives_up);

/* The whole of it, in the calling thread. */
void lk__asks_run(struct lk__asks *asks, struct lk__thread *thread, int64_t until_ns);

#endif
