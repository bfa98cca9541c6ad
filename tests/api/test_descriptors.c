/*
 * Descriptors that run out, and system calls that refuse: every call succeeds or says so, the
 * process goes on, no descriptor and no memory is lost, and no lock is left behind.
 *
 * The library is linked statically, with the calls wrapped that make a descriptor or a thread.
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fixture.h"

#define FEW 20         /* free descriptors with which everything succeeds */
#define LIMIT 256      /* descriptors of a process that has few */
#define RETRIES 200    /* of a start that fails */
#define LOST_MOST 4096 /* bytes that retries may leave in the allocator's own books */

/* ---- calls that refuse ---- */

enum call { EPOLL_CREATE, EPOLL_CTL, EVENTFD, TIMERFD, SOCKET, THREAD, CALLS };

static _Atomic bool refused[CALLS];
static _Atomic unsigned refusals;

static bool refuses(enum call call)
{
	if (!refused[call])
		return false;
	refusals++;
	errno = EMFILE;
	return true;
}

int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument);

int __wrap_epoll_create1(int flags)
{
	return refuses(EPOLL_CREATE) ? -1 : __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	return refuses(EPOLL_CTL) ? -1 : __real_epoll_ctl(epoll, operation, fd, event);
}

int __wrap_eventfd(unsigned count, int flags)
{
	return refuses(EVENTFD) ? -1 : __real_eventfd(count, flags);
}

int __wrap_timerfd_create(int clock, int flags)
{
	return refuses(TIMERFD) ? -1 : __real_timerfd_create(clock, flags);
}

int __wrap_socket(int family, int type, int protocol)
{
	return refuses(SOCKET) ? -1 : __real_socket(family, type, protocol);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument)
{
	return refuses(THREAD) ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

/* ---- a process with few descriptors ---- */

static int fillers[LIMIT];
static size_t filled;
static struct rlimit usual;

/* Leaves so many descriptors free. */
static void starve(size_t left)
{
	struct rlimit few;
	check(getrlimit(RLIMIT_NOFILE, &usual) == 0);
	few = usual;
	few.rlim_cur = LIMIT;
	check(setrlimit(RLIMIT_NOFILE, &few) == 0);
	while (filled < COUNT(fillers) && (fillers[filled] = dup(STDERR_FILENO)) >= 0)
		filled++;
	for (; left > 0 && filled > 0; left--)
		close(fillers[--filled]);
}

static void feed(void)
{
	while (filled > 0)
		close(fillers[--filled]);
	check(setrlimit(RLIMIT_NOFILE, &usual) == 0);
}

static size_t descriptors(void)
{
	size_t count = 0;
	for (int fd = 0; fd < LIMIT; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* What a starved call may answer: done, or for want of a descriptor. */
static bool is_starved(int code)
{
	check(code == 0 || code == LK_ESYSTEM || code == LK_ENOMEM || code == LK_EMAYBEHELD ||
	      code == LK_EUNREACHABLE);
	return code != 0;
}

/* A pair with all that is needed; connecting pauses a moment after it has failed. */
static void pair_succeeds(lk_lock *lock)
{
	int code = LK_ESYSTEM;
	for (int64_t end_ms = now_ms() + slow_ms(5000); is_starved(code) && now_ms() < end_ms;)
		code = lk_lock_acquire(lock, slow_ms(5000), NULL, &err);
	expect(0, code);
	expect(0, lk_lock_release(lock, NULL, &err));
}

static void test_the_first_acquire_with_few_descriptors(void **state)
{
	for (size_t left = 0; left <= FEW; left++) {
		size_t before = descriptors();
		lk_client *client = open_client();
		lk_lock *lock = new_lock(client, "first");
		starve(left);
		int code = lk_lock_acquire(lock, slow_ms(1000), NULL, &err);
		if (!is_starved(code))
			expect(0, lk_lock_release(lock, NULL, &err));
		feed();
		check(code == 0 || left < FEW);
		pair_succeeds(lock);
		lk_lock_free(lock);
		close_client(client);
		wait_until(descriptors() == before, 5000);
	}
}

/* Its own descriptors, and nobody else's, are closed when the client cannot be made. */
static void test_a_client_made_with_few_descriptors(void **state)
{
	for (size_t left = 0; left <= FEW; left++) {
		size_t before = descriptors();
		lk_client *client = NULL;
		starve(left);
		int code = lk_client_open(&client, server.url_unix, &err);
		check(code == 0 || code == LK_ESYSTEM);
		check(code == 0 || (left < FEW && !client));
		if (code == 0)
			is_starved(lk_client_ping(client, &err));
		feed();
		lk_client_free(client);
		wait_until(descriptors() == before, 5000);
	}
}

/* Its connections are cut, and there are few descriptors to make new ones. */
static void test_a_held_lock_with_few_descriptors(void **state)
{
	for (size_t left = 0; left <= FEW; left++) {
		lk_client *client = open_client_with("watchdog_ms=%lld", slow_ms(150));
		lk_lock *lock = new_lock(client, "held");
		redisContext *teller = redisConnectUnix(server.socket);
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		starve(left);
		freeReplyObject(redisCommand(teller, "CLIENT KILL TYPE normal SKIPME yes"));
		sleep_ms(slow_ms(100)); /* a renewal and its repetitions fall due */
		int code = lk_lock_release(lock, NULL, &err);
		feed();
		if (code == 0)
			check_int(redis_integer(&server, "EXISTS held"), ==, 0);
		redisFree(teller);
		lk_lock_free(lock);
		lk_client_close(client, LK_CLOSE_RELEASE, &err);
		lk_client_free(client);
		wait_until(redis_integer(&server, "EXISTS held") == 0, 5000);
	}
}

static void test_each_call_refuses(void **state)
{
	for (enum call call = 0; call < CALLS; call++) {
		size_t before = descriptors();
		lk_client *client = open_client();
		lk_lock *lock = new_lock(client, "refused");
		refused[call] = true;
		if (!is_starved(lk_lock_acquire(lock, slow_ms(300), NULL, &err)))
			expect(0, lk_lock_release(lock, NULL, &err));
		refused[call] = false;
		pair_succeeds(lock);
		lk_lock_free(lock);
		close_client(client);
		wait_until(descriptors() == before, 5000);
	}
}

static void test_a_start_that_fails_leaks_nothing(void **state)
{
	static const enum call starts[] = {THREAD, EPOLL_CREATE, EPOLL_CTL, EVENTFD, TIMERFD};
	for (size_t i = 0; i < COUNT(starts); i++) {
		lk_client *client = open_client();
		lk_lock *lock = new_lock(client, "start");
		refused[starts[i]] = true;
		expect(LK_ESYSTEM, lk_lock_acquire(lock, 0, NULL, &err));
		size_t fds = descriptors(), bytes = mallinfo2().uordblks;
		for (int retry = 0; retry < RETRIES; retry++)
			expect(LK_ESYSTEM, lk_lock_acquire(lock, 0, NULL, &err));
		wait_until(descriptors() <= fds, 5000); /* a connector may end late */
		check_int(mallinfo2().uordblks, <=, bytes + LOST_MOST);
		refused[starts[i]] = false;
		pair_succeeds(lock);
		lk_lock_free(lock);
		close_client(client);
	}
}

/* ---- waiting meanwhile ---- */

struct waiting {
	lk_lock *lock;
	int64_t wait_ms; /* -1: without limit */
};

static void wait_body(size_t index, void *argument)
{
	struct waiting *waiting = argument;
	lk_error error;
	if (waiting->wait_ms < 0)
		expect(0, lk_lock_acquire(waiting->lock, -1, NULL, &error));
	else
		expect(0, lk_lock_acquire(waiting->lock, waiting->wait_ms, NULL, &error));
	expect(0, lk_lock_release(waiting->lock, NULL, &error));
}

/* Until a connection for messages can be opened, the waiter looks again from time to time. */
static void test_a_waiter_without_a_subscription_polls(void **state)
{
	own_client *holder = open_client(), *client = open_client();
	lk_lock *held = new_lock(holder, "deaf");
	struct waiting waiting = {new_lock(client, "deaf"), slow_ms(10000)};
	struct threads threads;
	pair_succeeds(waiting.lock);
	expect(0, lk_lock_acquire(held, -1, NULL, &err));
	refusals = 0;
	refused[SOCKET] = true;
	threads_start(&threads, 1, wait_body, &waiting);
	wait_until(refusals > 0, 5000);
	expect(0, lk_lock_release(held, NULL, &err));
	threads_join(&threads, 20000);
	refused[SOCKET] = false;
	lk_lock_free(held);
	lk_lock_free(waiting.lock);
}

/* The connection is lost, and no other can be made for a while. */
static void test_a_wait_survives_a_lack_of_descriptors(void **state)
{
	own_client *client = open_client();
	struct waiting waiting = {new_lock(client, "short"), -1};
	struct threads threads;
	redisContext *teller = redisConnectUnix(server.socket);
	pair_succeeds(waiting.lock);
	refusals = 0;
	refused[SOCKET] = true;
	freeReplyObject(redisCommand(teller, "CLIENT KILL TYPE normal SKIPME yes"));
	threads_start(&threads, 1, wait_body, &waiting);
	wait_until(refusals > 2, 5000);
	refused[SOCKET] = false;
	threads_join(&threads, 20000);
	redisFree(teller);
	lk_lock_free(waiting.lock);
}

/* Whatever libraries open once in a process is open before it is counted. */
static int start_warm(void **state)
{
	int rc = start_server(state);
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "warm");
	pair_succeeds(lock);
	lk_lock_free(lock);
	close_client(client);
	return rc;
}

/* Whoever waits for a name, or for certificates, needs a thread: that is what is missing. */
static void test_a_connection_without_a_thread_says_so(void **state)
{
	static const char *const places[] = {"redis://localhost", "rediss://127.0.0.1"};
	for (size_t i = 0; i < COUNT(places); i++) {
		lk_client *client;
		char url[64];
		snprintf(url, sizeof(url), "%s:%d", places[i], server.port);
		expect(0, lk_client_open(&client, url, &err));
		refused[THREAD] = true;
		expect(LK_ESYSTEM, lk_client_ping(client, &err));
		refused[THREAD] = false;
		lk_client_free(client);
	}
}

/* A call that asks several nodes sleeps at a descriptor of its own, and without one looks by
 * itself. */
static void test_a_red_lock_without_a_descriptor(void **state)
{
	enum { OTHERS = 2 };
	struct server others[OTHERS] = {{.pid = 0}};
	lk_client *clients[1 + OTHERS];
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	lk_lock *lock;
	options.quarantine_ms = -1;
	clients[0] = open_client();
	for (size_t i = 0; i < OTHERS; i++) {
		server_start(&others[i], NULL);
		expect(0, lk_client_open(&clients[1 + i], others[i].url_unix, &err));
	}
	expect(0,
	       lk_red_lock_new(&lock, clients, COUNT(clients), "red", LK_STRLEN, &options, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	refused[EVENTFD] = true;
	expect(0, lk_lock_extend(lock, slow_ms(30000), NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, lk_lock_acquire(lock, 0, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	refused[EVENTFD] = false;
	lk_lock_free(lock);
	for (size_t i = 0; i < COUNT(clients); i++)
		close_client(clients[i]);
	for (size_t i = 0; i < OTHERS; i++)
		server_stop(&others[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_the_first_acquire_with_few_descriptors),
		api_test(test_a_client_made_with_few_descriptors),
		api_test(test_a_held_lock_with_few_descriptors),
		api_test(test_each_call_refuses),
		api_test(test_a_start_that_fails_leaks_nothing),
		api_test(test_a_waiter_without_a_subscription_polls),
		api_test(test_a_wait_survives_a_lack_of_descriptors),
		api_test(test_a_connection_without_a_thread_says_so),
		api_test(test_a_red_lock_without_a_descriptor),
	};
	return cmocka_run_group_tests(tests, start_warm, stop_server);
}
