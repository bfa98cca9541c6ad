/* Words become the bytes of a command or of a script's call, or, if one is missing, nothing. What
 * they own goes with them (the address sanitizer looks). */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn/request.h"

#define MANY 100

static char *made(const char *text)
{
	char *copy = strdup(text);
	assert_non_null(copy);
	return copy;
}

/* The request has these bytes; frees it. */
static void has(struct lk__request *request, const char *bytes, size_t size)
{
	assert_non_null(request);
	assert_int_equal(lk__buffer_size(&request->bytes), size);
	assert_memory_equal(lk__buffer_front(&request->bytes), bytes, size);
	lk__request_free(request);
}

static void test_command(void **state)
{
	static const char bytes[] = "*4\r\n$3\r\nSET\r\n$3\r\na\0b\r\n$0\r\n\r\n$2\r\n-7\r\n";
	struct lk__words words = {0};
	lk__words_text(&words, "SET");
	lk__words_add(&words, "a\0b", 3);
	lk__words_text(&words, "");
	lk__words_number(&words, -7);
	has(lk__words_command(&words), bytes, sizeof(bytes) - 1);
}

static void test_longest_number(void **state)
{
	static const char bytes[] = "*1\r\n$20\r\n-9223372036854775808\r\n";
	struct lk__words words = {0};
	lk__words_number(&words, INT64_MIN);
	has(lk__words_command(&words), bytes, sizeof(bytes) - 1);
}

static void test_script(void **state)
{
	char bytes[200];
	struct lk__words words = {0};
	lk__words_own(&words, made("key"), 3);
	{
		char id[] = {'i', 0, 'd'};
		lk__words_add(&words, id, sizeof(id));
		memset(id, 'x', sizeof(id));
	}
	struct lk__request *request = lk__words_script(&words, LK__SCRIPT_LOCK_RELEASE, 1);
	assert_non_null(request);
	assert_int_equal(request->script, LK__SCRIPT_LOCK_RELEASE);
	int size = snprintf(bytes, sizeof(bytes),
			    "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$3\r\nkey\r\n$3\r\n"
			    "i%cd\r\n",
			    lk__scripts[LK__SCRIPT_LOCK_RELEASE].sha1, 0);
	has(request, bytes, (size_t)size);
}

/* Whether the request's bytes end so when it is stamped with that time. */
static void is_stamped(struct lk__request *request, int64_t server_us, const char *end)
{
	size_t size = strlen(end);
	lk__request_address(request, LK__MESSAGES_PLAIN, server_us);
	assert_memory_equal(lk__buffer_front(&request->bytes) + lk__buffer_size(&request->bytes) -
				    size,
			    end, size);
}

static void test_deadline_of_a_script(void **state)
{
	struct lk__words words = {0};
	char key[120];
	memset(key, 'k', sizeof(key));
	lk__words_add(&words, key, sizeof(key));
	lk__words_add(&words, "\r\n", 2);
	lk__words_deadline(&words);
	lk__words_text(&words, "last");
	struct lk__request *request = lk__words_script(&words, LK__SCRIPT_LOCK_ACQUIRE, 1);
	assert_non_null(request);
	is_stamped(request, INT64_C(1767225600000001),
		   "$2\r\n\r\n\r\n$16\r\n1767225600000001\r\n$4\r\nlast\r\n");
	is_stamped(request, 42, "$2\r\n\r\n\r\n$16\r\n0000000000000042\r\n$4\r\nlast\r\n");
	lk__request_free(request);
}

/* Behind ASKING a try gets no place in the order of turns; elsewhere it gets what it asked for. */
static void test_turn(void **state)
{
	for (char wanted = '0'; wanted <= '1'; wanted++) {
		struct lk__words words = {0};
		const char word[] = {wanted, '\0'};
		lk__words_text(&words, "key");
		lk__words_text(&words, word);
		words.turn = wanted;
		struct lk__request *request = lk__words_script(&words, LK__SCRIPT_LOCK_ACQUIRE, 1);
		assert_non_null(request);
		const char *end = lk__buffer_front(&request->bytes) +
				  lk__buffer_size(&request->bytes) - 3;
		for (int asks = 0; asks < 3; asks++) {
			request->asking = asks == 1;
			lk__request_address(request, LK__MESSAGES_PLAIN, 0);
			assert_int_equal(*end, asks == 1 ? '2' : wanted);
			assert_memory_equal(end + 1, "\r\n", 2);
		}
		lk__request_free(request);
	}
}

static void test_batch(void **state)
{
	static const char bytes[] = "*1\r\n$4\r\nTIME\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
	struct lk__request *batch = lk__request_batch(2);
	struct lk__words time = {0}, get = {0};
	assert_non_null(batch);
	lk__words_text(&time, "TIME");
	assert_true(lk__words_batch(batch, &time));
	lk__words_text(&get, "GET");
	lk__words_own(&get, made("k"), 1);
	assert_true(lk__words_batch(batch, &get));
	assert_int_equal(batch->batch, 2);
	has(batch, bytes, sizeof(bytes) - 1);
}

static void test_many(void **state)
{
	char bytes[MANY * 10 + 10];
	struct lk__words words = {0};
	int size = snprintf(bytes, sizeof(bytes), "*%d\r\n", MANY);
	for (int i = 0; i < MANY; i += 2) {
		lk__words_own(&words, made("k"), 1);
		lk__words_number(&words, 10);
		size += snprintf(bytes + size, sizeof(bytes) - (size_t)size,
				 "$1\r\nk\r\n$2\r\n10\r\n");
	}
	has(lk__words_command(&words), bytes, (size_t)size);
}

static void test_missing_word(void **state)
{
	struct lk__request *batch = lk__request_batch(1);
	assert_non_null(batch);
	for (int end = 0; end < 3; end++) {
		struct lk__words words = {0};
		lk__words_own(&words, made("before"), 6);
		if (end == 0)
			lk__words_own(&words, NULL, 0);
		else
			lk__words_text(&words, NULL);
		lk__words_own(&words, made("behind"), 6);
		lk__words_number(&words, 1);
		if (end == 0)
			assert_null(lk__words_script(&words, LK__SCRIPT_LOCK_RELEASE, 1));
		else if (end == 1)
			assert_null(lk__words_command(&words));
		else
			assert_false(lk__words_batch(batch, &words));
	}
	assert_int_equal(batch->batch, 0);
	lk__request_free(batch);
}

/* Longer than any word may be: no request rather than a part of one. */
static void test_too_long(void **state)
{
	struct lk__words words = {0};
	lk__words_text(&words, "before");
	lk__words_add(&words, "", (size_t)1 << 30);
	lk__words_text(&words, "behind");
	assert_null(lk__words_command(&words));
}

/* Where messages are sharded a script that publishes is another; the words stay where they are. */
static void test_a_script_for_sharded_messages(void **state)
{
	static const enum lk__script_id scripts[] = {LK__SCRIPT_LOCK_RELEASE,
						     LK__SCRIPT_LOCK_ACQUIRE};
	for (size_t i = 0; i < 2; i++) {
		struct lk__words words = {0};
		lk__words_text(&words, "EVALSHA");
		struct lk__request *request = lk__words_script(&words, scripts[i], 1);
		assert_non_null(request);
		size_t size = lk__buffer_size(&request->bytes);
		const char *bytes = request->bytes.bytes + request->bytes.start;
		char *before = strndup(bytes, size);
		lk__request_address(request, LK__MESSAGES_SHARDED, 0);
		assert_int_equal(lk__buffer_size(&request->bytes), size);
		assert_memory_equal(bytes, before, 22);
		assert_memory_equal(bytes + 22,
				    lk__script_of((int)scripts[i], LK__MESSAGES_SHARDED)->sha1, 40);
		assert_memory_equal(bytes + 62, before + 62, size - 62);
		assert_int_equal(memcmp(bytes, before, size) == 0, i == 1);
		free(before);
		lk__request_free(request);
	}
	const char *sharded = lk__script_of(LK__SCRIPT_FAIR_QUEUE, LK__MESSAGES_SHARDED)->text;
	assert_non_null(strstr(sharded, "'SHARDNUMSUB'"));
	assert_null(strstr(sharded, "'NUMSUB'"));
	const char *both = lk__script_of(LK__SCRIPT_FAIR_QUEUE, LK__MESSAGES_BOTH)->text;
	assert_non_null(strstr(both, "'SHARDNUMSUB'"));
	assert_non_null(strstr(both, "'NUMSUB'"));
}

/* The script's text instead of its SHA-1: the deadline has moved, the other words are the same. */
static void test_a_script_that_is_spelled_out(void **state)
{
	const struct lk__script *script = lk__script_of(LK__SCRIPT_LOCK_RELEASE, LK__MESSAGES_BOTH);
	struct lk__words words = {0}, spelled = {0};
	for (int i = 0; i < 2; i++) {
		struct lk__words *each = i ? &spelled : &words;
		if (i) {
			lk__words_text(each, "EVAL");
			lk__words_text(each, script->text);
			lk__words_text(each, "1");
		}
		lk__words_text(each, "EVALSHA");
		if (i)
			lk__words_text(each, "1234567890123456");
		else
			lk__words_deadline(each);
		lk__words_number(each, 7);
	}
	struct lk__request *request = lk__words_script(&words, LK__SCRIPT_LOCK_RELEASE, 1);
	struct lk__request *wanted = lk__words_command(&spelled);
	assert_true(lk__request_spell_out(request, LK__MESSAGES_BOTH));
	assert_true(lk__request_spell_out(request, LK__MESSAGES_BOTH));
	lk__request_address(request, LK__MESSAGES_BOTH, 1234567890123456);
	size_t size = lk__buffer_size(&wanted->bytes);
	assert_int_equal(lk__buffer_size(&request->bytes), size);
	assert_memory_equal(lk__buffer_front(&request->bytes), lk__buffer_front(&wanted->bytes),
			    size);
	lk__request_free(request);
	lk__request_free(wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_longest_number),
		cmocka_unit_test(test_script),
		cmocka_unit_test(test_deadline_of_a_script),
		cmocka_unit_test(test_turn),
		cmocka_unit_test(test_batch),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_missing_word),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_a_script_for_sharded_messages),
		cmocka_unit_test(test_a_script_that_is_spelled_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
