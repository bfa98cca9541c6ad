/* SPDX-License-Identifier: MIT */
#include "drive/many/multi_head.h"

#include <assert.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "sync/trace.h"

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

static bool connect_begin(struct lk__multi_head *head, struct lk__multi_event *event)
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

static bool try_begin(struct lk__multi_head *head, struct lk__multi_event *event)
{
	struct lk__multi_ask *ask = head->ask;
	int rc = lk__multi_reserve(ask);
	head->effects.until_ns = ask->asks_until_ns;
	if (rc == 0 && ask->asks.count > 0)
		return false;
	*event = head_tried(head, rc);
	return true;
}

static bool give_back_begin(struct lk__multi_head *head, struct lk__multi_event *event)
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
		return connect_begin(head, event);
	case LK__MULTI_DO_TRY:
		return try_begin(head, event);
	case LK__MULTI_DO_GIVE_BACK:
		return give_back_begin(head, event);
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

int lk__multi_head_start(struct lk__multi_head *head, struct lk__multi_ask *ask)
{
	const struct lk_config *config = ask->multi->part[0]->client->config;
	if (ask->want.wait_ms > 0)
		ask->until_ns = lk__after_ms(lk__now_ns(), ask->want.wait_ms);
	*head = (struct lk__multi_head){
		.ask = ask,
		.attempt = {.count = ask->multi->count,
			    .once = ask->want.wait_ms == 0,
			    .until_ns = ask->until_ns,
			    .command_ns = config->command_timeout_ms * LK__MS}};
	ask->error->code = 0;
	return head_go_on(head, head_event(head, LK__MULTI_STARTED, 0));
}

int lk__multi_head_next(struct lk__multi_head *head, int rc, const lk_error *why)
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
