/* SPDX-License-Identifier: MIT */
/*
 * The calls of the scripts: each script's leading comment says which function sends it, and what
 * fills its keys and arguments. The build makes these functions of that (scripts/lua_calls.py); the
 * words that they are made of are written here. words_NAME() writes what a script calls NAME, with
 * what the call knows under the names of its parameters.
 */
#include "script_calls.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sync/foreign/foreign.h"
#include "sync/multi/multi.h"
#include "sync/recipes.h"
#include "sync/script.h"

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
	if (target->recipe == &lk__fenced_java_recipe)
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
	lk__words_copy(words, nonce,
		       (size_t)snprintf(nonce, sizeof(nonce), "%016" PRIx64, wanted->nonce));
}

/* ---- the read/write lock ---- */

#define TIMEOUT_SUFFIX ":rwlock_timeout:1"
#define PREFERRED_MS 3000 /* a waiting writer that is not heard of for so long is dead */

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
	char *key = lk__name_with(LK__RECORD_PREFIX, target->key, target->key_size, field, &size);
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
	lk__words_copy(words, id, sizeof(id));
}

static void words_id_prefix(struct lk__words *words, const char *field)
{
	unsigned char id[LK__PERMIT_ID_BYTES] = {0};
	lk__permit_bytes(field, id);
	lk__words_copy(words, id, LK__PERMIT_PREFIX_BYTES);
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
