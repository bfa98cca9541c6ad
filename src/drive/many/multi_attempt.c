/* SPDX-License-Identifier: MIT */
#include "drive/many/multi_attempt.h"

#include <assert.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/random.h"
#include "conf/config.h"

#define SENDS_MAX 3   /* of a try, each on new connections */
#define CALM_ROUNDS 2 /* lost races before it pauses as well */
#define PAUSE_MAX_NS (20 * LK__MS)

static bool ask_closed(const struct lk__multi_ask *ask)
{
	for (size_t i = 0; i < ask->multi->count; i++)
		if (atomic_load(&ask->multi->part[i]->client->state) != LK__CLIENT_OPEN)
			return true;
	return false;
}

static bool ask_cancelled(const struct lk__multi_ask *ask)
{
	const struct lk__want *want = &ask->want;
	return lk__cancelled(want->cancel) || (want->stop && atomic_load(want->stop));
}

int lk__multi_over(const struct lk__multi_ask *ask)
{
	if (ask_closed(ask))
		return LK_ECLOSED;
	if (ask_cancelled(ask))
		return LK_ECANCELLED;
	if (ask->until_ns != LK__NEVER && lk__now_ns() >= ask->until_ns)
		return LK_ETIMEDOUT;
	return 0;
}

static int ask_fail(const struct lk__multi_ask *ask, size_t part, int code)
{
	assert(code < 0 && part < ask->multi->count);
	if (ask->error->code == code)
		return code; /* with the reason */
	return lk__fail(ask->error, code, "acquire %zu locks, \"%.100s\": %s", ask->multi->count,
			ask->multi->part[part]->name, lk_error_text(code));
}

/* Everything is ours: whether it still is, and may be, seen last. */
static bool ask_stands(const struct lk__multi_ask *ask)
{
	struct lk__multi_hold hold;
	return !ask_closed(ask) && lk__multi_hold_of(ask->multi, &ask->want.owner, &hold) == 0;
}

/* What is still being compensated may be held, whatever the last round ended with; LK_ENOTDURABLE
 * says so itself, and why. */
static int attempt_verdict(const struct lk__multi_attempt *attempt, int rc)
{
	const struct lk__multi_ask *ask = attempt->ask;
	bool told = rc == LK_ECANCELLED || rc == LK_ECLOSED || rc == LK_ENOTDURABLE;
	if (rc >= 0 || !ask->unknown || told)
		return rc;
	for (size_t i = 0; i < ask->multi->count; i++)
		if (atomic_load(&ask->multi->part[i]->compensating) > 0)
			return ask_fail(ask, i, LK_EMAYBEHELD);
	return rc;
}

static int attempt_act(struct lk__multi_attempt *attempt, enum lk__multi_action action,
		       int64_t until_ns)
{
	attempt->action = action;
	attempt->until_ns = until_ns;
	return 0;
}

/* ---- a round ---- */

static int try_end(struct lk__multi_attempt *attempt, int rc);
static int attempt_again(struct lk__multi_attempt *attempt);

/* The next client connects, or the parts are reserved and asked for. */
static int try_go_on(struct lk__multi_attempt *attempt, size_t from)
{
	struct lk__multi_ask *ask = attempt->ask;
	assert(!lk__multi_is_busy(ask) && ask->asks.count == 0);
	attempt->part = lk__multi_connects(ask, from);
	if (attempt->part < ask->multi->count)
		return attempt_act(attempt, LK__MULTI_CONNECT,
				   lk__multi_connect_until_ns(ask, attempt->part));
	int rc = 0;
	if (from > 0 && ask_cancelled(ask))
		rc = lk__fail(ask->error, LK_ECANCELLED, "acquire: %s",
			      lk_error_text(LK_ECANCELLED));
	if (rc == 0)
		rc = lk__multi_reserve(ask);
	if (rc == 0 && ask->asks.count > 0)
		return attempt_act(attempt, LK__MULTI_ASK, ask->asks_until_ns);
	return try_end(attempt, rc);
}

static int try_begin(struct lk__multi_attempt *attempt)
{
	int rc = lk__multi_look(attempt->ask);
	if (rc == 0 && !lk__multi_is_busy(attempt->ask))
		return try_go_on(attempt, 0);
	return try_end(attempt, rc);
}

static int round_begin(struct lk__multi_attempt *attempt)
{
	assert(!attempt->waits || lk__multi_is_busy(attempt->ask));
	attempt->awaited = attempt->ask->busy;
	attempt->part = attempt->ask->busy;
	return attempt->waits ? attempt_act(attempt, LK__MULTI_AWAIT, LK__NEVER)
			      : try_begin(attempt);
}

/* Everything is given back. Why, is not to be forgotten over it; and a server that is silent by now
 * would keep us to the end of the lease. */
static int try_end(struct lk__multi_attempt *attempt, int rc)
{
	struct lk__multi_ask *ask = attempt->ask;
	int64_t limit_ms = ask->multi->part[0]->client->config->command_timeout_ms;
	rc = lk__multi_tried(ask, rc);
	if (rc == LK__MULTI_ALL && ask_stands(ask))
		return 1;
	attempt->outcome = rc;
	lk__multi_give_back(ask);
	attempt_act(attempt, LK__MULTI_GIVE_BACK,
		    lk__earlier(ask->asks_until_ns, lk__after_ms(lk__now_ns(), limit_ms)));
	return ask->asks.count > 0 ? 0 : attempt_again(attempt);
}

/* Others are after the same locks: an uneven pause lets one of us be first. */
static int attempt_pause(struct lk__multi_attempt *attempt)
{
	uint32_t random = 0;
	if (attempt->round++ < CALM_ROUNDS)
		return round_begin(attempt);
	lk__random_bytes(&random, sizeof(random));
	return attempt_act(attempt, LK__MULTI_PAUSE, lk__now_ns() + (int64_t)random % PAUSE_MAX_NS);
}

/* Nothing is held any more: the end, or another round. */
static int attempt_again(struct lk__multi_attempt *attempt)
{
	struct lk__multi_ask *ask = attempt->ask;
	bool once = ask->want.wait_ms == 0;
	bool again = attempt->outcome == LK__MULTI_BUSY && ask->again;
	int over = lk__multi_over(ask);
	if (attempt->outcome < 0)
		return attempt->outcome;
	if (attempt->outcome == LK__MULTI_ALL) {
		ask->busy = attempt->awaited < ask->multi->count ? attempt->awaited : 0;
		ask->code = LK_EMAYBEHELD; /* it came later than its lease */
		ask->unknown = true;
	}
	if (over == LK_ECLOSED)
		return ask_fail(ask, ask->busy, LK_ECLOSED);
	if (once && again && attempt->round + 1 < SENDS_MAX && !over) {
		attempt->round++; /* an idle connection that was closed, or a clock, fails no try */
		return round_begin(attempt);
	}
	if (once)
		return ask_fail(ask, ask->busy, ask->code);
	attempt->waits = true;
	if (over)
		return ask_fail(ask, ask->busy,
				over == LK_ETIMEDOUT && ask->code != LK_EBUSY ? ask->code : over);
	return attempt_pause(attempt);
}

/* ---- from the first action to the last ---- */

static int attempt_next(struct lk__multi_attempt *attempt, int rc, const lk_error *why)
{
	struct lk__multi_ask *ask = attempt->ask;
	switch (attempt->action) {
	case LK__MULTI_AWAIT:
		ask->taken[attempt->part] = rc == 0;
		return rc < 0 ? rc : try_begin(attempt);
	case LK__MULTI_CONNECT:
		rc = lk__multi_connected(ask, attempt->part, rc, why);
		if (rc == 0 && !lk__multi_is_busy(ask))
			return try_go_on(attempt, attempt->part + 1);
		return try_end(attempt, rc);
	case LK__MULTI_ASK:
		return try_end(attempt, 0);
	case LK__MULTI_GIVE_BACK:
		return attempt_again(attempt);
	default:
		assert(attempt->action == LK__MULTI_PAUSE);
		return round_begin(attempt);
	}
}

int lk__multi_start(struct lk__multi_attempt *attempt, struct lk__multi_ask *ask)
{
	*attempt = (struct lk__multi_attempt){.ask = ask};
	if (ask->want.wait_ms > 0)
		ask->until_ns = lk__after_ms(lk__now_ns(), ask->want.wait_ms);
	ask->error->code = 0;
	return attempt_verdict(attempt, round_begin(attempt));
}

int lk__multi_next(struct lk__multi_attempt *attempt, int rc, const lk_error *why)
{
	return attempt_verdict(attempt, attempt_next(attempt, rc, why));
}
