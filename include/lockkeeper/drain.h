/* SPDX-License-Identifier: MIT */
/*
 * Draining a client, before its process ends: it takes nothing new, gives its leaderships away, and
 * says what it still holds, and since when.
 *
 *     if (lk_client_drain(client, 30000, NULL, &error) == LK_EHELD) {
 *             lk_held held[16] = {LK_HELD_INIT};
 *             int count = lk_client_held(client, held, 16, &error);
 *             ...                               // say what keeps this process
 *     }
 *     lk_client_close(client, LK_CLOSE_RELEASE, &error);
 *
 * NOTHING NEW. From its start on, each new acquire, campaign and wait of this client fails at once
 * with LK_EDRAINING, and so do those that are under way: for a lock of any kind, for permits, at a
 * latch or a barrier, in an election. One whose grant is on its way gives it back, and says
 * LK_EMAYBEHELD where the server may have it until that is done. That cannot be taken back.
 *
 * WHAT IS HELD GOES ON. It is renewed, extended and released as before. Its owner may re-enter it:
 * the work that a drain waits for can be finished. To read under one's own write lock is new. One
 * that is inside a barrier leaves it as before. Questions, changes of counts and watches go on too,
 * but for lk_semaphore_drain().
 *
 * LEADERS. A candidate that waits does not stand any more. A leader is asked to hand over: it is
 * told LK_EVENT_ASKED, leads on while its work stops, and then calls lk_election_resign() or
 * lk_election_transfer(): two would lead if the library did that first. Where the work needs no
 * time to stop, LK_DRAIN_RESIGN (lk_election_options.on_drain) has the library resign at once. Who
 * holds a lock with hears_asks (lk_acquire_options) is told LK_EVENT_ASKED as well.
 *
 * WHAT IS NOT HELD. A lock that its release keeps from others for a time (keep_ms) stays so: that
 * is what it is kept for. Permits of a semaphore have no owner, and are not among what is held. A
 * red lock is its first client's.
 */
#ifndef LOCKKEEPER_DRAIN_H
#define LOCKKEEPER_DRAIN_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/error.h>
#include <lockkeeper/event.h>
#include <lockkeeper/lock.h>

#define LK_HELD_OWNER_SIZE 64

/* One that is held: of a multi lock, a part. */
typedef struct lk_held {
	size_t struct_size;             /* the program sets it in the first element of an array: so
					  much of each is written */
	const char *kind;               /* "lock", "fair lock", "election", …; static memory */
	size_t name_size;               /* bytes in the whole name */
	char name[LK_EVENT_NAME_SIZE];  /* its first bytes, ended with a NUL */
	char owner[LK_HELD_OWNER_SIZE]; /* the first bytes of its owner's name; "": a thread, or a
					   candidate */
	char field[LK_FIELD_SIZE];      /* the wire field; of a permit its id; of a red lock "" */
	uint64_t tag;                   /* lk_acquire_options.tag */
	uint64_t fence;                 /* the fence token, or the term; 0: the kind has none */
	int64_t since_ns;               /* when it was granted, CLOCK_BOOTTIME */
	int64_t deadline_ns;            /* when it ends, unless it is renewed */
	int64_t lease_ms;               /* its lease */
	int is_renewed;                 /* 1: until it is released; 0: it ends at `deadline_ns` */
} lk_held;

#define LK_HELD_INIT                                                                               \
	{                                                                                          \
		sizeof(lk_held), NULL, 0, {0}, {0}, {0}, 0, 0, 0, 0, 0, 0                          \
	}

LK_BEGIN_DECLS

/*
 * Drains a client: see above. Returns 0 when nothing is held any more, and nothing that was under
 * way may be; from then on nothing is granted to this client. Waits for that at most `wait_ms` (-1:
 * no limit), and after it for what is under way, at most for the command limit. A further call
 * waits again. `cancel` ends the wait, and the drain goes on; it may be NULL. A threadless client
 * starts it with LK_OP_DRAIN. Errors: LK_EHELD (something is held at the limit: lk_client_held()
 * says what; nothing more is granted), LK_EMAYBEHELD (something that was under way may be held, and
 * is being given back), LK_ECANCELLED, LK_ENOMEM (not all leaders were told), LK_EINVAL,
 * LK_ECLOSED, LK_EFORKED, LK_EBLOCKING. Since 0.2.
 */
LK_API int lk_client_drain(lk_client *client, int64_t wait_ms, lk_cancel *cancel, lk_error *error);

/*
 * Writes what the client holds, the first `most` in no order, and returns how many there are; also
 * of a client that is not drained, or has no threads. `held_out` may be NULL if `most` is 0; else
 * set the `struct_size` of the first element before. It is what was true for each at one moment:
 * none whose lease is over is among them, and in a client that is drained none is added. Does not
 * block. Errors: LK_EINVAL, LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_client_held(lk_client *client, lk_held *held_out, size_t most, lk_error *error);

LK_END_DECLS

#endif
