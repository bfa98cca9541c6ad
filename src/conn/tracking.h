/* SPDX-License-Identifier: MIT */
/*
 * Keys of a node whose changes the server tells (CLIENT TRACKING): whoever changes them, by
 * whatever command.
 *
 * Contract:
 * - What is read over the node's connection for background work, directly behind CLIENT CACHING
 *   YES, is tracked until it has changed once. Then it has to be read again. The messages come over
 *   the connection for subscriptions. Nothing else is tracked (OPTIN), nor are own changes over the
 *   first connection told (NOLOOP): they end the tracking of their keys.
 * - A message is a hint, and proves nothing; nor does its absence. The end of either connection
 *   ends all tracking: that is a gap, and the generation rises. When tracking is on again, whatever
 *   may have changed meanwhile has to be read.
 * - It begins when somebody wants it, and is off for as long as the server, a proxy or the rights
 *   of the user refuse it; each new connection tries again.
 * - Two ways to hear of it: a tracker hears at once, under a mutex; and the loop takes all keys
 *   that were touched (lk__tracking_take()), for holds: there may be too many for a tracker each.
 */
#ifndef LK__CONN_TRACKING_H
#define LK__CONN_TRACKING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/containers.h"

#define LK__TRACKED_MAX 1000 /* keys that one client has tracked for its holds */

struct lk__conn;
struct lk__deferred;
struct lk__listening;
struct lk__node;
struct lk__request;
struct lk__words;
struct redisReply;

enum lk__tracking_state {
	LK__TRACKING_OFF,     /* nobody wants it, or a connection is missing */
	LK__TRACKING_ASKED,   /* the server was asked for it */
	LK__TRACKING_ON,      /* what is looked at from now on is tracked */
	LK__TRACKING_REFUSED, /* until one of the connections is made anew */
};

enum lk__tracking_news {
	LK__TRACKING_TOUCHED, /* the key was changed: read it */
	LK__TRACKING_FLUSHED, /* the same, as everything was */
	LK__TRACKING_LOST,    /* it is not tracked any more, and may have changed since */
	LK__TRACKING_BEGINS,  /* it can be tracked, once it is read (again) */
};

struct lk__tracked_key {
	UT_hash_handle hh;
	struct lk__tracker *trackers;
	size_t size;
	char key[];
};

/* One who hears of a key. */
struct lk__tracker {
	struct lk__tracker *prev, *next; /* of the same key */
	struct lk__tracked_key *of;
	/* With the mutex of the connection for subscriptions held: it may take note, and have
	 * threads woken. */
	void (*tell)(struct lk__tracker *tracker, enum lk__tracking_news news,
		     struct lk__deferred *after);
	/* Nobody else in this client has anything to do with the key while this listens: then the
	 * loop is not told. */
	bool alone;
};

struct lk__tracking {
	_Atomic bool wanted;
	_Atomic int state;           /* enum lk__tracking_state */
	_Atomic uint32_t generation; /* never 0 */
	_Atomic int64_t redirect;    /* what the server calls the one for subscriptions; 0: down */
	_Atomic bool told;           /* there is something for the loop, */
	_Atomic bool begins, lost;   /* this among it */
	bool said;                   /* that it is refused: the loop's */
	/* Under the mutex of the connection for subscriptions. */
	struct lk__listening *channel;
	struct lk__tracked_key *keys;
	struct lk__buffer touched; /* each key: its size (uint32_t), its bytes */
	bool all;                  /* every key was touched, or more than fit */
	char reason[160];          /* why it is refused; "" */
};

/* From now on it is to be on. Any thread; an entry's mutex may be held. */
void lk__tracking_want(struct lk__node *node);

static inline bool lk__tracking_is_wanted(const struct lk__tracking *tracking)
{
	return atomic_load_explicit(&tracking->wanted, memory_order_relaxed);
}

static inline bool lk__tracking_is_on(const struct lk__tracking *tracking)
{
	return atomic_load(&tracking->state) == LK__TRACKING_ON;
}

static inline bool lk__tracking_is_refused(const struct lk__tracking *tracking)
{
	return atomic_load(&tracking->state) == LK__TRACKING_REFUSED;
}

static inline uint32_t lk__tracking_generation(const struct lk__tracking *tracking)
{
	return atomic_load_explicit(&tracking->generation, memory_order_relaxed);
}

/* Begins to hear of a key, and wants tracking: the tracker's `tell` and `alone` are set. LK_ENOMEM.
 * The end: `tell` is not called any more. */
int lk__tracker_begin(struct lk__tracker *tracker, struct lk__node *node, const char *key,
		      size_t size);
void lk__tracker_end(struct lk__tracker *tracker, struct lk__node *node);

/*
 * A look: what the command of these words reads is tracked. Its answer is the second. NULL when out
 * of memory. Sending it, or a question, says whether it was sent; else the request is gone. It is
 * not sent again when the connection is lost.
 */
struct lk__request *lk__tracking_look(struct lk__words *words);
bool lk__tracking_send(struct lk__node *node, struct lk__request *request);

/* A look was answered: when the server will not have it, tracking is off. */
void lk__tracking_looked(struct lk__node *node, const struct lk__request *look);

/* The loop's turn: goes on with what has been begun. */
void lk__tracking_turn(struct lk__node *node);

/* All that has been heard since the last call. */
struct lk__touched {
	struct lk__buffer keys; /* to be freed */
	bool all, begins, lost;
};
bool lk__tracking_take(struct lk__node *node, struct lk__touched *touched_out);

/* The next key; NULL at the end. */
const char *lk__touched_next(struct lk__touched *touched, size_t *size_out);

/* ---- for src/conn alone ---- */

/* The connection was made, and the server calls it so (-1: it does not say); 0: it has ended. Its
 * mutex is held. */
void lk__tracking_conn(struct lk__conn *conn, int64_t id);

/* Below: with the mutex of the connection for subscriptions held. */

/* It has read this message: an array of keys, or nil. */
void lk__tracking_message(struct lk__conn *conn, const struct redisReply *keys,
			  struct lk__deferred *after);

void lk__tracking_tell_loop(struct lk__node *node);
void lk__tracking_free(struct lk__node *node);

#endif
