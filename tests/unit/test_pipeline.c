/* One connection over a stream of the test's own: what is written, and whose an answer is. */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <utlist.h>

#include <lockkeeper/config.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/node.h"
#include "conn/request.h"
#include "net/stream.h"
#include "resp/reply.h"

static struct lk__node node;
static struct lk__conn *conn;
static char written[1 << 16]; /* by the connection */
static size_t written_size, writes;
static int write_fails;
static const char *unread;  /* what the server said */
static int appends_left;    /* before lk__buffer_append() fails; negative: never */
static bool closed_in_read; /* the client is closed, and the server ends the stream */

int __real_lk__buffer_append(struct lk__buffer *buffer, const void *bytes, size_t size);
int __wrap_lk__buffer_append(struct lk__buffer *buffer, const void *bytes, size_t size);

int __wrap_lk__buffer_append(struct lk__buffer *buffer, const void *bytes, size_t size)
{
	if (appends_left == 0)
		return LK_ENOMEM;
	appends_left -= appends_left > 0;
	return __real_lk__buffer_append(buffer, bytes, size);
}

static ssize_t stream_read(struct lk__stream *stream, void *bytes, size_t size)
{
	if (closed_in_read) {
		conn->state = LK__CONN_CLOSED;
		return 0;
	}
	if (!unread)
		return -EAGAIN;
	size_t got = strlen(unread);
	memcpy(bytes, unread, got);
	unread = NULL;
	return (ssize_t)got;
}

static ssize_t stream_write(struct lk__stream *stream, const void *bytes, size_t size)
{
	if (write_fails)
		return -write_fails;
	assert_true(written_size + size < sizeof(written));
	memcpy(written + written_size, bytes, size);
	written_size += size;
	writes++;
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

static int attentions; /* the loop is to read */

static void attend(void *context)
{
	attentions++;
}

static const struct lk__node_events events = {
	.attention = attend, .lost = ignore, .up = ignore, .connecting = ignore};
static struct lk__thread thread;
static lk_config *config;

static int set_up(void **state)
{
	lk_error error;
	written_size = writes = 0;
	attentions = 0;
	write_fails = 0;
	unread = NULL;
	closed_in_read = false;
	appends_left = -1;
	memset(written, 0, sizeof(written));
	assert_int_equal(lk_config_new(&config, &error), 0);
	assert_int_equal(lk_config_set(config, "url", "redis://nowhere.test", &error), 0);
	memset(&node, 0, sizeof(node));
	assert_int_equal(lk__node_init(&node, config, &events, NULL, &error), 0);
	conn = node.scripts[0];
	conn->stream = &stream;
	conn->reader = lk__reader_new();
	conn->state = LK__CONN_UP;
	atomic_store(&node.asked_ns, lk__now_ns()); /* as a handshake does */
	return 0;
}

static int tear_down(void **state)
{
	lk__node_close(&node);
	lk__node_destroy(&node);
	config = lk_config_free(config);
	return 0;
}

static struct lk__request *command(const char *word)
{
	return lk__request_new(1, (const char *[]){word}, (size_t[]){strlen(word)});
}

static struct lk__request *call(const char *key)
{
	struct lk__words words = {0};
	lk__words_text(&words, key);
	return lk__words_script(&words, LK__SCRIPT_LOCK_RELEASE, 1);
}

static void submit(struct lk__request *request)
{
	request->thread = &thread;
	request->deadline_ns = LK__NEVER;
	lk__conn_submit(conn, request);
}

static void says(const char *text)
{
	unread = text;
	lk__conn_attend(conn, &thread, false);
}

static size_t count(const char *text)
{
	size_t found = 0;
	for (const char *at = written; (at = strstr(at, text)); at++)
		found++;
	return found;
}

static void test_a_request_without_memory_takes_no_answer(void **state)
{
	struct lk__request *first = command("FIRST"), *second = command("SECOND"),
			   *third = command("THIRD");
	submit(first);
	appends_left = 0;
	submit(second);
	appends_left = -1;
	submit(third);
	says("+one\r\n+two\r\n+three\r\n");
	assert_int_equal(first->code, 0);
	assert_string_equal(first->reply->str, "one");
	assert_true(second->done && third->done);
	assert_int_equal(second->code, LK_ENOMEM); /* not sent: not done */
	assert_int_equal(third->code, LK_ENOMEM);
	assert_null(second->reply);
	assert_null(third->reply);
	assert_null(strstr(written, "THIRD"));
	assert_int_equal(conn->state, LK__CONN_DOWN);
	lk__request_free(first);
	lk__request_free(second);
	lk__request_free(third);
}

static void finish(struct lk__request *request)
{
	assert_int_equal(request->code, 0);
	lk__request_free(request);
}

static void test_what_is_put_leaves_in_one_write(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct lk__request *one = command("ONE");
		one->finish = finish;
		one->deadline_ns = LK__NEVER;
		lk__conn_put(conn, one);
	}
	assert_int_equal(writes, 0);
	lk__conn_send_queued(conn);
	assert_int_equal(writes, 1);
	assert_int_equal(count("ONE"), 3);
	says("+one\r\n+two\r\n");
	assert_int_equal(conn->in_flight_count, 1);
	assert_int_equal(attentions, 0); /* its caller reads */
	lk__conn_forgo(conn);
	assert_int_equal(attentions, 1);
	says("+three\r\n");
	assert_int_equal(conn->in_flight_count, 0);
}

/* The server serves nothing behind a WAIT before that is over, and says nothing either. */
/* So many are in flight, one after the other, while the leader sleeps: in how many writes. */
static size_t writes_of(unsigned count, int64_t least_ns, int64_t asleep_ns)
{
	struct lk__request *request, *next;
	conn->leader = &thread;
	conn->least_ns = least_ns;
	conn->asleep_until_ns = lk__now_ns() + asleep_ns;
	atomic_store(&conn->asleep, true);
	writes = 0;
	for (unsigned i = 0; i < count; i++) {
		submit(command("PING"));
		lk__conn_send_queued(conn);
	}
	size_t made = writes;
	lk__conn_flush(conn); /* as the leader does when it is woken */
	assert_int_equal(written_size, count * strlen("*1\r\n$4\r\nPING\r\n"));
	written_size = 0;
	DL_FOREACH_SAFE(conn->in_flight, request, next)
	{
		lk__conn_remove(conn, request);
		lk__request_free(request);
	}
	conn->leader = NULL;
	return made;
}

static void test_beside_many_a_command_is_left_for_the_leader_that_sleeps(void **state)
{
	const int64_t near_ns = 50 * LK__US, moment_ns = 500 * LK__MS;
	assert_int_equal(writes_of(5, near_ns, moment_ns), 5);
	assert_int_equal(writes_of(20, near_ns, moment_ns), 5);
	assert_int_equal(writes_of(20, 1, moment_ns), 1);
	/* The server would have nothing to do: it is far away, or nobody knows yet. */
	assert_int_equal(writes_of(20, 1 * LK__MS, moment_ns), 20);
	assert_int_equal(writes_of(20, 100 * LK__US, moment_ns), 10);
	assert_int_equal(writes_of(20, 0, moment_ns), 20);
	/* Its silence is to be doubted before the leader would look. */
	assert_int_equal(writes_of(20, near_ns, 5000 * LK__MS), 20);
}

static void test_a_request_behind_a_wait_is_doubted_later(void **state)
{
	struct lk__request *granted = command("GRANTED"), *behind = command("BEHIND");
	int64_t wait_ns = config->command_timeout_ms * LK__MS / LK__ACKS_PARTS;
	node.acks = 1;
	granted->durable = LK__DURABLE_WHOLLY;
	submit(granted);
	says("+granted\r\n");
	assert_int_equal(count("WAIT"), 1);
	behind->needed_ns = lk__now_ns() + wait_ns / 4;
	submit(behind);
	assert_true(lk__conn_next_ns(conn) >= behind->sent_ns + wait_ns);
	says(":1\r\n");
	assert_true(granted->done && !behind->done);
	assert_true(lk__conn_next_ns(conn) <= behind->needed_ns); /* it is over */
	says("+behind\r\n");
	assert_true(behind->done);
	lk__request_free(granted);
	lk__request_free(behind);
}

/* A slow network has a few slow answers beside quick ones. */
static void test_a_request_that_is_needed_at_once_is_not_doubted_at_once(void **state)
{
	struct lk__request *request = command("ONE");
	request->needed_ns = lk__now_ns() + LK__MS;
	submit(request);
	assert_true(lk__conn_next_ns(conn) >= request->sent_ns + 50 * LK__MS);
	says("+one\r\n");
	lk__request_free(request);
}

static void test_a_script_goes_before_its_first_call(void **state)
{
	struct lk__request *first = call("one"), *second = call("two");
	submit(first);
	submit(second);
	says("$1\r\nx\r\n:1\r\n:2\r\n");
	assert_int_equal(writes, 1);
	assert_memory_equal(written, "*3\r\n$6\r\nSCRIPT\r\n", 16);
	assert_int_equal(count("SCRIPT"), 1);
	assert_int_equal(count("EVALSHA"), 2);
	assert_int_equal(first->reply->integer, 1);
	assert_int_equal(second->reply->integer, 2);
	lk__request_free(first);
	lk__request_free(second);
}

static void test_a_script_that_the_server_has_is_not_sent(void **state)
{
	struct lk__request *only = call("one");
	conn->scripts[LK__SCRIPT_LOCK_RELEASE] = true;
	submit(only);
	says(":1\r\n");
	assert_int_equal(count("SCRIPT"), 0);
	assert_int_equal(only->reply->integer, 1);
	lk__request_free(only);
}

static void test_a_script_that_was_lost_is_sent_again(void **state)
{
	struct lk__request *only = call("one");
	conn->scripts[LK__SCRIPT_LOCK_RELEASE] = true;
	submit(only);
	says("-NOSCRIPT No matching script.\r\n");
	assert_false(only->done);
	assert_int_equal(only->sends, 1);
	says("$1\r\nx\r\n:7\r\n");
	assert_int_equal(count("SCRIPT"), 1);
	assert_int_equal(count("EVALSHA"), 2);
	assert_int_equal(only->reply->integer, 7);
	lk__request_free(only);
}

static void test_a_script_that_several_calls_lack_is_sent_again_once(void **state)
{
	struct lk__request *calls[] = {call("one"), call("two"), call("three")};
	conn->scripts[LK__SCRIPT_LOCK_RELEASE] = true;
	for (size_t i = 0; i < 3; i++)
		submit(calls[i]);
	says("-NOSCRIPT No\r\n-NOSCRIPT No\r\n-NOSCRIPT No\r\n");
	assert_int_equal(count("SCRIPT"), 1);
	says("$1\r\nx\r\n:1\r\n-NOSCRIPT Lost again\r\n-NOSCRIPT Lost again\r\n");
	assert_int_equal(count("SCRIPT"), 2);
	says("$1\r\nx\r\n:2\r\n:3\r\n");
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(calls[i]->reply->integer, i + 1);
		lk__request_free(calls[i]);
	}
}

/* With the first call that lacks it; the others find it in the server's cache. */
static void test_a_script_that_may_not_be_sent_alone_goes_with_a_call(void **state)
{
	struct lk__request *calls[] = {call("one"), call("two"), call("three")};
	submit(calls[0]);
	submit(calls[1]);
	says("-NOPERM no right to it\r\n-NOSCRIPT No\r\n-NOSCRIPT No\r\n");
	submit(calls[2]);
	says(":1\r\n:2\r\n:3\r\n");
	assert_int_equal(count("SCRIPT"), 1);
	assert_int_equal(count("$4\r\nEVAL\r\n"), 1);
	assert_int_equal(count("EVALSHA"), 4);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(calls[i]->reply->integer, i + 1);
		assert_int_equal(calls[i]->sends, 1);
		lk__request_free(calls[i]);
	}
}

/* Where a call with the text is refused as well, the next one begins with SCRIPT LOAD again. */
static void test_a_script_that_may_not_be_sent_at_all(void **state)
{
	struct lk__request *first = call("one"), *second = call("two");
	submit(first);
	says("-ERR unknown command 'SCRIPT'\r\n-NOSCRIPT No\r\n");
	says("-NOPERM this user has no permissions to run the 'eval' command\r\n");
	assert_int_equal(first->code, LK_EDENIED);
	assert_non_null(strstr(first->reason, "'eval' command (SCRIPT LOAD is refused, too)"));
	submit(second);
	says("$1\r\nx\r\n:2\r\n");
	assert_int_equal(count("SCRIPT"), 2);
	assert_int_equal(second->reply->integer, 2);
	lk__request_free(first);
	lk__request_free(second);
}

static void test_a_call_is_not_changed_without_memory(void **state)
{
	for (int room = 0; room < 4; room++) {
		struct lk__request *only = call("one");
		size_t size = lk__buffer_size(&only->bytes);
		appends_left = room;
		assert_false(lk__request_spell_out(only, LK__MESSAGES_PLAIN));
		appends_left = -1;
		assert_int_equal(lk__buffer_size(&only->bytes), size);
		assert_non_null(memmem(lk__buffer_front(&only->bytes), size, "EVALSHA", 7));
		lk__request_free(only);
	}
}

static void test_the_clock_is_asked_along_with_a_command(void **state)
{
	struct lk__request *first = command("FIRST"), *second = command("SECOND");
	atomic_store(&node.asked_ns, lk__now_ns() - 2000 * LK__MS);
	submit(first);
	submit(second);
	says("*2\r\n$4\r\n1000\r\n$1\r\n7\r\n+one\r\n+two\r\n");
	assert_int_equal(count("TIME"), 1);
	assert_string_equal(first->reply->str, "one");
	assert_string_equal(second->reply->str, "two");
	int64_t now_ns = lk__now_ns();
	int64_t server_us = lk__node_server_us(&node, now_ns);
	assert_true(server_us <= 1000000007 + (now_ns - first->sent_ns) / LK__US);
	assert_true(server_us >= 1000000007);
	lk__request_free(first);
	lk__request_free(second);
}

static void test_a_clock_is_never_taken_to_be_later_than_it_is(void **state)
{
	const int64_t s_us = 1000000;
	lk__node_hear_time(&node, 100 * s_us, 1000 * LK__MS, 1010 * LK__MS);
	assert_int_equal(lk__node_server_us(&node, 1010 * LK__MS), 100 * s_us);
	/* Less exact, but no contradiction: what is known stays. */
	lk__node_hear_time(&node, 101 * s_us - 500000, 1400 * LK__MS, 2500 * LK__MS);
	assert_int_equal(lk__node_server_us(&node, 1010 * LK__MS), 100 * s_us);
	/* A step forward, told with a late answer, and one with an answer to a question. */
	lk__node_learn_time(&node, 200 * s_us, 2010 * LK__MS);
	assert_int_equal(lk__node_server_us(&node, 2010 * LK__MS), 200 * s_us);
	lk__node_hear_time(&node, 300 * s_us, 2009 * LK__MS, 2010 * LK__MS);
	assert_int_equal(lk__node_server_us(&node, 2010 * LK__MS), 300 * s_us);
	const int64_t before_ns = 300 * 1000 * LK__MS - 2010 * LK__MS;
	assert_int_equal(lk__node_most_offset_ns(&node, 2010 * LK__MS), before_ns);
	/* Late is no proof of a clock that went back. */
	lk__node_learn_time(&node, 240 * s_us, 2010 * LK__MS);
	assert_int_equal(lk__node_server_us(&node, 2010 * LK__MS), 300 * s_us);
	lk__node_hear_time(&node, 240 * s_us, 2009 * LK__MS, 2010 * LK__MS);
	assert_int_equal(lk__node_server_us(&node, 2010 * LK__MS), 240 * s_us);
	/* A request from before the step, which is 60 s, is timely for so much longer. */
	int64_t last_ns = lk__after_ms(2010 * LK__MS + 60000 * LK__MS, config->command_timeout_ms);
	assert_int_equal(lk__node_most_offset_ns(&node, last_ns - 1), before_ns);
	assert_int_equal(lk__node_most_offset_ns(&node, last_ns), before_ns - 60000 * LK__MS);
	/* A second step leaves the first one's requests as they are. */
	lk__node_hear_time(&node, 230 * s_us, 2009 * LK__MS, 2010 * LK__MS);
	assert_int_equal(lk__node_most_offset_ns(&node, last_ns), before_ns);
	lk__node_hear_time(&node, 240 * s_us, 2009 * LK__MS, 2010 * LK__MS);
	lk__node_hear_time(&node, -1, 2009 * LK__MS, 2010 * LK__MS);
	assert_int_equal(lk__node_server_us(&node, 2010 * LK__MS), 240 * s_us);
}

static void test_a_write_that_fails_is_named(void **state)
{
	struct lk__request *only = command("ONLY");
	write_fails = EPIPE;
	submit(only);
	says("+an answer to something else\r\n");
	assert_int_equal(conn->last_error.code, LK_EUNREACHABLE);
	assert_non_null(strstr(conn->last_error.message, "writing failed"));
	lk__request_free(only);
}

static void test_an_unexpected_answer_is_named(void **state)
{
	says("+hello\r\n");
	assert_int_equal(conn->last_error.code, LK_EPROTOCOL);
	assert_non_null(strstr(conn->last_error.message, "no command outstanding"));
}

static void test_an_unexpected_refusal_is_named(void **state)
{
	says("-ERR max number of clients reached\r\n");
	assert_int_equal(conn->last_error.code, LK_EUNAVAILABLE);
	assert_non_null(strstr(conn->last_error.message, "max number of clients"));
}

static void test_a_refusal_is_told_without_its_place_in_a_script(void **state)
{
	static const char *const rows[][2] = {
		{"-OOM too much. script: c7cb9e7a, on @user_script:1.\r\n", "OOM too much."},
		{"-OOM of my script: zoo\r\n", "OOM of my script: zoo"},
		{"-OOM of script: abc\r\n", "OOM of script: abc"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lk__request *only = command("ONLY");
		submit(only);
		says(rows[i][0]);
		assert_int_equal(only->code, LK_EREFUSED);
		assert_string_equal(only->reason, rows[i][1]);
		lk__request_free(only);
	}
}

static void test_an_end_read_after_the_close_does_not_reopen(void **state)
{
	closed_in_read = true;
	lk__conn_attend(conn, &thread, false);
	assert_int_equal(conn->state, LK__CONN_CLOSED);
}

/* Masters that replace one another: each grant's was the one of its epoch. */
static void test_where_the_server_was(void **state)
{
	char place[LK__CONN_PLACE_SIZE], name[16];
	struct lk__finder finder = {0};
	lk__node_place_at(&node, 7, place);
	assert_string_equal(place, "nowhere.test:6379");
	node.finder = &finder;
	lk__node_place_at(&node, 0, place);
	assert_string_equal(place, "");
	for (int master = 0; master <= LK__STAYS_MAX; master++) {
		snprintf(name, sizeof(name), "master:%d", master);
		lk__node_note_place(&node, name);
		atomic_fetch_add(&node.epoch, 2); /* two of its connections were lost */
		lk__node_note_place(&node, name); /* and one of them came back */
	}
	lk__node_place_at(&node, 1, place);
	assert_string_equal(place, ""); /* too many since */
	lk__node_place_at(&node, 2, place);
	assert_string_equal(place, "master:1");
	lk__node_place_at(&node, 7, place);
	assert_string_equal(place, "master:3");
	lk__node_place_at(&node, 100, place);
	assert_string_equal(place, "master:4");
	node.finder = NULL;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_a_request_without_memory_takes_no_answer),
		TEST(test_what_is_put_leaves_in_one_write),
		TEST(test_beside_many_a_command_is_left_for_the_leader_that_sleeps),
		TEST(test_a_request_behind_a_wait_is_doubted_later),
		TEST(test_a_request_that_is_needed_at_once_is_not_doubted_at_once),
		TEST(test_a_script_goes_before_its_first_call),
		TEST(test_a_script_that_the_server_has_is_not_sent),
		TEST(test_a_script_that_was_lost_is_sent_again),
		TEST(test_a_script_that_several_calls_lack_is_sent_again_once),
		TEST(test_a_script_that_may_not_be_sent_alone_goes_with_a_call),
		TEST(test_a_script_that_may_not_be_sent_at_all),
		TEST(test_a_call_is_not_changed_without_memory),
		TEST(test_the_clock_is_asked_along_with_a_command),
		TEST(test_a_clock_is_never_taken_to_be_later_than_it_is),
		TEST(test_a_write_that_fails_is_named),
		TEST(test_an_unexpected_answer_is_named),
		TEST(test_an_unexpected_refusal_is_named),
		TEST(test_a_refusal_is_told_without_its_place_in_a_script),
		TEST(test_an_end_read_after_the_close_does_not_reopen),
		TEST(test_where_the_server_was),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
