/*
 * Each effect of the attempt in each state of its channel: a driver that does what the head of a
 * wait queue does, and every sequence of things that may happen to it, up to a depth.
 */
#include "attempting.h"

enum channel { NONE, ASKED, CONFIRMED, REFUSED, CHANNELS };

struct driver {
	struct lk__attempt attempt;
	enum channel channel;
	struct lk__effects effects; /* what it carries out */
	bool in_flight;             /* a try */
	bool turns;                 /* it is told of its turn */
	int64_t now_ns;
};

#define DEPTH 8

static unsigned seen[LK__ATTEMPT_DO_FAIL + 1][CHANNELS];

/* It cannot wait for messages without a channel, nor where the server refuses to tell them. */
static void check_effects(const struct driver *driver)
{
	enum lk__attempt_action action = driver->effects.action;
	seen[action][driver->channel]++;
	if (action == LK__ATTEMPT_DO_WAIT || action == LK__ATTEMPT_DO_HOLD_OFF)
		assert_true(driver->channel == ASKED || driver->channel == CONFIRMED);
	if (action == LK__ATTEMPT_DO_SEND)
		assert_false(driver->in_flight);
	if (action == LK__ATTEMPT_DO_AWAIT)
		assert_true(driver->in_flight);
}

static void drive(struct driver *driver, struct lk__attempt_event event)
{
	event.subscribed = driver->channel != NONE;
	event.listens = driver->channel == CONFIRMED;
	event.turns = driver->turns && event.listens;
	driver->effects = lk__attempt_step(&driver->attempt, &event, driver->now_ns);
	if (driver->effects.unsubscribes)
		driver->channel = NONE;
	check_effects(driver);
	if (driver->effects.action == LK__ATTEMPT_DO_SEND)
		driver->in_flight = true;
	if (driver->effects.action == LK__ATTEMPT_DO_LISTEN && driver->channel != CONFIRMED)
		driver->channel = ASKED;
}

static void arrive(struct driver *driver, bool unlimited)
{
	struct lk__attempt_event event = adopted;
	event.want.unlimited = unlimited;
	event.hold_off_until_ns = driver->now_ns + 5 * MS;
	drive(driver, event);
}

/* The head leaves, and another follows at once, or when the queue has been empty. */
static void replace(struct driver *driver, bool last)
{
	struct lk__attempt_event left = {.type = LK__ATTEMPT_LEFT,
					 .code = LK_ETIMEDOUT,
					 .last = last,
					 .unsent = !driver->in_flight};
	drive(driver, left);
	if (last)
		driver->channel = NONE;
	arrive(driver, true);
}

static void happens_to_connect(struct driver *driver, int which)
{
	struct lk__attempt_event event = {.type = LK__ATTEMPT_CONNECTED, .moved = which % 2};
	if (which >= 2) {
		event.type = LK__ATTEMPT_FAILED;
		event.code = LK_EUNREACHABLE;
		event.retryable = true;
	}
	if (event.moved)
		driver->channel = NONE;
	drive(driver, event);
}

static void happens_to_send(struct driver *driver, int which)
{
	static const struct lk__attempt_event answers[] = {
		{.type = LK__ATTEMPT_GRANTED},
		{.type = LK__ATTEMPT_BUSY, .ttl_ms = 30000},
		{.type = LK__ATTEMPT_BUSY, .ttl_ms = 0},
		{.type = LK__ATTEMPT_FAILED, .code = LK_EUNAVAILABLE, .retryable = true},
		{.type = LK__ATTEMPT_UNKNOWN},
		{.type = LK__ATTEMPT_LATE},
	};
	struct lk__attempt_event event = answers[which];
	event.sent_ns = driver->now_ns;
	driver->in_flight = false;
	drive(driver, event);
	if (driver->effects.action == LK__ATTEMPT_DO_GRANT ||
	    driver->effects.action == LK__ATTEMPT_DO_FAIL)
		arrive(driver, true);
}

static void happens_to_listen(struct driver *driver, int which)
{
	static const struct {
		enum channel channel;
		struct lk__attempt_event event;
	} answers[] = {
		{CONFIRMED, {.type = LK__ATTEMPT_LISTENING}},
		{ASKED, {.type = LK__ATTEMPT_LISTENING}}, /* not confirmed in time */
		{REFUSED, {.type = LK__ATTEMPT_FAILED, .code = LK_EDENIED}},
		{ASKED, {.type = LK__ATTEMPT_FAILED, .code = LK_EUNREACHABLE, .passing = true}},
	};
	driver->channel = answers[which].channel;
	drive(driver, answers[which].event);
	if (driver->effects.action == LK__ATTEMPT_DO_FAIL)
		arrive(driver, false);
}

static void happens_to_wait(struct driver *driver, int which)
{
	struct lk__attempt_event event = {.type = LK__ATTEMPT_WOKEN, .soon = which == 1};
	if (which == 2 || driver->effects.action == LK__ATTEMPT_DO_PAUSE) {
		event = (struct lk__attempt_event){.type = LK__ATTEMPT_TIMER};
		if (driver->now_ns < driver->effects.until_ns)
			driver->now_ns = driver->effects.until_ns;
	}
	drive(driver, event);
}

static const struct {
	int count;
	void (*happens)(struct driver *driver, int which);
} outcomes[] = {
	[LK__ATTEMPT_DO_CONNECT] = {4, happens_to_connect},
	[LK__ATTEMPT_DO_SEND] = {6, happens_to_send},
	[LK__ATTEMPT_DO_AWAIT] = {6, happens_to_send},
	[LK__ATTEMPT_DO_LISTEN] = {4, happens_to_listen},
	[LK__ATTEMPT_DO_WAIT] = {3, happens_to_wait},
	[LK__ATTEMPT_DO_HOLD_OFF] = {3, happens_to_wait},
	[LK__ATTEMPT_DO_PAUSE] = {1, happens_to_wait},
	[LK__ATTEMPT_DO_FAIL] = {0, NULL},
};

static void explore(const struct driver *driver, int depth)
{
	enum lk__attempt_action action = driver->effects.action;
	if (depth == 0)
		return;
	for (int which = 0; which < outcomes[action].count; which++) {
		struct driver next = *driver;
		outcomes[action].happens(&next, which);
		explore(&next, depth - 1);
	}
	if (driver->in_flight)
		return; /* what is left behind is tested elsewhere */
	for (int last = 0; last < 2; last++) {
		struct driver next = *driver;
		replace(&next, last);
		explore(&next, depth - 1);
	}
}

static void explore_kind(bool queues, bool spins, bool turns)
{
	struct driver driver = {.attempt = begin(false, false, 0), .turns = turns};
	driver.attempt.rules.queues = driver.attempt.rules.own_channel = queues;
	driver.attempt.rules.spins = spins;
	adopted.want.spin_min_ns = adopted.want.spin_max_ns = 100 * MS;
	adopted.want.spin_factor = 1;
	adopted.want.look_ns = 5000 * MS;
	arrive(&driver, true);
	explore(&driver, DEPTH);
}

static void test_each_effect_can_be_carried_out(void **state)
{
	explore_kind(false, false, false);
	explore_kind(false, false, true);
	explore_kind(true, false, false);
	explore_kind(false, true, false);
	assert_true(seen[LK__ATTEMPT_DO_HOLD_OFF][CONFIRMED] > 0);
	assert_true(seen[LK__ATTEMPT_DO_HOLD_OFF][ASKED] > 0);
	assert_true(seen[LK__ATTEMPT_DO_WAIT][CONFIRMED] > 0);
	assert_true(seen[LK__ATTEMPT_DO_WAIT][ASKED] > 0);
	assert_true(seen[LK__ATTEMPT_DO_PAUSE][NONE] > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_effect_can_be_carried_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
