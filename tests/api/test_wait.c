/* Waiting: order, limits, what wakes a waiter, and that nothing of a wait stays behind. */
#include <signal.h>

#include "fixture.h"

struct wait_queue {
	lk_client *client;
	lk_lock *lock;
	_Atomic size_t granted;
};

static struct wait_queue open_wait_queue(const char *name)
{
	struct wait_queue queue = {.client = open_client()};
	queue.lock = new_lock(queue.client, name);
	return queue;
}

static void close_wait_queue(struct wait_queue *queue)
{
	lk_lock_free(queue->lock);
	close_client(queue->client);
}

static size_t waiting(lk_client *client)
{
	return stats_of(client).waiting;
}

static _Atomic size_t timeouts;

/* A little patience may end before the server has said a word: then that is the reason. How little
 * that is depends on the machine. */
static void wait_once(lk_lock *lock, int64_t wait_ms)
{
	int64_t start_ns = now_ns();
	int code = lk_lock_acquire(lock, wait_ms, NULL, &err);
	if (wait_ms > slow_ms(100) || (code != LK_EMAYBEHELD && code != LK_EUNREACHABLE)) {
		check_int(code, ==, LK_ETIMEDOUT);
		timeouts++;
	}
	int64_t took_ms = (now_ns() - start_ns) / 1000000;
	check_int(took_ms, >=, wait_ms);
	check_int(took_ms, <=, wait_ms + slow_ms(500));
}

static void acquire_and_release(size_t index, void *argument)
{
	struct wait_queue *queue = argument;
	expect(0, lk_lock_acquire(queue->lock, -1, NULL, &err));
	queue->granted++;
	expect(0, lk_lock_release(queue->lock, NULL, &err));
}

static void test_a_lock_without_ttl_is_polled(void **state)
{
	struct wait_queue queue = open_wait_queue("forever");
	struct threads threads;
	redis_do(&server, "HSET forever stranger:1 1");
	threads_start(&threads, 1, acquire_and_release, &queue);
	wait_until(waiting(queue.client) == 1, 5000);
	redis_do(&server, "DEL forever"); /* and no message */
	threads_join(&threads, 10000);
	close_wait_queue(&queue);
}

static void test_max_waiters(void **state)
{
	lk_client *client = open_client_with("max_waiters=5");
	struct wait_queue queue = {.client = client, .lock = new_lock(client, "most")};
	struct threads threads;
	stranger_takes("most", slow_ms(60000));
	threads_start(&threads, 5, acquire_and_release, &queue);
	wait_until(waiting(client) == 5, 5000);
	expect(LK_ELIMIT, lk_lock_acquire(queue.lock, 1000, NULL, &err));
	expect(LK_ELIMIT, lk_lock_acquire(queue.lock, -1, NULL, &err));
	stranger_releases("most");
	threads_join(&threads, 10000);
	expect(0, lk_lock_acquire(queue.lock, -1, NULL, &err));
	expect(0, lk_lock_release(queue.lock, NULL, &err));
	close_wait_queue(&queue);
}

static volatile sig_atomic_t alarms;

static void count_alarm(int number)
{
	alarms = alarms + 1;
}

static void set_alarm(suseconds_t period_us)
{
	struct sigaction action = {.sa_handler = count_alarm}; /* no SA_RESTART */
	struct itimerval timer = {.it_interval.tv_usec = period_us, .it_value.tv_usec = period_us};
	check(sigaction(SIGALRM, &action, NULL) == 0);
	check(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void test_interrupted_system_calls(void **state)
{
	alarms = 0;
	set_alarm(1000);
	struct wait_queue queue = open_wait_queue("alarm");
	lk_lock *busy = new_lock(queue.client, "busy");
	expect(0, lk_client_ping(queue.client, &err));
	stranger_takes("busy", slow_ms(60000));
	for (int i = 0; i < 300; i++) {
		expect(0, lk_lock_acquire(queue.lock, -1, NULL, &err));
		if (i % 100 == 0)
			wait_once(busy, 200);
		expect(0, lk_lock_release(queue.lock, NULL, &err));
	}
	expect(0, lk_event_wait(queue.client, &(lk_event)LK_EVENT_INIT, 100, NULL, &err));
	set_alarm(0);
	check_int(alarms, >, 100);
	stranger_releases("busy");
	lk_lock_free(busy);
	close_wait_queue(&queue);
}

/* ---- several threads under one owner's name ---- */

struct namesake {
	lk_client *client;
	lk_lock *lock;
	lk_acquire_options options;
	_Atomic int granted;
};

/* ---- a waiter whose limit ends while the lock is passed to it ---- */

struct taker {
	struct wait_queue queue;
	int64_t cpu_us;
	int code;
};

static int64_t thread_cpu_us(void)
{
	struct timespec used;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * INT64_C(1000000) + used.tv_nsec / 1000;
}

static void take_late(size_t index, void *argument)
{
	struct taker *taker = argument;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	int64_t begun_us = thread_cpu_us();
	options.lease_ms = slow_ms(30000);
	taker->code = lk_lock_acquire(taker->queue.lock, slow_ms(300), &options, &err);
	taker->cpu_us = thread_cpu_us() - begun_us;
	if (taker->code == 0)
		expect(0, lk_lock_release(taker->queue.lock, NULL, &err));
}

static void test_a_waiter_sleeps_while_the_lock_is_passed_to_it(void **state)
{
	struct taker taker = {.queue.client = open_client_with(
				      "term_ms=1000 command_timeout_ms=%lld", slow_ms(5000))};
	struct threads threads;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	taker.queue.lock = new_lock(taker.queue.client, "taken");
	options.lease_ms = slow_ms(30000);
	expect(0, lk_lock_acquire(taker.queue.lock, -1, &options, &err));
	threads_start(&threads, 1, take_late, &taker);
	wait_until(waiting(taker.queue.client) == 1, 5000);
	redis_do(&server, "CLIENT PAUSE %lld ALL", slow_ms(700));
	expect(0, lk_lock_release(taker.queue.lock, NULL, &err)); /* an exchange: answered late */
	threads_join(&threads, 5000);
	check(taker.code == 0 || taker.code == LK_ETIMEDOUT);
	check_int(taker.cpu_us, <, slow_ms(100) * 1000);
	close_wait_queue(&taker.queue);
}

static void test_thread_cancellation_waits_for_the_end_of_the_call(void **state)
{
	struct wait_queue queue = open_wait_queue("pthread");
	struct threads threads;
	stranger_takes("pthread", slow_ms(60000));
	threads_start(&threads, 3, acquire_and_release, &queue);
	wait_until(waiting(queue.client) == 3, 5000);
	for (size_t i = 0; i < threads.count; i++)
		pthread_cancel(thread_id(&threads, i));
	/* They sleep on; the first to be served ends at a cancellation point outside of us. */
	expect(LK_EBUSY, lk_lock_acquire(queue.lock, 0, NULL, &err));
	check_int(waiting(queue.client), ==, 3);
	stranger_releases("pthread");
	threads_join(&threads, 10000);
	check_int(queue.granted, ==, 3);
	expect(0, lk_lock_acquire(queue.lock, -1, NULL, &err));
	expect(0, lk_lock_release(queue.lock, NULL, &err));
	close_wait_queue(&queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_lock_without_ttl_is_polled),
		api_test(test_max_waiters),
		api_test(test_interrupted_system_calls),
		api_test(test_a_waiter_sleeps_while_the_lock_is_passed_to_it),
		api_test(test_thread_cancellation_waits_for_the_end_of_the_call),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
