/* A connection that the loop makes, while its node moves: an attempt that leads to where the node
 * was is given up. The test takes the turns; servers are listeners that say nothing. */
#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockkeeper/config.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/node.h"
#include "net/stream.h"

#define LIMIT_MS 10000 /* a sixth of all limits and pauses of the connector */
#define ROUND 7        /* which the connector has asked for */

static struct lk__node node;
static struct lk__conn *conn;
static lk_config *config;
static int set_fd, events_count;
static struct lk__thread loop_thread;
static int place; /* the port where the node is; 0: that is not known yet */

static int finder_find(struct lk__finder *finder, struct lk_config *found, uint64_t *generation_out,
		       uint64_t *asked, int64_t deadline_ns, lk_error *error)
{
	(void)deadline_ns, (void)error;
	assert_true(*asked == 0 || *asked == ROUND);
	*asked = ROUND;
	if (!place)
		return 1;
	free(found->host);
	found->host = strdup("127.0.0.1");
	found->port = place;
	*generation_out = atomic_load(&finder->generation);
	return 0;
}

static void finder_suspect(struct lk__finder *finder)
{
	(void)finder;
}

static void finder_unref(struct lk__finder *finder)
{
	atomic_fetch_sub(&finder->refs, 1);
}

static const struct lk__finder_ops finder_ops = {
	.find = finder_find, .suspect = finder_suspect, .unref = finder_unref};
static struct lk__finder finder = {.ops = &finder_ops};

static void ignore(void *context)
{
	(void)context;
}

static void connecting(void *context)
{
	(void)context;
	events_count++;
}

static const struct lk__node_events events = {
	.attention = ignore, .lost = ignore, .up = ignore, .connecting = connecting};

static int listener_new(int *port_out)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	*port_out = ntohs(address.sin_port);
	return fd;
}

static void option(const char *name, const char *value)
{
	lk_error error;
	assert_int_equal(lk_config_set(config, name, value, &error), 0);
}

static int set_up(void **state)
{
	(void)state;
	lk_error error;
	assert_int_equal(lk_config_new(&config, &error), 0);
	option("url", "redis://127.0.0.1:1");
	option("connect_timeout_ms", "60000");
	option("backoff_min_ms", "60000");
	option("backoff_max_ms", "60000");
	config->threadless = true;
	memset(&node, 0, sizeof(node));
	assert_int_equal(lk__node_init(&node, config, &events, NULL, &error), 0);
	atomic_store(&finder.refs, 1);
	atomic_store(&finder.generation, 1);
	node.finder = &finder;
	atomic_store(&node.was_up, true);
	conn = node.scripts[0];
	conn->wanted = 1; /* somebody waits for it */
	set_fd = lk__set_new();
	place = 0;
	lk__conn_open(conn);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	conn->wanted = 0;
	lk__node_close(&node);
	lk__node_destroy(&node);
	close(set_fd);
	config = lk_config_free(config);
	assert_int_equal(atomic_load(&finder.refs), 1);
	return 0;
}

static bool is_called(int listener)
{
	struct pollfd fd = {.fd = listener, .events = POLLIN};
	return poll(&fd, 1, 1) == 1;
}

/* Turns, until there is a connection to it. */
static void comes_to(int listener)
{
	int64_t until_ns = lk__after_ms(lk__now_ns(), LIMIT_MS);
	do
		lk__conn_make_turn(conn, &loop_thread, set_fd);
	while (!is_called(listener) && lk__now_ns() < until_ns);
	assert_true(is_called(listener));
}

static void fails_once(void)
{
	for (int turns = 0; turns < 1000 && conn->failure_count == 0; turns++)
		lk__conn_make_turn(conn, &loop_thread, set_fd);
	assert_int_equal(conn->failure_count, 1);
}

static void moves_to(int port)
{
	place = port;
	atomic_fetch_add(&finder.generation, 1);
	lk__conn_disown(conn, "the master is elsewhere");
}

static void test_a_silent_server_is_left(void **state)
{
	(void)state;
	int old_port, new_port;
	int old = listener_new(&old_port), new = listener_new(&new_port);
	place = old_port;
	comes_to(old);
	lk__conn_make_turn(conn, &loop_thread, set_fd); /* waits for the greeting */
	moves_to(new_port);
	comes_to(new);
	close(old);
	close(new);
}

/* `wanted`: by callers, meanwhile; or by the next one. */
static void pause_ends(bool wanted)
{
	int old_port, new_port, before = events_count;
	int old = listener_new(&old_port), new = listener_new(&new_port);
	place = old_port;
	close(old);
	conn->wanted = wanted;
	fails_once();
	moves_to(new_port);
	assert_int_equal(events_count > before, wanted); /* a turn is due */
	if (!wanted)
		lk__conn_open(conn);
	comes_to(new);
	close(new);
}

static void test_a_pause_ends(void **state)
{
	(void)state;
	pause_ends(true);
}

static void test_a_pause_that_nobody_waits_for_ends(void **state)
{
	(void)state;
	pause_ends(false);
}

/* It has not been led anywhere: what it has asked for is known now. */
static void test_one_that_looks_asks_no_more(void **state)
{
	(void)state;
	int port;
	int listener = listener_new(&port);
	assert_true(lk__conn_make_turn(conn, &loop_thread, set_fd) > lk__now_ns());
	moves_to(port);
	comes_to(listener);
	close(listener);
}

/* Answers the greeting of the connection that comes next. The caller closes what is returned. */
static int greets(int listener)
{
	static const char *const answers[][2] = {{"ROLE", "*1\r\n$6\r\nmaster\r\n"},
						 {"SETNAME", "+OK\r\n"},
						 {"TIME", "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"},
						 {"EXISTS", "*0\r\n"},
						 {"HELLO", "-ERR unknown command\r\n"}};
	char said[8192] = "";
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	ssize_t size = 0;
	while (!strstr(said, "HELLO")) {
		lk__conn_make_turn(conn, &loop_thread, set_fd);
		ssize_t got = recv(fd, said + size, sizeof(said) - 1 - (size_t)size, MSG_DONTWAIT);
		size += got > 0 ? got : 0;
		said[size] = '\0';
	}
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (strstr(said, answers[i][0]))
			assert_true(send(fd, answers[i][1], strlen(answers[i][1]), 0) > 0);
	return fd;
}

/* What was waited for last may be a descriptor that is closed by now, and another's. */
static void test_one_that_is_closed_meanwhile_waits_for_nothing(void **state)
{
	(void)state;
	struct lk__readiness step = {0};
	int listener = listener_new(&place), fd;
	comes_to(listener);
	fd = greets(listener);
	conn->state = LK__CONN_CLOSED; /* as lk__conn_close() begins, while another takes steps */
	int64_t until_ns = lk__after_ms(lk__now_ns(), LIMIT_MS);
	do
		assert_true(lk__connector_step(conn->connector, &step));
	while (step.fd >= 0 && lk__now_ns() < until_ns);
	assert_int_equal(step.fd, -1);
	close(fd);
	close(listener);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_a_silent_server_is_left),
		TEST(test_a_pause_ends),
		TEST(test_a_pause_that_nobody_waits_for_ends),
		TEST(test_one_that_looks_asks_no_more),
		TEST(test_one_that_is_closed_meanwhile_waits_for_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
