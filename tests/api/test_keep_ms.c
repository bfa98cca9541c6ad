/* Releases that keep the lock from everybody for a time, of every kind. */
#include <unistd.h>

#include "queued.h"
#include "quorum.h"

#define LONG_MS INT64_C(600000)

static lk_release_options keep(int64_t keep_ms, const char *owner)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.keep_ms = keep_ms;
	options.owner = owner;
	return options;
}

static int release_kept(lk_lock *lock, int64_t keep_ms)
{
	lk_release_options options = keep(keep_ms, NULL);
	return lk_lock_release(lock, &options, &err);
}

/* Who is kept out by a hold of the kind: its own kind, but for readers. */
static lk_lock *new_rival(enum kind kind, lk_client *of)
{
	return new_kind(kind == KIND_READ ? KIND_WRITE : kind, of);
}

/* The field, or token, under which nobody has it. */
static bool kept_on(const struct server *where, const char *key)
{
	redisReply *type = redis_ask(where, "TYPE %s", key);
	bool string = !strcmp(type->str, "string"), found = false;
	redisReply *value = redis_ask(where, string ? "GET %s" : "HGETALL %s", key);
	freeReplyObject(type);
	if (value->type == REDIS_REPLY_STRING)
		found = strstr(value->str, ":kept:") != NULL;
	for (size_t i = 0; i < value->elements; i++)
		found |= strstr(value->element[i]->str, ":kept:") != NULL;
	freeReplyObject(value);
	return found;
}

static void expect_nobodys(lk_lock *lock, lk_lock *rival)
{
	expect(0, lk_lock_is_held(lock, NULL, &err));
	expect(0, lk_lock_hold_count(lock, NULL, &err));
	expect(1, is_locked(lock, &err));
	expect(LK_EBUSY, lk_lock_acquire(rival, 0, NULL, &err));
	check(kept_on(&server, "kind"));
}

/* Shorter than the lease. Then it is free, and no sooner. */
static void keep_briefly(enum kind kind)
{
	int64_t keep_ms = slow_ms(400);
	own_client *one = open_client();
	own_lock *lock = new_kind(kind, one), *rival = new_rival(kind, one);
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	int64_t began_ms = now_ms();
	expect(0, release_kept(lock, keep_ms));
	check_int(redis_integer(&server, "PTTL kind"), <=, keep_ms);
	expect(0, lk_lock_acquire(rival, slow_ms(20000), NULL, &err));
	check_int(now_ms() - began_ms, >=, keep_ms - 1);
	expect(0, lk_lock_release(rival, NULL, &err));
}

/* Longer than the lease, whose renewal has ended. */
static void keep_long(enum kind kind)
{
	lk_client *one = open_client_with("watchdog_ms=%lld", slow_ms(500)), *two = open_client();
	lk_lock *lock = new_kind(kind, one), *rival = new_rival(kind, one);
	lk_lock *stranger = new_rival(kind, two);
	lk_event event = LK_EVENT_INIT;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, release_kept(lock, LONG_MS));
	expect_nobodys(lock, rival);
	expect(LK_EBUSY, lk_lock_acquire(stranger, 0, NULL, &err));
	expect(LK_ENOTOWNER, lk_lock_release(lock, NULL, &err));
	check_int(redis_integer(&server, "PTTL kind"), >, LONG_MS - slow_ms(60000));
	check_int(lk_event_wait(one, &event, 0, NULL, &err), ==, 0);
	lk_lock_free(lock);
	lk_lock_free(rival);
	close_client(one); /* which does not free it */
	expect(LK_EBUSY, lk_lock_acquire(stranger, 0, NULL, &err));
	lk_lock_free(stranger);
	close_client(two);
	redis_do(&server, "FLUSHALL");
}

static void test_every_kind_is_kept(void **state)
{
	needs_a_thread();
	for (enum kind kind = 0; kind < KINDS; kind++) {
		keep_briefly(kind);
		keep_long(kind);
	}
}

static void test_only_the_last_release_keeps(void **state)
{
	needs_a_thread();
	own_client *one = open_client();
	own_lock *lock = new_kind(KIND_REENTRANT, one);
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, release_kept(lock, LONG_MS));
	expect(1, lk_lock_is_held(lock, NULL, &err));
	check(!kept_on(&server, "kind"));
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, is_locked(lock, &err));
}

static void wait_for_it(size_t index, void *argument)
{
	lk_lock *const *locks = argument;
	expect(0, lk_lock_acquire(locks[index], slow_ms(60000), NULL, &err));
	expect(0, lk_lock_release(locks[index], NULL, &err));
}

/* Whoever waits is not handed the lock, sees once until when it is kept, and then sleeps. */
static void waiters_sleep(enum kind kind)
{
	int64_t keep_ms = slow_ms(1500);
	own_client *one = open_client(), *two = open_client();
	lk_lock *lock = new_kind(kind, one);
	lk_lock *waiters[] = {new_rival(kind, one), new_rival(kind, two)};
	struct threads threads;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	threads_start(&threads, 2, wait_for_it, waiters);
	wait_until(stats_of(one).waiting == 1 && stats_of(two).waiting == 1, 5000);
	wait_until(stats_of(two).busy > 0, 5000);
	int64_t began_ms = now_ms();
	redis_do(&server, "CONFIG RESETSTAT");
	expect(0, release_kept(lock, keep_ms));
	while (now_ms() < began_ms + keep_ms - slow_ms(50)) {
		check(!thread_done(&threads, 0) && !thread_done(&threads, 1));
		sleep_ms(5);
	}
	/* The release, a try of each for the message, one at the end of the time that it then saw,
	 * and some that were due meanwhile. */
	check_int(redis_info(&server, "commandstats", "cmdstat_evalsha:calls="), <=, 9);
	threads_join(&threads, 30000);
	check_int(now_ms() - began_ms, >=, keep_ms - 1);
	lk_lock_free(lock);
	for (size_t i = 0; i < COUNT(waiters); i++)
		lk_lock_free(waiters[i]);
}

static void test_those_who_wait_sleep_until_then(void **state)
{
	needs_a_thread();
	static const enum kind told[] = {KIND_REENTRANT, KIND_FAIR, KIND_READ, KIND_WRITE,
					 KIND_FENCED};
	for (size_t i = 0; i < COUNT(told); i++)
		waiters_sleep(told[i]);
	redis_do(&server, "FLUSHALL"); /* the fence token */
}

/* Another reader goes on, and a reader that is kept does not end with it. */
static void test_one_of_several_readers(void **state)
{
	needs_a_thread();
	own_client *one = open_client(), *two = open_client();
	own_lock *first = new_kind(KIND_READ, one), *second = new_kind(KIND_READ, two);
	own_lock *writer = new_kind(KIND_WRITE, two);
	expect(0, lk_lock_acquire(first, -1, NULL, &err));
	expect(0, lk_lock_acquire(second, -1, NULL, &err));
	expect(0, release_kept(first, slow_ms(5000)));
	check_int(redis_integer(&server, "PTTL kind"), >, slow_ms(5000));
	expect(0, lk_lock_acquire(first, -1, NULL, &err)); /* beside what is kept */
	expect(0, lk_lock_release(first, NULL, &err));
	expect(0, lk_lock_release(second, NULL, &err));
	expect(LK_EBUSY, lk_lock_acquire(writer, 0, NULL, &err));
	check_int(redis_integer(&server, "PTTL kind"), <=, slow_ms(5000));
	expect(0, lk_lock_acquire(writer, slow_ms(20000), NULL, &err));
	expect(0, lk_lock_release(writer, NULL, &err));
}

static void test_what_is_refused(void **state)
{
	needs_a_thread();
	own_client *one = open_client();
	own_lock *lock = new_kind(KIND_REENTRANT, one);
	lk_release_options both = keep(1000, NULL);
	both.no_wait = 1;
	expect(LK_ENOTOWNER, release_kept(lock, LONG_MS));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(LK_EINVAL, release_kept(lock, -1));
	expect(LK_EINVAL, release_kept(lock, LK_LEASE_MAX_MS + 1));
	expect(LK_EINVAL, lk_lock_release(lock, &both, &err));
	expect(1, lk_lock_is_held(lock, NULL, &err));
	redis_do(&server, "DEL kind");
	expect(LK_ELOST, release_kept(lock, LONG_MS));
	check_int(redis_integer(&server, "EXISTS kind"), ==, 0);
}

/* A server that does not answer: the caller hears that nobody knows. */
static void test_unconfirmed(void **state)
{
	needs_a_thread();
	int64_t lease_ms = slow_ms(700);
	lk_client *one = open_client();
	lk_lock *lock = new_kind(KIND_REENTRANT, one);
	lk_acquire_options options = with_lease(lease_ms);
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	redis_do(&server, "CLIENT PAUSE %lld WRITE", (long long)(4 * lease_ms));
	expect(LK_EMAYBEHELD, release_kept(lock, LONG_MS));
	expect(0, lk_lock_hold_count(lock, NULL, &err));
	/* One that runs before the lease is over would keep it. */
	wait_until(redis_integer(&server, "EXISTS kind") == 0, 5000);
	redis_do(&server, "CLIENT UNPAUSE");
	lk_lock_free(lock);
	drop_client(one);
}

/* As long as it is kept, people see whose it was. */
static void test_the_record_stays(void **state)
{
	needs_a_thread();
	lk_client *one = open_client_with("client_record=full"), *two = open_client();
	lk_lock *lock = new_kind(KIND_REENTRANT, one);
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_owner_info owner = LK_OWNER_INFO_INIT;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, release_kept(lock, LONG_MS));
	lk_lock_free(lock);
	close_client(one);
	expect(0, lk_scan_new(&scan, two, NULL, &err));
	expect(0, lk_scan_show(scan, "kind", LK_STRLEN, &info, &err));
	check_int(info.holder_count, ==, 1);
	expect(1, lk_scan_owner(scan, info.holders[0].field, info.holders[0].field_size, &owner,
				&err));
	check_int(owner.pid, ==, getpid());
	lk_scan_free(scan);
	close_client(two);
	redis_do(&server, "FLUSHALL");
}

static uint64_t begin_keep(lk_lock *lock, const char *owner, int64_t keep_ms)
{
	lk_release_options options = keep(keep_ms, owner);
	uint64_t id = 0;
	expect(0, lk_queue_start(queue,
				 request_of(RELEASE, .lock = lock, .release = &options, .tag = 7),
				 &id, &err));
	return id;
}

static void test_asynchronous(void **state)
{
	open_queue();
	for (enum kind kind = 0; kind < KINDS; kind++) {
		lk_lock *lock = new_kind(kind, client), *rival = new_rival(kind, client);
		acquire(lock, "a");
		completed(begin_keep(lock, "a", slow_ms(300)), 0);
		check(kept_on(&server, "kind"));
		completed(begin_acquire(rival, "a", 0, 0), LK_EBUSY);
		acquire(rival, "b");
		check(!kept_on(&server, "kind"));
		release(rival, "b");
		lk_lock_free(lock);
		lk_lock_free(rival);
	}
	close_queue(0);
	redis_do(&server, "FLUSHALL"); /* the fence token */
}

/* ---- several ---- */

static void make_multi(lk_lock **lock_out, lk_client *of)
{
	lk_lock *parts[2];
	expect(0, lk_lock_new(&parts[0], of, "p0", LK_STRLEN, &err));
	expect(0, lk_lock_new(&parts[1], of, "p1", LK_STRLEN, &err));
	expect(0, lk_multi_lock_new(lock_out, parts, 2, &err));
	for (size_t i = 0; i < 2; i++)
		lk_lock_free(parts[i]);
}

static void test_all_parts_of_a_multi_lock(void **state)
{
	lk_lock *lock = NULL;
	open_queue();
	make_multi(&lock, client);
	acquire(lock, "a");
	completed(begin_keep(lock, "a", slow_ms(300)), 0);
	check(kept_on(&server, "p0") && kept_on(&server, "p1"));
	completed(begin_acquire(lock, "a", 0, 0), LK_EBUSY);
	acquire(lock, "b");
	release(lock, "b");
	lk_lock_free(lock);
	close_queue(0);
}

static void test_a_multi_lock_in_threads(void **state)
{
	needs_a_thread();
	lk_client *one = open_client();
	lk_lock *lock = NULL;
	make_multi(&lock, one);
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, release_kept(lock, slow_ms(300)));
	check(kept_on(&server, "p0") && kept_on(&server, "p1"));
	expect(LK_EBUSY, lk_lock_acquire(lock, 0, NULL, &err));
	expect(0, lk_lock_acquire(lock, slow_ms(20000), NULL, &err));
	redis_do(&server, "DEL p1");
	expect(LK_ELOST, release_kept(lock, slow_ms(300)));
	check(kept_on(&server, "p0"));
	lk_lock_free(lock);
	close_client(one);
	redis_do(&server, "FLUSHALL");
}

static size_t nodes_kept(void)
{
	size_t count = 0;
	for (size_t i = 0; i < MOST; i++)
		count += kept_on(&nodes[i], "q");
	return count;
}

static void keep_quorum(int plain)
{
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	struct quorum quorum;
	options.plain = plain;
	options.quarantine_ms = -1;
	open_quorum(&quorum, MOST, "", &options);
	expect(0, lk_lock_acquire(quorum.lock, -1, NULL, &err));
	wait_until(nodes_with("q") == MOST, 5000);
	expect(0, release_kept(quorum.lock, slow_ms(600)));
	wait_until(nodes_kept() == MOST || nodes_with("q") == 0, 5000);
	expect(LK_EBUSY, lk_lock_acquire(quorum.lock, 0, NULL, &err));
	expect(0, lk_lock_acquire(quorum.lock, slow_ms(20000), NULL, &err));
	check_int(nodes_kept(), ==, 0);
	/* One node has lost it: the majority counts. Two have: it was lost. */
	wait_until(nodes_with("q") == MOST, 5000);
	redis_do(&nodes[2], "DEL q");
	expect(0, release_kept(quorum.lock, slow_ms(600)));
	check_int(nodes_kept(), >=, 2);
	expect(0, lk_lock_acquire(quorum.lock, slow_ms(20000), NULL, &err));
	wait_until(nodes_with("q") == MOST, 5000);
	redis_do(&nodes[1], "DEL q");
	redis_do(&nodes[2], "DEL q");
	expect(LK_ELOST, release_kept(quorum.lock, slow_ms(300)));
	close_quorum(&quorum, MOST);
	for (size_t i = 0; i < MOST; i++)
		redis_do(&nodes[i], "FLUSHALL");
}

static void test_a_majority_of_nodes(void **state)
{
	needs_a_thread();
	keep_quorum(0);
	keep_quorum(1);
}

static int start_all(void **state)
{
	return start_server(state) || start_nodes(state);
}

static int stop_all(void **state)
{
	return stop_server(state) || stop_nodes(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_every_kind_is_kept),
		api_test(test_only_the_last_release_keeps),
		api_test(test_those_who_wait_sleep_until_then),
		api_test(test_one_of_several_readers),
		api_test(test_what_is_refused),
		api_test(test_unconfirmed),
		api_test(test_the_record_stays),
		api_test(test_asynchronous),
		api_test(test_all_parts_of_a_multi_lock),
		api_test(test_a_multi_lock_in_threads),
		quorum_test(test_a_majority_of_nodes),
	};
	return cmocka_run_group_tests(tests, start_all, stop_all);
}
