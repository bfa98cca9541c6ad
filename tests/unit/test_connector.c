/* A connection that the loop makes, while its node moves: an attempt that leads to where the node
 * was is given up; and while a server says nothing to it. The test takes the turns; servers are
 * listeners that say nothing. */
#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockkeeper/config.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/connector.h"
#include "conn/node.h"
#include "net/stream.h"

#define LIMIT_MS 10000           /* a sixth of all limits and pauses of the connector */
#define NEEDED_NS (300 * LK__MS) /* an answer is needed by then, from now */
#define ROUND 7                  /* which the connector has asked for */

static struct lk__node node;
static struct lk__conn *conn;
static lk_config *config;
static int set_fd, events_count;
static struct lk__thread loop_thread;
static const char *scheme = "redis";
static int place; /* the port where the node is; 0: that is not known yet */

static int finder_find(struct lk__finder *finder, struct lk_config *found, uint64_t *generation_out,
		       uint64_t *asked, int64_t deadline_ns, lk_error *error)
{
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
}

static void connecting(void *context)
{
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
	lk_error error;
	assert_int_equal(lk_config_new(&config, &error), 0);
	char url[32];
	snprintf(url, sizeof(url), "%s://127.0.0.1:1", scheme);
	option("url", url);
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
	lk__node_disown(&node, "the master is elsewhere");
}

static void test_a_silent_server_is_left(void **state)
{
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
	pause_ends(true);
}

static void test_a_pause_that_nobody_waits_for_ends(void **state)
{
	pause_ends(false);
}

/* It has not been led anywhere: what it has asked for is known now. */
static void test_one_that_looks_asks_no_more(void **state)
{
	int port;
	int listener = listener_new(&port);
	assert_true(lk__conn_make_turn(conn, &loop_thread, set_fd) > lk__now_ns());
	moves_to(port);
	comes_to(listener);
	close(listener);
}

static int accepts(int listener)
{
	return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

static void greets(int fd)
{
	static const char *const answers[][2] = {{"ROLE", "*1\r\n$6\r\nmaster\r\n"},
						 {"SETNAME", "+OK\r\n"},
						 {"TIME", "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"},
						 {"EXISTS", "*0\r\n"},
						 {"HELLO", "-ERR unknown command\r\n"}};
	char said[8192] = "";
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
}

/* What was waited for last may be a descriptor that is closed by now, and another's. */
static void test_one_that_is_closed_meanwhile_waits_for_nothing(void **state)
{
	struct lk__readiness waits[LK__CONNECTOR_WAITS] = {{0}};
	int listener = listener_new(&place), fd;
	comes_to(listener);
	fd = accepts(listener);
	greets(fd);
	conn->state = LK__CONN_CLOSED; /* as lk__conn_close() begins, while another takes steps */
	int64_t until_ns = lk__after_ms(lk__now_ns(), LIMIT_MS);
	do
		assert_true(lk__connector_step(conn->connector, waits));
	while (waits[0].fd >= 0 && lk__now_ns() < until_ns);
	assert_int_equal(waits[0].fd, -1);
	assert_int_equal(waits[1].fd, -1);
	close(fd);
	close(listener);
}

/* ---- a handshake that is not answered ---- */

/* A request in flight whose answer is needed then. */
static void needs(int64_t until_ns)
{
	struct lk__request *request = lk__request_new(1, (const char *[]){"PING"}, (size_t[]){4});
	request->finish = lk__request_forget;
	request->resend = true;
	request->deadline_ns = lk__after_ms(lk__now_ns(), 60000);
	request->needed_ns = until_ns;
	lk__conn_put(conn, request);
}

/* The other side has closed it, after what it said. */
static bool is_ended(int fd)
{
	char said[8192];
	ssize_t got = 1;
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	while (got > 0 && poll(&polled, 1, LIMIT_MS) == 1)
		got = recv(fd, said, sizeof(said), 0);
	return got <= 0;
}

/* Nothing is said to the first of two attempts, which is doubted: the probe is made. That is
 * greeted, which leads to the second. */
static void comes_twice(int listener, int fds[2])
{
	comes_to(listener);
	fds[0] = accepts(listener);
	needs(lk__now_ns() + 4 * NEEDED_NS); /* a busy machine greets it within what is left */
	int64_t until_ns = lk__after_ms(lk__now_ns(), LIMIT_MS);
	while (node.probe.state == LK__CONN_DOWN && lk__now_ns() < until_ns)
		lk__conn_make_turn(conn, &loop_thread, set_fd);
	assert_int_equal(node.probe.state, LK__CONN_CONNECTING);
	assert_false(is_called(listener));
	int before = events_count;
	atomic_store(&node.greeted_ns, lk__now_ns());
	atomic_store(&node.judges, true);
	lk__node_turn(&node, lk__now_ns());
	assert_true(events_count > before); /* a turn is due */
	comes_to(listener);
	fds[1] = accepts(listener);
}

static void comes_up_over(bool second)
{
	int listener = listener_new(&place), fds[2];
	comes_twice(listener, fds);
	greets(fds[second]);
	int64_t until_ns = lk__after_ms(lk__now_ns(), LIMIT_MS);
	while (conn->state != LK__CONN_UP && lk__now_ns() < until_ns)
		lk__conn_make_turn(conn, &loop_thread, set_fd);
	assert_int_equal(conn->state, LK__CONN_UP);
	assert_true(is_ended(fds[!second]));
	assert_int_equal(conn->failure_count, 0);
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	close(listener);
}

static void test_a_forgotten_handshake_is_made_again(void **state)
{
	comes_up_over(true);
}

static void test_a_slow_server_answers_the_first(void **state)
{
	comes_up_over(false);
}

/* Each attempt comes when three times as much time has passed. */
static void test_a_probe_is_made_seldomer_each_time(void **state)
{
	conn->wanted = 0;
	conn = &node.probe;
	int listener = listener_new(&place), fds[32], calls = 0, most = 1;
	int64_t now_ns, begun_ns = lk__now_ns(), end_ns = begun_ns + 5 * NEEDED_NS;
	lk__node_try(&node, begun_ns + NEEDED_NS);
	while ((now_ns = lk__now_ns()) < end_ns) {
		lk__conn_make_turn(conn, &loop_thread, set_fd);
		if (calls < (int)COUNT(fds) && is_called(listener))
			fds[calls++] = accepts(listener);
	}
	for (int64_t at_ns = NEEDED_NS / 4; at_ns < now_ns - begun_ns; at_ns *= 3)
		most++;
	assert_between(calls, 2, most);
	while (calls > 0)
		close(fds[--calls]);
	close(listener);
}

static int set_up_tls(void **state)
{
	scheme = "rediss";
	int rc = set_up(state);
	scheme = "redis";
	return rc;
}

static void test_a_forgotten_tls_handshake_is_made_again(void **state)
{
	needs_openssl();
	int listener = listener_new(&place), fds[2];
	comes_twice(listener, fds);
	for (int i = 0; i < 2; i++)
		close(fds[i]);
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
		TEST(test_a_forgotten_handshake_is_made_again),
		TEST(test_a_slow_server_answers_the_first),
		TEST(test_a_probe_is_made_seldomer_each_time),
		cmocka_unit_test_setup_teardown(test_a_forgotten_tls_handshake_is_made_again,
						set_up_tls, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
