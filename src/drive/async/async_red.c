/* SPDX-License-Identifier: MIT */
/* Releases and extensions that the loop resumes, where the lock is on several nodes. */
#include <assert.h>

#include "drive/async/async_call.h"
#include "drive/many/red.h"

/* Whether all that is needed is there; else it waits on. */
static bool nodes_answered(struct lk__async *async)
{
	return lk__fan_out_look(async->call->fan_out) ||
	       lk__async_is_over(async, async->call->until_ns);
}

/* ---- release ---- */

static int release_start(struct lk__async *async)
{
	struct lk__entry *entry = async->completion->entry;
	lk_error *error = &async->completion->value.error;
	pthread_mutex_lock(&entry->mutex);
	int rc = lk__release_count(entry, &async->completion->owner, async->want.keep_ms, error);
	if (rc == 1)
		async->call = lk__red_release_begin(entry, &async->thread, error);
	pthread_mutex_unlock(&entry->mutex);
	return rc == 1 && !async->call ? LK_ENOMEM : rc;
}

static void release_end(struct lk__async *async)
{
	struct lk__entry *entry = async->completion->entry;
	assert(async->call->entry == entry);
	pthread_mutex_lock(&entry->mutex);
	int rc = lk__red_release_end(async->call, true, &async->completion->value.error);
	pthread_mutex_unlock(&entry->mutex);
	lk__async_complete(async, rc);
}

void lk__async_red_release(struct lk__async *async, bool starts)
{
	int rc = starts ? release_start(async) : 1;
	if (rc != 1)
		lk__async_complete(async, rc);
	else if (nodes_answered(async))
		release_end(async);
}

/* ---- extend ---- */

static int extend_start(struct lk__async *async, lk_error *error)
{
	struct lk__entry *entry = async->completion->entry;
	int rc = lk__extend_begin(entry, &async->completion->owner, async->want.lease_ms,
				  &async->extension, error);
	if (rc == 0)
		async->call = lk__red_extend_begin(entry, &async->thread, &async->extension, error);
	return rc == 0 && !async->call ? LK_ENOMEM : rc;
}

static int extend_end(struct lk__async *async, lk_error *error)
{
	struct lk__completion *completion = async->completion;
	struct lk__entry *entry = completion->entry;
	assert(async->call->entry == entry);
	int rc = lk__red_extend_end(async->call, error);
	return rc < 0 ? rc
		      : lk__extend_end(entry, &completion->owner, &async->extension, rc == 1,
				       error);
}

void lk__async_red_extend(struct lk__async *async, bool starts)
{
	lk_error *error = &async->completion->value.error;
	int rc = starts ? extend_start(async, error) : 0;
	if (rc < 0)
		lk__async_complete(async, rc);
	else if (nodes_answered(async))
		lk__async_complete(async, extend_end(async, error));
}
