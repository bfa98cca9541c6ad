/* SPDX-License-Identifier: MIT */
/*
 * Closing a client: waiters go, releases arrive, connections end.
 *
 * A close waits for the command limit at most. It does not wait for a node that owes an answer and
 * has said nothing for as long: its callers, or an earlier close, have waited for that. A program
 * that closes again waits anew; one that frees the client does not.
 */
#ifndef LK__API_CLOSE_H
#define LK__API_CLOSE_H

#include "lock/client.h"

/* Every release is answered that nobody waits for, and so is every try: its waiter may have left,
 * and the next one not have come yet to read that it was granted. Nothing may be held any more that
 * nobody wants. */
bool lk__client_is_settled(lk_client *client);

/* The loop's turn: goes on with the close of a threadless client. Returns when to look again. */
int64_t lk__close_turn(lk_client *client);

/* The client is freed: closes it with LK_CLOSE_ABANDON, unless that was done, and ends it. It does
 * not wait again for what an earlier close has waited for in vain. */
void lk__close_to_free(lk_client *client);

#endif
