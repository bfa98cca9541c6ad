#include "conn/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resp/writer.h"

static struct lk__request *request_new(void)
{
	struct lk__request *request = calloc(1, sizeof(*request));
	if (!request)
		return NULL;
	request->script = LK__NO_SCRIPT;
	request->deadline_ns = INT64_MAX;
	return request;
}

struct lk__request *lk__request_batch(size_t most)
{
	struct lk__request *batch = request_new();
	redisReply *parts = batch ? calloc(1, sizeof(*parts)) : NULL;
	if (parts) {
		batch->parts = parts;
		parts->type = REDIS_REPLY_ARRAY;
		parts->element = calloc(most, sizeof(redisReply *));
	}
	if (parts && parts->element)
		return batch;
	lk__request_free(batch);
	return NULL;
}

bool lk__request_add(struct lk__request *batch, size_t argc, const char **argv, const size_t *sizes)
{
	batch->batch++;
	return lk__write_command(&batch->bytes, argc, argv, sizes) == 0;
}

bool lk__request_gather(struct lk__request *batch, redisReply *reply)
{
	redisReply *parts = batch->parts;
	parts->element[parts->elements++] = reply;
	if (parts->elements < batch->batch)
		return false;
	batch->reply = parts;
	batch->parts = NULL;
	return true;
}

void lk__request_ungather(struct lk__request *batch)
{
	redisReply *parts = batch->parts;
	while (parts->elements > 0)
		freeReplyObject(parts->element[--parts->elements]);
}

struct lk__request *lk__request_new(size_t argc, const char **argv, const size_t *sizes)
{
	struct lk__request *request = request_new();
	if (!request)
		return NULL;
	if (lk__write_command(&request->bytes, argc, argv, sizes) < 0) {
		lk__request_free(request);
		return NULL;
	}
	return request;
}

struct lk__request *lk__request_script(enum lk__script_id script, size_t key_count, size_t argc,
				       const char **argv, const size_t *sizes)
{
	const char *few[3 + 1 + LK__ARGUMENTS_MAX];
	size_t few_sizes[3 + 1 + LK__ARGUMENTS_MAX];
	const char **words = few;
	size_t *word_sizes = few_sizes;
	bool many = argc > 1 + LK__ARGUMENTS_MAX;
	if (many) {
		words = calloc(argc + 3, sizeof(*words));
		word_sizes = calloc(argc + 3, sizeof(*word_sizes));
	}
	struct lk__request *request = NULL;
	if (words && word_sizes) {
		char count[24];
		words[0] = "EVALSHA";
		word_sizes[0] = 7;
		words[1] = lk__scripts[script].sha1;
		word_sizes[1] = 40;
		words[2] = count;
		word_sizes[2] = (size_t)snprintf(count, sizeof(count), "%zu", key_count);
		memcpy(words + 3, argv, argc * sizeof(*argv));
		memcpy(word_sizes + 3, sizes, argc * sizeof(*sizes));
		request = lk__request_new(argc + 3, words, word_sizes);
	}
	if (many) {
		free(words);
		free(word_sizes);
	}
	if (request)
		request->script = (int)script;
	return request;
}

/* The array itself is ours, not hiredis'. */
static void request_free_parts(struct lk__request *batch)
{
	if (!batch->parts)
		batch->parts = batch->reply;
	lk__request_ungather(batch);
	free(batch->parts->element);
	free(batch->parts);
}

void lk__request_free(struct lk__request *request)
{
	if (!request)
		return;
	if (request->parts || request->batch)
		request_free_parts(request);
	else if (request->reply)
		freeReplyObject(request->reply);
	lk__buffer_free(&request->bytes);
	free(request);
}

void lk__request_forget(struct lk__request *request)
{
	lk__request_free(request);
}
