/* Since when a node of a quorum has forgotten nothing. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include <lockkeeper/lock.h>

#include "base/clock.h"
#include "sync/red/red.h"

#define NOW (INT64_C(3600000) * LK__MS)
#define OLD (NOW - INT64_C(1800000) * LK__MS)

static struct lk__identity node(const char *run_id, const char *history, const char *before)
{
	struct lk__identity identity = {.started_ns = OLD};
	snprintf(identity.run_id, sizeof(identity.run_id), "%s", run_id);
	snprintf(identity.history, sizeof(identity.history), "%s", history);
	snprintf(identity.before, sizeof(identity.before), "%s", before);
	return identity;
}

static struct lk__identity first(const char *run_id, const char *history, const char *before,
				 enum lk__heirs heirs)
{
	struct lk__identity identity = node(run_id, history, before);
	lk__identity_judge(&identity, NULL, heirs, NOW);
	return identity;
}

static void then(struct lk__identity *known, struct lk__identity next, enum lk__heirs heirs)
{
	lk__identity_judge(&next, known, heirs, NOW);
	*known = next;
}

static void test_a_single_server(void **state)
{
	struct lk__identity known = first("a", "x", "w", LK__NO_HEIRS);
	assert_int_equal(known.since_ns, OLD);
	then(&known, node("b", "y", ""), LK__NO_HEIRS);
	assert_int_equal(known.since_ns, OLD);
	struct lk__identity durable = node("c", "z", "");
	durable.durable = true;
	durable.started_ns = NOW;
	then(&known, durable, LK__NO_HEIRS);
	assert_true(lk__after_ms(known.since_ns, LK_LEASE_MAX_MS) < NOW);
}

static void test_a_node_that_we_did_not_know(void **state)
{
	assert_int_equal(first("a", "x", "", LK__HEIRS).since_ns, OLD);
	assert_int_equal(first("a", "x", "w", LK__HEIRS_WITH_ALL).since_ns, OLD);
	struct lk__identity promoted = first("a", "x", "w", LK__HEIRS);
	assert_int_equal(promoted.since_ns, NOW);
	assert_true(promoted.taken_over);
	/* Without the right to INFO replication. */
	assert_int_equal(first("a", "", "", LK__HEIRS).since_ns, NOW);
	assert_int_equal(first("a", "", "", LK__HEIRS_WITH_ALL).since_ns, OLD);
}

static void test_an_heir_with_all_grants(void **state)
{
	struct lk__identity known = first("a", "x", "", LK__HEIRS_WITH_ALL);
	struct lk__identity young = node("b", "y", "x");
	young.started_ns = NOW;
	then(&known, young, LK__HEIRS_WITH_ALL);
	assert_int_equal(known.since_ns, OLD);
	/* Asked as a replica, and then as the master. */
	then(&known, node("a", "y", ""), LK__HEIRS_WITH_ALL);
	then(&known, node("c", "z", "y"), LK__HEIRS_WITH_ALL);
	assert_int_equal(known.since_ns, OLD);
	assert_false(known.taken_over);
}

static void test_an_heir_without(void **state)
{
	struct lk__identity known = first("a", "x", "", LK__HEIRS);
	then(&known, node("a", "x", ""), LK__HEIRS);
	assert_int_equal(known.since_ns, OLD);
	then(&known, node("b", "y", "x"), LK__HEIRS);
	assert_int_equal(known.since_ns, NOW);
	assert_true(known.taken_over);
}

static void test_another_history(void **state)
{
	const struct lk__identity others[] = {node("b", "y", ""), node("b", "y", "w"),
					      node("a", "y", "w"), node("b", "", "")};
	for (size_t i = 0; i < COUNT(others); i++) {
		struct lk__identity known = first("a", "x", "", LK__HEIRS_WITH_ALL);
		then(&known, others[i], LK__HEIRS_WITH_ALL);
		assert_int_equal(known.since_ns, NOW);
		assert_true(known.taken_over);
		/* A node that goes on with that one has forgotten the same. */
		then(&known, node("c", "z", "y"), LK__HEIRS_WITH_ALL);
		assert_int_equal(known.since_ns, NOW);
	}
	/* No replicas for long: the same process names its history anew. */
	struct lk__identity lonely = first("a", "x", "", LK__HEIRS_WITH_ALL);
	then(&lonely, node("a", "y", ""), LK__HEIRS_WITH_ALL);
	assert_int_equal(lonely.since_ns, OLD);
}

/* What is read of a server that tells `mode`, and `id` if asked for it; NULL: it refuses that. */
static bool reads_up(const char *uptime, const char *mode, const char *id, size_t count,
		     struct lk__identity *identity)
{
	char server[128];
	snprintf(server, sizeof(server),
		 "# Server\r\nredis_mode:%s\r\nrun_id:a\r\nuptime_in_seconds:%s\r\n", mode, uptime);
	redisReply told = {.type = REDIS_REPLY_STRING, .str = server, .len = strlen(server)};
	redisReply member = {
		.type = REDIS_REPLY_STRING, .str = (char *)id, .len = id ? strlen(id) : 0};
	struct lk__request who = {.reply = &told}, refused = {.code = LK_EREFUSED};
	struct lk__request answer = {.reply = &member};
	struct lk__request *answers[LK__IDENTITY_QUESTIONS_MAX] = {
		&who, &refused, &refused, &refused, id ? &answer : &refused};
	memset(identity, 1, sizeof(*identity));
	return lk__identity_read(answers, count, NOW, identity);
}

static bool reads(const char *mode, const char *id, size_t count, struct lk__identity *identity)
{
	return reads_up("60", mode, id, count, identity);
}

/* Whatever it says, it does not run since tomorrow, nor since before there was Redis. */
static void test_uptimes(void **state)
{
	static const struct {
		const char *uptime;
		int64_t seconds;
	} cases[] = {
		{"60", 59},
		{"1", 0},
		{"0", 0},
		{"-1", 0},
		{"-9223372036854775808", 0},
		{"9223372036854775807", INT32_MAX},
		{"", 0},
		{"soon", 0},
	};
	struct lk__identity identity;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_true(reads_up(cases[i].uptime, "standalone", NULL, LK__IDENTITY_QUESTIONS,
				     &identity));
		assert_int_equal(identity.started_ns, NOW - cases[i].seconds * INT64_C(1000000000));
	}
}

/* Without the id it could be another of a cluster that votes already. */
static void test_a_member_tells_its_id(void **state)
{
	struct lk__identity read;
	assert_true(reads("cluster", "0123abcd", LK__IDENTITY_QUESTIONS_MAX, &read));
	assert_string_equal(read.member, "0123abcd");
	assert_false(reads("cluster", NULL, LK__IDENTITY_QUESTIONS_MAX, &read));
	assert_true(reads("standalone", NULL, LK__IDENTITY_QUESTIONS_MAX, &read));
	assert_string_equal(read.member, "");
	assert_true(reads("cluster", NULL, LK__IDENTITY_QUESTIONS, &read));
	assert_string_equal(read.member, "");
}

static void test_a_server_older_than_our_machine(void **state)
{
	volatile int64_t started_ns = NOW - INT64_C(315360000) * 1000 * LK__MS;
	assert_int_equal(lk__after_ms(started_ns, 30000), started_ns + 30000 * LK__MS);
	assert_int_equal(lk__after_ms(started_ns, INT64_MAX), LK__NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_single_server),
		cmocka_unit_test(test_a_node_that_we_did_not_know),
		cmocka_unit_test(test_an_heir_with_all_grants),
		cmocka_unit_test(test_an_heir_without),
		cmocka_unit_test(test_another_history),
		cmocka_unit_test(test_uptimes),
		cmocka_unit_test(test_a_member_tells_its_id),
		cmocka_unit_test(test_a_server_older_than_our_machine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
