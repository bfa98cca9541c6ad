/* Waiting: order, limits, what wakes a waiter, and that nothing of a wait stays behind. */
#include <signal.h>

#include "fixture.h"

struct wait_queue {
	lk_client *client;
	lk_lock *lock;
	size_t order[64];
	_Atomic size_t served;
	_Atomic size_t granted;
	int64_t wait_ms;
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

static long long listeners(const char *channel)
{
	redisReply *reply = redis_ask(&server, "PUBSUB NUMSUB %s", channel);
	long long count = reply->element[1]->integer;
	freeReplyObject(reply);
	return count;
}

/* Steps into the queue behind those with a lesser index, and notes when it was served. */
static void queue_up(size_t index, void *argument)
{
	struct wait_queue *queue = argument;
	wait_until(waiting(queue->client) == index, 20000);
	expect(0, lk_lock_acquire(queue->lock, -1, NULL, &err));
	queue->order[queue->served++] = index;
	expect(0, lk_lock_release(queue->lock, NULL, &err));
}

static void check_order(struct wait_queue *queue, size_t count)
{
	check_int(queue->served, ==, count);
	for (size_t i = 0; i < count; i++)
		check_int(queue->order[i], ==, i);
}

static void test_first_come_first_served_behind_a_thread(void **state)
{
	(void)state;
	struct wait_queue queue = open_wait_queue("queue");
	struct threads threads;
	expect(0, lk_lock_acquire(queue.lock, -1, NULL, &err));
	threads_start(&threads, 20, queue_up, &queue);
	wait_until(waiting(queue.client) == 20, 20000);
	expect(0, lk_lock_release(queue.lock, NULL, &err));
	threads_join(&threads, 20000);
	check_order(&queue, 20);
	close_wait_queue(&queue);
}

static void test_first_come_first_served_behind_a_stranger(void **state)
{
	(void)state;
	struct wait_queue queue = open_wait_queue("queue");
	struct threads threads;
	stranger_takes("queue", slow_ms(60000));
	threads_start(&threads, 20, queue_up, &queue);
	wait_until(waiting(queue.client) == 20, 20000);
	wait_until(listeners("redisson_lock__channel:{queue}") == 1, 5000);
	stranger_releases("queue");
	threads_join(&threads, 20000);
	check_order(&queue, 20);
	close_wait_queue(&queue);
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

static void wait_in_queue(size_t index, void *argument)
{
	static const int64_t waits_ms[] = {1, 20, 100, 300};
	wait_once(((struct wait_queue *)argument)->lock, waits_ms[index % COUNT(waits_ms)]);
}

static void test_wait_limits_hold(void **state)
{
	(void)state;
	struct wait_queue queue = open_wait_queue("limits");
	struct threads threads;
	timeouts = 0;
	expect(0, lk_client_ping(queue.client, &err));
	stranger_takes("limits", slow_ms(60000));
	for (int64_t wait_ms = 1; wait_ms < 200; wait_ms *= 3)
		wait_once(queue.lock, wait_ms);
	threads_start(&threads, 12, wait_in_queue, &queue);
	threads_join(&threads, 20000);
	check_int(waiting(queue.client), ==, 0);
	check_int(stats_of(queue.client).timeouts, ==, timeouts);
	wait_until(listeners("redisson_lock__channel:{limits}") == 0, 5000);
	check_int(redis_integer(&server, "HLEN limits"), ==, 1);
	stranger_releases("limits");
	close_wait_queue(&queue);
}

static void test_wait_limit_of_one_second(void **state)
{
	(void)state;
	struct wait_queue queue = open_wait_queue("second");
	stranger_takes("second", slow_ms(2000) + 1000);
	wait_once(queue.lock, 1000);
	stranger_releases("second");
	close_wait_queue(&queue);
}

static void ask_with_patience(size_t index, void *argument)
{
	struct wait_queue *queue = argument;
	(void)index;
	int code = lk_lock_acquire(queue->lock, queue->wait_ms, NULL, &err);
	if (code == 0)
		queue->granted++; /* and never released: the thread ends with it */
	else if (code == LK_EMAYBEHELD || code == LK_EUNREACHABLE)
		queue->served++; /* its time was up before the server had said a word */
	else
		check_int(code, ==, LK_ETIMEDOUT);
}

static void test_a_thousand_impatient_threads(void **state)
{
	(void)state;
	struct wait_queue queue = open_wait_queue("impatient");
	struct threads threads;
	queue.wait_ms = 10;
	expect(0, lk_client_ping(queue.client, &err));
	threads_start(&threads, 1000, ask_with_patience, &queue);
	threads_join(&threads, 60000);
	check_int(queue.granted, <=, 1);
	check(queue.granted == 1 || queue.served > 0);
	expect((int)queue.granted, lk_lock_force_release(queue.lock, &err));
	lk_lock_free(queue.lock);
	lk_client_free(queue.client);
}

static void take_a_turn(size_t index, void *argument)
{
	struct wait_queue *queue = argument;
	(void)index;
	expect(0, lk_lock_acquire(queue->lock, slow_ms(10000), NULL, &err));
	check_int(queue->granted++, ==, queue->served);
	queue->served++;
	expect(0, lk_lock_release(queue->lock, NULL, &err));
}

static void test_a_hundred_patient_threads(void **state)
{
	(void)state;
	struct wait_queue queue = open_wait_queue("patient");
	struct threads threads;
	threads_start(&threads, 100, take_a_turn, &queue);
	threads_join(&threads, 20000);
	check_int(queue.granted, ==, 100);
	close_wait_queue(&queue);
}

static void acquire_and_release(size_t index, void *argument)
{
	struct wait_queue *queue = argument;
	(void)index;
	expect(0, lk_lock_acquire(queue->lock, -1, NULL, &err));
	queue->granted++;
	expect(0, lk_lock_release(queue->lock, NULL, &err));
}

static void test_a_message_wakes(void **state)
{
	(void)state;
	struct wait_queue queue = open_wait_queue("message");
	struct threads threads;
	stranger_takes("message", slow_ms(60000));
	threads_start(&threads, 1, acquire_and_release, &queue);
	/* Once before it listens, once after: now only a message is in its way. */
	wait_until(stats_of(queue.client).busy >= 2, slow_ms(5000));
	stranger_releases("message");
	threads_join(&threads, 10000);
	check_int(stats_of(queue.client).messages, >=, 1);
	wait_until(listeners("redisson_lock__channel:{message}") == 0, 5000);
	close_wait_queue(&queue);
}

static void test_the_end_of_a_lease_wakes(void **state)
{
	(void)state;
	struct wait_queue queue = open_wait_queue("ttl");
	stranger_takes("ttl", 300);
	expect(0, lk_lock_acquire(queue.lock, slow_ms(10000), NULL, &err));
	expect(0, lk_lock_release(queue.lock, NULL, &err));
	close_wait_queue(&queue);
}

static void test_a_lock_without_ttl_is_polled(void **state)
{
	(void)state;
	struct wait_queue queue = open_wait_queue("forever");
	struct threads threads;
	redis_do(&server, "HSET forever stranger:1 1");
	threads_start(&threads, 1, acquire_and_release, &queue);
	wait_until(waiting(queue.client) == 1, 5000);
	redis_do(&server, "DEL forever"); /* and no message */
	threads_join(&threads, 10000);
	close_wait_queue(&queue);
}

/* Whatever befalls the subscription, the next release is heard or tried for. */
static void test_subscription_is_made_again(void **state)
{
	(void)state;
	struct wait_queue queue = open_wait_queue("killed");
	struct threads threads;
	stranger_takes("killed", slow_ms(120000));
	threads_start(&threads, 4, acquire_and_release, &queue);
	for (int i = 0; i < 3; i++) {
		wait_until(listeners("redisson_lock__channel:{killed}") == 1, 10000);
		redis_do(&server, "CLIENT KILL TYPE pubsub");
	}
	wait_until(listeners("redisson_lock__channel:{killed}") == 1, 10000);
	redis_do(&server, "CLIENT KILL TYPE pubsub");
	stranger_releases("killed"); /* most likely unheard: the try after it finds out */
	threads_join(&threads, 30000);
	check_int(queue.granted, ==, 4);
	close_wait_queue(&queue);
}

static void test_max_waiters(void **state)
{
	(void)state;
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

/*
 * A caller leaves a try behind, for the server is silent. The next, who asks for another lease, has
 * the lock by its own.
 */
static void take_after_another(int64_t left_ms, int64_t lease_ms)
{
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "leases");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	redis_do(&server, "CLIENT PAUSE %lld ALL", slow_ms(300));
	options.lease_ms = left_ms;
	expect(LK_EMAYBEHELD, lk_lock_acquire(lock, slow_ms(50), &options, &err));
	options.lease_ms = lease_ms;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	long long ttl_ms = redis_integer(&server, "PTTL leases");
	check_int(remaining(lock, NULL), >, lease_ms / 2);
	check_int(remaining(lock, NULL), <=, lease_ms);
	check_int(ttl_ms, >, lease_ms / 2);
	check_int(ttl_ms, <=, lease_ms);
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	close_client(client);
}

static void test_each_has_the_lease_it_asked_for(void **state)
{
	(void)state;
	take_after_another(slow_ms(1500), slow_ms(60000));
	take_after_another(3600000, slow_ms(5000));
}

static volatile sig_atomic_t alarms;

static void count_alarm(int number)
{
	(void)number;
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
	(void)state;
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

static void take_by_name(size_t index, void *argument)
{
	struct namesake *namesake = argument;
	lk_acquire_options options = namesake->options;
	options.lease_ms = index == 0 ? slow_ms(500) : slow_ms(60000);
	wait_until(waiting(namesake->client) == index, 5000);
	expect(0, lk_lock_acquire(namesake->lock, -1, &options, &err));
	namesake->granted++;
}

/* The first of them is granted the lock; the other joins, and has the lease it asked for. */
static void test_a_namesake_has_the_lease_it_asked_for(void **state)
{
	struct namesake namesake = {.client = open_client(), .options = LK_ACQUIRE_OPTIONS_INIT};
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	struct threads threads;
	(void)state;
	namesake.lock = new_lock(namesake.client, "namesakes");
	namesake.options.owner = release.owner = "job";
	stranger_takes("namesakes", slow_ms(60000));
	threads_start(&threads, 2, take_by_name, &namesake);
	wait_until(waiting(namesake.client) == 2, 5000);
	stranger_releases("namesakes");
	threads_join(&threads, 5000);
	check_int(namesake.granted, ==, 2);
	wait_until(remaining(namesake.lock, "job") > slow_ms(30000), 2000);
	check_int(redis_integer(&server, "PTTL namesakes"), >, slow_ms(30000));
	expect(0, lk_lock_release(namesake.lock, &release, &err));
	expect(0, lk_lock_release(namesake.lock, &release, &err));
	lk_lock_free(namesake.lock);
	close_client(namesake.client);
}

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
	(void)index;
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
	(void)state;
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
	(void)state;
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
		api_test(test_first_come_first_served_behind_a_thread),
		api_test(test_first_come_first_served_behind_a_stranger),
		api_test(test_wait_limits_hold),
		api_test(test_wait_limit_of_one_second),
		api_test(test_a_thousand_impatient_threads),
		api_test(test_a_hundred_patient_threads),
		api_test(test_a_message_wakes),
		api_test(test_the_end_of_a_lease_wakes),
		api_test(test_a_lock_without_ttl_is_polled),
		api_test(test_subscription_is_made_again),
		api_test(test_max_waiters),
		api_test(test_each_has_the_lease_it_asked_for),
		api_test(test_interrupted_system_calls),
		api_test(test_a_namesake_has_the_lease_it_asked_for),
		api_test(test_a_waiter_sleeps_while_the_lock_is_passed_to_it),
		api_test(test_thread_cancellation_waits_for_the_end_of_the_call),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
