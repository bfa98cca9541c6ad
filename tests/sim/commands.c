#include "commands.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands_inside.h"
#include "resp.h"

#define NAME_MAX_SIZE 32
#define KEYS_MAX 64 /* that one command changes, of a server with replicas */

/* ---- arguments ---- */

bool sim_read_integer(struct sim_word word, int64_t *number_out)
{
	char text[32], again[32];
	if (word.size == 0 || word.size >= sizeof(text))
		return false;
	memcpy(text, word.bytes, word.size);
	text[word.size] = '\0';
	int64_t number = strtoll(text, NULL, 10);
	snprintf(again, sizeof(again), "%" PRId64, number);
	if (strcmp(text, again) != 0)
		return false;
	*number_out = number;
	return true;
}

bool sim_read_score(struct sim_word word, double *score_out)
{
	char text[128], *end;
	if (word.size == 0 || word.size >= sizeof(text) || isspace((unsigned char)word.bytes[0]))
		return false;
	memcpy(text, word.bytes, word.size);
	text[word.size] = '\0';
	*score_out = strtod(text, &end);
	return end == text + word.size && !isnan(*score_out);
}

bool sim_integer_at(const struct sim_asked *asked, size_t at, int64_t *number_out)
{
	if (sim_read_integer(asked->words[at], number_out))
		return true;
	sim_say_error(asked->out, SIM_NOT_INTEGER);
	return false;
}

bool sim_key_of(const struct sim_asked *asked, enum sim_type type, struct sim_key **key_out)
{
	*key_out = sim_key_find(&asked->redis->keys, asked->words[1]);
	if (!*key_out || (*key_out)->type == type)
		return true;
	sim_say_error(asked->out, SIM_WRONG_TYPE);
	return false;
}

struct sim_key *sim_key_for(const struct sim_asked *asked, enum sim_type type)
{
	struct sim_key *key;
	if (!sim_key_of(asked, type, &key))
		return NULL;
	return key ? key : sim_key_make(&asked->redis->keys, asked->words[1], type);
}

static struct sim_word string_of(const struct sim_key *key)
{
	return (struct sim_word){key->items[0].bytes, key->items[0].size};
}

/* ---- keys ---- */

static void do_del(const struct sim_asked *asked)
{
	struct sim_keys *keys = &asked->redis->keys;
	int64_t removed = 0;
	for (size_t i = 1; i < asked->count; i++) {
		struct sim_key *key = sim_key_find(keys, asked->words[i]);
		removed += key != NULL;
		if (key)
			sim_key_drop(keys, key);
	}
	sim_say_integer(asked->out, removed);
}

static void do_exists(const struct sim_asked *asked)
{
	int64_t count = 0;
	for (size_t i = 1; i < asked->count; i++)
		count += sim_key_find(&asked->redis->keys, asked->words[i]) != NULL;
	sim_say_integer(asked->out, count);
}

static void do_type(const struct sim_asked *asked)
{
	static const char *const names[] = {[SIM_STRING] = "string",
					    [SIM_LIST] = "list",
					    [SIM_HASH] = "hash",
					    [SIM_ZSET] = "zset"};
	const struct sim_key *key = sim_key_find(&asked->redis->keys, asked->words[1]);
	sim_say_status(asked->out, key ? names[key->type] : "none");
}

static void do_pttl(const struct sim_asked *asked)
{
	const struct sim_keys *keys = &asked->redis->keys;
	const struct sim_key *key = sim_key_find(&asked->redis->keys, asked->words[1]);
	if (!key)
		sim_say_integer(asked->out, -2);
	else if (key->expires_ms == SIM_KEPT)
		sim_say_integer(asked->out, -1);
	else
		sim_say_integer(asked->out, key->expires_ms - sim_keys_now_ms(keys));
}

/* A time that is over takes the key. */
static void expire_at(const struct sim_asked *asked, int64_t at_ms)
{
	struct sim_keys *keys = &asked->redis->keys;
	struct sim_key *key = sim_key_find(keys, asked->words[1]);
	if (key && at_ms <= sim_keys_now_ms(keys))
		sim_key_drop(keys, key);
	else if (key)
		key->expires_ms = at_ms;
	sim_say_integer(asked->out, key != NULL);
}

static void do_pexpire(const struct sim_asked *asked)
{
	int64_t time_ms, now_ms = sim_keys_now_ms(&asked->redis->keys);
	if (!sim_integer_at(asked, 2, &time_ms))
		return;
	if (time_ms > INT64_MAX - now_ms)
		sim_say_error(asked->out, "ERR invalid expire time in 'pexpire' command");
	else
		expire_at(asked, now_ms + time_ms);
}

static void do_pexpireat(const struct sim_asked *asked)
{
	int64_t at_ms;
	if (sim_integer_at(asked, 2, &at_ms))
		expire_at(asked, at_ms);
}

/* ---- strings ---- */

static void do_get(const struct sim_asked *asked)
{
	struct sim_key *key;
	if (!sim_key_of(asked, SIM_STRING, &key))
		return;
	if (key)
		sim_say_bulk(asked->out, string_of(key));
	else
		sim_say_nil(asked->out);
}

static void do_getrange(const struct sim_asked *asked)
{
	struct sim_key *key;
	int64_t first, last;
	if (!sim_integer_at(asked, 2, &first) || !sim_integer_at(asked, 3, &last) ||
	    !sim_key_of(asked, SIM_STRING, &key))
		return;
	struct sim_word all = key ? string_of(key) : sim_word("");
	int64_t size = (int64_t)all.size;
	bool is_none = first < 0 && last < 0 && first > last;
	first = first < 0 ? (first + size < 0 ? 0 : first + size) : first;
	last = last < 0 ? (last + size < 0 ? 0 : last + size) : last;
	last = last < size ? last : size - 1;
	if (is_none || first > last)
		sim_say_bulk(asked->out, sim_word(""));
	else
		sim_say_bulk(asked->out,
			     (struct sim_word){all.bytes + first, (size_t)(last - first + 1)});
}

struct setting {
	bool only_new, only_there;
	int64_t time_ms; /* 0: for ever */
};

/* False: it says why. */
static bool read_setting(const struct sim_asked *asked, struct setting *how)
{
	*how = (struct setting){.only_new = false};
	for (size_t i = 3; i < asked->count; i++) {
		struct sim_word word = asked->words[i];
		if (sim_word_is(word, "NX") && !how->only_there) {
			how->only_new = true;
		} else if (sim_word_is(word, "XX") && !how->only_new) {
			how->only_there = true;
		} else if (sim_word_is(word, "PX") && i + 1 < asked->count && !how->time_ms) {
			if (!sim_integer_at(asked, ++i, &how->time_ms))
				return false;
			if (how->time_ms <= 0 ||
			    how->time_ms > INT64_MAX - sim_keys_now_ms(&asked->redis->keys)) {
				sim_say_error(asked->out,
					      "ERR invalid expire time in 'set' command");
				return false;
			}
		} else {
			sim_say_error(asked->out, SIM_SYNTAX);
			return false;
		}
	}
	return true;
}

static void do_set(const struct sim_asked *asked)
{
	struct sim_keys *keys = &asked->redis->keys;
	struct setting how;
	if (!read_setting(asked, &how))
		return;
	struct sim_key *key = sim_key_find(keys, asked->words[1]);
	if (key ? how.only_new : how.only_there) {
		sim_say_nil(asked->out);
		return;
	}
	if (key)
		sim_key_drop(keys, key);
	key = sim_key_make(keys, asked->words[1], SIM_STRING);
	sim_item_insert(keys, key, 0, asked->words[2], SIM_NO_VALUE);
	if (how.time_ms)
		key->expires_ms = sim_keys_now_ms(keys) + how.time_ms;
	sim_say_status(asked->out, "OK");
}

static void add(const struct sim_asked *asked, int64_t change)
{
	struct sim_key *key;
	char text[32];
	int64_t sum = 0;
	if (!sim_key_of(asked, SIM_STRING, &key))
		return;
	if (key && !sim_read_integer(string_of(key), &sum)) {
		sim_say_error(asked->out, SIM_NOT_INTEGER);
		return;
	}
	if (__builtin_add_overflow(sum, change, &sum)) {
		sim_say_error(asked->out, "ERR increment or decrement would overflow");
		return;
	}
	snprintf(text, sizeof(text), "%" PRId64, sum);
	if (key) {
		sim_item_set_bytes(&key->items[0], sim_word(text));
	} else {
		key = sim_key_for(asked, SIM_STRING);
		sim_item_insert(&asked->redis->keys, key, 0, sim_word(text), SIM_NO_VALUE);
	}
	sim_say_integer(asked->out, sum);
}

/* INCRBY, DECRBY */
static void do_add(const struct sim_asked *asked)
{
	bool less = sim_word_is(asked->words[0], "DECRBY");
	int64_t change;
	if (!sim_integer_at(asked, 2, &change))
		return;
	if (less && change == INT64_MIN)
		sim_say_error(asked->out, "ERR decrement would overflow");
	else
		add(asked, less ? -change : change);
}

/* ---- channels ---- */

static bool is_sharded(const struct sim_asked *asked)
{
	return tolower((unsigned char)asked->words[0].bytes[0]) == 's' &&
	       !sim_word_is(asked->words[0], "SUBSCRIBE");
}

/* SUBSCRIBE, UNSUBSCRIBE, SSUBSCRIBE, SUNSUBSCRIBE */
static void do_listen(const struct sim_asked *asked)
{
	static const char *const verbs[2][2] = {{"unsubscribe", "subscribe"},
						{"sunsubscribe", "ssubscribe"}};
	struct sim_channels *channels = &asked->redis->channels;
	bool sharded = is_sharded(asked);
	bool on = sim_word_is(asked->words[0], verbs[sharded][true]);
	for (size_t i = 1; i < asked->count; i++) {
		if (on)
			sim_channels_join(channels, asked->listener, sharded, asked->words[i]);
		else
			sim_channels_leave(channels, asked->listener, sharded, asked->words[i]);
		sim_say_array(asked->out, 3);
		sim_say_bulk(asked->out, sim_word(verbs[sharded][on]));
		sim_say_bulk(asked->out, asked->words[i]);
		sim_say_integer(asked->out,
				(int64_t)sim_channels_of(channels, asked->listener, sharded));
	}
}

/* PUBLISH, SPUBLISH */
static void do_publish(const struct sim_asked *asked)
{
	size_t heard = sim_channels_publish(&asked->redis->channels, is_sharded(asked),
					    asked->words[1], asked->words[2], asked->redis->tell);
	sim_say_integer(asked->out, (int64_t)heard);
	if (asked->redis->clustered && !is_sharded(asked))
		asked->redis->clustered->published(asked->redis, asked->words[1], asked->words[2]);
}

/* NUMSUB and SHARDNUMSUB */
static void do_pubsub(const struct sim_asked *asked)
{
	bool sharded = sim_word_is(asked->words[1], "SHARDNUMSUB");
	sim_say_array(asked->out, 2 * (asked->count - 2));
	for (size_t i = 2; i < asked->count; i++) {
		sim_say_bulk(asked->out, asked->words[i]);
		sim_say_integer(asked->out,
				(int64_t)sim_channels_listeners(&asked->redis->channels, sharded,
								asked->words[i]));
	}
}

/* ---- scripts ---- */

static void do_evalsha(const struct sim_asked *asked)
{
	int64_t keys;
	int script = sim_script_of_sha1(asked->words[1]);
	if (!sim_integer_at(asked, 2, &keys))
		return;
	if (keys > (int64_t)asked->count - 3)
		sim_say_error(asked->out,
			      "ERR Number of keys can't be greater than number of args");
	else if (keys < 0)
		sim_say_error(asked->out, "ERR Number of keys can't be negative");
	else if (script < 0 || !asked->redis->loaded[script])
		sim_say_error(asked->out, "NOSCRIPT No matching script. Please use EVAL.");
	else
		sim_script_run(asked, script, (size_t)keys);
}

static void script_load(const struct sim_asked *asked)
{
	int script = asked->count > 2 ? sim_script_of_text(asked->words[2]) : -1;
	if (script < 0) {
		sim_say_error(asked->out, "ERR the simulated server runs only our scripts");
		return;
	}
	asked->redis->loaded[script] = true;
	sim_say_bulk(asked->out, sim_word(sim_script_sha1(script)));
}

static void do_script(const struct sim_asked *asked)
{
	if (sim_word_is(asked->words[1], "LOAD")) {
		script_load(asked);
	} else if (sim_word_is(asked->words[1], "FLUSH")) {
		memset(asked->redis->loaded, 0, sizeof(asked->redis->loaded));
		sim_say_status(asked->out, "OK");
	} else {
		sim_say_array(asked->out, asked->count - 2);
		for (size_t i = 2; i < asked->count; i++) {
			int script = sim_script_of_sha1(asked->words[i]);
			sim_say_integer(asked->out, script >= 0 && asked->redis->loaded[script]);
		}
	}
}

/* ---- the server ---- */

static void do_time(const struct sim_asked *asked)
{
	int64_t parts[] = {asked->redis->keys.now_us / 1000000,
			   asked->redis->keys.now_us % 1000000};
	char text[24];
	sim_say_array(asked->out, 2);
	for (size_t i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), "%" PRId64, parts[i]);
		sim_say_bulk(asked->out, sim_word(text));
	}
}

static void info_replication(const struct sim_redis *redis, char *text, size_t size)
{
	const struct sim_replicated *replicated = redis->replicated;
	if (replicated)
		snprintf(text, size,
			 "# Replication\r\nrole:%s\r\nmaster_replid:%s\r\n"
			 "master_replid2:%s\r\n",
			 replicated->read_only ? "slave" : "master", replicated->history,
			 replicated->before);
	else
		snprintf(text, size,
			 "# Replication\r\nrole:master\r\nmaster_replid:%08x%032x\r\n"
			 "master_replid2:%040d\r\n",
			 redis->number, redis->starts, 0);
}

static void do_role(const struct sim_asked *asked)
{
	if (asked->redis->replicated) {
		asked->redis->replicated->say_role(asked);
		return;
	}
	sim_say_array(asked->out, 3);
	sim_say_bulk(asked->out, sim_word("master"));
	sim_say_integer(asked->out, 0);
	sim_say_array(asked->out, 0);
}

static void do_sentinel(const struct sim_asked *asked)
{
	if (asked->redis->say_sentinel)
		asked->redis->say_sentinel(asked);
	else
		sim_say_error(asked->out, "ERR unknown command 'sentinel'");
}

static void do_cluster(const struct sim_asked *asked)
{
	if (asked->redis->clustered)
		asked->redis->clustered->say(asked);
	else
		sim_say_error(asked->out, "ERR This instance has cluster support disabled");
}

/* Both ends of the time that it runs are cut to whole seconds. */
static void do_info(const struct sim_asked *asked)
{
	const struct sim_redis *redis = asked->redis;
	char text[400];
	if (asked->count > 1 && sim_word_is(asked->words[1], "server"))
		snprintf(text, sizeof(text),
			 "# Server\r\nredis_version:7.2.4\r\nredis_mode:standalone\r\n"
			 "run_id:%08x%032x\r\nuptime_in_seconds:%" PRId64 "\r\n",
			 redis->number, redis->starts,
			 redis->keys.now_us / 1000000 - redis->started_us / 1000000);
	else if (asked->count > 1 && sim_word_is(asked->words[1], "persistence"))
		snprintf(text, sizeof(text), "# Persistence\r\nloading:0\r\naof_enabled:%d\r\n",
			 redis->durable);
	else
		info_replication(redis, text, sizeof(text));
	sim_say_bulk(asked->out, sim_word(text));
}

/* CONFIG GET appendfsync */
static void do_config(const struct sim_asked *asked)
{
	bool known = asked->count == 3 && sim_word_is(asked->words[1], "GET") &&
		     sim_word_is(asked->words[2], "appendfsync");
	sim_say_array(asked->out, known ? 2 : 0);
	if (!known)
		return;
	sim_say_bulk(asked->out, sim_word("appendfsync"));
	sim_say_bulk(asked->out, sim_word(asked->redis->durable ? "always" : "everysec"));
}

static void do_ok(const struct sim_asked *asked)
{
	sim_say_status(asked->out, "OK");
}

static void do_hello(const struct sim_asked *asked)
{
	sim_say_array(asked->out, 2);
	sim_say_bulk(asked->out, sim_word("id"));
	sim_say_integer(asked->out, 1);
}

static bool listens(const struct sim_asked *asked)
{
	const struct sim_channels *channels = &asked->redis->channels;
	return asked->listener && (sim_channels_of(channels, asked->listener, false) > 0 ||
				   sim_channels_of(channels, asked->listener, true) > 0);
}

static void do_ping(const struct sim_asked *asked)
{
	if (!listens(asked)) {
		sim_say_status(asked->out, "PONG");
		return;
	}
	sim_say_array(asked->out, 2);
	sim_say_bulk(asked->out, sim_word("pong"));
	sim_say_bulk(asked->out, sim_word(""));
}

static void do_flushall(const struct sim_asked *asked)
{
	sim_keys_clear(&asked->redis->keys);
	sim_say_status(asked->out, "OK");
}

/* ---- the table ---- */

enum {
	NO_SCRIPT = 1, /* no script may call it */
	LISTENING = 2, /* who listens may send it */
	WRITE = 4,     /* it may change the key that it names first; DEL, all that it names */
	AGAIN = 12,    /* the same, and to put what is there already is a change */
	GROWS = 16,    /* it needs memory */
	KEYLESS = 32,  /* its first word is no key */
	KEYS = 64,     /* all its words are keys, or channels of shards */
};

/* `words`: with the name; below zero, so many at least. */
static const struct command {
	const char *name;
	int words;
	unsigned flags;
	void (*run)(const struct sim_asked *asked);
} commands[] = {
	{"EVALSHA", -3, NO_SCRIPT, do_evalsha},
	{"PTTL", 2, 0, do_pttl},
	{"PEXPIRE", 3, AGAIN, do_pexpire},
	{"HEXISTS", 3, 0, sim_do_hexists},
	{"TIME", 1, KEYLESS, do_time},
	{"EXISTS", -2, KEYS, do_exists},
	{"PUBSUB", -2, KEYLESS, do_pubsub},
	{"PUBLISH", 3, KEYLESS, do_publish},
	{"ZADD", -4, WRITE | GROWS, sim_do_zadd},
	{"ZCARD", 2, 0, sim_do_zcard},
	{"ZRANGEBYSCORE", -4, 0, sim_do_zrangebyscore},
	{"ZREM", -3, WRITE, sim_do_zrem},
	{"HSET", -4, AGAIN | GROWS, sim_do_hset},
	{"HDEL", -3, WRITE, sim_do_hdel},
	{"HRANDFIELD", -2, 0, sim_do_hrandfield},
	{"DEL", -2, WRITE | KEYS, do_del},
	{"TYPE", 2, 0, do_type},
	{"GET", 2, 0, do_get},
	{"GETRANGE", 4, 0, do_getrange},
	{"SET", -3, AGAIN | GROWS, do_set},
	{"INCRBY", 3, AGAIN | GROWS, do_add},
	{"DECRBY", 3, AGAIN | GROWS, do_add},
	{"PEXPIREAT", 3, AGAIN, do_pexpireat},
	{"HGET", 3, 0, sim_do_hget},
	{"HLEN", 2, 0, sim_do_hlen},
	{"HGETALL", 2, 0, sim_do_hgetall},
	{"HSCAN", -3, 0, sim_do_hscan},
	{"LPUSH", -3, WRITE | GROWS, sim_do_push},
	{"RPUSH", -3, WRITE | GROWS, sim_do_push},
	{"LPOP", 2, WRITE, sim_do_lpop},
	{"LLEN", 2, 0, sim_do_llen},
	{"LINDEX", 3, 0, sim_do_lindex},
	{"LRANGE", 4, 0, sim_do_lrange},
	{"LREM", 4, WRITE, sim_do_lrem},
	{"ZSCORE", 3, 0, sim_do_zscore},
	{"ZRANGE", -4, 0, sim_do_zrange},
	{"ZREVRANGE", -4, 0, sim_do_zrange},
	{"ZCOUNT", 4, 0, sim_do_zcount},
	{"ZREMRANGEBYSCORE", 4, WRITE, sim_do_zremrangebyscore},
	{"SPUBLISH", 3, 0, do_publish},
	{"SUBSCRIBE", -2, NO_SCRIPT | LISTENING | KEYLESS, do_listen},
	{"UNSUBSCRIBE", -2, NO_SCRIPT | LISTENING | KEYLESS, do_listen},
	{"SSUBSCRIBE", -2, NO_SCRIPT | LISTENING | KEYS, do_listen},
	{"SUNSUBSCRIBE", -2, NO_SCRIPT | LISTENING | KEYLESS, do_listen},
	{"PING", -1, LISTENING | KEYLESS, do_ping},
	{"SCRIPT", -2, NO_SCRIPT | KEYLESS, do_script},
	{"INFO", -1, KEYLESS, do_info},
	{"CONFIG", -2, NO_SCRIPT | KEYLESS, do_config},
	{"CLIENT", -2, NO_SCRIPT | KEYLESS, do_ok},
	{"HELLO", -1, NO_SCRIPT | KEYLESS, do_hello},
	{"FLUSHALL", -1, KEYLESS, do_flushall},
	{"ROLE", 1, NO_SCRIPT | KEYLESS, do_role},
	{"SENTINEL", -2, NO_SCRIPT | KEYLESS, do_sentinel},
	{"CLUSTER", -2, NO_SCRIPT | KEYLESS, do_cluster},
	{"ASKING", 1, NO_SCRIPT | KEYLESS, do_ok},
};

static const struct command *command_of(struct sim_word name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (sim_word_is(name, commands[i].name))
			return &commands[i];
	return NULL;
}

static const char *lower_case(struct sim_word name)
{
	static char text[NAME_MAX_SIZE];
	size_t size = name.size < sizeof(text) ? name.size : sizeof(text) - 1;
	for (size_t i = 0; i < size; i++)
		text[i] = (char)tolower((unsigned char)name.bytes[i]);
	text[size] = '\0';
	return text;
}

static bool fits(const struct command *command, size_t words)
{
	return command->words < 0 ? words >= (size_t)-command->words
				  : words == (size_t)command->words;
}

/* False: it may run. Else it says why not. */
/* What a server says that is well, and refuses this for a time; NULL: nothing. */
static const char *refusal(const struct sim_asked *asked, const struct command *command)
{
	bool writes = command->flags & WRITE, grows = command->flags & GROWS;
	bool keys = writes || command->run == do_evalsha || command->run == do_exists;
	bool from_outside = asked->listener;
	if (!from_outside && asked->redis->script_wrote)
		return NULL;
	switch (asked->redis->refuses) {
	case SIM_REFUSES_LOADING:
		return from_outside && keys ? "LOADING Redis is loading the dataset in memory"
					    : NULL;
	case SIM_REFUSES_BUSY:
		return from_outside ? "BUSY Redis is busy running a script." : NULL;
	case SIM_REFUSES_MISCONF:
		return writes ? "MISCONF Redis is configured to save RDB snapshots" : NULL;
	case SIM_REFUSES_NOREPLICAS:
		return writes ? "NOREPLICAS Not enough good replicas to write." : NULL;
	case SIM_REFUSES_OOM:
		return grows ? "OOM command not allowed when used memory > 'maxmemory'." : NULL;
	default:
		return NULL;
	}
}

/* Of a cluster: its node does not have the keys, and that is said. */
static bool redirected(const struct sim_asked *asked, const struct command *command)
{
	const struct sim_clustered *clustered = asked->redis->clustered;
	const struct sim_word *keys = asked->words + 1;
	size_t count = command->flags & KEYS ? asked->count - 1 : 1;
	if (!clustered || command->flags & KEYLESS)
		return false;
	if (command->run == do_evalsha) {
		int64_t number = 0;
		keys = asked->words + 3;
		sim_read_integer(asked->words[2], &number);
		count = number < 0 || number > (int64_t)asked->count - 3 ? 0 : (size_t)number;
	}
	bool channels = command->run == do_listen || command->run == do_publish;
	return clustered->refuses(asked, keys, count, channels);
}

static bool refused(const struct sim_asked *asked, const struct command *command)
{
	bool script = !asked->listener;
	const char *name = lower_case(asked->words[0]);
	if (!command && script)
		sim_say_error(asked->out, "ERR Unknown Redis command called from script");
	else if (!command)
		sim_say_error(asked->out, "ERR unknown command '%s'", name);
	else if (!fits(command, asked->count) && script)
		sim_say_error(asked->out,
			      "ERR Wrong number of args calling Redis command from script");
	else if (!fits(command, asked->count))
		sim_say_error(asked->out, "ERR wrong number of arguments for '%s' command", name);
	else if (asked->redis->replicated && asked->redis->replicated->read_only &&
		 (command->flags & WRITE))
		sim_say_error(asked->out, "READONLY You can't write against a read only replica.");
	else if (script && (command->flags & NO_SCRIPT))
		sim_say_error(asked->out, "ERR This Redis command is not allowed from script");
	else if (!(command->flags & LISTENING) && listens(asked))
		sim_say_error(asked->out,
			      "ERR Can't execute '%s': only (P|S)SUBSCRIBE / "
			      "(P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
			      name);
	else if (refusal(asked, command))
		sim_say_error(asked->out, "%s", refusal(asked, command));
	else
		return redirected(asked, command);
	return true;
}

bool sim_command_writes(struct sim_word name)
{
	const struct command *command = command_of(name);
	return command && (command->flags & WRITE || command->run == do_evalsha);
}

static uint64_t digest_at(const struct sim_asked *asked, size_t word)
{
	return sim_key_digest(sim_key_find(&asked->redis->keys, asked->words[word]));
}

/* Whether a command that puts something has put it: no error was said, nor nil. */
static bool has_put(const struct sim_asked *asked, size_t said)
{
	const char *answer = (const char *)lk__buffer_front(asked->out) + said;
	return *answer != '-' && *answer != '$' && digest_at(asked, 1) != 0;
}

/* Says which keys have changed, as Redis tells its replicas. */
static void run_write(const struct sim_asked *asked, const struct command *command)
{
	struct sim_redis *redis = asked->redis;
	size_t keys = command->run == do_del ? asked->count - 1 : 1;
	size_t said = lk__buffer_size(asked->out);
	uint64_t before[KEYS_MAX];
	if (keys > KEYS_MAX)
		keys = KEYS_MAX;
	for (size_t i = 0; i < keys; i++)
		before[i] = digest_at(asked, 1 + i);
	command->run(asked);
	bool put = command->flags == AGAIN && has_put(asked, said);
	for (size_t i = 0; i < keys; i++)
		if (put || digest_at(asked, 1 + i) != before[i])
			redis->replicated->changed(redis, asked->words[1 + i]);
}

void sim_command_run(const struct sim_asked *asked)
{
	const struct command *command = command_of(asked->words[0]);
	if (refused(asked, command))
		return;
	asked->redis->script_wrote = !asked->listener &&
				     (asked->redis->script_wrote || command->flags & WRITE);
	if (asked->redis->replicated && command->flags & WRITE)
		run_write(asked, command);
	else
		command->run(asked);
}
