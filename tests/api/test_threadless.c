/* Clients without threads, in programs of one thread: what they do, and what they refuse. */
#include "fixture.h"

#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_MS 20000

static lk_queue *queue;
static lk_client *client;

/* ---- the program's loop ---- */

static lk_client *open_threadless(const char *url, lk_resolve_callback resolve, const char *option,
				  const char *value)
{
	lk_config *config = NULL;
	lk_client *opened = NULL;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", url, &err));
	expect(0, lk_config_set(config, "client_record", "off", &err));
	if (option)
		expect(0, lk_config_set(config, option, value, &err));
	lk_config_set_threadless(config, resolve, NULL);
	expect(0, lk_client_new(&opened, config, &err));
	lk_config_free(config);
	return opened;
}

static void begin(const char *option, const char *value)
{
	client = open_threadless(server.url_unix, NULL, option, value);
	expect(0, lk_queue_new(&queue, 0, &err));
}

/* Until the client has something to do, for so long; then it does that. */
static void turn(int64_t limit_ms)
{
	struct pollfd fd = {.fd = lk_client_fd(client, &err), .events = POLLIN};
	check(fd.fd >= 0);
	if (poll(&fd, 1, (int)limit_ms) > 0)
		expect(0, lk_client_process(client, &err));
}

/* The next completion within that time; its operation is 0 if there was none. */
static lk_completion next_within(int64_t limit_ms)
{
	lk_completion completion = {.operation = 0};
	int64_t end_ms = now_ms() + slow_ms(limit_ms);
	while (lk_queue_take(queue, &completion, 1, 0, &err) == 0 && now_ms() < end_ms)
		turn(10);
	return completion;
}

static void ends(int operation, int code)
{
	lk_completion completion = next_within(LIMIT_MS);
	check_int(completion.operation, ==, operation);
	if (completion.error.code != code)
		check_fail(__FILE__, __LINE__, "%d %s, not %d", completion.error.code,
			   completion.error.message, code);
}

static uint64_t start_acquire(lk_lock *lock, const char *owner, int64_t wait_ms)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	uint64_t id = 0;
	options.owner = owner;
	expect(0, lk_queue_acquire(queue, lock, wait_ms, &options, &id, &err));
	return id;
}

static void start_release(lk_lock *lock, const char *owner)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.owner = owner;
	expect(0, lk_queue_release(queue, lock, &options, 0, NULL, &err));
}

static void end(int how)
{
	expect(0, lk_queue_close(queue, client, how, 0, NULL, &err));
	ends(LK_OP_CLOSE, 0);
	expect(LK_ECLOSED, lk_client_process(client, &err));
	expect(LK_ECLOSED, lk_queue_close(queue, client, how, 0, NULL, &err));
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
}

/* Threads of this process. */
static int thread_count(void)
{
	int count = 0;
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *at; (at = readdir(tasks));)
		count += at->d_name[0] != '.';
	closedir(tasks);
	return count;
}

/* ---- what it does ---- */

static void acquire_and_release(const char *url)
{
	client = open_threadless(url, NULL, NULL, NULL);
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "alone");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	check_int(redis_integer(&server, "EXISTS alone"), ==, 1);
	check_int(lk_lock_is_held(lock, "task", &err), ==, 1);
	check_int(thread_count(), ==, 1);
	start_release(lock, "task");
	ends(LK_OP_RELEASE, 0);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

static void test_one_thread_is_enough(void **state)
{
	(void)state;
	acquire_and_release(server.url_unix);
	acquire_and_release(server.url_tcp);
}

static void test_renewals_come_from_the_program(void **state)
{
	char lease[24];
	(void)state;
	snprintf(lease, sizeof(lease), "%lld", slow_ms(300));
	begin("watchdog_ms", lease);
	lk_lock *lock = new_lock(client, "renewed");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	int64_t until_ms = now_ms() + 3 * slow_ms(300);
	while (now_ms() < until_ms) {
		turn(1000);
		check_int(lk_lock_is_held(lock, "task", &err), ==, 1);
	}
	check_int(redis_integer(&server, "EXISTS renewed"), ==, 1);
	start_release(lock, "task");
	ends(LK_OP_RELEASE, 0);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

/* The clock ends a hold, also of a program that does nothing. */
static void test_a_program_that_sleeps_loses_its_lock(void **state)
{
	char lease[24];
	lk_event event;
	(void)state;
	snprintf(lease, sizeof(lease), "%lld", slow_ms(300));
	begin("watchdog_ms", lease);
	lk_lock *lock = new_lock(client, "slept");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	sleep_ms(slow_ms(400));
	check_int(lk_lock_is_held(lock, "task", &err), ==, 0);
	expect(0, lk_client_process(client, &err));
	int lost = 0;
	while (lk_event_wait(client, &event, 0, NULL, &err) == 1)
		lost += event.type == LK_EVENT_LOST;
	check_int(lost, ==, 1);
	start_release(lock, "task");
	ends(LK_OP_RELEASE, LK_ELOST);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

static void test_notices_come_through_the_queue(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	(void)state;
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "noticed");
	expect(0, lk_queue_notices(queue, client, 0, NULL, &err));
	options.owner = "task";
	options.lease_ms = slow_ms(300);
	expect(0, lk_queue_acquire(queue, lock, -1, &options, NULL, &err));
	ends(LK_OP_ACQUIRE, 0);
	bool lost = false;
	for (int i = 0; i < 2 && !lost; i++) {
		lk_completion completion = next_within(LIMIT_MS);
		check_int(completion.operation, ==, LK_OP_NOTICE);
		lost = completion.event == LK_EVENT_LOST;
	}
	check(lost);
	start_release(lock, "task");
	ends(LK_OP_RELEASE, LK_ELOST);
	expect(0, lk_queue_close(queue, client, LK_CLOSE_IF_IDLE, 0, NULL, &err));
	lk_completion first = next_within(LIMIT_MS), second = next_within(LIMIT_MS);
	check_int(first.operation + second.operation, ==, LK_OP_NOTICE + LK_OP_CLOSE);
	lk_lock_free(lock);
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
}

static void test_a_waiter_hears_the_release(void **state)
{
	(void)state;
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "heard");
	stranger_takes("heard", 3600000);
	start_acquire(lock, "task", -1);
	while (redis_integer(&server, "PUBLISH redisson_lock__channel:{heard} 1") == 0)
		turn(10);
	check_int(next_within(200).operation, ==, 0);
	stranger_releases("heard");
	ends(LK_OP_ACQUIRE, 0);
	start_release(lock, "task");
	ends(LK_OP_RELEASE, 0);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

/* While it waits, and while nobody touches it, a client does nothing. */
static void test_an_idle_client_sleeps(void **state)
{
	(void)state;
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "idle");
	stranger_takes("idle", 3600000);
	start_acquire(lock, "task", -1);
	check_int(next_within(500).operation, ==, 0);
	int turns = 0;
	struct pollfd fd = {.fd = lk_client_fd(client, &err), .events = POLLIN};
	for (int64_t end_ms = now_ms() + 1000; now_ms() < end_ms; turns++) {
		poll(&fd, 1, 100);
		expect(0, lk_client_process(client, &err));
	}
	check_int(turns, <, 40);
	check_int(lk_client_due_ns(client, &err), >, now_ns());
	expect(0, lk_queue_close(queue, client, LK_CLOSE_IF_IDLE, 0, NULL, &err));
	ends(LK_OP_ACQUIRE, LK_ECLOSED);
	ends(LK_OP_CLOSE, 0);
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
	lk_lock_free(lock);
	redis_do(&server, "DEL idle");
}

static void test_a_killed_server_comes_back(void **state)
{
	(void)state;
	begin("backoff_max_ms", "50");
	lk_lock *lock = new_lock(client, "again");
	start_acquire(lock, "first", -1);
	ends(LK_OP_ACQUIRE, 0);
	start_release(lock, "first");
	ends(LK_OP_RELEASE, 0);
	server_kill(&server);
	start_acquire(lock, "second", -1);
	check_int(next_within(200).operation, ==, 0);
	server_start_again(&server);
	ends(LK_OP_ACQUIRE, 0);
	start_release(lock, "second");
	ends(LK_OP_RELEASE, 0);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

/* ---- it never waits ---- */

/* A listener that accepts nobody, whose queue is full: connecting hangs. */
static int black_hole(int *port_out, int fillers[8])
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check_int(bind(fd, (struct sockaddr *)&address, size), ==, 0);
	check_int(listen(fd, 0), ==, 0);
	check_int(getsockname(fd, (struct sockaddr *)&address, &size), ==, 0);
	for (int i = 0; i < 8; i++) {
		fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		connect(fillers[i], (struct sockaddr *)&address, size);
	}
	*port_out = ntohs(address.sin_port);
	return fd;
}

static void test_connecting_does_not_block(void **state)
{
	char url[64];
	int port, fillers[8];
	(void)state;
	int hole = black_hole(&port, fillers);
	snprintf(url, sizeof(url), "redis://127.0.0.1:%d", port);
	client = open_threadless(url, NULL, "connect_timeout_ms", "300");
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "hole");
	start_acquire(lock, "task", 0);
	lk_completion completion = {.operation = 0};
	int64_t longest_ms = 0, end_ms = now_ms() + slow_ms(LIMIT_MS);
	while (lk_queue_take(queue, &completion, 1, 0, &err) == 0 && now_ms() < end_ms) {
		int64_t begun_ms = now_ms();
		expect(0, lk_client_process(client, &err));
		longest_ms = now_ms() - begun_ms > longest_ms ? now_ms() - begun_ms : longest_ms;
		sleep_ms(1);
	}
	check_int(completion.error.code, ==, LK_EUNREACHABLE);
	check_int(longest_ms, <, slow_ms(200));
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
	close(hole);
	for (int i = 0; i < 8; i++)
		close(fillers[i]);
}

/* A server that is stopped. */
static void test_a_silent_server_does_not_block(void **state)
{
	(void)state;
	begin("watchdog_ms", "600");
	lk_lock *lock = new_lock(client, "silent");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	server_pause(&server);
	start_release(lock, "task");
	lk_completion completion = {.operation = 0};
	int64_t longest_ms = 0, end_ms = now_ms() + slow_ms(LIMIT_MS);
	while (lk_queue_take(queue, &completion, 1, 0, &err) == 0 && now_ms() < end_ms) {
		int64_t begun_ms = now_ms();
		expect(0, lk_client_process(client, &err));
		longest_ms = now_ms() - begun_ms > longest_ms ? now_ms() - begun_ms : longest_ms;
		sleep_ms(1);
	}
	check_int(completion.operation, ==, LK_OP_RELEASE);
	check_int(completion.error.code, ==, LK_EMAYBEHELD);
	check_int(longest_ms, <, slow_ms(200));
	server_resume(&server);
	lk_lock_free(lock);
	end(LK_CLOSE_RELEASE);
}

/* ---- names ---- */

static int resolve_count;

static int resolve(void *context, const char *host, char *address_out, size_t size)
{
	(void)context;
	resolve_count++;
	snprintf(address_out, size, "127.0.0.1");
	return strcmp(host, "known.test") == 0 ? 0 : -1;
}

static void test_names(void **state)
{
	char url[64];
	lk_config *config = NULL;
	lk_client *none = NULL;
	(void)state;
	snprintf(url, sizeof(url), "redis://known.test:%d", server.port);
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", url, &err));
	lk_config_set_threadless(config, NULL, NULL);
	expect(LK_EINVAL, lk_client_new(&none, config, &err));
	check(strstr(err.message, "known.test"));
	expect(0, lk_config_set(config, "url", "redis-replicas://127.0.0.1:1,[::1]:1,other.test",
				&err));
	expect(LK_EINVAL, lk_client_new(&none, config, &err));
	check(strstr(err.message, "other.test"));
	lk_config_free(config);

	client = open_threadless(url, resolve, NULL, NULL);
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "named");
	start_acquire(lock, "task", 0);
	ends(LK_OP_ACQUIRE, 0);
	check_int(resolve_count, >, 0);
	check_int(thread_count(), ==, 1);
	start_release(lock, "task");
	ends(LK_OP_RELEASE, 0);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);

	client = open_threadless("redis://unknown.test", resolve, NULL, NULL);
	expect(0, lk_queue_new(&queue, 0, &err));
	lock = new_lock(client, "named");
	start_acquire(lock, "task", 0);
	ends(LK_OP_ACQUIRE, LK_EUNREACHABLE);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

/* ---- bad use ---- */

static void test_blocking_calls_are_refused(void **state)
{
	lk_lock *multi = NULL;
	lk_semaphore *semaphore = NULL;
	int64_t permits;
	(void)state;
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "refused");
	expect(LK_EBLOCKING, lk_client_ping(client, &err));
	expect(LK_EBLOCKING, lk_lock_acquire(lock, NULL, &err));
	expect(LK_EBLOCKING, lk_lock_release(lock, NULL, &err));
	expect(LK_EBLOCKING, lk_lock_extend(lock, 1000, "task", &err));
	expect(LK_EBLOCKING, lk_lock_is_locked(lock, &err));
	expect(LK_EBLOCKING, lk_lock_force_release(lock, &err));
	expect(0, lk_multi_lock_new(&multi, &lock, 1, &err));
	expect(LK_EBLOCKING, lk_lock_acquire(multi, NULL, &err));
	expect(LK_EBLOCKING, lk_lock_release(multi, NULL, &err));
	expect(LK_EBLOCKING, lk_lock_is_locked(multi, &err));
	expect(LK_EBLOCKING, lk_lock_force_release(multi, &err));
	lk_lock_free(multi);
	expect(LK_EBLOCKING, lk_client_close(client, LK_CLOSE_RELEASE, &err));
	expect(0, lk_semaphore_new(&semaphore, client, "refused", LK_STRLEN, &err));
	expect(LK_EBLOCKING, lk_semaphore_available(semaphore, &permits, &err));
	lk_semaphore_free(semaphore);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

static void test_a_client_with_a_thread_is_not_processed(void **state)
{
	(void)state;
	lk_client *own = open_client();
	lk_queue *of = NULL;
	expect(0, lk_queue_new(&of, 0, &err));
	expect(LK_EINVAL, lk_client_fd(own, &err));
	expect(LK_EINVAL, lk_client_process(own, &err));
	check_int(lk_client_due_ns(own, &err), ==, LK_EINVAL);
	expect(LK_EINVAL, lk_queue_close(of, own, LK_CLOSE_ABANDON, 0, NULL, &err));
	expect(LK_EINVAL, lk_client_process(NULL, &err));
	expect(0, lk_queue_free(of, &err));
	close_client(own);
}

static void process_for_a_while(size_t index, void *argument)
{
	_Atomic int *refused = argument;
	(void)index;
	for (int64_t end_ms = now_ms() + slow_ms(300); now_ms() < end_ms;) {
		int rc = lk_client_process(client, &err);
		check(rc == 0 || rc == LK_EPROCESSING);
		*refused += rc != 0;
	}
}

static void test_two_threads_process(void **state)
{
	struct threads threads;
	_Atomic int refused = 0;
	(void)state;
	begin(NULL, NULL);
	threads_start(&threads, 4, process_for_a_while, &refused);
	threads_join(&threads, 20000);
	check_int(refused, >, 0);
	end(LK_CLOSE_IF_IDLE);
}

static void test_a_forked_child(void **state)
{
	int status = 0;
	(void)state;
	begin(NULL, NULL);
	pid_t child = fork();
	if (child == 0)
		_exit(lk_client_process(client, NULL) == LK_EFORKED &&
				      lk_client_fd(client, NULL) == LK_EFORKED &&
				      lk_queue_close(queue, client, LK_CLOSE_ABANDON, 0, NULL,
						     NULL) == LK_EFORKED
			      ? 0
			      : 1);
	waitpid(child, &status, 0);
	check_int(status, ==, 0);
	end(LK_CLOSE_IF_IDLE);
}

/* ---- the end ---- */

static void test_close_completes_what_is_in_flight(void **state)
{
	(void)state;
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "closed");
	start_acquire(lock, "first", -1);
	ends(LK_OP_ACQUIRE, 0);
	start_acquire(lock, "second", -1);
	turn(100);
	expect(LK_EHELD, lk_queue_close(queue, client, LK_CLOSE_IF_IDLE, 0, NULL, &err));
	expect(0, lk_queue_close(queue, client, LK_CLOSE_RELEASE, 0, NULL, &err));
	expect(LK_EPENDING, lk_queue_close(queue, client, LK_CLOSE_RELEASE, 0, NULL, &err));
	ends(LK_OP_ACQUIRE, LK_ECLOSED);
	ends(LK_OP_CLOSE, 0);
	check_int(redis_integer(&server, "EXISTS closed"), ==, 0);
	lk_lock_free(lock);
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
}

static void test_close_says_what_may_be_held(void **state)
{
	(void)state;
	begin("command_timeout_ms", "100");
	lk_lock *lock = new_lock(client, "unsure");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	server_pause(&server);
	expect(0, lk_queue_close(queue, client, LK_CLOSE_RELEASE, 0, NULL, &err));
	ends(LK_OP_CLOSE, LK_EMAYBEHELD);
	server_resume(&server);
	int code = LK_EMAYBEHELD;
	for (int64_t end_ms = now_ms() + slow_ms(LIMIT_MS); code && now_ms() < end_ms;) {
		expect(0, lk_queue_close(queue, client, LK_CLOSE_RELEASE, 0, NULL, &err));
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
	(void)state;
	begin("command_timeout_ms", "300");
	lk_lock *lock = new_lock(client, "midst");
	start_acquire(lock, "first", -1);
	ends(LK_OP_ACQUIRE, 0);
	server_pause(&server);
	start_acquire(lock, "second", -1);
	start_release(lock, "first");
	turn(10);
	expect(0, lk_queue_close(queue, client, LK_CLOSE_RELEASE, 0, NULL, &err));
	turn(10);
	int64_t begun_ms = now_ms();
	lk_client_free(client);
	check_int(now_ms() - begun_ms, <, slow_ms(1000));
	server_resume(&server);
	lk_lock_free(lock);
	lk_completion completions[4];
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
	lk_completion completion;
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
	(void)state;
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
	(void)state;
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
	(void)state;
	begin_connected();
	redis_do(&server, "SET pool 5");
	expect(0, lk_semaphore_new(&pool, client, "pool", LK_STRLEN, &err));
	expect(0, lk_queue_semaphore_acquire(queue, pool, 2, -1, 0, NULL, &err));
	check_int(freed_before_the_answer(), ==, LK_ECLOSED);
	check_int(redis_integer(&server, "INCRBY pool 0"), ==, 5);
	lk_semaphore_free(pool);
	redis_do(&server, "DEL pool");
}

static void test_free_gives_back_a_place(void **state)
{
	lk_lock *lock = NULL;
	(void)state;
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
	(void)state;
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
	(void)state;
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
	(void)state;
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
	(void)state;
	begin("command_timeout_ms", "1500");
	lk_lock *lock = new_lock(client, "behind");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	server_pause(&server);
	expect(0, lk_queue_close(queue, client, LK_CLOSE_RELEASE, 0, NULL, &err));
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
	(void)state;
	begin(NULL, NULL);
	lk_client_free(client);
	client = open_threadless("redis://127.0.0.1:1", NULL, NULL, NULL);
	lk_lock *lock = new_lock(client, "never");
	start_acquire(lock, "task", -1);
	lk_lock_free(lock);
	lk_client_free(client);
	lk_completion completion;
	check_int(lk_queue_take(queue, &completion, 1, 0, &err), ==, 1);
	check_int(completion.error.code, ==, LK_ECLOSED);
	expect(0, lk_queue_free(queue, &err));
}

static void process_until(size_t index, void *argument)
{
	_Atomic bool *over = argument;
	(void)index;
	while (!*over)
		lk_client_process(client, NULL);
}

/* One thread takes the turns, another closes: at any moment of connecting. */
static void test_close_while_another_thread_connects(void **state)
{
	(void)state;
	redis_do(&server, "HSET while other:1 1");
	for (int i = 0; i < 200; i++) {
		struct threads threads;
		_Atomic bool over = false;
		lk_completion completion;
		begin(NULL, NULL);
		lk_lock *lock = new_lock(client, "while");
		start_acquire(lock, "first", -1);
		threads_start(&threads, 1, process_until, &over);
		usleep((useconds_t)(i * 13 % 800));
		expect(0, lk_queue_close(queue, client, LK_CLOSE_ABANDON, 0, NULL, &err));
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
	(void)index;
	int rc = lk_queue_close(queue, client, LK_CLOSE_ABANDON, 0, NULL, &why);
	check(rc == 0 || rc == LK_EPENDING || rc == LK_ECLOSED);
	*begun += rc == 0;
}

/* One of them has begun it, and gets the completion. */
static void test_two_threads_close(void **state)
{
	(void)state;
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
		api_test(test_one_thread_is_enough),
		api_test(test_two_threads_close),
		api_test(test_renewals_come_from_the_program),
		api_test(test_a_program_that_sleeps_loses_its_lock),
		api_test(test_notices_come_through_the_queue),
		api_test(test_a_waiter_hears_the_release),
		api_test(test_an_idle_client_sleeps),
		api_test(test_a_killed_server_comes_back),
		api_test(test_connecting_does_not_block),
		api_test(test_a_silent_server_does_not_block),
		api_test(test_names),
		api_test(test_blocking_calls_are_refused),
		api_test(test_a_client_with_a_thread_is_not_processed),
		api_test(test_two_threads_process),
		api_test(test_a_forked_child),
		api_test(test_close_completes_what_is_in_flight),
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
