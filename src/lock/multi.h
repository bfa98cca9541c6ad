/* SPDX-License-Identifier: MIT */
/*
 * Several reentrant locks, of one client or many, taken all or none.
 *
 * Every part keeps its own entry, hold, watchdog and notices; what is here takes and frees them
 * together. Parts of one client are taken by one script, the clients' scripts are sent at once.
 * A caller that finds a part busy gives everything back, waits for that part alone, as any other
 * caller would, and then tries the rest: nothing is held while it waits, so opposite orders cannot
 * deadlock.
 */
#ifndef LK__LOCK_MULTI_H
#define LK__LOCK_MULTI_H

#include "lock/acquire.h"
#include "lock/extend.h"
#include "lock/fan_out.h"
#include "lock/release.h"
#include "sync/multi/attempt.h"
#include "sync/multi/multi.h"

#define LK__MULTI_MAX 64

struct lk__multi {
	size_t count;
	struct lk__entry *part[LK__MULTI_MAX]; /* by node and client, then name */
};

/* What an owner has of all of them. */
struct lk__multi_hold {
	int64_t deadline_ns; /* the soonest */
	unsigned count;      /* the least */
};

/* The locks of a call whose handle may be gone, with references, and what was granted of each. */
struct lk__multi_taken {
	struct lk__multi multi;
	uint64_t number[LK__MULTI_MAX];
};

/* NULL when out of memory; and its end, of NULL too. */
struct lk__multi_taken *lk__multi_taken_new(const struct lk__multi *multi);
void lk__multi_taken_free(struct lk__multi_taken *taken);

/* Puts the parts in order. LK_EINVAL when one lock is named twice. */
int lk__multi_sort(struct lk__multi *multi, lk_error *error);

/* Takes references of all parts and of their clients; gives them back. */
void lk__multi_keep(const struct lk__multi *multi);
void lk__multi_let_go(const struct lk__multi *multi);

/* Below, `owner` without a name stands for the calling thread. */

/* Starts the loops of all its clients. 0 or a code. */
int lk__multi_start_loops(const struct lk__multi *multi, lk_error *error);

/* The owner as each client knows it. */
struct lk__owner lk__multi_owner(const struct lk__thread *thread, const struct lk__owner *owner);

/* 0, LK_ELOST (a part was lost; `hold` is filled), LK_ENOTOWNER, LK_ENOMEM. A memory read. */
int lk__multi_hold_of(const struct lk__multi *multi, const struct lk__owner *owner,
		      struct lk__multi_hold *hold);

/*
 * What goes to the parts of a multi lock and comes back: places in their wait queues, one try at
 * all that are not taken yet, releases, extensions. Each call here only begins or reads: between
 * the two the operation waits for `asks`.
 */

/* Parts of one client that go in one script: neighbours, since the parts are in order. */
struct lk__multi_group {
	size_t count;
	const size_t *part;        /* their places in the multi lock */
	struct lk__multi_key *key; /* of each */
	uint64_t number;           /* of an acquire */
	uint64_t epoch;
	int64_t lease_ms, until_ns;
};

struct lk__multi_ask {
	const struct lk__multi *multi;
	struct lk__want want;
	struct lk__thread *threads[LK__MULTI_MAX]; /* the caller's, in each part's client */
	bool taken[LK__MULTI_MAX];
	int64_t until_ns;
	size_t busy;  /* the part to wait for */
	int code;     /* why it was not had: LK_EBUSY, what stood in the way, or 0: not known yet */
	bool again;   /* because requests were not sent, or came late for the first time; no more */
	bool unknown; /* in some round parts may have been granted, for all we know */
	bool late;    /* one came late, and has taught us the server's time */
	lk_error *error;

	/* Of one try, release or extension. */
	struct lk__asks asks;
	int64_t asks_until_ns;           /* the caller waits so long at most */
	int64_t keep_ms;                 /* a release keeps the parts so long; 0: it frees them */
	const struct lk__node *connects; /* the node that was connected last; NULL */
	int64_t connects_since_ns;       /* when connecting began: the limit is of all together */
	int result;                      /* the first failure; 0: none */
	bool tells;                      /* which also goes to `error` */
	bool was_late;                   /* an earlier try */
	bool entered;                    /* the cancel token is tied to it */
	bool reserved[LK__MULTI_MAX];
	struct lk__caller waiter[LK__MULTI_MAX];
	size_t asked; /* parts that go on the wire: part[], key[] */
	size_t part[LK__MULTI_MAX];
	struct lk__multi_key key[LK__MULTI_MAX];
	size_t group_count;
	struct lk__multi_group group[LK__MULTI_MAX];
	union {
		struct lk__release release[LK__MULTI_MAX];
		struct lk__extension extension[LK__MULTI_MAX];
	};
	lk_error why; /* of the part that was read last */
};

/* Makes one, which is 32 KB, too many for the stacks of small threads. `thread`: of an asynchronous
 * call; NULL: the calling thread's, in each client. `error` is kept. NULL when out of memory. */
struct lk__multi_ask *lk__multi_ask_new(const struct lk__multi *multi, const struct lk__want *want,
					struct lk__thread *thread, lk_error *error);

/* What is asked of a part's own lock where that alone is waited for. */
struct lk__want lk__multi_await_want(const struct lk__multi_ask *ask, size_t part);

/*
 * A try, from looks at the parts to the end: 0 or a code; where `busy` is a part, the try is over.
 * Between look and reserve the clients connect, each once. Reserve sends, unless `asks` is empty.
 */
int lk__multi_look(struct lk__multi_ask *ask);
/* The next part whose client is to connect, from that one on; `count` when there is none. */
size_t lk__multi_connects(struct lk__multi_ask *ask, size_t from);
/* Until when at most; and what came of it, as lk__conn_ready() says. */
int64_t lk__multi_connect_until_ns(const struct lk__multi_ask *ask, size_t part);
int lk__multi_connected(struct lk__multi_ask *ask, size_t part, int rc, const lk_error *why);
int lk__multi_reserve(struct lk__multi_ask *ask);
/* The end of each look, whatever came of it: leaves the wait queues; once is enough. */
void lk__multi_leave(struct lk__multi_ask *ask);

/* 0, or why nothing but releases can be waited for any more. */
int lk__multi_over(const struct lk__multi_ask *ask);

static inline bool lk__multi_is_busy(const struct lk__multi_ask *ask)
{
	return ask->busy < ask->multi->count;
}

/* Releases once what is taken, or all parts, at once; those may be kept from others for a time,
 * `keep_ms` or 0. `result` then: 0, or the first code:
 * LK_EMAYBEHELD where a part was given up and the server has not confirmed it. */
void lk__multi_give_back(struct lk__multi_ask *ask);
void lk__multi_release_begin(struct lk__multi_ask *ask, int64_t keep_ms);

/* Extends all parts at once. 0, and `result` then; or a code, and nothing was sent. */
int lk__multi_extend_begin(struct lk__multi_ask *ask, int64_t lease_ms);

/* ---- the head ---- */

/*
 * An acquire of a multi lock: carries out what its attempt (sync/multi/attempt.h) says, and feeds
 * what came of it. It decides nothing. What takes time is left to its operation.
 */

struct lk__multi_head {
	struct lk__multi_ask *ask;
	struct lk__multi_attempt attempt;
	struct lk__multi_effects effects; /* what is waited for; `part`: whose client connects, or
					   * that is awaited */
	size_t connects_from;             /* the next part whose client may have to connect */
};

/* ---- the calls ---- */

/* The calls of a multi lock, as operations: acquire, release, extend. */

enum lk__multi_way { LK__MULTI_ACQUIRE, LK__MULTI_RELEASE, LK__MULTI_EXTEND };

struct lk__multi_call {
	struct lk__op op;
	enum lk__multi_way way;
	struct lk__multi_ask *ask;
	int64_t time_ms; /* a lease that is extended; or a release keeps the parts so long */
	bool begun;
	/* Of an acquire: */
	struct lk__multi_head head;
	struct lk__acquire part; /* the part that is waited for alone, */
	struct lk__want want;    /* what is asked of it, */
	_Atomic bool stop;       /* and that it is to end */
};

/* Begins one. `thread`: of an asynchronous call; NULL: the calling thread. `want` of release and
 * extend: its owner alone. `multi` and `error`, which may be NULL for these, live on. LK_ENOMEM. */
int lk__multi_call_init(struct lk__multi_call *call, enum lk__multi_way way,
			const struct lk__multi *multi, const struct lk__want *want, int64_t time_ms,
			struct lk__thread *thread, lk_error *error);
void lk__multi_call_free(struct lk__multi_call *call);

/* The whole of each, in the calling thread. `owner` without a name stands for that thread. */
int lk__multi_acquire(const struct lk__multi *multi, const struct lk__want *want, lk_error *error);
int lk__multi_release(const struct lk__multi *multi, const struct lk__owner *owner, int64_t keep_ms,
		      lk_error *error);
int lk__multi_extend(const struct lk__multi *multi, const struct lk__owner *owner, int64_t lease_ms,
		     lk_error *error);

#endif
