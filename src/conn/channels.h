/* SPDX-License-Identifier: MIT */
/*
 * Subscriptions, shared by all who wait on one channel of a node.
 *
 * The connection's own order makes them simple: the n-th confirmation belongs to the n-th command.
 * After a reconnect every channel is subscribed to again, and `generation` tells its listener to
 * try once more, for a message may have been missed.
 */
#ifndef LK__CONN_CHANNELS_H
#define LK__CONN_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/containers.h"
#include "conn/conn.h"

#define LK__CHANNEL_TRACKED "__redis__:invalidate" /* the server tells there what was tracked */
#define LK__PAYLOAD_SIZE 48                        /* what is kept of a message, with its NUL */

/* Messages of our own releases, where clients have turns (sync/give_turn.lua). */
#define LK__TOLD_OTHERS '0'  /* on the channel, before a number: it is another's turn */
#define LK__TOLD_SOON "soon" /* on the waiter's own: it is, should that one be silent */

/* A test of whether something is true of the channel with that name. */
typedef bool lk__channel_test(const void *context, const char *name, size_t size);

struct lk__channel {
	UT_hash_handle hh;
	size_t unconfirmed;  /* commands whose answer is to come */
	bool wanted;         /* the last command was SUBSCRIBE */
	bool tracks;         /* it is that one, which is never sharded */
	bool astray;         /* the server has said so: the slot is not its own */
	uint64_t generation; /* confirmed subscriptions */
	struct lk__listening *listenings;
	struct lk__listening
		*own_of; /* who hears there that it has its turn, as long as it listens */
	int code;        /* why the server refused to subscribe, or 0 */
	char reason[160];
	size_t name_size;
	char name[];
};

/* One who listens on a channel: a lock's entry. */
struct lk__listening {
	struct lk__listening *prev, *next;
	struct lk__channel *channel;
	struct lk__channel *own;        /* where it hears that it has its turn; NULL */
	uint64_t heard;                 /* messages, our own among them */
	uint64_t news;                  /* messages of others, as far as we can tell */
	uint64_t echoes;                /* our own releases, still to be heard */
	uint64_t hints;                 /* that something may have changed */
	bool own_first;                 /* a waiter for the channel waits for that one, too */
	bool turns;                     /* it is told of its turn: those of others do not wake it */
	char payload[LK__PAYLOAD_SIZE]; /* the last message that does */
	struct lk__thread *listener;    /* at most one: the head of the wait queue */
	void *owner;                    /* for the node's doubt event; NULL: there is none */
};

/* A listener's mark: what it has heard so far, and what it waits to see change. */
struct lk__heard {
	const struct lk__listening *listening;
	const struct lk__conn *conn;
	uint64_t generation, heard, news, hints, failures;
	bool on;                        /* subscribed then: the loss of that is heard as well */
	bool news_only;                 /* our own releases are not what is waited for */
	bool hinted;                    /* what came was a hint, and nothing else */
	char payload[LK__PAYLOAD_SIZE]; /* once heard: the last message; empty for none */
};

/* Begins to listen; the first one subscribes. `turn`: nobody else's, listens also to
 * "<name>:<turn>"; or NULL. NULL when out of memory. */
struct lk__listening *lk__channel_open(struct lk__conn *conn, const char *name, size_t size,
				       const char *turn, void *owner);

/* Ends it; the last one unsubscribes. */
void lk__channel_close(struct lk__conn *conn, struct lk__listening *listening);

/* Tells what the server takes us for on that channel. A hint. */
enum lk__channel_role {
	LK__CHANNEL_STRANGER,
	LK__CHANNEL_LISTENER, /* because some entry of ours is one */
	LK__CHANNEL_LEAVES,   /* still for one: our UNSUBSCRIBE was left to the loop */
};
enum lk__channel_role lk__channel_role(struct lk__conn *conn, const char *name, size_t size);

/* Tells whether we may be leaving any. */
static inline bool lk__channels_leave(const struct lk__conn *conn)
{
	return atomic_load_explicit(&conn->left, memory_order_relaxed);
}

/* Notes what was heard up to now. */
void lk__channel_mark(struct lk__conn *conn, struct lk__listening *listening,
		      struct lk__heard *heard);

/* Tells whether it can be told of its turn: then it is to be in the order of turns, and those of
 * others do not wake it from now on. */
bool lk__channel_take_turns(struct lk__conn *conn, struct lk__listening *listening, bool wanted);

/* Subscribes again if the server has ended or refused it: the slot, or the right, may be back. */
void lk__channel_retry(struct lk__conn *conn, struct lk__listening *listening);

/* Who is woken when there is something to hear; NULL: nobody. */
void lk__channel_listener(struct lk__conn *conn, struct lk__listening *listening,
			  struct lk__thread *thread);

/* Subscribes once more: when it listens again, all that was published before has been heard. False:
 * it does not listen. */
bool lk__channel_sync(struct lk__conn *conn, struct lk__listening *listening);

/* Tells whether subscribed and confirmed. */
bool lk__channel_listens(struct lk__conn *conn, struct lk__listening *listening);

/* Marks what was heard before a release of ours, which is about to be published: its message tells
 * us nothing new. The opposite: it was not. */
void lk__channel_expect_echo(struct lk__conn *conn, struct lk__listening *listening,
			     struct lk__heard *heard);
void lk__channel_drop_echo(struct lk__conn *conn, struct lk__listening *listening);

/*
 * Waits for a message, or for a subscription that was made or lost, since the mark; or, if
 * `subscribes`, for the subscription itself. Stand by: true when that has come already. Look:
 * LK__WAIT_TIME_UP while it may still come, LK__WAIT_READY, or a code; after a message the mark is
 * behind it. The thread is woken to look, and gives up at `until_ns`. Each stand by has its stand
 * down.
 */
bool lk__channel_stand_by(struct lk__conn *conn, const struct lk__heard *heard, bool subscribes,
			  struct lk__standby *standby, struct lk__thread *thread, int64_t until_ns);
void lk__channel_stand_down(struct lk__conn *conn, const struct lk__heard *heard,
			    struct lk__standby *standby);
int lk__channel_look(struct lk__conn *conn, struct lk__heard *heard, bool subscribes,
		     lk_error *error);

/* In between, in the calling thread: reads the connection if nobody else does, until there is
 * something to look at. */
void lk__channel_sleep(struct lk__conn *conn, const struct lk__heard *heard, bool subscribes,
		       struct lk__thread *thread, int64_t until_ns, lk_cancel *cancel);

/* All of that for a subscription: what the last look has returned. */
int lk__channel_await(struct lk__conn *conn, struct lk__listening *listening,
		      struct lk__thread *thread, int64_t until_ns, lk_error *error);

/* Lets those who listen on such channels try again, as after a new subscription. */
void lk__channels_wake(struct lk__conn *conn, lk__channel_test *test, const void *context);

/* Lets that listener alone try again, as after a message. */
void lk__channel_wake(struct lk__conn *conn, struct lk__listening *listening);

/* lk__channel_wake() with the connection's mutex held. */
void lk__channel_touch(struct lk__listening *listening, struct lk__deferred *after);

/* Lets it try again, and hear that it was for a hint. */
void lk__channel_hint(struct lk__listening *listening, struct lk__deferred *after);

/* Ends them with their connection. */
void lk__channels_free(struct lk__conn *conn);

#endif
