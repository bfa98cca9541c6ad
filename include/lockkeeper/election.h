/* SPDX-License-Identifier: MIT */
/*
 * Leader election: of several candidates one leads, for a term. A term is a number that only rises,
 * and a fence token: the leader shows it to what it writes to.
 *
 * A lease is not a mutex, and neither is a leadership. A leader that is paused past its deadline
 * does not lead any more, and still makes its next write. Only a resource that compares terms stops
 * that write: lk_fence_write() in <lockkeeper/fenced_lock.h>, or a column of a database.
 *
 * In Redis, for the election "web":
 *
 *   web                                      hash    { <id of the leader>: 1 }     PEXPIRE lease
 *   lockkeeper_fence:{web}                   string  the newest term               PX 30 days
 *   lockkeeper_election:{web}                hash    the record of the newest leader:
 *                                                    { id, term, since, host, value, version,
 *                                                      previous, count, asked, stood, leaving,
 *                                                      retired }
 *                                                                                  PX 30 days
 *   lockkeeper_candidates:{web}              hash    { <id>: "<priority> <standing> <since>
 *                                                    <until> <version> <host> <value>" }  with a
 *                                                                                        ttl
 *   lockkeeper_order:{web}                   sorted set, the order of these             with a ttl
 *   redisson_lock__channel:{web}:<id>        channel of one candidate: "look"
 *   lockkeeper_election:{web}                channel of those who observe: the term, or "vacant"
 *
 * All of them are in one slot of a cluster. An id is the owner field of a wait, a client's UUID and
 * a number: a candidate that joins again has another one. Locks of the same name use the same hash:
 * they exclude a leader, and a leader excludes them; so use names of their own for elections.
 *
 * THE LEASE is the client's watchdog_ms: so long the server keeps the place of a leader. It leads
 * for nine tenths of that, counted from when the last renewal was sent, and is renewed at a third
 * of them: lk_election_is_leading() and lk_election_remaining_ms() compare them with the clock. In
 * the last tenth a leader that was told to stop can stop, before the next one leads. So after a
 * kill the next one leads within one lease.
 *
 * WHAT A CANDIDATE IS TOLD, by lk_event_wait() or the completions of LK_OP_NOTICE, in this order:
 *
 *   LK_EVENT_LEADING       it leads; `fence` is its term
 *   LK_EVENT_ASKED         its client is being drained (<lockkeeper/drain.h>): stop, and resign
 *   LK_EVENT_AT_RISK       the leadership ends within its margin, unless a renewal still arrives
 *   LK_EVENT_STOP          it does not lead any more: stop the work
 *   LK_EVENT_NOT_LEADING   the term is over for this candidate: it has resigned or transferred
 *
 * Each LEADING has one NOT_LEADING behind it, and ASKED, AT_RISK and STOP come only in between. Of
 * a candidate that is told nothing, pairs that nobody has read go away: it finds the newest.
 * lk_election_is_leading() says so before LEADING is told, and no longer before STOP is. After STOP
 * the program stops its work and calls lk_election_resign(): that brings NOT_LEADING, and it may
 * join again. A candidacy that ends with an error before it led has a NOT_LEADING with the term 0;
 * `code` and `reason` say why. `tag` is that of the options. The local clock makes AT_RISK and
 * STOP, so they come also when the network hangs.
 *
 * A LEADER THAT DOES NOTHING. Renewals come from a thread of the library, so a leader whose work
 * hangs would lead for ever. With progress_ms, renewal stops when the work has not called
 * lk_election_progress() for so long: AT_RISK and STOP follow, whose `reason` says why, and the
 * next one leads within one lease. Progress before STOP has it renewed again.
 *
 * WHO IS NEXT. Of those that stand for election, that with the highest priority, and of these the
 * one that has waited longest. Behind them come those that only stand by (LK_STAND_BY), and behind
 * these those that are leaving (LK_STAND_LEAVING). A release reserves the place for the next one in
 * the same step, and tells it. One that does not take it within a second has lost its turn. A
 * higher priority does not depose a leader.
 *
 * A DEPLOY that replaces all processes one by one should not elect those that it is about to end.
 * It calls lk_election_retire() before it begins: all that stand then, and the leader, are leaving.
 * The leader is asked to hand over when the first new one waits, and no other change follows.
 * `lockkeeper elect` does that; a program of its own observes lk_leader.asked, and when it is
 * "leave" it stops its work, resigns, and stands again only with LK_STAND_LEAVING.
 *
 * NOTHING WITHOUT A THREAD. A threadless client has no elections yet (LK_EBLOCKING), and a quorum
 * of servers has none.
 */
#ifndef LOCKKEEPER_ELECTION_H
#define LOCKKEEPER_ELECTION_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/error.h>
#include <lockkeeper/event.h>
#include <lockkeeper/lock.h>

#define LK_ELECTION_VALUE_SIZE_MAX 1024 /* bytes in a value */
#define LK_ELECTION_PRIORITY_MAX 1000   /* priorities are -1000 … 1000 */

/* How a candidate stands. */
#define LK_STAND_NORMAL 0
#define LK_STAND_BY 1      /* it leads only where no other candidate waits */
#define LK_STAND_LEAVING 2 /* it is about to end: behind all others */

/* A leader whose client is drained (lk_client_drain()). */
#define LK_DRAIN_ASK 0    /* it is told LK_EVENT_ASKED, stops its work and resigns */
#define LK_DRAIN_RESIGN 1 /* it resigns at once: its work needs no time to stop */

typedef struct lk_election lk_election;

typedef struct lk_election_options {
	size_t struct_size;
	const void *value;   /* what observers read while it leads: an address; copied */
	size_t value_size;   /* at most LK_ELECTION_VALUE_SIZE_MAX; LK_STRLEN: a C string */
	int priority;        /* a higher one is elected first */
	int standing;        /* LK_STAND_… */
	int64_t margin_ms;   /* LK_EVENT_AT_RISK comes this long before the end; 0: lease / 10 */
	uint64_t tag;        /* returned in events about this candidate */
	int64_t progress_ms; /* renewal stops when the work has shown no progress for so long
				(lk_election_progress()); 0: nobody looks after it */
	int on_drain;        /* LK_DRAIN_… */
} lk_election_options;

#define LK_ELECTION_OPTIONS_INIT                                                                   \
	{                                                                                          \
		sizeof(lk_election_options), NULL, 0, 0, LK_STAND_NORMAL, 0, 0, 0, LK_DRAIN_ASK    \
	}

/* Who leads. */
typedef struct lk_leader {
	size_t struct_size;
	int vacant;       /* 1: nobody leads; the rest is of the newest leader, if there was one */
	int missed;       /* lk_election_observe(): 1: leaders in between may have been missed */
	uint64_t term;    /* 0: nobody has led yet */
	int64_t since_us; /* when the term began, by the server's clock, µs since 1970 */
	uint64_t elections; /* how many the record has counted; it begins anew when data is lost */
	char id[LK_FIELD_SIZE];
	char host[LK_NODE_SIZE];
	size_t value_size;
	char value[LK_ELECTION_VALUE_SIZE_MAX + 1]; /* and a NUL */
	char asked[LK_FIELD_SIZE]; /* by lk_election_ask(): "", "resign", or the id of a candidate
				      that is to lead; of a leader that is leaving: "leaving", or
				      "leave" when another waits that is not */
} lk_leader;

#define LK_LEADER_INIT                                                                             \
	{                                                                                          \
		sizeof(lk_leader), 0, 0, 0, 0, 0, {0}, {0}, 0, {0},                                \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}

/* One that waits. */
typedef struct lk_candidate {
	size_t struct_size; /* the program sets it in the first element of an array */
	char id[LK_FIELD_SIZE];
	char host[LK_NODE_SIZE];
	int priority;
	int standing;     /* LK_STAND_… */
	int listens;      /* 0: it is dead, or not connected now */
	int64_t since_us; /* since when it waits, by the server's clock, µs since 1970 */
	size_t value_size;
	char value[LK_ELECTION_VALUE_SIZE_MAX + 1]; /* and a NUL */
} lk_candidate;

#define LK_CANDIDATE_INIT                                                                          \
	{                                                                                          \
		sizeof(lk_candidate), {0}, {0}, 0, 0, 0, 0, 0,                                     \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle: one candidate of the election `name`, which does not stand yet; or somebody who
 * only observes. Each handle is a candidate of its own, also in one client. `options` may be NULL.
 * A name whose derived keys are in another cluster slot ("a}b", "foo{bar") is refused (LK_EINVAL).
 * Does no I/O. Free it with lk_election_free(). Errors: LK_EINVAL, LK_ENOMEM, LK_ECLOSED,
 * LK_EFORKED, LK_EBLOCKING. Since 0.2.
 */
LK_API int lk_election_new(lk_election **election_out, lk_client *client, const void *name,
			   size_t name_size, const lk_election_options *options, lk_error *error);

/*
 * Frees a handle, before or after lk_client_free(). A candidate that still waits or leads resigns,
 * without waiting for the answer; its notices that nobody has read are deleted. NULL is fine.
 * Returns NULL. Since 0.2.
 */
LK_API lk_election *lk_election_free(lk_election *election);

/*
 * Stands for election and waits until it leads, at most `wait_ms` (-1: no limit; 0: one try). With
 * 0 the term is in *term_out, which may be NULL. `cancel` may be NULL. At the limit it does not
 * stand any more. Blocks. Errors: LK_EINVAL (it stands or leads already, …), LK_EBUSY (wait_ms 0:
 * another leads), LK_ETIMEDOUT, LK_ELOST (it led, and has lost it before this call could return:
 * resign), and those of lk_lock_acquire(). Since 0.2.
 */
LK_API int lk_election_campaign(lk_election *election, int64_t wait_ms, lk_cancel *cancel,
				uint64_t *term_out, lk_error *error);

/*
 * Stands for election and returns at once; notices tell of what comes. It goes on standing while
 * the server cannot be reached; what is refused at once ends the candidacy, with a notice. Does not
 * block. Errors: LK_EINVAL (it stands or leads already),
 * LK_ENOMEM, LK_ESYSTEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_election_join(lk_election *election, lk_error *error);

/*
 * Does not stand any more: a leader gives its place to the next one, and one that waits leaves.
 * Blocks until the server answers, at most `limit_ms` (-1: until the lease is over): then it does
 * not lead any more all the same, and the library goes on with the release in the background. After
 * LK_EVENT_STOP it says that the work has stopped. The next call may stand again. Errors:
 * LK_ENOTOWNER (it does not stand), LK_ELOST (the leadership was lost before), LK_EMAYBEHELD (no
 * answer within the limit: the place may stay taken until the lease ends), LK_EINVAL, LK_ENOMEM,
 * LK_ECLOSED, LK_EFORKED. After each of these but LK_ENOMEM it does not stand. Since 0.2.
 */
LK_API int lk_election_resign(lk_election *election, int64_t limit_ms, lk_error *error);

/*
 * Gives the leadership to the candidate `id`, if that waits at this moment: the release and the
 * reservation are one step. Else it fails, and this candidate still leads. With 0 it does not lead
 * and does not stand any more, as after lk_election_resign(). If the other one dies or is stopped
 * before it has begun to lead, the next one leads a second later. Blocks for one round trip, at
 * most for the command limit. Errors: LK_EBUSY (that one does not wait, or cannot be told: still
 * leading), LK_ENOTOWNER (it does not lead), LK_ELOST, LK_EMAYBEHELD and LK_ENOTDURABLE (it may
 * have been transferred: this candidate does not lead any more, and the library gives its place
 * back in the background), LK_EINVAL and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_election_transfer(lk_election *election, const char *id, lk_error *error);

/*
 * Changes the value. A leader's is checked and written with its term, in one step: an old leader
 * overwrites nothing. One that waits brings the new value when it leads. Blocks for one round trip
 * while leading, at most for the command limit. Errors: LK_ELOST (it does not lead any more:
 * nothing was written), LK_EMAYBEHELD (no answer: it may have been written), LK_EINVAL (too long,
 * …) and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_election_proclaim(lk_election *election, const void *value, size_t value_size,
				lk_error *error);

/*
 * Returns 1 when this candidate leads and its deadline has not passed, else 0, never a negative
 * code. A memory read. After a 0, `error` says why not. Errors: LK_ENOTOWNER, LK_ELOST, LK_EINVAL,
 * LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_election_is_leading(lk_election *election, lk_error *error);

/*
 * Writes for how many ms the leadership is still certain. A memory read. Errors as
 * lk_election_is_leading(). Since 0.2.
 */
LK_API int lk_election_remaining_ms(lk_election *election, int64_t *remaining_ms_out,
				    lk_error *error);

/* Writes the term of the leadership. A memory read. Errors as lk_election_is_leading(). Since 0.2.
 */
LK_API int lk_election_term(lk_election *election, uint64_t *term_out, lk_error *error);

/*
 * The work says that it goes on: the lease is renewed for another progress_ms. The begin counts as
 * progress. Without that option it does nothing. A memory access. Errors as
 * lk_election_is_leading(). Since 0.2.
 */
LK_API int lk_election_progress(lk_election *election, lk_error *error);

/*
 * Changes how it stands: the priority, and LK_STAND_…. One that waits has its new place in the
 * order at once. A leader that is leaving leads on until another waits that is not leaving, and is
 * then asked to hand over (lk_leader.asked is "leave"); LK_STAND_NORMAL takes that back. While it
 * neither waits nor leads the change is for the next time. Blocks for one round trip, at most for
 * the command limit. Errors: LK_EMAYBEHELD (no answer: the server may have changed it), LK_EINVAL
 * and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_election_set_standing(lk_election *election, int priority, int standing,
				    lk_error *error);

/*
 * Says of all that wait at this moment, and of the leader, that they are leaving, as each of them
 * could with lk_election_set_standing(). Returns how many they are. One that joins later is not
 * among them. Blocks for one round trip, at most for the command limit. Errors: LK_EMAYBEHELD (no
 * answer: it may have been done), LK_EINVAL and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_election_retire(lk_election *election, lk_error *error);

/*
 * Asks the server who leads. Set `struct_size` first. Blocks for one round trip, at most for the
 * command limit. Errors: LK_EINVAL, LK_EWRONGTYPE and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_election_leader(lk_election *election, lk_leader *leader_out, lk_error *error);

/*
 * Waits until the leader, its value, or whether there is one, is another than in this handle's last
 * call: writes it and returns 1, or returns 0 when nothing changed within `wait_ms` (-1: no limit).
 * The first call returns 1 at once. `missed` is 1 where leaders in between may not have been seen:
 * of two changes that follow one another closely, the last one is told, and values in between are
 * not counted. Messages wake it; a leader that dies without one is noticed at the end of its lease,
 * and what is changed by hand within look_again_ms. While the server cannot be reached it waits.
 * Set `struct_size` first. `cancel` may be NULL. One thread at a time. Errors: LK_ECANCELLED,
 * LK_EINVAL, LK_ENOMEM, LK_ECLOSED, LK_EFORKED, LK_EAUTH, LK_EDENIED, LK_EWRONGTYPE. Since 0.2.
 */
LK_API int lk_election_observe(lk_election *election, int64_t wait_ms, lk_cancel *cancel,
			       lk_leader *leader_out, lk_error *error);

/*
 * Asks the leader to resign, or, with the `id` of a candidate that waits, to transfer to that one.
 * It is written into the record, and observers are told: lk_leader.asked. Whether the leader does
 * it is its own affair; `lockkeeper elect` ends its command first. Who leads at the call is asked,
 * and no later leader. Blocks for two round trips, at most for the command limit. Errors:
 * LK_ENOTOWNER (nobody leads), LK_EBUSY (that one does not wait), LK_EMAYBEHELD (no answer: it may
 * have been asked), LK_EINVAL and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_election_ask(lk_election *election, const char *id, lk_error *error);

/*
 * Asks the server who waits: writes the first `most` in the order in which they would be elected,
 * and returns how many wait. `candidates_out` may be NULL if `most` is 0; else set the
 * `struct_size` of the first element before. Blocks for one round trip, at most for the command
 * limit. Errors: LK_EINVAL, LK_EWRONGTYPE, LK_ENOMEM and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_election_candidates(lk_election *election, lk_candidate *candidates_out, size_t most,
				  lk_error *error);

LK_END_DECLS

#endif
