/* SPDX-License-Identifier: MIT */
#include <lockkeeper/spin_lock.h>

#include <inttypes.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "sync/recipes.h"

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
