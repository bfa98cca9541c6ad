/* The list of what is ready: its order, alone and beside threads that put. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/containers.h"

#define PUTTERS 4
#define EACH 50000

struct item {
	struct lk__ready place; /* first */
	int putter, number;
};

static struct lk__ready_list list;
static struct item items[PUTTERS][EACH];
static _Atomic bool asleep, woken;

static struct item *take(void)
{
	return (struct item *)lk__ready_take(&list);
}

static void put(struct item *item)
{
	lk__ready_put(&list, &item->place);
	if (atomic_exchange(&asleep, false))
		atomic_store(&woken, true);
}

static void test_the_oldest_first(void **state)
{
	lk__ready_init(&list);
	assert_false(lk__ready_any(&list));
	assert_null(take());
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++)
			put(&items[0][i]);
		assert_true(lk__ready_any(&list));
		assert_ptr_equal(take(), &items[0][0]);
		put(&items[0][0]); /* again, while others are in it */
		assert_ptr_equal(take(), &items[0][1]);
		assert_ptr_equal(take(), &items[0][2]);
		assert_true(lk__ready_any(&list));
		assert_ptr_equal(take(), &items[0][0]);
		assert_false(lk__ready_any(&list));
		assert_null(take());
	}
}

static void *put_all(void *argument)
{
	struct item *own = argument;
	for (int i = 0; i < EACH; i++)
		put(&own[i]);
	return NULL;
}

/* As the loop does: it says that it sleeps, and where there is nothing it waits for a wake-up. */
static void rest(void)
{
	atomic_store(&asleep, true);
	if (lk__ready_any(&list))
		return;
	while (!atomic_exchange(&woken, false))
		sched_yield();
}

static void test_none_is_lost_beside_threads(void **state)
{
	pthread_t threads[PUTTERS];
	int next[PUTTERS] = {0};
	lk__ready_init(&list);
	atomic_store(&woken, false);
	for (int i = 0; i < PUTTERS; i++) {
		for (int j = 0; j < EACH; j++)
			items[i][j] = (struct item){.putter = i, .number = j};
		assert_int_equal(pthread_create(&threads[i], NULL, put_all, items[i]), 0);
	}
	for (int taken = 0; taken < PUTTERS * EACH;) {
		const struct item *item = take();
		if (item) {
			assert_int_equal(item->number, next[item->putter]++);
			taken++;
		} else {
			rest();
		}
	}
	assert_null(take());
	for (int i = 0; i < PUTTERS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_oldest_first),
		cmocka_unit_test(test_none_is_lost_beside_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
