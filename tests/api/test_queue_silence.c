/*
 * Asynchronous calls to a server that has fallen silent: they end when blocking calls do, with the
 * lease.
 */
#include "queued.h"

#define FEW 3
#define LEASE_MS 400
#define WAIT_MS 1500     /* for a lock whose lease ends */
#define LATE_MS 3000     /* behind a limit, and still in time */
#define PATIENT_MS 15000 /* a command limit that nobody waits for */
#define NS_IN_MS INT64_C(1000000)

static struct server other;

static int start_both(void **state)
{
	server_start(&other, NULL);
	return start_server(state);
}

static int stop_both(void **state)
{
	server_stop(&other);
	return stop_server(state);
}

static int check_both(void **state)
{
	server_resume(&other);
	wait_until(redis_integer(&other, "DBSIZE") == 0, 20000);
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
	expect(0, lk_queue_acquire(queue, lock, -1, &options, &id, &err));
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
	(void)state;
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
	(void)state;
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
	(void)state;
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
	(void)state;
	open_queue_with(command_limit(PATIENT_MS));
	expect(0, lk_permit_semaphore_new(&slots, client, "slots", LK_STRLEN, NULL, &err));
	redis_do(&server, "SET slots 2");
	options.lease_ms = slow_ms(LEASE_MS);
	expect(0, lk_queue_permit_acquire(queue, slots, -1, &options, &id, &err));
	lk_completion got = completed(id, 0);
	server_pause(&server);
	expect(0, lk_queue_permit_release(queue, slots, got.field, 0, &id, &err));
	ends_with_its_lease(id, got.deadline_ns);
	server_resume(&server);
	lk_permit_semaphore_free(slots);
	close_queue(0);
	redis_do(&server, "DEL slots {slots}:timeout");
}

/* Its try is sent, and may be granted. */
static void wait_for_it(size_t index, void *argument)
{
	(void)index;
	expect(LK_EMAYBEHELD, lk_lock_acquire_within(argument, slow_ms(WAIT_MS), NULL, &err));
}

static void test_a_release_that_nobody_waits_for_keeps_nobody_back(void **state)
{
	struct threads threads;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options give = LK_RELEASE_OPTIONS_INIT;
	(void)state;
	needs_a_thread();
	open_queue_with(command_limit(PATIENT_MS));
	lk_lock *lock = new_lock(client, "sent off");
	options.lease_ms = slow_ms(LEASE_MS);
	give.no_wait = 1;
	expect(0, lk_lock_acquire(lock, &options, &err));
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

/* ---- the same of a multi lock: two parts on one server, and one on the other ---- */

static void close_at_last(lk_client *closed)
{
	wait_until(program_close(closed, LK_CLOSE_RELEASE, &err) == 0, 20000);
}

static void free_all(lk_lock *locks[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		lk_lock_free(locks[i]);
}

struct set {
	lk_client *client[2];
	lk_lock *part[FEW], *all;
};

static void open_set(struct set *set, const char *config)
{
	static const char *const names[] = {"a", "b", "c"};
	set->client[0] = open_driven_at(server.url_unix, config);
	set->client[1] = open_driven_at(other.url_unix, config);
	for (size_t i = 0; i < FEW; i++)
		set->part[i] = new_lock(set->client[i == 2], names[i]);
	expect(0, lk_multi_lock_new(&set->all, set->part, FEW, &err));
	expect(0, lk_queue_new(&queue, 0, &err));
}

static void close_set(struct set *set)
{
	lk_completion left;
	lk_lock_free(set->all);
	free_all(set->part, FEW);
	for (size_t i = 0; i < 2; i++) {
		close_at_last(set->client[i]);
		program_free(set->client[i]);
	}
	expect(0, lk_queue_take(queue, &left, 1, 0, &err));
	expect(0, lk_queue_free(queue, &err));
}

static void test_a_multi_lock_ends_with_its_lease(void **state)
{
	struct set set;
	(void)state;
	open_set(&set, command_limit(PATIENT_MS));
	for (int silent = 0; silent < 2; silent++) {
		struct server *paused = silent ? &other : &server;
		for (int extends = 0; extends < 2; extends++) {
			int64_t deadline_ns = take_leased(set.all, "task");
			server_pause(paused);
			if (extends)
				ends_with_its_lease(begin_extend(set.all, "task", 60000),
						    deadline_ns);
			else
				ends_with_its_lease(begin_release(set.all, "task"), deadline_ns);
			server_resume(paused);
			if (extends)
				completed(begin_release(set.all, "task"), LK_ELOST);
		}
	}
	close_set(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		silence_test(test_a_release_ends_with_its_lease),
		silence_test(test_the_next_waiter_goes_on_with_the_end_of_the_lease),
		silence_test(test_an_extension_ends_with_its_lease),
		silence_test(test_a_permit_ends_with_its_lease),
		silence_test(test_a_release_that_nobody_waits_for_keeps_nobody_back),
		silence_test(test_a_multi_lock_ends_with_its_lease),
	};
	return cmocka_run_group_tests(tests, start_both, stop_both);
}
