/* SPDX-License-Identifier: MIT */
/*
 * Why a hold is not renewed, or is over: noted with each renewal that did not come off, and told
 * with the notices of its end. The entry's mutex is held, unless it says otherwise.
 */
#ifndef LK__DRIVE_BACKGROUND_TROUBLE_H
#define LK__DRIVE_BACKGROUND_TROUBLE_H

#include "drive/entry/entry.h"

struct lk__request;

/* What the answer to the renewal at `index` of a request, which is done, tells instead of "yes".
 * Without a mutex. */
void lk__trouble_read(struct lk__trouble *trouble, const struct lk__request *request);

/* The connection for the node's background work is waited for, or an answer on it. Without a mutex,
 * or with an entry's. */
void lk__trouble_of_node(struct lk__trouble *trouble, struct lk__node *node);

/* A renewal of the hold did not come off; or one did. */
void lk__trouble_note(struct lk__hold *hold, const struct lk__trouble *trouble);
void lk__trouble_over(struct lk__hold *hold);

/* The current hold is about to end, or ends: what its notice says. */
void lk__trouble_explain(struct lk__entry *entry, int64_t now_ns, bool ends);

#endif
