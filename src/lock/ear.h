/* SPDX-License-Identifier: MIT */
/*
 * Requests to give a lock up: who asks leaves a key beside the lock, and a message on a channel of
 * the same name, "lockkeeper_ask:{<name>}" (sync/ask/ask.lua).
 *
 * A hold that hears requests has an ear. A message puts it in doubt, so it is verified at once; the
 * key is read with each renewal and each such look. So a request whose message was lost is found a
 * third of the lease later at the latest. It counts once, and only for the grant that it names.
 */
#ifndef LK__LOCK_EAR_H
#define LK__LOCK_EAR_H

#include <lockkeeper/event.h>

#include "lock/entry.h"

#define LK__ASK_TTL_MS INT64_C(60000) /* how long a request can be found */

/* That are told apart: a copy of one that was sent again may come behind the next. */
#define LK__EAR_HEARD 4

struct lk__ear {
	struct lk__conn *conn;
	struct lk__listening *listening; /* NULL: it could not be opened, and only looks */
	char heard[LK__EAR_HEARD][40];   /* the last requests, as their senders call them */
	unsigned hears;                  /* how many there were */
	char text[LK_EVENT_REASON_SIZE]; /* what that says; under the notices' mutex */
};

/* All with the entry's mutex held. The entry's hold, which has an ear, begins; it ends, or never
 * began: frees the ear, which may be NULL. */
void lk__ear_open(struct lk__entry *entry);
void lk__ear_free(struct lk__ear *ear);

/* Asks the server for a request to the entry's hold, if that has an ear. */
void lk__ear_look(struct lk__entry *entry);

/* Asks those who hold the lock to give it up; NULL when out of memory. Answered with two integers:
 * how many fields hold it, and how many listen. */
struct lk__request *lk__ask_request(const struct lk__target *target, const char *why);

#endif
