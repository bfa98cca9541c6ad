#include "sync/acquire.h"

#include <lockkeeper/error.h>

#include "base/clock.h"

#define POLL_WITHOUT_TTL_MS 1000 /* a key without a time to live sends no message when it goes */
#define LEAST_SLEEP_MS 5         /* a ttl of 0: it is about to go */

static struct lk__acquire_action act(enum lk__acquire_action_type type)
{
	return (struct lk__acquire_action){.type = type};
}

static struct lk__acquire_action act_until(enum lk__acquire_action_type type, int64_t until_ns)
{
	return (struct lk__acquire_action){.type = type, .until_ns = until_ns};
}

static struct lk__acquire_action acquire_try(struct lk__acquire *acquire)
{
	struct lk__acquire_action action = act(LK__ACQUIRE_DO_TRY);
	action.new_number = acquire->fresh;
	acquire->fresh = false;
	acquire->held_off = false;
	acquire->state = LK__ACQUIRE_TRYING;
	return action;
}

static struct lk__acquire_action acquire_fail(struct lk__acquire *acquire, int code)
{
	struct lk__acquire_action action = act(LK__ACQUIRE_DO_FAIL);
	action.code = code;
	acquire->state = LK__ACQUIRE_IDLE;
	return action;
}

void lk__acquire_begin(struct lk__acquire *acquire, bool once, bool listening,
		       int64_t hold_off_until_ns)
{
	*acquire = (struct lk__acquire){
		.once = once,
		.listening = listening,
		.fresh = true,
		.hold_off_until_ns = hold_off_until_ns,
		.backoff_min_ns = acquire->backoff_min_ns,
		.backoff_max_ns = acquire->backoff_max_ns,
		.spins = acquire->spins,
		.poll_ns = acquire->poll_ns,
		.spin_min_ns = acquire->spin_min_ns,
		.spin_max_ns = acquire->spin_max_ns,
		.spin_factor = acquire->spin_factor,
	};
}

/* From standing still: listen first if others are to have their chance, else try. */
static struct lk__acquire_action acquire_start(struct lk__acquire *acquire, int64_t now_ns)
{
	if (acquire->once || now_ns >= acquire->hold_off_until_ns)
		return acquire_try(acquire);
	acquire->held_off = true;
	if (acquire->spins) {
		acquire->state = LK__ACQUIRE_PAUSED;
		return act_until(LK__ACQUIRE_DO_PAUSE, acquire->hold_off_until_ns);
	}
	if (!acquire->listening) {
		acquire->state = LK__ACQUIRE_SUBSCRIBING;
		return act(LK__ACQUIRE_DO_LISTEN);
	}
	acquire->state = LK__ACQUIRE_WAITING;
	return act_until(LK__ACQUIRE_DO_HOLD_OFF, acquire->hold_off_until_ns);
}

/* Longer each time, up to a limit; the driver adds jitter. */
static struct lk__acquire_action acquire_spin(struct lk__acquire *acquire, int64_t now_ns)
{
	int64_t pause_ns = acquire->spin_min_ns;
	for (unsigned i = 0; i < acquire->spun && pause_ns < acquire->spin_max_ns; i++)
		pause_ns *= acquire->spin_factor;
	if (pause_ns < acquire->spin_max_ns && acquire->spin_factor > 1)
		acquire->spun++;
	if (pause_ns > acquire->spin_max_ns)
		pause_ns = acquire->spin_max_ns;
	acquire->state = LK__ACQUIRE_PAUSED;
	return act_until(LK__ACQUIRE_DO_PAUSE, now_ns + pause_ns);
}

static struct lk__acquire_action acquire_busy(struct lk__acquire *acquire, int64_t ttl_ms,
					      int64_t now_ns)
{
	acquire->busy = true;
	acquire->code = 0;
	acquire->failures = 0;
	acquire->was_late = false;
	if (acquire->once)
		return acquire_fail(acquire, LK_EBUSY);
	if (acquire->spins)
		return acquire_spin(acquire, now_ns);
	if (!acquire->listening) {
		acquire->state = LK__ACQUIRE_SUBSCRIBING;
		return act(LK__ACQUIRE_DO_LISTEN);
	}
	acquire->state = LK__ACQUIRE_WAITING;
	if (ttl_ms < 0)
		ttl_ms = POLL_WITHOUT_TTL_MS;
	else if (ttl_ms < LEAST_SLEEP_MS)
		ttl_ms = LEAST_SLEEP_MS;
	else
		ttl_ms++; /* the key is there until the whole ms is over */
	int64_t until_ns = lk__after_ms(now_ns, ttl_ms);
	if (acquire->poll_ns && until_ns > now_ns + acquire->poll_ns)
		until_ns = now_ns + acquire->poll_ns;
	return act_until(LK__ACQUIRE_DO_WAIT, until_ns);
}

static struct lk__acquire_action acquire_pause(struct lk__acquire *acquire, int code,
					       int64_t now_ns)
{
	if (acquire->failures++ == 0)
		acquire->failing_since_ns = now_ns;
	acquire->code = code;
	int64_t pause_ns = acquire->backoff_min_ns;
	for (unsigned i = 1; i < acquire->failures && pause_ns < acquire->backoff_max_ns; i++)
		pause_ns *= 2;
	if (pause_ns > acquire->backoff_max_ns)
		pause_ns = acquire->backoff_max_ns;
	acquire->state = LK__ACQUIRE_PAUSED;
	return act_until(LK__ACQUIRE_DO_PAUSE, now_ns + pause_ns);
}

static struct lk__acquire_action acquire_failed(struct lk__acquire *acquire,
						const struct lk__acquire_event *event,
						int64_t now_ns)
{
	acquire->busy = false;
	acquire->unknown |= event->code == LK_EMAYBEHELD; /* and its driver takes it back */
	if (acquire->once || !event->retryable)
		return acquire_fail(acquire, event->code);
	return acquire_pause(acquire, event->code, now_ns);
}

/* Held perhaps: the number is given up and taken back; a new one may try. */
static struct lk__acquire_action acquire_unknown(struct lk__acquire *acquire, int64_t now_ns)
{
	struct lk__acquire_action action;
	acquire->busy = false;
	acquire->fresh = true;
	acquire->unknown = true;
	if (acquire->once)
		action = acquire_fail(acquire, LK_EMAYBEHELD);
	else
		action = acquire_pause(acquire, LK_EMAYBEHELD, now_ns);
	action.take_back = true;
	return action;
}

/* The clocks were apart: the answer has taught us by how much, so once more. */
static struct lk__acquire_action acquire_late(struct lk__acquire *acquire, int64_t now_ns)
{
	bool again = !acquire->was_late;
	acquire->was_late = true;
	if (again)
		return acquire_try(acquire);
	struct lk__acquire_event failed = {
		.type = LK__ACQUIRE_FAILED, .code = LK_EUNAVAILABLE, .retryable = true};
	acquire->was_late = false;
	return acquire_failed(acquire, &failed, now_ns);
}

static struct lk__acquire_action acquire_answered(struct lk__acquire *acquire,
						  const struct lk__acquire_event *event,
						  int64_t now_ns)
{
	switch (event->type) {
	case LK__ACQUIRE_GRANTED:
		acquire->state = LK__ACQUIRE_IDLE;
		return act(LK__ACQUIRE_DO_GRANT);
	case LK__ACQUIRE_BUSY:
		return acquire_busy(acquire, event->ttl_ms, now_ns);
	case LK__ACQUIRE_LATE:
		return acquire_late(acquire, now_ns);
	case LK__ACQUIRE_FAILED:
		return acquire_failed(acquire, event, now_ns);
	case LK__ACQUIRE_UNKNOWN:
		return acquire_unknown(acquire, now_ns);
	case LK__ACQUIRE_LEFT:
		acquire->state = LK__ACQUIRE_ABANDONED;
		return act(LK__ACQUIRE_DO_NOTHING);
	case LK__ACQUIRE_START:
		return act(LK__ACQUIRE_DO_AWAIT);
	default:
		return act(LK__ACQUIRE_DO_NOTHING);
	}
}

static struct lk__acquire_action acquire_abandoned(struct lk__acquire *acquire,
						   const struct lk__acquire_event *event)
{
	if (event->type == LK__ACQUIRE_START) {
		acquire->state = LK__ACQUIRE_TRYING;
		return act(LK__ACQUIRE_DO_AWAIT);
	}
	if (event->type < LK__ACQUIRE_GRANTED || event->type > LK__ACQUIRE_UNKNOWN)
		return act(LK__ACQUIRE_DO_NOTHING); /* no answer: the try is still in flight */
	acquire->state = LK__ACQUIRE_IDLE;
	acquire->fresh = true;
	bool held = event->type == LK__ACQUIRE_GRANTED || event->type == LK__ACQUIRE_UNKNOWN;
	return act(held ? LK__ACQUIRE_DO_TAKE_BACK : LK__ACQUIRE_DO_NOTHING);
}

static struct lk__acquire_action acquire_listening(struct lk__acquire *acquire,
						   const struct lk__acquire_event *event,
						   int64_t now_ns)
{
	if (event->type == LK__ACQUIRE_FAILED)
		return acquire_failed(acquire, event, now_ns);
	acquire->listening = true;
	if (!acquire->held_off || now_ns >= acquire->hold_off_until_ns)
		return acquire_try(acquire);
	acquire->state = LK__ACQUIRE_WAITING;
	return act_until(LK__ACQUIRE_DO_HOLD_OFF, acquire->hold_off_until_ns);
}

struct lk__acquire_action lk__acquire_step(struct lk__acquire *acquire,
					   const struct lk__acquire_event *event, int64_t now_ns)
{
	if (acquire->state == LK__ACQUIRE_TRYING)
		return acquire_answered(acquire, event, now_ns);
	if (acquire->state == LK__ACQUIRE_ABANDONED)
		return acquire_abandoned(acquire, event);
	if (event->type == LK__ACQUIRE_LEFT) {
		acquire->state = LK__ACQUIRE_IDLE;
		return act(LK__ACQUIRE_DO_NOTHING);
	}
	if (event->type == LK__ACQUIRE_START)
		return acquire_start(acquire, now_ns);
	if (acquire->state == LK__ACQUIRE_SUBSCRIBING)
		return acquire_listening(acquire, event, now_ns);
	if (event->type == LK__ACQUIRE_GRANTED) { /* by a message */
		acquire->state = LK__ACQUIRE_IDLE;
		return act(LK__ACQUIRE_DO_GRANT);
	}
	return acquire_try(acquire); /* WAITING, PAUSED: whatever came, look again */
}

int lk__acquire_verdict(const struct lk__acquire *acquire, bool taking_back)
{
	if (acquire->unknown && taking_back)
		return LK_EMAYBEHELD;
	if (acquire->busy)
		return LK_ETIMEDOUT;
	if (acquire->code)
		return acquire->code;
	bool in_flight = acquire->state == LK__ACQUIRE_TRYING;
	return in_flight ? LK_EMAYBEHELD : LK_EUNREACHABLE;
}
