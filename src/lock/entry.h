/* SPDX-License-Identifier: MIT */
/*
 * One lock of one kind and name in one client (and of one owner, where the kind has it so): who in
 * this process has it, who waits for it, and what the server has granted.
 *
 *   grant   what the server gave: one number, one deadline, renewed by the watchdog
 *   hold    what an owner in this process has of it; one at a time, lost ones until released
 *   queue   callers that wait, first come first served; its head alone talks to the server
 *   passing a release or exchange is on the wire whose answer decides what comes next: also
 *           whether the hold goes, where several permits are given back, all or none
 */
#ifndef LK__LOCK_ENTRY_H
#define LK__LOCK_ENTRY_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper/error.h>
#include <lockkeeper/event.h>

#include "base/cancel.h"
#include "conn/channels.h"
#include "conn/tracking.h"
#include "lock/client.h"
#include "sync/attempt.h"
#include "sync/recipe.h"
#include "sync/term.h"

/*
 * What a lock on a majority of several nodes (lock/red.h) does where one on a single node does what
 * the files of this folder have: a row for each file of the red lock. They are of layers above this
 * one, and handed down with the client. With the entry's mutex held, unless it says otherwise.
 */

struct lk__conn;
struct lk__entry;
struct lk__extending;
struct lk__head;
struct lk__releasing;
struct lk__sent_renewal;

struct lk__quorum_parts {
	/* The entry goes. */
	void (*free)(struct lk__entry *entry);
	/* How many nodes may have a number of it that nobody wants. `nodes_out`: which; NULL is
	 * fine. */
	size_t (*compensating)(const struct lk__entry *entry, struct lk__node **nodes_out);
	/* Whether close need not wait for that: it is on less than a majority. */
	bool (*compensated)(const struct lk__entry *entry);
};

struct lk__quorum_holds {
	/* Releases in the background. `promised_ns`: its owner was told that it has the lock until
	 * then; 0: nobody was. */
	void (*release_in_background)(struct lk__entry *entry, uint64_t number,
				      int64_t promised_ns);
	/* The owner of that number, which was lost, has released it. */
	void (*let_go)(struct lk__entry *entry, uint64_t number);
	/* The last count of a hold is given up: 0 or a code; or LK__OP_WAITS, and the call has its
	 * look. So has an extension. */
	int (*release)(struct lk__releasing *releasing);
	/* Without the mutex here and below. Begins a renewal, which ends in one
	 * lk__renewal_answered(), and takes its reference. False when out of memory. */
	bool (*renew)(const struct lk__sent_renewal *renewal);
	/* Other work that is due when the watchdog looks. */
	void (*turn)(struct lk__entry *entry);
	/* 1 extended, 0 not ours any more, or a code. */
	int (*extend)(struct lk__extending *extending);
};

struct lk__quorum {
	const struct lk__quorum_parts *parts;
	/* A try of the head of its queue (lock/head.h): 0 with an event, or why the head has to
	 * leave; or LK__OP_WAITS, and the head has its look. */
	int (*send)(struct lk__head *head);
	const struct lk__quorum_holds *holds;
};

/* ---- entries ---- */

/* A thread (by its serial), or a name. */
struct lk__owner {
	uint64_t serial; /* 0: named */
	const char *name;
	size_t name_size;
};

#define LK__NOTICE_AT_RISK 1u
#define LK__NOTICE_LOST 2u
#define LK__NOTICE_ABANDONED 4u
#define LK__NOTICE_ASKED 8u

/* The settings that a handle has for each try. */
struct lk__settings {
	unsigned flags;  /* of the kind's own */
	int64_t poll_ms; /* 0: the recipe's */
	int64_t spin_min_ms, spin_max_ms;
	int spin_factor;
	int64_t permits; /* how many there are where there is no count; 0: not said */
	int64_t ttl_ms;  /* how long the count lasts at least; 0: not said */
};

struct lk__caller;

/* Why a hold is not renewed, or is over. */
#define LK__TROUBLE_SIZE 224

struct lk__trouble {
	int code;                        /* LK_E…; 0: nothing was refused */
	char place[LK__CONN_PLACE_SIZE]; /* the server; "": none, or several */
	char reason[LK__TROUBLE_SIZE];
};

/* The part of a notice that is kept for a hold, besides its deadline. */
struct lk__told {
	struct lk__trouble trouble;
	struct lk__node *node; /* that last confirmed it; NULL: several do */
	uint64_t epoch;
};

/* Requests to give the lock up that are told apart: a copy of one that was sent again may come
 * behind the next. */
#define LK__EAR_HEARD 4

/* What hears requests to give the lock up. */
struct lk__ear {
	struct lk__conn *conn;
	struct lk__listening *listening; /* NULL: it could not be opened, and only looks */
	char heard[LK__EAR_HEARD][40];   /* the last requests, as their senders call them */
	unsigned hears;                  /* how many there were */
	char text[LK_EVENT_REASON_SIZE]; /* what that says; under the notices' mutex */
};

/* Options and losses, which few holds need. */
struct lk__hold_extra {
	int64_t margin_ms;   /* 0: a tenth of the lease */
	int64_t max_hold_ms; /* 0: none */
	uint64_t tag;
	uint64_t fence;        /* 0: the kind has none */
	bool no_loss;          /* its end is meant: no notice, and nothing is kept of it */
	struct lk__note *note; /* why it is held, its own; NULL: nothing is said */
	struct lk__ear *ear;   /* NULL: it does not hear of requests */
};

/* There may be one for each of many locks: what is not always needed stands behind it. */
struct lk__hold {
	union {
		struct lk__hold *next; /* a lost one: among those of the entry */
		/* Another: a re-entry asked for more than the server has given yet. */
		int64_t wanted_until_ns;
	};
	union {
		struct lk__hold *thread_prev; /* among its thread's holds, */
		struct lk__hold *lost_prev;   /* or the client's lost permits, which have none */
	};
	union {
		struct lk__hold *thread_next, *lost_next;
	};
	struct lk__hold *notice_prev, *notice_next; /* among the client's notices */
	struct lk__entry *entry;
	union {
		struct lk__thread *thread; /* whose list it is in: lk__hold_thread() */
		/* Of a named owner: who has not looked yet whether it is granted. A thread that
		 * waits cannot give it up by another call meanwhile. NULL: nobody. */
		struct lk__caller *taker;
	};
	uint64_t owner_serial; /* 0: the owner is named */
	unsigned count;
	/* Fixed: other mutexes than the entry's guard those who read it. */
	uint16_t owner_name_size : 15;
	uint16_t has_extra : 1;
	unsigned char notices; /* pending LK__NOTICE_…; under their mutex */
	bool watched : 1;      /* the watchdog renews it */
	bool lost : 1, abandoned : 1, warned : 1;
	bool noted : 1;        /* in the client's list of lost ones */
	bool in_trouble : 1;   /* its last renewal did not come off */
	struct lk__told *told; /* NULL: nothing. Written under the notices' mutex, too */
	int64_t told_until_ns; /* the deadline in its notices; under their mutex */
	uint64_t number;       /* of the wire grant */
	int64_t granted_ns;
	int64_t lease_ms;     /* named by the caller; 0: the watchdog's */
	int64_t own_until_ns; /* the end of a named lease; LK__NEVER. Of a lost one: its end */
	/* Behind it: what it has besides, if `has_extra`; the name of a named owner and a NUL. */
};

/* NULL for a named owner, and after the end of the thread. */
static inline struct lk__thread *lk__hold_thread(const struct lk__hold *hold)
{
	return hold->owner_serial ? hold->thread : NULL;
}

static inline const struct lk__hold_extra *lk__hold_extra(const struct lk__hold *hold)
{
	static const struct lk__hold_extra none = {.tag = 0};
	return hold->has_extra ? (const struct lk__hold_extra *)(hold + 1) : &none;
}

/* The server's grant, as far as it is confirmed. */
struct lk__grant {
	uint64_t number;
	uint64_t fence;
	int64_t lease_ms;
	int64_t valid_until_ns;
	int64_t seen_ns;           /* before it was asked for what last confirmed it */
	struct lk__node *node;     /* that has last confirmed it, */
	uint64_t epoch;            /* and its epoch then */
	int64_t repeated_until_ns; /* its acquire was sent twice: a copy may run until then */
	int64_t outlives_ns;       /* what was asked for besides may keep it until then */
};

struct lk__entry;

/* A lock over several nodes, in the list of its entry on one of them. */
struct lk__front {
	struct lk__front *prev, *next;
	struct lk__entry *entry;
};

/* The red locks that have an entry among their nodes. */
struct lk__reds {
	struct lk__front *fronts; /* under the client's mutex */
	int64_t lease_ms;         /* the longest that they have asked for; under the entry's */
};

enum lk__waiter_state { LK__WAITER_WAITS, LK__WAITER_TAKES, LK__WAITER_GRANTED };

/* A caller in the wait queue; on its stack. */
struct lk__caller {
	struct lk__caller *prev, *next;
	struct lk__thread *thread;
	struct lk__hold *hold; /* made ready: the giver of the lock fills it. NULL: released
				* by another call of its owner before the caller has looked */
	enum lk__waiter_state state;
	int64_t since_ns, until_ns;
	int64_t last_answer_ns; /* beyond its limit, for the answer to a try */
	bool once;
	bool undone;               /* a grant of it came later than its lease */
	int64_t asks_until_ns;     /* behind others, it waits for the server's answer alone; 0 */
	bool contended;            /* it found another owner, or waits behind another caller */
	int given_up;              /* its hold was released already, by its owner: 0 or LK_ELOST */
	struct lk__grant was;      /* what that hold had */
	bool tried;                /* a try of it was made: of a red lock its wait limit bounds each
				    * further one */
	int64_t count;             /* permits */
	uint64_t other_number;     /* number of the other side that its owner has; 0: it has not */
	uint64_t downgrade_number; /* number of its first try; 0: a new one */
	uint64_t number;           /* of all of them; 0: not said */
	struct lk__settings settings;
	lk_cancel *cancel;
	const _Atomic bool *stop; /* of an asynchronous call: it was cancelled; else NULL */
	int64_t begun_ns;
	const lk_error *why; /* of the head: what stands in its way; else NULL */
};

/* The place of a head that hears from the server while it is at the front of the order of turns:
 * lock/head.c. */
struct lk__front_place {
	struct lk__tracker tracker;
	struct lk__node *node; /* where that listens; NULL: it does not */
	struct lk__listening *listening;
	_Atomic bool looked; /* and nothing was told since */
	_Atomic bool all;    /* everything was changed, and this is not at the front */
	bool asks;           /* a question for its rank is under way */
	bool asks_next;      /* and is due: the lock was busy since the last one */
	int rank;            /* by the last answer: 0 is the front; -1: not known */
	bool watches;        /* by that answer: the front, and who stands in for it */
	uint64_t number;     /* of the attempt that asked */
	bool lasts;          /* the last try has asked for a place that lasts a quiet wait */
	int64_t asked_ns;    /* the last question; 0: none yet, */
	uint32_t generation; /* of the node's tracking then */
	int64_t looked_ns;   /* the last look; 0: none yet */
	int64_t free_ns;     /* the end of the lease as it was last seen; 0: it has none */
	int64_t most_ns;     /* a try is due then, whatever is told */
};

/* The part of an entry that is there only while a caller waits, or a try is out: an entry that is
 * merely held, or merely known, is small. */
struct lk__waiting {
	unsigned callers; /* between a begin and its end, in the queue or not */
	struct lk__caller *queue, *head;
	unsigned askers; /* in the queue: those who wait for an answer alone */
	bool asks_anew;  /* the head is to try at once, what it knows being too old */
	struct lk__attempt attempt;
	uint64_t try_nonce;            /* what a message that brings the lock has to repeat */
	struct lk__request *request;   /* the try in flight */
	struct lk__request *answered;  /* it was answered while nobody waited for it */
	bool tries;                    /* the attempt has not heard what became of a try */
	struct lk__listening *channel; /* while the queue is not empty */
	bool has_place;                /* in the order of turns, perhaps, */
	char turn[LK__FIELD_SIZE];     /* under this id (empty: it has none), */
	int64_t since_us;              /* since then, as the server was told; 0: it was not yet */
	struct lk__heard mark;
	struct lk__front_place place;
};

struct lk__entry {
	struct lk__entry *next; /* in its chain of the client's table */
	/* Of handles, holds, requests left behind; 0 under the client's mutex. */
	_Atomic uint32_t refs;
	struct lk__heap_node watch; /* under the watch's mutex */
	lk_client *client;
	struct lk__target target; /* on the node that the head found: it listens there */
	/* Set under the client's mutex, too. */
	union {
		void *data;            /* of a lock on several nodes */
		struct lk__reds *reds; /* where it is of one; NULL: no red lock was ever at it */
		/* Of a kind without holds, which is no part of a red lock: the last number whose
		 * caller has its grant; 0. */
		uint64_t settled;
	};
	const char *name;              /* in the target's key, behind the prefix */
	struct lk__counters *counters; /* of its name, beside the client's; NULL: it has none */

	pthread_mutex_t mutex;
	struct lk__term term;
	/* Numbers that may be held and nobody wants; not those that the master has released. */
	_Atomic unsigned compensating;
	_Atomic unsigned releasing; /* releases that are under way */
	_Atomic uint8_t conn_index; /* of the node's connections for scripts, see conn/node.c */
	bool passing : 1;
	bool sent_off : 1;   /* by a release that nobody waits for: the lease ends it */
	bool lingers : 1;    /* has a reference of its own until the hold-off is over */
	bool contended : 1;  /* at our last try or release another process held it, or listened */
	bool deaf : 1;       /* it may not listen: its waiters look again from time to time */
	bool renewing : 1;   /* a renewal is in flight */
	bool verifying : 1;  /* it was in doubt when that left */
	bool counted : 1;    /* among the client's holds that are tracked */
	bool downgraded : 1; /* its grant's number was given to the other side, once */
	bool abandoned : 1;  /* its grant's number is held by whoever knows its field, or nobody */
	_Atomic bool doubt;  /* a message came that nobody of us sent */
	/* A grant is on several nodes, with a number of its own on each: some may keep it longer
	 * than a majority has confirmed. Set under the client's mutex, too. */
	_Atomic bool is_quorum;
	uint32_t tracked; /* the generation of the last look at its key; 0: there was none */
	struct lk__hold *_Atomic hold; /* client_on_doubt() looks without the mutex */
	struct lk__hold *lost;
	struct lk__grant grant;
	struct lk__waiting *waiting;     /* NULL: nobody waits, and nothing is out */
	int64_t asked_lease_ms;          /* by the last try, also of a multi lock */
	struct lk__compensation *spares; /* memory for more of these */
	char words[]; /* what it is found by, with its kind: its owner where each has one, its key;
		       * a NUL */
};

/* Finds or makes the entry of a name, and takes a reference. `owner` is looked at where each owner
 * has an entry of its own. */
int lk__entry_get(struct lk__entry **entry_out, lk_client *client, const struct lk__recipe *recipe,
		  const void *name, size_t size, const struct lk__owner *owner, lk_error *error);
/* As lk__entry_get(), but NULL where there is none: 0, or LK_ENOMEM. */
int lk__entry_look(struct lk__entry **entry_out, lk_client *client, const struct lk__recipe *recipe,
		   const void *name, size_t size, const struct lk__owner *owner);
/* Tells whether the entry is that of this thread's own. */
bool lk__entry_is_of(const struct lk__entry *entry, const struct lk__owner *owner);
/* The size of its words, without the NUL. */
static inline size_t lk__entry_words_size(const struct lk__entry *entry)
{
	return (size_t)(entry->target.key - entry->words) + entry->target.key_size;
}

/* Its place among those that hold its key, where each owner has an entry. */
static inline struct lk__holder *lk__entry_holder(struct lk__entry *entry)
{
	assert(entry->target.recipe->sharing == LK__EACH_OWNER);
	return (struct lk__holder *)entry - 1;
}

static inline size_t lk__entry_name_size(const struct lk__entry *entry)
{
	return (size_t)(entry->target.key + entry->target.key_size - entry->name);
}

/* Counts for the client, and for the name of the lock where that is counted apart. `counter` is a
 * member of struct lk__counters. */
#define lk__entry_count(entry, counter, by)                                                        \
	do {                                                                                       \
		struct lk__counters *of_name_ = (entry)->counters;                                 \
		lk__count(&(entry)->client->counters.counter, by);                                 \
		if (__builtin_expect(of_name_ != NULL, 0))                                         \
			lk__count(&of_name_->counter, by);                                         \
	} while (0)

/* Counts a duration in that histogram. */
#define lk__entry_count_us(entry, what, duration_ns)                                               \
	do {                                                                                       \
		struct lk__counters *of_name_ = (entry)->counters;                                 \
		struct lk__counters *of_all_ = &(entry)->client->counters;                         \
		int64_t took_ns_ = duration_ns;                                                    \
		lk__count_us(&of_all_->what, took_ns_);                                            \
		if (__builtin_expect(of_name_ != NULL, 0))                                         \
			lk__count_us(&of_name_->what, took_ns_);                                   \
	} while (0)

void lk__entry_ref(struct lk__entry *entry);
bool lk__entry_ref_if_alive(struct lk__entry *entry);
void lk__entry_unref(struct lk__entry *entry); /* with no lock held */
/* References that outlast a call: of the entry and its client. */
void lk__entry_keep(struct lk__entry *entry);
void lk__entry_let_go(struct lk__entry *entry); /* with no lock held */

/* Its way on several nodes; NULL: it is on one. */
static inline const struct lk__quorum *lk__entry_quorum(const struct lk__entry *entry)
{
	return entry->is_quorum ? entry->client->ops->quorum : NULL;
}

/* Tells whether a number of it may be held that nobody wants. */
static inline bool lk__entry_compensates(const struct lk__entry *entry)
{
	const struct lk__quorum *quorum = lk__entry_quorum(entry);
	return quorum ? quorum->parts->compensating(entry, NULL) > 0
		      : atomic_load(&entry->compensating) > 0;
}

/* Tells whether a holder of this kind hears of what others do to its key. */
static inline bool lk__entry_is_tracked_kind(const struct lk__entry *entry)
{
	const struct lk__recipe *recipe = entry->target.recipe;
	return recipe->sharing != LK__NO_HOLD && !(recipe->flags & LK__SHARES);
}

/* Tells whether it is one of those that may be looked at, or can become one. */
static inline bool lk__entry_may_be_tracked(const struct lk__entry *entry)
{
	return entry->counted || atomic_load(&entry->client->tracked) < LK__TRACKED_MAX;
}

/* NULL where no red lock was ever at it. */
static inline struct lk__reds *lk__entry_reds(const struct lk__entry *entry)
{
	bool none = entry->is_quorum || entry->target.recipe->sharing == LK__NO_HOLD;
	return none ? NULL : entry->reds;
}

/* The node that has its data, as far as is known now, and the connection there for its scripts:
 * without a mutex. */
struct lk__node *lk__entry_node(const struct lk__entry *entry);
struct lk__conn *lk__entry_scripts(const struct lk__entry *entry);

/* ---- those of a client ---- */

/* What a client knows its entries by. The end: frees those that are left, whose holds are gone. No
 * other thread is in a call. */
void lk__entries_init(lk_client *client);
void lk__entries_free(lk_client *client);

/* With the client's mutex held: the one after `entry`, the first after NULL; NULL at the end. The
 * order is that of the table; it stays while none is added, also when others are taken out. */
struct lk__entry *lk__entries_next(const struct lk__entries *entries,
				   const struct lk__entry *entry);

/* Calls `visit` with each entry that the client has now, without a mutex and with a reference.
 * False, and none was visited, when out of memory. */
bool lk__entries_each(lk_client *client, void (*visit)(void *context, struct lk__entry *entry),
		      void *context);

/* The hold of an entry begins: with its mutex held. */
void lk__holders_add(struct lk__entry *entry);

/* Notes that an entry needs the watchdog's attention at `at_ns`, if not before. The entry cannot go
 * meanwhile: its mutex is held, or a reference. */
void lk__watch_at(struct lk__entry *entry, int64_t at_ns);

/* ---- what contradicts a hold ---- */

/* Puts the entry's grant in doubt: what we believe of it may be out of date. The entry cannot go
 * meanwhile. */
void lk__doubt(struct lk__entry *entry);

/* Puts the red locks in doubt that have the entry among their nodes. The mutex of its client is
 * held. */
void lk__doubt_fronts(const struct lk__entry *entry);

/* An answer says that nobody, or somebody else, has the key: all holds of this client under it are
 * in doubt, whatever their kind and owner, and the callers that wait for them try. No mutex is
 * held. */
void lk__doubt_key(lk_client *client, const char *key, size_t key_size);

/* The server has granted the entry's lock: other holds of its key that it excludes are in doubt.
 * The entry's mutex is held. */
void lk__doubt_others(struct lk__entry *entry);

/* Everything below: with the entry's mutex held. */

/* A red lock may have it for so long. */
void lk__entry_note_red_lease(struct lk__entry *entry, int64_t lease_ms);

/* The first in the wait queue; the head, if that is one by now; what it listens to. NULL: none. */
static inline struct lk__caller *lk__entry_first(const struct lk__entry *entry)
{
	return entry->waiting ? entry->waiting->queue : NULL;
}

static inline struct lk__caller *lk__entry_head(const struct lk__entry *entry)
{
	return entry->waiting ? entry->waiting->head : NULL;
}

static inline struct lk__listening *lk__entry_channel(const struct lk__entry *entry)
{
	return entry->waiting ? entry->waiting->channel : NULL;
}

/*
 * For a caller that is about to send and to wait for the answer: the connection for that on the
 * node, with the caller counted there until lk__conn_part(). It may be another than before, see
 * conn/node.c.
 */
struct lk__conn *lk__entry_join(struct lk__entry *entry, struct lk__node *node);

/* Back to the first connection, if nothing is under way: so that what several entries send stays in
 * order, or because its own is down. */
void lk__entry_rejoin_first(struct lk__entry *entry);
void lk__entry_return(struct lk__entry *entry, const struct lk__node *node);

/* The connections of the node that the head has found: for its scripts, for its messages. */
struct lk__conn *lk__entry_conn(const struct lk__entry *entry);
struct lk__conn *lk__entry_messages(const struct lk__entry *entry);

/* For the head of its queue: looks up its node. True when that is another than before: then
 * what it listened to there is closed. */
bool lk__entry_route(struct lk__entry *entry);

void lk__field(const struct lk__entry *entry, uint64_t number, char field_out[LK__FIELD_SIZE]);

/* Until when the current hold is certain. */
int64_t lk__hold_deadline(const struct lk__hold *hold);

/* Tells whether what we know of the grant may be out of date. */
bool lk__entry_in_doubt(const struct lk__entry *entry);

/* A try is about to be sent: what is heard from now on puts its grant in doubt, and so does a node
 * whose epoch is not the one that is returned any more. */
uint64_t lk__entry_begin_try(struct lk__entry *entry);

/* Takes the current hold out: what becomes of it is the caller's. */
void lk__entry_take_hold(struct lk__entry *entry);

/* The lease that the server is told for a hold. */
int64_t lk__entry_lease_ms(const struct lk__entry *entry, const struct lk__hold *hold);

/* A caller that may join the queue begins: false when out of memory. `waiting` is there until it
 * ends, when nothing can bring it back into the queue any more. */
bool lk__entry_begin_waiting(struct lk__entry *entry);
void lk__entry_end_waiting(struct lk__entry *entry);
/* Without callers, and without a try that is still out, `waiting` goes. */
void lk__entry_rest(struct lk__entry *entry);
/* It has been held for a while: what only its next call needs goes, and is made again by that. */
void lk__entry_free_spares(struct lk__entry *entry);

/* Why nobody waits with these settings any more, and no grant is taken: 0, LK_ECLOSED, or
 * LK_EDRAINING, but for one that leaves a barrier. The same with `error` filled. */
int lk__entry_ends(const struct lk__entry *entry, const struct lk__settings *settings);
int lk__entry_refuses(const struct lk__entry *entry, const struct lk__settings *settings,
		      lk_error *error);

/* The first in the queue becomes the head if nothing stands in its way. */
void lk__entry_promote(struct lk__entry *entry);

/* A waiter joins the queue, as its head if nothing stands in its way. */
void lk__entry_join_queue(struct lk__entry *entry, struct lk__caller *waiter);

/* Closes its channel, if it has one. */
void lk__entry_unsubscribe(struct lk__entry *entry);

/*
 * Why another caller of this client does not get the lock now, which somebody here has, wants, or
 * has left a try for: LK_EBUSY, if it is held here, or the server last said that another has it;
 * else why the tries fail; or 0: the server has not answered yet. A caller that has not tried has
 * nothing that may be held.
 */
int lk__entry_kept_out(const struct lk__entry *entry);

/* Tells whether "busy" is known from before the caller came, where that says nothing: a latch may
 * have opened since. Then the head has to try again for it, at once or after its present try. */
bool lk__entry_is_stale(const struct lk__entry *entry, const struct lk__caller *caller);

/* Something may be known for those who wait for an answer alone: they look. */
void lk__entry_wake_askers(const struct lk__entry *entry);

/* The caller is kept waiting: by another owner, or behind another caller. */
void lk__entry_note_wait(const struct lk__entry *entry, struct lk__caller *waiter);

/* A waiter leaves the queue; the last one unsubscribes. */
void lk__entry_leave_queue(struct lk__entry *entry, struct lk__caller *waiter);

/* ---- memory for compensations ---- */

/* Memory for compensations (src/lock/compensation.h), which an entry keeps ready. */

struct lk__compensation {
	struct lk__compensation *prev, *next;
	struct lk__compensation *next_due; /* or the next of the entry's spares */
	struct lk__entry *entry;
	const struct lk__node *node; /* that the acquire was sent to */
	uint64_t number;
	bool given; /* the master has released it: what is missing is that replicas have that */
	bool kept;  /* nobody wants it, and others are not to have it before its first attempt */
	/* A copy of the acquire may run until then, as the clocks were then. Comes closer under the
	 * client's mutex. */
	_Atomic int64_t until_ns;
	int64_t offset_ns; /* the server's time less ours, when that was computed, or more */
	int64_t end_ns;    /* by then its lease has ended it; LK__NEVER where there is none */
	int64_t at_ns;     /* the next attempt; LK__NEVER while one is under way */
	int64_t pause_ns;  /* before it, if this one is refused */
	bool unheard;      /* replicas have not acknowledged the grant, */
	bool told;         /* and the master has released it: close need not wait for more */
};

/* Keeps memory for what the next try, release or extension of an entry may leave behind: before it
 * is sent. False when there is none. Entry's mutex held. The opposite: the entry goes, or none of
 * these is out. */
bool lk__compensation_reserve(struct lk__entry *entry);

/* One of these, or new; NULL when out of memory. Entry's mutex held. */
struct lk__compensation *lk__compensation_spare(struct lk__entry *entry);

#endif
