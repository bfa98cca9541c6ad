/* SPDX-License-Identifier: MIT */
/*
 * Several permits that go back, all or none, except those of ours that are lost.
 *
 *   release ──▶ done
 *     ▲ │ one of them is not in use
 *     │ ▼
 *    look: which of ours are gone? These are lost, and the others are sent again
 *
 * Here are the parts; the operation (counting.h) waits for the answers between. All without a mutex
 * held.
 */
#ifndef LK__DRIVE_COUNT_GIVING_H
#define LK__DRIVE_COUNT_GIVING_H

#include "drive/count/permit.h"
#include "sync/recipes.h"

struct lk__giving_part {
	lk_permit permit;
	struct lk__entry *entry; /* with a reference; NULL: another's */
	bool gone;               /* ours, and the server has it no more */
	bool sends;              /* it is not known to be lost */
};

struct lk__giving {
	const struct lk__entry *queue; /* the caller keeps it alive */
	const char *operation;         /* a constant */
	bool looking;                  /* what was asked last: which of ours are in use */
	bool repeated; /* sent twice: what is not in use the first copy may have freed */
	int looks;
	int64_t begun_ns;
	size_t sent, ours; /* of these, ours */
	unsigned char (*ids)[LK__PERMIT_ID_BYTES];
	struct lk__renewal *renewals;
	size_t count;
	struct lk__giving_part part[];
};

/* Has all memory that it needs, except for its requests. 0 or LK_ENOMEM. NULL can be freed. */
int lk__giving_new(struct lk__giving **giving_out, const struct lk__entry *queue,
		   const lk_permit *permits, size_t count, const char *operation, lk_error *error);
void lk__giving_free(struct lk__giving *giving);

/* Begins: 1 with a request to be sent, 0: nothing needs to be, or a code. Next, after that request
 * was answered, or ended with `rc` and is NULL: the same. The request stays the caller's. */
int lk__giving_begin(struct lk__giving *giving, struct lk__request **request_out, lk_error *error);
int lk__giving_next(struct lk__giving *giving, int rc, const struct lk__request *answer,
		    struct lk__request **request_out, lk_error *error);

/* It is over, with 0 or a code. Each begin has its end. Returns what the caller is told. */
int lk__giving_end(struct lk__giving *giving, int rc, lk_error *error);

#endif
