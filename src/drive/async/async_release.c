/* SPDX-License-Identifier: MIT */
/* Releases and extensions that the loop resumes, where the lock is on one node. */
#include <assert.h>
#include <stdio.h>

#include "base/fail.h"
#include "drive/async/async_call.h"

/* ---- release ---- */

/* Until its answer is read the close of the client waits. */
static int release_start(struct lk__async *async)
{
	struct lk__completion *completion = async->completion;
	struct lk__entry *entry = completion->entry;
	struct lk__request *request;
	pthread_mutex_lock(&entry->mutex);
	int rc = lk__release_start(entry, &async->release, &completion->owner, async->want.keep_ms,
				   &request, &completion->value.error);
	if (rc == 1) {
		atomic_fetch_add(&async->client->releasing, 1);
		lk__async_ask(async, lk__entry_scripts(entry), request,
			      async->release.valid_until_ns);
	}
	pthread_mutex_unlock(&entry->mutex);
	return rc;
}

static int release_end(struct lk__async *async, struct lk__request *answer)
{
	struct lk__entry *entry = async->completion->entry;
	pthread_mutex_lock(&entry->mutex);
	int rc = lk__release_end(&async->release, answer);
	pthread_mutex_unlock(&entry->mutex);
	atomic_fetch_sub(&async->client->releasing, 1);
	return rc;
}

void lk__async_release(struct lk__async *async, bool starts)
{
	struct lk__request *answer;
	int rc = starts ? release_start(async) : 1;
	if (rc != 1)
		lk__async_complete(async, rc);
	else if (lk__async_ask_look(async, &answer))
		lk__async_complete(async, release_end(async, answer));
}

/* ---- extend ---- */

static int extend_send(struct lk__async *async, lk_error *error)
{
	struct lk__entry *entry = async->completion->entry;
	struct lk__request *request = lk__extend_request(entry, &async->extension);
	if (!request)
		return lk__fail(error, LK_ENOMEM, "extend \"%.100s\": out of memory", entry->name);
	lk__async_ask(async, lk__entry_scripts(entry), request, async->extension.until_ns);
	return 0;
}

/* As lk__caller_ask(): a request to a cluster has to know first which replicas must acknowledge. */
static int extend_start(struct lk__async *async, lk_error *error)
{
	struct lk__entry *entry = async->completion->entry;
	int rc = lk__extend_begin(entry, &async->completion->owner, async->want.lease_ms,
				  &async->extension, error);
	bool connects = rc == 0 && async->client->topo->slotted &&
			lk__async_connect(async, lk__entry_scripts(entry), true,
					  async->extension.until_ns);
	return rc < 0 || connects ? rc : extend_send(async, error);
}

/* The request is done, or had no answer and is NULL. */
static int extend_read(struct lk__async *async, struct lk__request *request, lk_error *error)
{
	struct lk__completion *completion = async->completion;
	struct lk__entry *entry = completion->entry;
	assert(async->extension.number != 0);
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
	lk_error *error = &async->completion->value.error, why;
	struct lk__request *answer;
	int came, rc = starts ? extend_start(async, error) : 0;
	if (rc == 0 && async->connecting) {
		if (!lk__async_connect_look(async, &came, &why))
			return;
		rc = extend_send(async, error);
	}
	if (rc < 0)
		lk__async_complete(async, rc);
	else if (lk__async_ask_look(async, &answer))
		lk__async_complete(async, extend_read(async, answer, error));
}
