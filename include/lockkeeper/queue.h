/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous calls: start them here, take their completions later.
 *
 * A queue collects the completions of calls that were started on it. One thread can have thousands
 * of calls in flight, on locks of one client or of several. Starting a call never waits for a
 * server. Its descriptor fits any event loop; lk_queue_on_ready() serves a loop that has none. No
 * other code of the program runs on a thread of the library.
 *
 *     start ──▶ in flight ──▶ completed ──▶ taken
 *                  ▲ cancel
 *
 * Each request completes exactly once, whatever happens to it: success, failure, cancellation, or
 * the close of its client. A completion is a value; nothing in it has to be freed.
 *
 * A completion says what was true when it was taken. A lock that it reports as acquired may end
 * later, as any lease does: see <lockkeeper/lock.h>. If the lease of a grant ended before its
 * completion was taken, the completion says LK_EMAYBEHELD, and the library gives the lock back.
 *
 * OWNERS. The owner of an asynchronous hold is a name in the options, never a thread: the program
 * decides which of its tasks has the lock. Blocking calls and asynchronous ones can be mixed, also
 * on one hold, by that name. Take the completion of an acquire before starting the release.
 *
 * NOTICES. After LK_OP_NOTICE was started the notices of that client come through the queue: about
 * all its holds, also of blocking calls. Each is a completion with LK_OP_NOTICE, the id of this
 * request, the kind of notice in `event`, and the tag of the hold (lk_acquire_options.tag), its
 * deadline, fence token, field and server; reason_code, reason and server say why the hold is not
 * renewed, or is over (THE REASON in <lockkeeper/event.h>). It comes behind the completions that
 * wait already, so behind that of the acquire. <lockkeeper/event.h> says what a notice means, and
 * how many can be pending: one of each type per hold. They stay with the client until they are
 * taken, so they need no memory of the queue, none is lost, and the release of a hold deletes those
 * that nobody has taken. lk_event_wait() goes on to work; each notice goes to one of the two.
 *
 * This is one request, which is in flight until it ends: when lk_queue_cancel() is called
 * (LK_ECANCELLED; notices that were not taken stay with the client), or after the last notice of a
 * client that is closed (LK_ECLOSED). Its one completion comes then, with that error, with `tag`,
 * and with an `event` of 0. Until that is taken, the request counts for the capacity and for
 * lk_queue_free(), and the memory of the client stays. One queue can have the notices of many
 * clients; the notices of one client go to one queue: to start it again fails with LK_EINVAL.
 *
 * KINDS. Every lock; semaphores, latches, permit semaphores and barriers. The completion of a red
 * or multi lock has no `field`: the lock has another on each node, or for each part. The deadline
 * of a multi lock is the earliest of its parts. If one of its clients is closed, its acquire ends
 * with LK_ECLOSED, and its other calls end before that close does.
 *
 * BOUNDS. A queue has a capacity: at most so many requests that were not taken yet, in flight or
 * completed. Beyond that, starting fails with LK_ELIMIT. The memory of a completion is reserved
 * when its request starts, so a completion cannot be lost for lack of memory.
 */
#ifndef LOCKKEEPER_QUEUE_H
#define LOCKKEEPER_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/barrier.h>
#include <lockkeeper/client.h>
#include <lockkeeper/drain.h>
#include <lockkeeper/error.h>
#include <lockkeeper/event.h>
#include <lockkeeper/latch.h>
#include <lockkeeper/lock.h>
#include <lockkeeper/permit_semaphore.h>
#include <lockkeeper/semaphore.h>
#include <lockkeeper/watch.h>

#define LK_QUEUE_CAPACITY 65536        /* requests, unless another capacity is named */
#define LK_QUEUE_CAPACITY_MAX 16777216 /* the largest that can be named */

/*
 * The operations that can be started. X(operation, handle, members, call): the LK_OP_… of request
 * and completion, the one handle of lk_request that it is about, the other members that it uses,
 * all in capitals, and lk_<call>(), which does the same, and blocks. A blocking call says what its
 * limits are, and what its errors mean.
 */
#define LK_REQUEST_MAP(X)                                                                          \
	X(LK_OP_ACQUIRE, lock, WAIT_MS | ACQUIRE, lock_acquire)                                    \
	X(LK_OP_ACQUIRE, semaphore, WAIT_MS | NUMBER, semaphore_acquire)                           \
	X(LK_OP_ACQUIRE, permit_semaphore, WAIT_MS | NUMBER | ACQUIRE, permit_semaphore_acquire)   \
	X(LK_OP_RELEASE, lock, RELEASE, lock_release)                                              \
	X(LK_OP_RELEASE, semaphore, NUMBER | SEMAPHORE_RELEASE, semaphore_release)                 \
	X(LK_OP_RELEASE, permit_semaphore, PERMITS | NUMBER, permit_semaphore_release)             \
	X(LK_OP_EXTEND, lock, LEASE_MS | EXTEND, lock_extend)                                      \
	X(LK_OP_EXTEND, permit_semaphore, PERMITS | NUMBER | LEASE_MS,                             \
	  permit_semaphore_update_lease)                                                           \
	X(LK_OP_IS_LOCKED, lock, 0, lock_is_locked)                                                \
	X(LK_OP_SERVER_TTL, lock, 0, lock_server_ttl_ms)                                           \
	X(LK_OP_FORCE_RELEASE, lock, 0, lock_force_release)                                        \
	X(LK_OP_AWAIT, latch, WAIT_MS, latch_await)                                                \
	X(LK_OP_AWAIT, barrier, WAIT_MS, barrier_await)                                            \
	X(LK_OP_ENTER, barrier, WAIT_MS, barrier_enter)                                            \
	X(LK_OP_LEAVE, barrier, WAIT_MS, barrier_leave)                                            \
	X(LK_OP_COUNT, semaphore, 0, semaphore_available)                                          \
	X(LK_OP_COUNT, latch, 0, latch_count)                                                      \
	X(LK_OP_TRY_SET, semaphore, NUMBER | TTL_MS, semaphore_try_set)                            \
	X(LK_OP_TRY_SET, permit_semaphore, NUMBER, permit_semaphore_try_set)                       \
	X(LK_OP_TRY_SET, latch, NUMBER, latch_try_set)                                             \
	X(LK_OP_SET, permit_semaphore, NUMBER, permit_semaphore_set)                               \
	X(LK_OP_ADD, semaphore, NUMBER, semaphore_add)                                             \
	X(LK_OP_ADD, permit_semaphore, NUMBER, permit_semaphore_add)                               \
	X(LK_OP_DRAIN, semaphore, 0, semaphore_drain)                                              \
	X(LK_OP_DRAIN, client, WAIT_MS, client_drain)                                              \
	X(LK_OP_COUNT_DOWN, latch, NUMBER, latch_count_down)                                       \
	X(LK_OP_DELETE, semaphore, 0, semaphore_delete)                                            \
	X(LK_OP_DELETE, permit_semaphore, 0, permit_semaphore_delete)                              \
	X(LK_OP_DELETE, latch, 0, latch_delete)                                                    \
	X(LK_OP_WATCH, watch, 0, watch_next)                                                       \
	X(LK_OP_NOTICE, client, 0, event_wait)                                                     \
	X(LK_OP_CLOSE, client, HOW, client_close)

#define LK_OP_ACQUIRE 1     /* of a lock, of permits */
#define LK_OP_RELEASE 2     /* the same */
#define LK_OP_EXTEND 3      /* of a lock, of one permit */
#define LK_OP_AWAIT 4       /* until a latch is open, or all have come to a barrier */
#define LK_OP_COUNT 5       /* a question: how many permits are free, what a latch's count is */
#define LK_OP_TRY_SET 6     /* of a count that is not set */
#define LK_OP_SET 7         /* of the number of permits */
#define LK_OP_ADD 8         /* to the number of permits */
#define LK_OP_DRAIN 9       /* of a semaphore: takes what is free; of a client */
#define LK_OP_COUNT_DOWN 10 /* of a latch */
#define LK_OP_DELETE 11     /* of a count */
#define LK_OP_ENTER 12      /* into a barrier, together */
#define LK_OP_LEAVE 13      /* the same */
#define LK_OP_NOTICE 16     /* a notice about a hold, or their end: NOTICES */
#define LK_OP_CLOSE 17      /* of a client without threads: see <lockkeeper/loop.h> */

#define LK_OP_IS_LOCKED 20  /* a question about a lock, not a multi or red one; and the next two */
#define LK_OP_SERVER_TTL 21 /* how long the server keeps it, in ms */
#define LK_OP_FORCE_RELEASE 22 /* by whoever it is held */
#define LK_OP_WATCH 23         /* until changes of a watch wait to be taken: lk_watch_next() */

typedef struct lk_queue lk_queue;

/* See lk_queue_on_ready(). */
typedef void (*lk_queue_callback)(void *context);

/* A request: the operation, one handle, and what the operation uses of the rest. */
typedef struct lk_request {
	size_t struct_size;
	int operation; /* LK_OP_… */
	int how;       /* of a close: LK_CLOSE_… */
	lk_client *client;
	lk_lock *lock;
	lk_semaphore *semaphore;
	lk_permit_semaphore *permit_semaphore;
	lk_latch *latch;
	int64_t wait_ms;  /* -1: without limit; 0: once */
	int64_t number;   /* of permits; of a latch the count, or what it is counted down by */
	int64_t lease_ms; /* of an extension */
	int64_t ttl_ms;   /* of a semaphore that is set */
	const lk_permit *permits;          /* `number` of them; their ids are copied */
	const lk_acquire_options *acquire; /* must name an owner of a lock */
	const lk_release_options *release; /* must name an owner */
	const lk_extend_options *extend;   /* must name an owner */
	const lk_semaphore_release_options *semaphore_release;
	uint64_t tag; /* the program's own: the completion has it. Notices have that of `acquire` */
	lk_barrier *barrier;
	lk_watch *watch;
} lk_request;

#define LK_REQUEST_INIT                                                                            \
	{                                                                                          \
		sizeof(lk_request), 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL,    \
			NULL, NULL, NULL, 0, NULL, NULL                                            \
	}

typedef struct lk_completion {
	size_t struct_size;  /* the program sets it in the first element of an array: so much of
				each is written */
	uint64_t id;         /* of the request, as its start wrote it */
	uint64_t tag;        /* of the request; of a notice: the hold's */
	int operation;       /* LK_OP_… */
	int event;           /* a notice: LK_EVENT_…; else 0 */
	int64_t deadline_ns; /* acquired, notice: when the hold ends or ended, CLOCK_BOOTTIME */
	uint64_t fence;      /* the same: the fence token; 0: the kind has none */
	char field[LK_FIELD_SIZE]; /* the same: the wire field; of permits: the first one's id */
	char node[LK_NODE_SIZE];   /* a notice: lk_event.node */
	int64_t answer;  /* what the blocking call returns or writes; of permits: how many */
	lk_error error;  /* `code` is 0, or why it failed */
	int reason_code; /* a notice: lk_event.code, and the same: */
	char server[LK_NODE_SIZE]; /* lk_event.server */
	char reason[LK_EVENT_REASON_SIZE];
} lk_completion;

#define LK_COMPLETION_INIT                                                                         \
	{                                                                                          \
		sizeof(lk_completion), 0, 0, 0, 0, 0, 0, {0}, {0}, 0, {0, 0, {0}}, 0, {0},         \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}

LK_BEGIN_DECLS

/*
 * Makes a queue for `capacity` requests; 0 means LK_QUEUE_CAPACITY. Takes one descriptor. Free it
 * with lk_queue_free(). Errors: LK_EINVAL, LK_ENOMEM, LK_ESYSTEM (no descriptor). Since 0.2.
 */
LK_API int lk_queue_new(lk_queue **queue_out, size_t capacity, lk_error *error);

/*
 * Frees a queue whose completions were all taken. NULL is fine. To get there, cancel what is in
 * flight or close the clients, then take until nothing is left. In a forked child it frees the
 * child's copy, and closes descriptors as lk_client_free() does there. Does not block, except for a
 * wake-up callback that is running. Errors: LK_EPENDING (a request is in flight, or a completion
 * was not taken: nothing is freed, and nothing is lost). Since 0.2.
 */
LK_API int lk_queue_free(lk_queue *queue, lk_error *error);

/*
 * Returns a descriptor that is readable exactly while a completion waits to be taken, for poll(2)
 * or an event loop. The queue owns it: do not read or close it. Does not block. Errors: LK_EINVAL,
 * LK_EFORKED. Since 0.2.
 */
LK_API int lk_queue_fd(lk_queue *queue, lk_error *error);

/*
 * Has `callback` called whenever something to take has come to an empty queue: for a loop that
 * cannot watch a descriptor. Then take until nothing is left; the next call is for what comes after
 * that. Where several threads take, all may be taken already when it is called.
 *
 * It runs on a thread of the library, or in lk_client_close() and lk_client_free(); of a threadless
 * client, in lk_client_process(); with several clients, on several threads at once. No mutex of the
 * library is held. It should wake the program's loop (post a message, write to a descriptor) and
 * return at once, because renewals wait for it. It must not block, call the library, throw, or end
 * its thread; and it must not take a mutex that the program holds while it closes, frees or
 * processes a client or frees the queue.
 *
 * `context` must stay valid until lk_queue_free() has returned 0. Call this before the first
 * request of the queue; a second call replaces the first. Does not block. Errors: LK_EINVAL
 * (`callback` is NULL, or the queue has had requests), LK_EFORKED. Since 0.2.
 */
LK_API int lk_queue_on_ready(lk_queue *queue, lk_queue_callback callback, void *context,
			     lk_error *error);

/*
 * Starts what `request` says, and writes the id of the request to `id_out`, which may be NULL. The
 * request and its options are copied; a handle may be freed before the completions of its requests.
 * Does not block. Requests of one client wait in one queue with its blocking callers, first come,
 * first served; those that are in flight together are done in any order, so take a completion
 * before you start what depends on it.
 *
 * LK_REQUEST_MAP says what each operation uses. A member that it does not use must be 0 or NULL,
 * and so must `cancel`, `no_wait`, `abandon`, and `field` of a release or extension, in the
 * options. A `wait_ms` of -1 waits without limit, 0 tries once. The completion has in `answer`
 * what the blocking call returns or writes. Questions about permits have blocking calls only: they
 * have several answers.
 *
 * Nobody owns the permits of a semaphore, and they do not end: whoever takes the completion
 * releases them. Permits that are granted to a request that completes with an error go back.
 *
 * An acquire of permits with ids is one request, also for the capacity of the queue. Its completion
 * has their number in `answer`, the id of the first in `field`, and the earliest of their
 * deadlines; lk_completion_permits() writes all ids. From its grant on each is renewed. If one of
 * them ended before the completion was taken, it says LK_EMAYBEHELD, and the library gives all of
 * them back. LK_ENOMEM also in the completion: of an acquire, none is held, and what the server
 * granted goes back; of a release, nothing was released, and we still hold ours.
 *
 * Errors of the start: LK_EINVAL (of a wrong member, which it names), LK_ELIMIT (the queue is
 * full), LK_ENOMEM, LK_ESYSTEM, LK_ECLOSED, LK_EDRAINING, LK_EFORKED; such a start makes no
 * completion. Errors in the completion: those of the blocking call with the same meaning, and
 * LK_ECANCELLED after lk_queue_cancel(). Since 0.2.
 */
LK_API int lk_queue_start(lk_queue *queue, const lk_request *request, uint64_t *id_out,
			  lk_error *error);

/*
 * Writes the ids of the permits that a completion says were acquired, one or several, into
 * `permits_out`, which has room for `room`, and returns how many there are. Reads only the
 * completion, of which any copy will do, at any time: the ids of one acquire follow from the first
 * one. Any thread may call it. Does not block. Errors: LK_EINVAL (the completion is not that of
 * permits that were acquired, or they are more than `room`: nothing is written). Since 0.2.
 */
LK_API int lk_completion_permits(const lk_completion *completion, lk_permit *permits_out,
				 int64_t room, lk_error *error);

/*
 * Asks that an acquire, a wait for a latch, at a barrier, of a watch or of a drain, or for notices
 * ends.
 * Returns 1 when the request is in flight and 0 when it is not (it has completed, or never was).
 * The request still completes: with LK_ECANCELLED, or with what became of it if that was faster.
 * Any thread may call it. Does not block. Errors: LK_EINVAL (another kind of request), LK_EFORKED.
 * Since 0.2.
 */
LK_API int lk_queue_cancel(lk_queue *queue, uint64_t id, lk_error *error);

/*
 * Takes the oldest completions, `most` at most, and returns how many it wrote. Waits until there is
 * one, at most `wait_ms` (0: does not wait; -1: no limit), and returns 0 if none came. Any number
 * of threads may take; each completion goes to one of them. Set the `struct_size` of the first
 * element before. The library takes it for the size of all elements; of a larger one than its own,
 * what it does not know is zero. Errors: LK_EINVAL (a `struct_size` that no version has had, …),
 * LK_EFORKED. Since 0.2.
 */
LK_API int lk_queue_take(lk_queue *queue, lk_completion *completions_out, size_t most,
			 int64_t wait_ms, lk_error *error);

LK_END_DECLS

#endif
