/* SPDX-License-Identifier: MIT */
/*
 * The calls of the scripts: each script's leading comment says which function sends it, and what
 * fills its keys and arguments. The build makes these functions of that (scripts/lua_calls.py); the
 * words that they are made of are written here. words_NAME() writes what a script calls NAME, with
 * what the call knows under the names of its parameters.
 */
#include "script_calls.h"

#include <assert.h>

#include "sync/foreign/foreign.h"
#include "sync/recipes.h"
#include "sync/script.h"

/* Adds a word that the call has as it is sent. */
#define words_value(words, value)                                                                  \
	_Generic((value), int64_t : lk__words_number, const char * : lk__words_text)(words, value)

void lk__words_key(struct lk__words *words, const struct lk__target *target)
{
	lk__words_add(words, target->key, target->key_size);
}

void lk__words_derived(struct lk__words *words, const char *prefix, const struct lk__target *target)
{
	size_t size = 0;
	char *name = lk__derived_name(prefix, target->key, target->key_size, &size);
	lk__words_own(words, name, size);
}

/* Redisson's counter of a fenced lock, where Java peers share it. */
static void words_java_counter(struct lk__words *words, const struct lk__target *target)
{
	if (target->recipe == &lk__fenced_java_recipe)
		lk__words_derived(words, LK__FENCE_JAVA_PREFIX, target);
}

void lk__words_channel(struct lk__words *words, const struct lk__target *target)
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

void lk__words_kept(struct lk__words *words, const char *field)
{
	size_t size = 0;
	char *kept = lk__kept_field(field, &size);
	lk__words_own(words, kept, size);
}

void lk__words_turn(struct lk__words *words, const struct lk__try *wanted)
{
	if (!wanted->turn)
		return;
	lk__words_text(words, wanted->turn);
	lk__words_number(words, wanted->since_us);
	lk__words_number(words, wanted->turn_ms);
	lk__words_text(words, wanted->asks_place_only ? "1" : "0");
	words->turn = wanted->asks_place_only ? '1' : '0';
}

#include "script_calls.inc"
