/* A connection that is lost again before those whom it woke have looked at it. */
#include "unit.h"

#include <string.h>

#include "base/clock.h"
#include "conn/channels.h"
#include "conn/node.h"

#define LIMIT_NS (20 * 1000 * LK__MS)

static enum lk__conn_state found[3]; /* by who is woken, each time; then it is down */
static size_t wakes;
static struct lk__thread waiter, maker;
static struct lk__conn conn;
static struct lk__node node;

static void wakes_up(void)
{
	conn.state = wakes < sizeof(found) / sizeof(found[0]) ? found[wakes] : LK__CONN_DOWN;
	wakes++;
}

/* Another thread makes the connection: who waits for it parks. */
void __wrap_lk__cancel_park(lk_cancel *cancel, struct lk__park *park, int64_t deadline_ns);

void __wrap_lk__cancel_park(lk_cancel *cancel, struct lk__park *park, int64_t deadline_ns)
{
	wakes_up();
}

int __wrap_lk__conn_wait(struct lk__conn *waited, struct lk__thread *thread,
			 bool (*ready)(const void *subject), const void *subject, int64_t until_ns,
			 lk_cancel *cancel);

int __wrap_lk__conn_wait(struct lk__conn *waited, struct lk__thread *thread,
			 bool (*ready)(const void *subject), const void *subject, int64_t until_ns,
			 lk_cancel *cancel)
{
	wakes_up();
	return LK__WAIT_READY;
}

static void finds(enum lk__conn_state first, enum lk__conn_state second, enum lk__conn_state third)
{
	found[0] = first;
	found[1] = second;
	found[2] = third;
	wakes = 0;
}

/* A connection that is being made, to a server that was there before. */
static void begin(void)
{
	memset(&node, 0, sizeof(node));
	memset(&conn, 0, sizeof(conn));
	atomic_store(&node.was_up, true);
	conn.node = &node;
	conn.state = LK__CONN_CONNECTING;
	conn.leader = &maker;
	conn.last_error.code = LK_EUNREACHABLE;
	pthread_mutex_init(&conn.mutex, NULL);
}

static void test_a_connection_lost_again_is_waited_for(void **state)
{
	lk_error error = {0};
	begin();
	finds(LK__CONN_CONNECTING, LK__CONN_CONNECTING, LK__CONN_UP);
	assert_int_equal(lk__conn_ready(&conn, &waiter, false, lk__now_ns() + LIMIT_NS, &error),
			 LK__WAIT_READY);
	assert_int_equal(wakes, 3);
	assert_int_equal(conn.wanted, 0);
	pthread_mutex_destroy(&conn.mutex);
}

static void test_a_connection_given_up_is_not(void **state)
{
	lk_error error = {0};
	begin();
	finds(LK__CONN_CONNECTING, LK__CONN_DOWN, LK__CONN_UP);
	assert_int_equal(lk__conn_ready(&conn, &waiter, false, lk__now_ns() + LIMIT_NS, &error),
			 LK_EUNREACHABLE);
	assert_int_equal(wakes, 2);
	pthread_mutex_destroy(&conn.mutex);
}

static void test_a_subscription_lost_again_is_waited_for(void **state)
{
	struct lk__channel channel = {.wanted = true};
	struct lk__listening listening = {.channel = &channel};
	lk_error error = {0};
	begin();
	finds(LK__CONN_CONNECTING, LK__CONN_UP, LK__CONN_DOWN);
	assert_int_equal(
		lk__channel_await(&conn, &listening, &waiter, lk__now_ns() + LIMIT_NS, &error),
		LK__WAIT_READY);
	assert_int_equal(wakes, 2);
	pthread_mutex_destroy(&conn.mutex);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_connection_lost_again_is_waited_for),
		cmocka_unit_test(test_a_connection_given_up_is_not),
		cmocka_unit_test(test_a_subscription_lost_again_is_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
