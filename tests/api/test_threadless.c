/* Clients without threads, in programs of one thread: what they do, and what they refuse. */
#include "threadless.h"

#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
	acquire_and_release(server.url_unix);
	acquire_and_release(server.url_tcp);
}

static void test_renewals_come_from_the_program(void **state)
{
	char lease[24];
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
	lk_event event = LK_EVENT_INIT;
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
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "noticed");
	expect(0, lk_queue_start(queue, request_of(NOTICE, .client = client), NULL, &err));
	options.owner = "task";
	options.lease_ms = slow_ms(300);
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
					    .acquire = &options, .tag = options.tag),
				 NULL, &err));
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
	expect(0,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_IF_IDLE),
			      NULL, &err));
	lk_completion first = next_within(LIMIT_MS), second = next_within(LIMIT_MS);
	check_int(first.operation + second.operation, ==, LK_OP_NOTICE + LK_OP_CLOSE);
	lk_lock_free(lock);
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
}

/* The answer to a question about a lock; or `code`. */
static int64_t answer_of(int operation, lk_lock *lock, int code)
{
	lk_request request = LK_REQUEST_INIT;
	request.operation = operation;
	request.lock = lock;
	expect(0, lk_queue_start(queue, &request, NULL, &err));
	lk_completion completion = next_within(LIMIT_MS);
	check_int(completion.operation, ==, operation);
	check_int(completion.error.code, ==, code);
	return completion.answer;
}

static void test_questions_through_the_queue(void **state)
{
	lk_event event = LK_EVENT_INIT;
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "asked");
	check_int(answer_of(LK_OP_IS_LOCKED, lock, 0), ==, 0);
	check_int(answer_of(LK_OP_SERVER_TTL, lock, 0), ==, -2);
	check_int(answer_of(LK_OP_FORCE_RELEASE, lock, 0), ==, 0);
	stranger_takes("asked", 3600000);
	check_int(answer_of(LK_OP_IS_LOCKED, lock, 0), ==, 1);
	check_int(answer_of(LK_OP_SERVER_TTL, lock, 0), >, 3500000);
	check_int(answer_of(LK_OP_FORCE_RELEASE, lock, 0), ==, 1);
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	check_int(answer_of(LK_OP_FORCE_RELEASE, lock, 0), ==, 1);
	check_int(lk_lock_is_held(lock, "task", &err), ==, 0);
	check_int(lk_event_wait(client, &event, 0, NULL, &err), ==, 1);
	check_int(event.type, ==, LK_EVENT_LOST);
	start_release(lock, "task");
	ends(LK_OP_RELEASE, LK_ELOST);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

/* Without an answer a question has none, and of a forced release nobody knows. */
static void test_a_question_to_a_server_that_is_silent(void **state)
{
	char limit[24];
	snprintf(limit, sizeof(limit), "%lld", slow_ms(200));
	begin("command_timeout_ms", limit);
	lk_lock *lock = new_lock(client, "unasked");
	check_int(answer_of(LK_OP_IS_LOCKED, lock, 0), ==, 0);
	server_pause(&server);
	answer_of(LK_OP_FORCE_RELEASE, lock, LK_EMAYBEHELD);
	answer_of(LK_OP_IS_LOCKED, lock, LK_EUNREACHABLE);
	server_resume(&server);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

/* While it waits, and while nobody touches it, a client does nothing. */
static void test_an_idle_client_sleeps(void **state)
{
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
	expect(0,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_IF_IDLE),
			      NULL, &err));
	ends(LK_OP_ACQUIRE, LK_ECLOSED);
	ends(LK_OP_CLOSE, 0);
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
	lk_lock_free(lock);
	redis_do(&server, "DEL idle");
}

/* ---- one call does a part of it ---- */

#define STARTS 3000
#define PART_MOST 1024 /* requests that one call goes on with */

static bool is_readable(void)
{
	struct pollfd fd = {.fd = lk_client_fd(client, &err), .events = POLLIN};
	return poll(&fd, 1, 0) == 1;
}

static bool is_due(void)
{
	return lk_client_due_ns(client, &err) <= now_ns();
}

static void check_due(void)
{
	check(is_due());
	check(is_readable());
}

/* Until nothing is due. */
static void rest(void)
{
	int64_t end_ms = now_ms() + slow_ms(LIMIT_MS);
	bool due;
	while ((due = is_due()) && now_ms() < end_ms)
		expect(0, lk_client_process(client, &err));
	check(!due);
}

/* What is there, of which each is to be the next by its tag. Returns how many. */
static int take_in_order(uint64_t *next_tag, int code)
{
	static lk_completion taken[STARTS] = {LK_COMPLETION_INIT};
	int count = lk_queue_take(queue, taken, STARTS, 0, &err);
	check_int(count, >=, 0);
	for (int i = 0; i < count; i++) {
		check_int(taken[i].tag, ==, *next_tag);
		check_int(taken[i].error.code, ==, code);
		++*next_tag;
	}
	return count;
}

static void start_tagged(lk_lock *lock, const char *owner, int64_t wait_ms, uint64_t tag)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = owner;
	options.tag = tag;
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .lock = lock, .wait_ms = wait_ms,
					    .acquire = &options, .tag = options.tag),
				 NULL, &err));
}

static void test_a_start_is_due_at_once(void **state)
{
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "due");
	rest();
	start_acquire(lock, "task", -1);
	check_due();
	ends(LK_OP_ACQUIRE, 0);
	rest();
	start_release(lock, "task");
	check_due();
	ends(LK_OP_RELEASE, 0);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

/* However much was started. What is left is due, none is left out, and none passes another. */
static void test_one_call_does_a_part(void **state)
{
	uint64_t next_tag = 0;
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "part");
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.owner = "task";
	rest();
	for (uint64_t i = 0; i < STARTS; i++)
		expect(0, lk_queue_start(
				  queue,
				  request_of(RELEASE, .lock = lock, .release = &options, .tag = i),
				  NULL, &err));
	while (next_tag < STARTS) {
		check_due();
		expect(0, lk_client_process(client, &err));
		int count = take_in_order(&next_tag, LK_ENOTOWNER);
		check_int(count, >, 0);
		check_int(count, <=, PART_MOST);
	}
	rest();
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

/* Of a row of locks, so many are asked for in one call. All are granted, the first one first. */
static void test_one_call_sends_a_part(void **state)
{
	static lk_lock *locks[STARTS];
	uint64_t next_tag = 0;
	char name[32];
	begin(NULL, NULL);
	for (int i = 0; i < STARTS; i++) {
		snprintf(name, sizeof(name), "row-%d", i);
		locks[i] = new_lock(client, name);
	}
	start_acquire(locks[0], "first", -1); /* it is connected then */
	ends(LK_OP_ACQUIRE, 0);
	start_release(locks[0], "first");
	ends(LK_OP_RELEASE, 0);
	rest();
	for (uint64_t i = 0; i < STARTS; i++)
		start_tagged(locks[i], "task", -1, i);
	while (next_tag < STARTS) {
		uint64_t before = stats_of(client).commands;
		turn(LIMIT_MS);
		check_int(stats_of(client).commands - before, <=, PART_MOST + 8);
		take_in_order(&next_tag, 0);
	}
	for (uint64_t i = 0; i < STARTS; i++)
		start_release(locks[i], "task");
	for (uint64_t i = 0; i < STARTS; i++)
		ends(LK_OP_RELEASE, 0);
	for (int i = 0; i < STARTS; i++)
		lk_lock_free(locks[i]);
	end(LK_CLOSE_IF_IDLE);
}

/* All limits end at once. */
static void test_one_call_ends_a_part(void **state)
{
	static lk_completion taken[STARTS] = {LK_COMPLETION_INIT};
	char owner[32];
	begin(NULL, NULL);
	stranger_takes("ended", 3600000);
	lk_lock *lock = new_lock(client, "ended");
	for (int i = 0; i < STARTS; i++) {
		snprintf(owner, sizeof(owner), "owner-%d", i);
		start_tagged(lock, owner, slow_ms(1000), (uint64_t)i);
	}
	while (stats_of(client).waiting < STARTS)
		turn(10);
	sleep_ms(slow_ms(1000));
	int most = 0, seen = 0;
	while (seen < STARTS) {
		turn(LIMIT_MS);
		int count = lk_queue_take(queue, taken, STARTS, 0, &err);
		for (int i = 0; i < count; i++)
			check_int(taken[i].error.code, ==, LK_ETIMEDOUT);
		most = count > most ? count : most;
		seen += count;
	}
	check_int(seen, ==, STARTS);
	check_int(most, <=, 2 * PART_MOST);
	lk_lock_free(lock);
	stranger_releases("ended");
	end(LK_CLOSE_IF_IDLE);
}

static void start_many(lk_lock *lock, uint64_t *last_out)
{
	for (int i = 0; i < STARTS; i++)
		*last_out = start_acquire(lock, i % 2 ? "odd" : "even", -1);
	expect(0, lk_client_process(client, &err));
	check_due();
}

/* What an earlier call has left can be cancelled, and a close ends it before itself. */
static void test_what_is_left_can_be_ended(void **state)
{
	uint64_t last = 0;
	begin(NULL, NULL);
	stranger_takes("left", 3600000);
	lk_lock *lock = new_lock(client, "left");
	start_many(lock, &last);
	expect(1, lk_queue_cancel(queue, last, &err));
	lk_completion cancelled = next_within(LIMIT_MS);
	check_int(cancelled.id, ==, last);
	check_int(cancelled.error.code, ==, LK_ECANCELLED);
	start_many(lock, &last);
	expect(0,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_IF_IDLE),
			      NULL, &err));
	for (int i = 1; i < 2 * STARTS; i++) {
		lk_completion completion = next_within(LIMIT_MS);
		check_int(completion.operation, ==, LK_OP_ACQUIRE);
		check(completion.error.code == LK_ECLOSED ||
		      completion.error.code == LK_EMAYBEHELD);
	}
	ends(LK_OP_CLOSE, 0);
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
	lk_lock_free(lock);
	stranger_releases("left");
}

/* Nobody processes any more. */
static void test_a_free_ends_what_is_left(void **state)
{
	lk_completion completion = LK_COMPLETION_INIT;
	uint64_t last;
	begin(NULL, NULL);
	stranger_takes("free", 3600000);
	lk_lock *lock = new_lock(client, "free");
	start_many(lock, &last);
	lk_lock_free(lock);
	lk_client_free(client);
	for (int i = 0; i < STARTS; i++) {
		expect(1, lk_queue_take(queue, &completion, 1, 0, &err));
		check(completion.error.code != 0);
	}
	expect(0, lk_queue_free(queue, &err));
	stranger_releases("free");
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
	int hole = black_hole(&port, fillers);
	snprintf(url, sizeof(url), "redis://127.0.0.1:%d", port);
	client = open_threadless(url, NULL, "connect_timeout_ms", "300");
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "hole");
	start_acquire(lock, "task", 0);
	lk_completion completion = LK_COMPLETION_INIT;
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
	begin("watchdog_ms", "600");
	lk_lock *lock = new_lock(client, "silent");
	start_acquire(lock, "task", -1);
	ends(LK_OP_ACQUIRE, 0);
	server_pause(&server);
	start_release(lock, "task");
	lk_completion completion = LK_COMPLETION_INIT;
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
	resolve_count++;
	snprintf(address_out, size, "127.0.0.1");
	return strcmp(host, "known.test") == 0 ? 0 : -1;
}

static void test_names(void **state)
{
	char url[64];
	lk_config *config = NULL;
	lk_client *none = NULL;
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
	begin(NULL, NULL);
	lk_lock *lock = new_lock(client, "refused");
	expect(LK_EBLOCKING, lk_client_ping(client, &err));
	expect(LK_EBLOCKING, lk_lock_acquire(lock, -1, NULL, &err));
	expect(LK_EBLOCKING, lk_lock_release(lock, NULL, &err));
	expect(LK_EBLOCKING, lk_lock_extend(lock, 1000, extend_by("task"), &err));
	expect(LK_EBLOCKING, is_locked(lock, &err));
	expect(LK_EBLOCKING, lk_lock_force_release(lock, &err));
	expect(0, lk_multi_lock_new(&multi, &lock, 1, &err));
	expect(LK_EBLOCKING, lk_lock_acquire(multi, -1, NULL, &err));
	expect(LK_EBLOCKING, lk_lock_release(multi, NULL, &err));
	expect(LK_EBLOCKING, is_locked(multi, &err));
	expect(LK_EBLOCKING, lk_lock_force_release(multi, &err));
	lk_lock_free(multi);
	expect(LK_EBLOCKING, lk_client_close(client, LK_CLOSE_RELEASE, &err));
	expect(0, lk_semaphore_new(&semaphore, client, "refused", LK_STRLEN, NULL, &err));
	expect(LK_EBLOCKING, lk_semaphore_available(semaphore, &permits, &err));
	lk_semaphore_free(semaphore);
	lk_lock_free(lock);
	end(LK_CLOSE_IF_IDLE);
}

static void test_a_client_with_a_thread_is_not_processed(void **state)
{
	lk_client *own = open_client();
	lk_queue *of = NULL;
	expect(0, lk_queue_new(&of, 0, &err));
	expect(LK_EINVAL, lk_client_fd(own, &err));
	expect(LK_EINVAL, lk_client_process(own, &err));
	check_int(lk_client_due_ns(own, &err), ==, LK_EINVAL);
	expect(LK_EINVAL,
	       lk_queue_start(of, request_of(CLOSE, .client = own, .how = LK_CLOSE_ABANDON), NULL,
			      &err));
	expect(LK_EINVAL, lk_client_process(NULL, &err));
	expect(0, lk_queue_free(of, &err));
	close_client(own);
}

static void process_for_a_while(size_t index, void *argument)
{
	_Atomic int *refused = argument;
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
	begin(NULL, NULL);
	threads_start(&threads, 4, process_for_a_while, &refused);
	threads_join(&threads, 20000);
	check_int(refused, >, 0);
	end(LK_CLOSE_IF_IDLE);
}

static void test_a_forked_child(void **state)
{
	int status = 0;
	begin(NULL, NULL);
	pid_t child = fork();
	if (child == 0)
		_exit(lk_client_process(client, NULL) == LK_EFORKED &&
				      lk_client_fd(client, NULL) == LK_EFORKED &&
				      lk_queue_start(queue,
						     request_of(CLOSE, .client = client,
								.how = LK_CLOSE_ABANDON),
						     NULL, NULL) == LK_EFORKED
			      ? 0
			      : 1);
	waitpid(child, &status, 0);
	check_int(status, ==, 0);
	end(LK_CLOSE_IF_IDLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_one_thread_is_enough),
		api_test(test_renewals_come_from_the_program),
		api_test(test_a_program_that_sleeps_loses_its_lock),
		api_test(test_notices_come_through_the_queue),
		api_test(test_questions_through_the_queue),
		api_test(test_a_question_to_a_server_that_is_silent),
		api_test(test_an_idle_client_sleeps),
		api_test(test_a_start_is_due_at_once),
		api_test(test_one_call_does_a_part),
		api_test(test_one_call_sends_a_part),
		api_test(test_one_call_ends_a_part),
		api_test(test_what_is_left_can_be_ended),
		api_test(test_a_free_ends_what_is_left),
		api_test(test_connecting_does_not_block),
		api_test(test_a_silent_server_does_not_block),
		api_test(test_names),
		api_test(test_blocking_calls_are_refused),
		api_test(test_a_client_with_a_thread_is_not_processed),
		api_test(test_two_threads_process),
		api_test(test_a_forked_child),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
