/* Cancelling: it ends the call, tells the truth about the grant, and leaves nothing behind. */
#include <signal.h>

#include "fixture.h"

struct scene {
	lk_client *client;
	lk_lock *lock;
	lk_cancel *cancels[16];
	_Atomic size_t granted, cancelled;
};

static void open_scene(struct scene *scene, const char *name, size_t tokens)
{
	memset(scene, 0, sizeof(*scene));
	scene->client = open_client();
	scene->lock = new_lock(scene->client, name);
	for (size_t i = 0; i < tokens; i++)
		expect(0, lk_cancel_new(&scene->cancels[i], &err));
}

static void close_scene(struct scene *scene)
{
	for (size_t i = 0; i < COUNT(scene->cancels); i++)
		lk_cancel_free(scene->cancels[i]);
	lk_lock_free(scene->lock);
	close_client(scene->client);
}

static int acquire_with(struct scene *scene, lk_cancel *cancel)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.cancel = cancel;
	check_clear_error();
	return lk_lock_acquire(scene->lock, -1, &options, &err);
}

static void wait_to_be_cancelled(size_t index, void *argument)
{
	struct scene *scene = argument;
	expect(LK_ECANCELLED, acquire_with(scene, scene->cancels[index]));
	scene->cancelled++;
	expect(0, lk_lock_is_held(scene->lock, NULL, &err));
	expect(0, lk_lock_hold_count(scene->lock, NULL, &err));
}

/* From the end of the wait queue to its head, so that followers and heads are both cancelled. */
static void test_from_another_thread(void **state)
{
	struct scene scene;
	struct threads threads;
	open_scene(&scene, "thread", 5);
	stranger_takes("thread", slow_ms(60000));
	threads_start(&threads, 5, wait_to_be_cancelled, &scene);
	wait_until(stats_of(scene.client).waiting == 5, 5000);
	for (size_t i = 5; i-- > 0;) {
		expect(0, lk_cancel_is_set(scene.cancels[i]));
		lk_cancel_now(scene.cancels[i]);
		lk_cancel_now(scene.cancels[i]);
		wait_until(thread_done(&threads, i), 2000);
		expect(1, lk_cancel_is_set(scene.cancels[i]));
		check_int(scene.cancelled, ==, 5 - i);
	}
	threads_join(&threads, 5000);
	check_int(stats_of(scene.client).cancels, ==, 5);
	check_int(stats_of(scene.client).waiting, ==, 0);
	check_int(redis_integer(&server, "HLEN thread"), ==, 1);
	stranger_releases("thread");
	close_scene(&scene);
}

static lk_cancel *_Atomic handler_cancel;

static void cancel_in_handler(int number)
{
	lk_cancel_now(handler_cancel);
}

static void test_from_a_signal_handler(void **state)
{
	struct sigaction action = {.sa_handler = cancel_in_handler};
	struct scene scene;
	struct threads threads;
	open_scene(&scene, "signal", 1);
	handler_cancel = scene.cancels[0];
	check(sigaction(SIGUSR1, &action, NULL) == 0);
	stranger_takes("signal", slow_ms(60000));
	for (int i = 0; i < 20; i++) {
		threads_start(&threads, 1, wait_to_be_cancelled, &scene);
		wait_until(stats_of(scene.client).waiting == 1, 5000);
#ifdef UNDER_TSAN /* it keeps handlers back while a thread sleeps in a futex */
		raise(SIGUSR1);
#else
		pthread_kill(thread_id(&threads, 0), SIGUSR1); /* runs on the waiter itself */
#endif
		threads_join(&threads, 5000);
		lk_cancel_reset(scene.cancels[0]);
	}
	stranger_releases("signal");
	close_scene(&scene);
}

static void test_before_the_call(void **state)
{
	struct scene scene;
	lk_event event = LK_EVENT_INIT;
	open_scene(&scene, "before", 1);
	lk_cancel *cancel = scene.cancels[0];
	lk_cancel_now(cancel);
	for (int i = 0; i < 3; i++) {
		expect(LK_ECANCELLED, acquire_with(&scene, cancel));
		expect(LK_ECANCELLED, lk_event_wait(scene.client, &event, 1000, cancel, &err));
		expect(LK_ECANCELLED, lk_event_wait(scene.client, &event, -1, cancel, &err));
	}
	check_int(redis_integer(&server, "EXISTS before"), ==, 0);
	lk_cancel_reset(cancel);
	expect(0, lk_cancel_is_set(cancel));
	expect(0, acquire_with(&scene, cancel));
	expect(0, lk_lock_release(scene.lock, NULL, &err));
	close_scene(&scene);
}

static void wait_for_event(size_t index, void *argument)
{
	struct scene *scene = argument;
	lk_event event = LK_EVENT_INIT;
	expect(LK_ECANCELLED,
	       lk_event_wait(scene->client, &event, -1, scene->cancels[index], &err));
}

static void test_a_wait_for_events(void **state)
{
	struct scene scene;
	struct threads threads;
	open_scene(&scene, "events", 2);
	threads_start(&threads, 2, wait_for_event, &scene);
	lk_cancel_now(scene.cancels[1]);
	wait_until(thread_done(&threads, 1), 5000);
	check(!thread_done(&threads, 0));
	lk_cancel_now(scene.cancels[0]);
	threads_join(&threads, 5000);
	close_scene(&scene);
}

static void test_one_call_at_a_time(void **state)
{
	struct scene scene;
	struct threads threads;
	open_scene(&scene, "twice", 1);
	lk_lock *other = new_lock(scene.client, "other");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.cancel = scene.cancels[0];
	stranger_takes("twice", slow_ms(60000));
	threads_start(&threads, 1, wait_to_be_cancelled, &scene);
	wait_until(stats_of(scene.client).waiting == 1, 5000);
	expect(LK_EINVAL, lk_lock_acquire(other, 0, &options, &err));
	expect(LK_EINVAL, lk_lock_acquire(other, -1, &options, &err));
	lk_cancel_now(scene.cancels[0]);
	threads_join(&threads, 5000);
	stranger_releases("twice");
	lk_lock_free(other);
	close_scene(&scene);
}

/* While the server says nothing at all, a cancel still ends the call. */
static void test_while_the_server_is_stopped(void **state)
{
	struct scene scene;
	struct threads threads;
	open_scene(&scene, "stopped", 2);
	expect(0, lk_client_ping(scene.client, &err));
	server_pause(&server);
	threads_start(&threads, 2, wait_to_be_cancelled, &scene);
	sleep_ms(50); /* some way into the call; any point will do */
	lk_cancel_now(scene.cancels[0]);
	lk_cancel_now(scene.cancels[1]);
	wait_until(thread_done(&threads, 0) && thread_done(&threads, 1), 2000);
	server_resume(&server);
	threads_join(&threads, 5000);
	wait_until(redis_integer(&server, "EXISTS stopped") == 0, 10000);
	close_scene(&scene);
}

#define STORM_THREADS 6
#define STORM_CALLS 400

static _Atomic size_t storm_running;
static _Atomic int storm_inside;

/* Whichever way it ended, the answer must be the truth. */
static void storm_call(struct scene *scene, lk_cancel *cancel)
{
	int code = acquire_with(scene, cancel);
	if (code == 0) {
		scene->granted++;
		check_int(++storm_inside, ==, 1);
		expect(1, lk_lock_is_held(scene->lock, NULL, &err));
		storm_inside--;
		expect(0, lk_lock_release(scene->lock, NULL, &err));
	} else {
		scene->cancelled++;
		check_int(code, ==, LK_ECANCELLED);
		expect(LK_ENOTOWNER, lk_lock_release(scene->lock, NULL, &err));
	}
}

static void storm(size_t index, void *argument)
{
	struct scene *scene = argument;
	lk_cancel *cancel = scene->cancels[index];
	for (int i = 0; i < STORM_CALLS; i++) {
		storm_call(scene, cancel);
		lk_cancel_reset(cancel);
	}
	storm_running--;
}

static void cancel_at_random(struct scene *scene, unsigned *seed)
{
	while (storm_running > 0) {
		lk_cancel_now(scene->cancels[(unsigned)rand_r(seed) % STORM_THREADS]);
		for (int spin = rand_r(seed) % 20000; spin > 0; spin--)
			__asm__ volatile("" ::: "memory");
	}
}

/* Two clients, so that both the wait queue in memory and the wire see cancels at every point. */
static void test_a_storm_of_cancels(void **state)
{
	struct scene scenes[2];
	struct threads threads[2];
	unsigned seed = 1;
	storm_running = (size_t)2 * STORM_THREADS;
	for (size_t i = 0; i < 2; i++) {
		open_scene(&scenes[i], "storm", STORM_THREADS);
		lk_cancel_now(scenes[i].cancels[0]); /* one that is not left to chance */
		threads_start(&threads[i], STORM_THREADS, storm, &scenes[i]);
	}
	while (storm_running > 0) {
		lk_cancel_now(scenes[(unsigned)rand_r(&seed) % 2]
				      .cancels[(unsigned)rand_r(&seed) % STORM_THREADS]);
		for (int spin = rand_r(&seed) % 20000; spin > 0; spin--)
			__asm__ volatile("" ::: "memory");
	}
	for (size_t i = 0; i < 2; i++)
		threads_join(&threads[i], 60000);
	wait_until(redis_integer(&server, "EXISTS storm") == 0, 5000);
	for (size_t i = 0; i < 2; i++) {
		lk_stats stats = stats_of(scenes[i].client);
		check_int(scenes[i].granted + scenes[i].cancelled, ==, STORM_THREADS * STORM_CALLS);
		check_int(scenes[i].cancelled, >, 0);
		check_int(stats.cancels, ==, scenes[i].cancelled);
		check_int(stats.acquires, ==, scenes[i].granted);
		check_int(stats.waiting, ==, 0);
		check_int(stats.held, ==, 0);
		close_scene(&scenes[i]);
	}
}

/* Cancels during the round trip of a free lock: the grant in flight is told or released. */
static void test_a_cancel_in_flight(void **state)
{
	struct scene scene;
	struct threads threads;
	unsigned seed = 2;
	open_scene(&scene, "flight", STORM_THREADS);
	storm_running = 1;
	threads_start(&threads, 1, storm, &scene);
	cancel_at_random(&scene, &seed);
	threads_join(&threads, 60000);
	wait_until(redis_integer(&server, "EXISTS flight") == 0, 5000);
	close_scene(&scene);
}

struct interrupt {
	_Atomic int asked, ends;
};

static int interrupted(void *context)
{
	struct interrupt *interrupt = context;
	interrupt->asked++;
	return interrupt->ends;
}

static void do_nothing(int number)
{
}

/* Interrupts the only thread until its call has asked `more` times, or has ended. */
static void interrupt_until_asked(struct threads *threads, struct interrupt *interrupt, int more)
{
	int before = interrupt->asked;
	for (int i = 0; i < 5000 && interrupt->asked < before + more && !thread_done(threads, 0);
	     i++) {
		pthread_kill(thread_id(threads, 0), SIGUSR1);
		sleep_ms(2);
	}
	check_int(interrupt->asked, >=, before + more);
}

/* The call goes on while the callback says 0, and ends when it does not. */
static void interrupts_end(struct scene *scene, void (*call)(size_t index, void *argument))
{
	struct sigaction action = {.sa_handler = do_nothing}, before;
	struct interrupt interrupt = {0};
	struct threads threads;
	check(sigaction(SIGUSR1, &action, &before) == 0);
	lk_cancel_on_interrupt(scene->cancels[0], interrupted, &interrupt);
	threads_start(&threads, 1, call, scene);
	interrupt_until_asked(&threads, &interrupt, 3);
	check(!thread_done(&threads, 0));
	interrupt.ends = 1;
	interrupt_until_asked(&threads, &interrupt, 1);
	threads_join(&threads, 5000);
	expect(1, lk_cancel_is_set(scene->cancels[0]));
	lk_cancel_on_interrupt(scene->cancels[0], NULL, NULL);
	lk_cancel_reset(scene->cancels[0]);
	check(sigaction(SIGUSR1, &before, NULL) == 0);
}

static void wait_for_permits(size_t index, void *argument)
{
	struct scene *scene = argument;
	lk_semaphore *semaphore;
	expect(0, lk_semaphore_new(&semaphore, scene->client, "permits", LK_STRLEN, NULL, &err));
	expect(LK_ECANCELLED, lk_semaphore_acquire(semaphore, 1, -1, scene->cancels[index], &err));
	lk_semaphore_free(semaphore);
}

static void wait_for_ever(size_t index, void *argument)
{
	struct scene *scene = argument;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.cancel = scene->cancels[index];
	expect(LK_ECANCELLED, lk_lock_acquire(scene->lock, -1, &options, &err));
}

static void test_a_signal_ends_the_leader(void **state)
{
	struct scene scene;
	open_scene(&scene, "leader", 1);
	stranger_takes("leader", slow_ms(60000));
	interrupts_end(&scene, wait_for_ever);
	interrupts_end(&scene, wait_for_permits);
	interrupts_end(&scene, wait_for_event);
	stranger_releases("leader");
	close_scene(&scene);
}

/* One that does not read the connection sleeps elsewhere. */
static void test_a_signal_ends_a_follower(void **state)
{
#ifndef UNDER_TSAN /* it keeps handlers back while a thread sleeps in a futex */
	struct scene scene;
	open_scene(&scene, "follower", 1);
	expect(0, lk_lock_acquire(scene.lock, -1, NULL, &err));
	interrupts_end(&scene, wait_to_be_cancelled);
	expect(0, lk_lock_release(scene.lock, NULL, &err));
	close_scene(&scene);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_from_another_thread),      api_test(test_from_a_signal_handler),
		api_test(test_before_the_call),          api_test(test_a_wait_for_events),
		api_test(test_one_call_at_a_time),       api_test(test_while_the_server_is_stopped),
		api_test(test_a_storm_of_cancels),       api_test(test_a_cancel_in_flight),
		api_test(test_a_signal_ends_the_leader), api_test(test_a_signal_ends_a_follower),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
