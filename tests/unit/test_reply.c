/* Replies: cut anywhere, hostile, or no replies at all. And commands, as the bytes they become. */
#include "unit.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "resp/reply.h"
#include "conn/request.h"

/* Whatever a header claims; an array of 65536 pointers is half a megabyte. */
#define HEAP_MOST ((size_t)8 << 20)

#ifdef __GLIBC__
static size_t heap_used(void)
{
	struct mallinfo2 info = mallinfo2();
	return info.uordblks + info.hblkhd;
}
#else /* no other library tells it: there the test sees only that a header is refused */
static size_t heap_used(void)
{
	return 0;
}
#endif

static const struct {
	const char *bytes;
	size_t size;
	int type;
	long long integer;  /* or the number of elements */
	const char *string; /* or NULL */
} good[] = {
#define GOOD(bytes, type, integer, string)                                                         \
	{                                                                                          \
		bytes, sizeof(bytes) - 1, type, integer, string                                    \
	}
	GOOD("+OK\r\n", REDIS_REPLY_STATUS, 0, "OK"),
	GOOD("+\r\n", REDIS_REPLY_STATUS, 0, ""),
	GOOD("-ERR no\r\n", REDIS_REPLY_ERROR, 0, "ERR no"),
	GOOD(":0\r\n", REDIS_REPLY_INTEGER, 0, NULL),
	GOOD(":-9223372036854775808\r\n", REDIS_REPLY_INTEGER, INT64_MIN, NULL),
	GOOD(":9223372036854775807\r\n", REDIS_REPLY_INTEGER, INT64_MAX, NULL),
	GOOD("$-1\r\n", REDIS_REPLY_NIL, 0, NULL),
	GOOD("*-1\r\n", REDIS_REPLY_NIL, 0, NULL),
	GOOD("$0\r\n\r\n", REDIS_REPLY_STRING, 0, ""),
	GOOD("$12\r\n99999999999\n\r\n", REDIS_REPLY_STRING, 0, "99999999999\n"),
	GOOD("$6\r\na\r\nb\r\n\r\n", REDIS_REPLY_STRING, 0, "a\r\nb\r\n"),
	GOOD("*0\r\n", REDIS_REPLY_ARRAY, 0, NULL),
	GOOD("*2\r\n:1\r\n$1\r\nx\r\n", REDIS_REPLY_ARRAY, 2, NULL),
	GOOD("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n", REDIS_REPLY_ARRAY, 3, NULL),
	GOOD("*2\r\n*1\r\n*1\r\n*0\r\n*2\r\n-ERR\r\n$-1\r\n", REDIS_REPLY_ARRAY, 2, NULL),
	GOOD("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n", REDIS_REPLY_ARRAY, 1, NULL),
#undef GOOD
};

static void assert_good(const redisReply *reply, size_t row)
{
	assert_int_equal(reply->type, good[row].type);
	if (reply->type == REDIS_REPLY_ARRAY)
		assert_int_equal(reply->elements, good[row].integer);
	if (reply->type == REDIS_REPLY_INTEGER)
		assert_true(reply->integer == good[row].integer);
	if (good[row].string)
		assert_string_equal(reply->str, good[row].string);
}

static struct lk__reader *reader_new(void)
{
	struct lk__reader *reader = lk__reader_new();
	assert_non_null(reader);
	return reader;
}

static void assert_next(struct lk__reader *reader, size_t row)
{
	redisReply *reply = NULL;
	assert_int_equal(lk__reader_next(reader, &reply), 1);
	assert_good(reply, row);
	freeReplyObject(reply);
}

static void test_replies_cut_at_every_byte(void **state)
{
	for (size_t row = 0; row < COUNT(good); row++) {
		for (size_t cut = 0; cut < good[row].size; cut++) {
			struct lk__reader *reader = reader_new();
			redisReply *reply = NULL;
			assert_int_equal(lk__reader_feed(reader, good[row].bytes, cut), 0);
			assert_int_equal(lk__reader_next(reader, &reply), 0);
			assert_null(reply);
			assert_int_equal(lk__reader_feed(reader, good[row].bytes + cut,
							 good[row].size - cut),
					 0);
			assert_next(reader, row);
			assert_int_equal(lk__reader_next(reader, &reply), 0);
			lk__reader_free(reader);
		}
	}
}

static void test_replies_byte_by_byte_in_one_stream(void **state)
{
	struct lk__reader *reader = reader_new();
	for (size_t row = 0; row < COUNT(good); row++) {
		for (size_t i = 0; i < good[row].size; i++) {
			redisReply *reply = NULL;
			assert_int_equal(lk__reader_next(reader, &reply), 0);
			assert_int_equal(lk__reader_feed(reader, good[row].bytes + i, 1), 0);
		}
		assert_next(reader, row);
	}
	lk__reader_free(reader);
}

static void test_many_replies_in_one_piece(void **state)
{
	struct lk__reader *reader = reader_new();
	for (int round = 0; round < 200; round++) {
		for (size_t row = 0; row < COUNT(good); row++)
			assert_int_equal(lk__reader_feed(reader, good[row].bytes, good[row].size),
					 0);
		for (size_t row = 0; row < COUNT(good); row++)
			assert_next(reader, row);
	}
	lk__reader_free(reader);
}

/* A big stream of whole replies must not run into the limit of one value. */
static void test_limits_apply_to_each_value(void **state)
{
	static char bulk[1 << 20];
	struct lk__reader *reader = reader_new();
	for (int round = 0; round < 10; round++) {
		redisReply *reply = NULL;
		assert_int_equal(lk__reader_feed(reader, "*2\r\n$1048576\r\n", 14), 0);
		assert_int_equal(lk__reader_feed(reader, bulk, sizeof(bulk)), 0);
		assert_int_equal(lk__reader_next(reader, &reply), 0);
		assert_int_equal(lk__reader_feed(reader, "\r\n", 2), 0);
		assert_int_equal(lk__reader_next(reader, &reply), 0);
		assert_int_equal(lk__reader_feed(reader, ":1\r\n", 4), 0);
		assert_int_equal(lk__reader_next(reader, &reply), 1);
		freeReplyObject(reply);
	}
	for (int round = 0; round < 100; round++) {
		redisReply *reply = NULL;
		assert_int_equal(lk__reader_feed(reader, "*1000\r\n", 7), 0);
		for (int i = 0; i < 1000; i++)
			assert_int_equal(lk__reader_feed(reader, ":1\r\n", 4), 0);
		assert_int_equal(lk__reader_next(reader, &reply), 1);
		freeReplyObject(reply);
	}
	lk__reader_free(reader);
}

/* Feeds until the reader refuses, at most `times`; the stream stays refused. */
static void assert_refused(const char *name, const char *bytes, size_t size, int times)
{
	struct lk__reader *reader = reader_new();
	size_t before = heap_used();
	int status = 0;
	for (int i = 0; i < times && status == 0; i++) {
		redisReply *reply = NULL;
		status = lk__reader_feed(reader, bytes, size);
		if (status == 0)
			status = lk__reader_next(reader, &reply);
		if (status == 1) {
			freeReplyObject(reply);
			fail_msg("%s: a reply came out", name);
		}
		assert_true(heap_used() < before + HEAP_MOST); /* it may also shrink */
	}
	if (status != LK_EPROTOCOL)
		fail_msg("%s: %d", name, status);
	print_message("%s: %s\n", name, lk__reader_error(reader));
	assert_true(strlen(lk__reader_error(reader)) > 0);
	redisReply *reply = NULL;
	assert_int_equal(lk__reader_feed(reader, "+OK\r\n", 5), LK_EPROTOCOL);
	assert_int_equal(lk__reader_next(reader, &reply), LK_EPROTOCOL);
	lk__reader_free(reader);
}

static void test_hostile_replies_end_at_once(void **state)
{
	static const char *const hostile[] = {
		"*1000000000\r\n",
		"*2147483647\r\n",
		"*4294967296\r\n",
		"*65537\r\n",
		"*9223372036854775807\r\n",
		"*9223372036854775808\r\n",
		"*99999999999999999999999\r\n",
		"*-2\r\n",
		"*-9223372036854775808\r\n",
		"*x\r\n",
		"*\r\n",
		"*1x\r\n",
		"$999999999999\r\n",
		"$4194305\r\n",
		"$9223372036854775807\r\n",
		"$18446744073709551616\r\n",
		"$99999999999999999999999\r\n",
		"$-7\r\n",
		"$-2\r\nxx\r\n",
		"$x\r\n",
		"$\r\n",
		":x\r\n",
		":\r\n",
		":9223372036854775808\r\n",
		": 1\r\n",
		"garbage\r\n",
		"\r\n",
		"\n",
		" ",
		"?",
		"OK\r\n",
		"HTTP/1.1 400 Bad Request\r\n\r\n",
		"\x15\x03\x01",
		"\x16\x03\x03\x02",
		"*1\r\nx",
		"*2\r\n:1\r\n\r\n",
		"*2\r\n*1\r\n:1\r\n*65535\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
		"*60000\r\n*60000\r\n",
	};
	for (size_t i = 0; i < COUNT(hostile); i++)
		assert_refused(hostile[i], hostile[i], strlen(hostile[i]), 1);
}

static void test_endless_replies_end(void **state)
{
	static char line[65536];
	memset(line, 'x', sizeof(line));
	line[0] = '+';
	assert_refused("a line without end", line, sizeof(line), 2);
	assert_refused("nesting without end", "*1\r\n", 4, 100000);
	assert_refused("nesting of pairs", "*2\r\n:1\r\n", 8, 100000);
	memset(line, '1', sizeof(line));
	line[0] = '$';
	assert_refused("digits without end", line, sizeof(line), 2);
	line[0] = ':';
	assert_refused("a number without end", line, sizeof(line), 2);
}

/* 60 strings of 100 KB in one array: every one is fine, together they are too much. */
static void test_a_value_of_many_pieces_is_capped(void **state)
{
	static char bulk[100000];
	struct lk__reader *reader = reader_new();
	int status = lk__reader_feed(reader, "*60\r\n", 5);
	size_t fed = 0;
	while (status == 0 && fed < 60) {
		redisReply *reply = NULL;
		status = lk__reader_feed(reader, "$100000\r\n", 9);
		if (status == 0)
			status = lk__reader_feed(reader, bulk, sizeof(bulk));
		if (status == 0)
			status = lk__reader_feed(reader, "\r\n", 2);
		if (status == 0)
			status = lk__reader_next(reader, &reply);
		fed++;
	}
	assert_int_equal(status, LK_EPROTOCOL);
	assert_true(fed * sizeof(bulk) > LK__REPLY_BYTES_MAX - sizeof(bulk));
	lk__reader_free(reader);
}

static void test_strangers_are_named(void **state)
{
	static const struct {
		const char *bytes;
		const char *hint;
	} rows[] = {{"HTTP/1.1 200 OK\r\n", "HTTP"}, {"\x15\x03\x03", "rediss://"}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct lk__reader *reader = reader_new();
		redisReply *reply = NULL;
		assert_int_equal(lk__reader_feed(reader, rows[i].bytes, strlen(rows[i].bytes)), 0);
		assert_int_equal(lk__reader_next(reader, &reply), LK_EPROTOCOL);
		assert_non_null(strstr(lk__reader_error(reader), rows[i].hint));
		lk__reader_free(reader);
	}
}

static void test_commands_are_counted_bytes(void **state)
{
	struct lk__buffer buffer = {0};
	const char *first[] = {"SET", "k\r\n", "", "\0z"};
	const char *second[] = {"PING"};
	static const char bytes[] = "*4\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$0\r\n\r\n$2\r\n\0z\r\n"
				    "*1\r\n$4\r\nPING\r\n";
	assert_int_equal(lk__write_command(&buffer, 4, first, (size_t[]){3, 3, 0, 2}), 0);
	assert_int_equal(lk__write_command(&buffer, 1, second, (size_t[]){4}), 0);
	assert_int_equal(lk__buffer_size(&buffer), sizeof(bytes) - 1);
	assert_memory_equal(lk__buffer_front(&buffer), bytes, sizeof(bytes) - 1);
	lk__buffer_free(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replies_cut_at_every_byte),
		cmocka_unit_test(test_replies_byte_by_byte_in_one_stream),
		cmocka_unit_test(test_many_replies_in_one_piece),
		cmocka_unit_test(test_limits_apply_to_each_value),
		cmocka_unit_test(test_hostile_replies_end_at_once),
		cmocka_unit_test(test_endless_replies_end),
		cmocka_unit_test(test_a_value_of_many_pieces_is_capped),
		cmocka_unit_test(test_strangers_are_named),
		cmocka_unit_test(test_commands_are_counted_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
