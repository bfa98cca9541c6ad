/* SPDX-License-Identifier: MIT */
/*
 * Requests of scripts, and answers to them.
 *
 * Each script's leading comment says which function sends it, and what fills its keys and
 * arguments. The build makes these functions of that (scripts/lua_calls.py); the words that they
 * are made of are written here. words_NAME() writes what a script calls NAME, with what the call
 * knows under the names of its parameters.
 */
#include "sync/script.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/error.h>

#include "conn/conn.h"
#include "conn/node.h"
#include "resp/reply.h"
#include "script_calls.h"
#include "sync/foreign/foreign.h"
#include "sync/multi/multi.h"
#include "sync/recipes.h"

/* ---- names, derived from a lock's as Redisson does, and from an owner's field ---- */

/* "prefix:{name}:suffix", or with the name alone where it has a "{"; or only one of both. NULL when
 * out of memory. */
static char *name_with(const char *prefix, const char *name, size_t name_size, const char *suffix,
		       size_t *size_out)
{
	size_t prefix_size = prefix ? strlen(prefix) : 0, suffix_size = suffix ? strlen(suffix) : 0;
	bool braces = !memchr(name, '{', name_size);
	char *made = malloc(prefix_size + name_size + suffix_size + sizeof(":{}:"));
	char *end = made;
	if (!made)
		return NULL;
	if (prefix) {
		end = mempcpy(end, prefix, prefix_size);
		*end++ = ':';
	}
	if (braces)
		*end++ = '{';
	end = mempcpy(end, name, name_size);
	if (braces)
		*end++ = '}';
	if (suffix) {
		*end++ = ':';
		end = mempcpy(end, suffix, suffix_size);
	}
	*end = '\0';
	*size_out = (size_t)(end - made);
	return made;
}

char *lk__derived_name(const char *prefix, const char *name, size_t name_size, size_t *size_out)
{
	return name_with(prefix, name, name_size, NULL, size_out);
}

char *lk__suffixed_name(const char *name, size_t name_size, const char *suffix, size_t *size_out)
{
	return name_with(NULL, name, name_size, suffix, size_out);
}

char *lk__braced_name(const char *prefix, const char *name, size_t name_size, size_t *size_out)
{
	size_t prefix_size = strlen(prefix);
	*size_out = prefix_size + name_size + 2;
	char *made = malloc(*size_out + 1);
	char *end = made;
	if (!made)
		return NULL;
	end = mempcpy(end, prefix, prefix_size);
	*end++ = '{';
	end = mempcpy(end, name, name_size);
	memcpy(end, "}", sizeof("}"));
	return made;
}

char *lk__channel_name(const struct lk__recipe *recipe, const char *key, size_t key_size,
		       size_t *size_out)
{
	*size_out = 0;
	if (!recipe->channel_prefix)
		return calloc(1, 1);
	return (recipe->flags & LK__BRACED ? lk__braced_name : lk__derived_name)(
		recipe->channel_prefix, key, key_size, size_out);
}

char *lk__target_channel(const struct lk__target *target, size_t *size_out)
{
	const struct lk__notify *notify = atomic_load(&target->notify);
	if (!notify || notify->keep_ms)
		return lk__channel_name(target->recipe, target->key, target->key_size, size_out);
	char *name = malloc(notify->target_size + 1);
	if (name)
		memcpy(name, notify->target, notify->target_size + 1);
	*size_out = notify->target_size;
	return name;
}

void lk__field_of(const char *client_id, uint64_t number, char field_out[LK__FIELD_SIZE])
{
	size_t size = strlen(client_id);
	assert(size + 1 + LK__NUMBER_SIZE < LK__FIELD_SIZE);
	char *end = mempcpy(field_out, client_id, size);
	*end++ = ':';
	end[lk__number_write(end, number)] = '\0';
}

/* ---- words ---- */

/* Adds a word that the call has as it is sent. */
#define words_value(words, value)                                                                  \
	_Generic((value), int64_t : lk__words_number, const char * : lk__words_text)(words, value)

static void words_key(struct lk__words *words, const struct lk__target *target)
{
	lk__words_add(words, target->key, target->key_size);
}

static void words_derived(struct lk__words *words, const char *prefix,
			  const struct lk__target *target)
{
	size_t size = 0;
	char *name = lk__derived_name(prefix, target->key, target->key_size, &size);
	lk__words_own(words, name, size);
}

/* Redisson's counter of a fenced lock, where Java peers share it. */
static void words_java_counter(struct lk__words *words, const struct lk__target *target)
{
	if (target->recipe->flags & LK__JAVA_COUNTER)
		words_derived(words, LK__FENCE_JAVA_PREFIX, target);
}

static void words_channel(struct lk__words *words, const struct lk__target *target)
{
	size_t size;
	char *name = lk__channel_name(target->recipe, target->key, target->key_size, &size);
	lk__words_own(words, name, size);
}

static void words_deadline(struct lk__words *words)
{
	lk__words_deadline(words);
}

/* Adds what wakes another library's waiters, as four words; none where there is none. */
static void words_notify(struct lk__words *words, const struct lk__target *target)
{
	const struct lk__notify *notify = atomic_load(&target->notify);
	if (notify)
		lk__notify_words(words, notify);
}

/* The field that is nobody's, "<uuid>:kept:<number>…", under which the lock of a field is kept.
 * NULL when out of memory. */
static char *kept_field(const char *field, size_t *size_out)
{
	const char *colon = strchr(field, ':');
	char *made = NULL;
	assert(colon);
	int size = asprintf(&made, "%.*s:kept%s", (int)(colon - field), field, colon);
	if (size < 0)
		return NULL;
	*size_out = (size_t)size;
	return made;
}

static void words_kept(struct lk__words *words, const char *field)
{
	size_t size = 0;
	char *kept = kept_field(field, &size);
	lk__words_own(words, kept, size);
}

static void words_turn(struct lk__words *words, const struct lk__try *wanted)
{
	if (!wanted->turn)
		return;
	lk__words_text(words, wanted->turn);
	lk__words_number(words, wanted->since_us);
	lk__words_number(words, wanted->turn_ms);
	lk__words_text(words, wanted->asks_place_only ? "1" : "0");
	words->turn = wanted->asks_place_only ? '1' : '0';
}

/* ---- the fair lock ---- */

/* How long the queue takes this waiter for alive: its wait, but others should not have to wait for
 * one who is dead for as long as it may have been patient. */
static int64_t fair_alive_ms(const struct lk__try *wanted)
{
	bool shorter = wanted->wait_ms > 0 && wanted->wait_ms < wanted->alive_ms;
	return shorter ? wanted->wait_ms : wanted->alive_ms;
}

/* Adds what only a try says, as four words. */
static void words_fair_try(struct lk__words *words, const struct lk__try *wanted)
{
	char nonce[24];
	if (!wanted)
		return;
	lk__words_number(words, wanted->lease_ms);
	lk__words_number(words, fair_alive_ms(wanted));
	lk__words_deadline(words);
	lk__words_add(words, nonce,
		      (size_t)snprintf(nonce, sizeof(nonce), "%016" PRIx64, wanted->nonce));
}

/* ---- the read/write lock ---- */

#define TIMEOUT_SUFFIX ":rwlock_timeout:1"
#define PREFERRED_MS 3000 /* a waiting writer that is not heard of for so long is dead */

/* The side that is shared is the one that reads. */
static bool is_read_side(const struct lk__target *target)
{
	return target->recipe->flags & LK__SHARES;
}

static void words_side(struct lk__words *words, const struct lk__target *target)
{
	lk__words_text(words, is_read_side(target) ? "read" : "write");
}

static void words_message(struct lk__words *words, const struct lk__target *target)
{
	lk__words_text(words, is_read_side(target) ? "0" : "1");
}

static void words_timeout(struct lk__words *words, const struct lk__target *target,
			  const char *field)
{
	char suffix[LK__RW_FIELD_SIZE + sizeof(TIMEOUT_SUFFIX)];
	size_t field_size = strlen(field), size = 0;
	assert(field_size < LK__RW_FIELD_SIZE);
	memcpy(mempcpy(suffix, field, field_size), TIMEOUT_SUFFIX, sizeof(TIMEOUT_SUFFIX));
	char *key = lk__suffixed_name(target->key, target->key_size, suffix, &size);
	lk__words_own(words, key, size);
}

static void words_kept_timeout(struct lk__words *words, const struct lk__target *target,
			       const char *field)
{
	size_t size = 0;
	char *kept = kept_field(field, &size);
	if (kept)
		words_timeout(words, target, kept);
	else
		words->incomplete = true;
	free(kept);
}

/* Adds a field that is made as printf() does. */
__attribute__((format(printf, 2, 3))) static void words_print(struct lk__words *words,
							      const char *format, ...)
{
	va_list arguments;
	char *text = NULL;
	va_start(arguments, format);
	int size = vasprintf(&text, format, arguments);
	va_end(arguments);
	lk__words_own(words, size < 0 ? NULL : text, size < 0 ? 0 : (size_t)size);
}

/* Adds the field that the same client's write side has under another number; "" for number 0. */
static void words_write_side(struct lk__words *words, const struct lk__try *wanted)
{
	const char *colon = strrchr(wanted->field, ':');
	assert(colon);
	if (wanted->other_number)
		words_print(words, "%.*s:%" PRIu64 ":write", (int)(colon - wanted->field),
			    wanted->field, wanted->other_number);
	else
		lk__words_text(words, "");
}

static void words_write_field(struct lk__words *words, const char *field)
{
	words_print(words, "%s:write", field);
}

static void words_prefers(struct lk__words *words, const struct lk__try *wanted)
{
	lk__words_number(words, (wanted->flags & LK__RW_PREFER_WRITERS) != 0);
}

static void words_preferred_ms(struct lk__words *words, const struct lk__try *wanted)
{
	bool preferred = (wanted->flags & LK__RW_PREFER_WRITERS) && !wanted->once;
	lk__words_number(words, preferred ? PREFERRED_MS : 0);
}

/* ---- counts ---- */

/* Adds the key under which a request is remembered: "lockkeeper_sc:{name}:<field>". */
static void words_record(struct lk__words *words, const struct lk__target *target,
			 const char *field)
{
	size_t size = 0;
	char *key = name_with(LK__RECORD_PREFIX, target->key, target->key_size, field, &size);
	lk__words_own(words, key, size);
}

/* Adds that of an earlier number of the client, or the same record, where there is none. */
static void words_settled(struct lk__words *words, const struct lk__target *target,
			  const char *field, uint64_t settled)
{
	char other[LK__FIELD_SIZE];
	const char *colon = strrchr(field, ':');
	assert(colon);
	if (settled)
		snprintf(other, sizeof(other), "%.*s:%" PRIu64, (int)(colon - field), field,
			 settled);
	words_record(words, target, settled ? other : field);
}

/* Adds the key of the permits in use: "{name}:timeout". */
static void words_in_use(struct lk__words *words, const struct lk__target *target)
{
	size_t size = 0;
	char *key = lk__suffixed_name(target->key, target->key_size, "timeout", &size);
	lk__words_own(words, key, size);
}

static void words_permits_in_use(struct lk__words *words, const struct lk__change *change)
{
	if (change->of_permits)
		words_in_use(words, change->target);
}

static void words_id_bytes(struct lk__words *words, const char *field)
{
	unsigned char id[LK__PERMIT_ID_BYTES] = {0};
	lk__permit_bytes(field, id);
	lk__words_add(words, (const char *)id, sizeof(id));
}

static void words_id_prefix(struct lk__words *words, const char *field)
{
	unsigned char id[LK__PERMIT_ID_BYTES] = {0};
	lk__permit_bytes(field, id);
	lk__words_add(words, (const char *)id, LK__PERMIT_PREFIX_BYTES);
}

static void words_id_or_none(struct lk__words *words, const char *id)
{
	if (id)
		words_id_bytes(words, id);
	else
		lk__words_text(words, "");
}

static void words_id_of(struct lk__words *words, const unsigned char *ids, size_t i)
{
	lk__words_add(words, (const char *)ids + i * LK__PERMIT_ID_BYTES, LK__PERMIT_ID_BYTES);
}

/* ---- the election ---- */

#define ALIVE_LOOKS 2 /* a candidate that has not looked so often counts as dead */

/* Adds who is to lead next, or what a try says of its candidate. */
static void words_candidate(struct lk__words *words, const struct lk__try *wanted, const char *to)
{
	if (to)
		lk__words_text(words, to);
	if (!wanted)
		return;
	const struct lk__stand *stand = wanted->target->stand;
	lk__words_number(words, wanted->lease_ms);
	lk__words_deadline(words);
	lk__words_number(words, ALIVE_LOOKS * wanted->turn_ms);
	lk__words_number(words, stand->priority);
	lk__words_number(words, stand->standing);
	lk__words_number(words, stand->changes);
	lk__words_text(words, stand->host);
	lk__words_add(words, stand->value, stand->value_size);
}

/* Adds how the candidate of a handle stands. */
static void words_rank(struct lk__words *words, const struct lk__target *target)
{
	lk__words_number(words, target->stand->priority);
	lk__words_number(words, target->stand->standing);
	lk__words_number(words, target->stand->changes);
}

static void words_term(struct lk__words *words, uint64_t term)
{
	lk__words_number(words, (int64_t)term);
}

static void words_bytes(struct lk__words *words, const void *value, size_t value_size)
{
	lk__words_add(words, value, value_size);
}

/* ---- the barrier ---- */

/* Adds what a try says of its party, as four words. */
static void words_party(struct lk__words *words, const struct lk__try *wanted)
{
	if (!wanted)
		return;
	lk__words_number(words, wanted->lease_ms);
	lk__words_deadline(words);
	lk__words_number(words, wanted->count);
	lk__words_text(words, wanted->once ? "1" : "0");
}

#include "script_calls.inc"

/* ---- answers ---- */

int lk__reply_renewed(const struct lk__request *request, size_t count, size_t index)
{
	const redisReply *reply = request->reply;
	assert(index < count);
	if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements < count ||
	    request->code == LK_ENOTDURABLE)
		return -1;
	int64_t renewed;
	bool said = !request->code && lk__reply_integer(reply->element[index], 0, 1, &renewed);
	return said ? (int)renewed : -1;
}

struct lk__attempt_event lk__reply_refusal(const struct lk__request *request)
{
	assert(request->code < 0);
	if (request->code == LK_EMAYBEHELD || request->code == LK_ENOTDURABLE)
		return (struct lk__attempt_event){.type = LK__ATTEMPT_UNKNOWN,
						  .code = request->code,
						  .lasting = request->lasting};
	/* OOM and the like fail fast: trying again would only add to it. */
	bool retryable = lk_error_is_retryable(request->code) && request->code != LK_EREFUSED;
	return (struct lk__attempt_event){
		.type = LK__ATTEMPT_FAILED,
		.code = request->code,
		.retryable = retryable,
		.passing = request->passing,
	};
}

bool lk__reply_is_of_copy(const struct lk__request *request)
{
	return request->sends > 1;
}

bool lk__reply_late(const redisReply *reply, int64_t *server_us)
{
	if (reply->type != REDIS_REPLY_STATUS || strncmp(reply->str, "LATE ", 5) != 0)
		return false;
	return lk__number_read(reply->str + 5, 0, INT64_MAX, server_us);
}

const redisReply *lk__reply_tried(const struct lk__request *request, struct lk__answer *answer)
{
	const redisReply *reply = request->reply;
	struct lk__attempt_event *event = &answer->event;
	assert(request->code || reply);
	event->type = LK__ATTEMPT_UNKNOWN;
	if (request->code)
		*event = lk__reply_refusal(request);
	else if (reply->type == REDIS_REPLY_NIL)
		event->type = LK__ATTEMPT_GRANTED;
	else if (!lk__reply_late(reply, &event->server_us))
		return reply;
	else if (!lk__reply_is_of_copy(request))
		event->type = LK__ATTEMPT_LATE;
	return NULL;
}

void lk__reply_acquired(const struct lk__request *request, struct lk__answer *answer)
{
	const redisReply *busy = lk__reply_tried(request, answer);
	if (!busy || busy->type != REDIS_REPLY_INTEGER)
		return;
	answer->event.type = LK__ATTEMPT_BUSY;
	answer->event.ttl_ms = busy->integer;
}

static enum lk__released released(const struct lk__request *request, int64_t least,
				  int64_t *listeners)
{
	assert(request->code || request->reply);
	if (request->code)
		return LK__RELEASED_FAILED;
	if (request->reply->type == REDIS_REPLY_NIL)
		return LK__RELEASED_NOT_OWNER;
	return lk__reply_integer(request->reply, least, INT64_MAX, listeners) ? LK__RELEASED
									      : LK__RELEASED_FAILED;
}

enum lk__released lk__reply_released(const struct lk__request *request, int64_t *listeners)
{
	return released(request, 0, listeners);
}

enum lk__released lk__reply_turn_given(const struct lk__request *request, int64_t *listeners)
{
	return released(request, -1 - INT64_C(0xffffffff), listeners);
}

enum lk__exchanged lk__reply_exchanged(const struct lk__request *request, struct lk__answer *answer)
{
	(void)answer; /* there is no token */
	const redisReply *reply = request->reply;
	assert(request->code || reply);
	if (request->code == LK_EMAYBEHELD || request->code == LK_ENOTDURABLE)
		return LK__EXCHANGE_UNKNOWN;
	if (request->code)
		return LK__EXCHANGE_NOT_DONE;
	if (reply->type == REDIS_REPLY_NIL)
		return LK__EXCHANGED;
	if (reply->type == REDIS_REPLY_INTEGER)
		return LK__EXCHANGE_NOT_OWNER;
	if (reply->type == REDIS_REPLY_STATUS && strncmp(reply->str, "FREED", 5) == 0)
		return LK__EXCHANGE_FREED;
	return lk__reply_is_of_copy(request) ? LK__EXCHANGE_UNKNOWN : LK__EXCHANGE_NOT_DONE;
}

/* A reply that came with LK_ENOTDURABLE is read as it would be without: only a grant is void. */
static struct lk__answer answer_read(const struct lk__request *request, lk__read_acquire *read)
{
	struct lk__answer answer = {.fence = 0};
	if (request->code != LK_ENOTDURABLE) {
		read(request, &answer);
		return answer;
	}
	struct lk__request durable = *request;
	durable.code = 0;
	read(&durable, &answer);
	if (answer.event.type == LK__ATTEMPT_GRANTED)
		answer.event = lk__reply_refusal(request);
	return answer;
}

static void answer_doubt(struct lk__answer *answer, const char *reason)
{
	answer->event.type = LK__ATTEMPT_UNKNOWN;
	answer->event.code = LK_EMAYBEHELD;
	answer->reason = reason;
}

/* The words that no script of ours says are shown: somebody has to find their source. */
static const char *strange(const redisReply *reply)
{
	bool words = reply && reply->type == REDIS_REPLY_STATUS && strchr(reply->str, ' ');
	return words ? reply->str : "the answer does not say whether it was granted";
}

struct lk__answer lk__answer_take(const struct lk__request *request, lk__read_acquire *read,
				  int64_t lease_ms, int64_t now_ns)
{
	struct lk__answer answer = answer_read(request, read);
	struct lk__attempt_event *event = &answer.event;
	assert(event->type >= LK__ATTEMPT_GRANTED && event->type <= LK__ATTEMPT_UNKNOWN);
	assert(event->type != LK__ATTEMPT_GRANTED || !event->code);
	event->sent_ns = request->sent_ns;
	event->copied = lk__reply_is_of_copy(request);
	event->untold = request->code == LK_EMAYBEHELD;
	event->unsent = request->code == LK_EUNREACHABLE && request->sends == 0;
	event->ran = request->ran;
	if (event->type == LK__ATTEMPT_GRANTED &&
	    now_ns >= lk__lease_end_ns(request->sent_ns, lease_ms)) {
		answer_doubt(&answer, "the grant arrived after its lease had expired");
		event->ran = !event->copied;
	}
	if (event->type == LK__ATTEMPT_UNKNOWN && !event->code)
		answer_doubt(&answer, strange(request->reply));
	if (event->type == LK__ATTEMPT_LATE)
		lk__node_learn_time(request->conn->node, event->server_us, now_ns);
	if (event->code && !answer.reason)
		answer.reason = request->reason;
	return answer;
}
