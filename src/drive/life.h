/* SPDX-License-Identifier: MIT */
/* Making and closing a client. */
#ifndef LK__DRIVE_LIFE_H
#define LK__DRIVE_LIFE_H

#include "drive/client.h"

int lk__client_new(lk_client **client_out, const struct lk_config *config, lk_error *error);

/* `how`: LK_CLOSE_…. The first call does it; others find it done, or wait for what was not. */
int lk__client_close(lk_client *client, int how, lk_error *error);

/* Ends connections and loop, whatever is under way. */
void lk__client_end(lk_client *client);

/* Frees every entry that is left, with its holds. No other thread is in a call. */
void lk__entries_free(lk_client *client);

#endif
