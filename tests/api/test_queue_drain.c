/* Draining a client: nothing new, what is held goes on, and what it says of that. */
#include "queued.h"

#define LATE 20000

static uint64_t begin_drain(int64_t wait_ms)
{
	uint64_t id = 0;
	expect(0, lk_queue_start(queue, request_of(DRAIN, .client = client, .wait_ms = wait_ms),
				 &id, &err));
	return id;
}

static int held_count(lk_client *of)
{
	return lk_client_held(of, NULL, 0, &err);
}

/* ---- waits ---- */

/* Each kind of wait that a queue can start is under way, ends, and cannot begin again. */
static void test_all_waits_end(void **state)
{
	open_queue();
	lk_lock *mine = new_lock(client, "held");
	lk_latch *latch = NULL;
	lk_barrier *barrier = NULL;
	lk_semaphore *semaphore = NULL;
	lk_permit_semaphore *permits = NULL;
	stranger_takes("held", 60000);
	expect(0, lk_latch_new(&latch, client, "shut", LK_STRLEN, NULL, &err));
	expect(0, lk_barrier_new(&barrier, client, "step", LK_STRLEN, 2, NULL, &err));
	expect(0, lk_semaphore_new(&semaphore, client, "none", LK_STRLEN, NULL, &err));
	expect(0, lk_permit_semaphore_new(&permits, client, "few", LK_STRLEN, NULL, &err));
	redis_do(&server, "SET shut 1");
	const lk_acquire_options options = {.struct_size = sizeof(options), .owner = "me"};
	const lk_request *waits[] = {
		request_of(ACQUIRE, .lock = mine, .wait_ms = -1, .acquire = &options),
		request_of(AWAIT, .latch = latch, .wait_ms = -1),
		request_of(AWAIT, .barrier = barrier, .wait_ms = -1),
		request_of(ACQUIRE, .semaphore = semaphore, .wait_ms = -1, .number = 1),
		request_of(ACQUIRE, .permit_semaphore = permits, .wait_ms = -1, .number = 1),
	};
	int count = sizeof(waits) / sizeof(waits[0]);
	for (int i = 0; i < count; i++)
		expect(0, lk_queue_start(queue, waits[i], NULL, &err));
	/* Each has tried, listened and tried again: no try is without its answer, which may be what
	 * such a wait ends with. */
	if (!program_drives())
		wait_until(stats_of(client).busy >= 2 * (uint64_t)count, LATE);
	uint64_t id = begin_drain(LATE);
	bool drained = false;
	for (int left = count + 1; left > 0; left--) {
		lk_completion completion = next_completion();
		drained |= completion.id == id && completion.error.code == 0;
		if (completion.id != id)
			check_int(completion.error.code, ==, LK_EDRAINING);
	}
	check(drained);
	for (int i = 0; i < count; i++) {
		expect(0, lk_queue_start(queue, waits[i], NULL, &err));
		check_int(next_completion().error.code, ==, LK_EDRAINING);
	}
	expect(LK_EDRAINING,
	       lk_queue_start(queue, request_of(DRAIN, .semaphore = semaphore), NULL, &err));
	check_int(redis_integer(&server, "EVAL %s 0",
				"for _, text in ipairs(redis.call('HVALS', 'step')) do "
				"if string.find(text, '^await ') then return 1 end end return 0"),
		  ==, 0);
	lk_lock_free(mine);
	lk_latch_free(latch);
	lk_barrier_free(barrier);
	lk_semaphore_free(semaphore);
	lk_permit_semaphore_free(permits);
	close_queue(0);
	redis_do(&server, "DEL held shut none few step");
}

/* ---- what is held ---- */

static void test_what_is_held_goes_on(void **state)
{
	open_queue_with("watchdog_ms=1000");
	lk_lock *lock = new_lock(client, "held"), *next = new_lock(client, "next");
	lk_held held[2] = {LK_HELD_INIT};
	acquire(lock, "me");
	check_int(held_count(client), ==, 1);
	uint64_t id = begin_drain(0);
	completed(id, LK_EHELD);
	check_int(lk_client_held(client, held, 2, &err), ==, 1);
	assert_string_equal(held[0].kind, "lock");
	assert_string_equal(held[0].name, "held");
	assert_string_equal(held[0].owner, "me");
	check(held[0].is_renewed && held[0].lease_ms == 1000 && held[0].name_size == 4);
	check(held[0].since_ns > 0 && held[0].deadline_ns > held[0].since_ns);
	check_int(redis_integer(&server, "HEXISTS held %s", held[0].field), ==, 1);
	/* Its owner re-enters, and it is renewed and extended. */
	acquire(lock, "me");
	release(lock, "me");
	id = begin_acquire(next, "me", 0, 0);
	completed(id, LK_EDRAINING);
	id = begin_extend(lock, "me", 4000);
	completed(id, 0);
	wait_until((program_drives() ? lk_client_process(client, NULL) : 0,
		    redis_integer(&server, "PTTL held") > 1000),
		   LATE);
	id = begin_drain(-1);
	release(lock, "me");
	completed(id, 0);
	check_int(held_count(client), ==, 0);
	check_int(redis_integer(&server, "EXISTS held next"), ==, 0);
	lk_lock_free(lock);
	lk_lock_free(next);
	close_queue(0);
}

/* The wait for it can be cancelled, and the drain goes on. */
static void test_the_wait_is_cancelled(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "held"), *next = new_lock(client, "next");
	acquire(lock, "me");
	uint64_t id = begin_drain(-1);
	check_int(lk_queue_cancel(queue, id, &err), ==, 1);
	completed(id, LK_ECANCELLED);
	id = begin_acquire(next, "me", -1, 0);
	completed(id, LK_EDRAINING);
	id = begin_drain(50);
	completed(id, LK_EHELD);
	release(lock, "me");
	lk_lock_free(lock);
	lk_lock_free(next);
	close_queue(0);
}

static void test_one_that_is_inside_leaves(void **state)
{
	open_queue();
	lk_barrier *barrier[2];
	uint64_t id = 0;
	for (int i = 0; i < 2; i++)
		expect(0, lk_barrier_new(&barrier[i], client, "step", LK_STRLEN, 2, NULL, &err));
	for (int i = 0; i < 2; i++)
		starts(ENTER, .barrier = barrier[i], .wait_ms = LATE);
	check_int(next_completion().error.code, ==, 0);
	check_int(next_completion().error.code, ==, 0);
	id = begin_drain(0);
	completed(id, LK_EHELD);
	check_int(held_count(client), ==, 2);
	for (int i = 0; i < 2; i++)
		starts(LEAVE, .barrier = barrier[i], .wait_ms = LATE);
	check_int(next_completion().error.code, ==, 0);
	check_int(next_completion().error.code, ==, 0);
	id = begin_drain(0);
	completed(id, 0);
	for (int i = 0; i < 2; i++)
		lk_barrier_free(barrier[i]);
	close_queue(0);
	redis_do(&server, "DEL lockkeeper_fence:{step}");
}

static void test_a_lock_that_is_kept_stays(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "kept");
	acquire(lock, "me");
	const lk_release_options keep = {
		.struct_size = sizeof(keep), .owner = "me", .keep_ms = 60000};
	starts(RELEASE, .lock = lock, .release = &keep);
	check_int(next_completion().error.code, ==, 0);
	uint64_t id = begin_drain(LATE);
	completed(id, 0);
	check(redis_integer(&server, "PTTL kept") > 30000);
	lk_lock_free(lock);
	close_queue(0);
	redis_do(&server, "DEL kept");
}

/* A grant whose answer has not come when the drain begins goes back. */
static void test_what_is_under_way_goes_back(void **state)
{
	open_queue_with("command_timeout_ms=600");
	lk_lock *lock = new_lock(client, "late"), *first = new_lock(client, "first");
	acquire(first, "me");
	release(first, "me");
	server_pause(&server);
	uint64_t acquired = begin_acquire(lock, "me", -1, 0);
	uint64_t id = begin_drain(LATE);
	server_resume(&server);
	lk_completion told[2] = {next_completion(), next_completion()};
	int of = told[1].id == acquired;
	check(told[of].error.code == LK_EMAYBEHELD || told[of].error.code == LK_EDRAINING);
	check(told[!of].id == id && told[!of].error.code == 0);
	check_int(redis_integer(&server, "EXISTS late"), ==, 0);
	lk_lock_free(lock);
	lk_lock_free(first);
	close_queue(0);
}

/* ---- blocking ---- */

static void wait_for_it(size_t index, void *argument)
{
	lk_error why = {0};
	check_int(lk_lock_acquire(argument, -1, NULL, &why), ==, LK_EDRAINING);
	check(strstr(why.message, "drained") != NULL);
}

static void test_a_blocking_drain(void **state)
{
	needs_a_thread();
	struct threads threads;
	lk_client *first = open_client(), *other = open_client();
	lk_lock *taken = new_lock(other, "taken"), *wanted = new_lock(first, "taken");
	lk_lock *own = new_lock(first, "own");
	lk_cancel *cancel = NULL;
	lk_held held = LK_HELD_INIT;
	expect(0, lk_cancel_new(&cancel, &err));
	expect(0, lk_lock_acquire(taken, 0, NULL, &err));
	expect(0, lk_lock_acquire(own, 0, NULL, &err));
	threads_start(&threads, 3, wait_for_it, wanted);
	wait_until(stats_of(first).waiting == 3, LATE);
	expect(LK_EHELD, lk_client_drain(first, 50, NULL, &err));
	threads_join(&threads, LATE);
	check_int(lk_client_held(first, &held, 1, &err), ==, 1);
	check(!*held.owner && strcmp(held.name, "own") == 0);
	expect(LK_EDRAINING, lk_lock_acquire(wanted, 0, NULL, &err));
	lk_cancel_now(cancel);
	expect(LK_ECANCELLED, lk_client_drain(first, -1, cancel, &err));
	expect(0, lk_lock_acquire(own, 0, NULL, &err));
	expect(0, lk_lock_release(own, NULL, &err));
	expect(0, lk_lock_release(own, NULL, &err));
	expect(0, lk_client_drain(first, 0, NULL, &err));
	lk_cancel_free(cancel);
	lk_lock_free(wanted);
	lk_lock_free(own);
	close_client(first);
	lk_lock_release(taken, NULL, NULL);
	lk_lock_free(taken);
	close_client(other);
}

/* ---- elections ---- */

static lk_election *new_candidate(lk_client *of, const char *name, int on_drain)
{
	lk_election *election = NULL;
	lk_election_options options = LK_ELECTION_OPTIONS_INIT;
	options.on_drain = on_drain;
	expect(0, lk_election_new(&election, of, name, LK_STRLEN, &options, &err));
	return election;
}

static void is_told(lk_client *of, int type)
{
	lk_event event = LK_EVENT_INIT;
	check_int(next_event(of, &event, LATE), ==, type);
	if (type == LK_EVENT_ASKED)
		assert_string_equal(event.reason, "the client is being drained");
}

static void test_leaders_hand_over(void **state)
{
	needs_a_thread();
	lk_client *first = open_client(), *other = open_client();
	lk_election *asks = new_candidate(first, "asks", LK_DRAIN_ASK);
	lk_election *resigns = new_candidate(first, "resigns", LK_DRAIN_RESIGN);
	lk_election *waits = new_candidate(first, "waits", LK_DRAIN_ASK);
	lk_election *next = new_candidate(other, "resigns", LK_DRAIN_ASK);
	lk_election *leads = new_candidate(other, "waits", LK_DRAIN_ASK);
	uint64_t term = 0;
	expect(0, lk_election_campaign(asks, 0, NULL, &term, &err));
	is_told(first, LK_EVENT_LEADING);
	expect(0, lk_election_campaign(resigns, 0, NULL, NULL, &err));
	is_told(first, LK_EVENT_LEADING);
	expect(0, lk_election_campaign(leads, 0, NULL, NULL, &err));
	expect(0, lk_election_join(waits, &err));
	expect(0, lk_election_join(next, &err));
	wait_until(lk_election_candidates(next, NULL, 0, &err) == 1 &&
			   lk_election_candidates(waits, NULL, 0, &err) == 1,
		   LATE);
	expect(LK_EHELD, lk_client_drain(first, 50, NULL, &err));
	wait_until(lk_election_is_leading(next, &err), LATE);
	check(lk_election_is_leading(asks, &err) == 1 && !lk_election_is_leading(resigns, &err));
	check_int(lk_election_candidates(leads, NULL, 0, &err), ==, 0);
	lk_held held = LK_HELD_INIT;
	check_int(lk_client_held(first, &held, 1, &err), ==, 1);
	assert_string_equal(held.kind, "election");
	check(held.fence == term);
	bool asked = false, resigned = false, left = false;
	for (int i = 0; i < 3; i++) {
		lk_event event = LK_EVENT_INIT;
		int type = next_event(first, &event, LATE);
		asked |= type == LK_EVENT_ASKED && strcmp(event.name, "asks") == 0 && !event.code;
		resigned |= type == LK_EVENT_NOT_LEADING && strcmp(event.name, "resigns") == 0;
		left |= type == LK_EVENT_NOT_LEADING && strcmp(event.name, "waits") == 0 &&
			event.code;
	}
	check(asked && resigned && left);
	expect(LK_EDRAINING, lk_election_join(waits, &err));
	expect(LK_EDRAINING, lk_election_campaign(waits, 0, NULL, NULL, &err));
	expect(0, lk_election_resign(asks, -1, &err));
	is_told(first, LK_EVENT_NOT_LEADING);
	expect(0, lk_client_drain(first, 0, NULL, &err));
	lk_election *all[] = {asks, resigns, waits, next, leads};
	for (int i = 0; i < 5; i++)
		lk_election_free(all[i]);
	drop_client(first);
	drop_client(other);
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"asks", "resigns", "waits"};
		redis_do(&server, "DEL lockkeeper_fence:{%s} lockkeeper_election:{%s}", names[i],
			 names[i]);
	}
}

/* Who hears requests for a lock is told, too. */
static void test_a_holder_is_asked(void **state)
{
	needs_a_thread();
	own_client *first = open_client();
	own_lock *lock = new_lock(first, "own");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.hears_asks = 1;
	expect(0, lk_lock_acquire(lock, 0, &options, &err));
	expect(LK_EHELD, lk_client_drain(first, 0, NULL, &err));
	is_told(first, LK_EVENT_ASKED);
	expect(0, lk_lock_release(lock, NULL, &err));
}

/* Of a multi lock that is held all parts are re-entered; of another none is taken. */
static void test_a_multi_lock(void **state)
{
	needs_a_thread();
	own_client *first = open_client();
	lk_lock *part[3] = {new_lock(first, "a"), new_lock(first, "b"), new_lock(first, "c")};
	lk_lock *held = NULL, *more = NULL;
	expect(0, lk_multi_lock_new(&held, part, 2, &err));
	expect(0, lk_multi_lock_new(&more, part + 1, 2, &err));
	expect(0, lk_lock_acquire(held, 0, NULL, &err));
	expect(LK_EHELD, lk_client_drain(first, 0, NULL, &err));
	check_int(held_count(first), ==, 2);
	expect(0, lk_lock_acquire(held, 0, NULL, &err));
	expect(0, lk_lock_release(held, NULL, &err));
	expect(LK_EDRAINING, lk_lock_acquire(more, 0, NULL, &err));
	expect(LK_EDRAINING, lk_lock_acquire(more, LATE, NULL, &err));
	check_int(held_count(first), ==, 2);
	expect(0, lk_lock_release(held, NULL, &err));
	expect(0, lk_client_drain(first, 0, NULL, &err));
	lk_lock_free(held);
	lk_lock_free(more);
	for (int i = 0; i < 3; i++)
		lk_lock_free(part[i]);
}

static void test_arguments(void **state)
{
	lk_held held = {.struct_size = 1};
	open_queue();
	expect(LK_EINVAL, lk_client_drain(NULL, 0, NULL, &err));
	expect(LK_EINVAL, lk_client_drain(client, -2, NULL, &err));
	expect(LK_EINVAL, lk_client_held(NULL, NULL, 0, &err));
	expect(LK_EINVAL, lk_client_held(client, NULL, 1, &err));
	expect(LK_EINVAL, lk_client_held(client, &held, 1, &err));
	refuses(DRAIN, .client = client, .wait_ms = -2);
	if (program_drives())
		expect(LK_EBLOCKING, lk_client_drain(client, 0, NULL, &err));
	close_queue(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_all_waits_end),
		api_test(test_what_is_held_goes_on),
		api_test(test_the_wait_is_cancelled),
		api_test(test_one_that_is_inside_leaves),
		api_test(test_a_lock_that_is_kept_stays),
		api_test(test_what_is_under_way_goes_back),
		api_test(test_a_blocking_drain),
		api_test(test_leaders_hand_over),
		api_test(test_a_holder_is_asked),
		api_test(test_a_multi_lock),
		api_test(test_arguments),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
