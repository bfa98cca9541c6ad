/*
 * Asynchronous calls to a server that has fallen silent: they end when blocking calls do, with the
 * lease, and before the close of their client is told.
 */
#include "queued.h"

#define LEASE_MS 400
#define WAIT_MS 1500     /* for a lock whose lease ends */
#define LATE_MS 3000     /* behind a limit, and still in time */
#define PATIENT_MS 15000 /* a command limit that nobody waits for */
#define NS_IN_MS INT64_C(1000000)

static int check_both(void **state)
{
	server_resume(&other_server);
	wait_until(redis_integer(&other_server, "DBSIZE") == 0, 20000);
	return check_nothing_left(state);
}

/* One for each way to release and to renew. */
static const enum kind some_kinds[] = {KIND_REENTRANT, KIND_FAIR, KIND_READ, KIND_PLAIN};

#define silence_test(name) cmocka_unit_test_teardown(name, check_both)

/* ---- the lease ends ---- */

/* Until when it is held. */
static int64_t take_leased(lk_lock *lock, const char *owner)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	uint64_t id = 0;
	options.owner = owner;
	options.lease_ms = slow_ms(LEASE_MS);
	expect(0,
	       lk_queue_start(queue,
			      request_of(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options),
			      &id, &err));
	return completed(id, 0).deadline_ns;
}

static void check_ended_at(int64_t deadline_ns)
{
	check_int(now_ns(), >=, deadline_ns);
	check_int((now_ns() - deadline_ns) / NS_IN_MS, <, slow_ms(LATE_MS));
}

/* Nobody knows what became of it, and says so when the lease is over. */
static void ends_with_its_lease(uint64_t id, int64_t deadline_ns)
{
	completed(id, LK_EMAYBEHELD);
	check_ended_at(deadline_ns);
}

static void test_a_release_ends_with_its_lease(void **state)
{
	open_queue_with(command_limit(PATIENT_MS));
	for (size_t i = 0; i < COUNT(some_kinds); i++) {
		lk_lock *lock = new_kind(some_kinds[i], client);
		int64_t deadline_ns = take_leased(lock, "task");
		server_pause(&server);
		ends_with_its_lease(begin_release(lock, "task"), deadline_ns);
		server_resume(&server);
		acquire(lock, "task");
		release(lock, "task");
		lk_lock_free(lock);
	}
	close_queue(0);
}

/* Who waits in this client is not kept back any longer: its try is sent, and may be granted. */
static void test_the_next_waiter_goes_on_with_the_end_of_the_lease(void **state)
{
	open_queue_with(command_limit(PATIENT_MS));
	lk_lock *lock = new_lock(client, "next");
	int64_t deadline_ns = take_leased(lock, "task");
	server_pause(&server);
	uint64_t next = begin_acquire(lock, "next", slow_ms(WAIT_MS), 0);
	wait_until(stats_of(client).waiting == 1, 5000);
	ends_with_its_lease(begin_release(lock, "task"), deadline_ns);
	completed(next, LK_EMAYBEHELD);
	server_resume(&server);
	acquire(lock, "task");
	release(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

static void test_an_extension_ends_with_its_lease(void **state)
{
	open_queue_with(command_limit(PATIENT_MS));
	for (size_t i = 0; i < COUNT(some_kinds); i++) {
		lk_lock *lock = new_kind(some_kinds[i], client);
		int64_t deadline_ns = take_leased(lock, "task");
		server_pause(&server);
		ends_with_its_lease(begin_extend(lock, "task", slow_ms(60000)), deadline_ns);
		check_int(lk_lock_is_held(lock, "task", &err), ==, 0);
		server_resume(&server);
		completed(begin_release(lock, "task"), LK_ELOST);
		acquire(lock, "task");
		release(lock, "task");
		lk_lock_free(lock);
	}
	close_queue(0);
}

/* A permit of ours goes the way of every lock. */
static void test_a_permit_ends_with_its_lease(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit_semaphore *slots = NULL;
	uint64_t id = 0;
	open_queue_with(command_limit(PATIENT_MS));
	expect(0, lk_permit_semaphore_new(&slots, client, "slots", LK_STRLEN, NULL, &err));
	redis_do(&server, "SET slots 2");
	options.lease_ms = slow_ms(LEASE_MS);
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .permit_semaphore = slots, .wait_ms = -1,
					    .number = 1, .acquire = &options),
				 &id, &err));
	lk_completion got = completed(id, 0);
	server_pause(&server);
	expect(0, lk_queue_start(queue,
				 request_of(RELEASE, .permit_semaphore = slots,
					    .permits = (const lk_permit *)got.field, .number = 1),
				 &id, &err));
	ends_with_its_lease(id, got.deadline_ns);
	server_resume(&server);
	lk_permit_semaphore_free(slots);
	close_queue(0);
	redis_do(&server, "DEL slots {slots}:timeout");
}

/* Its try is sent, and may be granted. */
static void wait_for_it(size_t index, void *argument)
{
	expect(LK_EMAYBEHELD, lk_lock_acquire(argument, slow_ms(WAIT_MS), NULL, &err));
}

static void test_a_release_that_nobody_waits_for_keeps_nobody_back(void **state)
{
	struct threads threads;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options give = LK_RELEASE_OPTIONS_INIT;
	needs_a_thread();
	open_queue_with(command_limit(PATIENT_MS));
	lk_lock *lock = new_lock(client, "sent off");
	options.lease_ms = slow_ms(LEASE_MS);
	give.no_wait = 1;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	threads_start(&threads, 1, wait_for_it, lock);
	wait_until(stats_of(client).waiting == 1, 5000);
	server_pause(&server);
	expect(0, lk_lock_release(lock, &give, &err));
	threads_join(&threads, 20000);
	server_resume(&server);
	acquire(lock, "task");
	release(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

/* ---- a client is closed ---- */

/* What a close that has ended leaves to be taken: so many completions with that code. */
static void are_told(size_t count, int code)
{
	lk_completion got[8] = {LK_COMPLETION_INIT};
	check_int(lk_queue_take(queue, got, COUNT(got), 0, &err), ==, (long long)count);
	for (size_t i = 0; i < count; i++)
		check_int(got[i].error.code, ==, code);
}

static void close_at_last(lk_client *closed)
{
	wait_until(program_close(closed, LK_CLOSE_RELEASE, &err) == 0, 20000);
}

/* The server gets what was asked for, and says nothing: it is silent from then on. */
static void open_silent(lk_lock *locks[3], const char *const names[3])
{
	open_queue_with(command_limit(300));
	for (size_t i = 0; i < 3; i++) {
		locks[i] = new_lock(client, names[i]);
		acquire(locks[i], "task");
	}
	server_pause(&server);
}

static void free_all(lk_lock *locks[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		lk_lock_free(locks[i]);
}

static void test_releases_and_extensions_are_told_before_the_close(void **state)
{
	static const char *const names[] = {"given", "extended", "held"};
	lk_lock *locks[3];
	open_silent(locks, names);
	uint64_t sent = stats_of(client).commands;
	begin_release(locks[0], "task");
	begin_extend(locks[1], "task", 60000);
	wait_until(stats_of(client).commands >= sent + 2, 5000);
	expect(LK_EMAYBEHELD, program_close(client, LK_CLOSE_RELEASE, &err));
	are_told(2, LK_EMAYBEHELD);
	server_resume(&server);
	close_at_last(client);
	check_int(redis_integer(&server, "DBSIZE"), ==, 0);
	free_all(locks, 3);
	close_queue(0);
}

/* In one queue, where the close comes last. */
static void test_the_close_comes_last_in_its_queue(void **state)
{
	static const char *const names[] = {"given", "extended", "held"};
	static const int how[] = {LK_CLOSE_RELEASE, LK_CLOSE_ABANDON};
	lk_lock *locks[3];
	if (!program_drives())
		check_skip("it takes a client that the program drives");
	for (size_t i = 0; i < COUNT(how); i++) {
		open_silent(locks, names);
		begin_release(locks[0], "task");
		begin_extend(locks[1], "task", 60000);
		begin_acquire(locks[2], "next", -1, 0);
		starts(CLOSE, .client = client, .how = how[i]);
		for (int told = 0; told < 3; told++)
			check_int(next_completion().operation, !=, LK_OP_CLOSE);
		lk_completion last = next_completion();
		check_int(last.operation, ==, LK_OP_CLOSE);
		check_int(last.error.code, ==, LK_EMAYBEHELD);
		server_resume(&server);
		close_at_last(client);
		free_all(locks, 3);
		close_queue(0);
		redis_do(&server, "DEL given extended held");
	}
}

/* Changes of counts: each has its command limit, and starts with the close. */
static void test_changes_are_told_before_the_close(void **state)
{
	lk_semaphore *pool = NULL;
	open_queue_with(command_limit(300));
	redis_do(&server, "SET pool 3");
	expect(0, lk_semaphore_new(&pool, client, "pool", LK_STRLEN, NULL, &err));
	lk_lock *lock = new_lock(client, "connects");
	acquire(lock, "task");
	release(lock, "task");
	server_pause(&server);
	for (int i = 0; i < 4; i++)
		starts(RELEASE, .semaphore = pool, .number = 1);
	program_close(client, LK_CLOSE_RELEASE, &err);
	are_told(4, LK_EMAYBEHELD);
	server_resume(&server);
	close_at_last(client);
	lk_lock_free(lock);
	lk_semaphore_free(pool);
	close_queue(0);
	redis_do(&server, "FLUSHALL");
}

/* ---- the same of a multi lock: two parts on one server, and one on the other ---- */

static void close_set(struct multi_set *set)
{
	lk_completion left = LK_COMPLETION_INIT;
	lk_lock_free(set->all);
	free_all(set->part, MULTI_PARTS);
	for (size_t i = 0; i < 2; i++) {
		close_at_last(set->client[i]);
		program_free(set->client[i]);
	}
	expect(0, lk_queue_take(queue, &left, 1, 0, &err));
	expect(0, lk_queue_free(queue, &err));
}

static void test_a_multi_lock_ends_with_its_lease(void **state)
{
	struct multi_set set;
	open_multi_set(&set, command_limit(PATIENT_MS));
	for (int silent = 0; silent < 2; silent++) {
		struct server *paused = silent ? &other_server : &server;
		for (int extends = 0; extends < 2; extends++) {
			int64_t deadline_ns = take_leased(set.all, "task");
			server_pause(paused);
			if (extends)
				ends_with_its_lease(begin_extend(set.all, "task", 60000),
						    deadline_ns);
			else
				ends_with_its_lease(begin_release(set.all, "task"), deadline_ns);
			server_resume(paused);
			if (!extends)
				continue;
			/* The extension ended with the part that ends first: others last longer. */
			wait_until(lk_lock_is_held(set.all, "task", &err) == 0, WAIT_MS);
			completed(begin_release(set.all, "task"), LK_ELOST);
		}
	}
	close_set(&set);
}

/* The extension is told when the first part would have ended. A silent part that lasts longer is
 * still held then, and so the release of all of them is one of what was held. */
static void test_a_part_of_a_multi_lock_may_outlast_its_extension(void **state)
{
	struct multi_set set;
	lk_acquire_options longer = LK_ACQUIRE_OPTIONS_INIT;
	uint64_t id = 0;
	longer.owner = "task";
	longer.lease_ms = slow_ms(20000);
	open_multi_set(&set, command_limit(PATIENT_MS));
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .lock = set.part[2], .wait_ms = -1,
					    .acquire = &longer),
				 &id, &err));
	completed(id, 0);
	int64_t deadline_ns = take_leased(set.all, "task");
	server_pause(&other_server);
	ends_with_its_lease(begin_extend(set.all, "task", 60000), deadline_ns);
	server_resume(&other_server);
	completed(begin_release(set.all, "task"), 0);
	completed(begin_release(set.part[2], "task"), 0);
	close_set(&set);
}

/* Whose loop drives the call, whose server is silent, and who is closed: it is told first. */
static void close_with_a_multi_lock(int silent, int closed, bool extends)
{
	struct multi_set set;
	struct server *paused = silent ? &other_server : &server;
	open_multi_set(&set, command_limit(300));
	acquire(set.all, "task");
	uint64_t sent = stats_of(set.client[silent]).commands;
	server_pause(paused);
	if (extends)
		begin_extend(set.all, "task", 60000);
	else
		begin_release(set.all, "task");
	wait_until(stats_of(set.client[silent]).commands > sent, 5000);
	/* One that released would end what is extended, which is then lost. */
	program_close(set.client[closed], extends ? LK_CLOSE_ABANDON : LK_CLOSE_RELEASE, NULL);
	are_told(1, LK_EMAYBEHELD);
	server_resume(paused);
	close_set(&set);
	redis_do(&server, "DEL a b");
	redis_do(&other_server, "DEL c");
}

static void test_a_multi_lock_is_told_before_the_close(void **state)
{
	for (int variant = 0; variant < 8; variant++)
		close_with_a_multi_lock(variant & 1, variant >> 1 & 1, variant >> 2 & 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		silence_test(test_a_release_ends_with_its_lease),
		silence_test(test_the_next_waiter_goes_on_with_the_end_of_the_lease),
		silence_test(test_an_extension_ends_with_its_lease),
		silence_test(test_a_permit_ends_with_its_lease),
		silence_test(test_a_release_that_nobody_waits_for_keeps_nobody_back),
		silence_test(test_releases_and_extensions_are_told_before_the_close),
		silence_test(test_the_close_comes_last_in_its_queue),
		silence_test(test_changes_are_told_before_the_close),
		silence_test(test_a_multi_lock_ends_with_its_lease),
		silence_test(test_a_part_of_a_multi_lock_may_outlast_its_extension),
		silence_test(test_a_multi_lock_is_told_before_the_close),
	};
	return cmocka_run_group_tests(tests, start_both, stop_both);
}
