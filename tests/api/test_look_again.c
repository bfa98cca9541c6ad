/* What ends or shortens a lock without a message: waiters notice it within a stated time. */
#include "fixture.h"

#define LIMIT_MS 20000
#define AN_HOUR_MS 3600000

static lk_queue *queue;

static void ends(int operation)
{
	lk_completion completion = LK_COMPLETION_INIT;
	check_int(lk_queue_take(queue, &completion, 1, slow_ms(LIMIT_MS), &err), ==, 1);
	check_int(completion.operation, ==, operation);
	if (completion.error.code)
		check_fail(__FILE__, __LINE__, "%s", completion.error.message);
}

static void start_acquire(lk_lock *lock, int64_t lease_ms)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = "task";
	options.lease_ms = lease_ms;
	expect(0,
	       lk_queue_start(queue,
			      request_of(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options),
			      NULL, &err));
}

static void acquire(lk_lock *lock, int64_t lease_ms)
{
	start_acquire(lock, lease_ms);
	ends(LK_OP_ACQUIRE);
}

static void release(lk_lock *lock)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.owner = "task";
	expect(0, lk_queue_start(queue, request_of(RELEASE, .lock = lock, .release = &options),
				 NULL, &err));
	ends(LK_OP_RELEASE);
}

enum { REENTRANT, FAIR, FENCED, WRITE, READ, KINDS };

static lk_lock *new_kind(lk_client *client, int kind, const char *name)
{
	lk_lock *lock = NULL;
	int rc = kind == FAIR     ? lk_fair_lock_new(&lock, client, name, LK_STRLEN, &err)
		 : kind == FENCED ? lk_fenced_lock_new(&lock, client, name, LK_STRLEN, NULL, &err)
		 : kind == WRITE  ? lk_write_lock_new(&lock, client, name, LK_STRLEN, NULL, &err)
		 : kind == READ   ? lk_read_lock_new(&lock, client, name, LK_STRLEN, NULL, &err)
				  : lk_lock_new(&lock, client, name, LK_STRLEN, &err);
	expect(0, rc);
	return lock;
}

/* The client's waiters have seen the ttl, and wait for a message. */
static void wait_for_waiters(lk_client *client, uint64_t count)
{
	wait_until(stats_of(client).busy >= 2 * count, LIMIT_MS);
}

/* Another owner has each kind for an hour; a waiter of each is there when that ends. */
static void wait_beside_an_hour(void (*end)(void))
{
	lk_lock *held[KINDS], *wanted[KINDS];
	lk_client *holder = open_client(), *waiter = open_client();
	expect(0, lk_queue_new(&queue, 0, &err));
	for (int kind = 0; kind < KINDS; kind++) {
		char name[16];
		snprintf(name, sizeof(name), "{hour}%d", kind);
		held[kind] = new_kind(holder, kind == READ ? WRITE : kind, name);
		wanted[kind] = new_kind(waiter, kind, name);
		acquire(held[kind], AN_HOUR_MS);
		start_acquire(wanted[kind], AN_HOUR_MS);
	}
	wait_for_waiters(waiter, KINDS);
	end();
	for (int kind = 0; kind < KINDS; kind++)
		ends(LK_OP_ACQUIRE);
	for (int kind = 0; kind < KINDS; kind++) {
		release(wanted[kind]);
		lk_lock_free(wanted[kind]);
		lk_lock_free(held[kind]);
	}
	lk_client_close(holder, LK_CLOSE_RELEASE, NULL);
	lk_client_free(holder);
	close_client(waiter);
	expect(0, lk_queue_free(queue, &err));
	redis_do(&server, "FLUSHALL");
}

static void delete_each(void)
{
	for (int kind = 0; kind < KINDS; kind++)
		redis_do(&server, "DEL {hour}%d", kind);
}

static void flush_all(void)
{
	redis_do(&server, "FLUSHALL");
}

static void test_a_deleted_lock(void **state)
{
	wait_beside_an_hour(delete_each);
}

static void test_a_flushed_server(void **state)
{
	wait_beside_an_hour(flush_all);
}

/* Of one client only the head of the queue looks. */
static void test_one_of_many_looks(void **state)
{
	enum { WAITERS = 50 };
	lk_client *client = open_client_with("look_again_ms=%lld", slow_ms(200));
	lk_lock *lock = new_lock(client, "many");
	expect(0, lk_queue_new(&queue, 0, &err));
	stranger_takes("many", AN_HOUR_MS);
	for (int i = 0; i < WAITERS; i++)
		start_acquire(lock, 0);
	wait_until(stats_of(client).waiting == WAITERS, LIMIT_MS);
	wait_for_waiters(client, 1);
	uint64_t before = stats_of(client).busy;
	int64_t begun_ms = now_ms();
	wait_until(stats_of(client).busy >= before + 4, LIMIT_MS);
	int64_t looks = (now_ms() - begun_ms) / slow_ms(150) + 1;
	check_int(stats_of(client).busy - before, <=, (uint64_t)looks);
	lk_client_free(client);
	for (int i = 0; i < WAITERS; i++) {
		lk_completion completion = LK_COMPLETION_INIT;
		check_int(lk_queue_take(queue, &completion, 1, LIMIT_MS, &err), ==, 1);
		check_int(completion.error.code, ==, LK_ECLOSED);
	}
	lk_lock_free(lock);
	expect(0, lk_queue_free(queue, &err));
	redis_do(&server, "DEL many");
}

/* A reader that died keeps a writer out for its own lease, not for that of one who has gone. */
static void test_a_reader_that_goes_tells_of_a_shorter_lease(void **state)
{
	lk_client *dead = open_client(), *alive = open_client();
	lk_client *waiter = open_client_with("look_again_ms=%d", AN_HOUR_MS);
	lk_lock *dead_read = new_kind(dead, READ, "rw"), *read = new_kind(alive, READ, "rw");
	lk_lock *write = new_kind(waiter, WRITE, "rw");
	expect(0, lk_queue_new(&queue, 0, &err));
	acquire(dead_read, slow_ms(3000));
	acquire(read, AN_HOUR_MS);
	expect(0, lk_client_close(dead, LK_CLOSE_ABANDON, &err));
	start_acquire(write, AN_HOUR_MS);
	wait_for_waiters(waiter, 1);
	release(read);
	ends(LK_OP_ACQUIRE);
	release(write);
	lk_lock_free(dead_read);
	lk_lock_free(read);
	lk_lock_free(write);
	lk_client_free(dead);
	close_client(alive);
	close_client(waiter);
	expect(0, lk_queue_free(queue, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_deleted_lock),
		api_test(test_a_flushed_server),
		api_test(test_one_of_many_looks),
		api_test(test_a_reader_that_goes_tells_of_a_shorter_lease),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
