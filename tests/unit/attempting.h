/* What the tests of the attempt share: it is driven by a fake clock and scripted answers. */
#ifndef TESTS_UNIT_ATTEMPTING_H
#define TESTS_UNIT_ATTEMPTING_H

#include "unit.h"

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "sync/attempt.h"

#define MS LK__MS

static _Atomic uint64_t numbers;
static struct lk__attempt_event adopted; /* what a head that comes feeds */

static struct lk__attempt begin(bool once, bool listening, int64_t hold_off_until_ns)
{
	adopted = (struct lk__attempt_event){.type = LK__ATTEMPT_ADOPTED,
					     .want = {.once = once, .lease_ms = 30000, .count = 1},
					     .subscribed = true,
					     .listens = listening,
					     .hold_off_until_ns = hold_off_until_ns};
	return (struct lk__attempt){.rules = {.numbers = &numbers,
					      .takes = true,
					      .command_ns = 3000 * MS,
					      .retry_ns = 30000 * MS,
					      .backoff_min_ns = 10 * MS,
					      .backoff_max_ns = 2000 * MS}};
}

/* The connection is always there: what is to be sent is sent. */
static struct lk__effects feed(struct lk__attempt *attempt, const struct lk__attempt_event *event,
			       int64_t now_ns)
{
	struct lk__attempt_event told = *event;
	if (told.type != LK__ATTEMPT_ADOPTED)
		told.subscribed = attempt->listening || told.type == LK__ATTEMPT_LISTENING;
	struct lk__effects effects = lk__attempt_step(attempt, &told, now_ns);
	if (effects.action != LK__ATTEMPT_DO_CONNECT)
		return effects;
	struct lk__attempt_event connected = {.type = LK__ATTEMPT_CONNECTED,
					      .subscribed = attempt->listening};
	effects.action = lk__attempt_step(attempt, &connected, now_ns).action;
	return effects;
}

static inline struct lk__effects step(struct lk__attempt *attempt, int type, int64_t now_ns)
{
	struct lk__attempt_event event = {.type = (enum lk__attempt_event_type)type,
					  .sent_ns = now_ns};
	return feed(attempt, type == LK__ATTEMPT_ADOPTED ? &adopted : &event, now_ns);
}

static inline struct lk__effects busy(struct lk__attempt *attempt, int64_t ttl_ms, int64_t now_ns)
{
	struct lk__attempt_event event = {
		.type = LK__ATTEMPT_BUSY, .ttl_ms = ttl_ms, .sent_ns = now_ns};
	return feed(attempt, &event, now_ns);
}

static inline struct lk__effects failed(struct lk__attempt *attempt, int code, bool retryable,
					int64_t now_ns)
{
	struct lk__attempt_event event = {
		.type = LK__ATTEMPT_FAILED, .code = code, .retryable = retryable};
	return feed(attempt, &event, now_ns);
}

/* What a head is told whose time is up now. */
static inline int verdict(const struct lk__attempt *attempt, bool compensating)
{
	struct lk__attempt left = *attempt;
	struct lk__attempt_event event = {.type = LK__ATTEMPT_LEFT,
					  .code = LK_ETIMEDOUT,
					  .last = true,
					  .compensating = compensating};
	return lk__attempt_step(&left, &event, 0).code;
}

static inline struct lk__effects leave(struct lk__attempt *attempt, bool last, int64_t now_ns)
{
	struct lk__attempt_event event = {
		.type = LK__ATTEMPT_LEFT, .code = LK_ECANCELLED, .last = last};
	return lk__attempt_step(attempt, &event, now_ns);
}

#endif
