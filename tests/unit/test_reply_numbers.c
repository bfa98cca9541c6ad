/* The numbers of replies: whole and in range, or none; and those of requests. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "conn/request.h"
#include "resp/reply.h"

#define UNTOUCHED 77

static redisReply string(const char *value)
{
	return (redisReply){
		.type = REDIS_REPLY_STRING, .str = (char *)(uintptr_t)value, .len = strlen(value)};
}

static void test_whole_numbers(void **state)
{
	const struct {
		const char *text;
		int64_t number;
	} cases[] = {{"0", 0},
		     {"7", 7},
		     {"-1", -1},
		     {"10", 10},
		     {"9223372036854775807", INT64_MAX},
		     {"-9223372036854775808", INT64_MIN}};
	for (size_t i = 0; i < COUNT(cases); i++) {
		int64_t number = UNTOUCHED;
		redisReply reply = string(cases[i].text);
		assert_true(lk__number_read(cases[i].text, INT64_MIN, INT64_MAX, &number));
		assert_true(number == cases[i].number);
		assert_true(lk__reply_number(&reply, number, number, &number));
	}
}

static void test_written(void **state)
{
	static const char *const cases[] = {
		"0", "9", "10", "99", "100", "1767225600000001", "18446744073709551615"};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char out[LK__NUMBER_SIZE];
		size_t size = lk__number_write(out, strtoull(cases[i], NULL, 10));
		assert_int_equal(size, strlen(cases[i]));
		assert_memory_equal(out, cases[i], size);
	}
}

static void test_what_is_none(void **state)
{
	const char *const texts[] = {"",
				     "-",
				     "+1",
				     " 1",
				     "1 ",
				     "01",
				     "-0",
				     "0x1",
				     "1.5",
				     "1.795751193735E15",
				     "1e3",
				     "one",
				     "1\n",
				     "--1",
				     "9223372036854775808",
				     "1,000",
				     "nan",
				     "inf",
				     "-01",
				     "-9223372036854775809",
				     "1-",
				     "18446744073709551617"};
	for (size_t i = 0; i < COUNT(texts); i++) {
		int64_t number = UNTOUCHED;
		redisReply reply = string(texts[i]);
		assert_false(lk__number_read(texts[i], INT64_MIN, INT64_MAX, &number));
		assert_false(lk__reply_number(&reply, INT64_MIN, INT64_MAX, &number));
		assert_int_equal(number, UNTOUCHED);
	}
	redisReply nil_inside = {.type = REDIS_REPLY_STRING, .str = (char[]){"1\0002"}, .len = 3};
	int64_t number = UNTOUCHED;
	assert_false(lk__reply_number(&nil_inside, 0, 9, &number));
	redisReply other = {.type = REDIS_REPLY_STATUS, .str = (char[]){"1"}, .len = 1};
	assert_false(lk__reply_number(&other, 0, 9, &number));
	assert_false(lk__reply_integer(&other, 0, 9, &number));
}

static void test_ranges(void **state)
{
	int64_t number = UNTOUCHED;
	redisReply reply = {.type = REDIS_REPLY_INTEGER, .integer = 5};
	assert_false(lk__number_read("5", 6, 9, &number));
	assert_false(lk__number_read("5", 0, 4, &number));
	assert_false(lk__reply_integer(&reply, 6, 9, &number));
	assert_false(lk__reply_integer(&reply, 0, 4, &number));
	assert_int_equal(number, UNTOUCHED);
	assert_true(lk__reply_integer(&reply, 5, 5, &number));
	assert_int_equal(number, 5);
	const char *text = "16383 host:1";
	assert_ptr_equal(lk__number_take(text, 0, 16383, &number), text + 5);
	assert_null(lk__number_take(text, 0, 16382, &number));
}

static int64_t time_of(const char *seconds, const char *us)
{
	redisReply parts[] = {string(seconds), string(us)};
	redisReply *elements[] = {&parts[0], &parts[1]};
	redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = elements};
	return lk__time_answer(&reply);
}

/* A proxy that sums up the answers of two servers tells twice the time. */
static void test_a_time_has_microseconds(void **state)
{
	assert_true(time_of("1795263965", "999999") == INT64_C(1795263965999999));
	assert_true(time_of("1795263965", "0") == INT64_C(1795263965000000));
	assert_int_equal(time_of("1795263965", "1000000"), -1);
	assert_int_equal(time_of("1795263965", "-1"), -1);
	assert_int_equal(time_of("1795263965", "5.5"), -1);
	assert_int_equal(time_of("1.795E9", "5"), -1);
	assert_int_equal(time_of("9223372036854775807", "5"), -1);
	assert_int_equal(time_of("", ""), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_numbers),
		cmocka_unit_test(test_written),
		cmocka_unit_test(test_what_is_none),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_a_time_has_microseconds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
