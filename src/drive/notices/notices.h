/* SPDX-License-Identifier: MIT */
/* Notices about holds: at most one pending of each kind a hold. */
#ifndef LK__DRIVE_NOTICES_NOTICES_H
#define LK__DRIVE_NOTICES_NOTICES_H

#include "drive/notices/queue.h"

int lk__notices_init(lk_client *client, lk_error *error);
void lk__notices_free(lk_client *client);

/* With the entry's mutex held. */
void lk__notices_give(lk_client *client, struct lk__hold *hold, unsigned notice);

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

/* Leaves a callback to the loop. With any mutex held. */
void lk__notices_owe(lk_client *client);

/* The loop's, or the end's: calls the callback that was left to it. No mutex may be held. */
void lk__notices_ring(lk_client *client);

/* The next notice for that queue: 1, or 0 without. With `ended_out` set, it is the end of the
 * request instead, which is the caller's now. */
int lk__notices_take(lk_client *client, const lk_queue *queue, lk_completion *completion_out,
		     struct lk__completion **ended_out);

#endif
