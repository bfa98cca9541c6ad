/* SPDX-License-Identifier: MIT */
/* The fenced lock's constructor, and its tokens at resources in Redis. */
#include <lockkeeper/fenced_lock.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/lock.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/operation.h"
#include "sync/recipes.h"

int lk_fenced_lock_new(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		       const lk_fenced_lock_options *options, lk_error *error)
{
	const char *operation = "lk_fenced_lock_new";
	lk_fenced_lock_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc == 0)
		rc = lk__name_check_slot(client, name, &name_size,
					 own.share_java ? LK__FENCE_JAVA_PREFIX : LK__FENCE_PREFIX,
					 operation, error);
	if (rc < 0)
		return rc;
	return lk__lock_make(lock_out, client,
			     own.share_java ? &lk__fenced_java_recipe : &lk__fenced_recipe, name,
			     name_size, NULL, operation, error);
}

/* ---- tokens at a resource ---- */

static int fence_check_arguments(const char *operation, const struct lk__fence_check *check,
				 lk_error *error)
{
	if (check->token == 0 || check->token > LK_FENCE_TOKEN_MAX)
		return lk__fail(error, LK_EINVAL, "%s: the token is %" PRIu64 ", not 1 … %" PRIu64,
				operation, check->token, LK_FENCE_TOKEN_MAX);
	int rc = LK__CHECK(operation, error, {LK__TOKEN_TTL, check->ttl_ms});
	if (rc == 0 && check->value_size > LK_FENCE_VALUE_SIZE_MAX)
		rc = lk__fail(error, LK_EINVAL, "%s: the value has %zu bytes, at most %d fit",
			      operation, check->value_size, LK_FENCE_VALUE_SIZE_MAX);
	return rc;
}

static int fence_read(const struct lk__request *request, const char *operation, uint64_t token,
		      uint64_t *newest_out, lk_error *error)
{
	uint64_t newest = lk__fence_read_check(request->reply);
	if (newest && newest_out)
		*newest_out = newest;
	return newest ? lk__fail(error, LK_ESTALE,
				 "%s: the token is %" PRIu64 ", and %" PRIu64 " has been seen",
				 operation, token, newest)
		      : 0;
}

/* One round trip; `check` has all but the key's prefix. */
static int fence_ask(lk_client *client, const char *operation, struct lk__fence_check *check,
		     uint64_t *newest_out, lk_error *error)
{
	struct lk__thread *thread;
	int saved;
	size_t size;
	char *key = lk__key_new(client, check->key, check->key_size, &size);
	if (!key)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	check->key = key;
	check->key_size = size;
	check->client = client->id;
	check->number = atomic_fetch_add(&client->last_number, 1) + 1;
	int rc = lk__enter(client, operation, &thread, &saved, error);
	if (rc == 0) {
		struct lk__node *node = lk__topo_node_of(client->topo, key, size);
		struct lk__request *request = lk__fence_check(check);
		int64_t until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
		rc = lk__ask(client, lk__node_scripts(node), thread, request, operation, until_ns,
			     error);
		if (rc == LK__WAIT_READY) {
			rc = fence_read(request, operation, check->token, newest_out, error);
			lk__request_free(request);
		}
		lk__leave(saved);
	}
	free(key);
	return rc;
}

static int fence_call(lk_client *client, const char *operation, struct lk__fence_check *check,
		      const lk_fence_options *options, uint64_t *newest_out, lk_error *error)
{
	lk_fence_options own;
	int rc = lk__copy_options(&own, sizeof(own), options, operation, error);
	if (rc < 0)
		return rc;
	check->ttl_ms = own.ttl_ms;
	rc = lk__name_check(client, check->key, &check->key_size, operation, error);
	if (rc == 0)
		rc = fence_check_arguments(operation, check, error);
	return rc < 0 ? rc : fence_ask(client, operation, check, newest_out, error);
}

int lk_fence_check(lk_client *client, const void *key, size_t key_size, uint64_t token,
		   const lk_fence_options *options, uint64_t *newest_out, lk_error *error)
{
	struct lk__fence_check check = {.key = key, .key_size = key_size, .token = token};
	return fence_call(client, "lk_fence_check", &check, options, newest_out, error);
}

int lk_fence_write(lk_client *client, const void *key, size_t key_size, uint64_t token,
		   const void *value, size_t value_size, const lk_fence_options *options,
		   uint64_t *newest_out, lk_error *error)
{
	struct lk__fence_check check = {.key = key,
					.key_size = key_size,
					.token = token,
					.value = value ? value : "",
					.value_size = value_size};
	if (!value && value_size)
		return lk__fail(error, LK_EINVAL, "lk_fence_write: value is NULL");
	return fence_call(client, "lk_fence_write", &check, options, newest_out, error);
}
