/* SPDX-License-Identifier: MIT */
#include "lock/multi.h"

#include <assert.h>

#include "base/clock.h"
#include "lock/loop.h"

void lk__multi_keep(const struct lk__multi *multi)
{
	for (size_t i = 0; i < multi->count; i++)
		lk__entry_keep(multi->part[i]);
}

void lk__multi_let_go(const struct lk__multi *multi)
{
	for (size_t i = 0; i < multi->count; i++)
		lk__entry_let_go(multi->part[i]);
}

int lk__multi_start_loops(const struct lk__multi *multi, lk_error *error)
{
	int rc = 0;
	for (size_t i = 0; i < multi->count && rc == 0; i++)
		rc = lk__loop_start(multi->part[i]->client, error);
	return rc;
}

/* ---- what is held ---- */

int lk__multi_hold_of(const struct lk__multi *multi, const struct lk__owner *owner,
		      struct lk__multi_hold *hold_out)
{
	struct lk__multi_hold hold = {.deadline_ns = LK__NEVER, .count = UINT32_MAX};
	int rc = 0;
	for (size_t i = 0; i < multi->count && rc != LK_ENOTOWNER; i++) {
		struct lk__entry *entry = multi->part[i];
		const struct lk__thread *thread = owner->name ? NULL
							      : lk__client_thread(entry->client);
		if (!thread && !owner->name)
			return LK_ENOMEM;
		struct lk__owner own = *owner;
		if (thread)
			own.serial = thread->serial;
		pthread_mutex_lock(&entry->mutex);
		const struct lk__hold *part = lk__entry_hold_of(entry, &own);
		int64_t deadline_ns = part ? lk__hold_deadline(part) : 0;
		if (!part)
			rc = LK_ENOTOWNER;
		else if (part->lost || lk__now_ns() >= deadline_ns)
			rc = LK_ELOST;
		if (part && part->count < hold.count)
			hold.count = part->count;
		pthread_mutex_unlock(&entry->mutex);
		if (deadline_ns < hold.deadline_ns)
			hold.deadline_ns = deadline_ns;
	}
	assert(rc != 0 || (hold.count > 0 && hold.deadline_ns != LK__NEVER));
	if (rc == 0 || rc == LK_ELOST)
		*hold_out = hold;
	return rc;
}
