/* SPDX-License-Identifier: MIT */
/*
 * The reentrant lock: Redisson's RLock, on the same keys.
 *
 * A lease is not a mutex. A holder that is paused past its deadline has lost the lock, and no lock
 * can stop its next write: see <lockkeeper.h>, and <lockkeeper/fenced_lock.h> for a remedy.
 *
 * In Redis, for the lock "backup":
 *
 *   backup                              hash   { <owner field>: 1 }     PEXPIRE lease
 *   redisson_lock__channel:{backup}     channel, message "0" or "00" at each release
 *   lockkeeper_turns:{backup}           sorted set: clients that wait, by when they began to; each
 *                                       hears on "<channel>:<its id>" that it has its turn
 *
 *   owner field = <uuid of the client>:<number>, the number new for every grant
 *
 * The channel of a name that contains "{" has no braces added: redisson_lock__channel:a{b}c.
 *
 * WHO OWNS. The owner of a hold is the calling thread, or the owner named in the options: any
 * text that the program chooses, for work that moves between threads. A release by another thread
 * fails with LK_ENOTOWNER. If a thread ends while it holds a lock, the library reports
 * LK_EVENT_ABANDONED and no longer renews the hold.
 *
 * RE-ENTRY by the same owner is counted in the client and costs no round trip. It never shortens a
 * lease. An owner that acquired a lock several times has to release it as often. After a loss, the
 * owner's calls that acquire, release, extend or export the lock, or read its deadline or fence
 * token, fail with LK_ELOST until it has released each of its holds.
 *
 * LEASE AND WATCHDOG. Without a lease in the options, the lease is watchdog_ms (30 s), and the
 * watchdog renews it every third of that time while the process lives. A lease named in the options
 * is not renewed, and the lock ends with it; with `renew` the watchdog renews that one instead, so
 * that a lock may be free sooner after a crash, or outlast a longer failover, than the others of
 * its client.
 *
 * LOSS. The library checks each hold on the server every third of its lease, or every third of
 * watchdog_ms (10 s) if that is shorter. If the server no longer has the hold (a forced release,
 * lost data), the library reports LK_EVENT_LOST within that time and one round trip; at once, if an
 * answer to another call of this client contradicts the hold, or if the server grants the key to
 * another owner in this client. Of a hold that is older than 100 ms and excludes all others, the
 * server tells that its key was deleted, flushed or changed (CLIENT TRACKING; option tracking), and
 * the library asks at once. If the server cannot confirm the hold, the library reports
 * LK_EVENT_LOST at the deadline. If a renewal got no answer, the server may have the lock for a
 * lease longer: the library releases it in the background.
 *
 * To end the work when its hold is lost, let one thread read the notices: lk_event_wait() without a
 * limit, until the client is closed. At LK_EVENT_LOST, or as early as LK_EVENT_AT_RISK, it calls
 * lk_cancel_now() on the worker's token; the event's tag says whose work it is. The token ends a
 * call in which the worker waits for another lock, a permit or a latch. Before each step the worker
 * looks at the token with lk_cancel_is_set(). Where it waits in calls that are not the library's,
 * the thread has to wake it as well, by a signal or a descriptor. The worker then releases the lost
 * hold, which fails with LK_ELOST. A program that has an event loop watches lk_event_fd() instead.
 *
 * FAIRNESS. Threads of one client form one queue, first come, first served. The lock passes along
 * that queue for at most 10 ms at a time, then other processes get a chance. A release wakes the
 * client that has waited longest; one that gives up then passes its turn on. A newcomer may take a
 * free lock before it. docs/kinds.md says for which kinds, and what Java's waiters do.
 *
 * OTHER KINDS. Fair, fenced and spin locks of the same name use the same hash: they exclude this
 * lock, and it excludes them. Not all of them wake each other. A release of this lock wakes waiters
 * of fenced locks, but not waiters of fair locks; a release of a fair or spin lock does not wake
 * waiters of this lock. A waiter that is not woken notices the release when the ttl it last saw has
 * passed. So all who contend for a name should use one kind. A read/write lock, any other hash that
 * is not a lock (a field does not end in ":" and a number), or a key that is not a hash, is refused
 * (LK_EWRONGTYPE).
 */
#ifndef LOCKKEEPER_LOCK_H
#define LOCKKEEPER_LOCK_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

#define LK_NAME_SIZE_MAX 65536                 /* bytes in a lock's name, its prefix included */
#define LK_LEASE_MIN_MS INT64_C(100)           /* the shortest lease */
#define LK_LEASE_MAX_MS INT64_C(31536000000)   /* the longest: 365 days */
#define LK_WAIT_MAX_MS INT64_C(31536000000000) /* the longest wait limit: 1,000 years */
#define LK_OWNER_SIZE_MAX 256                  /* bytes in an owner's name, or a wire field */
#define LK_NOTE_SIZE_MAX 256                   /* bytes in a note, without its NUL */
#define LK_FIELD_SIZE 64                       /* room for a wire field of ours, with its NUL */

typedef struct lk_lock lk_lock;

typedef struct lk_acquire_options {
	size_t struct_size;
	int64_t lease_ms;    /* 0: the watchdog's; else LK_LEASE_MIN_MS … LK_LEASE_MAX_MS */
	int64_t max_hold_ms; /* 0: no limit; else renewal stops this long after the grant */
	int64_t margin_ms;   /* LK_EVENT_AT_RISK comes this long before the end; 0: lease / 10 */
	const char *owner;   /* NULL: the calling thread; else an owner's name, copied */
	lk_cancel *cancel;   /* NULL: the call cannot be cancelled */
	uint64_t tag;        /* returned in events about this hold */
	const char *note;    /* NULL, or why the lock is held, copied; see lk_lock_acquire() */
	int hears_asks;      /* 1: the owner is told of requests for the lock; see lk_lock_ask() */
	int renew;           /* 1: the watchdog renews lease_ms, too; 0: only its own lease */
	const char *field;   /* NULL, or the wire field that is taken over; see lk_lock_export() */
} lk_acquire_options;

#define LK_ACQUIRE_OPTIONS_INIT                                                                    \
	{                                                                                          \
		sizeof(lk_acquire_options), 0, 0, 0, NULL, NULL, 0, NULL, 0, 0, NULL               \
	}

typedef struct lk_release_options {
	size_t struct_size;
	const char *owner; /* NULL: the calling thread; else an owner's name */
	int no_wait;       /* 1: send the release and return at once; see lk_lock_release() */
	int64_t keep_ms; /* 0: the last release frees the lock; else it keeps the lock from all for
			      so long (at most LK_LEASE_MAX_MS); see lk_lock_release() */
	const char *field; /* NULL: the owner's hold; else whatever is held under this wire field */
	int abandon; /* 1: the hold is forgotten, and the lock not freed; see lk_lock_export() */
} lk_release_options;

#define LK_RELEASE_OPTIONS_INIT                                                                    \
	{                                                                                          \
		sizeof(lk_release_options), NULL, 0, 0, NULL, 0                                    \
	}

typedef struct lk_extend_options {
	size_t struct_size;
	const char *owner; /* NULL: the calling thread; else an owner's name */
	const char *field; /* NULL: the owner's hold; else whatever is held under this wire field */
	int add;           /* 1: lease_ms is added to what is left; see lk_lock_extend() */
} lk_extend_options;

#define LK_EXTEND_OPTIONS_INIT                                                                     \
	{                                                                                          \
		sizeof(lk_extend_options), NULL, NULL, 0                                           \
	}

/* A wait in progress, as another thread sees it. */
typedef struct lk_wait_info {
	size_t struct_size;
	int64_t waited_ms; /* how long the longest-waiting caller of this client has waited */
	int64_t left_ms;   /* until that caller's limit; -1: it has none */
	uint64_t callers;  /* waiting callers of this client, including that one */
	int code;          /* LK_EBUSY: another owner holds it; 0: no answer yet; else an */
			   /* error that may pass */
	char reason[504];  /* the same in words; for a red lock, what each node has said */
} lk_wait_info;

#define LK_WAIT_INFO_INIT                                                                          \
	{                                                                                          \
		sizeof(lk_wait_info), 0, 0, 0, 0,                                                  \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle for a name: any `name_size` bytes, at least 1, at most LK_NAME_SIZE_MAX. With
 * LK_STRLEN for the size, the name is a C string. Every call that takes a name or a key with its
 * size takes LK_STRLEN too. Handles of one name in one client stand for one lock (getLock). Copies
 * the name. Takes nothing in Redis and does no I/O. Free it with lk_lock_free(). Errors: LK_EINVAL,
 * LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_lock_new(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		       lk_error *error);

/*
 * Frees a handle, before or after lk_client_free(); what is held stays held. NULL is fine. Does
 * not block. Returns NULL. Since 0.2.
 */
LK_API lk_lock *lk_lock_free(lk_lock *lock);

/*
 * Acquires the lock, and waits at most `wait_ms` for it (RLock.tryLock(wait)): -1 waits without
 * limit (RLock.lock), 0 tries once (RLock.tryLock()). Blocks.
 *
 * Without limit: if a server that answered before becomes unreachable during the wait, the call
 * retries for 30 s (retry_ms); if the first connect fails, the call fails at once. While no message
 * can reach the waiter, because the connection for messages cannot be made, it looks again every
 * second. Where the server refuses SUBSCRIBE, or a proxy does, it asks about every 100 ms. What
 * ends a lock without a message (DEL, FLUSHALL, an eviction) is noticed within 5 s (look_again_ms).
 * Where the server can tell (tracking), the waiter that is next is told at once, and then all look
 * less often: if its client has died, or has just been granted the lock, the one behind it notices
 * by the end of the lease that it has seen and 1 s more, the others within a minute
 * (look_again_ms).
 *
 * With a limit the call uses the whole of it on trouble that may pass, the first connect included:
 * a server that is unreachable, closes the connection, has too many clients, loads its data, runs a
 * script of another (BUSY), lacks replicas (NOREPLICAS) or could not save its data (MISCONF); a
 * master that is being replaced; a password that is refused, if it comes from password_file or
 * lk_config_set_credentials(); TLS that is refused, if tls_ca_file, tls_ca_dir or tls_cert_file
 * names files: they may be about to be exchanged. It tries again after pauses that double from
 * backoff_min_ms to backoff_max_ms, with jitter. At the limit: LK_ETIMEDOUT, but only if the
 * server last said that another owner holds the lock; else the reason why the server did not say so
 * (LK_EUNREACHABLE, LK_EUNAVAILABLE, …), which is LK_EMAYBEHELD while a try has no answer yet. A
 * try that is on its way at the limit gets a tenth of the limit more for its answer, 20 ms at least
 * and 250 ms at most, so the call may end that much later.
 *
 * One try fails with LK_EBUSY when another owner holds the lock, a thread of this client included.
 * Where a thread of this client has asked already, the answer to that decides. Blocks for one round
 * trip, at most for the connect and command limits.
 *
 * With `field` the call takes over what is held under that wire field, and nothing else: see
 * HAND-OVER at lk_lock_export(). `wait_ms` must be 0 then, and `cancel` NULL. It waits in no queue,
 * and blocks for one round trip, at most for the command limit. Errors: LK_ENOTOWNER (nothing is
 * held under it), LK_EBUSY (an owner of this client has the lock: it has to abandon it first),
 * LK_ELOST (the server gave up the field and then refused to give the lock, for want of memory or
 * of a right), and LK_EMAYBEHELD or LK_ENOTDURABLE, after which the lock is held under the old
 * field, or is freed in the background.
 *
 * NOTES. With `note` a hold says why it is held, to whoever looks (lk_scan_owner()) and to those
 * who are refused: at most LK_NOTE_SIZE_MAX bytes of UTF-8 without control characters, or "" for
 * none; else LK_EINVAL. It prevails over the client's option `note` for this hold, and a re-entry
 * does not change it. It stands in the record of the client (option client_record), which is
 * written anew behind the grant, so it costs a command; it is found by the holder's field, so it
 * goes with the grant. The record shows the notes of the 64 newest holds that have one. Everybody
 * who may read the server's keys can read it: put no secrets in it. A red lock has a field of its
 * own on each node: only the option of its clients says why it is held, and `note` is refused.
 *
 * Errors: LK_EBUSY, LK_ETIMEDOUT, LK_ECANCELLED, LK_ELOST (this owner lost an earlier hold and has
 * not released it yet), LK_EMAYBEHELD, LK_EWRONGTYPE, LK_ELIMIT (waiters), LK_EINVAL, LK_ECLOSED,
 * LK_EFORKED, LK_ENOMEM, and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_lock_acquire(lk_lock *lock, int64_t wait_ms, const lk_acquire_options *options,
			   lk_error *error);

/*
 * Reports on a wait for this lock in any thread of this client: writes it and returns 1, or returns
 * 0 when nobody waits. A memory read. It does not say who holds the lock; lk_scan_show() and
 * lk_scan_owner() do. Set `struct_size` first. For a multi lock it reports on the part that it
 * waits for. Errors: LK_EINVAL, LK_ECLOSED, LK_EFORKED, LK_ENOMEM. Since 0.2.
 */
LK_API int lk_lock_wait_info(lk_lock *lock, lk_wait_info *info_out, lk_error *error);

/*
 * Releases one hold of the owner; the last release frees the lock (RLock.unlock). Blocks until the
 * server answers, at most until the lease ends. The release of a hold that is not the last is a
 * memory write. What replicas lack of it by then is repeated in the background: see
 * docs/deployments.md.
 *
 * With `no_wait` the call sends the command and returns. The next call or the library's thread
 * reads the answer, within 10 ms, and the command is sent again after a lost connection. A caller
 * of the same client that waits for the lock tries behind the answer, or when the lease ends. At
 * most `release_queue` such releases are outstanding; beyond that the call waits. lk_client_close()
 * waits for all of them.
 *
 * KEPT AFTER THE RELEASE. With `keep_ms` the last release gives the lock up, and keeps it from
 * everybody for so long, this owner and this client included. So a job that several hosts start at
 * about the same time runs once, even if the first is through before the clock of the second says
 * that it is time. Nothing renews the lock then, and no process is needed. The time counts from
 * when the server does it; it may be shorter or longer than what is left of the lease. In Redis the
 * lock stays under a field that is nobody's, "<uuid>:kept:<number>" (a plain lock under such a
 * token). Nobody re-enters it, not even the owner that released it: that owner waits as for
 * another's lock, and then gets a grant and a fence token of its own. Those who wait are woken
 * once, see until when it is kept, and sleep until then. A release that is not the last is as
 * without it. Of a multi lock all parts are kept, of a red lock a majority of the nodes. A read
 * lock that is kept keeps out writers, not readers; a write lock of an owner that also reads lasts
 * at least as long as its read lock. Success says that the lock is kept. With LK_EMAYBEHELD nobody
 * knows: it may be free sooner, and may stay for the longer of its lease and `keep_ms`.
 * lk_lock_force_release() frees it. Permits have no such release:
 * lk_permit_semaphore_update_lease() sets when one ends. The call waits until the replicas that
 * must acknowledge grants have acknowledged that, too. `no_wait` must be 0 then.
 *
 * With `abandon` the last release forgets the hold and sends nothing: the lock stays for what is
 * left of its lease (lk_lock_remaining_ms(), or longer if a renewal is under way), unless who knows
 * its field adopts, extends or releases it: see HAND-OVER at lk_lock_export(). A memory write, also
 * for a client without threads. The other options but `owner` must be 0 then. A release that is not
 * the last, or of a lost hold, is as without it. Not for multi and red locks (LK_EINVAL).
 *
 * With `field` the call frees the lock if it is held under that wire field, whoever that is
 * (RLock.unlockAsync(threadId)). Safe to repeat. Blocks as lk_lock_force_release(). The other
 * options must be 0 then. Errors: LK_ENOTOWNER, LK_EMAYBEHELD (no answer: it may have been freed),
 * LK_ENOTDURABLE (freed, and a failover may undo it), LK_EINVAL, LK_EWRONGTYPE and those of
 * lk_client_ping().
 *
 * Errors: LK_ENOTOWNER (never held, or already released), LK_ELOST (the hold was lost before; the
 * owner no longer has it), LK_EMAYBEHELD (no answer, or a refusal, as the text says: the lock may
 * stay until its lease ends; the owner no longer has the hold, and the library repeats the release
 * in the background; with `keep_ms` it does not), LK_EWRONGTYPE (the key is no longer this lock;
 * the owner no longer has the hold), LK_ENOMEM (not done: still held),
 * LK_EINVAL, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_lock_release(lk_lock *lock, const lk_release_options *options, lk_error *error);

/*
 * Asks whoever holds the lock to give it up, and says why: `reason`, a text as a note is, or
 * NULL. Writes how many owners hold it, 0 for a free lock, for which nothing is left behind; and
 * how many clients listen for such requests: 0 where no holder has said that it does
 * (`hears_asks`), or while its connection is away. Whether a holder gives it up is its own
 * affair. Any kind of lock that is a hash or a string may be asked for by a handle of any. Of a
 * multi lock the parts are asked in turn, and the numbers added. Blocks for one round trip, at
 * most for the command limit. Errors: LK_EINVAL (a bad reason, a red lock), LK_EWRONGTYPE (the
 * key is not a lock) and those of lk_client_ping(). Since 0.2.
 *
 * ASKING. A hold with `hears_asks` is told by LK_EVENT_ASKED, once for each request, with the
 * asker's reason, and its program decides: nothing happens by itself. A newer request takes the
 * place of one that was not told yet. It listens on a channel, and looks for a request with each
 * renewal: so one whose message was lost is told a third of the lease later at the latest. A
 * request counts for the grant that it was made to, for 60 s. In Redis, for as long:
 * "lockkeeper_ask:{<name>}", a string; the channel has the same name. A user without the right to
 * them has the lock, and hears nothing. Red locks and permits cannot be asked for, and LK_EINVAL
 * says so: a request names the holder by its field, of which a red lock has another on each node;
 * and a caller that wants one of several permits cannot say whose.
 */
LK_API int lk_lock_ask(lk_lock *lock, const char *reason, int *owners_out, int *listeners_out,
		       lk_error *error);

/*
 * Frees the lock, whoever holds it, and wakes the waiters (RLock.forceUnlock). Returns 1 when the
 * lock was held, 0 when it was free. The holder learns of it by LK_EVENT_LOST (see LOSS above).
 * A plain lock may be any string. Blocks for one round trip, at most for the command limit (for two
 * of them in a plain lock's first call after a connect). It is sent once: after a lost connection a
 * second copy might free what another has acquired since. Errors: LK_EWRONGTYPE (not this kind of
 * lock: nothing is freed), LK_EMAYBEHELD (no answer: it may have been freed), LK_ENOTDURABLE
 * (freed, and a failover may undo it), LK_EINVAL and those of lk_client_ping(). A multi lock stops
 * at the first part that fails; if an earlier part was freed by then, that is LK_EMAYBEHELD, and
 * the text says why. Since 0.2.
 */
LK_API int lk_lock_force_release(lk_lock *lock, lk_error *error);

/*
 * Extends the hold of the owner so that it lasts at least `lease_ms` from now (Redlock's lock
 * extension). `options` may be NULL. It never shortens the hold. Blocks for one round trip, at most
 * until the hold's deadline. Errors: LK_ENOTOWNER, LK_ELOST (before, or its deadline passed during
 * the call), LK_EINVAL, LK_EMAYBEHELD (no answer: the old deadline stands), LK_ENOQUORUM (red lock:
 * the old deadline stands) and those of lk_client_ping().
 *
 * With `add` the server keeps it for `lease_ms` longer than lk_lock_remaining_ms() says now, at
 * most for LK_LEASE_MAX_MS. There is no call that shortens a hold: a copy of it that comes late
 * would end what a later call has extended.
 *
 * With `field` it extends the lock, if it is held under that wire field, so that it lasts at least
 * `lease_ms` (LK_LEASE_MIN_MS … LK_LEASE_MAX_MS) from now. Blocks as lk_lock_force_release().
 * `owner` must be NULL then, and `add` 0. Errors: LK_ENOTOWNER (also when the key is not this
 * lock), LK_EMAYBEHELD (no answer: it may last longer), LK_EINVAL and those of lk_client_ping().
 * Since 0.2.
 */
LK_API int lk_lock_extend(lk_lock *lock, int64_t lease_ms, const lk_extend_options *options,
			  lk_error *error);

/*
 * Writes 1 when any owner holds the lock, 0 when none does (RLock.isLocked). Asks the server
 * whether the key exists; for a read/write lock, whether anyone has this side. Blocks for one round
 * trip, at most for the command limit; a multi lock asks for its parts in turn. Errors: LK_EINVAL,
 * LK_EWRONGTYPE (read/write lock), LK_ENOQUORUM (red lock) and those of lk_client_ping().
 * Since 0.2.
 */
LK_API int lk_lock_is_locked(lk_lock *lock, int *locked_out, lk_error *error);

/*
 * Returns 1 when `owner` (NULL: the calling thread) of this client holds the lock and its deadline
 * has not passed, else 0 (RLock.isHeldByCurrentThread, which asks the server), never a negative
 * code. A memory read. After a 0, `error` says why not. Errors: LK_ENOTOWNER, LK_ELOST, LK_EINVAL,
 * LK_ENOMEM, LK_ECLOSED, LK_EFORKED (in a child process, which holds nothing). Since 0.2.
 */
LK_API int lk_lock_is_held(lk_lock *lock, const char *owner, lk_error *error);

/*
 * Writes 1 when the lock is held under the wire field `field` (a client's UUID, ":", a number),
 * else 0 (RLock.isHeldByThread). Asks the server. Blocks for one round trip, at most for the
 * command limit. Errors: LK_EINVAL, LK_EWRONGTYPE and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_lock_is_held_by(lk_lock *lock, const char *field, int *held_out, lk_error *error);

/*
 * Returns how many holds `owner` (NULL: the calling thread) has to release, lost ones included
 * (RLock.getHoldCount, which asks the server), never a negative code. A memory read. After a 0,
 * `error` says why. Errors as lk_lock_is_held(). Since 0.2.
 */
LK_API int lk_lock_hold_count(lk_lock *lock, const char *owner, lk_error *error);

/*
 * Writes for how many ms the hold of `owner` (NULL: the calling thread) is still certain. A memory
 * read of a few tens of nanoseconds: call it before each step that needs the lock. Errors:
 * LK_ENOTOWNER, LK_ELOST, LK_EINVAL, LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_lock_remaining_ms(lk_lock *lock, const char *owner, int64_t *remaining_ms_out,
				lk_error *error);

/* Writes until when it is certain: an instant of CLOCK_BOOTTIME, in ns. Errors as
 * lk_lock_remaining_ms(). Since 0.2. */
LK_API int lk_lock_deadline_ns(lk_lock *lock, const char *owner, int64_t *deadline_ns_out,
			       lk_error *error);

/*
 * Writes the remaining lease as the server sees it (RLock.remainTimeToLive; PTTL), in ms: -1 when
 * the lock has no time to live, -2 when it is free. Blocks for one round trip, at most for the
 * command limit. Errors: LK_EINVAL and those of lk_client_ping(). Since 0.2.
 */
LK_API int lk_lock_server_ttl_ms(lk_lock *lock, int64_t *ttl_ms_out, lk_error *error);

/*
 * Writes the wire field of the hold of `owner` (NULL: the calling thread), with a NUL, so that
 * another process can release, extend or adopt the lock. This client keeps the hold and goes on
 * renewing it until the hold is abandoned. A memory read. Errors: LK_EINVAL (size < LK_FIELD_SIZE,
 * …) and otherwise as lk_lock_remaining_ms(). Since 0.2.
 *
 * HAND-OVER. A hold can go on in another client, also of another process, without a moment in
 * which the lock is free. The giver exports its wire field (lk_lock_export()) and abandons the
 * hold: with `abandon` in its options a release ends all that this client does for it, and leaves
 * the lock as it is, to who adopts it or to the end of its lease. The taker names that field in
 * `field` of its acquire options. In one script the server finds the lock held under it and gives
 * it to the taker, under a new field, with the taker's lease, and a new fence token if the kind
 * has one. From then on the old field holds nothing: an adoption succeeds once. The taker's hold
 * is like any other; its options say whether it is renewed. So who renews a hold is at no time
 * more than one: a giver that has not abandoned it is told of its loss (LK_EVENT_LOST) by its next
 * renewal at the latest, and what it does until then may overlap with the taker's work. Not for
 * fair, read/write, multi and red locks (LK_EINVAL), and permits have ids instead. If the giver's
 * acquire was sent again after a lost connection, its first copy may come behind all that: it is
 * refused while the lock is held, but if the taker has released it, the copy takes it under the
 * giver's field, for one lease, without a holder that knows of it. No copy runs later than the
 * command limit after its acquire, by the server's clock.
 */
LK_API int lk_lock_export(lk_lock *lock, const char *owner, char *field_out, size_t size,
			  lk_error *error);

LK_END_DECLS

#endif
