/* SPDX-License-Identifier: MIT */
/* The constructor of the red lock. */
#include <lockkeeper/red_lock.h>

#include <string.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/many/red.h"
#include "sync/recipes.h"

#define RETRY_MIN_MS 10
#define RETRY_MAX_MS 200

static int check_options(const char *operation, const lk_red_lock_options *options, lk_error *error)
{
	int rc = LK__CHECK(
		operation, error, {LK__PLAIN, options->plain},
		{LK__QUARANTINE, options->quarantine_ms}, {LK__NODE_LIMIT, options->node_limit_ms},
		{LK__RETRY_MIN, options->retry_min_ms}, {LK__RETRY_MAX, options->retry_max_ms});
	return rc;
}

static int check_clients(lk_client *const *clients, size_t count, const void *name,
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
			rc = lk__check_same_driver(clients[i], clients[0], "lk_red_lock_new",
						   error);
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
		rc = check_options(operation, &own, error);
	if (rc == 0)
		rc = check_clients(clients, count, name, &name_size, error);
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
