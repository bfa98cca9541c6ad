/* The multi lock: all or none, on one server in one script, on several at once. */
#include "fixture.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FEW 3

struct set {
	lk_client *client;
	lk_lock *part[FEW];
	lk_lock *all;
};

static void open_set(struct set *set, lk_client *client, const char *const *names)
{
	set->client = client;
	for (size_t i = 0; i < FEW; i++)
		set->part[i] = new_lock(client, names[i]);
	expect(0, lk_multi_lock_new(&set->all, set->part, FEW, &err));
}

static void close_set(struct set *set)
{
	lk_lock_free(set->all);
	for (size_t i = 0; i < FEW; i++)
		lk_lock_free(set->part[i]);
	close_client(set->client);
}

static const char *const abc[] = {"a", "b", "c"};

static long long scripts(void)
{
	return redis_info(&server, "commandstats", "cmdstat_evalsha:calls=");
}

static void test_one_script_takes_and_one_frees(void **state)
{
	struct set set;
	open_set(&set, open_client(), abc);
	expect(0, lk_client_ping(set.client, &err));
	long long before = scripts();
	expect(0, lk_lock_acquire(set.all, -1, NULL, &err));
	check_int(scripts() - before, ==, 1);
	check_int(redis_integer(&server, "DBSIZE"), ==, 3);
	char fields[FEW][LK_FIELD_SIZE];
	for (size_t i = 0; i < FEW; i++) {
		check(redis_field(&server, abc[i], 1, fields[i], LK_FIELD_SIZE));
		check(!strcmp(fields[i], fields[0]));
		expect(1, lk_lock_is_held(set.part[i], NULL, &err));
		long long ttl_ms = redis_integer(&server, "PTTL %s", abc[i]);
		check(ttl_ms > 20000 && ttl_ms <= 30000);
	}
	expect(1, lk_lock_is_held(set.all, NULL, &err));
	expect(1, lk_lock_hold_count(set.all, NULL, &err));
	check_int(remaining(set.all, NULL), >, 20000);
	expect(0, lk_lock_release(set.all, NULL, &err));
	check_int(scripts() - before, ==, 2);
	check_int(redis_integer(&server, "DBSIZE"), ==, 0);
	expect(LK_ENOTOWNER, lk_lock_release(set.all, NULL, &err));
	close_set(&set);
}

static void test_a_part_held_already_is_counted(void **state)
{
	struct set set;
	open_set(&set, open_client(), abc);
	expect(0, lk_lock_acquire(set.part[1], -1, NULL, &err));
	expect(0, lk_lock_acquire(set.all, -1, NULL, &err));
	expect(2, lk_lock_hold_count(set.part[1], NULL, &err));
	expect(1, lk_lock_hold_count(set.all, NULL, &err));
	expect(0, lk_lock_acquire(set.all, -1, NULL, &err));
	expect(2, lk_lock_hold_count(set.all, NULL, &err));
	expect(0, lk_lock_acquire(set.part[0], -1, NULL, &err));
	expect(3, lk_lock_hold_count(set.part[0], NULL, &err));
	expect(0, lk_lock_release(set.part[0], NULL, &err));
	expect(0, lk_lock_release(set.all, NULL, &err));
	expect(0, lk_lock_release(set.all, NULL, &err));
	check_int(redis_integer(&server, "DBSIZE"), ==, 1);
	expect(0, lk_lock_release(set.part[1], NULL, &err));
	close_set(&set);
}

static void test_a_lost_part_is_reported(void **state)
{
	struct set set;
	lk_event event = LK_EVENT_INIT;
	open_set(&set, open_client_with("watchdog_ms=%lld", slow_ms(600)), abc);
	expect(0, lk_lock_acquire(set.all, -1, NULL, &err));
	redis_do(&server, "DEL b");
	check_int(next_event(set.client, &event, 5000), ==, LK_EVENT_LOST);
	check(!strcmp(event.name, "b"));
	check_int(event.code, ==, LK_ELOST);
	check(*event.server && !strcmp(event.server, event.node));
	expect(0, lk_lock_is_held(set.all, NULL, &err));
	expect(LK_ELOST, lk_lock_acquire(set.all, -1, NULL, &err));
	expect(LK_ELOST, lk_lock_extend(set.all, 5000, NULL, &err));
	check_int(remaining(set.all, NULL), ==, LK_ELOST);
	expect(LK_ELOST, lk_lock_release(set.all, NULL, &err));
	check_int(redis_integer(&server, "DBSIZE"), ==, 0);
	expect(0, lk_lock_acquire(set.all, -1, NULL, &err));
	expect(0, lk_lock_release(set.all, NULL, &err));
	close_set(&set);
}

static void test_two_servers(void **state)
{
	own_client *here = open_client(), *there = open_client_at(other_server.url_unix, "");
	lk_lock *part[2] = {new_lock(here, "x"), new_lock(there, "x")};
	lk_lock *all;
	expect(0, lk_multi_lock_new(&all, part, 2, &err));
	expect(0, lk_lock_acquire(all, -1, NULL, &err));
	check_int(redis_integer(&server, "EXISTS x"), ==, 1);
	check_int(redis_integer(&other_server, "EXISTS x"), ==, 1);
	expect(0, lk_lock_release(all, NULL, &err));
	check_int(redis_integer(&server, "EXISTS x"), ==, 0);
	check_int(redis_integer(&other_server, "EXISTS x"), ==, 0);
	redis_do(&other_server, "HSET x stranger:1 1");
	redis_do(&other_server, "PEXPIRE x 60000");
	expect(LK_EBUSY, lk_lock_acquire(all, 0, NULL, &err));
	check_int(redis_integer(&server, "EXISTS x"), ==, 0);
	expect(LK_ETIMEDOUT, lk_lock_acquire(all, slow_ms(200), NULL, &err));
	check_int(redis_integer(&server, "EXISTS x"), ==, 0);
	redis_do(&other_server, "DEL x");
	lk_lock_free(all);
	lk_lock_free(part[0]);
	lk_lock_free(part[1]);
}

/* Lets anyone connect, and says nothing. In the order of all it comes behind `server`. */
struct silence {
	int fd;
	char path[108], url[128];
};

static void silence_start(struct silence *silence)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(silence->path, sizeof(silence->path), "%s~", server.socket);
	snprintf(silence->url, sizeof(silence->url), "%s~", server.url_unix);
	memcpy(address.sun_path, silence->path, sizeof(silence->path));
	silence->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check_int(bind(silence->fd, (struct sockaddr *)&address, sizeof(address)), ==, 0);
	check_int(listen(silence->fd, 16), ==, 0);
}

static bool silence_reached(const struct silence *silence)
{
	struct pollfd at = {.fd = silence->fd, .events = POLLIN};
	return poll(&at, 1, 0) == 1;
}

static void silence_stop(struct silence *silence)
{
	close(silence->fd);
	unlink(silence->path);
}

/* One lock on each of two servers. */
struct pair {
	lk_client *here, *there;
	lk_lock *part[2];
	lk_lock *all;
	lk_cancel *cancel;
};

static void open_pair(struct pair *pair, lk_client *here, lk_client *there)
{
	pair->here = here;
	pair->there = there;
	pair->part[0] = new_lock(here, "x");
	pair->part[1] = new_lock(there, "x");
	expect(0, lk_multi_lock_new(&pair->all, pair->part, 2, &err));
	expect(0, lk_cancel_new(&pair->cancel, &err));
}

static void close_pair(struct pair *pair)
{
	lk_lock_free(pair->all);
	lk_lock_free(pair->part[0]);
	lk_lock_free(pair->part[1]);
	lk_cancel_free(pair->cancel);
	close_client(pair->here);
	close_client(pair->there);
}

static void acquire_till_cancelled(size_t index, void *argument)
{
	struct pair *pair = argument;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.cancel = pair->cancel;
	options.owner = "owner";
	expect(LK_ECANCELLED, lk_lock_acquire(pair->all, -1, &options, &err));
}

static void cancel_soon(struct pair *pair, struct threads *caller)
{
	int64_t begun_ms = now_ms();
	lk_cancel_now(pair->cancel);
	threads_join(caller, 30000);
	check_int(now_ms() - begun_ms, <, slow_ms(2000));
}

static void acquire_in_vain(size_t index, void *argument)
{
	struct pair *pair = argument;
	int rc = lk_lock_acquire(pair->all, -1, NULL, &err);
	check(rc == LK_EUNREACHABLE || rc == LK_EMAYBEHELD);
}

/* Another has one of them for ten minutes, and its server dies, or says nothing any more. */
static void wait_without_a_server(void (*end)(struct server *server))
{
	struct pair pair;
	struct threads caller;
	char config[96];
	snprintf(config, sizeof(config), "retry_ms=%lld command_timeout_ms=%lld", slow_ms(500),
		 slow_ms(300));
	open_pair(&pair, open_client(), open_client_at(other_server.url_unix, config));
	redis_do(&other_server, "HSET x stranger:1 1");
	redis_do(&other_server, "PEXPIRE x 600000");
	threads_start(&caller, 1, acquire_in_vain, &pair);
	wait_until(stats_of(pair.there).waiting == 1 && stats_of(pair.there).busy > 1, 5000);
	end(&other_server);
	threads_join(&caller, 20000);
	check_int(redis_integer(&server, "EXISTS x"), ==, 0);
	if (!other_server.pid)
		server_start_again(&other_server);
	server_resume(&other_server);
	redis_do(&other_server, "DEL x");
	close_pair(&pair);
}

static void test_a_wait_without_limit_ends_with_its_server(void **state)
{
	wait_without_a_server(server_kill);
	wait_without_a_server(server_pause);
}

static void test_a_cancel_ends_a_call_that_connects(void **state)
{
	struct silence silence;
	struct pair pair;
	struct threads caller;
	silence_start(&silence);
	open_pair(&pair, open_client(), open_client_at(silence.url, ""));
	threads_start(&caller, 1, acquire_till_cancelled, &pair);
	wait_until(silence_reached(&silence), 5000);
	cancel_soon(&pair, &caller);
	close_pair(&pair);
	silence_stop(&silence);
}

/* While the second server is connected to, nobody has the lock on the first, or waits for it. */
static void test_a_connecting_call_delays_nobody(void **state)
{
	struct silence silence;
	struct pair pair;
	struct threads caller;
	lk_acquire_options another = LK_ACQUIRE_OPTIONS_INIT;
	another.owner = "another";
	silence_start(&silence);
	open_pair(&pair, open_client(), open_client_at(silence.url, "connect_timeout_ms=30000"));
	threads_start(&caller, 1, acquire_till_cancelled, &pair);
	wait_until(silence_reached(&silence), 5000);
	expect(0, is_locked(pair.part[0], &err));
	expect(0, lk_lock_acquire(pair.part[0], 0, NULL, &err));
	expect(LK_EBUSY,
	       lk_lock_acquire(pair.all, 0, &another, &err)); /* told without a connection */
	expect(0, lk_lock_release(pair.part[0], NULL, &err));
	expect(0, lk_lock_acquire(pair.part[0], slow_ms(2000), NULL, &err));
	expect(0, lk_lock_release(pair.part[0], NULL, &err));
	cancel_soon(&pair, &caller);
	close_pair(&pair);
	silence_stop(&silence);
}

static void test_a_release_that_is_never_sent_may_be_held(void **state)
{
	struct pair pair;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = slow_ms(800);
	open_pair(&pair, open_client(), open_client_at(other_server.url_unix, ""));
	expect(0, lk_lock_acquire(pair.all, -1, &options, &err));
	server_kill(&other_server);
	expect(LK_EMAYBEHELD, lk_lock_release(pair.all, NULL, &err));
	check(strstr(err.message, "not sent") != NULL);
	expect(LK_ENOTOWNER, lk_lock_release(pair.all, NULL, &err));
	check_int(redis_integer(&server, "EXISTS x"), ==, 0);
	server_start_again(&other_server);
	close_pair(&pair);
}

static void test_bad_input(void **state)
{
	struct set set;
	lk_client *client = open_client(), *second = open_client();
	open_set(&set, client, abc);
	lk_lock *plain, *out = NULL, *twin = new_lock(second, "a");
	char field[LK_FIELD_SIZE];
	expect(0, lk_plain_lock_new(&plain, client, "p", 1, NULL, &err));
	lk_lock *twice[] = {set.part[0], set.part[1], set.part[0]};
	lk_lock *mixed[] = {set.part[0], plain};
	lk_lock *nested[] = {set.all};
	lk_lock *same[] = {set.part[0], twin};
	lk_lock *none[] = {set.part[0], NULL};
	expect(LK_EINVAL, lk_multi_lock_new(&out, twice, 3, &err));
	check(strstr(err.message, "\"a\"") != NULL);
	expect(LK_EINVAL, lk_multi_lock_new(&out, mixed, 2, &err));
	check(strstr(err.message, "plain lock") != NULL);
	expect(LK_EINVAL, lk_multi_lock_new(&out, nested, 1, &err));
	expect(LK_EINVAL, lk_multi_lock_new(&out, same, 2, &err));
	expect(LK_EINVAL, lk_multi_lock_new(&out, none, 2, &err));
	expect(LK_EINVAL, lk_multi_lock_new(&out, set.part, 0, &err));
	expect(LK_EINVAL, lk_multi_lock_new(&out, set.part, LK_MULTI_LOCK_MAX + 1, &err));
	expect(LK_EINVAL, lk_multi_lock_new(NULL, set.part, 1, &err));
	check(out == NULL);
	expect(LK_EINVAL, lk_lock_export(set.all, NULL, field, sizeof(field), &err));
	expect(LK_EINVAL, is_held_by(set.all, "f", &err));
	expect(LK_EINVAL, lk_lock_release(set.all, release_of("f"), &err));
	redis_do(&server, "SET b text");
	expect(LK_EWRONGTYPE, lk_lock_acquire(set.all, 0, NULL, &err));
	redis_do(&server, "DEL b");
	check_int(redis_integer(&server, "DBSIZE"), ==, 0);
	lk_lock_free(plain);
	lk_lock_free(twin);
	close_client(second);
	close_set(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_one_script_takes_and_one_frees),
		api_test(test_a_part_held_already_is_counted),
		api_test(test_a_lost_part_is_reported),
		api_test(test_two_servers),
		api_test(test_a_wait_without_limit_ends_with_its_server),
		api_test(test_a_cancel_ends_a_call_that_connects),
		api_test(test_a_connecting_call_delays_nobody),
		api_test(test_a_release_that_is_never_sent_may_be_held),
		api_test(test_bad_input),
	};
	return cmocka_run_group_tests(tests, start_both, stop_both);
}
