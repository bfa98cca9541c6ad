/* SPDX-License-Identifier: MIT */
#include "drive/count/counter.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/lock/acquire.h"
#include "resp/reply.h"
#include "drive/lock/ask.h"
#include "sync/recipes.h"
#include "sync/script.h"

/* ---- counters ---- */

struct lk__counter *lk__counter_new(struct lk__entry *entry)
{
	struct lk__counter *counter = calloc(1, sizeof(*counter));
	if (!counter)
		return NULL;
	atomic_init(&counter->refs, 1);
	counter->client = entry->client;
	counter->entry = entry;
	lk__client_ref(entry->client);
	lk__entry_ref(entry);
	pthread_mutex_init(&counter->mutex, NULL);
	return counter;
}

void lk__counter_ref(struct lk__counter *counter)
{
	atomic_fetch_add(&counter->refs, 1);
}

void lk__counter_unref(struct lk__counter *counter)
{
	size_t refs = atomic_fetch_sub(&counter->refs, 1);
	assert(refs > 0);
	if (refs > 1)
		return;
	if (!lk__client_forked(counter->client)) {
		pthread_mutex_destroy(&counter->mutex);
		lk__entry_unref(counter->entry);
		lk__client_unref(counter->client);
	}
	free(counter->settled);
	free(counter);
}

int64_t lk__counter_until_ns(const struct lk__entry *entry)
{
	return lk__after_ms(lk__now_ns(), entry->client->config->command_timeout_ms);
}

int lk__counter_unconnected(const struct lk__entry *entry, const char *operation, int rc,
			    const lk_error *why, lk_error *error)
{
	if (rc == LK_ECLOSED)
		return lk__fail(error, rc, "%s \"%.100s\": %s", operation, entry->name,
				lk_error_text(rc));
	if (rc == LK__WAIT_TIME_UP)
		return lk__fail(error, LK_EUNREACHABLE,
				"%s \"%.100s\" on %.100s: no connection within the command limit",
				operation, entry->name, entry->client->config->url);
	return lk__fail(error, why->code, "%s \"%.100s\" on %.100s: %.300s", operation, entry->name,
			entry->client->config->url, why->message);
}

/* ---- records that can go ---- */

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
	assert(number != 0);
	pthread_mutex_lock(&counter->mutex);
	assert(counter->settled_count <= counter->settled_room);
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

/* ---- changes ---- */

void lk__change_add_text(struct lk__change *change, const char *text)
{
	assert(change->argument_count < LK__CHANGE_ARGUMENTS_MAX);
	assert(strlen(text) < LK__CHANGE_ARGUMENT_SIZE);
	snprintf(change->arguments[change->argument_count++], LK__CHANGE_ARGUMENT_SIZE, "%s", text);
}

void lk__change_add_number(struct lk__change *change, int64_t number)
{
	assert(change->argument_count < LK__CHANGE_ARGUMENTS_MAX);
	snprintf(change->arguments[change->argument_count++], LK__CHANGE_ARGUMENT_SIZE, "%" PRId64,
		 number);
}

void lk__change_begin(struct lk__changing *changing, struct lk__counter *counter,
		      const struct lk__change *change, const char *operation)
{
	*changing = (struct lk__changing){
		.counter = counter,
		.operation = operation,
		.change = *change,
		.number = atomic_fetch_add(&counter->client->last_number, 1) + 1,
		.settled = counter_settled(counter),
	};
}

struct lk__request *lk__change_request(const struct lk__changing *changing)
{
	const struct lk__change *change = &changing->change;
	const struct lk__entry *entry = changing->counter->entry;
	const struct lk__target *target = &entry->target;
	struct lk__words words = {0};
	char field[LK__FIELD_SIZE];
	size_t size;
	assert(changing->number != 0 && changing->number != changing->settled);
	lk__field_of(entry->client->id, changing->number, field);
	char *record = lk__record_key(target, field, &size);
	lk__words_add(&words, target->key, target->key_size);
	lk__words_own(&words, record, size);
	if (changing->settled) {
		size_t other_size;
		char *other = lk__record_key_of(target, field, changing->settled, &other_size);
		lk__words_own(&words, other, other_size);
	} else {
		lk__words_add(&words, record, size);
	}
	if (change->permits) {
		char *in_use = lk__permits_key(target, &size);
		lk__words_own(&words, in_use, size);
	}
	size_t keys = words.count;
	lk__words_deadline(&words);
	lk__words_channel(&words, target);
	for (size_t i = 0; i < change->argument_count; i++)
		lk__words_text(&words, change->arguments[i]);
	lk__words_number(&words, changing->counter->ttl_ms);
	return lk__words_script(&words, change->script, keys);
}

/* What a reply without an integer says; LK_OK when the request is to be made anew: under the same
 * number, so that what an earlier copy has done is found. */
static int change_refused(struct lk__changing *changing, const struct lk__request *request,
			  lk_error *error)
{
	const struct lk__entry *entry = changing->counter->entry;
	const redisReply *reply = request->reply;
	int64_t server_us = 0;
	bool late = lk__reply_late(reply, &server_us);
	if (late)
		lk__node_learn_time(request->conn->node, server_us, lk__now_ns());
	if (late && !changing->made_anew) {
		changing->made_anew = true;
		return LK_OK;
	}
	if (late)
		return lk__fail(error, LK_EUNAVAILABLE, "%s \"%.100s\": the server's clock jumps",
				changing->operation, entry->name);
	if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OVERFLOW") == 0)
		return lk__fail(error, LK_EINVAL,
				"%s \"%.100s\": the count would leave its range (%" PRId32
				" … %" PRId32 ")",
				changing->operation, entry->name, INT32_MIN, INT32_MAX);
	return lk__fail(error, LK_EPROTOCOL, "%s \"%.100s\": unexpected reply", changing->operation,
			entry->name);
}

int lk__change_read(struct lk__changing *changing, const struct lk__request *request,
		    lk_error *error)
{
	assert(request->reply);
	changing->copied |= lk__reply_is_of_copy(request);
	if (request->reply->type != REDIS_REPLY_INTEGER)
		return change_refused(changing, request, error);
	changing->answer = request->reply->integer;
	return 1;
}

int lk__change_end(struct lk__changing *changing, int rc, lk_error *error)
{
	struct lk__counter *counter = changing->counter;
	assert(rc <= 0);
	if (rc < 0 && changing->settled) /* nothing says that its record was deleted */
		counter_settle(counter, changing->settled);
	if (rc < 0)
		return changing->copied ? lk__fail(error, LK_EMAYBEHELD,
						   "%s \"%.100s\": refused, but an earlier copy of "
						   "the request may have run",
						   changing->operation, counter->entry->name)
					: rc;
	if (!changing->copied) /* else the record of it is still needed */
		counter_settle(counter, changing->number);
	return 0;
}

/* ---- the count ---- */

struct lk__request *lk__count_request(const struct lk__entry *entry)
{
	return lk__question(lk__request_new(2, (const char *[]){"GET", entry->target.key},
					    (size_t[]){3, entry->target.key_size}));
}

int lk__count_read(const struct lk__entry *entry, const struct lk__request *request, int rc,
		   const char *operation, int64_t *count_out, lk_error *error)
{
	if (rc == LK_EWRONGTYPE)
		return lk__fail(error, rc, "%s \"%.100s\": the key is not a string, so not a %s",
				operation, entry->name, entry->target.recipe->type);
	if (rc == LK_EMAYBEHELD)
		return lk__fail(error, LK_EUNREACHABLE, "%s: no answer within the command limit",
				operation);
	if (rc < 0)
		return rc;
	const redisReply *reply = request->reply;
	assert(reply && request->code == 0);
	int64_t count = 0;
	if (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_NIL)
		return lk__fail(error, LK_EPROTOCOL, "%s \"%.100s\": unexpected reply", operation,
				entry->name);
	if (reply->type == REDIS_REPLY_STRING &&
	    !lk__reply_number(reply, INT64_MIN, INT64_MAX, &count))
		return lk__fail(error, LK_EWRONGTYPE,
				"%s \"%.100s\": the key is a string that is not a count, not a %s",
				operation, entry->name, entry->target.recipe->type);
	*count_out = count;
	return 0;
}

/* ---- those who wait ---- */

int lk__counter_waited(const struct lk__entry *entry, int64_t count, int rc, lk_error *error)
{
	bool limit = rc == LK_EBUSY || rc == LK_ETIMEDOUT;
	assert(rc <= 0);
	if (!(entry->target.recipe->flags & LK__FOR_ALL))
		return limit ? lk__fail(error, rc,
					"acquire %" PRId64 " of \"%.100s\": too few are free%s",
					count, entry->name,
					rc == LK_ETIMEDOUT ? ", and the wait limit is reached" : "")
			     : rc;
	if (limit)
		return lk__fail(error, LK_ETIMEDOUT, "await \"%.100s\": it is still closed",
				entry->name);
	return rc == LK_EMAYBEHELD
		       ? lk__fail(error, LK_EUNREACHABLE,
				  "await \"%.100s\": no answer from the server", entry->name)
		       : rc;
}
