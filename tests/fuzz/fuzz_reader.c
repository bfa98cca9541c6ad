/*
 * Bytes of a server, whatever they are: the reader gives replies or refuses, however the bytes are
 * cut, and gives the same replies when they come in one piece.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "resp/reply.h"

#define REPLIES_MAX 100000

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "fuzz_reader: %s\n", what);
	abort();
}

/* How many values in all, so that two ways of reading can be compared. */
static size_t count_values(const redisReply *reply)
{
	size_t count = 1;
	if (reply->type != REDIS_REPLY_ARRAY)
		return count;
	require(reply->elements <= LK__REPLY_ELEMENTS_MAX, "an array beyond the limit");
	for (size_t i = 0; i < reply->elements; i++)
		count += count_values(reply->element[i]);
	return count;
}

/* Takes what is there; counts the values. The code of the last call: 0, or a refusal. */
static int drain(struct lk__reader *reader, size_t *values)
{
	for (int i = 0; i < REPLIES_MAX; i++) {
		redisReply *reply = NULL;
		int code = lk__reader_next(reader, &reply);
		if (code != 1) {
			require(reply == NULL, "a reply without success");
			require(code == 0 || code == LK_EPROTOCOL, "an unexpected code");
			return code;
		}
		*values += count_values(reply);
		freeReplyObject(reply);
	}
	return 0;
}

static int read_in_pieces(const uint8_t *bytes, size_t size, size_t piece, size_t *values)
{
	struct lk__reader *reader = lk__reader_new();
	int code = 0;
	require(reader != NULL, "out of memory");
	for (size_t at = 0; at < size && code == 0; at += piece) {
		code = lk__reader_feed(reader, bytes + at, size - at < piece ? size - at : piece);
		if (code == 0)
			code = drain(reader, values);
	}
	require((code == 0) == (lk__reader_error(reader)[0] == '\0'), "a refusal without reason");
	lk__reader_free(reader);
	return code;
}

/* The first byte is the size of the pieces. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	size_t whole = 0;
	size_t cut = 0;
	if (size < 2)
		return 0;
	int whole_code = read_in_pieces(bytes + 1, size - 1, size, &whole);
	int cut_code = read_in_pieces(bytes + 1, size - 1, 1 + bytes[0] % 16, &cut);
	require(whole == cut, "other replies when the bytes are cut");
	require(whole_code == cut_code, "another end when the bytes are cut");
	return 0;
}
