/* SPDX-License-Identifier: MIT */
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
	int rc = lk__name_check_slot(client, name, &name_size, operation, error);
	if (rc == 0)
		rc = lk__entry_get(&counter->entry, client, recipe, name, name_size, NULL, error);
	if (rc < 0)
		return rc;
	counter->client = client;
	lk__client_ref(client);
	pthread_mutex_init(&counter->mutex, NULL);
	return 0;
}

void lk__counter_close(struct lk__counter *counter)
{
	free(counter->settled);
	if (lk__client_forked(counter->client))
		return;
	pthread_mutex_destroy(&counter->mutex);
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

/* A change whose record the next one deletes along with its own work; 0: none is known. */
static uint64_t counter_settled(struct lk__counter *counter)
{
	pthread_mutex_lock(&counter->mutex);
	size_t count = counter->settled_count;
	uint64_t number = count ? counter->settled[--counter->settled_count] : 0;
	pthread_mutex_unlock(&counter->mutex);
	return number;
}

/* Without memory for it the record stays until its time to live is over. */
static void counter_settle(struct lk__counter *counter, uint64_t number)
{
	pthread_mutex_lock(&counter->mutex);
	if (counter->settled_count == counter->settled_room) {
		size_t room = 2 * counter->settled_room + 1;
		uint64_t *larger = realloc(counter->settled, room * sizeof(*larger));
		if (larger) {
			counter->settled = larger;
			counter->settled_room = room;
		}
	}
	if (counter->settled_count < counter->settled_room)
		counter->settled[counter->settled_count++] = number;
	pthread_mutex_unlock(&counter->mutex);
}

/* A request's deadline is told in the server's time, which is known once there is a connection. */
static int counter_connect(struct lk__counter_call *call)
{
	const struct lk__entry *entry = call->counter->entry;
	lk_error why = {.code = LK_EUNREACHABLE,
			.message = "no connection within the command limit"};
	int rc = lk__conn_ready(entry->scripts, call->thread, false,
				counter_until_ns(call->counter), NULL, &why);
	if (rc == LK__WAIT_READY)
		return 0;
	if (rc == LK_ECLOSED)
		return lk__fail(call->error, rc, "%s \"%.100s\": %s", call->operation, entry->name,
				lk_error_text(rc));
	return lk__fail(call->error, why.code, "%s \"%.100s\" on %.100s: %.300s", call->operation,
			entry->name, call->counter->client->config->url, why.message);
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
	lk__words_own(&words, record, size);
	if (other)
		lk__words_own(&words, other, settled_size);
	else
		lk__words_add(&words, record, size);
	if (change->key)
		lk__words_add(&words, change->key, change->key_size);
	size_t keys = words.count;
	lk__words_number(&words, deadline_us);
	lk__words_add(&words, target->channel, target->channel_size);
	for (size_t i = 0; i < change->argument_count; i++)
		lk__words_text(&words, change->arguments[i]);
	return lk__words_script(&words, change->script, keys);
}

/* What a reply without an integer says; LK_OK when the request is to be made anew: under the same
 * number, so that what an earlier copy has done is found. */
static int change_refused(struct lk__counter_call *call, const redisReply *reply, bool again)
{
	struct lk__entry *entry = call->counter->entry;
	int64_t server_us = 0;
	bool late = lk__reply_late(reply, &server_us);
	if (late)
		lk__node_learn_time(entry->node, server_us, lk__now_ns());
	if (late && again)
		return LK_OK;
	if (late)
		return lk__fail(call->error, LK_EUNAVAILABLE,
				"%s \"%.100s\": the server's clock jumps", call->operation,
				entry->name);
	if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OVERFLOW") == 0)
		return lk__fail(call->error, LK_EINVAL,
				"%s \"%.100s\": the count would leave its range (%" PRId32
				" … %" PRId32 ")",
				call->operation, entry->name, INT32_MIN, INT32_MAX);
	return lk__fail(call->error, LK_EPROTOCOL, "%s \"%.100s\": unexpected reply",
			call->operation, entry->name);
}

/* One change on its way. */
struct changing {
	const struct lk__change *change;
	uint64_t number;
	uint64_t settled;
	bool copied; /* a copy of it may have run that nobody has heard of */
	int64_t answer;
};

/* One request: 1 answered with a number, 0 to be made anew, or a code. */
static int change_ask(struct lk__counter_call *call, struct changing *changing, bool again)
{
	struct lk__counter *counter = call->counter;
	struct lk__request *answer = NULL;
	char field[LK__FIELD_SIZE];
	snprintf(field, sizeof(field), "%s:%" PRIu64, counter->client->id, changing->number);
	int64_t deadline_us = lk__node_server_us(counter->entry->node, counter_until_ns(counter));
	int rc = lk__counter_ask(
		call,
		change_request(counter, field, changing->settled, changing->change, deadline_us),
		&answer);
	if (rc < 0)
		return rc;
	changing->copied |= lk__reply_is_of_copy(answer);
	if (answer->reply->type == REDIS_REPLY_INTEGER) {
		changing->answer = answer->reply->integer;
		rc = 1;
	} else {
		rc = change_refused(call, answer->reply, again);
	}
	lk__request_free(answer);
	return rc;
}

int lk__counter_change(struct lk__counter_call *call, const struct lk__change *change,
		       int64_t *answer_out)
{
	struct lk__counter *counter = call->counter;
	struct changing changing = {
		.change = change,
		.number = atomic_fetch_add(&counter->client->last_number, 1) + 1,
		.settled = counter_settled(counter),
	};
	int rc = counter_connect(call);
	if (rc == 0)
		rc = change_ask(call, &changing, true);
	if (rc == 0)
		rc = change_ask(call, &changing, false);
	if (rc < 0 && changing.settled) /* nothing says that its record was deleted */
		counter_settle(counter, changing.settled);
	if (rc < 0)
		return changing.copied ? lk__fail(call->error, LK_EMAYBEHELD,
						  "%s \"%.100s\": refused, but an earlier copy of "
						  "the request may have run",
						  call->operation, counter->entry->name)
				       : rc;
	if (!changing.copied) /* else the record of it is still needed */
		counter_settle(counter, changing.number);
	*answer_out = changing.answer;
	return 0;
}

static int counter_read(struct lk__counter_call *call, const redisReply *reply, int64_t *count_out)
{
	const char *text = reply->type == REDIS_REPLY_STRING ? reply->str : "0";
	char *end;
	errno = 0;
	int64_t count = strtoll(text, &end, 10);
	if (errno || end == text || *end)
		return lk__fail(call->error, LK_EWRONGTYPE,
				"%s \"%.100s\": the key is a string that is not a count, not a %s",
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
		return lk__fail(call->error, rc,
				"%s \"%.100s\": the key is not a string, so not a %s",
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
