/* SPDX-License-Identifier: MIT */
#include "sync/multi/attempt.h"

#include <assert.h>

#include <lockkeeper/error.h>

#include "base/clock.h"

#define SENDS_MAX 3   /* of a mere try, each on new connections */
#define ASKED_MAX 3   /* parts that are waited for only to hear what the server says of them */
#define CALM_ROUNDS 2 /* lost races before it pauses as well */
#define PAUSE_MAX_NS (20 * LK__MS)

/* Tells whether nothing but releases can be waited for any more: 0, or why. */
static int multi_over(const struct lk__multi_attempt *attempt, const struct lk__multi_event *event,
		      int64_t now_ns)
{
	if (event->ends)
		return event->ends;
	if (event->cancelled)
		return LK_ECANCELLED;
	return now_ns >= attempt->until_ns ? LK_ETIMEDOUT : 0;
}

static struct lk__multi_effects multi_do(enum lk__multi_action action)
{
	return (struct lk__multi_effects){.action = action};
}

/* Fails: what is still being compensated may be held, whatever the last round ended with;
 * LK_ENOTDURABLE says so itself, and why. */
static struct lk__multi_effects multi_fail(const struct lk__multi_attempt *attempt,
					   const struct lk__multi_event *event, int code)
{
	bool told = code == LK_ECANCELLED || code == LK_ENOTDURABLE;
	bool doubt = attempt->unknown && !told && event->compensating < attempt->count;
	size_t part = attempt->busy < attempt->count ? attempt->busy : 0;
	assert(code < 0);
	return (struct lk__multi_effects){.action = LK__MULTI_DO_FAIL,
					  .part = doubt ? event->compensating : part,
					  .code = doubt ? LK_EMAYBEHELD : code};
}

static struct lk__multi_effects multi_round(struct lk__multi_attempt *attempt)
{
	struct lk__multi_effects effects = multi_do(LK__MULTI_DO_LOOK);
	assert(!attempt->waits || attempt->busy < attempt->count);
	attempt->awaited = attempt->waits ? attempt->busy : attempt->count;
	if (attempt->waits)
		effects = multi_do(LK__MULTI_DO_AWAIT);
	effects.part = attempt->busy;
	return effects;
}

/* The try has ended in what the event says, and not in all locks. A server that is silent by now
 * would keep the caller to the end of the lease. */
static struct lk__multi_effects multi_give_back(struct lk__multi_attempt *attempt,
						const struct lk__multi_event *event, int64_t now_ns)
{
	struct lk__multi_effects effects = multi_do(LK__MULTI_DO_GIVE_BACK);
	attempt->code = event->code;
	attempt->busy = event->busy;
	attempt->busy_code = event->busy_code;
	attempt->again = event->again;
	attempt->unknown |= event->unknown;
	attempt->late = event->code == 0 && event->busy == attempt->count;
	effects.until_ns = now_ns + attempt->command_ns;
	return effects;
}

/* Goes on with `action` unless something stands in its way. */
static struct lk__multi_effects multi_go_on(struct lk__multi_attempt *attempt,
					    const struct lk__multi_event *event,
					    enum lk__multi_action action, int64_t now_ns)
{
	bool free = event->code == 0 && event->busy == attempt->count;
	return free ? multi_do(action) : multi_give_back(attempt, event, now_ns);
}

/* All clients are connected, which may have taken a while. */
static struct lk__multi_effects multi_ready(struct lk__multi_attempt *attempt,
					    const struct lk__multi_event *event, int64_t now_ns)
{
	struct lk__multi_event cancelled = *event;
	if (!event->cancelled)
		return multi_do(LK__MULTI_DO_TRY);
	cancelled.code = LK_ECANCELLED;
	return multi_give_back(attempt, &cancelled, now_ns);
}

static struct lk__multi_effects multi_tried(struct lk__multi_attempt *attempt,
					    const struct lk__multi_event *event, int64_t now_ns)
{
	return event->stands ? multi_go_on(attempt, event, LK__MULTI_DO_GRANT, now_ns)
			     : multi_give_back(attempt, event, now_ns);
}

/* Others are after the same locks: an uneven pause lets one of us be first. */
static struct lk__multi_effects multi_pause(struct lk__multi_attempt *attempt, int64_t now_ns)
{
	struct lk__multi_effects effects = multi_do(LK__MULTI_DO_PAUSE);
	effects.until_ns = now_ns + PAUSE_MAX_NS;
	return attempt->round++ < CALM_ROUNDS ? multi_round(attempt) : effects;
}

/* Another caller of the client waits for a part, and has no answer yet: a caller that would leave
 * now waits for that. */
static bool multi_asks(struct lk__multi_attempt *attempt, int over)
{
	bool leaves = attempt->once ? !over : over == LK_ETIMEDOUT;
	bool asks = leaves && !attempt->busy_code && attempt->asked < ASKED_MAX;
	attempt->asked += asks;
	return asks;
}

/* The end, or another round. */
static struct lk__multi_effects multi_again(struct lk__multi_attempt *attempt,
					    const struct lk__multi_event *event, int64_t now_ns)
{
	int over = multi_over(attempt, event, now_ns);
	if (attempt->code < 0)
		return multi_fail(attempt, event, attempt->code);
	if (attempt->late) {
		attempt->busy = attempt->awaited < attempt->count ? attempt->awaited : 0;
		attempt->busy_code = LK_EMAYBEHELD;
		attempt->unknown = true;
	}
	if (event->ends)
		return multi_fail(attempt, event, event->ends);
	if (attempt->once && attempt->again && !attempt->late && !over &&
	    attempt->round + 1 < SENDS_MAX) {
		attempt->round++; /* an idle connection that was closed, or a clock, fails no try */
		return multi_round(attempt);
	}
	attempt->waits = true;
	if (multi_asks(attempt, over))
		return multi_round(attempt);
	int why = attempt->busy_code ? attempt->busy_code : LK_EUNREACHABLE;
	if (attempt->once)
		return multi_fail(attempt, event, why);
	if (over == LK_ETIMEDOUT && why != LK_EBUSY)
		over = why;
	return over ? multi_fail(attempt, event, over) : multi_pause(attempt, now_ns);
}

static struct lk__multi_effects multi_next(struct lk__multi_attempt *attempt,
					   const struct lk__multi_event *event, int64_t now_ns)
{
	switch (event->type) {
	case LK__MULTI_STARTED:
		attempt->busy = attempt->count;
		return multi_round(attempt);
	case LK__MULTI_AWAITED:
		assert(attempt->action == LK__MULTI_DO_AWAIT);
		return event->code ? multi_fail(attempt, event, event->code)
				   : multi_do(LK__MULTI_DO_LOOK);
	case LK__MULTI_LOOKED:
		assert(attempt->action == LK__MULTI_DO_LOOK);
		return multi_go_on(attempt, event, LK__MULTI_DO_CONNECT, now_ns);
	case LK__MULTI_CONNECTED:
		assert(attempt->action == LK__MULTI_DO_CONNECT);
		return multi_go_on(attempt, event, LK__MULTI_DO_CONNECT, now_ns);
	case LK__MULTI_READY:
		assert(attempt->action == LK__MULTI_DO_CONNECT);
		return multi_ready(attempt, event, now_ns);
	case LK__MULTI_TRIED:
		assert(attempt->action == LK__MULTI_DO_TRY);
		return multi_tried(attempt, event, now_ns);
	case LK__MULTI_GIVEN_BACK:
		assert(attempt->action == LK__MULTI_DO_GIVE_BACK);
		return multi_again(attempt, event, now_ns);
	default:
		assert(event->type == LK__MULTI_TIMER && attempt->action == LK__MULTI_DO_PAUSE);
		return multi_round(attempt);
	}
}

struct lk__multi_effects lk__multi_step(struct lk__multi_attempt *attempt,
					const struct lk__multi_event *event, int64_t now_ns)
{
	assert(attempt->count > 0 && event->busy <= attempt->count);
	struct lk__multi_effects effects = multi_next(attempt, event, now_ns);
	attempt->action = effects.action;
	return effects;
}
