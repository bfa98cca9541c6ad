/* SPDX-License-Identifier: MIT */
/*
 * A watch from the inside.
 *
 *   rest ── news, or due ──▶ look ──▶ records of new owners ──▶ what differs ──▶ changes ──▶ rest
 *                              │                                    ▲
 *                              └── a hold ended: was it released? ──┘
 *
 * It is one operation, which ends when there are changes to take: a call of lk_watch_next() drives
 * it, or the loop for LK_OP_WATCH. In between nothing is done for it; what the server tells is
 * noted with the names. One look is under way at a time, in one write that begins with the read
 * which has the server tell of the next change. What differs from the last look becomes changes.
 *
 * How a hold ended, only messages say, and they come over another connection than the answers. So
 * where a hold has ended and no message says how, the watch subscribes once more to a channel of
 * its own: what the server had published before the look is there before that is confirmed.
 */
#ifndef LK__API_WATCH_LOOK_H
#define LK__API_WATCH_LOOK_H

#include <lockkeeper/watch.h>

#include "api/inspect.h"
#include "base/containers.h"
#include "conn/channels.h"
#include "conn/tracking.h"
#include "lock/operation.h"

#define LK__WATCH_RECORDS_MAX 16 /* of new owners, in one look */

/* One who has a lock, as of the last look. */
struct lk__watch_holder {
	char *field; /* to be freed */
	size_t size;
	int role;
	int64_t low_ns, high_ns; /* its lease ends in between; LK__NEVER */
	struct lk__known_client *record;
};

struct lk__watch_holders {
	size_t count;
	struct lk__watch_holder *of;
};

/* Where a watch listens; NULL: not yet. */
struct lk__watch_ear {
	struct lk__listening *listening;
	struct lk__heard mark; /* when the last look was sent, */
	struct lk__heard next; /* and the present one */
};

struct lk__watched {
	UT_hash_handle hh;
	lk_watch *watch;
	/* ---- what tells ---- */
	struct lk__node *node; /* NULL: not chosen yet */
	struct lk__tracker tracker;
	_Atomic unsigned news;        /* since the last look: 1 << enum lk__tracking_news */
	_Atomic int64_t touched_ns;   /* when the first of them came; 0 */
	struct lk__watch_ear release; /* on the lock's channel, */
	struct lk__watch_ear broken;  /* and behind that */
	const char *prefix;           /* of that channel; NULL: the kind has none */
	/* ---- what is known ---- */
	bool shown;          /* ever */
	bool known;          /* since the last gap */
	bool told;           /* the last look was tracked, */
	bool flushed;        /* and since then all keys are gone */
	bool failed;         /* the last look had no answer */
	uint32_t generation; /* of the tracking at the last look */
	int64_t due_ns;      /* the next look */
	unsigned again;      /* looks at a key that changed between two questions */
	const char *type;
	struct lk__watch_holders holders;
	bool is_counter;
	int64_t count;
	uint64_t fence;
	size_t key_size, name_at; /* the key, and where the name begins in it */
	char key[];
};

/* One to be taken, with all that it points to. */
struct lk__change_item {
	struct lk__change_item *prev, *next;
	struct lk__watched *of;
	lk_change change;
	lk_owner_info client, was;
	char text[];
};

enum lk__watch_stage { LK__WATCH_REST, LK__WATCH_LOOK, LK__WATCH_RECORD, LK__WATCH_SYNC };

struct lk_watch {
	struct lk__op op; /* first */
	lk_client *client;
	_Atomic unsigned refs;
	_Atomic bool driven; /* a call, or a request in flight, drives it */
	_Atomic bool freed;
	_Atomic(struct lk__thread *) thread; /* to be woken */
	int64_t poll_ms;
	bool renewals;
	struct lk__watched *names;
	struct lk__change_item *changes, *taken;
	/* ---- the call ---- */
	const _Atomic bool *stop; /* NULL: nothing but the token does */
	int64_t until_ns;
	lk_error *error;
	/* ---- the look ---- */
	enum lk__watch_stage stage;
	struct lk__watched *at;
	bool asks;           /* a request is under way */
	uint32_t generation; /* of the tracking, when the look was sent */
	bool tracked;
	int64_t touched_ns; /* when the server told that it was changed; 0: it did not */
	int64_t sent_ns, received_ns;
	struct lk__look look;
	lk_lock_info info;
	bool overwritten; /* the key is there, and no lock */
	bool syncs, synced;
	int64_t sync_until_ns;
	size_t record_at;                                        /* of the holders */
	size_t record_count;                                     /* of these: */
	struct lk__known_client *records[LK__WATCH_RECORDS_MAX]; /* with the holders' index: */
	size_t record_of[LK__WATCH_RECORDS_MAX];
};

/* Makes a name; NULL when out of memory. Frees it. */
struct lk__watched *lk__watched_new(lk_watch *watch, const char *name, size_t size);
void lk__watched_free(struct lk__watched *watched);

/* Begins the operation, which ends with 0 when there are changes or the time is up, or a code. */
void lk__watch_begin(lk_watch *watch, struct lk__thread *thread, lk_cancel *cancel,
		     const _Atomic bool *stop, int64_t until_ns, lk_error *error);

#endif
