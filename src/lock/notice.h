/* SPDX-License-Identifier: MIT */
/*
 * What a client tells the program: notices about holds, at most one pending of each kind a hold;
 * and completions, by their queue (completion_queue.h).
 */
#ifndef LK__LOCK_NOTICE_H
#define LK__LOCK_NOTICE_H

#include <lockkeeper/event.h>

#include "lock/completion_queue.h"
#include "lock/entry.h"

int lk__notices_init(lk_client *client, lk_error *error);
void lk__notices_free(lk_client *client);

/*
 * What the candidate of an election is told, in this order. A pair of LEADING and NOT_LEADING that
 * nobody has read goes when the next term begins; so at most the end of one term, and all of the
 * next, wait to be read.
 */
enum lk__telling {
	LK__TELL_BEFORE, /* NOT_LEADING of the term before */
	LK__TELL_LEADING,
	LK__TELL_ASKED,
	LK__TELL_AT_RISK,
	LK__TELL_STOP,
	LK__TELL_NOT_LEADING,
	LK__TELLINGS
};

struct lk__teller {
	struct lk__teller *prev, *next;
	unsigned pending; /* 1 << LK__TELL_…; under the notices' mutex, as the rest */
	uint64_t number;  /* of the grant that it was told of, and whose end it was not; 0: none */
	lk_event event[LK__TELLINGS];
};

/* Its entry has the leadership, and its caller is about to know. With the entry's mutex held. */
void lk__notices_elected(const struct lk__entry *entry);
/* It does not stand any more, without having led: why. */
void lk__notices_unelected(const struct lk__entry *entry, uint64_t tag, const lk_error *why);
/* The candidate goes away, its notices with it. */
void lk__notices_hush(lk_client *client, struct lk__teller *teller);

/* With the entry's mutex held. */
void lk__notices_give(lk_client *client, struct lk__hold *hold, unsigned notice);

/* Somebody asks for the lock of the hold, which has an ear, or for the leadership, and says why.
 * With the entry's mutex held. */
void lk__notices_ask(lk_client *client, struct lk__hold *hold, const char *why);

/* The server that had confirmed the hold when its last notice was given; "" for many nodes. With
 * the entry's mutex held, or the notices'. */
void lk__notices_place(const struct lk__hold *hold, char place_out[LK__CONN_PLACE_SIZE]);

/* The hold goes away, its notices with it. */
void lk__notices_forget(lk_client *client, struct lk__hold *hold);

/* Wakes all who wait for notices, for good. */
void lk__notices_close(lk_client *client);

/* ---- through a completion queue ---- */

/* From now on they go to the queue of this request too. LK_EINVAL: they go to one already;
 * LK_ECLOSED. */
int lk__notices_request(lk_client *client, struct lk__completion *request, lk_error *error);

/* With the queue's mutex held: 1, and it ends next; or 0: the client does not know it yet. */
int lk__notices_cancel(struct lk__completion *request);

/* The loop's, or the end's: calls the callback that was left to it. No mutex may be held. */
void lk__notices_ring(lk_client *client);

/* The next notice for that queue, or the end of the request; false: there is none. The caller has a
 * reference of the client. */
bool lk__notices_take(lk_client *client, const lk_queue *queue, lk_completion *completion_out);

#endif
