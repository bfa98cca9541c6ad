/* SPDX-License-Identifier: MIT */
/* Making and closing a client. */
#ifndef LK__DRIVE_LIFE_LIFE_H
#define LK__DRIVE_LIFE_LIFE_H

#include "drive/client/client.h"
#include "drive/entry/policy.h"

int lk__client_new(lk_client **client_out, const struct lk_config *config, lk_error *error);

/* What is done with a lock on one node, and with one on a majority of several. */
extern const struct lk__policy lk__policies[LK__TARGETS];

/* A turn of its loop: see struct lk__client_ops. */
int64_t lk__client_turn(lk_client *client, bool verify, bool *resumed_out);

/* `how`: LK_CLOSE_…. The first call does it; others find it done, or wait for what was not. */
int lk__client_close(lk_client *client, int how, lk_error *error);

/* Of a threadless client: begins to close it, and completes the request at the end. The code of a
 * failure, without a completion. */
struct lk__completion;
int lk__close_start(lk_client *client, int how, struct lk__completion *completion, lk_error *error);
bool lk__close_is_under_way(lk_client *client);

/* The loop's turn: goes on with that. Returns when to look again. */
int64_t lk__close_turn(lk_client *client);

/* A threadless client is freed: takes its turns until it is closed, as long as a close may take. */
void lk__close_to_free(lk_client *client);

/* Ends connections and loop, whatever is under way. */
void lk__client_end(lk_client *client);

#endif
