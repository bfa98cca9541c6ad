/* SPDX-License-Identifier: MIT */
/*
 * The client from the inside: what the drivers share.
 *
 * The order of the mutexes is in docs/threads.md: first an entry's (of a red lock the front's, then
 * a member's), then at most one of client, record, connection, thread, notices; then the watch's
 * or a queue's.
 */
#ifndef LK__LOCK_CLIENT_H
#define LK__LOCK_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper/client.h>
#include <lockkeeper/stats.h>

#include "base/containers.h"
#include "base/identity.h"
#include "base/log.h"
#include "base/thread.h"
#include "topo/topo.h"

struct lk__entry;
struct lk__hold;
struct lk__loop;
struct lk__compensation;
struct lk__async;
struct lk__completion;

enum lk__client_state { LK__CLIENT_OPEN, LK__CLIENT_CLOSING, LK__CLIENT_CLOSED };

/* The deadlines of all that is held, soonest first. */
struct lk__watch {
	pthread_mutex_t mutex;
	struct lk__heap heap; /* of entries */
	int64_t armed_ns;     /* when the loop's timer goes off; LK__NEVER when it does not */
};

/* Notices that wait to be read; `fd` is readable exactly while there are any. */
struct lk__notices {
	pthread_mutex_t mutex;
	struct lk__hold *holds;
	struct lk__teller *tellers;     /* candidates that have something to be told */
	struct lk__completion *request; /* the queue that they go to; NULL: none */
	int fd;
	bool readable;     /* `fd` is */
	_Atomic bool owes; /* the loop is to call that queue's callback, if it is owed */
};

/* The client's own key, as far as it is known; see below. */
struct lk__client_record {
	int64_t since_ns;       /* the client's start */
	_Atomic int64_t due_ns; /* not written again before; set under the mutex */
	_Atomic bool wanted, denied;
	_Atomic int64_t kept_until_ns; /* the end of what is kept from others longest; 0 */
	pthread_mutex_t mutex;         /* what is sent about it, in order */
	bool written, ended;           /* under the mutex, as is the next */
	struct lk__note *notes;        /* of the holds that have one, the oldest first */
	_Atomic bool stale;            /* it shows one of a hold that is over */
};

/* Why a hold is held; in the list of its client while it is. */
struct lk__note {
	struct lk__note *prev, *next;
	uint64_t number; /* of the hold; 0: it is not in the list */
	bool shown;
	char text[];
};

/* A call that another client's loop drives, and that ends when this client is closed. */
struct lk__guest {
	struct lk__guest *prev, *next;
	struct lk__thread *thread;
	lk_client *client; /* a reference; NULL: it has none */
};

/* Asynchronous calls, see async.h. */
struct lk__asyncs {
	struct lk__ready_list ready; /* woken; the loop takes them */
	_Atomic bool asleep;         /* the loop waits, and does not look at `ready` */
	_Atomic size_t count;        /* started, and not completed */
	_Atomic size_t listeners;    /* that wait for answers here, also other clients' */
	struct lk__guest *guests;    /* under the client's mutex */
	struct lk__async *free;      /* under the client's mutex */
	bool ended;                  /* the same: no more can start */
	struct lk__async *in_flight; /* the loop's */
	struct lk__async *over;      /* the loop's: completed, and delivered soon */
	size_t over_count;           /* the loop's */
	struct lk__heap timers;      /* the loop's */
	int told;                    /* the loop's: all have been woken for so many ends */
};

/* A close that was begun: how long it waits. */
struct lk__closing {
	/* Of a threadless client, until it is delivered; else NULL. */
	_Atomic(struct lk__completion *) completion;
	int64_t leave_until_ns;   /* for those who wait to go */
	_Atomic int64_t until_ns; /* for answers: asynchronous calls end then, */
	int64_t end_ns;           /* and the close a little later; */
	size_t calls;             /* so many of these were left at its last look */
	bool again;               /* an earlier one has had its time: a silence counts from now */
};

struct lk__histogram {
	_Atomic uint64_t bucket[LK_HISTOGRAM_SIZE], sum_us;
};

struct lk__counters {
	_Atomic uint64_t acquires, reentries, handovers, wire_grants, releases, busy, timeouts,
		cancels, failures, lost, renewals, compensations, held, waiting, refusals,
		contended, at_risk;
	_Atomic uint64_t lost_by[LK_LOSS_CAUSES];
	struct lk__histogram wait, hold, renewal, margin;
};

/* A name, or with `is_prefix` all names that begin so, whose locks are counted apart. */
struct lk__declared {
	char *name;
	size_t size;
	bool is_prefix;
	char *label;                   /* the name as UTF-8 */
	struct lk__counters *counters; /* of the first that has the same label */
};

/* The first counts all other locks. They only come while the client has no entries, so the counts
 * of all of them are those of the client. */
struct lk__declareds {
	_Atomic size_t count;
	struct lk__declared of[1 + LK_STATS_NAMES_MAX];
};

/* The table of its entries (src/lock/entry.c). */
struct lk__entries {
	struct lk__entry **chain;
	size_t room; /* of these, a power of two; or 0 */
	size_t count;
	const struct lk__recipe *recipe; /* of the first entry whose lock can be held */
	_Atomic bool mixed;              /* one with another has come since */
};

/* In front of an entry where each owner has one: its place among those that are held. */
struct lk__holder {
	struct lk__holder *next, **link;
};

/* These, by key (the same file). */
struct lk__holders {
	pthread_mutex_t mutex;
	struct lk__holder **chain;
	struct lk__holder *only; /* the one chain there is before there was memory for more */
	size_t room;             /* of these, a power of two; or 0 */
	_Atomic size_t count;    /* set under the mutex */
};

/* The work on everything that the client has: by src/api/client.c, which makes it. */
struct lk__client_ops {
	/* The work of a turn of the loop. `verify`: every grant is to be verified. Says whether
	 * asynchronous calls were resumed, and returns when more is due. */
	int64_t (*turn)(lk_client *client, bool verify, bool *resumed_out);
	/* The last reference is gone. */
	void (*free)(lk_client *client);
	/* Of its entries on several nodes. */
	const struct lk__quorum *quorum;
};

struct lk_client {
	const struct lk__client_ops *ops;
	_Atomic int refs;
	_Atomic int state;
	struct lk_config *config;
	struct lk__log log;
	char id[LK__UUID_SIZE];
	struct lk__topo *topo;
	const _Atomic int *alive; /* a page that fork wipes: 0 in a child */
	pthread_key_t key;
	pthread_mutex_t mutex;
	struct lk__entries entries;
	struct lk__holders holders;
	struct lk__thread *threads;
	struct lk__callers callers;
	_Atomic uint64_t last_number;      /* of the wire grants */
	_Atomic uint64_t last_serial;      /* of the threads */
	_Atomic uint64_t releasing;        /* releases under way that nobody waits for */
	_Atomic uint64_t trying;           /* tries of whose outcome their attempt has not heard */
	_Atomic unsigned ending;           /* threads that are at their end, in thread_end() */
	_Atomic uint64_t unclaimed_grants; /* grants that are not holds yet, or given back */
	_Atomic unsigned quorums;          /* entries that are on several nodes */
	_Atomic unsigned tracked;          /* holds whose keys the server watches for us */
	_Atomic bool unreleased;           /* no memory was left to release something */
	_Atomic bool closing;              /* one caller closes it */
	_Atomic bool draining;             /* it takes nothing new, for good: api/drain.c */
	_Atomic bool growing;              /* one opens another connection for scripts */
	_Atomic(struct lk__loop *) loop;   /* NULL until the first need */
	struct lk__watch watch;
	struct lk__notices notices;
	struct lk__compensation *compensations;
	struct lk__hold *lost; /* permits, those to be forgotten first in front; see hold.c */
	size_t lost_count;
	struct lk__asyncs asyncs;
	struct lk__closing close;
	struct lk__client_record record;
	struct lk__counters counters;
	struct lk__declareds *_Atomic declared; /* NULL: no name was */
};

/* 0, LK_EFORKED or LK_ECLOSED: the first words of every public call. */
int lk__client_check(lk_client *client, const char *operation, lk_error *error);

static inline bool lk__client_forked(const lk_client *client)
{
	return atomic_load_explicit(client->alive, memory_order_relaxed) == 0;
}

/* How many ends of it those who wait have to hear of: the drain, and the close. */
static inline int lk__client_ends(const lk_client *client)
{
	return atomic_load(&client->draining) + (atomic_load(&client->state) != LK__CLIENT_OPEN);
}

/* Tells whether any asynchronous request is in flight, or waits for an answer to this client. */
static inline bool lk__async_active(const lk_client *client)
{
	return atomic_load(&client->asyncs.count) > 0 || atomic_load(&client->asyncs.listeners) > 0;
}

/* Until when asynchronous calls wait for answers because of a close; LK__NEVER: it is open. */
static inline int64_t lk__client_until_ns(const lk_client *client)
{
	return atomic_load(&client->state) == LK__CLIENT_OPEN
		       ? LK__NEVER
		       : atomic_load(&client->close.until_ns);
}

/* The loop is awake, and looks at what is ready later in its turn. For the loop alone. */
static inline void lk__async_rise(lk_client *client)
{
	atomic_store(&client->asyncs.asleep, false);
}

/* The loop is about to sleep. False: an asynchronous request is ready. For the loop alone. */
static inline bool lk__async_rest(lk_client *client)
{
	atomic_store(&client->asyncs.asleep, true);
	/* A request that comes from now on wakes us. */
	return !lk__ready_any(&client->asyncs.ready);
}

void lk__client_ref(lk_client *client);
void lk__client_unref(lk_client *client);

/* Has all look who wait: its threads, and calls that other clients' loops drive. */
void lk__client_wake_waiters(lk_client *client);

/* Our record of the calling thread; NULL when out of memory. */
struct lk__thread *lk__client_thread(lk_client *client);

static inline void lk__count(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* Adds a duration to a histogram. */
void lk__count_us(struct lk__histogram *histogram, int64_t duration_ns);

/* ---- the key that says who the client is ---- */

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
 * A hold with a note of its own has a line "note:<number>=" in it, the newest NOTES_MAX of them.
 * Of one that is over the line stays until the record is written again, at the next grant at the
 * latest: a grant that is passed on in memory keeps its number.
 * A refusal for want of rights (NOPERM) ends it; any other is tried again at the next turn that is
 * due.
 */

#define LK__CLIENT_RECORD_PREFIX "lockkeeper_client:"
#define LK__CLIENT_HALF 18 /* characters of the UUID in the key: 8 bytes, and two dashes */

/* The key of a client's record, to be freed; NULL when out of memory. */
char *lk__client_record_key(const lk_client *client);

/* A hold of that number begins, with a note or (NULL) without: the loop writes the record anew if
 * it says something else. A hold is over, and its note with it. With the entry's mutex held. */
void lk__note_begin(lk_client *client, struct lk__note *note, uint64_t number);
void lk__note_end(lk_client *client, struct lk__note *note);

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
