/* How callers share a node's connections for scripts: which each takes, when there are more. */
#include "unit.h"

#include <string.h>
#include <time.h>
#include <utlist.h>

#include <lockkeeper/config.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/node.h"
#include "lock/client.h"
#include "lock/entry.h"
#include "net/stream.h"
#include "resp/reply.h"
#include "sync/recipes.h"

#define LOOKS_MAX 10000 /* at a connection that is being made, a ms apart */

static struct lk__node node;
static lk_config *config;
static int closed; /* streams */
static int calls;  /* to the loop, to go on with a connection */
static int set_fd = -1;
static struct lk__thread loop_thread;

static void stream_close(struct lk__stream *stream)
{
	closed++;
}

static const struct lk__stream_ops stream_ops = {.close = stream_close};
static struct lk__stream streams[4] = {{&stream_ops, -1, 0, 0},
				       {&stream_ops, -1, 0, 0},
				       {&stream_ops, -1, 0, 0},
				       {&stream_ops, -1, 0, 0}};

static void ignore(void *context)
{
}

static void called(void *context)
{
	calls++;
}

static const struct lk__node_events events = {
	.attention = ignore, .lost = ignore, .up = ignore, .connecting = called};

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
	lk_error error;
	closed = calls = 0;
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
	assert_int_equal(node.script_count, 1);
	assert_int_equal(join(), 0);
	assert_int_equal(join(), 0); /* there is no other */
}

static void test_a_caller_takes_the_first_that_is_free(void **state)
{
	add_conns();
	assert_int_equal(join(), 0);
	assert_int_equal(join(), 1);
	assert_int_equal(join(), 2);
	lk__conn_part(node.scripts[1]);
	assert_int_equal(join(), 1);
}

static void test_who_finds_none_free_shares_the_last(void **state)
{
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
	for (int i = 0; i < 1000; i++) {
		assert_false(is_crowded());
		lk__conn_part(node.scripts[0]);
	}
}

static void test_nor_are_two_who_seldom_meet(void **state)
{
	for (int i = 0; i < 1000; i++) {
		assert_false(is_crowded());
		if (i % 4 == 0)
			assert_false(is_crowded());
		while (node.scripts[0]->callers)
			lk__conn_part(node.scripts[0]);
	}
}

static void test_a_crowd_is_told_once_in_a_while(void **state)
{
	int told = 0;
	join();
	for (int i = 0; i < 200; i++) {
		told += is_crowded();
		lk__conn_part(node.scripts[0]);
	}
	assert_int_equal(told, 3);
}

/* The loop's. */
static void take_turn(struct lk__conn *conn)
{
	struct timespec pause = {.tv_nsec = 1000000};
	if (set_fd < 0)
		set_fd = lk__set_new();
	lk__conn_make_turn(conn, &loop_thread, set_fd);
	nanosleep(&pause, NULL);
}

static void await_failure(size_t index, uint64_t count)
{
	struct lk__conn *conn = node.scripts[index];
	for (int looks = 0; looks < LOOKS_MAX; looks++) {
		pthread_mutex_lock(&conn->mutex);
		bool failed = conn->failure_count == count && conn->state == LK__CONN_DOWN;
		pthread_mutex_unlock(&conn->mutex);
		if (failed)
			return;
		take_turn(conn);
	}
	fail_msg("connection %zu has not failed %d times", index, (int)count);
}

static void test_one_that_cannot_be_had_is_left_alone_for_a_while(void **state)
{
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
	add_conns();
	assert_int_equal(lk__node_extra(&node), 2);
	lk__node_grow(&node);
	assert_int_equal(node.script_count, 3);
}

static void test_one_at_a_time(void **state)
{
	assert_int_equal(lk__node_add_conn(&node, NULL), 0);
	node.scripts[1]->state = LK__CONN_CONNECTING;
	lk__node_grow(&node);
	assert_int_equal(node.script_count, 2);
	assert_int_equal(lk__node_extra(&node), 1);
	node.scripts[1]->state = LK__CONN_DOWN;
}

static void test_none_begins_as_the_client_is_closed(void **state)
{
	lk__node_stop_growing(&node);
	lk__node_grow(&node);
	assert_int_equal(node.script_count, 1);
}

/* ---- one for all, and several again ---- */

static void all_leave(void)
{
	for (size_t i = 0; i < node.script_count; i++)
		atomic_store(&node.scripts[i]->callers, 0);
}

/* So many wait for a while: whether three who come then are led to three connections. */
static bool is_spread(unsigned callers)
{
	all_leave();
	for (unsigned i = 0; i < callers; i++)
		join();
	for (int i = 0; i < 400; i++)
		lk__conn_part(node.scripts[join()]);
	all_leave();
	unsigned sum = join() + join() + join();
	return sum == 0 + 1 + 2;
}

static void test_many_gather_and_few_spread_again(void **state)
{
	add_conns();
	assert_true(is_spread(16));
	assert_true(is_spread(23));
	assert_false(is_spread(24));
	assert_false(is_spread(16)); /* as it is */
	assert_true(is_spread(15));
	assert_true(is_spread(16));
}

static void test_a_moment_changes_nothing(void **state)
{
	add_conns();
	for (int i = 0; i < 30; i++)
		join();
	for (int i = 0; i < 40; i++)
		lk__conn_part(node.scripts[join()]);
	assert_int_equal(join(), 2);
}

static void test_who_gathers_takes_one_that_is_up(void **state)
{
	add_conns();
	assert_false(is_spread(30));
	node.scripts[0]->state = LK__CONN_CONNECTING;
	assert_int_equal(join(), 1);
	node.scripts[0]->state = LK__CONN_UP;
	assert_int_equal(join(), 0);
}

static void test_many_open_no_more(void **state)
{
	bool crowded = false;
	for (int i = 0; i < 30; i++)
		join();
	for (int i = 0; i < 400; i++) {
		crowded |= is_crowded();
		lk__conn_part(node.scripts[0]);
	}
	assert_false(crowded);
}

/* ---- fewer of them ---- */

static void test_one_that_was_not_used_for_long_is_closed(void **state)
{
	add_conns();
	int64_t now_ns = lk__now_ns(), later_ns = now_ns + 60000 * LK__MS;
	assert_true(lk__node_turn(&node, now_ns) > now_ns);
	assert_int_equal(closed, 0);
	assert_true(lk__node_turn(&node, later_ns) == LK__NEVER);
	assert_int_equal(closed, 2);
	assert_int_equal(node.scripts[0]->state, LK__CONN_UP);
	assert_int_equal(node.scripts[1]->state, LK__CONN_DOWN);
	assert_int_equal(atomic_load(&node.epoch), 0); /* nothing is in doubt */
	assert_int_equal(atomic_load(&node.counters.disconnects), 0);
}

static void test_one_in_use_is_not(void **state)
{
	add_conns();
	int64_t later_ns = lk__now_ns() + 60000 * LK__MS;
	struct lk__request *request = lk__request_new(1, (const char *[]){"PING"}, (size_t[]){4});
	lk__conn_join(node.scripts[1]); /* it is about to send */
	DL_APPEND(node.scripts[2]->in_flight, request);
	assert_true(lk__node_turn(&node, later_ns) > later_ns);
	assert_int_equal(closed, 0);
	DL_DELETE(node.scripts[2]->in_flight, request);
	lk__request_free(request);
}

/* ---- the one for renewals ---- */

/* The caller asks for it, once, and only when a lock is held a moment after the first one was. */
static void test_the_loop_opens_the_one_for_renewals(void **state)
{
	int64_t now_ns = lk__now_ns(), due_ns = lk__node_prepare(&node, now_ns);
	assert_true(due_ns > now_ns);
	assert_true(lk__node_prepare(&node, due_ns - 1) == due_ns);
	lk__node_turn(&node, due_ns);
	assert_int_equal(calls, 0);
	assert_int_equal(node.work.state, LK__CONN_DOWN);
	assert_true(lk__node_prepare(&node, due_ns) == LK__NEVER);
	assert_true(lk__node_prepare(&node, due_ns) == LK__NEVER);
	assert_int_equal(calls, 1);
	assert_int_equal(node.work.state, LK__CONN_DOWN);
	lk__node_turn(&node, due_ns);
	assert_int_equal(node.work.state, LK__CONN_CONNECTING);
}

/* ---- scripts ---- */

/* Sends one over that connection. Whether its text went before it. */
static bool is_loaded_before(size_t index)
{
	char key[] = "name";
	struct lk__target target = {.recipe = &lk__lock_recipe, .key = key, .key_size = 4};
	struct lk__conn *conn = node.scripts[index];
	struct lk__request *request = lk__lock_recipe.release(&target, "owner:1"), *sent, *next;
	bool loaded = false;
	request->finish = lk__request_forget;
	lk__conn_enqueue(conn, request);
	DL_FOREACH_SAFE(conn->in_flight, sent, next)
	{
		loaded |= sent->is_load;
		lk__conn_remove(conn, sent);
		lk__request_free(sent);
	}
	lk__buffer_take(&conn->out, lk__buffer_size(&conn->out));
	return loaded;
}

/* Else a call might reach the server before the text that another connection has sent: it would be
 * repeated, behind what follows it. */
static void test_a_script_is_there_when_it_has_run(void **state)
{
	add_conns();
	assert_true(is_loaded_before(0));
	assert_false(is_loaded_before(0));
	assert_true(is_loaded_before(1));
	atomic_store(&node.script_there[LK__SCRIPT_LOCK_RELEASE], true);
	assert_false(is_loaded_before(2));
}

/* ---- several nodes ---- */

#define NODES 7
#define EACH 3    /* connections of a node beside its first, at most */
#define IN_ALL 16 /* of a client */

static struct lk__node nodes[NODES];

static struct lk__node *node_at(struct lk__topo *topo, size_t index)
{
	return index < NODES ? &nodes[index] : NULL;
}

static struct lk__node *node_of(struct lk__topo *topo, uint16_t slot)
{
	return &nodes[slot];
}

static const struct lk__topo_ops topo_ops = {.node_at = node_at, .node_of = node_of};
static struct lk__topo topo = {.ops = &topo_ops, .slotted = true};
static lk_client client = {.topo = &topo};

static void set_up_nodes(void)
{
	lk_error error;
	assert_int_equal(lk_config_set(config, "connections", "4", &error), 0);
	client.config = config;
	memset(nodes, 0, sizeof(nodes));
	for (size_t i = 0; i < NODES; i++) {
		assert_int_equal(lk__node_init(&nodes[i], config, &events, NULL, &error), 0);
		nodes[i].scripts[0]->state = LK__CONN_UP;
	}
}

static void tear_down_nodes(void)
{
	for (size_t i = 0; i < NODES; i++) {
		lk__node_close(&nodes[i]);
		lk__node_destroy(&nodes[i]);
	}
}

static struct lk__entry entry_on(size_t index)
{
	return (struct lk__entry){
		.client = &client,
		.target = {.recipe = &lk__lock_recipe,
			   .slot = (uint16_t)index,
			   .node = &nodes[index]},
	};
}

static unsigned join_entry(struct lk__entry *entry)
{
	return lk__entry_join(entry, entry->target.node)->index;
}

/* As many calls as another connection takes, while one waits at each; what they open counts as
 * being opened, which the test does in the loop's place. */
static void crowd(size_t index)
{
	struct lk__entry entry = entry_on(index);
	for (size_t i = 0; i < nodes[index].script_count; i++)
		atomic_store(&nodes[index].scripts[i]->callers, 1);
	for (int i = 0; i < 200; i++)
		lk__conn_part(nodes[index].scripts[join_entry(&entry)]);
	for (size_t i = 1; i < nodes[index].script_count; i++) {
		struct lk__conn *conn = nodes[index].scripts[i];
		for (int looks = 0; conn->state == LK__CONN_CONNECTING && looks < LOOKS_MAX;
		     looks++)
			take_turn(conn);
		assert_int_not_equal(conn->state, LK__CONN_CONNECTING);
		conn->state = LK__CONN_UP;
	}
}

static size_t extra_in_all(void)
{
	size_t extra = 0;
	for (size_t i = 0; i < NODES; i++)
		extra += lk__node_extra(&nodes[i]);
	return extra;
}

static void test_a_client_has_so_many_in_all(void **state)
{
	set_up_nodes();
	for (int round = 0; round < EACH + 1; round++)
		for (size_t i = 0; i < NODES; i++)
			crowd(i);
	assert_int_equal(extra_in_all(), IN_ALL); /* and not NODES * EACH */
	for (size_t i = 0; i < NODES; i++)
		assert_in_range(lk__node_extra(&nodes[i]), 1, EACH);
	nodes[0].scripts[1]->state = LK__CONN_DOWN; /* one is closed: another node may have it */
	size_t last = lk__node_extra(&nodes[NODES - 1]);
	crowd(NODES - 1);
	assert_int_equal(lk__node_extra(&nodes[NODES - 1]), last + 1);
	assert_int_equal(extra_in_all(), IN_ALL);
	tear_down_nodes();
}

/* ---- which ones a lock may be on ---- */

static struct lk__entry entry_on_second(void)
{
	struct lk__entry entry = entry_on(0);
	set_up_nodes();
	assert_int_equal(lk__node_add_conn(&nodes[0], NULL), 0);
	nodes[0].scripts[1]->state = LK__CONN_UP;
	lk__conn_join(nodes[0].scripts[0]);
	assert_int_equal(join_entry(&entry), 1);
	lk__conn_part(nodes[0].scripts[1]);
	lk__conn_part(nodes[0].scripts[0]);
	return entry;
}

static void test_a_lock_goes_along_with_its_caller(void **state)
{
	struct lk__entry entry = entry_on_second();
	assert_int_equal(join_entry(&entry), 0);
	tear_down_nodes();
}

static void test_not_while_something_of_it_is_under_way(void **state)
{
	struct lk__entry entry = entry_on_second();
	struct lk__waiting waiting = {.request = (struct lk__request *)&waiting};
	atomic_store(&entry.releasing, 1); /* which no try may overtake */
	assert_int_equal(join_entry(&entry), 1);
	atomic_store(&entry.releasing, 0);
	atomic_store(&entry.compensating, 1);
	assert_int_equal(join_entry(&entry), 1);
	atomic_store(&entry.compensating, 0);
	entry.waiting = &waiting; /* a try, which no release may overtake */
	assert_int_equal(join_entry(&entry), 1);
	entry.waiting = NULL;
	entry.grant.repeated_until_ns = lk__now_ns() + 60000 * LK__MS; /* a copy of one */
	assert_int_equal(join_entry(&entry), 1);
	lk__entry_rejoin_first(&entry);
	assert_ptr_equal(lk__entry_conn(&entry), nodes[0].scripts[1]);
	entry.grant.repeated_until_ns = lk__now_ns();
	lk__entry_rejoin_first(&entry);
	assert_ptr_equal(lk__entry_conn(&entry), nodes[0].scripts[0]);
	tear_down_nodes();
}

static void test_not_where_several_entries_are_in_order(void **state)
{
	struct lk__entry red = entry_on_second();
	red.is_quorum = true;
	assert_int_equal(join_entry(&red), 1);
	struct lk__reds reds = {.lease_ms = 0};
	red.is_quorum = false;
	red.reds = &reds; /* a member of a red lock */
	assert_int_equal(join_entry(&red), 1);
	lk__entry_rejoin_first(&red);
	assert_ptr_equal(lk__entry_conn(&red), nodes[0].scripts[1]);
	tear_down_nodes();
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
		TEST(test_many_gather_and_few_spread_again),
		TEST(test_a_moment_changes_nothing),
		TEST(test_who_gathers_takes_one_that_is_up),
		TEST(test_many_open_no_more),
		TEST(test_one_that_was_not_used_for_long_is_closed),
		TEST(test_one_in_use_is_not),
		TEST(test_the_loop_opens_the_one_for_renewals),
		TEST(test_a_script_is_there_when_it_has_run),
		TEST(test_a_client_has_so_many_in_all),
		TEST(test_a_lock_goes_along_with_its_caller),
		TEST(test_not_while_something_of_it_is_under_way),
		TEST(test_not_where_several_entries_are_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
