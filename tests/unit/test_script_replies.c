/* How the answers of scripts are read: a grant and a remaining ttl can never be confused. */
#include "unit.h"

#include <string.h>

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "conn/request.h"
#include "conn/conn.h"
#include "conn/node.h"
#include "lock/counter.h"
#include "sync/script.h"
#include "sync/recipes.h"
#include "sync/multi/multi.h"

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
	for (size_t i = 0; i < sizeof(recipes) / sizeof(recipes[0]); i++) {
		for (size_t j = 0; j < sizeof(ttls) / sizeof(ttls[0]); j++) {
			struct lk__answer answer = read_as(recipes[i], integer(ttls[j]));
			assert_int_equal(answer.event.type, LK__ATTEMPT_BUSY);
			assert_int_equal(answer.event.ttl_ms, ttls[j]);
			assert_int_equal(answer.fence, 0);
		}
	}
}

static void test_a_token_is_a_grant(void **state)
{
	struct lk__answer answer = read_as(&lk__fenced_recipe,
					   text(REDIS_REPLY_STATUS, "TOKEN 9007199254740991"));
	assert_int_equal(answer.event.type, LK__ATTEMPT_GRANTED);
	assert_true(answer.fence == LK__FENCE_TOKEN_MAX);
	redisReply nil = {.type = REDIS_REPLY_NIL};
	answer = read_as(&lk__lock_recipe, nil);
	assert_int_equal(answer.event.type, LK__ATTEMPT_GRANTED);
}

/* What no script of ours says is no grant, and no refusal either: it is compensated. */
static void test_anything_else_is_unknown(void **state)
{
	redisReply replies[] = {
		{.type = REDIS_REPLY_NIL},
		{.type = REDIS_REPLY_ARRAY},
		text(REDIS_REPLY_STATUS, "TOKEN 0"),
		text(REDIS_REPLY_STATUS, "TOKEN "),
		text(REDIS_REPLY_STATUS, "TOKEN x"),
		text(REDIS_REPLY_STATUS, "OK"),
		text(REDIS_REPLY_STRING, "TOKEN 5"),
		text(REDIS_REPLY_STATUS, ""),
		text(REDIS_REPLY_STATUS, "TOKEN 1.795751193735E15"),
		text(REDIS_REPLY_STATUS, "TOKEN 5 "),
		text(REDIS_REPLY_STATUS, "TOKEN -5"),
		text(REDIS_REPLY_STATUS, "TOKEN 9007199254740992"), /* not exact in Lua */
		text(REDIS_REPLY_STATUS, "TOKEN 18446744073709551617"),
		text(REDIS_REPLY_STATUS, "LATE 1.795E15"),
		text(REDIS_REPLY_STATUS, "LATE "),
		text(REDIS_REPLY_STATUS, "LATE 99999999999999999999"),
	};
	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		struct lk__answer answer = read_as(&lk__fenced_recipe, replies[i]);
		assert_int_equal(answer.event.type, LK__ATTEMPT_UNKNOWN);
		assert_int_equal(answer.fence, 0);
	}
}

/* What no script of ours says of a release: nobody knows whether it was released. */
static void test_a_strange_answer_to_a_release_is_no_release(void **state)
{
	const struct lk__recipe *recipes[] = {&lk__lock_recipe, &lk__spin_recipe, &lk__fair_recipe,
					      &lk__plain_recipe};
	redisReply replies[] = {{.type = REDIS_REPLY_ARRAY},
				text(REDIS_REPLY_STATUS, "OK"),
				text(REDIS_REPLY_STRING, "1"),
				integer(-7000000000)};
	for (size_t i = 0; i < COUNT(recipes); i++) {
		for (size_t j = 0; j < COUNT(replies); j++) {
			struct lk__request request = {.reply = &replies[j], .sends = 1};
			int64_t listeners = 0;
			assert_int_equal(recipes[i]->read_release(&request, &listeners),
					 LK__RELEASED_FAILED);
		}
	}
	redisReply *elements[] = {&replies[1]};
	redisReply all = {.type = REDIS_REPLY_ARRAY, .elements = 1, .element = elements};
	struct lk__request request = {.reply = &all, .sends = 1};
	int64_t listeners = 0;
	assert_int_equal(lk__multi_read_release(&request, 0, &listeners), LK__RELEASED_FAILED);
	assert_int_equal(lk__reply_renewed(&request, 1, 0), -1);
}

/* Two numbers name a place in the list of names; the library refuses any other pair. */
static void test_a_strange_pair_is_unknown(void **state)
{
	redisReply word = text(REDIS_REPLY_STRING, "1"), one = integer(1), none = integer(0);
	redisReply *pairs[][2] = {{&word, &one}, {&one, &word}, {&none, &one}};
	for (size_t i = 0; i < COUNT(pairs); i++) {
		redisReply pair = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = pairs[i]};
		struct lk__request request = {.reply = &pair, .sends = 1};
		struct lk__answer answer = {.fence = 0};
		lk__multi_read_acquire(&request, &answer);
		assert_int_equal(answer.event.type, LK__ATTEMPT_UNKNOWN);
	}
}

static void test_late_tells_the_time(void **state)
{
	struct lk__answer answer = read_as(&lk__fenced_recipe,
					   text(REDIS_REPLY_STATUS, "LATE 1795263965971151"));
	assert_int_equal(answer.event.type, LK__ATTEMPT_LATE);
	assert_int_equal(answer.event.server_us, INT64_C(1795263965971151));
}

/* Of a request that was sent twice, what one copy was told is not what became of it. */
static void test_a_late_copy_is_unknown(void **state)
{
	const struct lk__recipe *recipes[] = {
		&lk__lock_recipe,      &lk__spin_recipe,  &lk__fenced_recipe,
		&lk__fair_recipe,      &lk__read_recipe,  &lk__write_recipe,
		&lk__semaphore_recipe, &lk__plain_recipe, &lk__permit_queue_recipe,
	};
	redisReply late = text(REDIS_REPLY_STATUS, "LATE 1795263965971151");
	for (size_t i = 0; i < sizeof(recipes) / sizeof(recipes[0]); i++) {
		struct lk__request request = {.reply = &late, .sends = 2};
		struct lk__answer answer = {.fence = 0};
		recipes[i]->read_acquire(&request, &answer);
		assert_int_equal(answer.event.type, LK__ATTEMPT_UNKNOWN);
		request.sends = 1;
		recipes[i]->read_acquire(&request, &answer);
		assert_int_equal(answer.event.type, LK__ATTEMPT_LATE);
		if (!recipes[i]->read_exchange)
			continue;
		assert_int_equal(recipes[i]->read_exchange(&request, &answer),
				 LK__EXCHANGE_NOT_DONE);
		request.sends = 2;
		assert_int_equal(recipes[i]->read_exchange(&request, &answer),
				 LK__EXCHANGE_UNKNOWN);
	}
	struct lk__answer answer = {.fence = 0};
	struct lk__request request = {.reply = &late, .sends = 2};
	lk__multi_read_acquire(&request, &answer);
	assert_int_equal(answer.event.type, LK__ATTEMPT_UNKNOWN);
}

/* A slot may have gone to another node since the counter was made: that one's clock is told. */
static void test_late_teaches_the_node_that_answered(void **state)
{
	redisReply late = text(REDIS_REPLY_STATUS, "LATE 1795263965971151");
	struct lk__node former = {.offset_ns = INT64_MIN}, present = {.offset_ns = INT64_MIN};
	struct lk__conn conn = {.node = &present};
	struct lk__entry entry = {.name = "n", .target = {.node = &former}};
	struct lk__counter counter = {.entry = &entry};
	struct lk__counting counting = {.counter = &counter, .operation = "add"};
	struct lk__request request = {.conn = &conn, .reply = &late, .sends = 1};
	assert_int_equal(lk__change_read(&counting, &request), 1);
	assert_true(present.offset_ns > INT64_MIN);
	assert_true(former.offset_ns == INT64_MIN);
}

/* ---- the answer as a whole, however many names were asked for ---- */

#define SENT_NS (INT64_C(5000) * LK__MS)
#define LEASE_MS 30000

static lk__read_acquire *const readers[] = {lk__reply_acquired, lk__multi_read_acquire};

static struct lk__node node;
static struct lk__conn conn = {.node = &node};

static struct lk__answer take(lk__read_acquire *read, redisReply *reply, int code, int64_t now_ns)
{
	struct lk__request request = {.conn = &conn,
				      .reply = reply,
				      .code = code,
				      .reason = "1 of 2 replicas",
				      .sends = 1,
				      .sent_ns = SENT_NS};
	struct lk__answer answer = lk__answer_take(&request, read, LEASE_MS, now_ns);
	assert_int_equal(answer.event.sent_ns, SENT_NS);
	assert_true(!answer.event.code == !answer.reason);
	if (answer.reason == request.reason) /* which is gone */
		answer.reason = "of the request";
	return answer;
}

/* That too few replicas have it voids a grant, and nothing else: nothing else was written. */
static void test_what_too_few_have(void **state)
{
	redisReply nil = {.type = REDIS_REPLY_NIL}, ttl = integer(700), first = integer(1);
	redisReply *elements[] = {&first, &ttl};
	redisReply pair = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = elements};
	redisReply late = text(REDIS_REPLY_STATUS, "LATE 1795263965971151");
	redisReply *busy[] = {&ttl, &pair};
	for (size_t i = 0; i < COUNT(readers); i++) {
		struct lk__answer answer = take(readers[i], &nil, LK_ENOTDURABLE, SENT_NS);
		assert_int_equal(answer.event.type, LK__ATTEMPT_UNKNOWN);
		assert_int_equal(answer.event.code, LK_ENOTDURABLE);
		assert_string_equal(answer.reason, "of the request");
		answer = take(readers[i], busy[i], LK_ENOTDURABLE, SENT_NS);
		assert_int_equal(answer.event.type, LK__ATTEMPT_BUSY);
		assert_int_equal(answer.event.ttl_ms, 700);
		node.offset_ns = INT64_MIN;
		answer = take(readers[i], &late, LK_ENOTDURABLE, SENT_NS);
		assert_int_equal(answer.event.type, LK__ATTEMPT_LATE);
		assert_true(node.offset_ns > INT64_MIN); /* it has taught the time */
	}
}

/* Less a hundredth and 2 ms for the clocks. */
static void test_a_grant_later_than_its_lease_is_unknown(void **state)
{
	redisReply nil = {.type = REDIS_REPLY_NIL};
	int64_t end_ns = SENT_NS + (LEASE_MS - LEASE_MS / 100 - 2) * LK__MS;
	for (size_t i = 0; i < COUNT(readers); i++) {
		assert_int_equal(take(readers[i], &nil, 0, end_ns - 1).event.type,
				 LK__ATTEMPT_GRANTED);
		struct lk__answer answer = take(readers[i], &nil, 0, end_ns);
		assert_int_equal(answer.event.type, LK__ATTEMPT_UNKNOWN);
		assert_int_equal(answer.event.code, LK_EMAYBEHELD);
		assert_non_null(strstr(answer.reason, "after its lease"));
		answer = take(readers[i], &nil, LK_ENOTDURABLE, end_ns);
		assert_int_equal(answer.event.code, LK_ENOTDURABLE);
	}
}

static void test_an_answer_without_a_meaning_has_a_reason(void **state)
{
	redisReply other = text(REDIS_REPLY_STATUS, "OK");
	for (size_t i = 0; i < COUNT(readers); i++) {
		struct lk__answer answer = take(readers[i], &other, 0, SENT_NS);
		assert_int_equal(answer.event.type, LK__ATTEMPT_UNKNOWN);
		assert_int_equal(answer.event.code, LK_EMAYBEHELD);
	}
}

static void test_copies_and_what_was_never_sent(void **state)
{
	struct lk__request request = {.code = LK_EUNREACHABLE};
	struct lk__attempt_event event =
		lk__answer_take(&request, lk__reply_acquired, LEASE_MS, 0).event;
	assert_int_equal(event.type, LK__ATTEMPT_FAILED);
	assert_true(event.unsent && !event.copied);
	request.sends = 2;
	event = lk__answer_take(&request, lk__reply_acquired, LEASE_MS, 0).event;
	assert_true(!event.unsent && event.copied);
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
		enum lk__attempt_event_type type;
		bool retryable;
	} cases[] = {
		{LK_EMAYBEHELD, LK__ATTEMPT_UNKNOWN, false},
		{LK_EUNAVAILABLE, LK__ATTEMPT_FAILED, true},
		{LK_EREFUSED, LK__ATTEMPT_FAILED, false},
		{LK_EWRONGTYPE, LK__ATTEMPT_FAILED, false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lk__request request = {.code = cases[i].code};
		struct lk__answer answer = {.fence = 0};
		lk__fenced_recipe.read_acquire(&request, &answer);
		assert_int_equal(answer.event.type, cases[i].type);
		assert_int_equal(answer.event.retryable, cases[i].retryable);
	}
}

/* Servers up to 6 say where in the script it was. */
static void test_errors_from_inside_a_script(void **state)
{
#define WHERE "ERR Error running script (call to f_726ac4a0c47729879d79b164501e92439cc93628): "
	const struct {
		const char *text;
		int code;
	} cases[] = {
		{WHERE "@user_script:1: WRONGTYPE Operation against a key", LK_EWRONGTYPE},
		{WHERE "@user_script:1: @user_script: 1: -OOM command not allowed", LK_EREFUSED},
		{WHERE "@user_script:31: @user_script: 31: -READONLY You can't", LK_EUNAVAILABLE},
		{WHERE "@user_script:1: @user_script: 1: The user executing the script can't",
		 LK_EDENIED},
		{WHERE "@user_script:1: something: else", LK_EMAYBEHELD},
		{WHERE, LK_EMAYBEHELD},
		{"ERR Error running script", LK_EMAYBEHELD},
		{"ERR other: -OOM", LK_EMAYBEHELD},
		{"WRONGTYPE Operation", LK_EWRONGTYPE},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(lk__refusal(cases[i].text).code, cases[i].code);
}

static void test_a_check_is_stale_or_not(void **state)
{
	redisReply stale = text(REDIS_REPLY_STATUS, "STALE 9007199254740991");
	redisReply newest = text(REDIS_REPLY_STATUS, "NEWEST");
	assert_true(lk__fence_read_check(&stale) == LK__FENCE_TOKEN_MAX);
	assert_true(lk__fence_read_check(&newest) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_remaining_ttl_is_busy),
		cmocka_unit_test(test_a_token_is_a_grant),
		cmocka_unit_test(test_anything_else_is_unknown),
		cmocka_unit_test(test_a_strange_answer_to_a_release_is_no_release),
		cmocka_unit_test(test_a_strange_pair_is_unknown),
		cmocka_unit_test(test_late_tells_the_time),
		cmocka_unit_test(test_a_late_copy_is_unknown),
		cmocka_unit_test(test_late_teaches_the_node_that_answered),
		cmocka_unit_test(test_what_too_few_have),
		cmocka_unit_test(test_a_grant_later_than_its_lease_is_unknown),
		cmocka_unit_test(test_an_answer_without_a_meaning_has_a_reason),
		cmocka_unit_test(test_copies_and_what_was_never_sent),
		cmocka_unit_test(test_exchanges),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_errors_from_inside_a_script),
		cmocka_unit_test(test_a_check_is_stale_or_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
