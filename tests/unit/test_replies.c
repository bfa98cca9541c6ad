/* How the answers of scripts are read: a grant and a remaining ttl can never be confused. */
#include "unit.h"

#include <string.h>

#include <lockkeeper/error.h>

#include "sync/fenced/fenced.h"
#include "sync/lock/lock.h"
#include "sync/script.h"
#include "sync/spin/spin.h"

static redisReply integer(long long value)
{
	return (redisReply){.type = REDIS_REPLY_INTEGER, .integer = value};
}

/* The text is only read. */
static redisReply text(int type, const char *value)
{
	return (redisReply){.type = type, .str = (char *)(uintptr_t)value, .len = strlen(value)};
}

static struct lk__answer read_as(const struct lk__recipe *recipe, redisReply reply)
{
	struct lk__request request = {.reply = &reply};
	struct lk__answer answer = {.fence = 0};
	recipe->read_acquire(&request, &answer);
	return answer;
}

static void test_a_remaining_ttl_is_busy(void **state)
{
	const struct lk__recipe *recipes[] = {&lk__lock_recipe, &lk__spin_recipe,
					      &lk__fenced_recipe, &lk__fenced_java_recipe};
	const long long ttls[] = {-2, -1, 0, 1, 30000, INT64_C(1795263965971151)};
	(void)state;
	for (size_t i = 0; i < sizeof(recipes) / sizeof(recipes[0]); i++) {
		for (size_t j = 0; j < sizeof(ttls) / sizeof(ttls[0]); j++) {
			struct lk__answer answer = read_as(recipes[i], integer(ttls[j]));
			assert_int_equal(answer.event.type, LK__ACQUIRE_BUSY);
			assert_int_equal(answer.event.ttl_ms, ttls[j]);
			assert_int_equal(answer.fence, 0);
		}
	}
}

static void test_a_token_is_a_grant(void **state)
{
	(void)state;
	struct lk__answer answer = read_as(&lk__fenced_recipe,
					   text(REDIS_REPLY_STATUS, "TOKEN 9007199254740991"));
	assert_int_equal(answer.event.type, LK__ACQUIRE_GRANTED);
	assert_true(answer.fence == LK__FENCE_TOKEN_MAX);
	redisReply nil = {.type = REDIS_REPLY_NIL};
	answer = read_as(&lk__lock_recipe, nil);
	assert_int_equal(answer.event.type, LK__ACQUIRE_GRANTED);
}

/* What no script of ours says is no grant, and no refusal either: it is taken back. */
static void test_anything_else_is_unknown(void **state)
{
	redisReply replies[] = {
		{.type = REDIS_REPLY_NIL},           {.type = REDIS_REPLY_ARRAY},
		text(REDIS_REPLY_STATUS, "TOKEN 0"), text(REDIS_REPLY_STATUS, "TOKEN "),
		text(REDIS_REPLY_STATUS, "TOKEN x"), text(REDIS_REPLY_STATUS, "OK"),
		text(REDIS_REPLY_STRING, "TOKEN 5"), text(REDIS_REPLY_STATUS, ""),
	};
	(void)state;
	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		struct lk__answer answer = read_as(&lk__fenced_recipe, replies[i]);
		assert_int_equal(answer.event.type, LK__ACQUIRE_UNKNOWN);
		assert_int_equal(answer.fence, 0);
	}
}

static void test_late_tells_the_time(void **state)
{
	(void)state;
	struct lk__answer answer = read_as(&lk__fenced_recipe,
					   text(REDIS_REPLY_STATUS, "LATE 1795263965971151"));
	assert_int_equal(answer.event.type, LK__ACQUIRE_LATE);
	assert_int_equal(answer.server_us, INT64_C(1795263965971151));
}

static enum lk__exchanged exchanged(const struct lk__recipe *recipe, redisReply reply,
				    uint64_t *fence_out)
{
	struct lk__request request = {.reply = &reply};
	struct lk__answer answer = {.fence = 0};
	enum lk__exchanged result = recipe->read_exchange(&request, &answer);
	*fence_out = answer.fence;
	return result;
}

static void test_exchanges(void **state)
{
	uint64_t fence;
	const struct lk__recipe *fenced = &lk__fenced_recipe;
	redisReply nil = {.type = REDIS_REPLY_NIL};
	(void)state;
	assert_int_equal(exchanged(fenced, text(REDIS_REPLY_STATUS, "TOKEN 7"), &fence),
			 LK__EXCHANGED);
	assert_int_equal(fence, 7);
	assert_int_equal(exchanged(fenced, nil, &fence), LK__EXCHANGE_UNKNOWN);
	assert_int_equal(exchanged(&lk__lock_recipe, nil, &fence), LK__EXCHANGED);
	assert_int_equal(exchanged(fenced, integer(-3), &fence), LK__EXCHANGE_NOT_OWNER);
	assert_int_equal(exchanged(fenced, text(REDIS_REPLY_STATUS, "FREED why"), &fence),
			 LK__EXCHANGE_FREED);
	assert_int_equal(exchanged(fenced, text(REDIS_REPLY_STATUS, "LATE 5"), &fence),
			 LK__EXCHANGE_NOT_DONE);
	assert_int_equal(fence, 0);
}

static void test_refusals(void **state)
{
	const struct {
		int code;
		enum lk__acquire_event_type type;
		bool retryable;
	} cases[] = {
		{LK_EMAYBEHELD, LK__ACQUIRE_UNKNOWN, false},
		{LK_EUNAVAILABLE, LK__ACQUIRE_FAILED, true},
		{LK_EREFUSED, LK__ACQUIRE_FAILED, false},
		{LK_EWRONGTYPE, LK__ACQUIRE_FAILED, false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lk__request request = {.code = cases[i].code};
		struct lk__answer answer = {.fence = 0};
		lk__fenced_recipe.read_acquire(&request, &answer);
		assert_int_equal(answer.event.type, cases[i].type);
		assert_int_equal(answer.event.retryable, cases[i].retryable);
	}
}

static void test_a_check_is_stale_or_not(void **state)
{
	redisReply stale = text(REDIS_REPLY_STATUS, "STALE 9007199254740991");
	redisReply newest = text(REDIS_REPLY_STATUS, "NEWEST");
	(void)state;
	assert_true(lk__fence_read_check(&stale) == LK__FENCE_TOKEN_MAX);
	assert_true(lk__fence_read_check(&newest) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_remaining_ttl_is_busy),
		cmocka_unit_test(test_a_token_is_a_grant),
		cmocka_unit_test(test_anything_else_is_unknown),
		cmocka_unit_test(test_late_tells_the_time),
		cmocka_unit_test(test_exchanges),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_a_check_is_stale_or_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
