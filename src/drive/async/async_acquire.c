/* SPDX-License-Identifier: MIT */
/* What was granted to an asynchronous acquire, when it ends, and when its completion is taken. */
#include <assert.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "drive/async/async_call.h"
#include "sync/recipes.h"

static void acquire_note(struct lk__async *async)
{
	struct lk__completion *completion = async->completion;
	struct lk__entry *entry = completion->entry;
	lk_completion *value = &completion->value;
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = lk__entry_hold_of(entry, &completion->owner);
	bool holds = hold && hold->number == async->grant.number; /* else it has released it */
	assert(async->grant.number != 0);
	completion->number = async->grant.number;
	value->deadline_ns = holds ? lk__hold_deadline(hold) : async->grant.valid_until_ns;
	value->fence = async->grant.fence;
	if (!entry->spreads) /* else it has another on each node */
		lk__field(entry, async->grant.number, value->field);
	pthread_mutex_unlock(&entry->mutex);
}

/* What was granted becomes holds, one for each permit. The first one's id says those of all. */
static int permits_begin(struct lk__async *async, lk_error *error)
{
	struct lk__completion *completion = async->completion;
	struct lk__entry *queue = completion->entry;
	assert(completion->permits && async->grant.number != 0);
	int rc = lk__permits_hold(queue, &async->thread, &async->want.acquire, &async->grant, NULL,
				  completion->permits, async->want.operation, error);
	if (rc == 0)
		lk__field(queue, async->grant.number, completion->value.field);
	return rc;
}

int lk__async_acquire_end(struct lk__async *async, int rc)
{
	const struct lk__entry *entry = async->completion->entry;
	lk_error *error = &async->completion->value.error;
	if (entry->target.recipe->sharing == LK__NO_HOLD) {
		rc = lk__counter_waited(entry, async->want.acquire.count, rc, error);
		return rc == 0 && async->completion->permits ? permits_begin(async, error) : rc;
	}
	if (rc == 0)
		acquire_note(async);
	return rc;
}

/* ---- taken ---- */

/* The lease of a grant ended before its owner could know of it: the hold is given up. */
static void hold_give_up(struct lk__entry *entry, struct lk__hold *hold)
{
	assert(hold->count > 0 && hold->entry == entry);
	if (!hold->lost) {
		lk__entry_lose(entry, lk__now_ns());
		lk__entry_release_unasked(entry, hold->number);
		lk__entry_promote(entry);
	}
	if (--hold->count > 0)
		return;
	LL_DELETE(entry->lost, hold);
	lk__hold_free(hold);
	atomic_fetch_sub(&entry->refs, 1); /* never the last: the completion has one */
}

void lk__async_acquired(struct lk__completion *completion)
{
	struct lk__entry *entry = completion->entry;
	lk_completion *value = &completion->value;
	pthread_mutex_lock(&entry->mutex);
	struct lk__hold *hold = lk__entry_hold_of(entry, &completion->owner);
	bool ours = hold && hold->number == completion->number;
	if (!ours) {
		/* given up by a call that did not wait for this completion, or a count */
	} else if (!hold->lost && lk__now_ns() < lk__hold_deadline(hold)) {
		value->deadline_ns = lk__hold_deadline(hold);
	} else {
		hold_give_up(entry, hold);
		lk__fail(&value->error, LK_EMAYBEHELD,
			 "acquire \"%.100s\": the lease ended before the completion was taken",
			 entry->name);
	}
	pthread_mutex_unlock(&entry->mutex);
}

/* All or none: where one has ended, all go back. */
void lk__async_permits_acquired(struct lk__completion *completion)
{
	const struct lk__permits_taken *taken = completion->permits;
	lk_completion *value = &completion->value;
	int64_t deadline_ns = lk__permits_deadline_ns(taken);
	if (lk__now_ns() < deadline_ns) {
		value->deadline_ns = deadline_ns;
		value->answer = (int64_t)taken->count;
		return;
	}
	for (size_t i = 0; i < taken->count; i++)
		lk__permit_give_up(taken->entry[i]);
	lk__fail(&value->error, LK_EMAYBEHELD,
		 "acquire %zu of \"%.100s\": a permit ended before the completion was taken",
		 taken->count, completion->entry->name);
}
