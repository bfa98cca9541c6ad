/* Who reads a connection, and how: over a pair of sockets, whose other end is the test's. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include <lockkeeper/config.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/node.h"
#include "net/stream.h"
#include "resp/reply.h"

static struct lk__node node;
static struct lk__conn *conn;
static int client_fd;
static int server_fd;         /* what the server reads and writes */
static int64_t read_takes_ns; /* each read: the core is somebody else's meanwhile */
static lk_config *config;
static struct lk__callers callers;
static struct lk__thread threads[3];
static _Atomic bool in_read; /* second_comes(), once, while somebody reads */

static void second_comes(void);

static ssize_t stream_read(struct lk__stream *stream, void *bytes, size_t size)
{
	if (atomic_exchange(&in_read, false))
		second_comes();
	struct timespec pause = {.tv_nsec = read_takes_ns};
	nanosleep(&pause, NULL);
	ssize_t got = recv(client_fd, bytes, size, MSG_DONTWAIT);
	return got < 0 ? -errno : got;
}

static ssize_t stream_write(struct lk__stream *stream, const void *bytes, size_t size)
{
	ssize_t wrote = send(client_fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	return wrote < 0 ? -errno : wrote;
}

static void stream_close(struct lk__stream *stream)
{
	close(client_fd);
}

static const struct lk__stream_ops stream_ops = {
	.read = stream_read, .write = stream_write, .close = stream_close};
static struct lk__stream stream = {.ops = &stream_ops, .wants = POLLIN};

static void ignore(void *context)
{
}

static const struct lk__node_events events = {
	.attention = ignore, .lost = ignore, .up = ignore, .connecting = ignore};

static int set_up(void **state)
{
	lk_error error;
	int fds[2];
	read_takes_ns = 0;
	in_read = false;
	memset(&callers, 0, sizeof(callers));
	memset(threads, 0, sizeof(threads));
	for (size_t i = 0; i < COUNT(threads); i++)
		threads[i].callers = &callers;
	assert_int_equal(lk_config_new(&config, &error), 0);
	assert_int_equal(lk_config_set(config, "url", "redis://nowhere.test", &error), 0);
	config->command_timeout_ms = 600000; /* nothing breaks meanwhile */
	memset(&node, 0, sizeof(node));
	assert_int_equal(lk__node_init(&node, config, &events, NULL, &error), 0);
	node.can_spin = true;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	stream.fd = client_fd = fds[0];
	server_fd = fds[1];
	conn = node.scripts[0];
	conn->stream = &stream;
	conn->reader = lk__reader_new();
	conn->state = LK__CONN_UP;
	atomic_store(&node.asked_ns, lk__now_ns()); /* as a handshake does */
	return 0;
}

static int tear_down(void **state)
{
	lk__node_close(&node);
	lk__node_destroy(&node);
	close(server_fd);
	config = lk_config_free(config);
	return 0;
}

static struct lk__request *command(void)
{
	struct lk__request *request = lk__request_new(1, (const char *[]){"PING"}, (size_t[]){4});
	request->deadline_ns = LK__NEVER;
	return request;
}

/* A call of the first thread's, which the server answers in time. */
static void call(void)
{
	struct lk__request *request = command();
	lk__callers_note(&callers, &threads[0]);
	atomic_store(&node.asked_ns, lk__now_ns()); /* no TIME goes before it */
	assert_int_equal(send(server_fd, "+PONG\r\n", 7, 0), 7);
	assert_int_equal(
		lk__conn_call(conn, request, &threads[0], lk__now_ns() + 60000 * LK__MS, NULL),
		LK__WAIT_READY);
	assert_int_equal(request->code, 0);
	lk__request_free(request);
}

/* ---- spinning ---- */

static bool spun(void)
{
	return conn->spin.credit || conn->spin.misses;
}

static void test_a_lone_caller_spins(void **state)
{
	call();
	assert_true(spun());
}

static void test_nobody_spins_beside_another_caller(void **state)
{
	call();
	conn->spin = (struct lk__spin){0};
	lk__callers_note(&callers, &threads[1]); /* it is on its way */
	assert_true(atomic_load(&callers.mixed_ns) > 0);
	atomic_fetch_add(&callers.mixed_ns, 60000 * LK__MS); /* whatever this machine does */
	call();
	assert_false(spun());
	atomic_store(&callers.last, &threads[0]);
	atomic_store(&callers.mixed_ns, lk__now_ns() - LK__ALONE_NS);
	call();
	assert_true(spun());
}

static void test_a_caller_of_another_client_is_no_company(void **state)
{
	threads[0].callers = NULL;
	atomic_store(&callers.mixed_ns, lk__now_ns());
	call();
	assert_true(spun());
}

/* The core was another's: for some calls, and for more each time. */
static void test_who_loses_its_core_spins_no_more(void **state)
{
	read_takes_ns = 2 * LK__MS;
	int pause = 0;
	for (unsigned misses = 1; misses <= 6; misses++) {
		conn->spin.pause = 0;
		call();
		assert_int_equal(conn->spin.misses, misses);
		assert_true(conn->spin.pause > pause);
		pause = conn->spin.pause;
	}
	call();
	assert_int_equal(conn->spin.misses, 6);
	assert_int_equal(conn->spin.pause, pause - 1);
}

/* A burst of work elsewhere is no reason to spin less for long. */
static void test_a_pause_is_short_where_spinning_has_paid_since(void **state)
{
	conn->spin.misses = 6;
	int calls = 0;
	while (conn->spin.misses && calls < 10000) { /* a busy machine has misses of its own */
		conn->spin.pause = 0;
		call();
		calls++;
	}
	assert_int_equal(conn->spin.misses, 0);
	conn->spin.credit = 0;
	read_takes_ns = 2 * LK__MS;
	call();
	assert_int_equal(conn->spin.misses, 1);
	assert_in_range(conn->spin.pause, 1, 100);
}

/* ---- who leads ---- */

struct caller {
	struct lk__thread *thread;
	pthread_t pthread;
	int rc, code;
	char said[16];
};

static void *caller_main(void *argument)
{
	struct caller *caller = argument;
	struct lk__request *request = command();
	caller->rc = lk__conn_call(conn, request, caller->thread, lk__now_ns() + 60000 * LK__MS,
				   NULL);
	caller->code = request->code;
	if (request->reply)
		snprintf(caller->said, sizeof(caller->said), "%s", request->reply->str);
	lk__request_free(request);
	return NULL;
}

static void start(struct caller *caller, size_t index)
{
	*caller = (struct caller){.thread = &threads[index]};
	assert_int_equal(pthread_create(&caller->pthread, NULL, caller_main, caller), 0);
}

static void end(struct caller *caller, const char *said)
{
	assert_int_equal(pthread_join(caller->pthread, NULL), 0);
	assert_int_equal(caller->rc, LK__WAIT_READY);
	assert_int_equal(caller->code, 0);
	assert_string_equal(caller->said, said);
}

/* Until so many callers wait there, and one of them sleeps on the socket. */
static void await_waits(int count, bool asleep)
{
	struct timespec pause = {.tv_nsec = 1000000};
	for (int looks = 0; looks < 30000; looks++) {
		struct lk__wait *wait;
		int found = 0;
		pthread_mutex_lock(&conn->mutex);
		DL_FOREACH(conn->waits, wait)
		found++;
		bool there = found == count && (!asleep || atomic_load(&conn->asleep));
		pthread_mutex_unlock(&conn->mutex);
		if (there)
			return;
		nanosleep(&pause, NULL);
	}
	fail_msg("no %d callers wait", count);
}

static void server_says(const char *text)
{
	assert_int_equal(send(server_fd, text, strlen(text), 0), strlen(text));
}

/* Waits until the server has got so many commands. */
static void server_gets(size_t commands)
{
	char bytes[1024];
	size_t got = 0, size = commands * strlen("*1\r\n$4\r\nPING\r\n");
	while (got < size) {
		struct pollfd fd = {.fd = server_fd, .events = POLLIN};
		assert_int_equal(poll(&fd, 1, 30000), 1);
		ssize_t more = recv(server_fd, bytes, sizeof(bytes), 0);
		assert_true(more > 0);
		got += (size_t)more;
	}
	assert_int_equal(got, size);
}

/* It has no core: the kernel has woken it, and it does not run. */
static void no_core(struct lk__thread *thread)
{
}

/* It sleeps on the socket, and nothing wakes it, as if it had no core. */
static void test_a_follower_reads_in_place_of_a_leader_without_a_core(void **state)
{
	struct caller leader, follower;
	int silent[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, silent), 0);
	node.can_spin = false;
	stream.fd = silent[0];
	start(&leader, 0);
	await_waits(1, true);
	start(&follower, 1);
	await_waits(2, true);
	server_gets(2);
	server_says("+one\r\n+two\r\n");
	end(&follower, "two");
	end(&leader, "one");
	assert_int_equal(node.counters.disconnects, 0);
	close(silent[0]);
	close(silent[1]);
}

/* The next has no core: whoever comes after a while leads, for it as well. */
static void test_nobody_waits_for_the_next_leader_to_run(void **state)
{
	struct caller leader, next, newcomer;
	node.can_spin = false;
	conn->trip_ns = 60000 * LK__MS; /* a follower waits long before it looks */
	start(&leader, 0);
	await_waits(1, true);
	threads[1].on_wake = no_core;
	start(&next, 1);
	await_waits(2, true);
	server_says("+one\r\n");
	end(&leader, "one");
	pthread_mutex_lock(&conn->mutex);
	assert_ptr_equal(conn->next_leader->thread, &threads[1]);
	conn->appointed_ns -= 100000 * LK__MS; /* longer than usual */
	pthread_mutex_unlock(&conn->mutex);
	start(&newcomer, 2);
	server_gets(3);
	server_says("+two\r\n+three\r\n");
	end(&newcomer, "three");
	await_waits(0, false);
	lk__park_wake(&threads[1].park); /* it runs again */
	end(&next, "two");
}

static struct caller second;

/* It leaves its bytes to the leader, who is awake, and is parked. */
static void second_comes(void)
{
	struct timespec pause = {.tv_nsec = 1000000};
	threads[1].on_wake = no_core;
	start(&second, 1);
	await_waits(2, false);
	while (atomic_load(&threads[1].park.state) == 0)
		nanosleep(&pause, NULL);
}

static void test_what_was_left_to_a_leader_leaves_with_it(void **state)
{
	struct caller first;
	node.can_spin = false;
	conn->trip_ns = 60000 * LK__MS;
	start(&first, 0);
	await_waits(1, true);
	in_read = true;
	server_says("+one\r\n");
	end(&first, "one");
	server_gets(2);
	server_says("+two\r\n");
	lk__park_wake(&threads[1].park); /* it runs again */
	end(&second, "two");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_a_lone_caller_spins),
		TEST(test_nobody_spins_beside_another_caller),
		TEST(test_a_caller_of_another_client_is_no_company),
		TEST(test_who_loses_its_core_spins_no_more),
		TEST(test_a_pause_is_short_where_spinning_has_paid_since),
		TEST(test_a_follower_reads_in_place_of_a_leader_without_a_core),
		TEST(test_nobody_waits_for_the_next_leader_to_run),
		TEST(test_what_was_left_to_a_leader_leaves_with_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
