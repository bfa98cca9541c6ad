/* SPDX-License-Identifier: MIT */
/*
 * The words of a command or of a script's call, put together one by one:
 *
 *   struct lk__words words = {0};
 *   lk__words_add(&words, target->key, target->key_size);    keys first
 *   lk__words_text(&words, field);                           then arguments
 *   lk__words_number(&words, lease_ms);
 *   return lk__words_script(&words, LK__SCRIPT_LOCK_ACQUIRE, 1);
 *
 * A word may be NULL (out of memory when it was made): then no request is made. The words end with
 * the request that is made of them; so each is used for exactly one.
 */
#ifndef LK__CONN_WORDS_H
#define LK__CONN_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conn/request.h"

#define LK__WORDS_FEW 16   /* so many need no memory of their own */
#define LK__WORDS_HEAD 3   /* in front of a script's: EVALSHA, SHA-1, number of keys */
#define LK__WORD_COPIED 24 /* the longest word that is copied, a number with its NUL */

/* What is kept for one word. */
struct lk__word {
	char copy[LK__WORD_COPIED];
	bool owned;
};

struct lk__words {
	size_t count;
	size_t room;     /* 0: nothing was added yet */
	bool incomplete; /* a word is missing: out of memory, or more than was said */
	size_t deadline; /* one more than the index of that word; 0: none */
	const char **argv;
	size_t *sizes;
	struct lk__word *kept;
	const char *few_argv[LK__WORDS_HEAD + LK__WORDS_FEW];
	size_t few_sizes[LK__WORDS_HEAD + LK__WORDS_FEW];
	struct lk__word few_kept[LK__WORDS_FEW];
};

/* Before the first word, where there may be more than LK__WORDS_FEW: at most so many. */
void lk__words_many(struct lk__words *words, size_t most);

/* The word is not copied: it must stay as it is until the request is made. */
void lk__words_add(struct lk__words *words, const char *word, size_t size);
void lk__words_text(struct lk__words *words, const char *text);

/* The word was allocated, and is freed with the words. */
void lk__words_own(struct lk__words *words, char *word, size_t size);

/* The word is copied; it has at most LK__WORD_COPIED bytes. */
void lk__words_copy(struct lk__words *words, const void *word, size_t size);
void lk__words_number(struct lk__words *words, int64_t number);

/* The deadline of a script's call, in µs by the clock of the server that it is sent to. One a
 * request; lk__request_stamp() fills it in. */
void lk__words_deadline(struct lk__words *words);

/* EVALSHA with the first `key_count` words as keys. NULL when out of memory. */
struct lk__request *lk__words_script(struct lk__words *words, enum lk__script_id script,
				     size_t key_count);

/* The words as a command of their own. NULL when out of memory. */
struct lk__request *lk__words_command(struct lk__words *words);

/* The words as one more command of a batch. False when out of memory. */
bool lk__words_batch(struct lk__request *batch, struct lk__words *words);

#endif
