/* SPDX-License-Identifier: MIT */
#include "lock/multi.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/loop.h"
#include "sync/trace.h"

/* ---- the order ---- */

static int part_compare(const struct lk__entry *a, const struct lk__entry *b)
{
	int order = strcmp(a->client->config->url, b->client->config->url);
	if (order == 0)
		order = (a->client->config->database > b->client->config->database) -
			(a->client->config->database < b->client->config->database);
	if (order == 0)
		order = strcmp(a->client->id, b->client->id);
	if (order == 0)
		order = (a->target.slot > b->target.slot) - (a->target.slot < b->target.slot);
	if (order)
		return order;
	size_t common = a->target.key_size < b->target.key_size ? a->target.key_size
								: b->target.key_size;
	order = memcmp(a->target.key, b->target.key, common);
	return order ? order
		     : (a->target.key_size > b->target.key_size) -
			       (a->target.key_size < b->target.key_size);
}

/* Whether both are one key of one server, as far as their URLs tell. */
static bool part_same(const struct lk__entry *a, const struct lk__entry *b)
{
	return strcmp(a->client->config->url, b->client->config->url) == 0 &&
	       a->client->config->database == b->client->config->database &&
	       a->target.key_size == b->target.key_size &&
	       memcmp(a->target.key, b->target.key, a->target.key_size) == 0;
}

int lk__multi_sort(struct lk__multi *multi, lk_error *error)
{
	for (size_t i = 1; i < multi->count; i++) {
		struct lk__entry *part = multi->part[i];
		size_t j = i;
		for (; j > 0 && part_compare(multi->part[j - 1], part) > 0; j--)
			multi->part[j] = multi->part[j - 1];
		multi->part[j] = part;
	}
	for (size_t i = 1; i < multi->count; i++)
		for (size_t j = 0; j < i; j++)
			if (part_same(multi->part[i], multi->part[j]))
				return lk__fail(error, LK_EINVAL,
						"lk_multi_lock_new: \"%.100s\" on %.100s is named "
						"twice",
						multi->part[i]->name,
						multi->part[i]->client->config->url);
	return 0;
}

void lk__multi_keep(const struct lk__multi *multi)
{
	for (size_t i = 0; i < multi->count; i++) {
		lk__entry_ref(multi->part[i]);
		lk__client_ref(multi->part[i]->client);
	}
}

void lk__multi_let_go(const struct lk__multi *multi)
{
	for (size_t i = 0; i < multi->count; i++) {
		lk_client *client = multi->part[i]->client;
		lk__entry_unref(multi->part[i]);
		lk__client_unref(client);
	}
}

int lk__multi_start_loops(const struct lk__multi *multi, lk_error *error)
{
	int rc = 0;
	for (size_t i = 0; i < multi->count && rc == 0; i++)
		rc = lk__loop_start(multi->part[i]->client, error);
	return rc;
}

struct lk__multi_taken *lk__multi_taken_new(const struct lk__multi *multi)
{
	struct lk__multi_taken *taken = calloc(1, sizeof(*taken));
	if (!taken)
		return NULL;
	taken->multi = *multi;
	lk__multi_keep(multi);
	return taken;
}

void lk__multi_taken_free(struct lk__multi_taken *taken)
{
	if (taken)
		lk__multi_let_go(&taken->multi);
	free(taken);
}

/* ---- what is held ---- */

struct lk__owner lk__multi_owner(const struct lk__thread *thread, const struct lk__owner *owner)
{
	return owner->name ? *owner : (struct lk__owner){.serial = thread->serial};
}

/* A named owner needs none. */
static int multi_threads(const struct lk__multi *multi, const struct lk__owner *owner,
			 struct lk__thread **threads)
{
	for (size_t i = 0; i < multi->count; i++) {
		threads[i] = owner->name ? NULL : lk__client_thread(multi->part[i]->client);
		if (!threads[i] && !owner->name)
			return LK_ENOMEM;
	}
	return 0;
}

int lk__multi_hold_of(const struct lk__multi *multi, const struct lk__owner *owner,
		      struct lk__multi_hold *hold_out)
{
	struct lk__multi_hold hold = {.deadline_ns = LK__NEVER, .count = UINT32_MAX};
	struct lk__thread *threads[LK__MULTI_MAX];
	int rc = multi_threads(multi, owner, threads);
	for (size_t i = 0; i < multi->count && rc != LK_ENOMEM && rc != LK_ENOTOWNER; i++) {
		struct lk__entry *entry = multi->part[i];
		struct lk__owner own = lk__multi_owner(threads[i], owner);
		pthread_mutex_lock(&entry->mutex);
		const struct lk__hold *part = lk__entry_hold_of(entry, &own);
		int64_t deadline_ns = part ? lk__hold_deadline(part) : 0;
		if (!part)
			rc = LK_ENOTOWNER;
		else if (part->lost || lk__now_ns() >= deadline_ns)
			rc = LK_ELOST;
		if (part && part->count < hold.count)
			hold.count = part->count;
		pthread_mutex_unlock(&entry->mutex);
		if (deadline_ns < hold.deadline_ns)
			hold.deadline_ns = deadline_ns;
	}
	assert(rc != 0 || (hold.count > 0 && hold.deadline_ns != LK__NEVER));
	if (rc == 0 || rc == LK_ELOST)
		*hold_out = hold;
	return rc;
}

/* ---- the head ---- */

/* ---- events ---- */

/* A part that may be held and nobody wants; the count: none. */
static size_t ask_compensating(const struct lk__multi_ask *ask)
{
	size_t part = 0;
	while (part < ask->multi->count && atomic_load(&ask->multi->part[part]->compensating) == 0)
		part++;
	return part;
}

static struct lk__multi_event head_event(const struct lk__multi_head *head,
					 enum lk__multi_event_type type, int code)
{
	const struct lk__multi_ask *ask = head->ask;
	int over = lk__multi_over(ask);
	return (struct lk__multi_event){.type = type,
					.code = code < 0 ? code : 0,
					.busy = ask->busy,
					.busy_code = ask->code,
					.again = ask->again,
					.unknown = ask->unknown,
					.closing = over == LK_ECLOSED,
					.cancelled = over == LK_ECANCELLED,
					.compensating = ask_compensating(ask)};
}

/* Whether all are ours, and none has been lost by the time that all have been looked at. */
static bool ask_stands(const struct lk__multi_ask *ask)
{
	struct lk__multi_hold hold;
	return lk__multi_over(ask) != LK_ECLOSED &&
	       lk__multi_hold_of(ask->multi, &ask->want.owner, &hold) == 0;
}

static struct lk__multi_event head_tried(const struct lk__multi_head *head, int code)
{
	struct lk__multi_ask *ask = head->ask;
	lk__multi_leave(ask);
	struct lk__multi_event event = head_event(head, LK__MULTI_TRIED, code ? code : ask->result);
	event.stands = event.code == 0 && !lk__multi_is_busy(ask) && ask_stands(ask);
	return event;
}

/* ---- effects ---- */

static int64_t random_until_ns(int64_t until_ns)
{
	uint32_t random = 0;
	int64_t now_ns = lk__now_ns();
	lk__random_bytes(&random, sizeof(random));
	return until_ns > now_ns ? now_ns + (int64_t)random % (until_ns - now_ns) : until_ns;
}

/* Below: true with the event, false if it is to be waited for. */

static bool head_connect(struct lk__multi_head *head, struct lk__multi_event *event)
{
	struct lk__multi_effects *effects = &head->effects;
	effects->part = lk__multi_connects(head->ask, head->connects_from);
	head->connects_from = effects->part + 1;
	*event = head_event(head, LK__MULTI_READY, 0);
	if (effects->part == head->ask->multi->count)
		return true;
	effects->until_ns = lk__multi_connect_until_ns(head->ask, effects->part);
	return false;
}

static bool head_try(struct lk__multi_head *head, struct lk__multi_event *event)
{
	struct lk__multi_ask *ask = head->ask;
	int rc = lk__multi_reserve(ask);
	head->effects.until_ns = ask->asks_until_ns;
	if (rc == 0 && ask->asks.count > 0)
		return false;
	*event = head_tried(head, rc);
	return true;
}

static bool head_give_back(struct lk__multi_head *head, struct lk__multi_event *event)
{
	struct lk__multi_ask *ask = head->ask;
	lk__multi_leave(ask);
	lk__multi_give_back(ask);
	head->effects.until_ns = lk__earlier(head->effects.until_ns, ask->asks_until_ns);
	*event = head_event(head, LK__MULTI_GIVEN_BACK, 0);
	return ask->asks.count == 0;
}

static bool head_act(struct lk__multi_head *head, struct lk__multi_event *event)
{
	int rc;
	switch (head->effects.action) {
	case LK__MULTI_DO_LOOK:
		head->connects_from = 0;
		rc = lk__multi_look(head->ask);
		*event = head_event(head, LK__MULTI_LOOKED, rc);
		return true;
	case LK__MULTI_DO_CONNECT:
		return head_connect(head, event);
	case LK__MULTI_DO_TRY:
		return head_try(head, event);
	case LK__MULTI_DO_GIVE_BACK:
		return head_give_back(head, event);
	case LK__MULTI_DO_PAUSE:
		head->effects.until_ns = random_until_ns(head->effects.until_ns);
		return false;
	default:
		assert(head->effects.action == LK__MULTI_DO_AWAIT);
		head->effects.until_ns = LK__NEVER;
		return false;
	}
}

/* With the reason that is there already, if it is that of the code. */
static int head_fail(const struct lk__multi_head *head)
{
	const struct lk__multi_ask *ask = head->ask;
	const struct lk__multi_effects *effects = &head->effects;
	assert(effects->code < 0 && effects->part < ask->multi->count);
	if (ask->error->code == effects->code)
		return effects->code;
	return lk__fail(ask->error, effects->code, "acquire %zu locks, \"%.100s\": %s",
			ask->multi->count, ask->multi->part[effects->part]->name,
			lk_error_text(effects->code));
}

static int head_go_on(struct lk__multi_head *head, struct lk__multi_event event)
{
	do {
		head->effects = lk__multi_step(&head->attempt, &event, lk__now_ns());
		lk__trace_multi(&head->ask->multi->part[0]->client->log,
				head->ask->multi->part[0]->name, &event, &head->effects);
		if (head->effects.action == LK__MULTI_DO_GRANT)
			return 1;
		if (head->effects.action == LK__MULTI_DO_FAIL)
			return head_fail(head);
	} while (head_act(head, &event));
	return 0;
}

/* A mere try may be sent up to three times, where nothing was asked before, and asks for a part
 * alone where that may be busy: all together have the time of one. */
static int64_t once_limit_ms(const struct lk__multi *multi)
{
	int64_t most_ms = 0;
	for (size_t i = 0; i < multi->count; i++) {
		const struct lk_config *config = multi->part[i]->client->config;
		most_ms = lk__later(most_ms,
				    config->connect_timeout_ms + config->command_timeout_ms);
	}
	return most_ms;
}

/* 1: all are the caller's; 0: `effects` is to be waited for; or a code. */
static int multi_head_start(struct lk__multi_head *head, struct lk__multi_ask *ask)
{
	const struct lk_config *config = ask->multi->part[0]->client->config;
	if (ask->want.wait_ms >= 0)
		ask->until_ns = lk__after_ms(lk__now_ns(), ask->want.wait_ms
								   ? ask->want.wait_ms
								   : once_limit_ms(ask->multi));
	*head = (struct lk__multi_head){
		.ask = ask,
		.attempt = {.count = ask->multi->count,
			    .once = ask->want.wait_ms == 0,
			    .until_ns = ask->until_ns,
			    .command_ns = config->command_timeout_ms * LK__MS}};
	ask->error->code = 0;
	return head_go_on(head, head_event(head, LK__MULTI_STARTED, 0));
}

/* The wait has ended so: 0, or a code; of a connection, as lk__conn_ready() says, and why. The
 * same. */
static int multi_head_next(struct lk__multi_head *head, int rc, const lk_error *why)
{
	struct lk__multi_ask *ask = head->ask;
	size_t part = head->effects.part;
	switch (head->effects.action) {
	case LK__MULTI_DO_AWAIT:
		ask->taken[part] = rc == 0;
		return head_go_on(head, head_event(head, LK__MULTI_AWAITED, rc));
	case LK__MULTI_DO_CONNECT:
		rc = lk__multi_connected(ask, part, rc, why);
		return head_go_on(head, head_event(head, LK__MULTI_CONNECTED, rc));
	case LK__MULTI_DO_TRY:
		return head_go_on(head, head_tried(head, 0));
	case LK__MULTI_DO_GIVE_BACK:
		return head_go_on(head, head_event(head, LK__MULTI_GIVEN_BACK, 0));
	default:
		assert(head->effects.action == LK__MULTI_DO_PAUSE);
		return head_go_on(head, head_event(head, LK__MULTI_TIMER, 0));
	}
}

/* ---- the calls ---- */

/*
 * An acquire carries out what its head says: each action is begun, and looked at
 * when what it waits for may be there. Releases and extensions ask all parts at once.
 */

static bool call_is_resumed(const struct lk__multi_call *call)
{
	return call->op.thread->on_wake != NULL;
}

/* From here on the operation is woken at the caller's place in that part's client. */
static void call_moves(struct lk__multi_call *call, size_t part, lk_cancel *cancel)
{
	call->op.thread = call->ask->threads[part];
	call->op.cancel = cancel;
	lk__cancel_move(cancel, call->op.thread);
}

/* ---- a part that is waited for alone ---- */

static struct lk__entry *awaited_entry(const struct lk__multi_call *call)
{
	assert(call->head.effects.part < call->ask->multi->count);
	return call->ask->multi->part[call->head.effects.part];
}

/* Meanwhile that part's client reads for an asynchronous call. */
static void await_listens(const struct lk__multi_call *call, bool listens)
{
	_Atomic size_t *listeners = &awaited_entry(call)->client->asyncs.listeners;
	if (!call_is_resumed(call))
		return;
	if (listens)
		atomic_fetch_add(listeners, 1);
	else
		atomic_fetch_sub(listeners, 1);
}

static void await_begin(struct lk__multi_call *call)
{
	struct lk__multi_ask *ask = call->ask;
	size_t part = call->head.effects.part;
	call->want = lk__multi_await_want(ask, part);
	call->want.stop = &call->stop;
	atomic_store(&call->stop, false);
	lk__acquire_init(&call->part, awaited_entry(call), ask->threads[part], &call->want,
			 ask->error);
	await_listens(call, true);
}

/* Whether anything of it may still be held that nobody wants. */
static bool entry_is_out(struct lk__entry *entry)
{
	pthread_mutex_lock(&entry->mutex);
	bool out = (entry->waiting && entry->waiting->tries) ||
		   atomic_load(&entry->compensating) > 0;
	pthread_mutex_unlock(&entry->mutex);
	return out;
}

/* The close of any client of the lock ends the wait. What is queued on a connection of another
 * client than the loop's leaves now: that client's loop may be asleep. */
static bool await_look(struct lk__multi_call *call, int *rc_out)
{
	struct lk__multi_ask *ask = call->ask;
	struct lk__entry *entry = awaited_entry(call);
	int over = lk__multi_over(ask);
	if (over == LK_ECLOSED || over == LK_ECANCELLED)
		atomic_store(&call->stop, true);
	int rc = call->part.op.step(&call->part.op);
	if (call_is_resumed(call) && entry->client != ask->multi->part[0]->client) {
		lk__conn_send_queued(lk__entry_scripts(entry));
		lk__loop_attend(entry->client);
	}
	if (rc == LK__OP_WAITS) {
		lk__op_wait_other(&call->op, &call->part.op);
		return false;
	}
	await_listens(call, false);
	if (rc == LK_ECANCELLED && over == LK_ECLOSED) {
		rc = entry_is_out(entry) ? LK_EMAYBEHELD : LK_ECLOSED;
		lk__fail(ask->error, rc, "acquire \"%.100s\": %s", entry->name, lk_error_text(rc));
	}
	*rc_out = rc;
	return true;
}

/* ---- connections ---- */

/* False: it is up. */
static bool connect_begin(struct lk__multi_call *call)
{
	call_moves(call, call->head.effects.part, call->ask->want.cancel);
	return lk__op_connect(&call->op, lk__entry_scripts(awaited_entry(call)), true,
			      call->head.effects.until_ns);
}

static bool connect_look(struct lk__multi_call *call, int *rc_out, lk_error *why)
{
	int over = lk__multi_over(call->ask);
	int rc = lk__op_connect_look(&call->op, over == LK_ETIMEDOUT ? 0 : over, why);
	*rc_out = rc;
	return rc != LK__OP_WAITS;
}

/* ---- acquire ---- */

/* True: it waits, or is to be looked at. */
static bool action_begin(struct lk__multi_call *call)
{
	struct lk__multi_ask *ask = call->ask;
	const struct lk__multi_effects *effects = &call->head.effects;
	switch (effects->action) {
	case LK__MULTI_DO_AWAIT:
		await_begin(call);
		return true;
	case LK__MULTI_DO_CONNECT:
		return connect_begin(call);
	case LK__MULTI_DO_TRY:
		call_moves(call, ask->part[0], ask->want.cancel);
		lk__asks_begin(&ask->asks, &call->op, effects->until_ns);
		return true;
	case LK__MULTI_DO_GIVE_BACK:
		call_moves(call, ask->part[0], NULL);
		lk__asks_begin(&ask->asks, &call->op, effects->until_ns);
		return true;
	default:
		call->op.thread = ask->threads[0];
		lk__op_wait(&call->op, effects->until_ns);
		return true;
	}
}

/* Whether the action has ended, and how. */
static bool action_look(struct lk__multi_call *call, int *rc_out, lk_error *why)
{
	struct lk__multi_ask *ask = call->ask;
	bool over = lk__multi_over(ask) != 0;
	*rc_out = 0;
	switch (call->head.effects.action) {
	case LK__MULTI_DO_AWAIT:
		return await_look(call, rc_out);
	case LK__MULTI_DO_CONNECT:
		return connect_look(call, rc_out, why);
	case LK__MULTI_DO_TRY:
		return lk__asks_look(&ask->asks, &call->op, over);
	case LK__MULTI_DO_GIVE_BACK:
		return lk__asks_look(&ask->asks, &call->op, false);
	default:
		return over || lk__now_ns() >= call->op.until_ns;
	}
}

static int acquire_step(struct lk__multi_call *call)
{
	lk_error why = {.code = LK_EUNREACHABLE, .message = "the server cannot be reached"};
	bool begins = !call->begun;
	int rc = begins ? multi_head_start(&call->head, call->ask) : 0;
	for (call->begun = true; rc == 0; begins = true) {
		int came = LK__WAIT_READY;
		if ((!begins || action_begin(call)) && !action_look(call, &came, &why))
			return LK__OP_WAITS;
		rc = multi_head_next(&call->head, came, &why);
	}
	return rc < 0 ? rc : 0;
}

/* ---- release, extend ---- */

static int asks_begin(struct lk__multi_call *call)
{
	struct lk__multi_ask *ask = call->ask;
	int rc = 0;
	if (call->way == LK__MULTI_RELEASE)
		lk__multi_release_begin(ask, call->time_ms);
	else
		rc = lk__multi_extend_begin(ask, call->time_ms);
	if (rc < 0)
		return rc;
	call_moves(call, ask->asked ? ask->part[0] : 0, NULL);
	lk__asks_begin(&ask->asks, &call->op, ask->asks_until_ns);
	return 0;
}

static int asks_step(struct lk__multi_call *call)
{
	int rc = call->begun ? 0 : asks_begin(call);
	call->begun = true;
	if (rc < 0)
		return rc;
	return lk__asks_look(&call->ask->asks, &call->op, false) ? call->ask->result : LK__OP_WAITS;
}

/* ---- from its begin to its end ---- */

static int multi_step(struct lk__op *op)
{
	struct lk__multi_call *call = (struct lk__multi_call *)op;
	return call->way == LK__MULTI_ACQUIRE ? acquire_step(call) : asks_step(call);
}

int lk__multi_call_init(struct lk__multi_call *call, enum lk__multi_way way,
			const struct lk__multi *multi, const struct lk__want *want, int64_t time_ms,
			struct lk__thread *thread, lk_error *error)
{
	call->ask = lk__multi_ask_new(multi, want, thread, error);
	if (!call->ask)
		return LK_ENOMEM;
	lk__op_begin(&call->op, multi_step, call->ask->threads[0], want->cancel);
	call->way = way;
	call->time_ms = time_ms;
	call->begun = false;
	return 0;
}

void lk__multi_call_free(struct lk__multi_call *call)
{
	free(call->ask);
}

int lk__multi_acquire(const struct lk__multi *multi, const struct lk__want *want, lk_error *error)
{
	lk_error own = {.code = 0};
	struct lk__multi_call call;
	assert(multi->count > 0 && multi->count <= LK__MULTI_MAX);
	if (lk__multi_call_init(&call, LK__MULTI_ACQUIRE, multi, want, 0, NULL,
				error ? error : &own) < 0)
		return lk__fail(error, LK_ENOMEM, "acquire: out of memory");
	int rc = lk__multi_start_loops(multi, error);
	if (rc == 0)
		rc = lk__op_run(&call.op);
	lk__multi_call_free(&call);
	return rc;
}

/* `no_memory`: what is told then. */
static int multi_held(const struct lk__multi *multi, enum lk__multi_way way,
		      const struct lk__owner *owner, int64_t time_ms, const char *no_memory,
		      lk_error *error)
{
	const struct lk__want want = {.owner = *owner};
	struct lk__multi_call call;
	if (lk__multi_call_init(&call, way, multi, &want, time_ms, NULL, error) < 0)
		return lk__fail(error, LK_ENOMEM, "%s", no_memory);
	int rc = lk__op_run(&call.op);
	lk__multi_call_free(&call);
	return rc;
}

int lk__multi_release(const struct lk__multi *multi, const struct lk__owner *owner, int64_t keep_ms,
		      lk_error *error)
{
	return multi_held(multi, LK__MULTI_RELEASE, owner, keep_ms,
			  "release: out of memory, still held", error);
}

int lk__multi_extend(const struct lk__multi *multi, const struct lk__owner *owner, int64_t lease_ms,
		     lk_error *error)
{
	return multi_held(multi, LK__MULTI_EXTEND, owner, lease_ms, "extend: out of memory", error);
}
