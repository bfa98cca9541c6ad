/*
 * Holds the simulated server (commands.h) against a real one: both get the same random commands and
 * scripts of the library, and must give the same answers and messages, and have the same keys in
 * the end.
 *
 * usage: test_model [SEED [COMMANDS]], or the commands by LOCKKEEPER_MODEL_COMMANDS
 *
 * The simulated clock is set to the real server's before each command. The two run a little apart:
 * numbers that are times may differ by as much as the slowest command took. A key whose time ends
 * soon is waited for, so that it is over for both.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <hiredis/hiredis.h>

#include "../harness/server.h" /* not the simulated one */
#include "check.h"
#include "commands.h"
#include "words.h"

#define COMMANDS 10000
#define ROUND 150    /* commands over the same keys */
#define SOON_MS 1000 /* a key that ends earlier is waited for */
#define LISTENERS 2
#define ANSWER_S 30
#define SHOWN 400 /* bytes of an answer that differs */

/* A connection to both. */
struct peer {
	redisContext *real;
	struct lk__buffer heard; /* what the simulated server has said to it */
	redisReader *reader;
};

static struct server server;
static struct sim_redis model;
static struct peer asker, listeners[LISTENERS];
static struct order order;
static int64_t slack_us; /* how far the clocks are apart at most */
static uint64_t random_state;
static long done;
static long budget = COMMANDS;
static uint64_t seed = 1;
static bool had_choice; /* the model took the first field of several, a real server any */
static long parted_rounds;
static bool parted; /* they took another: the round is over */

static void tell(void *listener, const void *bytes, size_t size)
{
	lk__buffer_append(&((struct peer *)listener)->heard, bytes, size);
}

static uint64_t first(uint64_t below)
{
	had_choice |= below > 1;
	return 0;
}

/* ---- how answers are compared ---- */

/* The run of digits at `at`, as a number, and where it ends. */
static const char *digits(const char *at, const char *end, double *number)
{
	*number = 0;
	while (at < end && *at >= '0' && *at <= '9')
		*number = *number * 10 + (*at++ - '0');
	return at;
}

/* Times in us since 1970, in ms since 1970, and what is left of a time to live. */
static bool same_number(double left, double right)
{
	double apart = left < right ? right - left : left - right;
	double slack_ms = (double)slack_us / 1000 + 2;
	if (apart == 0 || (left > 1e15 && apart <= (double)slack_us))
		return true;
	return left > SOON_MS && left < 1e15 && apart <= slack_ms;
}

static bool same_text(const char *left, size_t left_size, const char *right, size_t right_size)
{
	const char *left_end = left + left_size, *right_end = right + right_size;
	while (left < left_end && right < right_end) {
		double numbers[2];
		const char *left_next = digits(left, left_end, &numbers[0]);
		const char *right_next = digits(right, right_end, &numbers[1]);
		if (left_next == left && right_next == right) {
			if (*left++ != *right++)
				return false;
			continue;
		}
		if (!same_number(numbers[0], numbers[1]))
			return false;
		left = left_next;
		right = right_next;
	}
	return left == left_end && right == right_end;
}

/* Redis 8 writes a large score without an exponent. */
static bool same_score(const redisReply *left, const redisReply *right)
{
	char *left_end, *right_end;
	double left_score = strtod(left->str, &left_end);
	double right_score = strtod(right->str, &right_end);
	return left_end == left->str + left->len && right_end == right->str + right->len &&
	       left->len > 0 && right->len > 0 && left_score == right_score;
}

static int by_text(const void *left, const void *right)
{
	return strcmp((*(redisReply *const *)left)->str, (*(redisReply *const *)right)->str);
}

/* Fields and members, each with its value or its score behind it. */
static void sort_pairs(redisReply *reply)
{
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
	    reply->element[1]->type == REDIS_REPLY_ARRAY)
		reply = reply->element[1]; /* a page */
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0)
		qsort(reply->element, reply->elements / 2, 2 * sizeof(*reply->element), by_text);
}

/* Of errors the prefix and the text up to where the script's name stands. */
static size_t told(const redisReply *reply)
{
	const char *end = strstr(reply->str, " script: ");
	return end && reply->type == REDIS_REPLY_ERROR ? (size_t)(end - reply->str) : reply->len;
}

static bool same(const redisReply *left, const redisReply *right)
{
	if (left->type != right->type)
		return false;
	switch (left->type) {
	case REDIS_REPLY_INTEGER:
		return left->integer < 0 || right->integer < 0
			       ? left->integer == right->integer
			       : same_number((double)left->integer, (double)right->integer);
	case REDIS_REPLY_NIL:
		return true;
	case REDIS_REPLY_ARRAY:
		for (size_t i = 0; i < left->elements && left->elements == right->elements; i++)
			if (!same(left->element[i], right->element[i]))
				return false;
		return left->elements == right->elements;
	default:
		return same_text(left->str, told(left), right->str, told(right)) ||
		       same_score(left, right);
	}
}

/* ---- what is shown of a difference ---- */

__attribute__((format(printf, 2, 3))) static void add(char *text, const char *format, ...)
{
	size_t used = strlen(text);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text + used, SHOWN - used, format, arguments);
	va_end(arguments);
}

static void show(char *text, const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_INTEGER)
		add(text, "%lld ", reply->integer);
	else if (reply->type == REDIS_REPLY_NIL)
		add(text, "nil ");
	else if (reply->type != REDIS_REPLY_ARRAY)
		add(text, "\"%s\" ", reply->str);
	else
		add(text, "( ");
	for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
		show(text, reply->element[i]);
	if (reply->type == REDIS_REPLY_ARRAY)
		add(text, ") ");
}

static void show_order(char *text)
{
	bool script = strcmp(order.words[0], "EVALSHA") == 0;
	for (size_t i = 0; i < order.count; i++)
		add(text, "%s ",
		    script && i == 1 ? sim_script_name(sim_script_of_sha1(
					       (struct sim_word){order.words[1], order.sizes[1]}))
				     : order.words[i]);
}

static void differ(const char *what, const redisReply *real, const redisReply *modelled)
{
	char texts[3][SHOWN] = {"", "", ""};
	show(texts[0], real);
	show(texts[1], modelled);
	show_order(texts[2]);
	fail_msg("seed %llu, command %ld, %s\n  %s\n  real:  %s\n  model: %s",
		 (unsigned long long)seed, done, what, texts[2], texts[0], texts[1]);
}

/* ---- a connection ---- */

static void peer_begin(struct peer *peer)
{
	struct timeval limit = {ANSWER_S, 0};
	peer->real = redisConnectUnix(server.socket);
	assert_true(peer->real && !peer->real->err);
	redisSetTimeout(peer->real, limit);
	peer->reader = redisReaderCreate();
}

static void peer_end(struct peer *peer)
{
	redisFree(peer->real);
	redisReaderFree(peer->reader);
	lk__buffer_free(&peer->heard);
}

static redisReply *real_answer(const struct peer *peer)
{
	void *reply = NULL;
	if (redisGetReply(peer->real, &reply) != REDIS_OK)
		fail_msg("seed %llu, command %ld: the real server says nothing: %s",
			 (unsigned long long)seed, done, peer->real->errstr);
	return reply;
}

/* What the simulated server has said next; NULL: nothing more. */
static redisReply *modelled_answer(struct peer *peer)
{
	void *reply = NULL;
	struct lk__buffer *heard = &peer->heard;
	redisReaderFeed(peer->reader, lk__buffer_front(heard), lk__buffer_size(heard));
	lk__buffer_take(heard, lk__buffer_size(heard));
	assert_int_equal(redisReaderGetReply(peer->reader, &reply), REDIS_OK);
	return reply;
}

static void compare(const char *what, redisReply *real, redisReply *modelled, bool unordered)
{
	if (unordered) {
		sort_pairs(real);
		sort_pairs(modelled);
	}
	if (!same(real, modelled))
		differ(what, real, modelled);
	freeReplyObject(real);
	freeReplyObject(modelled);
}

/* All that was said to a listener, in the same order. */
static void compare_heard(struct peer *listener)
{
	redisReply *modelled;
	while ((modelled = modelled_answer(listener)) != NULL)
		compare("a listener hears", real_answer(listener), modelled, false);
}

/* ---- commands ---- */

static int64_t time_of(redisReply *reply)
{
	int64_t us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
		     strtoll(reply->element[1]->str, NULL, 10);
	freeReplyObject(reply);
	return us;
}

static void ask_model(struct peer *peer)
{
	struct sim_word words[ORDER_WORDS];
	struct sim_asked asked = {&model, peer, &peer->heard, order.count, words};
	for (size_t i = 0; i < order.count; i++)
		words[i] = (struct sim_word){order.words[i], order.sizes[i]};
	sim_command_run(&asked);
}

static int64_t ask_time(void)
{
	redisAppendCommand(asker.real, "TIME");
	return time_of(real_answer(&asker));
}

/* The time before and behind it tells how far the clocks may be apart. */
static void ask(struct peer *peer)
{
	int64_t begun_us = ask_time();
	model.keys.now_us = begun_us;
	redisAppendCommandArgv(peer->real, (int)order.count, order.words, order.sizes);
	redisReply *real = peer == &asker ? real_answer(peer) : NULL;
	int64_t took_us = ask_time() - begun_us;
	if (took_us > slack_us)
		slack_us = took_us;
	had_choice = false;
	ask_model(peer);
	redisReply *modelled = real ? modelled_answer(peer) : NULL;
	parted = real && had_choice && !same(real, modelled);
	if (parted) {
		freeReplyObject(real);
		freeReplyObject(modelled);
	} else if (real)
		compare("the answer", real, modelled, order.unordered);
	else
		compare_heard(peer);
}

static void say(struct peer *peer, size_t count, const char *const *words)
{
	order.count = count;
	order.unordered = false;
	for (size_t i = 0; i < count; i++) {
		order.words[i] = words[i];
		order.sizes[i] = strlen(words[i]);
	}
	ask(peer);
}

#define SAY(peer, ...)                                                                             \
	say((peer), sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                        \
	    (const char *[]){__VA_ARGS__})

/* In how many ms the latest of what ends soon is over; below zero, nothing does. Members of sorted
 * sets may end by themselves: their scores are times. */
static int64_t soon_ms(void)
{
	int64_t now_ms = sim_keys_now_ms(&model.keys), latest_ms = -1;
	for (const struct sim_key *key = model.keys.table; key; key = key->hh.next) {
		int64_t rest_ms = key->expires_ms == SIM_KEPT ? -1 : key->expires_ms - now_ms;
		if (rest_ms < SOON_MS && rest_ms > latest_ms)
			latest_ms = rest_ms;
		for (size_t i = 0; key->type == SIM_ZSET && i < key->count; i++) {
			double left_ms = key->items[i].score - (double)now_ms;
			if (left_ms < SOON_MS && left_ms > (double)latest_ms)
				latest_ms = (int64_t)left_ms;
		}
	}
	return latest_ms;
}

/* Waits for the end of what ends soon: for both servers it is over. */
static void wait_for_ends(void)
{
	int64_t rest_ms = soon_ms();
	if (rest_ms < 0)
		return;
	int64_t until_us = model.keys.now_us + rest_ms * 1000 + slack_us + 2000;
	while (ask_time() < until_us)
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	model.keys.now_us = until_us;
	model.keys.swept_ms = 0;
	sim_keys_sweep(&model.keys);
}

/* ---- keys ---- */

static void compare_key(const struct sim_key *key)
{
	static const char *const asks[][4] = {[SIM_STRING] = {"GET", NULL},
					      [SIM_LIST] = {"LRANGE", "0", "-1"},
					      [SIM_HASH] = {"HGETALL", NULL},
					      [SIM_ZSET] = {"ZRANGE", "0", "-1", "WITHSCORES"}};
	const char *const *words = asks[key->type];
	static char name[256];
	snprintf(name, sizeof(name), "%s", key->name);
	SAY(&asker, "TYPE", name);
	SAY(&asker, "PTTL", name);
	order.count = 0;
	order.words[order.count++] = words[0];
	order.words[order.count++] = name;
	for (size_t i = 1; i < 4 && words[i]; i++)
		order.words[order.count++] = words[i];
	for (size_t i = 0; i < order.count; i++)
		order.sizes[i] = strlen(order.words[i]);
	order.unordered = key->type == SIM_HASH || key->type == SIM_ZSET;
	ask(&asker);
}

static void compare_keys(void)
{
	const struct sim_key *key, *next;
	for (key = model.keys.table; key; key = next) {
		next = key->hh.next;
		compare_key(key);
	}
	redisAppendCommand(asker.real, "KEYS *"); /* DBSIZE counts those whose time is over */
	redisReply *names = real_answer(&asker);
	if (names->elements != HASH_COUNT(model.keys.table))
		fail_msg("seed %llu, command %ld: %zu keys are there, and %u in the model",
			 (unsigned long long)seed, done, names->elements,
			 HASH_COUNT(model.keys.table));
	freeReplyObject(names);
}

/* ---- a run ---- */

static void load_scripts(void)
{
	static const struct lk__script *const tables[] = {lk__scripts, lk__scripts_sharded,
							  lk__scripts_both};
	for (size_t i = 0; i < 3; i++)
		for (int j = 0; j < LK__SCRIPT_COUNT; j++)
			if (tables[i][j].text)
				SAY(&asker, "SCRIPT", "LOAD", tables[i][j].text);
}

static void step(void)
{
	order_draw(&order, &random_state, ask_time());
	ask(order.listens ? &listeners[order_random(&random_state, LISTENERS)] : &asker);
	done++;
	wait_for_ends();
}

static void round_of_commands(void)
{
	SAY(&asker, "FLUSHALL");
	for (size_t i = 0; i < LISTENERS; i++)
		peer_begin(&listeners[i]);
	for (int i = 0; i < ROUND && done < budget && !parted; i++)
		step();
	bool whole = !parted;
	for (size_t i = 0; i < LISTENERS; i++) {
		if (whole)
			SAY(&listeners[i], "SUBSCRIBE", "the end");
		sim_channels_leave_all(&model.channels, &listeners[i]);
		peer_end(&listeners[i]);
	}
	if (whole)
		compare_keys();
	else
		parted_rounds++;
}

static void test_same_answers_and_keys(void **state)
{
	server_start(&server, NULL);
	peer_begin(&asker);
	model = (struct sim_redis){.tell = tell, .random = first};
	random_state = seed;
	load_scripts();
	while (done < budget)
		round_of_commands();
	print_message("rounds that ended at another field of a hash: %ld\n", parted_rounds);
	sim_keys_clear(&model.keys);
	sim_channels_clear(&model.channels);
	peer_end(&asker);
	server_stop(&server);
}

static void test_each_script_is_asked(void **state)
{
	if (order_missing())
		fail_msg("tests/sim/orders.def has no row for %s", order_missing());
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_script_is_asked),
		cmocka_unit_test(test_same_answers_and_keys),
	};
	const char *commands = getenv("LOCKKEEPER_MODEL_COMMANDS");
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		commands = argv[2];
	if (commands)
		budget = strtol(commands, NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
