/* SPDX-License-Identifier: MIT */
/* Asking for all that may stand in Redis about one lock. What the server refuses to tell is not
 * there, but for the key itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inspect.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/request.h"
#include "sync/recipes.h"

#define AHEAD_MOST 20
#define VALUE_LAST "255" /* of a string so many bytes are asked for: no token is as long */
#define HOLDS_MAX 8      /* of one reader's holds so many are looked at; ours have one */
#define WORDS_MAX 6      /* of one question, with a NULL behind them */

/* Words that depend on the client; the last one is said where there are messages of both kinds. */
static const char most[] = "", last[] = "", numsub[] = "", also_numsub[] = "SHARDNUMSUB";

/* The questions about a key of each type, in the order of its parts. */
static const struct question {
	enum lk__look_type type;
	const char *words[WORDS_MAX];
} questions[] = {
	{LK__LOOK_HASH, {"HSCAN", "~", "0", "COUNT", most}},
	{LK__LOOK_HASH, {"PTTL", "~"}},
	{LK__LOOK_HASH, {"PUBSUB", numsub, "&" LK__LOCK_CHANNEL_PREFIX, "&" LK__RW_CHANNEL_PREFIX}},
	{LK__LOOK_HASH, {"LRANGE", "~redisson_lock_queue", "0", last}},
	{LK__LOOK_HASH, {"ZRANGE", "~lockkeeper_writers", "0", last, "WITHSCORES"}},
	{LK__LOOK_HASH, {"GETRANGE", "~" LK__FENCE_PREFIX, "0", VALUE_LAST}},
	{LK__LOOK_HASH, {"GETRANGE", "~" LK__FENCE_JAVA_PREFIX, "0", VALUE_LAST}},
	{LK__LOOK_HASH,
	 {"PUBSUB", also_numsub, "&" LK__LOCK_CHANNEL_PREFIX, "&" LK__RW_CHANNEL_PREFIX}},
	{LK__LOOK_STRING, {"GETRANGE", "~", "0", VALUE_LAST}},
	{LK__LOOK_STRING, {"PTTL", "~"}},
	{LK__LOOK_STRING,
	 {"PUBSUB", numsub, "&" LK__LOCK_CHANNEL_PREFIX, "&" LK__SEMAPHORE_CHANNEL_PREFIX,
	  "&&redisson_countdownlatch__channel__"}},
	{LK__LOOK_STRING, {"ZRANGE", "~:timeout", "0", last, "WITHSCORES"}},
	{LK__LOOK_STRING,
	 {"PUBSUB", also_numsub, "&" LK__LOCK_CHANNEL_PREFIX, "&" LK__SEMAPHORE_CHANNEL_PREFIX,
	  "&&redisson_countdownlatch__channel__"}},
	{LK__LOOK_ZSET, {"ZRANGE", "~", "0", last, "WITHSCORES"}},
	{LK__LOOK_ZSET, {"PTTL", "~"}},
};

#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

static struct lk__asked look_asked(const struct lk__look *look)
{
	struct lk__topo *topo = look->client->topo;
	return (struct lk__asked){
		.client = look->client,
		.node = look->node ? look->node : lk__topo_node_of(topo, look->key, look->key_size),
		.thread = look->thread,
		.what = "inspect",
	};
}

int lk__look_ask(const struct lk__look *look, struct lk__request *request, lk_error *error)
{
	const struct lk__asked asked = look_asked(look);
	return lk__asked_ask(&asked, request, error);
}

struct lk__request *lk__look_say(const struct lk__look *look, const char *const *words,
				 int *code_out, lk_error *error)
{
	const struct lk__asked asked = look_asked(look);
	return lk__asked_say(&asked, words, code_out, error);
}

void lk__look_forget(struct lk__look *look)
{
	lk__request_free(look->answers);
	free(look->holders);
	free(look->waiters);
	free(look->ids);
	free(look->looks_like);
	look->answers = NULL;
	look->holders = NULL;
	look->waiters = NULL;
	look->ids = NULL;
	look->looks_like = NULL;
	look->waker = NULL;
	look->is_field = false;
	look->parts = NULL;
	look->time = NULL;
}

void lk__look_clear(struct lk__look *look)
{
	lk__look_forget(look);
	free(look->key);
	*look = (struct lk__look){.client = look->client, .thread = look->thread};
}

/* How many holders, or waiters, are asked for. */
struct extent {
	const char *most, *last;
};

static const struct extent whole = {"1000", "999"}; /* LK_INSPECT_MAX */
static const struct extent ahead = {"20", "19"};    /* AHEAD_MOST, of each key of a page */

static bool is_asked(const lk_client *client, const struct question *question,
		     enum lk__look_type type)
{
	bool both = client->config->chosen.messages == LK__MESSAGES_BOTH;
	return question->type == type && (both || question->words[1] != also_numsub);
}

static void look_add(const struct lk__look *look, enum lk__look_type type,
		     const struct extent *extent, struct lk__questions *batch)
{
	bool sharded = look->client->config->chosen.messages == LK__MESSAGES_SHARDED;
	batch->key = look->key;
	batch->key_size = look->key_size;
	for (const struct question *question = questions; question < questions + QUESTIONS;
	     question++) {
		const char *words[WORDS_MAX];
		for (size_t i = 0; i < WORDS_MAX; i++) {
			const char *word = question->words[i];
			words[i] = word == most     ? extent->most
				   : word == last   ? extent->last
				   : word != numsub ? word
				   : sharded        ? "SHARDNUMSUB"
						    : "NUMSUB";
		}
		if (is_asked(look->client, question, type))
			lk__questions_add(batch, NULL, words);
	}
}

size_t lk__look_parts(const lk_client *client, enum lk__look_type type)
{
	size_t parts = 0;
	for (size_t i = 0; i < QUESTIONS; i++)
		parts += is_asked(client, &questions[i], type);
	return parts;
}

void lk__look_add(const struct lk__look *look, enum lk__look_type type, struct lk__questions *batch)
{
	look_add(look, type, &ahead, batch);
}

static bool part_is_full(const struct lk__look *look, size_t place, size_t each)
{
	const redisReply *reply = look->parts[place];
	return reply->type == REDIS_REPLY_ARRAY && reply->elements >= each * AHEAD_MOST;
}

bool lk__look_is_cut(const struct lk__look *look, enum lk__look_type type)
{
	if (type == LK__LOOK_ZSET)
		return part_is_full(look, LK__LOOK_VALUE, 2);
	if (type == LK__LOOK_STRING)
		return part_is_full(look, LK__STRING_PERMITS, 2);
	const redisReply *page = look->parts[LK__LOOK_VALUE];
	bool more = page->type == REDIS_REPLY_ARRAY && page->elements == 2 &&
		    page->element[0]->type == REDIS_REPLY_STRING &&
		    strcmp(page->element[0]->str, "0") != 0;
	return more || part_is_full(look, LK__HASH_QUEUE, 1) ||
	       part_is_full(look, LK__HASH_WRITERS, 2);
}

/* A reader's time to live is that of its hold that ends last, each of which has a key:
 * "{name}:<its field>:rwlock_timeout:<hold>". */
static void look_add_reader(const struct lk__look *look, struct lk__questions *batch,
			    const lk_holder *reader, int hold)
{
	struct lk__words words = {0};
	size_t size;
	char *base = lk__suffixed_name(look->key, look->key_size, "", &size), *suffix = NULL;
	int suffix_size = asprintf(&suffix, "%.*s:rwlock_timeout:%d", (int)reader->field_size,
				   reader->field, hold);
	char *name = base && suffix_size >= 0 ? malloc(size + (size_t)suffix_size) : NULL;
	if (name)
		memcpy(mempcpy(name, base, size), suffix, (size_t)suffix_size);
	free(base);
	if (suffix_size >= 0)
		free(suffix);
	lk__words_text(&words, "PTTL");
	lk__words_own(&words, name, size + (size_t)suffix_size);
	lk__questions_put(batch, &words);
}

static int reader_holds(const lk_holder *holder)
{
	if (holder->role != LK_HOLDER_READER)
		return 0;
	return holder->hold_count < HOLDS_MAX ? (int)holder->hold_count : HOLDS_MAX;
}

static void readers_read(struct lk__look *look, const lk_lock_info *info, const redisReply *times)
{
	size_t place = 0;
	for (size_t i = 0; i < info->holder_count; i++) {
		lk_holder *holder = &look->holders[i];
		int holds = reader_holds(holder);
		if (holds)
			holder->ttl_ms = 0; /* over, though its field is still there */
		for (int hold = 0; hold < holds && place < times->elements; hold++) {
			const redisReply *ttl = times->element[place++];
			if (ttl->type == REDIS_REPLY_INTEGER && ttl->integer > holder->ttl_ms)
				holder->ttl_ms = ttl->integer;
		}
	}
}

static int readers_ask(struct lk__look *look, const lk_lock_info *info, lk_error *error)
{
	size_t count = 0;
	for (size_t i = 0; i < info->holder_count; i++)
		count += (size_t)reader_holds(&look->holders[i]);
	if (!count)
		return LK__WAIT_READY;
	struct lk__questions batch = {.batch = lk__request_batch(count)};
	for (size_t i = 0; i < info->holder_count; i++)
		for (int hold = 1; hold <= reader_holds(&look->holders[i]); hold++)
			look_add_reader(look, &batch, &look->holders[i], hold);
	int rc = lk__look_ask(look, batch.batch, error);
	if (rc == LK__WAIT_READY) {
		readers_read(look, info, batch.batch->reply);
		lk__request_free(batch.batch);
	}
	return rc;
}

/* Tells whether it is what a server answers to the question for the value. */
static bool look_fits(const redisReply *value, enum lk__look_type type)
{
	if (type == LK__LOOK_STRING)
		return value->type == REDIS_REPLY_STRING;
	return value->type == REDIS_REPLY_ARRAY &&
	       (type == LK__LOOK_ZSET ||
		(value->elements == 2 && value->element[1]->type == REDIS_REPLY_ARRAY));
}

static int look_error(const struct lk__look *look, const redisReply *refused, lk_error *error)
{
	int code = lk__classify(refused->str);
	return lk__fail(error, code == LK_EMAYBEHELD ? LK_EUNAVAILABLE : code,
			"inspect on %.100s: %.300s", look->client->config->url, refused->str);
}

/* A key that the server tells nothing of is not known to be no lock, or free. Nor is one of which
 * something else says what no server says: a proxy, which hides an error. */
static int look_refused(const struct lk__look *look, enum lk__look_type type, lk_error *error)
{
	const struct question *asked = questions; /* for the value */
	const char *url = look->client->config->url;
	const redisReply *value = look->parts[LK__LOOK_VALUE], *ttl = look->parts[LK__LOOK_TTL];
	const redisReply *refused = value->type == REDIS_REPLY_ERROR ? value : ttl;
	if (refused->type == REDIS_REPLY_ERROR)
		return look_error(look, refused, error);
	if (ttl->type == REDIS_REPLY_INTEGER && look_fits(value, type))
		return LK__WAIT_READY;
	while (asked->type != type)
		asked++;
	return lk__fail(error, LK_EPROTOCOL, "inspect on %.100s: unexpected reply to %s", url,
			ttl->type != REDIS_REPLY_INTEGER ? "PTTL" : asked->words[0]);
}

/* Sends what look->answers is to be, and takes the answers. */
static int look_send(struct lk__look *look, struct lk__request *batch, lk_error *error)
{
	size_t count = batch ? batch->batch : 0;
	int rc = lk__look_ask(look, batch, error);
	if (rc < 0)
		return rc;
	look->answers = batch;
	if (batch->reply->type != REDIS_REPLY_ARRAY || batch->reply->elements != count)
		return lk__fail(error, LK_EPROTOCOL, "inspect: not as many answers as questions");
	look->time = batch->reply->element[0];
	look->parts = batch->reply->element + 1;
	return LK__WAIT_READY;
}

struct lk__request *lk__look_request(const struct lk__look *look, bool tracked)
{
	size_t count = tracked ? 4 : 2;
	for (unsigned i = 0; i < LK__LOOK_TYPES; i++)
		count += lk__look_parts(look->client, i);
	struct lk__questions batch = {
		.batch = lk__request_batch(count), .key = look->key, .key_size = look->key_size};
	if (tracked) {
		lk__questions_add(&batch, NULL, LK__SAY("CLIENT", "CACHING", "YES"));
		lk__questions_add(&batch, NULL, LK__SAY("EXISTS", "~"));
	}
	lk__questions_add(&batch, NULL, LK__SAY("TIME"));
	lk__questions_add(&batch, NULL, LK__SAY("TYPE", "~"));
	for (unsigned i = 0; i < LK__LOOK_TYPES; i++)
		look_add(look, i, &whole, &batch);
	return batch.batch;
}

int lk__look_read_any(struct lk__look *look, bool tracked, const char **type_out, lk_error *error)
{
	const redisReply *reply = look->answers->reply;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != look->answers->batch)
		return lk__fail(error, LK_EPROTOCOL, "inspect: not as many answers as questions");
	look->parts = reply->element + (tracked ? 2 : 0);
	look->time = *look->parts++;
	const redisReply *answer = *look->parts++;
	if (answer->type == REDIS_REPLY_ERROR)
		return look_error(look, answer, error);
	*type_out = answer->type == REDIS_REPLY_STATUS ? answer->str : "";
	return LK__WAIT_READY;
}

int lk__look_ask_any(struct lk__look *look, const char **type_out, lk_error *error)
{
	struct lk__request *request = lk__look_request(look, false);
	int rc = lk__look_ask(look, request, error);
	if (rc < 0)
		return rc;
	look->answers = request;
	return lk__look_read_any(look, false, type_out, error);
}

void lk__look_choose(struct lk__look *look, enum lk__look_type type)
{
	for (unsigned i = 0; i < type; i++)
		look->parts += lk__look_parts(look->client, i);
}

/* Nothing to ask where the answers are there already. */
static int look_ask_all(struct lk__look *look, enum lk__look_type type, lk_error *error)
{
	if (look->parts)
		return look_refused(look, type, error);
	struct lk__questions batch = lk__questions_begin(lk__look_parts(look->client, type));
	look_add(look, type, &whole, &batch);
	int rc = look_send(look, batch.batch, error);
	return rc < 0 ? rc : look_refused(look, type, error);
}

static int look_read(struct lk__look *look, enum lk__look_type type, bool any, lk_lock_info *info)
{
	if (type == LK__LOOK_ZSET)
		return lk__look_read_zset(look, info);
	if (type == LK__LOOK_STRING)
		return lk__look_read_string(look, any, info);
	int rc = lk__look_read_hash(look, info);
	return rc == 0 ? lk__look_read_foreign_hash(look, info) : rc;
}

int lk__look_at(struct lk__look *look, enum lk__look_type type, bool any, lk_lock_info *info,
		lk_error *error)
{
	int rc = look_ask_all(look, type, error);
	look->type = type;
	if (rc < 0)
		return rc;
	int is_lock = look_read(look, type, any, info);
	if (is_lock < 0)
		return lk__fail(error, LK_ENOMEM, "inspect: out of memory");
	rc = is_lock && look->thread ? readers_ask(look, info, error) : LK__WAIT_READY;
	return rc < 0 ? rc : is_lock;
}
