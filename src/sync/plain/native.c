/* SPDX-License-Identifier: MIT */
#include "sync/plain/native.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/error.h>

#include "conn/classify.h"
#include "conn/handshake.h"
#include "conn/node.h"
#include "sync/script.h"

#define NOBODY "lockkeeper:nobody" /* a token that no lock has */
#define TAKING ":taking"           /* behind a token, until the lease is counted */

/* ---- what the server can do ---- */

static unsigned abilities(const struct lk__target *target)
{
	return target->node ? atomic_load(&target->node->abilities)
			    : LK__CAN_KNOWN | LK__CAN_SCRIPT;
}

bool lk__native_must_ask(const struct lk__target *target)
{
	return !(abilities(target) & (LK__CAN_KNOWN | LK__CANNOT_SAY));
}

static bool serves(unsigned can)
{
	bool deletes = can & (LK__CAN_DELEX | LK__CAN_DELIFEQ);
	return (can & LK__CAN_SET_IFEQ) && (deletes || !(can & LK__CAN_SCRIPT));
}

bool lk__native_serves(const struct lk__target *target)
{
	return serves(abilities(target));
}

bool lk__native_has_scripts(const struct lk__target *target)
{
	return !serves(abilities(target)) || (abilities(target) & LK__CAN_SCRIPT);
}

static const char channel_of_it[] = "";

/* One command of a batch: its words, keys given as the target's, its channel as channel_of_it. */
static bool add(struct lk__request *batch, const struct lk__target *target, size_t count,
		const char **argv)
{
	struct lk__words words = {0};
	for (size_t i = 0; i < count; i++) {
		if (argv[i] == target->key)
			lk__words_add(&words, target->key, target->key_size);
		else if (argv[i] == channel_of_it)
			lk__words_channel(&words, target);
		else
			lk__words_text(&words, argv[i]);
	}
	return lk__words_batch(batch, &words);
}

#define ADD(batch, target, ...)                                                                    \
	add(batch, target, sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *),           \
	    (const char *[]){__VA_ARGS__})

/* Tells whoever listens, by the node's kinds of messages. */
static bool publish(struct lk__request *batch, const struct lk__target *target, const char *message)
{
	enum lk__messages by = target->node ? target->node->told_by : LK__MESSAGES_PLAIN;
	const char *channel = channel_of_it;
	return (by == LK__MESSAGES_SHARDED || ADD(batch, target, "PUBLISH", channel, message)) &&
	       (by == LK__MESSAGES_PLAIN || ADD(batch, target, "SPUBLISH", channel, message));
}

/* Of commands about one lock. */
static struct lk__request *whole(struct lk__request *batch, bool good)
{
	if (batch)
		batch->one_key = true;
	if (good)
		return batch;
	lk__request_free(batch);
	return NULL;
}

static struct lk__request *durable(struct lk__request *request)
{
	if (request)
		request->durable = LK__DURABLE_WHOLLY;
	return request;
}

/* The answers to lk__native_ask(), in order. */
enum { ASKED_TIME, ASKED_DELEX, ASKED_DELIFEQ, ASKED_SET_IFEQ, ASKED_SCRIPT, ASKED_COUNT };

struct lk__request *lk__native_ask(const struct lk__target *target)
{
	const char *key = target->key;
	struct lk__request *batch = lk__request_batch(ASKED_COUNT);
	if (!batch)
		return NULL;
	batch->asks = target->node;
	bool by_script = atomic_load(&target->node->time_by_script);
	return whole(batch,
		     (by_script ? ADD(batch, target, "EVAL", LK__TIME_SCRIPT, "1", key)
				: ADD(batch, target, "TIME")) &&
			     ADD(batch, target, "DELEX", key, "IFEQ", NOBODY) &&
			     ADD(batch, target, "DELIFEQ", key, NOBODY) &&
			     ADD(batch, target, "SET", key, NOBODY, "IFEQ", NOBODY, "KEEPTTL") &&
			     ADD(batch, target, "EVALSHA", lk__scripts[LK__SCRIPT_PLAIN_RENEW].sha1,
				 "1", key, NOBODY, "1"));
}

/* Whether a right to the key is missing, and not one to the command: the try itself is told so. */
static bool is_about_key(const char *text)
{
	return strncmp(text, "NOPERM", 6) == 0 && strstr(text, " key");
}

/* 0 or `ability`, or the code of an answer that says nothing about it. */
static int ability_read(const redisReply *reply, unsigned ability)
{
	if (reply->type != REDIS_REPLY_ERROR)
		return (int)ability;
	if (lk__classify_unscripted(reply->str) || lk__classify_redirect(reply->str) ||
	    is_about_key(reply->str))
		return (int)ability;
	int code = lk__classify(reply->str);
	if (code == LK_EWRONGTYPE)
		return (int)ability;
	return code == LK_EUNAVAILABLE || code == LK_EREFUSED || code == LK_EAUTH ? code : 0;
}

static void fail(struct lk__answer *answer, int code, const char *reason)
{
	answer->event.type = LK__ATTEMPT_FAILED;
	answer->event.code = code;
	answer->event.retryable = code == LK_EUNAVAILABLE;
	answer->event.passing = lk__classify_passes(reason);
	answer->reason = reason;
}

static void read_asked(const struct lk__request *request, struct lk__answer *answer)
{
	static const unsigned each[ASKED_COUNT] = {
		[ASKED_DELEX] = LK__CAN_DELEX,
		[ASKED_DELIFEQ] = LK__CAN_DELIFEQ,
		[ASKED_SET_IFEQ] = LK__CAN_SET_IFEQ,
		[ASKED_SCRIPT] = LK__CAN_SCRIPT,
	};
	unsigned can = LK__CAN_KNOWN;
	if (request->reply->elements <
	    ASKED_COUNT) /* a server without commands for it has scripts */
		can |= LK__CANNOT_SAY | LK__CAN_SCRIPT;
	for (size_t i = ASKED_DELEX; i < request->reply->elements; i++) {
		const redisReply *reply = request->reply->element[i];
		int ability = ability_read(reply, each[i]);
		if (ability < 0) {
			fail(answer, ability, reply->str);
			return;
		}
		can |= (unsigned)ability;
	}
	if (!(can & LK__CAN_SCRIPT) && !serves(can)) {
		fail(answer, LK_EDENIED,
		     "scripts are refused, and the server has not, or refuses, SET with IFEQ");
		return;
	}
	int64_t server_us = lk__time_answer(request->reply->element[ASKED_TIME]);
	if (server_us < 0) {
		fail(answer, LK_EPROTOCOL, "TIME answers no time");
		return;
	}
	atomic_store(&request->asks->abilities, can);
	answer->event.type = LK__ATTEMPT_ASKED;
	answer->event.server_us = server_us;
}

/* ---- acquire, exchange ---- */

static bool is(const redisReply *reply, int type)
{
	return reply->type == type;
}

/* The answers to a try or an exchange, in order. */
enum { TAKE_BEFORE, TAKE_LEASED, TAKE_TIME, TAKE_TYPE, TAKE_COUNT };

static struct lk__request *take(const struct lk__try *wanted, const char *first, const char *from)
{
	const struct lk__target *target = wanted->target;
	const char *key = target->key, *field = wanted->field;
	assert(wanted->lease_ms > 0);
	char taking[LK__FIELD_SIZE + sizeof(TAKING)];
	struct lk__request *batch = lk__request_batch(TAKE_COUNT);
	if (!batch)
		return NULL;
	snprintf(batch->token, sizeof(batch->token), "%s", field);
	snprintf(taking, sizeof(taking), "%s" TAKING, field);
	struct lk__words words = {0};
	lk__words_text(&words, "SET");
	lk__words_add(&words, key, target->key_size);
	lk__words_text(&words, taking);
	lk__words_text(&words, first);
	lk__words_text(&words, from);
	lk__words_text(&words, "PXAT");
	lk__words_deadline(&words, true);
	bool good = lk__words_batch(batch, &words);
	struct lk__words lease = {0};
	lk__words_text(&lease, "SET");
	lk__words_add(&lease, key, target->key_size);
	lk__words_text(&lease, field);
	lk__words_text(&lease, "IFEQ");
	lk__words_text(&lease, taking);
	lk__words_text(&lease, "PX");
	lk__words_number(&lease, wanted->lease_ms);
	good = good && lk__words_batch(batch, &lease) && ADD(batch, target, "TIME") &&
	       ADD(batch, target, "TYPE", key);
	return durable(whole(batch, good));
}

struct lk__request *lk__native_acquire(const struct lk__try *wanted)
{
	return take(wanted, "NX", "GET");
}

struct lk__request *lk__native_exchange(const struct lk__try *wanted, const char *from)
{
	return take(wanted, "IFEQ", from);
}

/* The type of a key that is not a string. */
static const char *wrong_type(const redisReply *type)
{
	static const char *const reasons[][2] = {
		{"hash", "the key is a hash, as of a reentrant lock or a read/write lock, "
			 "not a plain lock"},
		{"list", "the key is a list, not a plain lock"},
		{"set", "the key is a set, not a plain lock"},
		{"zset", "the key is a zset, not a plain lock"},
		{"stream", "the key is a stream, not a plain lock"},
	};
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (is(type, REDIS_REPLY_STATUS) && strcmp(type->str, reasons[i][0]) == 0)
			return reasons[i][1];
	return "the key is not a string, so it is not a plain lock";
}

/*
 * Somebody had it before: another; or we, by an earlier copy or try, and the lease has counted
 * since then, which is not known.
 */
static bool is_taken_by(const redisReply *before, const char *token)
{
	return is(before, REDIS_REPLY_STRING) && strcmp(before->str, token) == 0;
}

void lk__native_read_acquire(const struct lk__request *request, struct lk__answer *answer)
{
	struct lk__attempt_event *event = &answer->event;
	const redisReply *reply = request->reply;
	if (request->code) {
		*event = lk__reply_refusal(request);
		if (request->code == LK_EWRONGTYPE && reply)
			answer->reason = wrong_type(reply->element[TAKE_TYPE]);
		return;
	}
	if (request->asks) {
		read_asked(request, answer);
		return;
	}
	const redisReply *before = reply->element[TAKE_BEFORE];
	const redisReply *leased = reply->element[TAKE_LEASED];
	event->type = LK__ATTEMPT_UNKNOWN; /* taken, and then refused the lease */
	if (is(leased, REDIS_REPLY_STATUS)) {
		event->type = LK__ATTEMPT_GRANTED;
	} else if (is_taken_by(before, request->token) || !is(leased, REDIS_REPLY_NIL)) {
		return;
	} else if (is(before, REDIS_REPLY_STRING)) {
		event->type = LK__ATTEMPT_BUSY;
		event->ttl_ms = -1;
		event->holder = lk__pace_holder(before->str, (size_t)before->len);
	} else {
		event->server_us = lk__time_answer(reply->element[TAKE_TIME]);
		if (event->server_us >= 0)
			event->type = lk__reply_not_done(request);
	}
}

enum lk__exchanged lk__native_read_exchange(const struct lk__request *request)
{
	if (request->code)
		return lk__reply_exchanged(request);
	assert(request->batch == TAKE_COUNT && request->reply->elements == TAKE_COUNT);
	const redisReply *given = request->reply->element[TAKE_BEFORE];
	const redisReply *leased = request->reply->element[TAKE_LEASED];
	if (is(leased, REDIS_REPLY_STATUS))
		return LK__EXCHANGED;
	/* An earlier copy may have done it: since when the lease counts is not known then. */
	if (!is(leased, REDIS_REPLY_NIL) || lk__reply_is_of_copy(request))
		return LK__EXCHANGE_UNKNOWN;
	return is(given, REDIS_REPLY_NIL) ? LK__EXCHANGE_NOT_OWNER : LK__EXCHANGE_FREED;
}

/* ---- release, force ---- */

struct lk__request *lk__native_release(const struct lk__target *target, const char *field)
{
	const char *key = target->key;
	unsigned can = abilities(target);
	struct lk__request *batch = lk__request_batch(3);
	if (!batch)
		return NULL;
	bool good;
	if (can & LK__CAN_DELEX)
		good = ADD(batch, target, "DELEX", key, "IFEQ", field);
	else if (can & LK__CAN_DELIFEQ)
		good = ADD(batch, target, "DELIFEQ", key, field);
	else
		good = ADD(batch, target, "SET", key, field, "IFEQ", field, "PXAT", "1");
	return whole(batch, good && publish(batch, target, "0"));
}

/* How many heard the messages, whose answers are the last, from that one on. */
static int64_t told(const redisReply *all, size_t from)
{
	int64_t listeners = 0;
	for (size_t i = from; i < all->elements; i++)
		if (is(all->element[i], REDIS_REPLY_INTEGER))
			listeners += all->element[i]->integer;
	return listeners;
}

enum lk__released lk__native_read_release(const struct lk__request *request, int64_t *listeners)
{
	if (request->code == LK_EWRONGTYPE)
		return LK__RELEASED_NOT_OWNER;
	if (request->code)
		return LK__RELEASED_FAILED;
	const redisReply *all = request->reply, *freed = all->element[0];
	if (is(freed, REDIS_REPLY_NIL) || (is(freed, REDIS_REPLY_INTEGER) && freed->integer == 0))
		return LK__RELEASED_NOT_OWNER;
	*listeners = told(all, 1);
	return LK__RELEASED;
}

/* The answers to a release that keeps it, in order; then the messages'. */
enum { KEEP_SET, KEEP_TOKEN, KEEP_TOLD };

struct lk__request *lk__native_keep(const struct lk__target *target, const char *field,
				    int64_t keep_ms)
{
	size_t size = 0;
	char ms[24], *kept = lk__kept_field(field, &size);
	struct lk__request *batch = kept ? lk__request_batch(4) : NULL;
	if (!batch) {
		free(kept);
		return NULL;
	}
	assert(keep_ms > 0);
	snprintf(ms, sizeof(ms), "%" PRId64, keep_ms);
	snprintf(batch->token, sizeof(batch->token), "%s", kept);
	const char *key = target->key;
	bool good = ADD(batch, target, "SET", key, kept, "IFEQ", field, "PX", ms) &&
		    ADD(batch, target, "GET", key) && publish(batch, target, "0");
	free(kept);
	return durable(whole(batch, good));
}

enum lk__released lk__native_read_keep(const struct lk__request *request, int64_t *listeners)
{
	if (request->code == LK_EWRONGTYPE)
		return LK__RELEASED_NOT_OWNER;
	if (request->code)
		return LK__RELEASED_FAILED;
	const redisReply *all = request->reply;
	/* An earlier copy may have set it. */
	if (!is(all->element[KEEP_SET], REDIS_REPLY_STATUS) &&
	    !is_taken_by(all->element[KEEP_TOKEN], request->token))
		return LK__RELEASED_NOT_OWNER;
	*listeners = told(all, KEEP_TOLD);
	return LK__RELEASED;
}

struct lk__request *lk__native_force(const struct lk__target *target)
{
	struct lk__request *batch = lk__request_batch(3);
	if (!batch)
		return NULL;
	return whole(batch,
		     ADD(batch, target, "SET", target->key, NOBODY, "XX", "GET", "PXAT", "1") &&
			     publish(batch, target, "0"));
}

bool lk__native_read_force(const struct lk__request *request)
{
	return is(request->reply->element[0], REDIS_REPLY_STRING);
}

/* ---- renewal ---- */

struct lk__request *lk__native_renew(const struct lk__renewal *renewals, size_t count)
{
	assert(count > 0);
	struct lk__request *batch = lk__request_batch(2 * count + 2);
	bool good = batch != NULL;
	for (size_t i = 0; good && i < count; i++) {
		const struct lk__target *target = renewals[i].target;
		struct lk__words words = {0};
		lk__words_text(&words, "PEXPIRE");
		lk__words_add(&words, target->key, target->key_size);
		lk__words_number(&words, renewals[i].lease_ms);
		lk__words_text(&words, "GT");
		good = lk__words_batch(batch, &words) && ADD(batch, target, "GET", target->key);
	}
	/* Where nothing was longer than before it is the only write, and replicas acknowledge
	 * writes. */
	if (good && lk__node_is_acked(renewals[0].target->node))
		good = publish(batch, renewals[0].target, "");
	struct lk__request *renewal = durable(whole(batch, good));
	if (renewal)
		renewal->one_key = count == 1;
	return renewal;
}
