/* SPDX-License-Identifier: MIT */
#include "api/asking.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/request.h"
#include "lock/operation.h"
#include "sync/recipe.h"

bool lk__word_is_name(const char *word)
{
	return *word == '~' || *word == '&' || *word == '!';
}

/* The channel of that prefix, and behind it where the breaking of a lock is told. */
static char *broken_name(const char *prefix, const char *key, size_t key_size, size_t *size_out)
{
	size_t size;
	char *channel = lk__derived_name(prefix, key, key_size, &size);
	char *name = channel ? malloc(size + sizeof(LK__BROKEN)) : NULL;
	if (name)
		memcpy(mempcpy(name, channel, size), LK__BROKEN, sizeof(LK__BROKEN));
	free(channel);
	*size_out = size + strlen(LK__BROKEN);
	return name;
}

char *lk__word_name(const char *word, const char *key, size_t key_size, size_t *size_out)
{
	*size_out = 0;
	if (*word == '!')
		return broken_name(word + 1, key, key_size, size_out);
	if (word[1] == ':')
		return lk__suffixed_name(key, key_size, word + 2, size_out);
	if (word[1] == '&')
		return lk__braced_name(word + 2, key, key_size, size_out);
	return lk__derived_name(word + 1, key, key_size, size_out);
}

struct lk__questions lk__questions_begin(size_t most)
{
	struct lk__questions questions = {.batch = lk__request_batch(1 + most)};
	lk__questions_add(&questions, NULL, LK__SAY("TIME"));
	return questions;
}

void lk__questions_put(struct lk__questions *questions, struct lk__words *words)
{
	if (lk__words_batch(questions->batch, words))
		return;
	lk__request_free(questions->batch);
	questions->batch = NULL;
}

void lk__questions_add(struct lk__questions *questions, const char *const *before,
		       const char *const *words)
{
	struct lk__words all = {0};
	if (!questions->batch)
		return;
	while (before && *before)
		lk__words_text(&all, *before++);
	for (; *words; words++) {
		size_t size;
		if (strcmp(*words, "~") == 0) {
			lk__words_add(&all, questions->key, questions->key_size);
		} else if (questions->record && strcmp(*words, "=") == 0) {
			lk__words_text(&all, questions->record);
		} else if (lk__word_is_name(*words)) {
			char *name = lk__word_name(*words, questions->key, questions->key_size,
						   &size);
			lk__words_own(&all, name, size);
		} else {
			lk__words_text(&all, *words);
		}
	}
	lk__questions_put(questions, &all);
}

int lk__asked_ask(const struct lk__asked *asked, struct lk__request *request, lk_error *error)
{
	lk_client *client = asked->client;
	int64_t until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	return lk__ask(client, lk__node_scripts(asked->node), asked->thread, lk__question(request),
		       asked->what, until_ns, error);
}

struct lk__request *lk__asked_say(const struct lk__asked *asked, const char *const *words,
				  int *code_out, lk_error *error)
{
	struct lk__words all = {0};
	while (*words)
		lk__words_text(&all, *words++);
	struct lk__request *request = lk__words_command(&all);
	*code_out = lk__asked_ask(asked, request, error);
	return *code_out == LK__WAIT_READY ? request : NULL;
}
