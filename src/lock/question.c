/* SPDX-License-Identifier: MIT */
#include "lock/question.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"

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
