/* The fenced lock: its tokens with the grants, in memory and in notices, and at a resource. */
#include <stddef.h>

#include "fixture.h"

#define TOKEN_KEY "lockkeeper_fence:{fenced}"
#define JAVA_KEY "redisson_lock_token:{fenced}"

static lk_lock *new_fenced(lk_client *client, int share_java)
{
	lk_lock *lock = NULL;
	lk_fenced_lock_options options = LK_FENCED_LOCK_OPTIONS_INIT;
	options.share_java = share_java;
	expect(0, lk_fenced_lock_new(&lock, client, "fenced", 6, &options, &err));
	return lock;
}

static void forget_tokens(void)
{
	redis_do(&server, "DEL " TOKEN_KEY " " JAVA_KEY " report app:report");
}

static uint64_t token_of(lk_lock *lock)
{
	uint64_t token = 0;
	expect(0, lk_lock_fence(lock, NULL, &token, &err));
	return token;
}

static uint64_t grant(lk_lock *lock)
{
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	uint64_t token = token_of(lock);
	expect(0, lk_lock_release(lock, NULL, &err));
	return token;
}

static void test_each_grant_has_a_greater_token(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_fenced(client, 0);
	uint64_t last = 0;
	for (int i = 0; i < 50; i++) {
		uint64_t token = grant(lock);
		check(token > last && token <= LK_FENCE_TOKEN_MAX);
		last = token;
	}
	check_int(redis_integer(&server, "GET " TOKEN_KEY), ==, (long long)last);
	check_int(redis_integer(&server, "EXISTS fenced"), ==, 0);
	redis_do(&server, "SET " TOKEN_KEY " 9007199254740000"); /* as after a clock stepped back */
	check(grant(lock) == UINT64_C(9007199254740001));
	forget_tokens();
	check(grant(lock) > last);
	forget_tokens();
}

static void test_the_greatest_token_is_the_last(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_fenced(client, 0);
	redis_do(&server, "SET " TOKEN_KEY " 9007199254740990");
	check(grant(lock) == LK_FENCE_TOKEN_MAX);
	expect(LK_EWRONGTYPE, lk_lock_acquire(lock, -1, NULL, &err));
	check(strstr(err.message, "counter") != NULL);
	check_int(redis_integer(&server, "EXISTS fenced"), ==, 0);
	forget_tokens();
}

static void ask_as_another(size_t index, void *argument)
{
	uint64_t token = 7;
	expect(LK_ENOTOWNER, lk_lock_fence(argument, NULL, &token, &err));
	check(token == 7);
}

static void test_owners_can_read_the_token(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_fenced(client, 0), *reentrant = new_lock(client, "reentrant");
	struct threads threads;
	uint64_t token = 7;
	expect(LK_ENOTOWNER, lk_lock_fence(lock, NULL, &token, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	uint64_t first = token_of(lock);
	expect(0, lk_lock_acquire(lock, -1, NULL, &err)); /* re-entry */
	check(token_of(lock) == first);
	expect(0, lk_lock_release(lock, NULL, &err));
	check(token_of(lock) == first);
	threads_start(&threads, 1, ask_as_another, lock);
	threads_join(&threads, 10000);
	expect(LK_EINVAL, lk_lock_fence(lock, NULL, NULL, &err));
	expect(LK_EINVAL, lk_lock_fence(NULL, NULL, &token, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, lk_lock_acquire(reentrant, -1, NULL, &err));
	expect(LK_EINVAL, lk_lock_fence(reentrant, NULL, &token, &err));
	check(strstr(err.message, "a lock has no fence tokens") != NULL);
	expect(0, lk_lock_release(reentrant, NULL, &err));
	check(token == 7);
	forget_tokens();
}

static void test_each_hold_has_the_token_of_its_grant(void **state)
{
	own_client *client = open_client(), *other = open_client();
	own_lock *lock = new_fenced(client, 0), *others = new_fenced(other, 0);
	uint64_t untouched = 7;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	uint64_t token = token_of(lock);
	expect(0, lk_lock_acquire(lock, -1, NULL, &err)); /* re-entry */
	check(token && token_of(lock) == token);
	expect(1, lk_lock_force_release(others, &err));
	wait_until(lk_lock_is_held(lock, NULL, NULL) == 0, 20000);
	expect(LK_ELOST, lk_lock_fence(lock, NULL, &untouched, &err));
	check(untouched == 7);
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
	expect(0, lk_lock_acquire(lock, 0, NULL, &err));
	check(token_of(lock) > token);
	expect(0, lk_lock_release(lock, NULL, &err));
	forget_tokens();
}

struct team {
	lk_lock *lock;
	uint64_t tokens[2];
};

static void team_member(size_t index, void *argument)
{
	struct team *team = argument;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = "team";
	expect(0, lk_lock_acquire(team->lock, slow_ms(20000), &options, &err));
	expect(0, lk_lock_fence(team->lock, options.owner, &team->tokens[index], &err));
}

/* Both wait: one is granted the lock, the other joins it. */
static void test_who_joins_the_owner_is_told_its_token(void **state)
{
	own_client *client = open_client();
	struct team team = {.lock = new_fenced(client, 0)};
	struct threads threads;
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	release.owner = "team";
	stranger_takes("fenced", 60000);
	threads_start(&threads, 2, team_member, &team);
	wait_until(stats_of(client).waiting == 2, 5000);
	stranger_releases("fenced");
	threads_join(&threads, 30000);
	check(team.tokens[0] && team.tokens[0] == team.tokens[1]);
	expect(0, lk_lock_release(team.lock, &release, &err));
	expect(0, lk_lock_release(team.lock, &release, &err));
	forget_tokens();
	lk_lock_free(team.lock);
}

static void test_a_notice_tells_the_token(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_fenced(client, 0);
	lk_event event = LK_EVENT_INIT;
	uint64_t token;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	uint64_t first = token_of(lock);
	expect(1, lk_lock_force_release(lock, &err));
	check_int(next_event(client, &event, 5000), ==, LK_EVENT_LOST);
	check(event.fence == first);
	expect(LK_ELOST, lk_lock_fence(lock, NULL, &token, &err));
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
	check(grant(lock) > first);
	forget_tokens();
}

/* ---- many at once ---- */

#define THREADS 8
#define ROUNDS 60

struct crowd {
	lk_client *clients[2];
	int share_java;
	int inside;
	size_t count;
	uint64_t tokens[THREADS * ROUNDS]; /* in the order of the grants: guarded by the lock */
};

static void test_javas_counter_goes_on_above_ours(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_fenced(client, 1);
	uint64_t first = grant(lock);
	long long javas = redis_integer(&server, "INCR " JAVA_KEY);
	check(javas > (long long)first);
	check(grant(lock) > (uint64_t)javas);
	redis_do(&server, "SET " JAVA_KEY " 9000000000000000");
	check(grant(lock) == UINT64_C(9000000000000001));
	check_int(redis_integer(&server, "PTTL " JAVA_KEY), ==, -1);
	forget_tokens();
}

/* ---- at a resource ---- */

static int check_token(lk_client *client, uint64_t token, uint64_t *newest_out)
{
	return lk_fence_check(client, "report", 6, token, NULL, newest_out, &err);
}

static void test_a_resource_accepts_the_newest(void **state)
{
	own_client *client = open_client();
	uint64_t newest = 1;
	expect(0, check_token(client, 5, &newest));
	expect(0, check_token(client, 5, &newest));
	check(newest == 1);
	expect(LK_ESTALE, check_token(client, 4, &newest));
	check(newest == 5 && strstr(err.message, "5 has been seen"));
	expect(LK_ESTALE, check_token(client, 4, NULL));
	expect(0, check_token(client, LK_FENCE_TOKEN_MAX, NULL));
	expect(LK_ESTALE, check_token(client, LK_FENCE_TOKEN_MAX - 1, &newest));
	check(newest == LK_FENCE_TOKEN_MAX);
	check(!lk_error_is_retryable(LK_ESTALE) && lk_error_is_fatal(LK_ESTALE));
	forget_tokens();
}

static int write_text(lk_client *client, uint64_t token, const char *value, int64_t ttl_ms)
{
	lk_fence_options options = LK_FENCE_OPTIONS_INIT;
	options.ttl_ms = ttl_ms;
	return lk_fence_write(client, "report", 6, token, value, value ? strlen(value) : 0,
			      &options, NULL, &err);
}

static void check_value(const char *key, const char *wanted)
{
	redisReply *reply = redis_ask(&server, "HGET %s value", key);
	check(reply->type == REDIS_REPLY_STRING && !strcmp(reply->str, wanted));
	freeReplyObject(reply);
}

static void test_a_resource_is_written_by_the_newest(void **state)
{
	own_client *client = open_client(), *prefixed = open_client_with("key_prefix=app:");
	expect(0, write_text(client, 10, "ten", 0));
	check_value("report", "ten");
	expect(LK_ESTALE, write_text(client, 9, "nine", 0));
	check_value("report", "ten");
	expect(0, write_text(client, 10, NULL, 0));
	check_value("report", "");
	check_int(redis_integer(&server, "PTTL report"), ==, -1);
	expect(0, write_text(client, 11, "eleven", 60000));
	check_value("report", "eleven");
	check_int(redis_integer(&server, "PTTL report"), >, 1000);
	expect(0, write_text(prefixed, 1, "one", 0));
	check_value("app:report", "one");
	forget_tokens();
}

static void test_a_value_may_be_large(void **state)
{
	own_client *client = open_client();
	char *value = malloc(LK_FENCE_VALUE_SIZE_MAX);
	check(value != NULL);
	memset(value, 'v', LK_FENCE_VALUE_SIZE_MAX);
	expect(0, lk_fence_write(client, "report", 6, 1, value, LK_FENCE_VALUE_SIZE_MAX, NULL, NULL,
				 &err));
	check_int(redis_integer(&server, "HSTRLEN report value"), ==, LK_FENCE_VALUE_SIZE_MAX);
	free(value);
	forget_tokens();
}

static void test_a_resource_that_is_something_else(void **state)
{
	own_client *client = open_client();
	redis_do(&server, "SET report x");
	expect(LK_EWRONGTYPE, check_token(client, 5, NULL));
	redis_do(&server, "DEL report");
	stranger_takes("report", 60000);
	expect(LK_EWRONGTYPE, write_text(client, 5, "five", 0));
	check_int(redis_integer(&server, "HLEN report"), ==, 1);
	forget_tokens();
}

static void test_bad_arguments(void **state)
{
	own_client *client = open_client();
	lk_lock *lock = NULL;
	const uint64_t tokens[] = {0, LK_FENCE_TOKEN_MAX + 1, UINT64_MAX};
	for (size_t i = 0; i < COUNT(tokens); i++) {
		expect(LK_EINVAL, check_token(client, tokens[i], NULL));
		check(strstr(err.message, "token") != NULL);
		expect(LK_EINVAL, write_text(client, tokens[i], "x", 0));
	}
	expect(LK_EINVAL, write_text(client, 1, "x", -1));
	expect(LK_EINVAL, write_text(client, 1, "x", INT64_MAX));
	expect(LK_EINVAL, lk_fence_write(client, "k", 1, 1, NULL, 1, NULL, NULL, &err));
	expect(LK_EINVAL, lk_fence_write(client, "k", 1, 1, "x", LK_FENCE_VALUE_SIZE_MAX + 1, NULL,
					 NULL, &err));
	expect(LK_EINVAL, lk_fence_check(NULL, "k", 1, 1, NULL, NULL, &err));
	expect(LK_EINVAL, lk_fence_check(client, NULL, 1, 1, NULL, NULL, &err));
	expect(LK_EINVAL, lk_fence_check(client, "k", 0, 1, NULL, NULL, &err));
	expect(LK_EINVAL, lk_fenced_lock_new(NULL, client, "k", 1, NULL, &err));
	expect(LK_EINVAL, lk_fenced_lock_new(&lock, NULL, "k", 1, NULL, &err));
	expect(LK_EINVAL, lk_fenced_lock_new(&lock, client, "", 0, NULL, &err));
	expect(LK_EINVAL, lk_fenced_lock_new(&lock, client, "a}b", 3, NULL, &err));
	expect(LK_EINVAL, lk_fenced_lock_new(&lock, client, "foo{bar", 7, NULL, &err));
	lk_fenced_lock_options options = {.struct_size = 1};
	expect(LK_EINVAL, lk_fenced_lock_new(&lock, client, "k", 1, &options, &err));
	check(lock == NULL);
	check_int(redis_integer(&server, "DBSIZE"), ==, 0);
}

static void test_no_answer_from_the_resource(void **state)
{
	own_client *client = open_client_with("command_timeout_ms=%lld", slow_ms(300));
	expect(0, check_token(client, 1, NULL));
	server_pause(&server);
	expect(LK_EMAYBEHELD, check_token(client, 2, NULL));
	server_resume(&server);
	wait_until(lk_client_ping(client, NULL) == 0, 5000);
	expect(0, check_token(client, 3, NULL));
	forget_tokens();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_each_grant_has_a_greater_token),
		api_test(test_the_greatest_token_is_the_last),
		api_test(test_owners_can_read_the_token),
		api_test(test_each_hold_has_the_token_of_its_grant),
		api_test(test_who_joins_the_owner_is_told_its_token),
		api_test(test_a_notice_tells_the_token),
		api_test(test_javas_counter_goes_on_above_ours),
		api_test(test_a_resource_accepts_the_newest),
		api_test(test_a_resource_is_written_by_the_newest),
		api_test(test_a_value_may_be_large),
		api_test(test_a_resource_that_is_something_else),
		api_test(test_bad_arguments),
		api_test(test_no_answer_from_the_resource),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
