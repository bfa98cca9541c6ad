/* SPDX-License-Identifier: MIT */
/*
 * What a release publishes or pushes beside our own message, so that another library's
 * waiters wake. As text: the first word of a library's name (foreign.def), or
 *
 *   publish CHANNEL MESSAGE
 *   push LIST MESSAGE MS       the list then has this message alone, and MS to live
 *
 * where {1} stands for the key, or, in the table, {1}, {2} for what the stars of the library's own
 * key stood for.
 */
#ifndef LK__SYNC_PLAIN_NOTIFY_H
#define LK__SYNC_PLAIN_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>

#include "conn/request.h"

struct lk__notify {
	char *text; /* as it was given */
	char *target, *message;
	size_t target_size, message_size;
	int64_t keep_ms; /* of a list; 0: it is a channel */
};

enum lk__notify_made {
	LK__NOTIFY_MADE,
	LK__NOTIFY_NO_MEMORY,
	LK__NOTIFY_UNKNOWN,   /* neither a library nor one of the forms */
	LK__NOTIFY_OTHER_KEY, /* that library's keys have another form, which is written */
};

enum lk__notify_made lk__notify_new(struct lk__notify **notify_out, const char *text,
				    const char *key, size_t key_size, const char **form_out);

/* The same, of a row of the table. */
struct lk__foreign;
enum lk__notify_made lk__notify_of(struct lk__notify **notify_out, const struct lk__foreign *row,
				   const char *key, size_t key_size);

void lk__notify_free(struct lk__notify *notify); /* takes NULL */

/* The words for a script: "publish" or "push", channel or list, message, ms. */
void lk__notify_words(struct lk__words *words, const struct lk__notify *notify);

#endif
