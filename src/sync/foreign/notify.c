/* SPDX-License-Identifier: MIT */
/* Notifies another library's waiters of a release. */
#include <stdlib.h>
#include <string.h>

#include "resp/reply.h"
#include "sync/foreign/foreign.h"

#define WORDS 4
#define KEEP_MAX_MS 86400000

/* Takes a text apart at its spaces: how many words, or 0 when there are too many. */
static size_t split(char *text, char *words[WORDS])
{
	size_t count = 0;
	char *rest = NULL;
	for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (count == WORDS)
			return 0;
		words[count++] = word;
	}
	return count;
}

/* Fills in what the text says, with the parts of the key. False: it is of no known form. */
static enum lk__notify_made fill(struct lk__notify *notify, const char *text,
				 const struct lk__form_parts *parts)
{
	char *words[WORDS];
	char *copy = strdup(text);
	if (!copy)
		return LK__NOTIFY_NO_MEMORY;
	size_t count = split(copy, words);
	bool pushes = count == 4 && strcmp(words[0], "push") == 0 &&
		      lk__number_read(words[3], 1, KEEP_MAX_MS, &notify->keep_ms);
	bool publishes = count == 3 && strcmp(words[0], "publish") == 0;
	if (!pushes && !publishes) {
		free(copy);
		return LK__NOTIFY_UNKNOWN;
	}
	notify->target = lk__form_fill(words[1], parts, &notify->target_size);
	notify->message = lk__form_fill(words[2], parts, &notify->message_size);
	free(copy);
	return notify->target && notify->message ? LK__NOTIFY_MADE : LK__NOTIFY_NO_MEMORY;
}

/* Named `text`, it does what `how` says. */
static enum lk__notify_made make(struct lk__notify **notify_out, const char *text, const char *how,
				 const struct lk__form_parts *parts)
{
	struct lk__notify *notify = calloc(1, sizeof(*notify));
	if (!notify)
		return LK__NOTIFY_NO_MEMORY;
	notify->text = strdup(text);
	enum lk__notify_made made = notify->text ? fill(notify, how, parts) : LK__NOTIFY_NO_MEMORY;
	if (made == LK__NOTIFY_MADE)
		*notify_out = notify;
	else
		lk__notify_free(notify);
	return made;
}

enum lk__notify_made lk__notify_new(struct lk__notify **notify_out, const char *text,
				    const char *key, size_t key_size, const char **form_out)
{
	const struct lk__foreign *row = lk__foreign_notifier(text);
	struct lk__form_parts parts;
	const char *form = row ? row->key : "*";
	*form_out = form;
	if (!lk__form_match(form, key, key_size, &parts))
		return LK__NOTIFY_OTHER_KEY;
	return make(notify_out, text, row ? row->notify : text, &parts);
}

enum lk__notify_made lk__notify_of(struct lk__notify **notify_out, const struct lk__foreign *row,
				   const char *key, size_t key_size)
{
	struct lk__form_parts parts;
	if (!lk__form_match(row->key, key, key_size, &parts))
		return LK__NOTIFY_OTHER_KEY;
	return make(notify_out, row->library, row->notify, &parts);
}

void lk__notify_free(struct lk__notify *notify)
{
	if (!notify)
		return;
	free(notify->text);
	free(notify->target);
	free(notify->message);
	free(notify);
}

void lk__notify_words(struct lk__words *words, const struct lk__notify *notify)
{
	lk__words_text(words, notify->keep_ms ? "push" : "publish");
	lk__words_add(words, notify->target, notify->target_size);
	lk__words_add(words, notify->message, notify->message_size);
	lk__words_number(words, notify->keep_ms);
}
