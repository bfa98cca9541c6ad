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
	/* Whether the caller knows enough. May be NULL: it wants all. */
	bool (*decided)(void *context);
	/* The same as `take`, once the caller has gone. May be NULL. */
	void (*late)(void *context, size_t node, const struct lk__fan_out_part *part);
	/* What else leaves in one write with a node's commands. May be NULL. */
	void (*behind)(void *context, size_t node);
	/* The caller has gone, and all answers are there: frees the context. May be NULL. */
	void (*end)(void *context);
};

/* Makes one for `count` nodes. `thread`: the caller's; NULL: it does not look. NULL when out of
 * memory. */
struct lk__fan_out *lk__fan_out_new(size_t count, const struct lk__fan_out_use *use,
				    struct lk__thread *thread);

/* Adds a command for a node: before lk__fan_out_go(), or from `take` alone, for the node whose
 * answers it takes. Then that is asked at once, from now on on that connection, and its answers
 * will be taken again. False where it is NULL, as there was no memory for it. */
bool lk__fan_out_add(struct lk__fan_out *fan_out, size_t node, struct lk__conn *conn,
		     struct lk__request *request);

/* Sends them all. */
void lk__fan_out_go(struct lk__fan_out *fan_out);

/* Looks: true when it is decided, when all answers are there, or when that time has come. Who looks
 * is woken until it is true. */
bool lk__fan_out_look(struct lk__fan_out *fan_out, int64_t until_ns);

/* Sleeps in a calling thread until a look is true, or the token is cancelled. */
void lk__fan_out_wait(struct lk__fan_out *fan_out, int64_t until_ns, lk_cancel *cancel);

/* The caller has no more time. Takes back what was not sent yet, which is taken as an answer that
 * says so. `hurries`: what was answered, and waits for replicas or disks, is done as well, and its
 * answer says which are missing (lk__conn_hurry()). For callers that hold no lock. */
void lk__fan_out_withdraw(struct lk__fan_out *fan_out, bool hurries);

/* The caller goes. */
void lk__fan_out_end(struct lk__fan_out *fan_out);

#endif
