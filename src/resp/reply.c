/* SPDX-License-Identifier: MIT */
#include "resp/reply.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_DIGITS_MAX 20 /* of a 64-bit number, with a sign */

struct lk__reader {
	redisReader *hiredis;
	redisReplyObjectFunctions functions; /* hiredis' own, but for arrays */
	redisReplyObjectFunctions *inner;
	size_t taken;        /* bytes of the value under way that hiredis has parsed */
	size_t elements;     /* of all its arrays so far */
	bool begun;          /* a byte has come on this stream */
	unsigned char first; /* that byte: strangers are known by it */
	const char *refused; /* the limit that was exceeded */
	char error[160];
};

/* From hiredis 1.0 on, a count of elements is a size_t. */
#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static void *create_array(const redisReadTask *task, element_count count)
{
	struct lk__reader *reader = task->privdata;
	int depth = 1;
	for (const redisReadTask *outer = task->parent; outer; outer = outer->parent)
		depth++;
	if (depth > LK__REPLY_DEPTH_MAX)
		reader->refused = "arrays are nested too deeply";
	else if ((size_t)count > LK__REPLY_ELEMENTS_MAX - reader->elements)
		reader->refused = "an array is too large";
	if (reader->refused)
		return NULL;
	reader->elements += (size_t)count;
	return reader->inner->createArray(task, count);
}

struct lk__reader *lk__reader_new(void)
{
	struct lk__reader *reader = calloc(1, sizeof(*reader));
	if (!reader)
		return NULL;
	reader->hiredis = redisReaderCreate();
	if (!reader->hiredis) {
		free(reader);
		return NULL;
	}
	reader->inner = reader->hiredis->fn;
	reader->functions = *reader->inner;
	reader->functions.createArray = create_array;
	reader->hiredis->fn = &reader->functions;
	reader->hiredis->privdata = reader;
	return reader;
}

void lk__reader_free(struct lk__reader *reader)
{
	if (!reader)
		return;
	redisReaderFree(reader->hiredis);
	free(reader);
}

bool lk__reader_begun(const struct lk__reader *reader)
{
	return reader->begun;
}

const char *lk__reader_error(const struct lk__reader *reader)
{
	return reader->error;
}

static size_t unparsed(const struct lk__reader *reader)
{
	return reader->hiredis->len - reader->hiredis->pos;
}

static int refuse(struct lk__reader *reader, const char *reason)
{
	reader->refused = reason;
	snprintf(reader->error, sizeof(reader->error), "protocol error: %s", reason);
	return LK_EPROTOCOL;
}

int lk__reader_feed(struct lk__reader *reader, const void *bytes, size_t size)
{
	if (reader->refused)
		return LK_EPROTOCOL;
	if (!reader->begun && size > 0) {
		reader->begun = true;
		reader->first = *(const unsigned char *)bytes;
	}
	if (size > LK__REPLY_BYTES_MAX - reader->taken - unparsed(reader))
		return refuse(reader, "a value is too large");
	if (redisReaderFeed(reader->hiredis, bytes, size) != REDIS_OK) {
		snprintf(reader->error, sizeof(reader->error), "out of memory");
		return LK_ENOMEM;
	}
	return 0;
}

/*
 * Looks at what hiredis has left of an unfinished value. It is a line without its end or, since
 * whole lines are parsed at once, the length line of a string whose bytes are still to come.
 */
static int check_rest(struct lk__reader *reader)
{
	size_t size = unparsed(reader);
	if (size == 0)
		return 0;
	const char *rest = reader->hiredis->buf + reader->hiredis->pos;
	const char *end = memmem(rest, size, "\r\n", 2);
	if (!end && size > LK__REPLY_LINE_MAX)
		return refuse(reader, "a line is too long");
	if (!end)
		return 0;
	char digits[LENGTH_DIGITS_MAX + 1] = "";
	size_t length = (size_t)(end - rest);
	if (length > LENGTH_DIGITS_MAX)
		return refuse(reader, "a length has too many digits");
	memcpy(digits, rest, length);
	if (strtoull(digits, NULL, 10) > LK__REPLY_BYTES_MAX)
		return refuse(reader, "a string is too long");
	return 0;
}

/* Tells, by its first byte, what speaks another protocol. */
static const char *stranger(const struct lk__reader *reader)
{
	switch (reader->first) {
	case 'H':
		return " (an HTTP server?)";
	case 0x15: /* TLS record: alert */
	case 0x16: /* TLS record: handshake */
		return " (a port for TLS? use rediss://)";
	default:
		return "";
	}
}

static int fail_next(struct lk__reader *reader)
{
	if (reader->refused)
		return refuse(reader, reader->refused);
	if (reader->hiredis->err == REDIS_ERR_OOM) {
		snprintf(reader->error, sizeof(reader->error), "out of memory");
		return LK_ENOMEM;
	}
	snprintf(reader->error, sizeof(reader->error), "%s%s", reader->hiredis->errstr,
		 stranger(reader));
	reader->refused = "the stream is broken";
	return LK_EPROTOCOL;
}

int lk__reader_next(struct lk__reader *reader, redisReply **reply_out)
{
	void *reply = NULL;
	if (reader->refused)
		return LK_EPROTOCOL;
	size_t before = unparsed(reader);
	if (redisReaderGetReply(reader->hiredis, &reply) != REDIS_OK)
		return fail_next(reader);
	if (reply) {
		reader->taken = reader->elements = 0;
		*reply_out = reply;
		return 1;
	}
	reader->taken += before - unparsed(reader);
	return check_rest(reader);
}

const char *lk__element_text(const redisReply *array, size_t index)
{
	bool is = index < array->elements && array->element[index]->type == REDIS_REPLY_STRING;
	return is ? array->element[index]->str : "";
}

const redisReply *lk__field_value(const redisReply *list, const char *field)
{
	for (size_t i = 0; list->type == REDIS_REPLY_ARRAY && i + 1 < list->elements; i += 2)
		if (strcmp(lk__element_text(list, i), field) == 0)
			return list->element[i + 1];
	return NULL;
}

const char *lk__field_text(const redisReply *list, const char *field)
{
	const redisReply *value = lk__field_value(list, field);
	return value && value->type == REDIS_REPLY_STRING ? value->str : "";
}

const char *lk__info_find(const char *info, const char *name)
{
	size_t size = strlen(name);
	for (const char *line = info; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, size) == 0 && line[size] == ':')
			return line + size + 1;
	}
	return NULL;
}

/* ---- numbers ---- */

size_t lk__number_write(char out[LK__NUMBER_SIZE], uint64_t number)
{
	char digits[LK__NUMBER_SIZE];
	size_t count = 0;
	do
		digits[count++] = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	for (size_t i = 0; i < count; i++)
		out[i] = digits[count - 1 - i];
	return count;
}

static bool is_digit(char byte)
{
	return byte >= '0' && byte <= '9';
}

const char *lk__number_take(const char *text, int64_t least, int64_t most, int64_t *number_out)
{
	bool negative = *text == '-';
	const char *at = text + negative;
	int64_t number = 0; /* not positive: there is one negative number more */
	if (!is_digit(*at) || (*at == '0' && (negative || is_digit(at[1]))))
		return NULL;
	for (; is_digit(*at); at++) {
		int digit = *at - '0';
		if (number < (INT64_MIN + digit) / 10)
			return NULL;
		number = number * 10 - digit;
	}
	if (!negative && number == INT64_MIN)
		return NULL;
	number = negative ? number : -number;
	if (number < least || number > most)
		return NULL;
	*number_out = number;
	return at;
}

bool lk__number_read(const char *text, int64_t least, int64_t most, int64_t *number_out)
{
	int64_t number;
	const char *end = lk__number_take(text, least, most, &number);
	if (!end || *end)
		return false;
	*number_out = number;
	return true;
}

bool lk__reply_number(const redisReply *reply, int64_t least, int64_t most, int64_t *number_out)
{
	return reply->type == REDIS_REPLY_STRING && strlen(reply->str) == (size_t)reply->len &&
	       lk__number_read(reply->str, least, most, number_out);
}

bool lk__reply_integer(const redisReply *reply, int64_t least, int64_t most, int64_t *number_out)
{
	if (reply->type != REDIS_REPLY_INTEGER || reply->integer < least || reply->integer > most)
		return false;
	*number_out = reply->integer;
	return true;
}
