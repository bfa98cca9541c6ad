/* What another thread is told about a wait in progress. */
#include "quorum.h"

/* One caller in a thread of its own. */
struct caller {
	lk_lock *lock;
	lk_cancel *cancel;
	int64_t wait_ms; /* -1: no limit */
	int result;
};

static void call(size_t index, void *argument)
{
	struct caller *caller = argument;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.cancel = caller->cancel;
	caller->result = caller->wait_ms < 0
				 ? lk_lock_acquire(caller->lock, -1, &options, &err)
				 : lk_lock_acquire(caller->lock, caller->wait_ms, &options, &err);
}

static lk_wait_info told(lk_lock *lock)
{
	lk_wait_info info = {.struct_size = sizeof(info)};
	check_int(lk_lock_wait_info(lock, &info, &err), >=, 0);
	return info;
}

static void begin(struct caller *caller, struct threads *threads, lk_lock *lock, int64_t wait_ms)
{
	*caller = (struct caller){.lock = lock, .wait_ms = wait_ms};
	expect(0, lk_cancel_new(&caller->cancel, &err));
	threads_start(threads, 1, call, caller);
}

static void cancel_and_join(struct caller *caller, struct threads *threads)
{
	lk_cancel_now(caller->cancel);
	threads_join(threads, 20000);
	lk_cancel_free(caller->cancel);
	check_int(caller->result, ==, LK_ECANCELLED);
}

static void test_nobody_waits(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "job");
	lk_wait_info info = {.struct_size = sizeof(info)};
	expect(0, lk_lock_wait_info(lock, &info, &err));
	expect(LK_EINVAL, lk_lock_wait_info(NULL, &info, &err));
	expect(LK_EINVAL, lk_lock_wait_info(lock, NULL, &err));
	info.struct_size = 1;
	expect(LK_EINVAL, lk_lock_wait_info(lock, &info, &err));
}

static void test_another_owner_holds_it(void **state)
{
	struct caller first, second;
	struct threads one, two;
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "job");
	stranger_takes("job", slow_ms(60000));
	begin(&first, &one, lock, -1);
	wait_until(told(lock).code == LK_EBUSY, 5000);
	check_int(told(lock).callers, ==, 1);
	check_int(told(lock).left_ms, ==, -1);
	check(strstr(told(lock).reason, "held by another owner"));
	begin(&second, &two, lock, 50000);
	wait_until(told(lock).callers == 2, 5000);
	cancel_and_join(&first, &one);
	wait_until(told(lock).callers == 1 && told(lock).left_ms > 0, 5000);
	check_int(told(lock).left_ms, <=, 50000);
	cancel_and_join(&second, &two);
	expect(0,
	       lk_lock_wait_info(lock, &(lk_wait_info){.struct_size = sizeof(lk_wait_info)}, &err));
	stranger_releases("job");
}

static void test_another_thread_holds_it(void **state)
{
	struct caller caller;
	struct threads thread;
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "job");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	begin(&caller, &thread, lock, -1);
	wait_until(told(lock).code == LK_EBUSY, 5000);
	check(strstr(told(lock).reason, "another caller of this client"));
	cancel_and_join(&caller, &thread);
	expect(0, lk_lock_release(lock, NULL, &err));
}

static void test_where_each_owner_waits_for_itself(void **state)
{
	struct caller caller;
	struct threads thread;
	own_client *client = open_client();
	own_lock *lock = NULL;
	expect(0, lk_fair_lock_new(&lock, client, "job", 3, &err));
	stranger_takes("job", slow_ms(60000));
	begin(&caller, &thread, lock, -1);
	wait_until(told(lock).callers == 1 && told(lock).code == LK_EBUSY, 5000);
	cancel_and_join(&caller, &thread);
	stranger_releases("job");
}

static void test_the_server_is_gone(void **state)
{
	struct caller caller;
	struct threads thread;
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "job");
	stranger_takes("job", slow_ms(300));
	begin(&caller, &thread, lock, -1);
	wait_until(told(lock).code == LK_EBUSY, 5000);
	server_kill(&server);
	wait_until(told(lock).code == LK_EUNREACHABLE, 20000);
	check(*told(lock).reason);
	cancel_and_join(&caller, &thread);
	lk_lock_free(lock);
	server_start_again(&server); /* a try may be unanswered, which close waits for */
	drop_client(client);
}

static void test_what_a_quorum_waits_for(void **state)
{
	struct caller caller;
	struct threads thread;
	struct quorum quorum;
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	options.quarantine_ms = 3600000;
	open_quorum(&quorum, 3, "", &options);
	begin(&caller, &thread, quorum.lock, -1);
	wait_until(strstr(told(quorum.lock).reason, "no vote for"), 10000);
	check_int(told(quorum.lock).code, ==, LK_ENOQUORUM);
	cancel_and_join(&caller, &thread);
	close_quorum(&quorum, 3);
}

static int start_all(void **state)
{
	return start_server(state) || start_nodes(state);
}

static int stop_all(void **state)
{
	return stop_nodes(state) || stop_server(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_nobody_waits),
		api_test(test_another_owner_holds_it),
		api_test(test_another_thread_holds_it),
		api_test(test_where_each_owner_waits_for_itself),
		api_test(test_the_server_is_gone),
		quorum_test(test_what_a_quorum_waits_for),
	};
	return cmocka_run_group_tests(tests, start_all, stop_all);
}
