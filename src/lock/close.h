/* SPDX-License-Identifier: MIT */
/*
 * Closing a client.
 *
 * It waits for the command limit at most. A node that owes an answer and has said nothing for as
 * long is not waited for: its callers have done that, or other closes. A program that closes again
 * waits anew; to free the client is no such wish.
 */
#ifndef LK__LOCK_CLOSE_H
#define LK__LOCK_CLOSE_H

#include "lock/client.h"

/* Lists the entries of this moment, each with a reference. The caller frees the list. NULL without
 * memory. */
struct lk__entry **lk__client_entries(lk_client *client, size_t *count_out);

/* Every release is answered that nobody waits for, and so is every try: its waiter may have left,
 * and the next one not have come yet to read that it was granted. Nothing may be held any more that
 * nobody wants. */
bool lk__client_is_settled(lk_client *client);

/* `how`: LK_CLOSE_…. The first call does it; others find it done, or wait for what was not. */
int lk__client_close(lk_client *client, int how, lk_error *error);

/* Closes a client with a thread that is freed, with LK_CLOSE_ABANDON, unless that was done; for
 * what an earlier close has waited for in vain, it looks once. Then ends it. */
void lk__close_for_good(lk_client *client);

/* Begins to close a threadless client, and completes the request at the end. The code of a failure,
 * without a completion. */
struct lk__completion;
int lk__close_start(lk_client *client, int how, struct lk__completion *completion, lk_error *error);
bool lk__close_is_under_way(lk_client *client);
/* The loop's turn: goes on with that. Returns when to look again. */
int64_t lk__close_turn(lk_client *client);

/* A threadless client is freed: takes its turns until it is closed, as long as a close may take. */
void lk__close_to_free(lk_client *client);

#endif
