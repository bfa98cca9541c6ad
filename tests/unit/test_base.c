/* Buffer, heap, randomness, log lines and timers. */
#include "unit.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/error.h>

#include "base/containers.h"
#include "base/clock.h"
#include "base/door.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/identity.h"

static void test_bytes_come_out_in_order(void **state)
{
	struct lk__buffer buffer = {0};
	unsigned char in = 0;
	unsigned char out = 0;
	for (int round = 0; round < 2000; round++) {
		unsigned char bytes[97];
		size_t size = 1 + (size_t)round % sizeof(bytes);
		for (size_t i = 0; i < size; i++)
			bytes[i] = in++;
		assert_int_equal(lk__buffer_append(&buffer, bytes, size), 0);
		size_t take = lk__buffer_size(&buffer) * (size_t)(round % 5) / 4;
		for (size_t i = 0; i < take; i++)
			assert_int_equal((unsigned char)lk__buffer_front(&buffer)[i], out++);
		lk__buffer_take(&buffer, take);
	}
	while (lk__buffer_size(&buffer) > 0) {
		assert_int_equal((unsigned char)*lk__buffer_front(&buffer), out++);
		lk__buffer_take(&buffer, 1);
	}
	assert_int_equal(in, out);
	lk__buffer_free(&buffer);
}

static void test_a_steady_stream_needs_no_more_room(void **state)
{
	struct lk__buffer buffer = {0};
	char bytes[300] = "";
	for (int round = 0; round < 100000; round++) {
		assert_int_equal(lk__buffer_append(&buffer, bytes, sizeof(bytes)), 0);
		if (round > 0)
			lk__buffer_take(&buffer, sizeof(bytes));
	}
	assert_true(buffer.room <= 4096);
	lk__buffer_free(&buffer);
}

static void test_a_huge_append_changes_nothing(void **state)
{
	struct lk__buffer buffer = {0};
	assert_int_equal(lk__buffer_append(&buffer, "abc", 3), 0);
	assert_int_equal(lk__buffer_append(&buffer, "", SIZE_MAX), LK_ENOMEM);
	assert_int_equal(lk__buffer_append(&buffer, "", (1 << 30) - 2), LK_ENOMEM);
	assert_int_equal(lk__buffer_size(&buffer), 3);
	assert_memory_equal(lk__buffer_front(&buffer), "abc", 3);
	lk__buffer_free(&buffer);
	assert_int_equal(lk__buffer_size(&buffer), 0);
}

static void test_taking_more_than_there_is_takes_all(void **state)
{
	struct lk__buffer buffer = {0};
	assert_int_equal(lk__buffer_append(&buffer, "abc", 3), 0);
	lk__buffer_take(&buffer, 4);
	assert_int_equal(lk__buffer_size(&buffer), 0);
	assert_int_equal(lk__buffer_append(&buffer, "de", 2), 0);
	assert_memory_equal(lk__buffer_front(&buffer), "de", 2);
	lk__buffer_free(&buffer);
}

static void test_an_empty_buffer_gives_much_room_back(void **state)
{
	struct lk__buffer buffer = {0};
	char *bytes = calloc(1, 3 << 20);
	assert_non_null(bytes);
	assert_int_equal(lk__buffer_append(&buffer, bytes, 3 << 20), 0);
	lk__buffer_take(&buffer, 3 << 20);
	assert_int_equal(buffer.room, 0);
	free(bytes);
	lk__buffer_free(&buffer);
}

static void test_uuids_are_version_4(void **state)
{
	char last[LK__UUID_SIZE] = "";
	for (int round = 0; round < 1000; round++) {
		char uuid[LK__UUID_SIZE];
		assert_int_equal(lk__random_uuid(uuid), 0);
		assert_int_equal(strlen(uuid), 36);
		assert_int_equal(strspn(uuid, "0123456789abcdef-"), 36);
		for (size_t i = 0; i < 36; i++)
			assert_int_equal(uuid[i] == '-', i == 8 || i == 13 || i == 18 || i == 23);
		assert_int_equal(uuid[14], '4');
		assert_non_null(strchr("89ab", uuid[19]));
		assert_string_not_equal(uuid, last);
		memcpy(last, uuid, sizeof(last));
	}
}

static void test_random_bytes_fill_all(void **state)
{
	unsigned char seen[1024] = "";
	/* Each byte is 0 in all of 16 rounds with a chance of 2^-128. */
	for (int round = 0; round < 16; round++) {
		unsigned char bytes[sizeof(seen)];
		assert_int_equal(lk__random_bytes(bytes, sizeof(bytes)), 0);
		for (size_t i = 0; i < sizeof(seen); i++)
			seen[i] |= bytes[i];
	}
	for (size_t i = 0; i < sizeof(seen); i++)
		assert_int_not_equal(seen[i], 0);
}

struct lines {
	int count;
	int level;
	char last[2 * LK__LOG_LINE_MAX];
};

static void keep_line(void *context, int level, const char *line)
{
	struct lines *lines = context;
	lines->count++;
	lines->level = level;
	strncpy(lines->last, line, sizeof(lines->last) - 1);
}

static void test_log_is_silent_without_a_callback(void **state)
{
	struct lk__log log = {.level = LK_LOG_DEBUG};
	lk__log(&log, LK_LOG_ERROR, "nobody hears");
}

static void test_log_lines_are_levelled_bounded_and_single(void **state)
{
	struct lines lines = {0};
	struct lk__log log = {LK_LOG_WARNING, keep_line, &lines, NULL};
	char much[3 * LK__LOG_LINE_MAX];
	lk__log(&log, LK_LOG_INFO, "too fine");
	assert_int_equal(lines.count, 0);
	lk__log(&log, LK_LOG_WARNING, "two%slines\x7f %d", "\r\n", 7);
	assert_int_equal(lines.count, 1);
	assert_int_equal(lines.level, LK_LOG_WARNING);
	assert_string_equal(lines.last, "two??lines? 7");
	memset(much, 'x', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	lk__log(&log, LK_LOG_ERROR, "%s", much);
	assert_int_equal(strlen(lines.last), LK__LOG_LINE_MAX - 1);
}

/* The suites are to see a state that must not be; NDEBUG would hide it. */
static int is_readable(int fd)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	return lk__poll(&polled, 1, 0);
}

/* A time that is past, even 0, is due at once; only LK__NEVER disarms. */
#define NODES 300

/* Puts, moves and removes nodes at random; keys[i] is LK__NEVER for one that is not in. */
static void shuffle(struct lk__heap *heap, struct lk__heap_node *nodes, int64_t *keys)
{
	for (int step = 0; step < 20 * NODES; step++) {
		size_t i = (size_t)rand() % NODES;
		if (rand() % 4 == 0) {
			keys[i] = LK__NEVER;
			lk__heap_remove(heap, &nodes[i]);
		} else {
			keys[i] = rand() % NODES;
			assert_int_equal(lk__heap_put(heap, &nodes[i], keys[i]), 0);
		}
		assert_int_equal(lk__heap_key(heap, &nodes[i]), keys[i]);
	}
}

static void test_a_heap_gives_the_least_first(void **state)
{
	struct lk__heap heap = {0};
	struct lk__heap_node nodes[NODES] = {0};
	int64_t keys[NODES], last = 0;
	size_t count = 0;
	srand(1);
	for (size_t i = 0; i < NODES; i++)
		keys[i] = LK__NEVER;
	shuffle(&heap, nodes, keys);
	for (size_t i = 0; i < NODES; i++)
		count += keys[i] != LK__NEVER;
	for (; count > 0; count--) {
		int64_t key = lk__heap_first_key(&heap);
		struct lk__heap_node *first = lk__heap_first(&heap, key);
		assert_null(lk__heap_first(&heap, key - 1));
		assert_int_equal(keys[first - nodes], key);
		assert_true(key >= last);
		last = key;
		lk__heap_remove(&heap, first);
	}
	assert_int_equal(lk__heap_first_key(&heap), LK__NEVER);
	lk__heap_free(&heap);
}

static void test_a_timer_of_the_past_is_due(void **state)
{
	const int64_t past_ns[] = {0, 1, lk__now_ns() - 1};
	int timer = lk__timer_new();
	assert_true(timer >= 0);
	for (size_t i = 0; i < sizeof(past_ns) / sizeof(past_ns[0]); i++) {
		lk__timer_arm(timer, past_ns[i]);
		assert_int_equal(is_readable(timer), 1);
		lk__timer_arm(timer, LK__NEVER);
		assert_int_equal(is_readable(timer), 0);
	}
	lk__fd_close(timer);
}

static void test_assertions_are_on(void **state)
{
#ifdef NDEBUG
	fail_msg("built with NDEBUG");
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_heap_gives_the_least_first),
		cmocka_unit_test(test_a_timer_of_the_past_is_due),
		cmocka_unit_test(test_assertions_are_on),
		cmocka_unit_test(test_bytes_come_out_in_order),
		cmocka_unit_test(test_a_steady_stream_needs_no_more_room),
		cmocka_unit_test(test_a_huge_append_changes_nothing),
		cmocka_unit_test(test_taking_more_than_there_is_takes_all),
		cmocka_unit_test(test_an_empty_buffer_gives_much_room_back),
		cmocka_unit_test(test_uuids_are_version_4),
		cmocka_unit_test(test_random_bytes_fill_all),
		cmocka_unit_test(test_log_is_silent_without_a_callback),
		cmocka_unit_test(test_log_lines_are_levelled_bounded_and_single),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
