/* SPDX-License-Identifier: MIT */
/* Notices about holds: at most one pending of each kind a hold. */
#ifndef LK__DRIVE_NOTICES_H
#define LK__DRIVE_NOTICES_H

#include "drive/client.h"

int lk__notices_init(lk_client *client, lk_error *error);
void lk__notices_free(lk_client *client);

/* With the entry's mutex held. */
void lk__notices_give(lk_client *client, struct lk__hold *hold, unsigned notice);

/* The hold goes away, its notices with it. */
void lk__notices_forget(lk_client *client, struct lk__hold *hold);

/* Wakes all who wait for notices, for good. */
void lk__notices_close(lk_client *client);

#endif
