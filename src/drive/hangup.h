/*
 * Notices connections that end while nobody reads them.
 *
 * The loop keeps a duplicate of each connection's descriptor and waits for its end alone, never
 * for data: reading is the callers' business. A connection that is dropped shuts its socket down,
 * so the duplicate sees that too and goes.
 */
#ifndef LK__DRIVE_HANGUP_H
#define LK__DRIVE_HANGUP_H

#include <uv.h>

#include "conn/node.h"

struct lk__hangup;

struct lk__hangups {
	uv_loop_t *uv;
	struct lk__thread *thread; /* the loop's place as a reader */
	struct lk__hangup *all;
};

/* Begins to watch what has been connected since the last turn. */
void lk__hangups_turn(struct lk__hangups *hangups, struct lk__node *node);

/* Closes every handle; the uv loop then runs once more to its end. */
void lk__hangups_close(struct lk__hangups *hangups);

#endif
