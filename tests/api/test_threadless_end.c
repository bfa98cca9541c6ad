/* Clients without threads end: close, and free at any moment, give back what is on its way. */
#include "threadless.h"

#include <poll.h>
#include <unistd.h>

static void test_close_completes_what_is_in_flight(void **state)
{
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "closed");
	start_acquire(lock, "first", -1);
	ends(LK_OP_ACQUIRE, 0);
	start_acquire(lock, "second", -1);
	turn(100);
	expect(LK_EHELD,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_IF_IDLE),
			      NULL, &err));
	expect(0,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_RELEASE),
			      NULL, &err));
	expect(LK_EPENDING,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_RELEASE),
			      NULL, &err));
	ends(LK_OP_ACQUIRE, LK_ECLOSED);
	ends(LK_OP_CLOSE, 0);
	check_int(redis_integer(&server, "EXISTS closed"), ==, 0);
	lk_lock_free(lock);
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
}

/* A turn resumes some of a crowd, and this program takes turns seldom: the close waits for the rest
 * of those that it has ended. */
static void test_the_close_comes_behind_a_crowd(void **state)
{
	enum { CROWD = 10000 };
	int told = 0;
	lk_completion got = LK_COMPLETION_INIT;
	begin("command_timeout_ms", "300");
	lk_lock *lock = new_lock(client, "crowd");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	server_pause(&server);
	for (int i = 0; i < CROWD; i++)
		expect(0, lk_queue_start(queue,
					 request_of(EXTEND, .lock = lock, .lease_ms = 60000,
						    .extend = extend_by("task")),
					 NULL, &err));
	expect(0,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_RELEASE),
			      NULL, &err));
	int64_t end_ms = now_ms() + slow_ms(LIMIT_MS);
	while (got.operation != LK_OP_CLOSE && now_ms() < end_ms) {
		sleep_ms(50);
		expect(0, lk_client_process(client, &err));
		while (lk_queue_take(queue, &got, 1, 0, &err) == 1)
			told += got.operation == LK_OP_EXTEND;
	}
	check_int(got.operation, ==, LK_OP_CLOSE);
	check_int(told, ==, CROWD);
	server_resume(&server);
	lk_lock_free(lock);
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
	redis_do(&server, "DEL crowd");
}

static void test_close_says_what_may_be_held(void **state)
{
	begin("command_timeout_ms", "100");
	lk_lock *lock = new_lock(client, "unsure");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	server_pause(&server);
	expect(0,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_RELEASE),
			      NULL, &err));
	ends(LK_OP_CLOSE, LK_EMAYBEHELD);
	server_resume(&server);
	int code = LK_EMAYBEHELD;
	for (int64_t end_ms = now_ms() + slow_ms(LIMIT_MS); code && now_ms() < end_ms;) {
		expect(0,
		       lk_queue_start(queue,
				      request_of(CLOSE, .client = client, .how = LK_CLOSE_RELEASE),
				      NULL, &err));
		code = next_within(LIMIT_MS).error.code;
	}
	check_int(code, ==, 0);
	check_int(redis_integer(&server, "EXISTS unsure"), ==, 0);
	lk_lock_free(lock);
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
}

/* In the midst of a close free goes on with that, and every request completes. */
static void test_free_in_the_midst(void **state)
{
	begin("command_timeout_ms", "300");
	lk_lock *lock = new_lock(client, "midst");
	start_acquire(lock, "first", -1);
	ends(LK_OP_ACQUIRE, 0);
	server_pause(&server);
	start_acquire(lock, "second", -1);
	start_release(lock, "first");
	turn(10);
	expect(0,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_RELEASE),
			      NULL, &err));
	turn(10);
	int64_t begun_ms = now_ms();
	lk_client_free(client);
	check_int(now_ms() - begun_ms, <, slow_ms(1000));
	server_resume(&server);
	lk_lock_free(lock);
	lk_completion completions[4] = {LK_COMPLETION_INIT};
	check_int(lk_queue_take(queue, completions, 4, 0, &err), ==, 3);
	expect(0, lk_queue_free(queue, &err));
	redis_do(&server, "DEL midst");
}

/* Connected, so that the next turn writes. */
static void begin_connected(void)
{
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "connected");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	start_release(lock, "task");
	ends(LK_OP_RELEASE, 0);
	lk_lock_free(lock);
}

/* The code of the one completion that is left. */
static int freed_with(void)
{
	lk_completion completion = LK_COMPLETION_INIT;
	lk_client_free(client);
	check_int(lk_queue_take(queue, &completion, 1, 0, &err), ==, 1);
	expect(0, lk_queue_free(queue, &err));
	return completion.error.code;
}

/* What was asked for is written, and the server does it while the client is freed. */
static int freed_before_the_answer(void)
{
	server_pause(&server);
	expect(0, lk_client_process(client, &err));
	server_resume(&server);
	return freed_with();
}

static void test_free_gives_back_a_lock(void **state)
{
	begin_connected();
	lk_lock *lock = new_lock(client, "back");
	start_acquire(lock, "task", -1);
	check_int(freed_before_the_answer(), ==, LK_ECLOSED);
	check_int(redis_integer(&server, "EXISTS back"), ==, 0);
	lk_lock_free(lock);
}

static void test_free_gives_back_the_parts_of_a_multi_lock(void **state)
{
	lk_lock *parts[2], *all = NULL;
	begin_connected();
	parts[0] = new_lock(client, "part{1}");
	parts[1] = new_lock(client, "part{2}");
	expect(0, lk_multi_lock_new(&all, parts, 2, &err));
	start_acquire(all, "task", -1);
	check_int(freed_before_the_answer(), ==, LK_ECLOSED);
	check_int(redis_integer(&server, "DBSIZE"), ==, 0);
	lk_lock_free(all);
	lk_lock_free(parts[0]);
	lk_lock_free(parts[1]);
}

static void test_free_gives_back_permits(void **state)
{
	lk_semaphore *pool = NULL;
	begin_connected();
	redis_do(&server, "SET pool 5");
	expect(0, lk_semaphore_new(&pool, client, "pool", LK_STRLEN, NULL, &err));
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .semaphore = pool, .number = 2, .wait_ms = -1),
				 NULL, &err));
	check_int(freed_before_the_answer(), ==, LK_ECLOSED);
	check_int(redis_integer(&server, "INCRBY pool 0"), ==, 5);
	lk_semaphore_free(pool);
	redis_do(&server, "DEL pool");
}

static void test_free_gives_back_a_place(void **state)
{
	lk_lock *lock = NULL;
	begin(NULL, NULL);
	expect(0, lk_fair_lock_new(&lock, client, "place", LK_STRLEN, &err));
	stranger_takes("place", 3600000);
	start_acquire(lock, "task", -1);
	int64_t end_ms = now_ms() + slow_ms(LIMIT_MS);
	while (redis_integer(&server, "LLEN redisson_lock_queue:{place}") == 0 && now_ms() < end_ms)
		turn(10);
	check_int(freed_with(), ==, LK_ECLOSED);
	check_int(redis_integer(&server, "LLEN redisson_lock_queue:{place}"), ==, 0);
	lk_lock_free(lock);
	redis_do(&server, "DEL place");
}

/* Also where no turn came since to write it. */
static void test_free_sends_what_was_released(void **state)
{
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "released");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	start_release(lock, "task");
	check_int(freed_with(), ==, 0);
	check_int(redis_integer(&server, "EXISTS released"), ==, 0);
	lk_lock_free(lock);
}

/* What is held and not released stays, as LK_CLOSE_ABANDON says. */
static void test_free_abandons_what_is_held(void **state)
{
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "left");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
	check_int(redis_integer(&server, "EXISTS left"), ==, 1);
	lk_lock_free(lock);
	redis_do(&server, "DEL left");
}

/* A server that is silent holds it up for the command limit, and little more. */
static void test_free_is_bounded(void **state)
{
	begin("command_timeout_ms", "300");
	lk_lock *lock = new_lock(client, "bounded");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	server_pause(&server);
	start_release(lock, "task");
	int64_t begun_ms = now_ms();
	check_int(freed_with(), ==, LK_EMAYBEHELD);
	check_int(now_ms() - begun_ms, <, slow_ms(2000));
	server_resume(&server);
	lk_lock_free(lock);
	redis_do(&server, "DEL bounded");
}

/* A close that could not finish has had its time. */
static void test_free_behind_a_close_does_not_wait(void **state)
{
	begin("command_timeout_ms", "1500");
	lk_lock *lock = new_lock(client, "behind");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	server_pause(&server);
	expect(0,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_RELEASE),
			      NULL, &err));
	ends(LK_OP_CLOSE, LK_EMAYBEHELD);
	int64_t begun_ms = now_ms();
	lk_client_free(client);
	check_int(now_ms() - begun_ms, <, slow_ms(1000));
	server_resume(&server);
	expect(0, lk_queue_free(queue, &err));
	lk_lock_free(lock);
	redis_do(&server, "DEL behind");
}

static void test_free_of_one_that_never_connected(void **state)
{
	begin(NULL, NULL);
	lk_client_free(client);
	client = open_threadless("redis://127.0.0.1:1", NULL, NULL, NULL);
	lk_lock *lock = new_lock(client, "never");
	start_acquire(lock, "task", -1);
	lk_lock_free(lock);
	lk_client_free(client);
	lk_completion completion = LK_COMPLETION_INIT;
	check_int(lk_queue_take(queue, &completion, 1, 0, &err), ==, 1);
	check_int(completion.error.code, ==, LK_ECLOSED);
	expect(0, lk_queue_free(queue, &err));
}

static void process_until(size_t index, void *argument)
{
	_Atomic bool *over = argument;
	while (!*over)
		lk_client_process(client, NULL);
}

/* One thread takes the turns, another closes: at any moment of connecting. */
static void test_close_while_another_thread_connects(void **state)
{
	redis_do(&server, "HSET while other:1 1");
	for (int i = 0; i < 200; i++) {
		struct threads threads;
		_Atomic bool over = false;
		lk_completion completion = LK_COMPLETION_INIT;
		begin(NULL, NULL);
		lk_lock *lock = new_lock(client, "while");
		start_acquire(lock, "first", -1);
		threads_start(&threads, 1, process_until, &over);
		usleep((useconds_t)(i * 13 % 800));
		expect(0,
		       lk_queue_start(queue,
				      request_of(CLOSE, .client = client, .how = LK_CLOSE_ABANDON),
				      NULL, &err));
		for (int taken = 0; taken < 2; taken++) /* the acquire's, and this */
			expect(1, lk_queue_take(queue, &completion, 1, LIMIT_MS, &err));
		over = true;
		threads_join(&threads, 20000);
		lk_lock_free(lock);
		lk_client_free(client);
		expect(0, lk_queue_free(queue, &err));
	}
	redis_do(&server, "DEL while");
}

static void close_the_client(size_t index, void *argument)
{
	_Atomic int *begun = argument;
	lk_error why = {0};
	int rc = lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_ABANDON),
				NULL, &why);
	check(rc == 0 || rc == LK_EPENDING || rc == LK_ECLOSED);
	*begun += rc == 0;
}

/* One of them has begun it, and gets the completion. */
static void test_two_threads_close(void **state)
{
	for (int i = 0; i < 1000; i++) {
		struct threads threads;
		_Atomic int begun = 0;
		begin(NULL, NULL);
		threads_start(&threads, 2, close_the_client, &begun);
		threads_join(&threads, 20000);
		check_int(begun, ==, 1);
		ends(LK_OP_CLOSE, 0);
		lk_client_free(client);
		expect(0, lk_queue_free(queue, &err));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_two_threads_close),
		api_test(test_close_completes_what_is_in_flight),
		api_test(test_the_close_comes_behind_a_crowd),
		api_test(test_close_says_what_may_be_held),
		api_test(test_close_while_another_thread_connects),
		api_test(test_free_in_the_midst),
		api_test(test_free_gives_back_a_lock),
		api_test(test_free_gives_back_the_parts_of_a_multi_lock),
		api_test(test_free_gives_back_permits),
		api_test(test_free_gives_back_a_place),
		api_test(test_free_sends_what_was_released),
		api_test(test_free_abandons_what_is_held),
		api_test(test_free_is_bounded),
		api_test(test_free_behind_a_close_does_not_wait),
		api_test(test_free_of_one_that_never_connected),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
