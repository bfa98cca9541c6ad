/* SPDX-License-Identifier: MIT */
#include "sync/attempt.h"

#include <assert.h>
#include <stdatomic.h>

#include <lockkeeper/error.h>

#include "base/clock.h"

#define POLL_WITHOUT_TTL_MS 1000 /* a key without a time to live sends no message when it goes */
#define SOON_NS (50 * LK__MS)    /* for the client before us to take the lock that is free */
#define LEAST_SLEEP_MS 5         /* a ttl of 0: it is about to go */
#define FIRSTS_MAX 8             /* first answers of nodes that need not be an outcome */
#define UNSENT_MAX 3             /* connections lost in a row before a try was written */
#define DRIFT_NS (2 * LK__MS)
#define DRIFT_PER_LEASE 100 /* a hundredth of it */
#define FASTEST_PART 16     /* of a poll */
#define FASTEST_NS (5 * LK__MS)

int64_t lk__lease_end_ns(int64_t sent_ns, int64_t lease_ms)
{
	int64_t lease_ns = lease_ms * LK__MS;
	assert(lease_ms >= 0);
	return sent_ns + lease_ns - lease_ns / DRIFT_PER_LEASE - DRIFT_NS;
}

static struct lk__effects act(struct lk__effects effects, enum lk__attempt_action action,
			      int64_t until_ns)
{
	effects.action = action;
	effects.until_ns = until_ns;
	return effects;
}

/* ---- pace ---- */

/* FNV-1a. */
uint64_t lk__pace_holder(const char *token, size_t size)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)token[i]) * UINT64_C(1099511628211);
	return hash ? hash : 1;
}

/* The holder was seen; 0: the answer does not say which it is. */
static void pace_see(struct lk__pace *pace, uint64_t holder)
{
	bool other = holder && pace->holder && holder != pace->holder;
	pace->holder = holder;
	pace->missed += other;
	pace->looks = other ? 1 : pace->looks + 1;
}

/* Until the next look. */
static int64_t pace_ns(const struct lk__pace *pace, int64_t poll_ns)
{
	assert(poll_ns > 0);
	if (!pace->holder)
		return poll_ns;
	int64_t fastest_ns = poll_ns / FASTEST_PART, slowest_ns = poll_ns;
	if (fastest_ns < FASTEST_NS)
		fastest_ns = lk__earlier(FASTEST_NS, poll_ns);
	for (unsigned i = 0; i < pace->missed && slowest_ns > fastest_ns; i++)
		slowest_ns /= 2;
	int64_t pause_ns = fastest_ns;
	for (unsigned i = 1; i < pace->looks && pause_ns < slowest_ns; i++)
		pause_ns *= 2;
	if (pause_ns > slowest_ns)
		pause_ns = slowest_ns;
	return pause_ns > fastest_ns ? pause_ns : fastest_ns;
}

/* ---- compensation ---- */

/* The outcome of the last try is unknown: its number is given up. */
static void attempt_doubt(struct lk__attempt *attempt, struct lk__effects *effects)
{
	assert(attempt->number != 0);
	effects->compensate = LK__COMPENSATE_COPIES;
	effects->gives_up = attempt->number;
	effects->copies_until_ns = attempt->try_until_ns;
	attempt->copies_until_ns = 0;
	attempt->queued = false;
	attempt->fresh = true;
}

/* Where the master has answered a try that was sent once, no copy of it can come any more. */
static void attempt_doubt_answer(struct lk__attempt *attempt, const struct lk__attempt_event *event,
				 struct lk__effects *effects, int64_t now_ns)
{
	int64_t copies_until_ns = attempt->copies_until_ns;
	attempt_doubt(attempt, effects);
	if (event->code == LK_ENOTDURABLE || event->ran)
		effects->copies_until_ns = copies_until_ns > now_ns ? copies_until_ns : now_ns;
}

/*
 * Nobody goes on with the number: what it has or may yet get is given back, its place in a queue
 * too. A copy of a try that was sent twice may still come, or has come since the number was last
 * asked for: then once more when none can.
 */
static void attempt_give_back(struct lk__attempt *attempt, bool granted,
			      struct lk__effects *effects, int64_t now_ns)
{
	effects->gives_up = attempt->number;
	effects->copies_until_ns = attempt->copies_until_ns;
	if (attempt->copies_until_ns > now_ns)
		effects->compensate = LK__COMPENSATE_COPIES;
	else if (granted || attempt->queued || attempt->copies_until_ns)
		effects->compensate = LK__COMPENSATE_RELEASE;
	assert(!effects->compensate || effects->gives_up != 0);
	attempt->copies_until_ns = 0;
	attempt->queued = false;
	attempt->fresh = true;
}

/* Tells whether the head has named another number than that of the last try. */
static bool attempt_is_astray(const struct lk__attempt *attempt)
{
	return attempt->want.number && attempt->want.number != attempt->number && !attempt->fresh;
}

/* Tells whether the last try asked for what the head wants. */
static bool attempt_asked_alike(const struct lk__attempt *attempt)
{
	return attempt->asked_count == attempt->want.count &&
	       attempt->asked_lease_ms == attempt->want.lease_ms && !attempt_is_astray(attempt);
}

/*
 * Gives up what an earlier head's try has, or a copy of it may yet get: it is not ours if that
 * asked for something else. A place in a queue is kept: our own try says there what we want.
 */
static void attempt_disown(struct lk__attempt *attempt, bool granted, struct lk__effects *effects,
			   int64_t now_ns)
{
	if (!attempt_asked_alike(attempt) && (granted || attempt->copies_until_ns))
		attempt_give_back(attempt, granted, effects, now_ns);
}

/* ---- the way to a try ---- */

static void attempt_renumber(struct lk__attempt *attempt, struct lk__effects *effects)
{
	attempt->number = attempt->want.number ? attempt->want.number
					       : attempt->want.downgrade_number;
	if (!attempt->number)
		attempt->number = atomic_fetch_add(attempt->rules.numbers, 1) + 1;
	attempt->want.downgrade_number = 0;
	attempt->fresh = false;
	attempt->queued = false;
	attempt->doubtful = false;
	attempt->copies_until_ns = 0;
	effects->new_number = true;
	if (attempt->rules.own_channel) {
		effects->unsubscribes = true;
		attempt->listening = false;
	}
}

static struct lk__effects attempt_try(struct lk__attempt *attempt, struct lk__effects effects,
				      int64_t now_ns)
{
	if (attempt_is_astray(attempt) && !effects.compensate)
		attempt_give_back(attempt, false, &effects, now_ns);
	if (attempt->fresh || attempt->rules.fans_out)
		attempt_renumber(attempt, &effects);
	attempt->held_off = false;
	attempt->asks_place_only = false;
	attempt->state = LK__ATTEMPT_CONNECTING;
	if (!attempt->down_since_ns)
		attempt->down_since_ns = now_ns;
	return act(effects, LK__ATTEMPT_DO_CONNECT,
		   attempt->down_since_ns + attempt->rules.retry_ns);
}

/* Tells whether one more first answer need not be an outcome. */
static bool attempt_learns(struct lk__attempt *attempt)
{
	bool learns = attempt->firsts < FIRSTS_MAX;
	attempt->firsts += learns;
	return learns;
}

/* Another node has another clock: the first try there may come late again. */
static void attempt_moved(struct lk__attempt *attempt)
{
	if (attempt_learns(attempt))
		attempt->was_late = false;
}

static struct lk__effects attempt_connected(struct lk__attempt *attempt, bool moved, int64_t now_ns)
{
	const struct lk__attempt_want *want = &attempt->want;
	assert(attempt->number != 0 && !attempt->fresh);
	if (moved)
		attempt_moved(attempt);
	attempt->down_since_ns = 0;
	attempt->state = LK__ATTEMPT_TRYING;
	attempt->adopted = false;
	attempt->asked_lease_ms = want->lease_ms;
	attempt->asked_count = want->count;
	attempt->try_until_ns = now_ns + attempt->rules.command_ns;
	attempt->queued |= attempt->rules.queues && !want->once;
	return act((struct lk__effects){0}, LK__ATTEMPT_DO_SEND, attempt->try_until_ns);
}

/* Tells whether the number may have what the failure `code` says nothing of. */
static bool attempt_doubts(const struct lk__attempt *attempt, int code)
{
	return attempt->doubtful && code != LK_ENOTDURABLE;
}

static struct lk__effects attempt_fail(struct lk__attempt *attempt, struct lk__effects effects,
				       const struct lk__attempt_event *event, int code,
				       int64_t now_ns)
{
	if (effects.compensate == LK__COMPENSATE_NOT)
		attempt_give_back(attempt, false, &effects, now_ns);
	attempt->state = LK__ATTEMPT_IDLE;
	bool maybe = attempt_doubts(attempt, code) || (attempt->unknown && event->compensating);
	effects.code = maybe ? LK_EMAYBEHELD : code;
	return act(effects, LK__ATTEMPT_DO_FAIL, 0);
}

/* ---- pauses ---- */

/* `first_ns`, `factor` times as long each time, up to `most_ns`. */
static int64_t grown_ns(int64_t first_ns, int64_t most_ns, int factor, unsigned times)
{
	int64_t pause_ns = first_ns;
	assert(first_ns >= 0 && factor >= 0);
	for (unsigned i = 0; i < times && pause_ns < most_ns; i++)
		pause_ns *= factor;
	return pause_ns < most_ns ? pause_ns : most_ns;
}

static struct lk__effects attempt_spin(struct lk__attempt *attempt, struct lk__effects effects,
				       int64_t now_ns)
{
	const struct lk__attempt_want *want = &attempt->want;
	int64_t pause_ns = want->poll_ns ? pace_ns(&attempt->pace, want->poll_ns)
					 : grown_ns(want->spin_min_ns, want->spin_max_ns,
						    want->spin_factor, attempt->spun);
	if (pause_ns < want->spin_max_ns && want->spin_factor > 1)
		attempt->spun++;
	attempt->state = LK__ATTEMPT_PAUSED;
	return act(effects, LK__ATTEMPT_DO_PAUSE, now_ns + pause_ns);
}

static struct lk__effects attempt_back_off(struct lk__attempt *attempt, struct lk__effects effects,
					   const struct lk__attempt_event *event, int code,
					   int64_t now_ns)
{
	const struct lk__attempt_rules *rules = &attempt->rules;
	if (attempt->failures == 0)
		attempt->failing_since_ns = now_ns;
	attempt->code = code;
	if (attempt->want.unlimited && attempt->failing_since_ns + rules->retry_ns < now_ns)
		return attempt_fail(attempt, effects, event, code, now_ns);
	int64_t pause_ns = grown_ns(rules->backoff_min_ns, rules->backoff_max_ns, 2,
				    attempt->failures++);
	attempt->state = LK__ATTEMPT_PAUSED;
	return act(effects, LK__ATTEMPT_DO_PAUSE, now_ns + pause_ns);
}

/* ---- answers ---- */

static int64_t attempt_wait_until_ns(const struct lk__attempt *attempt, int64_t ttl_ms,
				     int64_t now_ns)
{
	if (ttl_ms < 0)
		ttl_ms = POLL_WITHOUT_TTL_MS;
	else if (ttl_ms < LEAST_SLEEP_MS)
		ttl_ms = LEAST_SLEEP_MS;
	else
		ttl_ms++; /* the key is there until the whole ms is over */
	int64_t until_ns = lk__after_ms(now_ns, ttl_ms);
	int64_t poll_ns = attempt->want.poll_ns;
	int64_t most_ns = poll_ns ? pace_ns(&attempt->pace, poll_ns) : attempt->want.look_ns;
	return most_ns ? lk__earlier(until_ns, now_ns + most_ns) : until_ns;
}

static struct lk__effects attempt_busy(struct lk__attempt *attempt,
				       const struct lk__attempt_event *event, int64_t now_ns)
{
	struct lk__effects effects = {0};
	attempt->busy = true;
	attempt->doubtful = false;
	attempt->code = 0;
	attempt->failures = 0;
	attempt->was_late = false;
	pace_see(&attempt->pace, event->holder);
	if (attempt->want.once)
		return attempt_fail(attempt, effects, event, LK_EBUSY, now_ns);
	if (attempt->rules.spins)
		return attempt_spin(attempt, effects, now_ns);
	if (!attempt->listening) {
		attempt->state = LK__ATTEMPT_SUBSCRIBING;
		return act(effects, LK__ATTEMPT_DO_LISTEN, 0);
	}
	attempt->state = LK__ATTEMPT_WAITING;
	if (attempt->asks_place_only && event->ttl_ms == 0) /* it is free, for those before us */
		return act(effects, LK__ATTEMPT_DO_HOLD_OFF, attempt->hold_off_until_ns);
	effects.patient = event->ttl_ms > 0 && !attempt->want.poll_ns && !attempt->asks_place_only;
	return act(effects, LK__ATTEMPT_DO_WAIT,
		   attempt_wait_until_ns(attempt, event->ttl_ms, now_ns));
}

static struct lk__effects attempt_failed(struct lk__attempt *attempt,
					 const struct lk__attempt_event *event, int64_t now_ns)
{
	struct lk__effects effects = {0};
	attempt->busy = false;
	attempt->unknown |= event->code == LK_EMAYBEHELD; /* a quorum, which compensates itself */
	if (event->unsent && ++attempt->unsent < UNSENT_MAX)
		return attempt_try(attempt, effects, now_ns);
	attempt->unsent = 0;
	bool again = event->retryable || (event->passing && !attempt->want.unlimited);
	if (attempt->want.once || !again)
		return attempt_fail(attempt, effects, event, event->code, now_ns);
	return attempt_back_off(attempt, effects, event, event->code, now_ns);
}

/*
 * A place in a queue is kept, since a new number would stand at its end, if the next try under the
 * number tells what it has: where this one has no answer, no copy of it runs after its deadline;
 * and what too few replicas have is the number's on the master, for as long as it tries.
 */
static bool attempt_keeps_place(const struct lk__attempt *attempt,
				const struct lk__attempt_event *event)
{
	bool tells = event->untold || event->code == LK_ENOTDURABLE;
	bool named = attempt->want.number && !attempt_is_astray(attempt);
	bool keeps = named || (tells && attempt->rules.own_channel);
	return keeps && attempt->queued && !attempt->want.once && !event->lasting;
}

/* Held perhaps: the number is given up; a new one may try. */
static struct lk__effects attempt_unknown(struct lk__attempt *attempt,
					  const struct lk__attempt_event *event, int64_t now_ns)
{
	struct lk__effects effects = {0};
	int code = event->code ? event->code : LK_EMAYBEHELD;
	attempt->busy = false;
	if (attempt_keeps_place(attempt, event)) {
		attempt->doubtful = true;
		if (event->untold && !event->ran)
			attempt->copies_until_ns = attempt->try_until_ns;
		return attempt_back_off(attempt, effects, event, code, now_ns);
	}
	attempt->unknown = true;
	attempt_doubt_answer(attempt, event, &effects, now_ns);
	if (attempt->want.once || event->lasting)
		return attempt_fail(attempt, effects, event, code, now_ns);
	return attempt_back_off(attempt, effects, event, code, now_ns);
}

/* Another try now would not fare better. */
static struct lk__effects attempt_in_vain(struct lk__attempt *attempt,
					  const struct lk__attempt_event *event, int64_t now_ns)
{
	struct lk__attempt_event failed = *event;
	failed.code = LK_EUNAVAILABLE;
	failed.retryable = true;
	return attempt_failed(attempt, &failed, now_ns);
}

/* The clocks were apart: the answer has taught by how much, so once more. */
static struct lk__effects attempt_late(struct lk__attempt *attempt,
				       const struct lk__attempt_event *event, int64_t now_ns)
{
	bool again = !attempt->was_late;
	attempt->was_late = again;
	return again ? attempt_try(attempt, (struct lk__effects){0}, now_ns)
		     : attempt_in_vain(attempt, event, now_ns);
}

static struct lk__effects attempt_granted(struct lk__attempt *attempt, int64_t sent_ns,
					  const struct lk__attempt_event *event, int64_t now_ns)
{
	struct lk__effects effects = {.sent_ns = sent_ns,
				      .repeated_until_ns = attempt->copies_until_ns};
	assert(sent_ns <= now_ns && attempt->number != 0);
	if (event->closing) { /* its owner could not give it up any more; held until that is done */
		attempt->state = LK__ATTEMPT_IDLE;
		attempt_give_back(attempt, true, &effects, now_ns);
		effects.code = attempt->rules.takes ? LK_EMAYBEHELD : LK_ECLOSED;
		return act(effects, LK__ATTEMPT_DO_FAIL, 0);
	}
	attempt->state = LK__ATTEMPT_IDLE;
	attempt->busy = false;
	attempt->code = 0;
	attempt->queued = false;
	attempt->copies_until_ns = 0;
	return act(effects, LK__ATTEMPT_DO_GRANT, 0);
}

/*
 * An answer to what an earlier head asked for. A grant of the same is ours. Else the present head
 * tries at once, as every new head does.
 */
static struct lk__effects attempt_inherit(struct lk__attempt *attempt,
					  const struct lk__attempt_event *event, int64_t now_ns)
{
	struct lk__effects effects = {0};
	attempt_disown(attempt, event->type == LK__ATTEMPT_GRANTED, &effects, now_ns);
	/* A head that leaves now has waited for its predecessor; a latch may have opened since. */
	attempt->busy = attempt->rules.takes;
	attempt->was_late = true;
	return attempt_try(attempt, effects, now_ns);
}

/* Notes what an answer says of the number, whoever asked. */
static void attempt_note(struct lk__attempt *attempt, const struct lk__attempt_event *event)
{
	if (event->copied)
		attempt->copies_until_ns = attempt->try_until_ns;
	else if (event->type == LK__ATTEMPT_BUSY && event->sent_ns > attempt->copies_until_ns)
		attempt->copies_until_ns = 0; /* asked when none could run any more: none has it */
	if (event->type == LK__ATTEMPT_BUSY) {
		attempt->busy_sent_ns = event->sent_ns;
		attempt->busy_server_us = event->server_us;
	}
	if (!event->unsent)
		attempt->unsent = 0;
}

static bool event_is_answer(const struct lk__attempt_event *event)
{
	return event->type >= LK__ATTEMPT_GRANTED && event->type <= LK__ATTEMPT_UNKNOWN;
}

static struct lk__effects attempt_answered(struct lk__attempt *attempt,
					   const struct lk__attempt_event *event, int64_t now_ns)
{
	bool adopted = attempt->adopted;
	bool granted = event->type == LK__ATTEMPT_GRANTED;
	attempt_note(attempt, event);
	attempt->adopted = false;
	if (event->type == LK__ATTEMPT_UNKNOWN)
		return attempt_unknown(attempt, event, now_ns);
	if (adopted &&
	    (event->type == LK__ATTEMPT_BUSY || (granted && !attempt_asked_alike(attempt))))
		return attempt_inherit(attempt, event, now_ns);
	if (granted)
		return attempt_granted(attempt, event->sent_ns, event, now_ns);
	if (event->type == LK__ATTEMPT_BUSY)
		return attempt_busy(attempt, event, now_ns);
	if (event->type == LK__ATTEMPT_LATE)
		return attempt_late(attempt, event, now_ns);
	return attempt_failed(attempt, event, now_ns);
}

/* An answer that nobody waits for. */
static struct lk__effects attempt_detached(struct lk__attempt *attempt,
					   const struct lk__attempt_event *event, int64_t now_ns)
{
	struct lk__effects effects = {0};
	if (!event_is_answer(event))
		return effects;
	attempt_note(attempt, event);
	attempt->state = LK__ATTEMPT_IDLE;
	if (event->type == LK__ATTEMPT_UNKNOWN)
		attempt_doubt_answer(attempt, event, &effects, now_ns);
	else
		attempt_give_back(attempt, event->type == LK__ATTEMPT_GRANTED, &effects, now_ns);
	return effects;
}

/* ---- messages ---- */

/*
 * Since when we have the lock that a message has brought; 0: it has not. The lease counts from the
 * hand-over. That is when the last try was sent plus the time that the server counted since, less
 * 1 % for the clocks: never too late, as long as the server's clock does not jump. A hand-over
 * before that try was refused is over.
 */
static int64_t attempt_handed_ns(const struct lk__attempt *attempt, int64_t handed_us,
				 int64_t now_ns)
{
	if (!handed_us || !attempt->busy_server_us || handed_us < attempt->busy_server_us)
		return 0;
	int64_t after_us = (handed_us - attempt->busy_server_us) / 100 * 99;
	int64_t most_us = (now_ns - attempt->busy_sent_ns) / 1000;
	int64_t sent_ns = attempt->busy_sent_ns + (after_us < most_us ? after_us : most_us) * 1000;
	return now_ns < lk__lease_end_ns(sent_ns, attempt->asked_lease_ms) ? sent_ns : 0;
}

static struct lk__effects attempt_woken(struct lk__attempt *attempt,
					const struct lk__attempt_event *event, int64_t now_ns)
{
	if (event->soon && attempt->listening)
		return act((struct lk__effects){0}, LK__ATTEMPT_DO_WAIT, now_ns + SOON_NS);
	int64_t sent_ns = attempt_handed_ns(attempt, event->handed_us, now_ns);
	if (!sent_ns)
		return attempt_try(attempt, (struct lk__effects){0}, now_ns);
	struct lk__effects effects = attempt_granted(attempt, sent_ns, event, now_ns);
	effects.handed = true;
	return effects;
}

/* Others are to have their chance. Where we are told of our turn, the place behind them is taken
 * meanwhile; where we hear nothing, only the time counts. */
static struct lk__effects attempt_hold_off(struct lk__attempt *attempt, struct lk__effects effects,
					   bool turns, int64_t now_ns)
{
	if (attempt->rules.spins) {
		attempt->state = LK__ATTEMPT_PAUSED;
		return act(effects, LK__ATTEMPT_DO_PAUSE, attempt->hold_off_until_ns);
	}
	if (turns) {
		effects = attempt_try(attempt, effects, now_ns);
		attempt->asks_place_only = true;
		return effects;
	}
	attempt->state = LK__ATTEMPT_WAITING;
	return act(effects, LK__ATTEMPT_DO_HOLD_OFF, attempt->hold_off_until_ns);
}

static struct lk__effects attempt_subscribed(struct lk__attempt *attempt,
					     const struct lk__attempt_event *event, int64_t now_ns)
{
	bool deaf = event->type == LK__ATTEMPT_FAILED && event->code == LK_EDENIED;
	if (event->type == LK__ATTEMPT_FAILED && !deaf)
		return attempt_failed(attempt, event, now_ns);
	if (deaf) /* a waiter that may not listen looks again from time to time */
		attempt->rules.spins = true;
	attempt->listening = !deaf;
	struct lk__effects effects = {.unsubscribes = deaf};
	if (!attempt->held_off || now_ns >= attempt->hold_off_until_ns)
		return attempt_try(attempt, effects, now_ns);
	return attempt_hold_off(attempt, effects, event->turns, now_ns);
}

/* ---- heads come and go ---- */

static void attempt_begin(struct lk__attempt *attempt, const struct lk__attempt_event *event)
{
	attempt->fresh = true;
	attempt->listening = event->listens;
	attempt->hold_off_until_ns = event->hold_off_until_ns;
	attempt->held_off = attempt->was_late = false;
	attempt->unknown = attempt->doubtful = false;
	attempt->code = 0;
	attempt->unsent = attempt->failures = attempt->spun = attempt->firsts = 0;
	attempt->failing_since_ns = 0;
	attempt->pace = (struct lk__pace){0};
}

/* From standing still: listen first if others are to have their chance, else try. */
static struct lk__effects attempt_start(struct lk__attempt *attempt, struct lk__effects effects,
					bool turns, int64_t now_ns)
{
	if (attempt->want.once || now_ns >= attempt->hold_off_until_ns)
		return attempt_try(attempt, effects, now_ns);
	attempt->held_off = true;
	if (attempt->listening || attempt->rules.spins)
		return attempt_hold_off(attempt, effects, turns, now_ns);
	attempt->state = LK__ATTEMPT_SUBSCRIBING;
	return act(effects, LK__ATTEMPT_DO_LISTEN, attempt->hold_off_until_ns);
}

static struct lk__effects attempt_adopted(struct lk__attempt *attempt,
					  const struct lk__attempt_event *event, int64_t now_ns)
{
	struct lk__effects effects = {0};
	bool in_flight = attempt->state == LK__ATTEMPT_TRYING ||
			 attempt->state == LK__ATTEMPT_DETACHED;
	attempt->want = event->want;
	if (event->stale)
		attempt->busy = false;
	if (attempt->state == LK__ATTEMPT_IDLE)
		attempt_begin(attempt, event);
	attempt->unknown |= event->want.undone;
	if (in_flight) {
		attempt->state = LK__ATTEMPT_TRYING;
		attempt->adopted = true;
		return act(effects, LK__ATTEMPT_DO_AWAIT, attempt->try_until_ns);
	}
	if (attempt->state != LK__ATTEMPT_IDLE)
		attempt_disown(attempt, false, &effects, now_ns);
	return attempt_start(attempt, effects, event->turns, now_ns);
}

/* The code for a head that leaves now, its time being up, or its client being closed. */
static int attempt_verdict(const struct lk__attempt *attempt, int code, bool out, bool compensating)
{
	if (attempt_doubts(attempt, attempt->code) || (out && attempt->rules.takes))
		return LK_EMAYBEHELD;
	if (attempt->unknown && compensating)
		return attempt->code == LK_ENOTDURABLE ? attempt->code : LK_EMAYBEHELD;
	if (code != LK_ETIMEDOUT)
		return code;
	if (attempt->busy)
		return LK_ETIMEDOUT;
	return attempt->code ? attempt->code : LK_EUNREACHABLE;
}

/* A try in flight stays; so does what the server was last told, as long as somebody follows. */
static struct lk__effects attempt_left(struct lk__attempt *attempt,
				       const struct lk__attempt_event *event, int64_t now_ns)
{
	struct lk__effects effects = {0};
	bool tries = attempt->state == LK__ATTEMPT_TRYING;
	bool in_flight = tries && !attempt->rules.fans_out && !event->unsent;
	/* What several nodes have granted of it, or may have, was given up before. */
	bool out = in_flight || (tries && attempt->rules.fans_out && event->compensating);
	bool told = attempt->busy &&
		    (attempt->state == LK__ATTEMPT_WAITING || attempt->state == LK__ATTEMPT_PAUSED);
	effects.code = event->code;
	if (event->code != LK_ECANCELLED)
		effects.code = attempt_verdict(attempt, event->code, out, event->compensating);
	if (event->last)
		lk__attempt_rest(attempt);
	if (in_flight) {
		attempt->state = event->last ? LK__ATTEMPT_DETACHED : LK__ATTEMPT_TRYING;
	} else if (event->last || !told) {
		attempt->state = LK__ATTEMPT_IDLE;
		attempt_give_back(attempt, false, &effects, now_ns);
	}
	return act(effects, LK__ATTEMPT_DO_FAIL, 0);
}

void lk__attempt_rest(struct lk__attempt *attempt)
{
	attempt->busy = false;
	attempt->down_since_ns = 0;
}

/* ---- the step ---- */

static struct lk__effects attempt_next(struct lk__attempt *attempt,
				       const struct lk__attempt_event *event, int64_t now_ns)
{
	switch (attempt->state) {
	case LK__ATTEMPT_CONNECTING:
		return event->type == LK__ATTEMPT_CONNECTED
			       ? attempt_connected(attempt, event->moved, now_ns)
			       : attempt_failed(attempt, event, now_ns);
	case LK__ATTEMPT_TRYING:
		return event_is_answer(event) ? attempt_answered(attempt, event, now_ns)
					      : (struct lk__effects){0};
	case LK__ATTEMPT_SUBSCRIBING:
		return attempt_subscribed(attempt, event, now_ns);
	case LK__ATTEMPT_WAITING:
	case LK__ATTEMPT_PAUSED: /* whatever came: look again */
		return attempt_woken(attempt, event, now_ns);
	default:
		return (struct lk__effects){0};
	}
}

/* Tells whether its driver can carry out the action: without a channel there is nothing to wait
 * for. And whether the attempt is where the driver will feed what comes of it. For assertions. */
static __attribute__((unused)) bool attempt_is_ready_for(const struct lk__attempt *attempt,
							 enum lk__attempt_action action)
{
	static const enum lk__attempt_state states[] = {
		[LK__ATTEMPT_DO_CONNECT] = LK__ATTEMPT_CONNECTING,
		[LK__ATTEMPT_DO_SEND] = LK__ATTEMPT_TRYING,
		[LK__ATTEMPT_DO_AWAIT] = LK__ATTEMPT_TRYING,
		[LK__ATTEMPT_DO_LISTEN] = LK__ATTEMPT_SUBSCRIBING,
		[LK__ATTEMPT_DO_WAIT] = LK__ATTEMPT_WAITING,
		[LK__ATTEMPT_DO_HOLD_OFF] = LK__ATTEMPT_WAITING,
		[LK__ATTEMPT_DO_PAUSE] = LK__ATTEMPT_PAUSED,
		[LK__ATTEMPT_DO_GRANT] = LK__ATTEMPT_IDLE,
	};
	bool hears = action == LK__ATTEMPT_DO_WAIT || action == LK__ATTEMPT_DO_HOLD_OFF;
	if (hears && (!attempt->listening || attempt->rules.spins))
		return false;
	return action == LK__ATTEMPT_DO_NOTHING || action == LK__ATTEMPT_DO_FAIL ||
	       states[action] == attempt->state;
}

struct lk__effects lk__attempt_step(struct lk__attempt *attempt,
				    const struct lk__attempt_event *event, int64_t now_ns)
{
	struct lk__effects effects;
	if (!event->subscribed) /* the last queue took the channel along, or a move has closed it */
		attempt->listening = false;
	if (event->type == LK__ATTEMPT_ADOPTED)
		effects = attempt_adopted(attempt, event, now_ns);
	else if (attempt->state == LK__ATTEMPT_DETACHED)
		effects = attempt_detached(attempt, event, now_ns);
	else if (event->type == LK__ATTEMPT_LEFT)
		effects = attempt_left(attempt, event, now_ns);
	else
		effects = attempt_next(attempt, event, now_ns);
	assert(attempt_is_ready_for(attempt, effects.action));
	assert(!effects.compensate || effects.gives_up != 0);
	return effects;
}
