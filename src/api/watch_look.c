/* SPDX-License-Identifier: MIT */
/* The operation of a watch: which name is looked at next, the look, and what it asks besides. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/watch.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/node.h"
#include "conn/request.h"
#include "lock/client.h"

#define SETTLE_NS (250 * LK__MS)  /* tracking begins within it; else the first look is not told */
#define PAUSE_NS (250 * LK__MS)   /* between looks while the server cannot be reached */
#define ALIVE_NS (30000 * LK__MS) /* between looks where nothing is told */
#define BEHIND_NS (2 * LK__MS)    /* the end of a lease is looked at so much later */
#define SYNC_NS (250 * LK__MS)
#define LOOKS_MOST 20 /* at a key that changes between two questions about it */
#define LOST "the connection that tells was lost"

static void records_free(lk_watch *watch)
{
	for (size_t i = 0; i < watch->record_count; i++)
		lk__owner_free(watch->records[i]);
	watch->record_count = 0;
}

void lk__watch_forget_look(lk_watch *watch)
{
	records_free(watch);
	lk__look_forget(&watch->look);
	watch->look.key = NULL; /* the name's */
	watch->look.key_size = 0;
	watch->stage = LK__WATCH_REST;
	watch->at = NULL;
}

/* ---- the end of a call ---- */

/* 0: it goes on; 1: the time is up; or a code. */
static int watch_over(lk_watch *watch)
{
	int code = 0;
	if (atomic_load(&watch->client->state) != LK__CLIENT_OPEN)
		code = LK_ECLOSED;
	else if (lk__cancelled(watch->op.cancel) || (watch->stop && atomic_load(watch->stop)) ||
		 atomic_load(&watch->freed))
		code = LK_ECANCELLED;
	if (code)
		return lk__fail(watch->error, code, "watch: %s", lk_error_text(code));
	return lk__now_ns() >= watch->until_ns;
}

/* The look is given up: it is due again. */
static void watch_abandon(lk_watch *watch)
{
	struct lk__request *request = watch->op.request;
	if (watch->stage == LK__WATCH_REST)
		return;
	if (watch->asks && lk__op_leave(&watch->op, false, lk__request_forget))
		lk__request_free(request);
	watch->asks = false;
	watch->at->due_ns = 0;
	lk__watch_forget_look(watch);
}

static int watch_end(lk_watch *watch, int rc)
{
	struct lk__watched *watched, *next;
	watch_abandon(watch);
	atomic_store(&watch->thread, NULL);
	HASH_ITER(hh, watch->names, watched, next)
	lk__watched_wakes(watched, NULL);
	return rc < 0 ? rc : 0;
}

/* ---- asking ---- */

/* A look that is tracked is so over one connection: it is not sent over the next one. */
static int watch_ask(lk_watch *watch, struct lk__conn *conn, struct lk__request *request)
{
	if (!request)
		return lk__fail(watch->error, LK_ENOMEM, "watch: out of memory");
	int64_t until_ns = lk__after_ms(lk__now_ns(), watch->client->config->command_timeout_ms);
	request->question = true;
	request->return_unsent = conn->kind == LK__CONN_WORK;
	request->resend = request->patient = !request->return_unsent;
	request->deadline_ns = until_ns;
	watch->asks = true;
	lk__op_call(&watch->op, conn, request, until_ns);
	return LK__OP_WAITS;
}

/* False while it waits on. Else the request, which is done; NULL: it had no answer in time. */
static bool watch_answered(lk_watch *watch, struct lk__request **answer_out)
{
	watch->asks = !lk__op_ask_look(&watch->op, answer_out);
	return !watch->asks;
}

/* ---- the look ---- */

static bool may_be_told(const struct lk__watched *watched)
{
	return lk__tracking_is_possible(watched->node);
}

/* Until when a name that was not looked at waits for tracking to begin. */
static int64_t settle_ns(const struct lk__watched *watched)
{
	const struct lk__node *node = watched->node;
	bool soon = node && may_be_told(watched) && !lk__tracking_is_on(&node->tracking);
	return soon ? lk__now_ns() + SETTLE_NS : 0;
}

/* What told of it is gone, whether that was told already or not. */
static bool is_deaf(const struct lk__watched *watched)
{
	return watched->known && watched->told &&
	       watched->generation != atomic_load(&watched->node->tracking.generation);
}

static int look_begin(lk_watch *watch, struct lk__watched *watched)
{
	struct lk__topo *topo = watch->client->topo;
	struct lk__node *node = lk__topo_node_of(topo, watched->key, watched->key_size);
	bool first = !watched->node, moved;
	int rc = lk__watched_listen(watched, node, &moved);
	if (rc < 0)
		return lk__fail(watch->error, rc, "watch: out of memory");
	if (moved && watched->known)
		return lk__watch_gap(watched, "another server has the key");
	if (is_deaf(watched))
		return lk__watch_gap(watched, LOST);
	if (first || moved)
		watched->due_ns = settle_ns(watched);
	if (watched->due_ns)
		return 0;
	watch->at = watched;
	watch->stage = LK__WATCH_LOOK;
	watch->tracked = lk__tracking_is_on(&node->tracking) && may_be_told(watched);
	watch->look = (struct lk__look){
		.client = watch->client, .key = watched->key, .key_size = watched->key_size};
	watch->info = (lk_lock_info){.type = "none"};
	watch->overwritten = watch->syncs = watch->synced = false;
	watch->touched_ns = atomic_exchange(&watched->touched_ns, 0);
	watch->generation = atomic_load(&node->tracking.generation);
	lk__watched_mark(watched);
	watch->sent_ns = lk__now_ns();
	return watch_ask(watch, watch->tracked ? &node->work : lk__node_scripts(node),
			 lk__look_request(&watch->look, watch->tracked));
}

/* It has no answer: what told of changes does so no more, unless that is known already. */
static int look_failed(lk_watch *watch, int code, const char *reason)
{
	struct lk__watched *watched = watch->at;
	lk__watch_forget_look(watch);
	watched->due_ns = lk__now_ns() + PAUSE_NS;
	if (!lk_error_is_retryable(code))
		return lk__fail(watch->error, code, "watch \"%.100s\" on %.100s: %.160s",
				watched->key + watched->name_at, watch->client->config->url,
				reason);
	return watched->known ? lk__watch_gap(watched, reason) : 0;
}

/* It was answered by the node, and over the connections, that it was meant for. */
static bool look_is_whole(const lk_watch *watch, const struct lk__request *request)
{
	const struct lk__node *node = watch->at->node;
	return request->redirects == 0 &&
	       watch->generation == atomic_load(&node->tracking.generation);
}

/* The server will not have it tracked: it is asked each poll_ms. */
static bool look_refused(const lk_watch *watch, const struct lk__request *request)
{
	const redisReply *reply = request->reply;
	return watch->tracked && reply && reply->type == REDIS_REPLY_ARRAY && reply->elements &&
	       reply->element[0]->type == REDIS_REPLY_ERROR;
}

/* Reads what is there: 0; 1: it became another between two questions; or a code. */
static int look_read(lk_watch *watch, lk_error *error)
{
	const char *type;
	bool changed = false;
	int rc = lk__look_read_any(&watch->look, watch->tracked, &type, error);
	if (rc < 0)
		return rc;
	rc = lk__look_show(&watch->look, type, &watch->info, &changed, error);
	if (changed)
		return 1;
	watch->overwritten = rc == LK_EWRONGTYPE;
	if (watch->overwritten)
		watch->info = (lk_lock_info){.type = "none"};
	return watch->overwritten || rc > 0 ? 0 : rc;
}

static int look_take(lk_watch *watch, struct lk__request *request)
{
	struct lk__watched *watched = watch->at;
	lk_error error = {0};
	watch->received_ns = lk__now_ns();
	if (look_refused(watch, request)) {
		if (look_is_whole(watch, request))
			lk__tracking_looked(watched->node, request);
		lk__request_free(request);
		lk__watch_forget_look(watch);
		watched->due_ns = 0;
		return 0;
	}
	if (request->code) {
		char reason[160];
		int code = request->code == LK_EMAYBEHELD ? LK_EUNREACHABLE : request->code;
		snprintf(reason, sizeof(reason), "%s", request->reason);
		lk__request_free(request);
		return look_failed(watch, code, reason);
	}
	bool broken = watch->tracked && !look_is_whole(watch, request);
	watch->look.answers = request;
	if (broken)
		return look_failed(watch, LK_EUNREACHABLE, LOST);
	int rc = look_read(watch, &error);
	if (rc == 1 && ++watched->again < LOOKS_MOST) {
		lk__watch_forget_look(watch);
		watched->due_ns = 0;
		return 0;
	}
	watched->again = 0;
	if (rc)
		return look_failed(watch, rc == 1 ? LK_EUNAVAILABLE : rc,
				   rc == 1 ? "the key changed at each look" : error.message);
	watch->stage = LK__WATCH_RECORD;
	watch->record_at = 0;
	return 0;
}

/* ---- who the new owners are ---- */

static int record_begin(lk_watch *watch)
{
	for (; watch->record_at < watch->info.holder_count; watch->record_at++) {
		const lk_holder *holder = &watch->info.holders[watch->record_at];
		size_t size;
		if (watch->record_count == LK__WATCH_RECORDS_MAX ||
		    lk__watched_find(watch->at, holder->field, holder->field_size))
			continue;
		char *key = lk__owner_key(watch->client, holder->field, holder->field_size, &size);
		if (!key)
			continue;
		struct lk__node *node = lk__topo_node_of(watch->client->topo, key, size);
		struct lk__request *request = lk__owner_question(key, size);
		free(key);
		return watch_ask(watch, lk__node_scripts(node), request);
	}
	watch->stage = LK__WATCH_SYNC;
	return 0;
}

/* It is for people: what cannot be read is not told. */
static void record_take(lk_watch *watch, struct lk__request *request)
{
	size_t index = watch->record_at++;
	const lk_holder *holder = &watch->info.holders[index];
	if (!request || request->code)
		return;
	watch->record_of[watch->record_count] = index;
	watch->records[watch->record_count] = lk__owner_read(holder->field, holder->field_size,
							     request->reply);
	watch->record_count++;
}

/* ---- what comes of it ---- */

static int64_t first_end_ns(const struct lk__watched *watched)
{
	int64_t first_ns = LK__NEVER;
	for (size_t i = 0; i < watched->holder_count; i++)
		first_ns = lk__earlier(first_ns, watched->holders[i].high_ns);
	return first_ns == LK__NEVER ? first_ns : first_ns + BEHIND_NS;
}

static int look_end(lk_watch *watch)
{
	struct lk__watched *watched = watch->at;
	int rc = lk__watch_compare(watch);
	int64_t again_ns = watch->tracked ? ALIVE_NS : watch->poll_ms * LK__MS;
	int64_t soonest_ns = watch->received_ns + BEHIND_NS; /* a key stays behind its lease */
	int64_t end_ns = first_end_ns(watched);
	watched->due_ns = lk__earlier(watch->received_ns + again_ns,
				      end_ns > soonest_ns ? end_ns : soonest_ns);
	watched->flushed = false;
	watched->generation = watch->generation;
	lk__watched_marked(watched);
	lk__watch_forget_look(watch);
	return rc < 0 ? lk__fail(watch->error, rc, "watch: out of memory") : 0;
}

/* Waits, where a hold has ended, for what was published before the look. */
static int sync_step(lk_watch *watch)
{
	struct lk__watched *watched = watch->at;
	int64_t now_ns = lk__now_ns();
	if (!watch->syncs) {
		watch->syncs = true;
		watch->sync_until_ns = now_ns + SYNC_NS;
		if (!lk__watch_asks_how(watch) || !lk__watched_sync(watched))
			return look_end(watch);
	}
	uint32_t generation = atomic_load(&watched->node->tracking.generation);
	watch->synced = watch->generation == generation && lk__watched_synced(watched);
	if (watch->synced || now_ns >= watch->sync_until_ns)
		return look_end(watch);
	lk__op_wait(&watch->op, lk__earlier(watch->sync_until_ns, watch->until_ns));
	return LK__OP_WAITS;
}

/* ---- what was told ---- */

static int news_take(struct lk__watched *watched)
{
	unsigned news = atomic_exchange(&watched->news, 0);
	if (news & LK__NEWS_FLUSHED)
		watched->flushed = true;
	if (news)
		watched->due_ns = 0;
	if (!(news & LK__NEWS_LOST))
		return 0;
	watched->due_ns = settle_ns(watched);
	return watched->known && watched->told ? lk__watch_gap(watched, LOST) : 0;
}

/* The name whose turn it is; NULL: none yet, and when. */
static struct lk__watched *watch_due(lk_watch *watch, int64_t *due_ns_out, int *rc_out)
{
	struct lk__watched *watched, *next, *due = NULL;
	int64_t now_ns = lk__now_ns();
	*due_ns_out = LK__NEVER;
	HASH_ITER(hh, watch->names, watched, next)
	{
		if (atomic_load(&watched->news))
			*rc_out |= news_take(watched);
		if (!due && watched->due_ns <= now_ns)
			due = watched;
		*due_ns_out = lk__earlier(*due_ns_out, watched->due_ns);
	}
	return due;
}

/* Looks at the next name, or sleeps. */
static int rest_step(lk_watch *watch)
{
	int64_t due_ns;
	int rc = 0;
	struct lk__watched *due = watch_due(watch, &due_ns, &rc);
	if (rc < 0)
		return lk__fail(watch->error, LK_ENOMEM, "watch: out of memory");
	if (watch->changes)
		return 0;
	if (due) {
		due->due_ns = 0;
		return look_begin(watch, due);
	}
	lk__op_wait(&watch->op, lk__earlier(due_ns, watch->until_ns));
	return LK__OP_WAITS;
}

/* ---- the operation ---- */

static int ask_step(lk_watch *watch)
{
	struct lk__request *answer = NULL;
	if (!watch_answered(watch, &answer))
		return LK__OP_WAITS;
	if (watch->stage == LK__WATCH_LOOK && !answer)
		return look_failed(watch, LK_EUNREACHABLE, "no answer within the command limit");
	if (watch->stage == LK__WATCH_LOOK)
		return look_take(watch, answer);
	record_take(watch, answer);
	lk__request_free(answer);
	return 0;
}

/* 0: there is more to do. */
static int stage_step(lk_watch *watch)
{
	if (watch->asks)
		return ask_step(watch);
	if (watch->stage == LK__WATCH_RECORD)
		return record_begin(watch);
	return watch->stage == LK__WATCH_SYNC ? sync_step(watch) : rest_step(watch);
}

static int watch_step(struct lk__op *op)
{
	lk_watch *watch = (lk_watch *)op;
	int rc = 0;
	while (rc == 0) {
		if (watch->changes && watch->stage == LK__WATCH_REST)
			return watch_end(watch, 0);
		rc = watch_over(watch);
		if (rc)
			break;
		rc = stage_step(watch);
	}
	return rc == LK__OP_WAITS ? rc : watch_end(watch, rc);
}

static void watch_begin(lk_watch *watch, struct lk__thread *thread, lk_cancel *cancel)
{
	struct lk__watched *watched, *next;
	lk__op_begin(&watch->op, watch_step, thread, cancel);
	atomic_store(&watch->thread, thread);
	HASH_ITER(hh, watch->names, watched, next)
	if (watched->node)
		lk__watched_wakes(watched, thread);
}

void lk__watch_begin(lk_watch *watch, struct lk__thread *thread, lk_cancel *cancel,
		     const _Atomic bool *stop, int64_t until_ns, lk_error *error)
{
	watch->stop = stop;
	watch->until_ns = until_ns;
	watch->error = error;
	watch_begin(watch, thread, cancel);
}
