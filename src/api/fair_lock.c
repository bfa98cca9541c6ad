/* SPDX-License-Identifier: MIT */
/* The constructor of the fair lock; all its calls are those of every lock. */
#include <lockkeeper/fair_lock.h>

#include "api/lock_handle.h"
#include "base/fail.h"
#include "sync/recipes.h"

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
