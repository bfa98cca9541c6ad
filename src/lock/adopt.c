/* SPDX-License-Identifier: MIT */
#include "lock/adopt.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/client.h"
#include "lock/compensation.h"
#include "lock/release.h"
#include "sync/script.h"

static int adopt_fail(const struct lk__adopting *adopting, int code, const char *reason)
{
	const struct lk__entry *entry = adopting->entry;
	return lk__fail(adopting->error, code, "adopt \"%.100s\" on %.100s: %s", entry->name,
			entry->client->config->url, reason);
}

/* 0, or why the owner cannot adopt anything: with the entry's mutex held. */
static int adopt_check(const struct lk__adopting *adopting)
{
	struct lk__entry *entry = adopting->entry;
	int64_t now_ns = lk__now_ns();
	if (entry->hold && now_ns >= lk__hold_deadline(entry->hold)) {
		lk__entry_lose(entry, now_ns);
		lk__entry_promote(entry);
	}
	const struct lk__hold *own = lk__entry_hold_of(entry, &adopting->want->owner);
	int ends = lk__entry_ends(entry, &adopting->want->settings);
	if (ends)
		return adopt_fail(adopting, ends, lk_error_text(ends));
	if (own && own->lost)
		return adopt_fail(adopting, LK_ELOST, lk_error_text(LK_ELOST));
	if (entry->hold)
		return adopt_fail(adopting, LK_EBUSY, "an owner of this client has it");
	return 0;
}

static struct lk__request *adopt_request(const struct lk__adopting *adopting)
{
	struct lk__request *request = lk__exchange_request(adopting->entry, adopting->want->adopts,
							   adopting->number, adopting->lease_ms,
							   adopting->want->settings.flags);
	if (request) {
		request->patient = true;
		request->deadline_ns = adopting->until_ns;
	}
	return request;
}

/* With the entry's mutex held, so that a release of what is adopted comes behind it. */
static int adopt_send(struct lk__adopting *adopting)
{
	struct lk__op *op = &adopting->op;
	struct lk__entry *entry = adopting->entry;
	int rc = adopt_check(adopting);
	if (rc < 0)
		return rc;
	if (!lk__entry_head(entry))
		lk__entry_route(entry);
	struct lk__request *request = adopt_request(adopting);
	if (!request || !lk__compensation_reserve(entry)) {
		lk__request_free(request);
		return adopt_fail(adopting, LK_ENOMEM, "out of memory");
	}
	adopting->node = lk__entry_node(entry);
	struct lk__conn *conn = lk__op_join(op, entry, adopting->node);
	lk__entry_begin_try(entry);
	adopting->epoch = atomic_load(&adopting->node->epoch);
	if (entry->asked_lease_ms < adopting->lease_ms)
		entry->asked_lease_ms = adopting->lease_ms;
	if (!adopting->sent)
		atomic_fetch_add(&entry->releasing, 1); /* it stays on this connection */
	adopting->sent = true;
	lk__client_record_show(entry->client, conn);
	lk__op_send(op, conn, request, adopting->until_ns);
	return LK__OP_WAITS;
}

/* What the server has, or may have, nobody of this client does. */
static int adopt_give_back(const struct lk__adopting *adopting, int64_t copies_until_ns, int code,
			   const char *reason)
{
	struct lk__entry *entry = adopting->entry;
	entry->grant.outlives_ns = lk__later(entry->grant.outlives_ns,
					     lk__after_ms(adopting->until_ns, adopting->lease_ms));
	if (code == LK_ENOTDURABLE)
		lk__compensate_unheard(entry, adopting->number, copies_until_ns);
	else
		lk__compensate(entry, adopting->number, copies_until_ns);
	return adopt_fail(adopting, code, reason);
}

/* The server has given the lock to it. */
static int adopt_grant(struct lk__adopting *adopting, const struct lk__request *request,
		       uint64_t fence, int64_t copies_until_ns)
{
	struct lk__entry *entry = adopting->entry;
	int64_t now_ns = lk__now_ns();
	struct lk__grant grant = {
		.number = adopting->number,
		.fence = fence,
		.lease_ms = adopting->lease_ms,
		.valid_until_ns = lk__lease_end_ns(request->sent_ns, adopting->lease_ms),
		.seen_ns = request->sent_ns,
		.node = adopting->node,
		/* Granted by another node: in doubt until that is asked again. */
		.epoch = adopting->epoch - (request->redirects > 0),
		.repeated_until_ns = request->sends > 1 ? request->deadline_ns : 0,
	};
	int refused = adopt_check(adopting); /* another of this client may have it since */
	if (refused)
		return adopt_give_back(adopting, copies_until_ns, LK_EMAYBEHELD,
				       refused == LK_ECLOSED ? "the client was closed meanwhile"
				       : refused == LK_EDRAINING
					       ? "the client was drained meanwhile"
					       : "another has it by now");
	if (now_ns >= grant.valid_until_ns)
		return adopt_give_back(adopting, copies_until_ns, LK_EMAYBEHELD,
				       "the answer came after the end of the lease");
	lk__entry_move_grant(entry, adopting->hold, &grant);
	adopting->hold = NULL;
	lk__term_begin(&entry->term, now_ns);
	lk__entry_count(entry, wire_grants, 1);
	lk__entry_count(entry, acquires, 1);
	lk__client_record_want(entry->client);
	lk__doubt_others(entry);
	if (adopting->want->grant_out)
		*adopting->want->grant_out = grant;
	return 0;
}

/* Nothing was done: the reason, or 1, where it is to be sent anew. */
static int adopt_refused(struct lk__adopting *adopting, const struct lk__request *request)
{
	int64_t server_us = 0;
	char what[192];
	snprintf(what, sizeof(what), "adopt \"%.100s\"", adopting->entry->name);
	if (request->code)
		return lk__ask_read(adopting->entry->client, request, what, adopting->error);
	if (!lk__reply_late(request->reply, &server_us))
		return adopt_fail(adopting, LK_EPROTOCOL, "unexpected reply");
	lk__node_learn_time(request->conn->node, server_us, lk__now_ns());
	if (adopting->made_anew)
		return adopt_fail(adopting, LK_EUNAVAILABLE, "the server's clock jumps");
	adopting->made_anew = true;
	return 1;
}

/* What became of it: 0 or a code; 1: it is to be sent anew. `request` is NULL where there was no
 * answer. */
static int adopt_read(struct lk__adopting *adopting, const struct lk__request *request)
{
	const struct lk__recipe *recipe = adopting->entry->target.recipe;
	struct lk__answer said = {.fence = 0};
	bool copied = request && request->sends > 1;
	int64_t copies_until_ns = request && request->ran ? lk__now_ns() : adopting->until_ns;
	enum lk__exchanged answer = request ? recipe->read_exchange(request, &said)
					    : LK__EXCHANGE_UNKNOWN;
	if (answer == LK__EXCHANGE_NOT_DONE && copied)
		answer = LK__EXCHANGE_UNKNOWN; /* an earlier copy may have run */
	switch (answer) {
	case LK__EXCHANGED:
		return adopt_grant(adopting, request, said.fence, copies_until_ns);
	case LK__EXCHANGE_NOT_DONE:
		return adopt_refused(adopting, request);
	case LK__EXCHANGE_NOT_OWNER: /* or an earlier copy had it, and its lease is over */
		return copied ? adopt_give_back(adopting, copies_until_ns, LK_EMAYBEHELD,
						"not held under that field any more")
			      : adopt_fail(adopting, LK_ENOTOWNER, "not held under that field");
	case LK__EXCHANGE_FREED:
		return adopt_fail(adopting, LK_ELOST,
				  "the server gave up the field, and refused to give the lock");
	default:
		break;
	}
	if (request && request->code == LK_ENOTDURABLE)
		return adopt_give_back(adopting, copies_until_ns, LK_ENOTDURABLE, request->reason);
	return adopt_give_back(adopting, copies_until_ns, LK_EMAYBEHELD,
			       request && request->code ? request->reason
							: "no answer within the command limit");
}

static int adopt_look(struct lk__adopting *adopting)
{
	struct lk__op *op = &adopting->op;
	if (!lk__op_is_answered(op) && lk__now_ns() < op->until_ns)
		return LK__OP_WAITS;
	bool done = lk__op_is_answered(op) || lk__op_leave(op, true, lk__request_forget);
	int rc = adopt_read(adopting, done ? op->request : NULL);
	if (done)
		lk__request_free(op->request);
	return rc == 1 ? adopt_send(adopting) : rc;
}

static int adopt_connect_look(struct lk__adopting *adopting)
{
	lk_error why = {.code = LK_EUNREACHABLE};
	int rc = lk__op_connect_look(&adopting->op, 0, &why);
	if (rc == LK__OP_WAITS)
		return rc;
	adopting->connects = false;
	if (rc == LK__WAIT_READY)
		return adopt_send(adopting);
	return lk__op_unconnected(adopting->entry, "adopt", rc, &why, adopting->error);
}

static int adopt_begin(struct lk__adopting *adopting)
{
	struct lk__entry *entry = adopting->entry;
	const struct lk__want *want = adopting->want;
	int rc = adopt_check(adopting);
	if (rc < 0)
		return rc;
	adopting->hold = lk__hold_wanted(adopting->op.thread, entry->target.recipe, want);
	if (!adopting->hold)
		return adopt_fail(adopting, LK_ENOMEM, "out of memory");
	adopting->number = atomic_fetch_add(&entry->client->last_number, 1) + 1;
	adopting->lease_ms = lk__entry_lease_ms(entry, adopting->hold);
	adopting->until_ns = lk__after_ms(lk__now_ns(), entry->client->config->command_timeout_ms);
	adopting->connects = lk__op_connect(&adopting->op, lk__entry_scripts(entry), true,
					    adopting->until_ns);
	return adopting->connects ? LK__OP_WAITS : adopt_send(adopting);
}

static int adopting_step(struct lk__op *op)
{
	struct lk__adopting *adopting = (struct lk__adopting *)op;
	struct lk__entry *entry = adopting->entry;
	int rc;
	pthread_mutex_lock(&entry->mutex);
	if (!adopting->begun)
		rc = adopt_begin(adopting);
	else
		rc = adopting->connects ? adopt_connect_look(adopting) : adopt_look(adopting);
	adopting->begun = true;
	if (rc != LK__OP_WAITS && adopting->sent)
		atomic_fetch_sub(&entry->releasing, 1);
	pthread_mutex_unlock(&entry->mutex);
	if (rc == LK__OP_WAITS)
		return rc;
	lk__op_part(op);
	lk__hold_free(adopting->hold);
	adopting->hold = NULL;
	atomic_fetch_sub(&entry->client->trying, 1);
	return rc;
}

/* The client's close waits for it, as for a try. */
void lk__adopt_init(struct lk__adopting *adopting, struct lk__entry *entry,
		    struct lk__thread *thread, const struct lk__want *want, lk_error *error)
{
	assert(want->adopts && entry->target.recipe->exchange && !entry->is_quorum);
	*adopting = (struct lk__adopting){.entry = entry, .want = want, .error = error};
	lk__op_begin(&adopting->op, adopting_step, thread, NULL);
	atomic_fetch_add(&entry->client->trying, 1);
}
