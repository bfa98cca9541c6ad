/* SPDX-License-Identifier: MIT */
/* Making and closing a client. */
#ifndef LK__LOCK_LIFE_H
#define LK__LOCK_LIFE_H

#include "lock/client.h"
#include "lock/entry.h"

int lk__client_new(lk_client **client_out, const struct lk_config *config, lk_error *error);

/* `how`: LK_CLOSE_…. The first call does it; others find it done, or wait for what was not. */
int lk__client_close(lk_client *client, int how, lk_error *error);

/* Of a threadless client: begins to close it, and completes the request at the end. The code of a
 * failure, without a completion. */
struct lk__completion;
int lk__close_start(lk_client *client, int how, struct lk__completion *completion, lk_error *error);
bool lk__close_is_under_way(lk_client *client);

/* A threadless client is freed: takes its turns until it is closed, as long as a close may take. */
void lk__close_to_free(lk_client *client);

/* Ends connections and loop, whatever is under way. */
void lk__client_end(lk_client *client);

#endif
