/* SPDX-License-Identifier: MIT */
/* Tells what a wait in progress waits for, to another thread. */
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "api/check.h"
#include "api/lock.h"
#include "base/clock.h"
#include "base/fail.h"

#define OWNERS_MAX 64 /* of a fair or read/write lock, so many owners are looked at */

static void info_reason(lk_wait_info *info, int code, const char *reason)
{
	info->code = code;
	snprintf(info->reason, sizeof(info->reason), "%s", reason);
}

/* It was up, and neither brings answers nor messages now. */
static bool node_is_down(struct lk__node *node, struct lk__conn *scripts)
{
	return atomic_load(&node->was_up) && !lk__conn_is_up(scripts) &&
	       !lk__conn_is_up(&node->messages);
}

static void info_unreachable(lk_wait_info *info, struct lk__conn *scripts)
{
	struct lk__fault fault;
	lk__conn_fault(scripts, &fault);
	info->code = LK_EUNREACHABLE;
	snprintf(info->reason, sizeof(info->reason), "%s: %s", lk_error_text(LK_EUNREACHABLE),
		 fault.reason);
}

/* Why the head has no grant yet. A refusal that the attempt has got over is not told any more. */
static void info_explain(lk_wait_info *info, const struct lk__entry *entry)
{
	const struct lk__caller *head = lk__entry_head(entry);
	const lk_error *why = head ? head->why : NULL;
	bool told = why &&
		    (why->code == LK_EBUSY || (why->code && entry->waiting->attempt.failures > 0));
	if (entry->hold)
		info_reason(info, LK_EBUSY, "another caller of this client holds it");
	else if (told)
		info_reason(info, why->code, why->message);
	else if (entry->waiting->attempt.down_since_ns ||
		 node_is_down(entry->target.node, lk__entry_conn(entry)))
		info_unreachable(info, lk__entry_conn(entry));
	else if (entry->waiting->attempt.busy)
		info_reason(info, LK_EBUSY, lk_error_text(LK_EBUSY));
}

/* 1 when somebody waits for the entry's lock. */
static int entry_wait_info(struct lk__entry *entry, lk_wait_info *info)
{
	const struct lk__caller *waiter, *oldest = NULL;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&entry->mutex);
	DL_FOREACH(lk__entry_first(entry), waiter)
	{
		info->callers++;
		if (!oldest || waiter->since_ns < oldest->since_ns)
			oldest = waiter;
	}
	if (oldest) {
		info->waited_ms = (now_ns - oldest->since_ns) / LK__MS;
		info->left_ms = -1;
		if (oldest->until_ns != LK__NEVER)
			info->left_ms = lk__ms_until(now_ns, oldest->until_ns, INT32_MAX);
		info_explain(info, entry);
	}
	pthread_mutex_unlock(&entry->mutex);
	return oldest != NULL;
}

/* The first entries of the lock, each with a reference, where each owner has its own. */
static size_t find_entries(const struct lk__lookup *lookup, struct lk__entry *found[OWNERS_MAX])
{
	lk_client *client = lookup->client;
	struct lk__entry *entry = NULL;
	size_t count = 0;
	pthread_mutex_lock(&client->mutex);
	while ((entry = lk__entries_next(&client->entries, entry))) {
		bool same = entry->target.recipe == lookup->recipe &&
			    lk__entry_name_size(entry) == lookup->name_size &&
			    memcmp(entry->name, lookup->name, lookup->name_size) == 0;
		if (same && count < OWNERS_MAX && lk__entry_ref_if_alive(entry))
			found[count++] = entry;
	}
	pthread_mutex_unlock(&client->mutex);
	return count;
}

/* Tells it where each owner has an entry: callers of all, the rest of the wait that is older. */
static int owners_wait_info(const struct lk__lookup *lookup, lk_wait_info *info)
{
	struct lk__entry *found[OWNERS_MAX];
	size_t count = find_entries(lookup, found);
	uint64_t callers = 0;
	for (size_t i = 0; i < count; i++) {
		lk_wait_info one = {.struct_size = info->struct_size};
		if (entry_wait_info(found[i], &one) == 1 &&
		    (!callers || one.waited_ms > info->waited_ms))
			*info = one;
		callers += one.callers;
		lk__entry_unref(found[i]);
	}
	info->callers = callers;
	return callers > 0;
}

static int lock_wait_info(const lk_lock *lock, lk_wait_info *info)
{
	int answer = 0;
	const struct lk__multi *multi = lk__lock_multi(lock);
	if (multi) {
		for (size_t i = 0; i < multi->count && !answer; i++)
			answer = entry_wait_info(multi->part[i], info);
	} else if (lock->entry) {
		answer = entry_wait_info(lock->entry, info);
	} else {
		answer = owners_wait_info(lock->lookup, info);
	}
	return answer;
}

int lk_lock_wait_info(lk_lock *lock, lk_wait_info *info_out, lk_error *error)
{
	if (!lock || !info_out)
		return lk__fail(error, LK_EINVAL, "lk_lock_wait_info: an argument is NULL");
	int rc = lk__check_size("lk_lock_wait_info", info_out, sizeof(size_t), sizeof(*info_out),
				error);
	if (rc == 0)
		rc = lk__client_check(lk__lock_client(lock), "lk_lock_wait_info", error);
	if (rc < 0)
		return rc;
	lk_wait_info info = {.struct_size = sizeof(info)};
	rc = lock_wait_info(lock, &info);
	if (rc == 1)
		lk__copy_sized(info_out, info_out->struct_size, &info, sizeof(info));
	return rc;
}
