/* SPDX-License-Identifier: MIT */
/* Releases and extensions that the loop resumes, where the lock is on one node. */
#include <assert.h>
#include <stdio.h>

#include "base/fail.h"
#include "drive/async/async_call.h"

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

static int release_start(struct lk__async *async)
{
	struct lk__completion *completion = async->completion;
	struct lk__entry *entry = completion->entry;
	atomic_store(&async->released, false);
	async->release.done = release_done;
	pthread_mutex_lock(&entry->mutex);
	int rc = lk__release_start(entry, &async->release, &completion->owner, async->want.keep_ms,
				   &completion->value.error);
	pthread_mutex_unlock(&entry->mutex);
	return rc;
}

void lk__async_release(struct lk__async *async, bool starts)
{
	int rc = starts ? release_start(async) : 1;
	if (rc != 1) {
		lk__async_complete(async, rc);
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

void lk__async_extend(struct lk__async *async, bool starts)
{
	lk_error *error = &async->completion->value.error;
	int rc = starts ? extend_send(async, error) : 0;
	struct lk__request *request = atomic_exchange(&async->answer, NULL);
	if (rc < 0)
		lk__async_complete(async, rc);
	else if (request)
		lk__async_complete(async, extend_read(async, request, error));
}
