/* SPDX-License-Identifier: MIT */
#include "conn/words.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lk__words_many(struct lk__words *words, size_t most)
{
	if (most <= LK__WORDS_FEW)
		return;
	words->room = most;
	words->argv = calloc(LK__WORDS_HEAD + most, sizeof(*words->argv));
	words->sizes = calloc(LK__WORDS_HEAD + most, sizeof(*words->sizes));
	words->kept = calloc(most, sizeof(*words->kept));
	words->incomplete = !words->argv || !words->sizes || !words->kept;
}

static void words_few(struct lk__words *words)
{
	words->room = LK__WORDS_FEW;
	words->argv = words->few_argv;
	words->sizes = words->few_sizes;
	words->kept = words->few_kept;
}

void lk__words_add(struct lk__words *words, const char *word, size_t size)
{
	if (words->room == 0)
		words_few(words);
	words->incomplete |= !word || words->count == words->room;
	if (words->incomplete)
		return;
	words->argv[LK__WORDS_HEAD + words->count] = word;
	words->sizes[LK__WORDS_HEAD + words->count++] = size;
}

void lk__words_text(struct lk__words *words, const char *text)
{
	lk__words_add(words, text, text ? strlen(text) : 0);
}

void lk__words_own(struct lk__words *words, char *word, size_t size)
{
	lk__words_add(words, word, size);
	if (words->incomplete)
		free(word);
	else
		words->kept[words->count - 1].owned = true;
}

void lk__words_copy(struct lk__words *words, const void *word, size_t size)
{
	words->incomplete |= size > LK__WORD_COPIED;
	lk__words_add(words, "", size);
	if (words->incomplete)
		return;
	char *copy = words->kept[words->count - 1].copy;
	memcpy(copy, word, size);
	words->argv[LK__WORDS_HEAD + words->count - 1] = copy;
}

void lk__words_number(struct lk__words *words, int64_t number)
{
	char text[LK__WORD_COPIED];
	int size = snprintf(text, sizeof(text), "%" PRId64, number);
	lk__words_copy(words, text, (size_t)size);
}

void lk__words_deadline(struct lk__words *words)
{
	static const char blank[] = "0000000000000000";
	assert(sizeof(blank) > LK__STAMP_SIZE && !words->deadline);
	lk__words_add(words, blank, LK__STAMP_SIZE);
	words->deadline = words->count;
}

static size_t digits_of(size_t number)
{
	size_t digits = 1;
	for (; number >= 10; number /= 10)
		digits++;
	return digits;
}

/* Notes where the deadline stands in the call: "*count\r\n", then each word as
 * "$size\r\nword\r\n". */
static void words_mark(const struct lk__words *words, struct lk__request *request)
{
	size_t last = LK__WORDS_HEAD + words->deadline - 1;
	size_t at = 3 + digits_of(LK__WORDS_HEAD + words->count);
	if (!words->deadline)
		return;
	for (size_t i = 0; i < last; i++)
		at += 5 + digits_of(words->sizes[i]) + words->sizes[i];
	request->stamp_at = at + 3 + digits_of(words->sizes[last]);
}

static void words_end(struct lk__words *words)
{
	for (size_t i = 0; i < words->count; i++)
		if (words->kept[i].owned)
			free((char *)words->argv[LK__WORDS_HEAD + i]);
	if (words->argv == words->few_argv)
		return;
	free(words->argv);
	free(words->sizes);
	free(words->kept);
}

struct lk__request *lk__words_script(struct lk__words *words, enum lk__script_id script,
				     size_t key_count)
{
	struct lk__request *request = NULL;
	if (!words->incomplete) {
		char keys[24];
		words->argv[0] = "EVALSHA";
		words->sizes[0] = strlen("EVALSHA");
		words->argv[1] = lk__scripts[script].sha1;
		words->sizes[1] = strlen(lk__scripts[script].sha1);
		words->argv[2] = keys;
		words->sizes[2] = (size_t)snprintf(keys, sizeof(keys), "%zu", key_count);
		request = lk__request_new(LK__WORDS_HEAD + words->count, words->argv, words->sizes);
	}
	if (request) {
		words_mark(words, request);
		request->script = (int)script;
		request->durable = lk__scripts[script].durable;
	}
	words_end(words);
	return request;
}

struct lk__request *lk__words_command(struct lk__words *words)
{
	assert(!words->deadline);
	struct lk__request *request = NULL;
	if (!words->incomplete)
		request = lk__request_new(words->count, words->argv + LK__WORDS_HEAD,
					  words->sizes + LK__WORDS_HEAD);
	words_end(words);
	return request;
}

bool lk__words_batch(struct lk__request *batch, struct lk__words *words)
{
	bool added = !words->incomplete &&
		     lk__request_add(batch, words->count, words->argv + LK__WORDS_HEAD,
				     words->sizes + LK__WORDS_HEAD);
	words_end(words);
	return added;
}
