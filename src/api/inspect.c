/* SPDX-License-Identifier: MIT */
/* Asking for one lock, and walking over all: SCAN for hashes, strings and sorted sets, and a look
 * at each key. */
#include "api/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/inspect.h>
#include <lockkeeper/lock.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/request.h"
#include "lock/client.h"
#include "lock/entry.h"
#include "lock/operation.h"
#include "resp/reply.h"
#include "sync/recipes.h"

/* ---- asking for all that may stand in Redis about one lock ---- */

/* What the server refuses to tell is not there, but for the key itself. */

#define AHEAD_MOST 20
#define VALUE_LAST "255" /* of a string so many bytes are asked for: no token is as long */
#define HOLDS_MAX 8      /* of one reader's holds so many are looked at; ours have one */
#define WORDS_MAX 8      /* of one question, with a NULL behind them */

/* Words that depend on the client; the last one is said where there are messages of both kinds. */
static const char most[] = "", last[] = "", numsub[] = "", also_numsub[] = "SHARDNUMSUB";

/* Where waiters listen, and watches. */
#define HASH_CHANNELS                                                                              \
	"&" LK__LOCK_CHANNEL_PREFIX, "!" LK__LOCK_CHANNEL_PREFIX, "&" LK__RW_CHANNEL_PREFIX,       \
		"!" LK__RW_CHANNEL_PREFIX, "&" LK__BARRIER_PREFIX
#define STRING_CHANNELS                                                                            \
	"&" LK__LOCK_CHANNEL_PREFIX, "!" LK__LOCK_CHANNEL_PREFIX,                                  \
		"&" LK__SEMAPHORE_CHANNEL_PREFIX, "!" LK__SEMAPHORE_CHANNEL_PREFIX,                \
		"&&redisson_countdownlatch__channel__"

/* The questions about a key of each type, in the order of its parts. */
static const struct question {
	enum lk__look_type type;
	const char *words[WORDS_MAX];
} questions[] = {
	{LK__LOOK_HASH, {"HSCAN", "~", "0", "COUNT", most}},
	{LK__LOOK_HASH, {"PTTL", "~"}},
	{LK__LOOK_HASH, {"PUBSUB", numsub, HASH_CHANNELS}},
	{LK__LOOK_HASH, {"LRANGE", "~redisson_lock_queue", "0", last}},
	{LK__LOOK_HASH, {"ZRANGE", "~lockkeeper_writers", "0", last, "WITHSCORES"}},
	{LK__LOOK_HASH, {"GETRANGE", "~" LK__FENCE_PREFIX, "0", VALUE_LAST}},
	{LK__LOOK_HASH, {"GETRANGE", "~" LK__FENCE_JAVA_PREFIX, "0", VALUE_LAST}},
	{LK__LOOK_HASH, {"PUBSUB", also_numsub, HASH_CHANNELS}},
	{LK__LOOK_STRING, {"GETRANGE", "~", "0", VALUE_LAST}},
	{LK__LOOK_STRING, {"PTTL", "~"}},
	{LK__LOOK_STRING, {"PUBSUB", numsub, STRING_CHANNELS}},
	{LK__LOOK_STRING, {"ZRANGE", "~:timeout", "0", last, "WITHSCORES"}},
	{LK__LOOK_STRING, {"PUBSUB", also_numsub, STRING_CHANNELS}},
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

static int look_ask(const struct lk__look *look, struct lk__request *request, lk_error *error)
{
	const struct lk__asked asked = look_asked(look);
	return lk__asked_ask(&asked, request, error);
}

static struct lk__request *look_say(const struct lk__look *look, const char *const *words,
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
	free(look->since_ms);
	look->answers = NULL;
	look->holders = NULL;
	look->waiters = NULL;
	look->ids = NULL;
	look->looks_like = NULL;
	look->since_ms = NULL;
	look->waker = NULL;
	look->is_field = false;
	look->parts = NULL;
	look->time_ms = 0;
}

static void look_clear(struct lk__look *look)
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

/* Adds the questions about one key: as many parts as look_parts() says. */
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

static size_t look_parts(const lk_client *client, enum lk__look_type type)
{
	size_t parts = 0;
	for (size_t i = 0; i < QUESTIONS; i++)
		parts += is_asked(client, &questions[i], type);
	return parts;
}

static bool part_is_full(const struct lk__look *look, size_t place, size_t each)
{
	const redisReply *reply = look->parts[place];
	return reply->type == REDIS_REPLY_ARRAY && reply->elements >= each * AHEAD_MOST;
}

/* Tells whether such answers may lack some holders or waiters: only a few of each key's are asked
 * for. */
static bool look_is_cut(const struct lk__look *look, enum lk__look_type type)
{
	if (type == LK__LOOK_ZSET)
		return part_is_full(look, LK__LOOK_VALUE, 2);
	if (type == LK__LOOK_STRING)
		return part_is_full(look, LK__STRING_PERMITS, 2);
	const redisReply *cursor = look->parts[LK__LOOK_VALUE]->element[0];
	bool more = cursor->type == REDIS_REPLY_STRING && strcmp(cursor->str, "0") != 0;
	return more || part_is_full(look, LK__HASH_QUEUE, 1) ||
	       part_is_full(look, LK__HASH_WRITERS, 2);
}

/* A reader's time to live is that of its hold that ends last, each of which has a key:
 * "{name}:<its field>:rwlock_timeout:<hold>". */
static void look_add_reader(const struct lk__look *look, struct lk__questions *batch,
			    const lk_holder *reader, int hold)
{
	struct lk__words words = {0};
	size_t size = 0;
	char *suffix;
	int rc = asprintf(&suffix, "%.*s:rwlock_timeout:%d", (int)reader->field_size, reader->field,
			  hold);
	char *name = rc < 0 ? NULL : lk__suffixed_name(look->key, look->key_size, suffix, &size);
	if (rc >= 0)
		free(suffix);
	lk__words_text(&words, "PTTL");
	lk__words_own(&words, name, size);
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
	int rc = look_ask(look, batch.batch, error);
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
	int code = lk__refusal(refused->str).code;
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

/* The server's time, in ms since 1970. */
static int64_t time_ms_of(const redisReply *reply)
{
	int64_t now_us = lk__time_answer(reply);
	if (now_us < 0)
		now_us = lk__time_of_proxy(reply);
	return now_us < 0 ? 0 : now_us / 1000;
}

/* Takes the answers, behind so many that are not for us. */
static int look_take(struct lk__look *look, size_t others, lk_error *error)
{
	const redisReply *reply = look->answers->reply;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != look->answers->batch)
		return lk__fail(error, LK_EPROTOCOL, "inspect: not as many answers as questions");
	look->time_ms = time_ms_of(reply->element[others]);
	look->parts = reply->element + others + 1;
	return LK__WAIT_READY;
}

/* Sends what look->answers is to be, and takes the answers. */
static int look_send(struct lk__look *look, struct lk__request *batch, lk_error *error)
{
	int rc = look_ask(look, batch, error);
	if (rc < 0)
		return rc;
	look->answers = batch;
	return look_take(look, 0, error);
}

struct lk__request *lk__look_request(const struct lk__look *look, bool tracked)
{
	size_t count = tracked ? 4 : 2;
	for (unsigned i = 0; i < LK__LOOK_TYPES; i++)
		count += look_parts(look->client, i);
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

/* Nothing to ask where the answers are there already. */
static int look_ask_all(struct lk__look *look, enum lk__look_type type, lk_error *error)
{
	if (look->parts)
		return look_refused(look, type, error);
	struct lk__questions batch = lk__questions_begin(look_parts(look->client, type));
	look_add(look, type, &whole, &batch);
	int rc = look_send(look, batch.batch, error);
	return rc < 0 ? rc : look_refused(look, type, error);
}

/* Looks at a key of that type: 1 and the picture, 0 when it is not a lock, or a code. `any`: a
 * string is one whatever it says. Without a thread readers are not asked for apart. */
static int look_at(struct lk__look *look, enum lk__look_type type, bool any, lk_lock_info *info,
		   lk_error *error)
{
	int rc = look_ask_all(look, type, error);
	look->type = type;
	if (rc < 0)
		return rc;
	int is_lock = lk__look_read(look, type, any, info);
	if (is_lock < 0)
		return lk__fail(error, LK_ENOMEM, "inspect: out of memory");
	rc = is_lock && look->thread ? readers_ask(look, info, error) : LK__WAIT_READY;
	return rc < 0 ? rc : is_lock;
}

/* ---- walking ---- */

static const char *const types[LK__LOOK_TYPES] = {
	[LK__LOOK_HASH] = "hash", [LK__LOOK_STRING] = "string", [LK__LOOK_ZSET] = "zset"};
#define PAGE "500"    /* keys that one SCAN looks at, about */
#define LOOKS_MOST 20 /* at a key that changes between two questions about it */
#define TTL_NO_KEY (-2)
#define CLIENTS_MAX 1000 /* whose records are remembered; then all are forgotten */

/* The least that a program can have been compiled with. */
#define LOCK_INFO_SIZE_MIN (offsetof(lk_lock_info, fence) + sizeof(uint64_t))
#define OWNER_INFO_SIZE_MIN (offsetof(lk_owner_info, program) + sizeof(const char *))

struct lk_scan {
	lk_client *client;
	char *pattern;
	enum lk__look_type type; /* of the keys that are walked over now */
	bool all;                /* what may be data too */
	size_t node;             /* of those that have keys */
	char cursor[24];
	struct lk__request *page; /* the answer to SCAN */
	size_t next_key;
	struct lk__request *ahead; /* the answers about all keys of the page; NULL: ask for each */
	size_t next_part;          /* in `ahead` */
	struct lk__look look;
	struct lk__known_client *owners; /* whose records were read, by `half` */
};

/* A pattern for keys: the prefix taken literally, then the user's glob. */
static int scan_set_pattern(lk_scan *scan, const char *pattern)
{
	const char *prefix = scan->client->config->key_prefix;
	char *end = scan->pattern = malloc(2 * strlen(prefix) + strlen(pattern) + 1);
	if (!scan->pattern)
		return LK_ENOMEM;
	for (; *prefix; prefix++) {
		if (strchr("*?[]\\", *prefix))
			*end++ = '\\';
		*end++ = *prefix;
	}
	memcpy(end, pattern, strlen(pattern) + 1);
	return 0;
}

int lk_scan_new(lk_scan **scan_out, lk_client *client, const char *pattern, lk_error *error)
{
	if (!scan_out || !client)
		return lk__fail(error, LK_EINVAL, "lk_scan_new: an argument is NULL");
	int rc = lk__client_check(client, "lk_scan_new", error);
	if (rc < 0)
		return rc;
	if (pattern && strlen(pattern) > LK_NAME_SIZE_MAX)
		return lk__fail(error, LK_EINVAL,
				"lk_scan_new: the pattern is longer than a name can be");
	lk_scan *scan = calloc(1, sizeof(*scan));
	if (scan) {
		scan->client = scan->look.client = client;
		strcpy(scan->cursor, "0");
	}
	if (!scan || scan_set_pattern(scan, pattern ? pattern : "*") < 0) {
		free(scan);
		return lk__fail(error, LK_ENOMEM, "lk_scan_new: out of memory");
	}
	lk__client_ref(client);
	*scan_out = scan;
	return 0;
}

static void owners_free(lk_scan *scan)
{
	struct lk__known_client *owner, *next;
	HASH_ITER(hh, scan->owners, owner, next)
	{
		HASH_DEL(scan->owners, owner);
		lk__owner_free(owner);
	}
}

lk_scan *lk_scan_free(lk_scan *scan)
{
	if (!scan)
		return NULL;
	lk__request_free(scan->page);
	lk__request_free(scan->ahead);
	look_clear(&scan->look);
	owners_free(scan);
	if (!lk__client_forked(scan->client))
		lk__client_unref(scan->client);
	free(scan->pattern);
	free(scan);
	return NULL;
}

/* Which nodes have keys may be known only when one has been asked something. */
static int scan_connect(lk_scan *scan, lk_error *error)
{
	struct lk__topo *topo = scan->client->topo;
	if (topo->ops->keeper_at(topo, 0))
		return 0;
	int rc;
	scan->look.node = topo->ops->node_at(topo, 0);
	lk__request_free(look_say(&scan->look, LK__SAY("PING"), &rc, error));
	return rc < 0 ? rc : 0;
}

/* To the next kind of key where all of one were seen, and then to the next node. */
static void scan_advance(lk_scan *scan)
{
	if (!scan->page || strcmp(scan->cursor, "0") != 0)
		return;
	if (++scan->type < LK__LOOK_TYPES)
		return;
	scan->type = LK__LOOK_HASH;
	scan->node++;
}

/* The next page of keys: 1, or 0 when there is none. */
static int scan_turn_page(lk_scan *scan, lk_error *error)
{
	struct lk__topo *topo = scan->client->topo;
	int rc = scan_connect(scan, error);
	if (rc < 0)
		return rc;
	scan_advance(scan);
	scan->look.node = topo->ops->keeper_at(topo, scan->node);
	if (!scan->look.node)
		return 0;
	lk__request_free(scan->page);
	lk__request_free(scan->ahead);
	scan->page = scan->ahead = NULL;
	struct lk__request *page = look_say(&scan->look,
					    LK__SAY("SCAN", scan->cursor, "MATCH", scan->pattern,
						    "COUNT", PAGE, "TYPE", types[scan->type]),
					    &rc, error);
	if (!page)
		return rc;
	scan->page = page;
	scan->next_key = 0;
	const redisReply *reply = page->reply;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    (size_t)reply->element[0]->len >= sizeof(scan->cursor) ||
	    reply->element[1]->type != REDIS_REPLY_ARRAY) {
		lk__request_free(page);
		scan->page = NULL;
		return lk__fail(error, LK_EPROTOCOL, "inspect: unexpected reply to SCAN");
	}
	memcpy(scan->cursor, reply->element[0]->str, (size_t)reply->element[0]->len + 1);
	return 1;
}

static bool begins_with(const char *key, size_t size, const char *begin)
{
	return size > strlen(begin) && memcmp(key, begin, strlen(begin)) == 0;
}

/* "lockkeeper_fence:{name}", "redisson_unlock_latch:{name}:…"; a name with a "{" has no more. */
static bool is_derived(const char *key, size_t size)
{
	const char *colon = memchr(key, ':', size);
	bool ours = begins_with(key, size, "lockkeeper_") || begins_with(key, size, "redisson_");
	return ours && colon && memchr(colon, '{', (size_t)(key + size - colon));
}

/* "{name}:<owner field>:rwlock_timeout:1" */
static bool is_readers_lease(const char *key, size_t size)
{
	static const char word[] = ":rwlock_timeout:";
	const char *at = memmem(key, size, word, sizeof(word) - 1), *end = key + size;
	if (!at || !memchr(key, '{', (size_t)(at - key)))
		return false;
	at += sizeof(word) - 1;
	while (at < end && *at >= '0' && *at <= '9')
		at++;
	return at == end;
}

/* Keys that stand beside a lock: names that the kinds derive. */
static bool is_companion(const lk_scan *scan, const char *key, size_t size)
{
	size_t prefix = strlen(scan->client->config->key_prefix);
	if (is_derived(key, size))
		return true;
	if (scan->type != LK__LOOK_STRING) /* which the others are */
		return false;
	return is_readers_lease(key, size) ||
	       (size > prefix &&
		begins_with(key + prefix, size - prefix, LK__CLIENT_RECORD_PREFIX));
}

static bool may_be_lock(const lk_scan *scan, const redisReply *key)
{
	return key->type == REDIS_REPLY_STRING && !is_companion(scan, key->str, (size_t)key->len);
}

/* The questions about all keys of the page; NULL when there are none, or no memory. */
static struct lk__request *page_questions(const lk_scan *scan)
{
	const redisReply *keys = scan->page->reply->element[1];
	size_t parts = look_parts(scan->client, scan->type);
	struct lk__questions batch = lk__questions_begin(keys->elements * parts);
	for (size_t i = 0; i < keys->elements; i++) {
		const redisReply *key = keys->element[i];
		struct lk__look look = {
			.client = scan->client, .key = key->str, .key_size = (size_t)key->len};
		if (may_be_lock(scan, key))
			look_add(&look, scan->type, &ahead, &batch);
	}
	if (batch.batch && batch.batch->batch > 1)
		return batch.batch;
	lk__request_free(batch.batch);
	return NULL;
}

/* Asks for all keys of the page in one go. Where that fails each key is asked for alone, so that
 * an error is that key's. */
static void page_ask_ahead(lk_scan *scan)
{
	struct lk__request *batch = page_questions(scan);
	size_t count = batch ? batch->batch : 0;
	scan->next_part = 1; /* behind the time */
	if (!batch || look_ask(&scan->look, batch, NULL) < 0)
		return;
	if (batch->reply->type == REDIS_REPLY_ARRAY && batch->reply->elements == count)
		scan->ahead = batch;
	else
		lk__request_free(batch);
}

/* Looks at this key from now on, and frees it later. Fails if `key` is NULL: the caller had no
 * memory for it. */
static int look_begin(lk_scan *scan, char *key, size_t size, lk_lock_info *info, lk_error *error)
{
	struct lk__look *look = &scan->look;
	size_t prefix = strlen(scan->client->config->key_prefix);
	look_clear(look);
	if (!key)
		return lk__fail(error, LK_ENOMEM, "inspect: out of memory");
	look->key = key;
	look->key_size = size;
	*info = (lk_lock_info){.name = key + prefix, .name_size = size - prefix, .type = "none"};
	return 0;
}

/* Looks at a key that SCAN has found; `parts`: the answers about it, or NULL to ask for them. */
static int scan_look_at(lk_scan *scan, const redisReply *found, redisReply **parts,
			lk_lock_info *info, lk_error *error)
{
	char *key = malloc((size_t)found->len + 1);
	if (key)
		memcpy(key, found->str, (size_t)found->len + 1);
	int rc = look_begin(scan, key, (size_t)found->len, info, error);
	if (rc < 0)
		return rc;
	scan->look.parts = parts;
	scan->look.time_ms = parts ? time_ms_of(scan->ahead->reply->element[0]) : 0;
	return look_at(&scan->look, scan->type, false, info, error);
}

/* 1 and the picture of a key that SCAN has found, 0 when it is not a lock, or no longer. */
static int scan_look(lk_scan *scan, const redisReply *key, lk_lock_info *info, lk_error *error)
{
	if (!may_be_lock(scan, key))
		return 0;
	redisReply **parts = scan->ahead ? scan->ahead->reply->element + scan->next_part : NULL;
	scan->next_part += look_parts(scan->client, scan->type);
	if (parts && parts[LK__LOOK_VALUE]->type == REDIS_REPLY_ERROR)
		parts = NULL; /* asked for alone, it says why */
	int rc = scan_look_at(scan, key, parts, info, error);
	if (rc == 1 && parts && look_is_cut(&scan->look, scan->type))
		rc = scan_look_at(scan, key, NULL, info, error);
	if (rc == LK_EWRONGTYPE || (rc == 1 && !info->holder_count && !info->is_counter))
		return 0; /* it changed since SCAN saw it */
	if (rc == 1 && info->may_be_data && !scan->all)
		return 0;
	return rc;
}

static int scan_next(lk_scan *scan, lk_lock_info *info, lk_error *error)
{
	for (;;) {
		const redisReply *keys = scan->page ? scan->page->reply->element[1] : NULL;
		if (keys && scan->next_key < keys->elements) {
			int rc = scan_look(scan, keys->element[scan->next_key++], info, error);
			if (rc != 0)
				return rc;
			continue;
		}
		int rc = scan_turn_page(scan, error);
		if (rc <= 0)
			return rc;
		page_ask_ahead(scan);
	}
}

static int info_check(const char *operation, const lk_lock_info *info_out, lk_error *error)
{
	return lk__check_size(operation, info_out, LOCK_INFO_SIZE_MIN, sizeof(*info_out), error);
}

int lk_scan_next(lk_scan *scan, lk_lock_info *info_out, lk_error *error)
{
	lk_lock_info info = {.name = NULL};
	int saved;
	if (!scan || !info_out)
		return lk__fail(error, LK_EINVAL, "lk_scan_next: an argument is NULL");
	int rc = info_check("lk_scan_next", info_out, error);
	if (rc == 0)
		rc = lk__enter(scan->client, "lk_scan_next", &scan->look.thread, &saved, error);
	if (rc < 0)
		return rc;
	rc = scan_next(scan, &info, error);
	if (rc == 1)
		lk__copy_sized(info_out, info_out->struct_size, &info, sizeof(info));
	lk__leave(saved);
	return rc;
}

/* Takes the answers for the type of the key, as Redis calls it: that type, or LK__LOOK_TYPES for
 * another; or a code. */
static int look_choose(struct lk__look *look, const char **type_out, lk_error *error)
{
	const redisReply *answer = *look->parts++;
	int type = LK__LOOK_HASH;
	if (answer->type == REDIS_REPLY_ERROR)
		return look_error(look, answer, error);
	if (answer->type != REDIS_REPLY_STATUS || answer->len == 0)
		return lk__fail(error, LK_EPROTOCOL, "inspect on %.100s: unexpected reply to TYPE",
				look->client->config->url);
	*type_out = answer->str;
	bool none = strcmp(answer->str, "none") ==
		    0; /* looked at as a hash: some may wait for it */
	while (!none && type < LK__LOOK_TYPES && strcmp(answer->str, types[type]) != 0)
		look->parts += look_parts(look->client, (enum lk__look_type)type++);
	return type;
}

int lk__look_show(struct lk__look *look, bool tracked, lk_lock_info *info, bool *changed_out,
		  lk_error *error)
{
	const char *name = NULL;
	int rc = look_take(look, tracked ? 2 : 0, error);
	int type = rc < 0 ? rc : look_choose(look, &name, error);
	if (type < 0)
		return type;
	bool known = type < LK__LOOK_TYPES, none = strcmp(name, "none") == 0;
	rc = known ? look_at(look, (enum lk__look_type)type, true, info, error) : 0;
	*changed_out = (rc == LK_EWRONGTYPE && known) ||
		       (rc >= 0 && !none && info->ttl_ms == TTL_NO_KEY);
	if (rc || *changed_out)
		return rc;
	return lk__fail(error, LK_EWRONGTYPE, "inspect \"%.100s\": the key is a %s, not a lock",
			info->name, name);
}

/* Asks for the key in one write, so that hardly anything comes between. 1 or a code. */
static int show_look_once(struct lk__look *look, lk_lock_info *info, bool *changed, lk_error *error)
{
	struct lk__request *request = lk__look_request(look, false);
	int rc = look_ask(look, request, error);
	if (rc < 0)
		return rc;
	look->answers = request;
	return lk__look_show(look, false, info, changed, error);
}

/* A busy lock comes and goes between the questions: what was asked of one key and answered by
 * another says nothing, so it looks again. */
static int show_look(lk_scan *scan, lk_lock_info *info, lk_error *error)
{
	const lk_lock_info blank = *info;
	for (int looks = 0; looks < LOOKS_MOST; looks++) {
		bool changed = false;
		*info = blank;
		lk__look_forget(&scan->look);
		int rc = show_look_once(&scan->look, info, &changed, error);
		if (!changed)
			return rc;
	}
	return lk__fail(error, LK_EUNAVAILABLE,
			"inspect \"%.100s\": the key changed at each of %d looks", info->name,
			LOOKS_MOST);
}

/* Nobody has it, or others alone: if we believe to have it, the server is asked. */
static void look_contradicts(const struct lk__look *look, const lk_lock_info *info)
{
	lk_client *client = look->client;
	bool ours = info->is_counter && info->holder_count > 0; /* permits are not in our name */
	for (size_t i = 0; i < info->holder_count && !ours; i++)
		ours = strncmp(info->holders[i].field, client->id, strlen(client->id)) == 0;
	if (!ours)
		lk__doubt_key(client, look->key, look->key_size);
}

/* 1 or a code. */
static int look_by_name(lk_scan *scan, const void *name, size_t name_size, lk_lock_info *info,
			lk_error *error)
{
	size_t size = 0;
	char *key = lk__key_new(scan->client, name, name_size, &size);
	int rc = look_begin(scan, key, size, info, error);
	if (rc == 0)
		rc = show_look(scan, info, error);
	if (rc == 1)
		look_contradicts(&scan->look, info);
	return rc;
}

int lk_scan_show(lk_scan *scan, const void *name, size_t name_size, lk_lock_info *info_out,
		 lk_error *error)
{
	const char *operation = "lk_scan_show";
	lk_lock_info info;
	int saved;
	if (!scan || !name || !info_out)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = info_check(operation, info_out, error);
	if (rc == 0)
		rc = lk__name_check(scan->client, name, &name_size, operation, error);
	if (rc == 0)
		rc = lk__enter(scan->client, operation, &scan->look.thread, &saved, error);
	if (rc < 0)
		return rc;
	rc = look_by_name(scan, name, name_size, &info, error);
	if (rc == 1)
		lk__copy_sized(info_out, info_out->struct_size, &info, sizeof(info));
	lk__leave(saved);
	return rc < 0 ? rc : 0;
}

void lk_scan_all(lk_scan *scan)
{
	if (scan)
		scan->all = true;
}

/* ---- by force ---- */

static bool is_barrier(const lk_lock_info *info)
{
	return strcmp(info->type, lk__barrier_recipe.type) == 0;
}

/* NULL: no memory. */
static struct lk__request *barrier_request(const struct lk__look *look)
{
	struct lk__target target = {.recipe = &lk__barrier_recipe,
				    .key = look->key,
				    .key_size = (uint32_t)look->key_size};
	return lk__barrier_recipe.force(&target);
}

/* A string is deleted as a plain lock is, since ours wait for it too. NULL: no memory. */
static struct lk__request *force_request(const struct lk__look *look, const lk_lock_info *info,
					 const struct lk__notify *notify)
{
	struct lk__words words = {0};
	if (is_barrier(info))
		return barrier_request(look);
	lk__words_add(&words, look->key, look->key_size);
	if (look->type == LK__LOOK_STRING) {
		size_t size;
		char *channel = lk__channel_name(&lk__plain_recipe, look->key, look->key_size,
						 &size);
		lk__words_own(&words, channel, size);
	} else {
		lk__words_text(&words, look->type == LK__LOOK_ZSET ? "zset" : "hash");
		lk__words_add(&words, info->holders[0].field,
			      look->is_field ? info->holders[0].field_size : 0);
	}
	if (notify)
		lk__notify_words(&words, notify);
	return lk__words_script(&words,
				look->type == LK__LOOK_STRING ? LK__SCRIPT_PLAIN_FORCE_RELEASE
							      : LK__SCRIPT_FOREIGN_FORCE_RELEASE,
				1);
}

/* 1: it is to be freed; 0: nobody has it; or a code. */
static int force_check(const struct lk__look *look, const lk_lock_info *info, const char *what,
		       lk_error *error)
{
	bool is_string = strcmp(info->type, "plain lock") == 0 && info->looks_like;
	if (strcmp(info->type, "none") == 0)
		return 0;
	if (!is_string && !is_barrier(info) && strcmp(info->type, "foreign lock") != 0)
		return lk__fail(error, LK_EINVAL,
				"%s: \"%.100s\" is a %s, not another library's lock", what,
				info->name, info->type);
	if (look->is_field && info->holder_count > 1)
		return lk__fail(error, LK_EINVAL,
				"%s: the hash \"%.100s\" has %zu locks; delete the field of one",
				what, info->name, info->holder_count);
	return is_barrier(info) || info->holder_count > 0;
}

/* Breaks a barrier, or deletes another library's lock, that was just looked at, and wakes who waits
 * for it: 1, 0 there was none, or a code. */
static int look_force_release(struct lk__look *look, const lk_lock_info *info, lk_error *error)
{
	const char *what = "lk_scan_force_release";
	lk_client *client = look->client;
	struct lk__notify *notify = NULL;
	int rc = force_check(look, info, what, error);
	if (rc <= 0)
		return rc;
	if (look->waker &&
	    lk__notify_of(&notify, look->waker, look->key, look->key_size) == LK__NOTIFY_NO_MEMORY)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", what);
	struct lk__request *request = force_request(look, info, notify);
	lk__notify_free(notify);
	if (request)
		lk__request_frees(request);
	struct lk__node *node = lk__topo_node_of(client->topo, look->key, look->key_size);
	int64_t until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	rc = lk__ask(client, lk__node_scripts(node), look->thread, request, what, until_ns, error);
	if (rc < 0)
		return rc;
	int64_t freed = 0;
	rc = lk__reply_integer(request->reply, 0, 1, &freed)
		     ? (freed || request->sends > 1)
		     : lk__fail(error, LK_EMAYBEHELD, "%s: unexpected reply", what);
	lk__request_free(request);
	return rc;
}

int lk_scan_force_release(lk_scan *scan, const void *name, size_t name_size, lk_error *error)
{
	const char *operation = "lk_scan_force_release";
	lk_lock_info info = {.type = "none"};
	int saved;
	if (!scan || !name)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = lk__name_check(scan->client, name, &name_size, operation, error);
	if (rc == 0)
		rc = lk__enter(scan->client, operation, &scan->look.thread, &saved, error);
	if (rc < 0)
		return rc;
	rc = look_by_name(scan, name, name_size, &info, error);
	if (rc == 1)
		rc = look_force_release(&scan->look, &info, error);
	if (rc == 1 || rc == LK_ENOTDURABLE || rc == LK_EMAYBEHELD)
		lk__doubt_key(scan->client, scan->look.key, scan->look.key_size);
	lk__leave(saved);
	return rc;
}

/* ---- who has it ---- */

/* Asks for a client's record; NULL with a code and `error`. `look` is for this question alone. */
static struct lk__known_client *owner_ask(struct lk__look *look, const char *half, int *code,
					  lk_error *error)
{
	struct lk__known_client *owner = NULL;
	struct lk__request *request = lk__owner_question(look->client, half, &look->node);
	*code = request ? look_ask(look, request, error) : LK_ENOMEM;
	if (*code >= 0) {
		owner = lk__owner_read(half, request->reply);
		lk__request_free(request);
	} else if (*code == LK_EDENIED || *code == LK_EWRONGTYPE) {
		owner = lk__owner_read(half, NULL); /* it is for people, and cannot be read */
	}
	if (!owner && (*code >= 0 || *code == LK_ENOMEM))
		*code = lk__fail(error, LK_ENOMEM, "inspect: out of memory");
	return owner;
}

/* Who the owner of a field is: 1, 0 unknown, or a code. */
static int scan_owner(lk_scan *scan, struct lk__look *look, const char *field, size_t field_size,
		      lk_owner_info *info, lk_error *error)
{
	char half[LK__CLIENT_HALF + 1];
	struct lk__known_client *owner;
	int code;
	if (!lk__owner_half(field, field_size, half))
		return 0;
	HASH_FIND(hh, scan->owners, half, LK__CLIENT_HALF, owner);
	if (!owner) {
		owner = owner_ask(look, half, &code, error);
		if (!owner)
			return code;
		if (HASH_COUNT(scan->owners) >= CLIENTS_MAX)
			owners_free(scan);
		HASH_ADD(hh, scan->owners, half, LK__CLIENT_HALF, owner);
		if (!owner->hh.tbl) {
			lk__owner_free(owner);
			return lk__fail(error, LK_ENOMEM, "inspect: out of memory");
		}
	}
	return lk__owner_tell(owner, field, field_size, info);
}

int lk_scan_owner(lk_scan *scan, const char *field, size_t field_size, lk_owner_info *info_out,
		  lk_error *error)
{
	lk_owner_info info;
	int saved;
	if (!scan || !field || !info_out)
		return lk__fail(error, LK_EINVAL, "lk_scan_owner: an argument is NULL");
	struct lk__look look = {.client = scan->client};
	int rc = lk__check_size("lk_scan_owner", info_out, OWNER_INFO_SIZE_MIN, sizeof(info),
				error);
	if (rc == 0)
		rc = lk__enter(scan->client, "lk_scan_owner", &look.thread, &saved, error);
	if (rc < 0)
		return rc;
	rc = scan_owner(scan, &look, field, field_size, &info, error);
	if (rc == 1)
		lk__copy_sized(info_out, info_out->struct_size, &info, sizeof(info));
	lk__leave(saved);
	return rc;
}
