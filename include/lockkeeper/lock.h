/*
 * The reentrant lock: Redisson's RLock, on the same keys.
 *
 * In Redis, for the lock "backup":
 *
 *   backup                              hash   { <owner field>: 1 }     PEXPIRE lease
 *   redisson_lock__channel:{backup}     channel, message "0" at each release
 *
 *   owner field = <uuid of the client>:<number>, the number new for every grant
 *
 * A name that contains "{" is not wrapped in the channel: redisson_lock__channel:a{b}c.
 *
 * WHO OWNS. The owner of a hold is the calling thread, or the owner named in the options: any
 * text that the program chooses, for work that moves between threads. Another thread's release
 * is LK_ENOTOWNER. A thread that ends while it holds is reported (LK_EVENT_ABANDONED), and its
 * hold is no longer renewed.
 *
 * RE-ENTRY by the same owner is counted in the client and costs no round trip; it never
 * shortens a lease. As many releases free the lock. After a loss every call of that owner says
 * LK_ELOST until each of its holds is released.
 *
 * LEASE AND WATCHDOG. Without a lease the watchdog renews the grant (30 s, at each third;
 * option watchdog_ms) as long as the process lives. With one, the lock is over after it.
 *
 * FAIRNESS. Threads of one client stand in one line, first come first served, and the lock goes
 * down the line in terms of at most 10 ms before other processes get their chance. Between
 * processes there is no order.
 *
 * OTHER KINDS. Fair, fenced and spin locks of the same name keep the same hash, and exclude it. Its
 * release wakes waiters of fenced locks, not those of fair ones: these see it when the ttl they
 * last saw is over, as its own waiters do after the release of a fair or spin lock. Let all who
 * contend use one kind. A hash that is no lock looks like a lock that another holds; a read/write
 * lock, and whatever is no hash, is refused (LK_EWRONGTYPE).
 */
#ifndef LOCKKEEPER_LOCK_H
#define LOCKKEEPER_LOCK_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

#define LK_NAME_SIZE_MAX 65536                 /* bytes in a lock's name, its prefix included */
#define LK_LEASE_MIN_MS INT64_C(100)           /* the least lease */
#define LK_LEASE_MAX_MS INT64_C(31536000000)   /* the longest: 365 days */
#define LK_WAIT_MAX_MS INT64_C(31536000000000) /* the longest wait limit: 1,000 years */
#define LK_OWNER_SIZE_MAX 256                  /* bytes in an owner's name, or a wire field */
#define LK_FIELD_SIZE 64                       /* room for a wire field of ours, with its NUL */

typedef struct lk_lock lk_lock;

typedef struct lk_acquire_options {
	size_t struct_size;
	int64_t lease_ms;    /* 0: kept by the watchdog; else LK_LEASE_MIN_MS … LK_LEASE_MAX_MS */
	int64_t max_hold_ms; /* 0: none; else the watchdog stops renewing so long after the grant */
	int64_t margin_ms;   /* LK_EVENT_AT_RISK comes so long before the end; 0: lease / 10 */
	const char *owner;   /* NULL: the calling thread; else an owner's name, copied */
	lk_cancel *cancel;   /* NULL: the call cannot be cancelled */
	uint64_t tag;        /* given back in events about this hold */
} lk_acquire_options;

#define LK_ACQUIRE_OPTIONS_INIT                                                                    \
	{                                                                                          \
		sizeof(lk_acquire_options), 0, 0, 0, NULL, NULL, 0                                 \
	}

typedef struct lk_release_options {
	size_t struct_size;
	const char *owner; /* NULL: the calling thread; else an owner's name */
	int no_wait;       /* 1: send it now and return; see lk_lock_release() */
} lk_release_options;

#define LK_RELEASE_OPTIONS_INIT                                                                    \
	{                                                                                          \
		sizeof(lk_release_options), NULL, 0                                                \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle for a name: any `name_size` bytes, at least 1, at most LK_NAME_SIZE_MAX. Handles
 * of one name in one client stand for one lock (getLock). The name is copied. Takes nothing in
 * Redis and does no I/O. Errors: LK_EINVAL, LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.1.
 */
LK_API int lk_lock_new(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		       lk_error *error);

/*
 * Frees a handle; what is held stays held. NULL is fine. May be done after lk_client_free() too.
 * Does not block. Returns NULL. Since 0.1.
 */
LK_API lk_lock *lk_lock_free(lk_lock *lock);

/*
 * Acquires, waiting without limit (RLock.lock). Blocks. A server that was reached and is lost
 * while waiting is tried for 30 s; the first connect fails at once.
 * Errors: LK_ECANCELLED, LK_ELOST (an earlier hold of this owner is lost and not yet released),
 * LK_EMAYBEHELD, LK_EWRONGTYPE, LK_ELIMIT (waiters), LK_EINVAL, LK_ECLOSED, LK_EFORKED,
 * LK_ENOMEM, and those of lk_client_ping(). Since 0.1.
 */
LK_API int lk_lock_acquire(lk_lock *lock, const lk_acquire_options *options, lk_error *error);

/*
 * The same, for at most `wait_ms` (RLock.tryLock(wait)); 0 is lk_lock_try(). LK_ETIMEDOUT only
 * if the server last said that another owner holds it; else the reason why there is no such
 * word (LK_EUNREACHABLE, LK_EUNAVAILABLE, …). Since 0.1.
 */
LK_API int lk_lock_acquire_within(lk_lock *lock, int64_t wait_ms, const lk_acquire_options *options,
				  lk_error *error);

/*
 * Asks once (RLock.tryLock()); LK_EBUSY when another owner holds it, threads of this client
 * included. Blocks for one round trip, at most for the connect and command limits. Errors
 * otherwise as lk_lock_acquire(). Since 0.1.
 */
LK_API int lk_lock_try(lk_lock *lock, const lk_acquire_options *options, lk_error *error);

/*
 * Gives up one hold of the owner; the last one frees the lock (RLock.unlock). Waits for the
 * server's answer at most until the lease is over; a hold that is not the last is a memory write.
 *
 * With `no_wait` the command leaves at once and the call returns; its answer is read by whoever
 * reads next, within 10 ms, and it is sent again after a lost connection. At most
 * `release_queue` such releases are under way; beyond that the call waits. lk_client_close()
 * waits for them all.
 *
 * Errors: LK_ENOTOWNER (never held, or released before), LK_ELOST (it was lost; the hold is
 * given up all the same), LK_EMAYBEHELD (no answer: the lock may stay until its lease is over;
 * the hold is given up), LK_EREFUSED and the like (likewise), LK_ENOMEM (not done: still held),
 * LK_EINVAL, LK_ECLOSED, LK_EFORKED. Since 0.1.
 */
LK_API int lk_lock_release(lk_lock *lock, const lk_release_options *options, lk_error *error);

/*
 * Frees the lock whoever holds it, and wakes the waiters (RLock.forceUnlock). Returns 1 when
 * there was one, 0 when there was none. A holder finds out by LK_EVENT_LOST. A hash that is no lock
 * goes as well; a plain lock's goes with any string. Blocks for one round trip, at most for the
 * command limit (a plain lock's first call after a connect for two of them).
 * Errors: LK_EWRONGTYPE, LK_EMAYBEHELD (no answer: it may have been freed), LK_EINVAL and those of
 * lk_client_ping(); a multi lock stops at the first part that fails. Since 0.1.
 */
LK_API int lk_lock_force_release(lk_lock *lock, lk_error *error);

/*
 * Makes sure that the hold of `owner` (NULL: the calling thread) lasts at least `lease_ms` from
 * now; never shortens it (Redlock's extending of the lock). Blocks for one round trip, at most
 * until the hold's deadline. Errors: LK_ENOTOWNER, LK_ELOST, LK_EINVAL, LK_EMAYBEHELD (no answer:
 * the old deadline stands), LK_ENOQUORUM (a red lock: likewise) and those of lk_client_ping().
 * Since 0.1.
 */
LK_API int lk_lock_extend(lk_lock *lock, int64_t lease_ms, const char *owner, lk_error *error);

/*
 * 1 when any owner holds the lock, 0 when none: asks the server (RLock.isLocked), whether there is
 * such a key, or who has the side of a read/write lock. Blocks for one round trip, at most for the
 * command limit; a multi lock asks for its parts in turn. Errors: LK_EINVAL, LK_EWRONGTYPE
 * (read/write), LK_ENOQUORUM (red) and those of lk_client_ping(). Since 0.1.
 */
LK_API int lk_lock_is_locked(lk_lock *lock, lk_error *error);

/*
 * 1 when the lock is held by `owner` (NULL: the calling thread) of this client and its deadline
 * has not come, else 0 (RLock.isHeldByCurrentThread, which asks the server). A memory read. Errors:
 * LK_EINVAL, LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.1.
 */
LK_API int lk_lock_is_held(lk_lock *lock, const char *owner, lk_error *error);

/*
 * 1 when the lock is held under the wire field `field` (a client's UUID, ":", a number), else 0:
 * asks the server (RLock.isHeldByThread). Blocks for one round trip, at most for the command limit.
 * Errors: LK_EINVAL, LK_EWRONGTYPE and those of lk_client_ping(). Since 0.1.
 */
LK_API int lk_lock_is_held_by(lk_lock *lock, const char *field, lk_error *error);

/*
 * How many holds `owner` (NULL: the calling thread) has to release, lost ones included
 * (RLock.getHoldCount, which asks the server). A memory read. Errors as lk_lock_is_held().
 * Since 0.1.
 */
LK_API int lk_lock_hold_count(lk_lock *lock, const char *owner, lk_error *error);

/*
 * Writes how long the hold of `owner` is certain, in ms. A memory read of a few tens of
 * nanoseconds; call it before each step that must not be done without the lock. Errors:
 * LK_ENOTOWNER, LK_ELOST and those of lk_lock_is_held(). Since 0.1.
 */
LK_API int lk_lock_remaining_ms(lk_lock *lock, const char *owner, int64_t *remaining_ms_out,
				lk_error *error);

/* The same as an instant of CLOCK_BOOTTIME, in ns. Since 0.1. */
LK_API int lk_lock_deadline_ns(lk_lock *lock, const char *owner, int64_t *deadline_ns_out,
			       lk_error *error);

/*
 * Writes the remaining lease as the server sees it (RLock.remainTimeToLive; PTTL): ms, -1 for a
 * lock without a time to live, -2 for no lock. Blocks for one round trip, at most for the command
 * limit. Errors: LK_EINVAL and those of lk_client_ping(). Since 0.1.
 */
LK_API int lk_lock_server_ttl_ms(lk_lock *lock, int64_t *ttl_ms_out, lk_error *error);

/*
 * Writes the wire field of the hold of `owner` (NULL: the calling thread), with a NUL, so that
 * another process can release or extend it. The hold stays here as well, renewed as before; a
 * program that hands it over closes with LK_CLOSE_ABANDON. A memory read. Errors: LK_ENOTOWNER,
 * LK_ELOST, LK_EINVAL (size < LK_FIELD_SIZE, …) and those of lk_lock_is_held(). Since 0.1.
 */
LK_API int lk_lock_export(lk_lock *lock, const char *owner, char *field_out, size_t size,
			  lk_error *error);

/*
 * Frees the lock if it is held under `field` (RLock.unlockAsync(threadId)). Safe to repeat. Blocks
 * as lk_lock_force_release(). Errors: LK_ENOTOWNER, LK_EMAYBEHELD (no answer: it may have been
 * freed), LK_EINVAL, LK_EWRONGTYPE and those of lk_client_ping(). Since 0.1.
 */
LK_API int lk_lock_release_field(lk_lock *lock, const char *field, lk_error *error);

/*
 * Makes the lock last at least `lease_ms` (LK_LEASE_MIN_MS … LK_LEASE_MAX_MS) from now if it is
 * held under `field`. Blocks as lk_lock_force_release(). Errors: LK_ENOTOWNER (also for a key that
 * is something else), LK_EMAYBEHELD (no answer: it may last longer), LK_EINVAL and those of
 * lk_client_ping(). Since 0.1.
 */
LK_API int lk_lock_extend_field(lk_lock *lock, const char *field, int64_t lease_ms,
				lk_error *error);

LK_END_DECLS

#endif
