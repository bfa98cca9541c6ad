/* The barrier: who gets through, with which generation, and what those are told who do not. */
#include "queued.h"

#define PARTIES 3
#define ROUNDS 30

static lk_barrier *new_party(lk_client *of, int64_t parties)
{
	lk_barrier *barrier = NULL;
	expect(0, lk_barrier_new(&barrier, of, "step", LK_STRLEN, parties, NULL, &err));
	return barrier;
}

/* How many stand in that state, as the server has it. */
static long long standing(const char *state)
{
	return redis_integer(
		&server, "EVAL %s 0 %s",
		"local count = 0 "
		"for _, text in ipairs(redis.call('HVALS', 'step')) do "
		"if string.find(text, '^' .. ARGV[1] .. ' ') then count = count + 1 end "
		"end return count",
		state);
}

static void forget(void)
{
	redis_do(&server, "DEL step lockkeeper_fence:{step}");
}

/* ---- blocking calls ---- */

static _Atomic int come[ROUNDS];
static uint64_t generations[PARTIES][ROUNDS];
static lk_barrier *party[PARTIES];

static void meet_often(size_t index, void *argument)
{
	for (int round = 0; round < ROUNDS; round++) {
		lk_error why = {0};
		atomic_fetch_add(&come[round], 1);
		int rc = lk_barrier_await(party[index], -1, NULL, &generations[index][round], &why);
		check_int(rc, ==, 0);
		check_int(atomic_load(&come[round]), ==, PARTIES);
	}
}

static void test_nobody_gets_through_before_all_have_come(void **state)
{
	needs_a_thread();
	struct threads threads;
	lk_client *first = open_client(), *second = open_client();
	for (int i = 0; i < PARTIES; i++)
		party[i] = new_party(i ? second : first, PARTIES);
	threads_start(&threads, PARTIES, meet_often, NULL);
	threads_join(&threads, 20000);
	for (int round = 0; round < ROUNDS; round++) {
		check(generations[0][round] > (round ? generations[0][round - 1] : 0));
		for (int i = 1; i < PARTIES; i++)
			check(generations[i][round] == generations[0][round]);
	}
	/* What each was told needs no record any more. */
	wait_until(redis_integer(&server, "EXISTS step") == 0, 5000);
	for (int i = 0; i < PARTIES; i++)
		lk_barrier_free(party[i]);
	close_client(first);
	close_client(second);
	forget();
}

static void test_a_limit_leaves_nobody(void **state)
{
	needs_a_thread();
	lk_client *first = open_client();
	lk_cancel *cancel = NULL;
	lk_barrier *alone = new_party(first, 2), *other = new_party(first, 3);
	uint64_t generation = 7;
	expect(0, lk_cancel_new(&cancel, &err));
	expect(LK_EBUSY, lk_barrier_await(alone, 0, NULL, &generation, &err));
	check_int(redis_integer(&server, "EXISTS step"), ==, 0);
	expect(LK_ETIMEDOUT, lk_barrier_await(alone, 50, NULL, &generation, &err));
	lk_cancel_now(cancel);
	expect(LK_ECANCELLED, lk_barrier_await(alone, -1, cancel, &generation, &err));
	check(generation == 7);
	check_int(standing("await"), ==, 0);
	expect(LK_ENOTOWNER, lk_barrier_leave(alone, 0, NULL, &err));
	redis_do(&server, "HSET step parties 2 x:1 %s", "await 9999999999999 1 1 1");
	expect(LK_EINVAL, lk_barrier_await(other, 50, NULL, &generation, &err));
	redis_do(&server, "DEL step");
	redis_do(&server, "SET step 1");
	expect(LK_EWRONGTYPE, lk_barrier_await(alone, 50, NULL, &generation, &err));
	check(lk_barrier_free(alone) == NULL && lk_barrier_free(other) == NULL);
	check(lk_barrier_free(NULL) == NULL);
	lk_cancel_free(cancel);
	close_client(first);
	forget();
}

/* ---- started calls ---- */

static uint64_t begins(int operation, lk_barrier *barrier, int64_t wait_ms)
{
	lk_request request = LK_REQUEST_INIT;
	uint64_t id = 0;
	request.operation = operation;
	request.barrier = barrier;
	request.wait_ms = wait_ms;
	request.tag = 7;
	expect(0, lk_queue_start(queue, &request, &id, &err));
	return id;
}

/* The next `count` completions, in any order, each good: what they all answer. */
static int64_t all_completed(int count)
{
	int64_t answer = 0;
	for (int i = 0; i < count; i++) {
		lk_completion completion = next_completion();
		check_int(completion.error.code, ==, 0);
		check(i == 0 || completion.answer == answer);
		answer = completion.answer;
	}
	return answer;
}

static void test_all_are_started_through_one_queue(void **state)
{
	open_queue();
	lk_barrier *of[PARTIES];
	int64_t last = 0;
	for (int i = 0; i < PARTIES; i++)
		of[i] = new_party(client, PARTIES);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < PARTIES; i++)
			begins(LK_OP_AWAIT, of[i], 20000);
		int64_t answer = all_completed(PARTIES);
		check(answer > last);
		last = answer;
	}
	uint64_t id = begins(LK_OP_AWAIT, of[0], -1);
	refuses(AWAIT, .barrier = of[0], .wait_ms = -1);
	wait_until(standing("await") == 1 || program_drives(), 5000);
	check_int(lk_queue_cancel(queue, id, &err), ==, 1);
	completed(id, LK_ECANCELLED);
	id = begins(LK_OP_AWAIT, of[0], 50);
	completed(id, LK_ETIMEDOUT);
	check_int(standing("await"), ==, 0);
	for (int i = 0; i < PARTIES; i++)
		lk_barrier_free(of[i]);
	close_queue(0);
	forget();
}

static void test_all_enter_and_all_leave(void **state)
{
	open_queue();
	lk_barrier *of[2] = {new_party(client, 2), new_party(client, 2)};
	int64_t last = 0;
	for (int round = 0; round < 3; round++) {
		begins(LK_OP_ENTER, of[0], 20000);
		begins(LK_OP_ENTER, of[1], 20000);
		int64_t answer = all_completed(2);
		check(answer > last);
		last = answer;
		check_int(standing("inside"), ==, 2);
		uint64_t id = begins(LK_OP_ENTER, of[0], 20000);
		completed(id, LK_EINVAL);
		id = begins(LK_OP_LEAVE, of[0], 50);
		completed(id, LK_ETIMEDOUT);
		check_int(standing("inside"), ==, 1);
		begins(LK_OP_LEAVE, of[0], 20000);
		begins(LK_OP_LEAVE, of[1], 20000);
		check(all_completed(2) == last);
		check_int(standing("inside"), ==, 0);
	}
	lk_barrier_free(of[0]);
	lk_barrier_free(of[1]);
	close_queue(0);
	forget();
}

/* One that dies inside has left when its lease is over, and the next ones get in then. */
static void test_the_dead_are_not_counted(void **state)
{
	int64_t lease_ms = slow_ms(600);
	char options[64];
	snprintf(options, sizeof(options), "watchdog_ms=%lld", (long long)lease_ms);
	open_queue_with(options);
	lk_barrier *alive = new_party(client, 2), *next = new_party(client, 2);
	redis_do(&server, "HSET step parties 2 dead:1 %s", "enter 9999999999999 1 600 1");
	uint64_t id = begins(LK_OP_ENTER, alive, 20000);
	completed(id, 0);
	check_int(standing("inside"), ==, 2);
	int64_t since_ms = now_ms();
	id = begins(LK_OP_LEAVE, alive, 20000);
	completed(id, 0);
	check_int(now_ms() - since_ms, <, slow_ms(3000));
	check_int(standing("left"), ==, 1);
	/* One that waits and is not heard of is not counted either. */
	redis_do(&server, "HSET step parties 2 dead:2 %s", "await 1 1 600 1");
	id = begins(LK_OP_AWAIT, alive, 100);
	completed(id, LK_ETIMEDOUT);
	begins(LK_OP_AWAIT, alive, 20000);
	begins(LK_OP_AWAIT, next, 20000);
	all_completed(2);
	lk_barrier_free(alive);
	lk_barrier_free(next);
	close_queue(0);
	forget();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_nobody_gets_through_before_all_have_come),
		api_test(test_a_limit_leaves_nobody),
		api_test(test_all_are_started_through_one_queue),
		api_test(test_all_enter_and_all_leave),
		api_test(test_the_dead_are_not_counted),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
