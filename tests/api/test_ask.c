/* A holder that is asked to give its lock up: who hears of it, how, and what it says. */
#include "fixture.h"

#define ASKED "lockkeeper_ask:{job}"

static long long listeners(const char *channel)
{
	return redis_integer(&server, "EVAL %s 0 %s",
			     "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]", channel);
}

static void ask(lk_lock *lock, const char *reason, int owners, int heard)
{
	int owners_is = -1, heard_is = -1;
	expect(0, lk_lock_ask(lock, reason, &owners_is, &heard_is, &err));
	check_int(owners_is, ==, owners);
	check_int(heard_is, ==, heard);
}

static void test_the_holder_is_told_by_an_event(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_event event = LK_EVENT_INIT;
	lk_client *client = open_client(), *other = open_client();
	lk_lock *lock = new_lock(client, "job"), *theirs = new_lock(other, "job");
	ask(theirs, "nobody has it", 0, 0);
	check_int(redis_integer(&server, "EXISTS " ASKED), ==, 0);
	options.hears_asks = 1;
	options.tag = 7;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	wait_until(listeners(ASKED) == 1, 5000);
	for (int i = 0; i < 2; i++) { /* each request counts once */
		ask(theirs, i ? "again" : "because", 1, 1);
		expect(1, lk_event_wait(client, &event, 20000, NULL, &err));
		check_int(event.type, ==, LK_EVENT_ASKED);
		check_int(event.tag, ==, 7);
		check_int(event.code, ==, 0);
		check(!strcmp(event.name, "job") && !*event.server);
		check(!strcmp(event.reason, i ? "again" : "because"));
		expect(0, lk_event_wait(client, &event, 100, NULL, &err));
	}
	check(lk_lock_is_held(lock, NULL, &err)); /* nothing happens by itself */
	expect(0, lk_lock_release(lock, NULL, &err));
	wait_until(listeners(ASKED) == 0, 5000);
	ask(theirs, NULL, 0, 0);
	lk_lock_free(lock);
	lk_lock_free(theirs);
	close_client(client);
	close_client(other);
	redis_do(&server, "FLUSHALL");
}

static void test_it_comes_through_a_queue_too(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	lk_queue *queue = NULL;
	lk_completion got = LK_COMPLETION_INIT;
	lk_client *client = open_client(), *other = open_client();
	lk_lock *lock = new_lock(client, "job"), *theirs = new_lock(other, "job");
	expect(0, lk_queue_new(&queue, 0, &err));
	expect(0, lk_queue_start(queue, request_of(NOTICE, .client = client), NULL, &err));
	options.owner = release.owner = "task";
	options.hears_asks = 1;
	expect(0,
	       lk_queue_start(queue,
			      request_of(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options),
			      NULL, &err));
	expect(1, lk_queue_take(queue, &got, 1, 20000, &err));
	check_int(got.error.code, ==, 0);
	wait_until(listeners(ASKED) == 1, 5000);
	ask(theirs, "because", 1, 1);
	expect(1, lk_queue_take(queue, &got, 1, 20000, &err));
	check_int(got.operation, ==, LK_OP_NOTICE);
	check_int(got.event, ==, LK_EVENT_ASKED);
	check(!strcmp(got.reason, "because"));
	expect(0, lk_lock_release(lock, &release, &err));
	lk_lock_free(lock);
	lk_lock_free(theirs);
	close_client(client);
	close_client(other);
	expect(1, lk_queue_take(queue, &got, 1, 20000, &err));
	check_int(got.error.code, ==, LK_ECLOSED);
	expect(0, lk_queue_free(queue, &err));
	redis_do(&server, "FLUSHALL");
}

/* Who has not said that it listens is told nothing, also beside another hold that listens. */
static void test_only_who_listens_is_told(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_event event = LK_EVENT_INIT;
	lk_client *client = open_client_with("watchdog_ms=%lld", slow_ms(300));
	lk_lock *lock = new_lock(client, "job"), *second = new_lock(client, "second");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	options.hears_asks = 1;
	expect(0, lk_lock_acquire(second, -1, &options, &err));
	wait_until(listeners("lockkeeper_ask:{second}") == 1, 5000);
	ask(lock, "because", 1, 0);
	expect(0, lk_event_wait(client, &event, slow_ms(400), NULL, &err)); /* renewals too */
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, lk_lock_release(second, NULL, &err));
	lk_lock_free(lock);
	lk_lock_free(second);
	close_client(client);
	redis_do(&server, "FLUSHALL");
}

static void test_the_parts_of_a_multi_lock_are_asked(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_lock *parts[2], *both = NULL;
	lk_event event = LK_EVENT_INIT;
	lk_client *client = open_client();
	parts[0] = new_lock(client, "one");
	parts[1] = new_lock(client, "two");
	expect(0, lk_multi_lock_new(&both, parts, 2, &err));
	options.hears_asks = 1;
	expect(0, lk_lock_acquire(both, -1, &options, &err));
	wait_until(listeners("lockkeeper_ask:{one}") == 1, 5000);
	wait_until(listeners("lockkeeper_ask:{two}") == 1, 5000);
	ask(both, "because", 2, 2);
	for (int i = 0; i < 2; i++) {
		expect(1, lk_event_wait(client, &event, 20000, NULL, &err));
		check_int(event.type, ==, LK_EVENT_ASKED);
	}
	expect(0, lk_lock_release(both, NULL, &err));
	lk_lock_free(both);
	lk_lock_free(parts[0]);
	lk_lock_free(parts[1]);
	close_client(client);
	redis_do(&server, "FLUSHALL");
}

static void test_wrong_arguments(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	own_permits *semaphore = NULL;
	lk_permit permit;
	int owners = -1, heard = -1;
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "job");
	expect(LK_EINVAL, lk_lock_ask(NULL, NULL, &owners, &heard, &err));
	expect(LK_EINVAL, lk_lock_ask(lock, NULL, NULL, &heard, &err));
	expect(LK_EINVAL, lk_lock_ask(lock, "a\nb", &owners, &heard, &err));
	check(!strcmp(err.message, "lk_lock_ask: reason has a control character"));
	redis_do(&server, "RPUSH job x");
	expect(LK_EWRONGTYPE, lk_lock_ask(lock, NULL, &owners, &heard, &err));
	redis_do(&server, "DEL job");
	options.hears_asks = 1;
	expect(0, lk_permit_semaphore_new(&semaphore, client, "slots", LK_STRLEN, NULL, &err));
	expect(LK_EINVAL, lk_permit_semaphore_acquire(semaphore, 1, &permit, 0, &options, &err));
	check_int(owners, ==, -1);
	check_int(heard, ==, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_the_holder_is_told_by_an_event),
		api_test(test_it_comes_through_a_queue_too),
		api_test(test_only_who_listens_is_told),
		api_test(test_the_parts_of_a_multi_lock_are_asked),
		api_test(test_wrong_arguments),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
