/* Bad input: each is refused with an error that names it, and nothing is sent. */
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"

static char big[LK_NAME_SIZE_MAX + 2];
static char owner_256[257], owner_257[258];

static const struct {
	const char *bytes;
	size_t size;
	const char *prefix;
	int code;
} bad_names[] = {
	{"", 0, "", LK_EINVAL},
	{"abc", 0, "", LK_EINVAL},
	{NULL, 0, "", LK_EINVAL},
	{NULL, 3, "", LK_EINVAL},
	{big, LK_NAME_SIZE_MAX + 1, "", LK_EINVAL},
	{big, SIZE_MAX, "", LK_EINVAL},
	{big, LK_NAME_SIZE_MAX, "p:", LK_EINVAL},
	{big, LK_NAME_SIZE_MAX - 1, "p:", LK_EINVAL},
	{"", 0, "p:", LK_EINVAL},
	{big, LK_NAME_SIZE_MAX, "", 0},
	{big, LK_NAME_SIZE_MAX - 2, "p:", 0},
};

static void test_names(void **state)
{
	memset(big, 'n', sizeof(big));
	for (size_t i = 0; i < COUNT(bad_names); i++) {
		lk_client *client = open_client_with("key_prefix=%s", bad_names[i].prefix);
		lk_lock *lock = NULL;
		expect(bad_names[i].code,
		       lk_lock_new(&lock, client, bad_names[i].bytes, bad_names[i].size, &err));
		check((lock != NULL) == (bad_names[i].code == 0));
		check(!lock || lk_lock_acquire(lock, 0, NULL, NULL) == 0);
		check(!lock || lk_lock_release(lock, NULL, NULL) == 0);
		lk_lock_free(lock);
		close_client(client);
	}
}

/* The lock of a handle is the one named "text". */
static void expect_text(int code, lk_lock **made)
{
	own_lock *lock = *made;
	check_int(code, ==, 0);
	expect(0, lk_lock_acquire(lock, 0, NULL, &err));
	check_int(redis_integer(&server, "EXISTS text"), ==, 1);
	expect(0, lk_lock_release(lock, NULL, &err));
}

static void test_c_strings_name_locks(void **state)
{
	const char text[] = "text\0more";
	own_client *client = open_client();
	lk_lock *lock = NULL;
	expect_text(lk_lock_new(&lock, client, text, LK_STRLEN, &err), &lock);
	expect_text(lk_fair_lock_new(&lock, client, text, LK_STRLEN, &err), &lock);
	expect_text(lk_spin_lock_new(&lock, client, text, LK_STRLEN, NULL, &err), &lock);
	expect_text(lk_plain_lock_new(&lock, client, text, LK_STRLEN, NULL, &err), &lock);
	expect_text(lk_read_lock_new(&lock, client, text, LK_STRLEN, NULL, &err), &lock);
	expect_text(lk_write_lock_new(&lock, client, text, LK_STRLEN, NULL, &err), &lock);
	expect_text(lk_fenced_lock_new(&lock, client, text, LK_STRLEN, NULL, &err), &lock);
	redis_do(&server, "DEL lockkeeper_fence:{text}");
}

static void test_c_strings_name_the_rest(void **state)
{
	own_client *client = open_client();
	own_semaphore *semaphore = NULL;
	own_permits *permits = NULL;
	own_latch *latch = NULL;
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	expect(0, lk_semaphore_new(&semaphore, client, "text", LK_STRLEN, NULL, &err));
	expect(1, lk_semaphore_try_set(semaphore, 3, 0, &err));
	check_int(redis_integer(&server, "DEL text"), ==, 1);
	expect(0, lk_permit_semaphore_new(&permits, client, "text", LK_STRLEN, NULL, &err));
	expect(1, lk_permit_semaphore_try_set(permits, 3, &err));
	check_int(redis_integer(&server, "DEL text"), ==, 1);
	expect(0, lk_latch_new(&latch, client, "text", LK_STRLEN, NULL, &err));
	expect(1, lk_latch_try_set(latch, 3, &err));
	check_int(redis_integer(&server, "DEL text"), ==, 1);
	expect(0, lk_fence_check(client, "text", LK_STRLEN, 1, NULL, NULL, &err));
	expect(0, lk_fence_write(client, "text", LK_STRLEN, 2, "v", 1, NULL, NULL, &err));
	check_int(redis_integer(&server, "HGET text token"), ==, 2);
	redis_do(&server, "DEL text");
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	expect(0, lk_scan_show(scan, "text", LK_STRLEN, &info, &err));
	check(info.name_size == 4 && !memcmp(info.name, "text", 4));
	lk_scan_free(scan);
}

/* As any long name: and what is behind the first byte too many is not read. */
static void test_a_long_c_string_is_refused(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t room = (LK_NAME_SIZE_MAX / page + 1) * page;
	own_client *client = open_client_with("key_prefix=p:");
	lk_lock *lock = NULL;
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	char *map = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	check(map != MAP_FAILED && mprotect(map + room, page, PROT_NONE) == 0);
	memset(map, 'n', room);
	const char *endless = map + room - (LK_NAME_SIZE_MAX + 1);
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	expect(LK_EINVAL, lk_lock_new(&lock, client, endless, LK_STRLEN, &err));
	check(strstr(err.message, "the name has more than 65534 bytes") != NULL);
	expect(LK_EINVAL, lk_scan_show(scan, endless, LK_STRLEN, &info, &err));
	expect(LK_EINVAL, lk_lock_new(&lock, client, "", LK_STRLEN, &err));
	expect(LK_EINVAL, lk_lock_new(&lock, client, NULL, LK_STRLEN, &err));
	map[room - 1] = 0; /* one byte less, and two more than fit behind the prefix */
	expect(LK_EINVAL, lk_lock_new(&lock, client, endless, LK_STRLEN, &err));
	check(lock == NULL);
	expect(0, lk_lock_new(&lock, client, endless + 2, LK_STRLEN, &err));
	lk_lock_free(lock);
	lk_scan_free(scan);
	munmap(map, room + page);
}

static const struct {
	int64_t lease_ms, max_hold_ms, margin_ms;
	const char *owner;
	const char *named; /* in the error's text */
} bad_options[] = {
	{-1, 0, 0, NULL, "lease"},
	{1, 0, 0, NULL, "lease"},
	{LK_LEASE_MIN_MS - 1, 0, 0, NULL, "lease"},
	{LK_LEASE_MAX_MS + 1, 0, 0, NULL, "lease"},
	{INT64_MAX, 0, 0, NULL, "lease"},
	{INT64_MIN, 0, 0, NULL, "lease"},
	{0, -1, 0, NULL, "max_hold"},
	{0, INT64_MIN, 0, NULL, "max_hold"},
	{0, INT64_MAX, 0, NULL, "max_hold"},
	{0, 0, -1, NULL, "margin"},
	{0, 0, INT64_MIN, NULL, "margin"},
	{0, 0, INT64_MAX, NULL, "margin"},
	{1000, 0, INT64_MAX, NULL, "margin"},
	{0, 0, 0, owner_257, "owner"},
	{0, 0, 0, "", "owner"},
};

static void test_acquire_options(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "options");
	memset(owner_256, 'o', 256);
	memset(owner_257, 'o', 257);
	expect(0, lk_client_ping(client, &err));
	uint64_t commands = stats_of(client).commands;
	for (size_t i = 0; i < COUNT(bad_options); i++) {
		lk_acquire_options options = {
			.struct_size = sizeof(options),
			.lease_ms = bad_options[i].lease_ms,
			.max_hold_ms = bad_options[i].max_hold_ms,
			.margin_ms = bad_options[i].margin_ms,
			.owner = bad_options[i].owner,
		};
		expect(LK_EINVAL, lk_lock_acquire(lock, 0, &options, &err));
		check(strstr(err.message, bad_options[i].named) != NULL);
		expect(LK_EINVAL, lk_lock_acquire(lock, -1, &options, &err));
		expect(LK_EINVAL, lk_lock_acquire(lock, 10, &options, &err));
	}
	check_int(stats_of(client).commands, ==, commands);
}

static void test_greatest_values_work(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "greatest");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	memset(owner_256, 'o', 256);
	options.owner = release.owner = owner_256;
	options.lease_ms = LK_LEASE_MAX_MS;
	expect(0, lk_lock_acquire(lock, LK_WAIT_MAX_MS, &options, &err));
	check_int(redis_integer(&server, "PTTL greatest"), >, LK_LEASE_MAX_MS - 60000);
	expect(0, lk_lock_release(lock, &release, &err));
	options.lease_ms = LK_LEASE_MIN_MS;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	check_int(redis_integer(&server, "PTTL greatest"), <=, LK_LEASE_MIN_MS);
	int code = lk_lock_release(lock, &release, &err);
	check(code == 0 || code == LK_ELOST); /* a slow machine may need longer than the lease */
	options.lease_ms = 0;
	options.max_hold_ms = LK_WAIT_MAX_MS;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	expect(0, lk_lock_release(lock, &release, &err));
}

static void test_waits_and_leases_of_other_calls(void **state)
{
	static const int64_t waits[] = {-2, INT64_MIN, LK_WAIT_MAX_MS + 1, INT64_MAX};
	static const int64_t leases[] = {
		0, -1, INT64_MIN, LK_LEASE_MIN_MS - 1, LK_LEASE_MAX_MS + 1, INT64_MAX};
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "waits");
	lk_event event = LK_EVENT_INIT;
	char field[LK_FIELD_SIZE];
	for (size_t i = 0; i < COUNT(waits); i++) {
		expect(LK_EINVAL, lk_lock_acquire(lock, waits[i], NULL, &err));
		check(strstr(err.message, "wait") != NULL);
	}
	expect(LK_EINVAL, lk_event_wait(client, &event, -2, NULL, &err));
	expect(LK_EINVAL, lk_event_wait(client, &event, INT64_MIN, NULL, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	for (size_t i = 0; i < COUNT(leases); i++) {
		expect(LK_EINVAL, lk_lock_extend(lock, leases[i], NULL, &err));
		check(strstr(err.message, "lease") != NULL);
		expect(LK_EINVAL, lk_lock_extend(lock, leases[i], extend_of(field), &err));
	}
	expect(LK_EINVAL, lk_lock_extend(lock, 1000, extend_by(owner_257), &err));
	check_int(redis_integer(&server, "PTTL waits"), <=, 30000);
	expect(0, lk_lock_release(lock, NULL, &err));
}

/* One struct with room behind it, as a program built with a later header would pass. */
struct longer {
	lk_acquire_options options;
	char tail[64];
};

static void test_struct_size(void **state)
{
	static const size_t bad[] = {0, 1, sizeof(size_t) - 1, 1 << 20, SIZE_MAX};
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "struct");
	struct longer longer = {.options = LK_ACQUIRE_OPTIONS_INIT};
	for (size_t i = 0; i < COUNT(bad); i++) {
		lk_acquire_options options = {.struct_size = bad[i]};
		lk_release_options release = {.struct_size = bad[i]};
		lk_stats stats = {.struct_size = bad[i]};
		expect(LK_EINVAL, lk_lock_acquire(lock, 0, &options, &err));
		check(strstr(err.message, "struct_size") != NULL);
		expect(LK_EINVAL, lk_lock_release(lock, &release, &err));
		/* A longer lk_stats is filled as far as it is known; SIZE_MAX promises memory. */
		if (bad[i] < 64)
			expect(LK_EINVAL, lk_client_stats(client, &stats, &err));
	}
	longer.options.struct_size = sizeof(longer);
	expect(0, lk_lock_acquire(lock, 0, &longer.options, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	longer.tail[63] = 1; /* an option that this version does not know */
	expect(LK_EINVAL, lk_lock_acquire(lock, 0, &longer.options, &err));
}

static void test_null_arguments(void **state)
{
	lk_client *client = open_client(), *no_client = NULL;
	lk_lock *lock = new_lock(client, "null"), *none = NULL;
	lk_config *config = NULL;
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	expect(LK_EINVAL, lk_config_new(NULL, &err));
	expect(LK_EINVAL, lk_client_new(NULL, NULL, &err));
	expect(LK_EINVAL, lk_client_new(&no_client, NULL, &err));
	expect(0, lk_config_new(&config, &err));
	expect(LK_EINVAL, lk_client_new(NULL, config, &err));
	expect(LK_EINVAL, lk_client_new(&no_client, config, &err)); /* it has no URL */
	expect(LK_EINVAL, lk_client_open(NULL, server.url_unix, &err));
	expect(LK_EINVAL, lk_client_ping(NULL, &err));
	expect(LK_EINVAL, lk_client_close(NULL, LK_CLOSE_RELEASE, &err));
	expect(LK_EINVAL, lk_client_stats(NULL, NULL, &err));
	expect(LK_EINVAL, lk_client_stats(client, NULL, &err));
	expect(LK_EINVAL, lk_event_wait(NULL, NULL, 0, NULL, &err));
	expect(LK_EINVAL, lk_event_wait(client, NULL, 0, NULL, &err));
	expect(LK_EINVAL, lk_event_fd(NULL, &err));
	expect(LK_EINVAL, lk_lock_new(NULL, client, "n", 1, &err));
	expect(LK_EINVAL, lk_lock_new(&none, NULL, "n", 1, &err));
	expect(LK_EINVAL, lk_scan_new(NULL, client, NULL, &err));
	expect(LK_EINVAL, lk_scan_new(&scan, NULL, NULL, &err));
	expect(LK_EINVAL, lk_scan_next(NULL, &info, &err));
	expect(LK_EINVAL, lk_scan_show(NULL, "n", 1, &info, &err));
	expect(LK_EINVAL, lk_cancel_new(NULL, &err));
	check(!no_client && !none && !scan);
	lk_client_free(NULL);
	lk_lock_free(NULL);
	lk_cancel_free(NULL);
	lk_scan_free(NULL);
	lk_config_free(NULL);
	lk_config_free(config);
	lk_lock_free(lock);
	close_client(client);
}

static void test_null_arguments_of_the_lock(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "null");
	char field[LK_FIELD_SIZE];
	int64_t number = 0;
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	expect(LK_EINVAL, lk_lock_acquire(NULL, -1, NULL, &err));
	expect(LK_EINVAL, lk_lock_acquire(NULL, 1, NULL, &err));
	expect(LK_EINVAL, lk_lock_acquire(NULL, 0, NULL, &err));
	expect(LK_EINVAL, lk_lock_release(NULL, NULL, &err));
	expect(LK_EINVAL, lk_lock_force_release(NULL, &err));
	expect(LK_EINVAL, lk_lock_extend(NULL, 1000, NULL, &err));
	expect(LK_EINVAL, is_locked(NULL, &err));
	expect(LK_EINVAL, lk_lock_is_locked(lock, NULL, &err));
	expect(LK_EINVAL, lk_lock_is_held_by(lock, "f", NULL, &err));
	expect(LK_EINVAL, not_held(NULL, &err));
	expect(LK_EINVAL, is_held_by(NULL, "f", &err));
	expect(LK_EINVAL, is_held_by(lock, NULL, &err));
	expect(LK_EINVAL, is_held_by(lock, "", &err));
	expect(LK_EINVAL, is_held_by(lock, owner_257, &err));
	expect(LK_EINVAL, lk_lock_remaining_ms(NULL, NULL, &number, &err));
	expect(LK_EINVAL, lk_lock_remaining_ms(lock, NULL, NULL, &err));
	expect(LK_EINVAL, lk_lock_deadline_ns(NULL, NULL, &number, &err));
	expect(LK_EINVAL, lk_lock_deadline_ns(lock, NULL, NULL, &err));
	expect(LK_EINVAL, lk_lock_server_ttl_ms(NULL, &number, &err));
	expect(LK_EINVAL, lk_lock_server_ttl_ms(lock, NULL, &err));
	expect(LK_EINVAL, lk_lock_export(NULL, NULL, field, sizeof(field), &err));
	expect(LK_EINVAL, lk_lock_export(lock, NULL, NULL, sizeof(field), &err));
	expect(LK_EINVAL, lk_lock_release(NULL, release_of("f"), &err));
	expect(LK_EINVAL, lk_lock_release(lock, release_of(""), &err));
	release.owner = "a";
	release.field = "f";
	expect(LK_EINVAL, lk_lock_release(lock, &release, &err));
	check(strstr(err.message, "field is set, and owner too") != NULL);
	expect(LK_EINVAL, lk_lock_release(lock, release_of(owner_257), &err));
	expect(LK_EINVAL, lk_lock_extend(NULL, 1000, extend_of("f"), &err));
}

/* A NULL lk_error is fine everywhere. */
/* Tries to take, and to free by force, a lock of that kind, and lets go of the handle. */
static void expect_wrong(lk_lock *lock, const char *culprit)
{
	expect(LK_EWRONGTYPE, lk_lock_acquire(lock, 0, NULL, &err));
	check(strstr(err.message, culprit) != NULL);
	expect(LK_EWRONGTYPE, lk_lock_force_release(lock, &err));
	lk_lock_free(lock);
}

static void check_keys(const char *key, const char *derived)
{
	check(strstr(err.message, key) != NULL);
	check(strstr(err.message, derived) != NULL);
}

/* The message of a kind with several keys names two that would be in different slots. */
static void test_keys_of_different_slots(void **state)
{
	own_client *client = open_client_with("key_prefix=%s", "p:");
	lk_fenced_lock_options java = LK_FENCED_LOCK_OPTIONS_INIT;
	lk_lock *lock = NULL;
	lk_semaphore *semaphore = NULL;
	lk_latch *latch = NULL;
	java.share_java = 1;
	expect(LK_EINVAL, lk_fair_lock_new(&lock, client, "a}b", 3, &err));
	check_keys("keys p:a}b and ", "and redisson_lock_queue:{p:a}b} in");
	expect(LK_EINVAL, lk_fenced_lock_new(&lock, client, "{}", 2, NULL, &err));
	check_keys("keys p:{} and ", "and lockkeeper_fence:p:{} in");
	expect(LK_EINVAL, lk_fenced_lock_new(&lock, client, "{}", 2, &java, &err));
	check_keys("keys p:{} and ", "and redisson_lock_token:p:{} in");
	expect(LK_EINVAL, lk_read_lock_new(&lock, client, "a{b", 3, NULL, &err));
	check_keys("keys p:a{b and ", "and lockkeeper_writers:p:a{b in");
	expect(LK_EINVAL, lk_semaphore_new(&semaphore, client, "a}b", 3, NULL, &err));
	check_keys("keys p:a}b and ", "and lockkeeper_sc:{p:a}b} in");
	expect(LK_EINVAL, lk_latch_new(&latch, client, "}", 1, NULL, &err));
	check_keys("keys p:} and ", "and lockkeeper_sc:{p:}} in");
	memset(big, '}', LK_NAME_SIZE_MAX - 2);
	expect(LK_EINVAL, lk_fair_lock_new(&lock, client, big, LK_NAME_SIZE_MAX - 2, &err));
	check_keys("keys p:}}}", "use none, or a {tag}");
	check(!lock && !semaphore && !latch);
}

/* The message names what is there and what was wanted. */
static void test_a_key_of_another_type(void **state)
{
	own_client *client = open_client();
	lk_lock *lock, *parts[2] = {new_lock(client, "free"), new_lock(client, "text")};
	redis_do(&server, "SET text x");
	expect_wrong(new_lock(client, "text"), "the key is a string, not a lock");
	expect(0, lk_fair_lock_new(&lock, client, "text", 4, &err));
	expect_wrong(lock, "the key is a string, not a fair lock");
	expect(0, lk_fenced_lock_new(&lock, client, "text", 4, NULL, &err));
	expect_wrong(lock, "the key is a string, not a fenced lock");
	expect(0, lk_spin_lock_new(&lock, client, "text", 4, NULL, &err));
	expect_wrong(lock, "the key is a string, not a lock");
	expect(0, lk_read_lock_new(&lock, client, "text", 4, NULL, &err));
	expect_wrong(lock, "the key is a string, not a read/write lock");
	expect(0, lk_multi_lock_new(&lock, parts, 2, &err));
	expect_wrong(lock, "\"text\" is a string, not a lock");
	check_int(redis_integer(&server, "DBSIZE"), ==, 1);
	redis_do(&server, "DEL text");
	lk_lock_free(parts[0]);
	lk_lock_free(parts[1]);
}

/* Nobody waits for a hash that no lock has written: its fields do not look like owners. */
static void test_a_hash_that_is_not_a_lock(void **state)
{
	static const char says[] = "the key is a hash that is not a lock";
	own_client *client = open_client();
	lk_lock *lock, *parts[2] = {new_lock(client, "free"), new_lock(client, "user")};
	redis_do(&server, "HSET user name ann mail ann@example.org last: x at:5pm y");
	expect_wrong(new_lock(client, "user"), says);
	expect(0, lk_fair_lock_new(&lock, client, "user", 4, &err));
	expect_wrong(lock, says);
	expect(0, lk_fenced_lock_new(&lock, client, "user", 4, NULL, &err));
	expect_wrong(lock, says);
	expect(0, lk_spin_lock_new(&lock, client, "user", 4, NULL, &err));
	expect_wrong(lock, says);
	expect(0, lk_multi_lock_new(&lock, parts, 2, &err));
	expect_wrong(lock, "\"user\" is a hash that is not a lock");
	check_int(redis_integer(&server, "DBSIZE"), ==, 1);
	check_int(redis_integer(&server, "HLEN user"), ==, 4);
	redis_do(&server, "DEL user");
	lk_lock_free(parts[0]);
	lk_lock_free(parts[1]);
}

/* What an unknown peer writes as its owner is waited for, a negative thread id too. */
static void test_a_hash_of_another_owner(void **state)
{
	static const char *const owners[] = {"stranger:1",
					     "12345678-1234-4234-8234-123456789abc:-77"};
	own_client *client = open_client();
	for (size_t i = 0; i < 2; i++) {
		lk_lock *lock = new_lock(client, "user");
		redis_do(&server, "HSET user %s 1", owners[i]);
		expect(LK_EBUSY, lk_lock_acquire(lock, 0, NULL, &err));
		redis_do(&server, "DEL user");
		lk_lock_free(lock);
	}
}

static void test_error_may_be_null(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "null");
	check_int(lk_lock_acquire(lock, 0, NULL, NULL), ==, 0);
	check_int(lk_lock_release(lock, NULL, NULL), ==, 0);
	check_int(lk_lock_release(lock, NULL, NULL), ==, LK_ENOTOWNER);
	check_int(lk_lock_new(&lock, client, "", 0, NULL), ==, LK_EINVAL);
	check_int(lk_lock_acquire(NULL, -1, NULL, NULL), ==, LK_EINVAL);
}

static void test_unknown_options_and_values(void **state)
{
	static const char *const bad[][2] = {
		{"no_such_option", "1"},  {"", "1"},
		{"url", "http://h"},      {"watchdog_ms", ""},
		{"watchdog_ms", "99"},    {"watchdog_ms", "abc"},
		{"watchdog_ms", "1000x"}, {"watchdog_ms", " 1000"},
		{"watchdog_ms", "1e3"},   {"watchdog_ms", "-1"},
		{"spin_us", "1001"},      {"watchdog_ms", "99999999999999999999"},
		{"connections", "0"},
	};
	lk_config *config = NULL;
	char text[64];
	expect(0, lk_config_new(&config, &err));
	for (size_t i = 0; i < COUNT(bad); i++) {
		int code = lk_config_set(config, bad[i][0], bad[i][1], &err);
		if (code != LK_EINVAL)
			check_fail(__FILE__, __LINE__, "%s=%s: %d", bad[i][0], bad[i][1], code);
		check(!bad[i][0][0] || strstr(err.message, bad[i][0]) != NULL);
	}
	expect(LK_EINVAL, lk_config_set(NULL, "spin_us", "1", &err));
	expect(LK_EINVAL, lk_config_set(config, NULL, "1", &err));
	expect(LK_EINVAL, lk_config_set(config, "spin_us", NULL, &err));
	check_int(lk_config_get(config, "watchdog_ms", text, sizeof(text)), ==, 5);
	check(!strcmp(text, "30000"));
	check_int(lk_config_get(config, "no_such_option", text, sizeof(text)), ==, LK_EINVAL);
	lk_config_free(config);
}

/* Each call of the API that takes a client or a lock, but for those that free. */
static void call_everything(lk_client *client, lk_lock *lock, int wanted)
{
	char field[LK_FIELD_SIZE];
	int64_t number = 0;
	lk_lock *other = NULL;
	lk_scan *scan = NULL;
	lk_event event = LK_EVENT_INIT;
	expect(wanted, lk_client_ping(client, &err));
	expect(wanted, lk_event_wait(client, &event, 0, NULL, &err));
	expect(wanted, lk_event_wait(client, &event, -1, NULL, &err));
	expect(wanted, lk_scan_new(&scan, client, NULL, &err));
	expect(wanted, lk_lock_new(&other, client, "n", 1, &err));
	expect(wanted, lk_lock_acquire(lock, -1, NULL, &err));
	expect(wanted, lk_lock_acquire(lock, 10, NULL, &err));
	expect(wanted, lk_lock_acquire(lock, 0, NULL, &err));
	expect(wanted, lk_lock_release(lock, NULL, &err));
	expect(wanted, lk_lock_force_release(lock, &err));
	expect(wanted, lk_lock_extend(lock, 60000, NULL, &err));
	expect(wanted, is_locked(lock, &err));
	expect(wanted, not_held(lock, &err));
	expect(wanted, is_held_by(lock, "f", &err));
	expect(wanted, lk_lock_remaining_ms(lock, NULL, &number, &err));
	expect(wanted, lk_lock_deadline_ns(lock, NULL, &number, &err));
	expect(wanted, lk_lock_server_ttl_ms(lock, &number, &err));
	expect(wanted, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	expect(wanted, lk_lock_release(lock, release_of("f"), &err));
	expect(wanted, lk_lock_extend(lock, 60000, extend_of("f"), &err));
}

static void test_use_after_close(void **state)
{
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "closed"), *held = new_lock(client, "held");
	expect(0, lk_lock_acquire(held, -1, NULL, &err));
	expect(0, lk_client_close(client, LK_CLOSE_RELEASE, &err));
	call_everything(client, lock, LK_ECLOSED);
	call_everything(client, held, LK_ECLOSED);
	expect(0, lk_client_close(client, LK_CLOSE_IF_IDLE, &err));
	check(lk_client_free(client) == NULL);
	check(lk_lock_free(lock) == NULL);
	lk_lock_free(held);
}

static void test_close_how(void **state)
{
	own_client *client = open_client();
	expect(LK_EINVAL, lk_client_close(client, 3, &err));
	expect(LK_EINVAL, lk_client_close(client, -1, &err));
	expect(0, lk_client_ping(client, &err));
}

static void free_in_order(const char *order, bool hold, bool close_first)
{
	lk_client *client = open_client();
	lk_lock *first = new_lock(client, "first"), *second = new_lock(client, "second");
	if (hold)
		expect(0, lk_lock_acquire(first, -1, NULL, &err));
	if (close_first)
		expect(0, lk_client_close(client, LK_CLOSE_ABANDON, &err));
	for (; *order; order++) {
		if (*order == 'c')
			check(lk_client_free(client) == NULL);
		else
			check(lk_lock_free(*order == '1' ? first : second) == NULL);
	}
	check_int(redis_integer(&server, "EXISTS first"), ==, hold);
	redis_do(&server, "DEL first");
}

static void test_free_in_every_order(void **state)
{
	static const char *const orders[] = {"12c", "1c2", "c12", "c21", "2c1", "21c"};
	for (size_t i = 0; i < COUNT(orders); i++)
		for (int kind = 0; kind < 4; kind++)
			free_in_order(orders[i], kind & 1, kind & 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_names),
		api_test(test_keys_of_different_slots),
		api_test(test_c_strings_name_locks),
		counter_test(test_c_strings_name_the_rest),
		api_test(test_a_long_c_string_is_refused),
		api_test(test_acquire_options),
		api_test(test_greatest_values_work),
		api_test(test_waits_and_leases_of_other_calls),
		api_test(test_struct_size),
		api_test(test_null_arguments),
		api_test(test_null_arguments_of_the_lock),
		api_test(test_a_key_of_another_type),
		api_test(test_a_hash_that_is_not_a_lock),
		api_test(test_a_hash_of_another_owner),
		api_test(test_error_may_be_null),
		api_test(test_unknown_options_and_values),
		api_test(test_use_after_close),
		api_test(test_close_how),
		api_test(test_free_in_every_order),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
