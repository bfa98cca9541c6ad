/* The election: candidates, terms, values, hand-overs, observers, and what each is told. */
#include <stddef.h>

#include "fixture.h"

#define KEYS "lockkeeper_fence:{web} lockkeeper_election:{web}"

static void forget(void)
{
	redis_do(&server, "DEL " KEYS);
}

static lk_election *new_election(lk_client *client, const char *value, int priority, int standing)
{
	lk_election *election = NULL;
	lk_election_options options = LK_ELECTION_OPTIONS_INIT;
	options.value = value;
	options.value_size = value ? LK_STRLEN : 0;
	options.priority = priority;
	options.standing = standing;
	options.tag = (uint64_t)priority;
	expect(0, lk_election_new(&election, client, "web", LK_STRLEN, &options, &err));
	return election;
}

static lk_leader leader_of(lk_election *election)
{
	lk_leader leader = {.struct_size = sizeof(leader)};
	expect(0, lk_election_leader(election, &leader, &err));
	return leader;
}

static int waiting(lk_election *election)
{
	return lk_election_candidates(election, NULL, 0, &err);
}

static bool so_many_wait(lk_election *election, int count)
{
	return waiting(election) == count;
}

/* It may have a place before it listens. */
static bool so_many_listen(lk_election *election, int count)
{
	lk_candidate candidates[8] = {LK_CANDIDATE_INIT};
	int all = lk_election_candidates(election, candidates, 8, &err);
	int listening = 0;
	for (int i = 0; i < all && i < 8; i++)
		listening += candidates[i].listens;
	return all == count && listening == count;
}

static lk_event told(lk_client *client, int type)
{
	lk_event event = LK_EVENT_INIT;
	check_int(next_event(client, &event, 10000), ==, type);
	return event;
}

static lk_event told_any(lk_client *client)
{
	lk_event event = LK_EVENT_INIT;
	check_int(next_event(client, &event, 10000), >, 0);
	return event;
}

static void told_nothing(lk_client *client)
{
	lk_event event = LK_EVENT_INIT;
	check_int(next_event(client, &event, 0), ==, 0);
}

static void test_a_campaign_leads_with_a_term(void **state)
{
	lk_client *client = open_client();
	lk_election *election = new_election(client, "host:1", 0, LK_STAND_NORMAL);
	uint64_t last = 0, term = 0, read = 0;
	int64_t left_ms = 0;
	lk_leader leader = leader_of(election);
	check_int(leader.vacant, ==, 1);
	check(leader.term == 0);
	expect(LK_ENOTOWNER, lk_election_term(election, &read, &err));
	for (int i = 0; i < 20; i++) {
		expect(0, lk_election_campaign(election, i % 2 ? -1 : 0, NULL, &term, &err));
		check(term > last);
		last = term;
		check_int(lk_election_is_leading(election, &err), ==, 1);
		expect(0, lk_election_term(election, &read, &err));
		check(read == term);
		expect(0, lk_election_remaining_ms(election, &left_ms, &err));
		check_int(left_ms, >, 20000);
		leader = leader_of(election);
		check_int(leader.vacant, ==, 0);
		check(leader.term == term);
		check(strcmp(leader.value, "host:1") == 0);
		check(leader.elections == (uint64_t)i + 1);
		expect(LK_EINVAL, lk_election_join(election, &err));
		expect(0, lk_election_resign(election, -1, &err));
		check_int(lk_election_is_leading(election, &err), ==, 0);
		expect(LK_ENOTOWNER, lk_election_resign(election, -1, &err));
	}
	check_int(leader_of(election).vacant, ==, 1);
	redis_do(&server, "FLUSHALL");
	expect(0, lk_election_campaign(election, -1, NULL, &term, &err));
	check(term > last);
	lk_election_free(election);
	lk_client_free(client);
	forget();
}

/* The handler is there before anybody can be elected, and each LEADING has its NOT_LEADING. */
static void test_a_join_is_told_in_pairs(void **state)
{
	lk_client *client = open_client(), *other = open_client();
	lk_election *first = new_election(client, "a", 1, LK_STAND_NORMAL);
	lk_election *second = new_election(other, "b", 2, LK_STAND_NORMAL);
	expect(0, lk_election_join(first, &err));
	lk_event event = told(client, LK_EVENT_LEADING);
	check(event.tag == 1 && event.fence > 0);
	check_int(lk_election_is_leading(first, &err), ==, 1);
	expect(0, lk_election_join(second, &err));
	wait_until(so_many_listen(first, 1), 10000);
	told_nothing(other);
	uint64_t term = event.fence;
	for (int i = 0; i < 20; i++) {
		expect(0, lk_election_resign(first, -1, &err));
		event = told(client, LK_EVENT_NOT_LEADING);
		check(event.fence == term);
		told_nothing(client);
		event = told(other, LK_EVENT_LEADING);
		check(event.fence > term);
		term = event.fence;
		expect(0, lk_election_join(first, &err));
		wait_until(so_many_listen(first, 1), 10000);
		expect(0, lk_election_resign(second, 5000, &err));
		check(told(other, LK_EVENT_NOT_LEADING).fence == term);
		event = told(client, LK_EVENT_LEADING);
		check(event.fence > term);
		term = event.fence;
		expect(0, lk_election_join(second, &err));
		wait_until(so_many_listen(first, 1), 10000);
	}
	expect(0, lk_election_resign(second, 5000, &err)); /* it waits: nothing to tell */
	told_nothing(other);
	lk_election_free(first);
	lk_election_free(second);
	drop_client(client);
	drop_client(other);
	forget();
}

static void test_a_transfer_is_to_one_that_waits_now(void **state)
{
	lk_client *client = open_client(), *other = open_client();
	lk_election *first = new_election(client, "a", 1, LK_STAND_NORMAL);
	lk_election *second = new_election(other, "b", 9, LK_STAND_NORMAL);
	lk_election *third = new_election(other, "c", 3, LK_STAND_LEAVING);
	lk_candidate candidates[3] = {LK_CANDIDATE_INIT};
	uint64_t term = 0;
	expect(0, lk_election_campaign(first, -1, NULL, &term, &err));
	told(client, LK_EVENT_LEADING);
	expect(LK_EBUSY, lk_election_transfer(first, "nobody:1", &err));
	expect(LK_EBUSY, lk_election_transfer(first, leader_of(first).id, &err));
	check_int(lk_election_is_leading(first, &err), ==, 1);
	expect(LK_ENOTOWNER, lk_election_transfer(second, "nobody:1", &err));
	expect(0, lk_election_join(third, &err));
	expect(0, lk_election_join(second, &err));
	wait_until(so_many_listen(first, 2), 10000);
	check_int(lk_election_candidates(first, candidates, 3, &err), ==, 2);
	check(strcmp(candidates[0].value, "b") == 0);
	check_int(candidates[0].priority, ==, 9);
	check_int(candidates[0].listens, ==, 1);
	check(strcmp(candidates[1].value, "c") == 0);
	check_int(candidates[1].standing, ==, LK_STAND_LEAVING);
	expect(0, lk_election_transfer(first, candidates[1].id, &err)); /* past the order */
	check(told(client, LK_EVENT_NOT_LEADING).fence == term);
	lk_event event = told(other, LK_EVENT_LEADING);
	check(event.tag == 3 && event.fence > term);
	check(strcmp(leader_of(first).value, "c") == 0);
	expect(LK_ENOTOWNER, lk_election_transfer(first, candidates[0].id, &err));
	expect(0, lk_election_resign(third, -1, &err));
	told(other, LK_EVENT_NOT_LEADING);
	check(told(other, LK_EVENT_LEADING).tag == 9);
	lk_election_free(first);
	lk_election_free(second);
	lk_election_free(third);
	drop_client(client);
	drop_client(other);
	forget();
}

static void test_the_value_is_the_leaders(void **state)
{
	lk_client *client = open_client();
	lk_election *election = new_election(client, NULL, 0, LK_STAND_NORMAL);
	char large[LK_ELECTION_VALUE_SIZE_MAX + 1] = {0};
	expect(0, lk_election_proclaim(election, "later", 5, &err));
	expect(0, lk_election_campaign(election, -1, NULL, NULL, &err));
	check(strcmp(leader_of(election).value, "later") == 0);
	expect(0, lk_election_proclaim(election, "\0 bytes\n", 8, &err));
	lk_leader leader = leader_of(election);
	check_int(leader.value_size, ==, 8);
	check(memcmp(leader.value, "\0 bytes\n", 8) == 0);
	expect(0, lk_election_proclaim(election, large, sizeof(large) - 1, &err));
	expect(LK_EINVAL, lk_election_proclaim(election, large, sizeof(large), &err));
	check_int(leader_of(election).value_size, ==, LK_ELECTION_VALUE_SIZE_MAX);
	redis_do(&server, "DEL web"); /* another may lead, and has a value of its own */
	redis_do(&server, "HSET lockkeeper_election:{web} value other");
	expect(LK_ELOST, lk_election_proclaim(election, "late", 4, &err));
	check(strcmp(leader_of(election).value, "other") == 0);
	told(client, LK_EVENT_LEADING);
	told(client, LK_EVENT_STOP); /* a contradiction is looked at */
	check_int(lk_election_is_leading(election, &err), ==, 0);
	expect(LK_ELOST, lk_election_resign(election, -1, &err));
	told(client, LK_EVENT_NOT_LEADING);
	lk_election_free(election);
	close_client(client);
	forget();
}

static void test_observers_see_the_last_one(void **state)
{
	lk_client *client = open_client(), *other = open_client();
	lk_election *candidate = new_election(client, "a", 0, LK_STAND_NORMAL);
	lk_election *observer = new_election(other, NULL, 0, LK_STAND_NORMAL);
	lk_leader leader = {.struct_size = sizeof(leader)};
	uint64_t term = 0;
	check_int(lk_election_observe(observer, 0, NULL, &leader, &err), ==, 1);
	check_int(leader.vacant, ==, 1);
	check_int(lk_election_observe(observer, 20, NULL, &leader, &err), ==, 0);
	expect(0, lk_election_campaign(candidate, -1, NULL, &term, &err));
	check_int(lk_election_observe(observer, 10000, NULL, &leader, &err), ==, 1);
	check(!leader.vacant && !leader.missed && leader.term == term);
	expect(0, lk_election_proclaim(candidate, "b", 1, &err));
	check_int(lk_election_observe(observer, 10000, NULL, &leader, &err), ==, 1);
	check(strcmp(leader.value, "b") == 0);
	check(!leader.missed);
	expect(0, lk_election_resign(candidate, -1, &err));
	check_int(lk_election_observe(observer, 10000, NULL, &leader, &err), ==, 1);
	check(leader.vacant && !leader.missed && leader.term == term);
	for (int i = 0; i < 2; i++) { /* quicker than it looks */
		expect(0, lk_election_campaign(candidate, -1, NULL, &term, &err));
		expect(0, lk_election_resign(candidate, -1, &err));
	}
	check_int(lk_election_observe(observer, 10000, NULL, &leader, &err), ==, 1);
	check(leader.vacant && leader.missed && leader.term == term);
	lk_election_free(candidate);
	lk_election_free(observer);
	close_client(client);
	close_client(other);
	forget();
}

/* What ends a leadership without a message. */
static void test_a_vacancy_needs_no_message(void **state)
{
	lk_client *client = open_client_with("watchdog_ms=1000"), *other = open_client();
	lk_election *candidate = new_election(client, "a", 0, LK_STAND_NORMAL);
	lk_election *observer = new_election(other, NULL, 0, LK_STAND_NORMAL);
	lk_leader leader = {.struct_size = sizeof(leader)};
	expect(0, lk_election_campaign(candidate, -1, NULL, NULL, &err));
	check_int(lk_election_observe(observer, 10000, NULL, &leader, &err), ==, 1);
	expect(0, lk_client_close(client, LK_CLOSE_ABANDON, &err));
	check_int(lk_election_observe(observer, 10000, NULL, &leader, &err), ==, 1);
	check_int(leader.vacant, ==, 1);
	lk_election_free(candidate);
	lk_election_free(observer);
	lk_client_free(client);
	close_client(other);
	forget();
}

/* Five candidates of different standing: who is next. */
static void test_the_order_of_candidates(void **state)
{
	static const struct {
		int priority, standing, turn;
	} rows[] = {{1, LK_STAND_BY, 3},
		    {5, LK_STAND_LEAVING, 4},
		    {0, LK_STAND_NORMAL, 1},
		    {7, LK_STAND_NORMAL, 0},
		    {0, LK_STAND_NORMAL, 2}};
	lk_client *client = open_client();
	lk_election *leads = new_election(client, "first", 0, LK_STAND_NORMAL);
	lk_election *election[COUNT(rows)], *next = leads;
	expect(0, lk_election_campaign(leads, -1, NULL, NULL, &err));
	for (size_t i = 0; i < COUNT(rows); i++) {
		char value[2] = {(char)('0' + rows[i].turn), '\0'};
		election[i] = new_election(client, value, rows[i].priority, rows[i].standing);
		expect(0, lk_election_join(election[i], &err));
		wait_until(so_many_listen(leads, (int)i + 1), 10000);
	}
	for (int turn = 0; turn < (int)COUNT(rows); turn++) {
		lk_leader leader;
		expect(0, lk_election_resign(next, -1, &err));
		wait_until((leader = leader_of(leads), !leader.vacant), 10000);
		check_int(leader.value[0], ==, '0' + turn);
		for (size_t i = 0; i < COUNT(rows); i++)
			if (rows[i].turn == turn)
				next = election[i];
	}
	for (size_t i = 0; i < COUNT(rows); i++)
		lk_election_free(election[i]);
	lk_election_free(leads);
	drop_client(client);
	forget();
}

static void test_limits_and_cancels_leave_nobody(void **state)
{
	lk_client *client = open_client(), *other = open_client();
	lk_election *first = new_election(client, "a", 0, LK_STAND_NORMAL);
	lk_election *second = new_election(other, "b", 0, LK_STAND_NORMAL);
	lk_cancel *cancel = NULL;
	expect(0, lk_cancel_new(&cancel, &err));
	expect(0, lk_election_campaign(first, -1, NULL, NULL, &err));
	expect(LK_EBUSY, lk_election_campaign(second, 0, NULL, NULL, &err));
	expect(LK_ETIMEDOUT, lk_election_campaign(second, 50, NULL, NULL, &err));
	wait_until(so_many_wait(first, 0), 10000);
	lk_cancel_now(cancel);
	expect(LK_ECANCELLED, lk_election_campaign(second, -1, cancel, NULL, &err));
	wait_until(so_many_wait(first, 0), 10000);
	expect(0, lk_election_join(second, &err));
	wait_until(so_many_wait(first, 1), 10000);
	second = lk_election_free(second); /* which leaves, too */
	wait_until(so_many_wait(first, 0), 10000);
	told_nothing(other);
	lk_election_free(first);
	drop_client(client);
	close_client(other);
	lk_cancel_free(cancel);
	forget();
}

static void campaign_until_resigned(size_t index, void *argument)
{
	expect(LK_ECANCELLED, lk_election_campaign(argument, -1, NULL, NULL, &err));
}

static void resign_from_two_threads(size_t index, void *argument)
{
	int rc = lk_election_resign(argument, -1, &err);
	check(rc == 0 || rc == LK_ENOTOWNER);
}

/* All that wait for the end of a candidacy hear of it, whichever thread began it or ends it. */
static void test_a_campaign_ends_when_another_thread_resigns(void **state)
{
	lk_client *client = open_client(), *other = open_client();
	lk_election *first = new_election(client, "a", 0, LK_STAND_NORMAL);
	lk_election *second = new_election(other, "b", 0, LK_STAND_NORMAL);
	expect(0, lk_election_campaign(first, -1, NULL, NULL, &err));
	for (int i = 0; i < 20; i++) {
		struct threads campaign, resigns;
		threads_start(&campaign, 1, campaign_until_resigned, second);
		wait_until(so_many_wait(first, 1), 10000);
		threads_start(&resigns, 2, resign_from_two_threads, second);
		threads_join(&resigns, 10000);
		threads_join(&campaign, 10000);
		wait_until(so_many_wait(first, 0), 10000);
	}
	lk_election_free(first);
	lk_election_free(second);
	close_client(client);
	close_client(other);
	forget();
}

static void test_a_key_of_another_kind_is_refused(void **state)
{
	lk_client *client = open_client();
	lk_election *election = new_election(client, "a", 0, LK_STAND_NORMAL);
	redis_do(&server, "SET web text");
	expect(LK_EWRONGTYPE, lk_election_campaign(election, -1, NULL, NULL, &err));
	expect(0, lk_election_join(election, &err));
	lk_event event = told(client, LK_EVENT_NOT_LEADING);
	check(event.fence == 0);
	check_int(event.code, ==, LK_EWRONGTYPE);
	check(strstr(event.reason, "election") != NULL);
	expect(LK_ENOTOWNER, lk_election_resign(election, -1, &err));
	redis_do(&server, "DEL web");
	lk_lock *lock = NULL;
	expect(0, lk_lock_new(&lock, client, "web", 3, &err));
	expect(0, lk_election_campaign(election, 0, NULL, NULL, &err));
	lk_election_free(election);
	lk_lock_free(lock);
	drop_client(client);
	forget();
}

static void test_arguments(void **state)
{
	own_client *client = open_client();
	lk_election *election = NULL;
	lk_leader leader = {.struct_size = 4};
	lk_election_options options = LK_ELECTION_OPTIONS_INIT;
	expect(LK_EINVAL, lk_election_new(NULL, client, "web", 3, NULL, &err));
	expect(LK_EINVAL, lk_election_new(&election, NULL, "web", 3, NULL, &err));
	expect(LK_EINVAL, lk_election_new(&election, client, "a}b", 3, NULL, &err));
	options.standing = 3;
	expect(LK_EINVAL, lk_election_new(&election, client, "web", 3, &options, &err));
	options.standing = 0;
	options.priority = 1001;
	expect(LK_EINVAL, lk_election_new(&election, client, "web", 3, &options, &err));
	options.priority = 0;
	options.value_size = 1;
	expect(LK_EINVAL, lk_election_new(&election, client, "web", 3, &options, &err));
	check(election == NULL);
	expect(0, lk_election_new(&election, client, "web", 3, NULL, &err));
	expect(LK_EINVAL, lk_election_leader(election, &leader, &err));
	expect(LK_EINVAL, lk_election_leader(election, NULL, &err));
	expect(LK_EINVAL, lk_election_transfer(election, "", &err));
	expect(LK_EINVAL, lk_election_campaign(election, -2, NULL, NULL, &err));
	expect(LK_EINVAL, lk_election_candidates(election, NULL, 1, &err));
	expect(LK_EINVAL, lk_election_join(NULL, &err));
	check_int(lk_election_is_leading(NULL, &err), ==, 0);
	check(lk_election_free(NULL) == NULL);
	lk_election_free(election);
}

static void test_a_leader_is_asked(void **state)
{
	lk_client *client = open_client(), *other = open_client();
	lk_election *first = new_election(client, "a", 0, LK_STAND_NORMAL);
	lk_election *second = new_election(other, "b", 0, LK_STAND_NORMAL);
	lk_leader leader = {.struct_size = sizeof(leader)};
	lk_candidate candidate = LK_CANDIDATE_INIT;
	expect(LK_ENOTOWNER, lk_election_ask(second, NULL, &err));
	expect(0, lk_election_campaign(first, -1, NULL, NULL, &err));
	check_int(lk_election_observe(first, 0, NULL, &leader, &err), ==, 1);
	expect(LK_EBUSY, lk_election_ask(second, "nobody:1", &err));
	expect(0, lk_election_join(second, &err));
	wait_until(so_many_listen(first, 1), 10000);
	check_int(lk_election_candidates(first, &candidate, 1, &err), ==, 1);
	expect(0, lk_election_ask(second, candidate.id, &err));
	check_int(lk_election_observe(first, 10000, NULL, &leader, &err), ==, 1);
	check(strcmp(leader.asked, candidate.id) == 0);
	check_int(lk_election_is_leading(first, &err), ==, 1);
	expect(0, lk_election_transfer(first, leader.asked, &err));
	told(other, LK_EVENT_LEADING);
	check(strcmp(leader_of(second).asked, "") == 0);
	lk_election_free(first);
	lk_election_free(second);
	drop_client(client);
	drop_client(other);
	forget();
}

static lk_candidate first_of(lk_election *election)
{
	lk_candidate candidate = LK_CANDIDATE_INIT;
	check_int(lk_election_candidates(election, &candidate, 1, &err), >=, 1);
	return candidate;
}

static const char *asked_of(lk_election *election)
{
	static lk_leader leader;
	leader = leader_of(election);
	return leader.asked;
}

/* Whoever waits has its new place at once; a leader that is leaving is asked when another waits. */
static void test_a_standing_changes(void **state)
{
	lk_client *client = open_client(), *other = open_client();
	lk_election *leads = new_election(client, "a", 0, LK_STAND_NORMAL);
	lk_election *first = new_election(other, "b", 2, LK_STAND_NORMAL);
	lk_election *second = new_election(other, "c", 1, LK_STAND_NORMAL);
	expect(LK_EINVAL, lk_election_set_standing(leads, 0, 3, &err));
	expect(0, lk_election_campaign(leads, -1, NULL, NULL, &err));
	expect(0, lk_election_set_standing(leads, 0, LK_STAND_LEAVING, &err));
	check(strcmp(asked_of(leads), "leaving") == 0); /* nobody waits */
	expect(0, lk_election_join(first, &err));
	wait_until(so_many_listen(leads, 1), 10000);
	check(strcmp(asked_of(leads), "leave") == 0);
	expect(0, lk_election_set_standing(leads, 0, LK_STAND_NORMAL, &err));
	check(strcmp(asked_of(leads), "") == 0);
	expect(0, lk_election_join(second, &err));
	wait_until(so_many_listen(leads, 2), 10000);
	check(strcmp(first_of(leads).value, "b") == 0);
	expect(0, lk_election_set_standing(first, 2, LK_STAND_BY, &err));
	check(strcmp(first_of(leads).value, "c") == 0);
	expect(0, lk_election_set_standing(first, 3, LK_STAND_NORMAL, &err));
	check(strcmp(first_of(leads).value, "b") == 0);
	check_int(lk_election_retire(leads, &err), ==, 3);
	check(strcmp(asked_of(leads), "leaving") == 0); /* all are */
	check_int(first_of(leads).standing, ==, LK_STAND_LEAVING);
	expect(0, lk_election_set_standing(second, 0, LK_STAND_NORMAL, &err));
	check(strcmp(asked_of(leads), "leave") == 0);
	expect(0, lk_election_resign(leads, -1, &err));
	check(told(other, LK_EVENT_LEADING).tag == 1);
	expect(0, lk_election_resign(second, -1, &err));
	told(other, LK_EVENT_NOT_LEADING);
	check(told(other, LK_EVENT_LEADING).tag == 2);
	check(strcmp(asked_of(leads), "leaving") == 0); /* it stays so until it says otherwise */
	lk_election_free(leads);
	lk_election_free(first);
	lk_election_free(second);
	drop_client(client);
	drop_client(other);
	forget();
}

#define CROWD 200
#define CROWD_CHANGES 10

static long long scripts_called(void)
{
	return redis_info(&server, "commandstats", "cmdstat_evalsha:calls=");
}

/* However many wait: the release, the next one's try, and a look of the one behind it. */
static void test_a_change_wakes_no_herd(void **state)
{
	static lk_election *crowd[CROWD];
	lk_client *client = open_client();
	lk_event event = LK_EVENT_INIT;
	for (size_t i = 0; i < CROWD; i++) {
		crowd[i] = new_election(client, "a", (int)(CROWD - i), LK_STAND_NORMAL);
		expect(0, lk_election_join(crowd[i], &err));
	}
	check(told(client, LK_EVENT_LEADING).tag > 0);
	wait_until(waiting(crowd[0]) == CROWD - 1, 10000);
	sleep_ms(300); /* those that came last listen */
	long long before = scripts_called();
	for (int i = 0; i < CROWD_CHANGES; i++) {
		for (size_t each = 0; each < CROWD; each++)
			if (lk_election_is_leading(crowd[each], NULL))
				expect(0, lk_election_resign(crowd[each], -1, &err));
		do
			event = told_any(client);
		while (event.type != LK_EVENT_LEADING);
	}
	check_int(scripts_called() - before, <=, 3 * CROWD_CHANGES + 2);
	for (size_t i = 0; i < CROWD; i++)
		lk_election_free(crowd[i]);
	drop_client(client);
	forget();
}

static lk_event told_in_time(lk_client *client, int type, int64_t limit_ms)
{
	lk_event event = LK_EVENT_INIT;
	check_int(next_event(client, &event, limit_ms), ==, type);
	return event;
}

/* Whose work hangs loses its place, and is told why; whose work goes on keeps it. */
static void test_a_leader_without_progress_is_followed(void **state)
{
	lk_client *client = open_client_with("watchdog_ms=400"), *other = open_client();
	lk_election *first = NULL, *second = new_election(other, "b", 2, LK_STAND_NORMAL);
	lk_election_options options = LK_ELECTION_OPTIONS_INIT;
	options.progress_ms = 150;
	expect(0, lk_election_new(&first, client, "web", LK_STRLEN, &options, &err));
	expect(LK_ENOTOWNER, lk_election_progress(first, &err));
	expect(0, lk_election_campaign(first, -1, NULL, NULL, &err));
	told(client, LK_EVENT_LEADING);
	expect(0, lk_election_join(second, &err));
	for (int i = 0; i < 60; i++) { /* three leases */
		sleep_ms(20);
		expect(0, lk_election_progress(first, &err));
	}
	told_nothing(other);
	lk_event event = told(client, LK_EVENT_AT_RISK);
	check(strstr(event.reason, "progress") != NULL);
	expect(0, lk_election_progress(first, &err)); /* in time */
	sleep_ms(100);
	check_int(lk_election_is_leading(first, &err), ==, 1);
	told(client, LK_EVENT_AT_RISK);
	event = told(client, LK_EVENT_STOP);
	check(strstr(event.reason, "progress") != NULL);
	expect(LK_ELOST, lk_election_progress(first, &err));
	check_int(lk_election_is_leading(second, &err), ==, 0); /* not before STOP */
	told_in_time(other, LK_EVENT_LEADING, 400);
	lk_election_free(first);
	lk_election_free(second);
	drop_client(client);
	drop_client(other);
	forget();
}

static void test_a_threadless_client_is_refused(void **state)
{
	lk_config *config = NULL;
	lk_client *client = NULL;
	lk_election *election = NULL;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", server.url_unix, &err));
	lk_config_set_threadless(config, NULL, NULL);
	expect(0, lk_client_new(&client, config, &err));
	expect(LK_EBLOCKING, lk_election_new(&election, client, "web", 3, NULL, &err));
	lk_config_free(config);
	lk_client_free(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_campaign_leads_with_a_term),
		api_test(test_a_join_is_told_in_pairs),
		api_test(test_a_transfer_is_to_one_that_waits_now),
		api_test(test_the_value_is_the_leaders),
		api_test(test_observers_see_the_last_one),
		api_test(test_a_vacancy_needs_no_message),
		api_test(test_the_order_of_candidates),
		api_test(test_limits_and_cancels_leave_nobody),
		api_test(test_a_campaign_ends_when_another_thread_resigns),
		api_test(test_a_key_of_another_kind_is_refused),
		api_test(test_arguments),
		api_test(test_a_leader_is_asked),
		api_test(test_a_standing_changes),
		api_test(test_a_change_wakes_no_herd),
		api_test(test_a_leader_without_progress_is_followed),
		api_test(test_a_threadless_client_is_refused),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
