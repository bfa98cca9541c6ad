/* SPDX-License-Identifier: MIT */
/* Asking for all that may stand in Redis about one lock. What the server refuses to tell is not
 * there, but for the key itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/inspect.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/classify.h"
#include "conn/request.h"
#include "drive/lock/ask.h"
#include "sync/fenced/fenced.h"
#include "sync/latch/latch.h"
#include "sync/lock/lock.h"
#include "sync/plain/plain.h"
#include "sync/rw/rw.h"
#include "sync/semaphore/semaphore.h"

#define WORDS_MAX 6
#define AHEAD_MOST 20
#define VALUE_LAST "255" /* of a string so many bytes are asked for: no token is as long */
#define HOLDS_MAX 8      /* of one reader's holds so many are looked at; ours have one */

int lk__look_ask(struct lk__look *look, struct lk__request *request, lk_error *error)
{
	lk_client *client = look->client;
	struct lk__node *node = look->node;
	if (!node)
		node = lk__topo_node_of(client->topo, look->key, look->key_size);
	int64_t until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	return lk__ask(client, lk__node_scripts(node), look->thread, lk__question(request),
		       "inspect", until_ns, error);
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

/* Adds words to a batch, up to a NULL. The second is a key, which may have NULs. */
static bool look_add(struct lk__request *batch, size_t key_size, const char *const words[WORDS_MAX])
{
	struct lk__words all = {0};
	for (size_t i = 0; i < WORDS_MAX && words[i]; i++)
		lk__words_add(&all, words[i], i == 1 ? key_size : strlen(words[i]));
	return lk__words_batch(batch, &all);
}

/* How many holders, or waiters, are asked for. */
struct extent {
	const char *most, *last;
};

static const struct extent whole = {"1000", "999"}; /* LK_INSPECT_MAX */
static const struct extent ahead = {"20", "19"};    /* AHEAD_MOST, of each key of a page */

/* A command on a key that is derived from the lock's. */
static bool look_add_derived(const struct lk__look *look, struct lk__request *batch,
			     const char *verb, const char *prefix, const char *from, const char *to,
			     const char *more)
{
	size_t size;
	char *name = lk__derived_name(prefix, look->key, look->key_size, &size);
	bool added = name && look_add(batch, size,
				      (const char *const[WORDS_MAX]){verb, name, from, to, more});
	free(name);
	return added;
}

/* How many listen to the channels of the kinds that the key may be. */
static bool look_add_listeners(const struct lk__look *look, struct lk__request *batch,
			       const struct lk__recipe *const kinds[3], size_t count,
			       const char *verb)
{
	struct lk__words words = {0};
	lk__words_text(&words, "PUBSUB");
	lk__words_text(&words, verb);
	for (size_t i = 0; i < count; i++) {
		size_t size;
		char *name = lk__channel_name(kinds[i], look->key, look->key_size, &size);
		lk__words_own(&words, name, size);
	}
	return lk__words_batch(batch, &words);
}

static enum lk__messages told_by(const lk_client *client)
{
	return lk__config_messages(client->config);
}

/* How many there are of the first kind, or the only one. */
static const char *listeners_verb(const struct lk__look *look)
{
	return told_by(look->client) == LK__MESSAGES_SHARDED ? "SHARDNUMSUB" : "NUMSUB";
}

/* Behind all other questions: of the second kind, if there is one. */
static bool look_also_add_listeners(const struct lk__look *look, struct lk__request *batch,
				    const struct lk__recipe *const kinds[3], size_t count)
{
	return told_by(look->client) != LK__MESSAGES_BOTH ||
	       look_add_listeners(look, batch, kinds, count, "SHARDNUMSUB");
}

static bool hash_add(const struct lk__look *look, const struct extent *extent,
		     struct lk__request *batch)
{
	static const struct lk__recipe *const kinds[3] = {&lk__lock_recipe, &lk__read_recipe};
	const char *key = look->key;
	size_t size = look->key_size;
	return look_add(batch, size,
			(const char *const[WORDS_MAX]){"HSCAN", key, "0", "COUNT", extent->most}) &&
	       look_add(batch, size, (const char *const[WORDS_MAX]){"PTTL", key}) &&
	       look_add_listeners(look, batch, kinds, 2, listeners_verb(look)) &&
	       look_add_derived(look, batch, "LRANGE", "redisson_lock_queue", "0", extent->last,
				NULL) &&
	       look_add_derived(look, batch, "ZRANGE", "lockkeeper_writers", "0", extent->last,
				"WITHSCORES") &&
	       look_add_derived(look, batch, "GET", LK__FENCE_PREFIX, NULL, NULL, NULL) &&
	       look_add_derived(look, batch, "GET", LK__FENCE_JAVA_PREFIX, NULL, NULL, NULL) &&
	       look_also_add_listeners(look, batch, kinds, 2);
}

static bool string_add(const struct lk__look *look, const struct extent *extent,
		       struct lk__request *batch)
{
	static const struct lk__recipe *const kinds[3] = {&lk__plain_recipe, &lk__semaphore_recipe,
							  &lk__latch_recipe};
	const char *key = look->key;
	size_t size = look->key_size, permits_size;
	char *permits = lk__suffixed_name(key, size, "timeout", &permits_size);
	bool made = permits &&
		    look_add(batch, size,
			     (const char *const[WORDS_MAX]){"GETRANGE", key, "0", VALUE_LAST}) &&
		    look_add(batch, size, (const char *const[WORDS_MAX]){"PTTL", key}) &&
		    look_add_listeners(look, batch, kinds, 3, listeners_verb(look)) &&
		    look_add(batch, permits_size,
			     (const char *const[WORDS_MAX]){"ZRANGE", permits, "0", extent->last,
							    "WITHSCORES"}) &&
		    look_also_add_listeners(look, batch, kinds, 3);
	free(permits);
	return made;
}

static bool zset_add(const struct lk__look *look, const struct extent *extent,
		     struct lk__request *batch)
{
	const char *key = look->key;
	size_t size = look->key_size;
	return look_add(batch, size,
			(const char *const[WORDS_MAX]){"ZRANGE", key, "0", extent->last,
						       "WITHSCORES"}) &&
	       look_add(batch, size, (const char *const[WORDS_MAX]){"PTTL", key});
}

static bool key_add(const struct lk__look *look, enum lk__look_type type,
		    const struct extent *extent, struct lk__request *batch)
{
	static bool (*const add[LK__LOOK_TYPES])(const struct lk__look *, const struct extent *,
						 struct lk__request *) = {
		[LK__LOOK_HASH] = hash_add,
		[LK__LOOK_STRING] = string_add,
		[LK__LOOK_ZSET] = zset_add,
	};
	return add[type](look, extent, batch);
}

struct lk__request *lk__look_batch(const lk_client *client, size_t keys, enum lk__look_type type)
{
	struct lk__request *batch = lk__request_batch(1 + keys * lk__look_parts(client, type));
	if (!batch || look_add(batch, 0, (const char *const[WORDS_MAX]){"TIME"}))
		return batch;
	lk__request_free(batch);
	return NULL;
}

size_t lk__look_parts(const lk_client *client, enum lk__look_type type)
{
	size_t also = told_by(client) == LK__MESSAGES_BOTH;
	if (type == LK__LOOK_ZSET)
		return LK__ZSET_PARTS;
	return (type == LK__LOOK_HASH ? LK__HASH_PARTS : LK__STRING_PARTS) + also;
}

bool lk__look_add(const struct lk__look *look, enum lk__look_type type, struct lk__request *batch)
{
	return key_add(look, type, &ahead, batch);
}

static bool part_is_full(const struct lk__look *look, size_t place, size_t each)
{
	const redisReply *reply = look->parts[place];
	return reply->type == REDIS_REPLY_ARRAY && reply->elements >= each * AHEAD_MOST;
}

bool lk__look_is_cut(const struct lk__look *look, enum lk__look_type type)
{
	if (type == LK__LOOK_ZSET)
		return part_is_full(look, LK__ZSET_VALUE, 2);
	if (type == LK__LOOK_STRING)
		return part_is_full(look, LK__STRING_PERMITS, 2);
	const redisReply *page = look->parts[LK__HASH_VALUE];
	bool more = page->type == REDIS_REPLY_ARRAY && page->elements == 2 &&
		    page->element[0]->type == REDIS_REPLY_STRING &&
		    strcmp(page->element[0]->str, "0") != 0;
	return more || part_is_full(look, LK__HASH_QUEUE, 1) ||
	       part_is_full(look, LK__HASH_WRITERS, 2);
}

/* A reader's time to live is that of its hold that ends last, each of which has a key. */
static bool look_add_reader(const struct lk__look *look, struct lk__request *batch,
			    const lk_holder *reader, int hold)
{
	char suffix[32];
	size_t size;
	char *base = lk__suffixed_name(look->key, look->key_size, "", &size);
	char *name = base ? malloc(size + reader->field_size + sizeof(suffix)) : NULL;
	bool added = false;
	if (name) {
		int suffix_size = snprintf(suffix, sizeof(suffix), ":rwlock_timeout:%d", hold);
		char *end = mempcpy(name, base, size);
		end = mempcpy(end, reader->field, reader->field_size);
		memcpy(end, suffix, (size_t)suffix_size + 1);
		size += reader->field_size + (size_t)suffix_size;
		const char *words[WORDS_MAX] = {"PTTL", name};
		added = look_add(batch, size, words);
	}
	free(name);
	free(base);
	return added;
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
	struct lk__request *batch = lk__request_batch(count);
	bool made = batch;
	for (size_t i = 0; made && i < info->holder_count; i++)
		for (int hold = 1; made && hold <= reader_holds(&look->holders[i]); hold++)
			made = look_add_reader(look, batch, &look->holders[i], hold);
	if (!made) {
		lk__request_free(batch);
		return lk__fail(error, LK_ENOMEM, "inspect: out of memory");
	}
	int rc = lk__look_ask(look, batch, error);
	if (rc == LK__WAIT_READY) {
		readers_read(look, info, batch->reply);
		lk__request_free(batch);
	}
	return rc;
}

/* Whether it is what a server answers to the question for the value. */
static bool look_fits(const redisReply *value, enum lk__look_type type)
{
	if (type == LK__LOOK_STRING)
		return value->type == REDIS_REPLY_STRING;
	return value->type == REDIS_REPLY_ARRAY &&
	       (type == LK__LOOK_ZSET ||
		(value->elements == 2 && value->element[1]->type == REDIS_REPLY_ARRAY));
}

/* A key that the server tells nothing of is not known to be no lock, or free. Nor is one of which
 * something else says what no server says: a proxy, which hides an error. */
static int look_refused(const struct lk__look *look, enum lk__look_type type, lk_error *error)
{
	static const char *const asked[LK__LOOK_TYPES] = {
		[LK__LOOK_HASH] = "HSCAN",
		[LK__LOOK_STRING] = "GETRANGE",
		[LK__LOOK_ZSET] = "ZRANGE",
	};
	const char *url = look->client->config->url;
	const redisReply *value = look->parts[LK__LOOK_VALUE], *ttl = look->parts[LK__LOOK_TTL];
	const redisReply *refused = value->type == REDIS_REPLY_ERROR ? value : ttl;
	if (refused->type == REDIS_REPLY_ERROR) {
		int code = lk__classify(refused->str);
		return lk__fail(error, code == LK_EMAYBEHELD ? LK_EUNAVAILABLE : code,
				"inspect on %.100s: %.300s", url, refused->str);
	}
	if (ttl->type == REDIS_REPLY_INTEGER && look_fits(value, type))
		return LK__WAIT_READY;
	return lk__fail(error, LK_EPROTOCOL, "inspect on %.100s: unexpected reply to %s", url,
			ttl->type != REDIS_REPLY_INTEGER ? "PTTL" : asked[type]);
}

/* Sends what look->answers is to be, and takes so many answers. */
static int look_send(struct lk__look *look, struct lk__request *batch, size_t count,
		     lk_error *error)
{
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

/* TIME, TYPE, and the questions for each type, whatever the key is. */
static struct lk__request *questions_for_any(const struct lk__look *look, size_t count)
{
	const char *const time[WORDS_MAX] = {"TIME"}, *const type[WORDS_MAX] = {"TYPE", look->key};
	struct lk__request *batch = lk__request_batch(count);
	bool made = batch && look_add(batch, 0, time) && look_add(batch, look->key_size, type);
	for (unsigned i = 0; made && i < LK__LOOK_TYPES; i++)
		made = key_add(look, i, &whole, batch);
	if (made)
		return batch;
	lk__request_free(batch);
	return NULL;
}

int lk__look_ask_any(struct lk__look *look, const char **type_out, lk_error *error)
{
	size_t count = 2;
	for (unsigned i = 0; i < LK__LOOK_TYPES; i++)
		count += lk__look_parts(look->client, i);
	int rc = look_send(look, questions_for_any(look, count), count, error);
	if (rc < 0)
		return rc;
	const redisReply *answer = look->parts[0];
	*type_out = answer->type == REDIS_REPLY_STATUS ? answer->str : "";
	look->parts++;
	return LK__WAIT_READY;
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
	struct lk__request *batch = lk__look_batch(look->client, 1, type);
	if (batch && !key_add(look, type, &whole, batch)) {
		lk__request_free(batch);
		batch = NULL;
	}
	int rc = look_send(look, batch, 1 + lk__look_parts(look->client, type), error);
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
	rc = is_lock ? readers_ask(look, info, error) : LK__WAIT_READY;
	return rc < 0 ? rc : is_lock;
}
