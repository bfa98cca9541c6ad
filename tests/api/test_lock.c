/* The lock itself: who holds it, how often, for how long, and what that looks like in Redis. */
#include "fixture.h"

#include <sys/resource.h>

static void test_acquire_and_release_on_the_wire(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "backup");
	char field[LK_FIELD_SIZE], seen[LK_FIELD_SIZE];
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	check(redis_field(&server, "backup", 6, seen, sizeof(seen)));
	expect(0, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	check(!strcmp(field, seen));
	size_t id_size = strlen(lk_client_id(client));
	check_int(id_size, ==, 36);
	check(!strncmp(field, lk_client_id(client), id_size) && field[id_size] == ':');
	check_int(redis_integer(&server, "HGET backup %s", field), ==, 1);
	long long ttl_ms = redis_integer(&server, "PTTL backup");
	check(ttl_ms > 20000 && ttl_ms <= 30000);
	expect(0, lk_lock_release(lock, NULL, &err));
	check_int(redis_integer(&server, "EXISTS backup"), ==, 0);
}

static void test_each_grant_has_a_new_number(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "number");
	char fields[3][LK_FIELD_SIZE];
	for (size_t i = 0; i < COUNT(fields); i++) {
		expect(0, lk_lock_acquire(lock, 0, NULL, &err));
		expect(0, lk_lock_export(lock, NULL, fields[i], LK_FIELD_SIZE, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
	}
	check(strcmp(fields[0], fields[1]) != 0 && strcmp(fields[1], fields[2]) != 0);
}

static void try_and_release(size_t index, void *argument)
{
	lk_lock *lock = argument;
	expect(LK_EBUSY, lk_lock_acquire(lock, 0, NULL, &err));
	expect(LK_ENOTOWNER, lk_lock_release(lock, NULL, &err));
	expect(LK_ENOTOWNER, lk_lock_extend(lock, 60000, NULL, &err));
	check_int(remaining(lock, NULL), ==, LK_ENOTOWNER);
	expect(0, lk_lock_is_held(lock, NULL, &err));
	expect(0, lk_lock_hold_count(lock, NULL, &err));
	expect(1, is_locked(lock, &err));
}

static void test_another_thread_is_another_owner(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "threads");
	struct threads threads;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	threads_start(&threads, 3, try_and_release, lock);
	threads_join(&threads, 10000);
	expect(1, lk_lock_is_held(lock, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
}

static void test_reentry_counts(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "again");
	expect(0, lk_lock_hold_count(lock, NULL, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	lk_stats before = stats_of(client);
	expect(0, lk_lock_acquire(lock, 0, NULL, &err));
	expect(0, lk_lock_acquire(lock, 10, NULL, &err));
	lk_stats after = stats_of(client);
	check_int(after.reentries, ==, before.reentries + 2);
	check_int(after.wire_grants, ==, before.wire_grants);
	expect(3, lk_lock_hold_count(lock, NULL, &err));
	for (int holds = 2; holds >= 0; holds--) {
		check_int(redis_integer(&server, "EXISTS again"), ==, 1);
		expect(1, lk_lock_is_held(lock, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
		expect(holds, lk_lock_hold_count(lock, NULL, &err));
	}
	check_int(redis_integer(&server, "EXISTS again"), ==, 0);
	expect(0, lk_lock_is_held(lock, NULL, &err));
	expect(LK_ENOTOWNER, lk_lock_release(lock, NULL, &err));
}

static void test_last_release_frees_whatever_count_redis_shows(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "count");
	char field[LK_FIELD_SIZE];
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	redis_do(&server, "HSET count %s 5", field);
	expect(0, lk_lock_release(lock, NULL, &err));
	check_int(redis_integer(&server, "EXISTS count"), ==, 0);
}

static void release_for_job(size_t index, void *argument)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.owner = "job";
	expect(0, lk_lock_release(argument, &options, &err));
}

static void test_named_owners_move_between_threads(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "named");
	lk_acquire_options job = LK_ACQUIRE_OPTIONS_INIT, other = LK_ACQUIRE_OPTIONS_INIT;
	struct threads threads;
	char owner[] = "job";
	job.owner = owner;
	other.owner = "other";
	expect(0, lk_lock_acquire(lock, -1, &job, &err));
	expect(0, lk_lock_acquire(lock, -1, &job, &err));
	owner[0] = 'x'; /* the library keeps no pointer into our text */
	expect(LK_EBUSY, lk_lock_acquire(lock, 0, &other, &err));
	expect(LK_EBUSY, lk_lock_acquire(lock, 0, NULL, &err));
	expect(LK_ENOTOWNER, lk_lock_release(lock, NULL, &err));
	expect(0, lk_lock_is_held(lock, NULL, &err));
	expect(1, lk_lock_is_held(lock, "job", &err));
	expect(0, lk_lock_is_held(lock, "jo", &err));
	expect(2, lk_lock_hold_count(lock, "job", &err));
	check_int(remaining(lock, "job"), >, 20000);
	threads_start(&threads, 2, release_for_job, lock);
	threads_join(&threads, 10000);
	check_int(redis_integer(&server, "EXISTS named"), ==, 0);
	expect(0, lk_lock_acquire(lock, 0, &other, &err));
	lk_release_options release = {.struct_size = sizeof(release), .owner = "other"};
	expect(0, lk_lock_release(lock, &release, &err));
}

struct twice {
	lk_client *client;
	lk_lock *lock;
};

static void test_two_handles_are_one_lock(void **state)
{
	own_client *client = open_client();
	lk_lock *first = new_lock(client, "handles"), *second = new_lock(client, "handles");
	expect(0, lk_lock_acquire(first, -1, NULL, &err));
	expect(0, lk_lock_acquire(second, -1, NULL, &err));
	expect(2, lk_lock_hold_count(first, NULL, &err));
	first = lk_lock_free(first);
	check(first == NULL);
	expect(2, lk_lock_hold_count(second, NULL, &err));
	expect(0, lk_lock_release(second, NULL, &err));
	second = lk_lock_free(second);
	check_int(redis_integer(&server, "EXISTS handles"), ==, 1);
	second = new_lock(client, "handles");
	expect(1, lk_lock_is_held(second, NULL, &err));
	expect(0, lk_lock_release(second, NULL, &err));
	lk_lock_free(second);
}

static void test_force_release_is_a_loss(void **state)
{
	own_client *holder = open_client_with("watchdog_ms=%lld", slow_ms(600));
	own_client *breaker = open_client();
	own_lock *lock = new_lock(holder, "forced"), *other = new_lock(breaker, "forced");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_event event = LK_EVENT_INIT;
	char field[LK_FIELD_SIZE];
	int64_t deadline_ns = 0;
	options.tag = 77;
	expect(0, lk_lock_force_release(other, &err));
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	expect(1, lk_lock_force_release(other, &err));
	check_int(redis_integer(&server, "EXISTS forced"), ==, 0);
	check_int(next_event(holder, &event, 3000), ==, LK_EVENT_LOST);
	check_int(event.tag, ==, 77);
	check_int(event.name_size, ==, 6);
	check(!strcmp(event.name, "forced"));
	expect(LK_ELOST, lk_lock_acquire(lock, -1, NULL, &err));
	expect(LK_ELOST, lk_lock_acquire(lock, 0, NULL, &err));
	expect(LK_ELOST, lk_lock_acquire(lock, 20, NULL, &err));
	expect(LK_ELOST, lk_lock_extend(lock, 5000, NULL, &err));
	check_int(remaining(lock, NULL), ==, LK_ELOST);
	expect(LK_ELOST, lk_lock_deadline_ns(lock, NULL, &deadline_ns, &err));
	expect(LK_ELOST, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	expect(0, lk_lock_is_held(lock, NULL, &err));
	expect(2, lk_lock_hold_count(lock, NULL, &err));
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
	expect(LK_ELOST, lk_lock_acquire(lock, 0, NULL, &err));
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
	expect(LK_ENOTOWNER, lk_lock_release(lock, NULL, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
}

/* One that takes the lock and gives it up, all under one name. */
struct named {
	lk_lock *lock;
	_Atomic int given_up; /* releases under that name that succeeded */
};

static void test_extend(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "extend");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = 20000;
	expect(LK_ENOTOWNER, lk_lock_extend(lock, 5000, NULL, &err));
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	expect(0, lk_lock_extend(lock, 60000, NULL, &err));
	check_int(remaining(lock, NULL), >, 40000);
	check_int(redis_integer(&server, "PTTL extend"), >, 40000);
	expect(0, lk_lock_extend(lock, 1000, NULL, &err));
	check_int(remaining(lock, NULL), >, 40000);
	check_int(redis_integer(&server, "PTTL extend"), >, 40000);
	expect(LK_ENOTOWNER, lk_lock_extend(lock, 90000, extend_by("nobody"), &err));
	check_int(redis_integer(&server, "PTTL extend"), <=, 60000);
	expect(0, lk_lock_release(lock, NULL, &err));
}

static const lk_acquire_options *adopt_of(const char *field, const char *owner)
{
	static lk_acquire_options options;
	options = (lk_acquire_options)LK_ACQUIRE_OPTIONS_INIT;
	options.field = field;
	options.owner = owner;
	return &options;
}

static void test_a_hold_goes_on_in_another_client(void **state)
{
	own_client *first = open_client(), *second = open_client();
	own_lock *ours = new_lock(first, "handed"), *theirs = new_lock(second, "handed");
	lk_release_options abandon = LK_RELEASE_OPTIONS_INIT;
	char field[LK_FIELD_SIZE], theirs_field[LK_FIELD_SIZE];
	abandon.abandon = 1;
	expect(LK_ENOTOWNER, lk_lock_release(ours, &abandon, &err));
	expect(0, lk_lock_acquire(ours, 0, NULL, &err));
	expect(0, lk_lock_export(ours, NULL, field, sizeof(field), &err));
	expect(LK_EBUSY, lk_lock_acquire(ours, 0, adopt_of(field, "another"), &err));
	expect(0, lk_lock_release(ours, &abandon, &err));
	expect(0, lk_lock_is_held(ours, NULL, &err));
	expect(LK_ENOTOWNER, lk_lock_release(ours, NULL, &err));
	check_int(redis_integer(&server, "PTTL handed"), >, 20000);
	expect(LK_EBUSY, lk_lock_acquire(ours, 0, NULL, &err));
	expect(LK_EINVAL, lk_lock_acquire(theirs, 1000, adopt_of(field, NULL), &err));
	expect(LK_ENOTOWNER, lk_lock_acquire(theirs, 0, adopt_of("nobody:1", NULL), &err));
	expect(0, lk_lock_acquire(theirs, 0, adopt_of(field, NULL), &err));
	expect(1, lk_lock_is_held(theirs, NULL, &err));
	expect(0, lk_lock_export(theirs, NULL, theirs_field, sizeof(theirs_field), &err));
	check(strcmp(field, theirs_field) != 0);
	expect(0, is_held_by(ours, field, &err));
	expect(1, is_held_by(ours, theirs_field, &err));
	expect(LK_ENOTOWNER, lk_lock_acquire(ours, 0, adopt_of(field, NULL), &err));
	expect(0, lk_lock_release(theirs, NULL, &err));
	check_int(redis_integer(&server, "EXISTS handed"), ==, 0);
}

static void test_exported_field_works_elsewhere(void **state)
{
	own_client *first = open_client(), *second = open_client();
	own_lock *ours = new_lock(first, "export"), *theirs = new_lock(second, "export");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	const char *wrong = "00000000-0000-4000-8000-000000000000:1";
	char field[LK_FIELD_SIZE] = "untouched";
	options.lease_ms = 20000;
	expect(LK_ENOTOWNER, lk_lock_export(ours, NULL, field, sizeof(field), &err));
	check(!strcmp(field, "untouched"));
	expect(0, lk_lock_acquire(ours, -1, &options, &err));
	expect(LK_EINVAL, lk_lock_export(ours, NULL, field, LK_FIELD_SIZE - 1, &err));
	check(!strcmp(field, "untouched"));
	expect(0, lk_lock_export(ours, NULL, field, sizeof(field), &err));
	expect(1, is_held_by(theirs, field, &err));
	expect(0, is_held_by(theirs, wrong, &err));
	expect(LK_ENOTOWNER, lk_lock_extend(theirs, 60000, extend_of(wrong), &err));
	expect(LK_ENOTOWNER, lk_lock_release(theirs, release_of(wrong), &err));
	check_int(redis_integer(&server, "PTTL export"), <=, 20000);
	expect(0, lk_lock_extend(theirs, 60000, extend_of(field), &err));
	check_int(redis_integer(&server, "PTTL export"), >, 40000);
	expect(0, lk_lock_extend(theirs, 1000, extend_of(field), &err));
	check_int(redis_integer(&server, "PTTL export"), >, 40000);
	expect(0, lk_lock_release(theirs, release_of(field), &err));
	check_int(redis_integer(&server, "EXISTS export"), ==, 0);
	expect(LK_ENOTOWNER, lk_lock_release(theirs, release_of(field), &err));
	expect(LK_ENOTOWNER, lk_lock_extend(theirs, 1000, extend_of(field), &err));
	expect(LK_ELOST, lk_lock_release(ours, NULL, &err));
}

static void test_queries(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "query");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	int64_t ttl_ms = 77, deadline_ns = 77;
	expect(0, is_locked(lock, &err));
	expect(0, lk_lock_is_held(lock, NULL, &err));
	expect(0, lk_lock_server_ttl_ms(lock, &ttl_ms, &err));
	check_int(ttl_ms, ==, -2);
	check_int(remaining(lock, NULL), ==, LK_ENOTOWNER);
	expect(LK_ENOTOWNER, lk_lock_deadline_ns(lock, NULL, &deadline_ns, &err));
	check_int(deadline_ns, ==, 77);
	redis_do(&server, "HSET query someone 1");
	expect(1, is_locked(lock, &err));
	expect(1, is_held_by(lock, "someone", &err));
	expect(0, lk_lock_server_ttl_ms(lock, &ttl_ms, &err));
	check_int(ttl_ms, ==, -1);
	redis_do(&server, "DEL query");
	options.lease_ms = 20000;
	int64_t before_ns = now_ns();
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	expect(0, lk_lock_server_ttl_ms(lock, &ttl_ms, &err));
	check(ttl_ms > 10000 && ttl_ms <= 20000);
	expect(0, lk_lock_deadline_ns(lock, NULL, &deadline_ns, &err));
	/* Less drift: the local end comes before the server's, and never after the lease. */
	check_int(deadline_ns, <, now_ns() + ttl_ms * 1000000);
	check_int(deadline_ns, >, before_ns + INT64_C(10000) * 1000000);
	check_int(remaining(lock, NULL) - (deadline_ns - now_ns()) / 1000000, <=, 5);
	expect(0, lk_lock_release(lock, NULL, &err));
}

static void test_lease_counts_from_before_the_request(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "before");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	int64_t deadline_ns = 0;
	options.lease_ms = 10000;
	for (int i = 0; i < 50; i++) {
		int64_t latest_ns = now_ns(); /* before the call, so before the request */
		expect(0, lk_lock_acquire(lock, -1, &options, &err));
		expect(0, lk_lock_deadline_ns(lock, NULL, &deadline_ns, &err));
		int64_t answered_ns = now_ns();
		check_int(deadline_ns, <, answered_ns + INT64_C(10000000000));
		check_int(deadline_ns, >, latest_ns + INT64_C(9000000000));
		expect(0, lk_lock_release(lock, NULL, &err));
	}
}

static void test_key_prefix(void **state)
{
	own_client *client = open_client_with("key_prefix=app:"), *bare = open_client();
	own_lock *lock = new_lock(client, "job"), *same = new_lock(bare, "app:job");
	own_lock *other = new_lock(bare, "job");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	check_int(redis_integer(&server, "EXISTS app:job"), ==, 1);
	check_int(redis_integer(&server, "EXISTS job"), ==, 0);
	expect(LK_EBUSY, lk_lock_acquire(same, 0, NULL, &err));
	expect(0, lk_lock_acquire(other, 0, NULL, &err));
	expect(0, lk_lock_release(other, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, lk_lock_acquire(same, 0, NULL, &err));
	expect(0, lk_lock_release(same, NULL, &err));
}

static char long_name[LK_NAME_SIZE_MAX];
static char all_bytes[256];

static const struct {
	const char *bytes;
	size_t size;
} names[] = {
	{"a", 1},
	{"a\0b", 3},
	{"a\0", 2},
	{"\0", 1},
	{"\0\0", 2},
	{"{", 1},
	{"}", 1},
	{"{}", 2},
	{"a{b}c", 5},
	{"a}b{c", 5},
	{"{a}{b}", 6},
	{"\r\n", 2},
	{"$6\r\nfoobar\r\n", 12},
	{"%s%n", 4},
	{"\xff\xfe", 2},
	{"\xc3\xa9t\xc3\xa9", 6},
	{" ", 1},
	{"*", 1},
	{all_bytes, sizeof(all_bytes)},
	{long_name, sizeof(long_name)},
	{long_name, sizeof(long_name) - 1},
};

static void test_names_are_any_bytes(void **state)
{
	own_client *client = open_client(), *second = open_client();
	lk_lock *locks[COUNT(names)] = {0};
	for (size_t i = 0; i < sizeof(all_bytes); i++)
		all_bytes[i] = (char)i;
	memset(long_name, 'x', sizeof(long_name));
	long_name[100] = '\0';
	for (size_t i = 0; i < COUNT(names); i++) {
		const char *bytes = names[i].bytes;
		expect(0, lk_lock_new(&locks[i], client, bytes, names[i].size, &err));
		expect(0, lk_lock_acquire(locks[i], 0, NULL, &err));
		check_int(redis_integer(&server, "HLEN %b", bytes, names[i].size), ==, 1);
		check_int(redis_integer(&server, "DBSIZE"), ==, (long long)i + 1);
	}
	for (size_t i = 0; i < COUNT(names); i++) {
		lk_lock *theirs = NULL;
		expect(0, lk_lock_new(&theirs, second, names[i].bytes, names[i].size, &err));
		expect(LK_EBUSY, lk_lock_acquire(theirs, 0, NULL, &err));
		expect(1, lk_lock_hold_count(locks[i], NULL, &err));
		expect(0, lk_lock_release(locks[i], NULL, &err));
		expect(0, lk_lock_acquire(theirs, 0, NULL, &err));
		expect(0, lk_lock_release(theirs, NULL, &err));
		lk_lock_free(theirs);
		lk_lock_free(locks[i]);
	}
}

/* The release must be heard on `channel`, as a bare subscriber sees it. */
static void check_channel(const char *name, const char *channel)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, name);
	redisContext *context = redisConnectUnix(server.socket);
	redisReply *reply = redisCommand(context, "SUBSCRIBE %s", channel);
	check(reply && reply->type == REDIS_REPLY_ARRAY);
	freeReplyObject(reply);
	redisSetTimeout(context, (struct timeval){.tv_sec = slow_ms(5000) / 1000});
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	check(redisGetReply(context, (void **)&reply) == REDIS_OK);
	check(reply->elements == 3 && !strcmp(reply->element[1]->str, channel));
	check(!strcmp(reply->element[2]->str, "0"));
	freeReplyObject(reply);
	redisFree(context);
}

static void test_channel_is_redissons(void **state)
{
	check_channel("job", "redisson_lock__channel:{job}");
	check_channel("a{b}c", "redisson_lock__channel:a{b}c");
	check_channel("a{", "redisson_lock__channel:a{");
	check_channel("a}", "redisson_lock__channel:{a}}");
}

static void test_wrong_type_is_left_alone(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "text");
	redis_do(&server, "SET text hello");
	expect(LK_EWRONGTYPE, lk_lock_acquire(lock, 0, NULL, &err));
	expect(LK_EWRONGTYPE, lk_lock_acquire(lock, -1, NULL, &err));
	expect(LK_EWRONGTYPE, lk_lock_force_release(lock, &err));
	check_int(redis_integer(&server, "EXISTS text"), ==, 1);
	check_int(redis_integer(&server, "TTL text"), ==, -1);
	redis_do(&server, "DEL text");
	expect(0, lk_lock_acquire(lock, 0, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
}

/* The connection is cut and cannot be made anew: the hold is given up, and the answer says so. */
static void test_release_without_a_descriptor(void **state)
{
	struct rlimit before, none;
	/* The release goes on trying for as long as the lease. */
	own_client *client = open_client_with("watchdog_ms=%lld", slow_ms(1500));
	own_lock *lock = new_lock(client, "fds");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	check(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = before;
	none.rlim_cur = 3; /* the three standard ones take all of it */
	redis_do(&server, "CLIENT KILL TYPE normal");
	check(setrlimit(RLIMIT_NOFILE, &none) == 0);
	int code = lk_lock_release(lock, NULL, &err);
	check(setrlimit(RLIMIT_NOFILE, &before) == 0);
	check(code == 0 || code == LK_EMAYBEHELD);
	expect(0, lk_lock_is_held(lock, NULL, &err));
	expect(LK_ENOTOWNER, lk_lock_release(lock, NULL, &err));
	wait_until(redis_integer(&server, "EXISTS fds") == 0, 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_acquire_and_release_on_the_wire),
		api_test(test_each_grant_has_a_new_number),
		api_test(test_another_thread_is_another_owner),
		api_test(test_reentry_counts),
		api_test(test_last_release_frees_whatever_count_redis_shows),
		api_test(test_named_owners_move_between_threads),
		api_test(test_two_handles_are_one_lock),
		api_test(test_force_release_is_a_loss),
		api_test(test_extend),
		api_test(test_a_hold_goes_on_in_another_client),
		api_test(test_exported_field_works_elsewhere),
		api_test(test_queries),
		api_test(test_lease_counts_from_before_the_request),
		api_test(test_key_prefix),
		api_test(test_names_are_any_bytes),
		api_test(test_channel_is_redissons),
		api_test(test_wrong_type_is_left_alone),
		api_test(test_release_without_a_descriptor),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
