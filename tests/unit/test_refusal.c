/* What a server's refusals mean: one row a text, as real servers of several versions say them. */
#include "unit.h"

#include <string.h>

#include <lockkeeper/error.h>

#include "conn/request.h"

#define IN_6 "ERR Error running script (call to f_6b1bf486c81ceb7edf3c093f4c48582e38c0e791): "

static const struct {
	const char *text;
	int code;
	const char *hint; /* a piece of it */
} rows[] = {
	{"LOADING Redis is loading the dataset in memory", LK_EUNAVAILABLE, NULL},
	{"BUSY Redis is busy running a script.", LK_EUNAVAILABLE, NULL},
	{"BUSYGROUP Consumer Group name already exists", LK_EMAYBEHELD, NULL},
	{"READONLY You can't write against a read only replica.", LK_EUNAVAILABLE, "replica"},
	{"MOVED 3999 127.0.0.1:6381", LK_EREFUSED, "cluster"},
	{"ASK 3999 127.0.0.1:6381", LK_EREFUSED, "cluster"},
	{"CROSSSLOT Keys in request don't hash to the same slot", LK_EREFUSED, "cluster"},
	{"TRYAGAIN Multiple keys request during rehashing of slot", LK_EUNAVAILABLE, NULL},
	{"OOM command not allowed when used memory > 'maxmemory'.", LK_EREFUSED, NULL},
	{"NOPERM this user has no permissions to run the 'evalsha' command", LK_EDENIED, NULL},
	{"ERR wrong number of arguments for 'auth' command", LK_EAUTH, "no users"},
	{"ERR wrong number of arguments for 'get' command", LK_EMAYBEHELD, NULL},
	{"ERR unknown command 'DELEX', with args beginning with: ", LK_EDENIED, NULL},
	{"ERR unknown subcommand 'shardnumsub'. Try PUBSUB HELP.", LK_EDENIED, NULL},
	{"ERR Unknown subcommand or wrong number of arguments for 'shardnumsub'. Try PUBSUB HELP.",
	 LK_EDENIED, NULL},
	{"ERR Command is not available: 'WAITAOF'.", LK_EDENIED, NULL},
	{"ERR DB index is out of range", LK_EINVAL, NULL},
	{"ERR invalid database index.", LK_EINVAL, NULL},
	{"ERR SELECT is not allowed in cluster mode", LK_EINVAL, "redis-cluster://"},
	{"WRONGTYPE Operation against a key holding the wrong kind of value", LK_EWRONGTYPE, NULL},
	{"ERR WRONGTYPE Operation against a key holding the wrong kind of value", LK_EWRONGTYPE,
	 NULL},
	{"NOSCRIPT No matching script. Please use EVAL.", LK_EUNAVAILABLE, "forgotten the script"},
	{"LOCKKEEPER unfit: its Lua writes 1 as 1.0", LK_EREFUSED, "no Redis"},
	{"script:21 LOCKKEEPER unfit: its Lua writes 1 as 1.0", LK_EREFUSED, "no Redis"},
	{"script:", LK_EMAYBEHELD, NULL},
	{"interpreter disabled", LK_EDENIED, "no scripts"},
	{"LOCKKEEPER bad lease or deadline", LK_EINTERNAL, NULL},
	{"ERR NOSCRIPT No matching script. Please use EVAL.", LK_EUNAVAILABLE,
	 "forgotten the script"},
	{"WRONGTYPE Operation against a key holding the wrong kind of value script: "
	 "f_6b1bf486c81ceb7edf3c093f4c48582e38c0e791, on @user_script:1.",
	 LK_EWRONGTYPE, NULL},
	{IN_6 "@user_script:1: WRONGTYPE Operation against a key", LK_EWRONGTYPE, NULL},
	{IN_6 "@user_script:12: @user_script: 12: -OOM command not allowed when used memory > "
	      "'maxmemory'.",
	 LK_EREFUSED, NULL},
	{IN_6 "@user_script:3: @user_script: 3: -READONLY You can't write against a read only "
	      "replica.",
	 LK_EUNAVAILABLE, "replica"},
	{IN_6 "@user_script: 1: The user executing the script can't run this command or "
	      "subcommand ",
	 LK_EDENIED, NULL},
	{IN_6 "@user_script:7: user_script:7: attempt to index a nil value", LK_EMAYBEHELD, NULL},
	{"ERR Error running script", LK_EMAYBEHELD, NULL},
	{IN_6, LK_EMAYBEHELD, NULL},
	{IN_6 "@user_script", LK_EMAYBEHELD, NULL},
	{"ERR something else: -OOM", LK_EMAYBEHELD, NULL},
	{"", LK_EMAYBEHELD, NULL},
};

/* What a master that has become a replica says, inside of scripts too. */
static void test_refusals_of_replicas(void **state)
{
	static const struct {
		const char *text;
		bool replica;
	} said[] = {
		{"READONLY You can't write against a read only replica.", true},
		{"READONLY You can't write against a read only replica. script: "
		 "f_6b1bf486c81ceb7edf3c093f4c48582e38c0e791, on @user_script:1.",
		 true},
		{IN_6 "@user_script:3: @user_script: 3: -READONLY You can't write against a read "
		      "only replica.",
		 true},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		 true},
		{"LOADING Redis is loading the dataset in memory", false},
		{"ERR READONLY", false},
		{"", false},
	};
	for (size_t i = 0; i < COUNT(said); i++)
		assert_int_equal(lk__refusal(said[i].text).replica, said[i].replica);
}

static void test_refusals_that_pass(void **state)
{
	assert_true(lk__refusal("NOREPLICAS Not enough good replicas to write.").passes);
	assert_true(lk__refusal(IN_6 "@user_script:3: @user_script: 3: -NOREPLICAS Not "
				     "enough good replicas to write.")
			    .passes);
	assert_false(lk__refusal("OOM command not allowed when used memory > 'maxmemory'.").passes);
	assert_true(lk__refusal("MISCONF Redis is configured to save RDB snapshots.").passes);
	assert_false(lk__refusal("ERR NOREPLICAS").passes);
	assert_false(lk__refusal("").passes);
}

/* Only what a script alone can meet: anything else may be said by who is in between. */
static void test_errors_of_a_script_that_ran(void **state)
{
	assert_true(lk__refusal("ERR Unknown Redis command called from script script: "
				"58979fe84ca6c9aaff4f8b86d89341b02b65eab9, on "
				"@user_script:1.")
			    .ran);
	assert_true(lk__refusal(IN_6 "@user_script:7: user_script:7: attempt to index").ran);
	assert_false(lk__refusal("ERR Error running script").ran);
	assert_true(lk__refusal("ERR Unknown Redis command called from script").ran);
	assert_true(lk__refusal("ERR Unknown Redis command called from Lua script").ran);
	assert_false(lk__refusal("ERR unknown command 'HSET', with args beginning with: ").ran);
	assert_true(lk__refusal("ERR unknown command 'HSET', with args beginning with: ").unknown);
	assert_false(lk__refusal("ERR unknown subcommand 'HSET'").unknown);
	assert_false(lk__refusal("ERR upstream failure, script: unknown, on proxy").ran);
	assert_false(lk__refusal("").ran);
}

static void test_each_refusal(void **state)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct lk__refusal said = lk__refusal(rows[i].text);
		print_message("%s\n", rows[i].text);
		assert_int_equal(said.code, rows[i].code);
		if (rows[i].hint)
			assert_non_null(strstr(said.hint, rows[i].hint));
		else
			assert_string_equal(said.hint, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_refusal),
		cmocka_unit_test(test_refusals_of_replicas),
		cmocka_unit_test(test_refusals_that_pass),
		cmocka_unit_test(test_errors_of_a_script_that_ran),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
