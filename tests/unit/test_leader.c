/* Who reads a connection, and how: over a pair of sockets, whose other end is the test's. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <lockkeeper/config.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/node.h"
#include "net/stream.h"
#include "resp/reader.h"

static struct lk__node node;
static struct lk__conn *conn;
static int server_fd;         /* what the server reads and writes */
static int64_t read_takes_ns; /* each read: the core is somebody else's meanwhile */
static lk_config *config;
static struct lk__callers callers;
static struct lk__thread threads[2];

static ssize_t stream_read(struct lk__stream *stream, void *bytes, size_t size)
{
	struct timespec pause = {.tv_nsec = read_takes_ns};
	nanosleep(&pause, NULL);
	ssize_t got = recv(stream->fd, bytes, size, MSG_DONTWAIT);
	return got < 0 ? -errno : got;
}

static ssize_t stream_write(struct lk__stream *stream, const void *bytes, size_t size)
{
	ssize_t wrote = send(stream->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	return wrote < 0 ? -errno : wrote;
}

static void stream_close(struct lk__stream *stream)
{
	close(stream->fd);
}

static const struct lk__stream_ops stream_ops = {
	.read = stream_read, .write = stream_write, .close = stream_close};
static struct lk__stream stream = {.ops = &stream_ops, .wants = POLLIN};

static void ignore(void *context)
{
	(void)context;
}

static const struct lk__node_events events = {.attention = ignore, .lost = ignore, .up = ignore};

static int set_up(void **state)
{
	(void)state;
	lk_error error;
	int fds[2];
	read_takes_ns = 0;
	memset(&callers, 0, sizeof(callers));
	memset(threads, 0, sizeof(threads));
	threads[0].callers = threads[1].callers = &callers;
	assert_int_equal(lk_config_new(&config, &error), 0);
	assert_int_equal(lk_config_set(config, "url", "redis://nowhere.test", &error), 0);
	memset(&node, 0, sizeof(node));
	assert_int_equal(lk__node_init(&node, config, &events, NULL, &error), 0);
	node.can_spin = true;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	stream.fd = fds[0];
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
	(void)state;
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
	return conn->spin.hits || conn->spin.misses;
}

static void test_a_lone_caller_spins(void **state)
{
	(void)state;
	call();
	assert_true(spun());
}

static void test_nobody_spins_beside_another_caller(void **state)
{
	(void)state;
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
	(void)state;
	threads[0].callers = NULL;
	atomic_store(&callers.mixed_ns, lk__now_ns());
	call();
	assert_true(spun());
}

/* The core was another's: for some calls, and for more each time. */
static void test_who_loses_its_core_spins_no_more(void **state)
{
	(void)state;
	read_takes_ns = 2 * LK__MS;
	int pause = 0;
	for (unsigned misses = 1; misses < 5; misses++) {
		conn->spin.pause = 0;
		call();
		assert_int_equal(conn->spin.misses, misses);
		assert_true(conn->spin.pause > pause);
		pause = conn->spin.pause;
	}
	call();
	assert_int_equal(conn->spin.misses, 4);
	assert_int_equal(conn->spin.pause, pause - 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_a_lone_caller_spins),
		TEST(test_nobody_spins_beside_another_caller),
		TEST(test_a_caller_of_another_client_is_no_company),
		TEST(test_who_loses_its_core_spins_no_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
