/*
 * Opening plain streams: every way it can fail, inside its limit, and what a stream does then.
 *
 * getaddrinfo() is wrapped: "slow.test" does not answer before it is told to, "two.test" has an
 * address that swallows what is sent to it, and then a good one.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "conf/config.h"
#include "net/stream.h"
#include "opening.h"

#define LONG_MS 20000 /* never reached unless something hangs */
#define QUEUE_FILLERS 8

static sem_t slow_may_answer;
static _Atomic int slow_calls_left;
static int two_ports[2];

int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		       struct addrinfo **result);
int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		       struct addrinfo **result);

static void resolve_two(const struct addrinfo *hints, struct addrinfo **result)
{
	struct addrinfo *each[2];
	for (int i = 0; i < 2; i++) {
		char port[8];
		snprintf(port, sizeof(port), "%d", two_ports[i]);
		assert_int_equal(__real_getaddrinfo("127.0.0.1", port, hints, &each[i]), 0);
	}
	each[0]->ai_next = each[1];
	*result = each[0];
}

int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		       struct addrinfo **result)
{
	bool number = hints->ai_flags & AI_NUMERICHOST;
	if (strcmp(host, "two.test") == 0 && !number) {
		resolve_two(hints, result);
		return 0;
	}
	if (strcmp(host, "slow.test") == 0 && !number) {
		while (sem_wait(&slow_may_answer) != 0 && errno == EINTR)
			;
		int failed = __real_getaddrinfo("127.0.0.1", service, hints, result);
		slow_calls_left--;
		return failed;
	}
	return __real_getaddrinfo(host, service, hints, result);
}

struct listener {
	int fd;
	int port;
};

static struct listener listener_new(int backlog)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	struct listener listener = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), 0};
	assert_int_equal(bind(listener.fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(listener.fd, backlog), 0);
	assert_int_equal(getsockname(listener.fd, (struct sockaddr *)&address, &size), 0);
	listener.port = ntohs(address.sin_port);
	return listener;
}

/* A listener whose queue is full: the kernel drops every further SYN. */
struct blackhole {
	struct listener listener;
	int fillers[QUEUE_FILLERS];
	int filler_count;
};

static struct blackhole blackhole_new(void)
{
	struct blackhole hole = {.listener = listener_new(0)};
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				      .sin_port = htons((uint16_t)hole.listener.port)};
	bool full = false;
	while (!full && hole.filler_count < QUEUE_FILLERS) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		connect(fd, (struct sockaddr *)&address, sizeof(address));
		full = poll(&(struct pollfd){fd, POLLOUT, 0}, 1, 300) == 0;
		hole.fillers[hole.filler_count++] = fd;
	}
	assert_true(full);
	return hole;
}

static void blackhole_free(struct blackhole *hole)
{
	for (int i = 0; i < hole->filler_count; i++)
		close(hole->fillers[i]);
	close(hole->listener.fd);
}

static struct lk__stream *opened;
static lk_error error;

static int64_t open_within(const char *url, int64_t limit_ms, int cancel_fd, int wanted)
{
	lk_config *config = NULL;
	assert_int_equal(lk_config_new(&config, NULL), 0);
	assert_int_equal(lk_config_set(config, "url", url, &error), 0);
	memset(&error, 0, sizeof(error));
	opened = NULL;
	int64_t begun_ns = lk__now_ns();
	int code = open_stream(&opened, config, lk__after_ms(begun_ns, limit_ms), cancel_fd,
			       &error);
	int64_t ms = (lk__now_ns() - begun_ns) / LK__MS;
	print_message("%s: %d %s (%lld ms)\n", url, code, error.message, (long long)ms);
	assert_int_equal(code, wanted);
	assert_int_equal(error.code, wanted);
	assert_int_equal(opened != NULL, wanted == 0);
	lk_config_free(config);
	return ms;
}

static const char *url_of(const char *host, int port)
{
	static char url[128];
	snprintf(url, sizeof(url), "redis://%s:%d", host, port);
	return url;
}

static int option_of(int fd, int level, int name)
{
	int value = -1;
	socklen_t size = sizeof(value);
	assert_int_equal(getsockopt(fd, level, name, &value, &size), 0);
	return value;
}

static void test_a_tcp_stream_is_tuned(void **state)
{
	struct listener listener = listener_new(5);
	open_within(url_of("127.0.0.1", listener.port), LONG_MS, -1, 0);
	int fd = opened->fd;
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), 15);
	assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL), 5);
	assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 30000);
	lk__stream_close(opened);
	char url[160];
	snprintf(url, sizeof(url), "%s?keepalive_s=0", url_of("localhost", listener.port));
	open_within(url, LONG_MS, -1, 0);
	assert_int_equal(option_of(opened->fd, SOL_SOCKET, SO_KEEPALIVE), 0);
	lk__stream_close(opened);
	close(listener.fd);
	lk__stream_close(NULL);
}

static void test_bytes_go_both_ways_and_the_end_is_seen(void **state)
{
	char bytes[8] = "";
	char text[64];
	struct listener listener = listener_new(5);
	open_within(url_of("127.0.0.1", listener.port), LONG_MS, -1, 0);
	int peer = accept(listener.fd, NULL, NULL);
	assert_int_equal(lk__stream_read(opened, bytes, sizeof(bytes)), -EAGAIN);
	assert_int_equal(opened->wants, POLLIN);
	assert_int_equal(lk__stream_write(opened, "ping", 4), 4);
	assert_int_equal(recv(peer, bytes, 4, MSG_WAITALL), 4);
	assert_int_equal(send(peer, "pong", 4, 0), 4);
	assert_int_equal(poll(&(struct pollfd){opened->fd, opened->wants, 0}, 1, LONG_MS), 1);
	assert_int_equal(lk__stream_read(opened, bytes, sizeof(bytes)), 4);
	assert_memory_equal(bytes, "pong", 4);
	close(peer);
	assert_int_equal(poll(&(struct pollfd){opened->fd, POLLIN, 0}, 1, LONG_MS), 1);
	assert_int_equal(lk__stream_read(opened, bytes, sizeof(bytes)), 0);
	assert_int_equal(lk__stream_explain(opened, text, sizeof(text)), 0);
	assert_string_equal(text, "");
	lk__stream_close(opened);
	close(listener.fd);
}

static void test_writing_blocks_and_breaks_without_a_signal(void **state)
{
	static char much[1 << 16];
	struct listener listener = listener_new(5);
	open_within(url_of("127.0.0.1", listener.port), LONG_MS, -1, 0);
	int peer = accept(listener.fd, NULL, NULL);
	ssize_t wrote = 0;
	for (int i = 0; i < 10000 && wrote >= 0; i++)
		wrote = lk__stream_write(opened, much, sizeof(much));
	assert_int_equal(wrote, -EAGAIN);
	close(peer); /* with bytes unread: a reset */
	int64_t end_ns = lk__after_ms(lk__now_ns(), LONG_MS);
	while (wrote != -EPIPE && lk__now_ns() < end_ns)
		wrote = lk__stream_write(opened, much, sizeof(much));
	assert_int_equal(wrote, -EPIPE); /* and SIGPIPE would have ended the test */
	lk__stream_close(opened);
	close(listener.fd);
}

static void test_refused(void **state)
{
	struct listener listener = listener_new(5);
	close(listener.fd);
	open_within(url_of("127.0.0.1", listener.port), LONG_MS, -1, LK_EUNREACHABLE);
	assert_int_equal(error.system_errno, ECONNREFUSED);
	assert_non_null(strstr(error.message, "127.0.0.1:"));
	assert_non_null(strstr(error.message, "refused"));
	open_within(url_of("[::1]", listener.port), LONG_MS, -1, LK_EUNREACHABLE);
	assert_non_null(strstr(error.message, "[::1]:"));
}

static void test_blackhole_ends_at_the_deadline(void **state)
{
	struct blackhole hole = blackhole_new();
	int64_t ms = open_within(url_of("127.0.0.1", hole.listener.port), 200, -1, LK_EUNREACHABLE);
	assert_int_equal(error.system_errno, ETIMEDOUT);
	assert_true(ms >= 199 && ms < 5000);
	assert_true(open_within(url_of("127.0.0.1", hole.listener.port), 0, -1, LK_EUNREACHABLE) <
		    5000);
	blackhole_free(&hole);
}

static void test_the_next_address_gets_its_share(void **state)
{
	struct blackhole hole = blackhole_new();
	struct listener listener = listener_new(5);
	two_ports[0] = hole.listener.port;
	two_ports[1] = listener.port;
	int64_t ms = open_within("redis://two.test:1", 2000, -1, 0);
	assert_true(ms >= 999);
	lk__stream_close(opened);
	two_ports[0] = listener.port;
	open_within("redis://two.test:1", LONG_MS, -1, 0);
	lk__stream_close(opened);
	close(listener.fd);
	two_ports[0] = two_ports[1];
	open_within("redis://two.test:1", LONG_MS, -1, LK_EUNREACHABLE);
	assert_int_equal(error.system_errno, ECONNREFUSED);
	blackhole_free(&hole);
}

static void *cancel_soon(void *argument)
{
	poll(NULL, 0, 50); /* so that the connect is most likely under way */
	assert_int_equal(eventfd_write(*(int *)argument, 1), 0);
	return NULL;
}

static void assert_cancellable(const char *url)
{
	pthread_t thread;
	int fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &fd), 0);
	assert_true(open_within(url, LONG_MS, fd, LK_ECANCELLED) < LONG_MS);
	pthread_join(thread, NULL);
	assert_true(open_within(url, LONG_MS, fd, LK_ECANCELLED) < LONG_MS);
	close(fd);
}

static void test_cancel_ends_a_connect(void **state)
{
	struct blackhole hole = blackhole_new();
	assert_cancellable(url_of("127.0.0.1", hole.listener.port));
	blackhole_free(&hole);
}

static void let_lookups_end(int count)
{
	for (int i = 0; i < count; i++)
		sem_post(&slow_may_answer);
	int64_t end_ns = lk__after_ms(lk__now_ns(), LONG_MS);
	while (slow_calls_left > 0 && lk__now_ns() < end_ns)
		sched_yield();
	assert_int_equal(slow_calls_left, 0);
}

static void test_slow_names_end_at_deadline_and_cancel(void **state)
{
	slow_calls_left = 3;
	int64_t ms = open_within("redis://slow.test", 100, -1, LK_EUNREACHABLE);
	assert_int_equal(error.system_errno, ETIMEDOUT);
	assert_true(ms >= 99 && ms < 5000);
	assert_cancellable("redis://slow.test");
	let_lookups_end(3);
}

static void test_unknown_names_fail(void **state)
{
	open_within("redis://name.invalid", LONG_MS, -1, LK_EUNREACHABLE);
	assert_non_null(strstr(error.message, "name.invalid"));
}

static void ignore_signal(int number)
{
}

static void *send_signals(void *argument)
{
	for (int i = 0; i < 20; i++) {
		pthread_kill(*(pthread_t *)argument, SIGUSR1);
		poll(NULL, 0, 5);
	}
	return NULL;
}

static void test_signals_do_not_end_a_connect_early(void **state)
{
	struct sigaction action = {.sa_handler = ignore_signal};
	pthread_t thread;
	pthread_t self = pthread_self();
	struct blackhole hole = blackhole_new();
	sigaction(SIGUSR1, &action, NULL);
	assert_int_equal(pthread_create(&thread, NULL, send_signals, &self), 0);
	int64_t ms = open_within(url_of("127.0.0.1", hole.listener.port), 300, -1, LK_EUNREACHABLE);
	assert_true(ms >= 299);
	assert_int_equal(error.system_errno, ETIMEDOUT);
	pthread_join(thread, NULL);
	blackhole_free(&hole);
}

static void test_unix_sockets(void **state)
{
	char folder[] = "/tmp/lockkeeper-test-XXXXXX";
	char url[200];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	assert_non_null(mkdtemp(folder));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
	snprintf(url, sizeof(url), "unix://%s", address.sun_path);
	open_within(url, LONG_MS, -1, LK_EUNREACHABLE);
	assert_int_equal(error.system_errno, ENOENT);
	assert_non_null(strstr(error.message, address.sun_path));

	int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof(address)), 0);
	open_within(url, LONG_MS, -1, LK_EUNREACHABLE);
	assert_int_equal(error.system_errno, ECONNREFUSED);

	/* A full queue refuses with EAGAIN, and no event tells when there is room. */
	struct lk__stream *streams[QUEUE_FILLERS];
	int count = 0;
	assert_int_equal(listen(listening, 0), 0);
	open_within(url, LONG_MS, -1, 0);
	streams[count++] = opened;
	int64_t ms = open_within(url, 100, -1, LK_EUNREACHABLE);
	assert_true(ms < 5000);
	assert_cancellable(url);
	int peer = accept(listening, NULL, NULL);
	open_within(url, LONG_MS, -1, 0);
	streams[count++] = opened;
	while (count > 0)
		lk__stream_close(streams[--count]);
	close(peer);
	close(listening);
	unlink(address.sun_path);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_tcp_stream_is_tuned),
		cmocka_unit_test(test_bytes_go_both_ways_and_the_end_is_seen),
		cmocka_unit_test(test_writing_blocks_and_breaks_without_a_signal),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_blackhole_ends_at_the_deadline),
		cmocka_unit_test(test_the_next_address_gets_its_share),
		cmocka_unit_test(test_cancel_ends_a_connect),
		cmocka_unit_test(test_slow_names_end_at_deadline_and_cancel),
		cmocka_unit_test(test_unknown_names_fail),
		cmocka_unit_test(test_signals_do_not_end_a_connect_early),
		cmocka_unit_test(test_unix_sockets),
	};
	sem_init(&slow_may_answer, 0, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
