/* The fair lock by its interface: order, waiters that leave, and what every lock can do. */
#include "fixture.h"

#define MANY 40

static lk_lock *new_fair(lk_client *client, const char *name)
{
	lk_lock *lock = NULL;
	expect(0, lk_fair_lock_new(&lock, client, name, strlen(name), &err));
	return lock;
}

struct pair {
	lk_client *first, *second;
	lk_lock *one, *two;
	lk_cancel *cancel;
	size_t order[MANY];
	_Atomic size_t served;
	int64_t wait_ms, lease_ms;
	int code;
};

static struct pair open_pair(void)
{
	struct pair pair = {.first = open_client(), .second = open_client()};
	pair.one = new_fair(pair.first, "fair");
	pair.two = new_fair(pair.second, "fair");
	return pair;
}

static void close_pair(struct pair *pair)
{
	lk_lock_free(pair->one);
	lk_lock_free(pair->two);
	close_client(pair->first);
	close_client(pair->second);
}

static void test_reentry_costs_no_command(void **state)
{
	struct pair pair = open_pair();
	expect(0, lk_lock_acquire(pair.one, -1, NULL, &err));
	uint64_t commands = stats_of(pair.first).commands;
	for (int i = 0; i < 10; i++)
		expect(0, lk_lock_acquire(pair.one, -1, NULL, &err));
	expect(11, lk_lock_hold_count(pair.one, NULL, &err));
	for (int i = 0; i < 10; i++)
		expect(0, lk_lock_release(pair.one, NULL, &err));
	check_int(stats_of(pair.first).commands, ==, commands);
	expect(0, lk_lock_release(pair.one, NULL, &err));
	close_pair(&pair);
}

static void test_excludes_the_reentrant_lock(void **state)
{
	struct pair pair = open_pair();
	lk_lock *other = new_lock(pair.second, "fair");
	expect(0, lk_lock_acquire(pair.one, -1, NULL, &err));
	expect(LK_EBUSY, lk_lock_acquire(other, 0, NULL, &err));
	expect(0, lk_lock_release(pair.one, NULL, &err));
	expect(0, lk_lock_acquire(other, -1, NULL, &err));
	expect(LK_EBUSY, lk_lock_acquire(pair.one, 0, NULL, &err));
	expect(0, lk_lock_release(other, NULL, &err));
	lk_lock_free(other);
	close_pair(&pair);
}

static void test_other_types_are_refused(void **state)
{
	struct pair pair = open_pair();
	redis_do(&server, "HSET fair mode read stranger:1 1");
	expect(LK_EWRONGTYPE, lk_lock_acquire(pair.one, -1, NULL, &err));
	check(strstr(err.message, "is a read/write lock, not a fair lock") != NULL);
	expect(LK_EWRONGTYPE, lk_lock_acquire(pair.one, 0, NULL, &err));
	redis_do(&server, "DEL fair");
	redis_do(&server, "SET fair text");
	expect(LK_EWRONGTYPE, lk_lock_acquire(pair.one, 1000, NULL, &err));
	redis_do(&server, "DEL fair");
	close_pair(&pair);
}

static void test_who_gives_up_on_another_type_leaves_the_queue(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_queue *queue = NULL;
	lk_completion completion = LK_COMPLETION_INIT;
	uint64_t id = 0;
	struct pair pair = open_pair();
	options.owner = "one";
	expect(0, lk_lock_acquire(pair.one, -1, NULL, &err));
	expect(0, lk_queue_new(&queue, 0, &err));
	expect(0, lk_queue_start(
			  queue,
			  request_of(ACQUIRE, .lock = pair.two, .wait_ms = -1, .acquire = &options),
			  &id, &err));
	wait_until(redis_integer(&server, "LLEN redisson_lock_queue:{fair}") == 1, slow_ms(10000));
	redis_do(&server, "SET fair data");
	lk_queue_cancel(queue, id, &err);
	expect(1, lk_queue_take(queue, &completion, 1, slow_ms(10000), &err));
	check_int(completion.error.code, !=, 0);
	wait_until(redis_integer(&server, "LLEN redisson_lock_queue:{fair}") == 0, slow_ms(10000));
	redis_do(&server, "DEL fair");
	lk_lock_release(pair.one, NULL, &err);
	expect(0, lk_queue_free(queue, &err));
	close_pair(&pair);
}

static void test_names_of_other_slots_are_refused(void **state)
{
	static const char *const bad[] = {"a}b", "a{b", "{}", "x{}y", "}{"};
	static const char *const good[] = {"a", "{a}", "a{b}c", "ü", "a b"};
	lk_client *client = open_client();
	lk_lock *lock = NULL;
	for (size_t i = 0; i < COUNT(bad); i++)
		expect(LK_EINVAL, lk_fair_lock_new(&lock, client, bad[i], strlen(bad[i]), &err));
	check(lock == NULL);
	expect(LK_EINVAL, lk_fair_lock_new(NULL, client, "a", 1, &err));
	expect(LK_EINVAL, lk_fair_lock_new(&lock, NULL, "a", 1, &err));
	expect(LK_EINVAL, lk_fair_lock_new(&lock, client, NULL, 1, &err));
	expect(LK_EINVAL, lk_fair_lock_new(&lock, client, "a", 0, &err));
	expect(LK_EINVAL, lk_fair_lock_new(&lock, client, good[0], LK_NAME_SIZE_MAX + 1, &err));
	for (size_t i = 0; i < COUNT(good); i++) {
		lock = new_fair(client, good[i]);
		expect(0, lk_lock_acquire(lock, 0, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
		lk_lock_free(lock);
	}
	close_client(client);
	client = open_client_with("key_prefix=app{1}:");
	lock = new_fair(client, "a}b");
	expect(0, lk_lock_acquire(lock, 0, NULL, &err));
	check_int(redis_integer(&server, "EXISTS app{1}:a}b"), ==, 1);
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	close_client(client);
}

#define HEIRS 3
#define HEIR_LEASE_MS 60000

struct heirs {
	lk_client *client;
	lk_lock *lock;
};

/* All wait under one name, in one queue: the next takes over the place in the server's queue. */
static void inherit_place(size_t index, void *argument)
{
	struct heirs *heirs = argument;
	const int64_t waits_ms[HEIRS] = {slow_ms(300), slow_ms(450), slow_ms(20000)};
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = "heir";
	options.lease_ms = index + 1 < HEIRS ? 3600000 : HEIR_LEASE_MS;
	wait_until(stats_of(heirs->client).waiting == index, 5000);
	/* The second one's limit passes while its try has no answer. */
	const int codes[HEIRS] = {LK_ETIMEDOUT, LK_EMAYBEHELD, 0};
	expect(codes[index], lk_lock_acquire(heirs->lock, waits_ms[index], &options, &err));
}

/* The second leaves a try behind while the server is silent, and the third hears its answer. */
static void test_an_inherited_place_has_the_lease_of_its_new_owner(void **state)
{
	struct pair pair = open_pair();
	struct heirs heirs = {.client = pair.second, .lock = pair.two};
	struct threads threads;
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.owner = "heir";
	expect(0, lk_lock_acquire(pair.one, -1, NULL, &err));
	threads_start(&threads, HEIRS, inherit_place, &heirs);
	wait_until(stats_of(pair.second).waiting == HEIRS && stats_of(pair.second).busy >= 2, 5000);
	redis_do(&server, "CLIENT PAUSE %lld ALL", slow_ms(600));
	wait_until(thread_done(&threads, 0) && thread_done(&threads, 1), 5000);
	expect(0, lk_lock_release(pair.one, NULL, &err));
	threads_join(&threads, 20000);
	check_int(redis_integer(&server, "PTTL fair"), <=, HEIR_LEASE_MS);
	check_int(remaining(pair.two, "heir"), <=, HEIR_LEASE_MS);
	expect(0, lk_lock_release(pair.two, &options, &err));
	close_pair(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_reentry_costs_no_command),
		api_test(test_excludes_the_reentrant_lock),
		api_test(test_other_types_are_refused),
		api_test(test_who_gives_up_on_another_type_leaves_the_queue),
		api_test(test_names_of_other_slots_are_refused),
		api_test(test_an_inherited_place_has_the_lease_of_its_new_owner),
	};
	return cmocka_run_group_tests_name("fair lock", tests, start_server, stop_server);
}
