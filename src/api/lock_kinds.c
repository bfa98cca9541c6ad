/* SPDX-License-Identifier: MIT */
/* The constructors of the kinds of lock; all their calls are those of every lock (lock.c). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/fair_lock.h>
#include <lockkeeper/multi_lock.h>
#include <lockkeeper/plain_lock.h>
#include <lockkeeper/read_write_lock.h>
#include <lockkeeper/red_lock.h>
#include <lockkeeper/spin_lock.h>

#include "api/check.h"
#include "api/lock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/multi.h"
#include "lock/red.h"
#include "sync/foreign/foreign.h"
#include "sync/recipes.h"

/* ---- the fair lock ---- */

int lk_fair_lock_new(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		     lk_error *error)
{
	const char *operation = "lk_fair_lock_new";
	int rc = lk__name_check_slot(client, name, &name_size, LK__FAIR_QUEUE_PREFIX, operation,
				     error);
	return rc < 0 ? rc
		      : lk__lock_make(lock_out, client, &lk__fair_recipe, name, name_size, NULL,
				      operation, error);
}

/* ---- the plain lock ---- */

static int notify_fail(enum lk__notify_made made, const char *operation, const char *text,
		       const char *form, lk_error *error)
{
	if (made == LK__NOTIFY_NO_MEMORY)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	if (made == LK__NOTIFY_OTHER_KEY)
		return lk__fail(error, LK_EINVAL,
				"%s: notify \"%.100s\": its locks have keys of the form %s",
				operation, text, form);
	return lk__fail(
		error, LK_EINVAL,
		"%s: notify \"%.100s\" is neither a library nor publish CHANNEL MESSAGE nor "
		"push LIST MESSAGE MS",
		operation, text);
}

/* Sets what else a release of the plain lock tells: 0, or a code. It is the same for all handles of
 * the name in the client. */
static int entry_notify(struct lk__entry *entry, const char *text, const char *operation,
			lk_error *error)
{
	struct lk__notify *notify = NULL, *first = NULL;
	const char *form = NULL;
	const struct lk__target *target = &entry->target;
	enum lk__notify_made made = lk__notify_new(&notify, text, target->key, target->key_size,
						   &form);
	if (made != LK__NOTIFY_MADE)
		return notify_fail(made, operation, text, form, error);
	if (atomic_compare_exchange_strong(&entry->target.notify, &first, notify))
		return 0;
	lk__notify_free(notify);
	if (strcmp(first->text, text) == 0)
		return 0;
	return lk__fail(error, LK_EINVAL,
			"%s: notify \"%.100s\": another handle of this lock notifies \"%.100s\"",
			operation, text, first->text);
}

int lk_plain_lock_new(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		      const lk_plain_lock_options *options, lk_error *error)
{
	const char *operation = "lk_plain_lock_new";
	lk_plain_lock_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0 && own.poll_ms)
		rc = LK__CHECK(operation, error, {LK__POLL, own.poll_ms});
	if (rc < 0)
		return rc;
	struct lk__settings settings = {.poll_ms = own.poll_ms};
	lk_lock *lock = NULL;
	rc = lk__lock_make(lock_out ? &lock : NULL, client, &lk__plain_recipe, name, name_size,
			   &settings, operation, error);
	if (rc == 0 && own.notify)
		rc = entry_notify(lock->entry, own.notify, operation, error);
	if (rc == 0)
		*lock_out = lock;
	else
		lk_lock_free(lock);
	return rc;
}

/* ---- the spin lock ---- */

/* Redisson's. */
#define SPIN_MIN_DEFAULT_MS 1
#define SPIN_MAX_DEFAULT_MS 128
#define SPIN_FACTOR_DEFAULT 2

static int spin_check(const char *operation, const lk_spin_lock_options *options, lk_error *error)
{
	int64_t min_ms = options->spin_min_ms, max_ms = options->spin_max_ms;
	int rc = LK__CHECK(operation, error, {LK__SPIN_MIN, min_ms}, {LK__SPIN_MAX, max_ms});
	if (rc == 0 && max_ms && min_ms > max_ms)
		rc = lk__fail(error, LK_EINVAL,
			      "%s: spin_min_ms is %" PRId64 ", spin_max_ms only %" PRId64,
			      operation, min_ms, max_ms);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__SPIN_FACTOR, options->spin_factor});
	return rc;
}

int lk_spin_lock_new(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		     const lk_spin_lock_options *options, lk_error *error)
{
	const char *operation = "lk_spin_lock_new";
	lk_spin_lock_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = spin_check(operation, &own, error);
	if (rc < 0)
		return rc;
	struct lk__settings settings = {
		.spin_min_ms = own.spin_min_ms ? own.spin_min_ms : SPIN_MIN_DEFAULT_MS,
		.spin_max_ms = own.spin_max_ms ? own.spin_max_ms : SPIN_MAX_DEFAULT_MS,
		.spin_factor = own.spin_factor ? own.spin_factor : SPIN_FACTOR_DEFAULT,
	};
	if (settings.spin_min_ms > settings.spin_max_ms) {
		if (own.spin_min_ms)
			settings.spin_max_ms = settings.spin_min_ms;
		else
			settings.spin_min_ms = settings.spin_max_ms;
	}
	return lk__lock_make(lock_out, client, &lk__spin_recipe, name, name_size, &settings,
			     operation, error);
}

/* ---- the read/write lock ---- */

static int side_new(lk_lock **lock_out, lk_client *client, const struct lk__recipe *recipe,
		    const void *name, size_t name_size, const lk_read_write_options *options,
		    const char *operation, lk_error *error)
{
	lk_read_write_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = LK__CHECK(operation, error, {LK__PREFER_WRITERS, own.prefer_writers});
	if (rc == 0)
		rc = lk__name_check_slot(client, name, &name_size, LK__RW_WRITERS_PREFIX, operation,
					 error);
	if (rc < 0)
		return rc;
	struct lk__settings settings = {.flags = own.prefer_writers ? LK__RW_PREFER_WRITERS : 0};
	return lk__lock_make(lock_out, client, recipe, name, name_size, &settings, operation,
			     error);
}

int lk_read_lock_new(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		     const lk_read_write_options *options, lk_error *error)
{
	return side_new(lock_out, client, &lk__read_recipe, name, name_size, options,
			"lk_read_lock_new", error);
}

int lk_write_lock_new(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		      const lk_read_write_options *options, lk_error *error)
{
	return side_new(lock_out, client, &lk__write_recipe, name, name_size, options,
			"lk_write_lock_new", error);
}

/* ---- the multi lock ---- */

/* 0, or LK_EINVAL where the program drives one of the clients, and a thread the other. */
static int check_same_driver(const lk_client *client, const lk_client *first, const char *operation,
			     lk_error *error)
{
	return client->config->threadless == first->config->threadless
		       ? 0
		       : lk__fail(error, LK_EINVAL,
				  "%s: one client is threadless and another is not", operation);
}

static int multi_check(lk_lock *const *locks, size_t count, lk_error *error)
{
	int rc = LK__CHECK("lk_multi_lock_new", error, {LK__LOCKS, (int64_t)count});
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < count; i++) {
		if (!locks[i])
			return lk__fail(error, LK_EINVAL, "lk_multi_lock_new: lock %zu is NULL", i);
		if (lk__lock_multi(locks[i]) || lk__lock_recipe_of(locks[i]) != &lk__lock_recipe)
			return lk__fail(error, LK_EINVAL,
					"lk_multi_lock_new: lock %zu is a %s, not a lock", i,
					lk__lock_multi(locks[i])
						? "multi lock"
						: lk__lock_recipe_of(locks[i])->type);
		rc = lk__client_check(lk__lock_client(locks[i]), "lk_multi_lock_new", error);
		if (rc == 0)
			rc = check_same_driver(lk__lock_client(locks[i]), lk__lock_client(locks[0]),
					       "lk_multi_lock_new", error);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* By node and client, then name. */
static int part_compare(const void *first, const void *second)
{
	const struct lk__entry *a = *(struct lk__entry *const *)first;
	const struct lk__entry *b = *(struct lk__entry *const *)second;
	const struct lk__target *key = &a->target, *other = &b->target;
	int order = strcmp(a->client->config->url, b->client->config->url);
	if (order == 0)
		order = a->client->config->database - b->client->config->database;
	if (order == 0)
		order = strcmp(a->client->id, b->client->id);
	if (order == 0)
		order = key->slot - other->slot;
	if (order == 0)
		order = memcmp(key->key, other->key,
			       key->key_size < other->key_size ? key->key_size : other->key_size);
	return order ? order
		     : (key->key_size > other->key_size) - (key->key_size < other->key_size);
}

/* Tells whether both are one key of one server, as far as their URLs tell. */
static bool part_same(const struct lk__entry *a, const struct lk__entry *b)
{
	return strcmp(a->client->config->url, b->client->config->url) == 0 &&
	       a->client->config->database == b->client->config->database &&
	       a->target.key_size == b->target.key_size &&
	       memcmp(a->target.key, b->target.key, a->target.key_size) == 0;
}

/* Puts the parts in order. LK_EINVAL when one lock is named twice. */
static int multi_sort(struct lk__multi *multi, lk_error *error)
{
	qsort(multi->part, multi->count, sizeof(multi->part[0]), part_compare);
	for (size_t i = 1; i < multi->count; i++)
		for (size_t j = 0; j < i; j++)
			if (part_same(multi->part[i], multi->part[j]))
				return lk__fail(error, LK_EINVAL,
						"lk_multi_lock_new: \"%.100s\" on %.100s is named "
						"twice",
						multi->part[i]->name,
						multi->part[i]->client->config->url);
	return 0;
}

int lk_multi_lock_new(lk_lock **lock_out, lk_lock *const *locks, size_t count, lk_error *error)
{
	if (!lock_out || !locks)
		return lk__fail(error, LK_EINVAL, "lk_multi_lock_new: an argument is NULL");
	int rc = multi_check(locks, count, error);
	if (rc < 0)
		return rc;
	lk_lock *lock = calloc(1, sizeof(*lock));
	struct lk__multi *multi = calloc(1, sizeof(*multi));
	if (lock && multi) {
		multi->count = count;
		for (size_t i = 0; i < count; i++)
			multi->part[i] = locks[i]->entry;
		rc = multi_sort(multi, error);
	} else {
		rc = lk__fail(error, LK_ENOMEM, "lk_multi_lock_new: out of memory");
	}
	if (rc < 0) {
		free(lock);
		free(multi);
		return rc;
	}
	lk__multi_keep(multi);
	lock->multi = multi;
	lock->entry = multi->part[0];
	*lock_out = lock;
	return 0;
}

/* ---- the red lock ---- */

#define RETRY_MIN_MS 10
#define RETRY_MAX_MS 200

static int red_check(const char *operation, const lk_red_lock_options *options, lk_error *error)
{
	return LK__CHECK(
		operation, error, {LK__PLAIN, options->plain},
		{LK__QUARANTINE, options->quarantine_ms}, {LK__NODE_LIMIT, options->node_limit_ms},
		{LK__RETRY_MIN, options->retry_min_ms}, {LK__RETRY_MAX, options->retry_max_ms});
}

static int red_check_clients(lk_client *const *clients, size_t count, const void *name,
			     size_t *name_size, lk_error *error)
{
	if (!clients)
		return lk__fail(error, LK_EINVAL, "lk_red_lock_new: an argument is NULL");
	int rc = LK__CHECK("lk_red_lock_new", error, {LK__NODES, (int64_t)count});
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < count; i++) {
		rc = lk__name_check(clients[i], name, name_size, "lk_red_lock_new", error);
		if (rc == 0)
			rc = check_same_driver(clients[i], clients[0], "lk_red_lock_new", error);
		if (rc < 0)
			return rc;
		for (size_t j = 0; j < i; j++)
			if (strcmp(clients[i]->config->url, clients[j]->config->url) == 0)
				return lk__fail(error, LK_EINVAL,
						"lk_red_lock_new: %.200s is named twice",
						clients[i]->config->url);
	}
	return 0;
}

int lk_red_lock_new(lk_lock **lock_out, lk_client *const *clients, size_t count, const void *name,
		    size_t name_size, const lk_red_lock_options *options, lk_error *error)
{
	const char *operation = "lk_red_lock_new";
	lk_red_lock_options own;
	lk_lock *lock = NULL;
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = red_check(operation, &own, error);
	if (rc == 0)
		rc = red_check_clients(clients, count, name, &name_size, error);
	if (rc == 0 && !lock_out)
		rc = lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	if (rc < 0)
		return rc;
	struct lk__settings settings = {
		.spin_min_ms = own.retry_min_ms ? own.retry_min_ms : RETRY_MIN_MS,
		.spin_max_ms = own.retry_max_ms ? own.retry_max_ms : RETRY_MAX_MS,
		.spin_factor = 2,
	};
	if (settings.spin_max_ms < settings.spin_min_ms)
		settings.spin_max_ms = settings.spin_min_ms;
	rc = lk__lock_make(&lock, clients[0], &lk__red_recipe, name, name_size, &settings,
			   operation, error);
	if (rc == 0)
		rc = lk__red_make(lock->entry, clients, count,
				  own.plain ? &lk__plain_recipe : &lk__lock_recipe,
				  own.quarantine_ms, own.node_limit_ms, error);
	if (rc < 0) {
		lk_lock_free(lock);
		return rc;
	}
	*lock_out = lock;
	return 0;
}
