/* Asynchronous calls of a multi lock, over one server and over two. */
#include "queued.h"

static void free_locks(struct multi_set *set)
{
	lk_lock_free(set->all);
	for (size_t i = 0; i < MULTI_PARTS; i++)
		lk_lock_free(set->part[i]);
}

static void end_client(struct multi_set *set, size_t index)
{
	wait_until(program_close(set->client[index], LK_CLOSE_RELEASE, &err) == 0, 20000);
	program_free(set->client[index]);
}

static void free_queue(void)
{
	lk_completion left = LK_COMPLETION_INIT;
	expect(0, lk_queue_take(queue, &left, 1, 0, &err));
	expect(0, lk_queue_free(queue, &err));
}

static void close_set(struct multi_set *set)
{
	free_locks(set);
	end_client(set, 0);
	end_client(set, 1);
	free_queue();
}

static void other_has(const char *name)
{
	redis_do(&other_server, "HSET %s stranger:1 1", name);
	redis_do(&other_server, "PEXPIRE %s 60000", name);
}

static void other_gives(const char *name)
{
	redis_do(&other_server, "DEL %s", name);
	redis_do(&other_server, "PUBLISH redisson_lock__channel:{%s} 0", name);
}

static long long keys(void)
{
	return redis_integer(&server, "DBSIZE") + redis_integer(&other_server, "DBSIZE");
}

static int check_both(void **state)
{
	wait_until(redis_integer(&other_server, "DBSIZE") == 0, 10000);
	return check_nothing_left(state);
}

#define multi_test(name) cmocka_unit_test_teardown(name, check_both)

static void test_all_or_none(void **state)
{
	struct multi_set set;
	open_multi_set(&set, "");
	lk_completion got = acquire(set.all, "o");
	int64_t left_ms = (got.deadline_ns - now_ns()) / 1000000;
	check(left_ms > 20000 && left_ms < 30000);
	check(got.field[0] == '\0');
	check_int(keys(), ==, 3);
	for (size_t i = 0; i < MULTI_PARTS; i++)
		expect(1, lk_lock_is_held(set.part[i], "o", &err));
	completed(begin_acquire(set.part[2], "p", 0, 0), LK_EBUSY);
	completed(begin_extend(set.all, "o", 90000), 0);
	check_int(redis_integer(&server, "PTTL b"), >, 60000);
	check_int(redis_integer(&other_server, "PTTL c"), >, 60000);
	acquire(set.all, "o");
	release(set.all, "o");
	check_int(keys(), ==, 3);
	release(set.all, "o");
	check_int(keys(), ==, 0);
	completed(begin_release(set.all, "o"), LK_ENOTOWNER);
	completed(begin_extend(set.all, "o", 90000), LK_ENOTOWNER);
	close_set(&set);
}

/* Several owners over the same locks, in one loop: each gets all of them, one after the other. */
static void test_many_take_turns(void **state)
{
	enum { MANY = 12, ROUNDS = 5 };
	struct multi_set set;
	char owner[MANY][8];
	int held = 0, rounds[MANY] = {0};
	open_multi_set(&set, "");
	for (int i = 0; i < MANY; i++) {
		snprintf(owner[i], sizeof(owner[i]), "o%d", i);
		begin_acquire(set.all, owner[i], -1, (uint64_t)i);
	}
	for (int left = 2 * MANY * ROUNDS; left > 0; left--) {
		lk_completion got = next_completion();
		check_int(got.error.code, ==, 0);
		int i = (int)got.tag;
		if (got.operation == LK_OP_ACQUIRE) {
			lk_release_options options = LK_RELEASE_OPTIONS_INIT;
			check_int(held++, ==, 0);
			options.owner = owner[i];
			starts(RELEASE, .lock = set.all, .release = &options, .tag = (uint64_t)i);
			held--; /* from now on the next may have it */
		} else if (++rounds[i] < ROUNDS) {
			begin_acquire(set.all, owner[i], -1, (uint64_t)i);
		}
	}
	close_set(&set);
}

/* While it waits for a part of the other client. */
static void test_either_client_is_closed(void **state)
{
	for (int which = 0; which < 2; which++) {
		struct multi_set set;
		open_multi_set(&set, "");
		other_has("c");
		uint64_t id = begin_acquire(set.all, "o", -1, 0);
		/* By all at once, by the part alone, and once it listens; a try without an answer
		 * would end as one that may be held. */
		wait_until(stats_of(set.client[1]).busy == 3, 5000);
		expect(0, program_close(set.client[which], LK_CLOSE_RELEASE, &err));
		completed(id, LK_ECLOSED);
		check_int(keys(), ==, 1);
		other_gives("c");
		close_set(&set);
	}
}

static void test_one_loop_drives_all_of_them(void **state)
{
	lk_config *config = NULL;
	lk_client *driven = NULL;
	lk_lock *all = NULL;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", other_server.url_unix, &err));
	lk_config_set_threadless(config, NULL, NULL);
	expect(0, lk_client_new(&driven, config, &err));
	lk_client *plain = open_client();
	lk_lock *part[2] = {new_lock(plain, "a"), new_lock(driven, "b")};
	expect(LK_EINVAL, lk_multi_lock_new(&all, part, 2, &err));
	check(strstr(err.message, "one client is threadless and another is not") != NULL);
	lk_lock_free(part[0]);
	lk_lock_free(part[1]);
	lk_client_free(driven);
	close_client(plain);
	lk_config_free(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		multi_test(test_all_or_none),
		multi_test(test_many_take_turns),
		multi_test(test_either_client_is_closed),
		multi_test(test_one_loop_drives_all_of_them),
	};
	return cmocka_run_group_tests(tests, start_both, stop_both);
}
