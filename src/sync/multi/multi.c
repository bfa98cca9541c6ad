#include "sync/multi/multi.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sync/script.h"

struct words {
	const char **argv;
	size_t *sizes;
	size_t count;
};

static bool words_begin(struct words *words, size_t most)
{
	*words = (struct words){.argv = calloc(most, sizeof(*words->argv)),
				.sizes = calloc(most, sizeof(*words->sizes))};
	return words->argv && words->sizes;
}

static void words_add(struct words *words, const char *word, size_t size)
{
	words->argv[words->count] = word;
	words->sizes[words->count++] = size;
}

static void words_add_keys(struct words *words, const struct lk__multi_key *keys, size_t count)
{
	for (size_t i = 0; i < count; i++)
		words_add(words, keys[i].target->key, keys[i].target->key_size);
}

static void words_free(struct words *words)
{
	free(words->argv);
	free(words->sizes);
}

struct lk__request *lk__multi_acquire_request(const struct lk__multi_key *keys, size_t count,
					      int64_t lease_ms, int64_t deadline_us)
{
	struct words words;
	struct lk__request *request = NULL;
	char lease[24], deadline[24];
	snprintf(lease, sizeof(lease), "%" PRId64, lease_ms);
	snprintf(deadline, sizeof(deadline), "%" PRId64, deadline_us);
	if (words_begin(&words, count + 3)) {
		words_add_keys(&words, keys, count);
		words_add(&words, keys[0].field, strlen(keys[0].field));
		words_add(&words, lease, strlen(lease));
		words_add(&words, deadline, strlen(deadline));
		request = lk__request_script(LK__SCRIPT_MULTI_ACQUIRE, count, words.count,
					     words.argv, words.sizes);
	}
	words_free(&words);
	return request;
}

struct lk__request *lk__multi_release_request(const struct lk__multi_key *keys, size_t count)
{
	struct words words;
	struct lk__request *request = NULL;
	if (words_begin(&words, 3 * count)) {
		words_add_keys(&words, keys, count);
		for (size_t i = 0; i < count; i++) {
			words_add(&words, keys[i].field, strlen(keys[i].field));
			words_add(&words, keys[i].target->channel, keys[i].target->channel_size);
		}
		request = lk__request_script(LK__SCRIPT_MULTI_RELEASE, count, words.count,
					     words.argv, words.sizes);
	}
	words_free(&words);
	return request;
}

struct lk__acquire_event lk__multi_read_acquire(const struct lk__request *request, size_t count,
						size_t *busy, int64_t *server_us)
{
	const redisReply *reply = request->reply;
	if (request->code)
		return lk__reply_refusal(request);
	if (reply->type == REDIS_REPLY_NIL)
		return (struct lk__acquire_event){.type = LK__ACQUIRE_GRANTED};
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
	    reply->element[0]->integer >= 1 && reply->element[0]->integer <= (long long)count) {
		*busy = (size_t)reply->element[0]->integer - 1;
		return (struct lk__acquire_event){.type = LK__ACQUIRE_BUSY,
						  .ttl_ms = reply->element[1]->integer};
	}
	if (lk__reply_late(reply, server_us))
		return (struct lk__acquire_event){.type = LK__ACQUIRE_LATE};
	return (struct lk__acquire_event){.type = LK__ACQUIRE_UNKNOWN};
}

enum lk__released lk__multi_read_release(const struct lk__request *request, size_t index,
					 int64_t *listeners)
{
	const redisReply *reply = request->reply;
	if (request->code || reply->type != REDIS_REPLY_ARRAY || index >= reply->elements)
		return LK__RELEASED_FAILED;
	if (reply->element[index]->integer < 0)
		return LK__RELEASED_NOT_OWNER;
	*listeners = reply->element[index]->integer;
	return LK__RELEASED;
}
