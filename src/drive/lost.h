/* SPDX-License-Identifier: MIT */
/*
 * Lost permits: their owners shall learn of it, but a permit is often given back by another
 * process, or left to its lease, and nobody asks for it again. So the last LK__LOST_MAX of a client
 * are remembered, and of those whose end is no loss none.
 */
#ifndef LK__DRIVE_LOST_H
#define LK__DRIVE_LOST_H

#include "drive/entry.h"

#define LK__LOST_MAX 1000 /* as <lockkeeper/permit_semaphore.h> says */

/* A hold was lost, or is freed. With its entry's mutex held. */
void lk__lost_note(struct lk__hold *hold);
void lk__lost_forget(struct lk__hold *hold);

/* Frees those that are too many; with no lock held. */
void lk__lost_turn(lk_client *client);

#endif
