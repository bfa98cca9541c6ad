#include "sync/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/error.h>

#include "conn/classify.h"

void lk__words_add(struct lk__words *words, const char *word, size_t size)
{
	words->argv[words->count] = word;
	words->sizes[words->count++] = size;
}

void lk__words_text(struct lk__words *words, const char *text)
{
	lk__words_add(words, text, strlen(text));
}

void lk__words_number(struct lk__words *words, int64_t number)
{
	char *text = words->numbers[words->count];
	snprintf(text, sizeof(words->numbers[0]), "%" PRId64, number);
	lk__words_text(words, text);
}

static bool words_whole(const struct lk__words *words)
{
	for (size_t i = 0; i < words->count; i++)
		if (!words->argv[i])
			return false;
	return true;
}

struct lk__request *lk__words_script(const struct lk__words *words, enum lk__script_id script,
				     size_t key_count)
{
	if (!words_whole(words))
		return NULL;
	return lk__request_script(script, key_count, words->count, (const char **)words->argv,
				  words->sizes);
}

struct lk__request *lk__words_command(const struct lk__words *words)
{
	if (!words_whole(words))
		return NULL;
	return lk__request_new(words->count, (const char **)words->argv, words->sizes);
}

bool lk__words_batch(struct lk__request *batch, const struct lk__words *words)
{
	return words_whole(words) &&
	       lk__request_add(batch, words->count, (const char **)words->argv, words->sizes);
}

static int batch_renewed(const redisReply *renewed, const redisReply *owner, const char *field)
{
	if (owner->type == REDIS_REPLY_ERROR)
		return lk__classify(owner->str) == LK_EWRONGTYPE ? 0 : -1;
	if (owner->type != REDIS_REPLY_STRING || strcmp(owner->str, field) != 0)
		return 0;
	return renewed->type == REDIS_REPLY_INTEGER ? 1 : -1;
}

int lk__reply_renewed(const struct lk__request *request, size_t count, size_t index,
		      const char *field)
{
	const redisReply *reply = request->reply;
	size_t elements = request->batch ? 2 * count : count;
	if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != elements)
		return -1;
	if (request->batch)
		return batch_renewed(reply->element[2 * index], reply->element[2 * index + 1],
				     field);
	return request->code ? -1 : reply->element[index]->integer == 1;
}

struct lk__request *lk__renew_script(enum lk__script_id script, const struct lk__renewal *renewals,
				     size_t count)
{
	struct lease {
		char text[24];
	};
	const char **argv = calloc(3 * count, sizeof(*argv));
	size_t *sizes = calloc(3 * count, sizeof(*sizes));
	struct lease *leases = calloc(count, sizeof(*leases));
	struct lk__request *request = NULL;
	if (argv && sizes && leases) {
		for (size_t i = 0; i < count; i++) {
			argv[i] = renewals[i].target->key;
			sizes[i] = renewals[i].target->key_size;
			argv[count + 2 * i] = renewals[i].field;
			sizes[count + 2 * i] = strlen(renewals[i].field);
			argv[count + 2 * i + 1] = leases[i].text;
			sizes[count + 2 * i + 1] = (size_t)snprintf(
				leases[i].text, sizeof(leases[i].text), "%" PRId64,
				renewals[i].lease_ms);
		}
		request = lk__request_script(script, count, 3 * count, argv, sizes);
	}
	free(argv);
	free(sizes);
	free(leases);
	return request;
}

struct lk__acquire_event lk__reply_refusal(const struct lk__request *request)
{
	if (request->code == LK_EMAYBEHELD)
		return (struct lk__acquire_event){.type = LK__ACQUIRE_UNKNOWN};
	/* OOM and the like fail fast: trying again would only add to it. */
	bool retryable = lk_error_is_retryable(request->code) && request->code != LK_EREFUSED;
	return (struct lk__acquire_event){
		.type = LK__ACQUIRE_FAILED, .code = request->code, .retryable = retryable};
}

bool lk__reply_late(const redisReply *reply, int64_t *server_us)
{
	if (reply->type != REDIS_REPLY_STATUS || strncmp(reply->str, "LATE ", 5) != 0)
		return false;
	*server_us = strtoll(reply->str + 5, NULL, 10);
	return true;
}

void lk__reply_acquired(const struct lk__request *request, struct lk__answer *answer)
{
	const redisReply *reply = request->reply;
	struct lk__acquire_event *event = &answer->event;
	event->type = LK__ACQUIRE_UNKNOWN;
	if (request->code) {
		*event = lk__reply_refusal(request);
	} else if (reply->type == REDIS_REPLY_NIL) {
		event->type = LK__ACQUIRE_GRANTED;
	} else if (reply->type == REDIS_REPLY_INTEGER) {
		event->type = LK__ACQUIRE_BUSY;
		event->ttl_ms = reply->integer;
	} else if (lk__reply_late(reply, &answer->server_us)) {
		event->type = LK__ACQUIRE_LATE;
	}
}

enum lk__released lk__reply_released(const struct lk__request *request, int64_t *listeners)
{
	if (request->code)
		return LK__RELEASED_FAILED;
	if (request->reply->type == REDIS_REPLY_NIL)
		return LK__RELEASED_NOT_OWNER;
	*listeners = request->reply->integer;
	return LK__RELEASED;
}

enum lk__exchanged lk__reply_exchanged(const struct lk__request *request)
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
