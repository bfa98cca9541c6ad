#include "api/counter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/loop.h"
#include "sync/script.h"
#include "sync/semaphore/semaphore.h"

int lk__counter_open(struct lk__counter *counter, lk_client *client,
		     const struct lk__recipe *recipe, const void *name, size_t name_size,
		     const char *operation, lk_error *error)
{
	int rc = lk__name_check_slot(client, name, name_size, operation, error);
	if (rc == 0)
		rc = lk__entry_get(&counter->entry, client, recipe, name, name_size, NULL, error);
	if (rc < 0)
		return rc;
	counter->client = client;
	lk__client_ref(client);
	return 0;
}

void lk__counter_close(struct lk__counter *counter)
{
	if (lk__client_forked(counter->client))
		return;
	lk__entry_unref(counter->entry);
	lk__client_unref(counter->client);
}

int lk__counter_enter(struct lk__counter_call *call, struct lk__counter *counter,
		      const char *operation, lk_error *error)
{
	call->counter = counter;
	call->operation = operation;
	call->error = error;
	if (!counter)
		return lk__fail(error, LK_EINVAL, "%s: the handle is NULL", operation);
	return lk__enter(counter->client, operation, &call->thread, &call->saved, error);
}

int lk__counter_leave(struct lk__counter_call *call, int rc)
{
	lk__leave(call->saved);
	return rc;
}

int lk__counter_check(const char *operation, const char *what, int64_t number, int64_t least,
		      int64_t most, lk_error *error)
{
	if (number >= least && number <= most)
		return 0;
	return lk__fail(error, LK_EINVAL, "%s: %s is %" PRId64 ", not %" PRId64 " … %" PRId64,
			operation, what, number, least, most);
}

static int64_t counter_until_ns(const struct lk__counter *counter)
{
	return lk__after_ms(lk__now_ns(), counter->client->config->command_timeout_ms);
}

int lk__counter_ask(struct lk__counter_call *call, struct lk__request *request,
		    struct lk__request **answer_out)
{
	int rc = lk__caller_ask(call->counter->entry, call->thread, request, call->operation,
				counter_until_ns(call->counter), call->error);
	if (rc != LK__WAIT_READY)
		return rc;
	*answer_out = request;
	return 0;
}

static struct lk__request *change_request(const struct lk__counter *counter, const char *field,
					  uint64_t settled, const struct lk__change *change,
					  int64_t deadline_us)
{
	const struct lk__target *target = &counter->entry->target;
	size_t size, settled_size;
	char *record = lk__record_key(target, field, &size);
	char *other = settled ? lk__record_key_of(target, field, settled, &settled_size) : NULL;
	struct lk__words words = {0};
	lk__words_add(&words, target->key, target->key_size);
	lk__words_add(&words, record, size);
	lk__words_add(&words, other ? other : record, other ? settled_size : size);
	if (change->key)
		lk__words_add(&words, change->key, change->key_size);
	size_t keys = words.count;
	lk__words_number(&words, deadline_us);
	lk__words_add(&words, target->channel, target->channel_size);
	for (size_t i = 0; i < change->argument_count; i++)
		lk__words_text(&words, change->arguments[i]);
	struct lk__request *request = lk__words_script(&words, change->script, keys);
	free(record);
	free(other);
	return request;
}

/* What a reply without an integer says; LK_OK when the request is to be made anew. */
static int change_refused(struct lk__counter_call *call, const redisReply *reply, bool again)
{
	struct lk__entry *entry = call->counter->entry;
	int64_t server_us = 0;
	if (lk__reply_late(reply, &server_us)) {
		lk__node_learn_time(entry->node, server_us, lk__now_ns());
		return again ? LK_OK
			     : lk__fail(call->error, LK_EUNAVAILABLE,
					"%s \"%.100s\": the server's clock jumps", call->operation,
					entry->name);
	}
	if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OVERFLOW") == 0)
		return lk__fail(call->error, LK_EINVAL,
				"%s \"%.100s\": the count would leave its range (%" PRId32
				" … %" PRId32 ")",
				call->operation, entry->name, INT32_MIN, INT32_MAX);
	return lk__fail(call->error, LK_EPROTOCOL, "%s \"%.100s\": an answer that makes no sense",
			call->operation, entry->name);
}

int lk__counter_change(struct lk__counter_call *call, const struct lk__change *change,
		       int64_t *answer_out)
{
	struct lk__counter *counter = call->counter;
	struct lk__entry *entry = counter->entry;
	uint64_t number = atomic_fetch_add(&counter->client->last_number, 1) + 1;
	char field[LK__FIELD_SIZE];
	snprintf(field, sizeof(field), "%s:%" PRIu64, counter->client->id, number);
	uint64_t settled = atomic_exchange(&counter->settled, 0);
	int rc = LK_OK;
	for (int asked = 0; asked < 2; asked++) {
		int64_t deadline_us = lk__node_server_us(entry->node, counter_until_ns(counter));
		struct lk__request *answer = NULL;
		struct lk__request *request = change_request(counter, field, settled, change,
							     deadline_us);
		rc = lk__counter_ask(call, request, &answer);
		if (rc < 0)
			return rc;
		bool integer = answer->reply->type == REDIS_REPLY_INTEGER;
		if (integer) {
			*answer_out = answer->reply->integer;
			if (answer->sends == 1) /* else a copy may still run */
				atomic_store(&counter->settled, number);
		} else {
			rc = change_refused(call, answer->reply, asked == 0);
		}
		lk__request_free(answer);
		if (integer || rc < 0)
			break;
	}
	return rc;
}

static int counter_read(struct lk__counter_call *call, const redisReply *reply, int64_t *count_out)
{
	const char *text = reply->type == REDIS_REPLY_STRING ? reply->str : "0";
	char *end;
	errno = 0;
	int64_t count = strtoll(text, &end, 10);
	if (errno || end == text || *end)
		return lk__fail(call->error, LK_EWRONGTYPE,
				"%s \"%.100s\": the key is a string that is no count, not a %s",
				call->operation, call->counter->entry->name,
				call->counter->entry->recipe->type);
	*count_out = count;
	return 0;
}

int lk__counter_get(struct lk__counter_call *call, int64_t *count_out)
{
	const struct lk__entry *entry = call->counter->entry;
	struct lk__request *answer = NULL;
	int rc = lk__counter_ask(call,
				 lk__request_new(2, (const char *[]){"GET", entry->target.key},
						 (size_t[]){3, entry->target.key_size}),
				 &answer);
	if (rc == LK_EWRONGTYPE)
		return lk__fail(call->error, rc, "%s \"%.100s\": the key is no string, not a %s",
				call->operation, entry->name, entry->recipe->type);
	if (rc == LK_EMAYBEHELD)
		return lk__fail(call->error, LK_EUNREACHABLE,
				"%s: no answer within the command limit", call->operation);
	if (rc < 0)
		return rc;
	rc = counter_read(call, answer->reply, count_out);
	lk__request_free(answer);
	return rc;
}

int lk__counter_acquire(struct lk__counter_call *call, struct lk__want *want)
{
	struct lk__counter *counter = call->counter;
	int rc = lk__loop_start(counter->client, call->error);
	want->owner = (struct lk__owner){.serial = call->thread->serial};
	if (rc == 0)
		rc = lk__caller_acquire(counter->entry, call->thread, want, call->error);
	if (want->count && (rc == LK_EBUSY || rc == LK_ETIMEDOUT))
		lk__fail(call->error, rc, "acquire %" PRId64 " of \"%.100s\": too few are free%s",
			 want->count, counter->entry->name,
			 rc == LK_ETIMEDOUT ? ", and the wait limit is reached" : "");
	return rc;
}
