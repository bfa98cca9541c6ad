/* How callers share a node's connections for scripts: which each takes, when there are more. */
#include "unit.h"

#include <string.h>
#include <time.h>
#include <utlist.h>

#include <lockkeeper/config.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/node.h"
#include "net/stream.h"
#include "resp/reader.h"

#define LOOKS_MAX 10000 /* at what another thread does, a ms apart */

static struct lk__node node;
static lk_config *config;
static int closed; /* streams */

static void stream_close(struct lk__stream *stream)
{
	(void)stream;
	closed++;
}

static const struct lk__stream_ops stream_ops = {.close = stream_close};
static struct lk__stream streams[4] = {{&stream_ops, -1, 0, 0},
				       {&stream_ops, -1, 0, 0},
				       {&stream_ops, -1, 0, 0},
				       {&stream_ops, -1, 0, 0}};

static void ignore(void *context)
{
	(void)context;
}

static const struct lk__node_events events = {
	.attention = ignore, .lost = ignore, .up = ignore, .connecting = ignore};

static void come_up(size_t index)
{
	struct lk__conn *conn = node.scripts[index];
	conn->stream = &streams[index];
	conn->reader = lk__reader_new();
	conn->used_ns = lk__now_ns();
	conn->state = LK__CONN_UP;
}

static int set_up(void **state)
{
	(void)state;
	lk_error error;
	closed = 0;
	assert_int_equal(lk_config_new(&config, &error), 0);
	assert_int_equal(lk_config_set(config, "url", "unix:///nowhere/at/all", &error), 0);
	assert_int_equal(lk_config_set(config, "connections", "3", &error), 0);
	memset(&node, 0, sizeof(node));
	assert_int_equal(lk__node_init(&node, config, &events, NULL, &error), 0);
	atomic_store(&node.was_up, true);
	come_up(0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	lk__node_close(&node);
	lk__node_destroy(&node);
	config = lk_config_free(config);
	return 0;
}

static void add_conns(void)
{
	for (size_t i = 1; i < 3; i++) {
		assert_int_equal(lk__node_add_conn(&node, NULL), 0);
		come_up(i);
	}
}

static unsigned join(void)
{
	bool crowded;
	return lk__node_join(&node, &crowded)->index;
}

static bool is_crowded(void)
{
	bool crowded;
	lk__node_join(&node, &crowded);
	return crowded;
}

/* ---- which one ---- */

static void test_a_client_begins_with_one(void **state)
{
	(void)state;
	assert_int_equal(node.script_count, 1);
	assert_int_equal(join(), 0);
	assert_int_equal(join(), 0); /* there is no other */
}

static void test_a_caller_takes_the_first_that_is_free(void **state)
{
	(void)state;
	add_conns();
	assert_int_equal(join(), 0);
	assert_int_equal(join(), 1);
	assert_int_equal(join(), 2);
	lk__conn_part(node.scripts[1]);
	assert_int_equal(join(), 1);
}

static void test_who_finds_none_free_shares_the_last(void **state)
{
	(void)state;
	add_conns();
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(join(), i < 2 ? i : 2);
	lk__conn_part(node.scripts[2]);
	assert_int_equal(join(), 2);
	lk__conn_part(node.scripts[0]);
	assert_int_equal(join(), 0);
}

static void test_one_that_is_down_is_not_taken(void **state)
{
	(void)state;
	add_conns();
	node.scripts[0]->state = LK__CONN_CONNECTING;
	node.scripts[2]->state = LK__CONN_CONNECTING;
	assert_int_equal(join(), 1);
	assert_int_equal(join(), 1);
	node.scripts[1]->state = LK__CONN_DOWN;
	assert_int_equal(join(), 0); /* it waits until that is up */
	node.scripts[0]->state = LK__CONN_UP;
}

/* ---- more of them ---- */

static void test_one_caller_is_no_crowd(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++) {
		assert_false(is_crowded());
		lk__conn_part(node.scripts[0]);
	}
}

static void test_nor_are_two_who_seldom_meet(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++) {
		assert_false(is_crowded());
		if (i % 2 == 0)
			assert_false(is_crowded());
		while (node.scripts[0]->callers)
			lk__conn_part(node.scripts[0]);
	}
}

static void test_a_crowd_is_told_once_in_a_while(void **state)
{
	(void)state;
	int told = 0;
	join();
	for (int i = 0; i < 200; i++) {
		told += is_crowded();
		lk__conn_part(node.scripts[0]);
	}
	assert_int_equal(told, 3);
}

static void await_failure(size_t index, uint64_t count)
{
	struct lk__conn *conn = node.scripts[index];
	struct timespec pause = {.tv_nsec = 1000000};
	for (int looks = 0; looks < LOOKS_MAX; looks++) {
		pthread_mutex_lock(&conn->mutex);
		bool failed = conn->failure_count == count && conn->state == LK__CONN_DOWN;
		pthread_mutex_unlock(&conn->mutex);
		if (failed)
			return;
		nanosleep(&pause, NULL);
	}
	fail_msg("connection %zu has not failed %d times", index, (int)count);
}

static void test_one_that_cannot_be_had_is_left_alone_for_a_while(void **state)
{
	(void)state;
	lk__node_grow(&node);
	assert_int_equal(node.script_count, 2);
	await_failure(1, 1);
	lk__node_grow(&node);
	assert_int_equal(node.scripts[1]->state, LK__CONN_DOWN);
	assert_int_equal(node.script_count, 2);
	node.scripts[1]->next_connect_ns = lk__now_ns() - 60000 * LK__MS; /* long ago */
	lk__node_grow(&node);
	await_failure(1, 2);
	assert_int_equal(lk__node_extra(&node), 0);
}

static void test_there_are_never_more_than_allowed(void **state)
{
	(void)state;
	add_conns();
	assert_int_equal(lk__node_extra(&node), 2);
	lk__node_grow(&node);
	assert_int_equal(node.script_count, 3);
}

static void test_one_at_a_time(void **state)
{
	(void)state;
	assert_int_equal(lk__node_add_conn(&node, NULL), 0);
	node.scripts[1]->state = LK__CONN_CONNECTING;
	lk__node_grow(&node);
	assert_int_equal(node.script_count, 2);
	assert_int_equal(lk__node_extra(&node), 1);
	node.scripts[1]->state = LK__CONN_DOWN;
}

static void test_none_begins_as_the_client_is_closed(void **state)
{
	(void)state;
	lk__node_stop_growing(&node);
	lk__node_grow(&node);
	assert_int_equal(node.script_count, 1);
}

/* ---- fewer of them ---- */

static void test_one_that_was_not_used_for_long_is_closed(void **state)
{
	(void)state;
	add_conns();
	int64_t now_ns = lk__now_ns(), later_ns = now_ns + 60000 * LK__MS;
	assert_true(lk__node_rest(&node, now_ns) > now_ns);
	assert_int_equal(closed, 0);
	assert_true(lk__node_rest(&node, later_ns) == LK__NEVER);
	assert_int_equal(closed, 2);
	assert_int_equal(node.scripts[0]->state, LK__CONN_UP);
	assert_int_equal(node.scripts[1]->state, LK__CONN_DOWN);
	assert_int_equal(atomic_load(&node.epoch), 0); /* nothing is in doubt */
	assert_int_equal(atomic_load(&node.counters.disconnects), 0);
}

static void test_one_in_use_is_not(void **state)
{
	(void)state;
	add_conns();
	int64_t later_ns = lk__now_ns() + 60000 * LK__MS;
	struct lk__request *request = lk__request_new(1, (const char *[]){"PING"}, (size_t[]){4});
	lk__conn_join(node.scripts[1]); /* it is about to send */
	DL_APPEND(node.scripts[2]->in_flight, request);
	assert_true(lk__node_rest(&node, later_ns) > later_ns);
	assert_int_equal(closed, 0);
	DL_DELETE(node.scripts[2]->in_flight, request);
	lk__request_free(request);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_a_client_begins_with_one),
		TEST(test_a_caller_takes_the_first_that_is_free),
		TEST(test_who_finds_none_free_shares_the_last),
		TEST(test_one_that_is_down_is_not_taken),
		TEST(test_one_caller_is_no_crowd),
		TEST(test_nor_are_two_who_seldom_meet),
		TEST(test_a_crowd_is_told_once_in_a_while),
		TEST(test_one_that_cannot_be_had_is_left_alone_for_a_while),
		TEST(test_there_are_never_more_than_allowed),
		TEST(test_one_at_a_time),
		TEST(test_none_begins_as_the_client_is_closed),
		TEST(test_one_that_was_not_used_for_long_is_closed),
		TEST(test_one_in_use_is_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
