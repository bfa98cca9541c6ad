/* SPDX-License-Identifier: MIT */
#include "conn/request.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/error.h>

#include "resp/reply.h"

#define SHA1_SIZE 40
#define US_PER_S INT64_C(1000000)
#define COMMAND_MOST ((size_t)1 << 30)
#define CALL_WORDS 3  /* before the keys: EVALSHA, SHA-1, number of keys */
#define HEAD_ROOM 128 /* for what stands before the words: "*<count>\r\n", and a call's */

static size_t digits_of(size_t number)
{
	size_t digits = 1;
	for (; number >= 10; number /= 10)
		digits++;
	return digits;
}

/* "<kind><number>\r\n" */
static char *write_head(char *at, char kind, size_t number)
{
	*at++ = kind;
	at += lk__number_write(at, number);
	return mempcpy(at, "\r\n", 2);
}

/* "$<size>\r\n<word>\r\n" */
static size_t word_room(size_t size)
{
	return 1 + digits_of(size) + 2 + size + 2;
}

static char *write_word(char *at, const char *word, size_t size)
{
	at = write_head(at, '$', size);
	at = mempcpy(at, word, size);
	return mempcpy(at, "\r\n", 2);
}

/* Our own, and not hiredis' formatter, which prints each size: that was a third of the instructions
 * of an acquire and its release. */
int lk__write_command(struct lk__buffer *buffer, size_t argc, const char **argv,
		      const size_t *sizes)
{
	size_t size = 1 + digits_of(argc) + 2;
	for (size_t i = 0; i < argc && size < COMMAND_MOST; i++)
		size += word_room(sizes[i]);
	char *at = size < COMMAND_MOST ? lk__buffer_extend(buffer, size) : NULL;
	if (!at)
		return LK_ENOMEM;
	at = write_head(at, '*', argc);
	for (size_t i = 0; i < argc; i++)
		at = write_word(at, argv[i], sizes[i]);
	assert(at == buffer->bytes + buffer->end);
	return 0;
}

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

static void request_drop_collected(struct lk__request *batch)
{
	redisReply *parts = batch->parts;
	while (parts->elements > 0)
		freeReplyObject(parts->element[--parts->elements]);
}

void lk__request_drop_answer(struct lk__request *request)
{
	request->parted = false;
	if (!request->reply)
		return;
	if (request->batch) {
		request->parts = request->reply;
		request_drop_collected(request);
	} else {
		freeReplyObject(request->reply);
	}
	request->reply = NULL;
}

void lk__request_frees(struct lk__request *request)
{
	request->durable = LK__DURABLE_WHOLLY;
	request->once = true;
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

const struct lk__script *lk__script_of(int script, enum lk__messages told_by)
{
	static const struct lk__script *const others[LK__MESSAGES_COUNT] = {
		[LK__MESSAGES_PLAIN] = lk__scripts,
		[LK__MESSAGES_SHARDED] = lk__scripts_sharded,
		[LK__MESSAGES_BOTH] = lk__scripts_both,
	};
	const struct lk__script *other = &others[told_by][script];
	return other->text ? other : &lk__scripts[script];
}

static const char by_sha1[] = "$7\r\nEVALSHA\r\n$40\r\n";

/* *<words>\r\n and from here on $7\r\nEVALSHA\r\n$40\r\n<sha1>\r\n… */
static char *request_call(const struct lk__request *request)
{
	char *bytes = request->bytes.bytes + request->bytes.start;
	char *at = memmem(bytes, lk__buffer_size(&request->bytes), by_sha1, strlen(by_sha1));
	assert(at && request->script != LK__NO_SCRIPT);
	return at;
}

bool lk__request_spell_out(struct lk__request *request, enum lk__messages told_by)
{
	if (request->spelled_out)
		return true;
	const struct lk__script *script = lk__script_of(request->script, told_by);
	const char *front = request->bytes.bytes + request->bytes.start;
	const char *call = request_call(request), *rest = call + strlen(by_sha1) + SHA1_SIZE;
	size_t before = (size_t)(call - front), size = lk__buffer_size(&request->bytes);
	size_t behind = size - (size_t)(rest - front);
	struct lk__buffer whole = {0};
	char head[48];
	int head_size = snprintf(head, sizeof(head), "$4\r\nEVAL\r\n$%zu\r\n", script->size);
	if (lk__buffer_append(&whole, front, before) < 0 ||
	    lk__buffer_append(&whole, head, (size_t)head_size) < 0 ||
	    lk__buffer_append(&whole, script->text, script->size) < 0 ||
	    lk__buffer_append(&whole, rest, behind) < 0) {
		lk__buffer_free(&whole);
		return false;
	}
	if (request->stamp_at)
		request->stamp_at += lk__buffer_size(&whole) - size;
	lk__buffer_free(&request->bytes);
	request->bytes = whole;
	request->spelled_out = true;
	return true;
}

static void request_stamp(const struct lk__request *request, int64_t server_us)
{
	char *digits = request->bytes.bytes + request->bytes.start + request->stamp_at;
	for (size_t i = LK__STAMP_SIZE; i-- > 0; server_us /= 10)
		digits[i] = (char)('0' + server_us % 10);
}

void lk__request_address(struct lk__request *request, enum lk__messages told_by, int64_t server_us)
{
	char *last = request->bytes.bytes + request->bytes.end - sizeof("0\r\n") + 1;
	if (request->turn)
		*last = request->asking ? '2' : request->turn;
	if (request->stamp_at)
		request_stamp(request, server_us);
	if (request->script != LK__NO_SCRIPT && !request->spelled_out &&
	    told_by != LK__MESSAGES_PLAIN)
		memcpy(request_call(request) + strlen(by_sha1),
		       lk__script_of(request->script, told_by)->sha1, SHA1_SIZE);
	if (request->batch)
		request_drop_collected(request);
}

/* The array itself is ours, not hiredis'. */
static void request_free_parts(struct lk__request *batch)
{
	if (!batch->parts)
		batch->parts = batch->reply;
	request_drop_collected(batch);
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

/* ---- words ---- */

void lk__words_add(struct lk__words *words, const char *word, size_t size)
{
	size_t before = words->bytes.end ? 0 : HEAD_ROOM;
	char *at = NULL;
	if (word && !words->incomplete && size < COMMAND_MOST)
		at = lk__buffer_extend(&words->bytes, before + word_room(size));
	words->incomplete = !at;
	if (!at)
		return;
	write_word(at + before, word, size);
	words->count++;
}

void lk__words_text(struct lk__words *words, const char *text)
{
	lk__words_add(words, text, text ? strlen(text) : 0);
}

void lk__words_own(struct lk__words *words, char *word, size_t size)
{
	lk__words_add(words, word, size);
	free(word);
}

void lk__words_number(struct lk__words *words, int64_t number)
{
	char text[1 + LK__NUMBER_SIZE];
	bool negative = number < 0;
	text[0] = '-';
	size_t digits = lk__number_write(text + negative,
					 negative ? -(uint64_t)number : (uint64_t)number);
	lk__words_add(words, text, negative + digits);
}

void lk__words_deadline(struct lk__words *words)
{
	static const char blank[] = "0000000000000000";
	assert(sizeof(blank) > LK__STAMP_SIZE && !words->deadline_at);
	lk__words_add(words, blank, LK__STAMP_SIZE);
	words->deadline_at = words->bytes.end - 2 - LK__STAMP_SIZE;
}

/* The request of the words behind that head. */
static struct lk__request *words_request(struct lk__words *words, const char *head, size_t size)
{
	assert(words->incomplete || (words->count > 0 && size <= HEAD_ROOM));
	struct lk__request *request = words->incomplete ? NULL : request_new();
	if (!request) {
		lk__buffer_free(&words->bytes);
		return NULL;
	}
	request->bytes = words->bytes;
	request->bytes.start = HEAD_ROOM - size;
	memcpy(request->bytes.bytes + request->bytes.start, head, size);
	if (words->deadline_at)
		request->stamp_at = words->deadline_at - request->bytes.start;
	return request;
}

struct lk__request *lk__words_script(struct lk__words *words, enum lk__script_id script,
				     size_t key_count)
{
	char head[HEAD_ROOM], keys[LK__NUMBER_SIZE];
	char *at = write_head(head, '*', CALL_WORDS + words->count);
	at = mempcpy(at, by_sha1, strlen(by_sha1));
	at = mempcpy(at, lk__scripts[script].sha1, SHA1_SIZE);
	at = mempcpy(at, "\r\n", 2);
	at = write_word(at, keys, lk__number_write(keys, key_count));
	struct lk__request *request = words_request(words, head, (size_t)(at - head));
	if (!request)
		return NULL;
	request->script = (int)script;
	request->turn = words->turn;
	request->durable = lk__scripts[script].durable;
	return request;
}

struct lk__request *lk__words_command(struct lk__words *words)
{
	char head[HEAD_ROOM];
	assert(!words->deadline_at);
	return words_request(words, head, (size_t)(write_head(head, '*', words->count) - head));
}

bool lk__words_batch(struct lk__request *batch, struct lk__words *words)
{
	struct lk__request *command = lk__words_command(words);
	bool added = batch && command &&
		     lk__buffer_append(&batch->bytes, lk__buffer_front(&command->bytes),
				       lk__buffer_size(&command->bytes)) == 0;
	if (added)
		batch->batch++;
	lk__request_free(command);
	return added;
}

/* ---- the server's time ---- */

int64_t lk__time_answer(const redisReply *reply)
{
	int64_t seconds, us;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    !lk__reply_number(reply->element[0], 0, INT64_MAX / US_PER_S - 1, &seconds) ||
	    !lk__reply_number(reply->element[1], 0, US_PER_S - 1, &us))
		return -1;
	return seconds * US_PER_S + us;
}

/* Envoy's redis_proxy tells the whole time where the µs of a second belong. */
int64_t lk__time_of_proxy(const redisReply *reply)
{
	int64_t seconds, us;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    !lk__reply_number(reply->element[0], 1, INT64_MAX / US_PER_S - 1, &seconds) ||
	    !lk__reply_number(reply->element[1], 0, INT64_MAX, &us) || us / US_PER_S != seconds)
		return -1;
	return us;
}

char *lk__time_key(const struct lk_config *config)
{
	char *key;
	return asprintf(&key, "%stime", config->key_prefix) < 0 ? NULL : key;
}

struct lk__request *lk__time_request(const struct lk_config *config, bool by_script)
{
	if (!by_script)
		return lk__request_new(1, (const char *[]){"TIME"}, (size_t[]){4});
	char *key = lk__time_key(config);
	if (!key)
		return NULL;
	struct lk__request *request = lk__request_new(
		4, (const char *[]){"EVAL", LK__TIME_SCRIPT, "1", key},
		(size_t[]){4, strlen(LK__TIME_SCRIPT), 1, strlen(key)});
	free(key);
	return request;
}
