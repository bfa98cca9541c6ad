/* SPDX-License-Identifier: MIT */
/*
 * Who this client is, for people who look at locks from outside: a key of the client's own beside
 * its locks, so that an owner id (which begins with the client's UUID) leads to a host and a
 * process. So does the id of a permit: it has the first half of the UUID, and the key has no more.
 *
 *   <prefix>lockkeeper_client:<half>   string, lines "name=value": id (the UUID), host, pid, since,
 *                                      user, program
 *
 * Contract: no call waits for it, and none fails with it. It is written before the first try is
 * sent, for three watchdog leases, so that who sees a holder finds its record; again after each of
 * these by the next try, or by the loop while something is held or was granted since. A red or a
 * multi lock that connects for its first try sends it with the answer, before the caller has the
 * lock. Where it belongs to another node of a cluster, the loop writes it once that is connected.
 * Closing the client deletes it, or leaves it for as long as the longest lease that is abandoned,
 * or what is kept from others longest.
 * A refusal for want of rights (NOPERM) ends it; any other is tried again at the next turn that is
 * due.
 */
#ifndef LK__DRIVE_CLIENT_CLIENT_RECORD_H
#define LK__DRIVE_CLIENT_CLIENT_RECORD_H

#include "drive/client/client.h"

#define LK__CLIENT_RECORD_PREFIX "lockkeeper_client:"
#define LK__CLIENT_HALF 18 /* characters of the UUID in the key: 8 bytes, and two dashes */

/* Something was granted to this client: the record is to be there. */
static inline void lk__client_record_want(lk_client *client)
{
	atomic_store_explicit(&client->record.wanted, true, memory_order_relaxed);
}

/* A try is about to be sent, on the connection `near` (NULL: unknown): the record goes before it
 * if it is due. Reads the file of users then. */
void lk__client_record_show(lk_client *client, struct lk__conn *near);

/* The loop's turn: writes the record when it is due. When it is due next, or LK__NEVER. */
int64_t lk__client_record_turn(lk_client *client);

/* Something that this client has held is kept from others until then: the record is there as long
 * as that. */
void lk__client_record_keep(lk_client *client, int64_t until_ns);

/* The client is being closed. `until_ns`: when the last lease that is abandoned ends; 0: none is.
 * Sends a command, which the close waits for. */
void lk__client_record_end(lk_client *client, int64_t until_ns);

#endif
