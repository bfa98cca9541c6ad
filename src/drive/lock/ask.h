/* SPDX-License-Identifier: MIT */
/* One command with an answer, in the calling thread: queries, forced releases. */
#ifndef LK__DRIVE_LOCK_ASK_H
#define LK__DRIVE_LOCK_ASK_H

#include "drive/entry/entry.h"

/* What a request that is done says: LK__WAIT_READY, or its code with `error` filled. NULL: it had
 * no answer in time, LK_EMAYBEHELD. */
int lk__ask_read(const lk_client *client, const struct lk__request *request, const char *what,
		 lk_error *error);

/*
 * Sends a request on a connection and waits for it: LK__WAIT_READY, else a code with `error`
 * filled and the request gone. For commands that may be sent twice.
 */
int lk__ask(lk_client *client, struct lk__conn *conn, struct lk__thread *thread,
	    struct lk__request *request, const char *what, int64_t until_ns, lk_error *error);

/* Marks a command that changes nothing, for lk__ask(): its outcome is never unknown. Takes NULL. */
struct lk__request *lk__question(struct lk__request *request);

/* Waits until a cluster's client knows who has the name, and so the replicas that must acknowledge;
 * for one failed attempt at most. */
void lk__ask_route(const struct lk__entry *entry, struct lk__thread *thread, int64_t until_ns);

/* The same as lk__ask() on the entry's connection. */
int lk__ask_entry(struct lk__entry *entry, struct lk__thread *thread, struct lk__request *request,
		  const char *operation, int64_t until_ns, lk_error *error);

#endif
