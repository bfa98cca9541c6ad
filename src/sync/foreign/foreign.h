/* SPDX-License-Identifier: MIT */
/*
 * The locks of other libraries (foreign.def): the forms of their keys and values, which of them a
 * key looks like, and how a release of ours wakes their waiters. No I/O.
 */
#ifndef LK__SYNC_FOREIGN_FOREIGN_H
#define LK__SYNC_FOREIGN_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "conn/request.h"

/*
 * The forms that keys and values of other libraries have, as text:
 *
 *   *      anything              %u    a UUID with dashes
 *   %h32   32 hex digits         %1    a UUID of version 1 without dashes: a time and a machine
 *   %a16   16 letters, digits    %d    digits, one or more
 *   %b22   22 of base64          %w    letters and digits, one or more
 *   %r20   20 bytes of which some are no printable ASCII
 *   %t     13 digits: ms since 1970       %e    seconds since 1970, perhaps with a fraction
 *   %T     a time as 2026-11-27T03:12:11.123Z   %N    a host's name
 *   %p     what Python's pickle makes     %z    0 or 1
 *   %*     a star
 *
 * All else stands for itself.
 */

#define LK__FORM_PARTS 8
#define LK__FORM_MOST 1024 /* bytes; what is longer has no form: matching takes bounded time */

/* The texts that were found: for each "*" and "%…" of the form, in order. */
struct lk__form_parts {
	struct lk__form_part {
		char sort; /* the letter behind "%", or "*" */
		const char *at;
		size_t size;
	} part[LK__FORM_PARTS];
	size_t count;
};

bool lk__form_match(const char *form, const char *text, size_t size, struct lk__form_parts *parts);

/* ---- the table ---- */

enum lk__foreign_kind {
	LK__FOREIGN_PLAIN,
	LK__FOREIGN_COUNT,
	LK__FOREIGN_ZSET,
	LK__FOREIGN_POOL,
	LK__FOREIGN_HASH,
	LK__FOREIGN_FIELD,
	LK__FOREIGN_BESIDE,
	LK__FOREIGN_OURS,
	LK__FOREIGN_UNSEEN,
};

enum lk__foreign_certainty { LK__FOREIGN_GUESS, LK__FOREIGN_LIKELY, LK__FOREIGN_SURE };

struct lk__foreign {
	const char *library;
	enum lk__foreign_kind kind;
	enum lk__foreign_certainty certainty;
	const char *key, *value, *told, *notify;
};

/* One key and one thing in it. */
struct lk__foreign_seen {
	const char *key, *value;
	size_t key_size, value_size;
	unsigned kinds; /* 1 << LK__FOREIGN_…, those that such a key can be */
};

/* The row that it looks like the most, or NULL. */
const struct lk__foreign *lk__foreign_find(const struct lk__foreign_seen *seen);

/*
 * Which libraries it looks like: "ShedLock: added 2026-11-27 03:12 on host web-1", or several of
 * which nobody can say which. NULL: no memory. To be freed.
 */
char *lk__foreign_text(const struct lk__foreign_seen *seen, const struct lk__foreign *row);

/* The row that says whom the release of such a lock tells, of all that it may be; or NULL. */
const struct lk__foreign *lk__foreign_waker(const struct lk__foreign_seen *seen,
					    const struct lk__foreign *row);

/*
 * The message that a release publishes or pushes beside our own, so that another library's waiters
 * wake. As text: the first word of a library's name (foreign.def), or
 *
 *   publish CHANNEL MESSAGE
 *   push LIST MESSAGE MS       the list then has this message alone, and MS to live
 *
 * where {1} stands for the key, or, in the table, {1}, {2} for what the stars of the library's own
 * key stood for.
 */

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

/* Makes one for a row of the table. */
enum lk__notify_made lk__notify_of(struct lk__notify **notify_out, const struct lk__foreign *row,
				   const char *key, size_t key_size);

void lk__notify_free(struct lk__notify *notify); /* takes NULL */

/* The words for a script: "publish" or "push", channel or list, message, ms. */
void lk__notify_words(struct lk__words *words, const struct lk__notify *notify);

#endif
