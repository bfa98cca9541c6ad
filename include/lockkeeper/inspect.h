/* SPDX-License-Identifier: MIT */
/*
 * Looking at locks from outside: which locks exist, of which kind, who holds them and for how long,
 * and who waits.
 *
 * These calls return what was true at one moment. Never conclude from them that you hold a lock.
 *
 * A KIND IS KNOWN BY ITS DATA (each kind's header shows it). Kinds that share their data cannot be
 * told apart:
 *
 *   "lock"                a reentrant lock, a spin lock, a part of a multi lock, or a fair lock
 *                         without waiters
 *   "fair lock"           a fair lock with a queue
 *   "fenced lock"         a lock with a fence token
 *   "read/write lock"
 *   "plain lock"          a string that looks like a token of ours or of another library; for
 *                         lk_scan_show(), any string that is no number
 *   "permit semaphore"    a counter with permits in use
 *   "semaphore", "latch"  a counter to whose channel a client is subscribed
 *   "semaphore or latch"  any other key that is a whole number; it may also be a permit semaphore
 *                         without permits in use, or a number that is not a lock at all
 *   "barrier"             those who stand at it are its holders: they wait, or are inside
 *   "foreign lock"        a lock of another library, in a layout that no kind of ours shares: a
 *                         sorted set, or a hash. Ours cannot wait for it, except from outside
 *   "foreign semaphore"   the same, of a semaphore
 *   "counter beside a lock"  a number that another library keeps for its locks
 *   "none"                the name has no key (lk_scan_show() only)
 *
 * LOCKS OF OTHERS are known by the forms of key and value, of which docs/beside.md has the table.
 * `looks_like` says whose such a lock looks like, and what its value tells; where several libraries
 * write the same it names them all: a counter of ours with a time to live that is 0 or 1, and
 * neither has permits in use nor a waiter, looks like dramatiq's too. It is a guess: anybody can
 * write such a key. Where the form is not enough to tell it from data (a UUID under any name, or a
 * string that has no known form at all), `may_be_data` is 1, and a walk passes over the key, unless
 * lk_scan_all() asked for all.
 *
 * KEYS BESIDE A LOCK are not locks: a kind derives their names from the lock's. A walk passes over
 * each key that has their form: "lockkeeper_…:" or "redisson_…:" with a "{" behind that, and for
 * strings also "{…:rwlock_timeout:" with a number behind it, and "lockkeeper_client:…". A walk does
 * not find a lock with such a name; lk_scan_show() shows it.
 */
#ifndef LOCKKEEPER_INSPECT_H
#define LOCKKEEPER_INSPECT_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

#define LK_INSPECT_MAX 1000 /* about how many holders, and how many waiters, are read */

typedef struct lk_scan lk_scan;

enum lk_holder_role {
	LK_HOLDER_OWNER = 0,  /* of the whole lock */
	LK_HOLDER_READER = 1, /* of a read/write lock */
	LK_HOLDER_WRITER = 2,
	LK_HOLDER_PERMIT = 3, /* one permit of a permit semaphore */
	LK_HOLDER_WAITS = 4,  /* at a barrier, until enough have come */
	LK_HOLDER_INSIDE = 5  /* of a barrier: it has entered, and has not left */
};

typedef struct lk_holder {
	const char *field; /* the owner's wire field, the token, or the permit's id; with a NUL. Of
			      a lock that is kept after its release: nobody's, with ":kept:" */
	size_t field_size;
	int64_t hold_count;
	int64_t ttl_ms; /* the rest of this holder's lease; -1: it has no end */
	int role;       /* LK_HOLDER_… */
} lk_holder;

typedef struct lk_waiter {
	const char *field; /* the wire field, with a NUL after its bytes */
	size_t field_size;
} lk_waiter;

typedef struct lk_lock_info {
	size_t struct_size; /* the program sets it, LK_LOCK_INFO_INIT: so much is written */
	const char *type;   /* see above */
	const char *name;   /* with a NUL after its bytes; without the configured prefix */
	size_t name_size;
	int64_t ttl_ms;      /* -1: no time to live */
	size_t holder_count; /* 0: not locked */
	const lk_holder *holders;
	/* Of a fair lock, the next first; or preferred writers; or those who have left a barrier,
	   and wait until the others have. */
	size_t waiter_count;
	const lk_waiter *waiters;
	/* Subscribers of the lock's channel, or clients in a fair lock's queue: a hint. Of two
	   kinds of messages, the more. */
	int64_t waiting_clients;
	int is_counter; /* 1: a semaphore or a latch, and `count` is set */
	int64_t count;  /* free permits, or the rest of a latch's count */
	uint64_t fence; /* the newest token of a fenced lock, or generation of a barrier; or 0 */
	const char *looks_like; /* "ShedLock: added 2026-11-27 03:12 on host web-1"; or NULL */
	int may_be_data;        /* 1: it may be something else than a lock */
	int64_t parties;        /* how many meet at a barrier; 0: not known, or no barrier */
	/* Of a barrier, for each of `holders`: since when it waits or is inside, ms since 1970 by
	   the server's clock (0: not known); else NULL. */
	const int64_t *since_ms;
} lk_lock_info;

#define LK_LOCK_INFO_INIT                                                                          \
	{                                                                                          \
		sizeof(lk_lock_info), NULL, NULL, 0, 0, 0, NULL, 0, NULL, 0, 0, 0, 0, NULL, 0, 0,  \
			NULL                                                                       \
	}

/* Who an owner is. Its client writes this into a key of its own, and nobody checks it. */
typedef struct lk_owner_info {
	size_t struct_size;    /* the program sets it, LK_OWNER_INFO_INIT: so much is written */
	const char *client_id; /* the client's UUID */
	const char *host;
	int64_t pid;
	int64_t since_ms;    /* the client's start, by the server's clock: ms since 1970 */
	const char *user;    /* "" if the client does not tell it (option client_record) */
	const char *program; /* "" if the client does not tell it */
	const char *note;    /* why it has that hold (lk_acquire_options.note), or else its locks
				(option note); or "" */
} lk_owner_info;

#define LK_OWNER_INFO_INIT                                                                         \
	{                                                                                          \
		sizeof(lk_owner_info), NULL, NULL, 0, 0, NULL, NULL, NULL                          \
	}

LK_BEGIN_DECLS

/*
 * Starts a walk over the locks whose name matches a glob pattern (NULL: all), by SCAN, never KEYS.
 * The walk skips keys that are not locks, and keys that a lock keeps beside its own. Copies the
 * pattern. Does no I/O. Free it with lk_scan_free(), before or after the client. Errors: LK_ENOMEM,
 * LK_EINVAL, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_scan_new(lk_scan **scan_out, lk_client *client, const char *pattern, lk_error *error);

/*
 * From now on the walk also shows keys that may be data (`may_be_data`), but have the form of a
 * lock. Never blocks. One thread at a time. NULL is fine. Since 0.2.
 */
LK_API void lk_scan_all(lk_scan *scan);

/*
 * Breaks a barrier: those who wait at it were not counted and fail with LK_ELOST, as do leaves that
 * wait; those inside lose their membership, and go on until they are told. Returns 1, or 0 when
 * nobody stood there. Its next generation can begin at once.
 *
 * Or takes another library's lock from its holder: a "foreign lock", or a "plain lock" with
 * `looks_like`. Deletes its key, or only its field where the hash has others. Returns 1, or 0 when
 * it was not held. Its holder does not notice. Waiters of ours look again at once, as do those of a
 * library that tells its waiters (Spring's PUB_SUB_LOCK, python-redis-lock, walrus, redis-lock-py,
 * redfour, py-redis-semaphore): the script that deletes tells them what that library's release
 * does; all others look again when they do. A user without the rights to tell them frees it all the
 * same. lk_lock_force_release() frees any other kind. The call invalidates what lk_scan_show()
 * wrote. Blocks for a look, as lk_scan_show() does, and for a round trip. One thread at a time.
 * Errors: LK_EINVAL when it is none of these, or when several owners each have one of its fields;
 * LK_EDENIED where scripts are refused; those of lk_scan_show() and lk_lock_force_release(). Since
 * 0.2.
 */
LK_API int lk_scan_force_release(lk_scan *scan, const void *name, size_t name_size,
				 lk_error *error);

/*
 * Writes the next lock and returns 1, or returns 0 at the end. A lock may come twice if the key
 * space changes meanwhile (SCAN allows that). What `info_out` points to is valid until the next
 * call on `scan`. Blocks for round trips: two for about 500 keys of the database, one for each
 * read/write lock with readers and for each lock with 20 or more holders or waiters, each at most
 * for the command limit; and one for each key that may be a lock where the server refused to answer
 * for all at once. One thread at a time. Set the `struct_size` of `info_out` first. The library
 * writes so much; of a larger `struct_size` than its own, what it does not know is zero.
 * Errors: LK_EINVAL and those of lk_client_ping(). After an error, call it again: it
 * continues behind the key at which it failed. Since 0.2.
 */
LK_API int lk_scan_next(lk_scan *scan, lk_lock_info *info_out, lk_error *error);

/*
 * Writes the state of one lock (holder_count 0 when it is free) and returns 0. Set the
 * `struct_size` of `info_out` first. What `info_out`
 * points to is valid until the next call on `scan`. A walk in progress continues afterwards. Blocks
 * for one or two round trips, each at most for the command limit; where the key changes its type
 * meanwhile it looks again, up to 20 times, and then fails with LK_EUNAVAILABLE. One thread at a
 * time. Errors: LK_EWRONGTYPE when the key is not a lock, LK_EINVAL and those of lk_client_ping().
 * Since 0.2.
 */
LK_API int lk_scan_show(lk_scan *scan, const void *name, size_t name_size, lk_lock_info *info_out,
			lk_error *error);

/*
 * Writes who the owner of a field is (the field of an lk_holder or lk_waiter) and returns 1.
 * Returns 0 when its client tells nothing: a client of another library, a client that is gone, or
 * one with client_record=off. The id of a permit leads to its client too. Anyone who may write keys
 * can write this one: it is a hint for people. Set the `struct_size` of `info_out` first. The
 * library writes so much; of a larger `struct_size` than its own, what it does not know is zero.
 * What `info_out` points to is valid until the next call on `scan`; what the other calls wrote
 * about a lock stays valid. Blocks for one round trip for each new client, at most for the command
 * limit; `scan` remembers up to 1,000 clients. One thread at a time. Errors: LK_EINVAL and those of
 * lk_client_ping(). Since 0.2.
 */
LK_API int lk_scan_owner(lk_scan *scan, const char *field, size_t field_size,
			 lk_owner_info *info_out, lk_error *error);

/* Ends the walk and frees what it wrote. NULL is fine. Returns NULL. Since 0.2. */
LK_API lk_scan *lk_scan_free(lk_scan *scan);

LK_END_DECLS

#endif
