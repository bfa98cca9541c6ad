/*
 * A thread is slow in the library while another one closes or frees its client. Its mutexes are
 * wrapped, so that each takes a while.
 *
 * A thread that nobody joins ends while its client is freed: freeing waits for what the library
 * does at the end of that thread.
 */
#include "fixture.h"

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

static _Thread_local bool slow;
static _Atomic int ending; /* slow threads on their way to a mutex */
static _Atomic int ended;  /* mutexes that slow threads have reached */

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (slow) {
		ending++;
		sleep_ms(50);
		ending--;
		ended++;
	}
	return __real_pthread_mutex_lock(mutex);
}

struct leaver {
	lk_lock *lock;
	bool holds;
};

static void *use_and_end(void *argument)
{
	struct leaver *leaver = argument;
	check_in_thread = true;
	expect(0, lk_lock_acquire(leaver->lock, -1, NULL, &err));
	if (!leaver->holds)
		expect(0, lk_lock_release(leaver->lock, NULL, &err));
	slow = true;
	return NULL;
}

static void end_while_freed(bool holds)
{
	lk_client *client = open_client();
	struct leaver leaver = {.lock = new_lock(client, "leaver"), .holds = holds};
	pthread_t thread;
	ending = ended = 0;
	check(pthread_create(&thread, NULL, use_and_end, &leaver) == 0);
	pthread_detach(thread);
	wait_until(ending > 0, 5000);
	lk_client_free(client);
	check_int(ending, ==, 0);
	int reached = ended;
	check_int(reached, >, 0);
	sleep_ms(slow_ms(100));
	check_int(ended, ==, reached); /* nothing came after */
	lk_lock_free(leaver.lock);
	check_int(check_take_failures(), ==, 0);
	redis_do(&server, "FLUSHALL"); /* abandoned, as its lease would */
}

static void test_a_thread_that_holds_nothing(void **state)
{
	end_while_freed(false);
}

static void test_a_thread_that_holds(void **state)
{
	end_while_freed(true);
}

static void *close_slowly(void *argument)
{
	check_in_thread = true;
	slow = true;
	expect(0, lk_client_close(argument, LK_CLOSE_RELEASE, &err));
	return NULL;
}

/* Who closes second does not end the connections before the first has released what was held. */
static void test_a_thread_that_closes(void **state)
{
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "closed");
	pthread_t thread;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	ending = ended = 0;
	check(pthread_create(&thread, NULL, close_slowly, client) == 0);
	wait_until(ending > 0, 5000);
	expect(0, lk_client_close(client, LK_CLOSE_RELEASE, &err));
	pthread_join(thread, NULL);
	check_int(check_take_failures(), ==, 0);
	check_int(redis_integer(&server, "EXISTS closed"), ==, 0);
	lk_lock_free(lock);
	lk_client_free(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_thread_that_holds_nothing),
		api_test(test_a_thread_that_holds),
		api_test(test_a_thread_that_closes),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
