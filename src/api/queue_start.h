/* SPDX-License-Identifier: MIT */
/* What asynchronous calls of locks and of counters do first and last. */
#ifndef LK__API_QUEUE_START_H
#define LK__API_QUEUE_START_H

#include <lockkeeper/queue.h>

#include "drive/async/async.h"

/* 0, or why the queue cannot be used. */
int lk__queue_check(const lk_queue *queue, const char *operation, lk_error *error);

/* Starts a request that was checked. Its id goes to `id_out`, which may be NULL. */
int lk__queue_start(lk_queue *queue, int operation, struct lk__entry *entry,
		    const struct lk__owner *owner, const struct lk__async_want *want, uint64_t tag,
		    uint64_t *id_out, lk_error *error);

#endif
