/* Closing a client: what happens to holds, to waiters, and to releases under way. */
#include "fixture.h"

#include <dirent.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void test_if_idle_refuses_while_it_holds(void **state)
{
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "idle");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(LK_EHELD, lk_client_close(client, LK_CLOSE_IF_IDLE, &err));
	expect(1, lk_lock_is_held(lock, NULL, &err));
	expect(0, lk_client_ping(client, &err)); /* it stays open */
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, lk_client_close(client, LK_CLOSE_IF_IDLE, &err));
	expect(0, lk_client_close(client, LK_CLOSE_IF_IDLE, &err));
	lk_lock_free(lock);
	lk_client_free(client);
}

static void test_abandon_hands_over_an_exported_hold(void **state)
{
	lk_client *client = open_client(), *heir = open_client();
	lk_lock *lock = new_lock(client, "export"), *theirs = new_lock(heir, "export");
	char field[LK_FIELD_SIZE];
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	expect(0, lk_client_close(client, LK_CLOSE_ABANDON, &err));
	lk_lock_free(lock);
	lk_client_free(client);
	expect(0, lk_lock_extend(theirs, 60000, extend_of(field), &err));
	expect(0, lk_lock_release(theirs, release_of(field), &err));
	lk_lock_free(theirs);
	close_client(heir);
}

struct scene {
	lk_client *client;
	lk_lock *lock;
};

static void wait_over_a_close(size_t index, void *argument)
{
	expect(LK_EMAYBEHELD, lk_lock_acquire(argument, -1, NULL, &err));
}

/* Its try is on its way to a server that is silent: nobody knows whether it will have the lock. */
static void test_a_waiter_whose_try_is_unanswered(void **state)
{
	struct threads thread;
	lk_client *client = open_client_with("command_timeout_ms=%lld", slow_ms(300));
	lk_lock *lock = new_lock(client, "unanswered");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	server_pause(&server);
	uint64_t sent = stats_of(client).commands;
	threads_start(&thread, 1, wait_over_a_close, lock);
	wait_until(stats_of(client).commands > sent, 5000);
	expect(LK_EMAYBEHELD, lk_client_close(client, LK_CLOSE_RELEASE, &err));
	threads_join(&thread, 5000);
	server_resume(&server);
	wait_until(lk_client_close(client, LK_CLOSE_RELEASE, &err) == 0, 20000);
	check_int(redis_integer(&server, "EXISTS unanswered"), ==, 0);
	lk_lock_free(lock);
	lk_client_free(client);
}

static void test_free_of_an_open_client_abandons(void **state)
{
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "free");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	lk_client_free(client);
	lk_lock_free(lock);
	check_int(redis_integer(&server, "PTTL free"), >, 20000);
	redis_do(&server, "DEL free");
}

static void create_and_destroy(size_t index, void *argument)
{
	static const int hows[] = {LK_CLOSE_IF_IDLE, LK_CLOSE_RELEASE, LK_CLOSE_ABANDON};
	char name[32];
	snprintf(name, sizeof(name), "loop-%zu", index);
	for (size_t i = 0; i < 60; i++) {
		lk_client *client = open_client();
		lk_lock *lock = new_lock(client, name);
		if (i % 4) {
			expect(0, lk_lock_acquire(lock, -1, NULL, &err));
			expect(0, lk_lock_release(lock, NULL, &err));
		}
		if (i % 3)
			expect(0, lk_client_close(client, hows[i / 3 % 3], &err));
		if (i % 2)
			lk_client_free(client);
		lk_lock_free(lock);
		if (i % 2 == 0)
			lk_client_free(client);
	}
}

/* The library's own call: slowed down, the background thread is about to take its wake-ups. */
static _Atomic int slow_turns_ms;

int epoll_wait(int epoll_fd, struct epoll_event *events, int most, int timeout_ms)
{
	if (slow_turns_ms)
		sleep_ms(slow_turns_ms);
	return (int)syscall(SYS_epoll_pwait, epoll_fd, events, most, timeout_ms, NULL, 0);
}

/* The same: this thread hears nothing of what its commands have done. */
_Thread_local bool deaf; /* not static: where recv() is an inline function, clang minds */

ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
	if (deaf) {
		errno = EAGAIN;
		return -1;
	}
	return syscall(SYS_recvfrom, fd, bytes, size, flags, NULL, NULL);
}

static void test_close_ends_a_background_thread_in_its_turn(void **state)
{
	struct threads threads;
	slow_turns_ms = 2;
	threads_start(&threads, 8, create_and_destroy, NULL);
	threads_join(&threads, 60000);
	slow_turns_ms = 0;
}

static void test_create_and_destroy_under_threads(void **state)
{
	struct threads threads;
	threads_start(&threads, 8, create_and_destroy, NULL);
	threads_join(&threads, 60000);
}

static void use_until_closed(size_t index, void *argument)
{
	struct scene *scene = argument;
	for (;;) {
		int code = lk_lock_acquire(scene->lock, -1, NULL, &err);
		if (code == 0)
			code = lk_lock_release(scene->lock, NULL, &err);
		if (code == LK_ECLOSED)
			return;
		/* A hold that close released under us is lost; what is on its way may be held. */
		if (code && code != LK_ELOST && code != LK_EMAYBEHELD)
			check_fail(__FILE__, __LINE__, "%zu: %d %s", index, code, err.message);
	}
}

static void test_close_under_fire(void **state)
{
	for (int round = 0; round < 20; round++) {
		struct scene scene = {.client = open_client()};
		struct threads threads;
		scene.lock = new_lock(scene.client, "fire");
		threads_start(&threads, 6, use_until_closed, &scene);
		wait_until(stats_of(scene.client).acquires > 20, 10000);
		expect(0, lk_client_close(scene.client, LK_CLOSE_RELEASE, &err));
		threads_join(&threads, 10000);
		lk_lock_free(scene.lock);
		lk_client_free(scene.client);
		check_int(redis_integer(&server, "EXISTS fire"), ==, 0);
	}
}

static void close_it(size_t index, void *argument)
{
	expect(0, lk_client_close(argument, LK_CLOSE_RELEASE, &err));
}

static void test_closed_by_many_at_once(void **state)
{
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "many");
	struct threads threads;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	threads_start(&threads, 6, close_it, client);
	threads_join(&threads, 10000);
	check_int(redis_integer(&server, "EXISTS many"), ==, 0);
	lk_lock_free(lock);
	lk_client_free(client);
}

static void close_in_vain(size_t index, void *argument)
{
	expect(LK_EMAYBEHELD, lk_client_close(argument, LK_CLOSE_RELEASE, &err));
}

/* No one of them is told that it is done while another still waits for the release. */
static void test_closed_by_many_in_vain(void **state)
{
	for (int round = 0; round < 5; round++) {
		lk_client *client = open_client_with("command_timeout_ms=%lld", slow_ms(200));
		lk_lock *lock = new_lock(client, "vain");
		struct threads threads;
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		server_pause(&server);
		threads_start(&threads, 3, close_in_vain, client);
		threads_join(&threads, 10000);
		server_resume(&server);
		lk_lock_free(lock);
		lk_client_free(client);
		redis_do(&server, "FLUSHALL");
	}
}

static size_t descriptors(void)
{
	size_t count = 0;
	DIR *folder = opendir("/proc/self/fd");
	check(folder != NULL);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* A red lock over three servers, with a client each. */
struct quorum_of_three {
	struct server more[2];
	lk_client *clients[3];
	lk_lock *lock;
	size_t descriptors; /* of the first client and what was before it */
};

static void open_three(struct quorum_of_three *three)
{
	lk_red_lock_options trusting = LK_RED_LOCK_OPTIONS_INIT;
	trusting.quarantine_ms = -1;
	three->clients[0] = open_client();
	three->descriptors = descriptors();
	for (size_t i = 0; i < 2; i++) {
		server_start(&three->more[i], NULL);
		three->clients[i + 1] = open_client_at(three->more[i].url_unix, "");
	}
	expect(0,
	       lk_red_lock_new(&three->lock, three->clients, 3, "red", LK_STRLEN, &trusting, &err));
}

/* Nothing stays of any client. */
static void close_three(struct quorum_of_three *three)
{
	lk_lock_free(three->lock);
	for (size_t i = 0; i < 2; i++)
		close_client(three->clients[i]);
	wait_until(descriptors() < three->descriptors, 5000);
	for (size_t i = 0; i < 2; i++)
		server_stop(&three->more[i]);
}

static bool all_have_it(const struct quorum_of_three *three)
{
	return redis_integer(&server, "EXISTS red") &&
	       redis_integer(&three->more[0], "EXISTS red") &&
	       redis_integer(&three->more[1], "EXISTS red");
}

/* What is asked of it nevertheless is answered, or nobody's. */
static void release_over_a_closed_client(int no_wait)
{
	struct quorum_of_three three;
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	release.no_wait = no_wait;
	open_three(&three);
	expect(0, lk_lock_acquire(three.lock, slow_ms(10000), NULL, &err));
	wait_until(all_have_it(&three), 5000); /* two of them are a majority for the release, too */
	expect(0, lk_client_close(three.clients[2], LK_CLOSE_RELEASE, &err));
	lk_client_free(three.clients[2]);
	expect(0, lk_lock_release(three.lock, &release, &err));
	close_three(&three);
}

static void test_a_red_lock_outlives_one_of_its_clients(void **state)
{
	release_over_a_closed_client(0);
	release_over_a_closed_client(1);
}

/* A node where another has the lock is asked again after pauses that double, for its part. */
static void test_a_closed_client_is_not_asked_to_join(void **state)
{
	struct quorum_of_three three;
	open_three(&three);
	redis_do(&three.more[1], "HSET red stranger 1");
	int64_t begun_ms = now_ms();
	expect(0, lk_lock_acquire(three.lock, slow_ms(10000), NULL, &err));
	expect(0, lk_client_close(three.clients[2], LK_CLOSE_RELEASE, &err));
	lk_client_free(three.clients[2]);
	sleep_ms(2 * (now_ms() - begun_ms) + 50); /* the next question comes meanwhile */
	expect(0, lk_lock_release(three.lock, NULL, &err));
	close_three(&three);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_if_idle_refuses_while_it_holds),
		api_test(test_abandon_hands_over_an_exported_hold),
		api_test(test_a_waiter_whose_try_is_unanswered),
		api_test(test_free_of_an_open_client_abandons),
		api_test(test_create_and_destroy_under_threads),
		api_test(test_close_ends_a_background_thread_in_its_turn),
		api_test(test_close_under_fire),
		api_test(test_closed_by_many_at_once),
		api_test(test_closed_by_many_in_vain),
		api_test(test_a_red_lock_outlives_one_of_its_clients),
		api_test(test_a_closed_client_is_not_asked_to_join),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
