/* Watches: what is told of a lock from outside, and what is not invented. */
#include <unistd.h>

#include "fixture.h"

#define LIMIT_MS 20000

static lk_watch *watch_of(lk_client *client, const char *name)
{
	lk_watch *watch = NULL;
	lk_watch_options options = LK_WATCH_OPTIONS_INIT;
	options.poll_ms = 50;
	expect(0, lk_watch_new(&watch, client, &options, &err));
	expect(0, lk_watch_add(watch, name, LK_STRLEN, &err));
	return watch;
}

static lk_change next_change(lk_watch *watch)
{
	lk_change change = LK_CHANGE_INIT;
	expect(1, lk_watch_next(watch, LIMIT_MS, NULL, &change, &err));
	return change;
}

static lk_change next_is(lk_watch *watch, int kind)
{
	lk_change change = next_change(watch);
	check_int(change.kind, ==, kind);
	return change;
}

static void nothing_comes(lk_watch *watch)
{
	lk_change change = LK_CHANGE_INIT;
	expect(0, lk_watch_next(watch, 100, NULL, &change, &err));
}

static void lock_takes(lk_lock *lock)
{
	expect(0, lk_lock_acquire(lock, -1, &(lk_acquire_options)LK_ACQUIRE_OPTIONS_INIT, &err));
}

static void test_a_lock_is_acquired_and_released(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	own_client *client = open_client(), *holder = open_client_with("client_record=full");
	own_watch *watch = watch_of(client, "job");
	own_lock *lock = new_lock(holder, "job");
	char field[LK_FIELD_SIZE];
	lk_change change = next_is(watch, LK_CHANGE_STATE);
	check(change.initial && change.told && !change.owner && !change.holder_count);
	check(!strcmp(change.name, "job"));
	options.note = "release 4711";
	for (int i = 0; i < 3; i++) {
		expect(0, lk_lock_acquire(lock, -1, &options, &err));
		expect(0, lk_lock_export(lock, NULL, field, sizeof(field), &err));
		change = next_is(watch, LK_CHANGE_ACQUIRED);
		check(!strcmp(change.owner, field) && !change.was && change.holder_count == 1);
		check(change.client && change.client->pid == getpid());
		check(!*change.client->note || !strcmp(change.client->note, options.note));
		check(!change.initial && change.at_ms > 0 && change.ttl_ms > 0);
		expect(0, lk_lock_release(lock, NULL, &err));
		change = next_is(watch, LK_CHANGE_RELEASED);
		check(!strcmp(change.was, field) && !change.owner && change.holder_count == 0);
		check(change.was_client && change.was_client->pid == getpid());
	}
	nothing_comes(watch);
}

static void test_each_end_is_told_as_what_it_was(void **state)
{
	own_client *client = open_client(), *holder = open_client();
	own_watch *watch = watch_of(client, "job");
	own_lock *lock = new_lock(holder, "job");
	next_is(watch, LK_CHANGE_STATE);
	stranger_takes("job", 300);
	next_is(watch, LK_CHANGE_ACQUIRED);
	next_is(watch, LK_CHANGE_EXPIRED);
	stranger_takes("job", 60000);
	next_is(watch, LK_CHANGE_ACQUIRED);
	redis_do(&server, "DEL job");
	next_is(watch, LK_CHANGE_UNKNOWN);
	stranger_takes("job", 60000);
	next_is(watch, LK_CHANGE_ACQUIRED);
	redis_do(&server, "FLUSHALL");
	next_is(watch, LK_CHANGE_LOST);
	stranger_takes("job", 60000);
	next_is(watch, LK_CHANGE_ACQUIRED);
	expect(1, lk_lock_force_release(lock, &err));
	next_is(watch, LK_CHANGE_BROKEN);
	stranger_takes("job", 60000);
	next_is(watch, LK_CHANGE_ACQUIRED);
	redis_do(&server, "DEL job");
	redis_do(&server, "RPUSH job data");
	lk_change change = next_change(watch);
	if (change.kind == LK_CHANGE_UNKNOWN) /* it was seen in between */
		nothing_comes(watch);
	else
		check_int(change.kind, ==, LK_CHANGE_BROKEN);
	redis_do(&server, "DEL job");
	nothing_comes(watch);
}

static void test_one_takes_it_from_another(void **state)
{
	own_client *client = open_client();
	own_watch *watch = watch_of(client, "job");
	next_is(watch, LK_CHANGE_STATE);
	redis_do(&server, "HSET job a:1 1");
	next_is(watch, LK_CHANGE_ACQUIRED);
	redis_do(&server, "EVAL %s 0",
		 "redis.call('DEL', 'job') redis.call('HSET', 'job', 'b:1', 1)");
	lk_change change = next_is(watch, LK_CHANGE_ACQUIRED);
	check(!strcmp(change.owner, "b:1") && !strcmp(change.was, "a:1"));
	check(!change.client && change.ttl_ms == -1);
	redis_do(&server, "DEL job");
	next_is(watch, LK_CHANGE_UNKNOWN);
}

static void test_it_does_not_look_like_a_waiter(void **state)
{
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_completion got = LK_COMPLETION_INIT;
	uint64_t id = 0;
	options.owner = "one";
	own_client *client = open_client(), *waiter = open_client();
	own_watch *watch = watch_of(client, "listened");
	own_lock *lock = new_lock(waiter, "listened");
	lk_queue *queue = NULL;
	next_is(watch, LK_CHANGE_STATE);
	stranger_takes("listened", 60000);
	next_is(watch, LK_CHANGE_ACQUIRED);
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	expect(0, lk_scan_show(scan, "listened", LK_STRLEN, &info, &err));
	check_int(info.waiting_clients, ==, 0);
	expect(0, lk_queue_new(&queue, 0, &err));
	expect(0,
	       lk_queue_start(queue,
			      request_of(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options),
			      &id, &err));
	wait_until(lk_scan_show(scan, "listened", LK_STRLEN, &info, &err) == 0 &&
			   info.waiting_clients == 1,
		   LIMIT_MS);
	expect(1, lk_queue_cancel(queue, id, &err));
	expect(1, lk_queue_take(queue, &got, 1, LIMIT_MS, &err));
	expect(0, lk_queue_free(queue, &err));
	stranger_releases("listened");
	next_is(watch, LK_CHANGE_RELEASED);
	lk_scan_free(scan);
}

static void test_readers_come_and_go(void **state)
{
	own_lock *read = NULL, *other = NULL, *write = NULL;
	own_client *client = open_client(), *one = open_client(), *two = open_client();
	own_watch *watch = watch_of(client, "job");
	next_is(watch, LK_CHANGE_STATE);
	expect(0, lk_read_lock_new(&read, one, "job", 3, NULL, &err));
	expect(0, lk_read_lock_new(&other, two, "job", 3, NULL, &err));
	expect(0, lk_write_lock_new(&write, two, "job", 3, NULL, &err));
	lock_takes(read);
	lk_change change = next_is(watch, LK_CHANGE_ACQUIRED);
	check(!strcmp(change.type, "read/write lock") && change.holder_count == 1);
	lock_takes(other);
	change = next_is(watch, LK_CHANGE_ACQUIRED);
	check(!change.was && change.holder_count == 2);
	expect(0, lk_lock_release(read, NULL, &err));
	change = next_change(watch);
	check(change.was && change.holder_count == 1);
	expect(0, lk_lock_release(other, NULL, &err));
	change = next_is(watch, LK_CHANGE_RELEASED);
	check_int(change.holder_count, ==, 0);
	lock_takes(write);
	next_is(watch, LK_CHANGE_ACQUIRED);
	expect(0, lk_lock_release(write, NULL, &err));
	next_is(watch, LK_CHANGE_RELEASED);
}

/* ---- breaks ---- */

static void cut(int which)
{
	redis_do(&server, "CLIENT KILL TYPE %s SKIPME yes", which ? "normal" : "pubsub");
}

/* Says what the changes say: 1 held by that owner, 0 free. */
struct seen {
	char owner[LK_FIELD_SIZE];
	int gaps, states, others, in_gap;
};

static void see(struct seen *seen, const lk_change *change)
{
	switch (change->kind) {
	case LK_CHANGE_GAP:
		seen->gaps++;
		seen->in_gap = 1;
		return;
	case LK_CHANGE_STATE: /* only as such */
		check(seen->in_gap || change->initial);
		seen->in_gap = 0;
		seen->states++;
		break;
	case LK_CHANGE_ACQUIRED:
		check(!seen->in_gap);
		check(change->owner && strcmp(change->owner, seen->owner) != 0);
		check(change->was ? !strcmp(change->was, seen->owner) : !*seen->owner);
		break;
	default:
		check(!seen->in_gap && !change->owner);
		check(change->was && !strcmp(change->was, seen->owner));
		check_int(change->kind, !=, LK_CHANGE_EXPIRED);
		check_int(change->kind, !=, LK_CHANGE_LOST);
		check_int(change->kind, !=, LK_CHANGE_BROKEN);
		seen->others++;
	}
	snprintf(seen->owner, sizeof(seen->owner), "%s", change->owner ? change->owner : "");
}

static void see_all(lk_watch *watch, struct seen *seen, int64_t wait_ms)
{
	lk_change change = LK_CHANGE_INIT;
	while (lk_watch_next(watch, wait_ms, NULL, &change, &err) == 1)
		see(seen, &change);
}

static void test_a_thousand_changes_with_cuts(void **state)
{
	own_client *client = open_client(), *holder = open_client();
	own_watch *watch = watch_of(client, "job");
	own_lock *lock = new_lock(holder, "job");
	struct seen seen = {.owner = ""};
	char field[LK_FIELD_SIZE] = "";
	int breaks = 0;
	lk_change first = next_is(watch, LK_CHANGE_STATE);
	see(&seen, &first);
	lock_takes(lock);
	for (int i = 0; i < 1000; i++) {
		if (i % 100 == 50) {
			int before = seen.gaps;
			cut(breaks++ % 2);
			while (seen.gaps == before || seen.in_gap) {
				lk_change change = next_change(watch);
				see(&seen, &change);
			}
		}
		expect(0, lk_lock_release(lock, NULL, &err));
		if (i % 7 == 0)
			see_all(watch, &seen, 1);
		lock_takes(lock);
		if (i % 3 == 0)
			see_all(watch, &seen, 1);
	}
	expect(0, lk_lock_export(lock, NULL, field, sizeof(field), &err));
	see_all(watch, &seen, 300);
	check(!strcmp(seen.owner, field));
	check_int(seen.gaps, ==, breaks);
	check_int(seen.states, ==, 1 + breaks);
	check_int(seen.others, >, 0);
	expect(0, lk_lock_release(lock, NULL, &err));
}

/* ---- many ---- */

#define MANY 1000

static void test_a_thousand_watches_of_one_lock(void **state)
{
	static lk_watch *watches[MANY];
	static const int kinds[] = {LK_CHANGE_STATE, LK_CHANGE_ACQUIRED, LK_CHANGE_RELEASED};
	own_client *client = open_client();
	for (int i = 0; i < MANY; i++)
		watches[i] = watch_of(client, "job");
	for (int step = 0; step < 3; step++) {
		if (step == 1)
			stranger_takes("job", 60000);
		else if (step == 2)
			stranger_releases("job");
		for (int i = 0; i < MANY; i++)
			check(next_is(watches[i], kinds[step]).told);
	}
	for (int i = 0; i < MANY; i++)
		lk_watch_free(watches[i]);
}

/* Each renewal of each is told to the watch, which does not tell it. */
static void test_renewals_of_a_thousand_locks_are_no_changes(void **state)
{
	static lk_lock *locks[MANY];
	lk_watch *watch = NULL;
	char name[16];
	lk_client *client = open_client(), *holder = open_client_with("watchdog_ms=1000");
	expect(0, lk_watch_new(&watch, client, NULL, &err));
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "job %d", i);
		locks[i] = new_lock(holder, name);
		lock_takes(locks[i]);
		expect(0, lk_watch_add(watch, name, LK_STRLEN, &err));
	}
	for (int i = 0; i < MANY; i++)
		check(next_is(watch, LK_CHANGE_STATE).owner != NULL);
	while (stats_of(holder).renewals < 3 * MANY)
		nothing_comes(watch);
	expect(0, lk_lock_release(locks[MANY / 2], NULL, &err));
	check(!strcmp(next_is(watch, LK_CHANGE_RELEASED).name, "job 500"));
	lk_watch_free(watch);
	for (int i = 0; i < MANY; i++)
		lk_lock_free(locks[i]);
	drop_client(holder);
	close_client(client);
}

/* ---- where nobody tells ---- */

static void test_without_tracking_it_is_asked(void **state)
{
	own_client *client = open_client_with("tracking=off");
	own_watch *watch = watch_of(client, "job");
	lk_change change = next_is(watch, LK_CHANGE_STATE);
	check(!change.told);
	stranger_takes("job", 60000);
	change = next_is(watch, LK_CHANGE_ACQUIRED);
	check(!change.told);
	stranger_releases("job");
	next_is(watch, LK_CHANGE_RELEASED);
	stranger_takes("job", 200);
	next_is(watch, LK_CHANGE_ACQUIRED);
	next_is(watch, LK_CHANGE_UNKNOWN);
}

/* ---- through a queue ---- */

static lk_completion completed(lk_queue *queue, lk_client *client)
{
	lk_completion completion = LK_COMPLETION_INIT;
	for (int i = 0; i < LIMIT_MS; i++) { /* the program drives it */
		expect(0, lk_client_process(client, &err));
		if (lk_queue_take(queue, &completion, 1, 1, &err) == 1)
			break;
	}
	check_int(completion.operation, ==, LK_OP_WATCH);
	return completion;
}

static void queue_starts(lk_queue *queue, lk_watch *watch, uint64_t *id_out)
{
	expect(0, lk_queue_start(queue, request_of(WATCH, .watch = watch), id_out, &err));
}

static void test_through_a_queue_without_threads(void **state)
{
	lk_config *config = NULL;
	lk_client *client = NULL;
	lk_queue *queue = NULL;
	lk_change change = LK_CHANGE_INIT;
	uint64_t id = 0;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", server.url_unix, &err));
	lk_config_set_threadless(config, NULL, NULL);
	expect(0, lk_client_new(&client, config, &err));
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_watch *watch = watch_of(client, "job");
	expect(LK_EBLOCKING, lk_watch_next(watch, 1, NULL, &change, &err));
	static const int kinds[] = {LK_CHANGE_STATE, LK_CHANGE_ACQUIRED, LK_CHANGE_RELEASED};
	for (int i = 0; i < 3; i++) {
		queue_starts(queue, watch, &id);
		expect(LK_EINVAL, lk_watch_next(watch, 0, NULL, &change, &err));
		if (i == 1)
			stranger_takes("job", 60000);
		else if (i == 2)
			stranger_releases("job");
		check_int(completed(queue, client).error.code, ==, 0);
		expect(1, lk_watch_next(watch, 0, NULL, &change, &err));
		check_int(change.kind, ==, kinds[i]);
		expect(0, lk_watch_next(watch, 0, NULL, &change, &err));
	}
	queue_starts(queue, watch, &id);
	expect(1, lk_queue_cancel(queue, id, &err));
	check_int(completed(queue, client).error.code, ==, LK_ECANCELLED);
	queue_starts(queue, watch, &id);
	lk_watch_free(watch);
	check_int(completed(queue, client).error.code, ==, LK_ECANCELLED);
	expect(0, lk_queue_free(queue, &err));
	lk_client_free(client);
	lk_config_free(config);
}

/* ---- arguments, cancelling ---- */

static void test_names_and_limits(void **state)
{
	own_watch *watch = NULL;
	lk_change change = LK_CHANGE_INIT;
	lk_watch_options options = LK_WATCH_OPTIONS_INIT;
	lk_cancel *cancel = NULL;
	lk_client *client = open_client();
	options.poll_ms = -1;
	expect(LK_EINVAL, lk_watch_new(&watch, client, &options, &err));
	expect(0, lk_watch_new(&watch, client, NULL, &err));
	expect(LK_EINVAL, lk_watch_add(watch, "", 0, &err));
	expect(0, lk_watch_add(watch, "a", 1, &err));
	expect(0, lk_watch_add(watch, "a", 1, &err));
	expect(0, lk_watch_add(watch, "b", 1, &err));
	expect(0, lk_watch_next(watch, 0, NULL, &change, &err)); /* it has not looked yet */
	expect(1, lk_watch_remove(watch, "a", 1, &err));
	expect(0, lk_watch_remove(watch, "a", 1, &err));
	change = next_is(watch, LK_CHANGE_STATE);
	check(!strcmp(change.name, "b"));
	nothing_comes(watch);
	expect(0, lk_cancel_new(&cancel, &err));
	lk_cancel_now(cancel);
	expect(LK_ECANCELLED, lk_watch_next(watch, LIMIT_MS, cancel, &change, &err));
	change.struct_size = 1;
	expect(LK_EINVAL, lk_watch_next(watch, 0, NULL, &change, &err));
	lk_cancel_free(cancel);
	close_client(client); /* first: the watch has what it needs of it */
	change.struct_size = sizeof(change);
	lk_watch_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_lock_is_acquired_and_released),
		api_test(test_each_end_is_told_as_what_it_was),
		api_test(test_one_takes_it_from_another),
		api_test(test_it_does_not_look_like_a_waiter),
		api_test(test_readers_come_and_go),
		api_test(test_a_thousand_changes_with_cuts),
		api_test(test_a_thousand_watches_of_one_lock),
		api_test(test_renewals_of_a_thousand_locks_are_no_changes),
		api_test(test_without_tracking_it_is_asked),
		api_test(test_through_a_queue_without_threads),
		api_test(test_names_and_limits),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
