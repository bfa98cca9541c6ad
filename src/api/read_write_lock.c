/* SPDX-License-Identifier: MIT */
#include <lockkeeper/read_write_lock.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "sync/recipes.h"

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
