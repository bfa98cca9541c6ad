/* A server that says in the midst of a pipeline that it is a replica: what becomes of the requests
 * that were sent behind the one that it refuses. The stream is the test's own. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include <lockkeeper/config.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/node.h"
#include "net/stream.h"
#include "resp/reply.h"

#define READONLY "-READONLY You can't write against a read only replica.\r\n"
#define REQUESTS 3

static struct lk__node node;
static struct lk__conn *conn;
static char written[4096];
static const char *unread; /* what the server said */
static struct lk__thread thread;
static struct lk__request *requests[REQUESTS];
static size_t request_count;
static lk_config *config;

static ssize_t stream_read(struct lk__stream *stream, void *bytes, size_t size)
{
	if (!unread)
		return -EAGAIN;
	size_t got = strlen(unread);
	memcpy(bytes, unread, got);
	unread = NULL;
	return (ssize_t)got;
}

static ssize_t stream_write(struct lk__stream *stream, const void *bytes, size_t size)
{
	assert_true(strlen(written) + size < sizeof(written));
	strncat(written, bytes, size);
	return (ssize_t)size;
}

static void stream_close(struct lk__stream *stream)
{
}

static const struct lk__stream_ops stream_ops = {
	.read = stream_read, .write = stream_write, .close = stream_close};
static struct lk__stream stream = {.ops = &stream_ops, .fd = -1};

static void ignore(void *context)
{
}

static const struct lk__node_events events = {
	.attention = ignore, .lost = ignore, .up = ignore, .connecting = ignore};

static int set_up(void **state)
{
	lk_error error;
	unread = NULL;
	request_count = 0;
	memset(written, 0, sizeof(written));
	assert_int_equal(lk_config_new(&config, &error), 0);
	assert_int_equal(lk_config_set(config, "url", "redis://nowhere.test", &error), 0);
	memset(&node, 0, sizeof(node));
	assert_int_equal(lk__node_init(&node, config, &events, NULL, &error), 0);
	conn = node.scripts[0];
	conn->stream = &stream;
	conn->reader = lk__reader_new();
	conn->state = LK__CONN_UP;
	atomic_store(&node.was_up, true);
	atomic_store(&node.asked_ns, lk__now_ns()); /* as a handshake does */
	return 0;
}

static int tear_down(void **state)
{
	lk__node_close(&node);
	for (size_t i = 0; i < request_count; i++)
		lk__request_free(requests[i]);
	lk__node_destroy(&node);
	config = lk_config_free(config);
	return 0;
}

static struct lk__request *submit(const char *word)
{
	struct lk__request *request = lk__request_new(1, (const char *[]){word},
						      (size_t[]){strlen(word)});
	request->thread = &thread;
	request->resend = true;
	requests[request_count++] = request;
	lk__conn_submit(conn, request);
	return request;
}

static void says(const char *text)
{
	unread = text;
	lk__conn_attend(conn, &thread, false);
}

static bool is_up(void)
{
	return conn->state == LK__CONN_UP;
}

static bool waits_unsent(const struct lk__request *request)
{
	return !request->done && request->sends == 0;
}

static void test_a_lone_refusal_ends_the_connection(void **state)
{
	const struct lk__request *refused = submit("FIRST");
	says(READONLY);
	assert_false(is_up());
	assert_true(waits_unsent(refused));
}

/* Else it would go out as a second copy, of whose first nobody knows whether it has run. */
static void test_what_was_sent_behind_it_is_answered(void **state)
{
	const struct lk__request *refused = submit("FIRST"), *behind = submit("BEHIND");
	says(READONLY);
	assert_true(waits_unsent(refused));
	assert_true(is_up());
	says(":7\r\n");
	assert_true(behind->done);
	assert_int_equal(behind->code, 0);
	assert_int_equal(behind->reply->integer, 7);
	assert_false(is_up());
	assert_true(waits_unsent(refused));
}

static void test_all_are_refused_one_by_one(void **state)
{
	for (int i = 0; i < REQUESTS; i++)
		submit("REFUSED");
	for (int i = 0; i < REQUESTS; i++) {
		assert_true(is_up());
		says(READONLY);
	}
	assert_false(is_up());
	for (int i = 0; i < REQUESTS; i++)
		assert_true(waits_unsent(requests[i]));
}

/* The next connection had led to it again: they are told, and nothing may be held. */
static void test_a_replica_for_good_has_run_nothing(void **state)
{
	conn->failures = 1;
	for (int i = 0; i < REQUESTS; i++)
		submit("REFUSED");
	for (int i = 0; i < REQUESTS; i++) {
		says(READONLY);
		assert_true(requests[i]->done);
		assert_int_equal(requests[i]->code, LK_EUNAVAILABLE);
	}
	assert_false(is_up());
}

static void test_nothing_more_is_sent_there(void **state)
{
	submit("FIRST");
	submit("BEHIND");
	says(READONLY);
	const struct lk__request *later = submit("LATER");
	says("+OK\r\n");
	assert_false(is_up());
	assert_true(waits_unsent(later));
	assert_null(strstr(written, "LATER"));
}

static void test_answers_of_a_former_master_prove_nothing(void **state)
{
	submit("FIRST");
	submit("BEHIND");
	says(READONLY);
	says(":7\r\n");
	assert_false(is_up());
	assert_int_equal(conn->failures, 1); /* so a pause comes first */
}

static void test_a_former_master_that_falls_silent_is_left(void **state)
{
	submit("FIRST");
	const struct lk__request *behind = submit("BEHIND");
	says(READONLY);
	assert_true(is_up());
	int64_t most_ns = lk__after_ms(lk__now_ns(), config->command_timeout_ms / 2);
	assert_true(lk__conn_next_ns(conn) < most_ns);
	conn->drain_until_ns = lk__now_ns();
	lk__conn_attend(conn, &thread, false);
	assert_false(is_up());
	assert_false(behind->done);
	assert_int_equal(behind->sends, 1);
}

static void test_a_connection_that_ends_meanwhile(void **state)
{
	submit("FIRST");
	const struct lk__request *behind = submit("BEHIND");
	says(READONLY);
	says("?\r\n");
	assert_false(is_up());
	assert_false(behind->done);
	assert_int_equal(behind->sends, 1);
	assert_non_null(strstr(conn->last_error.message, "nowhere.test"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_a_lone_refusal_ends_the_connection),
		TEST(test_what_was_sent_behind_it_is_answered),
		TEST(test_all_are_refused_one_by_one),
		TEST(test_a_replica_for_good_has_run_nothing),
		TEST(test_nothing_more_is_sent_there),
		TEST(test_answers_of_a_former_master_prove_nothing),
		TEST(test_a_former_master_that_falls_silent_is_left),
		TEST(test_a_connection_that_ends_meanwhile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
