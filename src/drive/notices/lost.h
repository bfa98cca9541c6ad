/* SPDX-License-Identifier: MIT */
/*
 * Lost permits. Their owners have to learn of the loss, but often nobody asks for a permit again:
 * another process gives it back, or it ends with its lease. So a client remembers the last
 * LK__LOST_MAX losses, and none of the permits whose end is not a loss.
 */
#ifndef LK__DRIVE_NOTICES_LOST_H
#define LK__DRIVE_NOTICES_LOST_H

#include "drive/entry/entry.h"

#define LK__LOST_MAX 1000 /* as <lockkeeper/permit_semaphore.h> says */

/* A hold was lost, or is freed. With its entry's mutex held. */
void lk__lost_note(struct lk__hold *hold);
void lk__lost_forget(struct lk__hold *hold);

/* The next that is to be freed, and its entry with a reference; NULL when there is none. */
struct lk__entry *lk__lost_due(lk_client *client, const struct lk__hold **hold_out);

#endif
