/* The text of debug lines: of requests, of answers, of secrets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conf/config.h"
#include "conn/trace.h"

static char last[LK__LOG_LINE_MAX];

static void keep(void *context, int level, const char *line)
{
	assert_int_equal(level, LK_LOG_DEBUG);
	strcpy(last, line);
}

static char url[] = "redis://host:1/0";
static struct lk_config config = {.url = url, .log = {LK_LOG_DEBUG, keep, NULL, NULL}};
static struct lk__node node;
static struct lk__conn conn;

static int begin(void **state)
{
	memset(&node, 0, sizeof(node));
	memset(&conn, 0, sizeof(conn));
	node.config = &config;
	node.log = config.log;
	conn.node = &node;
	last[0] = 0;
	return 0;
}

static struct lk__request *words(size_t count, const char **argv)
{
	size_t sizes[8];
	for (size_t i = 0; i < count; i++)
		sizes[i] = strlen(argv[i]);
	return lk__request_new(count, argv, sizes);
}

static void test_a_password_is_never_shown(void **state)
{
	const char *auth[] = {"AUTH", "user", "password"};
	struct lk__request *request = words(3, auth);
	lk__trace_request(&conn, request);
	assert_string_equal(last, "redis://host:1/0 scripts/-1: > AUTH ***");
	lk__trace_words(&config, 3, auth);
	assert_string_equal(last, "redis://host:1/0 asks: AUTH ***");
	lk__request_free(request);
}

/* Not even what a server has made of it. */
static void test_a_hash_of_a_password_is_never_shown(void **state)
{
	struct lk__request *request = words(3, (const char *[]){"ACL", "GETUSER", "jobs"});
	char bytes[] = "5e884898da28";
	redisReply hash = {.type = REDIS_REPLY_STRING, .str = bytes, .len = 12};
	redisReply *one = &hash;
	redisReply user = {.type = REDIS_REPLY_ARRAY, .elements = 1, .element = &one};
	lk__trace_answer(&conn, request, &user);
	assert_null(strstr(last, "5e884898"));
	assert_non_null(strstr(last, "< *** in "));
	assert_non_null(strstr(last, " ms: ACL GETUSER jobs"));
	lk__request_free(request);
}

static void test_scripts_have_names(void **state)
{
	const struct lk__script *script = &lk__scripts[LK__SCRIPT_LOCK_ACQUIRE];
	const char *call[] = {"EVALSHA", script->sha1, "1", "a lock", ""};
	struct lk__request *request = words(5, call);
	struct lk__request *load = lk__request_new(3,
						   (const char *[]){"SCRIPT", "LOAD", script->text},
						   (size_t[]){6, 4, script->size});
	request->sends = 2;
	lk__trace_request(&conn, request);
	assert_string_equal(last, "redis://host:1/0 scripts/-1: > again: "
				  "EVALSHA lock_acquire 1 \"a lock\" \"\"");
	lk__trace_request(&conn, load);
	assert_string_equal(last, "redis://host:1/0 scripts/-1: > SCRIPT LOAD lock_acquire");
	lk__request_free(request);
	lk__request_free(load);
}

/* Long words are cut, and so is the line; what is asked stands behind each answer. */
static void test_answers_are_whole_or_cut(void **state)
{
	char much[3000], many[40][200];
	memset(much, 'x', sizeof(much) - 1);
	much[sizeof(much) - 1] = 0;
	struct lk__request *request = words(2, (const char *[]){"GET", much});
	redisReply text = {.type = REDIS_REPLY_STRING, .str = much, .len = 2999};
	lk__trace_answer(&conn, request, &text);
	assert_non_null(strstr(last, "xx...(2999 bytes) in "));
	assert_non_null(strstr(last, " ms: GET xxx"));
	redisReply parts[40], *each[40];
	for (size_t i = 0; i < 40; i++) {
		memset(many[i], 'y', sizeof(many[i]));
		parts[i] = (redisReply){
			.type = REDIS_REPLY_STRING, .str = many[i], .len = sizeof(many[i])};
		each[i] = &parts[i];
	}
	redisReply array = {.type = REDIS_REPLY_ARRAY, .elements = 40, .element = each};
	lk__trace_answer(&conn, request, &array);
	assert_in_range(strlen(last), 500, LK__LOG_LINE_MAX - 1);
	assert_non_null(strstr(last, " ms: GET xxx"));
	lk__request_free(request);
}

static void test_nothing_is_made_below_the_level(void **state)
{
	struct lk__request *request = words(1, (const char *[]){"PING"});
	node.log.level = LK_LOG_INFO;
	lk__trace_request(&conn, request);
	assert_string_equal(last, "");
	lk__request_free(request);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_password_is_never_shown, begin),
		cmocka_unit_test_setup(test_a_hash_of_a_password_is_never_shown, begin),
		cmocka_unit_test_setup(test_scripts_have_names, begin),
		cmocka_unit_test_setup(test_answers_are_whole_or_cut, begin),
		cmocka_unit_test_setup(test_nothing_is_made_below_the_level, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
