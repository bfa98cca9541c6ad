/* SPDX-License-Identifier: MIT */
/*
 * An operation: a public call, from its start to its end.
 *
 * `step` runs until the call must wait, and says for what. Whoever drives it waits:
 *
 *   lk__op_run()   the calling thread, which leads a connection meanwhile, or parks
 *   lock/async.c   the loop, or lk_client_process(): it resumes what was woken, or is due
 *
 * A step finds out for itself what has happened since the last one; if nothing has, it waits on. So
 * there is one way for each call, and the drivers decide nothing.
 *
 * An operation waits for one thing at a time. Its begin says so, and its look ends the wait.
 */
#ifndef LK__LOCK_OPERATION_H
#define LK__LOCK_OPERATION_H

#include "lock/entry.h"

struct lk__fan_out;

#define LK__OP_WAITS 2 /* what a step returns besides 0, 1 and codes; and what a look does */

enum lk__op_wait {
	LK__OP_TIME, /* or to be woken */
	LK__OP_CONNECTION,
	LK__OP_ANSWER,
	LK__OP_MESSAGE,
	LK__OP_NODES, /* the answers of several */
	LK__OP_OTHER, /* what an operation waits for that is a part of this one */
};

struct lk__op {
	/* LK__OP_WAITS; else the end: 0 or a code. */
	int (*step)(struct lk__op *op);
	struct lk__thread *thread; /* which is woken */
	lk_cancel *cancel;         /* of the call; NULL: there is none */
	enum lk__op_wait waits;
	bool unsent;      /* a calling thread sends its request when it waits */
	bool subscribes;  /* it waits for the subscription itself */
	int64_t until_ns; /* no longer; LK__NEVER. The loop may bring it forward */
	struct lk__conn *conn;
	struct lk__conn *joined; /* where a calling thread is counted; NULL */
	struct lk__request *request;
	struct lk__fan_out *fan_out;
	struct lk__op *other;
	struct lk__heard *mark; /* what it has heard so far */
	struct lk__standby standby;
};

/* Begins one that waits for nothing yet. `cancel` may be NULL. */
void lk__op_begin(struct lk__op *op, int (*step)(struct lk__op *op), struct lk__thread *thread,
		  lk_cancel *cancel);

/* Drives it in the calling thread, to its end. */
int lk__op_run(struct lk__op *op);

/* ---- for a step: what it waits for next ---- */

/* To be woken, or for that time. */
void lk__op_wait(struct lk__op *op, int64_t until_ns);

/* The connection. False: it is up. Look: what lk__conn_ready() returns, with `why` filled as there;
 * `over`: 0, or the code with which the wait ends at once. */
bool lk__op_connect(struct lk__op *op, struct lk__conn *conn, bool once, int64_t until_ns);
int lk__op_connect_look(struct lk__op *op, int over, lk_error *why);

/* Such a wait has ended with `rc`, and no connection: the code, with `error` filled. */
int lk__op_unconnected(const struct lk__entry *entry, const char *operation, int rc,
		       const lk_error *why, lk_error *error);

/* On which connection of the node to send: a calling thread goes where few others wait, and is
 * counted there until it has waited, or parts. With the entry's mutex held. */
struct lk__conn *lk__op_join(struct lk__op *op, struct lk__entry *entry, struct lk__node *node);
void lk__op_part(struct lk__op *op);

/* The answer: sends the request, which stays the operation's. A mutex may be held, so that others
 * send theirs behind it. */
void lk__op_send(struct lk__op *op, struct lk__conn *conn, struct lk__request *request,
		 int64_t until_ns);
/* Sends it where the order does not matter: a calling thread sends it when it waits, which saves a
 * turn of the connection's mutex. */
void lk__op_call(struct lk__op *op, struct lk__conn *conn, struct lk__request *request,
		 int64_t until_ns);
/* Waits on for a request that was sent before, and that is waited for by `thread`. */
void lk__op_await(struct lk__op *op, struct lk__request *request, int64_t until_ns);
bool lk__op_is_answered(struct lk__op *op);
/* The operation gives it up: true, and it is done, and stays the operation's; else `finish` will
 * own it. `hurries`: where only replicas are missing, it is done now, and says which. */
bool lk__op_leave(struct lk__op *op, bool hurries, void (*finish)(struct lk__request *request));

/* Sends a request that may be sent twice. Look: false while it waits on; else `answer_out` is the
 * request, done and the caller's, or NULL: no answer has come in time. */
void lk__op_ask(struct lk__op *op, struct lk__conn *conn, struct lk__request *request,
		int64_t until_ns);
bool lk__op_ask_look(struct lk__op *op, struct lk__request **answer_out);

/* A message, or the subscription itself, since the mark, which lives on. False: it is there
 * already. Look: as lk__channel_look(). */
bool lk__op_listen(struct lk__op *op, struct lk__conn *conn, struct lk__heard *mark,
		   bool subscribes, int64_t until_ns);
int lk__op_listen_look(struct lk__op *op, int over, lk_error *why);

/* The answers of several nodes: lk__fan_out_look() ends it, and says that it is to be woken. */
void lk__op_wait_nodes(struct lk__op *op, struct lk__fan_out *fan_out, int64_t until_ns);

/* Waits for what `other` waits for, whose step has said so. */
void lk__op_wait_other(struct lk__op *op, struct lk__op *other);

/* ---- one command, in the calling thread ---- */

/* Reads a request that is done: LK__WAIT_READY, or its code with `error` filled. NULL: it had no
 * answer in time, LK_EMAYBEHELD. */
int lk__ask_read(const lk_client *client, const struct lk__request *request, const char *what,
		 lk_error *error);

/*
 * Sends a request on a connection and waits for it: LK__WAIT_READY, else a code with `error`
 * filled and the request gone. For commands that may be sent twice.
 */
int lk__ask(lk_client *client, struct lk__conn *conn, struct lk__thread *thread,
	    struct lk__request *request, const char *what, int64_t until_ns, lk_error *error);

/* Marks a command that changes nothing, for lk__ask(): its outcome is never unknown. Takes NULL. */
struct lk__request *lk__question(struct lk__request *request);

/* Waits until a cluster's client knows who has the name, and so the replicas that must acknowledge;
 * for one failed attempt at most. */
void lk__ask_route(const struct lk__entry *entry, struct lk__thread *thread, int64_t until_ns);

/* As lk__ask(), on the entry's connection. */
int lk__ask_entry(struct lk__entry *entry, struct lk__thread *thread, struct lk__request *request,
		  const char *operation, int64_t until_ns, lk_error *error);

/* ---- one command, as an operation ---- */

/* One command about a lock from outside: a question, or a forced release. It holds nothing and
 * waits in no queue. */

/* A question, and how its answer is read. */
struct lk__questioned {
	struct lk__request *request; /* its own until it is sent */
	/* Reads the request, which is done. 0, or a code with `error` filled. */
	int (*read)(const struct lk__questioned *of, struct lk__entry *entry,
		    const struct lk__request *request, int64_t *answer_out, lk_error *error);
	uint64_t number;   /* of the grant that this client had before */
	const char *field; /* that it is about; NULL: none */
};

struct lk__question {
	struct lk__op op;
	struct lk__entry *entry;
	const char *operation; /* a constant, for messages */
	struct lk__questioned of;
	bool begun, connects;
	bool changes; /* something, so that its outcome may be unknown */
	int64_t until_ns;
	int64_t *answer_out;
	lk_error *error;
};

/* Takes over the request of `of`, which is there. */
void lk__question_init(struct lk__question *asking, struct lk__entry *entry,
		       struct lk__thread *thread, struct lk__questioned *of, const char *operation,
		       int64_t *answer_out, lk_error *error);

#endif
