/* SPDX-License-Identifier: MIT */
/*
 * Notices about holds: before the end, at the end, and when a thread ended while it held a lock.
 *
 * The client keeps one pending notice of each type per hold, so no notice is dropped and the memory
 * is bounded. The release of a hold deletes its notices that nobody has read. A program can wait
 * for notices, poll with a wait of 0, watch the descriptor, or take them from a completion queue
 * (LK_OP_NOTICE). The local clock makes them, so they come also when the network hangs.
 */
#ifndef LOCKKEEPER_EVENT_H
#define LOCKKEEPER_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

#define LK_EVENT_AT_RISK 1   /* the hold ends within its margin, unless a renewal still arrives */
#define LK_EVENT_LOST 2      /* the hold is over without a release: stop the work */
#define LK_EVENT_ABANDONED 3 /* the owning thread ended: the hold is no longer renewed */
/* Elections have these, and LK_EVENT_AT_RISK: <lockkeeper/election.h>. */
#define LK_EVENT_LEADING 4     /* the candidate leads */
#define LK_EVENT_STOP 5        /* it does not lead any more: stop the work */
#define LK_EVENT_NOT_LEADING 6 /* its term is over, or it does not stand any more */
/* A hold that hears_asks has this: see lk_lock_ask(). */
#define LK_EVENT_ASKED 7 /* somebody asks for the lock; a leader's client is being drained */

#define LK_EVENT_NAME_SIZE 256
#define LK_NODE_SIZE 64
#define LK_EVENT_REASON_SIZE 224

/*
 * THE SERVER. `node` is its host:port, or the path of its unix socket, up to 63 bytes. After a
 * failover it names the server that confirmed the grant, not its successor. It is empty for a red
 * lock, which several servers confirm, for a server that was replaced four times since, and if
 * memory ran out.
 *
 * THE REASON. A notice of LK_EVENT_AT_RISK or LK_EVENT_LOST says why the hold is not renewed, or is
 * over, by what is known at that time. `code` is one of
 *   - what the renewal met: LK_EREFUSED (for example NOREPLICAS), LK_EAUTH (WRONGPASS), LK_EDENIED
 *     (NOPERM), LK_EUNAVAILABLE (READONLY, LOADING, …), LK_ENOTDURABLE, LK_EWRONGTYPE, LK_ETLS,
 *     LK_EPROTOCOL, LK_EUNREACHABLE (refused, closed, or no answer yet), LK_ENOMEM;
 *   - LK_ENOQUORUM: no majority has confirmed that of a red lock. Reason and server are those of
 *     the first node that did not;
 *   - LK_ELOST: a server answered that it does not have the lock any more, or a majority did;
 *   - 0: nothing was refused: nobody renews the hold (a lease that was named, max_hold_ms, a thread
 *     that has ended, a closed client), or this process did not run in time.
 * `reason` quotes the server, or says it in our words; it is empty if memory ran out. `server`
 * names the server that said it, or that did not answer; it is empty for none, and for several.
 * A renewal that succeeds after LK_EVENT_AT_RISK does not change what that notice says.
 * A notice of LK_EVENT_ASKED has in `reason` why the lock is asked for, as its asker says, cut to
 * the room that there is; `code` is 0, and `server` empty.
 */

typedef struct lk_event {
	size_t struct_size;            /* the program sets it, LK_EVENT_INIT: so much is written */
	int type;                      /* LK_EVENT_… */
	uint64_t tag;                  /* lk_acquire_options.tag of the outermost hold */
	int64_t deadline_ns;           /* when the hold ends or ended, CLOCK_BOOTTIME */
	char field[64];                /* the wire field of the grant */
	size_t name_size;              /* bytes in the whole name */
	char name[LK_EVENT_NAME_SIZE]; /* its first bytes, ended with a NUL */
	uint64_t fence;                /* the fence token of the grant; 0: the kind has none */
	char node[LK_NODE_SIZE];       /* the server that last confirmed the grant: THE SERVER */
	int code;                      /* at risk, lost: LK_E…, or 0: THE REASON */
	char server[LK_NODE_SIZE];     /* the same: who refused, or did not answer */
	char reason[LK_EVENT_REASON_SIZE]; /* the same: in words */
} lk_event;

#define LK_EVENT_INIT                                                                              \
	{                                                                                          \
		sizeof(lk_event), 0, 0, 0, {0}, 0, {0}, 0, {0}, 0, {0},                            \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}

LK_BEGIN_DECLS

/*
 * Writes the next notice and returns 1, or returns 0 when none came within `wait_ms` (0: do not
 * wait; -1: no limit). Blocks no longer than that, and asks no server. `cancel` may be NULL. Any
 * number of threads may wait; each notice goes to one of them. Set the `struct_size` of `event_out`
 * first. The library writes so much; of a larger `struct_size` than its own, what it does not know
 * is zero. Errors: LK_ECANCELLED, LK_ECLOSED (after the last notice), LK_EINVAL (a `struct_size`
 * that no version has had, …), LK_EFORKED. Since 0.2.
 */
LK_API int lk_event_wait(lk_client *client, lk_event *event_out, int64_t wait_ms, lk_cancel *cancel,
			 lk_error *error);

/*
 * Returns a descriptor that is readable exactly while notices are pending, for poll(2) or an event
 * loop; when it is, call lk_event_wait() with 0. The client owns it until lk_client_free(): do not
 * read or close it. After lk_client_close() it stays readable. Does not block. Errors: LK_EINVAL,
 * LK_EFORKED. Since 0.2.
 */
LK_API int lk_event_fd(lk_client *client, lk_error *error);

LK_END_DECLS

#endif
