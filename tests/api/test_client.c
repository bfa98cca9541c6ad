/* The client and its connections: how it reaches a server, and what it says when it does not. */
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fixture.h"

static void check_works(lk_client *client)
{
	own_lock *lock = new_lock(client, "works");
	expect(0, lk_client_ping(client, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	close_client(client);
}

static bool has_ipv6(void)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	address.sin6_port = htons((uint16_t)server.port);
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool reached = fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof(address));
	if (fd >= 0)
		close(fd);
	return reached;
}

static void test_unix_tcp_and_ipv6(void **state)
{
	char url[128];
	check_works(open_client());
	check_works(open_client_at(server.url_tcp, ""));
	snprintf(url, sizeof(url), "redis://localhost:%d", server.port);
	check_works(open_client_at(url, ""));
	if (has_ipv6()) {
		snprintf(url, sizeof(url), "redis://[::1]:%d/2", server.port);
		check_works(open_client_at(url, ""));
	}
	check_works(open_client_at(server.url_tcp, "spin_us=0 connections=3 keepalive_s=0"));
}

static void test_open_from_url_and_environment(void **state)
{
	lk_client *client = NULL;
	expect(0, lk_client_open(&client, server.url_tcp, &err));
	check_works(client);
	setenv("LOCKKEEPER_URL", server.url_unix, 1);
	setenv("LOCKKEEPER_CLIENT_NAME", "from-environment", 1);
	expect(0, lk_client_open(&client, NULL, &err));
	expect(0, lk_client_ping(client, &err));
	check_int(redis_clients(&server, "from-environment"), ==, 1);
	check_works(client);
	unsetenv("LOCKKEEPER_CLIENT_NAME");
	unsetenv("LOCKKEEPER_URL");
	client = NULL;
	expect(LK_EINVAL, lk_client_open(&client, NULL, &err));
	check(client == NULL);
}

static void test_a_ping_that_connects_asks_once(void **state)
{
	own_client *client = open_client();
	redis_do(&server, "CONFIG RESETSTAT");
	expect(0, lk_client_ping(client, &err));
	check_int(redis_info(&server, "commandstats", "cmdstat_time:calls="), ==, 1);
	expect(0, lk_client_ping(client, &err));
	check_int(redis_info(&server, "commandstats", "cmdstat_time:calls="), ==, 2);
}

static void test_id_is_a_random_uuid(void **state)
{
	own_client *first = open_client(), *second = open_client();
	const char *id = lk_client_id(first);
	check_int(strlen(id), ==, 36);
	check_int(strspn(id, "0123456789abcdef-"), ==, 36);
	check(id[8] == '-' && id[13] == '-' && id[18] == '-' && id[23] == '-');
	check(id[14] == '4' && strchr("89ab", id[19]) != NULL);
	check(strcmp(id, lk_client_id(second)) != 0);
}

static void test_node_has_no_secrets(void **state)
{
	char url[128];
	snprintf(url, sizeof(url), "redis://user:sesame@127.0.0.1:%d/1", server.port);
	own_client *client = open_client_at(url, "");
	check(strstr(lk_client_node(client), "127.0.0.1") != NULL);
	check(!strstr(lk_client_node(client), "sesame"));
	expect(LK_EAUTH, lk_client_ping(client, &err));
	check(!strstr(err.message, "sesame"));
}

static void test_refused(void **state)
{
	lk_client *client = open_client_at("redis://127.0.0.1:1", "");
	lk_lock *lock = new_lock(client, "refused");
	int64_t start_ms = now_ms();
	expect(LK_EUNREACHABLE, lk_client_ping(client, &err));
	check(strstr(err.message, "127.0.0.1:1") != NULL);
	check_int(err.system_errno, ==, ECONNREFUSED);
	expect(LK_EUNREACHABLE, lk_lock_acquire(lock, 0, NULL, &err));
	expect(LK_EUNREACHABLE,
	       lk_lock_acquire(lock, -1, NULL, &err)); /* the first fails at once */
	check_int(now_ms() - start_ms, <=, slow_ms(3000));
	expect(LK_EUNREACHABLE, lk_lock_acquire(lock, 100, NULL, &err));
	check_int(stats_of(client).failures, ==, 3);
	lk_lock_free(lock);
	close_client(client);
	client = open_client_at("unix:///nonexistent/socket", "");
	expect(LK_EUNREACHABLE, lk_client_ping(client, &err));
	check(strstr(err.message, "/nonexistent/socket") != NULL);
	check_int(err.system_errno, ==, ENOENT);
	close_client(client);
}

/* A listener that never accepts, and its URL. */
static int silent_peer(char url[64])
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	check(listen(fd, 5) == 0);
	check(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
	snprintf(url, 64, "redis://127.0.0.1:%d", ntohs(address.sin_port));
	return fd;
}

/* The connect limit holds although the kernel says connected. */
static void test_silent_peer(void **state)
{
	char url[64];
	int fd = silent_peer(url);
	lk_client *client = open_client_at(url, "connect_timeout_ms=300 command_timeout_ms=300");
	int64_t start_ms = now_ms();
	expect(LK_EUNREACHABLE, lk_client_ping(client, &err));
	check_int(now_ms() - start_ms, >=, 290);
	check_int(now_ms() - start_ms, <=, slow_ms(3000));
	close_client(client);
	close(fd);
}

static int thread_count(void)
{
	int count = 0;
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *at; (at = readdir(tasks));)
		count += at->d_name[0] != '.';
	closedir(tasks);
	return count;
}

static void ping_fails(size_t index, void *argument)
{
	lk_error error;
	check_int(lk_client_ping(argument, &error), ==, LK_EUNREACHABLE);
}

static bool is_called(int listener)
{
	struct pollfd fd = {.fd = listener, .events = POLLIN};
	return poll(&fd, 1, 0) == 1;
}

/* Its caller makes the connection. */
static void test_connecting_takes_no_thread(void **state)
{
	char url[64];
	struct threads threads;
	int fd = silent_peer(url), before = thread_count();
	lk_client *client = open_client_at(url, "connect_timeout_ms=1000");
	threads_start(&threads, 1, ping_fails, client);
	wait_until(is_called(fd), 5000);
	check_int(thread_count(), ==, before + 1);
	threads_join(&threads, 20000);
	close_client(client);
	close(fd);
}

/* Its caller has left before the server says a word. */
static void test_connecting_goes_on_without_its_caller(void **state)
{
	lk_error error;
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "left");
	server_pause(&server);
	check_int(lk_lock_acquire(lock, 50, NULL, &error), <, 0);
	check_int(stats_of(client).connects, ==, 0);
	server_resume(&server);
	wait_until(stats_of(client).connects == 1, 10000);
}

static void test_passwords_and_rights(void **state)
{
	char url[160];
	redis_do(&server, "ACL SETUSER app on >p@ss ~app:* &* +@all -@dangerous +info");
	redis_do(&server, "ACL SETUSER none on >p@ss");
	snprintf(url, sizeof(url), "redis://app:p%%40ss@127.0.0.1:%d", server.port);
	lk_client *client = open_client_at(url, "");
	lk_lock *allowed = new_lock(client, "app:1"), *denied = new_lock(client, "other");
	expect(0, lk_lock_acquire(allowed, -1, NULL, &err));
	expect(0, lk_lock_release(allowed, NULL, &err));
	expect(LK_EDENIED, lk_lock_acquire(denied, 0, NULL, &err));
	expect(LK_EDENIED, lk_lock_acquire(denied, -1, NULL, &err));
	expect(LK_EDENIED, lk_lock_extend(denied, 60000, extend_of("other:1"), &err));
	check(!strstr(err.message, "p@ss"));
	lk_lock_free(allowed);
	lk_lock_free(denied);
	close_client(client);
	client = open_client_at(server.url_unix, "username=app password=wrong");
	expect(LK_EAUTH, lk_client_ping(client, &err));
	check(!strstr(err.message, "wrong-"));
	close_client(client);
	client = open_client_at(server.url_unix, "username=nobody password=x");
	expect(LK_EAUTH, lk_client_ping(client, &err));
	close_client(client);
	client = open_client_at(server.url_unix, "username=none password=p@ss");
	expect(LK_EDENIED, lk_client_ping(client, &err));
	close_client(client);
	redis_do(&server, "ACL DELUSER app none");
}

static void test_a_server_with_a_password(void **state)
{
	struct server guarded;
	server_start(&guarded, (const char *[]){"--requirepass", "sesame", NULL});
	lk_client *client = open_client_at(guarded.url_unix, "");
	expect(LK_EAUTH, lk_client_ping(client, &err));
	close_client(client);
	client = open_client_at(guarded.url_unix, "password=sesam");
	expect(LK_EAUTH, lk_client_ping(client, &err));
	check(!strstr(err.message, "sesam"));
	close_client(client);
	check_works(open_client_at(guarded.url_unix, "password=sesame"));
	server_stop(&guarded);
}

static void test_database(void **state)
{
	lk_client *client = open_client_with("database=5"), *bare = open_client();
	lk_lock *lock = new_lock(client, "database"), *same = new_lock(bare, "database");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	check_int(redis_integer(&server, "DBSIZE"), ==, 0);
	check_int(redis_info(&server, "keyspace", "db5:keys="), ==, 1);
	expect(0, lk_lock_acquire(same, 0, NULL, &err));
	expect(0, lk_lock_release(same, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	lk_lock_free(same);
	close_client(client);
	close_client(bare);
	client = open_client_with("database=9999");
	check_int(lk_client_ping(client, &err), <, 0);
	check(strstr(err.message, "DB index") != NULL || strstr(err.message, "9999") != NULL);
	close_client(client);
}

struct crowd {
	lk_client *client;
	_Atomic size_t most;
};

static void work_on_own_name(size_t index, void *argument)
{
	struct crowd *crowd = argument;
	char name[32];
	snprintf(name, sizeof(name), "crowd-%zu", index);
	own_lock *lock = new_lock(crowd->client, name), *shared = new_lock(crowd->client, "crowd");
	for (int i = 0; i < 30; i++) {
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		expect(0, lk_lock_acquire(shared, -1, NULL, &err));
		expect(0, lk_lock_release(shared, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
	}
}

/* One for messages, one for the watchdog, and one. */
static void test_three_connections_at_most(void **state)
{
	struct crowd crowd = {
		.client = open_client_with("client_name=crowd watchdog_ms=300 connections=1")};
	struct threads threads;
	size_t most = 0;
	bool done = false;
	threads_start(&threads, 64, work_on_own_name, &crowd);
	while (!done) {
		size_t now = redis_clients(&server, "crowd");
		most = now > most ? now : most;
		done = true;
		for (size_t i = 0; i < 64; i++)
			done = done && thread_done(&threads, i);
	}
	threads_join(&threads, 60000);
	check(most >= 1 && most <= 3);
	check_int(stats_of(crowd.client).connects, <=, 3);
	close_client(crowd.client);
	wait_until(redis_clients(&server, "crowd") == 0, 5000);
}

/* ---- a crowd has more connections than one thread ---- */

struct many {
	lk_client *client;
	_Atomic bool over;
};

static void work_until_over(size_t index, void *argument)
{
	struct many *many = argument;
	lk_acquire_options lease = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options no_wait = LK_RELEASE_OPTIONS_INIT;
	char name[32];
	snprintf(name, sizeof(name), "many-%zu", index);
	own_lock *lock = new_lock(many->client, name);
	no_wait.no_wait = true;
	lease.lease_ms = 20000; /* which nobody renews: without a connection for that */
	for (int i = 0; i < 100 || !many->over; i++) {
		/* Nobody else wants it: the next try comes behind the release. */
		expect(0, lk_lock_acquire(lock, 0, &lease, &err));
		expect(0, lk_lock_release(lock, i % 3 ? NULL : &no_wait, &err));
	}
}

static void test_a_crowd_has_more_connections(void **state)
{
	struct many many = {.client = open_client_with("client_name=many")};
	struct threads threads;
	threads_start(&threads, 5, work_until_over, &many);
	wait_until(stats_of(many.client).connects == 4, 20000);
	many.over = true;
	threads_join(&threads, 60000);
	check_int(redis_clients(&server, "many"), ==, 4);
	check_int(stats_of(many.client).connects, ==, 4);
	check_int(stats_of(many.client).disconnects, ==, 0);
	close_client(many.client);
	wait_until(redis_clients(&server, "many") == 0, 5000);
}

/* Each sets the same option; a later one prevails. */
static const struct {
	const char *query, *option, *variable; /* "" or NULL: not there */
	size_t connections;
} sources[] = {
	{"&connections=2", NULL, NULL, 2},
	{"", "2", NULL, 2},
	{"", NULL, "2", 2},
	{"&connections=4", "2", NULL, 2},
	{"&connections=1", NULL, "2", 2},
	{"", "1", "3", 3},
};

static lk_client *open_client_from(size_t source)
{
	lk_client *client = NULL;
	lk_config *config = NULL;
	char url[512];
	snprintf(url, sizeof(url), "%s?client_name=source%s", server.url_unix,
		 sources[source].query);
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", url, &err));
	if (sources[source].option)
		expect(0, lk_config_set(config, "connections", sources[source].option, &err));
	if (sources[source].variable) {
		setenv("LOCKKEEPER_CONNECTIONS", sources[source].variable, 1);
		expect(0, lk_config_load_environment(config, &err));
		unsetenv("LOCKKEEPER_CONNECTIONS");
	}
	expect(0, lk_client_new(&client, config, &err));
	lk_config_free(config);
	return client;
}

static void test_connections_from_each_source(void **state)
{
	for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
		struct many many = {.client = open_client_from(i)};
		struct threads threads;
		threads_start(&threads, 5, work_until_over, &many);
		wait_until(redis_clients(&server, "source") == sources[i].connections, 20000);
		/* As many calls again as have opened them open no more. */
		uint64_t acquires = stats_of(many.client).acquires;
		wait_until(stats_of(many.client).acquires > 2 * acquires + 1000, 20000);
		many.over = true;
		threads_join(&threads, 60000);
		check_int(stats_of(many.client).connects, ==, sources[i].connections);
		close_client(many.client);
		wait_until(redis_clients(&server, "source") == 0, 5000);
	}
}

static void test_one_thread_has_one_connection(void **state)
{
	struct many many = {.client = open_client_with("client_name=lone"), .over = true};
	for (int i = 0; i < 20; i++)
		work_until_over(0, &many);
	check_int(stats_of(many.client).connects, ==, 1);
	close_client(many.client);
}

static void work_until_told(size_t index, void *argument)
{
	struct crowd *crowd = argument;
	char name[32];
	snprintf(name, sizeof(name), "kill-%zu", index % 4);
	lk_lock *lock = new_lock(crowd->client, name);
	for (int i = 0; i < 300; i++) {
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
	}
	lk_lock_free(lock);
	crowd->most++;
}

static void test_client_kill_fails_no_call(void **state)
{
	struct crowd crowd = {.client = open_client()};
	struct threads threads;
	expect(0, lk_client_ping(crowd.client, &err));
	threads_start(&threads, 8, work_until_told, &crowd);
	for (int kills = 0; crowd.most < 8 && kills < 200; kills++) {
		redis_do(&server, "CLIENT KILL TYPE normal SKIPME yes");
		redis_do(&server, "CLIENT KILL TYPE pubsub SKIPME yes");
		sleep_ms(20);
	}
	threads_join(&threads, 60000);
	check_int(stats_of(crowd.client).disconnects, >, 0);
	close_client(crowd.client);
}

/* A server that closes idle connections: the next call goes through all the same. */
static void test_idle_connections_closed_by_the_server(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "idle");
	redis_do(&server, "CONFIG SET timeout 1");
	for (int i = 0; i < 2; i++) {
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
		wait_until(redis_clients(&server, "lockkeeper") == 0, 20000);
		expect(0, lk_lock_acquire(lock, 0, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
		expect(0, lk_client_ping(client, &err));
	}
	redis_do(&server, "CONFIG SET timeout 0");
	check_int(stats_of(client).failures, ==, 0);
}

/* The library's own call: this thread reads late what has come. */
_Thread_local int slow_reads_ms; /* not static: where recv() is an inline function, clang minds */
_Atomic bool reads;

ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
	if (slow_reads_ms) {
		reads = true;
		sleep_ms(slow_reads_ms);
	}
	return syscall(SYS_recvfrom, fd, bytes, size, flags, NULL, NULL);
}

static void kill_while_it_reads(size_t index, void *argument)
{
	wait_until(reads, 20000);
	redis_do(&server, "CLIENT KILL TYPE normal SKIPME yes");
}

/* The background thread hears of the end while a caller is about to read its last answer. */
static void test_an_end_behind_an_answer_is_noticed(void **state)
{
	own_client *client = open_client();
	struct threads threads;
	lk_lock *lock = new_lock(client, "works");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err)); /* which starts the background thread */
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	threads_start(&threads, 1, kill_while_it_reads, NULL);
	slow_reads_ms = slow_ms(200);
	expect(0, lk_client_ping(client, &err));
	slow_reads_ms = 0;
	threads_join(&threads, 20000);
	wait_until(stats_of(client).disconnects == 1, 5000);
}

static void test_a_restarted_server(void **state)
{
	own_client *client = open_client_with("watchdog_ms=%lld", slow_ms(3000));
	own_lock *lock = new_lock(client, "restart"), *other = new_lock(client, "other");
	lk_event event = LK_EVENT_INIT;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	server_kill(&server);
	int code = lk_lock_acquire(other, slow_ms(200), NULL, &err);
	check(code == LK_EUNREACHABLE || code == LK_EMAYBEHELD); /* a try may have left */
	server_start_again(&server);
	expect(0, lk_lock_acquire(other, slow_ms(10000), NULL, &err));
	expect(0, lk_lock_release(other, NULL, &err));
	/* Its data are gone, and with them our lock. */
	check_int(next_event(client, &event, 10000), ==, LK_EVENT_LOST);
	check(!strcmp(event.name, "restart"));
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
}

static void wait_through(size_t index, void *argument)
{
	expect(0, lk_lock_acquire(argument, -1, NULL, &err));
	expect(0, lk_lock_release(argument, NULL, &err));
}

static void wait_long(size_t index, void *argument)
{
	expect(0, lk_lock_acquire(argument, slow_ms(15000), NULL, &err));
	expect(0, lk_lock_release(argument, NULL, &err));
}

static void test_a_wait_outlives_a_restart(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "outlive");
	struct threads threads;
	/* A server that was never reached would fail them at once. */
	expect(0, lk_client_ping(client, &err));
	stranger_takes("outlive", slow_ms(120000));
	threads_start(&threads, 4, wait_through, lock);
	wait_until(stats_of(client).waiting == 4 && stats_of(client).busy > 0, 5000);
	server_kill(&server);
	server_start_again(&server); /* the stranger's lock is gone: the waiters get it */
	threads_join(&threads, 30000);
}

static void check_unreachable(lk_lock *lock)
{
	int64_t start_ms = now_ms();
	int code = lk_lock_acquire(lock, -1, NULL, &err);
	check_int(now_ms() - start_ms, >=, slow_ms(100) - 1);
	if (code != LK_EUNREACHABLE && code != LK_EMAYBEHELD)
		check_fail(__FILE__, __LINE__, "%d %s", code, err.message);
}

/* retry_ms bounds a wait without limit only, and each wait anew. */
static void test_a_wait_limit_outlasts_retry_ms(void **state)
{
	own_client *client = open_client_with("retry_ms=%lld", slow_ms(100));
	own_lock *lock = new_lock(client, "longer");
	expect(0, lk_client_ping(client, &err));
	server_kill(&server);
	check_unreachable(lock);
	struct threads threads;
	threads_start(&threads, 1, wait_long, lock);
	sleep_ms(slow_ms(400));
	check(!thread_done(&threads, 0));
	server_start_again(&server);
	threads_join(&threads, 20000);
	server_kill(&server);
	for (int i = 0; i < 3; i++)
		check_unreachable(lock);
	server_start_again(&server);
	wait_until(lk_lock_acquire(lock, -1, NULL, &err) == 0, 10000);
	expect(0, lk_lock_release(lock, NULL, &err));
}

static void test_scripts_flushed(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "flush");
	for (int i = 0; i < 20; i++) {
		redis_do(&server, "SCRIPT FLUSH");
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		redis_do(&server, "SCRIPT FLUSH");
		expect(0, lk_lock_release(lock, NULL, &err));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_unix_tcp_and_ipv6),
		api_test(test_open_from_url_and_environment),
		api_test(test_a_ping_that_connects_asks_once),
		api_test(test_id_is_a_random_uuid),
		api_test(test_node_has_no_secrets),
		api_test(test_refused),
		api_test(test_silent_peer),
		api_test(test_connecting_takes_no_thread),
		api_test(test_connecting_goes_on_without_its_caller),
		api_test(test_passwords_and_rights),
		api_test(test_a_server_with_a_password),
		api_test(test_database),
		api_test(test_three_connections_at_most),
		api_test(test_a_crowd_has_more_connections),
		api_test(test_connections_from_each_source),
		api_test(test_one_thread_has_one_connection),
		api_test(test_client_kill_fails_no_call),
		api_test(test_idle_connections_closed_by_the_server),
		api_test(test_an_end_behind_an_answer_is_noticed),
		api_test(test_a_restarted_server),
		api_test(test_a_wait_outlives_a_restart),
		api_test(test_a_wait_limit_outlasts_retry_ms),
		api_test(test_scripts_flushed),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
