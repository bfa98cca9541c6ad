/* Renewal and notices: a hold lives as long as it is relied on, and its end is never a surprise. */
#include <poll.h>

#include "fixture.h"

static lk_client *open_watched(int64_t watchdog_ms)
{
	return open_client_with("watchdog_ms=%lld", slow_ms(watchdog_ms));
}

static bool readable(lk_client *client)
{
	struct pollfd poll_fd = {.fd = lk_event_fd(client, &err), .events = POLLIN};
	return poll(&poll_fd, 1, 0) == 1;
}

static void test_a_lease_is_not_renewed(void **state)
{
	own_client *client = open_watched(300);
	own_lock *lock = new_lock(client, "lease");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_event event = LK_EVENT_INIT;
	options.lease_ms = slow_ms(300);
	options.tag = 5;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	check_int(next_event(client, &event, 5000), ==, LK_EVENT_AT_RISK);
	check_int(next_event(client, &event, 5000), ==, LK_EVENT_LOST);
	check_int(event.tag, ==, 5);
	check_int(stats_of(client).renewals, ==, 0);
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
}

static void test_a_lease_of_ones_own_is_renewed_too(void **state)
{
	own_client *client = open_watched(60000);
	own_lock *lock = new_lock(client, "own");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_event event = LK_EVENT_INIT;
	options.lease_ms = slow_ms(300);
	options.renew = 1;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	wait_until(stats_of(client).renewals >= 5, slow_ms(5000));
	check_int(redis_integer(&server, "PTTL own"), <=, slow_ms(300));
	check_int(remaining(lock, NULL), >, 0);
	check_int(next_event(client, &event, 0), ==, 0);
	expect(0, lk_lock_release(lock, NULL, &err));
}

/* What is left counts, so two programs that add both get what they asked for. */
static void test_an_extension_adds(void **state)
{
	own_client *client = open_watched(60000);
	own_lock *lock = new_lock(client, "added");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_extend_options extend = LK_EXTEND_OPTIONS_INIT;
	options.lease_ms = 20000;
	extend.add = 1;
	expect(LK_ENOTOWNER, lk_lock_extend(lock, 20000, &extend, &err));
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	for (int i = 0; i < 2; i++) {
		int64_t before_ns = 0, after_ns = 0;
		expect(0, lk_lock_deadline_ns(lock, NULL, &before_ns, &err));
		expect(0, lk_lock_extend(lock, 20000, &extend, &err));
		expect(0, lk_lock_deadline_ns(lock, NULL, &after_ns, &err));
		check_int(after_ns - before_ns, >=, 19000 * INT64_C(1000000)); /* clocks drift */
	}
	expect(0, lk_lock_extend(lock, LK_LEASE_MAX_MS, &extend, &err));
	check_int(remaining(lock, NULL), <=, LK_LEASE_MAX_MS);
	extend.field = "x:1";
	expect(LK_EINVAL, lk_lock_extend(lock, 20000, &extend, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
}

/* The watchdog stays while any hold relies on it, and no longer. */
static void test_watchdog_within_a_lease(void **state)
{
	own_client *client = open_watched(300);
	own_lock *lock = new_lock(client, "mixed");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = slow_ms(300);
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	sleep_ms(slow_ms(700));
	check_int(remaining(lock, NULL), >, 0);
	expect(0, lk_lock_release(lock, NULL, &err));
	sleep_ms(slow_ms(700));
	check_int(remaining(lock, NULL), >, 0);
	expect(0, lk_lock_release(lock, NULL, &err));
}

static void test_max_hold_ends_the_renewal(void **state)
{
	own_client *client = open_watched(300);
	own_lock *lock = new_lock(client, "max");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_event event = LK_EVENT_INIT;
	options.max_hold_ms = slow_ms(800);
	int64_t start_ms = now_ms();
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	sleep_ms(slow_ms(600));
	check_int(remaining(lock, NULL), >, 0);
	do
		check_int(next_event(client, &event, 5000), !=, 0);
	while (event.type == LK_EVENT_AT_RISK);
	check_int(event.type, ==, LK_EVENT_LOST);
	check_int(now_ms() - start_ms, >=, slow_ms(700));
	check_int(now_ms() - start_ms, <=, slow_ms(2500));
	wait_until(redis_integer(&server, "EXISTS max") == 0, 2000);
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
}

static void check_event(const lk_event *event, int type, const char *field, uint64_t tag)
{
	check_int(event->type, ==, type);
	check_int(event->tag, ==, tag);
	check(!strcmp(event->field, field));
	check_int(event->name_size, ==, 4);
	check(!strcmp(event->name, "risk"));
	check(*event->node == '/' && strstr(server.url_unix, event->node));
}

/* The network hangs: at risk a margin before the end, lost at the end, by the local clock. */
static void test_at_risk_then_lost_when_the_server_hangs(void **state)
{
	own_client *client = open_watched(900);
	own_lock *lock = new_lock(client, "risk");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	char field[LK_FIELD_SIZE];
	lk_event event = LK_EVENT_INIT;
	int64_t deadline_ns = 0;
	options.margin_ms = slow_ms(300);
	options.tag = UINT64_MAX;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	expect(0, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	check(!readable(client));
	server_pause(&server);
	check_int(next_event(client, &event, 3000), ==, LK_EVENT_AT_RISK);
	check_event(&event, LK_EVENT_AT_RISK, field, UINT64_MAX);
	check_int(event.deadline_ns, >, now_ns());
	check_int(event.deadline_ns - now_ns(), <=, options.margin_ms * 1000000);
	check_int(remaining(lock, NULL), >, 0);
	expect(0, lk_lock_deadline_ns(lock, NULL, &deadline_ns, &err));
	check_int(deadline_ns, ==, event.deadline_ns);
	check_int(next_event(client, &event, 3000), ==, LK_EVENT_LOST);
	check_event(&event, LK_EVENT_LOST, field, UINT64_MAX);
	check_int(event.deadline_ns, ==, deadline_ns);
	check_int(now_ns(), >=, deadline_ns);
	check_int(now_ns() - deadline_ns, <=, slow_ms(300) * 1000000);
	check_int(remaining(lock, NULL), ==, LK_ELOST);
	server_resume(&server);
	expect(0, lk_client_ping(client, &err));
	check_int(remaining(lock, NULL), ==, LK_ELOST); /* whatever Redis says later */
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
	wait_until(redis_integer(&server, "EXISTS risk") == 0, 5000);
}

static void test_descriptor_is_readable_while_notices_are_pending(void **state)
{
	enum { LOCKS = 5 };
	own_client *client = open_client();
	lk_lock *locks[LOCKS];
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_event event = LK_EVENT_INIT;
	uint64_t seen = 0;
	options.lease_ms = slow_ms(200);
	options.margin_ms = 1;
	for (size_t i = 0; i < LOCKS; i++) {
		locks[i] = new_lock(client, (const char *[]){"a", "b", "c", "d", "e"}[i]);
		options.tag = i;
		expect(0, lk_lock_acquire(locks[i], -1, &options, &err));
	}
	check(!readable(client));
	wait_until(stats_of(client).lost == LOCKS, 5000);
	while (readable(client)) {
		check_int(next_event(client, &event, 0), !=, 0);
		if (event.type == LK_EVENT_LOST)
			seen |= UINT64_C(1) << event.tag;
	}
	check_int(next_event(client, &event, 0), ==, 0);
	check_int(seen, ==, (1 << LOCKS) - 1);
	for (size_t i = 0; i < LOCKS; i++) {
		expect(LK_ELOST, lk_lock_release(locks[i], NULL, &err));
		lk_lock_free(locks[i]);
	}
}

static void test_a_release_deletes_its_notice(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "along");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_event event = LK_EVENT_INIT;
	options.lease_ms = slow_ms(150);
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	wait_until(readable(client), 5000);
	wait_until(stats_of(client).lost == 1, 5000);
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
	check(!readable(client));
	check_int(next_event(client, &event, 0), ==, 0);
}

static void acquire_and_end(size_t index, void *argument)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.tag = 9;
	expect(0, lk_lock_acquire(argument, -1, &options, &err));
}

static void test_a_thread_that_ends_while_it_holds(void **state)
{
	lk_client *client = open_watched(400);
	lk_lock *lock = new_lock(client, "ended");
	struct threads threads;
	lk_event event = LK_EVENT_INIT;
	threads_start(&threads, 1, acquire_and_end, lock);
	threads_join(&threads, 5000);
	check_int(next_event(client, &event, 5000), ==, LK_EVENT_ABANDONED);
	check_int(event.tag, ==, 9);
	check(!strcmp(event.name, "ended"));
	expect(0, lk_lock_is_held(lock, NULL, &err));
	/* Not renewed any more: free after its lease, for us as for others. */
	expect(0, lk_lock_acquire(lock, slow_ms(5000), NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	lk_client_free(client);
}

/* A new thread may get the ended one's pthread_t; it must not get its holds. */
static void check_not_mine(size_t index, void *argument)
{
	expect(0, lk_lock_is_held(argument, NULL, &err));
	expect(LK_ENOTOWNER, lk_lock_release(argument, NULL, &err));
	expect(LK_EBUSY, lk_lock_acquire(argument, 0, NULL, &err));
}

static void test_a_new_thread_inherits_nothing(void **state)
{
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "heir");
	struct threads threads;
	threads_start(&threads, 1, acquire_and_end, lock);
	threads_join(&threads, 5000);
	for (int i = 0; i < 5; i++) {
		threads_start(&threads, 1, check_not_mine, lock);
		threads_join(&threads, 5000);
	}
	expect(1, lk_lock_force_release(lock, &err));
	lk_lock_free(lock);
	lk_client_free(client);
}

static void take_turns(size_t index, void *argument)
{
	lk_lock *lock = argument;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	for (int i = 0; i < 200; i++) {
		int64_t deadline_ns = 0;
		options.lease_ms = i % 2 ? 0 : slow_ms(1000);
		expect(0, lk_lock_acquire(lock, -1, &options, &err));
		expect(0, lk_lock_deadline_ns(lock, NULL, &deadline_ns, &err));
		check_int(deadline_ns, >, now_ns());
		check_int(deadline_ns, <, now_ns() + slow_ms(1000) * 1000000);
		if (i % 20 == 0) {
			/* What we believe is never more than what the server will keep. */
			int64_t ttl_ms = 0;
			expect(0, lk_lock_server_ttl_ms(lock, &ttl_ms, &err));
			check_int(now_ns() + (ttl_ms + 1) * 1000000, >=, deadline_ns);
		}
		expect(0, lk_lock_release(lock, NULL, &err));
	}
}

static void test_handovers_keep_deadlines_right(void **state)
{
	own_client *client = open_watched(1000);
	own_lock *lock = new_lock(client, "turns");
	struct threads threads;
	lk_event event = LK_EVENT_INIT;
	threads_start(&threads, 8, take_turns, lock);
	threads_join(&threads, 60000);
	check_int(stats_of(client).handovers, >, 0);
	check_int(stats_of(client).acquires, ==, 1600);
	check_int(next_event(client, &event, 0), ==, 0);
}

/* What is due within 10 ms is one script, or one for each hundred locks. */
static void test_renewals_leave_together(void **state)
{
	enum { LOCKS = 400 };
	own_client *client = open_watched(6000);
	lk_lock *locks[LOCKS];
	int64_t begun_ms = now_ms();
	for (size_t i = 0; i < LOCKS; i++) {
		char name[32];
		snprintf(name, sizeof(name), "together-%zu", i);
		locks[i] = new_lock(client, name);
		expect(0, lk_lock_acquire(locks[i], -1, NULL, &err));
	}
	int64_t moments = (now_ms() - begun_ms) / 10 + 2;
	redis_do(&server, "CONFIG RESETSTAT");
	wait_until(stats_of(client).renewals >= LOCKS, 10000);
	int64_t rounds = (int64_t)stats_of(client).renewals / LOCKS + 1;
	check_int(redis_info(&server, "commandstats", "cmdstat_evalsha:calls="), <=,
		  rounds * (moments + LOCKS / 100));
	for (size_t i = 0; i < LOCKS; i++) {
		expect(0, lk_lock_release(locks[i], NULL, &err));
		lk_lock_free(locks[i]);
	}
}

/* ---- why ---- */

static void refuse_writes(bool on)
{
	redis_do(&server, "CONFIG SET min-replicas-to-write %d", on);
}

static void refuse_scripts(bool on)
{
	redis_do(&server, on ? "ACL SETUSER app -evalsha" : "ACL SETUSER app +evalsha");
}

static void be_a_replica(bool on)
{
	redis_do(&server, on ? "REPLICAOF 127.0.0.1 1" : "REPLICAOF NO ONE");
}

/* Of those that are connected, each connection asks anew. */
static void want_another_password(bool on)
{
	redis_do(&server, on ? "ACL SETUSER app resetpass >other" : "ACL SETUSER app >pw");
	if (on)
		redis_do(&server, "CLIENT KILL TYPE normal SKIPME yes");
}

static void be_silent(bool on)
{
	(on ? server_pause : server_resume)(&server);
}

static const struct why {
	const char *what;
	void (*set)(bool on);
	int code;
	const char *words;
} whys[] = {
	{"refused", refuse_writes, LK_EREFUSED, "NOREPLICAS"},
	{"no right", refuse_scripts, LK_EDENIED, "NOPERM"},
	{"a replica", be_a_replica, LK_EUNAVAILABLE, "READONLY"},
	{"another password", want_another_password, LK_EAUTH, "WRONGPASS"},
	{"silent", be_silent, LK_EUNREACHABLE, "no answer"},
};

static void check_why(const lk_event *event, const struct why *why)
{
	if (event->code != why->code || !strstr(event->reason, why->words))
		fail_msg("%s: %d, \"%s\" of \"%s\"", why->what, event->code, event->reason,
			 event->server);
	check(!strcmp(event->server, event->node));
}

/* At risk, and then lost: what each renewal has met. */
static void test_notices_say_why(void **state)
{
	redis_do(&server, "ACL SETUSER app on >pw +@all ~* &*");
	for (size_t i = 0; i < sizeof(whys) / sizeof(whys[0]); i++) {
		lk_client *client = open_client_with("username=app password=pw watchdog_ms=%lld",
						     slow_ms(1500));
		lk_lock *lock = new_lock(client, "why");
		lk_event event = LK_EVENT_INIT;
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		wait_until(stats_of(client).renewals > 0, 5000); /* the background is connected */
		whys[i].set(true);
		check_int(next_event(client, &event, 5000), ==, LK_EVENT_AT_RISK);
		check_why(&event, &whys[i]);
		check_int(next_event(client, &event, 5000), ==, LK_EVENT_LOST);
		check_why(&event, &whys[i]);
		whys[i].set(false);
		expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
		lk_lock_free(lock);
		close_client(client);
		wait_until(redis_integer(&server, "EXISTS why") == 0, 5000);
	}
}

/* What a renewal has met before the last one that succeeded is no reason. */
static void test_a_trouble_that_is_over_is_no_reason(void **state)
{
	own_client *client = open_watched(1500);
	own_lock *lock = new_lock(client, "over");
	lk_event event = LK_EVENT_INIT;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	refuse_writes(true);
	check_int(next_event(client, &event, 5000), ==, LK_EVENT_AT_RISK);
	check_int(event.code, ==, LK_EREFUSED);
	refuse_writes(false);
	wait_until(remaining(lock, NULL) > slow_ms(800), 5000);
	redis_do(&server, "DEL over");
	check_int(next_event(client, &event, 5000), ==, LK_EVENT_LOST);
	check_int(event.code, ==, LK_ELOST);
	check(!strcmp(event.reason, "the server does not have it any more"));
	check(!strcmp(event.server, event.node));
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
}

/* Nothing was refused: it is said why nobody renews it. */
static void test_what_nobody_renews(void **state)
{
	own_client *client = open_watched(600);
	own_lock *lock = new_lock(client, "unrenewed");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_event event = LK_EVENT_INIT;
	options.lease_ms = slow_ms(300);
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	check_int(next_event(client, &event, 5000), ==, LK_EVENT_AT_RISK);
	check_int(event.code, ==, 0);
	check(strstr(event.reason, "named") && !*event.server);
	check_int(next_event(client, &event, 5000), ==, LK_EVENT_LOST);
	check_int(event.code, ==, 0);
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
	options = (lk_acquire_options)LK_ACQUIRE_OPTIONS_INIT;
	options.max_hold_ms = 1;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	check_int(next_event(client, &event, 5000), ==, LK_EVENT_AT_RISK);
	check_int(event.code, ==, 0);
	check(!strcmp(event.reason, "max_hold_ms is over"));
	wait_until(remaining(lock, NULL) == LK_ELOST, 5000);
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_lease_is_not_renewed),
		api_test(test_a_lease_of_ones_own_is_renewed_too),
		api_test(test_an_extension_adds),
		api_test(test_watchdog_within_a_lease),
		api_test(test_max_hold_ends_the_renewal),
		api_test(test_at_risk_then_lost_when_the_server_hangs),
		api_test(test_descriptor_is_readable_while_notices_are_pending),
		api_test(test_a_release_deletes_its_notice),
		api_test(test_a_thread_that_ends_while_it_holds),
		api_test(test_a_new_thread_inherits_nothing),
		api_test(test_handovers_keep_deadlines_right),
		api_test(test_notices_say_why),
		api_test(test_a_trouble_that_is_over_is_no_reason),
		api_test(test_what_nobody_renews),
		api_test(test_renewals_leave_together),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
