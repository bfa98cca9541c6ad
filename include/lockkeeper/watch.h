/* SPDX-License-Identifier: MIT */
/*
 * Watching locks from outside: what they are now, and each change, told when it happens.
 *
 * A WATCH has names. For each it first tells the present state, and then what changes. A change is
 * what differs between two looks: what comes and goes between them is told as one change, and of a
 * lock that passes from one owner to the next, that the next one has it. Nothing is invented:
 * where nothing shows how a hold ended, its end is LK_CHANGE_UNKNOWN.
 *
 *   LK_CHANGE_STATE      how it is: at the beginning (`initial`), and behind each gap. One for each
 *                        holder, or one without an owner
 *   LK_CHANGE_ACQUIRED   `owner` has it now. If another had it in the look before, `was` says who,
 *                        whose hold has ended
 *   LK_CHANGE_RENEWED    `owner` still has it, for longer. Only with the option `renewals`
 *   LK_CHANGE_RELEASED   the hold of `was` has ended, and a message told of a release
 *   LK_CHANGE_BROKEN     the same, by lk_lock_force_release() or `lockkeeper break`, or because the
 *                        key was overwritten with something that is not a lock
 *   LK_CHANGE_EXPIRED    the same, at the end of its lease. If the program did not call
 *                        lk_watch_next() meanwhile, it may have ended otherwise
 *   LK_CHANGE_LOST       the same, and the server said that all keys are gone (FLUSHALL, FLUSHDB)
 *   LK_CHANGE_UNKNOWN    the hold of `was` has ended before its lease did, and nobody told how: DEL
 *                        by hand, an eviction, or a release of a kind that sends no message: a spin
 *                        lock, a fair lock, most other libraries
 *   LK_CHANGE_COUNT      the count of a semaphore or a latch is another
 *   LK_CHANGE_GAP        what told of changes broke: a connection was lost, or the server is
 *                        another. What happened meanwhile is not known; `reason` says what broke.
 *                        The state comes next, once the server can be reached
 *
 * TOLD OR ASKED. Where the server tells of changed keys (CLIENT TRACKING, as for holds), a watch
 * sleeps until it is told, or until the lease that it knows ends; each half minute it looks at
 * whether it is still told. `told` is 1 then. Where the server, the rights of the user or a proxy
 * lack that, it is 0, and the watch looks each `poll_ms`: what comes and goes in between is not
 * seen, and LK_CHANGE_EXPIRED is told as LK_CHANGE_UNKNOWN.
 *
 * A RELEASE is known by its message, so a watch listens on the lock's channel, as a waiter does. It
 * is not among the lk_lock_info.waiting_clients; nor is a waiter of the same client. A client whose
 * threads pass a lock on among themselves lets others try for 5 ms from time to time while a watch
 * listens.
 *
 * READERS of a read/write lock: a renewal of one is not told of while another's lease is longer.
 *
 * DEPLOYMENTS. One watch is for one client: one server, its replicas, Sentinel, or a cluster, of
 * which each node tells of its own keys. After a failover, or when a slot has moved, there is a gap
 * and then the state. A quorum of servers has no watch: watch each server by a client of its own.
 *
 * BOUNDS. A watch has at most LK_WATCH_NAMES_MAX names. It keeps the changes of one look at one
 * name, and looks again only when they were taken: a slow program is told of fewer changes, and
 * none is stored. At most LK_INSPECT_MAX holders of a name are seen; who they are, of at most 16
 * new ones in one look.
 *
 * Which kinds are known, and how, is in <lockkeeper/inspect.h>.
 */
#ifndef LOCKKEEPER_WATCH_H
#define LOCKKEEPER_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/error.h>
#include <lockkeeper/inspect.h>

#define LK_WATCH_NAMES_MAX 10000

#define LK_CHANGE_STATE 1
#define LK_CHANGE_ACQUIRED 2
#define LK_CHANGE_RENEWED 3
#define LK_CHANGE_RELEASED 4
#define LK_CHANGE_BROKEN 5
#define LK_CHANGE_EXPIRED 6
#define LK_CHANGE_LOST 7
#define LK_CHANGE_UNKNOWN 8
#define LK_CHANGE_COUNT 9
#define LK_CHANGE_GAP 10

typedef struct lk_watch lk_watch;

typedef struct lk_watch_options {
	size_t struct_size;
	int64_t poll_ms; /* between two looks where the server does not tell; 0: 1000 */
	int renewals;    /* 1: LK_CHANGE_RENEWED is told */
} lk_watch_options;

#define LK_WATCH_OPTIONS_INIT                                                                      \
	{                                                                                          \
		sizeof(lk_watch_options), 0, 0                                                     \
	}

typedef struct lk_change {
	size_t struct_size; /* the program sets it, LK_CHANGE_INIT: so much is written */
	int kind;           /* LK_CHANGE_… */
	int initial;        /* 1: the first state of that name */
	int told;           /* 1: the server tells of changes; 0: it is asked each poll_ms */
	const char *name;   /* with a NUL after its bytes, as all names and fields here */
	size_t name_size;
	const char *type;  /* as lk_lock_info.type */
	const char *owner; /* the wire field of who has it; NULL: nobody, or it did not change */
	size_t owner_size;
	const lk_owner_info *client; /* who that is; NULL: its client does not tell. Its `note` is
				      * written just behind the grant, and may be empty here */
	const char *was;             /* the wire field of who had it before; NULL: nobody */
	size_t was_size;
	const lk_owner_info *was_client;
	size_t holder_count; /* how many have it now; 0: it is free */
	int64_t ttl_ms;      /* the rest of the owner's lease; -1: it has no end, or no owner */
	uint64_t fence;      /* the newest token of a fenced lock; else 0 */
	int is_counter;      /* 1: a semaphore or a latch, and `count` is set */
	int64_t count;
	int64_t at_ms;      /* when it was seen, by the server's clock, ms since 1970; 0: unknown */
	const char *reason; /* of a gap; else NULL */
} lk_change;

#define LK_CHANGE_INIT                                                                             \
	{                                                                                          \
		sizeof(lk_change), 0, 0, 0, NULL, 0, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, 0, 0,  \
			0, 0, 0, NULL                                                              \
	}

LK_BEGIN_DECLS

/*
 * Makes a watch, which has no names yet. `options` may be NULL. Starts the client's background
 * thread, unless it has none. Does no I/O. Free it with lk_watch_free(). Errors: LK_EINVAL,
 * LK_ENOMEM, LK_ESYSTEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_watch_new(lk_watch **watch_out, lk_client *client, const lk_watch_options *options,
			lk_error *error);

/*
 * Adds a name, which is copied; it may be held or not. A name that is watched already is left as
 * it is. Does not block. One thread at a time, and not while a request of the watch is in flight.
 * Errors: LK_EINVAL, LK_ELIMIT (too many names), LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_watch_add(lk_watch *watch, const void *name, size_t name_size, lk_error *error);

/*
 * Forgets a name, and the changes of it that were not taken. Returns 1, or 0 when it was not
 * watched. Does not block. One thread at a time, and not while a request of the watch is in flight.
 * Errors: LK_EINVAL, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_watch_remove(lk_watch *watch, const void *name, size_t name_size, lk_error *error);

/*
 * Waits for the next change, at most `wait_ms` (-1: no limit): writes it and returns 1, or returns
 * 0 at the limit. With 0 it takes what is there, does no I/O and never blocks: so a program takes
 * the changes behind a completion of LK_OP_WATCH, until it returns 0. What `change_out` points to
 * is valid until the next call on `watch`. Set the `struct_size` of `change_out` first. `cancel`
 * may be NULL. While the server cannot be reached it tells of the gap and waits. One thread at a
 * time, and not while a request of the watch is in flight. Errors: LK_ECANCELLED, LK_EINVAL,
 * LK_ENOMEM, LK_ECLOSED, LK_EFORKED, LK_EBLOCKING (a threadless client, and `wait_ms` is not 0),
 * and of a server that refuses to show a lock: LK_EAUTH, LK_EDENIED, LK_EPROTOCOL. After an error,
 * call it again: it looks again. Since 0.2.
 */
LK_API int lk_watch_next(lk_watch *watch, int64_t wait_ms, lk_cancel *cancel, lk_change *change_out,
			 lk_error *error);

/*
 * Frees a watch and what it wrote, before or after the client. A request of it that is in flight
 * completes with LK_ECANCELLED. NULL is fine. Does not block. Returns NULL. Since 0.2.
 */
LK_API lk_watch *lk_watch_free(lk_watch *watch);

LK_END_DECLS

#endif
