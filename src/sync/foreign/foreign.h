/* SPDX-License-Identifier: MIT */
/* The locks of other libraries (foreign.def), and which of them a key looks like. No I/O. */
#ifndef LK__SYNC_FOREIGN_FOREIGN_H
#define LK__SYNC_FOREIGN_FOREIGN_H

#include "sync/foreign/form.h"

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

/* A row of a plain lock with a form of notice, by the first word of its library's name; NULL: there
 * is none. */
const struct lk__foreign *lk__foreign_notifier(const char *word);

#endif
