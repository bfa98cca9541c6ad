/* SPDX-License-Identifier: MIT */
/* The constructor of the multi lock. */
#include <lockkeeper/multi_lock.h>

#include <stdlib.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "drive/many/multi.h"
#include "sync/recipes.h"

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
			rc = lk__check_same_driver(lk__lock_client(locks[i]),
						   lk__lock_client(locks[0]), "lk_multi_lock_new",
						   error);
		if (rc < 0)
			return rc;
	}
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
		rc = lk__multi_sort(multi, error);
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
