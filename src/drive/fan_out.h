/* SPDX-License-Identifier: MIT */
/*
 * Several nodes asked at once by one caller, who goes on as soon as it knows enough.
 *
 * Each node is asked one or more commands, in order, on a connection of its own. The calling
 * thread sleeps in one poll() over all of them and reads for itself where nobody else does. What
 * is not answered when the caller ends the fan-out stays in flight: whoever reads it gives it to
 * `late`, with no mutex held.
 */
#ifndef LK__DRIVE_FAN_OUT_H
#define LK__DRIVE_FAN_OUT_H

#include "conn/conn.h"

#define LK__FAN_OUT_NODES_MAX 32
#define LK__FAN_OUT_ASKS_MAX 6 /* commands a node */

struct lk__fan_out;

/* One node's part. */
struct lk__fan_out_part {
	struct lk__conn *conn;
	size_t count, done;
	bool taken;
	struct lk__request *request[LK__FAN_OUT_ASKS_MAX]; /* all are done when done == count */
};

/* Makes one for `count` nodes. NULL when out of memory or descriptors. */
struct lk__fan_out *lk__fan_out_new(size_t count);

/* Adds a command for a node; NULL stands for one that there was no memory for: the node is then
 * not asked. All before lk__fan_out_go(). */
void lk__fan_out_add(struct lk__fan_out *fan_out, size_t node, struct lk__conn *conn,
		     struct lk__request *request);

/* Sends them all. */
void lk__fan_out_go(struct lk__fan_out *fan_out);

/*
 * Waits until `decided`, until all are there, or the deadline: LK__WAIT_READY, LK__WAIT_TIME_UP or
 * LK_ECANCELLED. `take` (may be NULL) is given the answers of each node once they are complete.
 * Both are called with the fan-out locked, in the calling thread.
 */
int lk__fan_out_wait(struct lk__fan_out *fan_out, struct lk__thread *thread,
		     void (*take)(void *context, size_t node, const struct lk__fan_out_part *part),
		     bool (*decided)(void *context), void *context, int64_t until_ns,
		     lk_cancel *cancel);

/* From `take` alone: asks its node one more command; its answers will be taken again. False when it
 * was NULL, or one too many. */
bool lk__fan_out_more(struct lk__fan_out *fan_out, size_t node, struct lk__request *request);

/* What was not sent yet is not sent any more, and is taken as an answer that says so. */
void lk__fan_out_withdraw(struct lk__fan_out *fan_out,
			  void (*take)(void *context, size_t node,
				       const struct lk__fan_out_part *part),
			  void *context);

/* A node's part, as it was asked. */
const struct lk__fan_out_part *lk__fan_out_at(const struct lk__fan_out *fan_out, size_t node);

/*
 * The caller goes. From here on `late` (may be NULL) has the complete answers of each node that
 * `take` did not have; `end` (may be NULL), when all are there, frees the context. Both may be
 * called at once.
 */
void lk__fan_out_end(struct lk__fan_out *fan_out,
		     void (*late)(void *context, size_t node, const struct lk__fan_out_part *part),
		     void (*end)(void *context), void *context);

/* One command for one connection. */
struct lk__ask {
	struct lk__conn *conn;
	struct lk__request *request;
};

/*
 * Asks several connections one command each, waits for all, and calls `read` for each, as the
 * answers come, with its request, done, or NULL where none came in time; what was not sent by then
 * is done, with LK_EUNREACHABLE, and not sent any more. The requests are gone then. Until an answer
 * is read, closing its client waits: what `read` still sends gets through.
 * For one it is lk__conn_call().
 */
void lk__ask_each(const struct lk__ask *asks, size_t count, struct lk__thread *thread,
		  int64_t until_ns, lk_cancel *cancel,
		  void (*read)(void *context, size_t index, const struct lk__request *request),
		  void *context);

#endif
