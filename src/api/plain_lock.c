/* SPDX-License-Identifier: MIT */
/* The constructor of the plain lock. */
#include <lockkeeper/plain_lock.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "sync/recipes.h"

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
		rc = lk__entry_notify(lock->entry, own.notify, operation, error);
	if (rc == 0)
		*lock_out = lock;
	else
		lk_lock_free(lock);
	return rc;
}
