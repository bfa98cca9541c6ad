/* The wake-up callback of a queue: one for each time that something comes to an empty queue. */
#include "queued.h"

#include <poll.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

struct ready {
	_Atomic int calls, left;
	_Atomic bool stays; /* the callback does not return while this is set */
	_Atomic pthread_t thread;
	sem_t wake;
};

static struct ready ready;

static void on_ready(void *context)
{
	struct ready *own = context;
	own->thread = pthread_self();
	own->calls++;
	sem_post(&own->wake);
	while (own->stays)
		poll(NULL, 0, 1);
	own->left++;
}

static void close_driven(lk_client *of)
{
	expect(0, program_close(of, LK_CLOSE_RELEASE, &err));
	program_free(of);
}

static void open_ready(void)
{
	ready.calls = ready.left = 0;
	ready.stays = false;
	sem_init(&ready.wake, 0, 0);
	open_queue();
	expect(0, lk_queue_on_ready(queue, on_ready, &ready, &err));
}

static void close_ready(size_t left)
{
	close_queue(left);
	check_int(ready.left, ==, ready.calls);
	sem_destroy(&ready.wake);
}

/* Nobody renews it: it is at risk, and lost after that time. */
static void hold(lk_lock *lock, const char *owner, int64_t lease_ms)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = owner;
	options.lease_ms = slow_ms(lease_ms);
	check_int(acquire_apart(lock, &options), ==, 0);
}

static void test_called_when_something_comes(void **state)
{
	open_ready();
	lk_lock *lock = new_lock(client, "comes");
	for (int round = 1; round < 4; round++) {
		begin_acquire(lock, "task", -1, 0);
		wait_until(ready.calls == round, 5000);
		begin_acquire(lock, "task", -1, 0); /* it is not empty: no further call */
		wait_until(lk_lock_hold_count(lock, "task", &err) == 2 * round, 5000);
		check(!pthread_equal(ready.thread, pthread_self()));
		next_completion();
		next_completion();
		check(!queue_is_readable());
		check_int(ready.calls, ==, round);
	}
	lk_lock_free(lock);
	close_ready(0);
}

static void test_called_for_notices(void **state)
{
	uint64_t id;
	lk_event event = LK_EVENT_INIT;
	open_ready();
	lk_lock *lock = new_lock(client, "notice");
	expect(0, lk_queue_start(queue, request_of(NOTICE, .client = client), &id, &err));
	hold(lock, "task", 300);
	wait_until(ready.calls == 1, 5000);
	check(!pthread_equal(ready.thread, pthread_self()));
	wait_until(stats_of(client).lost == 1, 5000);
	lk_completion got = next_completion();
	if (got.event == LK_EVENT_AT_RISK) /* else who gives notices was late, and it is over */
		got = next_completion();
	check_int(ready.calls, ==, 1); /* the queue was not empty since */
	check_int(got.event, ==, LK_EVENT_LOST);
	check_int(release_apart(lock, "task"), ==, LK_ELOST);
	expect(1, lk_queue_cancel(queue, id, &err)); /* its end comes */
	wait_until(ready.calls == 2, 5000);
	check(!pthread_equal(ready.thread, pthread_self()));
	completed(id, LK_ECANCELLED);
	/* Who has waited for it has a turn, which stays for 6 s behind a loss. */
	wait_until(redis_integer(&server, "EXISTS notice") == 0, 5000);
	hold(lock, "task", 300); /* notices that wait when the request begins */
	wait_until(stats_of(client).lost == 2, 5000);
	check_int(ready.calls, ==, 2);
	expect(0, lk_queue_start(queue, request_of(NOTICE, .client = client), &id, &err));
	wait_until(ready.calls == 3, 5000);
	while (lk_event_wait(client, &event, 0, NULL, &err) == 1)
		continue;
	check(!queue_is_readable());
	check_int(release_apart(lock, "task"), ==, LK_ELOST);
	lk_lock_free(lock);
	close_driven(client);
	wait_until(ready.calls == 4, 5000);
	completed(id, LK_ECLOSED);
	expect(0, lk_queue_free(queue, &err));
	check_int(ready.left, ==, 4);
}

/* ---- no mutex is held ---- */

/* Each of these would wait for a mutex of the queue, the notices or the entry. */
static void call_everything(size_t index, void *argument)
{
	lk_lock *lock = argument;
	lk_completion got = LK_COMPLETION_INIT;
	lk_event event = LK_EVENT_INIT;
	int64_t deadline_ns;
	check(queue_is_readable());
	expect(1, lk_queue_take(queue, &got, 1, 0, &err));
	begin_release(lock, "nobody");
	expect(0, lk_queue_cancel(queue, 123456, &err));
	check(lk_lock_is_held(lock, "task", &err) >= 0);
	check(lk_lock_deadline_ns(lock, "task", &deadline_ns, &err) != 1);
	expect(0, lk_lock_acquire(
			  lock, -1,
			  &(lk_acquire_options){sizeof(lk_acquire_options), .owner = "blocking"},
			  &err));
	expect(0,
	       lk_lock_release(
		       lock, &(lk_release_options){sizeof(lk_release_options), .owner = "blocking"},
		       &err));
	while (lk_event_wait(client, &event, 0, NULL, &err) == 1)
		continue;
}

static void test_no_mutex_is_held(void **state)
{
	struct threads thread;
	needs_a_thread();
	open_ready();
	lk_lock *lock = new_lock(client, "free");
	ready.stays = true;
	begin_release(lock, "nobody");
	wait_until(ready.calls == 1, 5000);
	threads_start(&thread, 1, call_everything, lock);
	threads_join(&thread, 10000);
	check_int(ready.left, ==, 0);
	ready.stays = false;
	next_completion();
	lk_lock_free(lock);
	close_ready(0);
}

static void test_no_mutex_is_held_at_notices(void **state)
{
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	uint64_t id;
	needs_a_thread();
	open_ready();
	lk_lock *lock = new_lock(client, "free");
	expect(0, lk_queue_start(queue, request_of(NOTICE, .client = client), &id, &err));
	ready.stays = true;
	hold(lock, "task", 300);
	wait_until(ready.calls == 1, 5000); /* at risk; nobody but the loop would lose it */
	release.owner = "task";
	int code = lk_lock_release(lock, &release, &err);
	check(code == 0 || code == LK_ELOST); /* a busy machine may take longer than its lease */
	check(!queue_is_readable());
	ready.stays = false;
	uint64_t lost = stats_of(client).lost;
	hold(lock, "task", 300);
	wait_until(stats_of(client).lost == lost + 1, 5000);
	expect(1, lk_queue_cancel(queue, id, &err));
	completed(id, LK_ECANCELLED);
	check_int(release_apart(lock, "task"), ==, LK_ELOST);
	lk_lock_free(lock);
	close_ready(0);
}

/* ---- a close while the loop is kept from its work ---- */

static void close_meanwhile(size_t index, void *argument)
{
	expect(0, lk_client_close(argument, LK_CLOSE_RELEASE, &err));
}

/*
 * Those who wait leave one after another, and the try of the first is granted when its head has
 * left and the next has not come yet: close waits until that was read, and given back.
 */
static void test_a_close_waits_for_a_try_between_two_heads(void **state)
{
	enum { WAITERS = 300 }; /* more than are delivered at once */
	struct threads thread;
	char owner[32];
	needs_a_thread();
	open_ready();
	lk_lock *lock = new_lock(client, "between");
	check_int(acquire_apart(lock, &(lk_acquire_options){sizeof(lk_acquire_options),
							    .owner = "first"}),
		  ==, 0);
	check_int(release_apart(lock, "first"), ==, 0);
	server_pause(&server);
	for (uint64_t i = 0; i < WAITERS; i++) {
		snprintf(owner, sizeof(owner), "owner-%d", (int)i);
		begin_acquire(lock, owner, -1, i);
	}
	wait_until(stats_of(client).waiting == WAITERS, 5000);
	ready.stays = true;
	threads_start(&thread, 1, close_meanwhile, client);
	wait_until(ready.calls == 1, 5000);
	server_resume(&server);
	wait_until(redis_integer(&server, "EXISTS between") == 1, 5000);
	/* Long enough for a close that does not wait: it ends the connections. */
	for (int64_t end_ms = now_ms() + slow_ms(700);
	     redis_clients(&server, "lockkeeper") > 0 && now_ms() < end_ms;)
		sleep_ms(1);
	ready.stays = false;
	threads_join(&thread, 20000);
	check_int(redis_integer(&server, "EXISTS between"), ==, 0);
	lk_lock_free(lock);
	close_ready(WAITERS);
}

/* ---- none is lost ---- */

#define CLIENTS 3
#define ROUNDS 400

struct crowd {
	lk_client *clients[CLIENTS];
	lk_lock *locks[CLIENTS];
	_Atomic int started, taken, notices;
	_Atomic bool over;
};

static void start_many(size_t index, void *argument)
{
	struct crowd *crowd = argument;
	for (int i = 0; i < ROUNDS; i++) {
		crowd->started++;
		begin_release(crowd->locks[index % CLIENTS], "nobody");
		if (i % 20 == 0) { /* lets it become empty now and then */
			wait_until(crowd->taken >= crowd->started - 5, 20000);
			hold(crowd->locks[index % CLIENTS], "lost", 100);
			wait_until(lk_lock_is_held(crowd->locks[index % CLIENTS], "lost", &err) !=
					   1,
				   5000);
			release_apart(crowd->locks[index % CLIENTS], "lost");
			const char *asked = "EXISTS crowd-%d";
			int number = (int)(index % CLIENTS);
			wait_until(redis_integer(&server, asked, number) == 0, 5000);
		}
	}
}

/* Nothing but the callback wakes it. */
static void take_when_woken(size_t index, void *argument)
{
	struct crowd *crowd = argument;
	lk_completion got[7] = {LK_COMPLETION_INIT};
	while (!crowd->over) {
		struct timespec limit;
		int count;
		clock_gettime(CLOCK_REALTIME, &limit);
		limit.tv_sec += slow_ms(20000) / 1000;
		if (sem_timedwait(&ready.wake, &limit) < 0)
			check_fail(__FILE__, __LINE__, "nobody woke it: %d of %d taken",
				   crowd->taken, crowd->started);
		while ((count = lk_queue_take(queue, got, COUNT(got), 0, &err)) > 0)
			for (int i = 0; i < count; i++)
				(*(got[i].operation == LK_OP_NOTICE ? &crowd->notices
								    : &crowd->taken))++;
	}
}

static void test_no_wake_up_is_lost(void **state)
{
	static struct crowd crowd;
	struct threads starters, taker;
	char name[32];
	memset(&crowd, 0, sizeof(crowd));
	open_ready();
	for (size_t i = 0; i < CLIENTS; i++) {
		snprintf(name, sizeof(name), "crowd-%zu", i);
		crowd.clients[i] = i ? open_driven("%s", "") : client;
		crowd.locks[i] = new_lock(crowd.clients[i], name);
		starts(NOTICE, .client = crowd.clients[i]);
	}
	threads_start(&taker, 1, take_when_woken, &crowd);
	threads_start(&starters, CLIENTS, start_many, &crowd);
	threads_join(&starters, 60000);
	wait_until(crowd.taken == crowd.started, 10000);
	crowd.over = true;
	sem_post(&ready.wake);
	threads_join(&taker, 30000);
	print_message("%d calls, %d completions, %d notices\n", ready.calls, crowd.taken,
		      crowd.notices);
	for (size_t i = CLIENTS; i-- > 0;) {
		lk_lock_free(crowd.locks[i]);
		if (i)
			close_driven(crowd.clients[i]);
	}
	close_ready(CLIENTS);
}

/* ---- its end, and what is refused ---- */

static void let_it_return(size_t index, void *argument)
{
	sleep_ms(slow_ms(100));
	check_int(ready.left, ==, 0);
	ready.stays = false;
}

static void test_free_waits_for_it(void **state)
{
	struct threads thread;
	needs_a_thread();
	open_ready();
	lk_lock *lock = new_lock(client, "waits");
	ready.stays = true;
	completed(begin_release(lock, "nobody"), LK_ENOTOWNER);
	threads_start(&thread, 1, let_it_return, NULL);
	expect(0, lk_queue_free(queue, &err));
	check_int(ready.left, ==, 1);
	threads_join(&thread, 10000);
	lk_lock_free(lock);
	close_driven(client);
}

static void other_callback(void *context)
{
	(*(_Atomic int *)context)++;
}

static int in_child(void)
{
	return lk_queue_on_ready(queue, on_ready, NULL, NULL) == LK_EFORKED &&
	       lk_queue_free(queue, NULL) == 0;
}

static void test_bad_input(void **state)
{
	_Atomic int calls = 0;
	int status = -1;
	open_ready();
	expect(LK_EINVAL, lk_queue_on_ready(queue, NULL, NULL, &err));
	expect(LK_EINVAL, lk_queue_on_ready(NULL, on_ready, NULL, &err));
	expect(0, lk_queue_on_ready(queue, other_callback, &calls, &err));
	lk_lock *lock = new_lock(client, "bad");
	uint64_t id = begin_release(lock, "nobody");
	expect(LK_EINVAL, lk_queue_on_ready(queue, on_ready, &ready, &err));
	completed(id, LK_ENOTOWNER);
	expect(LK_EINVAL, lk_queue_on_ready(queue, on_ready, &ready, &err));
	wait_until(calls == 1, 5000);
	check_int(ready.calls, ==, 0);
	pid_t child = fork();
	if (child == 0)
		_exit(in_child() ? 0 : 1);
	waitpid(child, &status, 0);
	check_int(status, ==, 0);
	lk_lock_free(lock);
	close_ready(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_called_when_something_comes),
		api_test(test_called_for_notices),
		api_test(test_no_mutex_is_held),
		api_test(test_no_mutex_is_held_at_notices),
		api_test(test_a_close_waits_for_a_try_between_two_heads),
		api_test(test_no_wake_up_is_lost),
		api_test(test_free_waits_for_it),
		api_test(test_bad_input),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
