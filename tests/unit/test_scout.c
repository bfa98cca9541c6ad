/* What is asked about a deployment, when a link is forgotten: over listeners that say nothing. The
 * test takes the turns. */
#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockkeeper/config.h>

#include "base/clock.h"
#include "base/door.h"
#include "conf/config.h"
#include "topo/scout.h"

#define LIMIT_MS 10000

static struct lk__scout *scout;
static lk_config *config;
static int set_fd, listener;
static size_t answers;

static int ask(struct lk__scout *asking, struct lk__peer *peer, bool first)
{
	return lk__link_say(&peer->ask, "PING", LK__SAY("PING"));
}

static bool answered(struct lk__scout *asking, struct lk__peer *peer, const char *what,
		     const redisReply *reply)
{
	answers++;
	return true;
}

static bool judge(struct lk__scout *asking, bool over, lk_error *error)
{
	return over;
}

static const struct lk__scout_ops ops = {.ask = ask, .answered = answered, .judge = judge};

static int set_up(const char *scheme)
{
	lk_error error;
	char url[64];
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(listener, 5), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	snprintf(url, sizeof(url), "%s://127.0.0.1:%d/name", scheme, ntohs(address.sin_port));
	assert_int_equal(lk_config_new(&config, &error), 0);
	assert_int_equal(lk_config_set(config, "url", url, &error), 0);
	config->threadless = true;
	answers = 0;
	set_fd = lk__set_new();
	return lk__scout_new(&scout, &ops, NULL, lk__config_copy(config), config, &error);
}

static int set_up_plain(void **state)
{
	return set_up("redis-sentinel");
}

static int set_up_tls(void **state)
{
	return set_up("rediss-sentinel");
}

static int tear_down(void **state)
{
	lk__scout_stop(scout);
	lk__scout_unref(scout);
	config = lk_config_free(config);
	close(set_fd);
	close(listener);
	return 0;
}

static void begin(void)
{
	lk_error error;
	uint64_t asked = 0;
	assert_int_equal(
		lk__scout_await(scout, &asked, lk__after_ms(lk__now_ns(), LIMIT_MS), &error), 1);
}

/* Turns until it is called. */
static int called(void)
{
	struct pollfd polled = {.fd = listener, .events = POLLIN};
	int64_t until_ns = lk__after_ms(lk__now_ns(), LIMIT_MS);
	do
		lk__scout_turn(scout, set_fd);
	while (poll(&polled, 1, 1) == 0 && lk__now_ns() < until_ns);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(fd >= 0);
	return fd;
}

/* Nothing is said on the first, and the same round makes a second. */
static void calls_twice(int fds[2])
{
	begin();
	fds[0] = called();
	uint64_t round = lk__scout_round(scout);
	fds[1] = called();
	assert_int_equal(lk__scout_round(scout), round);
}

static void test_a_new_link_that_is_forgotten_is_made_again(void **state)
{
	int fds[2];
	calls_twice(fds);
	assert_int_equal(send(fds[1], "+PONG\r\n", 7, 0), 7);
	int64_t until_ns = lk__after_ms(lk__now_ns(), LIMIT_MS);
	while (answers == 0 && lk__now_ns() < until_ns)
		lk__scout_turn(scout, set_fd);
	assert_int_equal(answers, 1);
	assert_true(lk__scout_has_answered(scout, lk__scout_peer(scout, 0)));
	close(fds[0]);
	close(fds[1]);
}

static void test_a_tls_handshake_that_is_forgotten_is_made_again(void **state)
{
	needs_openssl();
	int fds[2];
	calls_twice(fds);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_new_link_that_is_forgotten_is_made_again,
						set_up_plain, tear_down),
		cmocka_unit_test_setup_teardown(
			test_a_tls_handshake_that_is_forgotten_is_made_again, set_up_tls,
			tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
