/* SPDX-License-Identifier: MIT */
/* Releases and extensions that the loop resumes. */
#include <assert.h>
#include <stdio.h>

#include "base/fail.h"
#include "drive/async/async_call.h"
#include "drive/lock/fan_out.h"

/* Whether all that is needed is there; else it waits on. */
static bool nodes_answered(struct lk__async *async)
{
	return lk__fan_out_look(async->call->fan_out) ||
	       lk__async_is_over(async, async->call->until_ns);
}

/* ---- release ---- */

static void release_done(struct lk__detached_release *detached, int rc)
{
	struct lk__async *async = (struct lk__async *)((char *)detached -
						       offsetof(struct lk__async, release));
	assert(!atomic_load(&async->released) && rc <= 0);
	async->code = rc;
	atomic_store(&async->released, true);
	lk__thread_wake(&async->thread);
}

/* Where the lock is on several nodes. */
static int release_all_start(struct lk__async *async)
{
	struct lk__entry *entry = async->completion->entry;
	lk_error *error = &async->completion->value.error;
	pthread_mutex_lock(&entry->mutex);
	int rc = lk__release_count(entry, &async->completion->owner, error);
	if (rc == 1)
		async->call = entry->ops->release_begin(entry, &async->thread, error);
	pthread_mutex_unlock(&entry->mutex);
	return rc == 1 && !async->call ? LK_ENOMEM : rc;
}

static void release_all_end(struct lk__async *async)
{
	struct lk__entry *entry = async->completion->entry;
	assert(async->call->entry == entry);
	pthread_mutex_lock(&entry->mutex);
	int rc = entry->ops->release_end(async->call, true, &async->completion->value.error);
	pthread_mutex_unlock(&entry->mutex);
	lk__async_complete(async, rc);
}

static int release_start(struct lk__async *async)
{
	struct lk__completion *completion = async->completion;
	struct lk__entry *entry = completion->entry;
	if (entry->ops)
		return release_all_start(async);
	atomic_store(&async->released, false);
	async->release.done = release_done;
	pthread_mutex_lock(&entry->mutex);
	int rc = lk__release_start(entry, &async->release, &completion->owner,
				   &completion->value.error);
	pthread_mutex_unlock(&entry->mutex);
	return rc;
}

void lk__async_release(struct lk__async *async, bool starts)
{
	int rc = starts ? release_start(async) : 1;
	if (rc != 1) {
		lk__async_complete(async, rc);
	} else if (async->call) {
		if (nodes_answered(async))
			release_all_end(async);
	} else if (atomic_load(&async->released)) {
		lk__async_complete(async, async->code);
	}
}

/* ---- extend ---- */

static int extend_send(struct lk__async *async, lk_error *error)
{
	struct lk__entry *entry = async->completion->entry;
	int rc = lk__extend_begin(entry, &async->completion->owner, async->want.lease_ms,
				  &async->extension, error);
	struct lk__request *request = rc < 0 ? NULL : lk__extend_request(entry, &async->extension);
	if (rc == 0 && !request)
		rc = lk__fail(error, LK_ENOMEM, "extend \"%.100s\": out of memory", entry->name);
	if (rc < 0)
		return rc;
	request->owner = async;
	request->finish = lk__async_answered;
	request->resend = true;
	request->deadline_ns = async->extension.until_ns;
	lk__conn_queue(lk__entry_scripts(entry), request);
	return 0;
}

static int extend_read(struct lk__async *async, struct lk__request *request, lk_error *error)
{
	struct lk__completion *completion = async->completion;
	struct lk__entry *entry = completion->entry;
	assert(async->extension.number != 0 && atomic_load(&request->done));
	char what[192];
	snprintf(what, sizeof(what), "extend \"%.100s\"", entry->name);
	int rc = lk__ask_read(entry->client, request, what, error);
	if (rc >= 0)
		rc = lk__extend_read(entry, &async->extension, request, error);
	lk__request_free(request);
	if (rc >= 0)
		rc = lk__extend_end(entry, &completion->owner, &async->extension, rc == 1, error);
	return rc;
}

/* Where the lock is on several nodes. */
static int extend_all_start(struct lk__async *async, lk_error *error)
{
	struct lk__entry *entry = async->completion->entry;
	int rc = lk__extend_begin(entry, &async->completion->owner, async->want.lease_ms,
				  &async->extension, error);
	if (rc == 0)
		async->call = entry->ops->extend_begin(entry, &async->thread, &async->extension,
						       error);
	return rc == 0 && !async->call ? LK_ENOMEM : rc;
}

static int extend_all_end(struct lk__async *async, lk_error *error)
{
	struct lk__completion *completion = async->completion;
	struct lk__entry *entry = completion->entry;
	assert(async->call->entry == entry);
	int rc = entry->ops->extend_end(async->call, error);
	return rc < 0 ? rc
		      : lk__extend_end(entry, &completion->owner, &async->extension, rc == 1,
				       error);
}

static int extend_start(struct lk__async *async, lk_error *error)
{
	return async->completion->entry->ops ? extend_all_start(async, error)
					     : extend_send(async, error);
}

void lk__async_extend(struct lk__async *async, bool starts)
{
	lk_error *error = &async->completion->value.error;
	int rc = starts ? extend_start(async, error) : 0;
	struct lk__request *request = atomic_exchange(&async->answer, NULL);
	if (rc < 0)
		lk__async_complete(async, rc);
	else if (async->call && nodes_answered(async))
		lk__async_complete(async, extend_all_end(async, error));
	else if (request)
		lk__async_complete(async, extend_read(async, request, error));
}
