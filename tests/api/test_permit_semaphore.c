/* The permit semaphore: permits with ids and leases, renewed, lost, given back. */
#include "fixture.h"

static lk_permit_semaphore *new_permits(lk_client *client, const char *name)
{
	lk_permit_semaphore *permits = NULL;
	expect(0, lk_permit_semaphore_new(&permits, client, name, strlen(name), NULL, &err));
	return permits;
}

static void check_counts(lk_permit_semaphore *permits, int64_t free_wanted, int64_t used_wanted)
{
	int64_t free_now = -1, used = -1;
	expect(0, lk_permit_semaphore_count(permits, &free_now, &used, &err));
	check_int(free_now, ==, free_wanted);
	check_int(used, ==, used_wanted);
}

static int64_t left_ms(lk_permit_semaphore *permits, const char *id)
{
	int64_t ms = INT64_MIN;
	int rc = lk_permit_semaphore_remaining_ms(permits, id, &ms, &err);
	return rc < 0 ? rc : ms;
}

static int64_t server_ttl(lk_permit_semaphore *permits, const char *id)
{
	int64_t ms = INT64_MIN;
	expect(0, lk_permit_semaphore_server_ttl_ms(permits, id, &ms, &err));
	return ms;
}

static void test_acquire_and_release(void **state)
{
	own_client *client = open_client();
	own_permits *pool = new_permits(client, "pool");
	lk_permit ids[4];
	check_counts(pool, 0, 0);
	expect(1, lk_permit_semaphore_try_set(pool, 4, &err));
	expect(0, lk_permit_semaphore_try_set(pool, 9, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 3, ids, -1, NULL, &err));
	check_int(strlen(ids[0].id), ==, 32);
	check(strcmp(ids[0].id, ids[1].id) && strcmp(ids[1].id, ids[2].id));
	check_counts(pool, 1, 3);
	check_int(redis_integer(&server, "ZCARD {pool}:timeout"), ==, 3);
	expect(LK_EBUSY, lk_permit_semaphore_acquire(pool, 2, ids + 3, 0, NULL, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 1, ids + 3, 0, NULL, &err));
	expect(LK_ETIMEDOUT,
	       lk_permit_semaphore_acquire(pool, 1, ids + 3, slow_ms(200), NULL, &err));
	check(left_ms(pool, ids[0].id) > 20000 && server_ttl(pool, ids[0].id) > 20000);
	expect(LK_EHELD, lk_client_close(client, LK_CLOSE_IF_IDLE, &err));
	expect(0, lk_permit_semaphore_release(pool, ids, 1, &err));
	expect(LK_ENOTOWNER, lk_permit_semaphore_release(pool, ids, 1, &err));
	check_int(left_ms(pool, ids[0].id), ==, LK_ENOTOWNER);
	check_int(server_ttl(pool, ids[0].id), ==, -2);
	expect(LK_ENOTOWNER, lk_permit_semaphore_release(pool, ids, 4, &err));
	check_counts(pool, 1, 3);
	expect(0, lk_permit_semaphore_release(pool, ids + 1, 3, &err));
	check_counts(pool, 4, 0);
	expect(1, lk_permit_semaphore_delete(pool, &err));
	expect(0, lk_permit_semaphore_delete(pool, &err));
}

static void test_how_many_there_are(void **state)
{
	own_client *client = open_client();
	own_permits *pool = new_permits(client, "pool");
	lk_permit ids[2];
	expect(0, lk_permit_semaphore_set(pool, 5, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 2, ids, -1, NULL, &err));
	expect(0, lk_permit_semaphore_set(pool, 7, &err));
	check_counts(pool, 5, 2);
	expect(0, lk_permit_semaphore_add(pool, -6, &err));
	check_counts(pool, -1, 2);
	expect(0, lk_permit_semaphore_release(pool, ids, 2, &err));
	check_counts(pool, 1, 0);
	expect(0, lk_permit_semaphore_set(pool, LK_PERMITS_MAX, &err));
	expect(LK_EINVAL, lk_permit_semaphore_add(pool, 1, &err));
	check_counts(pool, LK_PERMITS_MAX, 0);
	expect(1, lk_permit_semaphore_delete(pool, &err));
}

static void test_another_client_can_release_it(void **state)
{
	lk_client *ours = open_client(), *theirs = open_client();
	lk_permit_semaphore *pool = new_permits(ours, "pool"), *same = new_permits(theirs, "pool");
	lk_permit id[1];
	lk_event event = LK_EVENT_INIT;
	expect(1, lk_permit_semaphore_try_set(pool, 1, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 1, id, -1, NULL, &err));
	check_int(left_ms(same, id[0].id), ==, LK_ENOTOWNER);
	check(server_ttl(same, id[0].id) > 20000);
	expect(0, lk_permit_semaphore_update_lease(same, id[0].id, 40000, &err));
	check(server_ttl(pool, id[0].id) > 35000);
	expect(0, lk_permit_semaphore_release(same, id, 1, &err));
	expect(LK_ENOTOWNER, lk_permit_semaphore_release(same, id, 1, &err));
	check_counts(pool, 1, 0);
	expect(LK_ENOTOWNER, lk_permit_semaphore_update_lease(same, id[0].id, 1000, &err));
	expect(LK_ELOST, lk_permit_semaphore_release(pool, id, 1, &err));
	check_int(lk_event_wait(ours, &event, 0, NULL, &err), >=, 0);
	expect(1, lk_permit_semaphore_delete(pool, &err));
	lk_permit_semaphore_free(pool);
	lk_permit_semaphore_free(same);
	drop_client(ours);
	close_client(theirs);
}

static void test_renewed_while_held(void **state)
{
	own_client *client = open_client_with("watchdog_ms=%lld", slow_ms(600));
	own_permits *pool = new_permits(client, "pool");
	lk_permit ids[3];
	expect(1, lk_permit_semaphore_try_set(pool, 3, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 3, ids, -1, NULL, &err));
	sleep_ms(slow_ms(1500));
	for (size_t i = 0; i < 3; i++)
		check(left_ms(pool, ids[i].id) > 0 && server_ttl(pool, ids[i].id) > 0);
	check_counts(pool, 0, 3);
	check_int(stats_of(client).renewals, >=, 3);
	expect(0, lk_permit_semaphore_release(pool, ids, 3, &err));
	check_counts(pool, 3, 0);
	expect(1, lk_permit_semaphore_delete(pool, &err));
}

static void test_a_named_lease_ends(void **state)
{
	own_client *client = open_client();
	own_permits *pool = new_permits(client, "pool");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit id[1], next[1];
	lk_event event = LK_EVENT_INIT;
	options.lease_ms = slow_ms(300);
	options.tag = 42;
	expect(1, lk_permit_semaphore_try_set(pool, 1, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 1, id, -1, &options, &err));
	/* It comes back by itself, and its end is waited for, not a message. */
	expect(0, lk_permit_semaphore_acquire(pool, 1, next, slow_ms(10000), NULL, &err));
	check(strcmp(id[0].id, next[0].id) != 0);
	int type = next_event(client, &event, 5000);
	while (type == LK_EVENT_AT_RISK) /* more than one where the machine stalls */
		type = next_event(client, &event, 5000);
	check_int(type, ==, LK_EVENT_LOST);
	check(strcmp(event.field, id[0].id) == 0 && event.tag == 42 && !strcmp(event.name, "pool"));
	check_int(left_ms(pool, id[0].id), ==, LK_ELOST);
	expect(LK_ELOST, lk_permit_semaphore_release(pool, id, 1, &err));
	check_counts(pool, 0, 1);
	expect(0, lk_permit_semaphore_release(pool, next, 1, &err));
	check_counts(pool, 1, 0);
	expect(1, lk_permit_semaphore_delete(pool, &err));
}

static void test_a_new_lease_ends_the_renewal(void **state)
{
	own_client *client = open_client();
	own_permits *pool = new_permits(client, "pool");
	lk_permit id[1];
	lk_event event = LK_EVENT_INIT;
	expect(1, lk_permit_semaphore_try_set(pool, 1, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 1, id, -1, NULL, &err));
	expect(0, lk_permit_semaphore_update_lease(pool, id[0].id, slow_ms(200), &err));
	check(left_ms(pool, id[0].id) <= slow_ms(200));
	int type = next_event(client, &event, 5000);
	while (type == LK_EVENT_AT_RISK) /* more than one where the machine stalls */
		type = next_event(client, &event, 5000);
	check_int(type, ==, LK_EVENT_LOST);
	wait_until(server_ttl(pool, id[0].id) == -2, 5000);
	check_counts(pool, 1, 0);
	expect(LK_ELOST, lk_permit_semaphore_release(pool, id, 1, &err));
	expect(1, lk_permit_semaphore_delete(pool, &err));
}

static void test_a_new_lease_finds_what_is_gone(void **state)
{
	own_client *client = open_client();
	own_permits *pool = new_permits(client, "pool");
	lk_permit id[1];
	lk_event event = LK_EVENT_INIT;
	expect(1, lk_permit_semaphore_try_set(pool, 1, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 1, id, -1, NULL, &err));
	redis_do(&server, "DEL pool {pool}:timeout");
	for (int i = 0; i < 2; i++) {
		expect(LK_ELOST,
		       lk_permit_semaphore_update_lease(pool, id[0].id, slow_ms(20000), &err));
		check_int(left_ms(pool, id[0].id), ==, LK_ELOST);
	}
	check_int(next_event(client, &event, 5000), ==, LK_EVENT_LOST);
	expect(LK_ELOST, lk_permit_semaphore_release(pool, id, 1, &err));
}

static void test_lost_when_it_is_gone(void **state)
{
	own_client *client = open_client_with("watchdog_ms=%lld", slow_ms(600));
	own_permits *pool = new_permits(client, "pool");
	lk_permit id[1];
	lk_event event = LK_EVENT_INIT;
	expect(1, lk_permit_semaphore_try_set(pool, 1, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 1, id, -1, NULL, &err));
	redis_do(&server, "DEL pool {pool}:timeout");
	check_int(next_event(client, &event, 10000), ==, LK_EVENT_LOST);
	expect(LK_ELOST, lk_permit_semaphore_release(pool, id, 1, &err));
	check_int(redis_integer(&server, "EXISTS pool {pool}:timeout"), ==, 0);
}

/* Nobody asks for them again: the last thousand are remembered. */
/* A grant that is older than its short lease when it arrives is none: then once more. */
static void acquire_in_time(lk_permit_semaphore *pool, size_t count, lk_permit *permits,
			    const lk_acquire_options *options)
{
	int rc = LK_EMAYBEHELD;
	for (int tries = 0; tries < 50 && rc == LK_EMAYBEHELD; tries++)
		rc = lk_permit_semaphore_acquire(pool, (int64_t)count, permits, -1, options, &err);
	check_int(rc, ==, 0);
}

static void test_lost_permits_are_not_kept_for_good(void **state)
{
	lk_client *client = open_client();
	lk_permit_semaphore *pool = new_permits(client, "pool");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	static lk_permit first[LK_PERMITS_AT_ONCE_MAX], last[LK_PERMITS_AT_ONCE_MAX];
	options.lease_ms = slow_ms(200);
	expect(1, lk_permit_semaphore_try_set(pool, 10 * LK_PERMITS_AT_ONCE_MAX, &err));
	acquire_in_time(pool, COUNT(first), first, &options);
	wait_until(stats_of(client).lost == COUNT(first), 10000);
	check_int(left_ms(pool, first[0].id), ==, LK_ELOST);
	acquire_in_time(pool, COUNT(last), last, &options);
	wait_until(stats_of(client).lost == COUNT(first) + COUNT(last), 10000);
	for (size_t i = 0; i < COUNT(first); i++)
		wait_until(left_ms(pool, first[i].id) == LK_ENOTOWNER, 5000);
	for (size_t i = 0; i < COUNT(last); i++)
		check_int(left_ms(pool, last[i].id), ==, LK_ELOST);
	expect(LK_ELOST, lk_permit_semaphore_release(pool, last, COUNT(last), &err));
	lk_event event = LK_EVENT_INIT;
	check_int(lk_event_wait(client, &event, 0, NULL, &err), ==, 0);
	expect(0, lk_client_close(client, LK_CLOSE_IF_IDLE, &err));
	lk_permit_semaphore_free(pool);
	lk_client_free(client);
	redis_do(&server, "DEL pool {pool}:timeout");
}

/* It is left to its lease, or to another who gives it back. */
static void test_an_end_with_no_loss_set_is_not_a_loss(void **state)
{
	lk_client *client = open_client_with("watchdog_ms=%lld", slow_ms(600));
	lk_permit_semaphore *pool = NULL;
	lk_permit_semaphore_options meant = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit ids[2];
	lk_event event = LK_EVENT_INIT;
	meant.no_loss = 1;
	expect(0, lk_permit_semaphore_new(&pool, client, "pool", LK_STRLEN, &meant, &err));
	expect(1, lk_permit_semaphore_try_set(pool, 2, &err));
	options.lease_ms = slow_ms(300);
	expect(0, lk_permit_semaphore_acquire(pool, 1, ids, -1, &options, &err));
	check_int(left_ms(pool, ids[0].id), >, 0);
	options.lease_ms = 0;
	expect(0, lk_permit_semaphore_acquire(pool, 1, ids + 1, -1, &options, &err));
	redis_do(&server, "ZPOPMAX {pool}:timeout");
	for (size_t i = 0; i < COUNT(ids); i++)
		wait_until(left_ms(pool, ids[i].id) == LK_ENOTOWNER, 10000);
	wait_until(server_ttl(pool, ids[0].id) == -2, 10000);
	expect(LK_ENOTOWNER, lk_permit_semaphore_release(pool, ids, 1, &err));
	expect(LK_ENOTOWNER, lk_permit_semaphore_release(pool, ids, 2, &err));
	check_int(stats_of(client).lost, ==, 0);
	check_int(lk_event_wait(client, &event, 0, NULL, &err), ==, 0);
	expect(0, lk_client_close(client, LK_CLOSE_IF_IDLE, &err));
	lk_permit_semaphore_free(pool);
	lk_client_free(client);
	redis_do(&server, "DEL pool {pool}:timeout");
}

/* Of several that are given back, those that were lost are given up, and it is said. */
static void test_several_are_released_although_one_is_lost(void **state)
{
	own_client *client = open_client_with("watchdog_ms=%lld", slow_ms(600));
	own_permits *pool = new_permits(client, "pool");
	lk_permit ids[3];
	lk_event event = LK_EVENT_INIT;
	expect(1, lk_permit_semaphore_try_set(pool, 3, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 3, ids, -1, NULL, &err));
	redis_do(&server, "ZPOPMIN {pool}:timeout");
	check_int(next_event(client, &event, 10000), ==, LK_EVENT_LOST);
	expect(LK_ELOST, lk_permit_semaphore_release(pool, ids, 3, &err));
	check_counts(pool, 2, 0);
	for (size_t i = 0; i < COUNT(ids); i++)
		check_int(left_ms(pool, ids[i].id), ==, LK_ENOTOWNER);
	expect(LK_ENOTOWNER, lk_permit_semaphore_release(pool, ids, 3, &err));
	expect(1, lk_permit_semaphore_delete(pool, &err));
}

/* It was given back by another, and nobody has noticed yet. */
static void test_several_are_released_although_one_is_gone(void **state)
{
	lk_client *client = open_client();
	lk_permit_semaphore *pool = new_permits(client, "pool");
	lk_permit ids[3];
	lk_event event = LK_EVENT_INIT;
	expect(1, lk_permit_semaphore_try_set(pool, 3, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 3, ids, -1, NULL, &err));
	redis_do(&server, "ZPOPMIN {pool}:timeout");
	expect(LK_ELOST, lk_permit_semaphore_release(pool, ids, 3, &err));
	check(strstr(err.message, "1 of 3") != NULL);
	check_counts(pool, 2, 0);
	for (size_t i = 0; i < COUNT(ids); i++)
		check_int(left_ms(pool, ids[i].id), ==, LK_ENOTOWNER);
	check_int(lk_event_wait(client, &event, 0, NULL, &err), ==, 0);
	expect(0, lk_client_close(client, LK_CLOSE_IF_IDLE, &err));
	lk_permit_semaphore_free(pool);
	lk_client_free(client);
	redis_do(&server, "DEL pool {pool}:timeout");
}

/* One lease ends while the answer is on its way. */
static void test_several_are_released_although_one_ends(void **state)
{
	own_client *client = open_client_with("command_timeout_ms=%lld", 9000LL);
	own_permits *pool = new_permits(client, "pool");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit ids[3];
	expect(1, lk_permit_semaphore_try_set(pool, 3, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 2, ids, -1, NULL, &err));
	options.lease_ms = slow_ms(500);
	expect(0, lk_permit_semaphore_acquire(pool, 1, ids + 2, -1, &options, &err));
	redis_do(&server, "CLIENT PAUSE %lld ALL", slow_ms(800));
	expect(LK_ELOST, lk_permit_semaphore_release(pool, ids, 3, &err));
	for (size_t i = 0; i < COUNT(ids); i++)
		check_int(left_ms(pool, ids[i].id), ==, LK_ENOTOWNER);
	check_counts(pool, 3, 0);
	expect(1, lk_permit_semaphore_delete(pool, &err));
}

/* Ours that is lost is told apart from one that was never in use. */
static void test_an_unknown_permit_keeps_all_although_one_is_gone(void **state)
{
	own_client *client = open_client();
	own_permits *pool = new_permits(client, "pool");
	lk_permit ids[4];
	expect(1, lk_permit_semaphore_try_set(pool, 3, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 3, ids, -1, NULL, &err));
	redis_do(&server, "ZPOPMIN {pool}:timeout");
	memset(&ids[3], 'a', 32);
	ids[3].id[32] = 0;
	expect(LK_ENOTOWNER, lk_permit_semaphore_release(pool, ids, 4, &err));
	check_counts(pool, 0, 2);
	expect(LK_ELOST, lk_permit_semaphore_release(pool, ids, 3, &err));
	check_counts(pool, 2, 0);
	expect(1, lk_permit_semaphore_delete(pool, &err));
}

/* Where one of them is not in use, nothing is done: the others are held, and renewed. */
static void test_several_stay_when_one_is_unknown(void **state)
{
	own_client *client = open_client_with("watchdog_ms=%lld", slow_ms(600));
	own_permits *pool = new_permits(client, "pool");
	lk_permit ids[3];
	expect(1, lk_permit_semaphore_try_set(pool, 2, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 2, ids, -1, NULL, &err));
	memset(&ids[2], 'a', 32);
	ids[2].id[32] = 0;
	expect(LK_ENOTOWNER, lk_permit_semaphore_release(pool, ids, 3, &err));
	uint64_t renewals = stats_of(client).renewals;
	wait_until(stats_of(client).renewals >= renewals + 6, 5000);
	check(left_ms(pool, ids[0].id) > 0 && left_ms(pool, ids[1].id) > 0);
	check_counts(pool, 0, 2);
	expect(0, lk_permit_semaphore_release(pool, ids, 2, &err));
	expect(1, lk_permit_semaphore_delete(pool, &err));
}

static void test_bad_input(void **state)
{
	own_client *client = open_client();
	lk_permit_semaphore *pool = new_permits(client, "pool"), *none = NULL;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit ids[2];
	int64_t ms;
	const int64_t wrong[] = {0, -1, INT64_MIN, LK_PERMITS_AT_ONCE_MAX + 1, INT64_MAX};
	expect(LK_EINVAL, lk_permit_semaphore_new(&none, client, "a}b", 3, NULL, &err));
	for (size_t i = 0; i < COUNT(wrong); i++) {
		expect(LK_EINVAL, lk_permit_semaphore_acquire(pool, wrong[i], ids, -1, NULL, &err));
		expect(LK_EINVAL, lk_permit_semaphore_acquire(pool, wrong[i], ids, 0, NULL, &err));
		expect(LK_EINVAL, lk_permit_semaphore_release(pool, ids, wrong[i], &err));
	}
	expect(LK_EINVAL, lk_permit_semaphore_try_set(pool, -1, &err));
	expect(LK_EINVAL, lk_permit_semaphore_set(pool, LK_PERMITS_MAX + 1, &err));
	expect(LK_EINVAL, lk_permit_semaphore_add(pool, 0, &err));
	expect(LK_EINVAL, lk_permit_semaphore_acquire(pool, 1, NULL, -1, NULL, &err));
	options.owner = "me";
	expect(LK_EINVAL, lk_permit_semaphore_acquire(pool, 1, ids, 0, &options, &err));
	options.owner = NULL;
	options.lease_ms = 1;
	expect(LK_EINVAL, lk_permit_semaphore_acquire(pool, 1, ids, 0, &options, &err));
	strcpy(ids[0].id, "no id");
	expect(LK_EINVAL, lk_permit_semaphore_release(pool, ids, 1, &err));
	check(strstr(err.message, "no id") != NULL);
	memset(ids[0].id, 'A', 32);
	ids[0].id[32] = 0;
	expect(LK_EINVAL, lk_permit_semaphore_server_ttl_ms(pool, ids[0].id, &ms, &err));
	memset(ids[0].id, 'a', 32);
	expect(LK_EINVAL, lk_permit_semaphore_update_lease(pool, ids[0].id, 0, &err));
	expect(LK_ENOTOWNER, lk_permit_semaphore_update_lease(pool, ids[0].id, 1000, &err));
	expect(LK_ENOTOWNER, lk_permit_semaphore_release(pool, ids, 1, &err));
	redis_do(&server, "HSET pool x:1 1");
	expect(LK_EWRONGTYPE, lk_permit_semaphore_acquire(pool, 1, ids, 0, NULL, &err));
	check(strstr(err.message, "hash") && strstr(err.message, "permit semaphore"));
	expect(LK_EWRONGTYPE, lk_permit_semaphore_count(pool, &ms, NULL, &err));
	expect(LK_EWRONGTYPE, lk_permit_semaphore_set(pool, 3, &err));
	redis_do(&server, "DEL pool");
	lk_permit_semaphore_free(pool);
}

/* The one before has left a try behind that asked for another lease. */
static void take_after_another(int64_t before_ms, int64_t lease_ms)
{
	own_client *client = open_client();
	own_permits *pool = new_permits(client, "pool");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit id[1];
	expect(1, lk_permit_semaphore_try_set(pool, 1, &err));
	expect(0, lk_permit_semaphore_acquire(pool, 1, id, -1, NULL, &err));
	expect(0, lk_permit_semaphore_release(pool, id, 1, &err));
	redis_do(&server, "CLIENT PAUSE %lld ALL", slow_ms(300));
	options.lease_ms = before_ms;
	expect(LK_EMAYBEHELD,
	       lk_permit_semaphore_acquire(pool, 1, id, slow_ms(50), &options, &err));
	options.lease_ms = lease_ms;
	expect(0, lk_permit_semaphore_acquire(pool, 1, id, -1, &options, &err));
	check_int(left_ms(pool, id[0].id), >, lease_ms / 2);
	check_int(left_ms(pool, id[0].id), <=, lease_ms);
	check_int(server_ttl(pool, id[0].id), >, lease_ms / 2);
	check_int(server_ttl(pool, id[0].id), <=, lease_ms);
	expect(0, lk_permit_semaphore_release(pool, id, 1, &err));
	check_counts(pool, 1, 0);
	expect(1, lk_permit_semaphore_delete(pool, &err));
}

static void test_each_has_the_lease_it_asked_for(void **state)
{
	take_after_another(slow_ms(1500), slow_ms(60000));
	take_after_another(3600000, slow_ms(5000));
}

#define TURNS 100
#define SLOTS 3

struct crowd {
	lk_client *clients[2];
	_Atomic int inside, most, done;
};

static void crowd_body(size_t index, void *argument)
{
	struct crowd *crowd = argument;
	own_permits *pool = new_permits(crowd->clients[index % 2], "crowd");
	lk_permit ids[SLOTS];
	for (int turn = 0; turn < TURNS; turn++) {
		int64_t count = 1 + (int64_t)(index + (size_t)turn) % SLOTS;
		expect(0, lk_permit_semaphore_acquire(pool, count, ids, -1, NULL, &err));
		int inside = atomic_fetch_add(&crowd->inside, (int)count) + (int)count;
		for (int most = atomic_load(&crowd->most); inside > most;)
			if (atomic_compare_exchange_weak(&crowd->most, &most, inside))
				break;
		crowd->inside -= (int)count;
		expect(0, lk_permit_semaphore_release(pool, ids, count, &err));
	}
	crowd->done++;
}

static void test_never_more_out_than_there_are(void **state)
{
	struct crowd crowd = {.clients = {open_client(), open_client()}};
	lk_permit_semaphore *pool = new_permits(crowd.clients[0], "crowd");
	struct threads threads;
	expect(1, lk_permit_semaphore_try_set(pool, SLOTS, &err));
	threads_start(&threads, 6, crowd_body, &crowd);
	threads_join(&threads, 90000);
	check_int(crowd.done, ==, 6);
	check_int(crowd.most, <=, SLOTS);
	check_counts(pool, SLOTS, 0);
	expect(1, lk_permit_semaphore_delete(pool, &err));
	lk_permit_semaphore_free(pool);
	close_client(crowd.clients[0]);
	close_client(crowd.clients[1]);
}

static lk_permit_semaphore *new_permits_of(lk_client *client, const char *name, int64_t count)
{
	lk_permit_semaphore *permits = NULL;
	lk_permit_semaphore_options options = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	options.permits = count;
	expect(0, lk_permit_semaphore_new(&permits, client, name, LK_STRLEN, &options, &err));
	return permits;
}

static void test_the_number_is_said_for_good(void **state)
{
	own_client *client = open_client();
	lk_permit_semaphore *pool = new_permits_of(client, "pool", 3), *none = NULL;
	lk_permit_semaphore_options options = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	lk_permit ids[3];
	check_counts(pool, 0, 0); /* a question sets nothing */
	expect(0, lk_permit_semaphore_acquire(pool, 2, ids, 0, NULL, &err));
	check_counts(pool, 1, 2);
	redis_do(&server, "DEL pool"); /* and not what is in use */
	expect(LK_EBUSY, lk_permit_semaphore_acquire(pool, 2, ids + 2, 0, NULL, &err));
	check_counts(pool, 1, 2);
	redis_do(&server, "DEL pool");
	expect(0, lk_permit_semaphore_acquire(pool, 1, ids + 2, 0, NULL, &err));
	check_counts(pool, 0, 3);
	expect(0, lk_permit_semaphore_release(pool, ids, 3, &err));
	check_counts(pool, 3, 0);
	redis_do(&server, "SET pool 0"); /* there is one: it stays */
	expect(LK_EBUSY, lk_permit_semaphore_acquire(pool, 1, ids, 0, NULL, &err));
	options.permits = -1;
	expect(LK_EINVAL, lk_permit_semaphore_new(&none, client, "x", 1, &options, &err));
	options.permits = LK_PERMITS_MAX + 1;
	expect(LK_EINVAL, lk_permit_semaphore_new(&none, client, "x", 1, &options, &err));
	options.permits = 0;
	options.no_loss = 2;
	expect(LK_EINVAL, lk_permit_semaphore_new(&none, client, "x", 1, &options, &err));
	redis_do(&server, "DEL pool");
	lk_permit_semaphore_free(pool);
}

static void take_one(size_t index, void *argument)
{
	lk_permit id;
	expect(0, lk_permit_semaphore_acquire(argument, 1, &id, slow_ms(20000), NULL, &err));
	expect(0, lk_permit_semaphore_release(argument, &id, 1, &err));
}

/* Nobody holds a permit, and nobody sets the number anew. */
static void test_a_waiter_sets_a_lost_number(void **state)
{
	struct threads threads;
	own_client *client = open_client();
	own_permits *pool = new_permits_of(client, "lost", 2);
	redis_do(&server, "SET lost 0");
	threads_start(&threads, 2, take_one, pool);
	wait_until(stats_of(client).waiting == 2 && stats_of(client).busy > 0, 5000);
	redis_do(&server, "FLUSHALL");
	threads_join(&threads, 10000);
	check_counts(pool, 2, 0);
	redis_do(&server, "DEL lost");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		counter_test(test_acquire_and_release),
		counter_test(test_how_many_there_are),
		counter_test(test_another_client_can_release_it),
		counter_test(test_renewed_while_held),
		counter_test(test_a_named_lease_ends),
		counter_test(test_a_new_lease_ends_the_renewal),
		counter_test(test_a_new_lease_finds_what_is_gone),
		counter_test(test_lost_when_it_is_gone),
		counter_test(test_lost_permits_are_not_kept_for_good),
		counter_test(test_an_end_with_no_loss_set_is_not_a_loss),
		counter_test(test_several_are_released_although_one_is_lost),
		counter_test(test_several_are_released_although_one_is_gone),
		counter_test(test_several_are_released_although_one_ends),
		counter_test(test_an_unknown_permit_keeps_all_although_one_is_gone),
		counter_test(test_several_stay_when_one_is_unknown),
		counter_test(test_bad_input),
		counter_test(test_each_has_the_lease_it_asked_for),
		counter_test(test_never_more_out_than_there_are),
		counter_test(test_the_number_is_said_for_good),
		counter_test(test_a_waiter_sets_a_lost_number),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
