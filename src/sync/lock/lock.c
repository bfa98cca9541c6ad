#include "sync/lock/lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/error.h>

struct number {
	char text[24];
};

static const char *decimal(struct number *number, int64_t value)
{
	snprintf(number->text, sizeof(number->text), "%" PRId64, value);
	return number->text;
}

static struct lk__request *lock_acquire(const struct lk__target *target, const char *field,
					int64_t lease_ms, int64_t deadline_us)
{
	struct number lease, deadline;
	const char *argv[] = {target->key, field, decimal(&lease, lease_ms),
			      decimal(&deadline, deadline_us)};
	size_t sizes[] = {target->key_size, strlen(field), strlen(argv[2]), strlen(argv[3])};
	return lk__request_script(LK__SCRIPT_LOCK_ACQUIRE, 1, 4, argv, sizes);
}

static struct lk__request *lock_release(const struct lk__target *target, const char *field)
{
	const char *argv[] = {target->key, field, target->channel};
	size_t sizes[] = {target->key_size, strlen(field), target->channel_size};
	return lk__request_script(LK__SCRIPT_LOCK_RELEASE, 1, 3, argv, sizes);
}

static struct lk__request *lock_exchange(const struct lk__target *target, const char *from,
					 const char *to, int64_t lease_ms, int64_t deadline_us)
{
	struct number lease, deadline;
	const char *argv[] = {target->key,
			      from,
			      to,
			      decimal(&lease, lease_ms),
			      decimal(&deadline, deadline_us),
			      target->channel};
	size_t sizes[] = {target->key_size, strlen(from),    strlen(to),
			  strlen(argv[3]),  strlen(argv[4]), target->channel_size};
	return lk__request_script(LK__SCRIPT_LOCK_EXCHANGE, 1, 6, argv, sizes);
}

static struct lk__request *lock_force(const struct lk__target *target)
{
	const char *argv[] = {target->key, target->channel};
	size_t sizes[] = {target->key_size, target->channel_size};
	return lk__request_script(LK__SCRIPT_LOCK_FORCE_RELEASE, 1, 2, argv, sizes);
}

static struct lk__request *lock_renew(const struct lk__renewal *renewals, size_t count)
{
	const char **argv = calloc(3 * count, sizeof(*argv));
	size_t *sizes = calloc(3 * count, sizeof(*sizes));
	struct number *leases = calloc(count, sizeof(*leases));
	struct lk__request *request = NULL;
	if (argv && sizes && leases) {
		for (size_t i = 0; i < count; i++) {
			argv[i] = renewals[i].target->key;
			sizes[i] = renewals[i].target->key_size;
			argv[count + 2 * i] = renewals[i].field;
			sizes[count + 2 * i] = strlen(renewals[i].field);
			argv[count + 2 * i + 1] = decimal(&leases[i], renewals[i].lease_ms);
			sizes[count + 2 * i + 1] = strlen(leases[i].text);
		}
		request = lk__request_script(LK__SCRIPT_LOCK_RENEW, count, 3 * count, argv, sizes);
	}
	free(argv);
	free(sizes);
	free(leases);
	return request;
}

static struct lk__acquire_event lock_read_refusal(const struct lk__request *request)
{
	if (request->code == LK_EMAYBEHELD)
		return (struct lk__acquire_event){.type = LK__ACQUIRE_UNKNOWN};
	/* OOM and the like fail fast: trying again would only add to it. */
	bool retryable = lk_error_is_retryable(request->code) && request->code != LK_EREFUSED;
	return (struct lk__acquire_event){
		.type = LK__ACQUIRE_FAILED, .code = request->code, .retryable = retryable};
}

static struct lk__acquire_event lock_read_acquire(const struct lk__request *request,
						  int64_t *server_us)
{
	const redisReply *reply = request->reply;
	if (request->code)
		return lock_read_refusal(request);
	if (reply->type == REDIS_REPLY_NIL)
		return (struct lk__acquire_event){.type = LK__ACQUIRE_GRANTED};
	if (reply->type == REDIS_REPLY_INTEGER)
		return (struct lk__acquire_event){.type = LK__ACQUIRE_BUSY,
						  .ttl_ms = reply->integer};
	if (reply->type == REDIS_REPLY_STATUS && strncmp(reply->str, "LATE ", 5) == 0) {
		*server_us = strtoll(reply->str + 5, NULL, 10);
		return (struct lk__acquire_event){.type = LK__ACQUIRE_LATE};
	}
	return (struct lk__acquire_event){.type = LK__ACQUIRE_UNKNOWN};
}

static enum lk__released lock_read_release(const struct lk__request *request, int64_t *listeners)
{
	if (request->code)
		return LK__RELEASED_FAILED;
	if (request->reply->type == REDIS_REPLY_NIL)
		return LK__RELEASED_NOT_OWNER;
	*listeners = request->reply->integer;
	return LK__RELEASED;
}

static enum lk__exchanged lock_read_exchange(const struct lk__request *request)
{
	const redisReply *reply = request->reply;
	if (request->code)
		return request->code == LK_EMAYBEHELD ? LK__EXCHANGE_UNKNOWN
						      : LK__EXCHANGE_NOT_DONE;
	if (reply->type == REDIS_REPLY_NIL)
		return LK__EXCHANGED;
	if (reply->type == REDIS_REPLY_INTEGER)
		return LK__EXCHANGE_NOT_OWNER;
	if (reply->type == REDIS_REPLY_STATUS && strncmp(reply->str, "FREED", 5) == 0)
		return LK__EXCHANGE_FREED;
	return LK__EXCHANGE_NOT_DONE;
}

const struct lk__recipe lk__lock_recipe = {
	.type = "lock",
	.acquire = lock_acquire,
	.release = lock_release,
	.exchange = lock_exchange,
	.force = lock_force,
	.renew = lock_renew,
	.read_acquire = lock_read_acquire,
	.read_release = lock_read_release,
	.read_exchange = lock_read_exchange,
};
