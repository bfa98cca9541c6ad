/* SPDX-License-Identifier: MIT */
/*
 * An acquire of a multi lock: carries out what its attempt (sync/multi/attempt.h) says, and feeds
 * what came of it. It decides nothing. What takes time is left to its operation (multi_call.c).
 */
#ifndef LK__DRIVE_MANY_MULTI_HEAD_H
#define LK__DRIVE_MANY_MULTI_HEAD_H

#include "drive/many/multi_ask.h"
#include "sync/multi/attempt.h"

struct lk__multi_head {
	struct lk__multi_ask *ask;
	struct lk__multi_attempt attempt;
	struct lk__multi_effects effects; /* what is waited for; `part`: whose client connects, or
					   * that is awaited */
	size_t connects_from;             /* the next part whose client may have to connect */
};

/* 1: all are the caller's; 0: `effects` is to be waited for; or a code. */
int lk__multi_head_start(struct lk__multi_head *head, struct lk__multi_ask *ask);

/* The wait has ended so: 0, or a code; of a connection, as lk__conn_ready() says, and why. The
 * same. */
int lk__multi_head_next(struct lk__multi_head *head, int rc, const lk_error *why);

#endif
