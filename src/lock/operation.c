/* SPDX-License-Identifier: MIT */
#include "lock/operation.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/conn.h"
#include "lock/fan_out.h"

void lk__op_begin(struct lk__op *op, int (*step)(struct lk__op *op), struct lk__thread *thread,
		  lk_cancel *cancel)
{
	op->step = step;
	op->thread = thread;
	op->cancel = cancel;
	op->joined = NULL;
	op->unsent = false;
	lk__op_wait(op, LK__NEVER);
}

/* ---- in the calling thread ---- */

static void op_await(struct lk__op *op)
{
	if (op->unsent)
		lk__conn_call(op->conn, op->request, op->thread, op->until_ns, op->cancel);
	else
		lk__conn_await(op->request, op->thread, op->until_ns, op->cancel);
	op->unsent = false;
	lk__op_part(op);
}

static void op_sleep(struct lk__op *op)
{
	switch (op->waits) {
	case LK__OP_ANSWER:
		op_await(op);
		break;
	case LK__OP_CONNECTION:
		lk__conn_ready_sleep(op->conn, &op->standby, op->thread, op->until_ns, op->cancel);
		break;
	case LK__OP_MESSAGE:
		lk__channel_sleep(op->conn, op->mark, op->subscribes, op->thread, op->until_ns,
				  op->cancel);
		break;
	case LK__OP_NODES:
		lk__fan_out_wait(op->fan_out, op->until_ns, op->cancel);
		break;
	case LK__OP_OTHER:
		op_sleep(op->other);
		break;
	default:
		lk__cancel_park(op->cancel, &op->thread->park, op->until_ns);
	}
}

int lk__op_run(struct lk__op *op)
{
	int rc;
	while ((rc = op->step(op)) == LK__OP_WAITS)
		op_sleep(op);
	return rc;
}

/* ---- what it waits for ---- */

void lk__op_wait(struct lk__op *op, int64_t until_ns)
{
	op->waits = LK__OP_TIME;
	op->until_ns = until_ns;
}

bool lk__op_connect(struct lk__op *op, struct lk__conn *conn, bool once, int64_t until_ns)
{
	if (lk__conn_ready_begin(conn, &op->standby, op->thread, once))
		return false;
	op->waits = LK__OP_CONNECTION;
	op->conn = conn;
	op->until_ns = until_ns;
	return true;
}

int lk__op_connect_look(struct lk__op *op, int over, lk_error *why)
{
	int rc = over ? over : lk__conn_ready_look(op->conn, &op->standby, why);
	assert(op->waits == LK__OP_CONNECTION);
	if (rc == LK__WAIT_TIME_UP && lk__now_ns() < op->until_ns)
		return LK__OP_WAITS;
	lk__conn_ready_end(op->conn, &op->standby);
	return rc;
}

int lk__op_unconnected(const struct lk__entry *entry, const char *operation, int rc,
		       const lk_error *why, lk_error *error)
{
	if (rc == LK_ECLOSED)
		return lk__fail(error, rc, "%s \"%.100s\": %s", operation, entry->name,
				lk_error_text(rc));
	if (rc == LK__WAIT_TIME_UP)
		return lk__fail(error, LK_EUNREACHABLE,
				"%s \"%.100s\" on %.100s: no connection within the command limit",
				operation, entry->name, entry->client->config->url);
	return lk__fail(error, why->code, "%s \"%.100s\" on %.100s: %.300s", operation, entry->name,
			entry->client->config->url, why->message);
}

struct lk__conn *lk__op_join(struct lk__op *op, struct lk__entry *entry, struct lk__node *node)
{
	assert(!op->joined);
	if (!op->thread->on_wake)
		return op->joined = lk__entry_join(entry, node);
	lk__entry_return(entry, node);
	return lk__node_scripts_at(node, atomic_load(&entry->conn_index));
}

void lk__op_part(struct lk__op *op)
{
	if (op->joined)
		lk__conn_part(op->joined);
	op->joined = NULL;
}

void lk__op_await(struct lk__op *op, struct lk__request *request, int64_t until_ns)
{
	assert(request->thread == op->thread);
	op->waits = LK__OP_ANSWER;
	op->request = request;
	op->until_ns = until_ns;
}

void lk__op_send(struct lk__op *op, struct lk__conn *conn, struct lk__request *request,
		 int64_t until_ns)
{
	request->thread = op->thread;
	request->needed_ns = until_ns;
	lk__op_await(op, request, until_ns);
	lk__conn_submit(conn, request);
}

void lk__op_call(struct lk__op *op, struct lk__conn *conn, struct lk__request *request,
		 int64_t until_ns)
{
	if (op->thread->on_wake) {
		lk__op_send(op, conn, request, until_ns);
		return;
	}
	request->thread = op->thread;
	request->needed_ns = until_ns;
	lk__op_await(op, request, until_ns);
	op->conn = conn;
	op->unsent = true;
}

bool lk__op_is_answered(struct lk__op *op)
{
	assert(op->waits == LK__OP_ANSWER);
	return atomic_load(&op->request->done) && !lk__conn_follow(op->request);
}

bool lk__op_leave(struct lk__op *op, bool hurries, void (*finish)(struct lk__request *request))
{
	if (hurries)
		lk__conn_hurry(op->request);
	return !lk__conn_leave(op->request, finish);
}

void lk__op_ask(struct lk__op *op, struct lk__conn *conn, struct lk__request *request,
		int64_t until_ns)
{
	request->resend = request->patient = true;
	request->deadline_ns = until_ns;
	lk__op_call(op, conn, request, until_ns);
}

bool lk__op_ask_look(struct lk__op *op, struct lk__request **answer_out)
{
	*answer_out = op->request;
	if (lk__op_is_answered(op))
		return true;
	if (lk__now_ns() < op->until_ns)
		return false;
	if (!lk__op_leave(op, true, lk__request_forget))
		*answer_out = NULL;
	return true;
}

bool lk__op_listen(struct lk__op *op, struct lk__conn *conn, struct lk__heard *mark,
		   bool subscribes, int64_t until_ns)
{
	op->waits = LK__OP_MESSAGE;
	op->conn = conn;
	op->mark = mark;
	op->subscribes = subscribes;
	op->until_ns = until_ns;
	return !lk__channel_stand_by(conn, mark, subscribes, &op->standby, op->thread, until_ns);
}

int lk__op_listen_look(struct lk__op *op, int over, lk_error *why)
{
	int rc = over;
	assert(op->waits == LK__OP_MESSAGE);
	if (!rc)
		rc = lk__channel_look(op->conn, op->mark, op->subscribes, why);
	if (rc == LK__WAIT_TIME_UP && lk__now_ns() < op->until_ns)
		return LK__OP_WAITS;
	lk__channel_stand_down(op->conn, op->mark, &op->standby);
	return rc;
}

void lk__op_wait_nodes(struct lk__op *op, struct lk__fan_out *fan_out, int64_t until_ns)
{
	op->waits = LK__OP_NODES;
	op->fan_out = fan_out;
	op->until_ns = until_ns;
}

void lk__op_wait_other(struct lk__op *op, struct lk__op *other)
{
	op->waits = LK__OP_OTHER;
	op->other = other;
	op->until_ns = other->until_ns;
}

/* ---- one command, in the calling thread ---- */

/* A question leaves nothing behind that may be held: either the server has refused it, in words
 * that we do not know, or no answer came. */
static int ask_code(const struct lk__request *request, int code)
{
	if (!request->question || code != LK_EMAYBEHELD)
		return code;
	return request->reply ? LK_EREFUSED : LK_EUNREACHABLE;
}

int lk__ask_read(const lk_client *client, const struct lk__request *request, const char *what,
		 lk_error *error)
{
	const char *node = client->config->url;
	if (!request)
		return lk__fail(error, LK_EMAYBEHELD, "%s on %.100s: no answer within the limit",
				what, node);
	return request->code ? lk__fail(error, ask_code(request, request->code), "%s on %.100s: %s",
					what, node, request->reason)
			     : LK__WAIT_READY;
}

struct lk__request *lk__question(struct lk__request *request)
{
	if (request)
		request->question = true;
	return request;
}

int lk__ask(lk_client *client, struct lk__conn *conn, struct lk__thread *thread,
	    struct lk__request *request, const char *what, int64_t until_ns, lk_error *error)
{
	struct lk__op op;
	struct lk__request *answer;
	if (!request)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", what);
	int unanswered = ask_code(request, LK_EMAYBEHELD);
	lk__op_begin(&op, NULL, thread, NULL);
	lk__op_ask(&op, conn, request, until_ns);
	do
		op_sleep(&op); /* which sends it, also where its time is over */
	while (!lk__op_ask_look(&op, &answer));
	if (!answer)
		return lk__fail(error, unanswered, "%s on %.100s: no answer within the limit", what,
				client->config->url);
	int rc = lk__ask_read(client, answer, what, error);
	if (rc < 0)
		lk__request_free(answer);
	return rc;
}

void lk__ask_route(const struct lk__entry *entry, struct lk__thread *thread, int64_t until_ns)
{
	if (entry->client->topo->slotted)
		lk__conn_ready(lk__entry_scripts(entry), thread, true, until_ns, NULL);
}

int lk__ask_entry(struct lk__entry *entry, struct lk__thread *thread, struct lk__request *request,
		  const char *operation, int64_t until_ns, lk_error *error)
{
	char what[192];
	snprintf(what, sizeof(what), "%s \"%.100s\"", operation, entry->name);
	if (request && request->durable)
		lk__ask_route(entry, thread, until_ns);
	return lk__ask(entry->client, lk__entry_scripts(entry), thread, request, what, until_ns,
		       error);
}

/* ---- one command, as an operation ---- */

static int question_ask(struct lk__question *asking)
{
	struct lk__request *request = asking->of.request;
	asking->connects = false;
	asking->of.request = NULL;
	lk__op_ask(&asking->op, lk__entry_scripts(asking->entry), request, asking->until_ns);
	return LK__OP_WAITS;
}

/* A client of a cluster has to know first which replicas must acknowledge a change. */
static int question_begin(struct lk__question *asking)
{
	struct lk__entry *entry = asking->entry;
	const lk_client *client = entry->client;
	asking->begun = true;
	asking->changes = !asking->of.request->question;
	asking->until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	asking->connects = asking->of.request->durable && client->topo->slotted &&
			   lk__op_connect(&asking->op, lk__entry_scripts(entry), true,
					  asking->until_ns);
	return asking->connects ? LK__OP_WAITS : question_ask(asking);
}

static int question_look(struct lk__question *asking)
{
	struct lk__entry *entry = asking->entry;
	struct lk__request *answer;
	char what[192];
	if (!lk__op_ask_look(&asking->op, &answer))
		return LK__OP_WAITS;
	snprintf(what, sizeof(what), "%s \"%.100s\"", asking->operation, entry->name);
	if (!answer && !asking->changes)
		return lk__fail(asking->error, LK_EUNREACHABLE, "%s: no answer within the limit",
				what);
	int rc = lk__ask_read(entry->client, answer, what, asking->error);
	if (rc == LK__WAIT_READY || rc == LK_ENOTDURABLE)
		rc = asking->of.read(&asking->of, entry, answer, asking->answer_out, asking->error);
	if (answer)
		lk__request_free(answer);
	return rc;
}

static int question_step(struct lk__op *op)
{
	struct lk__question *asking = (struct lk__question *)op;
	if (!asking->begun)
		return question_begin(asking);
	if (!asking->connects)
		return question_look(asking);
	return lk__op_connect_look(op, 0, NULL) == LK__OP_WAITS ? LK__OP_WAITS
								: question_ask(asking);
}

void lk__question_init(struct lk__question *asking, struct lk__entry *entry,
		       struct lk__thread *thread, struct lk__questioned *of, const char *operation,
		       int64_t *answer_out, lk_error *error)
{
	lk__op_begin(&asking->op, question_step, thread, NULL);
	asking->entry = entry;
	asking->operation = operation;
	asking->of = *of;
	of->request = NULL;
	asking->begun = false;
	asking->answer_out = answer_out;
	asking->error = error;
}
