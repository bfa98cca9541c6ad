/* SPDX-License-Identifier: MIT */
/* The public face of watches. */
#include <lockkeeper/watch.h>

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "api/check.h"
#include "api/watch_look.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lock/loop.h"

#define POLL_MS 1000

int lk_watch_new(lk_watch **watch_out, lk_client *client, const lk_watch_options *options,
		 lk_error *error)
{
	const char *operation = "lk_watch_new";
	lk_watch_options own;
	if (!watch_out || !client)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = lk__client_check(client, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__WATCH_POLL, own.poll_ms},
			       {LK__RENEWALS, own.renewals});
	if (rc == 0)
		rc = lk__loop_start(client, error);
	if (rc < 0)
		return rc;
	lk_watch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	watch->client = client;
	watch->poll_ms = own.poll_ms ? own.poll_ms : POLL_MS;
	watch->renewals = own.renewals;
	atomic_store(&watch->refs, 1);
	lk__client_ref(client);
	*watch_out = watch;
	return 0;
}

/* ---- its end ---- */

static void changes_free(struct lk__change_item **changes, const struct lk__watched *of)
{
	struct lk__change_item *item, *next;
	DL_FOREACH_SAFE(*changes, item, next)
	{
		if (of && item->of != of)
			continue;
		DL_DELETE(*changes, item);
		free(item);
	}
}

static void name_drop(lk_watch *watch, struct lk__watched *watched)
{
	HASH_DEL(watch->names, watched);
	changes_free(&watch->changes, watched);
	lk__watched_free(watched);
}

static void watch_unref(lk_watch *watch)
{
	struct lk__watched *watched, *next;
	lk_client *client = watch->client;
	if (atomic_fetch_sub(&watch->refs, 1) > 1)
		return;
	HASH_ITER(hh, watch->names, watched, next)
	name_drop(watch, watched);
	changes_free(&watch->taken, NULL);
	free(watch);
	lk__client_unref(client);
}

lk_watch *lk_watch_free(lk_watch *watch)
{
	if (!watch || lk__client_forked(watch->client))
		return NULL;
	atomic_store(&watch->freed, true);
	struct lk__thread *thread = atomic_load(&watch->thread);
	if (thread)
		lk__thread_wake(thread);
	watch_unref(watch);
	return NULL;
}

/* ---- a call ---- */

/* One at a time drives it, or changes its names. */
static int watch_enter(lk_watch *watch, const char *operation, lk_error *error)
{
	if (!watch)
		return lk__fail(error, LK_EINVAL, "%s: watch is NULL", operation);
	int rc = lk__client_check(watch->client, operation, error);
	if (rc == 0 && atomic_exchange(&watch->driven, true))
		rc = lk__fail(error, LK_EINVAL, "%s: a call or a request of it is under way",
			      operation);
	return rc;
}

static void watch_leave(lk_watch *watch)
{
	atomic_store(&watch->driven, false);
}

/* ---- names ---- */

static struct lk__watched *name_find(lk_watch *watch, const void *name, size_t size)
{
	struct lk__watched *watched;
	HASH_FIND(hh, watch->names, name, size, watched);
	return watched;
}

static int name_add(lk_watch *watch, const void *name, size_t size, const char *operation,
		    lk_error *error)
{
	if (name_find(watch, name, size))
		return 0;
	if (HASH_COUNT(watch->names) >= LK_WATCH_NAMES_MAX)
		return lk__fail(error, LK_ELIMIT, "%s: it has %d names", operation,
				LK_WATCH_NAMES_MAX);
	struct lk__watched *watched = lk__watched_new(watch, name, size);
	if (watched) {
		HASH_ADD_KEYPTR(hh, watch->names, watched->key + watched->name_at,
				watched->key_size - watched->name_at, watched);
		if (watched->hh.tbl)
			return 0;
		lk__watched_free(watched);
	}
	return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
}

int lk_watch_add(lk_watch *watch, const void *name, size_t name_size, lk_error *error)
{
	const char *operation = "lk_watch_add";
	int rc = watch_enter(watch, operation, error);
	if (rc < 0)
		return rc;
	rc = lk__name_check(watch->client, name, &name_size, operation, error);
	if (rc == 0)
		rc = name_add(watch, name, name_size, operation, error);
	watch_leave(watch);
	return rc;
}

int lk_watch_remove(lk_watch *watch, const void *name, size_t name_size, lk_error *error)
{
	const char *operation = "lk_watch_remove";
	int rc = watch_enter(watch, operation, error);
	if (rc < 0)
		return rc;
	rc = lk__name_check(watch->client, name, &name_size, operation, error);
	struct lk__watched *watched = rc == 0 ? name_find(watch, name, name_size) : NULL;
	if (watched) {
		name_drop(watch, watched);
		rc = 1;
	}
	watch_leave(watch);
	return rc;
}

/* ---- changes ---- */

/* The oldest one: 1; or 0. */
static int change_take(lk_watch *watch, lk_change *change_out)
{
	struct lk__change_item *item = watch->changes;
	changes_free(&watch->taken, NULL);
	if (!item)
		return 0;
	DL_DELETE(watch->changes, item);
	DL_APPEND(watch->taken, item);
	lk__copy_sized(change_out, change_out->struct_size, &item->change, sizeof(item->change));
	return 1;
}

static int next_run(lk_watch *watch, int64_t wait_ms, lk_cancel *cancel, const char *operation,
		    lk_error *error)
{
	struct lk__thread *thread;
	int saved, rc = lk__enter(watch->client, operation, &thread, &saved, error);
	if (rc < 0)
		return rc;
	rc = lk__cancel_enter(cancel, thread, error);
	if (rc == 0) {
		int64_t until_ns = wait_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), wait_ms);
		lk__watch_begin(watch, thread, cancel, NULL, until_ns, error);
		rc = lk__op_run(&watch->op);
		lk__cancel_leave(cancel);
	}
	lk__leave(saved);
	return rc;
}

int lk_watch_next(lk_watch *watch, int64_t wait_ms, lk_cancel *cancel, lk_change *change_out,
		  lk_error *error)
{
	const char *operation = "lk_watch_next";
	if (!change_out)
		return lk__fail(error, LK_EINVAL, "%s: change_out is NULL", operation);
	int rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	if (rc == 0)
		rc = lk__check_size(operation, change_out, sizeof(*change_out), sizeof(*change_out),
				    error);
	if (rc == 0)
		rc = watch_enter(watch, operation, error);
	if (rc < 0)
		return rc;
	rc = change_take(watch, change_out);
	if (rc == 0 && wait_ms != 0) {
		rc = next_run(watch, wait_ms, cancel, operation, error);
		if (rc == 0)
			rc = change_take(watch, change_out);
	}
	watch_leave(watch);
	return rc;
}

/* ---- through a queue ---- */

static struct lk__op *request_begin(void *of, struct lk__thread *thread, const _Atomic bool *stop,
				    lk_error *error)
{
	lk_watch *watch = of;
	lk__watch_begin(watch, thread, NULL, stop, LK__NEVER, error);
	return &watch->op;
}

static void request_end(void *of)
{
	watch_leave(of);
	watch_unref(of);
}

int lk__start_watch(const struct lk__start *start)
{
	lk_watch *watch = start->handle;
	struct lk__async_want want = {.way = LK__ASYNC_DRIVE,
				      .driven = {.client = watch->client,
						 .of = watch,
						 .begin = request_begin,
						 .end = request_end}};
	int rc = watch_enter(watch, start->operation, start->error);
	if (rc < 0)
		return rc;
	atomic_fetch_add(&watch->refs, 1);
	rc = lk__start_go(start, NULL, NULL, &want);
	if (rc < 0)
		request_end(watch);
	return rc;
}
