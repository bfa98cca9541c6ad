/* lk_scan: which locks there are, who holds them, for how long. */
#include "fixture.h"

static const char *const stranger = "12345678-1234-4234-8234-123456789abc:1";

/* Walks to the end; counts each name of the form "<prefix><number>" below `most` once. */
static size_t walk(lk_scan *scan, const char *prefix, size_t most)
{
	bool *seen = calloc(most, sizeof(*seen));
	size_t count = 0;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	int answer;
	while ((answer = lk_scan_next(scan, &info, &err)) == 1) {
		check(!strncmp(info.name, prefix, strlen(prefix)));
		check_int(info.name_size, ==, strlen(info.name));
		check(!strcmp(info.type, "lock"));
		check_int(info.holder_count, ==, 1);
		check(!strcmp(info.holders[0].field, stranger));
		check_int(info.holders[0].field_size, ==, strlen(stranger));
		check_int(info.holders[0].hold_count, ==, 1);
		check(info.ttl_ms > 0 && info.ttl_ms <= slow_ms(60000));
		size_t number = strtoul(info.name + strlen(prefix), NULL, 10);
		check_int(number, <, most);
		count += !seen[number]; /* SCAN may repeat one */
		seen[number] = true;
	}
	expect(0, answer);
	expect(0, lk_scan_next(scan, &info, &err)); /* the end stays the end */
	free(seen);
	return count;
}

static void take_many(const char *prefix, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char name[64];
		snprintf(name, sizeof(name), "%s%zu", prefix, i);
		stranger_takes(name, slow_ms(60000));
	}
}

static void test_walk_finds_all_and_only_locks(void **state)
{
	own_client *client = open_client();
	lk_scan *scan = NULL;
	take_many("job-", 250);
	take_many("other:", 30);
	redis_do(&server, "SET job-text x");
	redis_do(&server, "RPUSH job-list x");
	redis_do(&server, "HSET job-hash colour red size 3");
	expect(0, lk_scan_new(&scan, client, "job-*", &err));
	check_int(walk(scan, "job-", 250), ==, 250);
	check(lk_scan_free(scan) == NULL);
	expect(0, lk_scan_new(&scan, client, "other:*", &err));
	check_int(walk(scan, "other:", 30), ==, 30);
	lk_scan_free(scan);
	expect(0, lk_scan_new(&scan, client, "none*", &err));
	check_int(walk(scan, "none", 1), ==, 0);
	lk_scan_free(scan);
	expect(0, lk_scan_new(&scan, client, "other:7", &err));
	check_int(walk(scan, "other:", 30), ==, 1);
	lk_scan_free(scan);
	check_int(redis_info(&server, "commandstats", "cmdstat_keys:calls="), ==, 0);
	redis_do(&server, "FLUSHALL");
}

/* Only what has the whole form of a derived key is passed over. */
static void test_locks_that_are_named_like_keys_beside_them(void **state)
{
	static const char *const names[] = {
		"lockkeeper_backup",       "redisson_import",
		"lockkeeper_fence:job",    "redisson_",
		"lockkeeper_client:",      "x:rwlock_timeout:1",
		"{x}:rwlock_timeout:mine", "lockkeeper_{job}",
		"{x}:y:rwlock_timeout:1",
	};
	own_client *client = open_client();
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	size_t seen = 0;
	for (size_t i = 0; i < COUNT(names); i++)
		stranger_takes(names[i], slow_ms(60000));
	redis_do(&server, "SET lockkeeper_fence:{job} 17");
	redis_do(&server, "SET redisson_unlock_latch:{job}:1 1");
	redis_do(&server, "SET {job}:a:7:rwlock_timeout:1 1");
	redis_do(&server, "SET lockkeeper_sc:a{b}:c:1 1");
	redis_do(&server, "HSET lockkeeper_fair:{job} a:7 1");
	redis_do(&server, "SET lockkeeper_slots 3");
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	while (lk_scan_next(scan, &info, &err) == 1) {
		bool known = !strcmp(info.name, "lockkeeper_slots");
		for (size_t i = 0; i < COUNT(names); i++)
			known |= !strcmp(info.name, names[i]);
		if (!known)
			fail_msg("\"%s\" is found", info.name);
		seen++;
	}
	check_int(seen, ==, COUNT(names) + 1);
	lk_scan_free(scan);
	redis_do(&server, "FLUSHALL");
}

static void test_prefix_is_put_on_and_taken_off(void **state)
{
	own_client *client = open_client_with("key_prefix=a*b:");
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	take_many("a*b:job-", 20);
	take_many("axb:job-", 20); /* the prefix is no glob */
	take_many("job-", 20);
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	check_int(walk(scan, "job-", 20), ==, 20);
	expect(0, lk_scan_show(scan, "job-3", 5, &info, &err));
	check(!strcmp(info.name, "job-3"));
	check_int(info.holder_count, ==, 1);
	lk_scan_free(scan);
	redis_do(&server, "FLUSHALL");
}

static void test_show_one(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "one");
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	char field[LK_FIELD_SIZE];
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	expect(0, lk_scan_show(scan, "one", 3, &info, &err));
	check_int(info.holder_count, ==, 0);
	check_int(info.name_size, ==, 3);
	check(!strcmp(info.name, "one"));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	expect(0, lk_scan_show(scan, "one", 3, &info, &err));
	check_int(info.holder_count, ==, 1);
	check(!strcmp(info.holders[0].field, field));
	check(info.ttl_ms > 20000 && info.ttl_ms <= 30000);
	check_int(info.waiting_clients, ==, 0);
	expect(0, lk_lock_release(lock, NULL, &err));
	redis_do(&server, "HSET one java:42 7"); /* a peer's, with its count, and no ttl */
	expect(0, lk_scan_show(scan, "one", 3, &info, &err));
	check_int(info.ttl_ms, ==, -1);
	check(!strcmp(info.holders[0].field, "java:42"));
	check_int(info.holders[0].hold_count, ==, 7);
	redis_do(&server, "DEL one");
	redis_do(&server, "SET text x");
	expect(0, lk_scan_show(scan, "text", 4, &info, &err));
	check(!strcmp(info.type, "plain lock") && info.may_be_data && !info.looks_like);
	redis_do(&server, "RPUSH list x");
	expect(LK_EWRONGTYPE, lk_scan_show(scan, "list", 4, &info, &err));
	redis_do(&server, "DEL list");
	expect(LK_EINVAL, lk_scan_show(scan, "", 0, &info, &err));
	expect(LK_EINVAL, lk_scan_show(scan, NULL, 3, &info, &err));
	redis_do(&server, "DEL text");
	lk_scan_free(scan);
}

static void test_only_what_others_hold_is_freed(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "one");
	lk_scan *scan = NULL;
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	redis_do(&server, "SET lock:door YWJjZGVmZ2hpamtsbW5vcHFy");
	expect(1, lk_scan_force_release(scan, "lock:door", 9, &err));
	expect(0, lk_scan_force_release(scan, "lock:door", 9, &err));
	check_int(redis_integer(&server, "LLEN lock-signal:door"), ==, 1);
	redis_do(&server, "ZADD mutex:door:owners 9999999999999 0a1b:7");
	expect(1, lk_scan_force_release(scan, "mutex:door:owners", 17, &err));
	check_int(redis_integer(&server, "LLEN mutex:door:queue"), ==, 1);
	redis_do(&server, "SET text x");
	expect(LK_EINVAL, lk_scan_force_release(scan, "text", 4, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(LK_EINVAL, lk_scan_force_release(scan, "one", 3, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, lk_scan_force_release(scan, "one", 3, &err));
	redis_do(&server, "FLUSHALL");
	lk_scan_free(scan);
}

static void wait_for_it(size_t index, void *argument)
{
	expect(0, lk_lock_acquire(argument, -1, NULL, &err));
	expect(0, lk_lock_release(argument, NULL, &err));
}

static void test_waiting_clients(void **state)
{
	own_client *client = open_client(), *waiter = open_client();
	own_lock *lock = new_lock(waiter, "waited");
	struct threads threads;
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	stranger_takes("waited", slow_ms(60000));
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	threads_start(&threads, 3, wait_for_it, lock);
	wait_until(lk_scan_show(scan, "waited", 6, &info, &err) == 0 && info.waiting_clients == 1,
		   5000);
	stranger_releases("waited");
	threads_join(&threads, 10000);
	lk_scan_free(scan);
}

struct busy {
	lk_lock *lock;
	atomic_bool over;
};

static void keep_busy(size_t index, void *argument)
{
	struct busy *busy = argument;
	while (!atomic_load(&busy->over)) {
		expect(0, lk_lock_acquire(busy->lock, -1, NULL, &err));
		expect(0, lk_lock_release(busy->lock, NULL, &err));
	}
}

/* Its key is a string or none, and changes between two requests of a look. */
static void test_a_busy_plain_lock_is_held_or_free(void **state)
{
	own_client *client = open_client(), *other = open_client_with("term_ms=0");
	struct busy busy = {.over = false};
	struct threads threads;
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	size_t held = 0, freed = 0;
	expect(0, lk_plain_lock_new(&busy.lock, other, "busy", 4, NULL, &err));
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	threads_start(&threads, 1, keep_busy, &busy);
	for (int looks = 0; looks < 3000; looks++) {
		expect(0, lk_scan_show(scan, "busy", 4, &info, &err));
		check(!strcmp(info.type, info.holder_count ? "plain lock" : "none"));
		check(info.holder_count == 0 || info.ttl_ms > 0);
		held += info.holder_count > 0;
		freed += info.holder_count == 0;
	}
	check(held > 0 && freed > 0);
	atomic_store(&busy.over, true);
	threads_join(&threads, 10000);
	lk_scan_free(scan);
	lk_lock_free(busy.lock);
}

static void test_names_are_bytes(void **state)
{
	own_client *client = open_client();
	own_lock *lock = NULL;
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	static const char name[] = "a\0\xff{\n";
	expect(0, lk_lock_new(&lock, client, name, 5, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	expect(1, lk_scan_next(scan, &info, &err));
	check(info.name_size == 5 && !memcmp(info.name, name, 6));
	expect(0, lk_scan_show(scan, name, 5, &info, &err));
	check_int(info.holder_count, ==, 1);
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_scan_free(scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_walk_finds_all_and_only_locks),
		api_test(test_locks_that_are_named_like_keys_beside_them),
		api_test(test_prefix_is_put_on_and_taken_off),
		api_test(test_show_one),
		api_test(test_only_what_others_hold_is_freed),
		api_test(test_waiting_clients),
		api_test(test_a_busy_plain_lock_is_held_or_free),
		api_test(test_names_are_bytes),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
