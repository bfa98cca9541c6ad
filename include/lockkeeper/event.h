/*
 * Notices about holds: before the end, at the end, and of threads that ended while they held.
 *
 * They are kept by the client, one pending notice of each kind a hold, so that none is dropped
 * and the memory is bounded; a hold that is released before its notice was read takes it along.
 * Three ways to learn of them: wait, poll with a wait of 0, or watch the descriptor. They are
 * made by the local clock, also when the network hangs.
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

#define LK_EVENT_NAME_SIZE 256

typedef struct lk_event {
	int type;                      /* LK_EVENT_… */
	uint64_t tag;                  /* lk_acquire_options.tag of the outermost hold */
	int64_t deadline_ns;           /* when the hold ends or ended, CLOCK_BOOTTIME */
	char field[64];                /* the wire field of the grant */
	size_t name_size;              /* bytes in the whole name */
	char name[LK_EVENT_NAME_SIZE]; /* its first bytes, ended with a NUL */
	uint64_t fence;                /* the fence token of the grant; 0: the kind has none */
} lk_event;

LK_BEGIN_DECLS

/*
 * Writes the next notice and returns 1; 0 when none came within `wait_ms` (0: do not wait; -1: no
 * limit). Blocks no longer than that, and asks no server. Any number of threads may wait; each
 * notice goes to one. Errors: LK_ECANCELLED, LK_ECLOSED (after the last notice), LK_EINVAL,
 * LK_EFORKED. `cancel` may be NULL. Since 0.1.
 */
LK_API int lk_event_wait(lk_client *client, lk_event *event_out, int64_t wait_ms, lk_cancel *cancel,
			 lk_error *error);

/*
 * A descriptor that is readable exactly while notices are pending, for poll(2) or an event loop;
 * then call lk_event_wait() with 0. It belongs to the client, and lives until lk_client_free(): do
 * not read or close it. After lk_client_close() it stays readable. Does not block. Errors:
 * LK_EINVAL, LK_EFORKED. Since 0.1.
 */
LK_API int lk_event_fd(lk_client *client, lk_error *error);

LK_END_DECLS

#endif
